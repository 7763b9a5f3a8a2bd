"""Say how far off the numbers of an answer are likely to be, from public scales and the numbers themselves.

Never touches data and never draws noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from dosimeter.measures import Estimate
from dosimeter.mechanisms import Mechanism
from dosimeter.planning import CELL, RELEASED, QueryPlan
from dosimeter.postprocess.answers import Numbers
from dosimeter.postprocess.estimates import estimate_arrays
from dosimeter.sql import EmbeddedError, Type, Values, compute_embedded

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray
    from dosimeter.schema import Scalar

_PROBABILITY = 0.95
_LEAST_POINTS, _MOST_POINTS = 128, 1024


def measure_scales(plan: QueryPlan, mechanism: Mechanism, scale: float) -> FloatArray:
    """Return the noise scale of each measure in its own units, from the scale in the units of the norm (S5)."""
    return scale / plan.weights(mechanism.norm)


def needs_values(plan: QueryPlan) -> bool:
    """Return whether the error of some number depends on the numbers themselves, as that of a ratio does."""
    return bool(_find_derived(plan))


def error_95(
    plan: QueryPlan,
    mechanism: Mechanism,
    scale: float,
    values: Numbers | None,
    keys: Sequence[tuple[Scalar, ...]] | None = None,
    terms: Sequence[int] | None = None,
) -> tuple[float | None, ...]:
    """Return the 95 % error of each aggregate column, the largest over these groups; None where it has none.

    For a number that gets noise directly, it is the exact quantile of its discrete noise. For arithmetic of a cell's
    own numbers, the noise is propagated through the formula at ``values`` by equally likely points of low
    discrepancy, so that the same input gives the same error. A column that reads other cells has none.
    ``terms``: how many noisy numbers each row's numbers add up; by default, as many as the largest total does.
    """
    scales = measure_scales(plan, mechanism, scale)
    derived = _propagate(plan, mechanism, scales, values, keys, terms) if values else {}
    most = _count_terms(plan) if terms is None else max(terms, default=1)
    errors: list[float | None] = []
    for at, output in enumerate(plan.outputs):
        if not output.is_aggregate:
            continue
        direct = _identity(plan, output.formula)
        if direct is None:
            errors.append(derived.get(at))
            continue
        if direct in plan.ranks:
            errors.append(None)  # E3: it is off by rows, not by a number that could be told
            continue
        grid = float(plan.measures[direct].grid)
        errors.append(mechanism.error_of_sum(float(scales[direct]), grid or float(scales[direct]) * 1e-6, most))
    return tuple(errors)


def _count_terms(plan: QueryPlan) -> int:
    """Return how many cells the largest total of ROLLUP, CUBE or GROUPING SETS adds up; 1 without."""
    sizes = [len(group.values or ()) for group in plan.groups]
    return max((math.prod(size for at, size in enumerate(sizes) if at not in kept) for kept in plan.sets), default=1)


def cap_errors(plan: QueryPlan, errors: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return the errors of clamped estimates: the truth lies in the range too, so none exceeds its width."""
    widths = [_find_width(plan, output.formula) for output in plan.outputs if output.is_aggregate]
    return tuple(
        error if width is None else width if error is None else min(error, width)
        for error, width in zip(errors, widths, strict=True)
    )


def _find_width(plan: QueryPlan, formula: exp.Expression | None) -> float | None:
    """Return the width of the range to which this column is clamped; None where it is not clamped at both ends."""
    estimate = _find_estimate(plan, formula)
    return None if estimate is None else estimate.width


def _identity(plan: QueryPlan, formula: exp.Expression | None) -> int | None:
    """Return the measure behind an output that is one measure and nothing else; otherwise None."""
    estimate = _find_estimate(plan, formula)
    return None if estimate is None else estimate.alone


def _find_estimate(plan: QueryPlan, formula: exp.Expression | None) -> Estimate | None:
    """Return the aggregate that an output is and nothing else; otherwise None."""
    if not isinstance(formula, exp.Column) or not formula.name.startswith("e"):
        return None
    return plan.estimates[int(formula.name[1:])]


def _find_derived(plan: QueryPlan) -> dict[int, exp.Expression]:
    """Return the formulas of the columns that are computed from several measured numbers of their own cell."""
    return {
        at: output.formula
        for at, output in enumerate(plan.outputs)
        if output.is_aggregate
        and output.formula is not None
        and _identity(plan, output.formula) is None
        and not _reads_ranks(plan, output.formula)
    }


