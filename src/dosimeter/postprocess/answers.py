"""Make the answer that a query asked for out of measured numbers: everything after the noise (Q4).

Takes a plan and the numbers that left a mechanism (or, for the controller, the exact ones); gives rows. What comes
after the noise runs in an embedded engine that holds these numbers and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from dosimeter.arrays import BoolArray
from dosimeter.json_values import JsonRow, JsonScalar
from dosimeter.planning import CELL, RELEASED, QueryPlan
from dosimeter.postprocess.cells import Cell, Keys, Numbers, list_cells
from dosimeter.postprocess.errors import CellErrors, ColumnErrors, Noise, find_largest
from dosimeter.postprocess.estimates import estimate_group
from dosimeter.postprocess.quotients import find_divisors, passes_null_on, withhold_quotients
from dosimeter.sql import EmbeddedError, Type, Values, run_embedded

Told = Sequence[BoolArray | None]
"""For each aggregate, where it can be told; None where it always can."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """The rows of an answer, and how far off they are (E1); without noise, errors are not known.

    ``errors``: for each row, aggregate column → 95 % error, None where it has none. ``error_95``: the largest of each
    aggregate column over the rows. ``cells``: the cell of each row, or all of them where rows are mixed. ``failed``:
    what comes after the noise failed on these numbers, so that the rows are the released table itself. ``untold``:
    somewhere there were too few people to tell.
    """

    rows: list[JsonRow]
    errors: tuple[dict[str, float | None], ...] | None = None
    error_95: tuple[float | None, ...] | None = None
    cells: tuple[Cell, ...] = ()
    failed: bool = False
    untold: bool = False


def assemble_answer(
    plan: QueryPlan, keys: Keys, values: Numbers, *, clamp: bool = False, noise: Noise | None = None
) -> Assembled:
    """Return the answer: the rows that the query asked for, in its order.

    With the facts of the noise, a quotient that cannot be told is NULL and every number has its error (E1). Where the
    embedded engine fails on these numbers after all, every group with its aggregates is the answer.
    """
    cells = list_cells(plan, keys, values)
    if noise is None:
        rows, places, failed = _run(plan, cells, (), {}, clamp)
        return Assembled(rows, cells=cells if places is None else tuple(cells[at] for at in places), failed=failed)
    known = CellErrors(plan, noise, cells, clamp=clamp)
    told = [None if each.counted is None else known.told(at) for at, each in enumerate(plan.estimates)]
    formulas = [output.formula for output in plan.outputs]
    divisors = {
        tree.sql(dialect="duckdb"): known.told_formula(tree) for tree in find_divisors([plan.after.query, *formulas])
    }
    rows, places, failed = _run(plan, cells, told, divisors, clamp)
    if failed:
        return _state_released(plan, noise, cells, rows, clamp)
    if places is not None:
        _withhold(plan, rows, places, divisors)
    shown = cells if places is None else tuple(cells[at] for at in places)
    found = ColumnErrors(plan, noise, shown, clamp=clamp).columns
    if places is None:  # a row may be of any cell
        largest = {name: find_largest(each) for name, each in found.items()}
        found = {name: (error,) * len(rows) for name, error in largest.items()}
    errors = tuple(
        {name: None if row[name] is None else each[at] for name, each in found.items()} for at, row in enumerate(rows)
    )
    columns = [output.name for output in plan.outputs if output.is_aggregate]
    untold = [*(each for each in told if each is not None), *divisors.values()]
    return Assembled(
        rows,
        errors,
        tuple(find_largest([row[name] for row in errors]) for name in columns),
        shown,
        untold=any(not each.all() for each in untold),
    )


def _run(
    plan: QueryPlan, cells: Sequence[Cell], told: Told, divisors: Mapping[str, BoolArray], clamp: bool
) -> tuple[list[JsonRow], list[int] | None, bool]:
    """Return the rows, the cell of each row where there is one, and whether what comes after failed."""
    if plan.after.query is None:
        return _read_directly(plan, cells, told, clamp), list(range(len(cells))), False
    names = {text: f"d{at}" for at, text in enumerate(divisors)}
    table = _released_table(plan, cells, told, clamp)
    table |= {names[text]: Values(Type.BOOLEAN, each.tolist()) for text, each in divisors.items()}
    query = withhold_quotients(plan.after.query, names.get) if divisors else plan.after.query
    try:
        found = run_embedded(query, {RELEASED: table})
    except EmbeddedError:
        return _read_released(plan, cells, told, clamp), None, True
    columns = [output.name for output in plan.outputs]
    rows = [{name: _plain(value) for name, value in zip(columns, row, strict=False)} for row in found.rows]
    return rows, [int(row[-1]) for row in found.rows] if plan.after.traced else None, False


def _withhold(plan: QueryPlan, rows: list[JsonRow], places: list[int], divisors: Mapping[str, BoolArray]) -> None:
    """Make NULL, in the rows, the quotients of an outer SELECT that cannot be told."""
    for output in plan.outputs:
        if output.formula is None or not passes_null_on(output.formula):
            continue
        for divisor in find_divisors([output.formula]):
            told = divisors[divisor.sql(dialect="duckdb")]
            for row, place in zip(rows, places, strict=True):
                if not told[place]:
                    row[output.name] = None


def _state_released(
    plan: QueryPlan, noise: Noise, cells: Sequence[Cell], rows: list[JsonRow], clamp: bool
) -> Assembled:
    """Return the released table itself as the answer, with the errors of its aggregates."""
    known = CellErrors(plan, noise, cells, clamp=clamp)
    labels = [estimate.label for estimate in plan.estimates]
    found = {label: known.formula(exp.column(f"e{at}")).tolist() for at, label in enumerate(labels)}
    errors = tuple(
        {
            label: each[at] if math.isfinite(each[at]) and row[label] is not None else None
            for label, each in found.items()
        }
        for at, row in enumerate(rows)
    )
    return Assembled(rows, errors, tuple(find_largest([row[label] for row in errors]) for label in found), failed=True)


def assemble_cells(plan: QueryPlan, keys: Keys, values: Numbers) -> list[JsonRow]:
    """Return, for every group, the columns of the answer that are computed from its own numbers."""
    cells = tuple(Cell(key, measured) for key, measured in zip(keys, values, strict=True))
    own = {output.name: output.formula for output in plan.outputs if output.formula is not None}
    if all(isinstance(formula, exp.Column) for formula in own.values()):
        return _read_directly(plan, cells, (), clamp=False)
    shown = [exp.Alias(this=tree.copy(), alias=exp.to_identifier(name, quoted=True)) for name, tree in own.items()]
    query = exp.select(*shown).from_(exp.table_(RELEASED)).order_by(exp.column(CELL))
    try:
        found = run_embedded(query, {RELEASED: _released_table(plan, cells, (), clamp=False)})
    except EmbeddedError:
        return _read_released(plan, cells, (), clamp=False)
    return [{name: _plain(value) for name, value in zip(own, row, strict=True)} for row in found.rows]


def _estimate(plan: QueryPlan, cells: Sequence[Cell], told: Told, clamp: bool) -> list[list[int | float | None]]:
    """Return the aggregates of every cell; None where they cannot be told."""
    found: list[list[int | float | None]] = []
    for place, cell in enumerate(cells):
        row = estimate_group(plan, cell.measured, clamp=clamp)
        hidden = [at for at, each in enumerate(told) if each is not None and not each[place]]
        found.append([None if at in hidden else value for at, value in enumerate(row)])
    return found


def _read_directly(plan: QueryPlan, cells: Sequence[Cell], told: Told, clamp: bool) -> list[JsonRow]:
    """Return the columns that are a group or an aggregate and nothing else, for every group."""
    rows = []
    direct = [(each.name, each.formula) for each in plan.outputs if isinstance(each.formula, exp.Column)]
    for cell, estimates in zip(cells, _estimate(plan, cells, told, clamp), strict=True):
        facts: dict[str, Any] = {f"e{at}": value for at, value in enumerate(estimates)}
        facts |= {f"g{at}": value for at, value in enumerate(cell.key)}
        rows.append({name: _plain(facts[formula.name]) for name, formula in direct})
    return rows


def _read_released(plan: QueryPlan, cells: Sequence[Cell], told: Told, clamp: bool) -> list[JsonRow]:
    """Return every group with all its aggregates, each named as the analyst wrote it."""
    names = [group.name for group in plan.groups]
    labels = [estimate.label for estimate in plan.estimates]
    return [
        {name: _plain(value) for name, value in zip(names, cell.key, strict=True)}
        | {label: _plain(value) for label, value in zip(labels, estimates, strict=True)}
        for cell, estimates in zip(cells, _estimate(plan, cells, told, clamp), strict=True)
    ]


def _released_table(plan: QueryPlan, cells: Sequence[Cell], told: Told, clamp: bool) -> dict[str, Values]:
    """Return the released table: a row per cell with its number, its group's values and its aggregates."""
    estimates = _estimate(plan, cells, told, clamp)
    table = {CELL: Values(Type.INTEGER, range(len(cells)))}
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
