"""Make the answer that a query asked for out of measured numbers: everything after the noise (Q4).

Takes a plan and the numbers that left a mechanism (or, for the controller, the exact ones); gives rows. What comes
after the noise runs in an embedded engine that holds these numbers and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dosimeter.json_values import JsonRow, JsonScalar
from dosimeter.planning import CELL, RELEASED, QueryPlan, name_released
from dosimeter.postprocess.estimates import estimate_group
from dosimeter.sql import EmbeddedError, Table, Type, Values, run_embedded

if TYPE_CHECKING:
    from dosimeter.schema import Scalar

Numbers = Sequence[Sequence[Fraction]]
Keys = Sequence[tuple["Scalar", ...]]
NOT_COMPUTED = (
    "What the query does with the released numbers failed on these numbers, so the numbers themselves are the answer."
)


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


@dataclass(frozen=True, slots=True)
class Assembled:
    """The rows of an answer. ``cells``: the cell of each row, or of all that rows are made of where they are mixed.

    ``about``: what a reader of the rows must know.
    """

    rows: list[JsonRow]
    cells: tuple[Cell, ...]
    about: tuple[str, ...] = ()


def assemble_answer(
    plan: QueryPlan,
    keys: Keys,
    values: Numbers,
    *,
    clamp: bool = False,
    further: Sequence[tuple[Keys, Numbers]] = (),
) -> Assembled:
    """Return the answer: the rows that the query asked for, in its order. ``further``: groups and numbers of blocks.

    Where the embedded engine fails on these numbers after all, every group with its aggregates is the answer.
    """
    if plan.after.query is None:
        cells = list_cells(plan, keys, values)
        return Assembled(_read_directly(plan, cells, clamp), cells)
    blocks, tables, cells = plan.blocks, {}, ()
    for at, (block, numbers) in enumerate(zip(blocks, [(keys, values), *further], strict=True)):
        own = tuple(replace(cell, block=at) for cell in list_cells(block, *numbers))
        tables[name_released(at)] = _released_table(block, own, clamp, first=len(cells))
        cells = (*cells, *own)
    try:
        found = run_embedded(plan.after.query, tables)
    except EmbeddedError:
        rows = [row for cell in cells for row in _read_released(blocks[cell.block], [cell], clamp)]
        return Assembled(rows, cells, (NOT_COMPUTED,))
    names = [output.name for output in plan.outputs]
    rows = [{name: _plain(value) for name, value in zip(names, row, strict=False)} for row in found]
    return Assembled(rows, tuple(cells[int(row[-1])] for row in found) if plan.after.traced else cells)


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


def assemble_cells(plan: QueryPlan, keys: Keys, values: Numbers) -> list[JsonRow]:
    """Return, for every group, the columns of the answer that are computed from its own numbers."""
    cells = tuple(Cell(key, measured) for key, measured in zip(keys, values, strict=True))
    own = {output.name: output.formula for output in plan.outputs if output.formula is not None}
    if all(isinstance(formula, exp.Column) for formula in own.values()):
        return _read_directly(plan, cells, clamp=False)
    shown = [exp.Alias(this=tree.copy(), alias=exp.to_identifier(name, quoted=True)) for name, tree in own.items()]
    query = exp.select(*shown).from_(exp.table_(RELEASED)).order_by(exp.column(CELL))
    try:
        found = run_embedded(query, {RELEASED: _released_table(plan, cells, clamp=False)})
    except EmbeddedError:
        return _read_released(plan, cells, clamp=False)
    return [{name: _plain(value) for name, value in zip(own, row, strict=True)} for row in found]


def _read_directly(plan: QueryPlan, cells: Sequence[Cell], clamp: bool) -> list[JsonRow]:
    """Return the columns that are a group or an aggregate and nothing else, for every group."""
    rows = []
    for cell in cells:
        key, measured = cell.key, cell.measured
        facts: dict[str, Any] = {
            f"e{at}": value for at, value in enumerate(estimate_group(plan, measured, clamp=clamp))
        }
        facts |= {f"g{at}": value for at, value in enumerate(key)}
        direct = [(each.name, each.formula) for each in plan.outputs if isinstance(each.formula, exp.Column)]
        rows.append({name: _plain(facts[formula.name]) for name, formula in direct})
    return rows


def _read_released(plan: QueryPlan, cells: Sequence[Cell], clamp: bool) -> list[JsonRow]:
    """Return every group with all its aggregates, each named as the analyst wrote it."""
    names = [group.name for group in plan.groups]
    labels = [estimate.label for estimate in plan.estimates]
    return [
        {name: _plain(value) for name, value in zip(names, cell.key, strict=True)}
        | {
            label: _plain(value)
            for label, value in zip(labels, estimate_group(plan, cell.measured, clamp=clamp), strict=True)
        }
        for cell in cells
    ]


def _released_table(plan: QueryPlan, cells: Sequence[Cell], clamp: bool, first: int = 0) -> Table:
    """Return the released table: a row per cell with its number, its group's values and its aggregates."""
    estimates = [estimate_group(plan, cell.measured, clamp=clamp) for cell in cells]
    table = {CELL: Values(Type.INTEGER, range(first, first + len(cells)))}
    for at, group in enumerate(plan.groups):
        table[f"g{at}"] = Values(group.type, [cell.key[at] for cell in cells])
        if plan.sets:
            table[f"h{at}"] = Values(Type.INTEGER, [int(at in cell.left_out) for cell in cells])
    for at, estimate in enumerate(plan.estimates):
        kind = Type.INTEGER if estimate.whole else Type.NUMBER
        table[f"e{at}"] = Values(kind, [row[at] for row in estimates], whole=estimate.whole)
    return table


def _plain(value: Any) -> JsonScalar:
    """Return a value as JSON has it: moments as text, no infinity, no decimal."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    found: JsonScalar = value.isoformat() if hasattr(value, "isoformat") else value
    return found
