"""The profile of a plan with several blocks (SELECTs that measure): what each individual contributes to each (Q5, C9).

It is private data, so the repr shows nothing of it.
"""

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
    """The profiles of a plan with several blocks (SELECTs that measure), one per block in ``parts``.

    Row r of every part stands for the same individuals. ``touched``: how many individuals at least one block touches,
    counted by a query of its own; None if this can be counted from ``parts``. It cannot if ``parts`` were read from
    columns of numbers (``is_wide``): there, somebody whom a block does not touch has zeros, and so has somebody whom it
    touches and who contributes zeros.
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
        """Return, for each row of the profile, whether its individuals are inside the WHERE of at least one block."""
        found: NDArray[np.bool_] = np.any([part.inside for part in self.parts], axis=0)
        return found

    @property
    def undeclared(self) -> int:
        """Return how many individuals, or rows of the table if it has a unit column, are in undeclared groups.

        Individuals are counted if they are in an undeclared group of at least one block. Rows are counted for each
        block, and the largest of these counts is returned: in all blocks together there may be more.
        """
        rows = [part for part in self.parts if isinstance(part, Profile)]
        if not rows:
            return max(part.undeclared for part in self.parts)
        outside = np.any([part.inside & (part.group < 0) for part in rows], axis=0)
        return int(self.people[outside].sum())

    @property
    def matched(self) -> int:
        """Return how many individuals at least one block touches.

        A block touches those who have a row inside its WHERE and in a group (N5).
        """
        if self.touched is not None:
            return self.touched
        rows = [part.inside & (part.group >= 0) if isinstance(part, Profile) else part.inside for part in self.parts]
        return int(self.people[np.any(rows, axis=0)].sum())

    def contributions(self, n: int, norm: Norm) -> Contributions:
        """Return everybody's contributions to the cells of all blocks, scaled by ``plan.weights(norm)``.

        ``n``: the number of slots; empty ones contribute nothing.
        """
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
