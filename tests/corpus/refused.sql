-- table: people

-- What is refused, and words of the advice.

-- # Other statements.

-- refused: exactly one SELECT
SELECT COUNT(*) FROM people; SELECT COUNT(*) FROM people;

-- refused: exactly one SELECT
SELECT COUNT(*) FROM people; DROP TABLE people;

-- refused: Only SELECT
INSERT INTO people VALUES (1);

-- refused: Only SELECT
UPDATE people SET age = 1;

-- refused: Only SELECT
DELETE FROM people;

-- refused: Only SELECT
DROP TABLE people;

-- refused: Only SELECT
CREATE TABLE x AS SELECT COUNT(*) FROM people;

-- refused: Only SELECT
COPY people TO 'out.csv';

-- refused: Only SELECT
COPY (SELECT COUNT(*) FROM people) TO 'out.csv';

-- refused: Only SELECT
ATTACH 'other.db';

-- refused: Only SELECT
PRAGMA database_list;

-- refused: Only SELECT
INSTALL httpfs;

-- refused: Only SELECT
LOAD httpfs;

-- refused: Only SELECT
SET memory_limit = '1GB';

-- refused: Only SELECT
CALL pragma_version();

-- refused: Only SELECT
EXPLAIN SELECT COUNT(*) FROM people;

-- refused: Only SELECT
DESCRIBE people;

-- refused: Only SELECT
VALUES (1);

-- refused: Only SELECT
WITH x AS (SELECT 1) INSERT INTO people SELECT * FROM x;

-- refused: Only SELECT
nonsense;

-- refused: Only SELECT
(SELECT COUNT(*) FROM people);

-- refused: does not parse
SELECT COUNT(*) FROM;

-- refused: does not parse
SELECT COUNT(* FROM people;

-- refused: does not parse
SELECT 'unfinished;

-- # More than one table, or none.

-- refused: cannot be joined with itself
SELECT COUNT(*) FROM people JOIN people AS other USING (name);

-- refused: every row is another individual
SELECT COUNT(*) FROM people, people AS other;

-- refused: only [INNER] JOIN and LEFT JOIN
SELECT COUNT(*) FROM people NATURAL JOIN other;

-- refused: only [INNER] JOIN and LEFT JOIN
SELECT COUNT(*) FROM people CROSS JOIN LATERAL (SELECT 1);

-- refused: each row by itself
SELECT COUNT(*) FROM (SELECT DISTINCT name FROM people);

-- refused: identifies people
SELECT COUNT(*) FROM (SELECT name, COUNT(*) FROM people GROUP BY name);

-- refused: each row by itself
SELECT COUNT(*) FROM (SELECT * FROM people LIMIT 3);

-- refused: WITH RECURSIVE is not supported
WITH RECURSIVE p AS (SELECT * FROM people) SELECT COUNT(*) FROM p;

-- refused: no FROM
WITH p AS (SELECT 1 AS one) SELECT COUNT(*) FROM p;

-- refused: no column missing
SELECT SUM(missing) FROM (SELECT age FROM people);

-- refused: read off other people's rows
SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people);

-- refused: unit = "row"
SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM people);

-- refused: unit = "row"
SELECT COUNT(*) FROM people WHERE age IN (SELECT age FROM people);

-- refused: neither an aggregate nor in the GROUP BY
SELECT (SELECT age FROM people);

-- refused: gives rows where one number stands
SELECT COUNT(*), (SELECT 1) FROM people;

-- refused: UNION ALL joins grouped queries
SELECT COUNT(*) FROM people UNION ALL SELECT age FROM people;

-- refused: not supported
SELECT COUNT(*) FROM people UNION ALL BY NAME SELECT COUNT(*) FROM people;

-- refused: INTERSECT and EXCEPT are not supported
SELECT COUNT(*) FROM people EXCEPT SELECT 1;

-- # Other statements.

-- refused: no FROM. The table is people
SELECT COUNT(*);

-- # More than one table, or none.

-- refused: no table persons. The table is people
SELECT COUNT(*) FROM persons;

-- refused: no table other.people
SELECT COUNT(*) FROM other.people;

-- refused: not supported
SELECT COUNT(*) FROM a.b.people;

-- refused: no table people.csv
SELECT COUNT(*) FROM 'people.csv';

-- refused: no table /etc/passwd
SELECT COUNT(*) FROM '/etc/passwd';

-- refused: plain table
SELECT COUNT(*) FROM read_csv('people.csv');

-- refused: plain table
SELECT COUNT(*) FROM range(10);

-- refused: FROM
SELECT COUNT(*) FROM (VALUES (1)) AS people;

