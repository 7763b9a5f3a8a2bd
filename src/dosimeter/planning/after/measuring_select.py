"""Rebuild a SELECT with aggregates over the released table: what happens after the noise (Q4). Knows no data.

The table ``released`` has one row for each group and, with ROLLUP, CUBE or GROUPING SETS, one for each total. Its
columns are ``released_cell``, the number of the row; g0, g1 …, the values of the group; and e0, e1 …, the aggregates.
With totals it also has h0, h1 …: 1 where the row is a total over that GROUP BY expression, otherwise 0. Further blocks
(other SELECTs that measure) have tables of their own, ``released1`` …. SELECTs around one that measures are rebuilt
over its result, in ``outer_select``. All of them read only released and public tables, so that nothing after the noise
can touch the data, whatever the analyst writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.after.expressions import (
    SHORT,
    ExpressionWriter,
    find_derived,
    finds_aggregate,
    limit_length,
    limit_text,
    reads_own_cell,
)
from dosimeter.planning.measured.aggregate_collector import SUPPORTED, AggregateCollector, is_single_aggregate
from dosimeter.planning.query_plan import AfterNoise, Group, Output
from dosimeter.planning.rows.named_windows import write_out_windows
from dosimeter.planning.rows.parsing import NO_STAR, NO_SUBQUERIES, read_whole_number, unaliased
from dosimeter.schema import JoinTable
from dosimeter.sql import (
    Scope,
    Type,
    alias,
    check_total,
    clause_of,
    column_tree,
    count_nodes,
    drop_cuts,
    expect_only,
    refusal,
    wrap,
)

RELEASED, CELL = "released", "released_cell"
MAX_ROWS = 1_000_000
_FOR_EACH = "ARG_MAX and ARG_MIN are computed for each individual, in a subquery that groups by the unit."


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a relation after the noise.

    ``formula``: how the column is computed from one released row: from its group values g0, g1 …, its aggregates e0, e1
    … and the row of a public table that is joined to it. None if it cannot be computed so, as when it reads several
    released rows. ``group``: if the column is a GROUP BY expression, unchanged, the index of that expression. None for
    other columns, and if an outer SELECT makes one row of several released rows, as its GROUP BY does. ``length``: how
    many characters a text in the column can have. ``type``: the type of an unchanged group or public column; None for
    others, whose types the embedded engine finds. ``public``: whether it is a column of a public table, unchanged.
    ``derived``: where there is no formula, how the column is computed from several released rows (``find_derived``).
    """

    name: str
    formula: exp.Expression | None
    group: int | None = None
    length: int = SHORT
    type: Type | None = None
    public: bool = False
    derived: exp.Expression | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """A query over released tables, or a public table to be joined to one, with what is known of its rows.

    ``rows``: the most rows that the query can give. For a public table it is 1: joined by its key, it has at most one
    row for each row that it is joined to. ``traced``: whether its last column tells, for each of its rows, the number
    of the released row behind it. ``steps``: what happens after the noise, in words. ``plain``: whether it gives
    columns of ``released`` unchanged, with all rows in their order, so that its query need not run. ``blocks``: if
    ``traced``, the numbers of the blocks that its rows come from. ``public``: the public table that this relation
    stands for; None for other relations. ``whole``: whether its rows are all rows of one released table.
    ``total_of``: if its one row is computed from all rows of one released table, that block's number.
    """

    query: exp.Select | exp.Union
    fields: tuple[Field, ...]
    rows: int
    traced: bool
    steps: tuple[str, ...]
    plain: bool = False
    blocks: tuple[int, ...] = (0,)
    public: JoinTable | None = None
    whole: bool = False
    total_of: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a relation whose rows could hold more text than an answer may."""
        limit_text([each.length for each in self.fields], self.rows)

    def outputs(self) -> tuple[Output, ...]:
        """Return the columns of the answer."""
        return tuple(
            Output(each.name, each.group, each.formula, each.public, each.derived if self.traced else None)
            for each in self.fields
        )

    def after(self) -> AfterNoise:
        """Return what runs after the noise. Its query is None if the answer is just columns of the released table."""
        return AfterNoise(None if self.plain else self.query, self.traced, self.steps, self.blocks)


def seek_column(node: exp.Column, relations: Mapping[str, Relation]) -> list[tuple[str, Field]]:
    """Return the columns that a name can mean, each with the name of its relation."""
    table, name = node.table.lower(), node.name.lower()
    return [
        (source, each)
        for source, relation in relations.items()
        if table in ("", source)
        for each in relation.fields
        if each.name.lower() == name
    ]


def as_scalar_subquery(relation: Relation, node: exp.Expression) -> exp.Subquery:
    """Return a relation of one column as a subquery that can stand for a value. ``node``: its SQL, for the message.

    Refuses a relation with several columns.
    """
    if len(relation.fields) != 1:
        raise refusal(node, f"{clause_of(node)}: a subquery here gives one column.")
    only = exp.select(column_tree(relation.fields[0].name)).from_(relation.query.copy().subquery("inner_query"))
    return only.subquery()


def require_one_row(relation: Relation, node: exp.Expression) -> None:
    """Refuse a relation that can give several rows. ``node``: the subquery, which stands where a number belongs."""
    if relation.rows > 1:
        raise refusal(node, f"{clause_of(node)} can give several rows where one number stands. Aggregate it.")


def is_measured(select: exp.Select) -> bool:
    """Return whether a SELECT aggregates rows: it has GROUP BY, or an aggregate in one of its clauses."""
    clauses = [*select.expressions, *(select.args.get(name) for name in ("having", "qualify", "order"))]
    return bool(select.args.get("group")) or any(finds_aggregate(part) for part in clauses if part is not None)


# ---------------------------------------------------------------- the clauses of any SELECT


@dataclass(slots=True)
class Clauses:
    """The clauses of a SELECT after the noise, collected while they are rebuilt. ``items``: the SELECT list."""

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
        """Return the SELECT. ``source``: what stands in FROM. ``cell``: the column that numbers released rows.

        If ``cell`` is given, it is also the last column of the SELECT and the last term of its ORDER BY.
        """
        shown = [*self.items, *([] if cell is None else [(CELL, cell)])]
        query = exp.select(*(alias(tree.copy(), name, quoted=True) for name, tree in shown))
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
        """Return which of windows, QUALIFY, DISTINCT, ORDER BY, LIMIT and OFFSET there are, for explanations."""
        kept = {
            "window functions": any(tree.find(exp.Window) is not None for _, tree in self.items),
            "QUALIFY": self.qualify is not None,
            "DISTINCT": self.distinct,
            "ORDER BY": bool(self.order),
            "LIMIT": self.limit is not None,
            "OFFSET": self.offset is not None,
        }
        return tuple(name for name, present in kept.items() if present)

    def keeps_all_rows(self) -> bool:
        """Return whether no clause drops rows or makes one of several."""
        dropping = (self.where, self.having, self.qualify, self.limit, self.offset)
        return all(each is None for each in dropping) and not self.group and not self.distinct

    def place(self, tree: exp.Expression) -> exp.Expression:
        """Return the position (from 1) of the SELECT item that equals an ORDER BY term; the term if none does."""
        for at, (_, item) in enumerate(self.items, start=1):
            if item == tree:
                return exp.Literal.number(at)
        return tree


def read_rows(clause: exp.Expression | None, word: str) -> int | None:
    """Return the whole number of a LIMIT or OFFSET clause; None without a clause. Refuses anything else.

    ``word``: LIMIT or OFFSET, for the message.
    """
    if clause is None:
        return None
    rows = read_whole_number(clause.expression) if isinstance(clause.expression, exp.Expression) else None
    if not isinstance(clause, (exp.Limit, exp.Offset)) or clause.args.get("limit_options") is not None or rows is None:
        raise refusal(clause, f"{word} takes a whole number.")
    expect_only(clause, "expression")
    return rows


def read_distinct(select: exp.Select) -> bool:
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise refusal(distinct, "DISTINCT ON is not supported. Use QUALIFY ROW_NUMBER() OVER (…) = 1.")
    return distinct is not None


def unwrapped(tree: exp.Expression) -> exp.Expression:
    found = tree.unnest()
    assert isinstance(found, exp.Expression)
    return found


def free_name(name: str, taken: Iterable[str]) -> str:
    lowered = {CELL, *(each.lower() for each in taken)}
    candidate, number = name, 2
    while candidate.lower() in lowered:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


# ---------------------------------------------------------------- the SELECT that measures


@dataclass(slots=True)
class MeasuringSelect:
    """A SELECT over rows, to be rebuilt over the released table: its aggregates become e0, e1 …, its groups g0, g1 ….

    ``scope``: what its names mean. ``groups``: its GROUP BY expressions. ``aggregates``: collects what it measures.
    ``cells``: the most rows of the released table; if groups are thresholded and the schema does not say how many
    individuals there are, the most rows of one individual instead. ``totals``: whether it has ROLLUP, CUBE or GROUPING
    SETS. ``source``: the released table. ``scalars``: the trees of the subqueries that give a number, by the names of
    the placeholders that stand for them in the SELECT. ``named``: what each column of the SELECT list computes, by its
    name.
    """

    scope: Scope
    groups: tuple[Group, ...]
    aggregates: AggregateCollector
    cells: int
    totals: bool = False
    source: exp.Expression = field(default_factory=lambda: exp.table_(RELEASED))
    scalars: Mapping[str, exp.Expression] = field(default_factory=dict)
    named: dict[str, exp.Expression] = field(default_factory=dict)

    def write(self, select: exp.Select) -> Relation:
        """Return the SELECT rebuilt over the released table. What it measures is added to ``self.aggregates``."""
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
        clauses = Clauses(distinct=read_distinct(select))
        fields = tuple([self._field(item, clauses) for item in select.expressions])
        having, qualify, order = (select.args.get(name) for name in ("having", "qualify", "order"))
        writer = self._writer(aliases_first=True)
        clauses.where = None if having is None else writer.write(having.this)
        clauses.qualify = None if qualify is None else writer.write(qualify.this)
        if order is not None:
            expect_only(order, "expressions")
            clauses.order = write_order(order, writer, clauses)
        clauses.limit = read_rows(select.args.get("limit"), "LIMIT")
        clauses.offset = read_rows(select.args.get("offset"), "OFFSET")
        if not self.aggregates.estimates:
            raise QueryError("The query has no aggregate. Ask for COUNT, SUM, AVG, MIN, MAX, MEDIAN, ….")
        traced = not clauses.distinct
        query = clauses.write(self.source.copy(), (), cell=exp.column(CELL) if traced else None)
        direct = all(isinstance(tree, exp.Column) and tree.name[0] in "ge" for _, tree in clauses.items)
        steps = ((*(("arithmetic over the released numbers",) if not direct else ()),)
                 + (("HAVING",) if having is not None else ()) + clauses.steps())  # fmt: skip
        return Relation(
            query=query,
            fields=fields if clauses.where is None else tuple(replace(each, derived=None) for each in fields),
            rows=self.cells if clauses.limit is None else min(self.cells, clauses.limit),
            traced=traced,
            steps=steps,
            plain=direct and not steps and self.source == exp.table_(RELEASED),
            whole=clauses.keeps_all_rows() and not self.totals,
        )

    def _field(self, item: exp.Expression, clauses: Clauses) -> Field:
        node, written = unaliased(item), item.alias if isinstance(item, exp.Alias) else None
        if isinstance(node, (exp.Star, exp.Columns)) or (isinstance(node, exp.Column) and node.name == "*"):
            raise refusal(node, NO_STAR)
        taken = [name for name, _ in clauses.items]
        position = self._matching_group(node)
        if position is not None:
            group = self.groups[position]
            plain = group.name if isinstance(drop_cuts(group.tree), exp.Column) else f"group{position + 1}"
            name = free_name(written or plain, taken)
            tree: exp.Expression = exp.column(f"g{position}")
            length = max((len(str(value)) for value in group.values or ()), default=SHORT)
            found = Field(name, tree, position, length, group.type)
        else:
            tree = self._writer(aliases_first=False).write(node)
            default = self.aggregates.default_name(node) or f"column{len(taken) + 1}"
            name = free_name(written or default, taken)
            derived = None if self.totals else find_derived(tree)
            formula = tree if reads_own_cell(tree) else None
            found = Field(name, formula, None, limit_length(tree, {}, node), derived=derived)
        clauses.items.append((name, tree))
        self.named[name.lower()] = tree
        return found

    def _writer(self, *, aliases_first: bool) -> ExpressionWriter:
        return ExpressionWriter(lambda node: self._leaf(node, aliases_first), self.scope.schema)

    def _leaf(self, node: exp.Expression, aliases_first: bool) -> exp.Expression | None:
        named = self._find_named(node)
        if named is not None and aliases_first:
            return named
        if is_single_aggregate(node):
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
                self.scope.resolve(node)
                raise refusal(
                    node,
                    f"{clause_of(node)} is neither an aggregate nor in the GROUP BY. Add it there, or leave it out.",
                )
            case exp.Grouping():
                return self._grouping(node)
            case exp.Subquery() | exp.Select() | exp.SetOperation() | exp.Exists():
                raise refusal(node, NO_SUBQUERIES)
            case exp.ArgMax() | exp.ArgMin():
                raise refusal(node, f"{clause_of(node)} is not supported. {SUPPORTED} {_FOR_EACH}")
            case exp.AggFunc():
                raise refusal(node, f"{clause_of(node)} is not supported. {SUPPORTED}")
        return None

    def _grouping(self, node: exp.Expression) -> exp.Expression:
        """Return GROUPING(a, b …) as a number with one bit per column: 1 if the row is a total over that column.

        With GROUPING(city, sex), the row of one city and both sexes together has 1, and the row of everybody has 3.
        """
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
        count_nodes(node)  # it is checked here, and again where a part of it may be a group
        try:
            tree = check_total(node, self.scope)
        except QueryError:
            return None
        whole = drop_cuts(tree)
        return next((at for at, group in enumerate(self.groups) if drop_cuts(group.tree) == whole), None)


def write_order(clause: exp.Expression, writer: ExpressionWriter, clauses: Clauses) -> list[exp.Expression]:
    """Return the terms of an ORDER BY, rebuilt. Each may be a position, ALL, or an expression.

    ``clauses``: holds the SELECT list, which positions and ALL refer to. An expression that equals an item of that list
    becomes the item's position.
    """
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
            keys.append(writer.ordered(item, clauses.place(unwrapped(writer.write(node)))))
    return keys
