"""What is measured has one digest whatever its wording: those that share one measure the same, by DuckDB's word."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.planning.identity import digest_measured
from dosimeter.planning.planner import plan_query
from dosimeter.schema.toml import read_schema
from tests.schemas import plain, whole

COLUMNS = {"a": whole(0, 3), "b": whole(0, 3), "f": plain("boolean"), "g": plain("boolean")}
SCHEMA = read_schema({"table": "t", "columns": COLUMNS})
VALUES: list[list[int | None]] = [[0, 1, 2, None], [1, 2, None], [True, False, None], [True, False, None]]
TABLE = pa.table(dict(zip("abfg", map(list, zip(*itertools.product(*VALUES), strict=True)), strict=True)))

atoms = st.sampled_from(
    ["f", "g", "a > 1", "1 < a", "a <= 1", "a = b", "b = a", "a <> b", "a BETWEEN 1 AND 2", "a IN (1, 2)",
     "a IN (2, 1, 1)", "a IS NULL", "TRUE", "FALSE", "1 = 1", "2 < 1", "f = TRUE", "f = FALSE", "g <> TRUE",
     "a + b > 2", "b + a > 2"]
)  # fmt: skip
conditions = st.recursive(
    atoms,
    lambda inner: (
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) AND ({two[1]})")
        | st.tuples(inner, inner).map(lambda two: f"({two[0]}) OR ({two[1]})")
        | inner.map(lambda one: f"NOT ({one})")
    ),
    max_leaves=4,
)


def digest(sql: str) -> str:
    return digest_measured(plan_query(sql, SCHEMA))


def truth(condition: str) -> list[Any]:
    """Return where DuckDB finds the condition true, row by row: NULL is not, as in a WHERE."""
    return [row[0] for row in connect().execute(f"SELECT COALESCE(({condition}), FALSE) FROM t").fetchall()]


@cache
def connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": "1"})
    connection.register("t", TABLE)
    return connection


@settings(max_examples=25)
@given(st.lists(conditions, min_size=8, max_size=8))
def test_conditions_with_one_digest_hold_for_the_same_rows(several: list[str]) -> None:
    held: dict[str, list[Any]] = {}
    for condition in several:
        key = digest(f"SELECT COUNT(*) FROM t WHERE {condition}")
        found = truth(condition)
        assert held.setdefault(key, found) == found, condition


@settings(max_examples=25)
@given(conditions, conditions)
def test_what_changes_nothing_does_not_count(one: str, other: str) -> None:
    plain = digest(f"SELECT COUNT(*) FROM t WHERE {one}")
    for same in (
        f"({one}) AND 1 = 1",
        f"TRUE AND ({one})",
        f"({one}) OR FALSE",
        f"NOT (NOT ({one}))",
        f"({one}) AND ({one})",
    ):
        assert digest(f"SELECT COUNT(*) AS x FROM t WHERE {same}") == plain
    assert digest(f"SELECT COUNT(*) FROM t WHERE ({one}) AND ({other})") == digest(
        f"SELECT COUNT(*) FROM t WHERE ({other}) AND ({one})"
    )


def test_what_is_measured_counts_and_what_is_made_of_it_does_not() -> None:
    same = [
        "SELECT f, SUM(a), COUNT(*) FROM t GROUP BY f",
        "SELECT COUNT(*) AS n, SUM(a) / 2 AS half, f FROM t GROUP BY f HAVING COUNT(*) > 3 ORDER BY n LIMIT 2",
        "SELECT SUM(x) AS s, COUNT(*) FROM (SELECT a AS x, f AS y FROM t) GROUP BY y",
    ]
    others = [
        "SELECT f, SUM(b), COUNT(*) FROM t GROUP BY f",
        "SELECT f, SUM(a) FROM t GROUP BY f",
        "SELECT g, SUM(a), COUNT(*) FROM t GROUP BY g",
        "SELECT SUM(a), COUNT(*) FROM t",
        "SELECT f, SUM(a), COUNT(b) FROM t GROUP BY f",
        "SELECT f, SUM(a) FILTER (WHERE g), COUNT(*) FROM t GROUP BY f",
        "SELECT f, MIN(a), COUNT(*) FROM t GROUP BY f",
        "SELECT f, MAX(a), COUNT(*) FROM t GROUP BY f",
    ]
    assert len({digest(sql) for sql in same}) == 1
    assert len({digest(sql) for sql in (same[0], *others)}) == len(others) + 1


def test_a_thousand_conditions_side_by_side_are_looked_through() -> None:
    many = " AND ".join(f"a <> {at}" for at in range(1000))
    assert digest(f"SELECT COUNT(*) FROM t WHERE {many}") == digest(f"SELECT COUNT(*) FROM t WHERE 1 = 1 AND {many}")


def test_trees_of_the_plan_are_left_as_they_were() -> None:
    plan = plan_query("SELECT COUNT(*) FROM t WHERE a BETWEEN 1 AND 2 AND f", SCHEMA)
    assert plan.where is not None
    before = plan.where.sql()
    digest_measured(plan)
    assert plan.where.sql() == before
    assert all(node.parent is not None for node in plan.where.walk() if node is not plan.where)
