"""What is publicly known of a table: columns, bounds, values, joined tables. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

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
    """What is publicly known of one column. Bounds are numbers for numeric columns, dates for date columns."""

    name: str
    type: ColumnType
    bounds: tuple[Decimal, Decimal] | tuple[date, date] | None = None
    values: tuple[str, ...] | None = None
    resolution: Decimal | None = None
    identifying: bool = False


@dataclass(frozen=True, slots=True)
class JoinTable:
    """A further table a query may join: a public one with a unique key, or a private one of the same individuals."""

    name: str
    columns: Mapping[str, Column]
    public: bool
    key: str | None = None
    source: str | None = None
    unit: str | None = None
    max_rows_per_unit: int = 1
    row_key: str | None = None


def _no_tables() -> Mapping[str, JoinTable]:
    return {}


@dataclass(frozen=True, slots=True)
class Schema:
    """What is publicly known of a table. ``individuals`` is None only in a draft made in memory.

    ``account``: the ledger's account that pays for releases; None stands for one of the table's own name.
    """

    table: str
    columns: Mapping[str, Column]
    individuals: int | None = None
    unit: str = "row"
    max_rows_per_unit: int = 1
    row_key: str | None = None
    reviewed: bool = False
    tables: Mapping[str, JoinTable] = field(default_factory=_no_tables)
    account: str | None = None

    @property
    def account_name(self) -> str:
        """Return what the ledger calls the dataset: schemas with the same account share one budget."""
        return self.account or self.table
