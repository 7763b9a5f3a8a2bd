"""A result of few rows as Python values. No Arrow is loaded: that takes longer than to read so few cells one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, repr=False)
class FewRows:
    """A result of few rows. ``columns``: by name, each column's values as a list, None for NULL.

    It has ``num_rows``, ``column_names``, ``column`` and ``slice``, as an Arrow table has.
    """

    columns: Mapping[str, list[Any]]
    num_rows: int

    @classmethod
    def of(cls, table: pa.Table) -> FewRows:
        """Return the rows of an Arrow table."""
        return cls({name: table.column(name).to_pylist() for name in table.column_names}, table.num_rows)

    @property
    def column_names(self) -> list[str]:
        return list(self.columns)

    def column(self, name: str) -> list[Any]:
        return self.columns[name]

    def slice(self, offset: int, length: int) -> FewRows:
        """Return ``length`` rows from index ``offset`` on."""
        columns = {name: values[offset : offset + length] for name, values in self.columns.items()}
        return FewRows(columns, len(range(self.num_rows)[offset : offset + length]))

    def __repr__(self) -> str:
        return "FewRows(redacted)"
