"""The rows of the released table: every group, or every set of ROLLUP, CUBE and GROUPING SETS (Q3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dosimeter.planning import QueryPlan

if TYPE_CHECKING:
    from dosimeter.schema import Scalar

Numbers = Sequence[Sequence[Fraction]]
Keys = Sequence[tuple["Scalar", ...]]


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of the released table: a group, or the total of several. ``terms``: how many groups were added up.

    ``left_out``: the groups that a total leaves out; their values in ``key`` are None. ``block``: the block it is of.
    """

    key: tuple[Scalar, ...]
    measured: Sequence[Fraction]
    terms: int = 1
    left_out: frozenset[int] = frozenset()
    block: int = 0


def list_blocks(plan: QueryPlan, numbers: Sequence[tuple[Keys, Numbers]]) -> list[tuple[Cell, ...]]:
    """Return the rows of every block's released table. ``numbers``: the groups of each block, and what was measured."""
    parts = enumerate(zip(plan.blocks, numbers, strict=True))
    return [tuple(replace(cell, block=at) for cell in list_cells(block, *own)) for at, (block, own) in parts]


def list_cells(plan: QueryPlan, keys: Keys, values: Numbers) -> tuple[Cell, ...]:
    """Return the rows of the released table: every group, or every set of ROLLUP, CUBE and GROUPING SETS (Q3).

    Totals are sums of the groups' noisy numbers: they agree with these and cost nothing.
    """
    if not plan.sets:
        return tuple(Cell(key, measured) for key, measured in zip(keys, values, strict=True))
    cells: list[Cell] = []
    for kept in plan.sets:
        left_out = frozenset(range(len(plan.groups))) - set(kept)
        totals: dict[tuple[Scalar, ...], tuple[list[Fraction], int]] = {}
        for key, measured in zip(keys, values, strict=True):
            coarse = tuple(None if at in left_out else value for at, value in enumerate(key))
            total, terms = totals.get(coarse, ([Fraction(0)] * len(measured), 0))
            totals[coarse] = [a + b for a, b in zip(total, measured, strict=True)], terms + 1
        cells += [Cell(key, total, terms, left_out) for key, (total, terms) in totals.items()]
    return tuple(cells)
