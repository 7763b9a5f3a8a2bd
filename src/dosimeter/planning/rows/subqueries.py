"""Inline row-wise CTEs and subqueries into the query that uses them. Takes a parsed SELECT; gives one without them.

`WITH v AS (SELECT cost * 2 AS double FROM visits WHERE …) SELECT SUM(double) FROM v` asks the same as `SELECT SUM(cost
* 2) FROM visits WHERE …`. Only a query that treats each row by itself can be inlined. What is about each individual's
own rows (GROUP BY unit, OVER (PARTITION BY unit), IN and EXISTS) becomes columns of the person stage first. Any
other inner query that groups, sorts, limits, deduplicates or multiplies rows is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from sqlglot import exp

from dosimeter.planning.people.levels import PersonLevels
from dosimeter.planning.rows.parsing import as_select, expect_alias, expect_plain_star, is_star, unaliased
from dosimeter.sql import MAX_NODES, clause_of, conjunction, expect_only, is_row_wise, refusal

MAX_NESTING = 10
_ROW_WISE = ("expressions", "from_", "where", "joins")
_ONE_ROW_EACH = (
    "A subquery or CTE must treat each row by itself: SELECT … FROM table WHERE …, without DISTINCT, GROUP BY, "
    "ORDER BY or LIMIT. Group in the outer query."
)


def inline_subqueries(select: exp.Select, people: PersonLevels) -> exp.Select:
    """Return the same query as one SELECT over tables, with its subqueries and CTEs written in.

    ``people``: collects what is computed from each individual's own rows.
    """
    if all(node is select for node in select.find_all(exp.Query, exp.Exists)):
        return select.copy()  # there is nothing to write in
    _refuse_shadowing(select, {name.lower() for name in people.declared.columns})
    return _Inlining(people).inline(select.copy(), {}, 0)


def _refuse_shadowing(select: exp.Select, columns: Set[str]) -> None:
    """Refuse `SELECT *, … AS cost` where the table has a column cost: engines differ in which one a name means."""
    for inner in select.find_all(exp.Select):
        if inner is select or not any(is_star(item) for item in inner.expressions):
            continue
        for item in inner.expressions:
            if isinstance(item, exp.Alias) and item.alias.lower() in columns:
                raise refusal(item, f"SELECT * has a column {item.alias} already. Give this one another name.")


@dataclass(frozen=True, slots=True)
class _Inlining:
    people: PersonLevels

    def inline(self, select: exp.Select, known: Mapping[str, exp.Select], depth: int) -> exp.Select:
        """Return a SELECT over a table, with the subqueries and CTEs that its FROM names written in.

        ``known``: the CTEs that it can name. ``depth``: in how many queries it is nested.
        """
        if depth > MAX_NESTING:
            raise refusal(select, "The query is nested too deeply.")
        named = {**known, **self._read_ctes(select, known, depth)}
        select.set("with_", None)
        for join in select.args.get("joins") or []:
            self._name_joined(join, named, depth)
        self.people.set_aside(select, lambda query: self.inline(query, named, depth + 1))
        origin = select.args.get("from_")
        found = self._inner_query(origin.this, named, depth) if origin is not None else None
        if found is not None:
            inner, alias = found
            _require_row_wise(inner)
            select = _write_in(select, inner, alias, depth)
        self.people.settle(select)
        return select

    def _read_ctes(self, select: exp.Select, known: Mapping[str, exp.Select], depth: int) -> dict[str, exp.Select]:
        found: dict[str, exp.Select] = {}
        for name, query in read_ctes(select).items():
            found[name] = self.inline(query.copy(), {**known, **found}, depth + 1)
        return found

    def _inner_query(
        self, source: exp.Expression, named: Mapping[str, exp.Select], depth: int
    ) -> tuple[exp.Select, str] | None:
        """Return the subquery or CTE in FROM, with its own subqueries written in, and its alias; None for a table."""
        is_cte = isinstance(source, exp.Table) and not source.db and source.name.lower() in named
        if not isinstance(source, exp.Subquery) and not is_cte:
            return None
        expect_alias(source, "this")
        if is_cte:
            return self.people.lower(named[source.name.lower()].copy()), source.alias_or_name.lower()
        if not isinstance(source.this, exp.Select):
            raise refusal(source, "Only a plain SELECT can stand as a subquery in FROM.")
        return self.people.lower(self.inline(source.this.copy(), named, depth + 1)), source.alias.lower()

    def _name_joined(self, join: exp.Expression, named: Mapping[str, exp.Select], depth: int) -> None:
        """Replace a joined subquery or CTE about individuals by a table that stands for it."""
        target = join.this
        is_cte = isinstance(target, exp.Table) and not target.db and target.name.lower() in named
        is_query = isinstance(target, exp.Subquery) and isinstance(target.this, exp.Select)
        found = self._inner_query(target, named, depth) if is_cte or is_query else None
        if found is not None:
            join.set("this", self.people.join(*found, join))


def read_ctes(select: exp.Select) -> dict[str, exp.Select]:
    """Return the queries of a WITH by name, in order, as they are written."""
    clause = select.args.get("with_")
    if clause is None:
        return {}
    if clause.args.get("recursive"):
        raise refusal(clause, "WITH RECURSIVE is not supported.")
    expect_only(clause, "expressions")
    found: dict[str, exp.Select] = {}
    for cte in clause.expressions:
        if not isinstance(cte.this, (exp.Select, exp.Union)) or cte.args["alias"].args.get("columns"):
            raise refusal(cte, "A CTE must be a plain SELECT: WITH name AS (SELECT … FROM table WHERE …).")
        expect_only(cte, "this", "alias", "materialized")
        if cte.alias.lower() in found:
            raise refusal(cte, f"Two CTEs are called {cte.alias}.")
        found[cte.alias.lower()] = as_select(cte.this)
    return found


def _require_row_wise(inner: exp.Select) -> None:
    for name, value in inner.args.items():
        if name not in _ROW_WISE and value:
            raise refusal(inner, _ONE_ROW_EACH)
    for item in inner.expressions:
        if is_star(item):
            continue
        for node in item.walk():
            if isinstance(node, (exp.AggFunc, exp.Window)):
                raise refusal(item, "A subquery or CTE must treat each row by itself. Aggregate in the outer query.")
            if not is_row_wise(node):
                raise refusal(
                    item,
                    f"{clause_of(node)} is not supported in a subquery or CTE. Use columns, arithmetic, CASE, "
                    "COALESCE, comparisons and date parts there.",
                )


@dataclass(slots=True)
class _Meaning:
    """The meaning of an outer query's column names, needed to write the subquery in its FROM into it.

    ``alias``: the subquery's name. ``columns``: what each of its columns computes. ``star``: whether it has ``*``, and
    so passes on all columns of its table. ``joined``: the names and aliases of the tables that the outer query joins.
    ``source``: the name of the subquery's own table, written before its columns to tell them from columns of joined
    tables; None if the outer query joins nothing, or if the subquery reads no table or several. ``outputs``: the
    aliases of the outer SELECT list. ``nodes``: how many nodes were written in so far; too many are refused.
    """

    alias: str
    columns: Mapping[str, exp.Expression]
    star: bool
    source: str | None
    joined: frozenset[str]
    outputs: frozenset[str]
    nodes: int = field(default=0)

    def rewrite(self, tree: exp.Expression, *, outputs_first: bool) -> exp.Expression:
        """Return a tree of the outer query with each column of the subquery replaced by what it computes.

        SUM(double) becomes SUM((cost * 2)) if the subquery has cost * 2 AS double. ``outputs_first``: whether a bare
        name means an alias of the outer SELECT list first, as in HAVING and ORDER BY.
        """

        def replaced(node: exp.Expression) -> exp.Expression:
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                return node
            is_output = not node.table and node.name.lower() in self.outputs
            if is_output and outputs_first and node.find_ancestor(exp.AggFunc) is None:
                return node
            return self._column(node, is_output)

        rewritten: exp.Expression = tree.transform(replaced)
        return rewritten

    def _column(self, node: exp.Column, is_output: bool) -> exp.Expression:
        name, table = node.name.lower(), node.table.lower()
        if table in self.joined:
            return node
        if table and table != self.alias:
            raise refusal(node, f"Unknown table {node.table}. The subquery goes by {self.alias or 'no name'}.")
        if name in self.columns:
            return self._counted(self.columns[name], node)
        if self.star:
            qualifier = self.source if table and self.joined else None
            return exp.column(node.this.copy(), table=qualifier)
        if is_output:
            return node
        if self.joined and not table:
            raise refusal(
                node, f"The subquery has no column {node.name}. If it is a joined table's, write table.{node.name}."
            )
        raise refusal(node, f"The subquery has no column {node.name}. Add it to its SELECT list.")

    def _counted(self, meaning: exp.Expression, node: exp.Expression) -> exp.Expression:
        """Return a copy of what a column of the subquery computes (``meaning``), to be written in its place.

        Refuses a query that grows too large by it. ``node``: the column, for the message.
        """
        self.nodes += sum(1 for _ in meaning.walk())
        if self.nodes > MAX_NODES:
            raise refusal(node, "The query is too long with its subqueries written in.")
        copied = meaning.copy()
        return copied if isinstance(copied, exp.Column) else exp.Paren(this=copied)

    def check_using(self, join: exp.Expression) -> None:
        """Refuse USING (column) unless the subquery passes on that very column under its own name."""
        for identifier in join.args.get("using") or []:
            meaning = self.columns.get(identifier.name.lower())
            if meaning is None and not self.star:
                raise refusal(join, f"The subquery has no column {identifier.name}. Add it to its SELECT list.")
            same = isinstance(meaning, exp.Column) and meaning.name.lower() == identifier.name.lower()
            if meaning is not None and not same:
                raise refusal(
                    join,
                    f"USING ({identifier.name}): the subquery gives that name to another column. Keep its name there.",
                )


def _write_in(outer: exp.Select, inner: exp.Select, alias: str, depth: int) -> exp.Select:
    joins = outer.args.get("joins") or []
    source = _qualify(inner) if joins else None
    columns, star = _read_items(inner)
    meaning = _Meaning(
        alias=alias,
        columns=columns,
        star=star,
        source=source,
        joined=frozenset(name.lower() for join in joins for name in (join.this.name, join.this.alias) if name),
        outputs=frozenset(item.alias.lower() for item in outer.expressions if isinstance(item, exp.Alias)),
    )
    if depth > 0:
        outer.set("expressions", list(_expanded(outer.expressions, meaning)))
    for join in joins:
        meaning.check_using(join)
    outer.set("expressions", [_named(item) for item in outer.expressions])
    for name, value in list(outer.args.items()):
        first = name in ("having", "order")
        if isinstance(value, exp.Expression) and name != "from_":
            outer.set(name, meaning.rewrite(value, outputs_first=first))
        elif isinstance(value, list):
            outer.set(name, [meaning.rewrite(part, outputs_first=first) for part in value])
    outer.set("from_", inner.args["from_"].copy() if inner.args.get("from_") else None)
    outer.set("joins", [*(inner.args.get("joins") or []), *(outer.args.get("joins") or [])])
    merged = conjunction(part.args["where"].this.copy() for part in (inner, outer) if part.args.get("where"))
    outer.set("where", exp.Where(this=merged) if merged is not None else None)
    return outer


def _qualify(inner: exp.Select) -> str | None:
    """Put the inner table's name before its columns, and return that name; None if FROM is not a single table.

    With that name before it, a column is not mistaken for a column of a table that the outer query joins.
    """
    origin = inner.args.get("from_")
    if origin is None or inner.args.get("joins") or not isinstance(origin.this, exp.Table):
        return None
    source = str(origin.this.alias or origin.this.name)
    for part in (*inner.expressions, inner.args.get("where")):
        for column in part.find_all(exp.Column) if part is not None else ():
            if not column.table:
                column.set("table", exp.to_identifier(source))
    return source


def _read_items(inner: exp.Select) -> tuple[dict[str, exp.Expression], bool]:
    """Return what each column of the inner SELECT list computes, by name, and whether the list has ``*``."""
    columns: dict[str, exp.Expression] = {}
    star = False
    mentioned = {node.name.lower() for part in inner.expressions for node in part.find_all(exp.Column)}
    for item in inner.expressions:
        if is_star(item):
            expect_plain_star(item)
            if not isinstance(item, exp.Star) and inner.args.get("joins"):
                raise refusal(item, f"{clause_of(item)}: list the columns by name.")
            star = True
            continue
        name = item.alias_or_name.lower()
        if not name:
            raise refusal(item, "Name this expression with AS, so that the outer query can use it.")
        if name in columns:
            raise refusal(item, f"The subquery has two columns called {name}. Give them different names.")
        columns[name] = unaliased(item)
    for name, item in columns.items() if star else ():
        renamed = not isinstance(item, exp.Column) or item.name.lower() != name
        if renamed and name in mentioned:
            raise refusal(item, f"SELECT * has a column {name} already. Give this one another name.")
    return columns, star


def _expanded(items: Iterable[exp.Expression], meaning: _Meaning) -> Iterable[exp.Expression]:
    """Yield the SELECT list with `*` replaced by the columns of the subquery, not those of its table."""
    for item in items:
        if not is_star(item):
            yield item
            continue
        expect_plain_star(item)
        if meaning.joined or (isinstance(item, exp.Column) and item.table.lower() != meaning.alias):
            raise refusal(item, f"{clause_of(item)}: list the columns by name.")
        if meaning.star:
            yield exp.Star()
        for name in meaning.columns:
            yield exp.column(exp.to_identifier(name, quoted=True))


def _named(item: exp.Expression) -> exp.Expression:
    """Return an item of the SELECT list. A bare column c becomes c AS c, to keep its name when it is replaced."""
    if isinstance(item, exp.Column) and not isinstance(item.this, exp.Star):
        return exp.Alias(this=item.copy(), alias=exp.to_identifier(item.name, quoted=True))
    return item
