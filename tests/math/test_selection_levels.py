"""What is compared when ε is found privately (V2, V5, V6): bounds by enumeration, formulas in high precision."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from statistics import median

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter import Dataset
from dosimeter.mechanisms.mechanism import Mechanism
from dosimeter.options import MechanismName, Selection
from dosimeter.release.selection import (
    SelectionProblem,
    is_two_valued,
    normalised_variance,
    prepare_test,
    svt_sensitivity,
)
from tests.math.selection_problems import (
    CLASSIC,
    LAPLACE,
    METHODS,
    ZCDP,
    make_problem,
    precise_normalised,
    precise_variance,
    variance,
    varied_problem,
)
from tests.schemas import category, declare, whole

MECHANISMS: tuple[MechanismName, ...] = ("laplace", "gaussian")
QUARTERS = tuple(Fraction(i, 4) for i in range(5))


# ---------------------------------------------------------------- V2: how far the variance moves


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_variance_moves_by_at_most_the_bound_and_reaches_it(n: int) -> None:
    bound = svt_sensitivity(n)
    assert bound == Fraction(n - 1, n * n) < Fraction(1, n)
    vanish = replaced = Fraction(0)
    for slots in combinations_with_replacement(QUARTERS, n):
        for i, other in product(range(n), QUARTERS):
            moved = abs(variance(slots) - variance([*slots[:i], other, *slots[i + 1 :]]))
            assert moved <= bound
            replaced = max(replaced, moved)
            if other == 0:
                vanish = max(vanish, moved)
    assert vanish == replaced == bound


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_more_people_than_declared_keep_the_bound(n: int, method: Selection) -> None:
    """N4: with people beyond the declared n each is a slot, and somebody who goes takes theirs along, down to n."""
    bound = svt_sensitivity(n)
    for people in range(n + 1, n + 4):
        for values in combinations_with_replacement((0.0, 0.25, 1.0), people):
            levels = prepare_test(make_problem(values, n=n), method=method).levels
            for i in range(people):
                others = [*values[:i], *values[i + 1 :]]
                assert abs(variance([*map(Fraction, values)]) - variance([*map(Fraction, others)])) <= bound
                fewer = prepare_test(make_problem(others, n=n), method=method).levels
                assert max(abs(a - b) for a, b in zip(levels, fewer, strict=True)) <= 2**30


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_variance_of_n_from_the_other_slots(n: int) -> None:
    """V2's identity: Var_n = (n−1)/n · v + (n−1)/n² · (x − m)²."""
    for slots in combinations_with_replacement(QUARTERS, n):
        for i, x in enumerate(slots):
            others = [*slots[:i], *slots[i + 1 :]]
            mean = sum(others, Fraction(0)) / (n - 1)
            rebuilt = Fraction(n - 1, n) * variance(others) + svt_sensitivity(n) * (x - mean) ** 2
            assert rebuilt == variance(slots)


@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP, CLASSIC], ids=["laplace", "zcdp", "classic"])
@pytest.mark.parametrize("method", METHODS)
def test_levels_of_neighbours_differ_by_at_most_the_certified_steps(mechanism: Mechanism, method: Selection) -> None:
    """What is computed, not what is meant: over all multisets of up to 4 slots, thirds included (inexact floats)."""
    thirds = (0.0, 1 / 3, 2 / 3, 1.0)
    reached = 0
    for n in (2, 3, 4):
        for slots in combinations_with_replacement(thirds, n):
            levels = prepare_test(make_problem(slots, mechanism), method=method).levels
            for i in range(n):
                neighbour = make_problem([*slots[:i], 0.0, *slots[i + 1 :]], mechanism)
                others = prepare_test(neighbour, method=method).levels
                reached = max(reached, *(abs(a - b) for a, b in zip(levels, others, strict=True)))
    assert reached <= 2**30
    if method == "sharp":
        assert reached == 2**30


@settings(max_examples=60, deadline=None)
@given(
    slots=st.lists(st.floats(0.0, 3.7), min_size=2, max_size=30),
    k=st.integers(1, 50),
    gaussian=st.booleans(),
)
def test_levels_of_neighbours_for_any_floats(slots: list[float], k: int, gaussian: bool) -> None:
    changes = {"k": k, "sensitivity": 3.7}
    mechanism = ZCDP if gaussian else LAPLACE
    neighbour = [0.0, *slots[1:]]
    for method in METHODS:
        one = prepare_test(make_problem(slots, mechanism, **changes), method=method)
        other = prepare_test(make_problem(neighbour, mechanism, **changes), method=method)
        assert all(abs(a - b) <= 2**30 for a, b in zip(one.levels, other.levels, strict=True))
        assert (one.thresholds, one.shared_scale, one.own_scale) == (
            other.thresholds,
            other.shared_scale,
            other.own_scale,
        )


def leave_one_out_median(values: Sequence[float]) -> list[float]:
    """|q(x) − q(x₋ᵢ)| by really deleting each; a deleted slot (None) has 0."""
    whole = median(values)
    distinct = {value: abs(whole - median(_without(values, value))) for value in set(values)}
    return [distinct[value] for value in values]


