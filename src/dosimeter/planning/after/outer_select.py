"""A SELECT around grouped ones (Q4): over relations that are released already, and public tables. Knows no data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dosimeter.planning.after.expressions import ExpressionWriter, find_derived, finds_aggregate, limit_length
from dosimeter.planning.after.measuring_select import (
    CELL,
    MAX_ROWS,
    Clauses,
    Field,
    Relation,
    as_scalar_subquery,
    free_name,
    is_measured,
    read_distinct,
    read_rows,
    require_one_row,
    seek_column,
    unwrapped,
    write_order,
)
from dosimeter.planning.after.public_tables import join_by_key, refuse_join, select_public
from dosimeter.planning.rows.named_windows import write_out_windows
from dosimeter.planning.rows.parsing import (
    NO_SUBQUERIES,
    UNION,
    expect_plain_star,
    is_star,
    read_whole_number,
    unaliased,
)
from dosimeter.schema import Schema
from dosimeter.sql import clause_of, conjunction, count_nodes, expect_only, refusal, wrap

OUTER_SELECT = "an outer SELECT"
MAX_AFTER_NODES = 20_000
_JOINS = ("", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS")
_CLAUSES = ("expressions", "from_", "joins", "where", "group", "having", "qualify", "order", "limit", "offset",
            "distinct", "windows", "with_")  # fmt: skip


class _OtherCells(Exception):
    """Raised where a column reads more than one released row, so that it has no formula."""


@dataclass(slots=True)
class OuterSelect:
    """A SELECT over relations that are already released, and public tables, to be rebuilt.

    ``sources``: what stands in FROM and JOIN, by name. ``subquery``: the subqueries in other clauses, by the ``id`` of
    their node. ``named``: what each column of the SELECT list computes, by its name. ``merged``: the names of columns
    in USING. ``equal``: the join condition of each public table, by the table's name. ``read``: by source, the columns
    that are read of it. ``steady``: whether its windows and aggregates read all rows of one released table.
    """

    sources: Mapping[str, Relation]
    schema: Schema
    subquery: Mapping[int, Relation] = field(default_factory=dict)
    named: dict[str, exp.Expression] = field(default_factory=dict)
    merged: set[str] = field(default_factory=set)
    equal: dict[str, exp.Expression] = field(default_factory=dict)
    read: dict[str, set[str]] = field(default_factory=dict)
    steady: bool = False

    def write(self, select: exp.Select) -> Relation:
        """Return the SELECT rebuilt over its sources. The first source stands in FROM, the others are joined."""
        for name, value in select.args.items():
            if name not in _CLAUSES and value:
                raise refusal(select, f"The clause {name.strip('_').upper()} is not supported around a grouped query.")
        clauses = Clauses(distinct=read_distinct(select))
        write_out_windows(select)
        using = [key for join in select.args.get("joins") or [] for key in join.args.get("using") or []]
        self.merged = {key.name.lower() for key in using}
        self._join_public(select)
        grouped = is_measured(select)
        joined = [str(join.args.get("side")).upper() for join in select.args.get("joins") or []]
        alone = sum(relation.public is None for relation in self.sources.values()) == 1
        first = next(iter(self.sources), "")
        self.steady = alone and self.sources[first].whole and all(side == "LEFT" for side in joined)
        self.steady = self.steady and not any(select.args.get(name) for name in ("where", "group"))
        writer = ExpressionWriter(self._leaf, self.schema, aggregates=True)
        fields = [each for item in select.expressions for each in self._fields(item, writer, clauses)]
        for name in ("where", "having", "qualify"):
            if select.args.get(name) is not None:
                setattr(clauses, name, writer.write(select.args[name].this))
        if select.args.get("group") is not None:
            clauses.group = self._group(select, writer, clauses)
        if select.args.get("order") is not None:
            clauses.order = write_order(select.args["order"], writer, clauses)
        clauses.limit = read_rows(select.args.get("limit"), "LIMIT")
        clauses.offset = read_rows(select.args.get("offset"), "OFFSET")
        traced = alone and self.sources[first].traced and not grouped and not clauses.distinct
        cell = exp.column(CELL, table=first) if traced else None
        joins = self._joins(select, writer)
        query = clauses.write(self._source(first) if first else None, joins, cell=cell)
        if sum(1 for _ in query.walk()) > MAX_AFTER_NODES:
            raise refusal(select, "The query is too long with its subqueries written in.")
        inner = [step for relation in self.sources.values() for step in relation.steps]
        steps = [*inner, *(["aggregates of the released numbers"] if grouped else []), *clauses.steps()]
        return Relation(
            query=query,
            fields=tuple(each if traced else replace(each, formula=None, group=None) for each in fields),
            rows=self._count_rows(select, clauses, grouped),
            traced=traced,
            steps=tuple(dict.fromkeys([*steps, *([] if select.meta.get(UNION) else [OUTER_SELECT])])),
            blocks=self.sources[first].blocks if traced else (),
            whole=traced and self.steady and clauses.keeps_all_rows(),
            total_of=self.sources[first].blocks if grouped and self.steady and clauses.keeps_all_rows() else (),
        )

    def _fields(self, item: exp.Expression, writer: ExpressionWriter, clauses: Clauses) -> Iterable[Field]:
        node = unaliased(item)
        if is_star(node):
            expect_plain_star(node)
            yield from self._star(node, clauses)
            return
        tree = writer.write(node)
        alias = item.alias if isinstance(item, exp.Alias) else None
        default = node.name if isinstance(node, exp.Column) else f"column{len(clauses.items) + 1}"
        name = free_name(alias or default, [each for each, _ in clauses.items])
        clauses.items.append((name, tree))
        self.named[name.lower()] = tree
        lengths = {
            exp.column(each.name, table=source, quoted=True).sql(dialect="duckdb"): each.length
            for source, relation in self.sources.items()
            for each in relation.fields
        }
        formula = self._formula(node)
        same = [each for _, each in seek_column(node, self.sources)] if isinstance(node, exp.Column) else []
        group = same[0].group if same and formula is not None else None
        length = limit_length(tree, lengths, node)
        kind, public = (same[0].type, same[0].public) if same else (None, False)
        derived = self._derived(node) if formula is None else None
        yield Field(name, formula, group, length, kind, public, derived)

    def _star(self, node: exp.Expression, clauses: Clauses) -> Iterable[Field]:
        wanted = node.table.lower() if isinstance(node, exp.Column) else None
        if wanted is not None and wanted not in self.sources:
            raise refusal(node, f"{clause_of(node)}: there is no such table in FROM.")
        shown: set[str] = set()
        for source, relation in self.sources.items():
            for each in relation.fields if wanted in (None, source) else ():
                if wanted is None and each.name.lower() in shown & self.merged:  # USING gives one column of two
                    continue
                shown.add(each.name.lower())
                name = free_name(each.name, [known for known, _ in clauses.items])
                clauses.items.append((name, self._reference(source, each)))
                yield replace(each, name=name)

    def _group(self, select: exp.Select, writer: ExpressionWriter, clauses: Clauses) -> list[exp.Expression]:
        clause = select.args["group"]
        if clause.args.get("all"):
            return [tree.copy() for _, tree in clauses.items if not finds_aggregate(tree)]
        expect_only(clause, "expressions")
        keys = []
        for node in clause.expressions:
            position = read_whole_number(node)
            if position is not None and not 1 <= position <= len(clauses.items):
                raise refusal(node, f"GROUP BY {clause_of(node)} does not name an item of the SELECT list.")
            keys.append(writer.write(node) if position is None else clauses.items[position - 1][1].copy())
        return keys

    def _join_public(self, select: exp.Select) -> None:
        """Check the joins of public tables, and replace these in ``sources`` by relations whose columns have formulas.

        For JOIN regions ON g.region = regions.region, the formula of regions.area looks the area up by g.region.
        """
        known: dict[str, Relation] = {}
        joins = [None, *(select.args.get("joins") or [])]
        for (name, relation), join in zip(self.sources.items(), joins, strict=False):
            if relation.public is not None and join is None:
                origin = select.args["from_"].this
                raise refuse_join(origin, relation.public, "a public table cannot come first after grouping")
            if relation.public is not None and join is not None:
                left, key, relation = join_by_key(join, name, relation, known)
                self.equal[name] = exp.EQ(this=self._reference(*left), expression=self._reference(name, key))
            known[name] = relation
        self.sources = known

    def _joins(self, select: exp.Select, writer: ExpressionWriter) -> list[exp.Join]:
        joins: list[exp.Join] = []
        names = list(self.sources)[1:]
        for name, node in zip(names, select.args.get("joins") or [], strict=True):
            expect_only(node, "this", "on", "using", "side", "kind")
            side, kind = (str(node.args.get(each) or "").upper() for each in ("side", "kind"))
            if side not in _JOINS or kind not in _JOINS:
                raise refusal(node, f"{clause_of(node)}: only INNER, LEFT, RIGHT, FULL and CROSS joins are supported.")
            join = exp.Join(side=side or None, kind=kind or None)
            if name in self.equal:
                join.set("on", self.equal[name])
            elif node.args.get("on") is not None:
                join.set("on", writer.write(node.args["on"]))
            elif node.args.get("using"):
                join.set("on", conjunction(self._equal(name, key) for key in node.args["using"]))
            if not join.args.get("on"):
                join.set("side", None)
                join.set("kind", "CROSS")
            joins.append(join)
        for name, join in zip(names, joins, strict=True):  # now it is known which public columns are read
            join.set("this", self._source(name))
        return joins

    def _equal(self, joined: str, key: exp.Expression) -> exp.Expression:
        here = self._find(exp.column(key.name, table=joined))
        there = [found for found in seek_column(exp.column(key.name), self.sources) if found[0] != joined]
        if not there:
            raise refusal(key, f"USING ({key.name}): both sides need a column {key.name}.")
        return exp.EQ(this=self._reference(*there[0]), expression=self._reference(*here))

    def _count_rows(self, select: exp.Select, clauses: Clauses, grouped: bool) -> int:
        rows = math.prod(max(relation.rows, 1) for relation in self.sources.values())
        if rows > MAX_ROWS:
            raise refusal(select, f"Joining these could give {rows:,} rows; at most {MAX_ROWS:,} are supported.")
        if grouped and not clauses.group:
            rows = 1
        return rows if clauses.limit is None else min(rows, clauses.limit)

    # ------------------------------------------------------------ names

    def _leaf(self, node: exp.Expression) -> exp.Expression | None:
        if isinstance(node, exp.Column):
            known = seek_column(node, self.sources)
            if known:
                return self._reference(*self._find(node))
            if not node.table and node.name.lower() in self.named:
                return wrap(self.named[node.name.lower()].copy())
            self._find(node)
        if isinstance(node, exp.In) and id(node) in self.subquery:
            return exp.In(
                this=wrap(ExpressionWriter(self._leaf, self.schema).write(node.this)),
                query=as_scalar_subquery(self.subquery[id(node)], node),
            )
        if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation, exp.Exists)):
            if id(node) not in self.subquery:
                raise refusal(node, NO_SUBQUERIES)
            require_one_row(self.subquery[id(node)], node)
            return as_scalar_subquery(self.subquery[id(node)], node)
        return None

    def _formula(self, node: exp.Expression) -> exp.Expression | None:
        """Return an expression as a formula of one released row; None if it reads more than that."""

        def leaf(part: exp.Expression) -> exp.Expression | None:
            if isinstance(part, exp.Column):
                known = seek_column(part, self.sources)
                formula = known[0][1].formula if known else None
                if formula is None:
                    raise _OtherCells
                count_nodes(formula)  # each level may write the formula below it several times
                return wrap(formula.copy())
            if isinstance(part, (exp.Window, exp.AggFunc, exp.Filter, exp.Subquery, exp.Select, exp.Exists)):
                raise _OtherCells
            return None

        try:
            return unwrapped(ExpressionWriter(leaf, self.schema).write(node))
        except _OtherCells:
            return None

    def _derived(self, node: exp.Expression) -> exp.Expression | None:
        """Return an expression as a tree over released rows (``find_derived``); None if it is not one.

        An aggregate of all released rows, here or in a subquery that gives one number, becomes a window over all rows.
        """

        def leaf(part: exp.Expression) -> exp.Expression | None:
            if isinstance(part, exp.Column):
                known = seek_column(part, self.sources)
                tree = known[0][1].formula or known[0][1].derived if known else None
                if tree is None:
                    raise _OtherCells
                count_nodes(tree)
                return wrap(tree.copy())
            if isinstance(part, (exp.Subquery, exp.Select)):
                relation = self.subquery.get(id(part))
                blocks = next((each.blocks for each in self.sources.values()), ())
                if relation is None or relation.total_of != blocks or relation.fields[0].derived is None:
                    raise _OtherCells
                return wrap(relation.fields[0].derived.copy())
            if isinstance(part, (exp.Window, exp.AggFunc)) and not self.steady:
                raise _OtherCells
            return None

        try:
            written = ExpressionWriter(leaf, self.schema, aggregates=True).write(node)
        except _OtherCells:
            return None
        return find_derived(unwrapped(written.transform(_over_all)))

    def _find(self, node: exp.Column) -> tuple[str, Field]:
        expect_only(node, "this", "table")
        found = seek_column(node, self.sources)
        if len(found) > 1 and (node.table or node.name.lower() not in self.merged):
            raise refusal(node, f"{node.name} stands in several tables. Write table.{node.name}.")
        if not found:
            known = ", ".join(each.name for relation in self.sources.values() for each in relation.fields)
            raise refusal(node, f"The grouped query has no column {clause_of(node)}. Its columns: {known}.")
        return found[0]

    def _reference(self, source: str, each: Field) -> exp.Expression:
        self.read.setdefault(source, set()).add(each.name)
        return exp.column(exp.to_identifier(each.name, quoted=True), table=exp.to_identifier(source, quoted=True))

    def _source(self, name: str) -> exp.Subquery:
        table, query = self.sources[name].public, self.sources[name].query
        written = query.copy() if table is None else select_public(table, self.schema, self.read.get(name, ()))
        return exp.Subquery(this=written, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))


def _over_all(node: exp.Expression) -> exp.Expression:
    """Return an aggregate that is no window function as a window over all rows; any other node unchanged."""
    outside = isinstance(node, (exp.Sum, exp.Avg, exp.Count)) and not isinstance(node.parent, exp.Window)
    return exp.Window(this=node.copy(), over="OVER") if outside else node
