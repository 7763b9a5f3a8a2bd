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
