"""The measures of a query: each is one noisy number per group, with its sensitivity and its grid.

Takes an Argument, never a plan. Each class knows its sensitivity, its part of the profile queries, what leaving
somebody out does to it, and its answer. Sees data only as arrays.
"""

from dosimeter.measures.argument import Argument
from dosimeter.measures.counts import Count, CountRows
from dosimeter.measures.distinct import CountDistinct, CountIndividuals
from dosimeter.measures.means import BoundedMean, Mean
from dosimeter.measures.measure import ArgumentMeasure, Dependence, GroupColumn, Measure, Reducible, Seen
from dosimeter.measures.moments import Deviation, Variance
from dosimeter.measures.near_values import NearValues
from dosimeter.measures.noise_grid import Facts
from dosimeter.measures.quantiles import Quantile
from dosimeter.measures.sums import CentredSquares, CentredSum, Sum
from dosimeter.measures.units import Entries, Joined, Tally, UnitField, UnitRows, Values, Whole

MEASURES: tuple[type[Measure], ...] = (
    CountRows,
    Count,
    Sum,
    CentredSum,
    CentredSquares,
    CountDistinct,
    CountIndividuals,
    BoundedMean,
    Quantile,
    Mean,
    Variance,
    Deviation,
)

__all__ = [
    "MEASURES",
    "Argument",
    "ArgumentMeasure",
    "BoundedMean",
    "CentredSquares",
    "CentredSum",
    "Count",
    "CountDistinct",
    "CountIndividuals",
    "CountRows",
    "Dependence",
    "Deviation",
    "Entries",
    "Facts",
    "GroupColumn",
    "Joined",
    "Mean",
    "Measure",
    "NearValues",
    "Quantile",
    "Reducible",
    "Seen",
    "Sum",
    "Tally",
    "UnitField",
    "UnitRows",
    "Values",
    "Variance",
    "Whole",
]
