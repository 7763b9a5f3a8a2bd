-- Products of two arguments, also of columns named like those of the profile.

SELECT CORR(a0, a1) AS n FROM points;

SELECT g0, COVAR_POP(a1, a0) AS o, SUM(a0 * a1) AS p, SUM(a0) AS q FROM points GROUP BY g0 ORDER BY ALL;

SELECT SUM(a1 * a2) AS n, SUM(a0) AS o, SUM(people) AS p, SUM(people * a0) AS q FROM points;

SELECT SUM(a1) AS n, SUM(a0 * a1) AS o, SUM(a1 * a1) AS p FROM points WHERE a0 > 0;

SELECT REGR_SLOPE(a2, a1) AS n, MEDIAN(a1) AS o, CORR(a1, people) AS p FROM points;

SELECT COVAR_SAMP(a0, a0) AS n, COUNT(a1) AS o FROM points;