def _without(values: Sequence[float], value: float) -> list[float]:
    rest = list(values)
    rest.remove(value)
    return rest


def test_median_moves_the_variance_by_a_sixteenth() -> None:
    values = [0.0] * 501 + [1.0] * 500
    before = np.var(leave_one_out_median(values))
    after = np.var([*leave_one_out_median(values[1:]), 0.0])  # N2: the slot stays
    moved = abs(before - after)
    assert moved == pytest.approx(1 / 16, rel=0.01)
    assert moved > 60 / 1001  # sixty times what V2's bound allows
    half = 0.5  # S3: Δ of a median over [0, 1]
    assert moved / half**2 == pytest.approx(1 / 4, rel=0.01)


def count_distinct_pis(rows: Sequence[frozenset[str]]) -> list[int]:
    holders = Counter(value for held in rows for value in held)
    return [sum(holders[value] == 1 for value in held) for held in rows]


def count_distinct_moves(rows: Sequence[frozenset[str]], sensitivity: int, *, slot_stays: bool) -> Fraction:
    """How far Var(PIS/Δ) moves when the first individual's rows vanish."""
    rest = [frozenset[str](), *rows[1:]] if slot_stays else list(rows[1:])
    before, after = count_distinct_pis(rows), count_distinct_pis(rest)
    scaled = [[Fraction(pis, sensitivity) for pis in side] for side in (before, after)]
    return abs(variance(scaled[0]) - variance(scaled[1]))


def test_count_distinct_breaks_the_bound() -> None:
    pair = [frozenset("a"), frozenset("a"), *(frozenset(value) for value in "bcdefghi")]
    weight = Fraction(10, 11) ** 2  # w² at ε = 10, k = 1
    gone = weight * count_distinct_moves(pair, 1, slot_stays=False)
    assert float(gone) == pytest.approx(0.132, abs=5e-4)
    assert gone > Fraction(1, 10)
    # With the slot staying (N2), one row each keeps the bound, and two rows each break it.
    assert count_distinct_moves(pair, 1, slot_stays=True) == Fraction(7, 100) <= svt_sensitivity(10)
    two_rows = [frozenset("ab"), frozenset("ac"), frozenset("bd"), *[frozenset("ef")] * 7]
    assert count_distinct_moves(two_rows, 2, slot_stays=True) == Fraction(12, 100) > Fraction(1, 10)


def test_count_distinct_with_one_row_each_keeps_the_bound() -> None:
    """By enumeration over all ways in which up to 6 people can hold 6 values."""
    for n in range(2, 7):
        worst = max(
            count_distinct_moves([frozenset(v) for v in (first, *rest)], 1, slot_stays=True)
            for rest in combinations_with_replacement("abcdef", n - 1)
            for first in "abcdef"
        )
        assert worst <= svt_sensitivity(n)


# ---------------------------------------------------------------- q_svt and its sharp form, in high precision


@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP, CLASSIC], ids=["laplace", "zcdp", "classic"])
@pytest.mark.parametrize("k", [1, 7, 190])
def test_normalised_variance_from_the_definition(mechanism: Mechanism, k: int) -> None:
    problem = varied_problem(mechanism, k)
    with mpmath.workdps(60):
        for epsilon in problem.candidates:
            expected = precise_variance(precise_normalised(problem, epsilon), problem.counts.tolist())
            assert normalised_variance(problem, epsilon) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP, CLASSIC], ids=["laplace", "zcdp", "classic"])
@pytest.mark.parametrize("k", [1, 7, 190])
def test_sharp_levels_and_thresholds_from_the_definition(mechanism: Mechanism, k: int) -> None:
    """V5: Laplace's normalised RDRs fill an interval of length w, so q_svt/w² is the variance of values in [0, 1].

    V6: Gaussian ones are a function of t = (PIS/Δ)² which is steepest at 0. Its slope there, by differences.
    """
    problem = varied_problem(mechanism, k)
    test = prepare_test(problem, method="sharp")
    paper = prepare_test(problem, method="paper")
    ends = replace(problem, n=2, values=np.array([0.0, problem.sensitivity]), counts=np.array([1, 1]))
    counts, power = problem.counts.tolist(), 1 if mechanism.name == "laplace" else 2
    with mpmath.workdps(60):
        step = mpmath.mpf(problem.n - 1) / problem.n**2 / 2**30
        tested = [(mpmath.mpf(float(pis)) / mpmath.mpf(problem.sensitivity)) ** power for pis in problem.values]
        for j, epsilon in enumerate(problem.candidates):
            spread = precise_variance(precise_normalised(problem, epsilon), counts)
            low, high = precise_normalised(ends, epsilon)
            assert high == 1
            slope = high - low
            if mechanism.name == "gaussian":
                noise = k * (mpmath.mpf(mechanism.scale(problem.sensitivity, epsilon)) / problem.sensitivity) ** 2
                near = mpmath.mpf(10) ** -30
                slope = (mpmath.sqrt(near + noise) - mpmath.sqrt(noise)) / mpmath.sqrt(1 + noise) / near
            assert abs(test.levels[j] * step - precise_variance(tested, counts)) < 2**-30 + step
            assert test.thresholds[j] * step == pytest.approx(problem.threshold / float(slope) ** 2, rel=1e-9)
            assert abs(paper.levels[j] * step - spread) < 2**-30 + step
            assert paper.thresholds[j] * step == pytest.approx(problem.threshold, rel=1e-9)


