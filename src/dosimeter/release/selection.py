"""Find ε privately. Takes a SelectionProblem; gives an ε or a denial, and for the controller what to expect (V1–V8).

A noisy test asks of each ε whether the variance of everybody's normalised RDRs, q_svt(ε), is at most the threshold τ.
An ε at which it is larger *violates* the threshold. With r = PIS/Δ, a slot's normalised RDR (R9) is ``low + w·u``: its
*unit risk* u lies in [0, 1], low and w are public and the same for all slots, so that q_svt(ε) = w²·Var(u) over the n
slots. For Laplace u = r whatever ε is, and w = ε/(ε + k); for Gaussian, with s = √k·σ/Δ,

    u = r²·(√(1 + s²) + s)/(√(r² + s²) + s),      w = 1 − s/√(1 + s²).

Candidates are tried in descending order. A candidate's *level* is the variance that is tested, before noise. The first
candidate is taken with

    level + shared noise − own noise ≤ threshold.

*Shared noise* is drawn once for all candidates, *own noise* once for each. There are two tests: the paper's, and the
*sharp* one, which has less noise, as it draws a single noisy number. Their levels, thresholds and noise are:

    paper    w²·Var(u)  against τ              shared ~ Lap(Δ_svt/ε₁), own ~ Lap(2Δ_svt/ε₂), ε₁ + ε₂ = ε_svt
    sharp    Var(t)     against τ/slope²       shared ~ Lap(Δ_svt/ε_svt), no own noise: all share one noisy number

The sharp test's t does not depend on ε, and q_svt(ε) ≤ slope²·Var(t). Laplace: t = r, slope = w, with equality (V5).
Gaussian: t = r². Where everybody moves the answer by nothing or by Δ, u = t whatever ε is, slope = w, with equality;
otherwise u is a concave function of t, and slope = w times its steepest slope (V6). Both u and t lie in [0, 1] and are
functions of the slot's own rows, so their variances move by at most Δ_svt = (n − 1)/n² when an individual's rows are
removed (V2). A promise on violations bounds the probability of releasing an ε that violates the threshold. It lowers
the sharp thresholds by a public number of steps (V7).

**Integers.** One step is Δ_svt/2³⁰. Unit risks are rounded to multiples of 2⁻³⁰, each from its own slot's PIS by
operations that IEEE 754 rounds correctly; their variance is then an exact fraction. So the floats' error moves a slot's
value inside [0, 1] and adds nothing to the sensitivity: what V2 bounds is what is computed. Nor does rounding a level
down to a whole step: ``|a − b| ≤ m`` gives ``|⌊a⌋ − ⌊b⌋| ≤ m`` for the whole number m = 2³⁰. All this rests on a PIS
that is a function of the individual's own rows, to the bit; ``require_additive`` refuses queries where it is not.
Thresholds, weights, scales and the number of draws are public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.errors import DataError, OptionError, QueryError
from dosimeter.html import Private
from dosimeter.measures import Dependence
from dosimeter.mechanisms import Laplace, Mechanism
from dosimeter.options import Selection, check_option
from dosimeter.planning import QueryPlan
from dosimeter.problems import Hint, Option, for_controller, leave_out
from dosimeter.release.noise import certified_scale, draw_discrete_laplace, exact_number, round_down

_STEP_BITS = 30  # Δ_svt is 2³⁰ steps
_RISK_BITS = 30  # unit risks are multiples of 2⁻³⁰
_HALF_BITS = _RISK_BITS // 2
STEPS = 1 << _STEP_BITS
_MOST_SLOTS = 1 << 32  # sums of 2³⁰ over the slots stay below 2⁶³
_EPSILON_SVT_RANGE = (1e-6, 100.0)  # below: noise near OpenDP's ±2⁶³; above: steps too coarse against the noise
_HIGHEST_THRESHOLD = 1 << 100  # no noise reaches it; keeps floats finite for tiny candidates
_ROUNDING = 1e-9  # how far above Δ rounding may bring a PIS, relatively
_MET = 1e-12  # F1
_OFF = Fraction(1, 2 << _RISK_BITS) + Fraction(
    1, 1 << 40
)  # how far rounding, and floats before it, move a slot's value
_SPLIT = 2.0 ** (2.0 / 3.0)  # V1: ε₂/ε₁
_REACH = 45.0  # scales on each side of 0 that quadrature covers; e⁻⁴⁵ < 3e-20 is beyond
_NODES = 16
_LAPLACE = Laplace()


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SelectionProblem:
    """The input of a noisy test that selects ε. ``values`` and ``counts`` are private: the PIS over all slots (N2).

    ``counts``: how many slots have each PIS. There are ``n`` slots as declared, or one per person if the table holds
    more people (N4). ``k``: how many noisy numbers there are. ``sensitivity``: Δ. ``threshold``: τ, the largest
    variance of the normalised RDRs. ``epsilon_svt``: what the test may spend. ``two_valued``: whether everybody moves
    the answer by nothing or by Δ whatever the data, which is public (V6). ``violation``: the promised probability of
    releasing an ε at which the exact variance is above ``threshold``; None without a promise (V7).
    """

    n: int
    k: int
    sensitivity: float
    mechanism: Mechanism
    values: FloatArray
    counts: IntArray
    candidates: tuple[float, ...]
    threshold: float
    epsilon_svt: float
    two_valued: bool = False
    violation: float | None = None

    def __post_init__(self) -> None:
        _check_options(self)
        if self.values.shape != self.counts.shape or self.values.ndim != 1:
            raise DataError("Per-instance sensitivities need one count each.")
        if (self.counts < 0).any() or self.slots < self.n:
            raise DataError("There are fewer slots than declared individuals.")
        if not ((self.values >= 0.0) & (self.values <= self.sensitivity * (1.0 + _ROUNDING))).all():
            raise DataError(
                "Somebody moves the answer by more than its sensitivity. Check bounds and max_rows_per_unit in the "
                "schema."
            )

    @property
    def slots(self) -> int:
        """Return how many slots there are. Private if they are more than declared."""
        return int(self.counts.sum())

    def __repr__(self) -> str:
        return f"SelectionProblem(n={self.n}, redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class NoisyTest:
    """A selection problem as integers, before noise is drawn. ``levels`` are private; all else is public.

    ``levels[j]``: the variance by which candidate j is tested, and ``thresholds[j]`` the most that it may be, both in
    steps of Δ_svt/2³⁰. Candidate j passes if ``levels[j] + shared − own[j] <= thresholds[j]``, where ``shared`` is one
    draw for all candidates and ``own`` one for each. ``shared_epsilon`` and ``own_epsilon``: what these draws cost.
    ``own_epsilon`` is None for a test without own noise: then all levels are the same number.
    """

    levels: tuple[int, ...]
    thresholds: tuple[int, ...]
    shared_epsilon: float
    own_epsilon: float | None

    @property
    def shared_scale(self) -> float:
        return STEPS / self.shared_epsilon

    @property
    def own_scale(self) -> float | None:
        return None if self.own_epsilon is None else 2 * STEPS / self.own_epsilon

    def first_passing(self, shared: int, own: Sequence[int] | None = None) -> int | None:
        """Return the index of the first candidate that passes with these draws of noise; None if none does."""
        draws = own if own is not None else (0,) * len(self.levels)
        for index, (level, threshold, draw) in enumerate(zip(self.levels, self.thresholds, draws, strict=True)):
            if level + shared - draw <= threshold:
                return index
        return None

    def __repr__(self) -> str:
        return f"NoisyTest(candidates={len(self.levels)}, redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class OutcomeProbabilities(Private):
    """The probability of each candidate to be released, and the probability of a denial.

    Computed from private data: for the controller's eyes only.
    """

    probabilities: tuple[float, ...]
    denial: float


@dataclass(frozen=True, slots=True)
class NoisyTestAccuracy:
    """The accuracy of the noisy test: α, how far from the threshold τ it can err (V4). Public.

    q_svt(ε) is the variance of the normalised RDRs. With probability 1 − β, a released ε has q_svt(ε) ≤ τ + α, and no
    candidate with q_svt below τ − α is passed over. Where the sharp test reads an upper bound of q_svt instead (V6), no
    candidate whose bound is below τ − α is passed over. ``paper_alpha``: the α that the paper states. ``by_candidate``:
    the exact α of each ε, all the same for the paper's test. ``exact_alpha``: the largest of these. ``warning``:
    whether τ is below ``exact_alpha``, so that noise alone may let an ε pass.
    """

    beta: float
    paper_alpha: float
    exact_alpha: float
    by_candidate: tuple[float, ...]
    warning: bool


def svt_sensitivity(n: int) -> Fraction:
    """Return Δ_svt: how far the variance of n values in [0, 1] can move if one of them changes."""
    return Fraction(n - 1, n * n)  # V2


def split_budget(epsilon_svt: float) -> tuple[float, float]:
    """Return (ε₁, ε₂), the parts of ε_svt for the shared and for the own noise, at 1 : 2^(2/3).

    Their exact sum never exceeds ε_svt, taken as a float or as the decimal it prints as.
    """
    whole = exact_number(epsilon_svt)
    first = epsilon_svt / (1.0 + _SPLIT)  # V1
    second = epsilon_svt - first
    while Fraction(first) + Fraction(second) > whole:
        second = math.nextafter(second, 0.0)  # more noise, never less
    return first, second


def normalised_variance(problem: SelectionProblem, epsilon: float) -> float:
    """Return q_svt(ε): the variance of RDR_i/RDR* over the slots (V1, R9), from the true data."""
    risks = _unit_risks(problem, epsilon)
    mean = float(risks @ problem.counts) / problem.slots
    spread = float((risks - mean) ** 2 @ problem.counts) / problem.slots
    return float(_weight(problem, epsilon)) ** 2 * spread


def prepare_test(problem: SelectionProblem, *, method: Selection) -> NoisyTest:
    """Return the noisy test of a problem: for each ε the variance to test and its threshold, in whole steps.

    A step is Δ_svt/2³⁰; both are rounded down. The sharp test has the same variance for every ε.
    """
    check_option("selection", method)
    step = svt_sensitivity(problem.n) / STEPS
    if method == "sharp":
        thresholds = _sharp_thresholds(problem)
        shared = round_down(exact_number(problem.epsilon_svt))
        return NoisyTest((_sharp_level(problem),) * len(thresholds), thresholds, shared, None)
    refuse_promise(problem.violation)
    levels = []
    for epsilon in problem.candidates:
        spread = _exact_variance(_unit_risks(problem, epsilon), problem.counts)
        levels.append(math.floor(_weight(problem, epsilon) ** 2 * spread / step))  # V1
    threshold = min(math.floor(Fraction(problem.threshold) / step), _HIGHEST_THRESHOLD)
    return NoisyTest(tuple(levels), (threshold,) * len(levels), *split_budget(problem.epsilon_svt))


def find_margin(problem: SelectionProblem) -> int:
    """Return by how many steps a promise on violations lowers the thresholds; 0 without a promise (V7). Public.

    This margin is so wide that noise lowers a variance by as much or more with at most the promised probability. If a
    PIS can lie between 0 and Δ, the margin is widened for rounding. Rounding moves the value of each slot, from 0 to 1,
    by at most ``_OFF``, and so may lower their variance by up to ``_OFF + _OFF²``.
    """
    if problem.violation is None:
        return 0
    scale = _certify_number(problem)
    noise = _LAPLACE.find_excess(scale, exact_number(problem.violation))
    if problem.two_valued:
        return noise
    return noise + math.ceil((_OFF + _OFF**2) / (svt_sensitivity(problem.n) / STEPS))


def draw_number(problem: SelectionProblem) -> int:
    """Draw and return the noisy number of the sharp test: a variance plus noise, in steps of Δ_svt/2³⁰ (V5, V6).

    The same number is compared with the threshold of every candidate. Costs ε_svt, and may be used again (V8).
    """
    return _sharp_level(problem) + draw_discrete_laplace(_certify_number(problem), 1)[0]


def find_passing(problem: SelectionProblem, number: int) -> float | None:
    """Return the first candidate whose threshold the noisy number does not exceed; None if it exceeds all.

    Reads no data.
    """
    thresholds = zip(problem.candidates, _sharp_thresholds(problem), strict=True)
    passing = (epsilon for epsilon, most in thresholds if number <= most)
    return next(passing, None)


def select_epsilon(problem: SelectionProblem, *, method: Selection) -> float | None:
    """Draw noise and run the test once. Return the ε to release, or None for a denial. Costs ε_svt either way (O1).

    All noise is drawn before anything is compared: neither how many draws there are nor their time depends on the data.
    """
    check_option("selection", method)
    if method == "sharp":
        return find_passing(problem, draw_number(problem))
    test = prepare_test(problem, method=method)
    assert test.own_epsilon is not None, "the sparse vector has noise of its own for every candidate"
    shared = draw_discrete_laplace(certified_scale(STEPS, test.shared_epsilon), 1)[0]
    own = draw_discrete_laplace(certified_scale(2 * STEPS, test.own_epsilon), len(problem.candidates))
    index = test.first_passing(shared, own)
    return None if index is None else problem.candidates[index]


def outcome_distribution(problem: SelectionProblem, *, method: Selection) -> OutcomeProbabilities:
    """Return the probability of every outcome of the noisy test (V3), from the same integers that the test uses.

    For the sharp test (V5) it is exact. For the paper's test, the integer noise is taken to be continuous. That moves
    the probability of each comparison by at most ε_svt/2³⁰, the noise's largest density over one step, and all
    probabilities together by less than ε_svt/2³⁰ times the number of candidates: 4e-8 for 37 of them at ε_svt = 1.
    """
    test = prepare_test(problem, method=method)
    gaps = np.array([float(threshold - level) for threshold, level in zip(test.thresholds, test.levels, strict=True)])
    if test.own_scale is None:
        return _one_number_outcome(gaps, test.shared_scale)
    return _sparse_vector_outcome(gaps / test.shared_scale, test.own_scale / test.shared_scale)


def known_outcome(problem: SelectionProblem, number: int) -> OutcomeProbabilities:
    """Return the outcome that an already drawn noisy number makes certain: its probability is 1 (V8)."""
    found = find_passing(problem, number)
    return OutcomeProbabilities(tuple(float(epsilon == found) for epsilon in problem.candidates), float(found is None))


def violation_probability(problem: SelectionProblem, outcome: OutcomeProbabilities) -> float:
    """Return the probability that an ε is released at which the exact variance exceeds τ. Private.

    The variance is that of the normalised RDRs, q_svt(ε). A run that ends in a denial counts as no violation.
    """
    limit = problem.threshold * (1.0 + _MET)  # F1
    pairs = zip(problem.candidates, outcome.probabilities, strict=True)
    return math.fsum(chance for epsilon, chance in pairs if normalised_variance(problem, epsilon) > limit)


def violation_share(problem: SelectionProblem, outcome: OutcomeProbabilities) -> float:
    """Return ``violation_probability`` given that an ε is released, not a denial; 0 if nothing is ever released."""
    released = math.fsum(outcome.probabilities)
    return violation_probability(problem, outcome) / released if released > 0.0 else 0.0


def noisy_test_accuracy(
    problem: SelectionProblem, beta: float = 0.05, *, method: Selection = "sharp"
) -> NoisyTestAccuracy:
    """Return by how much the noisy test may err: with probability 1 − β, by at most α (V4).

    Public: it reads no PIS. ``paper_alpha`` is for the paper's own split of the test's ε, 1/3 : 2/3. In the sharp test
    each candidate has its own α: noise that moves the tested Var(t) by x moves q_svt by slope²·x, and the slope depends
    on ε. This α includes the margin of a promise (V7), which may make the test pass over good candidates.
    """
    check_option("selection", method)
    if not 0.0 < beta < 1.0:
        raise OptionError("beta must lie strictly between 0 and 1.")
    unit = float(svt_sensitivity(problem.n))
    tests = len(problem.candidates)
    paper = 6.0 / (problem.n * problem.epsilon_svt) * math.log(2.0 * tests / beta)
    if method == "sharp":
        reach = unit / problem.epsilon_svt * math.log(1.0 / beta) + unit * find_margin(problem) / STEPS
        alphas = tuple(reach * float(_slope(problem, epsilon)) ** 2 for epsilon in problem.candidates)
    else:
        first, second = split_budget(problem.epsilon_svt)
        alphas = (unit * _tail_quantile(1.0 / first, 2.0 / second, beta / tests),) * tests
    return NoisyTestAccuracy(beta, paper, max(alphas), alphas, problem.threshold < max(alphas))


def is_two_valued(plan: QueryPlan) -> bool:
    """Return whether everybody moves the answer by nothing or by Δ, whatever the data (V6).

    True if there is one measure, a total of whole grid steps, and nobody moves all groups together by more than one
    step: a COUNT with one row per individual, in any groups, or the number of individuals.
    """
    if len(plan.all_measures) != 1 or plan.hand_sensitivity is not None:
        return False
    measure = plan.all_measures[0]
    return measure.additive and measure.grid == measure.unit and measure.sensitivity(1) == measure.unit


def difference_tail(distance: float, first: float, second: float) -> float:
    """Return P(|X − Y| > distance) for independent Laplace X, Y of these scales (V4)."""
    if math.isclose(first, second, rel_tol=1e-6):
        scale = max(first, second)
        return (1.0 + distance / (2.0 * scale)) * math.exp(-distance / scale)
    near, far = first * first * math.exp(-distance / first), second * second * math.exp(-distance / second)
    return (near - far) / (first * first - second * second)


def require_additive(plan: QueryPlan) -> None:
    """Refuse measures that V2 does not cover: the PIS must depend on the individual's own rows alone."""
    for measure in plan.all_measures:
        if measure.depends_on is None:
            continue
        reason, instead = _REFUSALS[measure.depends_on]
        raise QueryError(
            f"ε cannot be found privately for {measure.label}: {reason} The noise that hides one individual in the "
            "variance of the RDRs is enough only where each individual's sensitivity depends on their own rows.",
            instead,
            for_controller("Or release at a fixed ε: ", Option("epsilon", text="E"), "."),
            clause=measure.label,
        )


