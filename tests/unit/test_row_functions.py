"""An expression of one row, rebuilt for every engine, means what DuckDB makes of the text as it was written.

Where DuckDB gives an error, NaN or an infinity, the rebuilt one gives NULL; whatever the data hold, it never fails.
"""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import pytest
import sqlglot
from hypothesis import HealthCheck, Phase, assume, given, note, settings

from dosimeter.errors import QueryError
from dosimeter.planning.rows.grid import put_on_grid
from dosimeter.sql import Checked, Scope, Type, check_expression, make_total
from tests.shares import Share
from tests.unit.row_expressions import ANY, EXTREME, NUMBERS, PLAIN, SCHEMA

SCOPE = Scope(SCHEMA, frozenset({"t"}))
# What fails is printed with its SQL, which is short enough: shrinking would take minutes.
AS_FOUND = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect(config={"python_enable_replacements": "false", "threads": "1"})
    found.register("plain", PLAIN)
    found.register("extreme", EXTREME)
    return found


def rebuild(sql: str) -> Checked:
    tree = sqlglot.parse_one(f"SELECT {sql}", read="duckdb").expressions[0]
    checked = check_expression(tree, SCOPE)
    return Checked(make_total(checked.tree, SCHEMA), checked.type)


def ask(connection: duckdb.DuckDBPyConnection, sql: str, table: str = "plain") -> list[Any]:
    return [row[0] for row in connection.execute(f"SELECT {sql} FROM {table}").fetchall()]


def normal(value: Any) -> Any:
    """Compare numbers as numbers, whatever type carries them; a midnight is its date; what is no number is NULL."""
    if isinstance(value, datetime):
        return value.date() if value == datetime.combine(value.date(), time()) else value
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return float(value) if math.isfinite(value) else None
    return value


def agree(found: Any, expected: Any) -> bool:
    found, expected = normal(found), normal(expected)
    if isinstance(found, float) and isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return type(found) is type(expected) and bool(found == expected)


