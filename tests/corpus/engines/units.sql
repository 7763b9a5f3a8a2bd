-- Queries of individuals with many rows, and joins.

SELECT COUNT(*) FROM visits;

SELECT COUNT(*), COUNT(x), COUNT(DISTINCT x), COUNT(DISTINCT pid) FROM visits WHERE cost > 0;

SELECT SUM(cost) FROM visits;

-- asked: often
SELECT SUM(x), AVG(cost), VAR_POP(x) FROM visits WHERE ward <> 'A';

SELECT MIN(cost), MAX(cost) FROM visits WHERE cost > -49 AND cost < 190;

SELECT MEDIAN(cost), QUANTILE_CONT(x, 0.9), QUANTILE_DISC(cost, 0.25) FROM visits WHERE urgent;

-- asked: often
SELECT COUNT(DISTINCT ward), COUNT(DISTINCT cost) FROM visits;

SELECT ward, COUNT(*) FROM visits GROUP BY ward;

SELECT ward, urgent, SUM(cost), COUNT(x) FROM visits WHERE x > -3 GROUP BY ward, urgent;

-- asked: always
SELECT x, MEDIAN(cost), COUNT(DISTINCT pid) FROM visits GROUP BY x;

SELECT urgent, MIN(x), STDDEV_POP(cost) FROM visits GROUP BY urgent;

SELECT day, COUNT(*), SUM(cost) FROM visits GROUP BY day;

SELECT x > 3, SUM(cost), COUNT(DISTINCT ward) FROM visits GROUP BY x > 3;

SELECT CASE WHEN ward < 'b' THEN 'low' ELSE 'high' END, COUNT(*) FROM visits GROUP BY 1;

-- asked: often
SELECT region, COUNT(*), SUM(beds) FROM visits JOIN clinics USING (clinic_id) GROUP BY region;

SELECT SUM(cost), COUNT(beds) FROM visits v LEFT JOIN clinics c ON v.clinic_id = c.clinic_id WHERE urgent;

-- asked: always
SELECT SUM(score), MEDIAN(score) FROM visits JOIN labs USING (pid);

SELECT ward, COUNT(*), AVG(score) FROM visits LEFT JOIN labs ON visits.pid = labs.pid GROUP BY ward;

SELECT region, COUNT(DISTINCT lab) FROM visits JOIN clinics USING (clinic_id) JOIN labs USING (pid) GROUP BY 1;

-- asked: often
WITH d AS (SELECT 2 * x AS y, ward FROM visits WHERE cost > 10) SELECT ward, SUM(y) FROM d GROUP BY ward;

SELECT COUNT_IF(x > 3 OR urgent), APPROX_COUNT_DISTINCT(ward), STDDEV(cost), VAR_SAMP(x) FROM visits;

SELECT VARIANCE(x), STDDEV_SAMP(SQRT(cost)), COUNT(DISTINCT x // 3) FROM visits WHERE UPPER(ward) <> 'B';

-- asked: always
SELECT ward, CORR(x, cost), COVAR_SAMP(cost, ISODOW(day)) FROM visits GROUP BY ward;

SELECT COVAR_POP(x, cost), REGR_SLOPE(cost, x), REGR_INTERCEPT(score, x) FROM visits JOIN labs USING (pid);

SELECT ward, urgent, COUNT(*), SUM(cost), AVG(x) FROM visits GROUP BY ROLLUP (ward, urgent);

-- asked: often
SELECT UPPER(region) AS r, DAYNAME(day) AS d, COUNT(*), CORR(x, beds) FROM visits JOIN clinics USING (clinic_id) GROUP BY CUBE (r, d);

SELECT ward, LEFT(ward, 1) AS w, COUNT_IF(urgent) FROM visits GROUP BY GROUPING SETS ((ward, w), (w), ());

SELECT ward, COUNT(DISTINCT pid), COUNT(DISTINCT urgent) FROM visits GROUP BY ward;