_RANGES = Hint(
    "Count per range instead, SELECT COUNT(*) … GROUP BY CASE WHEN … THEN … END, and read it off the counts."
)
_SUMS = for_controller(
    "Leave out ",
    Option("min_rows"),
    " and any sensitivity given by hand: it is then measured through sums, and can be.",
)
_REFUSALS: Mapping[Dependence, tuple[str, Hint]] = {
    Dependence.VALUES: (
        "how far one individual moves it depends on everybody else's values. With 501 zeros and 500 ones, taking one "
        "zero away moves the variance of a median's sensitivities by 1/16, and a larger table does not help.",
        _RANGES,
    ),
    Dependence.HOLDERS: (
        "an individual counts only while nobody else holds the same value, so that when one holder goes, another's "
        "sensitivity changes too. With two rows each, among ten people, the variance can move by 0.12; 0.09 is hidden.",
        _RANGES,
    ),
    Dependence.MEAN: ("one individual's pull on a mean changes when anybody else's rows go.", _SUMS),
    Dependence.VARIANCE: ("one individual's pull on a variance changes when anybody else's rows go.", _SUMS),
    Dependence.DEVIATION: ("one individual's pull on a deviation changes when anybody else's rows go.", _SUMS),
}


def refuse_promise(violation: float | None) -> None:
    """Refuse a promise on violations (V7), which the paper's test cannot keep; do nothing if ``violation`` is None."""
    if violation is not None:
        raise OptionError(
            "The paper's test cannot promise how often a released ε violates the threshold: each candidate has noise "
            "of its own.",
            leave_out("selection"),
        )


