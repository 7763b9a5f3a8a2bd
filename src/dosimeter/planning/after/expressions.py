"""Rebuild the expressions that are computed from released numbers (Q4). Takes parsed nodes; gives checked trees.

Only what stands in the tables below is rebuilt; nothing in them makes rows or texts grow without a limit, reads a file
or a setting, or depends on chance or time. Meanings are DuckDB's, except that a quotient by 0 and a cast that does not
fit are NULL. Knows no data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.schema import Schema
from dosimeter.sql import (
    COMPARISONS,
    MOST_CHARACTERS,
    MOST_ROWS,
    ROW_FUNCTIONS,
    Scope,
    check_expression,
    clause_of,
    connect,
    expect_only,
    flatten_connector,
    quotient,
    refusal,
    wrap,
)

Leaf = Callable[[exp.Expression], exp.Expression | None]

_OF_TWO = ("this", "expression")
SCALARS: Mapping[type[exp.Expression], tuple[str, ...]] = {
    exp.Neg: ("this",),
    exp.Add: _OF_TWO,
    exp.Sub: _OF_TWO,
    exp.Mul: _OF_TWO,
    exp.Abs: ("this",),
    exp.Floor: ("this",),
    exp.Ceil: ("this",),
    exp.Round: ("this", "decimals"),
    exp.Trunc: ("this", "decimals"),
    exp.Sign: ("this",),
    exp.Sqrt: ("this",),
    exp.Exp: ("this",),
    exp.Ln: ("this",),
    exp.Log: _OF_TWO,
    exp.Pow: _OF_TWO,
    exp.Greatest: ("this", "expressions"),
    exp.Least: ("this", "expressions"),
    exp.Nullif: _OF_TWO,
    exp.Coalesce: ("this", "expressions"),
    exp.If: ("this", "true", "false"),
    exp.Not: ("this",),
    exp.Is: _OF_TWO,
    exp.NullSafeEQ: _OF_TWO,
    exp.NullSafeNEQ: _OF_TWO,
    exp.Between: ("this", "low", "high"),
    exp.In: ("this", "expressions"),
    exp.Upper: ("this",),
    exp.Lower: ("this",),
    exp.Trim: ("this",),
    exp.Left: _OF_TWO,
    exp.Right: _OF_TWO,
    exp.Substring: ("this", "start", "length"),
    exp.Length: ("this",),
    exp.DPipe: _OF_TWO,
    exp.Concat: ("expressions", "safe", "coalesce"),
    exp.Year: ("this",),
    exp.Quarter: ("this",),
    exp.Month: ("this",),
    exp.Day: ("this",),
    exp.Boolean: ("this",),
    exp.Null: (),
    **dict.fromkeys(COMPARISONS, _OF_TWO),
}
AGGREGATES: Mapping[type[exp.Expression], tuple[str, ...]] = {
    exp.Count: ("this",),
    exp.CountIf: ("this",),
    exp.Sum: ("this",),
    exp.Avg: ("this",),
    exp.Min: ("this",),
    exp.Max: ("this",),
    exp.Median: ("this",),
    exp.PercentileCont: _OF_TWO,
    exp.Stddev: ("this",),
    exp.StddevSamp: ("this",),
    exp.StddevPop: ("this",),
    exp.Variance: ("this",),
    exp.VariancePop: ("this",),
}
WINDOWS: Mapping[type[exp.Expression], tuple[str, ...]] = {
    **AGGREGATES,
    exp.RowNumber: (),
    exp.Rank: (),
    exp.DenseRank: (),
    exp.PercentRank: (),
    exp.CumeDist: (),
    exp.Ntile: ("this",),
    exp.Lag: ("this", "offset", "default"),
    exp.Lead: ("this", "offset", "default"),
    exp.FirstValue: ("this",),
    exp.LastValue: ("this",),
    exp.NthValue: ("this", "offset"),
}
_CASTS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128"), "HUGEINT"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "DOUBLE"),
    "TEXT": "TEXT",
    "VARCHAR": "TEXT",
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
}
_SUPPORTED = (
    "Over the released numbers you can use + - * / // %, comparisons, AND, OR, NOT, CASE, IF, COALESCE, NULLIF, "
    "GREATEST, LEAST, ROUND, FLOOR, CEIL, ABS, SQRT, LN, LOG, EXP, POWER, CAST, simple text functions, window "
    "functions (OVER) and aggregates of an outer SELECT."
)


@dataclass(frozen=True, slots=True)
class ExpressionWriter:
    """A writer that checks expressions over noisy numbers, and rebuilds them as copies.

    ``leaf`` returns the tree for a column or a measured aggregate, and None for nodes that are rebuilt from their
    parts. ``aggregates``: whether aggregates of released rows are allowed here.
    """

    leaf: Leaf
    schema: Schema
    aggregates: bool = False

    def write(self, node: exp.Expression) -> exp.Expression:
        """Return the node, rebuilt, or raise a QueryError that names the clause."""
        found = self.leaf(node)
        if found is not None:
            return found
        match node:
            case exp.Paren():
                expect_only(node, "this")
                return wrap(self.write(node.this))
            case exp.Literal():
                return check_expression(node, Scope(self.schema, frozenset())).tree
            case exp.And() | exp.Or():
                parts = [wrap(self.write(part)) for part in flatten_connector(node)]
                return connect(parts, exp.And if isinstance(node, exp.And) else exp.Or)
            case exp.Div() | exp.IntDiv() | exp.Mod():
                return self._quotient(node)
            case exp.Cast() | exp.TryCast():
                return self._cast(node)
            case exp.Window():
                return self._window(node)
            case exp.Filter() if self.aggregates:
                return self._filter(node, AGGREGATES)
            case _ if self.aggregates and type(node) in AGGREGATES:
                return self._rebuild(node, AGGREGATES)
            case exp.Case():
                return self._case(node)
            case _ if isinstance(node, COMPARISONS):
                return self._comparison(node)
            case _:
                return self._rebuild(node, SCALARS)

    def _rebuild(self, node: exp.Expression, allowed: Mapping[type[exp.Expression], tuple[str, ...]]) -> exp.Expression:
        if type(node) not in allowed:
            of_rows = type(node) in ROW_FUNCTIONS and not finds_aggregate(node)
            hint = "Over rows it can stand in WHERE and in GROUP BY. " if of_rows else ""
            raise refusal(node, f"{clause_of(node)} is not supported here. {hint}{_SUPPORTED}")
        expect_only(node, *allowed[type(node)])
        return type(node)(**{name: self._argument(node.args.get(name)) for name in allowed[type(node)]})

    def _argument(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._argument(each) for each in value]
        if isinstance(value, exp.Star):
            expect_only(value)
            return exp.Star()
        if isinstance(value, exp.Distinct):
            expect_only(value, "expressions")
            return exp.Distinct(expressions=[self.write(each) for each in value.expressions])
        return wrap(self.write(value)) if isinstance(value, exp.Expression) else value

    def _case(self, node: exp.Expression) -> exp.Expression:
        expect_only(node, "this", "ifs", "default")
        subject, default = node.args.get("this"), node.args.get("default")
        branches = [
            exp.If(this=self.write(branch.this), true=self.write(branch.args["true"])) for branch in node.args["ifs"]
        ]
        return exp.Case(
            this=None if subject is None else self.write(subject),
            ifs=branches,
            default=None if default is None else self.write(default),
        )

    def _comparison(self, node: exp.Expression) -> exp.Expression:
        if any(isinstance(side.unnest(), COMPARISONS) for side in (node.this, node.expression)):
            raise refusal(node, f"{clause_of(node)} chains comparisons. Write BETWEEN, or AND.")
        return self._rebuild(node, SCALARS)

    def _quotient(self, node: exp.Expression) -> exp.Expression:
        expect_only(node, *_OF_TWO)
        left, right = self.write(node.this), self.write(node.expression)
        if isinstance(node, exp.Div):
            return quotient(left, right)
        divisor = exp.Nullif(this=right, expression=exp.Literal.number(0))
        return type(node)(this=wrap(left), expression=divisor)

    def _cast(self, node: exp.Expression) -> exp.Expression:
        expect_only(node, "this", "to")
        wanted = _CASTS.get(node.args["to"].this.value) if isinstance(node.args["to"], exp.DataType) else None
        if wanted is None:
            raise refusal(node, f"{clause_of(node)}: cast to a number, a text, a date or a boolean.")
        kind = exp.DataType.build(wanted, dialect="duckdb")
        return exp.TryCast(this=self.write(node.this), to=kind)

    # ------------------------------------------------------------ windows

    def _window(self, node: exp.Expression) -> exp.Expression:
        expect_only(node, "this", "partition_by", "order", "spec", "over")
        function = node.this
        if isinstance(function, exp.Filter):
            written = self._filter(function, WINDOWS)
        else:
            written = self._rebuild(function, WINDOWS)
        order = node.args.get("order")
        return exp.Window(
            this=written,
            partition_by=[wrap(self.write(part)) for part in node.args.get("partition_by") or []],
            order=None if order is None else exp.Order(expressions=[self.ordered(item) for item in order.expressions]),
            spec=_frame(node.args.get("spec")),
            over="OVER",
        )

    def _filter(self, node: exp.Expression, allowed: Mapping[type[exp.Expression], tuple[str, ...]]) -> exp.Expression:
        expect_only(node, "this", "expression")
        condition = exp.Where(this=self.write(node.expression.this))
        return exp.Filter(this=self._rebuild(node.this, allowed), expression=condition)

    def ordered(self, item: exp.Expression, tree: exp.Expression | None = None) -> exp.Expression:
        """Return one term of an ORDER BY, rebuilt. ``tree``: what to order by instead of the term's own expression."""
        expect_only(item, "this", "desc", "nulls_first")
        return exp.Ordered(
            this=wrap(self.write(item.this)) if tree is None else tree,
            desc=bool(item.args.get("desc")),
            nulls_first=bool(item.args.get("nulls_first")),
        )


