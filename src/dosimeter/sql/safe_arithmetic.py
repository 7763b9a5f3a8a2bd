"""Row-wise arithmetic that cannot fail, whatever the data hold.

An engine that stops on an overflow would tell an analyst, without noise, whether some row overflowed: a condition can
be written so that only one person's row does. So outside aggregates every sum, product and quotient is computed in
doubles; values for which no arithmetic is meant count as NULL (beyond 10^100) or 0 (nearer to 0 than 10^-100); and an
expression whose result could leave the range of doubles is refused. SQL and schema alone decide that.
"""

from __future__ import annotations

from typing import cast

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.schema import ColumnType, Schema

_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Abs)
_HUGE, _TINY = "1e100", "1e-100"
_LARGEST, _SMALLEST = 1e300, 1e-300
_INTEGER_SPAN = (1.0, 2.0**63)
_DONE = "total"  # marks nodes that are rewritten already, so that a second call changes nothing


def make_total(tree: exp.Expression, schema: Schema) -> exp.Expression:
    """Return the same expression in arithmetic that never stops a query, or refuse it."""
    result = tree.copy()
    found = cast(list[exp.Expression], list(result.find_all(*_ARITHMETIC, exp.Div)))
    nodes = [node for node in found if not node.meta.get(_DONE)]
    for node in nodes:
        if _is_signed_literal(node):
            continue
        _span(node, schema)
        for name in ("this", "expression"):
            operand = node.args.get(name)
            if isinstance(operand, exp.Expression) and not _is_calculated(cast(exp.Expression, operand.unnest())):
                node.set(name, _as_number(operand, schema))
    for node in nodes:
        node.meta[_DONE] = True
    return result


def _is_calculated(node: exp.Expression) -> bool:
    return isinstance(node, (*_ARITHMETIC, exp.Div)) and not _is_signed_literal(node)


def _is_signed_literal(node: exp.Expression) -> bool:
    return isinstance(node, exp.Neg) and isinstance(node.this.unnest(), exp.Literal)


def _as_number(operand: exp.Expression, schema: Schema) -> exp.Expression:
    """Return an operand as a double; a decimal column only within the range for which arithmetic is meant."""
    bare = operand.unnest()
    if isinstance(bare, exp.Cast) and bare.to.this == exp.DataType.Type.DOUBLE:
        inner = bare.this.unnest()
        if not isinstance(inner, exp.Column):
            return operand
        bare = inner
    if not isinstance(bare, exp.Column) or schema.columns[bare.name].type is not ColumnType.DECIMAL:
        return _double(operand if not isinstance(bare, exp.Column) else bare.copy())
    value = _double(bare.copy())
    size = exp.Abs(this=value.copy())
    size.meta[_DONE] = True
    return exp.Case(
        ifs=[
            exp.If(this=exp.GT(this=size, expression=_double(exp.Literal.number(_HUGE))), true=exp.Null()),
            exp.If(
                this=exp.LT(this=size.copy(), expression=_double(exp.Literal.number(_TINY))),
                true=_double(exp.Literal.number(0)),
            ),
        ],
        default=value,
    )


def _double(tree: exp.Expression) -> exp.Expression:
    return exp.Cast(this=tree, to=exp.DataType.build("DOUBLE"))


def _span(tree: exp.Expression, schema: Schema) -> tuple[float, float]:
    """Return the least and the largest size of the values that are not 0; refuse a range that doubles cannot hold."""
    low, high = _measure_span(tree, schema)
    if high > _LARGEST or low < _SMALLEST:
        text = tree.sql(dialect="duckdb")[:200]
        raise QueryError(f"{text} can leave the range of numbers. Use smaller factors, or fewer of them.", clause=text)
    return low, high


def _measure_span(tree: exp.Expression, schema: Schema) -> tuple[float, float]:
    match tree:
        case exp.Column():
            exact = schema.columns[tree.name].type is ColumnType.INTEGER
            return _INTEGER_SPAN if exact else (float(_TINY), float(_HUGE))
        case exp.Literal() if not tree.is_string:
            size = abs(float(tree.this))
            return (size, size) if size else (1.0, 1.0)
        case exp.Add() | exp.Sub():
            (low, high), (other_low, other_high) = _span(tree.this, schema), _span(tree.expression, schema)
            return min(low, other_low) * 2.0**-53, high + other_high  # what is left of two nearly equal numbers
        case exp.Mul():
            (low, high), (other_low, other_high) = _span(tree.this, schema), _span(tree.expression, schema)
            return low * other_low, high * other_high
        case exp.Div():
            (low, high), (other_low, other_high) = _span(tree.this, schema), _span(tree.expression, schema)
            return low / other_high, high / other_low
        case exp.Floor() | exp.Ceil():
            return 1.0, _span(tree.this, schema)[1] + 1.0
        case exp.Case():
            results = [branch.args["true"] for branch in tree.args["ifs"]]
            default = tree.args.get("default")
            return _union([*results, *([default] if default is not None else [])], schema)
        case exp.Coalesce():
            return _union([tree.this, *tree.expressions], schema)
        case exp.Cast() if isinstance(tree.this, exp.Extract):
            return 1.0, 1e6
        case exp.Paren() | exp.Neg() | exp.Abs() | exp.Cast() | exp.Nullif():
            return _span(tree.this, schema)
        case exp.Null():
            return 1.0, 1.0
        case _:
            text = tree.sql(dialect="duckdb")[:200]
            raise QueryError(f"{text} cannot stand in arithmetic.", clause=text)


def _union(parts: list[exp.Expression], schema: Schema) -> tuple[float, float]:
    spans = [_span(part, schema) for part in parts]
    return min(low for low, _ in spans), max(high for _, high in spans)
