"""Find ε privately (V1–V5): bounds by enumeration, formulas in high precision, decisions by brute force."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product
from statistics import median

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter import selection
from dosimeter.errors import DataError, OptionError, QueryError
from dosimeter.mechanism import noise_scale
from dosimeter.model import (
    Measure,
    MeasureKind,
    Mechanism,
    QueryPlan,
    Schema,
    paper_candidates,
)
from dosimeter.noise import certified_epsilon
from dosimeter.selection import (
    Method,
    SelectionProblem,
    accuracy,
    difference_tail,
    normalised_variance,
    outcome_distribution,
    prepare_test,
    require_additive,
    select_epsilon,
    split_budget,
    svt_sensitivity,
    violation_probability,
    violation_share,
)

LAPLACE = Mechanism("laplace")
ZCDP = Mechanism("gaussian", 1e-6, "zcdp")
CLASSIC = Mechanism("gaussian", 1e-6, "classic")
METHODS: tuple[Method, ...] = ("sharp", "paper")
QUARTERS = tuple(Fraction(i, 4) for i in range(5))


def make_problem(slots: Sequence[float], mechanism: Mechanism = LAPLACE, **changes: object) -> SelectionProblem:
    """A problem from one PIS per slot, Δ = 1, with a few candidates."""
    counts = Counter(slots)
    settings = {
        "n": len(slots),
        "k": 1,
        "sensitivity": 1.0,
        "mechanism": mechanism,
        "values": np.array(list(counts.keys()), dtype=float),
        "counts": np.array(list(counts.values())),
        "candidates": (10.0, 1.0, 0.1),
        "threshold": 0.01,
        "epsilon_svt": 1.0,
    }
    return SelectionProblem(**(settings | changes))  # type: ignore[arg-type]


def variance(values: Sequence[Fraction]) -> Fraction:
    mean = sum(values, Fraction(0)) / len(values)
    return sum(((value - mean) ** 2 for value in values), Fraction(0)) / len(values)


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
def test_levels_of_neighbours_differ_by_at_most_the_certified_steps(mechanism: Mechanism, method: Method) -> None:
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


def precise_normalised(problem: SelectionProblem, epsilon: float) -> list[mpmath.mpf]:
    """RDR_i/RDR* per class from the definitions R3, R4, R9."""
    k, top = problem.k, mpmath.mpf(problem.sensitivity)
    if problem.mechanism.kind == "laplace":
        noise = k * top / mpmath.mpf(epsilon)
        return [(mpmath.mpf(float(pis)) + noise) / (top + noise) for pis in problem.values]
    noise = k * mpmath.mpf(noise_scale(problem.mechanism, problem.sensitivity, epsilon)) ** 2
    ceiling = mpmath.sqrt(top**2 + noise)
    return [mpmath.sqrt(mpmath.mpf(float(pis)) ** 2 + noise) / ceiling for pis in problem.values]


def precise_variance(values: Sequence[mpmath.mpf], counts: Sequence[int]) -> mpmath.mpf:
    n = sum(counts)
    mean = mpmath.fsum(v * c for v, c in zip(values, counts, strict=True)) / n
    return mpmath.fsum((v - mean) ** 2 * c for v, c in zip(values, counts, strict=True)) / n


def varied_problem(mechanism: Mechanism, k: int) -> SelectionProblem:
    generator = np.random.default_rng(11)
    values = np.concatenate(([0.0, 250.0], generator.uniform(0.0, 250.0, 20)))
    counts = np.concatenate(([90_000, 1], generator.integers(1, 40, 20)))
    return SelectionProblem(
        int(counts.sum()), k, 250.0, mechanism, values, counts, paper_candidates(), threshold=1e-5, epsilon_svt=1.0
    )


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
def test_sharp_levels_and_thresholds_are_the_definition_divided_by_the_interval(mechanism: Mechanism, k: int) -> None:
    """V5: normalised RDRs fill an interval of length w, so q_svt/w² is the variance of values in [0, 1]."""
    problem = varied_problem(mechanism, k)
    test = prepare_test(problem, method="sharp")
    paper = prepare_test(problem, method="paper")
    with mpmath.workdps(60):
        step = mpmath.mpf(problem.n - 1) / problem.n**2 / 2**30
        for j, epsilon in enumerate(problem.candidates):
            normalised = precise_normalised(problem, epsilon)
            low, high = min(normalised), max(normalised)  # of PIS = 0 and PIS = Δ, both present
            assert high == 1
            if mechanism.kind == "gaussian":
                sigma = mpmath.mpf(noise_scale(mechanism, problem.sensitivity, epsilon))
                root = mpmath.sqrt(mpmath.mpf(problem.sensitivity) ** 2 + k * sigma**2)
                assert abs(low - mpmath.sqrt(k) * sigma / root) < mpmath.mpf(10) ** -50
            spread = precise_variance(normalised, problem.counts.tolist())
            weight = (high - low) ** 2
            assert abs(test.levels[j] * step - spread / weight) < 2**-30 + step
            assert test.thresholds[j] * step == pytest.approx(problem.threshold / float(weight), rel=1e-9)
            assert abs(paper.levels[j] * step - spread) < 2**-30 + step
            assert paper.thresholds[j] * step == pytest.approx(problem.threshold, rel=1e-9)


def test_exact_variance_equals_fractions() -> None:
    """Dyadic unit risks are represented exactly, so the level is the floor of a fraction known by hand."""
    slots = [0.0, 0.25, 0.25, 0.5, 1.0, 1.0, 0.75]
    level = prepare_test(make_problem(slots), method="sharp").levels[0]
    exact = variance([Fraction(slot) for slot in slots]) / (svt_sensitivity(7) / 2**30)
    assert level == math.floor(exact)


def test_sums_do_not_overflow_for_billions_of_slots() -> None:
    half = 2**31
    problem = SelectionProblem(
        2 * half, 1, 1.0, LAPLACE, np.array([0.0, 1.0]), np.array([half, half]), (1.0,), threshold=1e-5, epsilon_svt=1.0
    )
    assert prepare_test(problem, method="sharp").levels[0] == math.floor(
        Fraction(1, 4) / (svt_sensitivity(2 * half) / 2**30)
    )


# ---------------------------------------------------------------- budgets, scales, and what is drawn


@settings(max_examples=300)
@given(st.floats(1e-6, 100.0))
def test_split_never_exceeds_the_budget(epsilon: float) -> None:
    first, second = split_budget(epsilon)
    whole = Fraction(first) + Fraction(second)
    assert whole <= min(Fraction(epsilon), Fraction(Decimal(repr(epsilon))))
    assert float(whole) == pytest.approx(epsilon, rel=1e-15)
    assert second / first == pytest.approx(2 ** (2 / 3), rel=1e-14)


class Recorder:
    """Stands in for the noise: remembers what was asked for, and gives chosen draws."""

    def __init__(self, draw: int = 0) -> None:
        self.asked: list[tuple[float, int]] = []
        self.draw = draw

    def __call__(self, scale: float, count: int) -> list[int]:
        self.asked.append((scale, count))
        return [self.draw] * count


@pytest.mark.parametrize("epsilon_svt", [0.1, 0.3, 1.0, 1 / 3, 2.7, 1e-6, 100.0])
@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP], ids=["laplace", "zcdp"])
@pytest.mark.parametrize("method", METHODS)
def test_scales_in_use_are_certified_within_the_budget(
    monkeypatch: pytest.MonkeyPatch, epsilon_svt: float, mechanism: Mechanism, method: Method
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(selection, "draw_discrete_laplace", recorder)
    select_epsilon(make_problem([0.0, 1.0, 1.0], mechanism, epsilon_svt=epsilon_svt), method=method)
    (shared, one), *own = recorder.asked
    spent = Fraction(certified_epsilon(shared, 2**30))
    if method == "sharp" and mechanism.kind == "laplace":
        assert own == []
    else:
        [(scale, count)] = own
        assert count == 3
        spent += Fraction(certified_epsilon(scale, 2 * 2**30))
    assert one == 1
    assert spent <= min(Fraction(epsilon_svt), Fraction(repr(epsilon_svt)))
    assert float(spent) == pytest.approx(epsilon_svt, rel=1e-12)


@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP], ids=["laplace", "zcdp"])
@pytest.mark.parametrize("method", METHODS)
def test_without_noise_it_is_the_largest_epsilon_that_meets_the_threshold(
    monkeypatch: pytest.MonkeyPatch, mechanism: Mechanism, method: Method
) -> None:
    monkeypatch.setattr(selection, "draw_discrete_laplace", Recorder())
    slots = [0.0] * 300 + [0.4] * 30 + [1.0] * 20
    candidates = paper_candidates()[:14]
    found = set()
    for threshold in np.geomspace(1e-8, 0.2, 60):
        problem = make_problem(slots, mechanism, candidates=candidates, threshold=float(threshold), k=3)
        expanded = {}
        for epsilon in problem.candidates:
            scale = noise_scale(mechanism, 1.0, epsilon)
            if mechanism.kind == "laplace":
                expanded[epsilon] = np.var((np.array(slots) + 3 * scale) / (1.0 + 3 * scale))
            else:
                expanded[epsilon] = np.var(np.sqrt(np.square(slots) + 3 * scale**2) / np.sqrt(1.0 + 3 * scale**2))
        suitable = [epsilon for epsilon, q in expanded.items() if q <= threshold]
        expected = max(suitable) if suitable else None
        assert select_epsilon(problem, method=method) == expected
        found.add(expected)
    assert None in found
    assert len(found) > 8


def test_draws_do_not_depend_on_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    recorders = []
    for slots in ([0.0] * 50, [0.0] * 25 + [1.0] * 25):
        for mechanism, method in product((LAPLACE, ZCDP), METHODS):
            recorder = Recorder()
            monkeypatch.setattr(selection, "draw_discrete_laplace", recorder)
            select_epsilon(make_problem(slots, mechanism), method=method)
            recorders.append(recorder.asked)
    assert recorders[:4] == recorders[4:]


@settings(max_examples=200)
@given(noise=st.floats(-3.0, 3.0), threshold=st.floats(1e-6, 0.3), k=st.integers(1, 40))
def test_one_noisy_number_solves_the_limit(noise: float, threshold: float, k: int) -> None:
    """F2 as post-processing: the largest candidate at or below ε* = k√τ/(s − √τ), s² the noisy variance."""
    slots = [0.0] * 40 + [0.5] * 5 + [1.0] * 15
    problem = make_problem(slots, candidates=paper_candidates(), threshold=threshold, k=k)
    test = prepare_test(problem, method="sharp")
    step = svt_sensitivity(60) / 2**30
    shift = math.floor(noise * 2**30)
    noisy = (test.levels[0] + shift) * step
    index = test.first_passing(shift)
    with mpmath.workdps(40):
        root = mpmath.sqrt(threshold)
        spread = mpmath.sqrt(max(mpmath.mpf(noisy.numerator) / noisy.denominator, 0))
        limit = mpmath.inf if spread <= root else k * root / (spread - root)
        near = [epsilon for epsilon in problem.candidates if abs(epsilon - limit) < 1e-6 * epsilon]
        expected = next((j for j, epsilon in enumerate(problem.candidates) if epsilon <= limit), None)
    assert near or index == expected


# ---------------------------------------------------------------- V3: the outcome's distribution


def precise_outcome(problem: SelectionProblem, method: Method) -> list[mpmath.mpf]:
    """V3's integral in mpmath, from the definitions; the last entry is the denial."""
    n = problem.n
    unit = mpmath.mpf(n - 1) / n**2
    ratio = mpmath.mpf(2) ** (mpmath.mpf(2) / 3)
    first = unit * (1 + ratio) / mpmath.mpf(problem.epsilon_svt)
    second = 2 * unit * (1 + ratio) / ratio / mpmath.mpf(problem.epsilon_svt)
    gaps = []
    for epsilon in problem.candidates:
        normalised = precise_normalised(problem, epsilon)
        q, tau = precise_variance(normalised, problem.counts.tolist()), mpmath.mpf(problem.threshold)
        if method == "sharp":
            edges = precise_normalised(replace_values(problem), epsilon)
            q, tau = q / (edges[1] - edges[0]) ** 2, tau / (edges[1] - edges[0]) ** 2
        gaps.append(q - tau)

    def above(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.exp(-x / second) / 2 if x >= 0 else 1 - mpmath.exp(x / second) / 2

    def integrand(j: int, r: mpmath.mpf) -> mpmath.mpf:
        value = mpmath.exp(-abs(r) / first) / (2 * first)
        for gap in gaps[:j]:
            value *= 1 - above(gap + r)
        return value * (above(gaps[j] + r) if j < len(gaps) else 1)

    reach = 60 * first
    inner = [point for point in [0, *(-gap for gap in gaps)] if -reach < point < reach]
    marks = sorted({*inner, *(reach * i / 15 for i in range(-15, 16))})
    return [mpmath.quad(lambda r, j=j: integrand(j, r), marks) for j in range(len(gaps) + 1)]


def replace_values(problem: SelectionProblem) -> SelectionProblem:
    """The same query with one slot at PIS 0 and one at Δ: the ends of the interval of normalised RDRs."""
    return replace(problem, n=2, values=np.array([0.0, problem.sensitivity]), counts=np.array([1, 1]))


@pytest.mark.parametrize(
    ("mechanism", "method", "threshold", "epsilon_svt"),
    [(LAPLACE, "paper", 0.03, 1.0), (ZCDP, "paper", 0.03, 1.0), (ZCDP, "sharp", 0.003, 0.1)],
)
def test_outcome_of_the_sparse_vector_in_high_precision(
    mechanism: Mechanism, method: Method, threshold: float, epsilon_svt: float
) -> None:
    problem = make_problem(
        [0.0] * 150 + [0.5] * 20 + [1.0] * 30,
        mechanism,
        candidates=(6.0, 2.0, 0.7, 0.2),
        threshold=threshold,
        epsilon_svt=epsilon_svt,
    )
    outcome = outcome_distribution(problem, method=method)
    with mpmath.workdps(25):
        expected = [float(chance) for chance in precise_outcome(problem, method)]
    assert [*outcome.probabilities, outcome.denial] == pytest.approx(expected, abs=1e-8)
    assert max(expected) < 0.98


def test_outcome_of_one_number_is_the_laplace_distribution() -> None:
    problem = make_problem([0.0] * 150 + [1.0] * 50, candidates=(6.0, 2.0, 0.7, 0.2), threshold=0.03, epsilon_svt=0.1)
    outcome = outcome_distribution(problem, method="sharp")
    with mpmath.workdps(40):
        scale = mpmath.mpf(199) / 200**2 / mpmath.mpf(0.1)
        level = mpmath.mpf(150 * 50) / 200**2
        below = [mpmath.mpf(0)]
        for epsilon in problem.candidates:
            x = (problem.threshold * (1 + 1 / mpmath.mpf(epsilon)) ** 2 - level) / scale
            below.append(mpmath.exp(x) / 2 if x < 0 else 1 - mpmath.exp(-x) / 2)
        expected = [float(b - a) for a, b in pairwise(below)]
    assert list(outcome.probabilities) == pytest.approx(expected, abs=1e-8)
    assert outcome.denial == pytest.approx(float(1 - below[-1]), rel=1e-6)


@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP], ids=["laplace", "zcdp"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [1, 2, 37, 120])
def test_probabilities_add_up(mechanism: Mechanism, method: Method, count: int) -> None:
    """Chances and denial are integrated separately; at |E| = 120 the product of factors is at its steepest."""
    candidates = tuple(float(x) for x in np.geomspace(10.0, 0.001, count))
    for threshold, epsilon_svt in product((1e-7, 1e-3, 0.3), (0.01, 1.0, 50.0)):
        problem = make_problem(
            [0.0] * 95 + [1.0] * 5, mechanism, candidates=candidates, threshold=threshold, epsilon_svt=epsilon_svt
        )
        outcome = outcome_distribution(problem, method=method)
        assert min(outcome.probabilities) >= 0.0
        assert math.fsum((*outcome.probabilities, outcome.denial)) == pytest.approx(1.0, abs=1e-12)