def _reads_ranks(plan: QueryPlan, formula: exp.Expression) -> bool:
    """Return whether a column is computed from something that is drawn by rank: then noise does not tell its error."""
    names = {node.name for node in formula.find_all(exp.Column) if node.name.startswith("e")}
    return any(at in plan.ranks for name in names for at in plan.estimates[int(name[1:])].measures)


def _propagate(
    plan: QueryPlan,
    mechanism: Mechanism,
    scales: FloatArray,
    values: Numbers,
    keys: Sequence[tuple[Scalar, ...]] | None,
    terms: Sequence[int] | None,
) -> dict[int, float | None]:
    """Return the error of each derived column: the 95 % quantile of how far noise moves it, in the worst cell."""
    spread = np.sqrt(np.ones(len(values)) if terms is None else np.array(terms, dtype=np.float64))[:, None]
    found: dict[int, float | None] = {}
    for at, formula in _find_derived(plan).items():
        try:
            found[at] = _find_worst(_move(plan, mechanism, scales, formula, values, keys, spread))
        except (EmbeddedError, KeyError):  # it fails on some noise, or is no number
            found[at] = None
    return found


def _move(
    plan: QueryPlan,
    mechanism: Mechanism,
    scales: FloatArray,
    formula: exp.Expression,
    values: Numbers,
    keys: Sequence[tuple[Scalar, ...]] | None,
    spread: FloatArray,
) -> FloatArray:
    """Return how far each of many equally likely noises moves a formula, in every cell."""
    names = {node.name for node in formula.find_all(exp.Column)}
    used = sorted(int(name[1:]) for name in names if name.startswith("e"))
    measures = sorted({at for number in used for at in plan.estimates[number].measures})
    points = int(min(_MOST_POINTS, max(_LEAST_POINTS, 65_536 // max(len(values), 1))))
    noise = {at: scales[at] * _spread_points(mechanism, points, place) for place, at in enumerate(measures)}
    exact = {at: np.array([float(row[at]) for row in values])[:, None] for at in measures}
    quiet = estimate_arrays(plan, used, exact)
    noisy = estimate_arrays(plan, used, {at: exact[at] + spread * noise[at][None, :] for at in measures})
    groups = _repeat_groups(plan, keys, len(values), names)
    before = _evaluate(formula, quiet, groups, len(values), 1)
    after = _evaluate(formula, noisy, groups, len(values), points)
    with np.errstate(invalid="ignore"):  # a number beyond all floats has no error
        moved: FloatArray = after - before
    return moved


def _repeat_groups(
    plan: QueryPlan, keys: Sequence[tuple[Scalar, ...]] | None, cells: int, names: set[str]
) -> dict[str, tuple[Type, list[Scalar]]]:
    """Return the group columns that formulas read, one value per cell; NULL where the cells' groups are not given."""
    return {
        f"g{at}": (group.type, [None if keys is None else keys[cell][at] for cell in range(cells)])
        for at, group in enumerate(plan.groups)
        if f"g{at}" in names
    }


def _evaluate(
    formula: exp.Expression,
    estimates: Mapping[str, FloatArray],
    groups: Mapping[str, tuple[Type, list[Scalar]]],
    cells: int,
    points: int,
) -> FloatArray:
    """Return a formula over cells × points; NULL is NaN. Raises KeyError if it is no number."""
    shape = (cells, points)
    if isinstance(formula, exp.Column) and formula.name in estimates:
        return np.broadcast_to(estimates[formula.name], shape)
    table = {CELL: Values(Type.INTEGER, np.arange(cells * points))}
    for name, (kind, values) in groups.items():
        table[name] = Values(kind, [value for value in values for _ in range(points)])
    for name, array in estimates.items():
        table[name] = Values(Type.NUMBER, np.broadcast_to(array, shape).reshape(-1))
    shown = exp.Alias(this=formula.copy(), alias=exp.to_identifier("formula"))
    query = exp.select(shown).from_(exp.table_(RELEASED)).order_by(exp.column(CELL))
    return compute_embedded(query, {RELEASED: table})["formula"].reshape(shape)


def _find_worst(off: FloatArray) -> float | None:
    sizes = np.where(np.isnan(off), np.inf, np.abs(off))
    worst = float(np.quantile(sizes, _PROBABILITY, axis=1, method="higher").max())
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
