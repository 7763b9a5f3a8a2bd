"""The groups that are observed in the data, in an order that does not depend on the query that found them.

Works on arrays; reads no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter.arrays import IntArray
from dosimeter.schema import Scalar

GroupKey = tuple[Scalar, ...]


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


def observe_keys(columns: Sequence[tuple[IntArray, list[Any]]]) -> tuple[tuple[GroupKey, ...], IntArray]:
    """Return the distinct group keys, sorted with NULL last, and for each row of a query's result the index of its key.

    ``columns``: a pair for each GROUP BY expression: for each row the index of its value in a list, and this list.
    """
    if not len(columns[0][0]):
        return (), np.zeros(0, dtype=np.int64)
    stacked = np.stack([_merge_equal(codes, values) for codes, values in columns], axis=1)
    distinct, index = np.unique(stacked, axis=0, return_inverse=True)
    keys = [tuple(_plain(values[code]) for code, (_, values) in zip(row, columns, strict=True)) for row in distinct]
    order = sorted(range(len(keys)), key=lambda at: [(value is None, value) for value in keys[at]])
    rank = np.empty(len(keys), dtype=np.int64)
    rank[order] = np.arange(len(keys))
    return tuple(keys[at] for at in order), rank[index.reshape(-1)]
