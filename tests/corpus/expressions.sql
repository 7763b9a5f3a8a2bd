-- Expressions of a row that are refused, with the form that would do.

-- refused: DATE_DIFF('hour', start, end)
SELECT COUNT(m - m) FROM t;

-- refused: Write m <= d + INTERVAL '1' MONTH
SELECT COUNT(m - d <= INTERVAL '1' MONTH) FROM t;

-- refused: Write m > d + INTERVAL '1 year 2 days'
SELECT COUNT(INTERVAL '1 year 2 days' < m - d) FROM t;

-- refused: Write m <= d + INTERVAL '1' YEAR
SELECT COUNT(m - d BETWEEN INTERVAL '1' DAY AND INTERVAL '1' YEAR) FROM t;

-- refused: end - start < INTERVAL '30' DAY
SELECT COUNT(m < INTERVAL '1' DAY) FROM t;

-- refused: end - start < INTERVAL '30' DAY
SELECT COUNT(m - INTERVAL '1' DAY < INTERVAL '1' DAY) FROM t;

-- refused: needs a date or timestamp
SELECT COUNT(a - b < INTERVAL '1' DAY) FROM t;

-- refused: end - start < INTERVAL '30' DAY
SELECT COUNT(AGE(m, d) < INTERVAL '1' DAY) FROM t;

-- refused: DATE_DIFF('hour', start, end)
SELECT COUNT(EXTRACT(DAY FROM m - d) > 1) FROM t;

-- refused: has no clock
SELECT COUNT(STRFTIME(d, '%H')) FROM t;

-- refused: written-out pattern
SELECT COUNT(STRFTIME(d, s)) FROM t;

-- refused: TO_CHAR takes a pattern
SELECT COUNT(TO_CHAR(d, 'Month')) FROM t;

-- refused: DATE_DIFF counts
SELECT COUNT(DATE_DIFF('century', d, e)) FROM t;

-- refused: two written-out texts
SELECT COUNT(REPLACE(c, s, 'bb')) FROM t;

-- refused: needs a text, and a is integer. Write CAST(a AS VARCHAR).
SELECT COUNT(UPPER(a)) FROM t;

-- refused: Declare the column's values, or its type
SELECT COUNT(CAST(s AS INTEGER)) FROM t;

-- refused: cannot become a integer
SELECT COUNT(CAST(d AS INTEGER)) FROM t;

-- refused: SYMMETRIC is not supported
SELECT COUNT(a BETWEEN SYMMETRIC 3 AND 1) FROM t;

-- refused: SQRT is the power 0.5
SELECT COUNT(POWER(a, 0.5)) FROM t;

-- refused: whole exponent up to 10
SELECT COUNT(POWER(a, 11)) FROM t;

-- refused: LN(x) / LN(base)
SELECT COUNT(LOG(2, a)) FROM t;

-- refused: whole number of places
SELECT COUNT(ROUND(v, a)) FROM t;

-- refused: FLOOR(x / y)
SELECT COUNT(v // 2) FROM t;

-- refused: missing )
SELECT COUNT(*) FROM t WHERE code ~ '(';

-- refused: without look-ahead
SELECT COUNT(*) FROM t WHERE code ~ 'a(?=b)';

-- refused: Unrecognized Regex option
SELECT COUNT(*) FROM t WHERE REGEXP_MATCHES(code, 'a', 'q');

-- refused: written-out pattern
SELECT COUNT(*) FROM t WHERE REGEXP_MATCHES(code, note);

-- refused: needs a text
SELECT COUNT(*) FROM t WHERE x ~ 'a';

-- refused: from 0 to 9
SELECT COUNT(*) FROM t WHERE REGEXP_EXTRACT(code, 'a', 10) = '';

-- refused: written-out part
SELECT COUNT(*) FROM t WHERE POSITION('' IN code) = 1;

-- refused: written-out part
SELECT COUNT(*) FROM t WHERE POSITION(note IN code) = 1;

-- refused: position
SELECT COUNT(*) FROM t WHERE STRPOS(note, 'a', 2) = 1;

-- refused: written-out mark
SELECT COUNT(*) FROM t WHERE SPLIT_PART(code, '', 1) = 'a';

-- refused: written-out key or place
SELECT COUNT(*) FROM t WHERE form ->> note = 'a';

-- refused: REGEXP_EXTRACT takes a pattern
SELECT COUNT(*) FROM t WHERE SUBSTRING(code FROM '^.') = 'a';

-- refused: x || '-' || y
SELECT COUNT(*) FROM t WHERE CONCAT_WS('-', code, note) = 'a';

-- refused: WIDTH_BUCKET(x, 0, 100, 5)
SELECT COUNT(*) FROM t WHERE WIDTH_BUCKET(v, 1, 1, 3) = 1;

-- refused: WIDTH_BUCKET(x, 0, 100, 5)
SELECT COUNT(*) FROM t WHERE WIDTH_BUCKET(v, 0, x, 3) = 1;

-- refused: WIDTH_BUCKET(x, 0, 100, 5)
SELECT COUNT(*) FROM t WHERE WIDTH_BUCKET(v, 0, 1, 0) = 1;

-- refused: WIDTH_BUCKET(x, 0, 100, 5)
SELECT COUNT(*) FROM t WHERE WIDTH_BUCKET(v, 0, 1, 501) = 1;

-- refused: WIDTH_BUCKET(x, 0, 100, 5)
SELECT COUNT(*) FROM t WHERE WIDTH_BUCKET(v, [1, 2]) = 1;

-- refused: WIDTH_BUCKET(x, 0, 100, 5)
SELECT COUNT(*) FROM t WHERE WIDTH_BUCKET(v, 0, 1) = 1;
