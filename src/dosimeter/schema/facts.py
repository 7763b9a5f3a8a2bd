"""The public facts of a table: columns, bounds, values, joined tables. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dosimeter.html import write_paragraphs, write_table
from dosimeter.schema.words import Words

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_LENGTH = 4_096  # letters of an undeclared text that enter joins and further stages
LONGEST_TEXT = 65_536  # letters of a text that a query may make

Scalar = int | float | bool | str | Decimal | date | datetime | None


class ColumnType(StrEnum):
    INTEGER = "integer"
    DECIMAL = "decimal"
    CATEGORY = "category"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Column:
    """The public facts of one column. Bounds are numbers for numeric columns, dates or timestamps for temporal ones.

    ``values``: the texts that a category column can have. ``resolution``: the grid of a decimal column, such as 0.01.
    ``nulls``: whether NULL is one of its declared groups (C8). ``identifying``: whether its values identify people.
    ``description``: what the column holds, for analysts. ``listed``: of a column that a query computes, all values that
    it can have, if these are known to be fewer than its bounds and its resolution allow; never in a schema's file.
    ``max_length``: how many letters of a text count where it is joined to another or handed to a further stage; None
    means ``DEFAULT_LENGTH``. ``found``: the ledger's entry that released the bounds or the values; None if they were
    declared (B1).
    """

    name: str
    type: ColumnType
    bounds: tuple[Decimal, Decimal] | tuple[date, date] | None = None
    values: tuple[str, ...] | None = None
    resolution: Decimal | None = None
    identifying: bool = False
    nulls: bool = False
    description: str | None = None
    max_length: int | None = None
    found: str | None = None
    listed: tuple[Scalar, ...] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class JoinTable:
    """A further table that a query may join: public with a unique ``key``, or private and of the same individuals.

    A private one has a ``unit`` column, at most ``max_rows_per_unit`` rows per individual, and a ``row_key`` that tells
    these apart. ``source``: the file or database table to read.
    """

    name: str
    columns: Mapping[str, Column]
    public: bool
    key: str | None = None
    source: str | None = None
    unit: str | None = None
    max_rows_per_unit: int = 1
    row_key: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Schema:
    """The public facts of a table. ``individuals``: how many there are; None if that is not declared.

    ``unit``: the column that says whose a row is, or ``row`` if each row is an individual. ``max_rows_per_unit``: how
    many rows of one individual count at most; ``row_key``: the column that tells these apart. ``tables``: further
    tables that a query may join. ``account``: the ledger's account that pays for releases; None means the account with
    the table's name. ``description``: what the table holds, for analysts. ``row`` and ``individual``: what sentences
    call one row and one individual, such as stay and patient; ``rows`` and ``people``: several, if not with an s.
    ``reviewed``: whether everything is public: by the controller's word, or "released", where the ledger's entry
    ``found`` released ``individuals``, ``max_rows_per_unit`` and what columns say of themselves (B1).
    """

    table: str
    columns: Mapping[str, Column]
    individuals: int | None = None
    unit: str = "row"
    max_rows_per_unit: int = 1
    row_key: str | None = None
    reviewed: bool | Literal["released"] = False
    tables: Mapping[str, JoinTable] = field(default_factory=dict)
    account: str | None = None
    description: str | None = None
    row: str | None = None
    rows: str | None = None
    individual: str | None = None
    people: str | None = None
    found: str | None = None

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema from its TOML file.

        Args:
            path: the file.

        Raises:
            SchemaError: the file does not exist, is not valid TOML, or contradicts itself; the message says where.
        """
        from dosimeter.schema.toml import load_schema

        return load_schema(path)

    def save(self, path: str | Path, *, comment: str = "") -> None:
        """Write the schema as TOML, which ``load`` reads back. A file of that name is replaced.

        Args:
            path: the file.
            comment: lines for the top of the file.
        """
        from dosimeter.schema.toml import save_schema

        save_schema(self, path, comment=comment)

    def dummy(self, rows: int, *, table: str | None = None) -> pa.Table:
        """Return invented rows that fit the schema, for trying SQL. They are made from the schema alone.

        Numbers and dates are spread evenly over their bounds, categories over their declared values; keys join. The
        same schema and the same number of rows give the same table.

        Args:
            rows: how many rows the schema's own table has.
            table: the name of a joined table, to get the rows that go with these: those of the same individuals, or of
                a public table one for each value of its key.

        Raises:
            OptionError: there are more rows than the declared individuals can have or than fit into memory, or the
                schema has no such table.
        """
        from dosimeter.schema.dummy_rows import invent_rows

        return invent_rows(self, rows, table)

    def __repr__(self) -> str:
        people = "unknown" if self.individuals is None else self.individuals
        return f"Schema({self.table!r}, individuals={people}, columns={list(self.columns)})"

    def _repr_html_(self) -> str:
        """Show the public facts in a notebook."""
        words, most = self.words, self.max_rows_per_unit
        people = f"an unknown number of {words.people}"
        if self.individuals is not None:
            people = words.count_people(self.individuals)
        rows = [
            (
                column.name,
                str(column.type),
                None if column.bounds is None else f"{column.bounds[0]} to {column.bounds[1]}",
                None if column.values is None else ", ".join(column.values),
                column.resolution,
                column.max_length,
                "yes" if column.nulls else None,
                "yes" if column.identifying else None,
                column.description,
            )
            for column in self.columns.values()
        ]
        facts = f"{self.table}: {people}, unit {self.unit}, at most {words.count_rows(most)} each."
        state = "Reviewed." if self.reviewed else "Not reviewed: it cannot back a release."
        if self.found is not None:
            state = f"Found by spending ε: entry {self.found} of the ledger."
        columns = [
            "column",
            "type",
            "bounds",
            "values",
            "resolution",
            "letters that count",
            "NULL is a group",
            "identifies people",
            "description",
        ]
        described = [] if self.description is None else [self.description]
        return write_paragraphs([*described, facts, state]) + write_table(columns, rows)

    @property
    def account_name(self) -> str:
        """Return the ledger's account that pays for releases: schemas with the same account share one budget."""
        return self.account or self.table

    @property
    def words(self) -> Words:
        """Return what rows and individuals are called. Where each row is an individual, one word serves for both."""
        row, people = (self.row, self.rows), (self.individual, self.people)
        if self.unit == "row":
            row, people = (row if self.row else people), (people if self.individual else row)
        return Words.of(*row, *people)


def unit_schema(table: JoinTable, unit: str, declared: Schema) -> Schema:
    """Return the facts of a private joined table as a schema of its own. ``unit``: the table's unit column.

    What a joined table does not declare, such as the number of individuals, is taken from the ``declared`` schema.
    """
    return replace(
        declared,
        table=table.name,
        columns=table.columns,
        unit=unit,
        max_rows_per_unit=table.max_rows_per_unit,
        row_key=table.row_key,
        tables={name: other for name, other in declared.tables.items() if name != table.name},
        row=None,
        rows=None,
    )
