-- Numbers of each individual, on any grid.

SELECT SUM(m) AS n FROM (SELECT pid, SUM(y / 3) AS m FROM visits GROUP BY pid) p;

SELECT SUM(m) AS n FROM (SELECT pid, AVG(y / 3) AS m FROM visits GROUP BY pid) p;

SELECT SUM(m) AS n FROM (SELECT pid, MAX(y / 7) AS m FROM visits GROUP BY pid) p;

SELECT SUM(m) AS n FROM (SELECT pid, MEDIAN(-y / 7) AS m FROM visits GROUP BY pid) p;

SELECT SUM(m) AS n FROM (SELECT pid, LAG(y / 7) OVER (PARTITION BY pid ORDER BY vid) AS m FROM visits) p;

SELECT SUM(k) AS n FROM (SELECT pid, y / 7 AS k, COUNT(*) AS n FROM visits GROUP BY pid, y / 7) p;

SELECT SUM(p.m) AS n FROM visits JOIN (SELECT pid, MAX(y / 3) AS m FROM visits GROUP BY pid) p USING (pid);

SELECT COUNT(*) AS n FROM (SELECT pid, SUM(y / 3) AS m FROM visits GROUP BY pid) p WHERE m >= 1;

SELECT COUNT(*) AS n FROM (SELECT pid, MAX(y / 3) AS m FROM visits GROUP BY pid) p WHERE m = 2;

SELECT COUNT(*) AS n FROM visits v WHERE EXISTS (SELECT MAX(lab) FROM labs l WHERE l.pid = v.pid GROUP BY l.pid);

SELECT COUNT(*) AS n FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE l.pid = v.pid);

SELECT COUNT(*) AS n FROM visits WHERE EXISTS (SELECT 1 FROM visits AS o WHERE o.pid = visits.pid AND o.y = 2);

SELECT COUNT(*) AS n FROM visits WHERE NOT EXISTS (SELECT 1 FROM visits o WHERE visits.pid = o.pid AND o.sick);
