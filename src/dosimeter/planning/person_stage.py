"""The person stage of a plan: rows made of each individual's own rows, as values, and the trees that make them.

A stage reads rows (of the table, of a private table beside it, or of an earlier stage) and computes new columns for
each individual: aggregates after GROUP BY unit, windows PARTITION BY unit, or whether the individual is in another
query (IN and EXISTS). Every new value depends on that individual's own rows only (Q2), so leaving somebody out removes
their rows from the result and changes nobody else's. Never opens a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from dosimeter.planning.joins import joined_relation
from dosimeter.planning.query_plan import Join, QueryPlan
from dosimeter.schema import JoinTable, Schema
from dosimeter.sql import column_tree

MEMBER = "dosimeter_member"

Tables = Callable[[JoinTable | None], exp.Expression]
"""Gives the rows of a table that count, as they stand in FROM: of a further table, or with None of the first one."""


@dataclass(frozen=True, slots=True)
class PersonRows:
    """The rows that a step reads: of a table or an earlier stage, with the tables joined to them, that meet ``where``.

    ``table``: a private table beside the first one. Without it and without a stage they are the first table's.
    """

    table: JoinTable | None
    stage: PersonStage | None
    joins: tuple[Join, ...]
    schema: Schema
    where: exp.Expression | None


@dataclass(frozen=True, slots=True)
class OwnAggregates:
    """One row per individual and combination of ``keys``: each a name and a tree; the unit is always among them."""

    keys: tuple[tuple[str, exp.Expression], ...]
    columns: tuple[tuple[str, exp.Expression], ...]


@dataclass(frozen=True, slots=True)
class OwnWindows:
    """The same rows with window functions over each individual's own rows beside them."""

    columns: tuple[tuple[str, exp.Expression], ...]


@dataclass(frozen=True, slots=True)
class OwnColumns:
    """The same rows with these columns alone, as a joined subquery gives them."""

    columns: tuple[tuple[str, exp.Expression], ...]


@dataclass(frozen=True, slots=True)
class Memberships:
    """The same rows with flags: each a name, the rows of another query, and the column of these that is the unit."""

    flags: tuple[tuple[str, PersonRows, str], ...]


@dataclass(frozen=True, slots=True)
class PersonStage:
    """One step of the person stage. ``schema``: the public facts of the rows it gives.

    ``numbered``: the columns that number each individual's rows 1, 2, … by ROW_NUMBER.
    """

    rows: PersonRows
    step: OwnAggregates | OwnWindows | OwnColumns | Memberships
    schema: Schema
    numbered: frozenset[str] = frozenset()

    def chain(self) -> Iterator[PersonStage]:
        """Yield every step that this one is computed from, and this one last."""
        for rows in self.sources():
            if rows.stage is not None:
                yield from rows.stage.chain()
            for stage in joined_stages(rows.joins):
                yield from stage.chain()
        yield self

    @property
    def origin(self) -> JoinTable | None:
        """Return the private table that the rows come from in the end; None for the first one."""
        return self.rows.table if self.rows.stage is None else self.rows.stage.origin

    def sources(self) -> Iterator[PersonRows]:
        """Yield the rows that the step reads: its own, and those of the queries behind its flags."""
        yield self.rows
        if isinstance(self.step, Memberships):
            for _, rows, _ in self.step.flags:
                yield rows


@dataclass(frozen=True, slots=True)
class PersonTable(JoinTable):
    """A joined subquery about individuals, as a table: its rows are those of a stage."""

    stage: PersonStage | None = None


def joined_stages(joins: Iterable[Join]) -> Iterator[PersonStage]:
    """Yield the stages behind joined subqueries."""
    for join in joins:
        if isinstance(join.table, PersonTable) and join.table.stage is not None:
            yield join.table.stage


def joined_rows(table: JoinTable, tables: Tables) -> exp.Expression:
    """Return the rows of a joined table or subquery that count."""
    if isinstance(table, PersonTable) and table.stage is not None:
        return person_relation(table.stage, tables)
    return tables(table)


