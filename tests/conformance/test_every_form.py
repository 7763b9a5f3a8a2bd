"""No form is left to one engine: what the planner's tables know is asked of PostgreSQL and of Spark."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from dosimeter.measures import AGGREGATES
from dosimeter.planning.people.columns import OWN_AGGREGATES
from dosimeter.sql import NAMED_FUNCTIONS, ROW_FUNCTIONS
from tests.corpus.reading import read_corpus

BY_ROW, BY_UNIT, PEOPLE_QUERIES = (
    [each.sql for each in read_corpus(f"engines/{name}")] for name in ("rows", "units", "people")
)
CONDITIONS = [
    f"SELECT COUNT(*) FROM people WHERE {where}" for where in (each.sql for each in read_corpus("engines/conditions"))
]
WINDOWS = {exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue}
TOTALS = {exp.Rollup, exp.Cube, exp.GroupingSets}


def find_kinds(queries: list[str]) -> set[type[exp.Expr]]:
    return {type(node) for sql in queries for node in sqlglot.parse_one(sql, dialect="duckdb").walk()}


def test_every_function_of_a_row_is_compared() -> None:
    queries = [*CONDITIONS, *BY_ROW, *BY_UNIT, *PEOPLE_QUERIES]
    other_dialects = {exp.DateTrunc}  # the name that DATE_TRUNC has where it is not DuckDB's
    assert set(ROW_FUNCTIONS) - find_kinds(queries) == other_dialects
    assert [name for name in NAMED_FUNCTIONS if f"{name.upper()}(" not in "".join(queries)] == []


def test_every_aggregate_is_compared_by_row_and_by_individual() -> None:
    for queries in (BY_ROW, BY_UNIT):
        asked = find_kinds(queries)
        assert {*AGGREGATES, *TOTALS} - asked == set()


def test_every_question_about_people_is_compared() -> None:
    trees = [sqlglot.parse_one(sql, dialect="duckdb") for sql in PEOPLE_QUERIES]
    over = {type(node.this) for tree in trees for node in tree.find_all(exp.Window)}
    assert {*WINDOWS, exp.Sum, exp.Count, exp.CountIf, exp.Avg, exp.Min, exp.Max} - over == set()
    inside = {
        type(node)
        for tree in trees
        for query in tree.find_all(exp.Subquery)
        if query.this.args.get("group") is not None
        for node in query.walk()
    }
    assert set(OWN_AGGREGATES) - inside - {exp.Filter} == set()
    assert {exp.ArgMax, exp.ArgMin} <= inside
    assert {exp.In, exp.Exists, exp.Having, exp.Qualify, exp.Interval} <= find_kinds(PEOPLE_QUERIES)
    assert any(node.args.get("on") is not None for tree in trees for node in tree.find_all(exp.Distinct))
