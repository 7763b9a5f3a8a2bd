"""How individuals move the measured vector. Private: the repr is redacted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.mechanisms import Norm


def no_attributes() -> Mapping[str, NDArray[np.generic]]:
    return {}


@dataclass(frozen=True, slots=True, repr=False)
class Contributions:
    """How individuals move the measured vector: a row per distinct contribution, sparse over the k cells.

    Cell = group index × number of measures + measure index. ``changes`` are in the units of the norm.
    Row r owns ``cells[starts[r]:starts[r + 1]]``. ``attributes`` (FILTER flags, ``--by``) are per row.
    Empty slots and people outside the WHERE are a row without cells.
    """

    k: int
    people: IntArray
    starts: IntArray
    cells: IntArray
    changes: FloatArray
    attributes: Mapping[str, NDArray[np.generic]] = field(default_factory=no_attributes)

    @property
    def n(self) -> int:
        return int(self.people.sum())

    def norms(self, norm: Norm) -> FloatArray:
        """N1: ‖c‖₁ or ‖c‖₂ of each row: the PIS of everybody in that row."""
        if norm == 1:
            return sum_rows(np.abs(self.changes), self.starts)
        return np.sqrt(sum_rows(np.square(self.changes), self.starts))

    def __repr__(self) -> str:
        return f"Contributions(n={self.n}, redacted)"


def sum_rows(per_entry: FloatArray, starts: IntArray) -> FloatArray:
    """Sum each row's entries. ``reduceat`` gives an empty row its successor's entry: such rows are left out."""
    sums = np.zeros(len(starts) - 1)
    filled = np.flatnonzero(np.diff(starts))
    if len(filled):
        sums[filled] = np.add.reduceat(per_entry[: starts[-1]], starts[filled])
    return sums
