"""From the aggregates of a SELECT list to what gets noise: arguments, measures with their sensitivities, estimates.

N3: COUNT, SUM, MIN … are one measure; AVG through sums two; VAR and STDDEV three; a measure that two aggregates
share counts once. AGGREGATES, at the end, is the table of what is supported and what it measures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.measures import (
    Argument,
    ArgumentMeasure,
    BoundedMean,
    CentredSquares,
    CentredSum,
    Count,
    CountDistinct,
    CountRows,
    Deviation,
    Facts,
    Mean,
    Measure,
    Quantile,
    Sum,
    Variance,
)
from dosimeter.planning.grid import put_on_grid
from dosimeter.planning.query_plan import Estimate, EstimateKind
from dosimeter.planning.steps import Gridded
from dosimeter.schema import Schema
from dosimeter.sql import (
    Scope,
    check_condition,
    check_expression,
    clause_of,
    expect_only,
    make_total,
    read_number,
    refusal,
)

Read = tuple[tuple[object, ...], "Estimate"]  # the key that distinguishes the estimate from others, and the estimate


def as_aggregate(node: exp.Expression) -> bool:
    """Return whether the node is one aggregate as it may stand in a SELECT list (with or without FILTER)."""
    if isinstance(node, (exp.Filter, exp.WithinGroup)):
        return as_aggregate(node.this)
    return type(node) in AGGREGATES


@dataclass(frozen=True, slots=True)
class Measured:
    arguments: tuple[Argument, ...]
    measures: tuple[Measure, ...]
    estimates: tuple[Estimate, ...]


@dataclass(slots=True)
class _Source:
    """One expression inside aggregates. It is profiled by value when some aggregate needs the value."""

    tree: exp.Expression
    label: str
    gridded: Gridded | None = None
    distinct: bool = False


@dataclass(slots=True)
class Aggregates:
    """A collector of aggregates, in the order in which they are met; equal ones are shared.

    ``direct``: whether a sensitivity is given by hand, so that an aggregate is measured as one number.
    """

    schema: Schema
    scope: Scope
    min_rows: int | None
    direct: bool
    groups: int = 1
    _sources: dict[str, _Source] = field(default_factory=dict)
    _measures: dict[tuple[object, ...], tuple[Measure, str]] = field(default_factory=dict)
    _estimates: dict[tuple[object, ...], Estimate] = field(default_factory=dict)

    def default_name(self, node: exp.Expression) -> str | None:
        """Return a default name: count for COUNT(*), sum_pay for SUM(pay); None for anything more involved."""
        aggregate = AGGREGATES.get(type(node))
        if aggregate is None:
            return None
        argument = node.this
        if isinstance(argument, exp.Distinct):
            argument = argument.expressions[0] if argument.expressions else None
        if isinstance(argument, exp.Column):
            return f"{aggregate.column}_{argument.name}"
        return aggregate.column

    def add(self, node: exp.Expression) -> int:
        """Add an aggregate and return the number of its estimate."""
        label = clause_of(node)
        bare, condition = self._unfilter(node)
        aggregate = AGGREGATES.get(type(bare))
        if aggregate is None:
            raise refusal(node, f"{label} is not supported. {SUPPORTED}")
        key, estimate = aggregate.read(self, bare, condition, label)
        self._estimates.setdefault(key, estimate)
        return list(self._estimates).index(key)

    def finish(self) -> Measured:
        """Return what was collected. Only now is every argument known: COUNT(pay) reads what SUM(pay) profiles."""
        positions = {key: at for at, key in enumerate(self._sources)}
        arguments = tuple(_argument(source, self.schema) for source in self._sources.values())
        met: dict[tuple[type[Measure], int], int] = {}
        measures: list[Measure] = []
        for measure, source in self._measures.values():
            if isinstance(measure, ArgumentMeasure):
                position = positions[source]
                nth = met.setdefault((type(measure), position), 0)
                met[type(measure), position] += 1
                measure = replace(measure, argument=arguments[position], position=position, nth=nth)
            measures.append(measure)
        return Measured(arguments, tuple(measures), tuple(self._estimates.values()))

    @property
    def facts(self) -> Facts:
        """Return the public facts that sensitivities depend on, besides the bounds."""
        return Facts(self.schema.max_rows_per_unit, self.schema.individuals, self.groups)

    # ------------------------------------------------------------ reading the argument

    def _unfilter(self, node: exp.Expression) -> tuple[exp.Expression, exp.Expression | None]:
        """Separate an aggregate from its FILTER: COUNT(x) FILTER (WHERE p) is COUNT(CASE WHEN p THEN x END)."""
        if isinstance(node, exp.WithinGroup):
            order = node.expression.expressions if isinstance(node.expression, exp.Order) else []
            if not isinstance(node.this, exp.PercentileCont) or len(order) != 1 or order[0].args.get("desc"):
                raise refusal(node, f"{clause_of(node)} is not supported. Write QUANTILE_CONT(column, fraction).")
            expect_only(node, "this", "expression")
            expect_only(node.this, "this")
            return exp.PercentileCont(this=order[0].this, expression=node.this.this), None
        if isinstance(node, exp.Filter):
            expect_only(node, "this", "expression")
            bare, inner = self._unfilter(node.this)
            if inner is not None:
                raise refusal(node, f"{clause_of(node)}: one FILTER is enough.")
            return bare, check_condition(node.expression.this, self.scope)
        return node, None

    def _source(
        self, node: exp.Expression | None, condition: exp.Expression | None, label: str, *, distinct: bool = False
    ) -> str:
        if node is None:
            raise QueryError(f"{label} has no argument. Name a column.", clause=label)
        if isinstance(node, exp.Distinct):
            raise refusal(node, f"{label}: DISTINCT is supported in COUNT only.")
        checked = check_expression(node, self.scope)
        tree = checked.tree
        if condition is not None:
            tree = exp.Case(ifs=[exp.If(this=condition.copy(), true=tree)])
        key = f"{'distinct ' if distinct else ''}{tree.sql(dialect='duckdb')}"
        self._sources.setdefault(key, _Source(tree, clause_of(node), distinct=distinct))
        return key

    def _value(self, node: exp.Expression | None, condition: exp.Expression | None, label: str) -> tuple[str, Argument]:
        """Return the source of an aggregate over values, and the values on their grid."""
        key = self._source(node, condition, label)
        source = self._sources[key]
        if source.gridded is None:
            source.gridded = put_on_grid(source.tree, self.schema, label)
        return key, _on_grid(source.gridded, source.label)

    def _measure(self, measure: Measure, source: str = "") -> int:
        """Return the number of a measure; the same measure over the same source is added once."""
        key = (type(measure), source, *measure.parameters)
        self._measures.setdefault(key, (measure, source))
        return list(self._measures).index(key)

    # ------------------------------------------------------------ one aggregate each

    def read_count(self, node: exp.Expression, condition: exp.Expression | None, label: str) -> Read:
        """Read COUNT(*), COUNT(x) and COUNT(DISTINCT x)."""
        expect_only(node, "this")
        argument = node.this
        if argument is None:
            raise refusal(node, "COUNT() counts nothing. Write COUNT(*) or COUNT(column).")
        if isinstance(argument, exp.Distinct):
            expect_only(argument, "expressions")
            if len(argument.expressions) != 1:
                raise refusal(node, f"{label}: COUNT(DISTINCT) takes one column.")
            source = self._source(argument.expressions[0], condition, label, distinct=True)
            found = CountDistinct.over(self._present(source), label, self.facts)
            return _identity(self._measure(found, source), label, integer=True)
        if isinstance(argument, (exp.Star, exp.Literal)):  # COUNT(1) is COUNT(*)
            expect_only(argument, *(("this", "is_string") if isinstance(argument, exp.Literal) else ()))
            if condition is None:
                return _identity(self._measure(CountRows.of_rows(label, self.facts)), label, integer=True)
            argument = exp.Literal.number(1)
        source = self._source(argument, condition, label)
        return _identity(self._count_present(source, label), label, integer=True)

    def read_total(
        self,
        node: exp.Expression,
        condition: exp.Expression | None,
        label: str,
        over: Callable[[Argument, str, Facts], Measure],
    ) -> Read:
        """Read a total over values that is one measure, such as SUM(x)."""
        expect_only(node, "this")
        source, argument = self._value(node.this, condition, label)
        if argument.largest == 0:
            raise _refuse_constant(label)
        measure = over(argument, label, self.facts)
        integer = measure.unit.denominator == 1 and measure.grid == measure.unit
        return _identity(self._measure(measure, source), label, integer=integer)

    def read_mean(self, node: exp.Expression, condition: exp.Expression | None, label: str) -> Read:
        """Read AVG(x): one number by hand (S7) or with a floor on rows (S2), otherwise through sums."""
        expect_only(node, "this")
        source, argument = self._spread_value(node, condition, label)
        if self.direct:
            return _identity(self._measure(Mean.by_hand(argument, label), source), label, integer=False)
        if self.min_rows is not None:
            measure = BoundedMean.over(argument, label, self.facts, self.min_rows)
            return _within_bounds(self._measure(measure, source), label, argument)
        return self._through_sums(source, argument, label, EstimateKind.MEAN, CentredSum)

    def read_variance(self, node: exp.Expression, condition: exp.Expression | None, label: str) -> Read:
        """Read VAR_POP(x): one number by hand (S7), otherwise through sums (S2)."""
        expect_only(node, "this")
        source, argument = self._spread_value(node, condition, label)
        if self.direct:
            return _identity(self._measure(Variance.by_hand(argument, label), source), label, integer=False)
        return self._through_sums(source, argument, label, EstimateKind.VARIANCE, CentredSum, CentredSquares)

    def read_deviation(self, node: exp.Expression, condition: exp.Expression | None, label: str) -> Read:
        """Read STDDEV_POP(x): one number by hand (S7), otherwise through sums (S2)."""
        expect_only(node, "this")
        source, argument = self._spread_value(node, condition, label)
        if self.direct:
            return _identity(self._measure(Deviation.by_hand(argument, label), source), label, integer=False)
        return self._through_sums(source, argument, label, EstimateKind.DEVIATION, CentredSum, CentredSquares)

    def read_quantile(
        self, node: exp.Expression, condition: exp.Expression | None, label: str, fraction: Fraction
    ) -> Read:
        """Read MIN, MAX, MEDIAN and QUANTILE_CONT."""
        expect_only(node, "this", *(("expression",) if isinstance(node, exp.PercentileCont) else ()))
        source, argument = self._spread_value(node, condition, label)
        measure = Quantile.over(argument, label, self.facts, fraction)
        return _within_bounds(self._measure(measure, source), label, argument)

    # ------------------------------------------------------------ steps that several share

    def _present(self, source: str) -> Argument:
        """Return an argument of which only presence is known so far; ``finish`` gives the measure its final one."""
        return Argument("presence", self._sources[source].tree, self._sources[source].label)

    def _count_present(self, source: str, label: str) -> int:
        return self._measure(Count.over(self._present(source), label, self.facts), source)

    def _spread_value(self, node: exp.Expression, condition: exp.Expression | None, label: str) -> tuple[str, Argument]:
        """Return the source and the values of an aggregate; refuse it if its values cannot differ."""
        source, argument = self._value(node.this, condition, label)
        if argument.width == 0:
            raise _refuse_constant(label)
        return source, argument

    def _through_sums(
        self,
        source: str,
        argument: Argument,
        label: str,
        how: EstimateKind,
        *sums: type[CentredSum] | type[CentredSquares],
    ) -> Read:
        """Return an estimate from COUNT and centred sums: these are measured, the rest is post-processing (S2)."""
        positions = [self._count_present(source, f"COUNT({argument.label})")]
        for each in sums:
            try:
                positions.append(self._measure(each.over(argument, self.facts), source))
            except OverflowError:
                raise QueryError(
                    f"{each.name} of {argument.label} is too large to count exactly. Narrow the bounds or coarsen the "
                    "resolution in the schema.",
                    clause=argument.label,
                ) from None
        lower, upper = argument.lower * argument.unit, argument.upper * argument.unit
        estimate = Estimate(how, tuple(positions), label, False, argument.middle, lower, upper)
        return (how, source), estimate


def _identity(position: int, label: str, *, integer: bool) -> Read:
    """Return the estimate that is a measure itself."""
    return ("identity", position), Estimate(EstimateKind.IDENTITY, (position,), label, integer=integer)


def _within_bounds(position: int, label: str, argument: Argument) -> Read:
    """Return the estimate that is a measure itself and cannot leave the argument's bounds."""
    lower, upper = argument.lower * argument.unit, argument.upper * argument.unit
    estimate = Estimate(EstimateKind.IDENTITY, (position,), label, False, argument.middle, lower, upper)
    return ("identity", position), estimate


