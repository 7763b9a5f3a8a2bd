"""The plan of a query: everything that follows from SQL and schema alone. Frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dosimeter.arrays import FloatArray
from dosimeter.measures import Argument, Estimate, Measure, Rank
from dosimeter.mechanisms import Norm
from dosimeter.planning.formulas import formula_in
from dosimeter.schema import JoinTable, Scalar, Schema, Words
from dosimeter.sql import COLUMN_TYPES, Type, Values

if TYPE_CHECKING:
    from sqlglot import exp

    from dosimeter.planning.people.stage import PersonStage

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Group:
    """One GROUP BY expression. ``values``: its declared values (C8), or None if groups are observed or thresholded."""

    name: str
    tree: exp.Expression
    values: tuple[Scalar, ...] | None
    type: Type


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the answer. ``group``: if it is a GROUP BY expression, unchanged, the index of that; else None.

    ``formula``: the column computed from the released numbers e0, e1 … and group values g0, g1 … of one released row;
    None if it reads several released rows, as a window does. Where the rows of the answer come from several blocks
    (SELECTs that measure), the formula has a branch per block. ``label``: whether it reads columns of public tables and
    no released number. ``derived``: where there is no formula, the column computed from several released rows by
    windows whose partitions and order are public; None if it is computed in any other way (E6).
    """

    name: str
    group: int | None
    formula: exp.Expression | None
    label: bool = False
    derived: exp.Expression | None = None

    @property
    def is_aggregate(self) -> bool:
        return self.group is None and not self.label


class PublicRows:
    """The content of a public table, column by column: the rows whose key is not NULL."""

    def __init__(self, key: str, columns: Mapping[str, Values]) -> None:
        self.columns = columns
        self._key = key
        self._by_key: dict[str, Mapping[Any, Any]] = {}

    def by_key(self, column: str) -> Mapping[Any, Any]:
        """Return the values of a column, each by the key of its row."""
        if column not in self._by_key:
            keys, values = self.columns[self._key].values, self.columns[column].values
            self._by_key[column] = dict(zip(keys, values, strict=True))
        return self._by_key[column]


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A public table that is joined after the noise. ``name``: its name in the embedded engine.

    ``columns``: those that are read. ``rows``: its content, once an engine has read it; plans are compared without it.
    """

    table: JoinTable
    name: str
    columns: tuple[str, ...]
    rows: PublicRows | None = field(default=None, compare=False, repr=False)

    def content(self) -> Mapping[str, Values]:
        """Return the table's columns for the embedded engine; they are empty before an engine has read the table."""
        if self.rows is not None:
            return self.rows.columns
        kinds = {name: COLUMN_TYPES[self.table.columns[name].type] for name in self.columns}
        return {name: Values(kind, (), kind is Type.INTEGER) for name, kind in kinds.items()}


@dataclass(frozen=True, slots=True)
class Lookup:
    """A value that is looked up in a public table: that of ``column`` in the row whose key equals ``key``.

    ``key`` is a group value g0, g1 … or the result of an earlier lookup, p0, p1 ….
    """

    table: str
    column: str
    key: exp.Expression
    type: Type


@dataclass(frozen=True, slots=True)
class AfterNoise:
    """The work on the released table (Q4). ``query``: SQL over that table; None if the answer is just columns of it.

    ``traced``: whether the query's last column tells, for each of its rows, the number of the released row behind it.
    ``steps``: what happens, in words. ``rows_of``: the numbers of the blocks (SELECTs that measure) whose released rows
    become rows of the answer. ``public``: the public tables that are joined. ``lookups``: what p0, p1 … stand for in
    formulas.
    """

    query: exp.Expression | None
    traced: bool
    steps: tuple[str, ...]
    rows_of: tuple[int, ...] = (0,)
    public: tuple[PublicTable, ...] = ()
    lookups: tuple[Lookup, ...] = ()

    def in_block(self, block: int) -> AfterNoise:
        """Return a copy for block number ``block`` alone, whose lookups use the groups of that block."""
        lookups = (replace(each, key=formula_in(each.key, block) or each.key) for each in self.lookups)
        return replace(self, lookups=tuple(lookups)) if self.lookups else self


