"""The SQL that runs: trees written from a QueryPlan, for any engine to transpile. Never opens a connection.

The *profile* query groups individuals by what they contribute and counts each kind: one scan with the WHERE pushed
down, small results (C9). The *answer* query gives the exact totals. The *people* query looks up the records behind
some profile rows. Column names are fixed: g0 … groups, a0 … arguments, x0 … extra attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from sqlglot import exp

from dosimeter.influence.units.trees import is_declared
from dosimeter.measures import Argument, MeasureKind
from dosimeter.planning import QueryPlan
from dosimeter.sql import as_double, column_tree, conjunction, wrap

PEOPLE = "people"
INSIDE = "inside"


def profile_query(
    plan: QueryPlan, relation: exp.Expression, attributes: Mapping[str, exp.Expression] | None = None
) -> exp.Select:
    """Distinct contributions and how many individuals have each.

    With attributes (FILTER flags, ``--by``) everybody is profiled: the WHERE becomes the column ``inside``.
    """
    everyone = attributes is not None
    query = _histogram(plan, relation, attributes or {}, everyone=everyone)
    reduced: dict[str, exp.Expression] = {}
    for position in range(len(plan.arguments)):
        query, columns = _reduce(plan, query, position)
        reduced.update(columns)
    declared = _declared_groups(plan)
    if not reduced and not declared:
        return query
    keys = [key for key in _keys(plan, everyone, attributes or {}) if key not in _dropped(plan)]
    final = [_alias(declared.get(key) or column_tree(key), key) for key in keys]
    final += [_alias(tree, name) for name, tree in reduced.items()]
    counted = exp.Cast(this=exp.Sum(this=column_tree(PEOPLE)), to=exp.DataType.build("BIGINT"))
    return _select([*final, _alias(counted, PEOPLE)], _as_subquery(query, "ranked"), group=len(final))


def _declared_groups(plan: QueryPlan) -> dict[str, exp.Expression]:
    """Return each group column's value, NULL where nobody declared it: such values are not fetched (N4)."""
    tests = _group_tests(plan)
    return {name: exp.Case(ifs=[exp.If(this=test, true=column_tree(name))]) for name, test in tests.items()}


def _group_tests(plan: QueryPlan) -> dict[str, exp.Expression]:
    """Return whether each group column of a result has a declared value; nothing where groups are observed."""
    declared = {f"g{at}": group.values for at, group in enumerate(plan.groups)}
    return {name: is_declared(column_tree(name), values) for name, values in declared.items() if values is not None}


def input_column(plan: QueryPlan, measure: int) -> str | None:
    """The profile column a measure reads; None for COUNT(*)."""
    argument, fraction = plan.measures[measure].argument, plan.measures[measure].fraction
    if argument is None:
        return None
    fractions = _reduction(plan, argument)
    if fractions is None:
        return f"a{argument}"
    return f"a{argument}_alone" if fraction is None else f"a{argument}_q{fractions.index(fraction)}"


def answer_query(plan: QueryPlan, relation: exp.Expression) -> exp.Select | None:
    """The exact totals of every group, in whole steps of each measure's unit. None when a measure is no plain total."""
    totals = []
    for position, measure in enumerate(plan.measures):
        tree = _total(measure.kind, plan.arguments[measure.argument] if measure.argument is not None else None)
        if tree is None:
            return None
        totals.append(_alias(tree, f"m{position}"))
    groups = [_alias(group.tree.copy(), f"g{at}") for at, group in enumerate(plan.groups)]
    query = _select([*groups, *totals], relation, where=plan.where, group=len(groups))
    declared = conjunction(_group_tests(plan).values())
    return query if declared is None else _select([exp.Star()], _as_subquery(query, "totals"), where=declared)


def people_query(
    plan: QueryPlan, relation: exp.Expression, shown: Sequence[str], condition: exp.Expression, limit: int
) -> exp.Select:
    """Records that meet the WHERE and the condition, identical ones grouped."""
    columns = [_alias(column_tree(name), name) for name in shown]
    where = conjunction(tree for tree in (plan.where, condition) if tree is not None)
    query = _select([*columns, _alias(_count_star(), PEOPLE)], relation, where=where, group=len(columns))
    # By position: a column of the data may have any name.
    order = [exp.Ordered(this=exp.Literal.number(len(shown) + 1), desc=True)]
    order += [exp.Ordered(this=exp.Literal.number(at + 1), nulls_first=False) for at in range(len(shown))]
    query.set("order", exp.Order(expressions=order))
    return query.limit(limit, copy=False)


def held_values_query(
    plan: QueryPlan, relation: exp.Expression, tree: exp.Expression, within: exp.Expression, *, alone: bool
) -> exp.Select:
    """Return the values of an expression that one individual holds alone, or those that several share.

    Only those who meet the WHERE and ``within`` count.
    """
    where = conjunction(part for part in (plan.where, within) if part is not None)
    query = _select([_alias(tree.copy(), "value")], relation, where=where, group=1)
    compared = exp.EQ if alone else exp.GT
    query.set("having", exp.Having(this=compared(this=_count_star(), expression=exp.Literal.number(1))))
    return query


