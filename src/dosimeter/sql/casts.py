"""Casts in an expression over one row. None can fail: what does not fit is NULL, as in DuckDB's TRY_CAST."""

from __future__ import annotations

from sqlglot import exp

from dosimeter.sql.checking import cast_moment, check_expression
from dosimeter.sql.dates import write_day
from dosimeter.sql.literals import read_moment, read_text
from dosimeter.sql.numbers import MAX_PLACES, round_tree
from dosimeter.sql.safe_arithmetic import HalfEven, make_total
from dosimeter.sql.texts import tabulate
from dosimeter.sql.trees import as_bigint, as_double, as_text, by_truth, case, double, wrap
from dosimeter.sql.types import NUMERIC, Checked, Scope, Type, clause_of, expect_only, limit_size, refusal

_KINDS = exp.DataType.Type
_WHOLE = {
    _KINDS.TINYINT: (-(2**7), 2**7), _KINDS.SMALLINT: (-(2**15), 2**15), _KINDS.INT: (-(2**31), 2**31),
    _KINDS.BIGINT: (-(2**63), 2**63), _KINDS.UTINYINT: (0, 2**8), _KINDS.USMALLINT: (0, 2**16),
    _KINDS.UINT: (0, 2**32),
}  # fmt: skip
TARGETS: dict[object, Type] = {
    **dict.fromkeys(_WHOLE, Type.INTEGER),
    **dict.fromkeys((_KINDS.DOUBLE, _KINDS.FLOAT, _KINDS.DECIMAL), Type.NUMBER),
    **dict.fromkeys((_KINDS.TEXT, _KINDS.VARCHAR), Type.TEXT),
    _KINDS.BOOLEAN: Type.BOOLEAN,
    _KINDS.DATE: Type.DATE,
    **dict.fromkeys((_KINDS.TIMESTAMP, _KINDS.TIMESTAMPNTZ), Type.TIMESTAMP),
}
_NAMES = "BOOLEAN, INTEGER, BIGINT, DOUBLE, DECIMAL(p, s), TEXT, DATE and TIMESTAMP"


def check_cast(node: exp.Expression, scope: Scope) -> Checked:
    """Check CAST, TRY_CAST and x::type."""
    expect_only(node, "this", "to")
    target: exp.DataType = node.args["to"]
    wanted = TARGETS.get(target.this)
    if wanted is None or target.args.get("nested"):
        raise refusal(node, f"{clause_of(node)}: casts go to {_NAMES}.")
    text = read_text(node.this)
    if text is not None and wanted in (Type.DATE, Type.TIMESTAMP):
        return read_moment(text, wanted, node)
    operand = check_expression(node.this, scope)
    if operand.type is Type.NULL:
        return Checked(exp.Null(), wanted)
    if operand.type is Type.TEXT and wanted is not Type.TEXT:
        return _from_text(operand, target, wanted, scope, node)
    match wanted:
        case Type.INTEGER:
            return _to_whole(operand, *_WHOLE[target.this], scope, node)
        case Type.NUMBER:
            return _to_number(operand, target, scope, node)
        case Type.BOOLEAN:
            return _to_truth(operand, scope, node)
        case Type.TEXT:
            return Checked(cast_to_text(operand, scope, node), Type.TEXT)
        case _:
            return _to_moment(operand, wanted, node)


def _refuse(operand: Checked, wanted: Type, node: exp.Expression) -> Exception:
    return refusal(node, f"{clause_of(node)}: a {operand.type} cannot become a {wanted}. Use CASE.")


def _from_text(operand: Checked, target: exp.DataType, wanted: Type, scope: Scope, node: exp.Expression) -> Checked:
    kind = exp.DataType.build("DOUBLE") if wanted is Type.NUMBER else target
    table = tabulate(operand.tree, scope.schema, lambda tree: exp.TryCast(this=tree, to=kind.copy(), safe=True), node)
    if table is None:
        raise refusal(
            node,
            f"{clause_of(node)}: engines read text differently. Declare the column's values, or its type, in the "
            "schema.",
        )
    read = Checked(table, wanted)
    return _to_number(read, target, scope, node) if wanted is Type.NUMBER else read


