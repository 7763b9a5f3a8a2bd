"""Find the stage of each SELECT in a query: over rows, measuring, or after the noise. Takes parsed SQL; knows no data.

A SELECT over tables, or over subqueries that treat rows by themselves, *measures* when it aggregates. A SELECT over one
that measures comes *after* the noise. Names of WITH are looked up here, as SQL looks them up: from the inside out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from sqlglot import exp

from dosimeter.planning.after.measuring_select import is_measured
from dosimeter.planning.measured.aggregate_collector import is_single_aggregate
from dosimeter.planning.rows.parsing import (
    as_select,
    expect_alias,
    list_parts,
    list_sources,
    read_whole_number,
    unaliased,
)
from dosimeter.planning.rows.subqueries import read_ctes
from dosimeter.schema import JoinTable, Schema
from dosimeter.sql import clause_of, expect_only, refusal

MAX_NESTING = 10


class Stage(IntEnum):
    """The stage of a SELECT: it gives rows, it measures them, or it works on released numbers."""

    ROWS = 0
    MEASURED = 1
    AFTER = 2


@dataclass(frozen=True, slots=True)
class Scoped:
    """A SELECT and the queries of WITH that it can name. ``parts``: all SELECTs of a UNION ALL; empty without one.

    ``depth``: in how many queries it is nested.
    """

    select: exp.Select
    known: Mapping[str, Scoped]
    depth: int = 0
    parts: tuple[Scoped, ...] = ()

    def with_rows(self, schema: Schema) -> exp.Select:
        """Return a copy of the SELECT whose WITH holds only queries that the SELECT names and that give rows.

        These can also come from the WITH of an outer query.
        """
        select = self.select.copy()
        named = {table.name.lower() for table in select.find_all(exp.Table)}
        listed = [
            exp.CTE(this=query.with_rows(schema), alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
            for name, query in self.known.items()
            if name in named and find_stage(query, schema) is Stage.ROWS
        ]
        select.set("with_", exp.With(expressions=listed) if listed else None)
        return select


def read_scope(query: Scoped) -> Scoped:
    """Return the same SELECT, which now also knows the queries of its own WITH. Refuses too deep a nesting."""
    if query.depth > MAX_NESTING:
        raise refusal(query.select, "The query is nested too deeply.")
    if query.parts:
        return query
    known = dict(query.known)
    for name, select in read_ctes(query.select).items():
        known[name] = Scoped(select, dict(known), query.depth + 1)
    return Scoped(query.select, known, query.depth)


def find_stage(query: Scoped, schema: Schema, *, nested: bool = True) -> Stage:
    """Return the stage of a SELECT. ``nested``: whether it stands inside another query.

    A nested SELECT that groups by the unit does not count as measuring: it gives rows, of one individual each.
    """
    query = read_scope(query)
    if query.parts:
        _refuse_rows_in_union(query, schema)
        return Stage.AFTER
    stages = {name: find_stage(source, schema) for name, source in list_queries(query).items()}
    if any(stage is not Stage.ROWS for stage in stages.values()):
        _refuse_rows_beside(query, stages, schema)
        return Stage.AFTER
    if query.select.args.get("from_") is None and list_subqueries(query):
        return Stage.AFTER
    if not is_measured(query.select) or (nested and groups_by_unit(query.select, schema)):
        return Stage.ROWS
    return Stage.MEASURED


def _refuse_rows_in_union(query: Scoped, schema: Schema) -> None:
    """Refuse a UNION of rows: then somebody's rows would count several times."""
    for part in query.parts:
        if find_stage(part, schema) is Stage.ROWS:
            raise refusal(
                part.select,
                "UNION ALL joins grouped queries: SELECT …, COUNT(*) FROM … UNION ALL SELECT …, COUNT(*) FROM …. Rows "
                "would count several times. Aggregate in each SELECT, or ask once: WHERE … OR ….",
            )


def groups_by_unit(select: exp.Select, schema: Schema) -> bool:
    """Return whether a SELECT groups by the unit column of the first table or of another declared table."""
    clause = select.args.get("group")
    if schema.unit == "row" or clause is None:
        return False
    units = {schema.unit.lower(), *(table.unit.lower() for table in schema.tables.values() if table.unit is not None)}
    nodes = clause.expressions
    if clause.args.get("all") is True and not nodes:  # GROUP BY ALL
        nodes = [unaliased(item) for item in select.expressions]
    return any(_meant_name(node, select) in units for node in nodes)


def _meant_name(node: exp.Expression, select: exp.Select) -> str:
    """Return the column that GROUP BY column, GROUP BY alias or GROUP BY 1 stands for; empty for anything else."""
    position = read_whole_number(node)
    if position is not None and 1 <= position <= len(select.expressions):
        node = unaliased(select.expressions[position - 1])
    if not isinstance(node, exp.Column):
        return ""
    items = [item for item in select.expressions if isinstance(item, exp.Alias) and item.alias == node.name]
    meant = items[0].this if items and not node.table and isinstance(items[0].this, exp.Column) else node
    return str(meant.name).lower()


def _refuse_rows_beside(query: Scoped, stages: Mapping[str, Stage], schema: Schema) -> None:
    """Refuse a join of released numbers with rows: rows would be compared with numbers that come from other people.

    A public table is allowed: it is joined by its key (Q4).
    """
    for node in list_sources(query.select):
        scoped = _find_source(node, query)
        if _find_public(node, query, schema) is not None:
            continue
        if scoped is not None and stages[_name_of(node)] is Stage.ROWS and _reads_public(scoped, schema):
            raise refusal(
                node,
                f"{clause_of(node)} gives rows of a public table through a query. Join the table itself by its unique "
                "key, and write its conditions in WHERE: FROM (SELECT …) AS g JOIN table USING (key) WHERE ….",
            )
        if scoped is None or stages[_name_of(node)] is Stage.ROWS:
            raise refusal(
                node,
                f"{clause_of(node)} gives rows beside a grouped query. What is measured cannot depend on numbers read "
                "off other people's rows: group first, and join grouped queries and public tables only.",
            )


