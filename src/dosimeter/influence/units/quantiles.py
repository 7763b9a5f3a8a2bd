"""Which values individuals hold: those that nobody else holds, and those around a quantile (C3, C4).

Trees for any engine to transpile. Never opens a connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sqlglot import exp

from dosimeter.influence.units.trees import (
    UNIT,
    alias,
    as_text,
    concatenated,
    declared_rows,
    entry_keys,
    is_there,
    key_columns,
    listed_text,
    same_keys,
)
from dosimeter.planning import QueryPlan
from dosimeter.sql import as_double, conjunction, wrap


def fractions_of(plan: QueryPlan, argument: int) -> list[Fraction]:
    """The quantiles asked of an argument, in order."""
    return [m.fraction for m in plan.measures if m.argument == argument and m.fraction is not None]


def quantile_of(field: str) -> tuple[int, int]:
    """The argument, and the place of the quantile among those asked of it, of a field v…"""
    position, at = field[1:].split("_")
    return int(position), int(at)


def held_alone(plan: QueryPlan, relation: exp.Expression, position: int) -> exp.Select:
    """Per individual (and group): how many values nobody else in the group holds (C4)."""
    value = exp.column(f"a{position}")
    by_value = [*key_columns(plan)[1:], value]
    first, last = exp.Min(this=exp.column(UNIT)), exp.Max(this=exp.column(UNIT))
    lonely = (
        exp.select(alias(first, "holder"), *[key.copy() for key in by_value[:-1]])
        .from_(declared_rows(plan, relation, is_there(value.copy())).subquery("held_rows"))
        .group_by(*by_value)
        .having(exp.EQ(this=first.copy(), expression=last))
    )
    keys = [exp.column("holder"), *key_columns(plan)[1:]]
    shown = [alias(keys[0], UNIT), *keys[1:], alias(exp.Count(this=exp.Star()), f"d{position}")]
    return exp.select(*shown).from_(lonely.subquery("lonely")).group_by(*[key.copy() for key in keys])


def near_query(plan: QueryPlan, relation: exp.Expression, position: int, at: int) -> exp.Select:
    """The values around a quantile, per group: all that it can become when up to m rows are left out (C3).

    Beside each value v: how often it stands there (c), how many values there are up to it, and how many in all.
    """
    value, groups = exp.column(f"a{position}"), key_columns(plan)[1:]
    histogram = (
        exp.select(*groups, alias(value, "v"), alias(exp.Count(this=exp.Star()), "c"))
        .from_(declared_rows(plan, relation, is_there(value.copy())).subquery("value_rows"))
        .group_by(*[group.copy() for group in groups], value.copy())
    )
    near = _is_near(fractions_of(plan, position)[at], plan.schema.max_rows_per_unit + 1)
    found = exp.select(*[group.copy() for group in groups], *[exp.column(name) for name in ("v", "c", "upto", "total")])
    return found.from_(_ranked(histogram, groups).subquery("ranked")).where(near)


def places_query(
    plan: QueryPlan, relation: exp.Expression, position: int, at: int, places: Sequence[Sequence[str]]
) -> exp.Select:
    """The values around a quantile in one row, under these names for each group, in order.

    They are looked up again where they are needed: a value of the data never stands in the text of a query, which
    servers write to their logs.
    """
    groups = key_columns(plan)[1:]
    place = exp.Window(
        this=exp.RowNumber(),
        partition_by=[group.copy() for group in groups],
        order=exp.Order(expressions=[exp.Ordered(this=exp.column("v"), nulls_first=False)]),
        over="OVER",
    )
    placed = exp.select(*groups, exp.column("v"), alias(place, "place"))
    placed = placed.from_(near_query(plan, relation, position, at).subquery("near"))
    columns = []
    for number, names in enumerate(places):
        inside = [exp.EQ(this=group.copy(), expression=exp.Literal.number(number)) for group in groups]
        for order, name in enumerate(names, start=1):
            here = exp.EQ(this=exp.column("place"), expression=exp.Literal.number(order))
            value = exp.Case(ifs=[exp.If(this=conjunction([*inside, here]), true=exp.column("v"))])
            columns.append(alias(exp.Max(this=value), name))
    return exp.select(*columns).from_(placed.subquery("placed"))


def count_near(value: exp.Expression, places: Sequence[exp.Expression], at: int) -> exp.Expression:
    """How often an individual has the value at this place among those around a quantile, or one beyond the border."""
    if len(places) == 1:
        return exp.Count(this=value)
    kind = exp.LTE if at == 0 else exp.GTE if at == len(places) - 1 else exp.EQ
    test = kind(this=wrap(value), expression=places[at].copy())
    return exp.Count(this=exp.Case(ifs=[exp.If(this=test, true=exp.Literal.number(1))]))


def values_near(plan: QueryPlan, relation: exp.Expression, position: int, at: int) -> exp.Select:
    """Per individual (and group): their values as ``valuextimes,…``, clamped to those around the quantile (C3).

    Leaving out up to m rows moves a quantile's rank by at most m, so values further away can be moved to the border
    without changing any outcome.
    """
    groups = key_columns(plan)[1:]
    borders = exp.select(
        *[group.copy() for group in groups],
        alias(exp.Min(this=exp.column("v")), "low"),
        alias(exp.Max(this=exp.column("v")), "high"),
    ).from_(near_query(plan, relation, position, at).subquery("near"))
    if groups:
        borders = borders.group_by(*[group.copy() for group in groups])
    own, low, high = exp.column("x", table="r"), exp.column("low", table="b"), exp.column("high", table="b")
    clamped = exp.Case(
        ifs=[
            exp.If(this=exp.LT(this=own, expression=low), true=low.copy()),
            exp.If(this=exp.GT(this=own.copy(), expression=high), true=high.copy()),
        ],
        default=own.copy(),
    )
    value = exp.column(f"a{position}")
    rows = declared_rows(plan, relation, is_there(value))
    plain = exp.select(*key_columns(plan), alias(value.copy(), "x")).from_(rows.subquery("x_rows"))
    keys = entry_keys(plan)
    kept = exp.select(*[alias(exp.column(key, table="r"), key) for key in keys], alias(clamped, "w"))
    kept = kept.from_(plain.subquery("r"))
    same = same_keys(keys[1:], "r", "b")
    kept = kept.join(borders.subquery("b"), on=same, join_type="inner" if groups else "cross")
    counted = (
        exp.select(*key_columns(plan), exp.column("w"), alias(exp.Count(this=exp.Star()), "times"))
        .from_(kept.subquery("kept"))
        .group_by(*key_columns(plan), exp.column("w"))
    )
    item = concatenated(as_text(exp.column("w")), exp.Literal.string("x"), as_text(exp.column("times")))
    listed = alias(listed_text(item, exp.column("w"), ","), f"v{position}_{at}")
    return exp.select(*key_columns(plan), listed).from_(counted.subquery("counted")).group_by(*key_columns(plan))


def _ranked(histogram: exp.Select, groups: list[exp.Expression]) -> exp.Select:
    """The histogram with how many values stand up to each one, and how many there are."""
    upto = exp.Window(
        this=exp.Sum(this=exp.column("c")),
        partition_by=[group.copy() for group in groups],
        order=exp.Order(expressions=[exp.Ordered(this=exp.column("v"), nulls_first=False)]),
        spec=exp.WindowSpec(kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"),
        over="OVER",
    )
    total = exp.Window(this=exp.Sum(this=exp.column("c")), partition_by=[group.copy() for group in groups], over="OVER")
    columns = [*[group.copy() for group in groups], exp.column("v"), exp.column("c")]
    return exp.select(*columns, alias(upto, "upto"), alias(total, "total")).from_(histogram.subquery("histogram"))


def _is_near(fraction: Fraction, reach: int) -> exp.Expression:
    """Whether a value's ranks come within ``reach`` of the quantile's rank p(N − 1): one more than is needed."""
    total = exp.Sub(this=exp.column("total"), expression=exp.Literal.number(1))
    rank = exp.Floor(
        this=exp.Div(
            this=exp.Mul(this=as_double(exp.Literal.number(fraction.numerator)), expression=as_double(total)),
            expression=as_double(exp.Literal.number(fraction.denominator)),
            typed=False,
            safe=False,
        )
    )
    first = exp.Sub(this=exp.column("upto"), expression=exp.column("c"))
    above = exp.GTE(this=exp.column("upto"), expression=exp.Sub(this=rank, expression=exp.Literal.number(reach)))
    below = exp.LTE(this=wrap(first), expression=exp.Add(this=rank.copy(), expression=exp.Literal.number(reach + 1)))
    near = conjunction([above, below])
    assert near is not None
    return near
