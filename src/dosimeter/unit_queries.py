"""The unit profile query: individuals grouped by all they contribute, for any engine to transpile (C1–C4, C9).

An individual's entries stand in one text, ``group:field:field;…``, an entry being all they contribute to one declared
group. What comes back is distinct texts and counts, never people. Never opens a connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime

from sqlglot import exp

from dosimeter.expression import as_double, column_tree, conjunction, disjunction, wrap
from dosimeter.model import Argument, Group, MeasureKind, QueryPlan, Scalar

UNIT = "unit"
GROUP = "grp"
PEOPLE = "people"
ENTRIES = "entries"
INFINITE = "infinite"


def unit_profile_query(
    plan: QueryPlan, relation: exp.Expression, attributes: Mapping[str, exp.Expression] | None = None
) -> exp.Select:
    """Distinct contributions of whole individuals: one text of entries each, ``group:field:field;…``, and how many.

    An entry is all that an individual contributes to one declared group: the fields of ``unit_fields``, in order.
    """
    per_unit = _per_unit(plan, relation)
    if attributes is None:
        keys: list[exp.Expression] = [exp.column(ENTRIES), exp.column(INFINITE)]
        source: exp.Expression = per_unit.subquery("per_unit")
    else:
        source = _with_attributes(plan, relation, per_unit, attributes)
        keys = [exp.column(ENTRIES), exp.column(INFINITE), *[exp.column(name) for name in attributes]]
    query = exp.select(*keys, _alias(exp.Count(this=exp.Star()), PEOPLE)).from_(source)
    return query.group_by(*[key.copy() for key in keys])


def units_query(plan: QueryPlan, relation: exp.Expression, entries: str, limit: int) -> exp.Select:
    """Some of the individuals who contribute exactly these entries. Only for a controller who reveals them."""
    same = exp.EQ(this=exp.column(ENTRIES), expression=exp.Literal.string(entries))
    chosen = exp.select(exp.column(UNIT)).from_(_per_unit(plan, relation).subquery("per_unit")).where(same)
    return chosen.order_by(exp.column(UNIT)).limit(limit)


def _per_unit(plan: QueryPlan, relation: exp.Expression) -> exp.Select:
    """One row per individual with rows that meet the WHERE: all their entries as one text."""
    per_group = _per_unit_and_group(plan, relation)
    fields = unit_fields(plan)
    joined: exp.Expression = _as_text(exp.column(GROUP))
    for name in fields:
        absent = exp.Literal.string("0")
        text = exp.Coalesce(this=_as_text(exp.column(name)), expressions=[absent])
        joined = exp.DPipe(this=exp.DPipe(this=joined, expression=exp.Literal.string(":")), expression=text)
    listed = exp.GroupConcat(
        this=exp.Order(this=joined, expressions=[exp.Ordered(this=exp.column(GROUP), nulls_first=False)]),
        separator=exp.Literal.string(";"),
    )
    return (
        exp.select(exp.column(UNIT), _alias(listed, ENTRIES), _alias(exp.Max(this=exp.column(INFINITE)), INFINITE))
        .from_(per_group.subquery("per_group"))
        .group_by(exp.column(UNIT))
    )


def _alias(tree: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=tree, alias=exp.to_identifier(name))


def _as_text(tree: exp.Expression) -> exp.Expression:
    return exp.Cast(this=tree, to=exp.DataType.build("TEXT"))


def unit_fields(plan: QueryPlan) -> list[str]:
    """The fields of an entry: rows, then per argument what its measures need (see ``_field_tree``)."""
    fields = ["rows_total"]
    for position in range(len(plan.arguments)):
        fields += [f"{need}{position}" for need in _needs(plan, position)]
    return fields


def _needs(plan: QueryPlan, argument: int) -> list[str]:
    """n: how many are not NULL; s: Σ(2a − (L + U)); q: its squares; d: values only they hold; v: near a quantile."""
    needs: set[str] = set()
    for measure in plan.measures:
        if measure.argument != argument:
            continue
        match measure.kind:
            case MeasureKind.COUNT:
                needs |= {"n"}
            case MeasureKind.SUM | MeasureKind.CENTRED_SUM | MeasureKind.BOUNDED_MEAN | MeasureKind.MEAN:
                needs |= {"n", "s"}
            case MeasureKind.COUNT_DISTINCT:
                needs |= {"d"}
            case MeasureKind.QUANTILE:
                needs |= {"v"}
            case _:
                needs |= {"n", "s", "q"}
    return [need for need in "nsqdv" if need in needs]


def _per_unit_and_group(plan: QueryPlan, relation: exp.Expression) -> exp.Select:
    """One row per individual and declared group with the entry's fields; special fields are joined on."""
    rows = _rows(plan, relation)
    columns: list[exp.Expression] = [
        exp.column(UNIT), exp.column(GROUP),
        _alias(exp.Count(this=exp.Star()), "rows_total"),
        _alias(exp.Max(this=exp.column(INFINITE)), INFINITE),
    ]  # fmt: skip
    special: list[tuple[str, exp.Select]] = []
    for position, argument in enumerate(plan.arguments):
        for need in _needs(plan, position):
            name = f"{need}{position}"
            if need == "d":
                special.append((name, _held_alone(plan, relation, position)))
            elif need == "v":
                special.append((name, _values_near(plan, relation, position)))
            else:
                columns.append(_alias(_field_tree(need, position, argument), name))
    keyed = exp.select(*columns).from_(rows.subquery("unit_rows")).group_by(exp.column(UNIT), exp.column(GROUP))
    if not special:
        return keyed
    names = [column.alias_or_name for column in columns]
    shown = [_alias(exp.column(name, table="base"), name) for name in names]
    query = exp.select(*shown).from_(keyed.subquery("base"))
    for name, part in special:
        on = conjunction(
            exp.EQ(this=exp.column(key, table="base"), expression=exp.column(key, table=f"t_{name}"))
            for key in (UNIT, GROUP)
        )
        query = query.join(part.subquery(f"t_{name}"), on=on, join_type="left")
        query = query.select(_alias(exp.column(name, table=f"t_{name}"), name))
    return query


