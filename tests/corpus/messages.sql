-- SQL that does not parse, explained in the analyst's own words.

-- refused: it ends too early, after '
SELECT COUNT(*) FROM t WHERE;

-- refused: it ends too early
SELECT COUNT(*) FROM t WHERE x LIKE;

-- refused: a parenthesis is not closed, it ends too early
SELECT COUNT(*) FROM t WHERE (x = 'Grippe';

-- refused: a parenthesis is not closed, near 'FROM t'
SELECT COUNT(* FROM t;

-- refused: a quote (') is not closed
SELECT COUNT(*) FROM t WHERE x = 'Gri;

-- refused: a quote (") is not closed
SELECT COUNT(*) FROM t WHERE x = 'it''s' AND "x;

-- refused: a comment is not closed
SELECT COUNT(*) FROM t /* why;

-- refused: alter is a reserved word. If it is a column, write "alter"
SELECT COUNT(*) FROM t WHERE alter > 3;

-- refused: alter is a reserved word
SELECT AVG(alter) FROM t;

-- refused: alter is a reserved word
SELECT alter, COUNT(*) FROM t GROUP BY alter;

-- refused: union is a reserved word. If it is a column, write "union"
SELECT COUNT(*) FROM t WHERE union = 1;

-- refused: Union is a reserved word. If it is a column, write "Union"
SELECT Union, COUNT(*) FROM t GROUP BY Union;

-- refused: union is a reserved word
SELECT AVG(age) FROM t GROUP BY union;

-- refused: except is a reserved word
SELECT AVG(except) FROM t;

-- refused: intersect is a reserved word
SELECT COUNT(*) FROM t WHERE age > 3 AND intersect;

-- refused: it ends too early, after '
SELECT COUNT(*) FROM t UNION ALL;

-- refused: it ends too early, after '
SELECT COUNT(*) FROM t WHERE x = 'a' UNION;

-- refused: does not parse near '= 'a''
SELECT COUNT(*) FROM t WHERE x = = 'a';

-- refused: does not parse near 't'
SELECT COUNT(*) FORM t;

-- refused: begins with a digit needs quotes. Write "2024_visits"
SELECT COUNT(*) FROM 2024_visits;

-- refused: does not parse near 'FORM'
SELECT COUNT(*) FROM t WHERE x = '3rd floor' FORM;

-- refused: does not parse near ')'
SELECT COUNT(*) FROM t WHERE x = 'a');

-- refused: GROUP BY is not followed by a column
SELECT COUNT(*) FROM t GROUP BY;

-- refused: Text goes in single quotes: 'Grippe'.
SELECT COUNT(*) FROM t WHERE x = Grippe;

-- refused: Text goes in single quotes: 'Grippe'.
SELECT COUNT(*) FROM t WHERE x = "Grippe";

-- refused: Text goes in single quotes: 'Grippe'.
SELECT COUNT(*) FROM t WHERE x IN ('Husten', Grippe);
