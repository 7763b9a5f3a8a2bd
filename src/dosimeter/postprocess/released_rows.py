"""The rows of the released table: one per group; with ROLLUP and the like, one per group of each grouping set (Q3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
class ReleasedRow:
    """One row of the released table: a group, or the total of several groups.

    ``key``: the values of the group columns. ``measured``: one number per measure. ``terms``: how many groups were
    added up. ``left_out``: the indices of the group columns that a total adds up over; their values in ``key`` are
    None.
    """

    key: tuple[Scalar, ...]
    measured: Sequence[Fraction]
    terms: int = 1
    left_out: frozenset[int] = frozenset()


def look_up(plan: QueryPlan, released: Sequence[ReleasedRow]) -> dict[str, Values]:
    """Return what each released row's group looks up in public tables, by the columns' names in formulas: p0, p1 ….

    A value is NULL if the public table has no row for the group.
    """
    tables = {each.name: each.rows for each in plan.after.public}
    found: dict[str, Values] = {}
    for at, lookup in enumerate(plan.after.lookups):
        rows = tables[lookup.table]
        by_key = {} if rows is None else rows.by_key(lookup.column)
        values = [by_key.get(key) for key in _list_keys(lookup, released, found)]
        found[f"p{at}"] = Values(lookup.type, values, lookup.type is Type.INTEGER)
    return found


def _list_keys(lookup: Lookup, released: Sequence[ReleasedRow], before: Mapping[str, Values]) -> Sequence[Any]:
    """Return the key by which each released row looks up a row of a public table; None where there is no key.

    A key is a value of the row's group, or a value that was looked up before. ``before``: the values looked up so far,
    by column name. In a UNION ALL, a SELECT that does not join the table may have no such group, and looks up nothing.
    """
    name = lookup.key.name
    if name in before:
        return list(before[name].values)
    if not name.startswith("g"):
        return [None] * len(released)
    at = int(name[1:])
    keys = [row.key[at] if at < len(row.key) else None for row in released]
    return [float(key) if isinstance(key, Decimal) else key for key in keys]


def list_released_rows(plan: QueryPlan, keys: Keys | None, values: Numbers) -> tuple[ReleasedRow, ...]:
    """Return the rows of the released table: one per group, or one per group of each set in ROLLUP and the like (Q3).

    ``keys``: the groups; None where nothing reads them. ``values``: their measured numbers. A total is the sum of its
    groups' noisy numbers: so it agrees with these and costs nothing.
    """
    keys = [(None,) * len(plan.groups)] * len(values) if keys is None else keys
    if not plan.sets:
        return tuple(ReleasedRow(key, measured) for key, measured in zip(keys, values, strict=True))
    released: list[ReleasedRow] = []
    for kept in plan.sets:
        left_out = frozenset(range(len(plan.groups))) - set(kept)
        totals: dict[tuple[Scalar, ...], tuple[list[Fraction], int]] = {}
        for key, measured in zip(keys, values, strict=True):
            coarse = tuple(None if at in left_out else value for at, value in enumerate(key))
            total, terms = totals.get(coarse, ([Fraction(0)] * len(measured), 0))
            totals[coarse] = [a + b for a, b in zip(total, measured, strict=True)], terms + 1
        released += [ReleasedRow(key, total, terms, left_out) for key, (total, terms) in totals.items()]
    return tuple(released)