-- refused: not supported
SELECT COUNT(*) FROM people AS p (a, b);

-- refused: not supported
SELECT COUNT(*) FROM people PIVOT (SUM(age) FOR city IN ('Bonn'));

-- refused: not supported
SELECT COUNT(*) FROM people AT (VERSION => 1);

-- # Clauses that would mean something else.

-- refused: Sampling is not supported
SELECT COUNT(*) FROM people USING SAMPLE 10;

-- refused: sample
SELECT COUNT(*) FROM people TABLESAMPLE 10%;

-- refused: a number for every row
SELECT SUM(age) OVER () FROM people;

-- refused: a number for every row
SELECT COUNT(*) OVER (PARTITION BY city) FROM people;

-- refused: There is no window x
SELECT city, RANK() OVER x FROM people GROUP BY city WINDOW w AS (ORDER BY COUNT(*));

-- refused: changes the window w
SELECT city, COUNT(*), RANK() OVER (w ORDER BY city) FROM people GROUP BY city WINDOW w AS (ORDER BY COUNT(*));

-- refused: SELECT INTO is not supported
SELECT COUNT(*) INTO x FROM people;

-- refused: only read
SELECT COUNT(*) FROM people FOR UPDATE;

-- refused: does not name an item
SELECT COUNT(*) FROM people GROUP BY 7;

-- refused: aggregate cannot stand
SELECT COUNT(*) FROM people GROUP BY 1;

-- refused: does not name an item
SELECT COUNT(*) FROM people ORDER BY 2;

-- refused: neither an aggregate nor in the GROUP BY
SELECT COUNT(*) FROM people ORDER BY age;

-- refused: LIMIT takes a whole number
SELECT COUNT(*) FROM people LIMIT 10%;

-- refused: LIMIT takes a whole number
SELECT COUNT(*) FROM people LIMIT '10';

-- refused: LIMIT takes a whole number
SELECT COUNT(*) FROM people LIMIT 1 + 1;

-- refused: neither an aggregate nor in the GROUP BY
SELECT city, COUNT(*) FROM people GROUP BY city HAVING member;

-- refused: neither an aggregate nor in the GROUP BY
SELECT city, COUNT(*) FROM people GROUP BY city HAVING age > 3;

-- refused: cannot be computed
SELECT city, COUNT(*) FROM people GROUP BY city HAVING COUNT(*) > 'x';

-- refused: cannot be computed
SELECT city, COUNT(*) FROM people GROUP BY city HAVING city > 3;

-- refused: chains comparisons
SELECT city, COUNT(*) FROM people GROUP BY city HAVING 1 < COUNT(*) < 3;

-- refused: cannot be computed
SELECT born, COUNT(*) FROM people GROUP BY born HAVING born > 'May';

-- # More than one table, or none.

-- refused: SELECT * would release rows
SELECT * FROM people;

-- # What would release rows.

-- refused: SELECT * would release rows
SELECT people.* FROM people;

-- refused: SELECT * would release rows
SELECT COLUMNS(*) FROM people;

-- # Other statements.

-- refused: SELECT * would release rows
FROM people;

-- # What would release rows.

-- refused: neither an aggregate nor in the GROUP BY
SELECT name FROM people;

-- # More than one table, or none.

-- refused: neither an aggregate nor in the GROUP BY
SELECT name, COUNT(*) FROM people;

-- # What would release rows.

-- refused: neither an aggregate nor in the GROUP BY
SELECT age + COUNT(*) FROM people;

-- refused: no aggregate
SELECT city FROM people GROUP BY city;

-- # More than one table, or none.

-- refused: no aggregate
SELECT 1 FROM people;

-- # Names.

-- refused: no column wage. Known columns: age
SELECT SUM(wage) FROM people;

-- refused: no column wage
SELECT COUNT(*) FROM people WHERE wage > 3;

-- refused: no column wage
SELECT wage, COUNT(*) FROM people;

-- refused: Unknown table other
SELECT COUNT(*) FROM people WHERE other.age > 3;

-- refused: Unknown table x
SELECT COUNT(*) FROM people AS p WHERE x.age > 3;

-- refused: no column n
SELECT COUNT(*) AS n FROM people WHERE n > 3;

-- # Aggregates.

-- refused: COUNT() counts nothing
SELECT COUNT() FROM people;

-- refused: does not parse
SELECT COUNT_IF() FROM people;

-- refused: age
SELECT COUNT_IF(age) FROM people;

-- refused: takes one condition
SELECT COUNT_IF(DISTINCT member) FROM people;

