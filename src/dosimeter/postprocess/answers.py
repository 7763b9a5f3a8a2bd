"""From measured numbers, exact or noisy, to the answer a query asked for: post-processing only.

Estimates (AVG from its sums …), arithmetic over aggregates, HAVING, ORDER BY and LIMIT, and how far off the
answer's numbers are likely to be. Never touches data and never draws noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dosimeter.json_values import JsonRow, JsonScalar
from dosimeter.measures import Estimate
from dosimeter.mechanisms import Mechanism
from dosimeter.planning import QueryPlan
from dosimeter.sql import evaluate

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray
    from dosimeter.schema import Scalar

Numbers = Sequence[Sequence[Fraction]]
_Facts = dict[str, "Scalar | float"]
_Kept = tuple[int, _Facts]  # a group's index among all groups, and the values known of it
_PROBABILITY = 0.95
_LEAST_POINTS, _MOST_POINTS = 128, 1024


def assemble_answer(
    plan: QueryPlan, keys: Sequence[tuple[Scalar, ...]], values: Numbers, *, clamp: bool = False
) -> list[JsonRow]:
    """Return the rows of the answer: every group that HAVING and LIMIT keep, in the order asked for."""
    kept = _keep_groups(plan, keys, values, clamp)
    return [{output.name: _cell(plan, facts, at) for at, output in enumerate(plan.outputs)} for _, facts in kept]


def select_shown(plan: QueryPlan, keys: Sequence[tuple[Scalar, ...]], values: Numbers, *, clamp: bool) -> Numbers:
    """Return the numbers of the groups in the answer, in its order."""
    return [values[at] for at, _ in _keep_groups(plan, keys, values, clamp)]


def _keep_groups(plan: QueryPlan, keys: Sequence[tuple[Scalar, ...]], values: Numbers, clamp: bool) -> list[_Kept]:
    """Return the groups that HAVING and LIMIT keep, in the order asked for."""
    kept: list[_Kept] = []
    for at, (key, measured) in enumerate(zip(keys, values, strict=True)):
        estimates = estimate_group(plan, measured, clamp=clamp)
        facts: _Facts = {f"e{number}": value for number, value in enumerate(estimates)}
        facts |= {f"g{number}": value for number, value in enumerate(key)}
        if plan.having is None or evaluate(plan.having, facts) is True:
            kept.append((at, facts))
    if plan.order:
        kept.sort(key=cmp_to_key(partial(_compare, plan)))
    return kept if plan.limit is None else kept[: plan.limit]


def _cell(plan: QueryPlan, facts: _Facts, position: int) -> JsonScalar:
    output = plan.outputs[position]
    value: Scalar | float = facts[f"g{output.group}"] if output.formula is None else evaluate(output.formula, facts)
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _compare(plan: QueryPlan, left: _Kept, right: _Kept) -> int:
    for key in plan.order:
        a, b = evaluate(key.formula, left[1]), evaluate(key.formula, right[1])
        if a == b:
            continue
        if a is None or b is None:
            return -1 if (a is None) == key.nulls_first else 1
        return (-1 if a < b else 1) * (-1 if key.descending else 1)
    return 0


def estimate_group(plan: QueryPlan, measured: Sequence[Fraction], *, clamp: bool = False) -> list[int | float]:
    """Return the aggregates of one group, as the analyst wrote them, from its measured numbers."""
    return [each.value([measured[at] for at in each.measures], clamp=clamp) for each in plan.estimates]


def measure_scales(plan: QueryPlan, mechanism: Mechanism, scale: float) -> FloatArray:
    """Return the noise scale of each measure in its own units, from the scale in the units of the norm (S5)."""
    return scale / plan.weights(mechanism.norm)


def needs_values(plan: QueryPlan) -> bool:
    """Return whether the error of some number depends on the numbers themselves, as that of a ratio does."""
    return any(_find_measure(plan, output.formula) is None for output in plan.outputs if output.is_aggregate)


def error_95(plan: QueryPlan, mechanism: Mechanism, scale: float, values: Numbers | None) -> tuple[float | None, ...]:
    """Return the 95 % error of each aggregate column, the largest over these groups.

    For a number that gets noise directly, it is the exact quantile of its discrete noise. For others, the noise is
    propagated through the formula at ``values`` by equally likely points of low discrepancy, so that the same input
    gives the same error.
    """
    scales = measure_scales(plan, mechanism, scale)
    errors: list[float | None] = []
    for output in plan.outputs:
        if output.formula is None:
            continue
        direct = _find_measure(plan, output.formula)
        if direct is not None:
            grid = float(plan.measures[direct].grid)
            errors.append(mechanism.error(float(scales[direct]), grid or float(scales[direct]) * 1e-6))
        else:
            errors.append(_propagated(plan, mechanism, scales, output.formula, values) if values else None)
    return tuple(errors)


def cap_errors(plan: QueryPlan, errors: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return the errors of clamped estimates: the truth lies in the range too, so none exceeds its width."""
    widths = [_find_width(plan, output.formula) for output in plan.outputs if output.is_aggregate]
    return tuple(
        error if width is None else width if error is None else min(error, width)
        for error, width in zip(errors, widths, strict=True)
    )


