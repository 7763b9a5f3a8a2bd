"""Write the unit profile query: individuals grouped by all they contribute, for any engine to transpile (C1–C4, C9).

What an individual contributes to one declared group is an entry, a few fields. Without GROUP BY, and with few groups,
an individual is one row of fields; otherwise their entries stand in one text, ``group:field:field;…``. The query
returns distinct rows or texts, and how many individuals have each; never who they are. Never opens a connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dosimeter.influence.units.unit_rows import (
    BY,
    GROUP,
    UNIT,
    all_rows,
    count_groups,
    unit_rows,
)
from dosimeter.measures import Joined, NearValues, Tally, UnitField, UnitRows
from dosimeter.planning import QueryPlan
from dosimeter.schema import ColumnType, Schema
from dosimeter.sql import (
    alias,
    as_text,
    by_truth,
    column_tree,
    concatenated,
    conjunction,
    connect,
    equals,
    is_declared,
    is_not_null,
    listed_text,
    same_keys,
    select_from,
)

PEOPLE = "people"
ENTRIES = "entries"
UNDECLARED = "undeclared"
MOST_COLUMNS = 64  # in one row for all groups; with more, a text is faster

Near = Mapping[str, tuple[tuple[int, ...], ...]]  # for each field v…: the values around its quantile, in each group


@dataclass(frozen=True, slots=True, repr=False)
class Layout:
    """The form of an individual's contribution in a row of the unit profile: in columns (``wide``), or as one text.

    ``near``, by the name of a quantile field: the values near its quantile in each group, for fields that have a column
    for each of these values. They come from the data: a layout is as private as its profile. ``all_declared``: whether
    all rows that meet the WHERE are known to be in declared groups, so that they need not be tested.
    """

    plan: QueryPlan
    wide: bool
    near: Near
    all_declared: bool = False  # no row is in a group that nobody declared, so no row need be tested

    def identity_columns(self) -> list[str]:
        """Return the names of the profile's columns that say what an individual contributes."""
        if not self.wide:
            return [ENTRIES]
        groups, fields = range(count_groups(self.plan)), unit_fields(self.plan)
        return [column for group in groups for field in fields for column in self.columns(field, group)]

    def columns(self, field: UnitField, group: int) -> list[str]:
        """Return the names of one field's columns for one group, in a wide row. ``group``: the group's index."""
        name = field.name
        names = [f"{name}_{at}" for at in range(len(self.near[name][group]))] if name in self.near else [name]
        return [f"{each}_{group}" for each in names] if self.plan.groups else names


def lay_out(plan: QueryPlan, near: Near, *, all_declared: bool = False) -> Layout:
    """Choose how one individual's entries (contributions to one group each) are written in a row of the profile.

    Without GROUP BY: columns for each field; a quantile field with too many values has one text column. With declared
    groups: columns for each field in each group, if at most ``MOST_COLUMNS`` are needed and no field has to be joined
    (``Joined``). Otherwise, and with thresholded groups: one text column for all entries. ``near``: the values near
    each quantile in each group, by field; those that fit get columns. ``all_declared``: whether all rows that meet the
    WHERE are known to be in declared groups.
    """
    kept: dict[str, tuple[tuple[int, ...], ...]] = {}
    for name, values in near.items():
        if sum(len(group) for each in (*kept.values(), values) for group in each) <= MOST_COLUMNS:
            kept[name] = values
    layout = Layout(plan, True, kept, all_declared)
    if plan.threshold is not None:
        return Layout(plan, False, {})
    if not plan.groups:
        return layout
    listed = any(isinstance(field, Joined) and field.name not in kept for field in unit_fields(plan))
    if listed or len(layout.identity_columns()) > MOST_COLUMNS:
        return Layout(plan, False, {})
    return layout


def find_countable(plan: QueryPlan) -> list[NearValues]:
    """Return the quantile fields that could have one column per value near the quantile.

    Such a column counts the individual's rows with that value; rows with a value that is not near the quantile count at
    the nearest one that is. The list is empty if groups are thresholded. With GROUP BY it is also empty if one column
    for each field in each group is already more than ``MOST_COLUMNS``, or if there is a field of another kind that has
    to be joined (``Joined``).
    """
    fields = unit_fields(plan)
    countable = [field for field in fields if isinstance(field, NearValues)]
    listed = any(isinstance(field, Joined) and not isinstance(field, NearValues) for field in fields)
    if plan.threshold is not None or (plan.groups and (listed or len(fields) * count_groups(plan) > MOST_COLUMNS)):
        return []
    return countable


