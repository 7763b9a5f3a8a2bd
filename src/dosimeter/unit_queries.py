"""The unit profile query: individuals grouped by all they contribute, for any engine to transpile (C1–C4, C9).

What an individual contributes to one declared group is an entry, a few fields. Without GROUP BY, and with few groups,
an individual is one row of fields; otherwise their entries stand in one text, ``group:field:field;…``. What comes back
is distinct rows or texts and counts, never people. Never opens a connection.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from fractions import Fraction

from sqlglot import exp

from dosimeter.expression import as_bigint, as_double, column_tree, conjunction, disjunction, is_infinite, wrap
from dosimeter.model import Argument, ColumnType, Group, MeasureKind, QueryPlan, Scalar, Schema

UNIT = "unit"
GROUP = "grp"
PEOPLE = "people"
ENTRIES = "entries"
INFINITE = "infinite"
UNDECLARED = "undeclared"
ROWS = "rows_total"
MOST_COLUMNS = 64  # of a row of fields for all groups; more of them become slower than a text
LARGEST_TERM = 2**31 - 1  # PostgreSQL adds 32-bit integers in 64 bits, and 64-bit ones as slow decimals
LARGEST_SUM = 2**62  # one individual's total below it fits into 64 bits, where engines add fastest
BY = "by"  # the attribute that is a column's value; every other one is a FILTER's condition


def unit_profile_query(
    plan: QueryPlan, relation: exp.Expression, attributes: Mapping[str, exp.Expression] | None = None
) -> exp.Select:
    """Distinct contributions of whole individuals (``identity_columns``) and how many have each.

    With attributes (FILTER flags, ``--by``) everybody is profiled; who is outside the WHERE has NULL in all of these.
    """
    per_unit = _per_unit(plan, relation)
    names = identity_columns(plan)
    source = per_unit.subquery("per_unit")
    if attributes is not None:
        source = _with_attributes(plan, relation, per_unit, names, attributes)
        names += attributes
    keys = [exp.column(name) for name in names]
    query = exp.select(*keys, _alias(exp.Count(this=exp.Star()), PEOPLE)).from_(source)
    return query.group_by(*[key.copy() for key in keys])


def units_query(plan: QueryPlan, relation: exp.Expression, identity: Mapping[str, int | str], limit: int) -> exp.Select:
    """Some of the individuals who contribute exactly this. Only for a controller who reveals them."""
    same = conjunction(exp.EQ(this=exp.column(name), expression=literal(value)) for name, value in identity.items())
    chosen = exp.select(exp.column(UNIT)).from_(_per_unit(plan, relation).subquery("per_unit")).where(same)
    return chosen.order_by(exp.column(UNIT)).limit(limit)


def identity_columns(plan: QueryPlan) -> list[str]:
    """The columns of the profile that say what an individual contributes."""
    if not is_wide(plan):
        return [ENTRIES]
    fields = unit_fields(plan)
    return [wide_name(name, group) for group in range(count_groups(plan)) for name in fields] if plan.groups else fields


def is_wide(plan: QueryPlan) -> bool:
    """Whether the entries of all groups stand beside each other in one row."""
    fields = unit_fields(plan)
    if not plan.groups:
        return True
    return not any(name[0] in "dv" for name in fields) and len(fields) * count_groups(plan) <= MOST_COLUMNS


def wide_name(field: str, group: int) -> str:
    return f"{field}_{group}"


def count_groups(plan: QueryPlan) -> int:
    return math.prod(len(group.values or ()) for group in plan.groups)


def unit_fields(plan: QueryPlan) -> list[str]:
    """The fields of an entry: rows if they are counted, then per argument what its measures need.

    n: how many are not NULL; t: their total; s: Σ(2a − (L + U)); q: the sum of its squares; d: values only they hold;
    v…_j: the values around the j-th quantile asked of the argument.
    """
    fields = [ROWS] if any(measure.argument is None for measure in plan.measures) else []
    for position in range(len(plan.arguments)):
        fields += [f"{need}{position}" for need in _needs(plan, position)]
        fields += [f"v{position}_{at}" for at in range(len(fractions_of(plan, position)))]
    return fields


def fractions_of(plan: QueryPlan, argument: int) -> list[Fraction]:
    """The quantiles asked of an argument, in order."""
    return [m.fraction for m in plan.measures if m.argument == argument and m.fraction is not None]


def _needs(plan: QueryPlan, argument: int) -> list[str]:
    needs: set[str] = set()
    for measure in plan.measures:
        if measure.argument != argument:
            continue
        match measure.kind:
            case MeasureKind.COUNT:
                needs |= {"n"}
            case MeasureKind.SUM:
                needs |= {"t"}
            case MeasureKind.CENTRED_SUM:
                needs |= {"s"}
            case MeasureKind.CENTRED_SQUARES:
                needs |= {"q"}
            case MeasureKind.BOUNDED_MEAN | MeasureKind.MEAN:
                needs |= {"n", "s"}
            case MeasureKind.VARIANCE | MeasureKind.DEVIATION:
                needs |= {"n", "s", "q"}
            case MeasureKind.COUNT_DISTINCT:
                needs |= {"d"}
            case MeasureKind.QUANTILE:
                pass  # a field for each quantile
    return [need for need in "ntsqd" if need in needs]


# ---------------------------------------------------------------- one row per individual


def _per_unit(plan: QueryPlan, relation: exp.Expression) -> exp.Select:
    """One row per individual with rows that meet the WHERE and stand in a declared group."""
    if not plan.groups:
        return _per_entry(plan, relation)
    if is_wide(plan):
        return _all_groups_beside(plan, relation)
    entries = _per_entry(plan, relation)
    joined: exp.Expression = _as_text(exp.column(GROUP))
    for name in unit_fields(plan):
        joined = _concatenated(joined, exp.Literal.string(":"), _as_text(exp.column(name)))
    listed = _listed(joined, exp.column(GROUP), ";")
    return (
        exp.select(exp.column(UNIT), _alias(listed, ENTRIES))
        .from_(entries.subquery("per_entry"))
        .group_by(exp.column(UNIT))
    )


def _all_groups_beside(plan: QueryPlan, relation: exp.Expression) -> exp.Select:
    """One pass: every field once for each group, over the rows of that group.

    The group's own values are compared, not its number: PostgreSQL would work the number out for every field.
    """
    columns: list[exp.Expression] = [exp.column(UNIT)]
    for group, key in enumerate(plan.group_keys or ()):
        inside = conjunction(
            exp.EQ(this=exp.column(f"g{at}"), expression=literal(value)) for at, value in enumerate(key)
        )
        assert inside is not None
        for name in unit_fields(plan):
            counted = exp.Literal.number(1) if name == ROWS else exp.column(f"a{name[1:]}")
            value = exp.Case(ifs=[exp.If(this=inside.copy(), true=counted)])
            field = exp.Count(this=value) if name == ROWS else _field_tree(plan, name, value)
            columns.append(_alias(field, wide_name(name, group)))
    rows = _all_rows(plan, relation, *[_alias(group.tree.copy(), f"g{at}") for at, group in enumerate(plan.groups)])
    rows = rows.where(*[_is_declared(group.tree, group.values or ()) for group in plan.groups])
    return exp.select(*columns).from_(rows.subquery("unit_rows")).group_by(exp.column(UNIT))


def _per_entry(plan: QueryPlan, relation: exp.Expression) -> exp.Select:
    """One row per individual (and declared group) with the entry's fields; values and lonely ones are joined on."""
    keys, fields = _entry_keys(plan), unit_fields(plan)
    if len(fields) == 1 and fields[0].startswith("v"):
        return _values_near(plan, relation, *_quantile_of(fields[0]))  # who has NULL alone moves nothing
    columns = _key_columns(plan)
    parts: dict[str, exp.Select] = {}
    for name in fields:
        if name == ROWS:
            columns.append(_alias(exp.Count(this=exp.Star()), ROWS))
        elif name.startswith("d"):
            parts[name] = _held_alone(plan, relation, int(name[1:]))
        elif name.startswith("v"):
            parts[name] = _values_near(plan, relation, *_quantile_of(name))
        else:
            columns.append(_alias(_field_tree(plan, name, exp.column(f"a{name[1:]}")), name))
    entries = exp.select(*columns).from_(_rows(plan, relation).subquery("unit_rows"))
    entries = entries.group_by(*[exp.column(key) for key in keys])
    if not parts:
        return entries
    shown = [column.alias_or_name for column in columns]
    query = exp.select(*[_alias(exp.column(name, table="base"), name) for name in shown]).from_(
        entries.subquery("base")
    )
    for name, part in parts.items():
        table = f"t_{name}"
        nothing = exp.Literal.number(0) if name.startswith("d") else exp.Literal.string("")
        found = exp.Coalesce(this=exp.column(name, table=table), expressions=[nothing])
        query = query.join(part.subquery(table), on=_same_keys(keys, "base", table), join_type="left")
        query = query.select(_alias(found, name))
    return query


