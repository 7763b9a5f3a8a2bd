"""Wrap an engine so that every query sees the rows of the plan's person stage as one relation (Q2).

A person stage computes columns from each individual's own rows. The rows that it reads are bounded first: of the table
itself, and of every other private table that it reads, at most ``max_rows_per_unit`` rows of each individual. So what
it computes for somebody depends on their own rows only, and on no more of these than the schema says.
"""

from __future__ import annotations

from collections.abc import Set

from sqlglot import exp

from dosimeter.engines import Engine, EngineInFront
from dosimeter.influence.joined_rows import bound_table
from dosimeter.planning import Memberships, PersonStage, person_relation
from dosimeter.schema import JoinTable, Schema


class PersonEngine(EngineInFront):
    """An engine that shows the rows which a person stage computes from each individual's own rows.

    ``declared``: the schema of the table that ``engine`` shows.
    """

    def __init__(self, engine: Engine, stage: PersonStage, declared: Schema) -> None:
        super().__init__(engine)
        self._stage = stage
        self._declared = declared
        self._relation: tuple[int, exp.Expression] | None = None

    @property
    def first(self) -> Engine:
        """Return the engine that this one wraps, which shows the table's own rows."""
        return self._engine

    def relation(self) -> exp.Expression:
        if self._relation is None or self._relation[0] != self.generation:
            self._relation = (self.generation, person_relation(self._stage, self._rows))
        return self._relation[1].copy()

    def rows_without_flags(self, names: Set[str]) -> exp.Expression | None:
        """Return the table's own rows if these are enough to read the columns ``names``; otherwise None.

        They are enough if the stage only adds flags to each row and none of the names is a flag. A flag says whether
        another query returns the row's individual (IN, EXISTS). Where no flag is read, that query need not be joined.
        """
        step, rows = self._stage.step, self._stage.rows
        if not isinstance(step, Memberships) or rows.table is not None or rows.stage is not None or rows.joins:
            return None
        return self._engine.relation() if names <= set(self._declared.columns) else None

    def _rows(self, table: JoinTable | None) -> exp.Expression:
        return self._engine.relation() if table is None else bound_table(self._engine, table, self._declared)
