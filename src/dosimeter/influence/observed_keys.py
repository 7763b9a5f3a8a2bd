"""The groups that are observed in the data, in an order that does not depend on the query that found them.

Works on arrays; reads no data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dosimeter.arrays import IntArray
from dosimeter.engines import read_values
from dosimeter.schema import Scalar

if TYPE_CHECKING:
    import pyarrow as pa

GroupKey = tuple[Scalar, ...]
AT_ONCE = 2**16  # rows that are made into Python values together


class LateRows(Sequence[tuple[Any, ...]]):
    """The rows of a fetched table, made into Python values a slice at a time: all at once would take ten times more.

    ``columns``: the table's columns. ``convert``: for each, what makes one of its values into that of the row. Private.
    """

    def __init__(self, columns: Sequence[pa.ChunkedArray], convert: Sequence[Callable[[Any], Any]]) -> None:
        self._columns, self._convert = columns, convert

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, at: int) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[tuple[Any, ...], ...]: ...
    def __getitem__(self, at: int | slice) -> tuple[Any, ...]:
        if isinstance(at, int):
            return self._read(range(len(self))[at], 1)[0]
        start, stop, step = at.indices(len(self))
        return self._read(start, max(stop - start, 0))[::step]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for start in range(0, len(self), AT_ONCE):
            yield from self._read(start, AT_ONCE)

    def __repr__(self) -> str:
        return "LateRows(redacted)"

    def _read(self, start: int, count: int) -> tuple[tuple[Any, ...], ...]:
        parts = [
            [convert(value) for value in read_values(column.slice(start, count))]
            for column, convert in zip(self._columns, self._convert, strict=True)
        ]
        return tuple(zip(*parts, strict=True))


def read_keys_late(columns: Sequence[pa.ChunkedArray]) -> LateRows:
    """Return the group keys of a query's result, which has each group once, in its order. ``columns``: its groups."""
    return LateRows(columns, [_plain] * len(columns))


def _plain(value: Any) -> Any:
    """Return a float that is a whole number as an integer, and any other value unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _merge_equal(codes: IntArray, values: list[Any]) -> IntArray:
    """Return ``codes`` with the same code wherever the values are equal: the index of the first equal value.

    ``codes``: for each row, the index of its value in ``values``. 0 and −0 are equal: engines group them together,
    and Arrow distinguishes them.
    """
    first: dict[Any, int] = {}
    return np.array([first.setdefault(value, at) for at, value in enumerate(values)], dtype=np.int64)[codes]


def order_key(key: GroupKey) -> list[tuple[bool, Any]]:
    """Return what group keys are sorted by: their values, NULL last."""
    return [(value is None, value) for value in key]


def observe_keys(columns: Sequence[tuple[IntArray, list[Any]]]) -> tuple[tuple[GroupKey, ...], IntArray]:
    """Return the distinct group keys, sorted with NULL last, and for each row of a query's result the index of its key.

    ``columns``: a pair for each GROUP BY expression: for each row the index of its value in a list, and this list.
    """
    if not len(columns[0][0]):
        return (), np.zeros(0, dtype=np.int64)
    stacked = np.stack([_merge_equal(codes, values) for codes, values in columns], axis=1)
    distinct, index = np.unique(stacked, axis=0, return_inverse=True)
    keys = [tuple(_plain(values[code]) for code, (_, values) in zip(row, columns, strict=True)) for row in distinct]
    order = sorted(range(len(keys)), key=lambda at: order_key(keys[at]))
    rank = np.empty(len(keys), dtype=np.int64)
    rank[order] = np.arange(len(keys))
    return tuple(keys[at] for at in order), rank[index.reshape(-1)]