def _refuse_constant(label: str) -> QueryError:
    return QueryError(
        f"{label} cannot change: its bounds leave it no room. Correct the bounds of its columns in the schema.",
        clause=label,
    )


def _fraction(node: exp.Expression) -> Fraction:
    literal = node.expression
    if not isinstance(literal, exp.Literal) or literal.is_string:
        raise refusal(node, f"{clause_of(node)}: the quantile must be a number between 0 and 1.")
    fraction = Fraction(read_number(literal))
    if not 0 <= fraction <= 1:
        raise refusal(node, f"{clause_of(node)}: the quantile must lie between 0 and 1.")
    return fraction


def _argument(source: _Source, schema: Schema) -> Argument:
    if source.distinct:
        return Argument("distinct", make_total(source.tree, schema), source.label)
    if source.gridded is None:
        return Argument("presence", make_total(source.tree, schema), source.label)
    return _on_grid(source.gridded, source.label)


def _on_grid(gridded: Gridded, label: str) -> Argument:
    return Argument("value", gridded.tree, label, gridded.unit, gridded.lower, gridded.upper)


# ---------------------------------------------------------------- what is supported


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate of SQL: how messages name it, how its column is named, and how it becomes measures."""

    names: tuple[str, ...]
    column: str
    read: Callable[[Aggregates, exp.Expression, exp.Expression | None, str], Read]


def _total(over: Callable[[Argument, str, Facts], Measure]) -> Callable[..., Read]:
    """Return a reader for a total over values that is one measure."""
    return lambda aggregates, node, condition, label: aggregates.read_total(node, condition, label, over)


def _quantile(of: Callable[[exp.Expression], Fraction]) -> Callable[..., Read]:
    """Return a reader for a quantile whose fraction is found in its node."""
    return lambda aggregates, node, condition, label: aggregates.read_quantile(node, condition, label, of(node))


AGGREGATES: dict[type[exp.Expression], Aggregate] = {
    exp.Count: Aggregate(("COUNT", "COUNT(DISTINCT)"), "count", Aggregates.read_count),
    exp.Sum: Aggregate(("SUM",), "sum", _total(Sum.over)),
    exp.Avg: Aggregate(("AVG",), "avg", Aggregates.read_mean),
    exp.Min: Aggregate(("MIN",), "min", _quantile(lambda node: Fraction(0))),
    exp.Max: Aggregate(("MAX",), "max", _quantile(lambda node: Fraction(1))),
    exp.Median: Aggregate(("MEDIAN",), "median", _quantile(lambda node: Fraction(1, 2))),
    exp.PercentileCont: Aggregate(("QUANTILE_CONT",), "quantile", _quantile(_fraction)),
    exp.VariancePop: Aggregate(("VAR_POP",), "var_pop", Aggregates.read_variance),
    exp.StddevPop: Aggregate(("STDDEV_POP",), "stddev_pop", Aggregates.read_deviation),
}


SUPPORTED = f"Supported aggregates: {', '.join(name for each in AGGREGATES.values() for name in each.names)}."
