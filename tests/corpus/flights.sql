SELECT carrier, COUNT(*) AS flights FROM flights GROUP BY carrier ORDER BY flights DESC, carrier;

SELECT carrier, AVG(dep_delay) AS delay FROM flights WHERE NOT cancelled GROUP BY carrier ORDER BY delay DESC;

SELECT origin, carrier, COUNT(*) AS n, RANK() OVER (PARTITION BY origin ORDER BY COUNT(*) DESC) AS place FROM flights GROUP BY origin, carrier ORDER BY origin, place, carrier;

SELECT origin, carrier, COUNT(*) AS n FROM flights GROUP BY origin, carrier QUALIFY ROW_NUMBER() OVER (PARTITION BY origin ORDER BY COUNT(*) DESC, carrier) = 1 ORDER BY origin;

SELECT MONTH(flown) AS month, 100.0 * SUM(CASE WHEN cancelled THEN 1 ELSE 0 END) / COUNT(*) AS cancelled FROM flights GROUP BY month ORDER BY month;

SELECT MONTH(flown) AS month, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY MONTH(flown)) AS so_far FROM flights GROUP BY month ORDER BY month;

SELECT origin, COUNT_IF(arr_delay > 15) AS late, COUNT(arr_delay) AS flown FROM flights GROUP BY origin ORDER BY origin;

SELECT WEEK(flown) AS week, COUNT(*) AS n FROM flights GROUP BY week HAVING COUNT(*) >= 1 ORDER BY week;

SELECT carrier, SUM(distance) AS miles, SUM(distance) / SUM(SUM(distance)) OVER () AS share FROM flights GROUP BY carrier ORDER BY carrier;

SELECT HOUR(scheduled) AS hour, AVG(arr_delay) AS delay FROM flights WHERE HOUR(scheduled) BETWEEN 5 AND 22 GROUP BY 1 ORDER BY 1;

SELECT origin, AVG(arr_delay - dep_delay) AS lost FROM flights WHERE carrier IN ('AA', 'DL') GROUP BY origin ORDER BY origin;

SELECT (distance // 500) * 500 AS band, COUNT(*) AS n FROM flights WHERE distance < 2600 GROUP BY band HAVING n > 0 ORDER BY band;

SELECT carrier || '-' || origin AS route, COUNT(*) AS n FROM flights GROUP BY route ORDER BY route;

SELECT CORR(dep_delay, arr_delay) AS r FROM flights;

SELECT carrier, VAR_SAMP(arr_delay) AS v, STDDEV_POP(arr_delay) AS s FROM flights GROUP BY carrier ORDER BY carrier;

SELECT carrier, origin, COUNT(*) AS n FROM flights GROUP BY CUBE (carrier, origin) ORDER BY ALL;

WITH m AS (SELECT carrier, AVG(arr_delay) AS delay FROM flights GROUP BY carrier) SELECT carrier, delay - (SELECT AVG(delay) FROM m) AS against_all FROM m ORDER BY carrier;

SELECT CASE WHEN dep_delay <= 0 THEN 'on time' WHEN dep_delay <= 30 THEN 'late' ELSE 'very late' END AS class, COUNT(*) AS n FROM flights WHERE dep_delay IS NOT NULL GROUP BY class ORDER BY class;

SELECT COUNT(*) FILTER (WHERE ISODOW(flown) >= 6) AS weekend, COUNT(*) FILTER (WHERE ISODOW(flown) < 6) AS weekdays FROM flights;

SELECT LEFT(carrier, 1) AS letter, COUNT(*) AS n FROM flights GROUP BY letter ORDER BY letter;

SELECT (SELECT COUNT(*) FROM flights WHERE cancelled) AS cancelled, (SELECT COUNT(*) FROM flights) AS flights, (SELECT AVG(dep_delay) FROM flights WHERE NOT cancelled) AS delay;

SELECT carrier, AVG(dep_delay) AS delay FROM flights WHERE NOT cancelled GROUP BY carrier HAVING AVG(dep_delay) > (SELECT AVG(dep_delay) FROM flights WHERE NOT cancelled) ORDER BY delay DESC;

SELECT 'carrier' AS what, carrier AS which, COUNT(*) AS n FROM flights GROUP BY carrier UNION ALL SELECT 'airport', origin, COUNT(*) FROM flights GROUP BY origin ORDER BY what, which;

SELECT origin, carrier, MEDIAN(arr_delay) AS median, GROUPING(carrier) AS all_carriers FROM flights GROUP BY GROUPING SETS ((origin, carrier), (origin)) ORDER BY origin, all_carriers, carrier;

SELECT DISTINCT carrier FROM flights ORDER BY carrier;

SELECT DISTINCT origin, carrier FROM flights WHERE dep_delay > 30 ORDER BY 1, 2;

-- refused: is not supported
SELECT carrier, MODE(origin) FROM flights GROUP BY carrier;
