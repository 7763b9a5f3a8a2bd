"""Everything after the noise (Q4): SQL over the released table, as a tree of our own. Knows no data.

The table ``released`` has one row for each group: its number ``released_cell``, the group's values g0, g1 …, and the
aggregates e0, e1 …; further blocks have tables of their own, ``released1`` …. A SELECT that measures becomes a SELECT
over its table, and the SELECTs around it are rebuilt over its result. So nothing after the noise can touch the data,
whatever the analyst writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.after_expressions import (
    SHORT,
    Writer,
    finds_aggregate,
    is_windowed,
    limit_length,
    limit_text,
    reads_own_cell,
)
from dosimeter.planning.aggregates import SUPPORTED, Aggregates, as_aggregate
from dosimeter.planning.named_windows import write_out_windows
from dosimeter.planning.parsing import NO_STAR, NO_SUBQUERIES, UNION, read_whole_number, unaliased
from dosimeter.planning.query_plan import After, Group, Output
from dosimeter.schema import Schema
from dosimeter.sql import (
    Scope,
    check_expression,
    clause_of,
    column_tree,
    conjunction,
    expect_only,
    make_total,
    refusal,
    wrap,
)

RELEASED, CELL = "released", "released_cell"
OUTER_SELECT = "an outer SELECT"
MAX_ROWS = 1_000_000
MAX_AFTER_NODES = 20_000
_JOINS = ("", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS")
_CLAUSES = ("expressions", "from_", "joins", "where", "group", "having", "qualify", "order", "limit", "offset",
            "distinct", "windows", "with_")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a relation after the noise.

    ``formula``: its value in terms of its own cell's g… and e…; None where it reads other cells too. ``group``: the
    group that it is, unchanged. ``length``: how long a text in it can be.
    """

    name: str
    formula: exp.Expression | None
    group: int | None = None
    length: int = SHORT


@dataclass(frozen=True, slots=True)
class Relation:
    """A query over released tables. ``rows``: at most how many it gives. ``traced``: it ends with the column cell."""

    query: exp.Select | exp.Union
    fields: tuple[Field, ...]
    rows: int
    traced: bool
    steps: tuple[str, ...]
    plain: bool = False  # nothing but released columns, in the order of the groups
    blocks: tuple[int, ...] = (0,)  # whose cells are its rows

    def __post_init__(self) -> None:
        """Refuse rows that could hold more text than an answer can."""
        limit_text([each.length for each in self.fields], self.rows)

    def outputs(self) -> tuple[Output, ...]:
        """Return the columns of the answer."""
        return tuple(Output(each.name, each.group, each.formula) for each in self.fields)

    def after(self) -> After:
        """Return what runs after the noise; nothing where the released columns are the answer."""
        return After(None if self.plain else self.query, self.traced, self.steps, self.blocks)


def read_scalar(relation: Relation, node: exp.Expression) -> exp.Subquery:
    """Write a subquery that gives one column, as a value among others."""
    if len(relation.fields) != 1:
        raise refusal(node, f"{clause_of(node)}: a subquery here gives one column.")
    only = exp.select(column_tree(relation.fields[0].name)).from_(relation.query.copy().subquery("inner_query"))
    return only.subquery()


def require_one_row(relation: Relation, node: exp.Expression) -> None:
    """Refuse a subquery that can give several rows where a number stands."""
    if relation.rows > 1:
        raise refusal(node, f"{clause_of(node)} can give several rows where one number stands. Aggregate it.")


def is_measured(select: exp.Select) -> bool:
    """Return whether a SELECT over rows aggregates them."""
    clauses = [*select.expressions, *(select.args.get(name) for name in ("having", "qualify", "order"))]
    return bool(select.args.get("group")) or any(finds_aggregate(part) for part in clauses if part is not None)


# ---------------------------------------------------------------- the clauses of any SELECT