def _quantile_of(field: str) -> tuple[int, int]:
    """The argument, and the place of the quantile among those asked of it, of a field v…"""
    position, at = field[1:].split("_")
    return int(position), int(at)


def _entry_keys(plan: QueryPlan) -> list[str]:
    return [UNIT, GROUP] if plan.groups else [UNIT]


def _key_columns(plan: QueryPlan) -> list[exp.Expression]:
    return [exp.column(key) for key in _entry_keys(plan)]


def _same_keys(keys: list[str], left: str, right: str) -> exp.Expression | None:
    return conjunction(
        exp.EQ(this=exp.column(key, table=left), expression=exp.column(key, table=right)) for key in keys
    )


def _field_tree(plan: QueryPlan, name: str, value: exp.Expression) -> exp.Expression:
    """The field n…, t…, s… or q… of an argument, from its values. Totals are exact (S8)."""
    need, argument = name[0], plan.arguments[int(name[1:])]
    if need == "n":
        return exp.Count(this=value)
    largest = max(abs(argument.lower), abs(argument.upper))
    if need != "t":
        doubled = exp.Mul(this=exp.Literal.number(2), expression=value)
        middle = argument.lower + argument.upper
        shift: exp.Expression = exp.Literal.number(abs(middle))
        kind = exp.Sub if middle >= 0 else exp.Add
        value = kind(this=doubled, expression=shift)
        largest = argument.upper - argument.lower
    if need == "q":
        value = exp.Mul(this=exp.Paren(this=value), expression=exp.Paren(this=value.copy()))
        largest *= largest
    if largest * plan.schema.max_rows_per_unit >= LARGEST_SUM:
        value = exp.Cast(this=value, to=exp.DataType.build("DECIMAL(38, 0)"))
    elif largest <= LARGEST_TERM:
        value = exp.Cast(this=value, to=exp.DataType.build("INT"))
    return exp.Coalesce(this=exp.Sum(this=value), expressions=[exp.Literal.number(0)])


