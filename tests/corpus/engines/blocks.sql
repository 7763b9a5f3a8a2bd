-- Queries of several SELECTs.

-- asked: always
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward UNION ALL SELECT 'urgent', COUNT(*) FROM visits WHERE urgent;

SELECT ward, SUM(cost) / (SELECT SUM(cost) FROM visits WHERE x > 0) FROM visits WHERE x > 3 GROUP BY ward;

-- asked: often
SELECT ward, MEDIAN(cost), COUNT(DISTINCT x), COUNT(DISTINCT pid) FROM visits GROUP BY ROLLUP (ward);

SELECT ward, urgent, MAX(x) FROM visits WHERE cost > 0 GROUP BY CUBE (ward, urgent);

SELECT x, COUNT(*), AVG(cost) FROM visits GROUP BY x UNION ALL SELECT 0, COUNT(x), AVG(x) FROM visits WHERE x > 2;

SELECT region, COUNT(*), (SELECT SUM(beds) FROM visits JOIN clinics USING (clinic_id)) FROM visits JOIN clinics USING (clinic_id) WHERE urgent GROUP
BY region;

-- asked: often
WITH p AS (SELECT pid, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY pid) SELECT n, SUM(c) FROM p GROUP BY n UNION ALL SELECT -1, MEDIAN(c) FROM
p WHERE n > 1;

SELECT (SELECT COUNT(*) FROM visits WHERE day < DATE '2024-03-01'), (SELECT COUNT(DISTINCT ward) FROM visits);