@dataclass(slots=True)
class _Clauses:
    """The clauses that come after the noise, collected while they are rebuilt."""

    items: list[tuple[str, exp.Expression]] = field(default_factory=list)
    where: exp.Expression | None = None
    group: list[exp.Expression] = field(default_factory=list)
    having: exp.Expression | None = None
    qualify: exp.Expression | None = None
    order: list[exp.Expression] = field(default_factory=list)
    limit: int | None = None
    offset: int | None = None
    distinct: bool = False

    def write(
        self, source: exp.Expression | None, joins: Sequence[exp.Expression], *, cell: exp.Expression | None
    ) -> exp.Select:
        """Write the SELECT; with the cell of each row as its last column, and as the last word on the order."""
        shown = [_named(tree.copy(), name) for name, tree in self.items]
        query = exp.select(*shown, *([] if cell is None else [_named(cell.copy(), CELL)]))
        query = query if source is None else query.from_(source)
        query.set("joins", list(joins) or None)
        if self.where is not None:
            query = query.where(self.where)
        if self.group:
            query = query.group_by(*self.group)
        if self.having is not None:
            query = query.having(self.having)
        if self.qualify is not None:
            query.set("qualify", exp.Qualify(this=self.qualify))
        order = [*self.order, *([] if cell is None else [exp.Ordered(this=cell.copy(), nulls_first=False)])]
        if order:
            query.set("order", exp.Order(expressions=order))
        if self.limit is not None:
            query = query.limit(self.limit)
        if self.offset is not None:
            query = query.offset(self.offset)
        if self.distinct:
            query.set("distinct", exp.Distinct())
        return query

    def steps(self) -> tuple[str, ...]:
        """Name what happens after the noise, for an explanation."""
        kept = {
            "window functions": is_windowed(tree for _, tree in self.items),
            "QUALIFY": self.qualify is not None,
            "DISTINCT": self.distinct,
            "ORDER BY": bool(self.order),
            "LIMIT": self.limit is not None,
            "OFFSET": self.offset is not None,
        }
        return tuple(name for name, present in kept.items() if present)

    def place(self, tree: exp.Expression) -> exp.Expression:
        """Return the number of the item that a term of the ORDER BY repeats, or the term itself."""
        for at, (_, item) in enumerate(self.items, start=1):
            if item == tree:
                return exp.Literal.number(at)
        return tree


def _named(tree: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True))


def _read_rows(clause: exp.Expression | None, word: str) -> int | None:
    """Read the whole number of LIMIT or OFFSET."""
    if clause is None:
        return None
    rows = read_whole_number(clause.expression) if isinstance(clause.expression, exp.Expression) else None
    if not isinstance(clause, (exp.Limit, exp.Offset)) or clause.args.get("limit_options") is not None or rows is None:
        raise refusal(clause, f"{word} takes a whole number.")
    expect_only(clause, "expression")
    return rows


def _read_distinct(select: exp.Select) -> bool:
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise refusal(distinct, "DISTINCT ON is not supported. Use QUALIFY ROW_NUMBER() OVER (…) = 1.")
    return distinct is not None


def _unwrapped(tree: exp.Expression) -> exp.Expression:
    found = tree.unnest()
    assert isinstance(found, exp.Expression)
    return found


def _free_name(name: str, taken: Iterable[str]) -> str:
    lowered = {CELL, *(each.lower() for each in taken)}
    candidate, number = name, 2
    while candidate.lower() in lowered:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


# ---------------------------------------------------------------- the SELECT that measures


