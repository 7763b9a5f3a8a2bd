"""Finding ε: candidates, the largest that qualifies, exact limits from both sides, and the notes that go with them."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dosimeter.errors import OptionError
from dosimeter.findings import find_notes
from dosimeter.findings.on_method import IncautiousRatio
from dosimeter.measures.counts import CountRows
from dosimeter.measures.sums import Sum
from dosimeter.mechanisms import ClassicGaussian, Gaussian
from dosimeter.risk.absolute import own_epsilon
from dosimeter.risk.exposure import Candidate
from dosimeter.risk.largest_epsilon import (
    ExactLimit,
    JudgedCandidates,
    exact_limit,
    find_largest,
    parse_candidates,
)
from dosimeter.risk.preference import Verdict, parse_preference
from dosimeter.risk.rdr import summarise_rdr
from tests.math.influence_tables import LAPLACE, make_sensitivities, rdr

ZCDP = Gaussian(1e-6)
CLASSIC = ClassicGaussian(1e-6)
ONE = np.array([1.0])


def list_lines(every):
    return [Candidate(rdrs.epsilon, None, (), summarise_rdr(rdrs)) for rdrs in every]


def sensitivities_of(values, counts=None, *, k=1, **attributes):
    flags = {name: np.array(each) for name, each in attributes.items()}
    return replace(make_sensitivities(values, k=k, counts=counts), attributes=flags)


def rdrs_at(sensitivities, epsilon, *, mechanism=LAPLACE, sensitivity=1.0, **settings):
    scale = mechanism.scale(sensitivity, epsilon)
    settings = {"indicator": "bound", "sensitivity": sensitivity, "scale": scale, "epsilon": epsilon, **settings}
    return rdr(sensitivities, mechanism, **settings)


def find_epsilon(exposures, preference):
    return find_largest((epsilon, preference.evaluate(rdrs)) for epsilon, rdrs in exposures)


# ---------------------------------------------------------------- F3


def test_the_papers_37_candidates():
    expected = [Decimal(whole) for whole in range(10, 0, -1)]
    expected += [Decimal(d).scaleb(-places) for places in (1, 2, 3) for d in range(9, 0, -1)]
    for source in ("paper", " Paper ", None):
        candidates = parse_candidates(source)
        assert len(candidates) == 37
        assert [Decimal(str(candidate)) for candidate in candidates] == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("0.1,1, 0.5", (1.0, 0.5, 0.1)),
        ("1, 1.0, 1e0", (1.0,)),
        ([0.1, 2], (2.0, 0.1)),
        ((Decimal("0.3"), Fraction(1, 4)), (0.3, 0.25)),
        (np.array([0.25, 4.0]), (4.0, 0.25)),
    ],
)
def test_candidates(source, expected):
    assert parse_candidates(source) == expected


@pytest.mark.parametrize(
    "source", ["", "1,,2", "1;2", "0", "-1", "nan", "inf", "one", [], [0.0], [True], [None], [math.nan], [1j], ["x"]]
)
def test_refused_candidates(source):
    with pytest.raises(OptionError, match=r"1,0\.5,0\.1"):
        parse_candidates(source)


# ---------------------------------------------------------------- F1


def test_the_largest_that_qualifies_is_found_in_any_order_and_without_monotony():
    people = sensitivities_of([0.0, 1.0])
    preference = parse_preference("MAX(rdr) <= 5")  # met where noise is small
    found = find_epsilon([(e, rdrs_at(people, e)) for e in (0.1, 10.0, 1.0)], preference)
    assert found.epsilon == 10.0
    assert [(epsilon, verdict.satisfied) for epsilon, verdict in found.tested] == [
        (0.1, False),
        (10.0, True),
        (1.0, True),
    ]
    assert find_epsilon([(0.1, rdrs_at(people, 0.1))], preference).epsilon is None


def test_private_results_stay_out_of_reprs():
    for value in (JudgedCandidates(0.5, ()), ExactLimit(0.5), Verdict(0.5, True)):
        assert repr(value) == f"{type(value).__name__}(redacted)"


# ---------------------------------------------------------------- F2: met just below, not met just above


def check_limit(preference, sensitivities, mechanism, *, sensitivity, indicator="bound", grids=ONE, nudge=1e-7):
    """The limit, checked from both sides through the RDRs; where every ε qualifies, at large and small ones."""
    settings = {"sensitivity": sensitivity, "indicator": indicator, "grids": grids}
    limit = exact_limit(preference, sensitivities, mechanism, **settings)

    def is_met(epsilon):
        return preference.evaluate(rdrs_at(sensitivities, epsilon, mechanism=mechanism, **settings)).satisfied

    if limit.every:
        assert limit.value is None
        assert all(is_met(epsilon) for epsilon in (1e-3, 1.0, 1e3, 1e6))
    elif limit.value is not None:
        assert is_met(limit.value * (1.0 - nudge))
        assert not is_met(limit.value * (1.0 + nudge))
        assert is_met(limit.value / 3.0)
        assert not is_met(limit.value * 3.0)
    return limit


PIS = st.lists(st.integers(0, 40), min_size=2, max_size=6, unique=True).map(sorted)
COUNTS = st.lists(st.integers(1, 50), min_size=6, max_size=6)
TAUS = st.integers(1, 99).map(lambda hundredths: hundredths / 100)
MECHANISMS = st.sampled_from([LAPLACE, ZCDP, CLASSIC])


@given(steps=PIS, tau=TAUS, k=st.integers(1, 200), mechanism=MECHANISMS)
@settings(max_examples=150, deadline=None)
def test_ratio_limit_of_the_bound(steps, tau, k, mechanism):
    people = sensitivities_of([step / 8 for step in steps], k=k)
    limit = check_limit(parse_preference(f"ratio:{tau}"), people, mechanism, sensitivity=5.0)
    assert limit.every == (Fraction(steps[0], steps[-1]) >= Fraction(str(tau)))  # without any noise
    if mechanism is LAPLACE and not limit.every:
        low, high, t = Fraction(steps[0], 8), Fraction(steps[-1], 8), Fraction(str(tau))
        assert limit.value == pytest.approx(float(k * 5 * (1 - t) / (t * high - low)), rel=1e-12)


@given(
    steps=PIS,
    counts=COUNTS,
    tau=st.floats(-6, -0.5).map(lambda exponent: round(10**exponent, 8)),
    k=st.integers(1, 200),
    mechanism=MECHANISMS,
)
@settings(max_examples=100, deadline=None)
def test_variance_limit_of_the_bound(steps, counts, tau, k, mechanism):
    counts = counts[: len(steps)]
    people = sensitivities_of([step / 8 for step in steps], counts, k=k)
    n = sum(counts)
    mean = Fraction(sum(s * c for s, c in zip(steps, counts, strict=True)), 8 * n)
    variance = sum((Fraction(s, 8) - mean) ** 2 * c for s, c in zip(steps, counts, strict=True)) / n
    spread = mpmath.sqrt(mpmath.mpf(variance.numerator) / variance.denominator) / 5
    assume(abs(spread**2 - tau) > 1e-6 * tau)
    limit = check_limit(parse_preference(f"variance:{tau}"), people, mechanism, sensitivity=5.0)
    assert limit.every == (spread**2 < tau)
    if mechanism is LAPLACE and not limit.every:
        root = mpmath.sqrt(mpmath.mpf(str(tau)))
        assert limit.value == pytest.approx(float(k * root / (spread - root)), rel=1e-8)


@given(steps=PIS, tau=TAUS, grid=st.sampled_from([1 / 8, 1 / 16, 1 / 8192, 0.0]))
@settings(max_examples=100, deadline=None)
def test_ratio_limit_of_the_exact_indicator(steps, tau, grid):
    people = sensitivities_of([step / 8 for step in steps])
    settings = {"sensitivity": 5.0, "indicator": "exact", "grids": np.array([grid])}
    limit = check_limit(parse_preference(f"ratio:{tau}"), people, LAPLACE, **settings)
    assert limit.every == (Fraction(steps[0], steps[-1]) >= Fraction(str(tau)))
    assert limit.every or limit.value is not None


def test_the_exact_ratio_of_one_number_is_monotone():
    """The claim behind the bisection, in 500 digits: R5's ratio grows with b for every pair of PIS and grid tried."""
    with mpmath.workdps(500):
        for grid in map(mpmath.mpf, ("0.01", "0.5", "1", "3")):
            for low, high in ((0, 1), (0, 7), (1, 2), (3, 40)):
                previous = mpmath.mpf(0)
                for step in range(-5, 31):
                    b = mpmath.mpf(10) ** (mpmath.mpf(step) / 10)
                    rdr = [c * grid + grid * mpmath.exp(-c * grid / b) / mpmath.sinh(grid / b) for c in (low, high)]
                    assert rdr[0] / rdr[1] > previous
                    previous = rdr[0] / rdr[1]


