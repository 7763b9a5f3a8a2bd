-- Queries of a table whose rows are people.

SELECT COUNT(*) FROM people;

SELECT COUNT(*), COUNT(age), COUNT(pay) FROM people WHERE member;

SELECT COUNT(name), COUNT(DISTINCT name) FROM people;

SELECT COUNT(DISTINCT age) FROM people WHERE pay > 0;

SELECT COUNT(DISTINCT pay) FROM people;

SELECT COUNT(DISTINCT seen), COUNT(DISTINCT born), COUNT(DISTINCT city), COUNT(DISTINCT member) FROM people;

SELECT SUM(age) FROM people;

SELECT SUM(pay) FROM people;

-- asked: always
SELECT SUM(fine), SUM(pay), COUNT(*) FROM people WHERE city <> 'Zug';

SELECT SUM(big) FROM people;

SELECT SUM(2 * age - 3 * ABS(pay)) FROM people;

SELECT SUM(age * pay), SUM(-fine) FROM people;

SELECT SUM(CASE WHEN member THEN pay WHEN city = 'aix' THEN 1 ELSE 0.25 END) FROM people;

SELECT SUM(COALESCE(age, 10)) FROM people;

SELECT SUM(EXTRACT(YEAR FROM born)), SUM(ISODOW(born)), SUM(HOUR(seen)) FROM people;

SELECT SUM(pay) FILTER (WHERE name < 'a'), COUNT(*) FILTER (WHERE city = 'bonn') FROM people;

SELECT AVG(age) FROM people;

-- asked: always
SELECT AVG(pay), VAR_POP(pay), STDDEV_POP(fine) FROM people WHERE age > 0;

SELECT MIN(age), MAX(age) FROM people;

SELECT MIN(pay), MEDIAN(pay), MAX(pay), QUANTILE_CONT(pay, 0.9) FROM people;

SELECT MEDIAN(fine) FROM people WHERE name LIKE '%a%';

SELECT MEDIAN(big) FROM people;

SELECT city, member, QUANTILE_DISC(pay, 0.3), MAX(big) FROM people GROUP BY city, member;

SELECT city, COUNT(*) FROM people GROUP BY city;

-- asked: always
SELECT city, member, SUM(pay), COUNT(age) FROM people WHERE name > 'A' GROUP BY city, member;

SELECT city, MEDIAN(pay), COUNT(DISTINCT name) FROM people GROUP BY city;

SELECT member, AVG(fine), MAX(age) FROM people GROUP BY 1 ORDER BY 2;

SELECT age, COUNT(*) FROM people GROUP BY age;

SELECT age // 10, SUM(pay) FROM people GROUP BY age // 10;

SELECT born, COUNT(*) FROM people GROUP BY born;

SELECT DATE_TRUNC('month', born), SUM(age) FROM people GROUP BY DATE_TRUNC('month', born);

SELECT EXTRACT(ISODOW FROM born), COUNT(*) FROM people GROUP BY EXTRACT(ISODOW FROM born);

SELECT HOUR(seen), COUNT(*), SUM(pay) FROM people GROUP BY HOUR(seen);

SELECT DATE_TRUNC('week', seen), COUNT(*) FROM people GROUP BY DATE_TRUNC('week', seen);

SELECT CASE WHEN age < 5 THEN 'young' WHEN name < 'b' THEN 'b' ELSE 'Rest' END, COUNT(*) FROM people GROUP BY 1;

SELECT age > 5, COUNT(*) FROM people GROUP BY age > 5;

SELECT SUM(DATE_DIFF('day', born, seen)), AVG(DATE_DIFF('month', born, seen)) FROM people;

SELECT SUM(DATE_DIFF('hour', seen, DATE '2020-06-30')), SUM(DAYOFWEEK(born)), SUM(WEEK(born)) FROM people;

