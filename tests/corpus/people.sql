-- What each query is understood as: how many numbers are measured (groups times measures), the Δ of the vector in L1, and the columns.

-- # One aggregate each: S1–S3.

-- numbers: 1; delta: 1; measures: count; columns: count
SELECT COUNT(*) FROM people;

-- numbers: 1; delta: 1; columns: count
select count(*) from PEOPLE;

-- numbers: 1; delta: 1; columns: count
SELECT COUNT(1) FROM people;

-- numbers: 1; delta: 1; columns: count_name
SELECT COUNT(name) FROM people;

-- numbers: 1; delta: 1; columns: count_name; measures: count distinct
SELECT COUNT(DISTINCT name) FROM people;

-- numbers: 1; delta: 100; columns: sum_age; measures: sum
SELECT SUM(age) FROM people;

-- numbers: 1; delta: 70; columns: sum
SELECT SUM(age - 70) FROM people;

-- numbers: 1; delta: 100; columns: sum
SELECT SUM(-age) FROM people;

-- numbers: 1; delta: 70; columns: sum
SELECT SUM(ABS(age - 70)) FROM people;

-- numbers: 1; delta: 600; columns: sum
SELECT SUM(pay * 2 + age) FROM people;

-- numbers: 1; delta: 25; columns: sum
SELECT SUM(pay * 0.1) FROM people;

-- numbers: 1; delta: 1; columns: sum
SELECT SUM(CASE WHEN name = 'Ada' THEN 1 ELSE 0 END) FROM people;

-- numbers: 1; delta: 100; columns: sum
SELECT SUM(IF(member, age, 2)) FROM people;

-- numbers: 1; delta: 200; columns: sum
SELECT SUM(COALESCE(age, 200)) FROM people;

-- numbers: 1; delta: 70; columns: sum
SELECT SUM(GREATEST(age - 30, 0)) FROM people;

-- numbers: 1; delta: 18; columns: sum
SELECT SUM(LEAST(age, 18)) FROM people;

-- numbers: 1; delta: 125; columns: sum
SELECT SUM(pay / 2) FROM people;

-- numbers: 1; delta: 50; columns: sum
SELECT SUM(pay / -5) FROM people;

-- numbers: 1; delta: 250; columns: sum
SELECT SUM(pay / age) FROM people;

-- numbers: 1; delta: 10; columns: sum
SELECT SUM(SQRT(age)) FROM people;

-- numbers: 1; delta: 14; columns: sum
SELECT SUM(age // 7) FROM people;

-- numbers: 1; delta: 6; columns: sum
SELECT SUM(age % 7) FROM people;

-- numbers: 1; delta: 300; columns: sum
SELECT SUM(ROUND(pay, -2)) FROM people;

-- numbers: 1; delta: 36; columns: sum
SELECT SUM(CEIL(pay / 7)) FROM people;

-- numbers: 1; delta: 10000; columns: sum
SELECT SUM(POWER(age, 2)) FROM people;

-- numbers: 2; delta: 2; columns: sum, sum_member
SELECT SUM(CAST(member AS INTEGER)), SUM(member) FROM people;

-- numbers: 1; delta: 850; columns: sum
SELECT SUM(born - DATE '1920-12-31') FROM people;

-- numbers: 1; delta: 10; columns: sum
SELECT SUM(DATE_DIFF('year', born, DATE '1930-01-01')) FROM people;

-- numbers: 1; delta: 4; columns: sum
SELECT SUM(LENGTH(city)) FROM people;

-- numbers: 1; delta: 100; columns: min_age; measures: quantile; options: noise
SELECT MIN(age) FROM people;

-- numbers: 1; delta: 250; columns: max_pay; measures: quantile; options: noise
SELECT MAX(pay) FROM people;

-- numbers: 1; delta: 3; columns: max
SELECT MAX(YEAR(born)) FROM people;

-- numbers: 1; delta: 50; columns: median_age; measures: quantile; options: noise
SELECT MEDIAN(age) FROM people;

-- numbers: 1; delta: 90; columns: quantile_age; options: noise
SELECT QUANTILE_CONT(age, 0.9) FROM people;

-- numbers: 1; delta: 100; columns: min_age; measures: quantile
SELECT MIN(age) FROM people;

-- numbers: 1; delta: 100; columns: median_age; measures: quantile
SELECT MEDIAN(age) FROM people;

-- # By ranks the exact answer may move by the whole range (R12).

-- numbers: 1; delta: 100; columns: quantile_age, median_age
SELECT QUANTILE_DISC(age, 0.5), MEDIAN(age) FROM people;

-- numbers: 1; delta: 100; columns: column1
SELECT PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY age) FROM people;

-- numbers: 1; delta: 75; columns: column1; options: noise
SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age) FROM people;

-- # Through sums: S2, S5. Several measures stand in one norm, each divided by its own Δ.

-- numbers: 2; delta: 2; columns: avg_age; measures: count, centred sum
SELECT AVG(age) FROM people;