@dataclass(frozen=True, slots=True)
class Join:
    """A table joined on equal columns. ``left``: whether it is a left join, which keeps rows without a match.

    ``pairs``: the columns that are equal, each pair being a column joined so far and a column of this table.
    """

    table: JoinTable
    left: bool
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A further SELECT that measures the rows of a plan, with its own WHERE, groups and measures (Q5).

    ``arguments``: what its measures read. ``estimates``: the aggregates asked for, computed from the measures.
    ``sets``: for each set of ROLLUP, CUBE or GROUPING SETS, the indices of the groups that it keeps. ``share``: the
    share of ε that each of its measures gets, as a block that tells what was cut has (E5); None for an equal share of
    what is left.
    """

    where: exp.Expression | None
    groups: tuple[Group, ...]
    arguments: tuple[Argument, ...]
    measures: tuple[Measure, ...]
    estimates: tuple[Estimate, ...]
    sets: tuple[tuple[int, ...], ...] = ()
    share: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What an answer tells beside what was asked: how many individuals were cut, and how many clamped (E5).

    ``share``: the share of ε for both, as it was asked for; each measured one gets half of it, and what is not measured
    leaves its half to the answer. ``measured``: which of "cut" and "clamped" is measured; any other is 0 by public
    facts. They are the measures of the plan's last block, in this order. ``within``: the condition of the rows that can
    matter, which meet a WHERE and are in a declared group; None for all rows.
    """

    share: float
    measured: tuple[str, ...]
    within: exp.Expression | None


