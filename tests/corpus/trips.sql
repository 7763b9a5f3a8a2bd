SELECT DATE_TRUNC('month', pickup) AS month, COUNT(*) AS trips FROM trips GROUP BY month ORDER BY month;

SELECT EXTRACT(HOUR FROM pickup) AS hour, COUNT(*) AS trips, AVG(fare) AS fare FROM trips GROUP BY hour ORDER BY hour;

SELECT DAYOFWEEK(pickup) AS day, COUNT(*) AS trips FROM trips GROUP BY day ORDER BY day;

SELECT DAYNAME(pickup) AS day, SUM(fare) AS revenue FROM trips GROUP BY day ORDER BY revenue DESC;

SELECT payment, COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS percent FROM trips GROUP BY payment ORDER BY n DESC, payment;

SELECT zone, COUNT(*) AS trips FROM trips JOIN zones USING (zone_id) GROUP BY zone ORDER BY trips DESC, zone LIMIT 3;

SELECT z.borough, AVG(t.tip / NULLIF(t.fare, 0)) AS share FROM trips t JOIN zones z ON t.zone_id = z.zone_id GROUP BY z.borough ORDER BY 1;

SELECT passengers, AVG(distance) AS far, STDDEV(distance) AS spread FROM trips WHERE passengers > 0 GROUP BY passengers ORDER BY passengers;

SELECT AVG(DATE_DIFF('minute', pickup, dropoff)) AS minutes FROM trips WHERE distance > 2;

SELECT FLOOR(distance / 5) * 5 AS band, COUNT(*) AS trips, AVG(fare) AS fare FROM trips GROUP BY band HAVING COUNT(*) > 0 ORDER BY band;

SELECT CASE WHEN HOUR(pickup) BETWEEN 7 AND 9 THEN 'rush' ELSE 'other' END AS period, COUNT(*) AS n FROM trips GROUP BY period ORDER BY period;

SELECT STRFTIME(pickup, '%Y-%m') AS month, SUM(fare + COALESCE(tip, 0)) AS total FROM trips GROUP BY month ORDER BY month;

SELECT month, trips, trips - LAG(trips) OVER (ORDER BY month) AS more FROM (SELECT DATE_TRUNC('month', pickup) AS month, COUNT(*) AS trips FROM trips GROUP BY month) m ORDER BY month;

SELECT CORR(distance, fare) AS r, REGR_SLOPE(fare, distance) AS per_mile FROM trips;

SELECT COUNT_IF(tip > 0) * 1.0 / COUNT(tip) AS tipped FROM trips WHERE payment = 'card';

SELECT borough, payment, COUNT(*) AS n FROM trips JOIN zones USING (zone_id) GROUP BY ROLLUP (borough, payment) ORDER BY ALL;

SELECT SUM(CAST(passengers > 1 AS INTEGER)) AS shared FROM trips;

SELECT UPPER(payment) AS how, COUNT(*) AS n FROM trips GROUP BY how ORDER BY how;

SELECT COUNT(*) AS n FROM trips WHERE pickup >= DATE '2024-02-01' AND pickup < DATE '2024-02-01' + INTERVAL 1 MONTH;

SELECT QUARTER(pickup) AS q, SUM(GREATEST(fare - 10, 0)) AS above_ten FROM trips GROUP BY q ORDER BY q;

SELECT payment, COUNT(*) AS n FROM trips GROUP BY payment UNION ALL SELECT 'all', COUNT(*) FROM trips ORDER BY n DESC, payment;

SELECT payment, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM trips) AS percent FROM trips WHERE distance > 2 GROUP BY payment ORDER BY payment;

SELECT passengers, MEDIAN(distance) AS median, MAX(fare) AS dearest FROM trips GROUP BY ROLLUP (passengers) ORDER BY passengers NULLS LAST;

WITH total AS (SELECT SUM(fare) AS s FROM trips), by_zone AS (SELECT zone_id, SUM(fare) AS f FROM trips GROUP BY zone_id) SELECT zone_id, ROUND(100.0 * f / s, 2) AS percent FROM by_zone CROSS JOIN total ORDER BY zone_id;

-- Zones by name, and boroughs added up from the zones that were released.
SELECT z.zone, z.borough, g.n, ROUND(g.fares / g.n, 2) AS mean_fare FROM (SELECT zone_id, COUNT(*) AS n, SUM(fare) AS fares FROM trips GROUP BY zone_id) g JOIN zones z ON g.zone_id = z.zone_id ORDER BY z.zone;

WITH g AS (SELECT zone_id, payment, COUNT(*) AS n FROM trips GROUP BY zone_id, payment) SELECT borough, SUM(n) FILTER (WHERE payment = 'cash') * 1.0 / SUM(n) AS cash FROM g LEFT JOIN zones USING (zone_id) GROUP BY borough ORDER BY borough;

-- refused: so that rows could multiply
WITH g AS (SELECT payment, COUNT(*) AS n FROM trips GROUP BY payment) SELECT z.zone, g.n FROM g JOIN zones z ON g.payment = z.borough;

-- refused: SELECT * would release rows
SELECT * FROM trips WHERE fare > 100;

-- refused: read off other people's rows
SELECT COUNT(*) FROM trips WHERE fare > (SELECT AVG(fare) FROM trips);

-- refused: not supported
SELECT payment, COUNT(*) FROM trips WHERE pickup > NOW() - INTERVAL 7 DAY GROUP BY payment;
