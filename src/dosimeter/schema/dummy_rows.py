"""Invent rows that fit a schema, from its public facts alone. Takes a Schema and a number of rows; gives Arrow tables.

Never opens data. What is drawn here is no noise and protects nobody: each column has a generator that is seeded by the
schema's digest, so that the same schema and the same number of rows give the same table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
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
    invention = _Invention(schema)
    name = schema.table if table is None else table
    if name not in invention.tables:
        raise OptionError(f"The schema declares no table {name}. Declared: {', '.join(invention.tables)}.")
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:  # type: ignore[redundant-expr]
        raise OptionError("The number of rows must be a whole number, at least 1.")
    most = count_most_rows(schema)
    if rows > most:
        raise OptionError(
            f"At most {most:,} rows can be invented for this schema: by their size, or by the individuals that it "
            "declares. Ask for fewer."
        )
    return invention.make(invention.tables[name], rows)


def count_most_rows(schema: Schema) -> int:
    """Return how many rows at most the schema's own table can be given, by their size and the declared individuals.

    More than these do not count in an answer (N4).
    """
    invention = _Invention(schema)
    columns = max(len(each.columns) for each in invention.tables.values())
    return min(MOST_ROWS, MOST_CELLS // columns, invention.most_people * invention.own.rows_each)


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

    @property
    def unit_column(self) -> Column:
        assert self.unit is not None
        return self.columns[self.unit]


def _list_tables(schema: Schema) -> dict[str, _Table]:
    """Return the schema's own table and then the others, by name."""
    unit = None if schema.unit == "row" else schema.unit
    own = _Table(schema.table, schema.columns, unit, schema.max_rows_per_unit, schema.row_key)
    others = [
        _Table(each.name, each.columns, key=each.key)
        if each.public
        else _Table(each.name, each.columns, each.unit, each.max_rows_per_unit, each.row_key)
        for each in schema.tables.values()
    ]
    return {each.name: each for each in (own, *others)}