def _truth_as_number(operand: Checked, scope: Scope) -> exp.Expression:
    one, zero = (as_bigint(exp.Literal.number(value)) for value in (1, 0))
    return by_truth(make_total(operand.tree, scope.schema), one, zero)


def _to_whole(operand: Checked, low: int, beyond: int, scope: Scope, node: exp.Expression) -> Checked:
    """Check a cast of a number or a truth value to an integer type.

    A number is rounded to the nearest integer v, halves to the even one: 2.5 to 2. The cast gives NULL unless
    ``low`` ≤ v < ``beyond``, the range of the integer type. ``node``: the cast as it was asked, for messages.
    """
    if operand.type is Type.BOOLEAN:
        return Checked(_truth_as_number(operand, scope), Type.INTEGER)
    if operand.type not in NUMERIC:
        raise _refuse(operand, Type.INTEGER, node)
    if operand.type is Type.INTEGER and beyond == 2**63 and operand.tree.find(exp.Binary, exp.Func) is None:
        return operand
    value: exp.Expression = operand.tree if operand.type is Type.INTEGER else HalfEven(this=operand.tree)
    compared = as_double(make_total(value, scope.schema))
    least, limit = (exp.Literal.number(abs(end)) for end in (low, beyond))
    above = exp.GTE(this=compared, expression=as_double(exp.Neg(this=least) if low < 0 else least))
    fits = exp.And(this=above, expression=exp.LT(this=compared.copy(), expression=as_double(limit)))
    return Checked(limit_size(case((fits, as_bigint(value))), node), Type.INTEGER)


def _to_number(operand: Checked, target: exp.DataType, scope: Scope, node: exp.Expression) -> Checked:
    """Check a cast to a number. DECIMAL(p, s) rounds to s places, and gives NULL for numbers of more than p digits."""
    if operand.type is Type.BOOLEAN:
        operand = Checked(_truth_as_number(operand, scope), Type.INTEGER)
    if operand.type not in NUMERIC:
        raise _refuse(operand, Type.NUMBER, node)
    if target.this is not _KINDS.DECIMAL:
        return Checked(as_double(operand.tree), Type.NUMBER)
    digits, places = ([int(part.name) for part in target.expressions] + [0])[:2] if target.expressions else (18, 3)
    if not 0 <= places <= min(digits, MAX_PLACES) or digits > 38:
        raise refusal(node, f"{clause_of(node)}: DECIMAL takes up to {MAX_PLACES} places.")
    value = round_tree(as_double(operand.tree), places)
    size = exp.Abs(this=make_total(value, scope.schema))
    fits = exp.LT(this=size, expression=double(f"1e{digits - places}"))
    return Checked(limit_size(case((make_total(fits, scope.schema), value)), node), Type.NUMBER)


def _to_truth(operand: Checked, scope: Scope, node: exp.Expression) -> Checked:
    if operand.type is Type.BOOLEAN:
        return operand
    if operand.type not in NUMERIC:
        raise _refuse(operand, Type.BOOLEAN, node)
    return Checked(exp.NEQ(this=wrap(operand.tree), expression=exp.Literal.number(0)), Type.BOOLEAN)


def _to_moment(operand: Checked, wanted: Type, node: exp.Expression) -> Checked:
    if operand.type is wanted:
        return operand
    if operand.type not in (Type.DATE, Type.TIMESTAMP):
        raise _refuse(operand, wanted, node)
    return cast_moment(operand.tree, wanted)


def cast_to_text(operand: Checked, scope: Scope, node: exp.Expression) -> exp.Expression:
    """Return SQL that gives a truth value, a whole number, a date or a text as text.

    Refuse other types, whose values engines write differently.
    """
    match operand.type:
        case Type.TEXT:
            return operand.tree
        case Type.BOOLEAN:
            true, false = (exp.Literal.string(word) for word in ("true", "false"))
            return by_truth(make_total(operand.tree, scope.schema), true, false)
        case Type.INTEGER:
            return limit_size(
                as_text(make_total(_to_whole(operand, -(2**63), 2**63, scope, node).tree, scope.schema)), node
            )
        case Type.DATE:
            return write_day(operand, node)
        case _:
            raise refusal(
                node,
                f"{clause_of(node)}: engines write a {operand.type} in different ways. Cast it to INTEGER first, or "
                "use STRFTIME.",
            )
