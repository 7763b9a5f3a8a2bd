-- Questions about people: rows of each individual afterwards, and the sensitivity.

-- rows: 1; delta: 1
SELECT COUNT(*) FROM (SELECT pid, COUNT(*) AS v FROM visits GROUP BY pid) t WHERE v > 2;

-- rows: 1; delta: 5
SELECT SUM(v) FROM (SELECT pid, COUNT(*) AS v FROM visits GROUP BY pid) t;

-- rows: 1; delta: 8
SELECT SUM(v) FROM (SELECT pid, MAX(x) - MIN(x) AS v FROM visits GROUP BY pid) t;

-- rows: 5; delta: 25
SELECT SUM(v) FROM (SELECT pid, ward, COUNT(*) AS v FROM visits GROUP BY pid, ward) t;

-- rows: 5; delta: 5
SELECT COUNT(*) FROM visits WHERE pid IN (SELECT patient FROM labs WHERE score > 3);

-- rows: 1; delta: 1
SELECT COUNT(*) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY pid ORDER BY day) = 1) t;

-- rows: 1; delta: 1
SELECT COUNT(*) FROM (SELECT DISTINCT ON (pid) * FROM visits ORDER BY pid, day DESC) t;

-- rows: 5; delta: 30
SELECT SUM(x) FROM (SELECT DISTINCT ON (pid, ward) pid, ward, x FROM visits ORDER BY 1, 2, day) t;

-- rows: 1; delta: 5
SELECT SUM(n) FROM (SELECT DISTINCT ON (pid) pid, ward, COUNT(*) AS n FROM visits GROUP BY pid, ward ORDER BY pid, n DESC) t;

-- rows: 1; delta: 6
SELECT SUM(v) FROM (SELECT pid, ARG_MAX(x, day) AS v FROM visits GROUP BY pid) t;

-- rows: 2; delta: 12
WITH v AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY day) AS r FROM visits) SELECT SUM(x) FROM v WHERE r <= 2 AND ward = 'A';

-- rows: 5; delta: 30
WITH v AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY pid, ward ORDER BY day) AS r FROM visits) SELECT SUM(x) FROM v WHERE r <= 2;

-- rows: 5; delta: 30
WITH v AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY day) AS r FROM visits) SELECT SUM(x) FROM v WHERE r <= 2 OR ward = 'A';

-- rows: 1; delta: 1
SELECT COUNT(*) FROM (SELECT pid, COUNT(*) AS n FROM visits JOIN labs ON visits.pid = labs.patient GROUP BY pid) t;

-- rows: 2; delta: 2
SELECT AVG(n) FROM (SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid) t JOIN labs ON t.pid = labs.patient;

-- rows: 5; delta: 25
SELECT SUM(p.n) FROM visits v JOIN (SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid) p ON v.pid = p.pid;

-- rows: 25; delta: 125
SELECT SUM(p.n) FROM visits v JOIN (SELECT pid, ward, COUNT(*) AS n FROM visits GROUP BY pid, ward) p ON v.pid = p.pid;

-- rows: 5; delta: 45
SELECT SUM(p.n) FROM visits v JOIN (SELECT patient AS pid, MAX(score) AS n FROM labs GROUP BY patient) p ON v.pid = p.pid;

-- rows: 10; delta: 90
SELECT SUM(p.n) FROM visits v JOIN (SELECT patient AS pid, score AS n FROM labs WHERE score > 3) p ON v.pid = p.pid;

-- refused: read off other people's rows
SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits);

-- refused: PARTITION BY pid
SELECT COUNT(*) FROM (SELECT x, AVG(x) OVER () AS a FROM visits) t WHERE x > a;

-- refused: other people's rows
SELECT COUNT(*) FROM (SELECT x, AVG(x) OVER (PARTITION BY ward) AS a FROM visits) t;

-- refused: Compare pid
SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE l.score = v.x);

-- refused: Say whose rows
SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE l.score > 3);

-- refused: v.x inside
SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE l.patient = v.pid AND l.score > v.x);

-- refused: Group by
SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE l.patient = v.pid HAVING COUNT(*) > 1);

-- refused: Compare pid
SELECT COUNT(*) FROM visits WHERE ward IN (SELECT ward FROM visits WHERE x > 3);

-- refused: Compare pid
SELECT COUNT(*) FROM visits WHERE (pid, ward) IN (SELECT pid, ward FROM visits);

-- refused: GROUP BY pid HAVING
SELECT COUNT(*) FROM visits WHERE pid IN (SELECT MAX(pid) FROM visits GROUP BY ward);

-- refused: other people's rows
SELECT COUNT(*) FROM visits WHERE pid IN (SELECT patient FROM labs ORDER BY score LIMIT 3);

-- refused: must give the individuals
SELECT COUNT(*) FROM visits WHERE pid IN (SELECT score FROM labs);

-- refused: different types
SELECT COUNT(*) FROM visits WHERE pid IN (SELECT pid FROM codes);

-- refused: clinics is public
SELECT COUNT(*) FROM visits WHERE pid IN (SELECT ward FROM clinics);

-- refused: There is no table elsewhere
SELECT COUNT(*) FROM visits WHERE pid IN (SELECT pid FROM elsewhere);

-- refused: SELECT pid FROM
SELECT COUNT(*) FROM visits WHERE pid IN (SELECT pid FROM visits UNION SELECT patient FROM labs);