def _rows(plan: QueryPlan, relation: exp.Expression, *more: exp.Expression) -> exp.Select:
    """The rows that meet the WHERE and stand in a declared group: unit, group number, arguments."""
    tests = list(more)
    if plan.groups:
        query = _all_rows(plan, relation, _alias(group_number(plan.groups), GROUP))
        tests.append(_is_there(exp.column(GROUP)))
    else:
        query = _all_rows(plan, relation)
    condition = conjunction(tests)
    if condition is None:
        return query
    return exp.select(exp.Star()).from_(query.subquery("all_rows")).where(condition)


def _all_rows(plan: QueryPlan, relation: exp.Expression, *groups: exp.Expression) -> exp.Select:
    """The rows that meet the WHERE: unit, what tells the group, arguments."""
    arguments = [_alias(_argument(argument), f"a{at}") for at, argument in enumerate(plan.arguments)]
    query = exp.select(_alias(column_tree(plan.schema.unit), UNIT), *groups, *arguments).from_(relation.copy())
    return query if plan.where is None else query.where(plan.where.copy())


def group_number(groups: tuple[Group, ...]) -> exp.Expression:
    """The position of a row's group among the declared ones, or NULL for a group nobody declared (C7)."""
    number: exp.Expression | None = None
    for group in groups:
        assert group.values is not None
        code = _value_number(group.tree, group.values)
        if number is None:
            number = code
        else:
            scaled = exp.Mul(this=wrap(number), expression=exp.Literal.number(len(group.values)))
            number = exp.Add(this=scaled, expression=code)
    assert number is not None
    return number


def _value_number(tree: exp.Expression, values: tuple[Scalar, ...]) -> exp.Expression:
    """CASE v WHEN … THEN 0 …, or v − low where the values are consecutive whole numbers."""
    if _are_consecutive(values):
        inside = exp.Between(this=wrap(tree.copy()), low=literal(values[0]), high=literal(values[-1]))
        shifted = exp.Sub(this=wrap(tree.copy()), expression=wrap(literal(values[0])))
        return exp.Case(ifs=[exp.If(this=inside, true=as_bigint(exp.Paren(this=shifted)))])
    return exp.Case(
        ifs=[
            exp.If(
                this=exp.EQ(this=wrap(tree.copy()), expression=literal(value)),
                true=exp.Literal.number(at),
            )
            for at, value in enumerate(values)
        ]
    )


def _are_consecutive(values: tuple[Scalar, ...]) -> bool:
    first, last = values[0], values[-1]
    return type(first) is int and type(last) is int and values == tuple(range(first, last + 1))


