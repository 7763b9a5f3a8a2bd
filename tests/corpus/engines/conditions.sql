-- Conditions, counted all in one query.

age = 7;

age <> 7;

age >= 3 AND age < 11;

NOT age BETWEEN 3 AND 11;

age IN (1, 2, 3, 91);

age NOT IN (1, 2, 3);

age IS NULL OR pay IS NOT NULL;

age + 2 * big > 0;

age // 3 = 2 OR age // 3 = -1;

age % 4 = -1;

age // 0 IS NULL;

pay / age > 0.5;

pay / 0 IS NULL;

pay = 0;

pay = 0.025 OR pay = -0.075 OR pay = 0.30000000000000004;

pay < -0.02;

FLOOR(pay) = 2 OR CEIL(pay) = -4;

FLOOR(pay * 1e90) > 1e89;

FLOOR(big) = 9007199254740992;

ABS(pay) > 100;

-pay > 10;

big = 9007199254740993;

big > 9007199254740992;

COALESCE(age, 50) > 40;

CASE WHEN member THEN age ELSE 0 - age END > 3;

CASE WHEN member THEN 'a' ELSE 'B' END < 'b';

name = 'Ada';

name = 'Ádá';

name = '';

name = 'trail ';

name = 'trail';

name = 'back\slash' OR name = '\n';

name = 'two
lines';

name = 'O''Hara' OR name = 'say "hi"';

name = 'NA{x}';

name < 'a';

name > 'Z';

name BETWEEN 'A' AND 'Z';

name >= 'é';

name IN ('ada', 'ß', '😀', 'Ω');

name LIKE 'a%';

name LIKE '_';

name LIKE '__';

name LIKE '%lines';

name LIKE '%''%';

name < city;

city <> 'Bonn';

city = 'aix';

city > 'Zug';

member;

NOT member;

member = TRUE;

member IS NULL;

born = '2020-02-29';

born >= DATE '2020-06-01';

born BETWEEN '2019-12-28' AND '2020-01-05';

born IN ('2020-01-01', '2020-05-05');

seen < '2020-04-01 12:00:00';

seen = TIMESTAMP '2020-12-31 23:59:59.999999';

seen >= '2020-02-29 12:00:00' AND seen < '2020-03-29 12:30:00';

EXTRACT(YEAR FROM born) = 2020 AND EXTRACT(QUARTER FROM born) = 1;

EXTRACT(MONTH FROM seen) = 3 AND EXTRACT(DAY FROM seen) > 28;

EXTRACT(ISODOW FROM born) >= 6;

ISODOW(seen) = 7;

HOUR(seen) = 23 OR HOUR(seen) = 1;

DATE_TRUNC('week', born) = '2019-12-30';

DATE_TRUNC('month', seen) = '2020-03-01';

DATE_TRUNC('quarter', born) = '2020-04-01' OR DATE_TRUNC('year', seen) = '2020-01-01';

DATE_TRUNC('day', seen) = '2020-04-01';

DATE_TRUNC('hour', seen) = '2020-03-29 01:00:00' OR DATE_TRUNC('minute', seen) < '2020-02-29 12:00:01';

DATE_TRUNC('second', seen) = '2020-12-31 23:59:59';

seen < born OR seen BETWEEN DATE '2020-03-29' AND '2020-04-02';

born IN (DATE '2020-01-01', TIMESTAMP '2020-05-05 00:00:00');

born + INTERVAL '1' MONTH > DATE '2020-03-31' AND born - INTERVAL '1' YEAR < DATE '2019-06-30';

born - 30 >= DATE '2020-02-29' AND born + INTERVAL '2' WEEK < DATE '2020-12-31';

seen + INTERVAL '36' HOUR > TIMESTAMP '2020-04-05 12:30:00';

seen - INTERVAL '1 month 90 seconds' < '2020-03-01';

born + INTERVAL '7980' YEAR IS NULL AND seen - INTERVAL '2019' YEAR IS NOT NULL;

DATE_DIFF('day', born, seen) > 5;

DATE_DIFF('week', born, seen) = -1 OR DATE_DIFF('month', born, seen) = 2;

DATE_DIFF('quarter', born, seen) = 1 OR DATE_DIFF('year', born, seen) = -1;

DATE_DIFF('hour', seen, TIMESTAMP '2020-03-29 12:30:00') BETWEEN -30 AND 30;

DATE_DIFF('minute', seen, DATE '2020-03-30') < 0 OR DATE_DIFF('second', seen, DATE '2020-03-30') % 7 = 3;

born - DATE '2020-06-30' > -20;

seen - born < INTERVAL 30 DAY AND seen - born >= INTERVAL '-36' HOUR;

seen - TIMESTAMP '2020-03-29 12:30:00' BETWEEN INTERVAL '-3 days' AND '2 days 1 second'::INTERVAL;

INTERVAL '2' WEEK < born - DATE '2020-02-29' OR born - CAST(seen AS DATE) = INTERVAL '0' DAY;

seen - born < INTERVAL '2915000' DAY AND NOT born - seen > INTERVAL '2915000' DAY;

seen - born > INTERVAL '-738500' DAY;

DAYOFWEEK(born) = 0 OR EXTRACT(DOW FROM seen) = 6;

WEEK(born) = 53 OR EXTRACT(ISOYEAR FROM born) = 2019;

DAYOFYEAR(born) > 300 OR MINUTE(seen) = 30 AND SECOND(seen) = 0;

SECOND(seen) = 59;

STRFTIME(born, '%Y-%m') = '2020-02' OR STRFTIME(seen, '%d.%m.%Y %H:%M:%S') = '29.02.2020 12:00:00';