def _check_options(problem: SelectionProblem) -> None:
    lowest, highest = _EPSILON_SVT_RANGE
    candidates = problem.candidates
    if not 2 <= problem.n <= _MOST_SLOTS:
        raise OptionError(f"Finding ε privately needs between 2 and {_MOST_SLOTS:,} declared individuals.")
    if problem.k < 1:
        raise OptionError("A query measures at least one number.")
    if not (math.isfinite(problem.sensitivity) and problem.sensitivity > 0.0):
        raise OptionError("The sensitivity must be a positive number.")
    if not (math.isfinite(problem.threshold) and problem.threshold > 0.0):
        raise OptionError(
            "The variance threshold must be a positive number, such as ", Option("variance", text="1e-5"), "."
        )
    if not lowest <= problem.epsilon_svt <= highest:
        raise OptionError(
            "The budget for finding ε (", Option("svt"), f") must lie between {lowest:g} and {highest:g}."
        )
    check_option("violation", problem.violation, optional=True)
    if not candidates or not all(math.isfinite(epsilon) and epsilon > 0.0 for epsilon in candidates):
        raise OptionError("Candidates for ε must be positive numbers, at least one.")
    if any(higher <= lower for higher, lower in pairwise(candidates)):
        raise OptionError("Candidates for ε must be in descending order, each once.")


