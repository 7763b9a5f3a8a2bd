"""The interface of profiles: distinct contributions, and how many individuals have each. Private: no repr shows them.

``rows`` implements it for individuals with one row and ``units`` for those with many; each also for a plan with several
blocks (SELECTs that measure), by a JointProfile of one profile per block (Q5, C9).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import IntArray
from dosimeter.influence.contributions import Contributions
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan

if TYPE_CHECKING:
    from dosimeter.influence.measured_rows import Rows
    from dosimeter.influence.most_exposed import ExposedRecord
    from dosimeter.influence.rows.row_profile import Measured


@dataclass(frozen=True, slots=True, repr=False)
class ExposedSearch:
    """A search for the people whom a plan's numbers expose most.

    ``contributions`` and ``measured``: everybody's contributions and the exact numbers, of the same plan. ``rows``:
    where their records are. ``norm``: the norm of the PIS, by which people are ordered. ``count``: how many groups of
    people to find at most. ``columns``: the columns to show; None for those that the query reads and those that
    identify people. ``reveal``: whether to show what identifies people instead of masking it.
    """

    contributions: Contributions
    measured: Measured
    rows: Rows
    norm: Norm
    count: int
    columns: Sequence[str] | None
    reveal: bool


class Profile(Protocol):
    """The distinct contributions of individuals to the numbers of a plan: one per row of the profile."""

    @property
    def plan(self) -> QueryPlan: ...

    @property
    def people(self) -> IntArray:
        """Return how many individuals each row stands for."""

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Return, for each row, whether its individuals are inside the WHERE (of at least one block)."""

    @property
    def matched(self) -> int:
        """Return how many individuals the query touches: a row of theirs is inside the WHERE and in a group (N5)."""

    @property
    def undeclared(self) -> int:
        """Return how many individuals have rows inside the WHERE and in groups that nobody declared (C7)."""

    @property
    def holds_totals(self) -> bool:
        """Return whether the exact totals of a plan that only adds can be told without another query."""

    def contributions(self, n: int, norm: Norm) -> Contributions:
        """Return everybody's contributions, scaled by ``plan.weights(norm)``.

        ``n``: the number of slots. Slots that nobody fills contribute nothing (N2).
        """

    def measure_answer(self, rows: Rows) -> Measured:
        """Return the exact numbers that get noise (S6). What the profile does not tell is read from ``rows``."""

    def group_sizes(self) -> list[int]:
        """Return how many individuals are in each group that is not empty; nothing where that is unknown."""

    def find_exposed(self, search: ExposedSearch) -> list[ExposedRecord]:
        """Return groups of people who contribute the same, most exposed first.

        Raises OptionError for a column that is unknown, and for any if individuals have several rows.
        """


BlockProfile = TypeVar("BlockProfile", bound=Profile)


@dataclass(frozen=True, slots=True, repr=False)
class JointProfile(ABC, Generic[BlockProfile]):
    """The profiles of a plan with several blocks (SELECTs that measure), one per block in ``parts``.

    Row r of every part stands for the same individuals. ``matched``: how many individuals at least one block touches.
    ``undeclared``: how many individuals are in an undeclared group of at least one block; where they have several rows,
    the largest number of such individuals in a block, because there may be more in all blocks together.
    """

    plan: QueryPlan
    parts: tuple[BlockProfile, ...]
    matched: int
    undeclared: int

    holds_totals: ClassVar[bool] = True

    @property
    def people(self) -> IntArray:
        return self.parts[0].people

    @property
    def inside(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.any([part.inside for part in self.parts], axis=0)
        return found

    def contributions(self, n: int, norm: Norm) -> Contributions:
        found = Contributions.of_blocks([part.contributions(n, norm) for part in self.parts])
        return found if self.plan.ranks else replace(found, shares=None)

    def measure_answer(self, rows: Rows) -> Measured:
        first, *further = (part.measure_answer(rows) for part in self.parts)
        return replace(first, further=tuple(further))

    def group_sizes(self) -> list[int]:
        return [size for part in self.parts for size in part.group_sizes()]

    @abstractmethod
    def find_exposed(self, search: ExposedSearch) -> list[ExposedRecord]: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}(redacted)"