def literal(value: Scalar) -> exp.Expression:
    """A declared value as SQL."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, date):
        kind = "TIMESTAMP" if isinstance(value, datetime) else "DATE"
        return exp.Cast(this=exp.Literal.string(value.isoformat()), to=exp.DataType.build(kind))
    assert value is not None, "declared groups hold no NULL"
    number = exp.Literal.number(str(abs(value)))
    return exp.Neg(this=number) if value < 0 else number


def _argument(argument: Argument) -> exp.Expression:
    if argument.role == "presence":
        return exp.Case(ifs=[exp.If(this=_is_there(wrap(argument.tree.copy())), true=exp.Literal.number(1))])
    return argument.tree.copy()


# ---------------------------------------------------------------- what cannot be measured


def doubts_query(plan: QueryPlan, relation: exp.Expression) -> exp.Select | None:
    """Of the rows that meet the WHERE: how many hold NaN or an infinity where that is measured, and how many stand in
    groups that nobody declared (C7). None where there can be neither."""
    names = dict.fromkeys(name for argument in plan.arguments for name in argument.finite_columns)
    infinite = disjunction(is_infinite(column_tree(name)) for name in names)
    if infinite is None and not plan.groups:
        return None
    declared = conjunction(_is_declared(group.tree, group.values or ()) for group in plan.groups)
    odd: exp.Expression = exp.Literal.number(0)
    if infinite is not None:
        odd = _count_if(conjunction([infinite] if declared is None else [infinite, declared]))
    undeclared = exp.Sub(this=exp.Count(this=exp.Star()), expression=_count_if(declared))
    query = exp.select(_alias(odd, INFINITE), _alias(undeclared, UNDECLARED)).from_(relation.copy())
    return query if plan.where is None else query.where(plan.where.copy())


def _count_if(test: exp.Expression | None) -> exp.Expression:
    """How many rows meet it, or all of them where there is none."""
    if test is None:
        return exp.Count(this=exp.Star())
    return exp.Count(this=exp.Case(ifs=[exp.If(this=test.copy(), true=exp.Literal.number(1))]))


def _is_declared(tree: exp.Expression, values: tuple[Scalar, ...]) -> exp.Expression:
    if _are_consecutive(values):
        return exp.Between(this=wrap(tree.copy()), low=literal(values[0]), high=literal(values[-1]))
    return exp.In(this=wrap(tree.copy()), expressions=[literal(value) for value in values])


# ---------------------------------------------------------------- who alone holds a value, and values near a quantile


def _held_alone(plan: QueryPlan, relation: exp.Expression, position: int) -> exp.Select:
    """Per individual (and group): how many values nobody else in the group holds (C4)."""
    value = exp.column(f"a{position}")
    by_value = [*_key_columns(plan)[1:], value]
    first, last = exp.Min(this=exp.column(UNIT)), exp.Max(this=exp.column(UNIT))
    lonely = (
        exp.select(_alias(first, "holder"), *[key.copy() for key in by_value[:-1]])
        .from_(_rows(plan, relation, _is_there(value.copy())).subquery("held_rows"))
        .group_by(*by_value)
        .having(exp.EQ(this=first.copy(), expression=last))
    )
    keys = [exp.column("holder"), *_key_columns(plan)[1:]]
    shown = [_alias(keys[0], UNIT), *keys[1:], _alias(exp.Count(this=exp.Star()), f"d{position}")]
    return exp.select(*shown).from_(lonely.subquery("lonely")).group_by(*[key.copy() for key in keys])


def _values_near(plan: QueryPlan, relation: exp.Expression, position: int, at: int) -> exp.Select:
    """Per individual (and group): their values as ``valuextimes,…``, clamped to those around the quantile (C3).

    Leaving out up to m rows moves a quantile's rank by at most m, so values further away can be moved to the border
    without changing any outcome.
    """
    value = exp.column(f"a{position}")
    rows = _rows(plan, relation, _is_there(value))
    groups = _key_columns(plan)[1:]
    times = exp.Count(this=exp.Star())
    histogram = (
        exp.select(*groups, _alias(value.copy(), "v"), _alias(times, "c"))
        .from_(rows.copy().subquery("value_rows"))
        .group_by(*[group.copy() for group in groups], value.copy())
    )
    ranked = _ranked(histogram, groups)
    near = _near(fractions_of(plan, position)[at], plan.schema.max_rows_per_unit + 1)
    around = exp.Case(ifs=[exp.If(this=near, true=exp.column("v"))])
    borders = exp.select(
        *[group.copy() for group in groups],
        _alias(exp.Min(this=around), "low"),
        _alias(exp.Max(this=around.copy()), "high"),
    ).from_(ranked.subquery("ranked"))
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
    plain = exp.select(*_key_columns(plan), _alias(value.copy(), "x")).from_(rows.subquery("x_rows"))
    keys = _entry_keys(plan)
    kept = exp.select(*[_alias(exp.column(key, table="r"), key) for key in keys], _alias(clamped, "w"))
    kept = kept.from_(plain.subquery("r"))
    same = _same_keys(keys[1:], "r", "b")
    kept = kept.join(borders.subquery("b"), on=same, join_type="inner" if groups else "cross")
    counted = (
        exp.select(*_key_columns(plan), exp.column("w"), _alias(times.copy(), "times"))
        .from_(kept.subquery("kept"))
        .group_by(*_key_columns(plan), exp.column("w"))
    )
    item = _concatenated(_as_text(exp.column("w")), exp.Literal.string("x"), _as_text(exp.column("times")))
    listed = _alias(_listed(item, exp.column("w"), ","), f"v{position}_{at}")
    return exp.select(*_key_columns(plan), listed).from_(counted.subquery("counted")).group_by(*_key_columns(plan))


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
    return exp.select(*columns, _alias(upto, "upto"), _alias(total, "total")).from_(histogram.subquery("histogram"))


def _near(fraction: Fraction, reach: int) -> exp.Expression:
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


# ---------------------------------------------------------------- attributes of individuals


def _with_attributes(
    plan: QueryPlan,
    relation: exp.Expression,
    per_unit: exp.Select,
    names: list[str],
    attributes: Mapping[str, exp.Expression],
) -> exp.Subquery:
    """Everybody with their attributes, and what they contribute where they contribute anything.

    A FILTER holds for an individual when it holds for one of their rows; a ``--by`` column has its value when all
    their rows agree, and none otherwise.
    """
    columns: list[exp.Expression] = [_alias(column_tree(plan.schema.unit), UNIT)]
    for name, tree in attributes.items():
        value = _agreed_value(tree, plan.schema) if name == BY else _holds_once(tree)
        columns.append(_alias(value, name))
    everybody = exp.select(*columns).from_(relation.copy()).group_by(exp.Literal.number(1))
    joined = (
        exp.select(
            *[_alias(exp.column(name, table="everybody"), name) for name in attributes],
            *[_alias(exp.column(name, table="per_unit"), name) for name in names],
        )
        .from_(everybody.subquery("everybody"))
        .join(per_unit.subquery("per_unit"), on=_same_keys([UNIT], "everybody", "per_unit"), join_type="left")
    )
    return joined.subquery("individuals")


def _holds_once(condition: exp.Expression) -> exp.Expression:
    flag = exp.Case(ifs=[exp.If(this=condition.copy(), true=exp.Literal.number(1))], default=exp.Literal.number(0))
    return exp.EQ(this=exp.Max(this=flag), expression=exp.Literal.number(1))


def _agreed_value(tree: exp.Expression, schema: Schema) -> exp.Expression:
    value = tree.copy()
    is_flag = isinstance(tree, exp.Column) and schema.columns[tree.name].type is ColumnType.BOOLEAN
    if is_flag:  # PostgreSQL has no MIN of booleans
        truth = [exp.If(this=tree.copy(), true=exp.Literal.number(1))]
        false = [exp.If(this=exp.Not(this=tree.copy()), true=exp.Literal.number(0))]
        value = exp.Case(ifs=[*truth, *false])
    agree = conjunction(
        [
            exp.EQ(this=exp.Count(this=tree.copy()), expression=exp.Count(this=exp.Star())),
            exp.EQ(this=exp.Min(this=value), expression=exp.Max(this=value.copy())),
        ]
    )
    agreed: exp.Expression = exp.Min(this=value.copy())
    if is_flag:
        agreed = exp.EQ(this=agreed, expression=exp.Literal.number(1))
    return exp.Case(ifs=[exp.If(this=agree, true=agreed)])


# ---------------------------------------------------------------- small builders


def _alias(tree: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=tree, alias=exp.to_identifier(name))


def _as_text(tree: exp.Expression) -> exp.Expression:
    return exp.Cast(this=tree, to=exp.DataType.build("TEXT"))


def _is_there(tree: exp.Expression) -> exp.Expression:
    return exp.Not(this=exp.Is(this=tree, expression=exp.Null()))


def _concatenated(*parts: exp.Expression) -> exp.Expression:
    joined = parts[0]
    for part in parts[1:]:
        joined = exp.DPipe(this=joined, expression=part)
    return joined


def _listed(item: exp.Expression, order: exp.Expression, separator: str) -> exp.Expression:
    """The items as one text, in this order."""
    ordered = exp.Order(this=item, expressions=[exp.Ordered(this=order, nulls_first=False)])
    return exp.GroupConcat(this=ordered, separator=exp.Literal.string(separator))
