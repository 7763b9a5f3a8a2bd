-- Groups by what is computed of each individual: as many as the computation can give.

-- groups: 11
SELECT c, COUNT(*) AS n FROM (SELECT pid, DATE_TRUNC('month', MIN(day)) AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 11
SELECT c, COUNT(*) AS n FROM (SELECT pid, MIN(DATE_TRUNC('month', day)) AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 4
SELECT c, COUNT(*) AS n FROM (SELECT pid, DATE_TRUNC('quarter', MAX(day)) AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 47
SELECT c, COUNT(*) AS n FROM (SELECT pid, DATE_TRUNC('week', MIN(day)) AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 1
SELECT c, COUNT(*) AS n FROM (SELECT pid, DATE_TRUNC('year', MIN(day)) AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 1
SELECT c, COUNT(*) AS n FROM (SELECT pid, DATE_TRUNC('month', MIN(seen)) AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 3
SELECT c, COUNT(*) AS n FROM (SELECT pid, MIN(CAST(seen AS DATE)) AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 61
SELECT c, COUNT(*) AS n FROM (SELECT pid, DATE_TRUNC('hour', MIN(seen)) AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 61
SELECT c, COUNT(*) AS n FROM (SELECT pid, MIN(DATE_TRUNC('hour', seen)) AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 9
SELECT c, COUNT(*) AS n FROM (SELECT pid, FLOOR(MIN(x) / 10) * 10 AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 9
SELECT c, COUNT(*) AS n FROM (SELECT pid, MAX(x // 10 * 10) AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 10
SELECT c, COUNT(*) AS n FROM (SELECT pid, MIN(ROUND(x, -1)) AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 9
SELECT c, COUNT(*) AS n FROM (SELECT pid, FLOOR(AVG(x) / 10) * 10 AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 13
SELECT c, COUNT(*) AS n FROM (SELECT pid, FLOOR(MIN(y) / 5) * 5 AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 33
SELECT c, COUNT(*) AS n FROM (SELECT pid, SUM(x // 10 * 10) AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 3
SELECT c, COUNT(*) AS n FROM (SELECT pid, CASE WHEN MIN(x) < 30 THEN 1 WHEN MIN(x) < 50 THEN 20 ELSE 99 END AS c FROM visits GROUP BY pid) f GROUP BY
c ORDER BY ALL;

-- groups: 2
SELECT c, COUNT(*) AS n FROM (SELECT pid, CASE WHEN MIN(x) < 30 THEN 0.5 ELSE 2.1 END AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 1
SELECT c, COUNT(*) AS n FROM (SELECT pid, YEAR(MIN(day)) AS c FROM visits GROUP BY pid) f GROUP BY c ORDER BY ALL;

-- groups: 11
WITH f AS (SELECT pid, DATE_TRUNC('month', MIN(day)) AS c FROM visits GROUP BY pid) SELECT f.c, COUNT(*) AS n FROM visits JOIN f ON visits.pid = f.pid
GROUP BY f.c ORDER BY ALL;

-- groups: 61
WITH e AS (SELECT pid, MIN(DATE_TRUNC('hour', seen)) AS c FROM visits GROUP BY pid), f AS (SELECT pid, c FROM e) SELECT f.c, COUNT(*) AS n FROM visits
JOIN f USING (pid) GROUP BY f.c ORDER BY ALL;

-- groups: 11
SELECT c, COUNT(*) AS n FROM (SELECT pid, FIRST_VALUE(DATE_TRUNC('month', day)) OVER (PARTITION BY pid ORDER BY vid) AS c FROM visits) f WHERE c IS
NOT NULL GROUP BY c ORDER BY ALL;

-- groups: 5
SELECT c, COUNT(*) AS n FROM (SELECT pid, LAG(x // 20 * 20) OVER (PARTITION BY pid ORDER BY vid) AS c FROM visits) f WHERE c IS NOT NULL GROUP BY c
ORDER BY ALL;

-- groups: 11
SELECT c, COUNT(*) AS n FROM (SELECT pid, MIN(DATE_TRUNC('month', day)) OVER (PARTITION BY pid ORDER BY vid) AS c FROM visits) f WHERE c IS NOT NULL
GROUP BY c ORDER BY ALL;

-- groups: 2
SELECT c, COUNT(*) AS n FROM (SELECT pid, MAX(CASE WHEN x < 40 THEN 7 ELSE 70 END) OVER (PARTITION BY pid ORDER BY vid) AS c FROM visits) f WHERE c IS
NOT NULL GROUP BY c ORDER BY ALL;

-- groups: 4
SELECT DATE_TRUNC('quarter', c) AS g, COUNT(*) AS n FROM (SELECT pid, DATE_TRUNC('month', MIN(day)) AS c FROM visits GROUP BY pid) f GROUP BY
DATE_TRUNC('quarter', c) ORDER BY ALL;

-- groups: 12
SELECT MONTH(c) AS g, COUNT(*) AS n FROM (SELECT pid, DATE_TRUNC('month', MIN(day)) AS c FROM visits GROUP BY pid) f GROUP BY MONTH(c) ORDER BY ALL;

-- groups: 9
SELECT c + 5 AS g, COUNT(*) AS n FROM (SELECT pid, MIN(x // 10 * 10) AS c FROM visits GROUP BY pid) f GROUP BY c + 5 ORDER BY ALL;

-- groups: 5
SELECT c // 20 * 20 AS g, COUNT(*) AS n FROM (SELECT pid, MIN(x // 10 * 10) AS c FROM visits GROUP BY pid) f GROUP BY c // 20 * 20 ORDER BY ALL;

-- groups: 3
SELECT c * 2 AS g, COUNT(*) AS n FROM (SELECT pid, CASE WHEN MIN(x) < 30 THEN 1 WHEN MIN(x) < 50 THEN 20 ELSE 99 END AS c FROM visits GROUP BY pid) f
GROUP BY c * 2 ORDER BY ALL;

-- groups: 11
SELECT c, COUNT(*) AS rows FROM (SELECT pid, DATE_TRUNC('month', day) AS c, COUNT(*) AS n FROM visits GROUP BY pid, DATE_TRUNC('month', day)) f GROUP
BY c ORDER BY ALL;

-- groups: 9
SELECT c, COUNT(*) AS rows FROM (SELECT pid, x // 10 * 10 AS c, COUNT(*) AS n FROM visits GROUP BY pid, x // 10 * 10) f GROUP BY c ORDER BY ALL;

-- groups: 231
WITH f AS (SELECT pid, DATE_TRUNC('month', MIN(day)) AS cohort FROM visits GROUP BY pid) SELECT f.cohort, DATE_DIFF('month', f.cohort, day) AS age,
COUNT(DISTINCT visits.pid) AS people FROM visits JOIN f ON visits.pid = f.pid GROUP BY f.cohort, age ORDER BY ALL;
