"""What OpenDP draws by rank: against its exact chances, and on the paper's own data, through real releases."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dosimeter import Dataset
from dosimeter.influence import measure_exactly
from dosimeter.measures import Rank
from dosimeter.mechanisms import Laplace
from dosimeter.planning import plan_query
from dosimeter.release.noise import calibrate_selection, select_lowest
from dosimeter.release.noisy_vector import add_noise_to, calibrate_plan
from dosimeter.schema import read_schema
from tests.math.rank_tables import make_rank
from tests.schemas import declare, whole
from tests.statistical.fits import fit_pooled

ALPHA = 1e-4  # of each test of fit: one in ten thousand runs fails without a reason
DRAWS = 4_000
SCHEMA: dict[str, Any] = declare("adult", 32_561, {"age": whole(0, 120)})


@pytest.mark.parametrize("fraction", [Fraction(1, 2), Fraction(9, 10), Fraction(0), Fraction(1)], ids=str)
def test_draws_fit_their_chances(fraction: Fraction) -> None:
    """χ² of OpenDP's draws against the chances that risk is computed from; rare candidates are put together."""
    rank = make_rank(fraction, 12, rows=2)
    counts = np.array([0, 3, 1, 0, 7, 2, 2, 0, 0, 5, 1, 0, 1], dtype=np.int64)
    selection = calibrate_selection(shift=rank.shift, rows=2, epsilon=Fraction(3, 2))
    seen = Counter(select_lowest([rank.scores(counts, 1.5).tolist()] * DRAWS, selection))
    chances = rank.chances(counts, 1.5).tolist()
    assert fit_pooled([seen[at] for at in range(len(chances))], chances) > ALPHA


def test_a_release_draws_ranks_at_the_epsilon_that_is_charged() -> None:
    plan = plan_query("SELECT MEDIAN(age) FROM adult", read_schema(SCHEMA))
    (measure,) = plan.measures
    assert isinstance(measure, Rank)
    charged = calibrate_selection(shift=measure.shift, rows=measure.rows, epsilon=Fraction(1, 2))
    assert calibrate_plan(plan, Laplace(), Decimal("0.5")) == (charged,)


@pytest.fixture(scope="module")
def adult(adult_train: Path) -> Iterator[Dataset]:
    with Dataset.open(adult_train, schema=SCHEMA, table="adult") as dataset:
        yield dataset


@pytest.fixture(scope="module")
def ages(adult_train: Path) -> list[int]:
    with adult_train.open(encoding="utf-8", newline="") as stream:
        return sorted(int(row["age"]) for row in csv.DictReader(stream))


def release(adult: Dataset, aggregate: str, epsilon: str, times: int) -> list[float]:
    """Draw the same answer many times, as a release does once its charge is reserved."""
    plan = plan_query(f"SELECT {aggregate} FROM adult", adult.schema)
    measured = measure_exactly(plan, adult.tables, None)
    noise = calibrate_plan(plan, Laplace(), Decimal(epsilon))
    keys, values = tuple(measured.keys) * times, tuple(measured.values) * times
    columns = {at: found * times for at, found in measured.columns.items()}
    return [float(row[0]) for row in add_noise_to(plan, keys, values, noise, columns).values]


def test_order_statistics_of_adult(adult: Dataset, ages: list[int]) -> None:
    """300 releases each; the exact numbers by Python's own reader and sort."""
    n = len(ages)
    median, third = ages[n // 2], ages[round(0.75 * n)]
    found = release(adult, "MEDIAN(age)", "0.1", 300)
    assert sum(value == median for value in found) >= 297
    found = release(adult, "QUANTILE_CONT(age, 0.75)", "0.1", 300)
    assert max(abs(value - third) for value in found) <= 1
    found = release(adult, "MIN(age)", "1", 300)
    assert sum(abs(value - ages[0]) <= 1 for value in found) >= 285
    found = release(adult, "MAX(age)", "1", 300)
    assert sum(abs(value - ages[-1]) <= 5 for value in found) >= 285
