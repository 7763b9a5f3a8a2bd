-- Questions about people.

SELECT AVG(n), COUNT(*) FROM (SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid) p;

-- asked: always
SELECT w, COUNT(*), SUM(a), SUM(s) FROM (SELECT pid, MAX(ward) AS w, AVG(cost) AS a, SUM(cost) AS s FROM visits WHERE x > -3 GROUP BY pid HAVING
COUNT(*) >= 2 AND SUM(cost) > 12.35) p GROUP BY w;

-- asked: often
SELECT u, SUM(m), SUM(h), SUM(k), SUM(i) FROM (SELECT pid, BOOL_OR(urgent) AS u, MEDIAN(cost) AS m, MEDIAN(x) AS h, COUNT(DISTINCT ward) AS k,
COUNT_IF(x > 3) AS i FROM visits GROUP BY pid) p GROUP BY u;

SELECT ward, SUM(n), MAX(t) FROM (SELECT pid, ward, COUNT(*) AS n, SUM(x * 0.5) AS t FROM visits GROUP BY pid, ward) p GROUP BY ward;

SELECT f, COUNT(*) FROM (SELECT pid, MIN(day) AS f, AVG(x) AS a FROM visits GROUP BY 1 HAVING AVG(x) > 1.5) p GROUP BY f;

SELECT ward, COUNT(*), COUNT(DISTINCT pid) FROM visits WHERE pid IN (SELECT pid FROM labs WHERE score > 4) GROUP BY 1;

SELECT SUM(x) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM labs l WHERE l.pid = v.pid AND l.score > 4) AND urgent;

-- asked: always
SELECT urgent, COUNT(*), AVG(x) FROM visits WHERE pid NOT IN (SELECT pid FROM labs GROUP BY pid HAVING MIN(score) < 4) GROUP BY urgent;

SELECT COUNT(*), SUM(x - p) FROM (SELECT x, day, LAG(x) OVER (PARTITION BY pid ORDER BY day DESC) AS p, LAG(day, 2) OVER (PARTITION BY pid ORDER BY
day) AS q FROM visits) v WHERE q <= day;

-- asked: always
SELECT r, SUM(c), SUM(a) FROM (SELECT RANK() OVER (PARTITION BY pid ORDER BY x) AS r, SUM(cost) OVER (PARTITION BY pid ORDER BY day) AS c, AVG(cost)
OVER (PARTITION BY pid) AS a FROM visits WHERE ward <> 'A') v GROUP BY r;

SELECT ward, COUNT(*), SUM(x) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY pid ORDER BY ward DESC) = 1) v GROUP BY ward;

