"""Invent rows that fit a schema, from its public facts alone. Takes a Schema and a number of rows; gives Arrow tables.

Never opens data. What is drawn here is no noise and protects nobody: each column has a generator that is seeded by the
schema's digest, so that the same schema and the same number of rows give the same table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import BoolArray, IntArray
from dosimeter.errors import OptionError
from dosimeter.schema.facts import Column, ColumnType, Schema
from dosimeter.schema.toml import digest_schema

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 1_000_000
MOST_CELLS = 50_000_000
MOST_KEYS = 10_000  # rows of a public table
MOST_EACH = 5  # rows of one individual, where they may have more
MOST_NUMBERS = 2**62  # values of a column that are told apart
SHARE_NULL, SHARE_RARELY_NULL = 10, 50  # one row in so many, where NULL is a declared group and elsewhere

_FIRST_DAY, _LAST_DAY = date(2020, 1, 1), date(2024, 12, 31)
DEFAULT_BOUNDS: Mapping[ColumnType, Any] = {
    ColumnType.INTEGER: (Decimal(0), Decimal(100)),
    ColumnType.DECIMAL: (Decimal(0), Decimal(100)),
    ColumnType.DATE: (_FIRST_DAY, _LAST_DAY),
    ColumnType.TIMESTAMP: (datetime(2020, 1, 1), datetime(2024, 12, 31, 23, 59, 59)),  # noqa: DTZ001 - all are in UTC
}
"""The bounds of columns that declare none."""
DEFAULT_WORDS = {ColumnType.TEXT: 100, ColumnType.CATEGORY: 10}
"""How many different texts there are in a column that declares none."""
_RESOLUTION = Decimal("0.01")
_TEXTS = (ColumnType.TEXT, ColumnType.CATEGORY)


def invent_rows(schema: Schema, rows: int, table: str | None = None) -> pa.Table:
    """Return invented rows of the schema's own table, or of the ``table`` of this name that it declares for joins.

    Raises OptionError for a number of rows that is too large, or a table that is not declared.
    """
    own, tables = _list_tables(schema)
    name = schema.table if table is None else table
    if name != own.name and name not in tables:
        raise OptionError(f"The schema declares no table {name}. Declared: {', '.join([own.name, *tables])}.")
    _check_size(schema, rows)
    people = _own_people(own, _count_people(schema, own), _seed(schema, own.name, ""), rows)
    names = _name_people(own, tables.values(), people[-1] + 1 if len(people) else 0)
    if name == own.name:
        return _Invention(schema, own, people, names).make()
    other = tables[name]
    if other.key is not None:
        return _Invention(schema, other, np.arange(min(_find_domain(schema, other, other.key).size, MOST_KEYS))).make()
    people, names = _joined_people(other, _seed(schema, other.name, ""), names)
    return _Invention(schema, other, people, names).make()


def count_most_rows(schema: Schema) -> int:
    """Return how many rows at most the schema's own table can be given, by their size and the declared individuals.

    More than these do not count in an answer (N4).
    """
    own, tables = _list_tables(schema)
    columns = max(len(each.columns) for each in (own, *tables.values()))
    most = min(MOST_ROWS, MOST_CELLS // columns)
    return min(most, _count_people(schema, own) * own.rows_each)


def _check_size(schema: Schema, rows: object) -> None:
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise OptionError("The number of rows must be a whole number, at least 1.")
    most = count_most_rows(schema)
    if rows > most:
        raise OptionError(
            f"At most {most:,} rows can be invented for this schema: by their size, or by the individuals that it "
            "declares. Ask for fewer."
        )


# ---------------------------------------------------------------- tables


@dataclass(frozen=True, slots=True)
class _Table:
    """What matters here of the schema's own table, or of a joined one. ``key``: of a public table."""

    name: str
    columns: Mapping[str, Column]
    unit: str | None = None
    most_each: int = 1
    row_key: str | None = None
    key: str | None = None

    @property
    def rows_each(self) -> int:
        """Return how many rows an individual can have: not more than the row key has values to tell them apart."""
        if self.row_key is None or self.row_key == self.unit:
            return self.most_each
        return min(self.most_each, _Domain(self.columns[self.row_key], counted=True).size)


