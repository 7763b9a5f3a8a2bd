"""Measure a table in memory: all of it, and then without each individual in turn.

Takes a WorkerSelect and the table's rows. The query's own aggregates run in DuckDB, over the rows of everybody else: no
formula about what one individual can do is used, so that such formulas have something to be compared with. One query
leaves out many individuals, each from a copy of the table, because a query for each would take eight times as long.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.engines import ReadOptions, open_engine
from dosimeter.schema import Column, ColumnType, Scalar, Schema
from dosimeter.sql import column_tree, constant_tree

if TYPE_CHECKING:
    import pyarrow as pa

GroupKey = tuple[Scalar, ...]

OWNER, KIND = "dosimeter_owner", "dosimeter_kind"  # no column of a schema has these names

SAME = 1e-12  # relative; a native float aggregate may differ in its last digits with the order of the rows


@dataclass(frozen=True, slots=True)
class GroupNumber:
    """One number per group: an aggregate (``tree``) over the columns a0, a1 …

    ``scale``: what a change of this number is multiplied by to give the change in a contribution. ``empty``: the number
    where there is nothing to aggregate (C6). ``exact``: whether the number is whole. If it is not, a change no larger
    than a rounding error counts as none.
    """

    tree: exp.Expression
    scale: float
    empty: float
    exact: bool = False


@dataclass(frozen=True, slots=True)
class WorkerSelect:
    """One SELECT in the form that a worker process needs.

    ``table`` and ``schema``: the name of the table, and its schema. ``columns``: those that the SELECT reads. ``where``
    and ``groups``: its WHERE and its GROUP BY. ``numbers``: what it measures in each group, over ``arguments``.
    ``declared``: the declared groups, or None where groups are observed (C8).
    """

    table: str
    schema: Schema
    columns: tuple[str, ...]
    where: exp.Expression | None
    groups: tuple[exp.Expression, ...]
    arguments: tuple[exp.Expression, ...]
    numbers: tuple[GroupNumber, ...]
    declared: tuple[GroupKey, ...] | None


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """The table in the columns that the query reads: distinct records, and in ``times`` how often each occurs.

    Individuals have indices: 0, 1 … ``owners`` has, for each record, the index of its individual. If it is None, every
    row of the table is an individual of its own, and the indices follow the order of the records. Individuals with the
    same rows are of one kind. Per kind, ``people`` has how many there are, and ``examples`` the index of one of them.
    """

    records: pa.Table
    times: IntArray
    people: IntArray
    examples: IntArray
    owners: IntArray | None = None


@dataclass(frozen=True, slots=True, repr=False)
class WholeTable:
    """q(x), the numbers of the whole table: the groups, and for each number an array with its value in each group."""

    keys: tuple[GroupKey, ...]
    values: tuple[NDArray[Any], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Effects:
    """What leaving out one individual i takes away from the numbers, q(x) − q(x₋ᵢ), for several kinds of individuals.

    Individuals with the same rows are of one kind. The kinds here are those with the indices ``first``, ``first`` + 1 …
    An individual of the kind ``first`` + r moves ``cells[starts[r]:starts[r + 1]]`` by the ``changes`` at the same
    indices.
    """

    first: int
    starts: IntArray
    cells: IntArray
    changes: FloatArray


class DeletionTable:
    """A table in DuckDB's memory with every row of the data, each with the index of its individual."""

    def __init__(self, job: WorkerSelect, rows: Rows) -> None:
        import pyarrow as pa

        self._job = job
        expanded = np.repeat(np.arange(len(rows.times)), rows.times)
        owner = np.arange(len(expanded)) if rows.owners is None else rows.owners[expanded]
        # The rows of a kind's example, who is left out, hold the kind's number; all other rows hold NULL.
        kinds = np.full(int(owner.max(initial=-1)) + 1, -1)
        kinds[rows.examples] = np.arange(len(rows.examples))
        kind = kinds[owner]
        places = pa.array(expanded)
        columns = {name: rows.records.column(name).take(places) for name in job.columns}
        columns |= {OWNER: pa.array(owner), KIND: pa.array(kind, mask=kind < 0)}
        kept = {name: job.schema.columns[name] for name in job.columns}
        markers = {name: Column(name, ColumnType.INTEGER) for name in (OWNER, KIND)}
        self._engine = open_engine(pa.table(columns), "duckdb", ReadOptions(table=job.table))
        self._engine.impose(Schema(table=job.table, columns={**kept, **markers}))

    def close(self) -> None:
        self._engine.close()

    def measure(self) -> WholeTable:
        """Return the numbers of the whole table, computed by the same aggregates as when somebody is left out."""
        groups = len(self._job.groups)
        query = exp.select(*self._group_columns(), *self._numbers(), copy=False).from_(self._matching(), copy=False)
        table = self._engine.fetch(group_by_first(query, groups))
        keys, codes = code_rows(table, [f"g{at}" for at in range(groups)])
        known = self._job.declared
        if known is None:
            known = tuple(sorted(keys, key=lambda key: [(value is None, value) for value in key]))
        position = _positions(keys, known)[codes]
        one = np.zeros(table.num_rows, dtype=np.int64)
        return WholeTable(known, tuple(values[0] for values in self._read(table, one, position, 1, len(known))))

    def leave_out(self, whole: WholeTable, first: int, last: int) -> Effects:
        """Return the effects of leaving out one individual of each kind from ``first`` to ``last`` − 1, one at a time.

        Individuals with the same rows are of one kind. ``whole``: the numbers with everybody.
        """
        groups = len(self._job.groups)
        left_out = exp.NEQ(this=column_tree("owner"), expression=column_tree("left_out"))
        query = exp.select(column_tree("kind"), *self._group_columns(), *self._numbers(), copy=False)
        query = query.from_(self._matching(), copy=False).join(self._examples(first, last), on=left_out, copy=False)
        table = self._engine.fetch(group_by_first(query, 1 + groups))
        keys, codes = code_rows(table, [f"g{at}" for at in range(groups)])
        position = _positions(keys, whole.keys)[codes]
        kind = np.asarray(table.column("kind").to_numpy(), dtype=np.int64) - first
        size, count = last - first, len(self._job.numbers)
        changes = np.zeros((size, len(whole.keys), count))
        remaining = self._read(table, kind, position, size, len(whole.keys))
        for at, (number, before, after) in enumerate(zip(self._job.numbers, whole.values, remaining, strict=True)):
            changes[:, :, at] = _difference(number, before, after) * number.scale
        dense = changes.reshape(size, -1)
        rows, cells = np.nonzero(dense)
        starts = np.searchsorted(rows, np.arange(size + 1))
        return Effects(first, starts.astype(np.int64), cells.astype(np.int64), dense[rows, cells])

    def _group_columns(self) -> list[exp.Expression]:
        return [column_tree(f"g{at}") for at in range(len(self._job.groups))]

    def _numbers(self) -> list[exp.Expression]:
        return [named(number.tree.copy(), f"m{at}") for at, number in enumerate(self._job.numbers)]

    def _matching(self) -> exp.Expression:
        """Return the rows that meet the WHERE: their individual's index, groups g0, g1 … and arguments a0, a1 …"""
        columns = [named(column_tree(OWNER), "owner")]
        columns += [named(tree.copy(), f"g{at}") for at, tree in enumerate(self._job.groups)]
        columns += [named(tree.copy(), f"a{at}") for at, tree in enumerate(self._job.arguments)]
        query = exp.select(*columns, copy=False).from_(self._engine.relation(), copy=False)
        if self._job.where is not None:
            query = query.where(self._job.where.copy(), copy=False)
        return query.subquery("matching", copy=False)

    def _examples(self, first: int, last: int) -> exp.Expression:
        columns = [named(column_tree(OWNER), "left_out"), named(column_tree(KIND), "kind")]
        chosen = exp.Between(this=column_tree(KIND), low=constant_tree(first), high=constant_tree(last - 1))
        query = exp.select(*columns, copy=False).from_(self._engine.relation(), copy=False).where(chosen, copy=False)
        return query.distinct(copy=False).subquery("examples", copy=False)

    def _read(
        self, table: pa.Table, kind: IntArray, group: IntArray, kinds: int, groups: int
    ) -> Iterator[NDArray[Any]]:
        """Yield, for each number, an array with a row per kind and a column per group.

        Individuals with the same rows are of one kind. The array holds the number's value in the group, measured
        without one individual of the kind. ``kind`` and ``group``: for each row of ``table``, where in the array its
        value belongs. Rows with ``group`` −1 are in undeclared groups and are skipped (C7). Where no row is left, the
        value is the one that an empty group has (C6).
        """
        for at, number in enumerate(self._job.numbers):
            values, there = _read_numbers(table.column(f"m{at}"), exact=number.exact)
            there &= group >= 0
            dense = np.full((kinds, groups), number.empty, dtype=values.dtype)
            dense[kind[there], group[there]] = values[there]
            yield dense


