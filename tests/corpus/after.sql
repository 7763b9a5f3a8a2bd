-- table: sixty people

-- Everything after the noise.

SELECT city, COUNT(*) AS n, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM people GROUP BY city ORDER BY 1;

SELECT city, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY city) AS running FROM people GROUP BY city ORDER BY city;

SELECT city, member, RANK() OVER (PARTITION BY city ORDER BY COUNT(*) DESC) AS r FROM people GROUP BY 1, 2 ORDER BY city, member;

SELECT age, COUNT(*) AS n FROM people GROUP BY age HAVING COUNT(*) > 1 ORDER BY n DESC, age LIMIT 5 OFFSET 2;

SELECT age // 10 AS decade, COUNT(*) AS n FROM people GROUP BY decade QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC, decade) <= 3 ORDER BY decade;

SELECT city, CASE WHEN COUNT(*) < 8 THEN NULL ELSE COUNT(*) END AS n FROM people GROUP BY city ORDER BY city;

SELECT city, UPPER(LEFT(city, 2)) || '-' || CAST(COUNT(*) AS VARCHAR) AS label FROM people GROUP BY city ORDER BY 1;

SELECT city, ROUND(SQRT(COUNT(*)), 3) AS s, LN(COUNT(*) + 1) AS l, POWER(COUNT(*), 2) AS p, COUNT(*) % 7 AS m, COUNT(*) // 3 AS d FROM people GROUP BY
city ORDER BY city;

SELECT city, COUNT(*) AS n, LAG(n, 1, 0) OVER (ORDER BY city) AS before, n - LAG(n) OVER (ORDER BY city) AS more FROM people GROUP BY city ORDER BY
city;

SELECT city, member, RANK() OVER w AS r FROM people GROUP BY 1, 2 WINDOW w AS (PARTITION BY city ORDER BY COUNT(*) DESC) ORDER BY city, member;

SELECT city, member, RANK() OVER (w ORDER BY COUNT(*)) AS r, RANK() OVER v AS s FROM people GROUP BY 1, 2 WINDOW w AS (PARTITION BY city), v AS (w
ORDER BY COUNT(*) DESC) ORDER BY city, member;

SELECT city, SUM(n) OVER w AS s FROM (SELECT city, member, COUNT(*) AS n, SUM(age) AS total FROM people GROUP BY city, member) t WINDOW w AS
(PARTITION BY city) ORDER BY ALL;

SELECT city, SUM(n) AS n, MAX(total) AS most FROM (SELECT city, member, COUNT(*) AS n, SUM(age) AS total FROM people GROUP BY city, member) t GROUP BY
city HAVING SUM(n) > 3 ORDER BY city;

WITH g AS (SELECT city, member, COUNT(*) AS n, SUM(age) AS total FROM people GROUP BY city, member) SELECT city, member, n * 1.0 / (SELECT SUM(n) FROM
g) AS share FROM g ORDER BY 1, 2;

WITH g AS (SELECT city, member, COUNT(*) AS n, SUM(age) AS total FROM people GROUP BY city, member), c AS (SELECT city, SUM(n) AS of_city FROM g GROUP
BY city) SELECT g.city, g.member, g.n, 1.0 * g.n / c.of_city AS share FROM g JOIN c ON g.city = c.city ORDER BY 1, 2;

SELECT a.city, a.n - b.n AS gap FROM (SELECT city, member, COUNT(*) AS n, SUM(age) AS total FROM people GROUP BY city, member) a JOIN (SELECT city,
member, COUNT(*) AS n, SUM(age) AS total FROM people GROUP BY city, member) b USING (city) WHERE a.member AND NOT b.member ORDER BY a.city;

SELECT COUNT(*) AS groups, AVG(n) AS mean, MEDIAN(n) AS middle FROM (SELECT city, member, COUNT(*) AS n, SUM(age) AS total FROM people GROUP BY city,
member) t WHERE total > 10;

SELECT DISTINCT city FROM (SELECT city, member, COUNT(*) AS n, SUM(age) AS total FROM people GROUP BY city, member) t ORDER BY city;

SELECT t.* FROM (SELECT city, member, COUNT(*) AS n, SUM(age) AS total FROM people GROUP BY city, member) AS t WHERE n BETWEEN 1 AND 100 AND city IN
('Bonn', 'Köln') ORDER BY ALL;

SELECT city, n FROM (SELECT city, member, COUNT(*) AS n, SUM(age) AS total FROM people GROUP BY city, member) t WHERE n IN (SELECT MAX(n) FROM (SELECT
city, member, COUNT(*) AS n, SUM(age) AS total FROM people GROUP BY city, member) u) ORDER BY 1;

WITH rows AS (SELECT city, age * 2 AS twice FROM people WHERE member), g AS (SELECT city, SUM(twice) AS s FROM rows GROUP BY city) SELECT city, s, s >
100 AS big FROM g ORDER BY city;

SELECT city, COUNT(*) FILTER (WHERE age > 14) * 1.0 / NULLIF(COUNT(*), 0) AS share FROM people GROUP BY 1 ORDER BY 1;

SELECT city, SUM(COUNT(*)) FILTER (WHERE city <> 'Köln') OVER () AS others FROM people GROUP BY city ORDER BY city;

SELECT city, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY city ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two FROM people GROUP BY city ORDER BY city;

SELECT STDDEV(pay) AS a, STDDEV_SAMP(age) AS b, VAR_SAMP(age) AS c, VARIANCE(pay) AS d, VAR_POP(pay) AS e, STDDEV_POP(pay) AS f FROM people;

SELECT city, CORR(age, pay) AS a, COVAR_POP(age, pay) AS b, COVAR_SAMP(age, pay) AS c, COUNT(*) AS n FROM people GROUP BY city ORDER BY city;

SELECT REGR_SLOPE(pay, age) AS a, REGR_INTERCEPT(pay, age) AS b, REGR_SLOPE(age, pay) AS c FROM people;

SELECT CORR(age, pay) FILTER (WHERE member) AS a, AVG(age) AS b FROM people;

SELECT city, COUNT_IF(age > 10) AS old, COUNT_IF(member AND age < 5) AS young FROM people GROUP BY 1 ORDER BY 1;

SELECT city, member, COUNT(*) AS n, SUM(age) AS s, AVG(pay) AS a, GROUPING(city) AS c, GROUPING(city, member) AS g FROM people GROUP BY ROLLUP (city,
member) ORDER BY ALL;

SELECT city, member, COUNT(*) AS n, STDDEV(pay) AS s FROM people GROUP BY CUBE (city, member) ORDER BY 3, 1, 2;

SELECT city, member, COUNT(*) AS n FROM people GROUP BY GROUPING SETS ((city, member), (member), ()) ORDER BY ALL;

SELECT city, member, age // 10 AS d, COUNT(*) AS n FROM people GROUP BY ROLLUP (city, member), d HAVING COUNT(*) > 0 ORDER BY ALL;

SELECT COALESCE(city, 'all') AS place, COUNT(*) AS n, 100.0 * n / MAX(n) OVER () AS pct FROM people GROUP BY ROLLUP (city) ORDER BY n DESC;

SELECT MAX(n) AS most FROM (SELECT age // 10 AS d, COUNT(*) AS n FROM people GROUP BY d) t;
