"""The person stages of a plan: what is computed from each individual's own rows, as values and as trees.

A stage reads rows (of the first table, of another private table, or of an earlier stage) and applies one step to them.
The step computes new columns for each individual: aggregates after GROUP BY unit, windows PARTITION BY unit, or whether
the individual is in another query (IN and EXISTS). Every new value depends on that individual's own rows only (Q2), so
leaving somebody out removes their rows from the result and changes nobody else's. Never opens a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from dosimeter.planning.query_plan import Join, QueryPlan
from dosimeter.planning.rows.joins import joined_relation
from dosimeter.schema import JoinTable, Schema
from dosimeter.sql import alias, column_tree, group_by_first

MEMBER = "dosimeter_member"

Tables = Callable[[JoinTable | None], exp.Expression]
"""A function that returns the rows of a table that count, as SQL for FROM. Called with None for the first table."""


@dataclass(frozen=True, slots=True)
class PersonRows:
    """The rows that a stage reads: joined with the tables of ``joins``, and only those that meet ``where``.

    ``stage``: the earlier stage that gives the rows. ``table``: the private table, other than the first, that holds
    them. If both are None, they are the first table's. ``schema``: the public facts of the rows after the joins.
    """

    table: JoinTable | None
    stage: PersonStage | None
    joins: tuple[Join, ...]
    schema: Schema
    where: exp.Expression | None


@dataclass(frozen=True, slots=True)
class OwnAggregates:
    """A step that gives one row per individual, or per individual and further columns (GROUP BY unit, …).

    ``keys``: the GROUP BY columns, the unit among them, and ``columns``: the aggregates; each a name and a tree.
    """

    keys: tuple[tuple[str, exp.Expression], ...]
    columns: tuple[tuple[str, exp.Expression], ...]


@dataclass(frozen=True, slots=True)
class OwnWindows:
    """A step that adds window functions over each individual's own rows as columns, each a name and a tree."""

    columns: tuple[tuple[str, exp.Expression], ...]


@dataclass(frozen=True, slots=True)
class OwnColumns:
    """A step that gives the same rows with only these columns, each a name and a tree. For joined subqueries."""

    columns: tuple[tuple[str, exp.Expression], ...]


@dataclass(frozen=True, slots=True)
class Memberships:
    """A step that adds flags to the rows: whether the row's individual is in another query.

    ``flags``: each a name, the rows of the other query, and the name of their unit column.
    """

    flags: tuple[tuple[str, PersonRows, str], ...]


@dataclass(frozen=True, slots=True)
class PersonStage:
    """One person stage: the rows that it reads, and the step that it applies to them.

    ``schema``: the public facts of the rows that the stage gives. ``numbered``: the columns that number each
    individual's rows 1, 2, … by ROW_NUMBER.
    """

    rows: PersonRows
    step: OwnAggregates | OwnWindows | OwnColumns | Memberships
    schema: Schema
    numbered: frozenset[str] = frozenset()

    def chain(self) -> Iterator[PersonStage]:
        """Yield every stage that this one is computed from, and this one last."""
        for rows in self.sources():
            if rows.stage is not None:
                yield from rows.stage.chain()
            for stage in joined_stages(rows.joins):
                yield from stage.chain()
        yield self

    @property
    def origin(self) -> JoinTable | None:
        """Return the private table, other than the first, that the rows come from; None if it is the first table."""
        return self.rows.table if self.rows.stage is None else self.rows.stage.origin

    def sources(self) -> Iterator[PersonRows]:
        """Yield the rows that the stage reads, and for each of its flags the rows of the other query."""
        yield self.rows
        if isinstance(self.step, Memberships):
            for _, rows, _ in self.step.flags:
                yield rows


@dataclass(frozen=True, slots=True)
class PersonTable(JoinTable):
    """A subquery about individuals that is joined like a table. ``stage``: what gives its rows."""

    stage: PersonStage | None = None


def joined_stages(joins: Iterable[Join]) -> Iterator[PersonStage]:
    """Yield the stage of each join whose table is a subquery about individuals."""
    for join in joins:
        if isinstance(join.table, PersonTable) and join.table.stage is not None:
            yield join.table.stage


def joined_rows(table: JoinTable, tables: Tables) -> exp.Expression:
    """Return the rows of a joined table or subquery, as they can stand in FROM.

    No individual has more of them than the table's ``max_rows_per_unit``. ``tables`` gives the rows of a declared
    table.
    """
    if isinstance(table, PersonTable) and table.stage is not None:
        return person_relation(table.stage, tables)
    return tables(table)