def _difference(number: GroupNumber, before: NDArray[Any], after: NDArray[Any]) -> FloatArray:
    difference = np.asarray(before - after, dtype=np.float64)
    if number.exact:
        return difference
    same = np.abs(difference) <= SAME * np.maximum(np.abs(before), np.abs(after))
    return np.where(same, 0.0, difference)


def _read_numbers(column: pa.ChunkedArray, *, exact: bool) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the numbers of a column, and which of them are neither NULL, infinite nor NaN.

    ``exact``: read whole numbers, beyond 64 bits as Python's own integers; otherwise doubles.
    """
    import pyarrow as pa

    there = np.asarray(column.is_valid().to_numpy(), dtype=np.bool_)
    if not exact:
        values = np.asarray(column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(), dtype=np.float64)
        return values, there & np.isfinite(values)
    try:
        return np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy(), dtype=np.int64), there
    except pa.ArrowInvalid:
        return np.array([int(value or 0) for value in column.to_pylist()], dtype=object), there


def code_rows(table: pa.Table, names: Sequence[str]) -> tuple[list[GroupKey], IntArray]:
    """Return the distinct combinations of values in these columns, and for each row the index of its combination."""
    columns: list[tuple[IntArray, list[Any]]] = []
    code = np.zeros(table.num_rows, dtype=np.int64)
    for name in names:
        encoded = table.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        places = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
        columns.append((places, encoded.dictionary.to_pylist()))
        code = np.unique(code * (len(encoded.dictionary) + 1) + places, return_inverse=True)[1]
    _, firsts, codes = np.unique(code, return_index=True, return_inverse=True)
    keys = [tuple(values[places[row]] for places, values in columns) for row in firsts]
    return keys, codes.astype(np.int64)


def _positions(keys: Sequence[GroupKey], known: Sequence[GroupKey]) -> IntArray:
    """Return the index of each key among the known ones; -1 for a group that nobody declared."""
    places = {_comparable(key): at for at, key in enumerate(known)}
    return np.array([places.get(_comparable(key), -1) for key in keys], dtype=np.int64)


def _comparable(key: GroupKey) -> GroupKey:
    """Return a key whose NaNs are one object: NaN is one group in SQL, and in Python unequal to any other NaN."""
    return tuple(math.nan if isinstance(value, float) and math.isnan(value) else value for value in key)


def named(tree: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True))


def group_by_first(query: exp.Select, columns: int) -> exp.Select:
    if columns:
        query.set("group", exp.Group(expressions=[exp.Literal.number(at + 1) for at in range(columns)]))
    return query
