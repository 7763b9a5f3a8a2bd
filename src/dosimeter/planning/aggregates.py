"""From the aggregates of a SELECT list to what gets noise: arguments, measures with their sensitivities, estimates.

N3: COUNT, SUM, MIN … are one measure; AVG through sums two; VAR and STDDEV three; a measure that two aggregates
share counts once. S1–S3 give each measure's own sensitivity, M1 its grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.measures import Argument, Measure, MeasureKind
from dosimeter.planning.grid import Gridded, put_on_grid
from dosimeter.planning.query_plan import Estimate, EstimateKind
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

_NAMES: dict[type[exp.Expression], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Median: "median",
    exp.PercentileCont: "quantile",
    exp.VariancePop: "var_pop",
    exp.StddevPop: "stddev_pop",
}
OFF_GRID_STEPS = 2**20  # M1: what is on no grid is put on one of Δ / 2²⁰
FINEST_STEPS = 2**40  # a Δ of more steps than this gains nothing, and leaves no room for its noise
LARGEST_TOTAL = 2**60  # what OpenDP's 64-bit integers hold with room for noise


def as_aggregate(node: exp.Expression) -> bool:
    """Whether the node is one aggregate as it may stand in a SELECT list (with or without FILTER)."""
    if isinstance(node, (exp.Filter, exp.WithinGroup)):
        return as_aggregate(node.this)
    return type(node) in _NAMES


@dataclass(frozen=True, slots=True)
class Measured:
    arguments: tuple[Argument, ...]
    measures: tuple[Measure, ...]
    estimates: tuple[Estimate, ...]


@dataclass(slots=True)
class _Source:
    """One expression inside aggregates. It is profiled by value when anything needs the value."""

    tree: exp.Expression
    label: str
    gridded: Gridded | None = None
    distinct: bool = False


@dataclass(slots=True)
class Aggregates:
    """Collects aggregates in the order they are met, sharing what is the same."""

    SUPPORTED: ClassVar[str] = (
        "Supported aggregates: COUNT, COUNT(DISTINCT), SUM, AVG, MIN, MAX, MEDIAN, QUANTILE_CONT, VAR_POP, STDDEV_POP."
    )

    schema: Schema
    scope: Scope
    min_rows: int | None
    direct: bool
    groups: int = 1
    _sources: dict[str, _Source] = field(default_factory=dict)
    _measures: dict[tuple[object, ...], tuple[Measure, str | None]] = field(default_factory=dict)
    _estimates: dict[tuple[object, ...], Estimate] = field(default_factory=dict)

    def default_name(self, node: exp.Expression) -> str | None:
        """count for COUNT(*), sum_pay for SUM(pay); None for anything more involved."""
        if not as_aggregate(node) or type(node) not in _NAMES:
            return None
        argument = node.this
        if isinstance(argument, exp.Distinct):
            argument = argument.expressions[0] if argument.expressions else None
        if isinstance(argument, exp.Column):
            return f"{_NAMES[type(node)]}_{argument.name}"
        return _NAMES[type(node)]

    def add(self, node: exp.Expression) -> int:
        """The number of the estimate that this aggregate becomes."""
        label = clause_of(node)
        bare, condition = self._unfilter(node)
        match bare:
            case exp.Count():
                key, estimate = self._count(bare, condition, label)
            case exp.Sum():
                key, estimate = self._sum(bare, condition, label)
            case exp.Avg():
                key, estimate = self._moments(bare, condition, label, MeasureKind.MEAN)
            case exp.VariancePop():
                key, estimate = self._moments(bare, condition, label, MeasureKind.VARIANCE)
            case exp.StddevPop():
                key, estimate = self._moments(bare, condition, label, MeasureKind.DEVIATION)
            case exp.Min():
                key, estimate = self._quantile(bare, condition, label, Fraction(0))
            case exp.Max():
                key, estimate = self._quantile(bare, condition, label, Fraction(1))
            case exp.Median():
                key, estimate = self._quantile(bare, condition, label, Fraction(1, 2))
            case exp.PercentileCont():
                key, estimate = self._quantile(bare, condition, label, _fraction(bare))
            case _:
                raise refusal(node, f"{label} is not supported. {self.SUPPORTED}")
        self._estimates.setdefault(key, estimate)
        return list(self._estimates).index(key)

    def finish(self) -> Measured:
        positions = {key: at for at, key in enumerate(self._sources)}
        arguments = tuple(_argument(source, self.schema) for source in self._sources.values())
        measures = tuple(
            replace(measure, argument=positions[source] if source is not None else None)
            for measure, source in self._measures.values()
        )
        return Measured(arguments, measures, tuple(self._estimates.values()))

    # ------------------------------------------------------------ reading the argument

    def _unfilter(self, node: exp.Expression) -> tuple[exp.Expression, exp.Expression | None]:
        """COUNT(x) FILTER (WHERE p) is COUNT(CASE WHEN p THEN x END)."""
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

    def _value(self, node: exp.Expression | None, condition: exp.Expression | None, label: str) -> tuple[str, Gridded]:
        key = self._source(node, condition, label)
        source = self._sources[key]
        if source.gridded is None:
            source.gridded = put_on_grid(source.tree, self.schema, label)
        return key, source.gridded

    # ------------------------------------------------------------ one aggregate each

    def _measure(self, kind: MeasureKind, source: str | None, measure: Measure) -> int:
        key = (kind, source, measure.fraction, measure.min_rows)
        self._measures.setdefault(key, (measure, source))
        return list(self._measures).index(key)

    def _count_measure(self, source: str | None, label: str, *, distinct: bool = False) -> int:
        kind = MeasureKind.COUNT_DISTINCT if distinct else MeasureKind.COUNT
        bound = float(self.schema.max_rows_per_unit)  # S1
        return self._measure(kind, source, Measure(kind, None, label, Fraction(1), Fraction(1), bound, bound))

    def _count(
        self, node: exp.Expression, condition: exp.Expression | None, label: str
    ) -> tuple[tuple[object, ...], Estimate]:
        expect_only(node, "this")
        argument = node.this
        if argument is None:
            raise refusal(node, "COUNT() counts nothing. Write COUNT(*) or COUNT(column).")
        if isinstance(argument, exp.Distinct):
            expect_only(argument, "expressions")
            if len(argument.expressions) != 1:
                raise refusal(node, f"{label}: COUNT(DISTINCT) takes one column.")
            source = self._source(argument.expressions[0], condition, label, distinct=True)
            position = self._count_measure(source, label, distinct=True)
        elif isinstance(argument, (exp.Star, exp.Literal)):  # COUNT(1) is COUNT(*)
            expect_only(argument, *(("this", "is_string") if isinstance(argument, exp.Literal) else ()))
            source_or_none = None
            if condition is not None:
                source_or_none = self._source(exp.Literal.number(1), condition, label)
            position = self._count_measure(source_or_none, label)
        else:
            position = self._count_measure(self._source(argument, condition, label), label)
        return ("identity", position), Estimate(EstimateKind.IDENTITY, (position,), label, integer=True)

    def _sum(
        self, node: exp.Expression, condition: exp.Expression | None, label: str
    ) -> tuple[tuple[object, ...], Estimate]:
        expect_only(node, "this")
        source, gridded = self._value(node.this, condition, label)
        largest = max(abs(gridded.lower), abs(gridded.upper)) * self.schema.max_rows_per_unit
        grid = self._noise_grid(gridded.unit, largest)
        delta = self._nonzero(_on_grid(largest * gridded.unit, grid), label)  # S1
        measure = Measure(MeasureKind.SUM, None, label, gridded.unit, grid, delta, delta)
        position = self._measure(MeasureKind.SUM, source, measure)
        integer = gridded.unit.denominator == 1 and grid == gridded.unit
        return ("identity", position), Estimate(EstimateKind.IDENTITY, (position,), label, integer=integer)

    def _moments(
        self, node: exp.Expression, condition: exp.Expression | None, label: str, kind: MeasureKind
    ) -> tuple[tuple[object, ...], Estimate]:
        expect_only(node, "this")
        source, gridded = self._value(node.this, condition, label)
        lower, upper = gridded.lower * gridded.unit, gridded.upper * gridded.unit
        centre, width = (lower + upper) / 2, upper - lower
        self._nonzero(float(width), label)
        if self.direct:  # S7: a study measures it as one number
            empty = centre if kind is MeasureKind.MEAN else Fraction(0)
            measure = Measure(kind, None, label, gridded.unit, Fraction(0), 1.0, 1.0, empty=empty)
            position = self._measure(kind, source, measure)
            return ("identity", position), Estimate(EstimateKind.IDENTITY, (position,), label, integer=False)
        if kind is MeasureKind.MEAN and self.min_rows is not None:
            position = self._measure(MeasureKind.BOUNDED_MEAN, source, self._bounded_mean(gridded, label))
            estimate = Estimate(EstimateKind.IDENTITY, (position,), label, False, centre, lower, upper)
            return ("identity", position), estimate
        count = self._count_measure(source, f"COUNT({self._sources[source].label})")
        positions = [count, self._power_measure(MeasureKind.CENTRED_SUM, source, gridded)]
        if kind is not MeasureKind.MEAN:
            positions.append(self._power_measure(MeasureKind.CENTRED_SQUARES, source, gridded))
        via = {MeasureKind.MEAN: EstimateKind.MEAN, MeasureKind.VARIANCE: EstimateKind.VARIANCE}
        how = via.get(kind, EstimateKind.DEVIATION)
        return (how, source), Estimate(how, tuple(positions), label, False, centre, lower, upper)

    def _bounded_mean(self, gridded: Gridded, label: str) -> Measure:
        rows, floor = self.schema.max_rows_per_unit, self.min_rows
        assert floor is not None
        width = Fraction(gridded.upper - gridded.lower) * gridded.unit
        delta = rows * width / (floor + (rows if self.groups == 1 else 1))  # S2
        centre = Fraction(gridded.lower + gridded.upper, 2) * gridded.unit
        return Measure(
            MeasureKind.BOUNDED_MEAN, None, label, gridded.unit, delta / OFF_GRID_STEPS, float(delta), float(delta),
            min_rows=floor, empty=centre,
        )  # fmt: skip

    def _power_measure(self, kind: MeasureKind, source: str, gridded: Gridded) -> int:
        """Σ(2v − (L + U)) in half steps, or the sum of its squares in quarter square steps: whole numbers both (S2)."""
        steps, rows = gridded.upper - gridded.lower, self.schema.max_rows_per_unit
        squares = kind is MeasureKind.CENTRED_SQUARES
        unit = (gridded.unit / 2) ** 2 if squares else gridded.unit / 2
        largest = rows * (steps**2 if squares else steps)
        label = f"{kind} of {self._sources[source].label}"
        if largest >= LARGEST_TOTAL:
            raise QueryError(
                f"{label} is too large to count exactly. Narrow the bounds or coarsen the resolution in the schema.",
                clause=self._sources[source].label,
            )
        grid = self._noise_grid(unit, largest)
        delta = _on_grid(largest * unit, grid)
        measure = Measure(kind, None, label, unit, grid, delta, delta)
        return self._measure(kind, source, measure)

    def _quantile(
        self, node: exp.Expression, condition: exp.Expression | None, label: str, fraction: Fraction
    ) -> tuple[tuple[object, ...], Estimate]:
        expect_only(node, "this", *(("expression",) if isinstance(node, exp.PercentileCont) else ()))
        source, gridded = self._value(node.this, condition, label)
        lower, upper = gridded.lower * gridded.unit, gridded.upper * gridded.unit
        width = upper - lower
        rows = self.schema.max_rows_per_unit
        share = max(fraction, 1 - fraction) if rows == 1 else Fraction(1)  # S3
        delta = share * width
        self._nonzero(float(delta), label)
        centre = (lower + upper) / 2
        extreme = fraction in (0, 1)
        # MIN and MAX are values of the column or the middle of the bounds, so they are on the half grid at worst.
        on_grid = gridded.unit if (centre / gridded.unit).denominator == 1 else gridded.unit / 2
        grid = on_grid if extreme else delta / OFF_GRID_STEPS
        moved = min(rows, self.groups)  # S3: an individual's rows may fall into several groups
        measure = Measure(
            MeasureKind.QUANTILE, None, label, gridded.unit, grid, float(moved * delta),
            float(delta) if moved == 1 else math.nextafter(math.sqrt(moved) * float(delta), math.inf),
            fraction=fraction, empty=centre,
        )  # fmt: skip
        position = self._measure(MeasureKind.QUANTILE, source, measure)
        estimate = Estimate(EstimateKind.IDENTITY, (position,), label, False, centre, lower, upper)
        return ("identity", position), estimate

    # ------------------------------------------------------------ small checks

    def _nonzero(self, delta: float, label: str) -> float:
        if delta > 0.0:
            return delta
        raise QueryError(
            f"{label} cannot change: its bounds leave it no room. Correct the bounds of its columns in the schema.",
            clause=label,
        )

    def _noise_grid(self, unit: Fraction, largest: int) -> Fraction:
        """The unit itself, or a power-of-two multiple when n people, or the noise of a small ε, could leave 64 bits."""
        people = self.schema.individuals or 2**30
        grid = unit
        while largest * people * (unit / grid) >= LARGEST_TOTAL or largest * (unit / grid) >= FINEST_STEPS:
            grid *= 2
        return grid


def _on_grid(delta: Fraction, grid: Fraction) -> float:
    """Δ in whole steps of the noise grid, up: rounding a total to a coarser grid can add to what one person moves."""
    return float(math.ceil(delta / grid) * grid)


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
    grid = source.gridded
    return Argument("value", grid.tree, source.label, grid.unit, grid.lower, grid.upper)
