"""Constants: read what the analyst wrote, and write it so that it means the same on every engine."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from dosimeter.schema import Scalar
from dosimeter.sql.trees import as_double, double
from dosimeter.sql.types import Checked, Scope, Type, clause_of, refusal

_NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_DECIMAL = re.compile(r"\d{1,15}(\.\d{0,15})?|\.\d{1,15}", re.ASCII)
_DIGITS = 18  # sums and products of more digits are no decimals everywhere
_EXACTLY: dict[type[exp.Expr], Callable[[Decimal, Decimal], Decimal]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}
_SMALLEST, _LARGEST = Decimal("1e-300"), Decimal("1e300")
_FORMS = {Type.DATE: "2024-12-31", Type.TIMESTAMP: "2024-12-31 23:59:59"}


def check_literal(node: exp.Expression, scope: Scope) -> Checked:
    """Check a number or a text constant. Decimals are rebuilt as doubles, on which all engines agree."""
    assert isinstance(node, exp.Literal)
    if node.is_string:
        if "\x00" in node.this:
            raise refusal(node, "A text literal cannot hold a NUL character.")
        return Checked(exp.Literal.string(node.this), Type.TEXT)
    value = read_number(node)
    if str(node.this).isdigit():
        if value >= 2**63:
            raise refusal(node, f"The whole number {clause_of(node)} is too large. Write it with a decimal point.")
        return Checked(exp.Literal.number(int(value)), Type.INTEGER)
    # Written as a double: literals with a point are exact decimals on some engines and doubles on others.
    return Checked(double(repr(float(value))), Type.NUMBER)


def check_truth(node: exp.Expression, scope: Scope) -> Checked:
    """Check TRUE and FALSE."""
    return Checked(exp.Boolean(this=bool(node.this)), Type.BOOLEAN)


def check_null(node: exp.Expression, scope: Scope) -> Checked:
    """Accept NULL, which has no parts to check."""
    return Checked(exp.Null(), Type.NULL)


def read_number(node: exp.Literal) -> Decimal:
    """Return the number as the analyst wrote it. Refuse one that is too large, too small or too long."""
    text = str(node.this)
    if len(text) > 320 or not _NUMBER.fullmatch(text):
        raise refusal(node, f"{text[:40]} is not a number this tool reads. Write it in decimal notation.")
    value = Decimal(text)
    if not value:
        return Decimal(0)
    if not _SMALLEST <= value <= _LARGEST:
        raise refusal(node, f"The number {text[:40]} is too {'large' if value > 1 else 'small'}.")
    return value


def read_whole(node: exp.Expression | None) -> int | None:
    """Return the whole number that the node writes out, as -3, '30' or 30; None for any other expression."""
    bare = node.unnest() if isinstance(node, exp.Expression) else None
    if isinstance(bare, exp.Neg):
        inner = read_whole(bare.this)
        return None if inner is None else -inner
    if not isinstance(bare, exp.Literal) or not re.fullmatch(r"\s*[+-]?\d{1,18}\s*", str(bare.this), re.ASCII):
        return None
    return int(bare.this)


def read_decimal(node: exp.Expression) -> Decimal | None:
    """Return the exact value of a written-out decimal, or of sums, differences and products of such decimals.

    DuckDB computes the same value. Return None for any other expression, and for a value that has too many digits to be
    exact on every engine.
    """
    match node.unnest():
        case exp.Literal() as literal if not literal.is_string and _DECIMAL.fullmatch(str(literal.this)):
            return Decimal(str(literal.this))
        case exp.Neg() as negative:
            inner = read_decimal(negative.this)
            return None if inner is None else -inner
        case exp.Add() | exp.Sub() | exp.Mul() as sum_or_product:
            left, right = read_decimal(sum_or_product.this), read_decimal(sum_or_product.expression)
            if left is None or right is None:
                return None
            compute = _EXACTLY[type(sum_or_product)]
            return value if len((value := compute(left, right)).as_tuple().digits) <= _DIGITS else None
    return None


def read_text(node: exp.Expression | None) -> str | None:
    """Return the text that the node writes out; None for any other expression, and for a text with a NUL character."""
    bare = node.unnest() if isinstance(node, exp.Expression) else None
    return str(bare.this) if isinstance(bare, exp.Literal) and bare.is_string and "\x00" not in bare.this else None


def read_moment(text: str, wanted: Type, node: exp.Expression) -> Checked:
    """Read a text as a date or a timestamp, as ``wanted`` says. Refuse a text of another form, or with a time zone."""
    reader: Callable[[str], date] = date.fromisoformat if wanted is Type.DATE else datetime.fromisoformat
    try:
        moment = reader(text)
    except ValueError:
        raise refusal(node, f"{clause_of(node)} is not a {wanted}. Write it as '{_FORMS[wanted]}'.") from None
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        raise refusal(node, f"{clause_of(node)}: timestamps are UTC. Leave the time zone out.")
    return Checked(constant_tree(moment), wanted)


def constant_tree(value: Any) -> exp.Expression:
    """Write a Python value as SQL in which every engine computes the same: floats are DOUBLE. None is NULL."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case str():
            return exp.Literal.string(value)
        case datetime():
            return exp.Cast(this=exp.Literal.string(value.isoformat(sep=" ")), to=exp.DataType.build("TIMESTAMP"))
        case date():
            return exp.Cast(this=exp.Literal.string(value.isoformat()), to=exp.DataType.build("DATE"))
    number: exp.Expression = exp.Literal.number(repr(abs(value)))
    number = as_double(number) if isinstance(value, float) else number
    return exp.Paren(this=exp.Neg(this=number)) if value < 0 else number


def literal(value: Scalar) -> exp.Expression:
    """Write a declared value or bound of a column as SQL, a Decimal with all its digits. None is NULL."""
    if value is None or isinstance(value, (bool, str, date)):
        return constant_tree(value)
    number = exp.Literal.number(format(abs(value), "f") if isinstance(value, Decimal) else str(abs(value)))
    return exp.Neg(this=number) if value < 0 else number


def constant_moment(tree: exp.Expression) -> date | None:
    """Return the date or timestamp that a rebuilt tree writes out; None for any other expression."""
    bare = tree.unnest()
    if not isinstance(bare, exp.Cast) or not isinstance(bare.this, exp.Literal) or not bare.this.is_string:
        return None
    if bare.to.this is exp.DataType.Type.DATE:
        return date.fromisoformat(bare.this.this)
    return datetime.fromisoformat(bare.this.this) if bare.to.this is exp.DataType.Type.TIMESTAMP else None