def test_190_declared_cells_allow_ten():
    """R10: COUNT in 190 groups at a ratio of 0.95: 190/(190 + ε) ≥ 0.95 up to ε = 10, itself included."""
    people, preference = sensitivities_of([0.0, 1.0], [10, 90], k=190), parse_preference("ratio:0.95")
    limit = exact_limit(preference, people, LAPLACE, sensitivity=1.0, indicator="bound", grids=ONE)
    assert limit.value == pytest.approx(10.0, rel=1e-12)
    assert find_epsilon([(e, rdrs_at(people, e)) for e in parse_candidates(None)], preference).epsilon == 10.0


@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP])
@pytest.mark.parametrize("source", ["ratio:1", "ratio:0.95", "variance:1e-5"])
@pytest.mark.parametrize("pis", [0.0, 1.0])
def test_everybody_alike_means_every_epsilon(mechanism, source, pis):
    people = sensitivities_of([pis], [7])
    assert check_limit(parse_preference(source), people, mechanism, sensitivity=1.0).every


@pytest.mark.parametrize(
    ("source", "mechanism", "indicator", "k"),
    [
        ("ratio:1", LAPLACE, "bound", 1),  # no noise makes unequal RDRs equal
        ("ratio:1", ZCDP, "bound", 1),
        ("ratio:1", LAPLACE, "exact", 1),
        ("ratio:0.95", LAPLACE, "exact", 2),  # not monotone
        ("ratio:0.95", ZCDP, "exact", 1),
        ("variance:1e-5", LAPLACE, "exact", 1),
        ("MIN(rdr) / MAX(rdr) > 0.95", LAPLACE, "bound", 1),
        ("MAX(rdr) <= 5", LAPLACE, "bound", 1),
    ],
)
def test_where_there_is_no_limit(source, mechanism, indicator, k):
    people = sensitivities_of([0.0, 1.0], [3, 1], k=k)
    limit = exact_limit(
        parse_preference(source), people, mechanism, sensitivity=1.0, indicator=indicator, grids=np.array([1.0])
    )
    assert (limit.value, limit.every) == (None, False)