def unit_profile_query(
    layout: Layout,
    relation: exp.Expression,
    attributes: Mapping[str, exp.Expression] | None = None,
    everybody: exp.Expression | None = None,
) -> exp.Select:
    """Return the query for distinct contributions of individuals, and how many individuals have each.

    ``Layout.identity_columns`` names the columns that say what they contribute. With attributes (conditions of FILTERs,
    the ``--by`` column) people outside the WHERE are profiled too, with NULL in all these columns. ``everybody``: the
    rows that attributes are read from, if not those of ``relation``.
    """
    per_unit = per_unit_query(layout, relation)
    return count_alike_query(layout.plan, everybody or relation, per_unit, layout.identity_columns(), attributes)


def count_alike_query(
    plan: QueryPlan,
    relation: exp.Expression,
    per_unit: exp.Select,
    names: Sequence[str],
    attributes: Mapping[str, exp.Expression] | None,
) -> exp.Select:
    """Return the query for the distinct values of these columns of ``per_unit``, and how many individuals have each.

    ``attributes``: if given, everybody in ``relation`` is counted, and told apart by these too.
    """
    source = per_unit.subquery("per_unit", copy=False)
    if attributes is not None:
        source = _with_attributes(plan, relation, source, names, attributes)
    keys = [exp.column(name) for name in (*names, *(attributes or ()))]
    return select_from(source, *keys, alias(exp.Count(this=exp.Star()), PEOPLE), group=keys)


def matching_units_query(per_unit: exp.Select, identity: Mapping[str, int | str | None], limit: int) -> exp.Select:
    """Return the query for up to ``limit`` individuals whose row of ``per_unit`` has exactly these values.

    The query names individuals: only for a controller who asked to reveal them.
    """
    same = conjunction(equals(exp.column(name), value) for name, value in identity.items())
    chosen = select_from(per_unit.subquery("per_unit", copy=False), exp.column(UNIT), where=same)
    return chosen.order_by(exp.column(UNIT), copy=False).limit(limit, copy=False)


def unit_fields(plan: QueryPlan) -> list[UnitField]:
    """Return the fields of an entry, in order: the number of rows, if needed, and then the fields of each argument.

    An entry is what one individual contributes to one group. Fields of an argument a with bounds L, U, by how their
    names begin: n, how many of its values are not NULL; t, their total; s, Σ(2a − (L + U)); q, the sum of the squares
    of 2a − (L + U); d, how many values nobody else has; v…_j, the values around the j-th quantile asked for.
    """
    fields = {field.name: field for measure in plan.measures for field in measure.unit_fields()}
    return sorted(fields.values(), key=lambda field: field.place)


# ---------------------------------------------------------------- one row per individual


def per_unit_query(layout: Layout, relation: exp.Expression) -> exp.Select:
    """Return the query for one row per individual who has a row that meets the WHERE and is in a declared group."""
    if not layout.plan.groups:
        return _per_entry(layout, relation)
    if layout.wide:
        return _all_groups_beside(layout, relation)
    return as_texts(layout, relation)


def as_texts(layout: Layout, relation: exp.Expression) -> exp.Select:
    """Return the query for each individual and one text with all their entries, ``group:field:field;…``.

    ``group``: the group's index among the declared ones, or its place among the observed ones where groups are
    thresholded; without GROUP BY it is 0.
    """
    grouped = bool(layout.plan.groups)
    joined: exp.Expression = as_text(exp.column(GROUP)) if grouped else exp.Literal.string("0")
    for field in unit_fields(layout.plan):
        joined = concatenated(joined, exp.Literal.string(":"), as_text(exp.column(field.name)))
    entries = _per_entry(layout, relation).subquery("per_entry", copy=False)
    if not grouped:
        return select_from(entries, exp.column(UNIT), alias(joined, ENTRIES))
    listed = alias(listed_text(joined, exp.column(GROUP), ";"), ENTRIES)
    return select_from(entries, exp.column(UNIT), listed, group=[exp.column(UNIT)])


