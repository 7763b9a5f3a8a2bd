"""The types of NumPy arrays that all packages use, and sums over the rows of a sparse array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def sum_rows(per_entry: FloatArray, starts: IntArray) -> FloatArray:
    """Return the sum of each row of a sparse array, 0.0 for an empty row.

    ``per_entry``: the stored numbers, row after row. ``starts``: where each row starts among them and, as its last
    item, where the last row ends. (``reduceat`` would give an empty row the number that follows it.)
    """
    sums = np.zeros(len(starts) - 1)
    filled = np.flatnonzero(np.diff(starts))
    if len(filled):
        sums[filled] = np.add.reduceat(per_entry[: starts[-1]], starts[filled])
    return sums
