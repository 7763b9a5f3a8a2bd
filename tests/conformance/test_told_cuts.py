"""How many individuals were cut and clamped (E5): every engine counts what plain Python counts over the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dosimeter import Dataset
from tests.conformance.engine_cases import on_every_engine
from tests.conformance.group_tables import ROWS, WARDS, Row, clean, kept_rows
from tests.known import known


def is_large(row: Row) -> bool:
    """Whether the cost is out of its bounds."""
    return row["cost"] is not None and row["cost"] > 200


def is_far(row: Row) -> bool:
    """Whether x is out of its bounds."""
    return row["x"] is not None and not -1 <= row["x"] <= 3


CASES: list[tuple[str, Callable[[Row], bool], Callable[[Row], bool]]] = [
    (
        "SELECT ward, SUM(cost) AS s, SUM(x) AS x FROM visits WHERE topic IS NOT NULL GROUP BY ward",
        lambda row: row["ward"] in (*WARDS, None) and row["topic"] is not None,
        lambda row: is_large(row) or is_far(row),
    ),
    ("SELECT MEDIAN(cost) AS m FROM visits", lambda _: True, is_large),
    (
        "SELECT SUM(CASE WHEN urgent THEN 0 ELSE x END) AS s FROM visits WHERE topic LIKE '%u%'",
        lambda row: row["topic"] is not None and "u" in row["topic"],
        lambda row: row["urgent"] is not True and is_far(row),
    ),
]


@pytest.mark.parametrize("by_row", [False, True], ids=["units", "rows"])
@pytest.mark.parametrize(("engine", "case"), on_every_engine(CASES, often=[0], smoke=[0]))
def test_every_engine_tells_the_same(
    grouped_in: Callable[[str, bool], Dataset], engine: str, case: Any, by_row: bool
) -> None:
    sql, within, clamped = case
    risk = grouped_in(engine, by_row).query(sql, tell_cut=0.3).risk()
    rows = [clean(row) | {"pid": at if by_row else row["pid"]} for at, row in enumerate(ROWS)]
    kept = rows if by_row else kept_rows(rows)
    owned = [Counter(row["pid"] for row in part if within(row)) for part in (rows, kept)]
    expected = {
        "cut": len(owned[0] - owned[1]),
        "clamped": len({row["pid"] for row in kept if within(row) and clamped(row)}),
    }
    assert expected["clamped"] > 0
    assert (expected["cut"] > 0) is not by_row
    measured = known(risk.plan.told).measured
    assert measured == (("clamped",) if by_row else ("cut", "clamped"))
    assert [int(each) for each in risk.measured().blocks[-1].values[0]] == [expected[name] for name in measured]
    assert risk.contributions.norms(1).max() <= risk.sensitivity * (1 + 1e-9)
