"""Collect the aggregates of a query: what they read, the measures that get noise, the estimates computed from measures.

How each aggregate becomes measures is written in the measures package (``AGGREGATES``). A measure that two aggregates
share counts once (N3).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import cast

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.measures import (
    AGGREGATES,
    MOST_CANDIDATES,
    AggregateCall,
    Argument,
    ArgumentMeasure,
    Distinct,
    Estimate,
    Measure,
    SensitivityFacts,
    Source,
    candidate_step,
    take_spread,
)
from dosimeter.planning.rows.grid import put_on_grid
from dosimeter.planning.rows.powers import find_unbounded, place_among_powers
from dosimeter.planning.rows.steps import Gridded, TooDeep, keep_within, round_to_candidates
from dosimeter.problems import for_controller
from dosimeter.schema import ColumnType, Schema
from dosimeter.sql import (
    Scope,
    Type,
    check_condition,
    check_expression,
    check_total,
    clause_of,
    conjunction,
    constant_tree,
    expect_only,
    is_not_null,
    limit_text,
    make_total,
    refusal,
    wrap,
)

SUPPORTED = f"Supported aggregates: {', '.join(name for each in AGGREGATES.values() for name in each.names)}."


def is_single_aggregate(node: exp.Expression) -> bool:
    """Return whether the node is a single aggregate, with or without FILTER, as it may stand in a SELECT list."""
    if isinstance(node, (exp.Filter, exp.WithinGroup)):
        return is_single_aggregate(node.this)
    return type(node) in AGGREGATES


def unfold_within_group(node: exp.WithinGroup, *kinds: type[exp.Expression]) -> exp.Expression:
    """Return PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x) as a call of that function with two arguments, x and p.

    ``kinds``: the functions that are allowed; others are refused.
    """
    quantile, order = node.this, node.expression
    keys = order.expressions if isinstance(order, exp.Order) else []
    if not isinstance(quantile, kinds) or len(keys) != 1 or keys[0].args.get("desc"):
        raise refusal(node, f"{clause_of(node)} is not supported. Write QUANTILE_CONT(column, fraction).")
    expect_only(node, "this", "expression")
    expect_only(quantile, "this")
    expect_only(keys[0], "this", "nulls_first")
    return type(quantile)(this=keys[0].this, expression=quantile.this)


@dataclass(frozen=True, slots=True)
class CollectedAggregates:
    """The arguments that the aggregates of a query read, the measures with noise, the estimates computed from these."""

    arguments: tuple[Argument, ...]
    measures: tuple[Measure, ...]
    estimates: tuple[Estimate, ...]


@dataclass(slots=True)
class _Expression:
    """One expression that aggregates read. ``label``: as messages name it.

    ``gridded``: its values in whole grid steps; None if no aggregate needs these, as COUNT does not. ``distinct``:
    whether it is read for its different values.
    """

    tree: exp.Expression
    label: str
    gridded: Gridded | None = None
    distinct: bool = False


@dataclass(slots=True)
class AggregateCollector:
    """A collector of aggregates, in the order in which they are met. Equal aggregates are kept once.

    ``min_rows``: the fewest rows with a value that each group of an AVG is publicly known to have; None if unknown.
    ``by_hand``: whether a sensitivity is given by hand; then each aggregate is measured as one number. ``groups``: the
    number of declared groups, or the most groups that one individual can be in where groups are thresholded.
    ``rank_cells``: how many cells are drawn by rank at most, as declared groups × order statistics (MIN, MEDIAN …); 0
    where order statistics get noise. ``search``: where MIN and MAX are to find bounds, the most candidates of each
    (B1); a column without bounds is then read by the powers of ten between which its values lie. ``_sources``: the
    expressions that aggregates read, each by a text that identifies it (``Source.key``). ``_measures``: each measure
    with the key of the expression that it reads (empty for COUNT(*)); measures of the same type, expression and
    parameters are one. ``_estimates``: the aggregates asked for, each by its type and the indices of the measures that
    it is computed from.
    """

    schema: Schema
    scope: Scope
    min_rows: int | None
    by_hand: bool
    groups: int = 1
    rank_cells: int = 0
    search: int | None = None
    _sources: dict[str, _Expression] = field(default_factory=dict)
    _measures: dict[tuple[object, ...], tuple[Measure, str]] = field(default_factory=dict)
    _estimates: dict[tuple[type[Estimate], tuple[int, ...]], Estimate] = field(default_factory=dict)

    def default_name(self, node: exp.Expression) -> str | None:
        """Return the default name of an aggregate's column: count for COUNT(*), sum_pay for SUM(pay).

        None if the node is not an aggregate by itself.
        """
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
        """Add an aggregate and return the index of its estimate: the released table has it in the column e<index>."""
        label = clause_of(node)
        bare, condition = self._unfilter(node)
        aggregate = AGGREGATES.get(type(bare))
        if aggregate is None:
            raise refusal(node, f"{label} is not supported. {SUPPORTED}")
        estimate = aggregate.read(self, AggregateCall(bare, condition, label))
        key = (type(estimate), estimate.measures)
        self._estimates.setdefault(key, estimate)
        return list(self._estimates).index(key)

    def finish(self) -> CollectedAggregates:
        """Return everything that was collected.

        Arguments are made only here, when all aggregates are known: COUNT(pay) by itself needs to know only whether pay
        is NULL, but beside SUM(pay) both read one argument, which holds the values.
        """
        positions = {key: at for at, key in enumerate(self._sources)}
        arguments = tuple(_argument(source, self.schema) for source in self._sources.values())
        found_any: dict[tuple[type[Measure], int], int] = {}
        measures: list[Measure] = []
        for measure, source in self._measures.values():
            if isinstance(measure, ArgumentMeasure):
                position = positions[source]
                nth = found_any.setdefault((type(measure), position), 0)
                found_any[type(measure), position] += 1
                measure = replace(measure, argument=arguments[position], position=position, nth=nth)
            measures.append(measure)
        return CollectedAggregates(arguments, tuple(measures), tuple(self._estimates.values()))

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Return the measures that were added so far."""
        return tuple(measure for measure, _ in self._measures.values())

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """Return the estimates that were added so far."""
        return tuple(self._estimates.values())

    @property
    def facts(self) -> SensitivityFacts:
        """Return the public facts that sensitivities depend on, besides the bounds.

        These are the most rows of one individual, the number of individuals, and ``groups``.
        """
        return SensitivityFacts(self.schema.max_rows_per_unit, self.schema.individuals, self.groups)

    @property
    def by_ranks(self) -> bool:
        """Return whether order statistics are drawn by rank (M4)."""
        return self.rank_cells > 0

    def _unfilter(self, node: exp.Expression) -> tuple[exp.Expression, exp.Expression | None]:
        """Return an aggregate without its FILTER, and the FILTER's condition (None without one)."""
        if isinstance(node, exp.WithinGroup):
            return unfold_within_group(node, exp.PercentileCont, exp.PercentileDisc), None
        if isinstance(node, exp.Filter):
            expect_only(node, "this", "expression")
            bare, inner = self._unfilter(node.this)
            if inner is not None:
                raise refusal(node, f"{clause_of(node)}: one FILTER is enough.")
            return bare, check_condition(node.expression.this, self.scope)
        return node, None

    # ------------------------------------------------------------ what a reader may ask for

    def take(self, call: AggregateCall, node: exp.Expression | None, *, distinct: bool = False) -> Source:
        """Return the source of an aggregate over x: what it reads of each row. COUNT(x) reads only whether x is NULL.

        ``call``: the aggregate; where its FILTER does not hold, x counts as NULL. ``node``: x, refused if it is missing
        or begins with DISTINCT. ``distinct``: whether to read the values of x, which COUNT(DISTINCT x) tells apart.
        """
        if node is None:
            raise QueryError(f"{call.label} has no argument. Name a column.", clause=call.label)
        if isinstance(node, exp.Distinct):
            raise refusal(node, f"{call.label}: DISTINCT is supported in COUNT only.")
        checked = check_expression(node, self.scope)
        tree = checked.tree
        if distinct and checked.type is Type.TEXT:  # engines hold the values that they tell apart
            tree = limit_text(tree.copy(), self.schema)
        return self._add_source(tree, call.condition, node, distinct=distinct)

    def take_distinct(self, call: AggregateCall, node: exp.Expression) -> Distinct:
        """Return what COUNT(DISTINCT x) reads. If x is the unit, the result is marked as counting individuals (Q3).

        If x is another column, its declared values may be fewer than the rows that one individual can have. Then only
        declared values count, and ``values`` of the result is their number, the most that one individual can add to
        the count of a group. Otherwise ``values`` is None.
        """
        tree = check_expression(node, self.scope).tree
        if isinstance(tree, exp.Column) and tree.name == self.schema.unit:
            return Distinct(self.take(call, node), individuals=True)
        values, is_declared = _declared_list(tree, self.schema)
        if values is not None and values >= self.facts.rows:
            values = None
        condition = call.condition
        if values is not None and is_declared is not None:  # then only declared values count
            condition = conjunction([*([] if condition is None else [condition]), is_declared])
        return Distinct(self.take(replace(call, condition=condition), node, distinct=True), values=values)

    def take_condition(self, call: AggregateCall, node: exp.Expression | None) -> Source:
        """Return the source of an aggregate that reads whether a condition holds: 1 where it does, otherwise NULL."""
        if node is None or isinstance(node, exp.Distinct):
            raise QueryError(f"{call.label} takes one condition.", clause=call.label)
        parts = [part for part in (call.condition, check_condition(node, self.scope)) if part is not None]
        return self._add_source(check_expression(exp.Literal.number(1), self.scope).tree, conjunction(parts), node)

    def take_value(self, call: AggregateCall) -> Source:
        """Return the source of an aggregate that reads values: whole steps of their grid, clamped to their bounds."""
        key = self.take(call, call.node.this).key
        source = self._sources[key]
        if source.gridded is None:
            unbounded = None if self.search is None else find_unbounded(source.tree, self.schema)
            source.gridded = (
                _measurable(source.tree, self.schema, call.label)
                if unbounded is None
                else place_among_powers(source.tree, unbounded.type)
            )
        return Source(key, _on_grid(source.gridded, source.label))

    def take_rounded_value(self, call: AggregateCall) -> tuple[Source, int]:
        """Return the source of an order statistic that is drawn by rank, and the step of its candidates (M4).

        The candidates are the values among which one is drawn; their step is in grid steps. The source has each value
        rounded to the nearest candidate.
        """
        before = set(self._sources)
        fine = self.take_value(call)
        step = candidate_step(fine.argument.width, self.rank_cells, self.search or MOST_CANDIDATES)
        if step == 1:
            return fine, step
        source = self._sources[fine.key]
        if fine.key not in before:  # nothing else reads the values as fine as they are
            del self._sources[fine.key]
        assert source.gridded is not None
        gridded = round_to_candidates(source.gridded, step)
        key = f"{fine.key} every {step}"
        self._sources.setdefault(key, _Expression(source.tree, source.label, gridded))
        return Source(key, _on_grid(gridded, source.label)), step

    def take_pair(self, call: AggregateCall) -> tuple[Source, Source, Source]:
        """Return the three sources of an aggregate over x and y, such as COVAR: x, y, and a product of both.

        The factors of the product are how far x and y lie from the middle of their bounds (S2). All three sources are
        NULL where x or y is NULL.
        """
        sides = (call.node.this, call.node.expression)
        if any(side is None for side in sides):
            raise QueryError(f"{call.label} takes two columns.", clause=call.label)
        trees = [check_total(side, self.scope) for side in sides]
        x, y = (self._take_beside(call, written, other) for written, other in zip(sides, reversed(trees), strict=True))
        product = exp.Mul(this=exp.Paren(this=_centre(x)), expression=exp.Paren(this=_centre(y)))
        largest, unit = x.argument.width * y.argument.width, x.argument.unit * y.argument.unit / 4
        key, label = f"{x.key} × {y.key}", f"{x.argument.label} × {y.argument.label}"
        try:
            gridded = Gridded(product, -largest, largest, unit)
        except OverflowError:
            raise QueryError(
                f"{call.label} is too large to count exactly.",
                for_controller("Narrow the bounds or coarsen the resolution in the schema."),
                clause=call.label,
            ) from None
        self._sources.setdefault(key, _Expression(product, label, gridded))
        return x, y, Source(key, _on_grid(gridded, label))

    def _take_beside(self, call: AggregateCall, written: exp.Expression, other: exp.Expression) -> Source:
        """Return the source of one argument of an aggregate such as CORR(x, y), NULL where the other one is NULL.

        ``written``: the argument as the analyst wrote it. ``other``: the tree of the other argument.
        """
        condition = conjunction([*([] if call.condition is None else [call.condition]), is_not_null(wrap(other))])
        return take_spread(self, AggregateCall(exp.Paren(this=written), condition, call.label))

    def measure(self, measure: Measure, source: Source | None = None) -> int:
        """Add a measure over a source, unless the same one was added, and return its index among the measures."""
        read = "" if source is None else source.key
        key = (type(measure), read, *measure.parameters)
        self._measures.setdefault(key, (measure, read))
        return list(self._measures).index(key)

    def _add_source(
        self,
        tree: exp.Expression,
        condition: exp.Expression | None,
        node: exp.Expression,
        *,
        distinct: bool = False,
    ) -> Source:
        """Add an expression that an aggregate reads, NULL where a condition does not hold, and return its source.

        ``tree``: the expression, checked. ``node``: the same as written, for messages. The source says of each row only
        whether the expression is NULL; ``take_value`` adds its values later, if an aggregate such as SUM needs them.
        """
        if condition is not None:
            tree = exp.Case(ifs=[exp.If(this=condition.copy(), true=tree)])
        key = f"{'distinct ' if distinct else ''}{tree.sql(dialect='duckdb')}"
        source = self._sources.setdefault(key, _Expression(tree, clause_of(node), distinct=distinct))
        return Source(key, Argument("presence", source.tree, source.label))