@pytest.mark.parametrize("k", [1, 9])
def test_a_gaussian_number_is_never_lenient(k: int) -> None:
    """V6, over all tables of up to 5 slots: without noise no candidate passes that violates the threshold.

    Where everybody has PIS 0 or Δ, and this is known, every candidate that meets it passes as well. Thresholds stay
    1e-4 away from where they decide: with so few people a step is coarse.
    """
    stricter = 0
    for n in (2, 3, 5):
        for slots in combinations_with_replacement((0.0, 0.1, 0.5, 1.0), n):
            problem = make_problem(slots, ZCDP, k=k, candidates=(30.0, 5.0, 1.0, 0.1))
            two_valued = {*slots} <= {0.0, 1.0}
            with mpmath.workdps(40):
                counts = problem.counts.tolist()
                spreads = [precise_variance(precise_normalised(problem, e), counts) for e in problem.candidates]
            for scale, at in product((1 - 1e-4, 1 + 1e-4, 3.0), range(4)):
                threshold = float(spreads[at]) * scale
                if threshold < 1e-30:  # all alike
                    continue
                for known in {False, two_valued}:
                    stated = replace(problem, threshold=threshold, two_valued=known)
                    test = prepare_test(stated, method="sharp")
                    passing = [level <= most for level, most in zip(test.levels, test.thresholds, strict=True)]
                    meeting = [bool(spread <= threshold) for spread in spreads]
                    assert all(met for passed, met in zip(passing, meeting, strict=True) if passed)
                    stricter += passing != meeting
                    assert not known or passing == meeting
    assert stricter > 100  # what the bound costs where values lie between


def test_who_moves_nothing_or_everything() -> None:
    """V6's public fact, against everybody's PIS in all tables of two rows: in both norms, whatever the table."""
    schema = declare("t", 2, {"g": category("a", "b", "c"), "v": whole(0, 2), "w": whole(0, 1)})
    two_valued = ["SELECT COUNT(*) FROM t", "SELECT g, COUNT(*) FROM t WHERE v > 0 GROUP BY g", "SELECT SUM(w) FROM t"]
    others = ["SELECT SUM(v) FROM t", "SELECT AVG(v) FROM t", "SELECT COUNT(*), SUM(w) FROM t"]
    rows = [("a", 0, 0), ("b", 1, 1), ("x", 1, 0), ("c", 2, 0)]
    between: Counter[str] = Counter()
    for pair in combinations_with_replacement(rows, 2):
        table = pa.table({name: [row[at] for row in pair] for at, name in enumerate("gvw")})
        with Dataset.open(table, table="t", schema=schema) as dataset:
            for sql, mechanism in product((*two_valued, *others), MECHANISMS):
                risk = dataset.risk(sql, mechanism=mechanism)
                assert is_two_valued(risk.plan) is (sql in two_valued)
                relative = risk.sensitivities.values / risk.sensitivity
                between[sql] += int(((relative > 0.0) & (relative < 1.0)).sum())
    assert {sql for sql, count in between.items() if count} == {*others}


def test_with_several_rows_each_only_the_number_of_individuals_moves_by_one() -> None:
    columns = {"p": whole(1, 3), "i": whole(1, 9), "g": category("a", "b")}
    schema = declare("t", 3, columns, unit="p", row_key="i", max_rows_per_unit=2)
    table = pa.table({"p": [1, 1, 2], "i": [1, 2, 3], "g": ["a", "b", "a"]})
    with Dataset.open(table, table="t", schema=schema) as dataset:
        for sql, known in (
            ("SELECT COUNT(DISTINCT p) FROM t", True),
            ("SELECT g, COUNT(DISTINCT p) FROM t GROUP BY g", False),
            ("SELECT COUNT(*) FROM t", False),
        ):
            risk = dataset.risk(sql, mechanism="gaussian")
            assert is_two_valued(risk.plan) is known
            relative = risk.sensitivities.values / risk.sensitivity
            assert bool(((relative > 0.0) & (relative < 1.0)).any()) is not known


def test_sums_do_not_overflow_for_billions_of_slots() -> None:
    half = 2**31
    problem = SelectionProblem(
        2 * half, 1, 1.0, LAPLACE, np.array([0.0, 1.0]), np.array([half, half]), (1.0,), threshold=1e-5, epsilon_svt=1.0
    )
    assert prepare_test(problem, method="sharp").levels[0] == math.floor(
        Fraction(1, 4) / (svt_sensitivity(2 * half) / 2**30)
    )
