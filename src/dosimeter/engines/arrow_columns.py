"""Read Arrow columns as NumPy arrays and Python values, straight from their buffers.

Arrow's own conversions load pandas where it is installed, and its functions a module of their own, which costs a
command a fifth of a second; and conversions raise on days that engines know and Python does not, quoting them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import IntArray
from dosimeter.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from dosimeter.engines.base import Engine


_FEW = 4096
"""So few cells are told apart in Python: Arrow would have to load its functions first."""


def fetch_rows(engine: Engine, query: exp.Select, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return the rows of a query as Python values, its columns called by other names if given."""
    table: pa.Table = engine.fetch(query)
    if names is not None:
        table = table.rename_columns(list(names))
    columns = [read_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def read_integers(column: pa.ChunkedArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return whole numbers, and which of them are not NULL; NULL is given as 0."""
    import pyarrow as pa

    array = _whole(column if column.type == pa.int64() else column.cast(pa.int64()))
    present = _present(array)
    return np.where(present, _numbers(array, np.int64), 0), present


def read_booleans(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return truth values; NULL counts as false."""
    array = _whole(column)
    return _bits(array, 1) & _present(array)


def read_codes(column: pa.ChunkedArray) -> tuple[IntArray, list[Any]]:
    """Return a column as codes and the distinct values that they stand for, NULL among them."""
    if len(column) < _FEW and str(column.type) in ("string", "int64"):
        places: dict[Any, int] = {}
        codes = [places.setdefault(value, len(places)) for value in column.to_pylist()]
        return np.array(codes, dtype=np.int64), list(places)
    array = _whole(_whole(column).dictionary_encode(null_encoding="encode"))
    return _numbers(array.indices, np.int32).astype(np.int64), read_values(array.dictionary)


def read_values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return plain Python values. Refuse days and moments that Python cannot represent."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        raise DataError(
            "A date or time of the data lies outside the years 1 to 9999, or is infinite. Correct it, or declare its "
            "column as text in a schema."
        ) from None
    return values


def _whole(column: Any) -> Any:
    """Return one array, whatever chunks the column came in."""
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _numbers(array: pa.Array, kind: type[np.signedinteger[Any]]) -> NDArray[Any]:
    if not len(array):
        return np.zeros(0, dtype=kind)
    return np.frombuffer(array.buffers()[1], dtype=kind)[array.offset : array.offset + len(array)]


def _present(array: pa.Array) -> NDArray[np.bool_]:
    """Return which values are not NULL."""
    return _bits(array, 0) if array.null_count else np.ones(len(array), dtype=np.bool_)


def _bits(array: pa.Array, buffer: int) -> NDArray[np.bool_]:
    """Return the bits of a buffer, packed eight to a byte: 0 says which values are not NULL, 1 holds truth values."""
    if not len(array):
        return np.zeros(0, dtype=np.bool_)
    packed = np.frombuffer(array.buffers()[buffer], dtype=np.uint8)
    unpacked = np.unpackbits(packed, bitorder="little", count=array.offset + len(array))
    return unpacked[array.offset :].astype(np.bool_)
