"""Check a row-wise SQL expression against the schema and rebuild it, by the table ``ROW_FUNCTIONS``.

Takes a parsed sqlglot node and a Scope; gives a rebuilt tree with its type, or a QueryError that names the clause.
Nothing of the analyst's tree survives: every node is rebuilt by the function that the table lists for its kind,
and every name is resolved. Rebuilt trees may hold nodes that only ``make_total`` can write for an engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, time

from sqlglot import exp

from dosimeter.sql.literals import constant_moment, constant_tree, read_moment
from dosimeter.sql.safe_arithmetic import make_total
from dosimeter.sql.types import NUMERIC, TEMPORAL, Checked, Scope, Type, clause_of, refusal


def check_expression(node: exp.Expression, scope: Scope) -> Checked:
    """Rebuild one row-wise expression and find its type, or refuse it and say why."""
    from dosimeter.sql.functions import NAMED_FUNCTIONS, ROW_FUNCTIONS, refuse_unknown

    check = ROW_FUNCTIONS.get(type(node))
    if check is None and isinstance(node, exp.Anonymous):
        check = NAMED_FUNCTIONS.get(node.name.lower())
    if check is None:
        raise refuse_unknown(node)
    return check(node, scope)


def check_total(node: exp.Expression, scope: Scope) -> exp.Expression:
    """Check an expression of one row, and rebuild it so that no row can make it fail (``make_total``)."""
    return make_total(check_expression(node, scope).tree, scope.schema)


def check_condition(node: exp.Expression, scope: Scope) -> exp.Expression:
    """Check a condition of a WHERE, FILTER or CASE, and rebuild it so that no row can make it fail."""
    checked = check_expression(node, scope)
    if checked.type not in (Type.BOOLEAN, Type.NULL):
        raise refusal(node, f"{clause_of(node)} is not a condition. Compare it with something.")
    return make_total(checked.tree, scope.schema, in_place=True)


def check_number(node: exp.Expression, scope: Scope, parent: exp.Expression) -> Checked:
    """Check an operand of ``parent`` that must be a number or NULL."""
    return require_number(check_expression(node, scope), node, parent)


def require_number(checked: Checked, node: exp.Expression, parent: exp.Expression) -> Checked:
    """Return a checked operand of ``parent``, or refuse it if it is neither a number nor NULL."""
    if checked.type not in NUMERIC and checked.type is not Type.NULL:
        raise refusal(parent, f"{clause_of(parent)} needs numbers, and {clause_of(node)} is {checked.type}.")
    return checked


def check_moment(node: exp.Expression, scope: Scope, parent: exp.Expression) -> Checked:
    """Check an operand of ``parent`` that must be a date or a timestamp."""
    checked = check_expression(node, scope)
    if checked.type not in TEMPORAL:
        raise refusal(parent, f"{clause_of(parent)} needs a date or timestamp column.")
    return checked


def cast_moment(tree: exp.Expression, kind: Type) -> Checked:
    """Cast a date or timestamp to a date or to a timestamp, as ``kind`` says."""
    return Checked(exp.Cast(this=tree, to=exp.DataType.build(kind.upper())), kind)


def align_types(parts: Sequence[tuple[exp.Expression, Checked]], *, parent: exp.Expression) -> list[Checked]:
    """Return the operands of one node, ``parent``, made comparable; refuse them if they have no common type.

    A text literal beside a date or timestamp is read as a date or timestamp. A date beside a timestamp becomes its
    midnight. Other operands stay as they are.
    """
    kinds = {checked.type for _, checked in parts}
    if kinds & TEMPORAL:
        wanted = Type.TIMESTAMP if Type.TIMESTAMP in kinds else Type.DATE
        aligned = [_read_as(checked, wanted, node) for node, checked in parts]
    else:
        aligned = [checked for _, checked in parts]
    common_type(aligned, parent)
    return aligned


def _read_as(checked: Checked, wanted: Type, node: exp.Expression) -> Checked:
    if isinstance(checked.tree, exp.Literal) and checked.type is Type.TEXT:
        return read_moment(str(checked.tree.this), wanted, node)
    if checked.type is Type.DATE and wanted is Type.TIMESTAMP:
        day = constant_moment(checked.tree)
        if day is not None:
            return Checked(constant_tree(datetime.combine(day, time())), wanted)
        return cast_moment(checked.tree, wanted)
    return checked


def check_aligned(nodes: Sequence[exp.Expression], scope: Scope, parent: exp.Expression) -> list[Checked]:
    """Check several operands of ``parent`` and make them comparable; refuse them if they have no common type."""
    return align_types([(node, check_expression(node, scope)) for node in nodes], parent=parent)


def common_type(parts: Iterable[Checked], parent: exp.Expression) -> Type:
    """Return the common type of several values, NULL if all are NULL; refuse values that have none in common."""
    kinds = {part.type for part in parts} - {Type.NULL}
    if not kinds:
        return Type.NULL
    if kinds == {Type.INTEGER}:
        return Type.INTEGER
    if kinds <= NUMERIC:
        return Type.NUMBER
    if len(kinds) == 1:
        return kinds.pop()
    raise refusal(
        parent, f"{clause_of(parent)} mixes {' and '.join(sorted(kinds))}. Both sides need the same type; CAST helps."
    )
