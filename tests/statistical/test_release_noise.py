"""Released numbers follow the distributions that were stated, and neighbouring tables stay as close as was promised.

The road is the one a release takes: SQL and schema → plan → certified noise → noisy vector, for every kind of aggregate
and every grid. Every test states its n and its α; together they fail a correct program with probability at most 5e-7.
Draws are never seeded: OpenDP's source of randomness is the operating system's. The stated scales are worked out here
again, Gaussian ones by minimising M3's expression over a grid of orders in high precision.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

from dosimeter.dataset import Dataset
from dosimeter.influence.rows.row_profile import measure_answer
from dosimeter.ledger import Ledger
from dosimeter.mechanisms import Gaussian, Laplace
from dosimeter.mechanisms.mechanism import Mechanism
from dosimeter.planning import PlanOptions, plan_query
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.release.noisy_vector import add_noise_to, calibrate_plan
from tests.schemas import category, decimal, declare, whole
from tests.statistical.fits import bin_jointly, chi_square, excess, hoeffding_slack

N = 10_000
ALPHA_FIT = 5e-9  # × 28 columns
ALPHA_SMALL_FIT = 5e-9  # × 2; with a dozen expected in a bin it is really 2e-8
ALPHA_CORRELATION = 1e-8
ALPHA_NEIGHBOURS = 1e-8  # × 22; the sum is 4.1e-7, which leaves room for chi-square being an approximation

EPSILON = 0.8
DELTA = 1e-6
LAPLACE, GAUSSIAN = Laplace(), Gaussian(DELTA)
MECHANISMS = [LAPLACE, GAUSSIAN]

SCHEMA: dict[str, Any] = declare(
    "staff",
    60,
    {
        "team": category("a", "b", "nobody"),
        "days": whole(-5, 10),
        "pay": decimal(0, 0.07, 0.01),
        "score": decimal(-20, 35.5, 0.01),
    },
)
PEOPLE = 50
TABLE = pa.table(
    {
        "team": ["a" if row % 3 else "b" for row in range(PEOPLE)],
        "days": [10, -5, *(row % 16 - 5 for row in range(2, PEOPLE))],
        "pay": [0.07, 0.0, *((row % 8) / 100 for row in range(2, PEOPLE))],
        "score": [35.5, -20.0, *((row * 37 % 5500) / 100 - 20 for row in range(2, PEOPLE))],
    }
)

# SQL, the floor on rows, and for each measure: its own Δ, and the grid its noise lives on.
QUERIES: dict[str, tuple[str, int | None, list[tuple[Fraction, Fraction]]]] = {
    "count": ("SELECT COUNT(*) FROM staff WHERE days > 0", None, [(Fraction(1), Fraction(1))]),
    "sum of whole numbers": ("SELECT SUM(days) FROM staff", None, [(Fraction(10), Fraction(1))]),
    "sum of decimals": ("SELECT SUM(score) FROM staff", None, [(Fraction("35.5"), Fraction("0.01"))]),
    "sum on a grid no float hits": ("SELECT SUM(pay) FROM staff", None, [(Fraction("0.07"), Fraction("0.01"))]),
    "average through sums": (
        "SELECT AVG(days) FROM staff",
        None,
        [(Fraction(1), Fraction(1)), (Fraction("7.5"), Fraction("0.5"))],
    ),
    "average with a floor on rows": (
        "SELECT AVG(score) FROM staff",
        40,
        [(Fraction("55.5") / 41, Fraction("55.5") / 41 / 2**20)],
    ),
    "minimum": ("SELECT MIN(days) FROM staff", None, [(Fraction(15), Fraction("0.5"))]),
    "maximum": ("SELECT MAX(score) FROM staff", None, [(Fraction("55.5"), Fraction("0.01"))]),
    "median": ("SELECT MEDIAN(days) FROM staff", None, [(Fraction("7.5"), Fraction("7.5") / 2**20)]),
    "distinct values": ("SELECT COUNT(DISTINCT days) FROM staff", None, [(Fraction(1), Fraction(1))]),
    "variance": (
        "SELECT VAR_POP(days) FROM staff",
        None,
        [(Fraction(1), Fraction(1)), (Fraction("7.5"), Fraction("0.5")), (Fraction("56.25"), Fraction("0.25"))],
    ),
}


# ---------------------------------------------------------------- the road of a release


@cache
def plan(name: str) -> QueryPlan:
    sql, floor, _ = QUERIES[name]
    with Dataset.open(TABLE, schema=SCHEMA) as dataset:
        return plan_query(sql, dataset.schema, PlanOptions(min_rows=floor, quantiles="noise"))


def measure(name: str, table: pa.Table) -> tuple[Fraction, ...]:
    with Dataset.open(table, schema=SCHEMA) as dataset:
        return measure_answer(plan(name), dataset.tables.find_rows(plan(name))).values[0]


def draw(name: str, table: pa.Table, mechanism: Mechanism, epsilon: float, count: int) -> list[tuple[Fraction, ...]]:
    """That many noisy vectors of one table: the rows of a release with as many groups that are all alike."""
    exact = measure(name, table)
    noise = calibrate_plan(plan(name), mechanism, Decimal(str(epsilon)))
    return list(add_noise_to(plan(name), [()] * count, [exact] * count, noise).values)


# ---------------------------------------------------------------- what was stated


@cache
def rho(epsilon: float, delta: float) -> float:
    """M3 by brute force: the largest ρ with min over orders of exp((α−1)(αρ−ε))/(α−1)·(1−1/α)^α ≤ δ."""
    with mpmath.workdps(40):
        orders = [1 + mpmath.mpf(10) ** (mpmath.mpf(step) / 200) for step in range(-200, 700)]

        def allows(value: mpmath.mpf) -> bool:
            exponents = (
                (a - 1) * (a * value - epsilon) - mpmath.log(a - 1) + a * mpmath.log(1 - 1 / a) for a in orders
            )
            return bool(min(exponents) <= mpmath.log(delta))

        low, high = mpmath.mpf("1e-6"), mpmath.mpf(10)
        for _ in range(40):
            middle = mpmath.sqrt(low * high)
            low, high = (middle, high) if allows(middle) else (low, middle)
        return float(low)


def stated_scale(name: str, at: int, mechanism: Mechanism) -> float:
    """S5: b_j = aΔ_j/ε, σ_j = √a·Δ_j/√(2ρ), in steps of the grid."""
    measures = QUERIES[name][2]
    delta, grid = measures[at]
    if mechanism.name == "laplace":
        return float(len(measures) * delta / grid) / EPSILON
    return math.sqrt(len(measures) / (2 * rho(EPSILON, DELTA))) * float(delta / grid)


# ---------------------------------------------------------------- goodness of fit


def check_fit(name: str, mechanism: Mechanism, sample: list[tuple[Fraction, ...]]) -> None:
    """n = 10,000, α = 5e-9 for each column and mechanism. And the test can tell: a scale 20 % off is rejected."""
    for at, (_, grid) in enumerate(QUERIES[name][2]):
        centre = math.floor(measure(name, TABLE)[at] / grid + Fraction(1, 2))
        steps = [row[at] / grid for row in sample]
        assert all(step.denominator == 1 for step in steps)  # noise lives on the grid, and so does what is released
        draws = [int(step) - centre for step in steps]
        scale = stated_scale(name, at, mechanism)
        statistic, freedom, p_value = chi_square(draws, mechanism, scale, bins=50)
        assert p_value > ALPHA_FIT, f"χ² = {statistic:.1f} on {freedom} degrees of freedom"
        assert chi_square(draws, mechanism, scale * 1.2, bins=50)[2] < ALPHA_FIT


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_answers_of_real_releases_fit(mechanism: Mechanism, tmp_path: Path) -> None:
    """n = 400: 5 releases of 80 declared groups through the ledger; α = 5e-9."""
    groups = [f"g{number:02d}" for number in range(80)]
    schema = declare("cells", 200, {"cell": category(*groups), "x": whole(0, 4)})
    table = pa.table({"cell": [groups[row * row % 70] for row in range(200)], "x": [row % 5 for row in range(200)]})
    exact = dict.fromkeys(groups, 0)
    for cell, x in zip(table["cell"].to_pylist(), table["x"].to_pylist(), strict=True):
        exact[cell] += x
    draws = []
    options: dict[str, Any] = {} if mechanism.name == "laplace" else {"mechanism": "gaussian", "delta": DELTA}
    with Dataset.open(table, schema=schema) as dataset, Ledger.open(tmp_path / "ledger.db") as ledger:
        for _ in range(5):
            answer = dataset.release(
                "SELECT cell, SUM(x) FROM cells GROUP BY cell",
                ledger=ledger, epsilon=EPSILON, policy="budget:100", delta_total=0.5, again=True, **options,
            )  # fmt: skip
            assert answer.answer is not None
            assert [row["cell"] for row in answer.answer] == groups
            rows: list[dict[str, Any]] = list(answer.answer)
            draws += [row["sum_x"] - exact[row["cell"]] for row in rows]
    scale = 4 / EPSILON if mechanism.name == "laplace" else 4 / math.sqrt(2 * rho(EPSILON, DELTA))
    assert len(draws) == 400
    assert chi_square(draws, mechanism, scale, bins=20)[2] > ALPHA_SMALL_FIT
    assert chi_square(draws, mechanism, scale * 3, bins=20)[2] < ALPHA_SMALL_FIT


# ---------------------------------------------------------------- neighbours


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
@pytest.mark.parametrize("name", QUERIES, ids=lambda name: name.replace(" ", "-"))
def test_released_values_fit_and_neighbouring_tables_stay_within_epsilon(name: str, mechanism: Mechanism) -> None:
    """n = 10,000 noisy vectors of the table and of the table without its first person, who holds every upper bound.

    α = 1e-8 over every union of bins, in both directions; the slack is 0.095, and 0.11 for three measures. And the
    test can tell: where that person moves the answer by all of Δ, the same draws break a promise of ε/4.
    """
    sample = draw(name, TABLE, mechanism, EPSILON, N)
    check_fit(name, mechanism, sample)
    here, there = bin_jointly(sample, draw(name, TABLE.slice(1), mechanism, EPSILON, N))
    bins = 27 if len(plan(name).measures) == 3 else 16
    for first, second in ((here, there), (there, here)):
        assert excess(first, second, EPSILON, mechanism.delta) <= hoeffding_slack(EPSILON, bins, N, ALPHA_NEIGHBOURS)
    if mechanism is LAPLACE and name in ("count", "sum of whole numbers", "sum of decimals"):
        assert excess(here, there, EPSILON / 4, 0.0) > hoeffding_slack(EPSILON / 4, bins, N, ALPHA_NEIGHBOURS)


def test_grouped_columns_get_noise_of_their_own() -> None:
    """Two groups and two measures: four columns of noise, uncorrelated. n = 10,000, α = 1e-8 over the six pairs."""
    with Dataset.open(TABLE, schema=SCHEMA) as dataset:
        grouped = plan_query("SELECT team, COUNT(*), SUM(days) FROM staff GROUP BY team", dataset.schema)
        exact = measure_answer(grouped, dataset.tables.find_rows(grouped))
    noise = calibrate_plan(grouped, LAPLACE, Decimal("0.8"))
    keys, values = tuple(exact.keys[:2]) * N, tuple(exact.values[:2]) * N
    noisy = add_noise_to(grouped, keys, values, noise).values
    columns = np.array([[float(v) for v in (*a, *b)] for a, b in zip(noisy[::2], noisy[1::2], strict=True)]).T
    bound = norm.isf(ALPHA_CORRELATION / 12) / math.sqrt(N)
    signs = np.sign(columns - np.median(columns, axis=1, keepdims=True))
    for first, second in product(range(4), repeat=2):
        if first < second:
            assert abs(np.mean(signs[first] * signs[second])) < bound