def _field_tree(need: str, position: int, argument: Argument) -> exp.Expression:
    value = exp.column(f"a{position}")
    if need == "n":
        return exp.Count(this=value)
    doubled = exp.Mul(this=exp.Literal.number(2), expression=value)
    middle = argument.lower + argument.upper
    shift: exp.Expression = exp.Literal.number(abs(middle))
    centred: exp.Expression = (
        exp.Sub(this=doubled, expression=shift) if middle >= 0 else exp.Add(this=doubled, expression=shift)
    )
    if need == "q":
        centred = exp.Mul(this=exp.Paren(this=centred), expression=exp.Paren(this=centred.copy()))
    total = exp.Sum(this=exp.Cast(this=centred, to=exp.DataType.build("DECIMAL(38, 0)")))
    return exp.Coalesce(this=total, expressions=[exp.Literal.number(0)])


def _rows(plan: QueryPlan, relation: exp.Expression, *more: exp.Expression) -> exp.Select:
    """The rows that meet the WHERE and stand in a declared group: unit, group number, arguments."""
    columns = [_alias(column_tree(plan.schema.unit), UNIT), _alias(group_number(plan.groups), GROUP)]
    columns += [_alias(_argument(argument), f"a{at}") for at, argument in enumerate(plan.arguments)]
    infinite = _infinite(plan)
    columns.append(_alias(infinite if infinite is not None else exp.Literal.number(0), INFINITE))
    query = exp.select(*columns).from_(relation.copy())
    if plan.where is not None:
        query = query.where(plan.where.copy())
    present = exp.Not(this=exp.Is(this=exp.column(GROUP), expression=exp.Null()))
    chosen = conjunction([present, *more])
    return exp.select(exp.Star()).from_(query.subquery("all_rows")).where(chosen)


def group_number(groups: tuple[Group, ...]) -> exp.Expression:
    """The position of a row's group among the declared ones, or NULL for a group nobody declared (C7)."""
    number: exp.Expression = exp.Literal.number(0)
    for group in groups:
        assert group.values is not None
        code = exp.Case(
            ifs=[
                exp.If(
                    this=exp.EQ(this=wrap(group.tree.copy()), expression=literal(value)),
                    true=exp.Literal.number(at),
                )
                for at, value in enumerate(group.values)
            ]
        )
        scaled = exp.Mul(this=wrap(number), expression=exp.Literal.number(len(group.values)))
        number = exp.Add(this=scaled, expression=code)
    return number


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
        present = exp.Not(this=exp.Is(this=wrap(argument.tree.copy()), expression=exp.Null()))
        return exp.Case(ifs=[exp.If(this=present, true=exp.Literal.number(1))])
    return argument.tree.copy()


