"""Read the data of one plan again: what a Risk cannot answer from the numbers it holds. Private to the controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dosimeter.errors import OptionError
from dosimeter.influence import (
    AnyProfile,
    Contributions,
    ExposedRecord,
    JointProfile,
    Measured,
    UnitProfile,
    find_people,
    find_units,
    measure_exactly,
    measure_influence,
)
from dosimeter.problems import Option

if TYPE_CHECKING:
    from sqlglot import exp

    from dosimeter.engines import Engine
    from dosimeter.mechanisms import Norm
    from dosimeter.planning import QueryPlan


@dataclass(slots=True, repr=False, eq=False)
class DataReader:
    """Reads the data of one plan again, through an open engine. Every call is a query, or several.

    Only the answer is remembered. So a reader is of use in the thread that its engine belongs to, while the dataset is
    open, and for as long as the data are those that were measured. Whoever keeps a Risk longer asks its numbers.
    """

    plan: QueryPlan
    engine: Engine
    people: int
    norm: Norm
    _answer: Measured | None = field(default=None, init=False)

    def answer(self, profile: AnyProfile | None) -> Measured:
        """Return the exact answer's measured vector, from the profile where that is enough. Never released."""
        if self._answer is None:
            self._answer = measure_exactly(self.plan, self.engine, profile)
        return self._answer

    def contributions_by(self, attributes: Mapping[str, exp.Expression]) -> tuple[AnyProfile, Contributions]:
        """Return everybody's contributions, told apart by further columns or conditions."""
        return measure_influence(self.plan, self.engine, self.people, self.norm, attributes)

    def most_exposed(
        self,
        profile: AnyProfile,
        contributions: Contributions,
        measured: Measured,
        *,
        count: int,
        columns: Sequence[str] | None,
        reveal: bool,
    ) -> list[ExposedRecord]:
        """Return the records of the most exposed, with the reason; identifying columns masked unless ``reveal``."""
        if isinstance(profile, UnitProfile) or (
            isinstance(profile, JointProfile) and isinstance(profile.parts[0], UnitProfile)
        ):
            if columns:
                raise OptionError(
                    Option("columns"), " is for one row per individual: of several rows none speaks for them."
                )
            return find_units(profile, contributions, measured, self.engine, norm=self.norm, count=count, reveal=reveal)
        return find_people(
            profile, contributions, measured, self.engine,
            norm=self.norm, count=count, columns=columns, reveal=reveal,
        )  # fmt: skip

    def __repr__(self) -> str:
        return "DataReader(redacted)"
