"""Write a measure as SQL's own aggregate, which is run with and without somebody's records."""

from __future__ import annotations

from sqlglot import exp

from dosimeter.measures import BoundedMean, Deviation, Mean, Measure, OrderStatistic, Variance
from dosimeter.sql import as_double
from dosimeter_paper.recompute.table import GroupNumber


def write_native(measure: Measure, weight: float) -> GroupNumber:
    """Return the aggregate that computes a measure. ``weight``: the measure's among those of ``plan.weights``."""
    total = measure.total()
    if total is not None:
        return GroupNumber(total, float(measure.unit) * weight, 0, exact=True)
    unit = float(measure.unit)
    match measure:
        case BoundedMean():  # how far the mean lies from the middle of the bounds, in half grid steps (S2)
            rows = exp.Greatest(
                this=exp.Count(this=measure.column()), expressions=[exp.Literal.number(measure.min_rows)]
            )
            centred = exp.Sum(this=measure.argument.centred(measure.column()))
            quotient = exp.Div(this=as_double(centred), expression=as_double(rows), typed=False, safe=False)
            return GroupNumber(quotient, unit / 2 * weight, 0.0)
        case Mean():
            return GroupNumber(exp.Avg(this=measure.column()), unit * weight, float(measure.empty / measure.unit))
        case Variance():
            return GroupNumber(exp.VariancePop(this=measure.column()), unit * unit * weight, 0.0)
        case Deviation():
            return GroupNumber(exp.StddevPop(this=measure.column()), unit * weight, 0.0)
        case OrderStatistic():
            return GroupNumber(_write_quantile(measure), unit * weight, float(measure.empty / measure.unit))
        case _:
            raise NotImplementedError(f"SQL has no aggregate for a measure of the class {type(measure).__name__}.")


def _write_quantile(measure: OrderStatistic) -> exp.Expression:
    if measure.fraction == 0:
        return exp.Min(this=measure.column())
    if measure.fraction == 1:
        return exp.Max(this=measure.column())
    return exp.PercentileCont(this=measure.column(), expression=exp.Literal.number(repr(float(measure.fraction))))
