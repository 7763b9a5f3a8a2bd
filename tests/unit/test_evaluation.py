"""Python's evaluation of a checked expression = DuckDB's, of the rebuilt tree and of the text as it was written."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import HealthCheck, given, note, reject, settings
from hypothesis import strategies as st
from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.schema.facts import Column, ColumnType, Schema
from dosimeter.sql import Scope, Type, check_expression
from dosimeter.sql.evaluation import evaluate
from dosimeter.sql.safe_arithmetic import make_total

SCHEMA = Schema(
    table="t",
    columns={
        "a": Column("a", ColumnType.INTEGER),
        "b": Column("b", ColumnType.INTEGER),
        "v": Column("v", ColumnType.DECIMAL),
        "s": Column("s", ColumnType.TEXT),
        "p": Column("p", ColumnType.BOOLEAN),
        "q": Column("q", ColumnType.BOOLEAN),
        "d": Column("d", ColumnType.DATE),
        "m": Column("m", ColumnType.TIMESTAMP),
    },
)
SCOPE = Scope(SCHEMA, frozenset({"t"}))
ARROW = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.int64()),
        ("v", pa.float64()),
        ("s", pa.string()),
        ("p", pa.bool_()),
        ("q", pa.bool_()),
        ("d", pa.date32()),
        ("m", pa.timestamp("us")),
    ]
)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values, values, values)


WHOLE = st.one_of(st.integers(-7, 7), st.integers(-(10**6), 10**6))
ROWS = st.fixed_dictionaries(
    {
        "a": maybe(WHOLE),
        "b": maybe(WHOLE),
        "v": maybe(st.one_of(st.sampled_from([0.0, -0.0, 0.5, 2.5, -1.25, 0.1, 0.3]), st.floats(-1e6, 1e6))),
        "s": maybe(st.text("aAbß%_\\'é\n", max_size=4)),
        "p": maybe(st.booleans()),
        "q": maybe(st.booleans()),
        "d": maybe(st.dates(date(1899, 12, 30), date(2101, 1, 2))),
        "m": maybe(st.datetimes(datetime.fromisoformat("1970-01-01"), datetime.fromisoformat("2030-01-01"))),
    }
)


# ---------------------------------------------------------------- expressions of each type


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


NUMBERS: st.SearchStrategy[str] = st.deferred(lambda: st.one_of(NUMBER_LEAVES, NUMBER_LEAVES, DEEPER_NUMBERS))
INTEGERS: st.SearchStrategy[str] = st.deferred(lambda: st.one_of(INTEGER_LEAVES, INTEGER_LEAVES, DEEPER_INTEGERS))
TEXTS: st.SearchStrategy[str] = st.deferred(lambda: st.one_of(TEXT_LEAVES, TEXT_LEAVES, DEEPER_TEXTS))
DATES: st.SearchStrategy[str] = st.deferred(lambda: st.one_of(DATE_LEAVES, DATE_LEAVES, DEEPER_DATES))
CONDITIONS: st.SearchStrategy[str] = st.deferred(lambda: st.one_of(CONDITION_LEAVES, DEEPER_CONDITIONS))

INTEGER_LEAVES = st.sampled_from(["a", "b", "0", "1", "2", "3", "7", "100000", "-2", "NULL"])
NUMBER_LEAVES = st.one_of(INTEGER_LEAVES, st.sampled_from(["v", "v", "0.5", "0.1", "1e3", "2.5e-3", "-0.25"]))
TEXT_LEAVES = st.sampled_from(["s", "s", "'a'", "''", "'ß'", "'It''s'"])
DATE_LEAVES = st.sampled_from(["d", "d", "DATE '2000-02-29'", "DATE '1999-12-31'"])
PARTS = st.sampled_from(["YEAR", "QUARTER", "MONTH", "DAY", "ISODOW"])
UNITS = st.sampled_from(["year", "quarter", "month", "week", "day"])
COMPARISON = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
PATTERNS = st.text("aAb%_é", max_size=5).map(literal)

DEEPER_INTEGERS = st.one_of(
    st.builds("({} {} {})".format, INTEGERS, st.sampled_from(["+", "-", "*", "//", "%"]), INTEGERS),
    st.builds("ABS({})".format, INTEGERS),
    st.builds("-({})".format, INTEGERS),
    st.builds("COALESCE({}, {})".format, INTEGERS, INTEGERS),
    st.builds("CASE WHEN {} THEN {} ELSE {} END".format, CONDITIONS, INTEGERS, INTEGERS),
    st.builds("CASE {} WHEN {} THEN {} END".format, INTEGERS, INTEGERS, INTEGERS),
    st.builds("EXTRACT({} FROM {})".format, PARTS, DATES),
    st.builds("EXTRACT({} FROM m)".format, st.sampled_from(["YEAR", "HOUR", "DAY"])),
    st.sampled_from(["YEAR(d)", "MONTH(m)", "HOUR(m)", "ISODOW(d)", "DATE_PART('quarter', d)"]),
)
DEEPER_NUMBERS = st.one_of(
    st.builds("({} {} {})".format, NUMBERS, st.sampled_from(["+", "-", "*", "/"]), NUMBERS),
    st.builds("{}({})".format, st.sampled_from(["ABS", "FLOOR", "CEIL", "-"]), NUMBERS),
    st.builds("COALESCE({}, {})".format, NUMBERS, NUMBERS),
    st.builds("IF({}, {}, {})".format, CONDITIONS, NUMBERS, NUMBERS),
)
DEEPER_TEXTS = st.one_of(
    st.builds("COALESCE({}, {})".format, TEXTS, TEXTS),
    st.builds("CASE WHEN {} THEN {} ELSE {} END".format, CONDITIONS, TEXTS, TEXTS),
)
DEEPER_DATES = st.one_of(
    st.builds("DATE_TRUNC('{}', {})".format, UNITS, DATES),
    st.builds("DATE_TRUNC('{}', m)".format, UNITS),
    st.builds("COALESCE({}, {})".format, DATES, DATES),
)
CONDITION_LEAVES = st.one_of(
    st.sampled_from(["p", "q", "TRUE", "FALSE"]),
    st.builds("{} {} {}".format, INTEGERS, COMPARISON, INTEGERS),
    st.builds("{} {} {}".format, TEXTS, COMPARISON, TEXTS),
    st.builds("{} {} {}".format, NUMBERS, COMPARISON, NUMBERS),
)
DEEPER_CONDITIONS = st.one_of(
    st.builds("({}) AND ({})".format, CONDITIONS, CONDITIONS),
    st.builds("({}) OR ({})".format, CONDITIONS, CONDITIONS),
    st.builds("{} AND {} OR {}".format, CONDITIONS, CONDITIONS, CONDITIONS),
    st.builds("NOT ({})".format, CONDITIONS),
    st.builds("{} {} {}".format, DATES, COMPARISON, DATES),
    st.builds("d {} {}".format, COMPARISON, st.sampled_from(["'2000-01-01'", "'1950-06-30'"])),
    st.builds("m {} {}".format, COMPARISON, st.sampled_from(["'2000-01-01'", "TIMESTAMP '1999-06-30 12:00:00'"])),
    st.builds("({} {}BETWEEN {} AND {})".format, INTEGERS, st.sampled_from(["", "NOT "]), INTEGERS, INTEGERS),
    st.builds("{} {}IN ({}, {})".format, INTEGERS, st.sampled_from(["", "NOT "]), INTEGERS, INTEGERS),
    st.builds("{} IN ({}, 'a')".format, TEXTS, TEXTS),
    st.builds("({}) IS {}NULL".format, st.one_of(INTEGERS, TEXTS, DATES), st.sampled_from(["", "NOT "])),
    st.builds("{} {}LIKE {}".format, TEXTS, st.sampled_from(["", "NOT "]), PATTERNS),
)
ANY = st.one_of(NUMBERS, INTEGERS, TEXTS, DATES, CONDITIONS)
SLOW = [check for check in HealthCheck if check is not HealthCheck.filter_too_much]  # few may be rejected


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"python_enable_replacements": "false", "threads": "1"})


def ask(connection: duckdb.DuckDBPyConnection, sql: str, row: dict[str, Any]) -> Any:
    connection.register("t", pa.Table.from_pylist([row], schema=ARROW))
    found = connection.execute(f"SELECT {sql} FROM t").fetchall()[0][0]
    return float(found) if isinstance(found, Decimal) else found


def normal(value: Any) -> Any:
    """Numbers are compared as numbers, whatever type carries them; a midnight is its date."""
    if isinstance(value, bool) or not isinstance(value, (int, float, datetime)):
        return value
    if isinstance(value, datetime):
        return value.date() if value == datetime.combine(value.date(), time()) else value
    return float(value) + 0.0


def agree(left: Any, right: Any) -> bool:
    left, right = normal(left), normal(right)
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-12)
    return type(left) is type(right) and left == right


def check(connection: duckdb.DuckDBPyConnection, sql: str, row: dict[str, Any]) -> None:
    tree = sqlglot.parse_one(f"SELECT {sql}", read="duckdb").expressions[0]
    try:
        checked = check_expression(tree, SCOPE)
    except QueryError:  # NULL % 2, comparisons in a chain …
        reject()
    total = make_total(checked.tree, SCOPE.schema)
    found = evaluate(total, row)
    rebuilt = total.sql(dialect="duckdb")
    note(f"{sql}\n{rebuilt}\n{row}")
    expected = ask(connection, rebuilt, row)
    assert agree(found, expected), (found, expected)
    if checked.type is not Type.NULL and found is not None:
        numbers = (int, float)  # arithmetic is done in doubles; whole numbers stay whole
        kinds = {Type.TEXT: str, Type.BOOLEAN: bool, Type.INTEGER: numbers, Type.NUMBER: numbers, Type.DATE: date}
        assert isinstance(found, kinds[checked.type])
        assert checked.type is not Type.INTEGER or found == int(found)
    # DuckDB's own / and 32-bit literals differ on purpose, and so do numbers below 1e-100, which are taken for 0: there
    # the rebuilt tree is what counts.
    tiny = row["v"] is not None and 0 < abs(row["v"]) < 1e-100
    if not tiny and not any(mark in sql for mark in ("/", "%", ".", "e-", "1e3", "100000")):
        assert agree(found, ask(connection, sql, row)), "the rebuilt tree means what was written"


@settings(max_examples=400, suppress_health_check=SLOW)
@given(sql=ANY, row=ROWS)
def test_python_agrees_with_duckdb(connection: duckdb.DuckDBPyConnection, sql: str, row: dict[str, Any]) -> None:
    check(connection, sql, row)


@pytest.mark.long
@settings(max_examples=5000, derandomize=False, suppress_health_check=SLOW)
@given(sql=ANY, row=ROWS)
def test_python_agrees_with_duckdb_at_length(
    connection: duckdb.DuckDBPyConnection, sql: str, row: dict[str, Any]
) -> None:
    check(connection, sql, row)


ROW: dict[str, Any] = {
    "a": -7,
    "b": 0,
    "v": 2.5,
    "s": "Ada\n",
    "p": True,
    "q": None,
    "d": date(2024, 12, 30),
    "m": datetime.fromisoformat("2024-12-31T23:59:59"),
}


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("a // 2", -3),
        ("a % 2", -1),
        ("a % -4", -3),
        ("a // -2", 3),
        ("a / 0", None),
        ("a // b", None),
        ("a % b", None),
        ("1 / 4", 0.25),
        ("v / 0.0", None),
        ("q AND FALSE", False),
        ("q AND TRUE", None),
        ("q OR TRUE", True),
        ("NOT q", None),
        ("q IN (TRUE, FALSE)", None),
        ("a IN (1, NULL)", None),
        ("a NOT IN (1, NULL)", None),
        ("a IN (-7, NULL)", True),
        ("a BETWEEN NULL AND -8", False),
        ("a BETWEEN NULL AND 8", None),
        ("COALESCE(q, p)", True),
        ("CASE WHEN q THEN 1 ELSE 2 END", 2),
        ("CASE q WHEN NULL THEN 1 END", None),
        ("s LIKE 'A%'", True),
        ("s LIKE 'Ada_'", True),
        ("s LIKE 'ada%'", False),
        ("s LIKE '%d%d%'", False),
        ("s NOT LIKE '%a%'", False),
        ("'' LIKE '%'", True),
        ("'' LIKE '_'", False),
        ("EXTRACT(ISODOW FROM d)", 1),
        ("EXTRACT(QUARTER FROM d)", 4),
        ("DATE_TRUNC('week', d)", date(2024, 12, 30)),
        ("DATE_TRUNC('quarter', m)", date(2024, 10, 1)),
        ("HOUR(m)", 23),
        ("100000 * 100000 * a", -70_000_000_000),
        ("0.1 + 0.2 = 0.3", True),  # decimals, as in DuckDB
        ("1e-1 + 2e-1 = 3e-1", False),
        ("'2024-12-30' BETWEEN '2024-01-01' AND d", True),
        ("'2024-12-30' IN (d, '2020-01-01')", True),
        ("9007199254740991 % 2", 1),
        ("-9007199254740991 // 1000", -9007199254740),
    ],
)
def test_worth_naming(connection: duckdb.DuckDBPyConnection, sql: str, value: Any) -> None:
    tree = sqlglot.parse_one(f"SELECT {sql}", read="duckdb").expressions[0]
    rebuilt = make_total(check_expression(tree, SCOPE).tree, SCOPE.schema)
    assert evaluate(rebuilt, ROW) == value
    assert agree(ask(connection, rebuilt.sql(dialect="duckdb"), ROW), value)


def test_like_never_runs_away() -> None:
    tree = sqlglot.parse_one("SELECT s LIKE '" + "%a" * 30 + "%b'", read="duckdb").expressions[0]
    assert evaluate(check_expression(tree, SCOPE).tree, {"s": "a" * 2000}) is False


def test_post_processing_survives_what_overflows() -> None:
    estimate = exp.Column(this=exp.to_identifier("e0"))
    huge = exp.Mul(this=estimate, expression=exp.Literal.number("1e300"))
    third = exp.Div(this=estimate.copy(), expression=exp.Literal.number(3))
    assert evaluate(exp.Floor(this=huge), {"e0": 1e300}) == math.inf
    assert evaluate(third, {"e0": 10**400}) is None
    assert evaluate(exp.Greatest(this=exp.Null(), expressions=[exp.Literal.number(3)]), {}) == 3


def test_an_unchecked_tree_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="not checked"):
        evaluate(exp.Upper(this=exp.Literal.string("x")), {})