def _centre(source: Source) -> exp.Expression:
    return source.argument.centred(source.argument.tree.copy())


def _declared_list(tree: exp.Expression, schema: Schema) -> tuple[int | None, exp.Expression | None]:
    """Return how many values a column is declared to have, and the condition that a value is one of them.

    For a column of three declared cities: 3, and city IN ('Aby', 'Bro', 'Cam'). A boolean column has 2 values and needs
    no condition: None. Both are None unless the tree is a boolean column, a category with values or an integer with
    bounds.
    """
    if not isinstance(tree, exp.Column):
        return None, None
    column = schema.columns[tree.name]
    if column.type is ColumnType.BOOLEAN:
        return 2, None
    if column.type is ColumnType.CATEGORY and column.values is not None:
        values = [exp.Literal.string(value) for value in column.values]
        return len(values), exp.In(this=tree.copy(), expressions=values)
    if column.type is ColumnType.INTEGER and column.bounds is not None:
        low, high = (int(bound) for bound in cast("tuple[Decimal, Decimal]", column.bounds))
        return high - low + 1, exp.Between(this=tree.copy(), low=constant_tree(low), high=constant_tree(high))
    return None, None


def _argument(source: _Expression, schema: Schema) -> Argument:
    if source.distinct:
        return Argument("distinct", make_total(source.tree, schema), source.label)
    if source.gridded is None:
        return Argument("presence", make_total(source.tree, schema), source.label)
    return _on_grid(source.gridded, source.label)


def _measurable(tree: exp.Expression, schema: Schema, label: str) -> Gridded:
    """Return a tree in whole grid steps, clamped once more to its bounds, since sensitivities rest on these (S9)."""
    gridded = put_on_grid(tree, schema, label)
    try:
        return keep_within(gridded)
    except TooDeep:
        raise QueryError(f"{label[:200]} is nested too deeply. Simplify it.", clause=label) from None


def _on_grid(gridded: Gridded, label: str) -> Argument:
    return Argument("value", gridded.tree, label, gridded.unit, gridded.lower, gridded.upper)