-- numbers: 3; delta: 3; columns: var_pop_age
SELECT VAR_POP(age) FROM people;

-- numbers: 3; delta: 3; columns: stddev_pop_pay
SELECT STDDEV_POP(pay) FROM people;

-- numbers: 3; delta: 3; columns: variance_age, stddev_age, stddev_age_2, var_pop_age
SELECT VAR_SAMP(age), STDDEV(age), STDDEV_SAMP(age), VAR_POP(age) FROM people;

-- numbers: 1; delta: 1; columns: count_name; measures: count distinct
SELECT APPROX_COUNT_DISTINCT(name) FROM people;

-- numbers: 1; delta: 1; columns: count_if; measures: count
SELECT COUNT_IF(age > 30) FROM people;

-- numbers: 4; delta: 4; columns: covar_pop_age; measures: count, centred sum, centred sum, sum
SELECT COVAR_POP(age, pay) FROM people;

-- numbers: 6; delta: 6; columns: corr_age, regr_slope_pay
SELECT CORR(age, pay), REGR_SLOPE(pay, age) FROM people;

-- numbers: 2; delta: 2; columns: avg_age, count_age
SELECT AVG(age), COUNT(age) FROM people;

-- numbers: 1; delta: 1; columns: count, count_2
SELECT COUNT(*), COUNT(*) FROM people;

-- numbers: 2; delta: 2; columns: count, count_age
SELECT COUNT(*), COUNT(age) FROM people;

-- numbers: 2; delta: 2; columns: min_age, max_age
SELECT MIN(age), MAX(age) FROM people;

-- numbers: 1; delta: 1; columns: avg_age; measures: mean with a floor on rows; options: floor
SELECT AVG(age) FROM people;

-- numbers: 1; delta: 2.5; columns: avg_age; measures: mean; options: hand
SELECT AVG(age) FROM people;

-- numbers: 1; delta: 2.5; columns: var_pop_age; measures: variance; options: hand
SELECT VAR_POP(age) FROM people;

-- numbers: 1; delta: 2.5; columns: stddev_pop_age; measures: standard deviation; options: hand
SELECT STDDEV_POP(age) FROM people;

-- # Conditions.

-- numbers: 1; delta: 1; columns: count
SELECT COUNT(*) FROM people WHERE age == 25;

-- numbers: 1; delta: 1; columns: count
SELECT COUNT(*) FROM people WHERE age <> 25 AND age != 26 OR NOT member;

-- numbers: 1; delta: 1; columns: count
SELECT COUNT(*) FROM people WHERE '1921-01-01' BETWEEN '1920-01-01' AND born;

-- numbers: 1; delta: 1; columns: count
SELECT COUNT(*) FROM people WHERE (((age))) = ((1));

-- numbers: 1; delta: 1; columns: count
SELECT COUNT(*) FROM people WHERE age > 9223372036854775807;

-- numbers: 1; delta: 1; columns: column1
SELECT COUNT(*) FILTER (WHERE age > 30) FROM people;

-- numbers: 2; delta: 2; columns: old, sum_age
SELECT COUNT(*) FILTER (WHERE age > 30) AS old, SUM(age) FROM people;

-- # Through sums: S2, S5. Several measures stand in one norm, each divided by its own Δ.

-- # Conditions.

-- numbers: 1; delta: 1; columns: count_if_member; measures: count
SELECT COUNT_IF(member) FROM people;

-- numbers: 2; delta: 2; columns: column1, count
SELECT COUNT_IF(member) FILTER (WHERE age > 30), COUNT(*) FROM people;

-- numbers: 1; delta: 1; columns: twice
SELECT COUNT_IF(age > 30) + COUNT(*) FILTER (WHERE age > 30) AS twice FROM people;

-- # Groups: the declared ones (C8).

-- numbers: 2; delta: 1; columns: city, count
SELECT city, COUNT(*) FROM people GROUP BY city;

-- numbers: 4; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY city, member;

-- numbers: 2; delta: 1; columns: c, n
SELECT city AS c, COUNT(*) AS n FROM people GROUP BY 1;

-- numbers: 11; delta: 1; columns: decade, count
SELECT age // 10 AS decade, COUNT(*) FROM people GROUP BY decade;

-- numbers: 101; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY age;

-- numbers: 1095; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY born;

-- numbers: 4; delta: 1; columns: y, count
SELECT YEAR(born) AS y, COUNT(*) FROM people GROUP BY y;

-- numbers: 3; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY DATE_TRUNC('month', seen);

-- numbers: 2; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY CASE WHEN pay > 100 THEN 'high' ELSE 'low' END;

-- numbers: 2; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY pay > 100;

-- numbers: 3; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY FLOOR(pay / 100) * 100;

-- numbers: 501; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY pay;

-- numbers: 4; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY ROUND(pay, -2);

-- numbers: 11; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY CAST(FLOOR(age / 10) AS INTEGER);