def count_query(relation: exp.Expression) -> exp.Select:
    return _select([_alias(_count_star(), PEOPLE)], relation)


# ---------------------------------------------------------------- the histogram of contributions


def _keys(plan: QueryPlan, everyone: bool, attributes: Mapping[str, exp.Expression]) -> list[str]:
    keys = [f"g{at}" for at in range(len(plan.groups))] + [f"a{at}" for at in range(len(plan.arguments))]
    if everyone:
        keys.append(INSIDE)
    return keys + list(attributes)


def _histogram(
    plan: QueryPlan, relation: exp.Expression, attributes: Mapping[str, exp.Expression], *, everyone: bool
) -> exp.Select:
    inside = exp.Coalesce(this=wrap(plan.where.copy()), expressions=[exp.Boolean(this=False)]) if plan.where else None

    def only_inside(tree: exp.Expression) -> exp.Expression:
        if not everyone or inside is None:
            return tree
        return exp.Case(ifs=[exp.If(this=inside.copy(), true=tree)])

    columns = [_alias(only_inside(group.tree.copy()), f"g{at}") for at, group in enumerate(plan.groups)]
    columns += [_alias(only_inside(_argument_tree(arg)), f"a{at}") for at, arg in enumerate(plan.arguments)]
    if everyone:
        columns.append(_alias(inside.copy() if inside is not None else exp.Boolean(this=True), INSIDE))
    columns += [_alias(tree.copy(), name) for name, tree in attributes.items()]
    where = None if everyone else plan.where
    return _select([*columns, _alias(_count_star(), PEOPLE)], relation, where=where, group=len(columns))


def _argument_tree(argument: Argument) -> exp.Expression:
    if argument.role == "presence":
        present = exp.Not(this=exp.Is(this=wrap(argument.tree.copy()), expression=exp.Null()))
        return exp.Case(ifs=[exp.If(this=present, true=exp.Literal.number(1))])
    return argument.tree.copy()


# ---------------------------------------------------------------- what can be told by few values


def _reduction(plan: QueryPlan, argument: int) -> list[Fraction] | None:
    """Whether an argument is read only through order statistics (then which), or through who alone holds a value.

    Then the profile keeps just the few values around each order statistic (C3), or one flag (C4).
    """
    readers = [measure for measure in plan.measures if measure.argument == argument]
    kinds = {measure.kind for measure in readers}
    if kinds == {MeasureKind.COUNT_DISTINCT} or kinds == {MeasureKind.QUANTILE}:
        return [measure.fraction for measure in readers if measure.fraction is not None]
    return None


def _dropped(plan: QueryPlan) -> set[str]:
    return {f"a{at}" for at in range(len(plan.arguments)) if _reduction(plan, at) is not None}


def _reduce(plan: QueryPlan, query: exp.Select, position: int) -> tuple[exp.Select, dict[str, exp.Expression]]:
    """The query with what the reduction of one argument needs, and the columns that take the argument's place."""
    fractions = _reduction(plan, position)
    if fractions is None:
        return query, {}
    name = f"a{position}"
    groups = [f"g{at}" for at in range(len(plan.groups))]
    kept = [column.alias for column in query.selects]
    present = exp.Not(this=exp.Is(this=column_tree(name), expression=exp.Null()))
    counted = exp.Case(ifs=[exp.If(this=present, true=column_tree(PEOPLE))], default=exp.Literal.number(0))
    holders = _over(exp.Sum(this=counted.copy()), [*groups, name])
    if not fractions:
        ranked = _extend(query, kept, {f"{name}_holders": holders})
        alone = exp.EQ(this=column_tree(f"{name}_holders"), expression=exp.Literal.number(1))
        flag = exp.Case(ifs=[exp.If(this=alone, true=exp.Literal.number(1))], default=exp.Literal.number(0))
        return ranked, {f"{name}_alone": flag}
    upto = _over(exp.Sum(this=counted.copy()), groups, order=name)
    total = _over(exp.Sum(this=counted), groups)
    ranked = _extend(query, kept, {f"{name}_same": holders, f"{name}_upto": upto, f"{name}_total": total})
    kept = [column.alias for column in ranked.selects]
    reach = plan.schema.max_rows_per_unit + 1
    bounds: dict[str, exp.Expression] = {}
    clamped: dict[str, exp.Expression] = {}
    for at, fraction in enumerate(fractions):
        near = _near_order_statistic(name, fraction, reach)
        around = exp.Case(ifs=[exp.If(this=near, true=column_tree(name))])
        bounds[f"{name}_low{at}"] = _over(exp.Min(this=around), groups)
        bounds[f"{name}_high{at}"] = _over(exp.Max(this=around.copy()), groups)
        clamped[f"{name}_q{at}"] = _clamp(name, f"{name}_low{at}", f"{name}_high{at}")
    return _extend(ranked, kept, bounds), clamped