def list_stages(plan: QueryPlan) -> Iterator[PersonStage]:
    """Yield every stage of a plan (Q2): those of its own rows, and those of its joined subqueries."""
    for stage in (*([] if plan.person is None else [plan.person]), *joined_stages(plan.joins)):
        yield from stage.chain()


def list_trees(plan: QueryPlan) -> Iterator[tuple[Schema, exp.Expression]]:
    """Yield a pair for every tree of a plan's person stages: the schema of the rows that it reads, and the tree."""
    for each in list_stages(plan):
        yield from ((rows.schema, rows.where) for rows in each.sources() if rows.where is not None)
        if isinstance(each.step, OwnAggregates):
            yield from ((each.rows.schema, tree) for _, tree in each.step.keys)
        if not isinstance(each.step, Memberships):
            yield from ((each.rows.schema, tree) for _, tree in each.step.columns)


def list_block_trees(plan: QueryPlan) -> Iterator[tuple[Schema, exp.Expression]]:
    """Yield a pair for each WHERE, group and argument of a plan's blocks: the schema of its rows, and the tree.

    In these the analyst may have written a value.
    """
    for block in plan.blocks:
        trees = [block.where, *(group.tree for group in block.groups), *(each.tree for each in block.arguments)]
        yield from ((block.schema, tree) for tree in trees if tree is not None)


def person_relation(stage: PersonStage, tables: Tables) -> exp.Subquery:
    """Return the rows that a stage gives, as a subquery for FROM. ``tables`` gives the rows of a declared table."""
    match stage.step:
        case OwnAggregates():
            return _aggregated(stage.rows, stage.step, tables)
        case OwnWindows():
            return _windowed(stage.rows, stage.step, tables)
        case OwnColumns():
            chosen = [alias(tree.copy(), name, quoted=True) for name, tree in stage.step.columns]
            return _select(chosen, stage.rows, tables).subquery("own_columns")
        case Memberships():
            return _flagged(stage.rows, stage.step, tables)


def _relation(rows: PersonRows, tables: Tables) -> exp.Expression:
    """Return the rows that a stage reads, joined but not yet restricted by their WHERE, as they can stand in FROM.

    ``tables`` gives the rows of a declared table.
    """
    found = tables(rows.table) if rows.stage is None else person_relation(rows.stage, tables)
    if not rows.joins:
        return found.copy()
    others = {join.table.name: joined_rows(join.table, tables) for join in rows.joins}
    return joined_relation(rows.joins, found, rows.schema, others)


def _select(columns: list[exp.Expression], rows: PersonRows, tables: Tables) -> exp.Select:
    query = exp.select(*columns).from_(_relation(rows, tables))
    return query if rows.where is None else query.where(rows.where.copy())


def _aggregated(rows: PersonRows, step: OwnAggregates, tables: Tables) -> exp.Subquery:
    columns = [alias(tree.copy(), name, quoted=True) for name, tree in (*step.keys, *step.columns)]
    query = _select(columns, rows, tables)
    return group_by_first(query, len(step.keys)).subquery("per_person")


def _windowed(rows: PersonRows, step: OwnWindows, tables: Tables) -> exp.Subquery:
    columns: list[exp.Expression] = [column_tree(name) for name in rows.schema.columns]
    columns += [alias(tree.copy(), name, quoted=True) for name, tree in step.columns]
    return _select(columns, rows, tables).subquery("own_windows")


def _flagged(rows: PersonRows, step: Memberships, tables: Tables) -> exp.Subquery:
    """Return the rows with a flag for each other query: whether the row's individual is in it.

    Written with left joins, never with IN: a single NULL in the other query would make NOT IN hold for nobody (N4).
    """
    own = exp.select(exp.Star()).from_(_relation(rows, tables)).subquery("own")
    query = exp.select(*[alias(column_tree(name, "own"), name, quoted=True) for name in rows.schema.columns]).from_(own)
    for at, (name, others, unit) in enumerate(step.flags):
        place = f"member{at}"
        members = group_by_first(_select([alias(column_tree(unit), MEMBER, quoted=True)], others, tables), 1)
        same = exp.EQ(this=column_tree(rows.schema.unit, "own"), expression=column_tree(MEMBER, place))
        absent = exp.Is(this=column_tree(MEMBER, place), expression=exp.Null())
        flag = exp.Case(ifs=[exp.If(this=absent, true=exp.Boolean(this=False))], default=exp.Boolean(this=True))
        query = query.join(members.subquery(place), on=same, join_type="left").select(alias(flag, name, quoted=True))
    return query.subquery("with_members")