def _all_groups_beside(layout: Layout, relation: exp.Expression) -> exp.Select:
    """Return the query for one wide row per individual, in one pass: a column for every field of every group.

    A field is computed over the individual's rows in the group. Rows are compared with the group's values, not with its
    index: PostgreSQL would compute the index again for every field.
    """
    plan = layout.plan
    columns: list[exp.Expression] = [exp.column(UNIT)]
    for group, key in enumerate(plan.group_keys or ()):
        tests = [equals(exp.column(f"g{at}"), value) for at, value in enumerate(key)]
        inside = connect(tests, exp.And)
        for field in unit_fields(plan):
            trees = _field_trees(layout, field, inside, group)
            columns += [alias(tree, column) for tree, column in zip(trees, layout.columns(field, group), strict=True)]
    rows = all_rows(plan, relation, *[alias(group.tree.copy(), f"g{at}") for at, group in enumerate(plan.groups)])
    if not layout.all_declared:
        rows = rows.where(*[is_declared(group.tree, group.values or ()) for group in plan.groups], copy=False)
    entries = exp.select(*columns).from_(rows.subquery("unit_rows", copy=False), copy=False)
    return _beside_places(layout, relation, entries).group_by(exp.column(UNIT), copy=False)


def _beside_places(layout: Layout, relation: exp.Expression, entries: exp.Select) -> exp.Select:
    """Return the query ``entries`` with the values near each quantile joined to every row.

    The columns of ``entries`` compare a row's value with them, to count the row at one of them. The values near one
    quantile are joined as a single row. They are not joined if every group has only one such value: all rows of a group
    then count at that value. If the only field of an entry is one quantile, rows whose argument is NULL are left out:
    they do not move it.
    """
    plan, near = layout.plan, find_near(layout)
    for field in near:
        places = [layout.columns(field, group) for group in range(count_groups(plan))]
        if any(len(names) > 1 for names in places):
            found = field.places_query(unit_rows(plan, relation), places)
            entries = entries.join(found.subquery(f"places_{field.name}", copy=False), join_type="cross", copy=False)
    if near and len(unit_fields(plan)) == 1:
        entries = entries.where(is_not_null(near[0].column), copy=False)
    return entries


def find_near(layout: Layout) -> list[NearValues]:
    """Return the quantile fields that have one column per value near the quantile in this layout."""
    fields = unit_fields(layout.plan)
    return [field for field in fields if isinstance(field, NearValues) and field.name in layout.near]


def _per_entry(layout: Layout, relation: exp.Expression) -> exp.Select:
    """Return the query for one row per entry, with its fields. An entry is an individual in one declared group.

    Some fields are computed by a query of their own, which is joined: a text that lists values near a quantile, and how
    many values nobody else has.
    """
    plan = layout.plan
    rows, fields = unit_rows(plan, relation), unit_fields(plan)
    if len(fields) == 1 and isinstance(fields[0], NearValues) and not layout.near:
        return fields[0].query(rows)
    columns = rows.key_columns()
    joined: list[Joined] = []
    for field in fields:
        if isinstance(field, Joined) and field.name not in layout.near:
            joined.append(field)
            continue
        trees = _field_trees(layout, field, None, 0)
        names = layout.columns(field, 0) if layout.wide else [field.name]
        columns += [alias(tree, column) for tree, column in zip(trees, names, strict=True)]
    entries = exp.select(*columns).from_(rows.select().subquery("unit_rows", copy=False), copy=False)
    entries = _beside_places(layout, relation, entries).group_by(*rows.key_columns(), copy=False)
    if not joined:
        return entries
    shown = [column.alias_or_name for column in columns]
    named = [alias(exp.column(name, table="base"), name) for name in shown]
    query = select_from(entries.subquery("base", copy=False), *named)
    for field in joined:
        query = _join_field(query, field, rows)
    return query


