"""NULL as a declared group (C8): on every engine the same rows are in it, and leaving people out changes the same.

The oracle deletes everybody in turn from plain Python rows (group_tables.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median
from typing import Any

import pytest

from dosimeter import Dataset
from tests.conformance.engine_cases import EVERY_ENGINE, on_every_engine
from tests.conformance.group_tables import (
    ROWS,
    WARDS,
    Key,
    Measure,
    Row,
    clean,
    count_vectors,
    kept_rows,
    leave_out,
    measure,
)

FLAGS: tuple[Any, ...] = (False, True, None)
XS: tuple[Any, ...] = (-1, 0, 1, 2, 3, None)
WARDS_OR_NULL: tuple[Any, ...] = (*WARDS, None)
REGIONS = {1: "north", 2: "south", 3: None}


def count(rows: Sequence[Row]) -> list[int]:
    return [len(rows)]


def halves(rows: Sequence[Row]) -> list[Fraction]:
    """The median of x, clamped to its bounds; the middle of them where there is none (C6)."""
    xs = [Fraction(min(max(row["x"], -1), 3)) for row in rows if row["x"] is not None]
    return [median(xs) if xs else Fraction(1)]


@dataclass(frozen=True)
class Case:
    """A query, the groups that it has, in order, the group of a row, and what is measured of a group's rows."""

    sql: str
    keys: tuple[Key, ...]
    key: Callable[[Row], Key]
    value: Measure = count


def one(values: Sequence[Any]) -> tuple[Key, ...]:
    return tuple((value,) for value in values)


CASES = [
    Case("SELECT ward, COUNT(*) FROM visits GROUP BY ward", one(WARDS_OR_NULL), lambda row: (row["ward"],)),
    Case("SELECT x, COUNT(*) FROM visits GROUP BY x", one(XS), lambda row: (row["x"],)),
    Case(
        "SELECT ward, urgent, COUNT(*) FROM visits WHERE x > 0 OR ward IS NULL GROUP BY ward, urgent",
        tuple((w, u) for w in WARDS_OR_NULL for u in FLAGS),
        lambda row: (row["ward"], row["urgent"]) if (row["x"] or 0) > 0 or row["ward"] is None else ("outside",),
    ),
    Case(
        "SELECT CASE WHEN urgent THEN ward END AS c, COUNT(*) FROM visits GROUP BY c",
        one((*sorted(WARDS), None)),
        lambda row: (row["ward"] if row["urgent"] else None,),
    ),
    Case(
        "SELECT NULLIF(ward, 'b'), COUNT(*) FROM visits GROUP BY 1",
        one(("A", "O'X", None)),
        lambda row: (None if row["ward"] == "b" else row["ward"],),
    ),
    Case(
        "SELECT COALESCE(ward, 'none') AS c, COUNT(*) FROM visits GROUP BY c",
        one((*sorted([*WARDS, "none"]),)),
        lambda row: ("none" if row["ward"] is None else row["ward"],),
    ),
    Case("SELECT cost, COUNT(*) FROM visits GROUP BY cost", one((0, 50, 100, 150, 200, None)), lambda r: (r["cost"],)),
    Case("SELECT ward, MEDIAN(x) FROM visits GROUP BY ward", one(WARDS_OR_NULL), lambda row: (row["ward"],), halves),
    Case(
        "SELECT ward, x, urgent, COUNT(*) FROM visits GROUP BY ward, x, urgent",  # too many groups for columns
        tuple((w, x, u) for w in WARDS_OR_NULL for x in XS for u in FLAGS),
        lambda row: (row["ward"], row["x"], row["urgent"]),
    ),
    Case(
        "SELECT region, COUNT(*) FROM visits LEFT JOIN clinics USING (clinic_id) GROUP BY region",
        one(("north", "south", None)),
        lambda row: (REGIONS.get(row["clinic_id"]),),  # NULL finds no partner, not even NULL
    ),
    Case(
        "SELECT region, COUNT(*) FROM visits JOIN clinics USING (clinic_id) GROUP BY region",
        one(("north", "south", None)),
        lambda row: (REGIONS[row["clinic_id"]],) if row["clinic_id"] in REGIONS else ("outside",),
    ),
]


@pytest.mark.parametrize("by_row", [True, False], ids=["rows", "units"])
@pytest.mark.parametrize(("engine", "case"), on_every_engine(CASES, often=[0, 2, 6, 9], smoke=[0]))
def test_null_is_a_group(grouped_in: Callable[[str, bool], Dataset], engine: str, case: Case, by_row: bool) -> None:
    rows = [clean(row) for row in ROWS] if by_row else kept_rows(ROWS)
    risk = grouped_in(engine, by_row).risk(case.sql)
    measured = risk.measured()
    assert measured.keys == case.keys
    expected = measure(rows, case.keys, case.key, case.value)
    assert [float(number) for row in measured.values for number in row] == expected
    people = len(rows) if by_row else len({row["pid"] for row in rows})
    found = count_vectors(risk.contributions, risk.contributions.n - people)
    assert found == leave_out(rows, by_row, case.keys, case.key, case.value)
    if None in case.keys[-1]:
        assert any(None in case.keys[cell] for vector in found for cell, _ in vector), "somebody's group is NULL"


@pytest.mark.parametrize("engine", EVERY_ENGINE)
def test_undeclared_values_are_told_from_null(grouped_in: Callable[[str, bool], Dataset], engine: str) -> None:
    """The controller sees how many people are in no group; those with NULL are in one, and can be looked up."""
    risk = grouped_in(engine, True).risk("SELECT ward, COUNT(*) FROM visits GROUP BY ward")
    assert risk.profile is not None
    assert risk.profile.undeclared == sum(row["ward"] == "elsewhere" for row in ROWS) > 0
    whys = [person.why for person in risk.list_people(30, columns=["ward"])]
    assert any(why.startswith("NULL: ") for why in whys)
    by = {group.group: group.people for group in risk.by("ward")}
    assert by[None] == sum(row["ward"] is None for row in ROWS)
