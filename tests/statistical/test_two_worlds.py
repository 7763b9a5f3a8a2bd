"""The curves of two worlds against what OpenDP draws: from the table with the most exposed person, and without."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset, Risk
from dosimeter.influence import measure_exactly
from dosimeter.release.noisy_vector import add_noise_to, calibrate_plan
from tests.known import known
from tests.schemas import declare, whole
from tests.statistical.fits import fit_pooled

ALPHA = 1e-4  # of each test of fit, at most 7 a run: one in a thousand runs fails without a reason
DRAWS = 4_000
VALUES = [1, 2, 2, 3, 5, 5, 6, 9]
SCHEMA: dict[str, Any] = declare("t", len(VALUES), {"v": whole(0, 9)})


CASES: list[tuple[str, dict[str, Any]]] = [
    ("SELECT SUM(v) AS s FROM t", {}),
    ("SELECT SUM(v) AS s FROM t", {"mechanism": "gaussian", "delta": 1e-6}),
    ("SELECT MEDIAN(v) AS m FROM t", {}),
]


@pytest.mark.parametrize(("sql", "noise"), CASES, ids=["laplace", "gaussian", "rank"])
def test_draws_fit_both_curves(sql: str, noise: dict[str, Any]) -> None:
    """Of a rank, several people leave the same exact number and different chances: one of them is the one."""
    with Dataset.open(pa.table({"v": VALUES}), schema=SCHEMA, table="t") as dataset:
        risk = dataset.risk(sql, **noise)
        worlds = known(risk.worlds(0.8))

    def fit(kept: list[int], place: int) -> float:
        drawn = draw(risk, kept)
        counts = [sum(drawn[value] for value in drawn if each.low <= value <= each.high) for each in worlds.bins]
        expected = [(each.with_them, each.without)[place] for each in worlds.bins]
        return fit_pooled([*counts, DRAWS - sum(counts)], [*expected, worlds.beyond[place]])

    assert fit(VALUES, 0) > ALPHA
    left = [kept for kept in map(leave_out, sorted(set(VALUES))) if measure(risk, kept) == worlds.exact[1]]
    assert max(fit(kept, 1) for kept in left) > ALPHA
    assert fit(VALUES, 1) < ALPHA  # the worlds can be told apart


def leave_out(value: int) -> list[int]:
    kept = list(VALUES)
    kept.remove(value)
    return kept


def measure(risk: Risk, values: list[int]) -> float:
    with Dataset.open(pa.table({"v": values}), schema=SCHEMA, table="t") as dataset:
        return float(measure_exactly(risk.plan, dataset.tables, None).values[0][0])


def draw(risk: Risk, values: list[int]) -> Counter[float]:
    """What a release draws from these values, and how often."""
    with Dataset.open(pa.table({"v": values}), schema=SCHEMA, table="t") as dataset:
        measured = measure_exactly(risk.plan, dataset.tables, None)
    noise = calibrate_plan(risk.plan, risk.mechanism, Decimal("0.8"))
    columns = {at: found * DRAWS for at, found in measured.columns.items()}
    noisy = add_noise_to(risk.plan, tuple(measured.keys) * DRAWS, tuple(measured.values) * DRAWS, noise, columns)
    return Counter(float(row[0]) for row in noisy.values)