-- refused: 
SELECT COUNT_IF(age > 3, city) FROM people;

-- refused: aggregate cannot stand inside
SELECT COUNT_IF(COUNT(*) > 3) FROM people;

-- refused: 
SELECT SUM() FROM people;

-- refused: takes one column
SELECT COUNT(DISTINCT age, city) FROM people;

-- refused: not supported
SELECT COUNT(age, city) FROM people;

-- refused: DISTINCT is supported in COUNT only
SELECT SUM(DISTINCT age) FROM people;

-- refused: DISTINCT is supported in COUNT only
SELECT AVG(DISTINCT age) FROM people;

-- refused: not supported
SELECT MAX(age, 3) FROM people;

-- refused: not supported
SELECT SUM(age ORDER BY age) FROM people;

-- refused: not supported
SELECT FIRST(age) FROM people;

-- refused: not supported
SELECT STRING_AGG(name, ',') FROM people;

-- refused: 
SELECT LIST(name) FROM people;

-- refused: not supported
SELECT MODE(age) FROM people;

-- refused: not supported
SELECT ARG_MAX(name, age) FROM people;

-- refused: aggregate cannot stand inside
SELECT SUM(SUM(age)) FROM people;

-- refused: aggregate cannot stand inside
SELECT COUNT(*) FROM people WHERE COUNT(*) > 3;

-- refused: between 0 and 1
SELECT QUANTILE_CONT(age, 1.5) FROM people;

-- refused: between 0 and 1
SELECT QUANTILE_CONT(age, -0.5) FROM people;

-- refused: not a number
SELECT QUANTILE_CONT(age, 1e-999999999) FROM people;

-- refused: between 0 and 1
SELECT QUANTILE_CONT(age, [0.1, 0.9]) FROM people;

-- refused: between 0 and 1
SELECT QUANTILE_CONT(age) FROM people;

-- refused: between 0 and 1
SELECT QUANTILE_DISC(age, 2) FROM people;

-- refused: QUANTILE_CONT(column, fraction)
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age DESC) FROM people;

-- refused: groups="observed"
SELECT COUNT(*) + country FROM people GROUP BY country;

-- refused: cannot be computed
SELECT COUNT(*) + city FROM people GROUP BY city;

-- refused: cannot be computed
SELECT UPPER(COUNT(*)) FROM people;

-- refused: takes columns of a ROLLUP
SELECT city, COUNT(*), GROUPING(city) FROM people GROUP BY city;

-- refused: not supported here
SELECT city, REPEAT(city, 1000000000) FROM people GROUP BY city;

-- refused: not supported here
SELECT city, REPLACE(city, 'B', city), COUNT(*) FROM people GROUP BY city;

-- refused: not supported here
SELECT COUNT(*), RANDOM() FROM people;

-- refused: not supported here
SELECT COUNT(*), NOW() FROM people;

-- refused: not supported here
SELECT COUNT(*), CURRENT_SETTING('threads') FROM people;

-- refused: not supported here
SELECT city, STRING_AGG(city, ',') OVER () FROM people GROUP BY city;

-- refused: gives rows beside
SELECT n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) t, RANGE(10);

-- refused: gives rows beside
SELECT p.age FROM people p JOIN (SELECT city, COUNT(*) n FROM people GROUP BY city) g USING (city);

-- refused: has no column m
SELECT m FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) t;

-- refused: several rows where one number stands
WITH g AS (SELECT city, COUNT(*) AS n FROM people GROUP BY city) SELECT n, (SELECT n FROM g) FROM g;

-- # Bounds, resolutions, types: the message names the line of the schema.

-- refused: Add [columns.visits] bounds = [low, high]
SELECT SUM(visits) FROM people;

-- refused: Add [columns.score] bounds = [low, high]
SELECT AVG(score) FROM people;

-- refused: Add [columns.rate] resolution =
SELECT MAX(rate) FROM people;

-- refused: needs a numeric column, and name is text
SELECT SUM(name) FROM people;

-- refused: needs a numeric column, and city is category
SELECT AVG(city) FROM people;

-- refused: needs a numeric column, and born is date
SELECT MIN(born) FROM people;

-- refused: CASE turns others into numbers
SELECT SUM(born) FROM people;

-- refused: has no bounds. Inside an aggregate use
SELECT SUM(LENGTH(name)) FROM people;

-- refused: always NULL by the bounds
SELECT SUM(age / 0) FROM people;

-- refused: always NULL by the bounds
SELECT SUM(LN(0 - age)) FROM people;

-- refused: too large to count exactly
SELECT SUM(EXP(pay)) FROM people;

