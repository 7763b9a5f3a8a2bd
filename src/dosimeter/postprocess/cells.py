"""The rows of the released table: every group, or every set of ROLLUP, CUBE and GROUPING SETS (Q3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dosimeter.planning import Lookup, QueryPlan
from dosimeter.sql import Type, Values

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


def look_up(plan: QueryPlan, cells: Sequence[Cell]) -> dict[str, Values]:
    """Return what the group of each cell picks from public tables: p0, p1 … of formulas. NULL where it picks no row."""
    tables = {each.name: each.rows for each in plan.after.public}
    found: dict[str, Values] = {}
    for at, lookup in enumerate(plan.after.lookups):
        rows = tables[lookup.table]
        by_key = {} if rows is None else rows.by_key(lookup.column)
        values = [by_key.get(key) for key in _list_keys(lookup, cells, found)]
        found[f"p{at}"] = Values(lookup.type, values, lookup.type is Type.INTEGER)
    return found


def _list_keys(lookup: Lookup, cells: Sequence[Cell], before: Mapping[str, Values]) -> Sequence[Any]:
    """Return by what each cell picks a row: a value of its group, or of the row that it picked before."""
    name = lookup.key.name
    if name in before:
        return list(before[name].values)
    if not name.startswith("g"):
        return [None] * len(cells)
    keys = [cell.key[int(name[1:])] for cell in cells]
    return [float(key) if isinstance(key, Decimal) else key for key in keys]


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
