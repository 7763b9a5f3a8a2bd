"""The bounds of a number computed from a date hold for every day within the column's own bounds: by asking each."""

from __future__ import annotations

import duckdb
import pytest

from dosimeter.errors import QueryError
from dosimeter.planning import plan_query
from dosimeter.schema import read_schema

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


def test_the_first_of_each_month_keeps_the_bounds_of_the_column() -> None:
    months = "make_date(EXTRACT(year FROM d), EXTRACT(month FROM d), 1)"
    (argument,) = plan_query(f"SELECT SUM(date_diff('day', DATE '2020-03-01', {months})) FROM t", SCHEMA).arguments
    assert (argument.lower, argument.upper) == (0, 702)  # 2020-03-01 and 2022-02-01


def test_dates_that_do_not_exist_at_the_bounds_are_left_out() -> None:
    """The column ends in a February, which has no 31st day; other months have, so its years are the bounds."""
    number = "date_diff('day', DATE '2020-01-01', make_date(EXTRACT(year FROM d), EXTRACT(month FROM d), 31))"
    (argument,) = plan_query(f"SELECT SUM({number}) FROM t", SCHEMA).arguments
    assert argument.lower <= 90  # 2020-03-31
    assert argument.upper >= 761  # 2022-01-31


def test_too_many_branches_are_refused() -> None:
    tree = "d"
    for _ in range(9):
        tree = f"CASE WHEN d = DATE '2021-06-01' THEN {tree} ELSE date_trunc('month', {tree}) END"
    with pytest.raises(QueryError):
        plan_query(f"SELECT SUM(EXTRACT(year FROM {tree})) FROM t", SCHEMA)
