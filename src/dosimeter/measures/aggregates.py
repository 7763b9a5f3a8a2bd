"""The table of the aggregates of SQL: their names in messages, their columns in an answer, how each becomes measures.

An estimate computes the aggregate from its noisy measures: AVG from a sum and a count. A new aggregate is a row here,
and a module with its reader and, if it needs them, a measure or an estimate of its own. N3: COUNT, SUM, MIN … are one
measure each. Computed from a count and sums, AVG is two measures, VAR and STDDEV are three, COVAR four, REGR five and
CORR six.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from dosimeter.measures.counts import read_count, read_count_if, read_distinct
from dosimeter.measures.means import read_mean
from dosimeter.measures.moments import read_deviation, read_sample_deviation, read_sample_variance, read_variance
from dosimeter.measures.order_statistics import (
    read_discrete_quantile,
    read_maximum,
    read_median,
    read_minimum,
    read_quantile,
)
from dosimeter.measures.pairs import (
    read_correlation,
    read_covariance,
    read_intercept,
    read_sample_covariance,
    read_slope,
)
from dosimeter.measures.reading import Reader
from dosimeter.measures.sums import read_sum


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate of SQL.

    ``names``: how messages call it. ``column``: the default name of its column in an answer, sum for SUM; if the
    argument is a plain column, that column's name follows: sum_pay. ``read``: the function that turns a call of the
    aggregate into measures, and an estimate that computes the aggregate from them.
    """

    names: tuple[str, ...]
    column: str
    read: Reader


AGGREGATES: Mapping[type[exp.Expression], Aggregate] = {
    exp.Count: Aggregate(("COUNT", "COUNT(DISTINCT)"), "count", read_count),
    exp.CountIf: Aggregate(("COUNT_IF",), "count_if", read_count_if),
    exp.ApproxDistinct: Aggregate(("APPROX_COUNT_DISTINCT",), "count", read_distinct),
    exp.Sum: Aggregate(("SUM",), "sum", read_sum),
    exp.Avg: Aggregate(("AVG",), "avg", read_mean),
    exp.Min: Aggregate(("MIN",), "min", read_minimum),
    exp.Max: Aggregate(("MAX",), "max", read_maximum),
    exp.Median: Aggregate(("MEDIAN",), "median", read_median),
    exp.PercentileCont: Aggregate(("QUANTILE_CONT",), "quantile", read_quantile),
    exp.PercentileDisc: Aggregate(("QUANTILE_DISC",), "quantile", read_discrete_quantile),
    exp.VariancePop: Aggregate(("VAR_POP",), "var_pop", read_variance),
    exp.Variance: Aggregate(("VAR_SAMP", "VARIANCE"), "variance", read_sample_variance),
    exp.StddevPop: Aggregate(("STDDEV_POP",), "stddev_pop", read_deviation),
    exp.StddevSamp: Aggregate(("STDDEV_SAMP",), "stddev", read_sample_deviation),
    exp.Stddev: Aggregate(("STDDEV",), "stddev", read_sample_deviation),
    exp.CovarPop: Aggregate(("COVAR_POP",), "covar_pop", read_covariance),
    exp.CovarSamp: Aggregate(("COVAR_SAMP",), "covar_samp", read_sample_covariance),
    exp.Corr: Aggregate(("CORR",), "corr", read_correlation),
    exp.RegrSlope: Aggregate(("REGR_SLOPE",), "regr_slope", read_slope),
    exp.RegrIntercept: Aggregate(("REGR_INTERCEPT",), "regr_intercept", read_intercept),
}
