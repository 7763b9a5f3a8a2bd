"""ε selected by a noisy test, for four thresholds on the variance of normalised RDRs (section 6.3.2).

For each mechanism, query and threshold, gives three things: runs of the paper's test, the sparse vector, as printed
(V1); the exact probability of every outcome of that test (V3); and the exact probabilities of this package's own test,
the sharp selection (V5, V6). The first two follow the authors' conventions, the third this package's own.

Under the authors' conventions Q4 is an average with a Δ given by hand. What one person contributes to it depends on
everybody else, so V2 does not bound how far one person moves the variance, and RDRs exceed RDR*, their ceiling. Q4 is
run for comparison and never released.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from dosimeter.arrays import FloatArray
from dosimeter.json_values import JsonObject
from dosimeter.release import (
    SelectionProblem,
    draw_discrete_laplace,
    is_two_valued,
    outcome_distribution,
    split_budget,
    violation_share,
)
from dosimeter.risk import paper_candidates
from dosimeter.show import TextTable, format_epsilon, format_percent
from dosimeter_paper.reproduction.queries import (
    AVERAGE,
    EPSILON_SVT,
    MECHANISMS,
    QUERIES,
    VARIANCES,
    Adult,
    MechanismName,
)

if TYPE_CHECKING:
    from dosimeter.assessment import Risk

ThresholdSource = Literal["label", "code"]
Normaliser = Literal["ceiling", "data"]
Progress = Callable[[int, int], None]

RUNS = 50
NOT_FOR_RELEASE = "Q4: an average with a sensitivity given by hand. For comparison only, never for a release."
_STEPS = 1 << 30  # Δ_svt in whole steps, as in dosimeter.release.selection
_REACH = 45.0  # scales on each side of 0 that the quadrature covers
_MET = 1e-12  # F1


@dataclass(frozen=True, slots=True)
class ReleaseProbabilities:
    """The exact probabilities of what a noisy test releases, at one threshold on the variance of normalised RDRs.

    ``chances``: the probability of each of the paper's candidates, in their order. ``denial``: the probability of a
    denial. ``violations``: the share of released ε's at which the variance exceeds the threshold. ``met``: the largest
    candidate at which it does not; None if there is none.
    """

    chances: tuple[float, ...]
    denial: float
    violations: float
    met: float | None

    def quantile(self, share: float) -> float | None:
        """Return the smallest ε such that at least this share of all runs ends at or below it.

        A denial counts as below every ε; None if denials alone make up the share.
        """
        below = self.denial
        if below >= share:
            return None
        for epsilon, chance in zip(reversed(paper_candidates()), reversed(self.chances), strict=True):
            below += chance
            if below >= share:
                return epsilon
        return paper_candidates()[0]


@dataclass(frozen=True, slots=True)
class Trial:
    """What two noisy tests release for one mechanism, query and threshold: the paper's test and the sharp selection.

    ``threshold``: the largest variance of normalised RDRs that is to be allowed. ``label``: the threshold as the
    paper's figure writes it; the authors' code takes ten times as much. ``found``: the ε of each run of the paper's
    test, None for a denial. ``paper``, ``sharp``: the exact probabilities of the two tests.
    """

    mechanism: MechanismName
    query: str
    label: float
    threshold: float
    found: tuple[float | None, ...]
    paper: ReleaseProbabilities
    sharp: ReleaseProbabilities

    @property
    def violating_runs(self) -> int:
        """Return how many runs released an ε above the largest candidate that meets the threshold.

        All of these violate the threshold, because the variance that it limits (q_svt) grows with ε.
        """
        limit = 0.0 if self.paper.met is None else self.paper.met
        return sum(epsilon is not None and epsilon > limit for epsilon in self.found)


@dataclass(frozen=True, slots=True)
class VarianceStudy:
    rows: int
    thresholds: ThresholdSource
    normalise: Normaliser
    runs: int
    trials: tuple[Trial, ...]

    @property
    def words(self) -> tuple[str, ...]:
        told = [
            f"{self.runs} runs each, ε_svt = {EPSILON_SVT:g}; thresholds as on the figure's labels"
            + (", times ten as in the authors' code" if self.thresholds == "code" else "")
            + f"; RDRs over {'RDR*' if self.normalise == 'ceiling' else 'the largest RDR of the data'}."
        ]
        for mechanism in MECHANISMS:
            shares = [trial for trial in self.trials if trial.mechanism == mechanism and trial.label == VARIANCES[-1]]
            told.append(
                f"{mechanism.capitalize()}, τ = {shares[0].threshold:g}: {_span([t.paper for t in shares])} of the ε's "
                "released by the paper's test violate the preference, and "
                f"{_span([t.sharp for t in shares])} of those released by the sharp selection."
            )
        return (*told, NOT_FOR_RELEASE)

    def document(self) -> JsonObject:
        return {
            "rows": self.rows,
            "epsilon_svt": EPSILON_SVT,
            "thresholds": self.thresholds,
            "normalise": self.normalise,
            "runs": self.runs,
            "candidates": list(paper_candidates()),
            "trials": [
                {
                    "mechanism": trial.mechanism,
                    "query": trial.query,
                    "label": trial.label,
                    "threshold": trial.threshold,
                    "for_release": trial.query != AVERAGE,
                    "found": list(trial.found),
                    "paper": _describe(trial.paper),
                    "sharp": _describe(trial.sharp),
                }
                for trial in self.trials
            ],
            "notes": [NOT_FOR_RELEASE],
        }

    def text_table(self, mechanism: MechanismName) -> TextTable:
        """Return a table with a row per query and threshold: medians of ε, denials, and shares of violations."""
        columns = ["query", "τ_var", "meets it", "runs", "violate", "exact", "denied", "violate"]
        columns += ["sharp: meets it", "median", "denied", "violate"]
        rows = []
        for trial in self.trials:
            if trial.mechanism != mechanism:
                continue
            cells = [trial.query, f"{trial.threshold:g}", _write(trial.paper.met), _write(_median(trial.found))]
            cells += [f"{trial.violating_runs}/{len(trial.found)}", *_summarise(trial.paper)]
            rows.append([*cells, _write(trial.sharp.met), *_summarise(trial.sharp)])
        return {"columns": columns, "rows": rows}


def _span(outcomes: Sequence[ReleaseProbabilities]) -> str:
    shares = [outcome.violations for outcome in outcomes]
    return f"{format_percent(min(shares))} to {format_percent(max(shares))}"


def _describe(outcomes: ReleaseProbabilities) -> JsonObject:
    return {
        "probabilities": list(outcomes.chances),
        "denial": outcomes.denial,
        "violation_share": outcomes.violations,
        "largest_that_meets": outcomes.met,
    }


def _median(found: tuple[float | None, ...]) -> float | None:
    ordered = sorted(found, key=lambda epsilon: 0.0 if epsilon is None else epsilon)
    return ordered[math.ceil(0.5 * len(ordered)) - 1]


def _summarise(outcomes: ReleaseProbabilities) -> list[str]:
    """Return the median ε, the share of denials, and the share of violations among releases, as text.

    The last is a dash if practically every run is denied.
    """
    share = format_percent(outcomes.violations) if outcomes.denial < 1.0 - 1e-6 else "–"
    return [_write(outcomes.quantile(0.5)), format_percent(outcomes.denial), share]


def _write(epsilon: float | None) -> str:
    return "none" if epsilon is None else format_epsilon(epsilon)


def study_variance(
    adult: Adult,
    *,
    thresholds: ThresholdSource = "label",
    normalise: Normaliser = "ceiling",
    runs: int = RUNS,
    progress: Progress | None = None,
) -> VarianceStudy:
    """Run and compute both noisy tests on the Adult table: one trial for every mechanism, query and threshold.

    ``thresholds``: as on the paper's figure (``label``), or ten times larger as in the authors' code. ``normalise``:
    divide RDRs by RDR* (``ceiling``) or by the largest RDR of the data. ``runs``: how often each noisy test is run;
    every call draws fresh noise. The probabilities are exact. ``progress``: called with (done, total).
    """
    trials: list[Trial] = []
    steps = len(MECHANISMS) * len(QUERIES)
    for done, (mechanism, query) in enumerate((m, q) for m in MECHANISMS for q in QUERIES):
        if progress is not None:
            progress(done, steps)
        theirs, ours = adult.assess(query, mechanism, "authors"), adult.assess(query, mechanism, "product")
        levels = _spreads(theirs, normalise)
        for label in VARIANCES:
            threshold = 10.0 * label if thresholds == "code" else label  # the code writes 10e-5 for 10⁻⁵
            trials.append(
                Trial(
                    mechanism, query.name, label, threshold,
                    found=run_sparse_vector(levels, threshold, theirs.n, runs),
                    paper=expect_sparse_vector(levels, threshold, theirs.n),
                    sharp=expect_sharp(ours, threshold),
                )
            )  # fmt: skip
    return VarianceStudy(adult.table.num_rows, thresholds, normalise, runs, tuple(trials))


def _spreads(risk: Risk, normalise: Normaliser) -> FloatArray:
    """Return q_svt of every candidate: the variance of everybody's normalised RDR.

    RDRs are divided by RDR* (``ceiling``), or by the largest RDR of the data, as in the authors' code.
    """
    spreads = []
    for epsilon in paper_candidates():
        rdrs = risk.rdr(epsilon)
        held = rdrs.counts > 0
        unit = rdrs.values[held] / (rdrs.ceiling if normalise == "ceiling" else rdrs.values[held].max())
        counts = rdrs.counts[held]
        mean = float(unit @ counts) / risk.n
        spreads.append(float(np.square(unit - mean) @ counts) / risk.n)
    return np.array(spreads)


def run_sparse_vector(levels: FloatArray, threshold: float, n: int, runs: int) -> tuple[float | None, ...]:
    """Run the paper's noisy test as printed (V1) ``runs`` times; return the ε of each run, None for a denial.

    ``levels``: q_svt of every candidate, the variance that is compared with ``threshold``. ``n``: how many people the
    table has. The noise is made for a sensitivity of 1/n, and drawn in whole steps of 2⁻³⁰/n.
    """
    first, second = split_budget(EPSILON_SVT)
    shared = np.array(draw_discrete_laplace(_STEPS / first, runs), dtype=np.float64)
    own = np.array(draw_discrete_laplace(2 * _STEPS / second, runs * len(levels)), dtype=np.float64)
    gaps = (threshold - levels) * n * _STEPS
    passed = own.reshape(runs, len(levels)) - shared[:, None] >= -gaps  # −q + ν ≥ −τ + ρ
    candidates = paper_candidates()
    return tuple(candidates[int(row.argmax())] if row.any() else None for row in passed)


def expect_sparse_vector(levels: FloatArray, threshold: float, n: int) -> ReleaseProbabilities:
    """Return the exact probability of each outcome (V3) of the test that ``run_sparse_vector`` runs.

    ``levels``, ``threshold`` and ``n``: as in ``run_sparse_vector``.

    ``selection.outcome_distribution`` cannot be used here: it needs per-instance sensitivities, and refuses one above
    Δ.
    """
    first, second = split_budget(EPSILON_SVT)
    chances, denial = _integrate((threshold - levels) * n * first, 2.0 * first / second)
    meets = levels <= threshold * (1.0 + _MET)
    released = math.fsum(chances)
    violating = math.fsum(chance for chance, met in zip(chances, meets, strict=True) if not met)
    met = max((e for e, ok in zip(paper_candidates(), meets, strict=True) if ok), default=None)
    return ReleaseProbabilities(tuple(chances), denial, violating / released if released > 0.0 else 0.0, met)


def _integrate(gaps: FloatArray, own_scale: float) -> tuple[list[float], float]:
    """Return the probability that each candidate is the first to pass the test, and the probability that none does.

    Candidate j is first with probability ∫ f(r) Π_{l<j} (1 − p_l(r)) p_j(r) dr: f is the density of the noise r that
    all candidates share, and p_l(r) the probability that candidate l passes given r. ``gaps``: threshold − q_svt of
    each candidate. ``own_scale``: the scale of the noise that each candidate has for itself. Both are multiples of the
    shared noise's scale. The integral is computed in pieces between the points where f or a p_l has no derivative.
    """
    kinks = np.unique(np.clip(np.concatenate(([-_REACH, 0.0, _REACH], gaps)), -_REACH, _REACH))
    edges = np.unique(np.concatenate([np.linspace(a, b, 1 + math.ceil(4.0 * (b - a))) for a, b in pairwise(kinks)]))
    points, weights = np.polynomial.legendre.leggauss(12)
    half, middle = np.diff(edges)[:, None] / 2.0, (edges[1:] + edges[:-1])[:, None] / 2.0
    nodes = (middle + half * points).ravel()
    left = (half * weights).ravel() * 0.5 * np.exp(-np.abs(nodes))
    chances = []
    for gap in gaps:
        tail = 0.5 * np.exp(-np.abs(nodes - gap) / own_scale)
        passing = np.where(nodes > gap, tail, 1.0 - tail)  # P(ν ≥ r − gap)
        failing = np.where(nodes > gap, 1.0 - tail, tail)
        chances.append(float(left @ passing))
        left = left * failing
    return chances, float(left.sum())


def expect_sharp(risk: Risk, threshold: float) -> ReleaseProbabilities:
    """Return the exact probability of each outcome of this package's default test, the sharp selection (V5, V6).

    ``threshold``: the largest variance of normalised RDRs that the test is to allow.
    """
    problem = state_problem(risk, threshold)
    outcome = outcome_distribution(problem, method="sharp")
    met = risk.find(f"variance:{threshold!r}").epsilon
    return ReleaseProbabilities(outcome.probabilities, outcome.denial, violation_share(problem, outcome), met)


def state_problem(
    risk: Risk, threshold: float, epsilon_svt: float = EPSILON_SVT, violation: float | None = None
) -> SelectionProblem:
    """Return the input of a noisy test that selects ε for one query.

    ``threshold``: the largest variance of normalised RDRs that the test is to allow. ``epsilon_svt``: what the test may
    spend. ``violation``: the largest probability with which an ε may be released that violates the threshold (V7); None
    for no such promise.
    """
    return SelectionProblem(
        n=risk.n,
        k=risk.k,
        sensitivity=risk.sensitivity,
        mechanism=risk.mechanism,
        values=risk.sensitivities.values,
        counts=risk.sensitivities.counts,
        candidates=risk.candidates,
        threshold=threshold,
        epsilon_svt=epsilon_svt,
        two_valued=is_two_valued(risk.plan),
        violation=violation,
    )