-- numbers: 4; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY UPPER(city), LEFT(city, 1);

-- numbers: 3; delta: 1; columns: m, count
SELECT STRFTIME(seen, '%Y-%m') AS m, COUNT(*) FROM people GROUP BY m;

-- numbers: 7; delta: 1; columns: d, count
SELECT DAYOFWEEK(seen) AS d, COUNT(*) FROM people GROUP BY d;

-- numbers: 2; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY born + INTERVAL '1' MONTH >= DATE '1921-06-30';

-- numbers: 2; delta: 1; columns: count, count_2
SELECT COUNT(*), COUNT(*) FROM people GROUP BY city, city;

-- numbers: 4; delta: 2; columns: city, avg_pay
SELECT city, AVG(pay) FROM people GROUP BY city;

-- # Over aggregates: post-processing.

-- numbers: 2; delta: 2; columns: mean
SELECT SUM(pay) / COUNT(*) AS mean FROM people;

-- numbers: 2; delta: 2; columns: column1
SELECT ROUND(100 * COUNT(*) / NULLIF(SUM(age), 0), 2) FROM people;

-- numbers: 1; delta: 1; columns: column1, column2, column3
SELECT GREATEST(COUNT(*), 0), LEAST(COUNT(*), 5), -COUNT(*) FROM people;

-- numbers: 2; delta: 1; columns: city, n
SELECT city, COUNT(*) AS n FROM people GROUP BY city HAVING n > 5 AND city <> 'Ulm' ORDER BY n DESC, 1;

-- # Groups: the declared ones (C8).

-- numbers: 2; delta: 1; columns: city, count
SELECT city, COUNT(*) FROM people GROUP BY city ORDER BY COUNT(*) LIMIT 3;

-- # Over aggregates: post-processing.

-- numbers: 1095; delta: 1; columns: born, n
SELECT born, COUNT(*) n FROM people GROUP BY born HAVING born > '1921-01-01';

-- numbers: 2; delta: 2; columns: count
SELECT COUNT(*) FROM people HAVING SUM(age) BETWEEN 1 AND 10;

-- # Everything after the noise (Q4): windows, clauses, SELECTs around.

-- numbers: 2; delta: 1; columns: city, count
SELECT DISTINCT city, COUNT(*) FROM people GROUP BY city;

-- # Groups: the declared ones (C8).

-- numbers: 2; delta: 1; columns: city, count
SELECT city, COUNT(*) FROM people GROUP BY ALL;

-- # Everything after the noise (Q4): windows, clauses, SELECTs around.

-- numbers: 1; delta: 1; columns: count
SELECT COUNT(*) FROM people ORDER BY ALL;

-- numbers: 1; delta: 1; columns: count
SELECT COUNT(*) FROM people LIMIT 10 OFFSET 5;

-- numbers: 1; delta: 1; columns: count
SELECT COUNT(*) FROM people QUALIFY ROW_NUMBER() OVER () = 1;

-- numbers: 2; delta: 1; columns: city, column2
SELECT city, RANK() OVER w FROM people GROUP BY city WINDOW w AS (ORDER BY COUNT(*));

-- numbers: 2; delta: 1; columns: city, n, pct
SELECT city, COUNT(*) AS n, 100.0 * n / SUM(n) OVER () AS pct FROM people GROUP BY city;

-- numbers: 2; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY ROLLUP (city);

-- numbers: 4; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY CUBE (city, member);

-- numbers: 2; delta: 1; columns: count
SELECT COUNT(*) FROM people GROUP BY GROUPING SETS ((city), ());

-- numbers: 1; delta: 1; columns: what, count
SELECT 'all' AS what, COUNT(*) FROM people;

-- numbers: 2; delta: 1; columns: city, n
SELECT city, CASE WHEN COUNT(*) < 5 THEN NULL ELSE COUNT(*) END AS n FROM people GROUP BY city;

-- numbers: 2; delta: 1; columns: mean
SELECT AVG(n) AS mean FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city);

-- numbers: 2; delta: 1; columns: city
SELECT city FROM people GROUP BY city HAVING COUNT(*) > 3;

-- numbers: 4; delta: 2; columns: city, a
WITH g AS (SELECT city, AVG(age) AS a FROM people GROUP BY city) SELECT * FROM g WHERE a > 3;

-- # Names and layout.

-- numbers: 101; delta: 1; columns: column1
SELECT p.age + COUNT(*) FROM people AS p WHERE p.city = 'Bonn' GROUP BY p.age;

-- numbers: 1; delta: 1; columns: sum_odd name
SELECT SUM("odd name") FROM "people";

-- numbers: 1; delta: 250; columns: sum_größe
SELECT SUM(größe) FROM people;

-- numbers: 1; delta: 1; columns: count
FROM people SELECT COUNT(*);

-- numbers: 1; delta: 1; columns: 数
SELECT COUNT(*) AS 数 FROM people WHERE name = '数'';--';
