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
