-- More than a hundred queries of the kinds that analysts write: taxi and flight dashboards, TPC-H, a clinical registry, a survey.
-- One query per paragraph, under the table that it asks. "refused:" is followed by words of the reason.
-- Queries 1, 6, 12 and 14 of TPC-H (TPC Benchmark H, revision 3) are over lines that carry their order's customer and priority.

-- table: trips

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

-- table: flights

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

-- table: lineitem

-- TPC-H Q1
SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price,
       SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       AVG(l_quantity) AS avg_qty, AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc,
       COUNT(*) AS count_order
FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus;

-- TPC-H Q6
SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
  AND l_discount BETWEEN 0.06 - 0.011 AND 0.06 + 0.011 AND l_quantity < 24;

-- TPC-H Q12
SELECT l_shipmode,
       SUM(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
       SUM(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
FROM lineitem WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
  AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY l_shipmode HAVING l_shipmode IN ('MAIL', 'SHIP') ORDER BY l_shipmode;

-- TPC-H Q14
SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
       / SUM(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM lineitem, part WHERE lineitem.l_partkey = part.p_partkey
  AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH;

SELECT YEAR(l_shipdate) AS year, SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charge FROM lineitem GROUP BY year ORDER BY year;

SELECT l_shipmode, AVG(DATE_DIFF('day', l_commitdate, l_receiptdate)) AS late FROM lineitem GROUP BY l_shipmode ORDER BY l_shipmode;

SELECT p_type, SUM(l_quantity) AS sold FROM lineitem JOIN part ON lineitem.l_partkey = part.p_partkey GROUP BY p_type ORDER BY sold DESC, p_type;

SELECT COUNT(DISTINCT l_custkey) AS customers FROM lineitem WHERE l_returnflag = 'R';

SELECT AVG(total) AS per_customer FROM (SELECT l_custkey, SUM(l_quantity) AS total FROM lineitem GROUP BY l_custkey) t;

SELECT COUNT(*) AS big FROM (SELECT l_custkey FROM lineitem GROUP BY l_custkey HAVING SUM(l_quantity) > 100) t;

SELECT l_returnflag, COUNT(*) AS n FROM lineitem WHERE l_receiptdate > l_commitdate GROUP BY l_returnflag ORDER BY 1;

SELECT SUBSTR(o_orderpriority, 1, 1) AS priority, COUNT(*) AS n FROM lineitem GROUP BY priority ORDER BY priority;

SELECT l_linestatus, l_returnflag, SUM(l_quantity) AS q FROM lineitem GROUP BY GROUPING SETS ((l_linestatus), (l_returnflag), ()) ORDER BY ALL;

SELECT LAST_DAY(l_shipdate) AS month_end, COUNT(*) AS n FROM lineitem WHERE YEAR(l_shipdate) = 1996 GROUP BY month_end HAVING COUNT(*) > 0 ORDER BY month_end;

-- Shares of the promoted parts, each beside the whole.
SELECT p_type, SUM(l_extendedprice) / (SELECT SUM(l_extendedprice) FROM lineitem JOIN part ON l_partkey = p_partkey) AS share FROM lineitem JOIN part ON l_partkey = p_partkey WHERE p_type LIKE 'PROMO%' GROUP BY p_type ORDER BY p_type;

SELECT l_returnflag AS flag, SUM(l_quantity) AS quantity FROM lineitem WHERE l_shipdate < DATE '1996-01-01' GROUP BY l_returnflag UNION ALL SELECT 'late', SUM(l_quantity) FROM lineitem WHERE l_receiptdate > l_commitdate ORDER BY flag;

-- refused: identifies people
SELECT l_custkey, SUM(l_quantity) FROM lineitem GROUP BY l_custkey ORDER BY 2 DESC LIMIT 10;

-- table: visits

SELECT ward, COUNT(*) AS visits, COUNT(DISTINCT patient_id) AS patients FROM visits GROUP BY ward ORDER BY ward;

SELECT AVG(n) AS visits_per_patient FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) p;

SELECT COUNT(*) AS frequent FROM (SELECT patient_id FROM visits GROUP BY patient_id HAVING COUNT(*) >= 3) p;

SELECT n AS visits, COUNT(*) AS patients FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) p GROUP BY n HAVING COUNT(*) > 0 ORDER BY n;

SELECT ward, COUNT(*) AS n FROM visits WHERE patient_id IN (SELECT patient_id FROM visits WHERE code = 'I10') GROUP BY ward ORDER BY ward;

SELECT COUNT(DISTINCT patient_id) AS n FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id AND w.emergency);

