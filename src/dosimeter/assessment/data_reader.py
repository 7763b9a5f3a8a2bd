"""Read the data of one plan again, for what a Risk cannot compute from its own numbers. Private to the controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dosimeter.influence import (
    Contributions,
    DeclaredTables,
    ExposedSearch,
    Measured,
    Profile,
    measure_exactly,
    measure_influence,
)
from dosimeter.private import Private

if TYPE_CHECKING:
    from sqlglot import exp

    from dosimeter.influence import ExposedRecord
    from dosimeter.mechanisms import Norm
    from dosimeter.planning import QueryPlan


@dataclass(slots=True, repr=False, eq=False)
class DataReader(Private):
    """A reader of one plan's data, while the dataset is open.

    ``answer`` is remembered; every other call sends queries. A reader works in the thread that the dataset's engine
    belongs to, while its data are unchanged. ``people``: how many individuals the table holds, at least 1.
    ``norm``: the norm in which one individual's changes are measured, 1 for Laplace noise and 2 for Gaussian noise.
    """

    plan: QueryPlan
    tables: DeclaredTables
    people: int
    norm: Norm
    _answer: Measured | None = field(default=None, init=False)

    def answer(self, profile: Profile | None) -> Measured:
        """Return the exact measured numbers, from the profile if it holds them, else from the data. Never released."""
        if self._answer is None:
            self._answer = measure_exactly(self.plan, self.tables, profile)
        return self._answer

    def contributions_by(self, attributes: Mapping[str, exp.Expression]) -> tuple[Profile, Contributions]:
        """Return the profile of everybody, also of those outside the WHERE, and everybody's contributions.

        ``attributes``: the columns and conditions to read of everybody, by the names they get in the contributions.
        Only individuals with the same attributes are counted together in one row of the profile or of the
        contributions.
        """
        return measure_influence(self.plan, self.tables, self.people, self.norm, attributes)

    def most_exposed(
        self,
        profile: Profile,
        contributions: Contributions,
        measured: Measured,
        *,
        count: int,
        columns: Sequence[str] | None,
        reveal: bool,
    ) -> list[ExposedRecord]:
        """Return up to ``count`` of the most exposed records, identical ones once, and why they are exposed.

        ``columns``: the columns to show, by default those that the query reads or that identify people; where one
        individual can have several rows, naming some raises OptionError. ``reveal``: do not mask identifying columns.
        """
        rows = self.tables.find_rows(self.plan)
        return profile.find_exposed(ExposedSearch(contributions, measured, rows, self.norm, count, columns, reveal))