def _find_public(node: exp.Expression, query: Scoped, schema: Schema) -> JoinTable | None:
    """Return the public table that a node of FROM names; None if it names none."""
    if not isinstance(node, exp.Table) or _find_source(node, query) is not None:
        return None
    written = f"{node.db}.{node.name}" if node.db else node.name
    found = [table for name, table in schema.tables.items() if table.public and name.lower() == written.lower()]
    return found[0] if found else None


def _reads_public(query: Scoped, schema: Schema) -> bool:
    """Return whether a query reads public tables alone."""
    nodes = list_sources(query.select)
    return bool(nodes) and all(_find_public(node, query, schema) is not None for node in nodes)


def list_joined(query: Scoped, schema: Schema) -> dict[str, Scoped | JoinTable]:
    """Return the queries and public tables in FROM and JOIN of a SELECT after the noise, by their names, in order."""
    scoped = list_queries(query)
    found: dict[str, Scoped | JoinTable] = {}
    for node in list_sources(query.select):
        name, table = _name_of(node), _find_public(node, query, schema)
        if table is not None and (name in found or name in scoped):
            raise refusal(node, f"Two tables in FROM are called {name}. Give one another name.")
        if table is not None:
            expect_alias(node, "this", "db")
        found[name] = scoped[name] if table is None else table
    return found


def list_queries(query: Scoped) -> dict[str, Scoped]:
    """Return the queries in FROM and JOIN, by name and in order, without tables. Refuses two of the same name."""
    found: dict[str, Scoped] = {}
    for node in list_sources(query.select):
        scoped = _find_source(node, query)
        if scoped is None:
            continue
        name = _name_of(node)
        if name in found:
            raise refusal(node, f"Two queries in FROM are called {name}. Give one another name.")
        found[name] = scoped
    return found


def list_subqueries(query: Scoped) -> dict[int, Scoped]:
    """Return the subqueries outside FROM, JOIN and WITH, by the ``id`` of the node that holds each."""
    found: dict[int, Scoped] = {}
    for name, value in query.select.args.items():
        if name in ("from_", "joins", "with_"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Expression):
                _collect(part, query, found)
    return found


def list_scalars(query: Scoped) -> dict[int, Scoped]:
    """Return the subqueries that stand for a number beside the aggregates of a SELECT, by the ``id`` of their node.

    Subqueries in WHERE, in GROUP BY or inside an aggregate are about rows, and are left out.
    """
    found: dict[int, Scoped] = {}
    clauses = [*query.select.expressions, *(query.select.args.get(name) for name in ("having", "qualify", "order"))]
    pending = [part for part in clauses if part is not None]
    while pending:
        node = pending.pop()
        if is_single_aggregate(node) or isinstance(node, (exp.Exists, exp.Select, exp.SetOperation)):
            continue
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            continue
        if isinstance(node, exp.Subquery):
            found[id(node)] = _scope_subquery(node.this, query)
            continue
        pending.extend(node.iter_expressions())
    return found


def require_uncorrelated(subquery: exp.Expression) -> None:
    """Refuse a subquery that names a table of the query around it: its number would differ from row to row."""
    sources = subquery.find_all(exp.Table, exp.Subquery)
    known = {str(source.alias_or_name).lower() for source in sources if source is not subquery}
    for column in subquery.find_all(exp.Column):
        if column.table and column.table.lower() not in known:
            raise refusal(
                subquery,
                f"{clause_of(subquery)} refers to {column.table} outside of it. A subquery beside aggregates stands by "
                "itself; for a number of each group, aggregate with FILTER (WHERE …), or join grouped queries.",
            )


def _scope_subquery(node: exp.Expression, query: Scoped) -> Scoped:
    """Return a subquery, or the SELECTs of a UNION ALL, with the queries of WITH that it can name."""
    depth = query.depth + 1
    parts = list_parts(node) if isinstance(node, exp.SetOperation) else []
    if len(parts) > 1:
        return Scoped(parts[0], query.known, depth, tuple(Scoped(part, query.known, depth) for part in parts))
    return Scoped(as_select(node), query.known, depth)


def _collect(node: exp.Expression, query: Scoped, found: dict[int, Scoped]) -> None:
    if isinstance(node, exp.In) and isinstance(node.args.get("query"), exp.Expression):
        inner = node.args["query"].unnest()
        if isinstance(inner, exp.Select):
            found[id(node)] = Scoped(inner, query.known, query.depth + 1)
        _collect(node.this, query, found)
        return
    if isinstance(node, exp.Subquery) and isinstance(node.this, (exp.Select, exp.Union)):
        found[id(node)] = _scope_subquery(node.this, query)
        return
    for part in node.iter_expressions():
        _collect(part, query, found)


def _find_source(node: exp.Expression, query: Scoped) -> Scoped | None:
    """Return the query that a node of FROM stands for; None if it names a table."""
    if isinstance(node, exp.Table) and not node.db:
        known = query.known.get(node.name.lower())
        if known is not None:
            expect_only(node, "this", "alias")
        return known
    if isinstance(node, exp.Subquery):
        expect_alias(node, "this")
        if not isinstance(node.this, (exp.Select, exp.Union)):
            raise refusal(node, "Only a plain SELECT, or several with UNION ALL, can stand as a subquery in FROM.")
        return _scope_subquery(node.this, query)
    return None


def _name_of(node: exp.Expression) -> str:
    return str(node.alias_or_name).lower() or "grouped"