WITH s AS (SELECT admitted, LAG(discharged) OVER (PARTITION BY patient_id ORDER BY admitted) AS before FROM visits) SELECT COUNT(*) AS readmitted FROM s WHERE DATE_DIFF('day', before, admitted) BETWEEN 0 AND 30;

SELECT sex, AVG(stay) AS days FROM (SELECT sex, DATE_DIFF('day', admitted, discharged) AS stay FROM visits) v GROUP BY sex ORDER BY sex;

SELECT ward, AVG(cost) AS mean_cost, STDDEV(cost) AS spread FROM visits GROUP BY ward ORDER BY ward;

SELECT LEFT(code, 1) AS chapter, COUNT(*) AS n FROM visits GROUP BY chapter ORDER BY chapter;

SELECT CASE WHEN age < 40 THEN '18-39' WHEN age < 65 THEN '40-64' ELSE '65+' END AS band, sex, COUNT(*) AS n FROM visits GROUP BY band, sex ORDER BY band, sex;

SELECT ward, CASE WHEN COUNT(*) < 5 THEN NULL ELSE COUNT(*) END AS n FROM visits WHERE emergency GROUP BY ward ORDER BY ward;

SELECT DATE_TRUNC('quarter', admitted) AS quarter, SUM(cost) AS cost FROM visits GROUP BY quarter ORDER BY quarter;

SELECT AVG(CAST(emergency AS INTEGER)) AS share FROM visits;

SELECT most, COUNT(*) AS patients FROM (SELECT patient_id, MAX(ward) AS most FROM visits GROUP BY patient_id) p GROUP BY most ORDER BY most;

SELECT ward, COUNT(*) AS first_visits FROM (SELECT ward, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY admitted, visit_id) AS turn FROM visits) v WHERE turn = 1 GROUP BY ward ORDER BY ward;

SELECT last, COUNT(*) AS patients FROM (SELECT patient_id, ARG_MAX(ward, admitted) AS last FROM visits GROUP BY patient_id) p GROUP BY last ORDER BY last;

SELECT ward, AVG(cost) AS last_cost FROM (SELECT DISTINCT ON (patient_id) patient_id, ward, cost FROM visits ORDER BY patient_id, admitted DESC) v GROUP BY ward ORDER BY ward;

SELECT COUNT(*) FILTER (WHERE gap < INTERVAL 45 DAY) AS soon, COUNT(gap < INTERVAL 45 DAY) AS again FROM (SELECT CAST(admitted AS TIMESTAMP) - LAG(discharged) OVER (PARTITION BY patient_id ORDER BY admitted) AS gap FROM visits) v;

SELECT AVG(total) AS cost_per_patient FROM (SELECT patient_id, SUM(cost) AS total FROM visits GROUP BY patient_id) p;

SELECT ward, emergency, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward, emergency) ORDER BY ALL;

SELECT COUNT(*) AS long_stays FROM visits WHERE discharged - admitted > 14;

SELECT YEAR(admitted) AS year, COUNT(DISTINCT code) AS diagnoses FROM visits GROUP BY year ORDER BY year;

SELECT ward, MEDIAN(age) AS median, COUNT(DISTINCT patient_id) AS patients FROM visits GROUP BY ROLLUP (ward) ORDER BY ward NULLS LAST;

WITH p AS (SELECT patient_id, COUNT(*) AS n, SUM(cost) AS cost FROM visits GROUP BY patient_id) SELECT 'seldom' AS how, COUNT(*) AS patients, AVG(cost) AS cost FROM p WHERE n <= 2 UNION ALL SELECT 'often', COUNT(*), AVG(cost) FROM p WHERE n > 2;

SELECT ward, share FROM (SELECT ward, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM visits WHERE emergency) AS share FROM visits WHERE emergency GROUP BY ward) s WHERE share > 0.2 ORDER BY share DESC, ward;

WITH g AS (SELECT ward, COUNT(*) AS n, COUNT(DISTINCT patient_id) AS patients FROM visits GROUP BY ward) SELECT w.name, w.opened, g.n / w.beds AS per_bed, g.patients FROM g JOIN wards w USING (ward) WHERE w.beds > 0 ORDER BY per_bed DESC;

-- refused: compute something of each individual first
SELECT COUNT(*) * 1.0 / (SELECT COUNT(*) FROM visits) FROM visits WHERE patient_id IN (SELECT patient_id FROM visits WHERE emergency);

-- refused: is not supported
SELECT BOOL_OR(emergency) FROM visits;

-- refused: not supported
SELECT FIRST(ward ORDER BY admitted) FROM visits;

