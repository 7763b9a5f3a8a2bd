"""What backs a release is certified: by OpenDP, exact fractions and 50 digits; and how many steps a number moves."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import opendp.prelude as opendp
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter import Dataset
from dosimeter.errors import DataError, OptionError
from dosimeter.mechanisms import ClassicGaussian, Gaussian, Laplace
from dosimeter.mechanisms.mechanism import Mechanism
from dosimeter.planning import PlanOptions, plan_query
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.release.noise import Calibrated, add_noise, calibrate, certified_epsilon, draw_discrete_laplace
from dosimeter.release.noisy_vector import _rounding, calibrate_plan
from dosimeter.risk.largest_epsilon import paper_candidates
from dosimeter.schema.toml import read_schema
from tests.unit.release_stays import SCHEMA, schema_of

LAPLACE = Laplace()
GAUSSIAN = Gaussian(1e-6)
NASTY = (
    0.1,
    0.3,
    0.7,
    0.1 + 0.2,
    1 / 3,
    1e-3,
    0.009,
    math.pi,
    math.nextafter(1.0, 0.0),
    math.nextafter(1.0, 2.0),
    9.99,
)
SENSITIVITIES = (1, 3, 7, 99, 2**20, 10**9 + 7)
SHARES = (1, 2, 3, 7)


def laplace_map(scale: float, sensitivity: int) -> float:
    opendp.enable_features("contrib")
    space = opendp.atom_domain(T="i64"), opendp.absolute_distance(T="i64")
    measurement: Any = opendp.m.make_laplace(*space, scale=scale)
    return float(measurement.map(sensitivity))


# ---------------------------------------------------------------- calibration


def test_plain_division_is_not_certified() -> None:
    """M1: Δ/ε in floats comes out above ε in a good part of the cases. This is why scales are rounded up."""
    cases = list(itertools.product(paper_candidates(), (1, 2, 3, 4, 5, 6)))
    above = [1 for epsilon, sensitivity in cases if laplace_map(sensitivity / epsilon, sensitivity) > epsilon]
    assert len(cases) == 222
    assert len(above) > 20
    for epsilon, sensitivity in cases:
        calibrated = calibrate(LAPLACE, sensitivity=sensitivity, epsilon=epsilon)
        assert laplace_map(calibrated.scale, sensitivity) <= epsilon


@pytest.mark.parametrize("shares", SHARES)
def test_laplace_shares_stay_within_epsilon(shares: int) -> None:
    for epsilon, sensitivity in itertools.product(NASTY, SENSITIVITIES):
        calibrated = calibrate(LAPLACE, sensitivity=sensitivity, epsilon=epsilon, shares=shares)
        assert shares * Fraction(calibrated.certified) <= Fraction(epsilon)
        assert shares * Fraction(calibrated.certified) <= Fraction(repr(epsilon))
        assert calibrated.certified == laplace_map(calibrated.scale, sensitivity)
        # The loss of discrete Laplace noise is Δ/b. In fractions, without OpenDP:
        assert shares * Fraction(sensitivity) / Fraction(calibrated.scale) <= Fraction(repr(epsilon))
        assert calibrated.scale <= sensitivity * shares / epsilon * (1 + 1e-14)


def log_delta_bound(rho: mp.mpf, epsilon: mp.mpf) -> mp.mpf:
    """ln of M3's expression at its best α, the root of the derivative."""

    def slope(alpha: mp.mpf) -> mp.mpf:
        return (2 * alpha - 1) * rho - epsilon + mp.log1p(-1 / alpha)

    low, high = 1 + mp.mpf(10) ** -30, (epsilon + 1) / (2 * rho) + 2
    for _ in range(140):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return (high - 1) * (high * rho - epsilon) + high * mp.log1p(-1 / high) - mp.log(high - 1)


@pytest.mark.parametrize("delta", [9.4e-10, 1e-6, 0.1])
@pytest.mark.parametrize("shares", SHARES)
def test_gaussian_shares_stay_within_epsilon_and_delta(shares: int, delta: float) -> None:
    mechanism = Gaussian(delta)
    for epsilon, sensitivity in zip(NASTY, itertools.cycle(SENSITIVITIES)):
        calibrated = calibrate(mechanism, sensitivity=sensitivity, epsilon=epsilon, shares=shares)
        rho = shares * Fraction(sensitivity) ** 2 / (2 * Fraction(calibrated.scale) ** 2)
        assert rho <= shares * Fraction(calibrated.certified)
        budget = min(Fraction(epsilon), Fraction(repr(epsilon)))
        with mp.workdps(50):
            exact = mp.mpf(rho.numerator) / rho.denominator
            bound = log_delta_bound(exact, mp.mpf(budget.numerator) / budget.denominator)
            assert bound <= mp.log(min(mp.mpf(delta), mp.mpf(repr(delta))))
        formula = math.sqrt(shares) * mechanism.scale(float(sensitivity), epsilon)
        assert calibrated.scale == pytest.approx(formula, rel=1e-12)