class _Invention:
    """Makes the rows of the tables of one schema. ``most_people``: how many individuals are declared and told apart."""

    def __init__(self, schema: Schema) -> None:
        self.tables = _list_tables(schema)
        self.own = self.tables[schema.table]
        self._digest = digest_schema(schema)
        self._keys = {each.key.lower() for each in self.tables.values() if each.key is not None}
        self._alike: dict[str, list[Column]] = {}  # the columns that say their values, by name
        for column in (column for table in self.tables.values() for column in table.columns.values()):
            if _is_declared(column):
                self._alike.setdefault(column.name.lower(), []).append(column)
        units = MOST_NUMBERS if self.own.unit is None else _Domain(self.own.unit_column, counted=True).size
        self.most_people = units if schema.individuals is None else min(units, schema.individuals)

    def make(self, table: _Table, rows: int) -> pa.Table:
        """Return the rows of a table that go with so many rows of the schema's own table."""
        import pyarrow as pa

        people = self._share_rows(rows)
        names = self._name_people(int(people[-1]) + 1)
        if table.key is not None:
            people = np.arange(min(self._find_domain(table, table.columns[table.key]).size, MOST_KEYS))
        elif table is not self.own:
            people, names = self._join_people(table, names)
        return pa.table({name: self._fill(table, each, people, names) for name, each in table.columns.items()})

    def _seed(self, *names: str) -> np.random.Generator:
        """Return a generator for these names, such as a table's and a column's: the same for every equal schema."""
        text = "\0".join((self._digest, *names))
        return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()))

    # ------------------------------------------------------------ whose rows

    def _share_rows(self, rows: int) -> IntArray:
        """Return the number of the individual whose each row of the schema's own table is, ascending from 0."""
        if self.own.unit is None:
            return np.arange(rows)
        most = min(self.own.rows_each, MOST_EACH)
        sizes = self._seed(self.own.name).integers(1, most, size=rows, endpoint=True)
        needed = int(np.searchsorted(np.cumsum(sizes), rows)) + 1
        if needed > self.most_people:  # fewer individuals, with more rows each
            needed = self.most_people
            sizes = rows // needed + (np.arange(needed) < rows % needed)
        return np.repeat(np.arange(needed), sizes[:needed])[:rows]

    def _name_people(self, count: int) -> NDArray[Any]:
        """Return what so many individuals are called: values of the unit column; without one, their numbers from 1.

        Values that the unit columns of other private tables declare come first, so that these have rows of them.
        """
        if self.own.unit is None:
            return np.arange(1, count + 1)
        others = [each.unit_column for each in self.tables.values() if each is not self.own and each.unit is not None]
        return _name_units(self.own.unit_column, others, count)

    def _join_people(self, table: _Table, names: NDArray[Any]) -> tuple[IntArray, NDArray[Any]]:
        """Return whose each row of a private joined table is, and what these individuals are called.

        They are those of the schema's own table, as far as the unit column can hold their names. Some have no row here.
        """
        column = table.unit_column
        held = names[_can_hold(column, names)]
        if not len(held):
            held = _name_units(column, (), min(len(names), _Domain(column, counted=True).size))
        most = min(table.rows_each, MOST_EACH)
        sizes = self._seed(table.name).integers(0, most, size=len(held), endpoint=True)
        sizes[0] = max(1, sizes[0])
        return np.repeat(np.arange(len(held)), sizes), held

    # ------------------------------------------------------------ columns

    def _fill(self, table: _Table, column: Column, people: IntArray, names: NDArray[Any]) -> pa.Array:
        """Return the cells of a column. ``people``: whose each row is; ``names``: what these are called."""
        import pyarrow as pa

        rows = len(people)
        if column.name == table.unit:
            return pa.array(names[people], pa.int64() if column.type is ColumnType.INTEGER else pa.string())
        domain = self._find_domain(table, column)
        if column.name in (table.key, table.row_key):
            return domain.read(np.arange(rows) % domain.size)
        if column.identifying and not _is_declared(column):
            return domain.read(people % domain.size)
        generator = self._seed(table.name, column.name)
        numbers = _spread(generator, domain.size, rows)
        missing = np.zeros(rows, dtype=np.bool_)
        missing[generator.permutation(rows)[: rows // (SHARE_NULL if column.nulls else SHARE_RARELY_NULL)]] = True
        return domain.read(numbers, missing)

    def _find_domain(self, table: _Table, column: Column) -> _Domain:
        """Return the values to give a column. One that says none has those of a column of its name in another table.

        A column that is called as the key of a public table has only values that this key has, too.
        """
        if column.name == table.row_key or (column.identifying and not _is_declared(column)):
            return _Domain(column, counted=True)
        alike = [each for each in self._alike.get(column.name.lower(), ()) if _are_of_a_kind(column, each)]
        used = alike[0] if alike and not _is_declared(column) else column
        return _Domain(used, most=MOST_KEYS if column.name.lower() in self._keys else MOST_NUMBERS)


def _name_units(column: Column, others: Collection[Column], count: int) -> NDArray[Any]:
    """Return so many values of a unit column, first those that the other unit columns declare, too."""
    if column.type is ColumnType.INTEGER:
        low, high = _read_whole(column) or (1, MOST_NUMBERS)
        lows = [whole[0] for whole in map(_read_whole, others) if whole is not None]
        start = max([each for each in lows if low <= each <= high], default=low)
        return low + (start - low + np.arange(count)) % (high - low + 1)
    declared = dict.fromkeys(column.values or ())
    shared = [value for other in others for value in other.values or () if not declared or value in declared]
    named = dict.fromkeys(shared) | declared
    if not declared:
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
    whole, values = _read_whole(column), frozenset(column.values or ())
    if whole is not None:
        return np.asarray((names >= whole[0]) & (names <= whole[1]))
    return np.array([not values or name in values for name in names], dtype=np.bool_)


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