-- refused: nested too
SELECT SUM(SQRT(SQRT(SQRT(SQRT(SQRT(SQRT(SQRT(SQRT(pay / (age / (pay / age))))))))))) FROM people;

-- refused: has no bounds
SELECT SUM('3') FROM people;

-- refused: has no bounds
SELECT SUM(NULL) FROM people;

-- refused: cannot change
SELECT SUM(0) FROM people;

-- refused: cannot change
SELECT AVG(5) FROM people;

-- refused: too large to count exactly
SELECT SUM(age * age * age * age * age * age * age * age * age * age) FROM people;

-- refused: too large to count exactly
SELECT SUM(age * 1e18 * 1e18 - age * 1e18 * 1e18) FROM people;

-- refused: too large to count exactly
SELECT SUM(age * 1e-200) FROM people;

-- refused: too large to count exactly
SELECT VAR_POP(pay * 1000000 * 1000000) FROM people;

-- # Types of expressions.

-- refused: mixes integer and text
SELECT COUNT(*) FROM people WHERE age = 'x';

-- refused: mixes integer and text
SELECT COUNT(*) FROM people WHERE name > 3;

-- refused: mixes boolean and integer
SELECT COUNT(*) FROM people WHERE member = 1;

-- refused: mixes integer and timestamp
SELECT COUNT(*) FROM people WHERE seen = age;

-- # More than one table, or none.

-- refused: mixes
SELECT COUNT(*) FROM people WHERE age IN (1, 'x');

-- # Types of expressions.

-- refused: mixes
SELECT COUNT(*) FROM people WHERE COALESCE(age, 'x') = 1;

-- refused: mixes
SELECT COUNT(*) FROM people WHERE CASE WHEN member THEN 1 ELSE 'x' END = 1;

-- # More than one table, or none.

-- refused: is not a condition
SELECT COUNT(*) FROM people WHERE age;

-- # Types of expressions.

-- refused: is not a condition
SELECT COUNT(*) FROM people WHERE NOT age;

-- refused: needs numbers
SELECT COUNT(*) FROM people WHERE name + 1 > 2;

-- refused: // and % take integers
SELECT COUNT(*) FROM people WHERE pay % 2 = 0;

-- refused: BETWEEN
SELECT COUNT(*) FROM people WHERE 1 < age < 3;

-- refused: BETWEEN
SELECT COUNT(*) FROM people WHERE (age = 1) = (age = 2);

-- refused: Write it as '2024-12-31'
SELECT COUNT(*) FROM people WHERE born = 'yesterday';

-- refused: timestamps are UTC
SELECT COUNT(*) FROM people WHERE seen = '2024-01-01T00:00:00+02:00';

-- refused: a date has no hour
SELECT COUNT(*) FROM people WHERE HOUR(born) = 3;

-- refused: supported date parts are YEAR
SELECT COUNT(*) FROM people WHERE EXTRACT(EPOCH FROM seen) > 3;

-- refused: needs a date
SELECT COUNT(*) FROM people WHERE YEAR(age) > 3;

-- refused: not supported
SELECT COUNT(*) FROM people WHERE CENTURY(born) = 20;

-- refused: DATE_TRUNC takes year
SELECT COUNT(*) FROM people WHERE DATE_TRUNC('decade', born) = '1920-01-01';

-- refused: INTERVAL '30' DAY
SELECT COUNT(*) FROM people WHERE born + INTERVAL (age) DAY > '1921-01-01';

-- refused: engines write a number in different ways
SELECT COUNT(*) FROM people WHERE CAST(pay AS VARCHAR) = '3';

-- refused: engines read text differently
SELECT COUNT(*) FROM people WHERE name::DOUBLE > 3;

-- refused: not supported. Supported: columns
SELECT COUNT(*) FROM people WHERE REVERSE(name) = 'ADA';

-- refused: Use LIKE
SELECT COUNT(*) FROM people WHERE name ILIKE 'ä%';

-- refused: Use LIKE or, if values are declared
SELECT COUNT(*) FROM people WHERE name SIMILAR TO 'a';

-- refused: not supported. Supported: columns
SELECT COUNT(*) FROM people WHERE MD5(name) = 'a';

-- refused: not supported. Supported: columns
SELECT COUNT(*) FROM people WHERE name LIKE 'a$%' ESCAPE '$';

-- refused: backslash
SELECT COUNT(*) FROM people WHERE name LIKE 'a\%';

-- refused: LIKE compares
SELECT COUNT(*) FROM people WHERE name LIKE city;