def test_classes_without_people_do_not_count():
    people = sensitivities_of([0.0, 0.5, 1.0, 9.0], [0, 2, 3, 0])
    preference = parse_preference("ratio:0.9")
    limit = exact_limit(preference, people, LAPLACE, sensitivity=9.0, indicator="bound", grids=ONE)
    assert limit.value == pytest.approx(9 * 0.1 / (0.9 * 1.0 - 0.5), rel=1e-12)


# ---------------------------------------------------------------- notes


def assessed(sensitivities, *, mechanism=LAPLACE, sensitivity=1.0, indicator="bound", grids=ONE, measures, groups=1):
    """A stand-in for a Risk: the numbers that notes are found from, without a query."""
    plan = SimpleNamespace(
        grids=lambda _norm: grids, ranks={}, all_measures=[object.__new__(measure) for measure in measures]
    )

    def own_epsilons(values, shares, epsilon):
        scale = mechanism.scale(sensitivity, epsilon)
        return own_epsilon(values, mechanism, sensitivity=sensitivity, scale=scale, epsilon=epsilon, shares=shares)

    return SimpleNamespace(
        plan=plan, mechanism=mechanism, indicator=indicator, sensitivities=sensitivities, sensitivity=sensitivity,
        groups=groups, own_epsilons=own_epsilons,
    )  # fmt: skip