def _weight(problem: SelectionProblem, epsilon: float) -> Fraction:
    """Return w: the width of the interval in which all normalised RDRs at this ε lie."""
    return problem.mechanism.level_width(problem.k, sensitivity=problem.sensitivity, epsilon=epsilon)


def _unit_risks(problem: SelectionProblem, epsilon: float) -> FloatArray:
    """Return, for each PIS, its unit risk u: where the normalised RDR lies in its interval at this ε, 0 to 1 (V5)."""
    relative = np.clip(problem.values / problem.sensitivity, 0.0, 1.0)
    return problem.mechanism.unit_risks(relative, problem.k, sensitivity=problem.sensitivity, epsilon=epsilon)


def _tested_values(problem: SelectionProblem) -> FloatArray:
    """Return, for each PIS, the value t from 0 to 1 whose variance the sharp test reads: PIS/Δ or its square (V5)."""
    relative = np.clip(problem.values / problem.sensitivity, 0.0, 1.0)
    return problem.mechanism.tested_values(relative)


def _slope(problem: SelectionProblem, epsilon: float) -> Fraction:
    """Return the slope at this ε: two normalised RDRs differ by at most the slope times what their t differ by.

    t is what ``_tested_values`` returns.
    """
    k, sensitivity = problem.k, problem.sensitivity
    if problem.two_valued:
        return _weight(problem, epsilon)
    return problem.mechanism.tested_slope(k, sensitivity=sensitivity, epsilon=epsilon)


