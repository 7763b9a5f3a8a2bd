"""Read a column as a NumPy array or as Python values. It is a column of an Arrow table, or a list from a FewRows.

Arrow columns are read straight from their buffers where that can be done. Arrow's own conversions to NumPy load pandas
where it is installed, and Arrow's compute functions load a module of their own. Such loading costs a command a fifth of
a second, so these conversions and functions are avoided where they can be. Arrow's errors on dates that Python cannot
represent quote these dates, so the errors are not passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import IntArray
from dosimeter.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from dosimeter.engines.engine import Engine

Column: TypeAlias = "pa.ChunkedArray | list[Any]"
"""A column of an Arrow table, or of few rows."""


_FEW = 4096
"""Shorter columns are encoded in Python: Arrow would have to load its functions first."""


def fetch_rows(engine: Engine, query: exp.Select, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return the rows of a query as dictionaries of Python values. ``names``: other names for its columns, in order."""
    table: pa.Table = engine.fetch(query)
    if names is not None:
        table = table.rename_columns(list(names))
    columns = [read_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def read_integers(column: Column) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return the column's whole numbers, 0 for NULL, and for each whether it is not NULL."""
    if isinstance(column, list):
        numbers = np.array([0 if value is None else int(value) for value in column], dtype=np.int64)
        return numbers, np.array([value is not None for value in column], dtype=np.bool_)
    import pyarrow as pa

    array = _whole(column if column.type == pa.int64() else column.cast(pa.int64()))
    present = _present(array)
    return np.where(present, _numbers(array, np.int64), 0), present


def read_booleans(column: Column) -> NDArray[np.bool_]:
    """Return the column's truth values; NULL is given as false."""
    if isinstance(column, list):
        return np.array([bool(value) for value in column], dtype=np.bool_)
    array = _whole(column)
    return _bits(array, 1) & _present(array)


def read_codes(column: Column) -> tuple[IntArray, list[Any]]:
    """Return the index of each row's value in the list of distinct values, and this list; None stands for NULL."""
    if isinstance(column, list):
        return _number_values(column)
    if len(column) < _FEW and str(column.type) in ("string", "int64"):
        return _number_values(column.to_pylist())
    array = _whole(_whole(column).dictionary_encode(null_encoding="encode"))
    return _numbers(array.indices, np.int32).astype(np.int64), read_values(array.dictionary)


def read_values(column: Column | pa.Array) -> list[Any]:
    """Return the column as a list of Python values, None for NULL.

    Raises DataError for a date or timestamp that Python cannot represent: outside the years 1 to 9999, or infinite.
    """
    if isinstance(column, list):
        return column
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        raise DataError(
            "A date or time of the data lies outside the years 1 to 9999, or is infinite. Correct it, or declare its "
            "column as text in a schema."
        ) from None
    return values


def _number_values(values: list[Any]) -> tuple[IntArray, list[Any]]:
    """Return the index of each value in the list of distinct values, and this list, ordered by first occurrence."""
    places: dict[Any, int] = {}
    codes = [places.setdefault(value, len(places)) for value in values]
    return np.array(codes, dtype=np.int64), list(places)


def _whole(column: Any) -> Any:
    """Return the column as one array, also where it came in chunks."""
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _numbers(array: pa.Array, kind: type[np.signedinteger[Any]]) -> NDArray[Any]:
    if not len(array):
        return np.zeros(0, dtype=kind)
    return np.frombuffer(array.buffers()[1], dtype=kind)[array.offset : array.offset + len(array)]


def _present(array: pa.Array) -> NDArray[np.bool_]:
    """Return for each value whether it is not NULL."""
    return _bits(array, 0) if array.null_count else np.ones(len(array), dtype=np.bool_)


def _bits(array: pa.Array, buffer: int) -> NDArray[np.bool_]:
    """Return one bit per value of a packed Arrow buffer.

    ``buffer``: 0 for the bits that say which values are not NULL, 1 for those of truth values.
    """
    if not len(array):
        return np.zeros(0, dtype=np.bool_)
    packed = np.frombuffer(array.buffers()[buffer], dtype=np.uint8)
    unpacked = np.unpackbits(packed, bitorder="little", count=array.offset + len(array))
    return unpacked[array.offset :].astype(np.bool_)
