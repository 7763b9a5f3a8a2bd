"""The table of the aggregates of SQL: how messages name each, how its column is named, and how it becomes measures.

A new aggregate is a row here, and a module with its reader and, if it needs them, a measure or an estimate of its own.
N3: COUNT, SUM, MIN … are one measure; AVG through sums two; VAR and STDDEV three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from dosimeter.measures.counts import read_count, read_count_if
from dosimeter.measures.means import read_mean
from dosimeter.measures.moments import read_deviation, read_variance
from dosimeter.measures.quantiles import read_maximum, read_median, read_minimum, read_quantile
from dosimeter.measures.reading import Reader
from dosimeter.measures.sums import read_sum


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate of SQL: its names in messages, the name of its column in an answer, and its reader."""

    names: tuple[str, ...]
    column: str
    read: Reader


AGGREGATES: Mapping[type[exp.Expression], Aggregate] = {
    exp.Count: Aggregate(("COUNT", "COUNT(DISTINCT)"), "count", read_count),
    exp.CountIf: Aggregate(("COUNT_IF",), "count_if", read_count_if),
    exp.Sum: Aggregate(("SUM",), "sum", read_sum),
    exp.Avg: Aggregate(("AVG",), "avg", read_mean),
    exp.Min: Aggregate(("MIN",), "min", read_minimum),
    exp.Max: Aggregate(("MAX",), "max", read_maximum),
    exp.Median: Aggregate(("MEDIAN",), "median", read_median),
    exp.PercentileCont: Aggregate(("QUANTILE_CONT",), "quantile", read_quantile),
    exp.VariancePop: Aggregate(("VAR_POP",), "var_pop", read_variance),
    exp.StddevPop: Aggregate(("STDDEV_POP",), "stddev_pop", read_deviation),
}
