"""Small builders of SQL trees, shared by the modules that write queries. Takes trees; gives trees. Knows no table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from dosimeter.sql.types import expect_only


def column_tree(name: str, table: str | None = None) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def write_name(name: str) -> str:
    """Return a name as people write it in SQL: in quotation marks if it is a keyword or not a plain word."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.upper() not in DuckDB.Tokenizer.KEYWORDS
    return name if plain else quote_name(name)


def quote_name(name: str) -> str:
    """Return a name in quotation marks, as every engine reads it."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def wrap(tree: exp.Expression) -> exp.Expression:
    """Return the tree in parentheses if it could bind differently inside another expression, otherwise unchanged."""
    if isinstance(tree, (exp.Binary, exp.Connector, exp.Not, exp.Neg, exp.Between, exp.In, exp.Is)):
        return exp.Paren(this=tree)
    return tree


_DOUBLE, _BIGINT = exp.DataType.build("DOUBLE"), exp.DataType.build("BIGINT")  # read once: the text is parsed


def as_double(tree: exp.Expression) -> exp.Expression:
    return exp.Cast(this=tree, to=_DOUBLE.copy())


def as_bigint(tree: exp.Expression) -> exp.Expression:
    return exp.Cast(this=tree, to=_BIGINT.copy())


def double(number: float | str) -> exp.Expression:
    """Write a number that is not negative as a double."""
    return as_double(exp.Literal.number(number))


def plain_quotient(left: exp.Expression, right: exp.Expression) -> exp.Expression:
    """Write left / right, which engines compute as the types of both sides say."""
    return exp.Div(this=left, expression=right, typed=False, safe=False)


def quotient(left: exp.Expression, right: exp.Expression) -> exp.Expression:
    """Write left / right in doubles, NULL where the divisor is 0."""
    return plain_quotient(as_double(left), exp.Nullif(this=as_double(right), expression=double(0)))


def conjunction(trees: Iterable[exp.Expression]) -> exp.Expression | None:
    """Connect the trees by AND; return None where there are no trees."""
    listed = list(trees)
    return connect(listed, exp.And) if listed else None


def connect(trees: Sequence[exp.Expression], connector: type[exp.And] | type[exp.Or]) -> exp.Expression:
    """Connect one or more trees by AND or OR as a balanced tree, so that a long list does not become a deep tree."""
    if len(trees) <= 1:
        return trees[0]
    middle = (len(trees) + 1) // 2
    left, right = connect(trees[:middle], connector), connect(trees[middle:], connector)
    return connector(this=wrap(left), expression=wrap(right))


def flatten_connector(node: exp.Expression) -> list[exp.Expression]:
    """Return the parts of a AND b AND c, or of a OR b OR c, as [a, b, c], however many there are."""
    parts: list[exp.Expression] = []
    pending = [node]
    while pending:
        part = pending.pop()
        if type(part) is type(node):
            expect_only(part, "this", "expression")
            pending.extend((part.expression, part.this))
        else:
            parts.append(part)
    return parts


def list_conditions(condition: exp.Expression) -> list[exp.Expression]:
    """Return the conditions that AND connects at the top of a condition, in order; a single one if it is no AND."""
    return flatten_connector(condition) if isinstance(condition, exp.And) else [condition]


def case(*branches: tuple[exp.Expression, exp.Expression], default: exp.Expression | None = None) -> exp.Case:
    """Write CASE WHEN … THEN … [ELSE …] END."""
    return exp.Case(ifs=[exp.If(this=test, true=result) for test, result in branches], default=default)


def by_truth(condition: exp.Expression, true: exp.Expression, false: exp.Expression) -> exp.Case:
    """Write one value where a condition is true and another where it is false; NULL where it is NULL."""
    return case((condition, true), (exp.Not(this=wrap(condition.copy())), false))


def is_null(tree: exp.Expression) -> exp.Expression:
    """Write the test that a value is NULL."""
    return exp.Is(this=wrap(tree), expression=exp.Null())


def alias(tree: exp.Expression, name: str, *, quoted: bool = False) -> exp.Expression:
    """Name a tree. A name that Dosimeter did not choose must be ``quoted``."""
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=quoted))


def select_from(
    source: exp.Expression,
    *columns: exp.Expr,
    where: exp.Expression | None = None,
    group: Iterable[exp.Expression] = (),
    having: exp.Expression | None = None,
) -> exp.Select:
    """Write SELECT columns FROM source [WHERE …] [GROUP BY …] [HAVING …]. Columns and groups are copied."""
    query = exp.select(*columns).from_(source, copy=False)
    if where is not None:
        query = query.where(where, copy=False)
    query = query.group_by(*(each.copy() for each in group), copy=False)
    return query if having is None else query.having(having, copy=False)


def group_by_first(query: exp.Select, columns: int) -> exp.Select:
    """Group a query by its first columns: GROUP BY 1, 2 … ``columns``. None means no GROUP BY."""
    if columns:
        query.set("group", exp.Group(expressions=[exp.Literal.number(at + 1) for at in range(columns)]))
    return query


def as_text(tree: exp.Expression) -> exp.Expression:
    """Cast a tree to TEXT."""
    return exp.Cast(this=tree, to=exp.DataType.build("TEXT"))


def is_not_null(tree: exp.Expression) -> exp.Expression:
    """Write the test that a value is not NULL."""
    return exp.Not(this=exp.Is(this=tree, expression=exp.Null()))


def clamp(value: exp.Expression, low: exp.Expression, high: exp.Expression) -> exp.Expression:
    """Write ``value`` clamped to low and high, as a CASE. NULL stays NULL, which LEAST and GREATEST would skip."""
    return exp.Case(
        ifs=[
            exp.If(this=exp.LT(this=value.copy(), expression=low.copy()), true=low.copy()),
            exp.If(this=exp.GT(this=value.copy(), expression=high.copy()), true=high.copy()),
        ],
        default=value.copy(),
    )


def concatenated(*parts: exp.Expression) -> exp.Expression:
    """Join texts by ||."""
    joined = parts[0]
    for part in parts[1:]:
        joined = exp.DPipe(this=joined, expression=part)
    return joined


def listed_text(item: exp.Expression, order: exp.Expression, separator: str) -> exp.Expression:
    """Return SQL for the aggregate that joins the rows' items into one text. ``order``: what the rows are sorted by."""
    ordered = exp.Order(this=item, expressions=[exp.Ordered(this=order, nulls_first=False)])
    return exp.GroupConcat(this=ordered, separator=exp.Literal.string(separator))


def same_keys(keys: Sequence[str], left: str, right: str) -> exp.Expression | None:
    """Write the test that these columns are equal in the relations left and right; None where there are no columns."""
    return conjunction(
        exp.EQ(this=exp.column(key, table=left), expression=exp.column(key, table=right)) for key in keys
    )


def window(function: exp.Expression, partition: Sequence[str], *, order: str | None = None) -> exp.Expression:
    """Return SQL for a function over a window: all rows with the current row's values in the columns ``partition``.

    ``order``: a column's name. If it is given, rows with a larger value in this column than the current row are left
    out of the window; NULL counts as the largest value.
    """
    windowed = exp.Window(this=function, partition_by=[column_tree(name) for name in partition], over="OVER")
    if order is not None:
        windowed.set("order", exp.Order(expressions=[exp.Ordered(this=column_tree(order), nulls_first=False)]))
        windowed.set(
            "spec",
            exp.WindowSpec(kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"),
        )
    return windowed