@dataclass(slots=True)
class MeasuringSelect:
    """The SELECT over rows, rebuilt over the released table: its aggregates become e0, e1 …, its groups g0, g1 ….

    ``source``: that table. ``scalars``: what stands for subqueries that give a number, by the names of placeholders.
    """

    scope: Scope
    groups: tuple[Group, ...]
    aggregates: Aggregates
    cells: int
    totals: bool = False
    source: exp.Expression = field(default_factory=lambda: exp.table_(RELEASED))
    scalars: Mapping[str, exp.Expression] = field(default_factory=dict)
    named: dict[str, exp.Expression] = field(default_factory=dict)

    def write(self, select: exp.Select) -> Relation:
        """Rebuild the SELECT list and every clause that works on groups."""
        windowed = (
            None if is_measured(select) else next((item for item in select.expressions if item.find(exp.Window)), None)
        )
        if windowed is not None:
            raise refusal(
                windowed,
                "A window function (OVER) over rows would give a number for every row. Group first: SELECT city, "
                "COUNT(*), RANK() OVER (ORDER BY COUNT(*)) FROM … GROUP BY city.",
            )
        write_out_windows(select)
        clauses, fields = _Clauses(distinct=_read_distinct(select)), []
        for item in select.expressions:
            each = self._field(item, clauses)
            fields.append(each)
        having, qualify = select.args.get("having"), select.args.get("qualify")
        clauses.where = None if having is None else self._condition(having)
        clauses.qualify = None if qualify is None else self._condition(qualify)
        if select.args.get("order") is not None:
            clauses.order = self._order(select.args["order"], clauses)
        clauses.limit = _read_rows(select.args.get("limit"), "LIMIT")
        clauses.offset = _read_rows(select.args.get("offset"), "OFFSET")
        if not self.aggregates.met:
            raise QueryError("The query has no aggregate. Ask for COUNT, SUM, AVG, MIN, MAX, MEDIAN, ….")
        traced = not clauses.distinct
        query = clauses.write(self.source.copy(), (), cell=exp.column(CELL) if traced else None)
        direct = all(isinstance(tree, exp.Column) and tree.name[0] in "ge" for _, tree in clauses.items)
        steps = ((*(("arithmetic over the released numbers",) if not direct else ()),)
                 + (("HAVING",) if having is not None else ()) + clauses.steps())  # fmt: skip
        return Relation(
            query=query,
            fields=tuple(fields),
            rows=self.cells if clauses.limit is None else min(self.cells, clauses.limit),
            traced=traced,
            steps=steps,
            plain=direct and not steps and self.source == exp.table_(RELEASED),
        )

    def _field(self, item: exp.Expression, clauses: _Clauses) -> Field:
        node, alias = unaliased(item), item.alias if isinstance(item, exp.Alias) else None
        if isinstance(node, (exp.Star, exp.Columns)) or (isinstance(node, exp.Column) and node.name == "*"):
            raise refusal(node, NO_STAR)
        taken = [name for name, _ in clauses.items]
        position = self._matching_group(node)
        if position is not None:
            group = self.groups[position]
            plain = group.name if isinstance(group.tree, exp.Column) else f"group{position + 1}"
            name = _free_name(alias or plain, taken)
            tree: exp.Expression = exp.column(f"g{position}")
            found = Field(name, tree, position, max((len(str(value)) for value in group.values or ()), default=SHORT))
        else:
            tree = self._writer(aliases_first=False).write(node)
            default = self.aggregates.default_name(node) or f"column{len(taken) + 1}"
            name = _free_name(alias or default, taken)
            found = Field(name, tree if reads_own_cell(tree) else None, None, limit_length(tree, {}, node))
        clauses.items.append((name, tree))
        self.named[name.lower()] = tree
        return found

    def _writer(self, *, aliases_first: bool) -> Writer:
        return Writer(lambda node: self._leaf(node, aliases_first), self.scope.schema)

    def _leaf(self, node: exp.Expression, aliases_first: bool) -> exp.Expression | None:
        named = self._find_named(node)
        if named is not None and aliases_first:
            return named
        if as_aggregate(node):
            return exp.column(f"e{self.aggregates.add(node)}")
        position = None if isinstance(node, exp.Literal) else self._matching_group(node)
        if position is not None:
            return exp.column(f"g{position}")
        if named is not None:
            return named
        match node:
            case exp.Placeholder() if node.name in self.scalars:
                return self.scalars[node.name].copy()
            case exp.Column():
                raise self._not_grouped(node)
            case exp.Grouping():
                return self._grouping(node)
            case exp.Subquery() | exp.Select() | exp.SetOperation() | exp.Exists():
                raise refusal(node, NO_SUBQUERIES)
            case exp.AggFunc():
                raise refusal(node, f"{clause_of(node)} is not supported. {SUPPORTED}")
        return None

    def _grouping(self, node: exp.Expression) -> exp.Expression:
        """Write GROUPING(a, b …): a bit for each column that a total leaves out."""
        places = [self._matching_group(part) for part in node.expressions]
        if not self.totals or not places or None in places:
            raise refusal(node, f"{clause_of(node)} takes columns of a ROLLUP, CUBE or GROUPING SETS.")
        flags = [exp.column(f"h{place}") for place in places]
        total: exp.Expression = flags[0]
        for flag in flags[1:]:
            doubled = exp.Mul(this=exp.Literal.number(2), expression=wrap(total))
            total = exp.Add(this=doubled, expression=flag)
        return total

    def _find_named(self, node: exp.Expression) -> exp.Expression | None:
        if not isinstance(node, exp.Column) or node.table:
            return None
        found = self.named.get(node.name.lower())
        return None if found is None else wrap(found.copy())

    def _matching_group(self, node: exp.Expression) -> int | None:
        if finds_aggregate(node) or node.find(exp.Window) is not None:
            return None
        try:
            tree = make_total(check_expression(node, self.scope).tree, self.scope.schema)
        except QueryError:
            return None
        return next((at for at, group in enumerate(self.groups) if group.tree == tree), None)

    def _not_grouped(self, node: exp.Expression) -> QueryError:
        if isinstance(node, exp.Column):
            self.scope.resolve(node)
        elif isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation, exp.Exists)):
            return refusal(node, NO_SUBQUERIES)
        return refusal(
            node, f"{clause_of(node)} is neither an aggregate nor in the GROUP BY. Add it there, or leave it out."
        )

    def _condition(self, clause: exp.Expression) -> exp.Expression:
        return self._writer(aliases_first=True).write(clause.this)

    def _order(self, clause: exp.Expression, clauses: _Clauses) -> list[exp.Expression]:
        expect_only(clause, "expressions")
        writer = self._writer(aliases_first=True)
        return _write_order(clause, writer, clauses)