def _infinite(plan: QueryPlan) -> exp.Expression | None:
    tests: list[exp.Expression] = []
    for name in dict.fromkeys(name for argument in plan.arguments for name in argument.finite_columns):
        value, largest = as_double(column_tree(name)), as_double(exp.Literal.number("1.7976931348623157e308"))
        tests.append(exp.GT(this=value, expression=largest))
        tests.append(exp.LT(this=value.copy(), expression=exp.Neg(this=largest.copy())))
    joined = disjunction(tests)
    if joined is None:
        return None
    return exp.Case(ifs=[exp.If(this=joined, true=exp.Literal.number(1))], default=exp.Literal.number(0))


def _held_alone(plan: QueryPlan, relation: exp.Expression, position: int) -> exp.Select:
    """Per individual and group: how many values nobody else in the group holds (C4)."""
    value = exp.column(f"a{position}")
    present = exp.Not(this=exp.Is(this=value, expression=exp.Null()))
    held = (
        exp.select(exp.column(UNIT), exp.column(GROUP), _alias(value.copy(), "held"))
        .distinct()
        .from_(_rows(plan, relation, present).subquery("held_rows"))
    )
    holders = exp.Window(
        this=exp.Count(this=exp.Star()), partition_by=[exp.column(GROUP), exp.column("held")], over="OVER"
    )
    counted = exp.select(exp.column(UNIT), exp.column(GROUP), _alias(holders, "holders")).from_(
        held.subquery("held_by")
    )
    alone = exp.Case(
        ifs=[
            exp.If(
                this=exp.EQ(this=exp.column("holders"), expression=exp.Literal.number(1)), true=exp.Literal.number(1)
            )
        ],
        default=exp.Literal.number(0),
    )
    return (
        exp.select(exp.column(UNIT), exp.column(GROUP), _alias(exp.Sum(this=alone), f"d{position}"))
        .from_(counted.subquery("counted"))
        .group_by(exp.column(UNIT), exp.column(GROUP))
    )