-- refused: MAX(ward) or MIN(ward)
SELECT AVG(n) FROM (SELECT pid, ward, COUNT(*) AS n FROM visits GROUP BY pid) t;

-- refused: labs stands beside visits
SELECT AVG(n) FROM (SELECT patient, COUNT(*) AS n FROM labs GROUP BY patient) t;

-- refused: COUNT_IF
SELECT AVG(n) FROM (SELECT pid, VAR_POP(x) AS n FROM visits GROUP BY pid) t;

-- refused: write MIN or MAX
SELECT AVG(n) FROM (SELECT pid, ANY_VALUE(x) AS n FROM visits GROUP BY pid) t;

-- refused: has no bounds
SELECT AVG(n) FROM (SELECT pid, SUM(vid) AS n FROM visits GROUP BY pid) t;

-- refused: LIMIT
SELECT AVG(n) FROM (SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid ORDER BY n LIMIT 5) t;

-- refused: list the columns
SELECT AVG(n) FROM (SELECT *, COUNT(*) AS n FROM visits GROUP BY pid) t;

-- refused: UNBOUNDED FOLLOWING
SELECT SUM(z) FROM (SELECT LAST_VALUE(x) OVER (PARTITION BY pid ORDER BY day) AS z FROM visits);

-- refused: COALESCE(LAG
SELECT SUM(z) FROM (SELECT LAG(x, 1, 0) OVER (PARTITION BY pid ORDER BY day) AS z FROM visits);

-- refused: with OVER
SELECT SUM(z) FROM (SELECT LAG(x IGNORE NULLS) OVER (PARTITION BY pid ORDER BY day) AS z FROM visits);

-- refused: whole number of rows
SELECT SUM(z) FROM (SELECT LAG(x, ward) OVER (PARTITION BY pid ORDER BY day) AS z FROM visits);

-- refused: with OVER
SELECT SUM(z) FROM (SELECT NTILE(4) OVER (PARTITION BY pid ORDER BY day) AS z FROM visits);

-- refused: Add ORDER BY
SELECT SUM(z) FROM (SELECT RANK() OVER (PARTITION BY pid) AS z FROM visits);

-- refused: Use GROUP BY
SELECT SUM(z) FROM (SELECT MEDIAN(x) OVER (PARTITION BY pid) AS z FROM visits);

-- refused: ROWS BETWEEN
SELECT SUM(z) FROM (SELECT SUM(x) OVER (PARTITION BY pid ORDER BY day RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) AS z FROM visits);

-- refused: in a subquery
SELECT SUM(LAG(x) OVER (PARTITION BY pid ORDER BY day)) FROM visits;

-- refused: add pid to the subquery
SELECT COUNT(*) FROM visits v JOIN (SELECT ward, x FROM visits) p ON v.ward = p.ward;

-- refused: other people's rows
SELECT COUNT(*) FROM visits v JOIN (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) p ON v.ward = p.ward;

-- refused: join it on the unit column
SELECT COUNT(*) FROM visits v JOIN (SELECT pid, ward FROM visits GROUP BY pid, ward) p ON v.ward = p.ward;

-- refused: is not supported
SELECT COUNT(*) FROM visits WHERE dosimeter_member_of(0, pid);

-- refused: in a subquery that groups by the unit
SELECT ARG_MAX(x, day) FROM visits;

-- refused: that groups by the unit
SELECT SUM(z) FROM (SELECT ward, ARG_MAX(x, day) AS z FROM visits GROUP BY ward);

-- refused: Write FIRST_VALUE(x) OVER (PARTITION BY pid ORDER BY day DESC)
SELECT SUM(z) FROM (SELECT ARG_MAX(x, day) OVER (PARTITION BY pid) AS z FROM visits);

-- refused: Write FIRST_VALUE(x) OVER (PARTITION BY pid ORDER BY day)
SELECT SUM(z) FROM (SELECT pid, ARG_MIN(x, day) OVER () AS z FROM visits GROUP BY pid);

-- refused: (count). Leave it out
SELECT SUM(z) FROM (SELECT pid, ARG_MAX(x, day, 2) AS z FROM visits GROUP BY pid);

-- refused: Add [columns.vid] bounds
SELECT SUM(z) FROM (SELECT pid, ARG_MAX(vid, day) AS z FROM visits GROUP BY pid);

-- refused: ARG_MIN(value, date)
SELECT SUM(z) FROM (SELECT pid, FIRST(x ORDER BY day) AS z FROM visits GROUP BY pid);

-- refused: DISTINCT ON (pid) …
SELECT SUM(x) FROM (SELECT DISTINCT ON (ward) pid, x FROM visits ORDER BY ward, day);

-- refused: in a subquery, and aggregate
SELECT DISTINCT ON (pid) pid, x FROM visits ORDER BY pid, day;

-- refused: LIMIT
SELECT SUM(x) FROM (SELECT DISTINCT ON (pid) pid, x FROM visits ORDER BY pid, day LIMIT 5);

-- refused: one of them in a subquery
SELECT SUM(x) FROM (SELECT DISTINCT ON (pid) x FROM visits QUALIFY RANK() OVER (PARTITION BY pid) > 1);

-- refused: DATE_DIFF('day', start, end)
SELECT SUM(g) FROM (SELECT DATEDIFF(day, LAG(day) OVER (PARTITION BY pid ORDER BY day)) AS g FROM visits);
