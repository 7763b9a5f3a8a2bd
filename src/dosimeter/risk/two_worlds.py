"""Two worlds: the chance of each released number with the most exposed person and without. Takes numbers and noise.

One number alone, and all that is known of its noise: the curves are the mechanism's own chances, not an estimate. Where
they overlap, what is released fits both worlds, and that protects the person. All of it is private.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.html import Private
from dosimeter.risk.shown_groups import HARDLY

if TYPE_CHECKING:
    from dosimeter.measures import Rank
    from dosimeter.mechanisms import Mechanism

MOST_BINS = 150
_LEAST_REACH = 3  # steps on both sides, however small the noise
_COVERED = 0.999
"""Drawn are all numbers within this much of each world's chances; the rest is counted in ``beyond``."""

_LIKELY = 0.95
_ALIKE = 1.0 - 1e-6


@dataclass(frozen=True, slots=True, repr=False)
class WorldBin(Private):
    """Numbers that may be released, from ``low`` to ``high``; often a single one. Private.

    ``with_them`` and ``without``: the chance that one of them is released, with the person and without.
    """

    low: float
    high: float
    with_them: float
    without: float

    @property
    def middle(self) -> float:
        return 0.5 * (self.low + self.high)

    @property
    def times(self) -> float:
        """Return how many times as likely the numbers are with the person as without; ∞ if they need the person."""
        if self.without > 0.0:
            return self.with_them / self.without
        return float("inf") if self.with_them > 0.0 else 1.0


@dataclass(frozen=True, slots=True, repr=False)
class Curves(Private):
    """The chances of what may be released, with the person and without. Private.

    ``bins``: all numbers that are likely in one of the two worlds, ascending. ``beyond``: the chance of any other
    outcome, with and without; one is that the group is not shown, if it is thresholded. ``exact``: the chances of the
    exact number alone, if it gets noise.
    """

    bins: tuple[WorldBin, ...]
    beyond: tuple[float, float]
    exact: WorldBin | None = None


@dataclass(frozen=True, slots=True, repr=False)
class TwoWorlds(Private):
    """The chances of one released number at one ε, with the most exposed person and without. Private.

    ``number``: the answer's column, or the measured number that ``made`` is computed from. ``group``: the values of its
    group, those that identify people masked; "" without groups. ``exact``: the exact number, with and without.
    ``step``: how far apart numbers lie that may be released. ``curves``: the chances.
    ``shown``: if groups are thresholded, the chance that this one is shown, with and without.
    """

    epsilon: float
    number: str
    made: tuple[str, ...]
    group: str
    exact: tuple[float, float]
    step: float
    curves: Curves
    shown: tuple[float, float] | None = None

    @property
    def bins(self) -> tuple[WorldBin, ...]:
        return self.curves.bins

    @property
    def beyond(self) -> tuple[float, float]:
        return self.curves.beyond

    @property
    def hidden(self) -> bool:
        """Return whether the group is hardly ever shown, so that there is nothing to draw."""
        return self.shown is not None and self.shown[0] < HARDLY

    @property
    def width(self) -> float:
        """Return the width of a bin: ``step`` if each holds a single number."""
        return max(each.high - each.low for each in self.bins) + self.step

    @property
    def overlap(self) -> float:
        """Return how much of their chances the two worlds have in common: 1 if no released number tells them apart."""
        return sum(min(each.with_them, each.without) for each in self.bins) + min(self.beyond)

    @property
    def telling(self) -> WorldBin:
        """Return the numbers that say most for the person among those that are likely with them.

        Likely are the likeliest numbers that hold 95 % of the chances together. Of several that say as much, the
        exact number is returned, or else the likeliest.
        """
        ordered = sorted(self.bins, key=lambda each: -each.with_them)
        upto = np.cumsum([each.with_them for each in ordered])
        likely = ordered[: int(np.searchsorted(upto, _LIKELY * upto[-1])) + 1]
        most, exact = max(each.times for each in likely), self.curves.exact
        if exact is not None and exact.with_them > 0.0:
            likely = [exact, *likely]
        return next(each for each in likely if each.times >= most * _ALIKE)


def spread_noise(
    numbers: tuple[int, int],
    mechanism: Mechanism,
    scale: float,
    grid: Fraction,
    *,
    shown: tuple[float, float] = (1.0, 1.0),
    least: int | None = None,
) -> Curves:
    """Return both curves of a number that gets noise. The middle bin of the curve with the person is the exact number.

    ``numbers``: the number with the person and without, in whole steps of ``grid``. ``scale``: of the noise, in the
    number's own units. ``shown``: the chance in each world that the number is shown at all. ``least``: if it is shown
    only from some number on, that number, in grid steps.
    """
    steps = scale / float(grid)
    reach = max(int(mechanism.error(steps, 1.0, _COVERED)), _LEAST_REACH)
    start, stop = min(numbers) - reach, max(numbers) + reach + 1
    width = -(-(stop - start) // MOST_BINS) | 1  # odd, so that the number itself is in the middle of its bin
    first = numbers[0] - width // 2 - -(-max(numbers[0] - width // 2 - start, 0) // width) * width
    edges = range(first, stop + width, width)

    def find_chances(edges: Sequence[int]) -> list[FloatArray]:
        inside = edges if least is None else [max(edge, least) for edge in edges]
        away = [np.array([edge - number for edge in inside], dtype=np.float64) for number in numbers]  # first exact
        return [share * mechanism.chances(steps, each) for share, each in zip(shown, away, strict=True)]

    ends = [(float(low * grid), float((low + width - 1) * grid)) for low in edges[:-1]]
    here, there = (float(each[0]) for each in find_chances([numbers[0], numbers[0] + 1]))
    number = float(numbers[0] * grid)
    return _collect(ends, find_chances(edges), WorldBin(number, number, here, there))


def spread_draws(counts: tuple[IntArray, IntArray], rank: Rank, epsilon: float) -> Curves:
    """Return both curves of a number that is drawn by rank (M4).

    ``counts``: how many rows hold each candidate, with the person and without. ``epsilon``: the share of ε that this
    number is drawn with.
    """
    both = np.array([rank.chances(each, epsilon) for each in counts])
    upto = np.cumsum(both, axis=1)
    inside = np.flatnonzero(((upto > 0.5 * (1.0 - _COVERED)) & (upto - both < 0.5 * (1.0 + _COVERED))).any(axis=0))
    places = np.arange(inside[0], inside[-1] + 1)
    firsts = places[:: -(-len(places) // MOST_BINS)]
    lasts = np.append(firsts[1:] - 1, places[-1])
    values = rank.candidates.astype(np.float64) * float(rank.unit)
    chances = np.add.reduceat(both[:, : places[-1] + 1], firsts, axis=1)
    return _collect(list(zip(values[firsts].tolist(), values[lasts].tolist(), strict=True)), list(chances))


def _collect(
    ends: Sequence[tuple[float, float]], chances: Sequence[FloatArray], exact: WorldBin | None = None
) -> Curves:
    bins = zip(ends, *(each.tolist() for each in chances), strict=True)
    rest = tuple(max(0.0, 1.0 - float(each.sum())) for each in chances)
    return Curves(
        tuple(WorldBin(low, high, here, there) for (low, high), here, there in bins), (rest[0], rest[1]), exact
    )
