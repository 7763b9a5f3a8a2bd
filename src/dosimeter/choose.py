"""Find ε from the RDRs (F1–F3), and say what a controller should know about the choice (R7, R8, R10).

Takes RDRs at each candidate and a Preference; gives the largest candidate that meets it, the exact limit where there
is one, and notes in plain words. Pure, and for the controller's eyes only: an ε found here depends on the data.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from dosimeter.arrays import FloatArray
from dosimeter.errors import OptionError
from dosimeter.measures import MeasureKind
from dosimeter.mechanisms import Indicator, Mechanism, epsilon_for_scale, noise_scale
from dosimeter.model import Candidate, RDRs, Sensitivities, paper_candidates
from dosimeter.preference import Aggregate, Preference, Verdict
from dosimeter.risk import compute_rdr, own_epsilon, summarise_rdr, weighted_quantile

_PRECISION = 1e-13
"""Relative width at which a bisection stops."""

_WIDEST = 2.0**200
"""Noise scales beyond this many Δ are not searched: no ε in use comes near."""


@dataclass(frozen=True, slots=True, repr=False)
class Found:
    """What each candidate came to, in the order given, and the largest one that meets the preference (F1)."""

    epsilon: float | None
    tested: tuple[tuple[float, Verdict], ...]

    def __repr__(self) -> str:
        return "Found(redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class Limit:
    """F2: the exact largest ε as ``value``. None when ``every`` ε qualifies, or when there is no such number."""

    value: float | None = None
    every: bool = False

    def __repr__(self) -> str:
        return "Limit(redacted)"


# ---------------------------------------------------------------- candidates


def parse_candidates(source: str | Sequence[float] | None) -> tuple[float, ...]:
    """Candidates for ε, descending, each once: "paper" (also the default), "1, 0.5, 0.1", or numbers."""
    if source is None or (isinstance(source, str) and source.strip().lower() == "paper"):
        return paper_candidates()  # F3
    values = [_read_candidate(part) for part in (source.split(",") if isinstance(source, str) else source)]
    if not values:
        raise OptionError("The list of candidates is empty. Give numbers such as 1,0.5,0.1, or paper.")
    return tuple(sorted(set(values), reverse=True))


def _read_candidate(part: object) -> float:
    value = math.nan
    if isinstance(part, str):
        with suppress(ValueError):
            value = float(part)
    elif isinstance(part, numbers.Number) and not isinstance(part, (bool, complex)):
        value = float(part)  # type: ignore[arg-type]  # a Decimal is a Number, and not a Real
    if not 0.0 < value < math.inf:
        raise OptionError(
            f"The candidate {str(part).strip()!r} is not a positive number. Give numbers such as 1,0.5,0.1, or paper."
        )
    return value


def find_largest(tested: Iterable[tuple[float, Verdict]], available: Container[float] | None = None) -> Found:
    """F1: the largest candidate that meets the preference, of those that the odometer leaves (O2).

    Meeting it need not be monotone, so every candidate is tested.
    """
    kept = tuple((epsilon, verdict) for epsilon, verdict in tested if available is None or epsilon in available)
    return Found(max((epsilon for epsilon, verdict in kept if verdict.satisfied), default=None), kept)


def build_candidate(
    rdrs: RDRs, *, noise_scale: float, error_95: tuple[float | None, ...], verdict: Verdict | None = None
) -> Candidate:
    """One line of the table a controller sees; without a verdict where there is no preference."""
    return Candidate(
        epsilon=rdrs.epsilon,
        noise_scale=noise_scale,
        error_95=error_95,
        rdr=summarise_rdr(rdrs),
        value=None if verdict is None else verdict.value,
        satisfied=None if verdict is None else verdict.satisfied,
    )


# ---------------------------------------------------------------- the exact limit


def exact_limit(
    preference: Preference,
    sensitivities: Sensitivities,
    mechanism: Mechanism,
    *,
    sensitivity: float,
    indicator: Indicator,
    grids: FloatArray,
) -> Limit:
    """F2: the largest ε of all that meets a ratio or variance preference, where it depends on ε in one direction only.

    More noise, that is a larger scale (b or σ), never hurts in these cases, so that ε* belongs to the smallest scale
    that qualifies; if no noise at all qualifies, every ε does. With x, y two PIS, x < y, and t = kσ²:

    - bound, Laplace: (x + kb)/(y + kb) grows with b, and every gap (y − x)/(Δ + kb) of normalised RDRs shrinks.
    - bound, Gaussian: (x² + t)/(y² + t) grows with t, and the gap of normalised RDRs,
      (y² − x²) / (√(Δ² + t) · (√(y² + t) + √(x² + t))), shrinks. A variance is the mean of all squared gaps, halved.
    - exact, Laplace, one number (R5): f(c) = c + h with h = g e^(−c/b)/sinh(g/b). With G = g·coth(g/b) ≥ b,
      d ln f/db = h(c + G)/(b²(c + h)). Its logarithm has the derivative −1/b + 1/(c + G) − (1 − h/b)/(c + h) in c,
      never positive as G ≥ b and h ≤ b: so d ln f/db falls with c, and ln f(x) − ln f(y) grows with b. Besides,
      f grows with c (its derivative is 1 − h/b), so the smallest and the largest PIS give the ratio.

    With several numbers the exact indicator's ratio is not monotone, and other preferences need not be.
    """
    if preference.kind not in ("ratio", "variance") or preference.threshold is None:
        return Limit()
    tau, k = preference.threshold, sensitivities.k
    ratio, laplace = preference.kind == "ratio", mechanism.kind == "laplace"
    if indicator == "exact" and not (ratio and laplace and k == 1):
        return Limit()
    low, high = _extremes(sensitivities)
    classes = sensitivities
    if ratio:
        classes = Sensitivities(np.array([low, high]), np.array([1, 1], dtype=np.int64), k)

    def evaluate(scale: float) -> Verdict:
        # The ε that a scale belongs to plays no part in the RDRs.
        return preference.evaluate(
            compute_rdr(
                classes,
                mechanism,
                sensitivity=sensitivity,
                scale=scale,
                epsilon=math.nan,
                indicator=indicator,
                grids=grids,
            )
        )

    without_noise = evaluate(0.0)
    if low == high or without_noise.satisfied:
        return Limit(every=True)
    if ratio and tau == 1.0:
        return Limit()
    scale: float | None
    if indicator == "bound" and ratio and laplace:
        scale = (tau * high - low) / (k * (1.0 - tau))  # ε* = kΔ(1 − τ)/(τ·PIS_max − PIS_min)
    elif indicator == "bound" and ratio:
        scale = math.sqrt((tau * high - low) * (tau * high + low) / (k * (1.0 - tau) * (1.0 + tau)))
    elif indicator == "bound" and laplace:
        assert without_noise.value is not None
        spread, root = math.sqrt(without_noise.value), math.sqrt(tau)
        scale = sensitivity * (spread - root) / (k * root)  # ε* = k√τ/(s − √τ), s = sd(PIS)/Δ
    else:
        scale = _smallest_scale(lambda scale: evaluate(scale).satisfied, start=sensitivity)
    epsilon = 0.0 if scale is None else epsilon_for_scale(mechanism, sensitivity, scale)
    return Limit(epsilon if 0.0 < epsilon < math.inf else None)


def _extremes(sensitivities: Sensitivities) -> tuple[float, float]:
    inhabited = sensitivities.values[sensitivities.counts > 0]
    return float(inhabited.min()), float(inhabited.max())


def _smallest_scale(qualifies: Callable[[float], bool], *, start: float) -> float | None:
    """Where a condition that more noise only helps begins to hold, by bisection of the logarithm.
    It does not hold without noise, so that halving ends; None when it holds for no scale in reach."""
    high = start
    while not qualifies(high):
        high *= 2.0
        if high > start * _WIDEST:
            return None
    low = 0.5 * high
    while qualifies(low):
        low, high = 0.5 * low, low
    while high > low * (1.0 + _PRECISION):
        middle = low * math.sqrt(high / low)
        if qualifies(middle):
            high = middle
        else:
            low = middle
    return high


# ---------------------------------------------------------------- notes


def write_notes(
    sensitivities: Sensitivities,
    mechanism: Mechanism,
    *,
    sensitivity: float,
    indicator: Indicator,
    grids: FloatArray,
    measures: Sequence[MeasureKind],
    groups: int,
    epsilons: Sequence[float],
    preference: Preference | None = None,
    found: Found | None = None,
    limit: Limit | None = None,
) -> tuple[str, ...]:
    """What the controller should know, each sentence only where it applies (R7, R8, R10).

    ``measures`` are the kinds of the plan's measures, ``groups`` the number of groups, ``epsilons`` the candidates
    shown. ``preference``, ``found`` and ``limit`` are left out where risk is only looked at.
    """
    low, high = _extremes(sensitivities)
    laplace_bound = mechanism.kind == "laplace" and indicator == "bound"
    notes = [*find_empty_filters(preference, sensitivities, found), _INDICATORS[indicator]]
    if indicator == "exact" and mechanism.kind == "gaussian" and epsilons:
        narrowest = noise_scale(mechanism, sensitivity, max(epsilons))
        if float(np.max(grids)) > narrowest:  # R6
            notes.append(_CONTINUOUS)
    if low == high and (indicator == "bound" or sensitivities.k == 1):
        notes.append(_ALL_ALIKE)
        notes += _note_own(high, mechanism, sensitivity, epsilons if found is None else (found.epsilon,))
    elif preference is None and laplace_bound:
        notes.append(_SAME_SPREAD)
    if preference is None or found is None:
        return tuple(notes)

    scale = None if found.epsilon is None else noise_scale(mechanism, sensitivity, found.epsilon)
    ratio, one_count = preference.kind == "ratio", tuple(measures) == (MeasureKind.COUNT,)
    if ratio and laplace_bound and one_count and low == 0.0 and high == sensitivity:  # R10
        notes.append(f"{_COUNT_RATIO} Here k = {sensitivities.k}.")
    if ratio and indicator == "bound" and scale is not None:
        reason = _find_incaution(mechanism, low, high, grids=grids, scale=scale)
        if reason is not None:
            notes.append(
                f"A ratio of upper bounds is not a cautious ratio: {reason}, the exact indicator can reject what the "
                "bound accepts. Compare with the exact indicator."
            )
    notes += _note_level(preference, laplace_bound)
    notes += _note_groups(preference, sensitivities)
    notes += _note_outcome(found, limit or Limit())
    if groups > 1 and found.epsilon is not None and scale is not None and high > 0.0:
        own = own_epsilon(
            np.array([high]), mechanism, sensitivity=sensitivity, scale=scale, epsilon=found.epsilon
        )  # P1
        notes.append(
            f"The noise in all {groups:,} groups counts in everybody's RDR, so that more groups allow a larger ε for "
            f"the same words. At ε = {found.epsilon:g} the most exposed individual's own guarantee is ε = {own[0]:.4g}."
        )
    return tuple(notes)


_INDICATORS = {
    "bound": "Indicator: bound. Every RDR is an upper bound on its expectation; the exact one can give another ε.",
    "exact": "Indicator: exact. Every RDR is its expectation; the bound can give another ε.",
}
_CONTINUOUS = (
    "The exact indicator is that of continuous Gaussian noise; some of the noise here is small against its grid."
)
_ALL_ALIKE = (
    "Everybody has the same PIS (all are in the query, or nobody is), so everybody has the same RDR at every ε. "
    "Equally exposed is not safe: RDR cannot help to choose ε here."
)
_SAME_SPREAD = (
    "Under Laplace noise, with the bound, the range and the variance of the raw RDR are the same at every ε. "
    "What shrinks is the spread relative to the level: look at the ratio."
)
_COUNT_RATIO = "A COUNT with somebody in it and somebody out of it has the ratio k/(k + ε), whatever the data."
_NO_DEPENDENCE = (
    "Under Laplace noise, with the bound, this preference does not depend on ε: noise adds the same number to "
    "everybody's RDR. Use a ratio, or normalized_rdr."
)
_RAW_VARIANCE = (
    "The preference limits the spread of the raw RDR, whatever its level. Use VAR_POP(normalized_rdr) to limit "
    "the spread relative to the level."
)
_NOT_SCALE_FREE = (
    "The preference depends on the level of the RDR, and noise raises the level: an upper limit on the raw RDR asks "
    "for less noise, not for more protection. Compare RDRs with each other, as in MIN(rdr) / MAX(rdr) >= 0.95."
)
_MATCHES_NOBODY = "matches nobody: its aggregate is NULL, and a comparison with NULL is not met."


def find_empty_filters(
    preference: Preference | None, sensitivities: Sensitivities, found: Found | None
) -> tuple[str, ...]:
    """A sentence for each FILTER that leaves an aggregate without anybody."""
    if preference is None or found is None or not any(verdict.empty for _, verdict in found.tested):
        return ()
    held = sensitivities.counts > 0
    used = dict.fromkeys(a.filter for a in preference.aggregates if a.filter is not None and a.function != "COUNT")
    empty = [name for name in used if not sensitivities.attributes[name][held].astype(np.bool_).any()]
    texts = dict.fromkeys(preference.write_filter(name) for name in empty)
    return tuple(f"The FILTER (WHERE {text}) {_MATCHES_NOBODY}" for text in texts)


def pick_headline(notes: Sequence[str]) -> str | None:
    """The note that says why nothing else matters, where there is one."""
    return next((note for note in notes if note.endswith(_MATCHES_NOBODY)), None)


def _note_own(
    influence: float, mechanism: Mechanism, sensitivity: float, epsilons: Sequence[float | None]
) -> Iterator[str]:
    """P1: what ε guarantees each person, where comparing people says nothing."""
    largest = max((epsilon for epsilon in epsilons if epsilon is not None), default=None)
    if largest is None or influence <= 0.0:
        return
    scale = noise_scale(mechanism, sensitivity, largest)
    own = own_epsilon(np.array([influence]), mechanism, sensitivity=sensitivity, scale=scale, epsilon=largest)
    yield f"Look at what ε guarantees each person (P1): at ε = {largest:g} it is ε = {own[0]:.4g} for everybody."


def _find_incaution(mechanism: Mechanism, low: float, high: float, *, grids: FloatArray, scale: float) -> str | None:
    """R7: why the ratio of bounds can be above the exact indicator's ratio, as "where …", or None where it is below.

    With Gaussian noise it always is: the smaller the PIS, the larger the factor by which the bound exceeds R6.
    """
    if low == high:
        return None
    if mechanism.kind == "gaussian":
        return "under Gaussian noise"
    if low > 0.0:
        return "where everybody has a PIS above 0"
    return "where the noise is small against the steps of the answer" if _grid_is_coarse(high, grids, scale) else None


def _grid_is_coarse(high: float, grids: FloatArray, scale: float) -> bool:
    """R7, PIS_min = 0: whether the exact ratio is below the bound's for somebody who moves one number by j steps.

    With s = g/b the exact ratio is k/(k − 1 + j·sinh s + e^(−js)), the bound's is k/(k + js). For j = 1, one COUNT,
    it begins at cosh s = 1 + s, s = 1.616.
    """
    for grid in np.unique(grids[grids > 0.0]).tolist():
        steps, size = high / grid, min(grid / scale, 700.0)
        if steps * (math.sinh(size) - size) > -math.expm1(-steps * size):
            return True
    return False


def _note_level(preference: Preference, laplace_bound: bool) -> Iterator[str]:
    """R8, R10: preferences on the raw RDR."""
    if laplace_bound and preference.shift_free:
        yield _NO_DEPENDENCE
    elif preference.unnormalised_variance:
        yield _RAW_VARIANCE
    elif not preference.scale_free:
        yield _NOT_SCALE_FREE


def _note_groups(preference: Preference, sensitivities: Sensitivities) -> Iterator[str]:
    """R10: medians and other quantiles that fall on people with PIS 0."""
    for aggregate in preference.aggregates:
        if aggregate.fraction and _falls_on_zero(aggregate, sensitivities):
            yield (
                f"{preference.write_aggregate(aggregate)} falls on people with PIS 0, whom the query does not touch. "
                "By itself it constrains nothing."
            )


def _falls_on_zero(aggregate: Aggregate, sensitivities: Sensitivities) -> bool:
    chosen = sensitivities.counts > 0
    if aggregate.filter is not None:
        chosen = chosen & np.asarray(sensitivities.attributes[aggregate.filter], dtype=bool)
    if not chosen.any() or aggregate.fraction is None:
        return False
    return weighted_quantile(sensitivities.values[chosen], sensitivities.counts[chosen], aggregate.fraction) == 0.0


def _note_outcome(found: Found, limit: Limit) -> Iterator[str]:
    if limit.every:
        yield "Every ε meets this preference."
    elif found.epsilon is None and limit.value is not None:
        yield f"No candidate meets the preference. The largest ε that does is {limit.value:.4g}: add a smaller one."
    elif found.epsilon is None:
        yield "No candidate meets the preference."
    elif any(not verdict.satisfied for epsilon, verdict in found.tested if epsilon < found.epsilon):
        yield (
            f"The preference is met at ε = {found.epsilon:g} and not at every smaller candidate: here more noise does "
            "not always help."
        )