def _list_tables(schema: Schema) -> tuple[_Table, dict[str, _Table]]:
    """Return the schema's own table, and the others by name."""
    unit = None if schema.unit == "row" else schema.unit
    own = _Table(schema.table, schema.columns, unit, schema.max_rows_per_unit, schema.row_key)
    others = {
        each.name: _Table(each.name, each.columns, key=each.key)
        if each.public
        else _Table(each.name, each.columns, each.unit, each.max_rows_per_unit, each.row_key)
        for each in schema.tables.values()
    }
    return own, others


def _seed(schema: Schema, *names: str) -> np.random.Generator:
    """Return a generator for these names, such as a table's and a column's: the same for every equal schema."""
    text = "\0".join((digest_schema(schema), *names))
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()))


# ---------------------------------------------------------------- whose rows


def _own_people(own: _Table, people: int, generator: np.random.Generator, rows: int) -> IntArray:
    """Return the number of the individual whose each row is, ascending from 0. ``people``: the most there can be."""
    if own.unit is None:
        return np.arange(rows)
    sizes = generator.integers(1, min(own.rows_each, MOST_EACH), size=rows, endpoint=True)
    needed = int(np.searchsorted(np.cumsum(sizes), rows)) + 1
    if needed > people:  # fewer individuals, with more rows each
        needed, sizes = people, rows // people + (np.arange(people) < rows % people)
    return np.repeat(np.arange(needed), sizes[:needed])[:rows]


def _joined_people(
    table: _Table, generator: np.random.Generator, names: NDArray[Any] | None
) -> tuple[IntArray, NDArray[Any]]:
    """Return the individuals of a private joined table, as ``_own_people`` does, and what they are called.

    They are the individuals of the schema's own table, as far as the unit column can hold their names. Some have no row
    in this table.
    """
    column = _unit_of(table)
    assert names is not None
    named = names[_can_hold(column, names)]
    if not len(named):
        named = _name_people(table, (), min(len(names), _count_units(table)))
    sizes = generator.integers(0, min(table.rows_each, MOST_EACH), size=len(named), endpoint=True)
    sizes[0] = max(1, sizes[0])
    return np.repeat(np.arange(len(named)), sizes), named


def _unit_of(table: _Table) -> Column:
    assert table.unit is not None
    return table.columns[table.unit]


def _count_people(schema: Schema, own: _Table) -> int:
    """Return how many individuals there can be: so many as are declared and told apart."""
    units = MOST_NUMBERS if own.unit is None else _count_units(own)
    return units if schema.individuals is None else min(units, schema.individuals)


def _count_units(table: _Table) -> int:
    """Return how many individuals the unit column of a table can tell apart."""
    column = _unit_of(table)
    return _Domain(column, counted=True).size


def _name_people(own: _Table, others: Collection[_Table], count: int) -> NDArray[Any]:
    """Return a value of the unit column for each of so many individuals; without a unit column, their numbers from 1.

    Values that the unit columns of other private tables declare come first, so that these have rows of them.
    """
    count = int(count)
    if own.unit is None:
        return np.arange(1, count + 1)
    column, units = _unit_of(own), [_unit_of(each) for each in others if each.unit is not None]
    if column.type is ColumnType.INTEGER:
        low, high = _read_whole(column) or (1, MOST_NUMBERS)
        lows = [whole[0] for whole in map(_read_whole, units) if whole is not None]
        start = max([each for each in lows if low <= each <= high], default=low)
        return low + (start - low + np.arange(count)) % (high - low + 1)
    shared = [value for unit in units for value in unit.values or () if value in (column.values or (value,))]
    named = dict.fromkeys([*shared, *(column.values or ())])
    if column.values is None:
        named |= dict.fromkeys(map(_write_word, range(count)))
    return np.array(list(named)[:count], dtype=object)


