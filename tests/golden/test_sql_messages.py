"""SQL that does not parse is explained in the analyst's own words, never in the parser's."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dosimeter.errors import QueryError
from dosimeter.planning.planner import plan_query
from dosimeter.schema.facts import Column, ColumnType, Schema

SCHEMA = Schema(
    table="t",
    individuals=10,
    columns={
        "x": Column("x", ColumnType.CATEGORY, values=("Grippe", "Husten")),
        "alter": Column("alter", ColumnType.INTEGER, bounds=(Decimal(0), Decimal(100))),
    },
)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT COUNT(*) FROM t WHERE", "it ends too early, after '"),
        ("SELECT COUNT(*) FROM t WHERE x LIKE", "it ends too early"),
        ("SELECT COUNT(*) FROM t WHERE (x = 'Grippe'", "a parenthesis is not closed, it ends too early"),
        ("SELECT COUNT(* FROM t", "a parenthesis is not closed, near 'FROM t'"),
        ("SELECT COUNT(*) FROM t WHERE x = 'Gri", "a quote (') is not closed"),
        ("SELECT COUNT(*) FROM t WHERE x = 'it''s' AND \"x", 'a quote (") is not closed'),
        ("SELECT COUNT(*) FROM t /* why", "a comment is not closed"),
        ("SELECT COUNT(*) FROM t WHERE alter > 3", 'alter is a reserved word. If it is a column, write "alter"'),
        ("SELECT AVG(alter) FROM t", "alter is a reserved word"),
        ("SELECT alter, COUNT(*) FROM t GROUP BY alter", "alter is a reserved word"),
        ("SELECT COUNT(*) FROM t WHERE union = 1", 'union is a reserved word. If it is a column, write "union"'),
        ("SELECT Union, COUNT(*) FROM t GROUP BY Union", 'Union is a reserved word. If it is a column, write "Union"'),
        ("SELECT AVG(age) FROM t GROUP BY union", "union is a reserved word"),
        ("SELECT AVG(except) FROM t", "except is a reserved word"),
        ("SELECT COUNT(*) FROM t WHERE age > 3 AND intersect", "intersect is a reserved word"),
        ("SELECT COUNT(*) FROM t UNION ALL", "it ends too early, after '"),
        ("SELECT COUNT(*) FROM t WHERE x = 'a' UNION", "it ends too early, after '"),
        ("SELECT COUNT(*) FROM t WHERE x = = 'a'", "does not parse near '= 'a''"),
        ("SELECT COUNT(*) FORM t", "does not parse near 't'"),
        ("SELECT COUNT(*) FROM 2024_visits", 'begins with a digit needs quotes. Write "2024_visits"'),
        ("SELECT COUNT(*) FROM t WHERE x = '3rd floor' FORM", "does not parse near 'FORM'"),
        ("SELECT COUNT(*) FROM t WHERE x = 'a')", "does not parse near ')'"),
        ("SELECT COUNT(*) FROM t GROUP BY", "GROUP BY is not followed by a column"),
        ("SELECT COUNT(*) FROM t WHERE x = Grippe", "Text goes in single quotes: 'Grippe'."),
        ('SELECT COUNT(*) FROM t WHERE x = "Grippe"', "Text goes in single quotes: 'Grippe'."),
        ("SELECT COUNT(*) FROM t WHERE x IN ('Husten', Grippe)", "Text goes in single quotes: 'Grippe'."),
    ],
)
def test_in_plain_words(sql: str, words: str) -> None:
    with pytest.raises(QueryError) as refused:
        plan_query(sql, SCHEMA)
    assert words in str(refused.value)
    assert not any(inside in str(refused.value) for inside in ("class", "keyword", "sqlglot", "token", "\x1b"))


@pytest.mark.parametrize("condition", ["y = 'Grippe'", 'alter_ = 3 OR "alter" = years'])
def test_a_wrong_column_is_not_taken_for_a_text(condition: str) -> None:
    with pytest.raises(QueryError, match="There is no column") as refused:
        plan_query(f"SELECT COUNT(*) FROM t WHERE {condition}", SCHEMA)
    assert "quotes" not in str(refused.value)


def test_the_advice_works() -> None:
    assert plan_query("SELECT AVG(\"alter\") FROM t WHERE x = 'Grippe'", SCHEMA).columns == ("x", "alter")