def _sharp_level(problem: SelectionProblem) -> int:
    """Return the variance of ``_tested_values`` over the slots, in steps of Δ_svt/2³⁰, rounded down. Private."""
    spread = _exact_variance(_tested_values(problem), problem.counts)
    return math.floor(spread / (svt_sensitivity(problem.n) / STEPS))


def _sharp_thresholds(problem: SelectionProblem) -> tuple[int, ...]:
    """Return, for each candidate, the largest noisy number at which it passes (V5–V7). Public.

    In steps of Δ_svt/2³⁰.
    """
    step, margin = svt_sensitivity(problem.n) / STEPS, find_margin(problem)
    limits = (Fraction(problem.threshold) / _slope(problem, epsilon) ** 2 for epsilon in problem.candidates)
    return tuple(min(math.floor(limit / step), _HIGHEST_THRESHOLD) - margin for limit in limits)


def _certify_number(problem: SelectionProblem) -> float:
    """Return the certified scale of the sharp test's noise, in steps of Δ_svt/2³⁰."""
    return certified_scale(STEPS, round_down(exact_number(problem.epsilon_svt)))


def _exact_variance(risks: FloatArray, counts: IntArray) -> Fraction:
    """Round each risk to a multiple of 2⁻³⁰, and return the exact population variance of the rounded risks.

    ``counts``: how many slots have each risk. Numbers are split into halves of 15 bits, so that every sum stays inside
    64 bits.
    """
    whole = np.rint(risks * float(1 << _RISK_BITS)).astype(np.int64)
    people = counts.astype(np.int64)
    high, low = whole >> _HALF_BITS, whole & ((1 << _HALF_BITS) - 1)
    total = int(people @ whole)
    squares = (
        (int(people @ (high * high)) << _RISK_BITS)
        + (int(people @ (high * low)) << (_HALF_BITS + 1))
        + int(people @ (low * low))
    )
    n = int(people.sum())
    return Fraction(n * squares - total * total, n * n << (2 * _RISK_BITS))