SELECT SUM(GREATEST(pay, 0)), SUM(LEAST(age, pay)), SUM(age // 3), SUM(age % 3) FROM people;

SELECT AVG(pay / 3), SUM(pay / age), SUM(age / 7) FROM people;

SELECT SUM(SQRT(pay)), SUM(LN(pay)), SUM(EXP(fine)), SUM(LOG10(age)) FROM people;

SELECT SUM(ROUND(pay)), SUM(ROUND(fine, 1)), SUM(FLOOR(pay / 7)), SUM(CEIL(fine)), SUM(TRUNC(pay)) FROM people;

SELECT SUM(CAST(pay AS INTEGER)), SUM(CAST(member AS INTEGER)), SUM(CAST(fine AS DECIMAL(3, 1))) FROM people;

SELECT SUM(POWER(age, 2)), SUM(SIGN(pay)), SUM(NULLIF(age, 0)), SUM(LENGTH(city)), SUM(member) FROM people;

SELECT FLOOR(pay / 500) * 500, COUNT(*) FROM people GROUP BY FLOOR(pay / 500) * 500;

SELECT ROUND(fine, 1), COUNT(*), SUM(age) FROM people GROUP BY ROUND(fine, 1);

SELECT ROUND(pay, -3), CAST(FLOOR(age / 10) AS INTEGER), COUNT(*) FROM people GROUP BY 1, 2;

SELECT age // 10 * 10, AVG(pay) FROM people GROUP BY age // 10 * 10;

SELECT UPPER(city), COUNT(*) FROM people GROUP BY UPPER(city);

SELECT LEFT(city, 1) || '/' || member, COUNT(*) FROM people GROUP BY 1;

SELECT STRFTIME(seen, '%Y-%m'), COUNT(*) FROM people GROUP BY 1;

SELECT DAYNAME(born), DAYOFWEEK(seen), COUNT(*) FROM people GROUP BY 1, 2;

SELECT DATE_TRUNC('hour', seen), COUNT(*) FROM people GROUP BY DATE_TRUNC('hour', seen);

SELECT CAST(seen AS DATE), COUNT(DISTINCT UPPER(name)) FROM people GROUP BY CAST(seen AS DATE);

SELECT YEAR(born) * 100 + MONTH(born) AS month, COUNT(*) FROM people GROUP BY month;

SELECT fine, COUNT(*) FROM people GROUP BY fine;

SELECT COUNT_IF(age > 5 AND member), APPROX_COUNT_DISTINCT(city), COUNT(DISTINCT age // 3) FROM people;

SELECT VAR_SAMP(pay), STDDEV(age), STDDEV_SAMP(fine), VARIANCE(age) FROM people WHERE name > 'A';

SELECT city, CORR(age, pay), COVAR_POP(pay, fine) FROM people GROUP BY city;

SELECT COVAR_SAMP(age, fine), REGR_SLOPE(pay, age), REGR_INTERCEPT(SQRT(age), fine) FROM people WHERE member;

SELECT city, member, COUNT(*), SUM(pay) FROM people GROUP BY ROLLUP (city, member);

-- asked: always
SELECT member, age > 5 AS old, AVG(fine), CORR(age, pay) FROM people GROUP BY CUBE (member, old);

SELECT city, UPPER(LEFT(city, 1)) AS c, COUNT_IF(member) FROM people GROUP BY GROUPING SETS ((city, c), (c), ());

SELECT city, COUNT(*), SUM(pay) FROM people GROUP BY city UNION ALL SELECT 'old', COUNT(age), SUM(age) FROM people WHERE age > 40 UNION ALL SELECT
'new', COUNT(*), SUM(fine) FROM people WHERE pay > 0 GROUP BY member;

SELECT city, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM people WHERE member) FROM people WHERE age < 30 GROUP BY 1;

SELECT city, member, MEDIAN(pay), COUNT(DISTINCT age) FROM people WHERE age > 1 GROUP BY CUBE (city, member);

SELECT SPLIT_PART(city, 'n', 1), city ~ 'n', COUNT(*) FROM people GROUP BY 1, 2;

SELECT WIDTH_BUCKET(pay, 0, 1000, 4) AS b, SUM(WIDTH_BUCKET(fine, 1, -1, 20)), COUNT(*) FROM people GROUP BY b;

SELECT DISTINCT city, member FROM people WHERE age > 5;