def _near_order_statistic(name: str, fraction: Fraction, reach: int) -> exp.Expression:
    """Whether the value's ranks come within ``reach`` of the quantile's rank p(N − 1).

    Leaving out up to m rows moves that rank by at most m, so clamping to these values changes no outcome; one rank
    more than needed on either side also covers the rounding of a double.
    """
    rank = exp.Floor(
        this=exp.Div(
            this=exp.Mul(
                this=as_double(exp.Literal.number(fraction.numerator)),
                expression=as_double(exp.Sub(this=column_tree(f"{name}_total"), expression=exp.Literal.number(1))),
            ),
            expression=as_double(exp.Literal.number(fraction.denominator)),
            typed=False,
            safe=False,
        )
    )
    first = exp.Sub(this=column_tree(f"{name}_upto"), expression=column_tree(f"{name}_same"))
    above = exp.GTE(
        this=column_tree(f"{name}_upto"), expression=exp.Sub(this=rank, expression=exp.Literal.number(reach))
    )
    below = exp.LTE(this=wrap(first), expression=exp.Add(this=rank.copy(), expression=exp.Literal.number(reach + 1)))
    present = exp.Not(this=exp.Is(this=column_tree(name), expression=exp.Null()))
    near = conjunction([present, above, below])
    assert near is not None
    return near


def _clamp(name: str, low: str, high: str) -> exp.Expression:
    value = column_tree(name)
    return exp.Case(
        ifs=[
            exp.If(this=exp.LT(this=value, expression=column_tree(low)), true=column_tree(low)),
            exp.If(this=exp.GT(this=value.copy(), expression=column_tree(high)), true=column_tree(high)),
        ],
        default=value.copy(),
    )


# ---------------------------------------------------------------- totals


def _total(kind: MeasureKind, argument: Argument | None) -> exp.Expression | None:
    if argument is None:
        return _count_star()
    tree = argument.tree.copy()
    match kind:
        case MeasureKind.COUNT:
            return exp.Count(this=tree)
        case MeasureKind.COUNT_DISTINCT:
            return exp.Count(this=exp.Distinct(expressions=[tree]))
        case MeasureKind.SUM:
            return _exact_sum(tree)
        case MeasureKind.CENTRED_SUM:
            return _exact_sum(_centred(argument))
        case MeasureKind.CENTRED_SQUARES:
            centred = exp.Paren(this=_centred(argument))
            return _exact_sum(exp.Mul(this=centred, expression=centred.copy()))
        case _:
            return None


def _centred(argument: Argument) -> exp.Expression:
    doubled = exp.Mul(this=exp.Literal.number(2), expression=wrap(argument.tree.copy()))
    middle = argument.lower + argument.upper
    shift: exp.Expression = exp.Literal.number(abs(middle))
    return exp.Sub(this=doubled, expression=shift) if middle >= 0 else exp.Add(this=doubled, expression=shift)


def _exact_sum(tree: exp.Expression) -> exp.Expression:
    """S8: summed as DECIMAL(38, 0); an empty group sums to 0 (C6)."""
    total = exp.Sum(this=exp.Cast(this=tree, to=exp.DataType.build("DECIMAL(38, 0)")))
    return exp.Coalesce(this=total, expressions=[exp.Literal.number(0)])


# ---------------------------------------------------------------- small builders


def _alias(tree: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True))


def _count_star() -> exp.Expression:
    return exp.Count(this=exp.Star())


def _select(
    columns: Sequence[exp.Expression],
    source: exp.Expression,
    *,
    where: exp.Expression | None = None,
    group: int = 0,
) -> exp.Select:
    """SELECT columns FROM source [WHERE …] [GROUP BY 1 … group]: the group columns come first, by position."""
    query = exp.select(*columns, copy=False).from_(source.copy(), copy=False)
    if where is not None:
        query = query.where(where.copy(), copy=False)
    if group:
        query.set("group", exp.Group(expressions=[exp.Literal.number(at + 1) for at in range(group)]))
    return query


def _as_subquery(query: exp.Select, alias: str) -> exp.Expression:
    return query.subquery(alias, copy=False)


def _extend(query: exp.Select, kept: Sequence[str], more: Mapping[str, exp.Expression]) -> exp.Select:
    columns = [_alias(column_tree(name), name) for name in kept] + [_alias(t, name) for name, t in more.items()]
    return _select(columns, _as_subquery(query, "inner_query"))


def _over(function: exp.Expression, partition: Sequence[str], *, order: str | None = None) -> exp.Expression:
    """A window over the partition; with an order, running up to and including equal values."""
    window = exp.Window(this=function, partition_by=[column_tree(name) for name in partition], over="OVER")
    if order is not None:
        window.set("order", exp.Order(expressions=[exp.Ordered(this=column_tree(order), nulls_first=False)]))
        window.set(
            "spec",
            exp.WindowSpec(kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"),
        )
    return window