def _frame(spec: exp.Expression | None) -> exp.Expression | None:
    """Return a window's frame, ROWS or RANGE BETWEEN … AND …, rebuilt; None if it has none.

    Refuses distances that are not whole numbers.
    """
    if spec is None:
        return None
    expect_only(spec, "kind", "start", "start_side", "end", "end_side")
    for side in ("start", "end"):
        value = spec.args.get(side)
        if isinstance(value, exp.Expression) and not (isinstance(value, exp.Literal) and str(value.this).isdigit()):
            raise refusal(spec, f"{clause_of(spec)}: a frame takes whole numbers of rows.")
    return spec.copy()


# ---------------------------------------------------------------- what a tree is


def reads_own_cell(tree: exp.Expression) -> bool:
    """Return whether a tree reads a single released row: there is no window, aggregate or subquery in it."""
    return tree.find(exp.Window, exp.AggFunc, exp.Subquery, exp.Select) is None


_DERIVING = (exp.Sum, exp.Avg, exp.Count, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)


def find_derived(tree: exp.Expression) -> exp.Expression | None:
    """Return a tree over released rows if an error of what it computes from several of them can be told; else None.

    It needs windows of sums, averages or picked rows, whose partitions and order read no released number (E6).
    """
    windows = list(tree.find_all(exp.Window))
    others = tree.find_all(exp.AggFunc, exp.Subquery, exp.Select)
    if not windows or any(not isinstance(node.parent, exp.Window) for node in others):
        return None
    return tree if all(isinstance(each.this, _DERIVING) and _is_public_window(each) for each in windows) else None


