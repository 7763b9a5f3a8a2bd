"""The values of a summary: a table with one row per column of a dataset, for everybody who may see the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dosimeter.errors import OptionError
from dosimeter.html import write_paragraphs, write_table
from dosimeter.json_values import JsonObject, JsonScalar
from dosimeter.schema import PLAIN, Column, ColumnType, Words
from dosimeter.summary.written_query import Asked, find_asked

if TYPE_CHECKING:
    import pyarrow as pa

    from dosimeter.ledger import Ledger
    from dosimeter.release import Answer

QUARTILE_NAMES = ("q1", "median", "q3")


@dataclass(frozen=True, slots=True)
class Figure:
    """A released number, or a day as text, and its 95 % error; of a quartile the error is in rows.

    ``value``: None where there are too few rows to tell. ``error``: None where errors are withheld.
    """

    value: int | float | str | None
    error: float | None


def read_count(figure: Figure) -> int:
    """Return the value of a figure that is a noisy count: always a whole number."""
    assert isinstance(figure.value, int), "a noisy count is a whole number"
    return figure.value


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """What a summary says of one column. ``declared``: its public facts.

    ``count``: the rows with a value, also one that is not declared; ``missing``: those without. ``mean``: None unless
    the column holds numbers. ``quartiles``: first quartile, median, third quartile; empty unless it holds
    numbers or days. ``values``: every declared value and in how many rows it occurs, the most frequent first.
    """

    declared: Column
    count: Figure
    missing: Figure
    mean: Figure | None = None
    quartiles: tuple[Figure, ...] = ()
    values: tuple[tuple[str, Figure], ...] = ()

    @property
    def asked(self) -> Asked:
        """Return what the summary asked about the column."""
        return find_asked(self.declared)

    def describe(self) -> JsonObject:
        """Return what ``dosimeter summary --json`` prints of the column."""
        return {
            "column": self.declared.name,
            "type": str(self.declared.type),
            "count": self.count.value,
            "count_error": self.count.error,
            "missing": self.missing.value,
            "missing_error": self.missing.error,
            "mean": None if self.mean is None else self.mean.value,
            "mean_error": None if self.mean is None else self.mean.error,
            "quartiles": [figure.value for figure in self.quartiles] or None,
            "quartile_rank_errors": [figure.error for figure in self.quartiles] or None,
            "values": [{"value": value, "count": figure.value, "error": figure.error} for value, figure in self.values]
            or None,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """One table about every column of a dataset, released as one answer. It shows itself in a notebook.

    ``table``: the dataset's table. ``rows``: how many rows there are that count. ``columns``: a ColumnSummary of each
    column. ``answer``: the Answer that all of it was read from, with ε, guarantee and entry. After a denial ``rows`` is
    None and ``columns`` is empty. ``words``: what rows and individuals are called. ``most_rows``: how many rows of one
    individual count; None where each row is an individual.
    """

    table: str
    answer: Answer
    rows: Figure | None = None
    columns: tuple[ColumnSummary, ...] = ()
    words: Words = PLAIN
    most_rows: int | None = None

    def describe(self) -> JsonObject:
        """Return what the analyst may see, and only that, as ``dosimeter summary --json`` prints it."""
        released = self.answer.describe()
        if self.rows is None:
            return released
        kept = ("epsilon", "about", "guarantee")
        return {
            "status": "released",
            "table": self.table,
            "rows": self.rows.value,
            "rows_error": self.rows.error,
            "columns": [column.describe() for column in self.columns],
            **{name: released[name] for name in kept},
        }

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table with one row per column of the dataset.

        Quartiles of days stand in columns of their own, and so does the most frequent value with its count. The errors
        of quartiles are in rows.

        Raises:
            OptionError: the summary was denied.
        """
        import pyarrow as pa

        if self.rows is None:
            raise OptionError("The summary was denied: there are no rows.")
        kinds = {each: pa.float64() for each in ("mean", "mean_error", *QUARTILE_NAMES)}
        named = {"column": pa.string(), "type": pa.string(), "count": pa.int64(), "count_error": pa.float64()}
        named |= {"missing": pa.int64(), "missing_error": pa.float64(), **kinds}
        named |= {f"{each}_day": pa.date32() for each in QUARTILE_NAMES}
        named |= {f"{each}_rank_error": pa.float64() for each in QUARTILE_NAMES}
        named |= {"most_frequent": pa.string(), "most_frequent_count": pa.int64()}
        return pa.Table.from_pylist([_flatten(column) for column in self.columns], pa.schema(list(named.items())))

    def to_pandas(self) -> Any:
        """Return ``to_arrow`` as a pandas DataFrame. Raises what ``to_arrow`` raises."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return ``to_arrow`` as a Polars DataFrame. Raises what ``to_arrow`` raises."""
        import polars as pl

        return pl.from_arrow(self.to_arrow())

    def save(self, path: str | Path, *, ledger: Ledger) -> None:
        """Write the summary: .html is one page to read; beside a .csv or .parquet stands a .json that says more.

        Args:
            path: the file.
            ledger: the ledger that holds the answer.

        Raises:
            OptionError: the summary was denied, or the file cannot be written. The ledger still holds the answer.
        """
        from dosimeter.summary.saving import save_summary

        save_summary(self, ledger, Path(path))

    def __repr__(self) -> str:
        return f"Summary({self.table!r}, status={self.answer.status!r}, columns={len(self.columns)})"

    def _repr_html_(self) -> str:
        """Show the summary in a notebook: what the analyst may see, and only that."""
        from dosimeter.summary.layout import HEADINGS, list_cells, list_notes

        if self.rows is None:
            return write_paragraphs(["Denied."])
        cells: Sequence[Sequence[str]] = [list_cells(self, column) for column in self.columns]
        return write_table(HEADINGS, cells) + write_paragraphs(list_notes(self))


def _flatten(column: ColumnSummary) -> dict[str, object]:
    from datetime import date

    row: dict[str, object] = {
        name: value
        for name, value in column.describe().items()
        if name not in ("quartiles", "quartile_rank_errors", "values")
    }
    days = column.declared.type in (ColumnType.DATE, ColumnType.TIMESTAMP)
    for name, figure in zip(QUARTILE_NAMES, column.quartiles, strict=False):
        value: JsonScalar | date = figure.value
        row[f"{name}_day" if days else name] = date.fromisoformat(value) if isinstance(value, str) else value
        row[f"{name}_rank_error"] = figure.error
    for value, figure in column.values[:1]:
        row |= {"most_frequent": value, "most_frequent_count": figure.value}
    return row
