"""Say how far off an answer's numbers are where its rows come from several blocks: the largest error (S5, E1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dosimeter.mechanisms import Mechanism
from dosimeter.planning import QueryPlan
from dosimeter.postprocess.answers import Cell, Numbers
from dosimeter.postprocess.errors import error_95, needs_values

Errors = tuple[float | None, ...]


def find_errors(plan: QueryPlan, mechanism: Mechanism, scale: float, cells: Sequence[Cell]) -> Errors:
    """Return the 95 % error of each aggregate column, the largest over the cells that the rows are made of."""
    found: dict[int, Errors] = {}
    blocks = plan.blocks
    for at in sorted({cell.block for cell in cells} | ({0} if len(blocks) == 1 else set())):
        own = [cell for cell in cells if cell.block == at]
        found[at] = error_95(
            blocks[at],
            mechanism,
            scale,
            [cell.measured for cell in own],
            [cell.key for cell in own],
            [cell.terms for cell in own],
        )
    return _join(plan, found)


def find_errors_before(
    plan: QueryPlan, mechanism: Mechanism, scale: float, values: Sequence[Numbers] | None = None
) -> Errors:
    """Return the same for every cell of the plan. ``values``: each block's numbers, where errors need them."""
    found = {
        at: error_95(block, mechanism, scale, None if values is None else values[at])
        for at, block in enumerate(plan.blocks)
        if not plan.further or at in plan.after.rows_of or not plan.after.traced
    }
    return _join(plan, found)


def needs_numbers(plan: QueryPlan) -> bool:
    """Return whether the error of some number depends on the numbers themselves, as that of a ratio does."""
    return any(needs_values(block) for block in plan.blocks)


def _join(plan: QueryPlan, found: Mapping[int, Errors]) -> Errors:
    """Return the largest error of each column; None where it has none in a block that moves it."""
    if not plan.further:
        return found[0]
    outputs = [at for at, output in enumerate(plan.outputs) if output.is_aggregate]
    blocks = plan.blocks
    joined: list[float | None] = []
    for place, at in enumerate(outputs):
        own = {block: errors[place] for block, errors in found.items() if _moves(blocks[block].outputs[at].formula)}
        known = [error for error in own.values() if error is not None]
        joined.append(max(known) if known and len(known) == len(own) else None)
    return tuple(joined)


def _moves(formula: exp.Expression | None) -> bool:
    """Return whether noise moves a column: it reads released numbers, or more than its own cell."""
    return formula is None or any(column.name.startswith("e") for column in formula.find_all(exp.Column))
