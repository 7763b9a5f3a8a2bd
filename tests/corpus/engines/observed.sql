-- Groups that the data have.

-- asked: always
SELECT city, COUNT(*), SUM(age) FROM people GROUP BY city;

SELECT name, member, MEDIAN(age) FROM people GROUP BY name, member;

SELECT pay, COUNT(*) FROM people GROUP BY pay;

SELECT seen, COUNT(*) FROM people WHERE seen IS NOT NULL GROUP BY seen;