-- asked: often
SELECT f, SUM(b), SUM(d) FROM (SELECT FIRST_VALUE(ward) OVER (PARTITION BY pid ORDER BY x NULLS FIRST) AS f, DENSE_RANK() OVER (PARTITION BY pid ORDER
BY urgent) AS d, COUNT(*) OVER (PARTITION BY pid ORDER BY x ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS b FROM visits) v GROUP BY f;

SELECT SUM(s) FROM (SELECT pid, SUM(g) AS s FROM (SELECT pid, MAX(x) OVER (PARTITION BY pid ORDER BY day) AS g FROM visits JOIN clinics USING
(clinic_id) WHERE region = 'north') v GROUP BY pid) p WHERE s > 3;

SELECT ward, COUNT(*), SUM(p.s) FROM visits v LEFT JOIN (SELECT pid, SUM(score) AS s FROM labs GROUP BY pid) p ON v.pid = p.pid WHERE p.s > 3 OR p.s
IS NULL GROUP BY ward;

-- asked: often
SELECT ward, COUNT(*), SUM(nxt) FROM (SELECT ward, LEAD(cost, 2) OVER (PARTITION BY pid ORDER BY day) AS nxt, LAST_VALUE(x) OVER (PARTITION BY pid
ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS last FROM visits) v WHERE last > 1 GROUP BY ward;

SELECT COUNT(*), SUM(a), SUM(i) FROM (SELECT MIN(cost) OVER (PARTITION BY pid ORDER BY day) AS a, COUNT_IF(urgent) OVER (PARTITION BY pid ORDER BY x)
AS i, BOOL_OR(urgent) OVER (PARTITION BY pid) AS u, BOOL_AND(x > 0) OVER (PARTITION BY pid ORDER BY day) AS k FROM visits) v WHERE u OR k;

SELECT urgent, COUNT(*), SUM(cost) FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE l.pid = v.pid AND l.score BETWEEN 2 AND 6) GROUP BY urgent;

SELECT SUM(x), COUNT(*) FROM visits WHERE pid IN (SELECT pid FROM visits GROUP BY pid HAVING MAX(cost) > 100 AND BOOL_AND(x > -2));

SELECT ward, COUNT(*) FROM (SELECT DISTINCT pid, ward FROM visits) p GROUP BY ward;

SELECT w, STDDEV(n), CORR(n, s) FROM (SELECT pid, MIN(UPPER(ward)) AS w, COUNT(*) AS n, SUM(cost) FILTER (WHERE urgent) AS s FROM visits GROUP BY pid)
p GROUP BY ROLLUP (w);

SELECT COUNT(*), SUM(gap) FROM (SELECT DATE_DIFF('day', LAG(day) OVER (PARTITION BY pid ORDER BY day), day) AS gap FROM visits) v WHERE gap <= 3;

SELECT ward, COUNT(*), SUM(x) FROM visits WHERE LENGTH(pid || '-' || ward) > 3 AND pid || '' IN ('Ád', 'Á', 'ad', 'Ad', '😀', 'é', '-1', 'Zo') GROUP
BY ward;

SELECT COUNT(*), SUM(n) FROM (SELECT pid, MAX(CONCAT(pid, ward, pid)) AS t, COUNT(*) AS n FROM visits GROUP BY pid) p WHERE t >= 'B' AND LENGTH(t) < 6;

-- asked: often
SELECT w, COUNT(*), SUM(c), SUM(f) FROM (SELECT pid, ARG_MAX(ward, day) AS w, MIN_BY(cost, day) AS c, ARG_MAX(x, ward) FILTER (WHERE cost > 0) AS f
FROM visits GROUP BY pid HAVING COALESCE(MAX_BY(urgent, x), TRUE)) p GROUP BY w;

SELECT last, COUNT(*), SUM(n) FROM (SELECT v.pid, v.urgent, ARG_MIN(v.day, l.score) AS last, ARG_MAX(c.beds, v.cost) AS n FROM visits v JOIN labs l ON
v.pid = l.pid LEFT JOIN clinics c ON v.clinic_id = c.clinic_id GROUP BY v.pid, v.urgent) p GROUP BY last;

-- asked: often
SELECT ward, COUNT(*), SUM(x) FROM (SELECT DISTINCT ON (pid) * FROM visits ORDER BY pid, day DESC NULLS FIRST) v GROUP BY ward;

SELECT ward, COUNT(*), SUM(n) FROM (SELECT DISTINCT ON (pid) pid, ward, COUNT(*) AS n FROM visits GROUP BY pid, ward ORDER BY pid, n DESC, ward) v
GROUP BY ward;

-- asked: often
SELECT COUNT(*) FILTER (WHERE gap <= INTERVAL '2 days'), SUM(CASE WHEN gap BETWEEN INTERVAL 1 DAY AND INTERVAL 30 HOUR THEN x ELSE 1 END) FROM (SELECT
x, CAST(day AS TIMESTAMP) - LAG(day + INTERVAL '7' HOUR) OVER (PARTITION BY pid ORDER BY day) AS gap FROM visits) v WHERE gap > INTERVAL '-30' HOUR;

SELECT COUNT(*), SUM(x) FROM (SELECT x, day - LAG(day) OVER (PARTITION BY pid ORDER BY day) < INTERVAL 3 DAY AS soon, day < LAG(day) OVER (PARTITION
BY pid ORDER BY x) + INTERVAL '1' MONTH AS month FROM visits) v WHERE soon OR month;

SELECT COUNT(*) FROM (SELECT pid FROM visits GROUP BY pid HAVING MAX(day) - MIN(day) > INTERVAL '4' DAY) p;

SELECT w, SUM(n), COUNT(*) FROM (SELECT pid, MAX(REGEXP_EXTRACT(ward, '^.')) AS w, COUNT_IF(ward ~ '[A-B]') AS n FROM visits GROUP BY pid HAVING
SUM(WIDTH_BUCKET(cost, 0, 100, 4)) > 2) p WHERE POSITION('A' IN w) < 1 GROUP BY w;

SELECT b, COUNT(*) FROM (SELECT pid, WIDTH_BUCKET(SUM(cost), 0, 200, 5) AS b FROM visits GROUP BY pid) p GROUP BY b;