def test_quadrature_has_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem([0.0] * 95 + [1.0] * 5, candidates=paper_candidates(), threshold=0.002)
    coarse = outcome_distribution(problem, method="paper")
    monkeypatch.setattr(selection, "_NODES", 48)
    fine = outcome_distribution(problem, method="paper")
    assert coarse.probabilities == pytest.approx(fine.probabilities, abs=1e-14)


def test_violations_are_the_chances_of_candidates_above_the_threshold() -> None:
    problem = make_problem([0.0] * 90 + [1.0] * 10, candidates=(5.0, 1.0, 0.5, 0.1), threshold=0.015)
    outcome = outcome_distribution(problem, method="paper")
    slots = np.array([0.0] * 90 + [1.0] * 10)
    bad = sum(
        chance
        for epsilon, chance in zip(problem.candidates, outcome.probabilities, strict=True)
        if np.var((slots + 1 / epsilon) / (1 + 1 / epsilon)) > 0.015
    )
    assert violation_probability(problem, outcome) == pytest.approx(bad, rel=1e-12)
    assert violation_share(problem, outcome) == pytest.approx(bad / (1 - outcome.denial), rel=1e-9)
    assert 0.1 < bad < 0.9


# ---------------------------------------------------------------- V4: accuracy


@pytest.mark.parametrize(("first", "second"), [(1.0, 1.0), (2.0, 2.0), (1.0, 1.5), (2.6, 3.26), (1.0, 1.0 + 1e-7)])
@pytest.mark.parametrize("distance", [0.0, 0.5, 3.0, 20.0])
def test_tail_of_a_difference_by_convolution(first: float, second: float, distance: float) -> None:
    with mpmath.workdps(30):

        def survival(y: mpmath.mpf) -> mpmath.mpf:  # P(X > y), X of the first scale
            return mpmath.exp(-y / first) / 2 if y >= 0 else 1 - mpmath.exp(y / first) / 2

        def integrand(y: mpmath.mpf) -> mpmath.mpf:
            return mpmath.exp(-abs(y) / second) / (2 * second) * survival(distance + y)

        marks = sorted({-60 * second, -distance - 5 * first, -distance, 0, 5 * second, 60 * second})
        expected = 2 * mpmath.quad(integrand, marks)
    assert difference_tail(distance, first, second) == pytest.approx(float(expected), rel=1e-6)


