-- Row-wise CTEs and subqueries: what is not row-wise is refused by name.

-- refused: has a column cost already
SELECT SUM(cost) FROM (SELECT *, cost * 2 AS cost FROM visits) x;

-- refused: two columns called c
SELECT SUM(c) FROM (SELECT cost AS c, vid AS c FROM visits) x;

-- refused: plain SELECT
WITH x(a) AS (SELECT cost FROM visits) SELECT SUM(a) FROM x;

-- refused: Two CTEs
WITH x AS (SELECT 1), x AS (SELECT cost FROM visits) SELECT SUM(cost) FROM x;

-- refused: no column ward
SELECT SUM(ward) FROM (SELECT cost FROM visits) x;

-- refused: Unknown table visits
SELECT SUM(visits.cost) FROM (SELECT cost * 2 AS cost FROM visits) x;

-- refused: Unknown table y
SELECT SUM(y.cost) FROM (SELECT cost FROM visits) x;

-- refused: Name this expression
SELECT SUM(cost + 1) FROM (SELECT cost + 1 FROM visits) x;

-- refused: gives that name to another column
WITH x AS (SELECT vid AS clinic_id FROM visits) SELECT COUNT(*) FROM x JOIN clinics USING (clinic_id);

-- refused: no column clinic_id
SELECT COUNT(*) FROM (SELECT cost FROM visits) x JOIN clinics USING (clinic_id);

-- refused: write table.region
SELECT region, COUNT(*) FROM (SELECT clinic_id FROM visits) x JOIN clinics USING (clinic_id) GROUP BY 1;
