-- Public tables joined to released numbers.

SELECT w.name, g.n, g.n / w.beds AS per_bed FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN wards w USING (ward)
ORDER BY g.ward;

SELECT g.ward, w.name, g.n * w.rent AS paid, w.ward IS NULL AS unknown FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g
LEFT JOIN wards w ON w.ward = g.ward ORDER BY g.ward;

WITH g AS (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) SELECT house, SUM(n) AS n, SUM(n * 1.0) / SUM(beds) AS load FROM g
JOIN wards w ON g.ward = w.ward GROUP BY house HAVING SUM(n) > 1 ORDER BY house;

WITH g AS (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) SELECT h.city, w.name, n FROM g JOIN wards w ON g.ward = w.ward LEFT
JOIN houses h ON w.house = h.house ORDER BY n, w.name;

SELECT w.name, n FROM wards w, (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g WHERE w.ward = g.ward AND w.beds >= 3 ORDER BY
w.name;

SELECT w.name, g.n FROM wards w INNER JOIN (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g USING (ward) ORDER BY 1;

SELECT * FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN wards USING (ward) ORDER BY ward;

SELECT g.day, feast, n FROM (SELECT day, COUNT(*) AS n FROM stays GROUP BY day) g LEFT JOIN days ON g.day = days.day ORDER BY g.day;

SELECT d.words, g.n FROM (SELECT dose, COUNT(*) AS n FROM stays GROUP BY dose) g JOIN doses d ON g.dose = d.dose ORDER BY 1;

SELECT w.name, g.ward, g.urgent, g.n FROM (SELECT ward, urgent, COUNT(*) AS n FROM stays GROUP BY ROLLUP (ward, urgent)) g LEFT JOIN wards w USING
(ward) ORDER BY 2, 3, 4;

SELECT w.name, g.n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN wards w USING (ward) UNION ALL SELECT 'all',
COUNT(*) FROM stays ORDER BY n;

SELECT w.name, 1.0 * g.h / t.h AS share FROM (SELECT ward, SUM(hours) AS h FROM stays GROUP BY ward) g CROSS JOIN (SELECT SUM(hours) AS h FROM stays)
t JOIN wards w ON g.ward = w.ward ORDER BY 1;

SELECT name, n, RANK() OVER (PARTITION BY house ORDER BY n DESC) AS r FROM (SELECT w.name, w.house, g.n FROM (SELECT ward, COUNT(*) AS n, SUM(hours)
AS h FROM stays GROUP BY ward) g JOIN wards w USING (ward)) t ORDER BY name;

SELECT w.name, g.n, g.n * 100.0 / (SELECT SUM(n * beds) FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) v JOIN wards USING
(ward)) AS part FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN wards w USING (ward) WHERE UPPER(w.name) <> ''
ORDER BY g.n;

SELECT a.name, b.name AS other, g.n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN wards a ON g.ward = a.ward JOIN
wards b ON a.ward = b.ward ORDER BY 1;

-- refused: only JOIN and LEFT JOIN can add a public table
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g CROSS JOIN wards;

-- refused: on one column = one column
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g, wards;

-- refused: only JOIN and LEFT JOIN
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g RIGHT JOIN wards USING (ward);

-- refused: only JOIN and LEFT JOIN
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g NATURAL JOIN wards;

-- refused: name is not the key of wards
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN wards w ON g.ward = w.name;

-- refused: house is not the key of wards
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN wards w ON g.n = w.house;

-- refused: neither a column of the GROUP BY
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN houses ON g.n = houses.house;

-- refused: cannot be equal
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN houses ON g.ward = houses.house;

-- refused: on one column = one column
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN wards w ON g.ward = w.ward OR w.beds > 0;

-- refused: other conditions stand in WHERE
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN wards w ON g.ward = w.ward AND n > 2;

-- refused: cannot come first
SELECT n FROM wards LEFT JOIN (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g USING (ward);

-- refused: no column w.secret
SELECT w.secret FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN wards w USING (ward);

-- refused: not supported
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN wards AS w(x, y) ON g.ward = w.ward;

-- refused: gives rows beside a grouped query
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN stays USING (ward);

-- refused: gives rows beside a grouped query
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN labs ON g.n = labs.stay;

-- refused: gives rows beside a grouped query
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN public0 USING (ward);

-- refused: gives rows beside a grouped query
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN released USING (ward);

-- refused: Join the table itself
SELECT n FROM (SELECT ward, COUNT(*) AS n, SUM(hours) AS h FROM stays GROUP BY ward) g JOIN (SELECT * FROM wards) w USING (ward);
