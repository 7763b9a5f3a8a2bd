"""What every engine offers: run a tree of ours, give Arrow. A driver's errors become ours in its own file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from dosimeter.model import ColumnType, JoinTable, Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read the source. ``delimiter``, ``encoding`` and ``null`` are for CSV; ``table`` for a database.

    ``tables``: further tables in memory, by name, for joins.
    """

    table: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    null: str | None = None
    tables: Mapping[str, Any] = field(default_factory=dict)

    def wording(self) -> tuple[str | None, ...]:
        """How a file's text is to be read: part of what the data are."""
        return (self.table, self.delimiter, self.encoding, self.null)


class Engine(Protocol):
    """A table somewhere, able to run our trees over it."""

    @property
    def name(self) -> str: ...

    @property
    def rows_fetched(self) -> int:
        """How many rows have come back to us so far."""
        ...

    def default_table(self) -> str:
        """What the table is called when no schema says otherwise."""
        ...

    def describe(self) -> Mapping[str, ColumnType]:
        """The columns and the types they would have without a schema."""
        ...

    def impose(self, schema: Schema) -> None:
        """Take column types from the schema; a column that is missing or cannot have its type is a DataError."""
        ...

    def relation(self) -> exp.Expression:
        """What stands in FROM."""
        ...

    def joined(self, table: JoinTable) -> exp.Expression:
        """A further table the schema declares, with its declared types, as it can stand in FROM."""
        ...

    def fetch(self, query: exp.Select) -> pa.Table:
        """Run a query of our own making and give its rows."""
        ...

    def fingerprint(self) -> str:
        """A digest of the source's content and of the tables declared beside it, to notice that the data changed."""
        ...

    def progress(self) -> float | None:
        """How far the running query is, in percent, where the engine can tell."""
        ...

    def interrupt(self) -> None:
        """Stop the running query."""
        ...

    def close(self) -> None: ...


def combine_fingerprints(own: str, joined: Mapping[str, str]) -> str:
    """One digest of a table and of those that may be joined with it; its own where there are none."""
    if not joined:
        return own
    return hashlib.sha256(json.dumps([own, sorted(joined.items())]).encode()).hexdigest()