def _find_estimate(plan: QueryPlan, formula: exp.Expression | None) -> Estimate | None:
    """Return the estimate that a column of the answer is, as it is; None where it is computed from some."""
    return plan.estimates[int(formula.name[1:])] if isinstance(formula, exp.Column) else None


def _find_width(plan: QueryPlan, formula: exp.Expression | None) -> float | None:
    """Return the width of the range to which a column is clamped; None where it has no two ends."""
    estimate = _find_estimate(plan, formula)
    return None if estimate is None else estimate.width


def _find_measure(plan: QueryPlan, formula: exp.Expression | None) -> int | None:
    """Return the measure behind an output that is one measure and nothing else; otherwise None."""
    estimate = _find_estimate(plan, formula)
    return None if estimate is None else estimate.alone


def _propagated(
    plan: QueryPlan, mechanism: Mechanism, scales: FloatArray, formula: exp.Expression, values: Numbers
) -> float | None:
    used = sorted({int(node.name[1:]) for node in formula.find_all(exp.Column) if node.name.startswith("e")})
    measures = sorted({at for number in used for at in plan.estimates[number].measures})
    points = int(min(_MOST_POINTS, max(_LEAST_POINTS, 65_536 // max(len(values), 1))))
    noise = {at: scales[at] * _spread_points(mechanism, points, place) for place, at in enumerate(measures)}
    exact = {at: np.array([float(row[at]) for row in values])[:, None] for at in measures}
    quiet = _evaluate_estimates(plan, used, exact)
    noisy = _evaluate_estimates(plan, used, {at: exact[at] + noise[at][None, :] for at in measures})
    with np.errstate(all="ignore"):
        off = np.abs(_evaluate_array(formula, noisy) - _evaluate_array(formula, quiet))
    off = np.broadcast_to(off, (len(values), points))
    off = np.where(np.isnan(off), np.inf, off)
    worst = float(np.quantile(off, _PROBABILITY, axis=1, method="higher").max())
    return worst if math.isfinite(worst) else None


@lru_cache(maxsize=64)
def _spread_points(mechanism: Mechanism, count: int, dimension: int) -> FloatArray:
    """Return equally likely points of noise of scale 1, in the order of the dimension's van der Corput sequence."""
    base = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)[dimension % 10]
    index = np.arange(1, count + 1)
    fractions, step = np.zeros(count), 1.0 / base
    while index.any():
        fractions += step * (index % base)
        index = index // base
        step /= base
    order = np.argsort(np.argsort(fractions, kind="stable"), kind="stable")
    points = mechanism.points(1.0, count)[order]
    points.setflags(write=False)
    return points


def _evaluate_estimates(
    plan: QueryPlan, used: Sequence[int], measured: Mapping[int, FloatArray]
) -> dict[str, FloatArray]:
    with np.errstate(all="ignore"):
        return {
            f"e{number}": plan.estimates[number].on_arrays([measured[at] for at in plan.estimates[number].measures])
            for number in used
        }


def _evaluate_array(tree: exp.Expression, columns: Mapping[str, FloatArray]) -> NDArray[np.float64]:
    """Evaluate a formula of the planner over arrays. NULL is NaN, and a group column counts as constant."""

    def inner(node: exp.Expression) -> NDArray[np.float64]:
        return _evaluate_array(node, columns)

    match tree:
        case exp.Column():
            return columns[tree.name] if tree.name in columns else np.zeros((1, 1))
        case exp.Literal():
            return np.array([[float(tree.this)]])
        case exp.Paren() | exp.Cast():  # the only cast in a formula makes a literal a double
            return inner(tree.this)
        case exp.Neg():
            return -inner(tree.this)
        case exp.Abs():
            return np.abs(inner(tree.this))
        case exp.Floor():
            return np.floor(inner(tree.this))
        case exp.Ceil():
            return np.ceil(inner(tree.this))
        case exp.Round():
            decimals = tree.args.get("decimals")
            return np.round(inner(tree.this), int(decimals.name) if decimals is not None else 0)
        case exp.Add():
            return inner(tree.this) + inner(tree.expression)
        case exp.Sub():
            return inner(tree.this) - inner(tree.expression)
        case exp.Mul():
            return inner(tree.this) * inner(tree.expression)
        case exp.Div():
            divisor = inner(tree.expression)
            return inner(tree.this) / np.where(divisor == 0.0, np.nan, divisor)
        case exp.Nullif():
            left, right = np.broadcast_arrays(inner(tree.this), inner(tree.expression))
            return np.where(left == right, np.nan, left)
        case exp.Least() | exp.Greatest():
            pick = np.fmin if isinstance(tree, exp.Least) else np.fmax
            result = inner(tree.this)
            for part in tree.expressions:
                result = pick(result, inner(part))
            return result
        case _:
            raise AssertionError(f"a formula that was not planned: {type(tree).__name__}")