def notes_for(
    sensitivities, source=None, *, mechanism=LAPLACE, measures=(CountRows,), groups=1, candidates="paper", **settings
):
    epsilons = parse_candidates(candidates)
    arguments = {"sensitivity": 1.0, "indicator": "bound", "grids": ONE, **settings}
    exposures = [(e, rdrs_at(sensitivities, e, mechanism=mechanism, **arguments)) for e in epsilons]
    every = [rdrs for _, rdrs in exposures]
    lines = list_lines(every)
    extra = {}
    if source is not None:
        preference = parse_preference(source)
        extra = {
            "preference": preference,
            "found": find_epsilon(exposures, preference),
            "limit": exact_limit(preference, sensitivities, mechanism, **arguments),
        }
    risk = assessed(sensitivities, mechanism=mechanism, measures=measures, groups=groups, **arguments)
    return find_notes(risk, lines, **extra)


PLAIN = sensitivities_of([0.0, 1.0], [30, 4])


def test_each_note_comes_with_its_own_case_only():
    """Each case lists exactly the kinds that it must bring beside the indicator's."""
    a_sum = {"measures": (Sum,)}
    spread_out = sensitivities_of([0.0, 1.0, 2.0], [5, 5, 5])
    by_group = sensitivities_of([0.0, 0.0, 1.0], [6, 2, 4], filter0=[True, False, False], filter1=[False, True, True])
    nobody = sensitivities_of([0.0, 1.0], [3, 3], filter0=[False, False])
    fine = {**a_sum, "grids": np.array([2.0**-20])}
    cases = [
        (notes_for(PLAIN), "SameSpread"),
        (notes_for(PLAIN, indicator="exact"), ""),
        (notes_for(PLAIN, mechanism=ZCDP), ""),
        (notes_for(PLAIN, mechanism=ZCDP, indicator="exact"), "ContinuousNoise"),
        (notes_for(PLAIN, mechanism=ZCDP, indicator="exact", grids=np.array([0.01])), ""),
        (notes_for(sensitivities_of([1.0], [9])), "OwnOfEverybody"),
        (notes_for(sensitivities_of([0.0], [9])), ""),
        (notes_for(sensitivities_of([1.0], [9]), "ratio:0.95"), "EveryEpsilonMeets OwnOfEverybody"),
        (notes_for(PLAIN, "ratio:0.95"), "CountRatio"),
        (notes_for(PLAIN, "ratio:0.3"), "CountRatio IncautiousRatio"),  # ε = 2: above 1.6 on integers
        (notes_for(PLAIN, "ratio:0.3", **fine), ""),
        (notes_for(PLAIN, "ratio:0.95", indicator="exact"), ""),
        (notes_for(PLAIN, "ratio:0.95", mechanism=ZCDP), "IncautiousRatio"),
        (notes_for(sensitivities_of([1.0, 2.0]), "ratio:0.95", sensitivity=2.0, **a_sum), "IncautiousRatio"),
        (
            notes_for(sensitivities_of([1.9, 2.0]), "ratio:0.5", sensitivity=2.0, **fine),
            "IncautiousRatio EveryEpsilonMeets",
        ),
        (notes_for(PLAIN, "ratio:0.95", candidates="1"), "CountRatio LimitBelow"),
        (notes_for(PLAIN, "ratio:1"), "CountRatio AnotherMayMeet"),
        (notes_for(PLAIN, "variance:1e-5"), ""),
        (notes_for(spread_out, "VAR_POP(rdr) <= 5", **a_sum), "NoDependence"),
        (notes_for(spread_out, "MAX(rdr) - MIN(rdr) <= 5", **a_sum), "NoDependence"),
        (notes_for(spread_out, "VAR_POP(rdr) <= 5", mechanism=ZCDP, **a_sum), "RawSpread"),
        (notes_for(spread_out, "MAX(rdr) <= 5", **a_sum), "DependsOnLevel NotAtEverySmaller"),
        (notes_for(spread_out, "MAX(normalized_rdr) <= 1.5", sensitivity=1.0, **a_sum), ""),
        (notes_for(spread_out, "MAX(normalized_rdr) <= 0.5", sensitivity=5.0, **a_sum), "NotAtEverySmaller"),
        (notes_for(spread_out, "QUANTILE_CONT(rdr, 0.9) <= 1.5 * MEDIAN(rdr)", **a_sum), ""),
        (notes_for(PLAIN, "MEDIAN(rdr) <= 2 * MAX(rdr)"), "QuantileOnZero"),
        (notes_for(PLAIN, "QUANTILE_CONT(rdr, 0) <= 2 * MAX(rdr)"), ""),
        (
            notes_for(by_group, "MEDIAN(rdr) FILTER (WHERE a) / MEDIAN(rdr) FILTER (WHERE NOT a) >= 0.5"),
            "QuantileOnZero",
        ),
        (notes_for(nobody, "MIN(rdr) FILTER (WHERE a) / MAX(rdr) >= 0.5"), "EmptyFilter AnotherMayMeet"),
        (notes_for(nobody, "MEDIAN(rdr) FILTER (WHERE a) / MAX(rdr) >= 0.5"), "EmptyFilter AnotherMayMeet"),
        (
            notes_for(sensitivities_of([0.0, 1.0], k=50), "ratio:0.95", groups=50),
            "CountRatio IncautiousRatio GroupsCount",
        ),
        (notes_for(sensitivities_of([0.0, 0.5], k=50), "ratio:0.95", groups=50, **fine), "GroupsCount"),
        (notes_for(sensitivities_of([0.0, 1.0], k=50), "ratio:1", groups=50), "CountRatio AnotherMayMeet"),
    ]
    for number, (notes, expected) in enumerate(cases):
        kinds = [type(note).__name__ for note in notes]
        assert sorted(kinds) == sorted(["IndicatorUsed", *expected.split()]), number


