"""The profile of a plan with several blocks: everybody once, with what they contribute to each (Q5, C9). Private."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import IntArray
from dosimeter.influence.contributions import Contributions
from dosimeter.influence.rows.profile import Profile, find_contributions
from dosimeter.influence.units.profile import UnitProfile, find_unit_contributions
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan


@dataclass(frozen=True, slots=True, repr=False)
class JointProfile:
    """What the profile query says of each block. Row r of every part stands for the same individuals.

    ``touched``: whom some block touches, where zeros in the parts do not tell; counted where everybody is profiled by
    nothing else.
    """

    plan: QueryPlan
    parts: tuple[Profile, ...] | tuple[UnitProfile, ...]
    touched: int | None = None

    @property
    def people(self) -> IntArray:
        return self.parts[0].people

    @property
    def k(self) -> int:
        return sum(part.k for part in self.parts)

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Return which rows some block reads."""
        found: NDArray[np.bool_] = np.any([part.inside for part in self.parts], axis=0)
        return found

    @property
    def undeclared(self) -> int:
        """Return how many individuals, or rows, are in no declared group of some block; at least, with many rows."""
        rows = [part for part in self.parts if isinstance(part, Profile)]
        if not rows:
            return max(part.undeclared for part in self.parts)
        outside = np.any([part.inside & (part.group < 0) for part in rows], axis=0)
        return int(self.people[outside].sum())

    @property
    def matched(self) -> int:
        """Return how many individuals some block touches: a row of theirs is inside its WHERE and in a group (N5)."""
        if self.touched is not None:
            return self.touched
        rows = [part.inside & (part.group >= 0) if isinstance(part, Profile) else part.inside for part in self.parts]
        return int(self.people[np.any(rows, axis=0)].sum())

    def contributions(self, n: int, norm: Norm) -> Contributions:
        """Return everybody's contributions to all blocks as one vector, in the units of the norm."""
        found = Contributions.of_blocks(
            [
                find_contributions(part, n, norm)
                if isinstance(part, Profile)
                else find_unit_contributions(part, n, norm)
                for part in self.parts
            ]
        )
        return found if self.plan.ranks else replace(found, shares=None)

    def __repr__(self) -> str:
        return "JointProfile(redacted)"
