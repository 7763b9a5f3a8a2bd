"""The plan of a query: everything that follows from SQL and schema alone. Frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.arrays import FloatArray
from dosimeter.measures import Argument, Estimate, Measure
from dosimeter.mechanisms import Norm
from dosimeter.schema import JoinTable, Scalar, Schema
from dosimeter.sql import Type

if TYPE_CHECKING:
    from sqlglot import exp

    from dosimeter.planning.person_stage import PersonStage


@dataclass(frozen=True, slots=True)
class Group:
    """One GROUP BY expression. ``values``: its declared values (C8), or None when groups are observed."""

    name: str
    tree: exp.Expression
    values: tuple[Scalar, ...] | None
    type: Type


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the answer. ``group``: the group that it is, unchanged.

    ``formula``: the column in terms of the released numbers e0, e1 … and groups g0, g1 … of its own cell; None where
    it reads other cells too, as a window function does.
    """

    name: str
    group: int | None
    formula: exp.Expression | None

    @property
    def is_aggregate(self) -> bool:
        return self.group is None


@dataclass(frozen=True, slots=True)
class After:
    """What happens to the released table (Q4). ``query``: over ``released``; None if its columns are the answer.

    ``traced``: whether every row ends with the number of its cell. ``steps``: what happens, for an explanation.
    """

    query: exp.Expression | None
    traced: bool
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """A table joined on equal columns. ``left``: whether every row is kept, with or without a partner.

    ``pairs``: each a column's name in what is joined so far, and the column of this table that equals it.
    """

    table: JoinTable
    left: bool
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Threshold:
    """Which groups of the data an answer shows: those whose noisy number of individuals is large enough (H1).

    ``people``: the measure that counts a group's individuals. ``delta``: the chance with which an individual may show
    up in a group of their own. ``most``: in how many groups one individual can be, ℓ₀.
    """

    people: int
    delta: float
    most: int


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The plan of a query: all that follows from SQL and schema alone. Its trees are rebuilt by the planner."""

    sql: str
    table: str
    columns: tuple[str, ...]
    where: exp.Expression | None
    groups: tuple[Group, ...]
    arguments: tuple[Argument, ...]
    measures: tuple[Measure, ...]
    estimates: tuple[Estimate, ...]
    outputs: tuple[Output, ...]
    after: After
    declared: bool
    hand_sensitivity: float | None
    schema: Schema
    digest: str
    joins: tuple[Join, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    """Of ROLLUP, CUBE and GROUPING SETS, the groups that each set keeps: released cells are added up for each (Q3)."""
    singled_out: tuple[tuple[str, str], ...] = ()
    """Columns that identify people and that the query tests, each with the clause that tests it."""
    person: PersonStage | None = None
    """What is computed from each individual's own rows first; the plan's rows and schema are what it gives (Q2)."""
    declared_schema: Schema | None = None
    """The facts of the table itself, where a person stage gives the rows other ones."""
    threshold: Threshold | None = None
    """Where nobody declared the groups: which of the observed ones are shown (H1)."""

    @property
    def table_schema(self) -> Schema:
        """Return the facts of the table itself: FILTERs and ``--by`` are about its columns."""
        return self.schema if self.declared_schema is None else self.declared_schema

    @property
    def is_one_row_each(self) -> bool:
        """Return whether the rows are grouped so that everybody has at most one, which is all they contribute."""
        return self.person is not None and not self.joins and self.schema.max_rows_per_unit == 1

    @property
    def additive(self) -> bool:
        return all(measure.additive for measure in self.measures)

    @property
    def group_keys(self) -> tuple[tuple[Scalar, ...], ...] | None:
        """Return the declared groups in order, or None when they are observed. Ungrouped: one empty key."""
        keys: tuple[tuple[Scalar, ...], ...] = ((),)
        for group in self.groups:
            if group.values is None:
                return None
            keys = tuple((*key, value) for key in keys for value in group.values)
        return keys

    def sensitivity(self, norm: Norm) -> float:
        """Return Δ of the whole vector in this norm. Several measures are each scaled by their own Δ (S5)."""
        if self.hand_sensitivity is not None:
            return self.hand_sensitivity
        if len(self.measures) == 1:
            return self.measures[0].sensitivity(norm)
        return float(len(self.measures)) if norm == 1 else float(np.sqrt(len(self.measures)))

    def weights(self, norm: Norm) -> FloatArray:
        """Return the factor of each measure before it enters the norm: 1 if it is alone, 1/Δ_j among several (S5)."""
        if len(self.measures) == 1 or self.hand_sensitivity is not None:
            return np.ones(len(self.measures))
        return np.array([1.0 / measure.sensitivity(norm) for measure in self.measures])

    def grids(self, norm: Norm) -> FloatArray:
        """Return the noise grid of each measure, in the units of the norm."""
        grids: FloatArray = self.weights(norm) * np.array([float(measure.grid) for measure in self.measures])
        return grids