@dataclass(frozen=True, slots=True)
class Threshold:
    """The rule for which groups of the data an answer shows: those with large enough noisy numbers of people (H1).

    ``people``: the index of the measure that counts a group's individuals. ``delta``: the largest probability with
    which an answer may show somebody alone in a group. ``most``: in how many groups one individual can be at most, ℓ₀.
    """

    people: int
    delta: float
    most: int


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The plan of a query: all that follows from SQL and schema alone. All its trees are rebuilt by the planner.

    A plan is a list of blocks (SELECTs that measure) over the same rows or individuals. ``where``, ``groups``,
    ``arguments``, ``measures``, ``estimates`` and ``sets`` are those of the first block; ``further`` holds the other
    blocks. Cells are numbered block after block. ``columns``: the columns that the query reads. ``outputs``: the
    columns of the answer. ``after``: what happens after the noise. ``declared``: whether groups are declared.
    ``hand_sensitivity``: a sensitivity given by hand, or None. ``schema``: the public facts of the rows that are
    measured. ``digest``: of the query, the schema and the options. ``joins``: the joined tables. The fields
    after ``joins`` are explained one by one in the class.
    """

    sql: str
    table: str
    columns: tuple[str, ...]
    where: exp.Expression | None
    groups: tuple[Group, ...]
    arguments: tuple[Argument, ...]
    measures: tuple[Measure, ...]
    estimates: tuple[Estimate, ...]
    outputs: tuple[Output, ...]
    after: AfterNoise
    declared: bool
    hand_sensitivity: float | None
    schema: Schema
    digest: str
    joins: tuple[Join, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    """The indices of the groups that each set of ROLLUP, CUBE … keeps: its numbers add up released cells (Q3)."""
    singled_out: tuple[tuple[str, str], ...] = ()
    """Columns that identify people and that the query tests, each with the clause that tests it."""
    person: PersonStage | None = None
    """What is computed from each individual's own rows first; the plan's rows and schema are what it gives (Q2)."""
    declared_schema: Schema | None = None
    """The schema that the query was planned by; ``schema`` differs with joins and with a person stage."""
    further: tuple[Block, ...] = ()
    """The blocks besides the first: further SELECTs of a UNION ALL, scalar subqueries, sets that do not add up (Q5)."""
    part_of: Fraction | None = None
    """Where this is one block of several, taken by itself: the ``shares`` of all of them (S5), as for scaling."""
    share: Fraction | None = None
    """Where this is one block of several, taken by itself: the ``share`` of this block."""
    threshold: Threshold | None = None
    """Where nobody declared the groups: which of the observed ones are shown (H1)."""
    told: Told | None = None
    """What is told of the rows and values that do not count as they are (E5); None if that was not asked for."""

    @property
    def blocks(self) -> tuple[QueryPlan, ...]:
        """Return each block (SELECT that measures) as a plan of its own; a plan with one block is that block itself."""
        if not self.further:
            return (self,)
        first = Block(self.where, self.groups, self.arguments, self.measures, self.estimates, self.sets)
        return tuple(self._part(at, block) for at, block in enumerate((first, *self.further)))

    @property
    def answered(self) -> tuple[QueryPlan, ...]:
        """Return the blocks whose numbers become the answer's rows: all but one that tells what was cut (E5)."""
        return tuple(block for block in self.blocks if block.share is None)

    @property
    def is_united(self) -> bool:
        """Return whether several blocks (SELECTs that measure) were asked for, and make the answer together."""
        return any(block.share is None for block in self.further)

    def _part(self, at: int, block: Block) -> QueryPlan:
        seen = at in self.after.rows_of
        return replace(
            self,
            where=block.where,
            groups=block.groups,
            arguments=block.arguments,
            measures=block.measures,
            estimates=block.estimates,
            sets=block.sets,
            outputs=tuple(
                replace(
                    output,
                    formula=formula_in(output.formula, at) if seen else None,
                    derived=formula_in(output.derived, at) if seen else None,
                )
                for output in self.outputs
            ),
            after=self.after.in_block(at),
            further=(),
            part_of=self.shares,
            share=block.share,
        )

    @property
    def all_measures(self) -> tuple[Measure, ...]:
        """Return the measures of all blocks, block after block: each has a share of ε (S5)."""
        return (*self.measures, *(measure for block in self.further for measure in block.measures))

    @property
    def shares(self) -> Fraction:
        """Return into how many parts ε is split, each as large as the part of one measure that was asked for (S5).

        It is the number of all measures; where some have a ``share`` of their own, the others share what is left (E5).
        """
        if self.part_of is not None:
            return self.part_of
        apart = [block.share for block in self.further for _ in block.measures if block.share is not None]
        return (len(self.all_measures) - len(apart)) / (1 - sum(apart, Fraction(0)))

    @property
    def own_shares(self) -> Fraction:
        """Return into how many parts ε is split, each as large as the part of one of this block's own measures."""
        return self.shares if self.share is None else 1 / self.share

    def split(self, items: Sequence[_Item]) -> list[Sequence[_Item]]:
        """Split a list that has one item for each measure of all blocks into one list for each block."""
        ends = np.cumsum([len(self.measures), *(len(block.measures) for block in self.further)]).tolist()
        return [items[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    @property
    def k(self) -> int | None:
        """Return how many numbers get noise (N3); None if groups are observed or thresholded."""
        keys = [block.group_keys for block in self.blocks]
        if any(each is None for each in keys):
            return None
        return sum(len(each or ()) * len(block.measures) for each, block in zip(keys, self.blocks, strict=True))

    @property
    def aggregate_names(self) -> tuple[str, ...]:
        """Return the names of the answer's columns that come from noisy numbers, and so have errors."""
        return tuple(output.name for output in self.outputs if output.is_aggregate)

    @property
    def table_schema(self) -> Schema:
        """Return the schema of the table itself if the plan has a person stage; otherwise ``schema``.

        With joins and without a person stage, this is the schema of the joined rows. A preference's FILTERs, and
        ``--by`` of ``dosimeter risk``, name columns of the schema that is returned.
        """
        return self.schema if self.person is None or self.declared_schema is None else self.declared_schema

    @property
    def table_words(self) -> Words:
        """Return what the rows of the table itself and the individuals are called."""
        return (self.declared_schema or self.schema).words

    @property
    def words(self) -> Words:
        """Return what the measured rows and the individuals are called.

        Rows of two private tables joined, and rows computed from each individual's own, are not what the schema calls a
        row. Where each individual has one such row, it goes by the individual's name.
        """
        schema = self.declared_schema or self.schema
        if self.person is not None or any(not join.table.public for join in self.joins):
            schema = replace(schema, row=None, rows=None, unit="row" if self.is_one_row_each else schema.unit)
        return schema.words

    @property
    def is_one_row_each(self) -> bool:
        """Return whether a person stage gives each individual at most one row, which then holds all they contribute."""
        return self.person is not None and not self.joins and self.schema.max_rows_per_unit == 1

    @property
    def additive(self) -> bool:
        return all(measure.additive for measure in self.all_measures)

    @property
    def group_keys(self) -> tuple[tuple[Scalar, ...], ...] | None:
        """Return the declared groups of the first block, in order; None if groups are observed or thresholded.

        Each is a tuple of values. Without GROUP BY there is one empty tuple.
        """
        keys: tuple[tuple[Scalar, ...], ...] = ((),)
        for group in self.groups:
            if group.values is None:
                return None
            keys = tuple((*key, value) for key in keys for value in group.values)
        return keys

    @property
    def ranks(self) -> Mapping[int, Rank]:
        """Return the measures that are drawn by rank, by their index among the measures of all blocks (M4)."""
        return {at: measure for at, measure in enumerate(self.all_measures) if isinstance(measure, Rank)}

    @property
    def only_ranks(self) -> bool:
        """Return whether every measured number is drawn by rank, so that none gets noise (M4)."""
        return len(self.ranks) == len(self.all_measures)

    def rank_share(self, epsilon: float | Decimal) -> float:
        """Return how much of this ε a measure that was asked for gets: ε/``shares`` (S5). For draws by rank."""
        return float(Fraction(str(epsilon)) / self.shares)

    def rank_error(self, rank: Rank, epsilon: float | Decimal, cells: int = 1) -> float:
        """Return the 95 % error, in rows, of a number drawn by rank in an answer at this ε (E3).

        ``cells``: for how many draws the error holds, all at once.
        """
        return rank.rank_error(self.rank_share(epsilon), self.schema.individuals, cells)

    def sensitivity(self, norm: Norm) -> float:
        """Return Δ of all measured numbers together, in this norm; several measures are scaled by ``weights`` (S5)."""
        assert self.part_of is None, "the blocks of a plan share one sensitivity"
        measures = self.all_measures
        if self.hand_sensitivity is not None:
            return self.hand_sensitivity
        if len(measures) == 1:
            return measures[0].sensitivity(norm)
        return float(self.shares) if norm == 1 else float(np.sqrt(float(self.shares)))

    def weights(self, norm: Norm) -> FloatArray:
        """Return the factor by which each measure of all blocks is scaled before the norm is taken (S5).

        It is 1 for the only measure of a plan, or with a sensitivity given by hand; otherwise 1/Δ of the measure. With
        a share of its own that is r times as large as the others', it is r/Δ, or √r/Δ in the L2 norm (E5).
        """
        measures = self.all_measures
        if (len(measures) == 1 and self.part_of is None) or self.hand_sensitivity is not None:
            return np.ones(len(measures))
        shares = [self.share] * len(self.measures)
        shares += [block.share for block in self.further for _ in block.measures]
        ratios = [1.0 if share is None else float(share * self.shares) ** (1.0 / norm) for share in shares]
        return np.array([ratio / measure.sensitivity(norm) for ratio, measure in zip(ratios, measures, strict=True)])

    def grids(self, norm: Norm) -> FloatArray:
        """Return the grid steps of the noise, scaled by ``weights``.

        With one block there is one step per measure, and cell c has the step at index c modulo the number of measures.
        With several blocks there is one step per cell.
        """
        grids: FloatArray = self.weights(norm) * np.array([float(measure.grid) for measure in self.all_measures])
        if not self.further:
            return grids
        parts = zip(self.blocks, self.split(grids.tolist()), strict=True)
        return np.concatenate([np.tile(part, len(block.group_keys or ())) for block, part in parts])