def list_stages(plan: QueryPlan) -> Iterator[PersonStage]:
    """Yield every step of a plan's person stage, also behind its joins."""
    for stage in (*([] if plan.person is None else [plan.person]), *joined_stages(plan.joins)):
        yield from stage.chain()


def list_trees(plan: QueryPlan) -> Iterator[tuple[Schema, exp.Expression]]:
    """Yield every tree of a plan's person stage, with the facts of the rows that it reads."""
    for each in list_stages(plan):
        yield from ((rows.schema, rows.where) for rows in each.sources() if rows.where is not None)
        if isinstance(each.step, OwnAggregates):
            yield from ((each.rows.schema, tree) for _, tree in each.step.keys)
        if not isinstance(each.step, Memberships):
            yield from ((each.rows.schema, tree) for _, tree in each.step.columns)


def person_relation(stage: PersonStage, tables: Tables) -> exp.Subquery:
    """Return the rows of a stage as they can stand in FROM."""
    match stage.step:
        case OwnAggregates():
            return _aggregated(stage.rows, stage.step, tables)
        case OwnWindows():
            return _windowed(stage.rows, stage.step, tables)
        case OwnColumns():
            chosen = [_named(tree, name) for name, tree in stage.step.columns]
            return _select(chosen, stage.rows, tables).subquery("own_columns")
        case Memberships():
            return _flagged(stage.rows, stage.step, tables)


def _relation(rows: PersonRows, tables: Tables) -> exp.Expression:
    """Return the rows before the WHERE."""
    found = tables(rows.table) if rows.stage is None else person_relation(rows.stage, tables)
    if not rows.joins:
        return found.copy()
    others = {join.table.name: joined_rows(join.table, tables) for join in rows.joins}
    return joined_relation(rows.joins, found, rows.schema, others)


def _select(columns: list[exp.Expression], rows: PersonRows, tables: Tables) -> exp.Select:
    query = exp.select(*columns).from_(_relation(rows, tables))
    return query if rows.where is None else query.where(rows.where.copy())


def _aggregated(rows: PersonRows, step: OwnAggregates, tables: Tables) -> exp.Subquery:
    columns = [_named(tree, name) for name, tree in (*step.keys, *step.columns)]
    query = _select(columns, rows, tables)
    query.set("group", exp.Group(expressions=[exp.Literal.number(at + 1) for at in range(len(step.keys))]))
    return query.subquery("per_person")


def _windowed(rows: PersonRows, step: OwnWindows, tables: Tables) -> exp.Subquery:
    columns: list[exp.Expression] = [column_tree(name) for name in rows.schema.columns]
    columns += [_named(tree, name) for name, tree in step.columns]
    return _select(columns, rows, tables).subquery("own_windows")


def _flagged(rows: PersonRows, step: Memberships, tables: Tables) -> exp.Subquery:
    """Write the flags as left joins, never as IN: with NOT IN one NULL among the others would move everybody (N4)."""
    own = exp.select(exp.Star()).from_(_relation(rows, tables)).subquery("own")
    query = exp.select(*[_named(_column("own", name), name) for name in rows.schema.columns]).from_(own)
    for at, (name, others, unit) in enumerate(step.flags):
        alias = f"member{at}"
        members = _select([_named(column_tree(unit), MEMBER)], others, tables)
        members.set("group", exp.Group(expressions=[exp.Literal.number(1)]))
        same = exp.EQ(this=_column("own", rows.schema.unit), expression=_column(alias, MEMBER))
        absent = exp.Is(this=_column(alias, MEMBER), expression=exp.Null())
        flag = exp.Case(ifs=[exp.If(this=absent, true=exp.Boolean(this=False))], default=exp.Boolean(this=True))
        query = query.join(members.subquery(alias), on=same, join_type="left").select(_named(flag, name))
    return query.subquery("with_members")


def _named(tree: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=tree.copy(), alias=exp.to_identifier(name, quoted=True))


def _column(table: str, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=table)
