-- Functions of a row inside aggregates and groups.

SELECT SUM(GREATEST(cost - 100, 0)) AS s0, SUM(LEAST(age, 50)) AS s1, SUM(cost / 4) AS s2 FROM stays;

SELECT SUM(cost / age) AS s0, SUM(SQRT(cost)) AS s1, SUM(LN(cost + 1)) AS s2 FROM stays;

SELECT SUM(ROUND(cost, -2)) AS s0, SUM(FLOOR(cost / 7)) AS s1, SUM(age // 7) AS s2 FROM stays;

SELECT SUM(age % 7) AS s0, SUM(POWER(age, 2)) AS s1, SUM(NULLIF(age, 50)) AS s2 FROM stays;

SELECT SUM(CAST(urgent AS INTEGER)) AS s0, SUM(CAST(cost AS INTEGER)) AS s1, SUM(DATE_DIFF('day', came, went)) AS s2 FROM stays;

SELECT SUM(DATE_DIFF('month', came, went)) AS s0, SUM(LENGTH(ward)) AS s1, SUM(POSITION('t' IN ward)) AS s2 FROM stays;

SELECT SUM(CAST(ward ~ '^[A-Z]' AS INTEGER)) AS s0, SUM(LENGTH(SPLIT_PART(ward, 'o', 2)) + LENGTH(REGEXP_EXTRACT(ward, '[a-z]+'))) AS s1, SUM(IF(came
+ INTERVAL '1' MONTH > went, 1, 0)) AS s2 FROM stays;

SELECT SUM(LEAST(age, CASE WHEN urgent THEN 1 END)) AS s0, SUM(GREATEST(cost - 900, CASE WHEN urgent THEN 1 END)) AS s1, SUM(LEAST(age, 1 + IF(urgent,
1, NULL), 90)) AS s2 FROM stays;

SELECT SUM(LEAST(age, LENGTH(CASE WHEN urgent THEN 'a' END))) AS s0, SUM(LEAST(age, COALESCE(CASE WHEN urgent THEN 1 END, CASE WHEN cost > 500 THEN 1
END))) AS s1, SUM(LEAST(age, POWER(cost, 0))) AS s2 FROM stays;

SELECT SUM(LEAST(age, COALESCE(CASE WHEN urgent THEN age END, 7))) AS s0, SUM(cost / CASE WHEN urgent THEN -2 END) AS s1, SUM(100 / CASE WHEN urgent
THEN 8 END) AS s2 FROM stays;

SELECT UPPER(TRIM(ward)) AS class, COUNT(*) AS n FROM stays GROUP BY class ORDER BY ALL;

SELECT LEFT(ward, 1) || urgent AS class, COUNT(*) AS n FROM stays GROUP BY class ORDER BY ALL;

SELECT FLOOR(cost / 300) * 300 AS class, COUNT(*) AS n FROM stays GROUP BY class ORDER BY ALL;

SELECT ROUND(cost, -2) AS class, COUNT(*) AS n FROM stays GROUP BY class ORDER BY ALL;

SELECT SPLIT_PART(ward, 'o', 1) AS class, COUNT(*) AS n FROM stays GROUP BY class ORDER BY ALL;

SELECT REGEXP_FULL_MATCH(ward, '[A-Z].*') AS class, COUNT(*) AS n FROM stays GROUP BY class ORDER BY ALL;

SELECT POSITION('t' IN ward) AS class, COUNT(*) AS n FROM stays GROUP BY class ORDER BY ALL;

SELECT CASE ward WHEN 'south' THEN '{"at": [1, 2]}' ELSE '{"at": 3}' END -> 'at' ->> 1 AS class, COUNT(*) AS n FROM stays GROUP BY class ORDER BY ALL;

SELECT CAST(FLOOR(age / 10) AS INTEGER) AS class, COUNT(*) AS n FROM stays GROUP BY class ORDER BY ALL;

SELECT STRFTIME(went, '%Y-%m') AS class, COUNT(*) AS n FROM stays GROUP BY class ORDER BY ALL;

SELECT DAYOFWEEK(came) AS class, COUNT(*) AS n FROM stays GROUP BY class ORDER BY ALL;

SELECT CAST(DATE_TRUNC('quarter', went) AS DATE) AS class, COUNT(*) AS n FROM stays GROUP BY class ORDER BY ALL;

SELECT ROUND(cost, -2) AS class, SUM(SQRT(age)) AS s FROM stays WHERE LOWER(ward) <> 'south' GROUP BY class ORDER BY ALL;

SELECT DISTINCT urgent, LEFT(ward, 1) AS first FROM stays WHERE age > 20 ORDER BY ALL;
