"""Small builders of SQL trees, shared by the modules that write queries. Takes trees; gives trees. Knows no table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal

from sqlglot import exp

from dosimeter.schema import Scalar
from dosimeter.sql.expressions import column_tree, conjunction


def alias(tree: exp.Expression, name: str) -> exp.Expression:
    """Name a tree by one of our own names, which need no quotation marks."""
    return exp.Alias(this=tree, alias=exp.to_identifier(name))


def as_text(tree: exp.Expression) -> exp.Expression:
    """Cast a tree to TEXT."""
    return exp.Cast(this=tree, to=exp.DataType.build("TEXT"))


def is_there(tree: exp.Expression) -> exp.Expression:
    """Test that a value is not NULL."""
    return exp.Not(this=exp.Is(this=tree, expression=exp.Null()))


def whole_number(value: int) -> exp.Expression:
    """Write a whole number, in parentheses if it is negative."""
    literal = exp.Literal.number(abs(value))
    return exp.Paren(this=exp.Neg(this=literal)) if value < 0 else literal


def literal(value: Scalar) -> exp.Expression:
    """Write a value of a column."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, date):
        kind = "TIMESTAMP" if isinstance(value, datetime) else "DATE"
        return exp.Cast(this=exp.Literal.string(value.isoformat()), to=exp.DataType.build(kind))
    number = exp.Literal.number(format(abs(value), "f") if isinstance(value, Decimal) else str(abs(value)))
    return exp.Neg(this=number) if value < 0 else number


def clamp(value: exp.Expression, low: exp.Expression, high: exp.Expression) -> exp.Expression:
    """Write a value kept between two others, as a CASE, since LEAST and GREATEST skip NULL."""
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
    """Aggregate the items into one text, in this order."""
    ordered = exp.Order(this=item, expressions=[exp.Ordered(this=order, nulls_first=False)])
    return exp.GroupConcat(this=ordered, separator=exp.Literal.string(separator))


def same_keys(keys: Sequence[str], left: str, right: str) -> exp.Expression | None:
    """Test that these columns are equal in two relations; None where there are none."""
    return conjunction(
        exp.EQ(this=exp.column(key, table=left), expression=exp.column(key, table=right)) for key in keys
    )


def window(function: exp.Expression, partition: Sequence[str], *, order: str | None = None) -> exp.Expression:
    """Write a window over the partition; with an order, running up to and including equal values."""
    windowed = exp.Window(this=function, partition_by=[column_tree(name) for name in partition], over="OVER")
    if order is not None:
        windowed.set("order", exp.Order(expressions=[exp.Ordered(this=column_tree(order), nulls_first=False)]))
        windowed.set(
            "spec",
            exp.WindowSpec(kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"),
        )
    return windowed