STRFTIME(born, '%a %b %j') = 'Wed Jan 001' OR STRFTIME(born, '%G-W%V-%u') = '2020-W53-4';

DAYNAME(born) = 'Sunday' AND MONTHNAME(born) <> 'May';

TO_CHAR(seen, 'YYYY-MM-DD HH24:MI') = '2020-03-29 12:30';

LAST_DAY(born) = DATE '2020-02-29' OR CAST(seen AS DATE) = '2020-03-30';

MAKE_DATE(2020, age, 30) > DATE '2020-04-01';

GREATEST(born, seen) = seen AND LEAST(born, DATE '2020-05-05') < DATE '2020-05-05';

CAST(born AS TIMESTAMP) < seen;

CAST(pay AS INTEGER) = 2 OR CAST(pay AS INTEGER) = 1234;

CAST(fine AS DECIMAL(4, 1)) = 0.5 OR CAST(big AS INTEGER) IS NULL;

CAST(age AS VARCHAR) = '-3' OR CAST(age * 2 AS TEXT) = '18';

CAST(born AS TEXT) < '2020-03-01' AND CAST(member AS TEXT) = 'true';

CAST(age AS BOOLEAN) AND CAST(member AS INTEGER) = 1;

age::DOUBLE / 4 > 2 AND pay::DECIMAL(10, 2) < 1000;

ROUND(pay) = 3 OR ROUND(pay, 1) = -0.1 OR ROUND(pay, -3) = 1000;

ROUND(fine, 2) > 0.33 OR ROUND(age, -1) = 10;

TRUNC(pay) = -3 OR SIGN(pay) = -1;

SQRT(age) > 3.1 OR SQRT(pay) < 0.3;

LN(age) > 2.5 OR LOG(pay) > 2 OR EXP(fine) < 0.6;

POWER(age, 2) = 49 OR pay ^ 3 < -1 OR POWER(age, -1) > 0.4;

GREATEST(age, pay, 3) > 10 AND LEAST(age, pay) < 5;

NULLIF(age, 7) IS NULL AND IFNULL(pay, 0) >= 0;

MOD(age, 4) = 3 AND age // 4 > -1;

member IS TRUE;

member IS NOT TRUE AND member IS NOT FALSE;

age IS DISTINCT FROM 7 AND city IS NOT DISTINCT FROM 'Aix';

UPPER(city) = 'BONN' OR LOWER(city) = 'ülm';

UPPER(name) = 'ADA' OR LOWER(name) = 'zoe';

LOWER(name) >= 'a' AND UPPER(name) < 'Z';

name ILIKE 'A%' OR name NOT ILIKE '%A%';

TRIM(name) = 'trail' OR LTRIM(name) = 'lead' OR RTRIM(name) = ' lead';

LEFT(name, 1) = 'A' OR RIGHT(name, 2) = 'da';

SUBSTR(name, 2, 1) = 'd' OR SUBSTR(city, 2) = 'onn';

name || '!' = 'ada!' OR city || name > 'K';

CONCAT(city, '-', age) = 'Bonn-3' OR CONCAT(name, city) = 'Bonn';

REPLACE(name, 'da', 'x') = 'Ax' OR REPLACE(city, 'nn', 'nnnn') = 'Bonnnn';

LENGTH(name) = 2 OR LENGTH(city) = 4;

LENGTH(name) > 3 AND LENGTH(name) < 6;

STARTS_WITH(name, 'A') OR ENDS_WITH(name, 'a') OR CONTAINS(name, 'ar');

CASE city WHEN 'Bonn' THEN 1 WHEN 'Aix' THEN 2 END = 2;

DATE_ADD(born, INTERVAL 1 MONTH) > seen OR DATE(seen) = born;

QUARTER(born) = 2 OR DAY(seen) = 29 OR DAYOFMONTH(born) = 1 OR WEEKOFYEAR(seen) = 13;

TRY_CAST(city AS INTEGER) IS NULL AND TRY_CAST(fine AS INTEGER) = 0;

DATE_PART('month', born) = 2 OR DATEPART('year', seen) = 2019 OR WEEKDAY(born) = 3 OR ISOYEAR(born) = 2019;

PREFIX(name, 'A') OR SUFFIX(name, 'lines');

POSITION('a' IN name) = 3 OR STRPOS(name, 'é') = 1 OR POSITION('nn' IN city) = 3;

POSITION('lines' IN name) = 5 OR STRPOS(name, '́') > 2 OR INSTR(name, '😀') = 1 OR STRPOS(name, '\') = 5;

SPLIT_PART(city, 'n', 1) = 'Bo' OR SPLIT_PART(city, 'l', -1) = 'm' OR SPLIT_PART(city, 'x', 2) = '';

REGEXP_MATCHES(city, '^[A-Z]') AND city ~ 'n+$' OR city ~* '^ü';

NOT REGEXP_FULL_MATCH(city, '.[a-z]{3}') OR REGEXP_EXTRACT(city, '(.)n', 1) = 'o';

CASE city WHEN 'Bonn' THEN '{"a": [{"k": "x''y\\z"}]}' WHEN 'Zug' THEN '[' ELSE '{"a": 1}' END -> 'a' -> 0 ->> '$.k' = 'x''y\z';

WIDTH_BUCKET(fine, 0, 1, 7) = 3 OR WIDTH_BUCKET(age, 0, 50, 5) IN (0, 2, 6) OR WIDTH_BUCKET(big, 0, 10, 3) = 3;

WIDTH_BUCKET(pay, 1000, -1000, 8) = 4 OR WIDTH_BUCKET(pay + 0.5, 0, 0.7, 7) = 6;