def _one_number_outcome(gaps: FloatArray, scale: float) -> OutcomeProbabilities:
    """Return the exact chance of each candidate to be the one found, by the test that draws a single noisy number.

    The noise is an integer from the Laplace distribution of this scale. ``gaps``: for each candidate, by how many steps
    its variance is below its threshold. The gaps rise as ε falls, so a candidate is found if the noise is at most its
    own gap and above the gap of the next larger candidate.
    """
    below, above = _LAPLACE.exceed(scale, -gaps), _LAPLACE.exceed(scale, gaps + 1.0)
    steps = np.where(gaps[1:] < 0.0, below[1:] - below[:-1], above[:-1] - above[1:])  # subtract the small ones
    return OutcomeProbabilities((float(below[0]), *(float(step) for step in steps)), float(above[-1]))


def _sparse_vector_outcome(gaps: FloatArray, own_scale: float) -> OutcomeProbabilities:
    """Return the probability of every outcome of the paper's test, its noise taken to be continuous.

    A candidate is released if it passes and all larger ones fail. Given the shared noise r, candidates pass or fail
    independently, so P(ε_j) = ∫ f(r) Π_{l<j} (1 − p_l(r)) p_j(r) dr. Here p_l(r) = P(own ≥ r − gap_l) is the
    probability that candidate l passes, and f is the density of r. ``gaps``: threshold minus level of each candidate.
    ``own_scale``: the scale of the own noise. Both are multiples of the shared noise's scale. The integral is computed
    piece by piece between the kinks of the densities.
    """
    kinks = np.clip(np.concatenate(([-_REACH, 0.0, _REACH], gaps)), -_REACH, _REACH)
    longest = 2.0 * min(1.0, own_scale) / max(1.0, len(gaps) / 8.0)  # a product of |E| factors bends |E| times as fast
    nodes, weights = _quadrature(np.unique(kinks), longest)
    survival = weights * 0.5 * np.exp(-np.abs(nodes))
    chances = []
    for gap in gaps:
        passing = _laplace_below((gap - nodes) / own_scale)
        chances.append(float(survival @ passing))
        survival = survival * _laplace_below((nodes - gap) / own_scale)
    return OutcomeProbabilities(tuple(chances), float(survival.sum()))


