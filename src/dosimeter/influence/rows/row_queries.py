"""Write the SQL that runs: trees from a QueryPlan, for any engine to transpile. Never opens a connection.

The *profile* query groups individuals by what they contribute and counts how many contribute the same: one scan with
the WHERE pushed down, small results (C9). The *answer* query gives the exact totals. The *people* query looks up the
records behind one profile row. Column names are fixed: g0 … groups, a0 … arguments; attributes keep their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dosimeter.influence.rows.grouping import group_raw_first, multiply_last
from dosimeter.measures import ArgumentMeasure, Reducible
from dosimeter.planning import QueryPlan
from dosimeter.sql import alias, column_tree, conjunction, connect, group_by_first, is_declared, is_null, wrap

PEOPLE = "people"
INSIDE = "inside"


def profile_query(
    plan: QueryPlan, relation: exp.Expression, attributes: Mapping[str, exp.Expression] | None = None
) -> exp.Select:
    """Return the query for distinct contributions and how many individuals have each.

    With attributes (conditions of FILTERs, the ``--by`` column) people outside the WHERE are profiled too: the WHERE
    becomes the column ``inside``. For a plan with several blocks (SELECTs that measure), one row of the result says
    what an individual contributes to all of them; the names of a block's columns then begin with the block's index: 0_,
    1_ ….
    """
    blocks = plan.blocks
    where = None if attributes is not None else find_common_where(blocks)
    apart = attributes is not None or len(blocks) > 1
    parts = [_Part(block, name_part(blocks, at), apart, where) for at, block in enumerate(blocks)]
    columns = [column for part in parts for column in part.columns()]
    columns += [_alias(tree.copy(), name) for name, tree in (attributes or {}).items()]
    counted = _alias(exp.Count(this=exp.Star()), PEOPLE)
    histogram = _select([*columns, counted], relation.copy(), where=where, group=len(columns))
    query = multiply_last(group_raw_first(histogram, plan.schema)) if columns else histogram
    reduced: dict[str, exp.Expression] = {}
    declared: dict[str, exp.Expression] = {}
    for part in parts:
        for position in range(len(part.plan.arguments)):
            query, few = _reduce(part, query, position)
            reduced |= few
        for key, test in _group_tests(part.plan).items():  # undeclared values are not fetched (N4)
            declared[part.name(key)] = part.rename(exp.Case(ifs=[exp.If(this=test, true=column_tree(key))]))
    if not reduced and not declared:
        return query
    keys = [*(key for part in parts for key in part.key_names()), *(attributes or {})]
    final = [_alias(declared.get(key) or column_tree(key), key) for key in keys]
    nulls = {part.name(name): part.rename(tree) for part in parts for name, tree in _declared_nulls(part.plan).items()}
    final += [_alias(tree, name) for name, tree in nulls.items()]
    final += [_alias(tree, name) for name, tree in reduced.items()]
    counted = exp.Cast(this=exp.Sum(this=column_tree(PEOPLE)), to=exp.DataType.build("BIGINT"))
    return _select([*final, _alias(counted, PEOPLE)], query.subquery("ranked", copy=False), group=len(final))


def find_common_where(blocks: Sequence[QueryPlan]) -> exp.Expression | None:
    """Return the condition that a row is inside the WHERE of at least one block; None if a block has no WHERE.

    A block is a SELECT that measures.
    """
    conditions: list[exp.Expression] = []
    for block in blocks:
        if block.where is None:
            return None
        if block.where not in conditions:
            conditions.append(block.where)
    return conditions[0] if len(conditions) == 1 else connect([wrap(each.copy()) for each in conditions], exp.Or)


def _declared_nulls(plan: QueryPlan) -> dict[str, exp.Expression]:
    """Return, by name, a column that tells real NULL from undeclared values, for each group column that declares NULL.

    It is needed because undeclared values, too, are fetched as NULL.
    """
    return {
        null_column(at): is_null(column_tree(f"g{at}"))
        for at, group in enumerate(plan.groups)
        if group.values is not None and None in group.values
    }


def null_column(at: int) -> str:
    """Return the name of the profile column that tells real NULL from undeclared values of the group column g``at``."""
    return f"null{at}"


def _group_tests(plan: QueryPlan) -> dict[str, exp.Expression]:
    """Return, by column name, the test that a group column has a declared value; empty where groups are observed."""
    declared = {f"g{at}": group.values for at, group in enumerate(plan.groups)}
    return {name: is_declared(column_tree(name), values) for name, values in declared.items() if values is not None}


def input_column(plan: QueryPlan, measure: ArgumentMeasure) -> str:
    """Return the name of the profile column that a measure reads.

    It holds all values of the measure's argument, or only those that the measure needs (``_find_reducible``).
    """
    if isinstance(measure, Reducible) and _find_reducible(plan, measure.position):
        return measure.reduced_name
    return measure.column_name


def answer_query(plan: QueryPlan, relation: exp.Expression) -> exp.Select | None:
    """Return the query for the exact totals of every group, each in whole grid steps of its measure.

    None if a measure is not a plain total.
    """
    totals = [tree for measure in plan.measures if (tree := measure.total()) is not None]
    return totals_query(plan, relation, totals) if len(totals) == len(plan.measures) else None


def totals_query(plan: QueryPlan, relation: exp.Expression, totals: Sequence[exp.Expression]) -> exp.Select:
    """Return the query for these aggregates of every declared or observed group, as the columns m0, m1 …

    ``totals``: aggregates written over the arguments a0, a1 …. Each argument is computed once per row.
    """
    groups = [_alias(group.tree.copy(), f"g{at}") for at, group in enumerate(plan.groups)]
    named = [_alias(tree, f"m{at}") for at, tree in enumerate(totals)]
    if plan.arguments:
        arguments = [_alias(_pass_null(argument.tree.copy()), f"a{at}") for at, argument in enumerate(plan.arguments)]
        rows = _select([*groups, *arguments], relation.copy(), where=plan.where).subquery("contributions", copy=False)
        kept = [_alias(column_tree(group.alias), group.alias) for group in groups]
        query = _select([*kept, *named], rows, group=len(groups))
    else:
        query = _select([*groups, *named], relation.copy(), where=plan.where, group=len(groups))
    declared = conjunction(_group_tests(plan).values())
    if declared is None:
        return query
    # No total is NULL. An engine that took the condition for one on rows would look at all of them, not at the groups.
    told = exp.If(this=is_null(column_tree("m0")), true=exp.Boolean(this=False))
    return _select([exp.Star()], query.subquery("totals", copy=False), where=exp.Case(ifs=[told], default=declared))


def _pass_null(tree: exp.Expression) -> exp.Expression:
    """Return a clamping CASE without its branch for NULL, which is not needed: the ELSE gives NULL for NULL.

    An engine that knows from a file's statistics that a column has no NULL then knows the same of the CASE. Other trees
    are returned unchanged.
    """
    match tree:
        case exp.Case(args={"ifs": [exp.If(this=exp.Is(this=raw, expression=exp.Null())), *ends], "default": inside}):
            compared = [end.this for end in ends]
            bounded = all(isinstance(test, (exp.LT, exp.GT)) and test.this == raw for test in compared)
            if bounded and isinstance(inside, exp.Cast) and inside.this == raw:
                return exp.Case(ifs=[end.copy() for end in ends], default=inside.copy())
    return tree


def people_query(
    plan: QueryPlan, relation: exp.Expression, shown: Sequence[str], condition: exp.Expression, limit: int
) -> exp.Select:
    """Return the query for up to ``limit`` groups of identical records that meet the plan's WHERE and the condition.

    ``shown``: the columns that are read and compared. The largest groups come first; the last column counts records.
    """
    columns = [_alias(column_tree(name), name) for name in shown]
    where = conjunction(tree for tree in (plan.where, condition) if tree is not None)
    query = _select(
        [*columns, _alias(exp.Count(this=exp.Star()), PEOPLE)], relation.copy(), where=where, group=len(columns)
    )
    # By position: a column of the data may have any name.
    order = [exp.Ordered(this=exp.Literal.number(len(shown) + 1), desc=True)]
    order += [exp.Ordered(this=exp.Literal.number(at + 1), nulls_first=False) for at in range(len(shown))]
    query.set("order", exp.Order(expressions=order))
    return query.limit(limit, copy=False)


def held_values_query(
    plan: QueryPlan, relation: exp.Expression, tree: exp.Expression, within: exp.Expression | None, *, alone: bool
) -> exp.Select:
    """Return the query for those values of ``tree`` that several individuals have or, if ``alone``, exactly one has.

    Only individuals who meet the plan's WHERE and ``within`` are counted.
    """
    where = conjunction(part for part in (plan.where, within) if part is not None)
    query = _select([_alias(tree.copy(), "value")], relation.copy(), where=where, group=1)
    compared = exp.EQ if alone else exp.GT
    query.set("having", exp.Having(this=compared(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))))
    return query


def count_query(relation: exp.Expression) -> exp.Select:
    return _select([_alias(exp.Count(this=exp.Star()), PEOPLE)], relation.copy())


# ---------------------------------------------------------------- the histogram of contributions


@dataclass(frozen=True, slots=True)
class _Part:
    """One block (SELECT that measures) in a profile query. ``prefix``: how the names of its columns begin.

    ``apart``: whether rows outside the block's WHERE are profiled too, so that a column says which rows are inside.
    ``where``: the condition that the query already requires of all rows.
    """

    plan: QueryPlan
    prefix: str
    apart: bool
    where: exp.Expression | None

    def name(self, name: str) -> str:
        return self.prefix + name

    def rename(self, tree: exp.Expression) -> exp.Expression:
        """Return a tree with the block's own column names (g0, a0 …) replaced by their names in the query."""
        if not self.prefix:
            return tree

        def name(node: exp.Expression) -> exp.Expression:
            local = isinstance(node, exp.Column) and node.name != PEOPLE
            return column_tree(self.prefix + node.name) if local else node

        renamed: exp.Expression = tree.transform(name)
        return renamed

    def key_names(self) -> list[str]:
        """Return the names of the block's columns, without arguments that the profile reduces.

        Of a reduced argument the profile keeps only what measures need, in other columns (``_find_reducible``).
        """
        groups, arguments = range(len(self.plan.groups)), range(len(self.plan.arguments))
        names = [f"g{at}" for at in groups] + [f"a{at}" for at in arguments if not _find_reducible(self.plan, at)]
        return [self.name(name) for name in [*names, *([INSIDE] if self.apart else [])]]

    def columns(self) -> list[exp.Expression]:
        """Return the block's groups and arguments and, if ``apart``, whether a row is inside the block's WHERE.

        Groups and arguments are NULL for rows outside it.
        """
        plan, inside = self.plan, None
        if plan.where is not None and self.apart and plan.where != self.where:
            inside = exp.Coalesce(this=wrap(plan.where.copy()), expressions=[exp.Boolean(this=False)])

        def only_inside(tree: exp.Expression) -> exp.Expression:
            return tree if inside is None else exp.Case(ifs=[exp.If(this=inside.copy(), true=tree)])

        columns = [_alias(only_inside(group.tree.copy()), self.name(f"g{at}")) for at, group in enumerate(plan.groups)]
        for at, argument in enumerate(plan.arguments):
            columns.append(_alias(only_inside(argument.column()), self.name(f"a{at}")))
        if self.apart:
            columns.append(_alias(exp.Boolean(this=True) if inside is None else inside, self.name(INSIDE)))
        return columns


