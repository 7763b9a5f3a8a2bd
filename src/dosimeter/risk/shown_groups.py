"""Which thresholded groups of the data an answer would show (H1): for the controller alone.

Takes the exact number of individuals in every group, and the scale of the noise that would be added to this number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np

from dosimeter.arrays import IntArray
from dosimeter.html import Private
from dosimeter.json_values import JsonObject
from dosimeter.mechanisms import Mechanism

HARDLY = 0.01
"""A group with a smaller probability of being shown than this counts as hidden."""


@dataclass(frozen=True, slots=True)
class ShownAt:
    """The number of thresholded groups that would be shown at one ε.

    ``threshold``: a group with this many individuals is shown about half of the time, a smaller one less often.
    ``expected``: how many groups are shown on average. ``hidden_people``: how many individuals are in groups that are
    shown less than once in 100 answers; somebody in several such groups counts once in each.
    """

    epsilon: float
    threshold: int
    expected: float
    hidden_people: int

    def describe(self) -> JsonObject:
        return asdict(self)


@dataclass(frozen=True, slots=True, repr=False)
class ShownGroups(Private):
    """The thresholded groups in the data, and how many of them an answer would show at each ε. Private.

    ``observed``: how many groups the data have. ``people``: the individuals in them; somebody in several groups counts
    once in each. ``group_delta``: the δ that the threshold costs. ``lines``: one per ε.
    """

    observed: int
    people: int
    group_delta: float
    lines: tuple[ShownAt, ...]

    def describe(self) -> JsonObject:
        """Return the groups as ``dosimeter risk --json`` prints them."""
        return {
            "observed": self.observed,
            "people": self.people,
            "group_delta": self.group_delta,
            "candidates": [line.describe() for line in self.lines],
        }


def foresee_groups(
    sizes: IntArray, mechanism: Mechanism, scales: Mapping[float, float], *, group_delta: float, most: int
) -> ShownGroups:
    """Return how many thresholded groups are expected to be shown at each ε.

    ``sizes``: the exact number of individuals in each group. ``scales``: for each ε, the scale of the noise that is
    added to this number. ``group_delta``: the δ that the threshold costs. ``most``: in how many groups one individual
    can be.
    """
    distinct, times = np.unique(sizes, return_counts=True)
    lines = []
    for epsilon, scale in scales.items():
        threshold = 1 + mechanism.find_excess(scale, Fraction(group_delta) / most)
        chances = mechanism.exceed(scale, (threshold - distinct).astype(np.float64))
        hidden = int((distinct * times)[chances < HARDLY].sum())
        lines.append(ShownAt(epsilon, threshold, float((chances * times).sum()), hidden))
    return ShownGroups(len(sizes), int(sizes.sum()), group_delta, tuple(lines))
