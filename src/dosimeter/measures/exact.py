"""Exact sums of whole numbers (S8): of arrays, however large their numbers are, and in SQL."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dosimeter.arrays import IntArray

FITS = 2**62  # two numbers below it can be added in 64 bits
MOST_ROWS = 2**40
"""More rows than any table has: a million times a million."""


def find_largest(values: NDArray[Any]) -> int:
    """Return the largest absolute value in the array, 0 where it is empty."""
    return max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))


def exact_total(values: NDArray[Any], people: IntArray) -> int:
    """Return Σ value · people exactly: in 64 bits where the sum fits, otherwise in Python's integers.

    ``people``: how many individuals have each value.
    """
    if values.dtype != object and find_largest(values) * int(people.sum()) < FITS:
        return int(np.dot(values, people))
    return int(np.dot(values.astype(object), people.astype(object)))


def exact_squares(values: IntArray) -> NDArray[Any]:
    """Return the squares of whole numbers, exactly: in Python's integers where they do not fit into 64 bits."""
    squares: NDArray[Any] = values**2 if find_largest(values) ** 2 < FITS else values.astype(object) ** 2
    return squares


def fits(largest: int) -> bool:
    """Return whether 64 bits hold a sum of ``MOST_ROWS`` terms. ``largest``: the largest absolute value of a term."""
    return largest * MOST_ROWS < FITS


def exact_sum(tree: exp.Expression, largest: int) -> exp.Expression:
    """Write a sum as BIGINT where 64 bits hold it, otherwise as DECIMAL(38, 0) (S8); an empty group sums to 0 (C6).

    ``tree``: what one row adds. ``largest``: the largest absolute value of what a row adds.
    """
    kind = "BIGINT" if fits(largest) else "DECIMAL(38, 0)"
    total = exp.Sum(this=exp.Cast(this=tree, to=exp.DataType.build(kind)))
    return exp.Coalesce(this=total, expressions=[exp.Literal.number(0)])
