"""The measures of a query: each is one noisy number per group, with its sensitivity and its grid.

A measure is built from an Argument, never from a plan. Each class knows its sensitivity, its part of the profile
queries (which list the distinct inputs of each group), what leaving one individual out does to it, and its exact
answer. ``AGGREGATES`` says how SQL's aggregates become measures. Data arrives here only as arrays.
"""

from dosimeter.measures.aggregates import AGGREGATES
from dosimeter.measures.argument import Argument
from dosimeter.measures.counts import Count, CountRows
from dosimeter.measures.distinct import CountDistinct, CountIndividuals
from dosimeter.measures.estimates import Estimate, MeanFromSums, SingleMeasure
from dosimeter.measures.means import BoundedMean, Mean
from dosimeter.measures.measure import ArgumentMeasure, Dependence, GroupColumn, Measure, Reducible, Seen, Total
from dosimeter.measures.moments import Deviation, Variance
from dosimeter.measures.near_values import NearValues
from dosimeter.measures.noise_grid import SensitivityFacts
from dosimeter.measures.quantiles import OrderStatistic
from dosimeter.measures.ranks import MOST_CANDIDATES, MOST_PARTS, SEARCH_MARGIN, Rank, candidate_step
from dosimeter.measures.reading import AggregateCall, Distinct, Source, take_spread
from dosimeter.measures.sums import Centred, CentredSquares, Sum
from dosimeter.measures.units import Entries, Joined, Tally, UnitField, UnitRows, Values, WholeNumbers
