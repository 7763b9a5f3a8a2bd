"""Exact sums of whole numbers: in arrays, whatever their size, and in SQL (S8)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dosimeter.arrays import IntArray

FITS = 2**62  # two numbers below it can be added in 64 bits


def find_largest(values: NDArray[Any]) -> int:
    """Return the largest size of a number, 0 where there is none."""
    return max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))


def exact_total(values: NDArray[Any], people: IntArray) -> int:
    """Return Σ value · people, exactly: in 64 bits where these hold it, in Python's integers where they do not."""
    if values.dtype != object and find_largest(values) * int(people.sum()) < FITS:
        return int(np.dot(values, people))
    return int(np.dot(values.astype(object), people.astype(object)))


def exact_squares(values: IntArray) -> NDArray[Any]:
    """Return the squares of whole numbers, exactly."""
    squares: NDArray[Any] = values**2 if find_largest(values) ** 2 < FITS else values.astype(object) ** 2
    return squares


def exact_sum(tree: exp.Expression) -> exp.Expression:
    """Write a sum as DECIMAL(38, 0) (S8); an empty group sums to 0 (C6)."""
    total = exp.Sum(this=exp.Cast(this=tree, to=exp.DataType.build("DECIMAL(38, 0)")))
    return exp.Coalesce(this=total, expressions=[exp.Literal.number(0)])
