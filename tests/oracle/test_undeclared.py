"""Rows in no declared group, among rows of chosen individuals: counted by hand, whoever else has such rows."""

from __future__ import annotations

import pytest

from tests.oracle.leaving_out import expand
from tests.oracle.people_tables import COLUMNS, Row, Tables

CHOSEN = "pid IN (SELECT pid FROM visits WHERE sick)"


def visit(pid: str, vid: int, ward: str | None, sick: bool) -> Row:
    return {**dict.fromkeys(COLUMNS), "pid": pid, "vid": vid, "ward": ward, "sick": sick}


@pytest.mark.parametrize(
    ("chosen_ward", "other_ward", "undeclared"),
    [("A", "A", 0), ("A", "Nowhere", 0), ("A", None, 0), ("Nowhere", "A", 1), (None, "Nowhere", 1)],
)
@pytest.mark.parametrize("having", [CHOSEN, f"{CHOSEN} AND sick", f"NOT {CHOSEN} OR {CHOSEN}"])
def test_only_rows_of_the_chosen_are_counted(
    chosen_ward: str | None, other_ward: str | None, undeclared: int, having: str
) -> None:
    rows = [visit("p", 1, "A", True), visit("p", 2, chosen_ward, True), visit("q", 3, other_ward, False)]
    everybody = " OR " in having
    with Tables(rows, [], 3, 1).open() as dataset:
        risk = dataset.risk(f"SELECT ward, COUNT(*) FROM visits WHERE {having} GROUP BY ward")
        assert risk.profile is not None
        outside = undeclared + (everybody and other_ward not in ("A",))
        assert risk.profile.undeclared == outside
        moved = sorted(sum(vector) for vector in expand(risk.contributions))
    first, second = 1.0 + (chosen_ward == "A"), 1.0 if everybody and other_ward == "A" else 0.0
    assert moved == sorted([first, second])
