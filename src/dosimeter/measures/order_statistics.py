"""Read MIN, MAX, MEDIAN and quantiles from SQL: drawn by rank (M4, M5), or as numbers that get noise (S3)."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.measures.estimates import SingleMeasure
from dosimeter.measures.quantiles import Quantile
from dosimeter.measures.ranks import MOST_PARTS, SEARCH_MARGIN, USUAL_MARGIN, Rank, RankEstimate
from dosimeter.measures.reading import AggregateCall, Collector, refuse_constant, take_spread
from dosimeter.problems import Option
from dosimeter.sql import clause_of, expect_only, read_number, refusal


def read_quantile(collector: Collector, call: AggregateCall) -> SingleMeasure:
    """Read QUANTILE_CONT(x, fraction): add its measure to the query, and return its estimate."""
    return _measure_quantile(collector, call, _read_fraction(call.node), "expression")


def read_discrete_quantile(collector: Collector, call: AggregateCall) -> SingleMeasure:
    """Read QUANTILE_DISC(x, fraction) as QUANTILE_CONT, and return its estimate.

    Refuse it where order statistics get noise instead of being drawn by rank.
    """
    if not collector.by_ranks:
        raise QueryError(
            f"{call.label} is answered by ranks only. Write QUANTILE_CONT, or leave ",
            Option("quantiles", "noise"),
            " out.",
            clause=call.label,
        )
    return read_quantile(collector, call)


def _read_fraction(node: exp.Expression) -> Fraction:
    literal = node.expression
    if not isinstance(literal, exp.Literal) or literal.is_string:
        raise refusal(node, f"{clause_of(node)}: the quantile must be a number between 0 and 1.")
    fraction = Fraction(read_number(literal))
    if not 0 <= fraction <= 1:
        raise refusal(node, f"{clause_of(node)}: the quantile must lie between 0 and 1.")
    return fraction


def _measure_quantile(collector: Collector, call: AggregateCall, fraction: Fraction, *given: str) -> SingleMeasure:
    """Measure the order statistic at this fraction: add its measure to the query, and return its estimate.

    ``given``: the names of the sqlglot arguments that the call may have besides ``this``, its values. A quantile's
    fraction is in ``expression``. A call with any other argument is refused.
    """
    expect_only(call.node, "this", *given)
    if not collector.by_ranks:
        source = take_spread(collector, call)
        quantile = Quantile.over(source.argument, call.label, collector.facts, fraction)
        return SingleMeasure.within(collector.measure(quantile, source), call.label, source.argument)
    if fraction.denominator > MOST_PARTS:
        raise refusal(call.node, f"{call.label}: write the quantile with at most six decimals.")
    source, step = collector.take_rounded_value(call)
    if source.argument.width == 0:
        raise refuse_constant(call)
    margin = USUAL_MARGIN if collector.search is None else SEARCH_MARGIN
    rank = Rank.among(source.argument, call.label, collector.facts, fraction, step, margin)
    return RankEstimate.within(collector.measure(rank, source), call.label, source.argument)


read_minimum = partial(_measure_quantile, fraction=Fraction(0))
read_maximum = partial(_measure_quantile, fraction=Fraction(1))
read_median = partial(_measure_quantile, fraction=Fraction(1, 2))
"""Read MIN(x), MAX(x) and MEDIAN(x): add the measure to the query, and return its estimate."""