def _join_field(query: exp.Select, field: Joined, rows: UnitRows) -> exp.Select:
    """Return ``query`` with a field computed by a query of its own, joined by individual and group."""
    table = f"t_{field.name}"
    found = exp.Coalesce(this=exp.column(field.name, table=table), expressions=[field.nothing()])
    on = same_keys(rows.keys, "base", table)
    return query.join(field.query(rows).subquery(table, copy=False), on=on, join_type="left", copy=False).select(
        alias(found, field.name), copy=False
    )


def _field_trees(layout: Layout, field: UnitField, inside: exp.Expression | None, group: int) -> list[exp.Expression]:
    """Return what each column of a field holds for one group, as a tree per column.

    ``group``: the group's index. ``inside``: the test for rows of the group; None if all rows are. Raises TypeError for
    a field that needs a query of its own.
    """
    match field:
        case Tally():
            return [field.tree(layout.plan.schema.max_rows_per_unit, inside)]
        case NearValues():
            value = field.value(inside)
            places = [exp.column(column, table=f"places_{field.name}") for column in layout.columns(field, group)]
            return [field.count_at(value.copy(), places, at) for at in range(len(places))]
        case _:
            raise TypeError(f"{type(field).__name__} is joined, not aggregated")


# ---------------------------------------------------------------- rows in no declared group


def undeclared_query(plan: QueryPlan, relation: exp.Expression, *, everywhere: bool = False) -> exp.Select | None:
    """Return the query for how many individuals have rows that meet the WHERE in groups that nobody declared (C7).

    None if the query has no groups, or if groups are thresholded. ``everywhere``: look at all rows, whether or not they
    meet the WHERE.
    """
    if plan.threshold is not None:
        return None
    declared = conjunction(is_declared(group.tree, group.values or ()) for group in plan.groups)
    if declared is None:
        return None
    outside = exp.Case(ifs=[exp.If(this=declared, true=exp.Null())], default=column_tree(plan.schema.unit))
    undeclared = exp.Count(this=exp.Distinct(expressions=[outside]))
    query = exp.select(alias(undeclared, UNDECLARED)).from_(relation.copy(), copy=False)
    return query if everywhere or plan.where is None else query.where(plan.where.copy(), copy=False)


# ---------------------------------------------------------------- attributes of individuals


def _with_attributes(
    plan: QueryPlan,
    relation: exp.Expression,
    per_unit: exp.Subquery,
    names: Sequence[str],
    attributes: Mapping[str, exp.Expression],
) -> exp.Subquery:
    """Return one row per individual of ``relation``: their attributes, and the columns ``names`` of ``per_unit``.

    Individuals without a row in ``per_unit`` have NULL in these columns. A FILTER holds for an individual if it holds
    for at least one of their rows. A ``--by`` column has its value if all their rows agree, and otherwise NULL.
    """
    columns: list[exp.Expression] = [alias(column_tree(plan.schema.unit), UNIT)]
    for name, tree in attributes.items():
        value = _agreed_value(tree, plan.table_schema) if name == BY else _holds_once(tree)
        columns.append(alias(value, name))
    everybody = select_from(relation.copy(), *columns, group=[exp.Literal.number(1)])
    shown = [(name, "everybody") for name in attributes] + [(name, "per_unit") for name in names]
    found = [alias(exp.column(name, table=table), name) for name, table in shown]
    joined = select_from(everybody.subquery("everybody", copy=False), *found)
    same = same_keys([UNIT], "everybody", "per_unit")
    return joined.join(per_unit, on=same, join_type="left", copy=False).subquery("individuals", copy=False)


def _holds_once(condition: exp.Expression) -> exp.Expression:
    flag = exp.Case(ifs=[exp.If(this=condition.copy(), true=exp.Literal.number(1))], default=exp.Literal.number(0))
    return exp.EQ(this=exp.Max(this=flag), expression=exp.Literal.number(1))


def _agreed_value(tree: exp.Expression, schema: Schema) -> exp.Expression:
    value = tree.copy()
    is_flag = isinstance(tree, exp.Column) and schema.columns[tree.name].type is ColumnType.BOOLEAN
    if is_flag:  # PostgreSQL has no MIN of booleans
        value = by_truth(value, exp.Literal.number(1), exp.Literal.number(0))
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
