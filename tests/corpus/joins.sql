-- Joins that cannot be bounded.

-- refused: cannot be joined with itself
SELECT COUNT(*) FROM visits JOIN visits USING (pid);

-- refused: LAG(…) OVER (PARTITION BY pid ORDER BY
SELECT COUNT(*) FROM visits a JOIN visits b ON a.pid = b.pid;

-- refused: Or add [tables.wards]
SELECT COUNT(*) FROM visits JOIN wards USING (ward);

-- refused: unique key clinic_id
SELECT COUNT(*) FROM visits JOIN clinics ON visits.ward = clinics.region;

-- refused: could multiply
SELECT COUNT(*) FROM visits JOIN clinics ON visits.x = clinics.beds;

-- refused: join it on the unit column
SELECT COUNT(*) FROM visits JOIN labs ON visits.x = labs.score;

-- refused: join it on the unit column
SELECT COUNT(*) FROM visits JOIN labs ON visits.ward = labs.pid;

-- refused: join it on the unit column
SELECT COUNT(*) FROM visits JOIN labs ON visits.pid = labs.lab;

-- refused: joins every row with every row
SELECT COUNT(*) FROM visits, clinics;

-- refused: joins every row with every row
SELECT COUNT(*) FROM visits JOIN clinics;

-- refused: only [INNER] JOIN and LEFT JOIN
SELECT COUNT(*) FROM visits CROSS JOIN clinics;

-- refused: only [INNER] JOIN and LEFT JOIN
SELECT COUNT(*) FROM visits RIGHT JOIN clinics USING (clinic_id);

-- refused: only [INNER] JOIN and LEFT JOIN
SELECT COUNT(*) FROM visits FULL JOIN clinics USING (clinic_id);

-- refused: only [INNER] JOIN and LEFT JOIN
SELECT COUNT(*) FROM visits SEMI JOIN clinics USING (clinic_id);

-- refused: only [INNER] JOIN and LEFT JOIN
SELECT COUNT(*) FROM visits NATURAL JOIN clinics;

-- refused: clinics is public
SELECT COUNT(*) FROM visits JOIN (SELECT * FROM clinics) c USING (clinic_id);

-- refused: not supported
SELECT COUNT(*) FROM visits JOIN clinics c(a, b) ON visits.clinic_id = c.a;

-- refused: compares columns with =
SELECT COUNT(*) FROM visits JOIN clinics ON visits.clinic_id > clinics.clinic_id;

-- refused: with =
SELECT COUNT(*) FROM visits JOIN clinics ON visits.clinic_id = clinics.clinic_id OR TRUE;

-- refused: compares columns
SELECT COUNT(*) FROM visits JOIN clinics ON visits.clinic_id = clinics.clinic_id + 0;

-- refused: before the columns
SELECT COUNT(*) FROM visits JOIN clinics ON clinic_id = clinics.clinic_id;

-- refused: cannot be equal
SELECT COUNT(*) FROM visits JOIN clinics ON visits.ward = clinics.clinic_id;

-- refused: no column nothing
SELECT COUNT(*) FROM visits JOIN clinics USING (nothing);

-- refused: x stands in several tables
SELECT SUM(x) FROM visits JOIN clinics USING (clinic_id);

-- refused: pid stands in several tables
SELECT COUNT(DISTINCT pid) FROM visits JOIN labs ON visits.pid = labs.pid;

-- refused: no column visits.nothing
SELECT SUM(visits.nothing) FROM visits JOIN clinics USING (clinic_id);

-- refused: Unknown table other
SELECT SUM(other.x) FROM visits JOIN clinics USING (clinic_id);

-- refused: clinics is joined twice
SELECT COUNT(*) FROM visits JOIN clinics USING (clinic_id) JOIN clinics c ON visits.x = c.clinic_id;

-- refused: stands for another table
SELECT COUNT(*) FROM visits v JOIN clinics v USING (clinic_id);

-- refused: stands for another table
SELECT COUNT(*) FROM visits JOIN labs visits USING (pid);

-- refused: There is no table clinics
SELECT COUNT(*) FROM clinics JOIN visits USING (clinic_id);