def _values_near(plan: QueryPlan, relation: exp.Expression, position: int) -> exp.Select:
    """Per individual and group: their values as ``valuextimes,…``, clamped to those around the order statistics (C3).

    Leaving out up to m rows moves a quantile's rank by at most m, so values further away can be moved to the border
    without changing any outcome. Several quantiles of one argument keep the union of their windows.
    """
    fractions = [m.fraction for m in plan.measures if m.argument == position and m.fraction is not None]
    reach = plan.schema.max_rows_per_unit + 1
    value = exp.column(f"a{position}")
    present = exp.Not(this=exp.Is(this=value, expression=exp.Null()))
    rows = _rows(plan, relation, present)
    hist = (
        exp.select(exp.column(GROUP), _alias(value.copy(), "v"), _alias(exp.Count(this=exp.Star()), "c"))
        .from_(rows.copy().subquery("value_rows"))
        .group_by(exp.column(GROUP), value.copy())
    )
    upto = exp.Window(
        this=exp.Sum(this=exp.column("c")),
        partition_by=[exp.column(GROUP)],
        order=exp.Order(expressions=[exp.Ordered(this=exp.column("v"), nulls_first=False)]),
        spec=exp.WindowSpec(kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"),
        over="OVER",
    )
    total = exp.Window(this=exp.Sum(this=exp.column("c")), partition_by=[exp.column(GROUP)], over="OVER")
    ranked = exp.select(
        exp.column(GROUP), exp.column("v"), exp.column("c"), _alias(upto, "upto"), _alias(total, "total")
    ).from_(hist.subquery("hist"))
    near = disjunction(_near(fraction.numerator, fraction.denominator, reach) for fraction in fractions)
    around = exp.Case(ifs=[exp.If(this=near, true=exp.column("v"))])
    borders = (
        exp.select(
            exp.column(GROUP),
            _alias(exp.Min(this=around), "low"),
            _alias(exp.Max(this=around.copy()), "high"),
        )
        .from_(ranked.subquery("ranked"))
        .group_by(exp.column(GROUP))
    )
    own, low, high = exp.column("x", table="r"), exp.column("low", table="b"), exp.column("high", table="b")
    clamped = exp.Case(
        ifs=[
            exp.If(this=exp.LT(this=own, expression=low), true=low.copy()),
            exp.If(this=exp.GT(this=own.copy(), expression=high), true=high.copy()),
        ],
        default=own.copy(),
    )
    plain = exp.select(exp.column(UNIT), exp.column(GROUP), _alias(value.copy(), "x")).from_(rows.subquery("x_rows"))
    kept = (
        exp.select(
            _alias(exp.column(UNIT, table="r"), UNIT),
            _alias(exp.column(GROUP, table="r"), GROUP),
            _alias(clamped, "w"),
        )
        .from_(plain.subquery("r"))
        .join(
            borders.subquery("b"),
            on=exp.EQ(this=exp.column(GROUP, table="r"), expression=exp.column(GROUP, table="b")),
        )
    )
    times = (
        exp.select(exp.column(UNIT), exp.column(GROUP), exp.column("w"), _alias(exp.Count(this=exp.Star()), "times"))
        .from_(kept.subquery("kept"))
        .group_by(exp.column(UNIT), exp.column(GROUP), exp.column("w"))
    )
    item = exp.DPipe(
        this=exp.DPipe(this=_as_text(exp.column("w")), expression=exp.Literal.string("x")),
        expression=_as_text(exp.column("times")),
    )
    listed = exp.GroupConcat(
        this=exp.Order(this=item, expressions=[exp.Ordered(this=exp.column("w"), nulls_first=False)]),
        separator=exp.Literal.string(","),
    )
    return (
        exp.select(exp.column(UNIT), exp.column(GROUP), _alias(listed, f"v{position}"))
        .from_(times.subquery("times"))
        .group_by(exp.column(UNIT), exp.column(GROUP))
    )


def _near(numerator: int, denominator: int, reach: int) -> exp.Expression:
    total = exp.Sub(this=exp.column("total"), expression=exp.Literal.number(1))
    rank = exp.Floor(
        this=exp.Div(
            this=exp.Mul(this=as_double(exp.Literal.number(numerator)), expression=as_double(total)),
            expression=as_double(exp.Literal.number(denominator)),
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
    plan: QueryPlan, relation: exp.Expression, per_unit: exp.Select, attributes: Mapping[str, exp.Expression]
) -> exp.Expression:
    """Everybody with their attributes, and their entries where they have any.

    A FILTER holds for an individual when it holds for one of their rows; a ``--by`` column has its value when all
    their rows agree, and none otherwise.
    """
    columns: list[exp.Expression] = [_alias(column_tree(plan.schema.unit), UNIT)]
    for name, tree in attributes.items():
        if isinstance(tree, exp.Column):
            agree = exp.EQ(this=exp.Min(this=tree.copy()), expression=exp.Max(this=tree.copy()))
            columns.append(_alias(exp.Case(ifs=[exp.If(this=agree, true=exp.Min(this=tree.copy()))]), name))
        else:
            flag = exp.Case(ifs=[exp.If(this=tree.copy(), true=exp.Literal.number(1))], default=exp.Literal.number(0))
            columns.append(_alias(exp.EQ(this=exp.Max(this=flag), expression=exp.Literal.number(1)), name))
    everybody = exp.select(*columns).from_(relation.copy()).group_by(exp.Literal.number(1))
    shown = [_alias(exp.column(name, table="everybody"), name) for name in (UNIT, *attributes)]
    joined = (
        exp.select(
            *shown,
            _alias(exp.column(ENTRIES, table="per_unit"), ENTRIES),
            _alias(exp.column(INFINITE, table="per_unit"), INFINITE),
        )
        .from_(everybody.subquery("everybody"))
        .join(
            per_unit.subquery("per_unit"),
            on=exp.EQ(this=exp.column(UNIT, table="everybody"), expression=exp.column(UNIT, table="per_unit")),
            join_type="left",
        )
    )
    return joined.subquery("individuals")