def _write_order(clause: exp.Expression, writer: Writer, clauses: _Clauses) -> list[exp.Expression]:
    """Rebuild an ORDER BY: by position, by ALL, or by expressions."""
    keys: list[exp.Expression] = []
    for item in clause.expressions:
        node = item.this
        if isinstance(node, exp.Var) and node.name.upper() == "ALL":
            keys += [writer.ordered(item, exp.Literal.number(at + 1)) for at in range(len(clauses.items))]
        elif isinstance(node, exp.Literal) and not node.is_string:
            position = read_whole_number(node)
            if position is None or not 1 <= position <= len(clauses.items):
                raise refusal(node, f"ORDER BY {clause_of(node)} does not name an item of the SELECT list.")
            keys.append(writer.ordered(item, exp.Literal.number(position)))
        else:
            keys.append(writer.ordered(item, clauses.place(_unwrapped(writer.write(node)))))
    return keys


# ---------------------------------------------------------------- the SELECTs around it


class _OtherCells(Exception):
    """A column reads more than its own cell, so that it has no formula."""


@dataclass(slots=True)
class OuterSelect:
    """A SELECT over relations that are released already."""

    sources: Mapping[str, Relation]
    schema: Schema
    subquery: Mapping[int, Relation] = field(default_factory=dict)
    named: dict[str, exp.Expression] = field(default_factory=dict)
    merged: set[str] = field(default_factory=set)

    def write(self, select: exp.Select) -> Relation:
        """Rebuild the SELECT over the sources; the first is the one in FROM, the others are joined."""
        for name, value in select.args.items():
            if name not in _CLAUSES and value:
                raise refusal(select, f"The clause {name.strip('_').upper()} is not supported around a grouped query.")
        clauses = _Clauses(distinct=_read_distinct(select))
        write_out_windows(select)
        using = [key for join in select.args.get("joins") or [] for key in join.args.get("using") or []]
        self.merged = {key.name.lower() for key in using}
        grouped = is_measured(select)
        writer = Writer(self._leaf, self.schema, aggregates=True)
        fields = [each for item in select.expressions for each in self._fields(item, writer, clauses)]
        for name in ("where", "having", "qualify"):
            if select.args.get(name) is not None:
                setattr(clauses, name, writer.write(select.args[name].this))
        if select.args.get("group") is not None:
            clauses.group = self._group(select, writer, clauses)
        if select.args.get("order") is not None:
            clauses.order = _write_order(select.args["order"], writer, clauses)
        clauses.limit = _read_rows(select.args.get("limit"), "LIMIT")
        clauses.offset = _read_rows(select.args.get("offset"), "OFFSET")
        alone = len(self.sources) == 1
        first = next(iter(self.sources), "")
        traced = alone and self.sources[first].traced and not grouped and not clauses.distinct
        cell = exp.column(CELL, table=first) if traced else None
        source = _source(first, self.sources[first]) if first else None
        query = clauses.write(source, self._joins(select, writer), cell=cell)
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
        )

    def _fields(self, item: exp.Expression, writer: Writer, clauses: _Clauses) -> Iterable[Field]:
        node = unaliased(item)
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            expect_only(node if isinstance(node, exp.Star) else node.this)
            yield from self._star(node, clauses)
            return
        tree = writer.write(node)
        alias = item.alias if isinstance(item, exp.Alias) else None
        default = node.name if isinstance(node, exp.Column) else f"column{len(clauses.items) + 1}"
        name = _free_name(alias or default, [each for each, _ in clauses.items])
        clauses.items.append((name, tree))
        self.named[name.lower()] = tree
        lengths = {
            exp.column(each.name, table=source, quoted=True).sql(dialect="duckdb"): each.length
            for source, relation in self.sources.items()
            for each in relation.fields
        }
        formula, group = self._formula(node), None
        if isinstance(node, exp.Column) and formula is not None:
            group = self._find(node)[1].group
        yield Field(name, formula, group, limit_length(tree, lengths, node))

    def _star(self, node: exp.Expression, clauses: _Clauses) -> Iterable[Field]:
        wanted = node.table.lower() if isinstance(node, exp.Column) else None
        if wanted is not None and wanted not in self.sources:
            raise refusal(node, f"{clause_of(node)}: there is no such table in FROM.")
        for source, relation in self.sources.items():
            for each in relation.fields if wanted in (None, source) else ():
                name = _free_name(each.name, [known for known, _ in clauses.items])
                clauses.items.append((name, _reference(source, each)))
                yield replace(each, name=name)

    def _group(self, select: exp.Select, writer: Writer, clauses: _Clauses) -> list[exp.Expression]:
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

    def _joins(self, select: exp.Select, writer: Writer) -> list[exp.Expression]:
        joins: list[exp.Expression] = []
        for (name, relation), node in zip(list(self.sources.items())[1:], select.args.get("joins") or [], strict=True):
            expect_only(node, "this", "on", "using", "side", "kind")
            side, kind = (str(node.args.get(each) or "").upper() for each in ("side", "kind"))
            if side not in _JOINS or kind not in _JOINS:
                raise refusal(node, f"{clause_of(node)}: only INNER, LEFT, RIGHT, FULL and CROSS joins are supported.")
            join = exp.Join(this=_source(name, relation), side=side or None, kind=kind or None)
            if node.args.get("on") is not None:
                join.set("on", writer.write(node.args["on"]))
            if node.args.get("using"):
                join.set("on", conjunction(self._equal(name, key) for key in node.args["using"]))
            if not join.args.get("on"):
                join.set("side", None)
                join.set("kind", "CROSS")
            joins.append(join)
        return joins

    def _equal(self, joined: str, key: exp.Expression) -> exp.Expression:
        here = self._find(exp.column(key.name, table=joined))
        before = [name for name in self.sources if name != joined]
        there = next(
            (
                (name, each)
                for name in before
                for each in self.sources[name].fields
                if each.name.lower() == key.name.lower()
            ),
            None,
        )
        if there is None:
            raise refusal(key, f"USING ({key.name}): both sides need a column {key.name}.")
        return exp.EQ(this=_reference(*there), expression=_reference(*here))

    def _count_rows(self, select: exp.Select, clauses: _Clauses, grouped: bool) -> int:
        rows = 1
        for relation in self.sources.values():
            rows *= max(relation.rows, 1)
        if rows > MAX_ROWS:
            raise refusal(select, f"Joining these could give {rows:,} rows; at most {MAX_ROWS:,} are supported.")
        if grouped and not clauses.group:
            rows = 1
        return rows if clauses.limit is None else min(rows, clauses.limit)

    # ------------------------------------------------------------ names

    def _leaf(self, node: exp.Expression) -> exp.Expression | None:
        if isinstance(node, exp.Column):
            known = self._seek(node)
            if known:
                return _reference(*self._find(node))
            if not node.table and node.name.lower() in self.named:
                return wrap(self.named[node.name.lower()].copy())
            self._find(node)
        if isinstance(node, exp.In) and id(node) in self.subquery:
            return exp.In(
                this=wrap(Writer(self._leaf, self.schema).write(node.this)),
                query=read_scalar(self.subquery[id(node)], node),
            )
        if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation, exp.Exists)):
            if id(node) not in self.subquery:
                raise refusal(node, NO_SUBQUERIES)
            require_one_row(self.subquery[id(node)], node)
            return read_scalar(self.subquery[id(node)], node)
        return None

    def _formula(self, node: exp.Expression) -> exp.Expression | None:
        """Return an expression in terms of its own cell, if it reads nothing else."""

        def leaf(part: exp.Expression) -> exp.Expression | None:
            if isinstance(part, exp.Column):
                known = self._seek(part)
                if not known:
                    raise _OtherCells
                formula = known[0][1].formula
                if formula is None:
                    raise _OtherCells
                return wrap(formula.copy())
            if isinstance(part, (exp.Window, exp.AggFunc, exp.Filter, exp.Subquery, exp.Select, exp.Exists)):
                raise _OtherCells
            return None

        try:
            return _unwrapped(Writer(leaf, self.schema).write(node))
        except _OtherCells:
            return None

    def _seek(self, node: exp.Column) -> list[tuple[str, Field]]:
        table, name = node.table.lower(), node.name.lower()
        return [
            (source, each)
            for source, relation in self.sources.items()
            if table in ("", source)
            for each in relation.fields
            if each.name.lower() == name
        ]

    def _find(self, node: exp.Column) -> tuple[str, Field]:
        expect_only(node, "this", "table")
        found = self._seek(node)
        if len(found) > 1 and (node.table or node.name.lower() not in self.merged):
            raise refusal(node, f"{node.name} stands in several tables. Write table.{node.name}.")
        if not found:
            known = ", ".join(each.name for relation in self.sources.values() for each in relation.fields)
            raise refusal(node, f"The grouped query has no column {clause_of(node)}. Its columns: {known}.")
        return found[0]


def _reference(source: str, each: Field) -> exp.Expression:
    return exp.column(exp.to_identifier(each.name, quoted=True), table=exp.to_identifier(source, quoted=True))


def _source(name: str, relation: Relation) -> exp.Subquery:
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    return exp.Subquery(this=relation.query.copy(), alias=alias)