@pytest.mark.parametrize("k", [1, 50])
@pytest.mark.parametrize("steps", [1, 3, 40])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.5, 1.7, 3.0, 10.0])
def test_the_caution_tells_when_the_bound_is_the_lenient_one(k, steps, epsilon):
    """R7, by computing both ratios: somebody out of the query, somebody who moves one number by some steps."""
    people = sensitivities_of([0.0, float(steps)], k=k)
    ratios = {}
    for indicator in ("bound", "exact"):
        values = rdrs_at(people, epsilon, sensitivity=float(steps), indicator=indicator).values
        ratios[indicator] = values[0] / values[1]
    found = JudgedCandidates(epsilon, ((epsilon, Verdict(ratios["bound"], True)),))
    lines = list_lines([rdrs_at(people, epsilon, sensitivity=float(steps))])
    risk = assessed(people, sensitivity=float(steps), measures=(Sum,))
    notes = find_notes(risk, lines, preference=parse_preference("ratio:0.01"), found=found)
    assert any(isinstance(note, IncautiousRatio) for note in notes) == (ratios["exact"] < ratios["bound"])


@pytest.mark.parametrize("k", [1, 2, 7, 190])
def test_under_gaussian_noise_the_bound_is_always_the_lenient_one(k):
    """R7 for R6, in high precision: exact RDR over bound grows with PIS, so the exact ratio is below the bound's."""
    previous = mpmath.mpf(0)
    for step in range(60):
        c = mpmath.mpf(step) / 4
        exact = mpmath.sqrt(2) * mpmath.gammaprod([mpmath.mpf(k + 1) / 2], [mpmath.mpf(k) / 2])
        exact *= mpmath.hyp1f1(mpmath.mpf(-1) / 2, mpmath.mpf(k) / 2, -(c**2) / 2)
        assert exact / mpmath.sqrt(c**2 + k) > previous
        previous = exact / mpmath.sqrt(c**2 + k)
