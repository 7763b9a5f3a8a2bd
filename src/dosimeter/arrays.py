"""The array types that every package of numbers shares, and sums over the rows of a sparse array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def sum_rows(per_entry: FloatArray, starts: IntArray) -> FloatArray:
    """Sum each row's entries. Empty rows are left out, since ``reduceat`` gives them their successor's entry."""
    sums = np.zeros(len(starts) - 1)
    filled = np.flatnonzero(np.diff(starts))
    if len(filled):
        sums[filled] = np.add.reduceat(per_entry[: starts[-1]], starts[filled])
    return sums