def test_tail_of_a_difference_by_simulation() -> None:
    """n = 1,000,000, α = 1e-4 each (two-sided normal bound, 3.9 deviations), seeded."""
    generator = np.random.default_rng(7)
    n = 1_000_000
    for first, second in ((1.0, 1.0), (2.587, 3.26)):
        spread = np.abs(generator.laplace(scale=first, size=n) - generator.laplace(scale=second, size=n))
        for distance in (1.0, 5.0, 12.0):
            p = difference_tail(distance, first, second)
            assert abs((spread > distance).mean() - p) < 3.9 * math.sqrt(p * (1 - p) / n)


def test_accuracy_of_the_paper() -> None:
    problem = varied_problem(LAPLACE, 1)
    result = accuracy(problem, 0.05, method="paper")
    n = problem.n
    assert result.paper_alpha == pytest.approx(6 / n * math.log(2 * 37 / 0.05))
    unit, ratio = (n - 1) / n**2, 2 ** (2 / 3)
    with mpmath.workdps(30):
        b1, b2 = unit * (1 + ratio), 2 * unit * (1 + ratio) / ratio

        def tail(a: mpmath.mpf) -> mpmath.mpf:
            return (b1**2 * mpmath.exp(-a / b1) - b2**2 * mpmath.exp(-a / b2)) / (b1**2 - b2**2)

        expected = mpmath.findroot(lambda a: mpmath.log(37 * tail(a) / 0.05), result.paper_alpha / 2)
    assert result.exact_alpha == pytest.approx(float(expected), rel=1e-12)
    assert result.exact_alpha < result.paper_alpha
    assert result.by_candidate == (result.exact_alpha,) * 37
    assert result.warning