SELECT SPLIT_PART(code, '.', 1) AS disease, COUNT(*) AS visits, COUNT(DISTINCT patient_id) AS patients FROM visits GROUP BY disease ORDER BY disease;

SELECT REGEXP_MATCHES(code, '^I[0-9]+') AS heart, AVG(cost) AS cost FROM visits GROUP BY heart ORDER BY heart;

SELECT CASE WHEN POSITION('.' IN code) > 0 THEN 'detailed' ELSE 'plain' END AS kind, COUNT(*) AS n FROM visits GROUP BY kind ORDER BY kind;

SELECT chapter, COUNT(*) AS patients FROM (SELECT patient_id, MAX(REGEXP_EXTRACT(code, '^[A-Z]')) AS chapter FROM visits WHERE code !~ '^O' GROUP BY patient_id) p GROUP BY chapter HAVING COUNT(*) > 0 ORDER BY chapter;

SELECT CONCAT('{"ward": "', ward, '"}') ->> 'ward' AS ward, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY 1;

-- table: survey

SELECT region, AVG(satisfaction) AS mean, COUNT(*) AS n FROM survey GROUP BY region ORDER BY region;

SELECT satisfaction, COUNT(*) AS n, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS percent FROM survey GROUP BY satisfaction ORDER BY satisfaction;

SELECT 100.0 * (COUNT_IF(recommends >= 9) - COUNT_IF(recommends <= 6)) / COUNT(*) AS net_promoter FROM survey;

SELECT region, sex, AVG(income) AS income FROM survey WHERE employed GROUP BY region, sex ORDER BY region, sex;

SELECT (age // 10) * 10 AS decade, AVG(satisfaction) AS mean FROM survey GROUP BY decade HAVING COUNT(*) > 5 ORDER BY decade;

SELECT IF(income IS NULL, 'unknown', 'known') AS told, COUNT(*) AS n FROM survey GROUP BY told ORDER BY told;

SELECT region, COUNT(*) FILTER (WHERE satisfaction >= 4) * 1.0 / COUNT(*) AS happy FROM survey GROUP BY region ORDER BY happy DESC, region LIMIT 2;

SELECT CAST(answered AS DATE) AS day, COUNT(*) AS n FROM survey GROUP BY day HAVING COUNT(*) > 0 ORDER BY day LIMIT 10;

SELECT AVG(LN(income + 1)) AS log_income FROM survey WHERE income > 0;

SELECT CORR(age, income) AS r, COVAR_SAMP(age, income) AS c FROM survey;

SELECT UPPER(LEFT(region, 1)) AS letter, COUNT(*) AS n FROM survey GROUP BY letter ORDER BY letter;

SELECT COUNT(comment) AS commented, COUNT(*) - COUNT(comment) AS silent FROM survey;

SELECT region, DENSE_RANK() OVER (ORDER BY AVG(satisfaction) DESC) AS place FROM survey GROUP BY region ORDER BY place, region;

SELECT ROUND(income, -4) AS about, COUNT(*) AS n FROM survey WHERE income < 120000 GROUP BY about HAVING COUNT(*) > 0 ORDER BY about;

SELECT WIDTH AS band, SUM(n) AS n FROM (SELECT CASE WHEN income < 30000 THEN 1 WHEN income < 60000 THEN 2 ELSE 3 END AS width, COUNT(*) AS n FROM survey GROUP BY width) t GROUP BY band ORDER BY band;

SELECT COUNT(*) AS n FROM survey WHERE LOWER(comment) LIKE 'note 1%';

SELECT SUM(POWER(satisfaction - 3, 2)) AS squares FROM survey;

SELECT sex, COUNT(*) AS n FROM survey WHERE answered BETWEEN '2025-05-10' AND '2025-05-20 23:59:59' GROUP BY ALL ORDER BY sex;

SELECT region, sex, MEDIAN(income) AS median, COUNT(*) AS n FROM survey GROUP BY CUBE (region, sex) HAVING COUNT(*) > 5 ORDER BY region NULLS LAST, sex NULLS LAST;

SELECT 'promoters' AS who, COUNT(*) AS n FROM survey WHERE recommends >= 9 UNION ALL SELECT 'passives', COUNT(*) FROM survey WHERE recommends BETWEEN 7 AND 8 UNION ALL SELECT 'detractors', COUNT(*) FROM survey WHERE recommends <= 6;

-- refused: is not supported
SELECT STRING_AGG(comment, '; ') FROM survey;

-- refused: no declared list of values
SELECT comment, COUNT(*) FROM survey GROUP BY comment;
