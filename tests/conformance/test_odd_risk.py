"""The controller's view of tables with odd cells: nothing raises, nobody moves more than Δ, and odd cells show as NULL.

Everybody's per-instance sensitivity is compared with leaving them out in the plain-Python oracle.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Literal

import numpy as np
import pytest

from dosimeter.assessment import Risk
from tests.conformance.odd_cases import MODES, Case, cover_pairs
from tests.conformance.odd_worlds import OTHERS, SPARK, Worlds, choose_rows, distance, flatten, mark, populate

CASES = cover_pairs(OTHERS, (("source", "kind"), ("kind", "bundle"), ("kind", "mode"), ("kind", "join")), seed=11)
MORE = cover_pairs(OTHERS, (("source", "column"), ("column", "mode"), ("column", "join"), ("kind", "where")), seed=12)
IN_SPARK = cover_pairs(SPARK, (("source", "kind"),), seed=11)


def leave_out(case: Case, risk: Risk) -> list[float]:
    """Return the sizes of all contributions that are not 0, in the oracle."""
    mode, plan, measured = MODES[case.mode], risk.plan, risk.measured()
    population = populate(case.source, mode.unit, None)
    chosen = [{**row, "row": at} for at, row in enumerate(choose_rows(case, population.cleaned()))]
    joined = case.combine(chosen, population.others(case))  # by individual, or with public tables
    vector = case.query.measure(joined, measured.keys)
    assert flatten(measured) == vector, case.query.sql
    found = []
    for who in {row[mode.unit] for row in joined}:
        fewer = case.query.measure([row for row in joined if row[mode.unit] != who], measured.keys)
        found.append(distance(plan, vector, fewer, risk.mechanism.norm))
    return sorted(size for size in found if size > 1e-9)


def sizes(risk: Risk) -> list[float]:
    norms = risk.contributions.norms(risk.mechanism.norm)
    return sorted(size for size in np.repeat(norms, risk.contributions.people).tolist() if size > 1e-9)


def check_people(case: Case, risk: Risk) -> None:
    """Whoever is shown has NULL where their cell is odd; and ``by`` counts them in the group of NULL."""
    for shown in risk.list_people(40, reveal=True):
        assert all(is_ordinary(cell) for cell in shown.columns.values()), shown
    groups = risk.by(case.subject.key, reveal=True)
    assert all(is_ordinary(group.group) for group in groups)
    assert len({repr(group.group) for group in groups}) == len(groups)
    if MODES[case.mode].unit == "row" and case.join in ("none", "rates, left"):
        rows = populate(case.source, "row", None).cleaned()
        counted = Counter(row[case.column] is None for row in rows)
        assert sum(group.people for group in groups if group.group is None) == counted[True]
        assert sum(group.people for group in groups if group.group is not None) == counted[False]


def is_ordinary(cell: Any) -> bool:
    return not isinstance(cell, float) or math.isfinite(cell)


@pytest.mark.parametrize(
    "case",
    [
        *(mark(case) for case in CASES),
        *(mark(case, pytest.mark.long) for case in MORE if case not in CASES),
        *(mark(case, *([pytest.mark.long] if at else [])) for at, case in enumerate(IN_SPARK)),
    ],
)
def test_risk(worlds: Worlds, case: Case) -> None:
    dataset, _ = worlds.open(case, None)
    mechanism: Literal["laplace", "gaussian"] = "gaussian" if case.removed == "high" else "laplace"
    risk = dataset.risk(case.query.sql, mechanism=mechanism, min_rows=case.min_rows, quantiles="noise")
    assert float(risk.sensitivities.values.max()) <= risk.sensitivity * (1 + 1e-9)
    assert sizes(risk) == pytest.approx(leave_out(case, risk), rel=1e-9, abs=1e-9)
    check_people(case, risk)
