"""Per-instance sensitivities (N1): Contributions merged into classes of equally exposed people. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import sum_rows
from dosimeter.influence import Contributions
from dosimeter.risk.exposure import Sensitivities

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray, IntArray
    from dosimeter.mechanisms import Norm

TOLERANCE = 1e-12
"""Norms that had to be rounded while they were added up count as equal within this relative distance."""

_EXACT_INTEGERS = 2.0**53
"""Sums of integers below this are exact in floats, in any order."""


def summarise_sensitivities(contributions: Contributions, norm: Norm, *, keep_vectors: bool) -> Sensitivities:
    """Merge the rows of contributions into classes of equal PIS and attributes, ascending by PIS.

    ``counts`` of the result says how many people are in each class. If something is drawn by rank, rows are in one
    class only if their ``shares`` are equal too. ``keep_vectors``: also tell apart rows that differ in any cell, and
    keep the contributions of each class (C9).

    A PIS that needed no rounding (one cell, or integers) is merged only with an equal one. Any other PIS within a
    relative 1e-12 of the next smaller one counts as the same number, and the smallest stands for all; but if a run of
    such close values spans more than 1e-12 from end to end, its values stay apart.
    """
    rows = contributions.normalise()
    norms = rows.norms(norm)
    values, pis_codes = _merge_equal(norms, exact=_norms_are_exact(rows, norm))
    codes = pis_codes
    if keep_vectors:
        codes = _combine_codes(codes, _code_vectors(rows))
    for column in rows.attributes.values():
        codes = _combine_codes(codes, _code_attribute(column))
    if rows.shares is not None:
        codes = _combine_codes(codes, np.unique(rows.shares, return_inverse=True)[1].astype(np.int64))

    size = int(codes.max(initial=-1)) + 1
    counts = np.bincount(codes, weights=rows.people, minlength=size).astype(np.int64)
    first = np.empty(size, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    inhabited = counts > 0
    counts, first = counts[inhabited], first[inhabited]
    attributes = {name: column[first] for name, column in rows.attributes.items()}
    return Sensitivities(
        values=values[pis_codes[first]],
        counts=counts,
        k=rows.k,
        vectors=rows.take(first, counts) if keep_vectors else None,
        attributes=attributes,
        shares=None if rows.shares is None else rows.shares[first],
    )


def _norms_are_exact(rows: Contributions, norm: Norm) -> bool:
    """Return whether no norm was rounded.

    That is so if no row changes more than one cell, since √(c²) gives |c| back, or if all changes are integers whose
    sums are small enough for a float.
    """
    if np.diff(rows.starts).max(initial=0) <= 1:
        return True
    if not np.array_equal(rows.changes, np.rint(rows.changes)):
        return False
    return bool(sum_rows(np.abs(rows.changes) ** norm, rows.starts).max() < _EXACT_INTEGERS)


def _merge_equal(norms: FloatArray, *, exact: bool) -> tuple[FloatArray, IntArray]:
    """Return the distinct norms, ascending, and for each given norm its index among the distinct ones.

    ``exact``: whether no norm was rounded. If some were, norms that differ by at most 1e-12 of their size count as
    equal, and the smallest stands for all of them; ``summarise_sensitivities`` says more.
    """
    distinct, codes = np.unique(norms, return_inverse=True)
    if exact or len(distinct) < 2:
        return distinct, codes
    opens = np.append(True, np.diff(distinct) > TOLERANCE * distinct[1:])
    lowest, highest = distinct[opens], distinct[np.append(opens[1:], True)]
    too_wide = highest - lowest > TOLERANCE * highest
    opens |= too_wide[np.cumsum(opens) - 1]
    return distinct[opens], (np.cumsum(opens) - 1)[codes]


def _combine_codes(major: IntArray, minor: IntArray) -> IntArray:
    """Return one code per pair of codes, 0, 1 … without gaps, ordered by ``major`` first.

    Both inputs must have codes without gaps, so that each has at most as many codes as elements: then the number of
    possible pairs fits 63 bits.
    """
    _, codes = np.unique(major * (minor.max(initial=0) + 1) + minor, return_inverse=True)
    return codes.astype(np.int64)


def _code_vectors(rows: Contributions) -> IntArray:
    """Return one code per row; two rows have the same code if they change the same cells by the same amounts."""
    _, change_codes = np.unique(rows.changes, return_inverse=True)
    entries = _combine_codes(rows.cells, change_codes)
    lengths = np.diff(rows.starts)
    codes = np.zeros(len(lengths), dtype=np.int64)
    used = 0
    for length in np.unique(lengths):
        alike = np.flatnonzero(lengths == length)
        code = np.zeros(len(alike), dtype=np.int64)
        for position in range(length):
            code = _combine_codes(code, entries[rows.starts[alike] + position])
        codes[alike] = used + code
        used += int(code.max()) + 1
    return codes


def _code_attribute(column: NDArray[np.generic]) -> IntArray:
    if column.dtype != np.dtype(object):
        codes: IntArray = np.unique(column, return_inverse=True)[1]
        return codes
    values = column.tolist()  # may hold None beside text, which NumPy cannot order
    ranks = {value: rank for rank, value in enumerate(sorted(set(values), key=lambda v: (type(v).__name__, str(v))))}
    return np.array([ranks[value] for value in values], dtype=np.int64)