def _is_public_window(window: exp.Window) -> bool:
    """Return whether a window's partition and order read only groups, looked-up public values and constants."""
    order = window.args.get("order")
    terms = [*(window.args.get("partition_by") or []), *([] if order is None else order.expressions)]
    return all(
        not column.table and column.name[:1] in ("g", "h", "p") and column.name[1:].isdigit()
        for term in terms
        for column in term.find_all(exp.Column)
    ) and not any(term.find(exp.Window) for term in terms)


def finds_aggregate(node: exp.Expression) -> bool:
    """Return whether a node aggregates rows: it holds an aggregate that is no window function and in no subquery."""
    if isinstance(node, exp.Window):
        function = node.this
        while isinstance(function, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
            function = function.this
        inside = [*function.iter_expressions(), *(node.args.get("partition_by") or [])]
        inside += [item.this for item in (node.args["order"].expressions if node.args.get("order") else [])]
        return any(finds_aggregate(part) for part in inside)
    if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation)):
        return False
    return isinstance(node, exp.AggFunc) or any(finds_aggregate(part) for part in node.iter_expressions())


MAX_LENGTH = 100_000
SHORT = 64  # characters: what a name, a number or a date has at most


def limit_length(tree: exp.Expression, lengths: Mapping[str, int], node: exp.Expression) -> int:
    """Return the most characters that a tree's text can have. Raises QueryError if these are more than MAX_LENGTH.

    ``lengths``: the most characters of each column, by the column's SQL. ``node``: the tree as written, for the
    message.
    """
    length = _length(tree, lengths)
    if length > MAX_LENGTH:
        raise refusal(node, f"{clause_of(node)} could become too long a text. Join fewer parts.")
    return length


def _length(tree: exp.Expression, lengths: Mapping[str, int]) -> int:
    if isinstance(tree, exp.Column):
        return lengths.get(tree.sql(dialect="duckdb"), SHORT)
    if isinstance(tree, exp.Literal):
        return len(str(tree.this))
    parts = [_length(part, lengths) for part in tree.iter_expressions()]
    grows = isinstance(tree, (exp.DPipe, exp.Concat))
    return max(SHORT, sum(parts) if grows else max(parts, default=0))


def limit_text(lengths: Iterable[int], rows: int) -> None:
    """Refuse a table that could hold more text than an answer can.

    ``lengths``: the most characters of each column. ``rows``: the most rows of the table. The first ``SHORT``
    characters of each text do not count.
    """
    longer = sum(max(0, length - SHORT) for length in lengths) * min(rows, MOST_ROWS)
    if longer > MOST_CHARACTERS:
        raise QueryError(
            f"The query could give {longer:,} characters of text after the noise; at most {MOST_CHARACTERS:,} are "
            "supported. Ask for shorter texts, or for fewer rows: LIMIT."
        )