@pytest.mark.parametrize("shares", [1, 3])
def test_opendp_certifies_the_composition_of_gaussian_shares(shares: int) -> None:
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l2_distance(T="f64")
    for epsilon in NASTY:
        scale = calibrate(GAUSSIAN, sensitivity=5, epsilon=epsilon, shares=shares).scale
        parts = [opendp.m.make_gaussian(*space, scale=scale * (1 + 1e-15)) for _ in range(shares)]
        whole: Any = opendp.c.make_zCDP_to_approxDP(opendp.c.make_composition(parts))
        assert whole.map(5.0).delta(epsilon) <= 1e-6


def test_epsilon_may_be_any_exact_number() -> None:
    third = calibrate(LAPLACE, sensitivity=1, epsilon=Fraction(1, 3))
    assert Fraction(third.certified) <= Fraction(1, 3)
    tenth = calibrate(LAPLACE, sensitivity=1, epsilon=Decimal("0.1"))
    assert Fraction(tenth.certified) <= Fraction(1, 10) < Fraction(0.1)
    assert tenth == calibrate(LAPLACE, sensitivity=1, epsilon=0.1)
    assert tenth == calibrate(LAPLACE, sensitivity=1, epsilon=np.float64(0.1))


def test_sensitivities_are_rounded_up() -> None:
    assert calibrate(LAPLACE, sensitivity=Fraction(5, 2), epsilon=1.0).sensitivity == 3
    assert calibrate(LAPLACE, sensitivity=2.0, epsilon=1.0).sensitivity == 2
    root = calibrate(GAUSSIAN, sensitivity=math.sqrt(2), epsilon=1.0).sensitivity
    assert Fraction(root) ** 2 > 2
    third = calibrate(GAUSSIAN, sensitivity=Fraction(10, 3), epsilon=1.0).sensitivity
    assert Fraction(10, 3) <= Fraction(third) < Fraction(10, 3) + Fraction(1, 10**15)
    assert calibrate(GAUSSIAN, sensitivity=4, epsilon=1.0).sensitivity == 4
    assert calibrate(GAUSSIAN, sensitivity=2**54 + 1, epsilon=9.0).sensitivity > 2**54
    assert calibrate(GAUSSIAN, sensitivity=Fraction(1, 2), epsilon=1.0).sensitivity == 1


def test_classic_calibration_never_backs_a_release() -> None:
    with pytest.raises(OptionError, match="Use zcdp"):
        calibrate(ClassicGaussian(1e-6), sensitivity=1, epsilon=0.5)


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize(
    "epsilon", [0, -1.0, math.inf, math.nan, Decimal(0), Decimal("NaN"), Decimal("Infinity"), Fraction(10**400)]
)
def test_epsilon_out_of_range_is_refused(mechanism: Mechanism, epsilon: float) -> None:
    with pytest.raises(OptionError, match="epsilon"):
        calibrate(mechanism, sensitivity=1, epsilon=epsilon)


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
def test_other_options_out_of_range_are_refused(mechanism: Mechanism) -> None:
    for sensitivity in (0, -1, 2**62, math.nan, math.inf):
        with pytest.raises(OptionError, match="sensitivity"):
            calibrate(mechanism, sensitivity=sensitivity, epsilon=1.0)
    with pytest.raises(OptionError, match="at least 1"):
        calibrate(mechanism, sensitivity=1, epsilon=1.0, shares=0)
    with pytest.raises(OptionError, match="coarser resolution"):
        calibrate(mechanism, sensitivity=2**57, epsilon=0.5)
    with pytest.raises(OptionError):
        calibrate(mechanism, sensitivity=1, epsilon=Fraction(1, 10**400))


@pytest.mark.parametrize("epsilon", [1e-18, 5e-324])
def test_noise_beyond_64_bits_is_refused(epsilon: float) -> None:
    with pytest.raises(OptionError, match="larger ε"):
        calibrate(LAPLACE, sensitivity=1, epsilon=epsilon)
    with pytest.raises(OptionError, match="larger ε"):
        calibrate(Gaussian(1e-25), sensitivity=1, epsilon=epsilon)
    # With a large delta even no epsilon at all needs finite noise.
    assert calibrate(GAUSSIAN, sensitivity=1, epsilon=epsilon).scale == pytest.approx(6.07e5, rel=0.01)


