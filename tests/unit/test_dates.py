"""Dates and moments: bounds of numbers computed from them, and the time between two, by asking every one."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from dosimeter.errors import QueryError
from dosimeter.planning import plan_query
from dosimeter.schema import read_schema
from dosimeter.schema.facts import Column, ColumnType, Schema
from dosimeter.sql import Scope, check_condition
from tests.shared_duckdb import ask_plain_duckdb

SCHEMA = read_schema(
    {"table": "t", "columns": {"d": {"type": "date", "bounds": ["2020-03-15", "2022-02-10"]}}, "individuals": 9}
)
DAYS = """(
    SELECT CAST(range AS DATE) AS d FROM range(DATE '2020-03-15', DATE '2022-02-11', INTERVAL 1 DAY)
    WHERE day(range) < 29
)"""
AWAY = "CASE WHEN d BETWEEN DATE '2020-05-01' AND DATE '2020-07-01' THEN DATE '1900-01-01' ELSE d END"
NUMBERS = [
    f"EXTRACT(year FROM {AWAY})",
    f"EXTRACT(year FROM date_trunc('month', {AWAY}))",
    f"date_diff('day', DATE '2020-01-01', {AWAY})",
    f"date_diff('day', DATE '2020-01-01', GREATEST({AWAY}, DATE '1999-12-31'))",
    "EXTRACT(year FROM IF(d = DATE '2021-06-01', DATE '1900-01-01', d))",
    "EXTRACT(year FROM CASE WHEN d < DATE '2021-01-01' THEN CASE WHEN d > DATE '2020-12-01' THEN DATE '2050-01-01' END "
    "ELSE d END)",
    "date_diff('day', DATE '2020-01-01', make_date(EXTRACT(year FROM d), EXTRACT(month FROM d), 1))",
    "date_diff('day', DATE '2020-01-01', make_date(2020, EXTRACT(month FROM d), 1))",
    "date_diff('day', DATE '2020-01-01', make_date(EXTRACT(year FROM d), 6, EXTRACT(day FROM d)))",
    "date_diff('day', DATE '2020-01-01', make_date(EXTRACT(year FROM d), EXTRACT(month FROM d), EXTRACT(day FROM d)))",
    "date_diff('day', DATE '2020-01-01', last_day(make_date(EXTRACT(year FROM d), 2, EXTRACT(day FROM d))))",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_every_day_lies_within_the_bounds(number: str) -> None:
    (argument,) = plan_query(f"SELECT SUM({number}) FROM t", SCHEMA).arguments
    ((least, most),) = duckdb.execute(f"SELECT MIN({number}), MAX({number}) FROM {DAYS}").fetchall()
    assert argument.lower <= least < most <= argument.upper


def test_dates_that_are_made_of_numbers_keep_the_bounds_of_the_column_where_they_exist() -> None:
    """It ends in a February, which has no 31st day; other months have, so its years are the bounds."""
    number = "date_diff('day', DATE '2020-03-01', make_date(EXTRACT(year FROM d), EXTRACT(month FROM d), {}))"
    first, last = (plan_query(f"SELECT SUM({number.format(day)}) FROM t", SCHEMA).arguments[0] for day in (1, 31))
    assert (first.lower, first.upper) == (0, 702)  # 2020-03-01 and 2022-02-01
    assert last.lower <= 30 <= 701 <= last.upper  # 2020-03-31 and 2022-01-31


def test_too_many_branches_are_refused() -> None:
    tree = "d"
    for _ in range(9):
        tree = f"CASE WHEN d = DATE '2021-06-01' THEN {tree} ELSE date_trunc('month', {tree}) END"
    with pytest.raises(QueryError):
        plan_query(f"SELECT SUM(EXTRACT(year FROM {tree})) FROM t", SCHEMA)


# ---------------------------------------------------------------- the time between two


MOMENTS = [
    datetime.fromisoformat(text)
    for text in (
        "0001-01-01 00:00:00", "0001-01-31 00:00:00.000001", "1969-12-31 23:59:59.999999", "2024-02-28 12:00:00",
        "2024-02-29 12:00:00", "2024-03-30 11:59:59.999999", "2024-03-30 12:00:00", "9999-12-01 00:00:00",
        "9999-12-31 23:59:59.999999",
    )
]  # fmt: skip
INTERVALS = {
    "INTERVAL 30 DAY": timedelta(days=30),
    "'1 day -1 second'::INTERVAL": timedelta(days=1, seconds=-1),
    "INTERVAL '-4' WEEK": timedelta(weeks=-4),
    "INTERVAL 0 SECOND": timedelta(),
    "INTERVAL 36 HOUR": timedelta(hours=36),
    "INTERVAL 3650000 DAY": timedelta(days=3_650_000),
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne,
}  # fmt: skip
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
KINDS = {"end": ColumnType.TIMESTAMP, "start": ColumnType.TIMESTAMP, "day": ColumnType.DATE, "eve": ColumnType.DATE}
COLUMNS = {name: Column(name, kind) for name, kind in KINDS.items()}
SCOPE = Scope(Schema(table="t", individuals=100, columns=COLUMNS), frozenset({"t"}))
PAIRS = [(end, start) for end in [*MOMENTS, None] for start in [*MOMENTS, None]]


def as_moment(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime.combine(value, time())


@pytest.fixture(scope="module")
def pairs() -> pa.Table:
    return pa.table(
        {
            "end": pa.array([end for end, _ in PAIRS], pa.timestamp("us")),
            "start": pa.array([start for _, start in PAIRS], pa.timestamp("us")),
            "day": pa.array([end and end.date() for end, _ in PAIRS], pa.date32()),
            "eve": pa.array([start and start.date() for _, start in PAIRS], pa.date32()),
        }
    )


def ask(connection: duckdb.DuckDBPyConnection, sql: str) -> list[bool | None]:
    tree = check_condition(sqlglot.parse_one(f"SELECT {sql}", read="duckdb").expressions[0], SCOPE)
    return [row[0] for row in connection.execute(f"SELECT {tree.sql(dialect='duckdb')} FROM pairs").fetchall()]


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("sign", COMPARISONS)
def test_differences_compare_as_pythons_do(pairs: pa.Table, sign: str, interval: str) -> None:
    rows = pairs.to_pylist()
    with ask_plain_duckdb(pairs=pairs) as connection:
        for end, start in (("end", "start"), ("day", "eve"), ("day", "start"), ("end", "eve")):
            expected = [
                None
                if row["end"] is None or row["start"] is None
                else COMPARISONS[sign](as_moment(row[end]) - as_moment(row[start]), INTERVALS[interval])
                for row in rows
            ]
            assert ask(connection, f'"{end}" - {start} {sign} {interval}') == expected
            assert ask(connection, f'{interval} {MIRRORED[sign]} ("{end}" - {start})') == expected


def test_a_written_out_date_may_stand_on_either_side(pairs: pa.Table) -> None:
    noon = datetime.fromisoformat("2024-03-01 12:00:00")
    late = date(9999, 12, 31)
    with ask_plain_duckdb(pairs=pairs) as connection:
        found = ask(connection, "\"end\" - TIMESTAMP '2024-03-01 12:00:00' <= INTERVAL 29 DAY")
        assert found == [None if end is None else end - noon <= timedelta(days=29) for end, _ in PAIRS]
        found = ask(connection, "TIMESTAMP '2024-03-01 12:00:00' - start > INTERVAL -29 DAY")
        assert found == [None if start is None else noon - start > timedelta(days=-29) for _, start in PAIRS]
        found = ask(connection, "\"end\" - DATE '9999-12-31' < INTERVAL 36 HOUR")
        assert found == [None if end is None else end - as_moment(late) < timedelta(hours=36) for end, _ in PAIRS]
