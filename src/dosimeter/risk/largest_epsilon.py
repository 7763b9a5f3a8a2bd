"""Find the largest ε that meets a preference: of the candidates (F1, F3), and of all ε where it can be computed (F2).

Takes the verdicts on the candidates, or a Preference and everybody's sensitivities. Pure, and for the controller only:
an ε found here depends on the data. ``assessment/choosing.py`` makes the choice of it, with what is worth knowing.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.errors import OptionError
from dosimeter.html import Private
from dosimeter.mechanisms import Mechanism
from dosimeter.options import Indicator
from dosimeter.risk.exposure import Sensitivities
from dosimeter.risk.rdr import compute_rdr

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray
    from dosimeter.risk.preference import Preference, Verdict

_PRECISION = 1e-13
"""Relative width at which a bisection stops."""

_WIDEST = 2.0**200
"""The largest noise scale that is searched, as a multiple of Δ: no ε in use needs as much noise."""


@dataclass(frozen=True, slots=True, repr=False)
class JudgedCandidates(Private):
    """The verdict on each candidate that the account allows, and the largest of these that meets the preference (F1).

    ``tested``: each allowed candidate with the verdict on it, in the order in which they were tested. ``epsilon``: the
    largest of them that meets the preference; None if none does. ``stopped``: whether some candidate meets the
    preference, but the account allows none of those that do.
    """

    epsilon: float | None
    tested: tuple[tuple[float, Verdict], ...]
    stopped: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class ExactLimit(Private):
    """The exact largest ε that meets a preference, as ``value`` (F2).

    ``value`` is None if every ε meets the preference (then ``every`` is true), or if no such number can be computed.
    """

    value: float | None = None
    every: bool = False


def paper_candidates() -> tuple[float, ...]:
    """Return the paper's candidates (F3): 10 … 1, 0.9 … 0.1, 0.09 … 0.01, 0.009 … 0.001.

    Each is the float nearest its decimal, so that ``Decimal(str(epsilon))`` gives the decimal back.
    """
    tail = [float(f"{digit}e-{places}") for places in (1, 2, 3) for digit in range(9, 0, -1)]
    return tuple([float(whole) for whole in range(10, 0, -1)] + tail)


def parse_candidates(source: str | Sequence[float] | None) -> tuple[float, ...]:
    """Return the candidates for ε, descending, each once: "paper" (also the default), "1, 0.5, 0.1", or numbers."""
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


def find_largest(
    tested: Iterable[tuple[float, Verdict]], available: Container[float] | None = None
) -> JudgedCandidates:
    """Return the allowed candidates with their verdicts, and the largest of them that meets the preference (F1).

    ``tested``: each candidate with the verdict on it. ``available``: the candidates that the account's reading allows
    (O2); None allows all. A smaller candidate can fail a preference that a larger one meets, so every candidate is
    tested.
    """
    every = tuple(tested)
    kept = tuple((epsilon, verdict) for epsilon, verdict in every if available is None or epsilon in available)
    found = max((epsilon for epsilon, verdict in kept if verdict.satisfied), default=None)
    return JudgedCandidates(found, kept, stopped=found is None and any(verdict.satisfied for _, verdict in every))


def exact_limit(
    preference: Preference,
    sensitivities: Sensitivities,
    mechanism: Mechanism,
    *,
    sensitivity: float,
    indicator: Indicator,
    grids: FloatArray,
) -> ExactLimit:
    """Return the largest ε of all, not only of the candidates, that meets a ratio or variance preference (F2).

    For any other preference, ``value`` of the result is None. The limit exists where more noise never turns a met
    preference into an unmet one. It is then the ε of the smallest noise scale (b or σ) that meets the preference; if
    even a scale of 0 meets it, every ε does. The list proves, for each indicator and mechanism, that more noise never
    hurts. In it, k is how many noisy numbers there are, g their grid, x < y two PIS, c any PIS, and t = kσ²:

    - bound, Laplace: (x + kb)/(y + kb) grows with b, and every gap (y − x)/(Δ + kb) of normalised RDRs shrinks.
    - bound, Gaussian: (x² + t)/(y² + t) grows with t, and the gap of normalised RDRs,
      (y² − x²) / (√(Δ² + t) · (√(y² + t) + √(x² + t))), shrinks. A variance is the mean of all squared gaps, halved.
    - exact, Laplace, one number (R5): f(c) = c + h with h = g e^(−c/b)/sinh(g/b). With G = g·coth(g/b) ≥ b,
      d ln f/db = h(c + G)/(b²(c + h)). Its logarithm has the derivative −1/b + 1/(c + G) − (1 − h/b)/(c + h) in c,
      never positive as G ≥ b and h ≤ b: so d ln f/db falls with c, and ln f(x) − ln f(y) grows with b. Besides,
      f grows with c (its derivative is 1 − h/b), so the smallest and the largest PIS give the ratio.

    With several noisy numbers, more noise can lower the exact indicator's ratio; in all other cases nothing is proven.
    Then ``value`` is None, too.
    """
    if preference.kind not in ("ratio", "variance") or preference.threshold is None:
        return ExactLimit()
    tau, k = preference.threshold, sensitivities.k
    ratio = preference.kind == "ratio"
    if indicator == "exact" and not (ratio and mechanism.exact_ratio_is_monotone(k)):
        return ExactLimit()
    low, high = extremes(sensitivities)
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

    without_noise = preference.judge(low / high if high > 0.0 else None) if ratio else evaluate(0.0)
    if low == high or without_noise.satisfied:
        return ExactLimit(every=True)
    if ratio and tau == 1.0:
        return ExactLimit()
    scale: float | None = None
    if indicator != "exact" and ratio:
        scale = mechanism.scale_for_ratio(low, high, k, tau)
    elif indicator != "exact" and without_noise.value is not None:
        scale = mechanism.scale_for_variance(math.sqrt(without_noise.value), k, tau, sensitivity)
    if scale is None:
        scale = _smallest_scale(lambda scale: evaluate(scale).satisfied, start=sensitivity)
    epsilon = 0.0 if scale is None else mechanism.epsilon(sensitivity, scale)
    return ExactLimit(epsilon if 0.0 < epsilon < math.inf else None)


def extremes(sensitivities: Sensitivities) -> tuple[float, float]:
    inhabited = sensitivities.values[sensitivities.counts > 0]
    return float(inhabited.min()), float(inhabited.max())


def _smallest_scale(qualifies: Callable[[float], bool], *, start: float) -> float | None:
    """Return the smallest noise scale that qualifies, by bisection of its logarithm; None if no searched scale does.

    ``qualifies`` must be false without noise, and must stay true as the scale grows. ``start``: the scale to begin at.
    """
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