def _read_whole(column: Column) -> tuple[int, int] | None:
    """Return the bounds of a column of whole numbers; None where it has none."""
    bounds: Any = column.bounds
    return (int(bounds[0]), int(bounds[1])) if bounds and column.type is ColumnType.INTEGER else None


def _can_hold(column: Column, names: NDArray[Any]) -> BoolArray:
    """Return for each name whether a unit column of this declaration can hold it."""
    if (column.type is ColumnType.INTEGER) != (names.dtype != object):
        return np.zeros(len(names), dtype=np.bool_)
    whole = _read_whole(column)
    if whole is not None:
        return np.asarray((names >= whole[0]) & (names <= whole[1]))
    return np.array([column.values is None or name in column.values for name in names], dtype=np.bool_)


# ---------------------------------------------------------------- columns


@dataclass(frozen=True, slots=True)
class _Invention:
    """The rows of one table. ``people``: whose each row is, ascending from 0; ``names``: what these are called."""

    schema: Schema
    table: _Table
    people: IntArray
    names: NDArray[Any] | None = None

    def make(self) -> pa.Table:
        import pyarrow as pa

        return pa.table({name: self._fill(column) for name, column in self.table.columns.items()})

    def _fill(self, column: Column) -> pa.Array:
        import pyarrow as pa

        table, rows = self.table, len(self.people)
        if column.name == table.unit:
            assert self.names is not None
            kind = pa.int64() if column.type is ColumnType.INTEGER else pa.string()
            return pa.array(self.names[self.people], kind)
        domain = _find_domain(self.schema, table, column.name)
        if column.name in (table.key, table.row_key):
            return domain.read(np.arange(rows) % domain.size)
        if column.identifying and not _is_declared(column):
            return domain.read(self.people % domain.size)
        generator = _seed(self.schema, table.name, column.name)
        numbers = _spread(generator, domain.size, rows)
        missing = np.zeros(rows, dtype=np.bool_)
        missing[generator.permutation(rows)[: rows // (SHARE_NULL if column.nulls else SHARE_RARELY_NULL)]] = True
        return domain.read(numbers, missing)


def _find_domain(schema: Schema, table: _Table, name: str) -> _Domain:
    """Return the values to give a column. One that declares none has those of a column of its name in another table.

    A column that is called as the key of a public table has only values that this key has, too.
    """
    own, tables = _list_tables(schema)
    column, every = table.columns[name], (own, *tables.values())
    alike = [each for other in every for each in other.columns.values() if each.name.lower() == name.lower()]
    if name == table.row_key or (column.identifying and not _is_declared(column)):
        return _Domain(column, counted=True)
    if not _is_declared(column):
        lent = [each for each in alike if _is_declared(each) and _are_of_a_kind(column, each)]
        column = replace(lent[0], nulls=column.nulls) if lent else column
    joins = any(each.key is not None and each.key.lower() == name.lower() for each in every)
    return _Domain(column, most=MOST_KEYS if joins else MOST_NUMBERS)


def _is_declared(column: Column) -> bool:
    """Return whether the schema says which values a column can have."""
    return column.bounds is not None or column.values is not None or column.type is ColumnType.BOOLEAN


def _are_of_a_kind(one: Column, other: Column) -> bool:
    return one.type is other.type or {one.type, other.type} <= set(_TEXTS)


def _spread(generator: np.random.Generator, size: int, rows: int) -> IntArray:
    """Return numbers from 0 to ``size`` − 1 in a drawn order, as evenly as so many rows can be spread over them."""
    order = generator.permutation(rows)
    if size <= rows:
        return np.asarray(order % size, dtype=np.int64)
    return np.minimum(((order + generator.random(rows)) / rows * size).astype(np.int64), size - 1)


# ---------------------------------------------------------------- values


class _Domain:
    """The values of a column, numbered from 0, of which there are ``size``.

    ``counted``: whether a column that declares none has as many as are needed. ``most``: how many are told apart; of
    more, these are taken evenly.
    """

    def __init__(self, column: Column, *, counted: bool = False, most: int = MOST_NUMBERS) -> None:
        self.column = column
        bounds: Any = column.bounds or DEFAULT_BOUNDS.get(column.type, (None, None))
        if counted and column.type is ColumnType.INTEGER and column.bounds is None:
            bounds = (1, MOST_NUMBERS)
        low, high = bounds
        match column.type:
            case ColumnType.TEXT | ColumnType.CATEGORY:
                total = _count_words(column)
                if column.values is None and not counted:
                    total = min(total, DEFAULT_WORDS[column.type])
            case ColumnType.BOOLEAN:
                total = 2
            case ColumnType.INTEGER:
                total = int(high - low) + 1
            case ColumnType.DECIMAL:
                self._resolution = column.resolution or min(_RESOLUTION, (high - low) / 100 or _RESOLUTION)
                total = int(Fraction(high - low) / Fraction(self._resolution)) + 1
            case ColumnType.DATE:
                total = (high - low).days + 1
            case ColumnType.TIMESTAMP:
                total = int((high - low).total_seconds()) + 1
        self._bounds, self.size = bounds, min(total, most)
        self._step = (total - 1) // max(1, self.size - 1)

    def read(self, numbers: IntArray, missing: BoolArray | None = None) -> pa.Array:
        """Return the values with these numbers, NULL where one is missing."""
        import pyarrow as pa

        low = self._bounds[0]
        match self.column.type:
            case ColumnType.TEXT | ColumnType.CATEGORY:
                values = self.column.values
                texts = [_write_word(at) if values is None else values[at] for at in numbers.tolist()]
                return pa.array(np.array(texts, dtype=object), pa.string(), mask=missing)
            case ColumnType.BOOLEAN:
                return pa.array(numbers.astype(np.bool_), mask=missing)
            case ColumnType.INTEGER:
                return pa.array(int(low) + numbers * self._step, mask=missing)
            case ColumnType.DECIMAL:
                return pa.array(self._read_decimals(numbers), mask=missing)
            case ColumnType.DATE:
                days = (low - date(1970, 1, 1)).days + numbers * self._step
                return pa.array(days.astype(np.int32), mask=missing).cast(pa.date32())
            case ColumnType.TIMESTAMP:
                since = low.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
                ticks = since // timedelta(microseconds=1) + numbers * self._step * 1_000_000
                return pa.array(ticks, mask=missing).cast(pa.timestamp("us"))

    def _read_decimals(self, numbers: IntArray) -> NDArray[np.float64]:
        """Return low + number × step × resolution; the float nearest to that, unless there are very many values."""
        low, high = map(Fraction, self._bounds)
        step = self._step * Fraction(self._resolution)
        parts = low.denominator * step.denominator
        first, each = int(low * parts), int(step * parts)
        if max(abs(first), abs(first + each * self.size), parts) < 2**53:
            return np.asarray((first + each * numbers) / parts)
        return np.asarray(np.clip(float(low) + numbers * float(step), float(low), float(high)))


def _count_words(column: Column) -> int:
    """Return how many texts a column can have: its values; without any, the words of at most ``max_length`` letters."""
    if column.values is not None:
        return len(column.values)
    lengths = range(1, min(column.max_length or 20, 20) + 1)
    return min(MOST_NUMBERS, sum(int(26**letters) for letters in lengths))


def _write_word(number: int) -> str:
    """Return a short text, another one for each number: a to z, then aa, ab …"""
    letters = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("a") + letter) + letters
    return letters
