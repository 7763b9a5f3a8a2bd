"""NULL as a declared group (C8): on every engine the same rows are in it, and leaving people out changes the same.

The oracle deletes everybody in turn from plain Python rows (group_tables.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dosimeter import Dataset
from tests.conformance.engine_cases import EVERY_ENGINE, on_every_engine
from tests.conformance.group_tables import ROWS, WARDS, M, rows_of
from tests.oracle.leaving_out import assert_same_people, everybody_there, expand
from tests.oracle.query_meanings import (
    Condition,
    Grouping,
    Query,
    clamp,
    either,
    lift,
    make_count_star,
    make_quantile,
    read,
)

REGIONS = {1: "north", 2: "south", 3: None}
COUNT = (make_count_star(None),)
MEDIAN = (make_quantile("MEDIAN({})", Fraction(1, 2), clamp("x", read("x"), -1, 3), None),)
WARD = Grouping("ward", read("ward"), (*WARDS, None))
URGENT = Grouping("urgent", read("urgent"), (False, True, None))
X = Grouping("x", read("x"), (-1, 0, 1, 2, 3, None))
REGION = Grouping("region", lambda row: REGIONS.get(row["clinic_id"]), ("north", "south", None))
MATCHED = Grouping("region", lambda row: REGIONS.get(row["clinic_id"], "outside"), ("north", "south", None))
MADE = (
    Grouping(
        "CASE WHEN urgent THEN ward END", lambda row: row["ward"] if row["urgent"] else None, (*sorted(WARDS), None)
    ),
    Grouping("NULLIF(ward, 'b')", lambda row: None if row["ward"] == "b" else row["ward"], ("A", "O'X", None)),
    Grouping("COALESCE(ward, 'none')", lambda row: row["ward"] or "none", tuple(sorted([*WARDS, "none"]))),
    Grouping("cost", read("cost"), (0, 50, 100, 150, 200, None)),
)
CHOSEN = either(
    Condition("x > 0", lift(lambda x: x > 0, read("x"))), Condition("ward IS NULL", lambda row: row["ward"] is None)
)
CASES = [
    Query(COUNT, None, (WARD,)),
    Query(COUNT, None, (X,)),
    Query(COUNT, CHOSEN, (WARD, URGENT)),
    *(Query(COUNT, None, (made,)) for made in MADE),
    Query(MEDIAN, None, (WARD,)),
    Query(COUNT, None, (WARD, X, URGENT)),  # too many groups for columns
    Query(COUNT, None, (REGION,), source="visits LEFT JOIN clinics USING (clinic_id)"),  # NULL finds no partner
    Query(COUNT, None, (MATCHED,), source="visits JOIN clinics USING (clinic_id)"),
]


@pytest.mark.parametrize("by_row", [True, False], ids=["rows", "units"])
@pytest.mark.parametrize(("engine", "case"), on_every_engine(CASES, often=[0, 2, 6, 9], smoke=[0]))
def test_null_is_a_group(grouped_in: Callable[[str, bool], Dataset], engine: str, case: Query, by_row: bool) -> None:
    query, rows = replace(case, m=None if by_row else M, unit="pid"), rows_of(by_row)
    risk, keys = grouped_in(engine, by_row).risk(query.sql), query.keys(rows)
    measured = risk.measured()
    assert list(measured.keys) == keys
    assert [number for row in measured.values for number in row] == query.measure(rows, keys)
    everybody = everybody_there(query.leave_out(rows, 1).values(), risk)
    assert_same_people(expand(risk.contributions), everybody)
    null = [at for at, key in enumerate(keys) if None in key]
    assert not null or any(vector[at] for vector in everybody for at in null), "somebody's group is NULL"


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


@pytest.mark.parametrize("engine", EVERY_ENGINE)
@pytest.mark.parametrize("beside", ["", ", (SELECT COUNT(*) FROM visits) AS every"])
def test_null_is_a_group_beside_other_blocks(
    grouped_in: Callable[[str, bool], Dataset], engine: str, beside: str
) -> None:
    """Several SELECTs, or what was cut, are profiled together: whoever is in NULL moves its number there, too."""
    dataset, sql = grouped_in(engine, False), "SELECT ward, COUNT(*) AS n{} FROM visits GROUP BY ward"
    alone = dataset.risk(sql.format(""))
    joined = dataset.risk(sql.format(beside), tell_cut=None if beside else 0.5)
    first, *more = joined.measured().blocks
    assert more
    assert (first.keys, first.values) == (alone.measured().keys, alone.measured().values)
    cells = len(first.keys)
    weighed = [np.array(expand(risk.contributions))[:, :cells] / risk.plan.weights(1)[0] for risk in (alone, joined)]
    moved, moved_too = (sorted(each.tolist()) for each in weighed)
    np.testing.assert_allclose(moved, moved_too)
    assert any(each[first.keys.index((None,))] for each in moved)