def compare(connection: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Whether the expression is accepted; if so, it must mean the same, and no data may make it fail."""
    try:
        checked = rebuild(sql)
    except QueryError:
        return False
    rebuilt = checked.tree.sql(dialect="duckdb")
    note(f"{sql}\n{rebuilt}")
    for value in ask(connection, rebuilt, "extreme"):
        assert not isinstance(value, float) or math.isfinite(value)
        assert not isinstance(value, str) or checked.type is Type.TEXT  # days beyond the year 9999 come as text
    found, expected = ask(connection, rebuilt), ask(connection, f"TRY({sql})")
    for one, other in zip(found, expected, strict=True):
        assert agree(one, other), (one, other)
        if checked.type is Type.INTEGER and one is not None:
            assert one == int(one)
    return True


# How many examples, and how long they may be: nearly all that is longer is refused for its size, after most of the time
# was spent on it.
AT_LENGTH = pytest.mark.parametrize(
    ("examples", "longest"), [(40, 250), pytest.param(5_000, 100_000, marks=pytest.mark.long)], ids=["short", "any"]
)


@AT_LENGTH
def test_rebuilt_means_what_was_written_and_never_fails(
    connection: duckdb.DuckDBPyConnection, examples: int, longest: int
) -> None:
    share = Share()

    @settings(AS_FOUND, max_examples=examples)
    @given(sql=ANY)
    def check(sql: str) -> None:
        assume(len(sql) <= longest)
        share.count(compare(connection, sql))

    check()
    share.require(0.4)


@AT_LENGTH
def test_bounds_hold_for_any_data(connection: duckdb.DuckDBPyConnection, examples: int, longest: int) -> None:
    """Inside an aggregate: whole numbers of steps within the bounds (S9), near what the plain value is (Q1)."""
    share = Share()

    @settings(AS_FOUND, max_examples=examples)
    @given(sql=NUMBERS)
    def check(sql: str) -> None:
        assume(len(sql) <= longest)
        try:
            tree = sqlglot.parse_one(f"SELECT {sql}", read="duckdb").expressions[0]
            gridded = put_on_grid(check_expression(tree, SCOPE).tree, SCHEMA, "SUM")
        except QueryError:
            share.count(False)
            return
        share.count(True)
        text = gridded.tree.sql(dialect="duckdb")
        note(f"{sql}\n{text}")
        for value in ask(connection, text, "extreme") + ask(connection, text):
            assert value is None or (isinstance(value, int) and gridded.lower <= value <= gridded.upper)
            assert value is None or not gridded.stride or (value - gridded.lower) % gridded.stride == 0

    check()
    share.require(0.2)


ON_GRID = [
    "v / 4", "v / w", "a / b", "SQRT(w)", "LN(w)", "LOG10(w)", "EXP(w)", "ROUND(v)", "ROUND(w, 1)", "ROUND(a, -1)",
    "FLOOR(v / 5) * 5", "CEIL(w)", "TRUNC(v)", "a // 7", "a % 7", "MOD(a, b)", "GREATEST(v, 0)", "LEAST(a, b, 3)",
    "POWER(v, 2)", "POWER(w, -1)", "CAST(v AS INTEGER)", "CAST(p AS INTEGER)", "CAST(w AS DECIMAL(5, 1))", "SIGN(v)",
    "DATE_DIFF('day', e, d)", "DATE_DIFF('month', e, m)", "DATE_DIFF('hour', d, m)", "DATE_DIFF('week', e, d)",
    "d - DATE '2024-01-01'", "YEAR(d)", "EXTRACT(DOW FROM m)", "LENGTH(c)", "CAST(c AS INTEGER)", "NULLIF(b, 0)",
    "DATE_DIFF('day', e, COALESCE(d, DATE '2024-06-30'))", "IF(p, DATE_DIFF('day', DATE_TRUNC('month', d), m), 0)",
]  # fmt: skip


@pytest.mark.parametrize("sql", ON_GRID)
def test_on_the_grid_it_is_what_was_written(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """For rows within the bounds and on the grid of their columns; a value on no grid is off by half a step at most."""
    tree = sqlglot.parse_one(f"SELECT {sql}", read="duckdb").expressions[0]
    gridded = put_on_grid(check_expression(tree, SCOPE).tree, SCHEMA, "SUM")
    inside = "v % 0.25 = 0 AND abs(w * 100 - round(w * 100)) < 1e-9 AND a BETWEEN -40 AND 60"
    rows = connection.execute(f"SELECT {gridded.tree.sql(dialect='duckdb')}, TRY({sql}) FROM plain WHERE {inside}")
    met = 0
    for step, expected in rows.fetchall():
        wanted = normal(expected)
        assert (step is None) == (wanted is None)
        if step is not None:
            met += 1
            assert float(step * gridded.unit) == pytest.approx(float(wanted), abs=float(gridded.unit) * 0.51, rel=1e-9)
    assert met


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("DATE '1998-12-01' - INTERVAL '90' DAY", date(1998, 9, 2)),
        ("DATE '2024-01-31' + INTERVAL 1 MONTH", date(2024, 2, 29)),
        (
            "TIMESTAMP '2024-01-31 10:00:00' + INTERVAL '1 month 1 day 2 hours'",
            datetime.fromisoformat("2024-03-01T12:00"),
        ),
        ("DATEDIFF('year', DATE '2024-12-31', DATE '2025-01-01')", 1),
        ("TO_CHAR(DATE '2024-03-09', 'YYYY-MM-DD')", "2024-03-09"),
        ("0.06 + 0.01 = 0.07", True),
        ("0.07::DOUBLE BETWEEN 0.06 - 0.01 AND 0.06 + 0.01", True),
        ("CAST(2.5::DOUBLE AS INTEGER)", 2),
        ("CAST(300 AS TINYINT)", None),
        ("CAST('12' AS INTEGER)", 12),
        ("CAST('x' AS INTEGER)", None),
        ("ROUND(2.5)", 3),
        ("ROUND(1250, -2)", 1300),
        ("SQRT(-1)", None),
        ("LN(0)", None),
        ("EXP(1000)", None),
        ("5 // 0", None),
        ("UPPER('straße')", "STRAẞE"),
        ("CONCAT('a', NULL, 1)", "a1"),
        ("'a' || NULL", None),
        ("NULL IS TRUE", False),
        ("2 ^ 3", 8),
        ("IIF(TRUE, 1, 2)", 1),
        ("MAKE_DATE(2023, 2, 29)", None),
        ("LAST_DAY(DATE '9999-12-05')", date(9999, 12, 31)),
    ],
)
def test_worth_naming(connection: duckdb.DuckDBPyConnection, sql: str, value: Any) -> None:
    assert agree(ask(connection, rebuild(sql).tree.sql(dialect="duckdb"))[0], value)


def test_texts_do_not_grow_without_end() -> None:
    sql = "c"
    for _ in range(12):
        sql = f"REPLACE({sql}, 'o', 'oooooooooo')"
    with pytest.raises(QueryError, match="1,000 characters"):
        rebuild(sql)