def _laplace_below(points: FloatArray) -> FloatArray:
    """Return P(X ≤ point) for the Laplace distribution of scale 1."""
    tail = 0.5 * np.exp(-np.abs(points))
    return np.where(points < 0.0, tail, 1.0 - tail)


def _quadrature(kinks: FloatArray, longest: float) -> tuple[FloatArray, FloatArray]:
    """Return Gauss–Legendre nodes and weights on pieces that end at every kink and are no longer than ``longest``."""
    pieces = np.maximum(1, np.ceil(np.diff(kinks) / longest)).astype(int)
    starts = [np.linspace(a, b, count + 1)[:-1] for (a, b), count in zip(pairwise(kinks), pieces, strict=True)]
    edges = np.append(np.concatenate(starts), kinks[-1])
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    half = np.diff(edges)[:, None] / 2.0
    middle = (edges[:-1] + edges[1:])[:, None] / 2.0
    return (middle + half * points).ravel(), (half * weights).ravel()


def _tail_quantile(first: float, second: float, chance: float) -> float:
    """Return the distance that |X − Y| exceeds with this probability, rounded up, for independent Laplace X and Y.

    ``first`` and ``second``: their scales.
    """
    low, high = 0.0, first + second
    while difference_tail(high, first, second) > chance:
        high *= 2.0
    while (middle := (low + high) / 2.0) not in (low, high):
        low, high = (middle, high) if difference_tail(middle, first, second) > chance else (low, middle)
    return high