def name_part(blocks: Sequence[QueryPlan], at: int) -> str:
    """Return how the names of a block's columns begin: with its index, or with nothing if it is the only block."""
    return f"{at}_" if len(blocks) > 1 else ""


# ---------------------------------------------------------------- arguments reduced to a few values


def _find_reducible(plan: QueryPlan, position: int) -> list[Reducible]:
    """Return the measures that read an argument, if the profile can keep a few of its values instead of all.

    It can if all these measures are of one class, and measures of this class need only the values around each order
    statistic (C3), or only whether a value is unique (C4). Otherwise the list is empty. ``position``: the argument's
    index.
    """
    readers = [each for each in plan.measures if isinstance(each, ArgumentMeasure) and each.position == position]
    reducible = [reader for reader in readers if isinstance(reader, Reducible)]
    alike = len({type(reader) for reader in readers}) == 1
    return reducible if alike else []


def _reduce(part: _Part, query: exp.Select, position: int) -> tuple[exp.Select, dict[str, exp.Expression]]:
    """Return the query with helper columns added, and by name the columns that replace one argument in the profile.

    If the argument is kept whole, the query is returned unchanged and there are no such columns. ``position``: the
    argument's index.
    """
    plan = part.plan
    readers = _find_reducible(plan, position)
    if not readers:
        return query, {}
    groups = [f"g{at}" for at in range(len(plan.groups))]
    reduction = type(readers[0]).reduce(readers, groups, PEOPLE, plan.schema.max_rows_per_unit)
    for stage in reduction.stages:
        more = {part.name(name): part.rename(tree) for name, tree in stage.items()}
        query = _extend(query, [column.alias for column in query.selects], more)
    return query, {part.name(name): part.rename(tree) for name, tree in reduction.columns.items()}


# ---------------------------------------------------------------- small builders


def _alias(tree: exp.Expression, name: str) -> exp.Expression:
    return alias(tree, name, quoted=True)


def _select(
    columns: Sequence[exp.Expression],
    source: exp.Expression,
    *,
    where: exp.Expression | None = None,
    group: int = 0,
) -> exp.Select:
    """Return SELECT columns FROM source [WHERE where] [GROUP BY 1, 2 … group].

    ``group``: how many of the first columns to group by. ``source`` is not copied: it becomes part of the query.
    """
    query = exp.select(*columns, copy=False).from_(source, copy=False)
    if where is not None:
        query = query.where(where.copy(), copy=False)
    return group_by_first(query, group)


def _extend(query: exp.Select, kept: Sequence[str], more: Mapping[str, exp.Expression]) -> exp.Select:
    columns = [_alias(column_tree(name), name) for name in kept] + [_alias(t, name) for name, t in more.items()]
    return _select(columns, query.subquery("inner_query", copy=False))