def test_certified_epsilon_is_the_quotient_rounded_up() -> None:
    for scale, sensitivity in itertools.product((0.3, 1.0, 7.7, 123456.789, 1e15), (1, 3, 10**6)):
        exact = Fraction(sensitivity) / Fraction(scale)
        assert exact <= Fraction(certified_epsilon(scale, sensitivity)) <= exact * (1 + Fraction(1, 10**15))
    for scale, sensitivity in ((0.0, 1), (-1.0, 1), (2.0**56, 1), (1.0, 0)):
        with pytest.raises(OptionError):
            certified_epsilon(scale, sensitivity)


# ---------------------------------------------------------------- drawing


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
def test_noise_is_whole_fresh_and_one_per_total(mechanism: Mechanism) -> None:
    calibrated = calibrate(mechanism, sensitivity=1000, epsilon=1.0)
    totals = [5, -7, 0, 10**15] * 5
    first, second = add_noise(totals, calibrated), add_noise(totals, calibrated)
    assert len(first) == len(totals)
    assert all(type(noisy) is int for noisy in first)
    assert first != second  # equal with probability below 1e-60
    assert len({noisy - total for noisy, total in zip(first, totals, strict=True)}) > 10
    assert all(abs(noisy - total) < 64 * calibrated.scale for noisy, total in zip(first, totals, strict=True))
    assert add_noise([], calibrated) == []


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
def test_a_vast_epsilon_gives_the_exact_answer(mechanism: Mechanism) -> None:
    assert add_noise([3, -4, 2**61], calibrate(mechanism, sensitivity=1, epsilon=1e7)) == [3, -4, 2**61]


@pytest.mark.parametrize("sign", [1, -1])
def test_totals_near_saturation_are_refused(sign: int) -> None:
    calibrated = Calibrated(LAPLACE, 1024.0, 1, 1 / 1024)
    room = 2**62 - 64 * 1024
    for total in (room, 2**62, 2**63, 10**30):
        with pytest.raises(DataError, match="coarser resolution") as refusal:
            add_noise([0, sign * total], calibrated)
        assert str(total) not in str(refusal.value)
    assert abs(add_noise([sign * (room - 1)], calibrated)[0]) < 2**62


def test_scales_near_saturation_are_refused() -> None:
    for scale in (2.0**56, 1e300, math.inf, math.nan, 0.0, -1.0):
        with pytest.raises(OptionError):
            add_noise([0], Calibrated(LAPLACE, scale, 1, 1.0))
        with pytest.raises(OptionError):
            draw_discrete_laplace(scale, 1)


# ---------------------------------------------------------------- steps of the grid


def test_a_grid_of_decimals_costs_no_extra_step(stays: Dataset) -> None:
    """35 bounds that no float holds exactly: Δ is the whole number of steps it is, never one more."""
    for cents in range(1, 36):
        columns = {"x": {"type": "decimal", "bounds": [0, cents / 100], "resolution": 0.01}}
        with Dataset.open(pa.table({"x": [0.0]}), schema={**SCHEMA, "table": "t", "columns": columns}) as dataset:
            (noise,) = calibrate_plan(dataset.plan("SELECT SUM(x) FROM t"), Laplace(), Decimal(1))
            assert noise.sensitivity == cents


@cache
def plan_of(sql: str) -> QueryPlan:
    return plan_query(sql, read_schema(schema_of()), PlanOptions(quantiles="noise"))


@given(st.lists(st.tuples(st.fractions(-9, 9), st.fractions(-9, 9)), min_size=1, max_size=6))
def test_rounding_several_cells_adds_what_is_allowed_for(cells: list[tuple[Fraction, Fraction]]) -> None:
    """An individual with c rows moves up to c cells that are on no grid; each is rounded on its own."""
    plan = plan_of("SELECT day, MEDIAN(nights) FROM stays GROUP BY day")
    count = len(cells)
    groups = (replace(plan.groups[0], values=tuple(range(count))),)
    many = replace(plan, groups=groups, schema=replace(plan.schema, max_rows_per_unit=count))
    moved = [abs(math.floor(a + Fraction(1, 2)) - math.floor(b + Fraction(1, 2))) for a, b in cells]
    for mechanism in (Laplace(), Gaussian(1e-6)):
        extra = _rounding(many, many.measures[0], mechanism)
        if mechanism.norm == 1:
            assert sum(moved) <= math.ceil(sum(abs(a - b) for a, b in cells)) + extra
        else:
            exactly = math.sqrt(sum((a - b) ** 2 for a, b in cells))
            assert math.sqrt(sum(step * step for step in moved)) <= math.ceil(exactly) + extra + 1e-9
        assert extra == 0 or count > 1
    totals = plan_of(
        "SELECT day, COUNT(*), SUM(cost), MAX(cost), COUNT(DISTINCT cost), AVG(cost) FROM stays GROUP BY 1"
    )
    many = replace(totals, schema=replace(totals.schema, max_rows_per_unit=count))
    assert [_rounding(many, measure, Laplace()) for measure in many.measures] == [0] * 6  # on their grids
