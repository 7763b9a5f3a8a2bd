"""Which groups of the data would be shown, where nobody declared them (H1): for the controller alone.

Numbers in, numbers out: the exact number of individuals of every group, and the noise that would be added to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dosimeter.arrays import IntArray
from dosimeter.json_values import JsonObject
from dosimeter.mechanisms import Mechanism

HARDLY = 0.01
"""A group that appears less often than this counts as one that does not appear."""


@dataclass(frozen=True, slots=True)
class ShownAt:
    """What is shown at one ε. ``threshold``: a group of as many individuals has an even chance, a smaller one less.

    ``expected``: how many groups are shown on average. ``hidden_people``: how many individuals are in groups that
    hardly ever appear; somebody in several groups counts in each.
    """

    epsilon: float
    threshold: int
    expected: float
    hidden_people: int

    def describe(self) -> JsonObject:
        return {
            "epsilon": self.epsilon,
            "threshold": self.threshold,
            "expected": self.expected,
            "hidden_people": self.hidden_people,
        }


@dataclass(frozen=True, slots=True, repr=False)
class ShownGroups:
    """The groups of the data, and what is shown of them at each ε. Private.

    ``observed``: how many groups there are. ``people``: how many individuals they have, counted in each group.
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

    def __repr__(self) -> str:
        return "ShownGroups(redacted)"


def foresee_groups(
    sizes: IntArray, mechanism: Mechanism, scales: Mapping[float, float], *, group_delta: float, most: int
) -> ShownGroups:
    """Return what is shown of groups with so many individuals each.

    ``scales``: for each ε, the scale of the noise of the number of individuals. ``most``: in how many groups one
    individual can be.
    """
    distinct, times = np.unique(sizes, return_counts=True)
    lines = []
    for epsilon, scale in scales.items():
        threshold = 1 + mechanism.find_excess(scale, Fraction(group_delta) / most)
        chances = mechanism.exceed(scale, (threshold - distinct).astype(np.float64))
        hidden = int((distinct * times)[chances < HARDLY].sum())
        lines.append(ShownAt(epsilon, threshold, float((chances * times).sum()), hidden))
    return ShownGroups(len(sizes), int(sizes.sum()), group_delta, tuple(lines))