def test_accuracy_of_the_sharp_method() -> None:
    problem = varied_problem(LAPLACE, 1)
    result = accuracy(problem, 0.05)
    scale = (problem.n - 1) / problem.n**2
    assert result.exact_alpha == pytest.approx(scale * math.log(20) * (10 / 11) ** 2, rel=1e-12)
    assert result.by_candidate[-1] == pytest.approx(scale * math.log(20) * (0.001 / 1.001) ** 2, rel=1e-12)
    assert result.warning
    assert not accuracy(replace(problem, threshold=1e-3), 0.05).warning


@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP], ids=["laplace", "zcdp"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("matching", [1, 20, 60, 100])
def test_accuracy_holds_in_the_exact_distribution(mechanism: Mechanism, method: Method, matching: int) -> None:
    """V4's two promises, checked with V3's probabilities."""
    beta = 0.1
    for threshold in (1e-4, 0.01, 0.05):
        problem = make_problem(
            [1.0] * matching + [0.0] * (200 - matching),
            mechanism,
            candidates=paper_candidates(),
            threshold=threshold,
            epsilon_svt=0.7,
        )
        alphas = accuracy(problem, beta, method=method).by_candidate
        outcome = outcome_distribution(problem, method=method)
        spreads = [normalised_variance(problem, epsilon) for epsilon in problem.candidates]
        rows = list(zip(outcome.probabilities, spreads, alphas, strict=True))
        too_large = sum(chance for chance, q, alpha in rows if q > threshold + alpha)
        safe = next((j for j, (_, q, alpha) in enumerate(rows) if q < threshold - alpha), None)
        passed_over = 0.0 if safe is None else sum(outcome.probabilities[safe + 1 :]) + outcome.denial
        assert too_large + passed_over <= beta


# ---------------------------------------------------------------- refusals


def plan_of(*kinds: MeasureKind) -> QueryPlan:
    measures = tuple(
        Measure(kind, None, f"M{i}(x)", Fraction(1), Fraction(1), 1.0, 1.0) for i, kind in enumerate(kinds)
    )
    return QueryPlan(
        sql="",
        table="t",
        columns=(),
        where=None,
        groups=(),
        arguments=(),
        measures=measures,
        estimates=(),
        outputs=(),
        having=None,
        order=(),
        limit=None,
        declared=True,
        hand_sensitivity=None,
        schema=Schema("t", {}),
        digest="",
    )


@pytest.mark.parametrize("kind", list(MeasureKind))
def test_only_additive_queries_pass(kind: MeasureKind) -> None:
    plan = plan_of(MeasureKind.COUNT, kind)
    if plan.additive:
        require_additive(plan)
        return
    with pytest.raises(QueryError, match=r"M1\(x\)") as caught:
        require_additive(plan)
    assert caught.value.clause == "M1(x)"
    assert "--epsilon" in str(caught.value)
    advice = "GROUP BY CASE" if kind in (MeasureKind.QUANTILE, MeasureKind.COUNT_DISTINCT) else "--min-rows"
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"threshold": 0.0},
        {"threshold": math.nan},
        {"epsilon_svt": 0.0},
        {"epsilon_svt": math.inf},
        {"candidates": ()},
        {"candidates": (0.1, 1.0)},
        {"candidates": (1.0, 1.0)},
        {"candidates": (1.0, -1.0)},
        {"k": 0},
        {"sensitivity": 0.0},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        make_problem([0.0, 1.0], **changes)


def test_an_unknown_method_is_refused() -> None:
    problem = make_problem([0.0, 1.0])
    for function in (select_epsilon, outcome_distribution, accuracy):
        with pytest.raises(OptionError, match="sharp or paper"):
            function(problem, method="blunt")  # type: ignore[operator]


def test_data_that_contradicts_the_declaration_is_refused() -> None:
    with pytest.raises(DataError):
        make_problem([0.0, 1.0], n=3)
    with pytest.raises(DataError):
        make_problem([0.0, 1.5])
    with pytest.raises(DataError):
        make_problem([0.0, math.nan])
    with pytest.raises(OptionError):
        make_problem([0.0])


def test_private_values_do_not_show() -> None:
    problem = make_problem([0.0, 0.625])
    for private in (problem, prepare_test(problem, method="sharp"), outcome_distribution(problem, method="paper")):
        assert "redacted" in repr(private)
        assert "0.625" not in repr(private)


def test_tiny_candidates_do_not_overflow() -> None:
    outcome = outcome_distribution(make_problem([0.0, 1.0, 1.0], candidates=(1e-200,)), method="sharp")
    assert outcome.probabilities == (1.0,)
