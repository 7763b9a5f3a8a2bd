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
DAYS = "(SELECT CAST(range AS DATE) AS d FROM range(DATE '2020-03-15', DATE '2022-02-11', INTERVAL 1 DAY))"
AWAY = "CASE WHEN d BETWEEN DATE '2020-05-01' AND DATE '2020-07-01' THEN DATE '1900-01-01' ELSE d END"
NUMBERS = [
    f"EXTRACT(year FROM {AWAY})",
    f"EXTRACT(year FROM date_trunc('month', {AWAY}))",
    f"date_diff('day', DATE '2020-01-01', {AWAY})",
    f"date_diff('day', DATE '2020-01-01', GREATEST({AWAY}, DATE '1999-12-31'))",
    "EXTRACT(year FROM IF(d = DATE '2021-06-01', DATE '1900-01-01', d))",
    "EXTRACT(year FROM CASE WHEN d < DATE '2021-01-01' THEN CASE WHEN d > DATE '2020-12-01' THEN DATE '2050-01-01' END "
    "ELSE d END)",
    "EXTRACT(year FROM make_date(EXTRACT(year FROM d), EXTRACT(month FROM d), 1))",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_every_day_lies_within_the_bounds(number: str) -> None:
    (argument,) = plan_query(f"SELECT SUM({number}) FROM t", SCHEMA).arguments
    ((least, most),) = duckdb.execute(f"SELECT MIN({number}), MAX({number}) FROM {DAYS}").fetchall()
    assert argument.lower <= least < most <= argument.upper


def test_too_many_branches_are_refused() -> None:
    tree = "d"
    for _ in range(9):
        tree = f"CASE WHEN d = DATE '2021-06-01' THEN {tree} ELSE date_trunc('month', {tree}) END"
    with pytest.raises(QueryError):
        plan_query(f"SELECT SUM(EXTRACT(year FROM {tree})) FROM t", SCHEMA)