-- refused: is not a condition
SELECT COUNT(*) FROM people WHERE age IS TRUE;

-- refused: Both sides need the same type
SELECT COUNT(*) FROM people WHERE age IS DISTINCT FROM '3';

-- refused: not supported
SELECT COUNT(*) FROM people WHERE RANDOM() < 0.5;

-- refused: not supported
SELECT COUNT(*) FROM people WHERE age = ?;

-- refused: not supported
SELECT COUNT(*) FROM people WHERE age = $1;

-- # More than one table, or none.

-- refused: 
SELECT COUNT(*) FROM people WHERE age IN [];

-- refused: too large. Write it with a decimal point
SELECT COUNT(*) FROM people WHERE age > 9223372036854775808;

-- refused: too large
SELECT COUNT(*) FROM people WHERE age > 1e999;

-- # Numbers without end, nesting without end.

-- refused: too small
SELECT COUNT(*) FROM people WHERE pay > 1e-999;

-- refused: not a number this tool reads
SELECT SUM(age * 1e-999999999) FROM people;

-- refused: not a number this tool reads
SELECT SUM(age * 0e-999999999) FROM people;

-- refused: nested too deeply
SELECT COUNT(*) FROM people WHERE age // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 //
1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 // 1 = 1;

-- refused: too long once its expressions are written
SELECT COUNT(*) FROM people WHERE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE CASE
CASE CASE 1 WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1
THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2
END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN
2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1
THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2
END WHEN 1 THEN 1 WHEN 2 THEN 2 END WHEN 1 THEN 1 WHEN 2 THEN 2 END = 1;

-- # Groups without a declared list.

-- refused: name identifies people, so it cannot be a group
SELECT COUNT(*) FROM people GROUP BY name;

-- refused: type = "category" and values
SELECT COUNT(*) FROM people GROUP BY note;

-- refused: Add values = […] to [columns.country]
SELECT COUNT(*) FROM people GROUP BY country;

-- refused: Add bounds = [low, high] to [columns.visits]
SELECT COUNT(*) FROM people GROUP BY visits;

-- refused: // instead of /, FLOOR, ROUND, or CASE
SELECT COUNT(*) FROM people GROUP BY rate;

-- refused: Group by a condition, a CASE, DATE_TRUNC or a date part
SELECT COUNT(*) FROM people GROUP BY seen;

-- refused: // instead of /
SELECT COUNT(*) FROM people GROUP BY pay / age;

-- refused: // instead of /
SELECT COUNT(*) FROM people GROUP BY SQRT(pay);

-- refused: at most 10,000
SELECT COUNT(*) FROM people GROUP BY age, born;

-- refused: at most 1,000,000
SELECT COUNT(*) FROM people GROUP BY age * größe * YEAR(born);

-- refused: has no groups
SELECT COUNT(*) FROM people GROUP BY NULL;

-- refused: has no groups
SELECT COUNT(*) FROM people GROUP BY CASE WHEN FALSE THEN 1 END;

-- # Hostile SQL after the noise.

-- refused: 
SELECT n, READ_TEXT('/etc/passwd') FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
SELECT * FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g, READ_CSV('/etc/passwd');

-- refused: 
SELECT * FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g, '/etc/passwd';

-- refused: 
SELECT * FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g, information_schema.tables;

-- refused: 
SELECT * FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g, duckdb_settings();

-- refused: 
SELECT GETENV('HOME'), n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
SELECT CURRENT_SETTING('memory_limit'), n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
SELECT n, UUID() FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
SELECT n, RANDOM() FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
SELECT n, NOW(), CURRENT_DATE FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
SELECT REPEAT(city, 1000000000), n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
SELECT LPAD(city, 1000000000, 'x'), n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
SELECT n, RANGE(1000000000) FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
SELECT UNNEST(RANGE(1000000000)), n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
SELECT STRING_AGG(city, 'x'), COUNT(*) FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
SELECT LIST(n) FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
SELECT n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g WHERE city SIMILAR TO '(a*)*b';

-- refused: 
SELECT REGEXP_REPLACE(city, '(a*)*b', ''), n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
WITH RECURSIVE r AS (SELECT n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g UNION ALL SELECT n + 1 FROM r) SELECT * FROM r;

-- refused: 
SELECT n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g TABLESAMPLE 10%;

-- refused: 
SELECT n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g; DROP TABLE released;

-- refused: 
SELECT n AS released, (SELECT COUNT(*) FROM released) FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) g;

-- refused: 
WITH g AS (SELECT age, COUNT(*) AS n FROM people GROUP BY age) SELECT a.n FROM g a, g b, g c, g d;
