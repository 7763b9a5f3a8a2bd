"""Windows over one individual's own rows: OVER (PARTITION BY unit …), written so that every engine orders alike (Q2).

Some results (of ROW_NUMBER, LAG, a frame of ROWS) depend on the order of rows with equal ORDER BY. Such rows are
ordered by the row key and then by every other column that the query reads; rows that agree in all of these cannot be
told apart. So the values depend on the individual's own rows only. Never opens a connection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.people.columns import (
    OWN_AGGREGATES,
    OwnValue,
    read_aggregate,
    read_value,
    unfilter,
    whole_column,
)
from dosimeter.sql import (
    Scope,
    as_bigint,
    case,
    check_total,
    clause_of,
    column_tree,
    connect,
    count_nodes,
    expect_only,
    is_not_null,
    refusal,
)

SUPPORTED = (
    "Supported with OVER (PARTITION BY unit …): ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, FIRST_VALUE, LAST_VALUE, "
    "COUNT, COUNT_IF, SUM, AVG, MIN, MAX, BOOL_OR, BOOL_AND."
)
_ALL_ROWS = exp.WindowSpec(
    kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="UNBOUNDED", end_side="FOLLOWING"
)


def read_window(node: exp.Window, scope: Scope, ties: Sequence[str]) -> OwnValue:
    """Return a window function over the individual's own rows, with the public facts of its values.

    ``ties``: the columns by which rows that are equal in the window's ORDER BY are ordered.
    """
    expect_only(node, "this", "partition_by", "order", "spec", "over")
    function, unit = node.this, scope.schema.unit
    partition = [check_total(part, scope) for part in node.args.get("partition_by") or []]
    if not any(isinstance(tree, exp.Column) and tree.name == unit for tree in partition):
        raise refusal(
            node,
            f"{clause_of(node)} would read other people's rows, so that one person could move everybody. Write "
            f"PARTITION BY {unit}, or use OVER in the outer query, over its aggregates.",
        )
    written = _read_order(node, scope)
    total = [*written, *(_ascending(name) for name in ties)]
    many = scope.schema.max_rows_per_unit
    match function:
        case exp.RowNumber():
            expect_only(function)
            _refuse_frame(node)
            return OwnValue(as_bigint(_over(exp.RowNumber(), partition, total)), whole_column(1, many))
        case exp.Rank() | exp.DenseRank():
            expect_only(function)
            if not written:
                raise refusal(node, f"{clause_of(node)} ranks nothing. Add ORDER BY, or use ROW_NUMBER().")
            _refuse_frame(node)
            return OwnValue(as_bigint(_over(type(function)(), partition, written)), whole_column(1, many))
        case exp.Lag() | exp.Lead():
            if function.args.get("default") is not None:
                raise refusal(
                    node, f"{clause_of(node)}: write COALESCE({type(function).__name__.upper()}(…) OVER (…), …)."
                )
            expect_only(function, "this", "offset")
            value = read_value(function.this, scope)
            away = _whole(function.args.get("offset"), node)
            moved = type(function)(this=value.tree, offset=exp.Literal.number(away))
            _refuse_frame(node)
            return OwnValue(_over(moved, partition, total), value.column)
        case exp.FirstValue() | exp.LastValue():
            expect_only(function, "this")
            value = read_value(function.this, scope)
            return OwnValue(
                _over(type(function)(this=value.tree), partition, total, _frame_of_end(node, written)), value.column
            )
        case _ if isinstance(function.this if isinstance(function, exp.Filter) else function, OWN_AGGREGATES):
            frame = _read_frame(node)
            by_rows = frame is not None and frame.args["kind"] == "ROWS"
            order = total if by_rows else written
            return read_aggregate(function, scope, lambda tree: _over(tree, partition, order, frame), windowed=True)
        case exp.ArgMax() | exp.ArgMin():
            raise refuse_chosen(node, unit)
        case _:
            raise refusal(node, f"{clause_of(function)} is not supported with OVER. {SUPPORTED}")


def refuse_chosen(node: exp.Window, unit: str) -> QueryError:
    """Return the error for ARG_MAX or ARG_MIN with OVER."""
    function = node.this
    order = f"{clause_of(function.expression)}{' DESC' if isinstance(function, exp.ArgMax) else ''}"
    return refusal(
        node,
        f"{clause_of(function)} is not supported with OVER. Write FIRST_VALUE({clause_of(function.this)}) OVER "
        f"(PARTITION BY {unit} ORDER BY {order}), or GROUP BY {unit}.",
    )


def read_choice(node: exp.Expression, scope: Scope, keys: Sequence[exp.Expression], ties: Sequence[str]) -> OwnValue:
    """Return ARG_MAX or ARG_MIN, with or without FILTER, as a window over the rows that agree in ``keys``.

    It is the value in the row that comes first, as in DuckDB: rows without a value or without a place in the order do
    not count. ``ties``: the columns by which rows in the same place are ordered.
    """
    bare, condition = unfilter(node, scope)
    expect_only(bare, "this", "expression")
    value, place = read_value(bare.this, scope, clamped=True), check_total(bare.expression, scope)
    counts = connect(
        [is_not_null(value.tree), is_not_null(place), *([] if condition is None else [condition])], exp.And
    )
    descending = isinstance(bare, exp.ArgMax)
    first = exp.Ordered(this=case((counts, place)), desc=descending, nulls_first=False)
    chosen = exp.FirstValue(this=case((counts.copy(), value.tree.copy())))
    order = [first, *(_ascending(name) for name in ties)]
    window = _over(chosen, [check_total(key, scope) for key in keys], order, _ALL_ROWS)
    count_nodes(window)  # value and condition are written several times
    return OwnValue(window, value.column)


def _over(
    function: exp.Expression,
    partition: Sequence[exp.Expression],
    order: Sequence[exp.Ordered],
    frame: exp.WindowSpec | None = None,
) -> exp.Expression:
    window = exp.Window(this=function, partition_by=[tree.copy() for tree in partition], over="OVER")
    if order:
        window.set("order", exp.Order(expressions=[term.copy() for term in order]))
    if frame is not None:
        window.set("spec", frame.copy())
    return window


def _read_order(node: exp.Window, scope: Scope) -> list[exp.Ordered]:
    clause = node.args.get("order")
    if clause is None:
        return []
    expect_only(clause, "expressions")
    terms = []
    for term in clause.expressions:
        expect_only(term, "this", "desc", "nulls_first")
        if isinstance(term.this, (exp.Literal, exp.Var)):
            raise refusal(node, f"{clause_of(node)}: ORDER BY takes columns inside OVER.")
        descending, first = bool(term.args.get("desc")), bool(term.args.get("nulls_first"))
        terms.append(exp.Ordered(this=check_total(term.this, scope), desc=descending, nulls_first=first))
    return terms


def _ascending(name: str) -> exp.Ordered:
    return exp.Ordered(this=column_tree(name), desc=False, nulls_first=False)


def _refuse_frame(node: exp.Window) -> None:
    if node.args.get("spec") is not None:
        raise refusal(node, f"{clause_of(node)}: {clause_of(node.this)} takes no frame. Leave ROWS … out.")


def _read_frame(node: exp.Window) -> exp.WindowSpec | None:
    spec = node.args.get("spec")
    if spec is None:
        return None
    expect_only(spec, "kind", "start", "start_side", "end", "end_side")
    kind = str(spec.args.get("kind") or "ROWS").upper()
    sides = [(spec.args.get("start"), spec.args.get("start_side")), (spec.args.get("end"), spec.args.get("end_side"))]
    if sides[1][0] is None:  # ROWS 2 PRECEDING ends at the current row
        sides[1] = ("CURRENT ROW", None)
    read = [_read_side(value, side, kind, node) for value, side in sides]
    if kind not in ("ROWS", "RANGE"):
        raise refusal(node, f"{clause_of(node)}: a frame is ROWS BETWEEN … AND ….")
    return exp.WindowSpec(kind=kind, start=read[0][0], start_side=read[0][1], end=read[1][0], end_side=read[1][1])


def _read_side(value: object, side: object, kind: str, node: exp.Window) -> tuple[str | exp.Expression, str | None]:
    direction = None if side is None else str(side).upper()
    if isinstance(value, str) and value.upper() == "CURRENT ROW":
        return "CURRENT ROW", None
    if direction not in ("PRECEDING", "FOLLOWING"):
        raise refusal(node, f"{clause_of(node)}: a frame is ROWS BETWEEN … AND ….")
    if isinstance(value, str) and value.upper() == "UNBOUNDED":
        return "UNBOUNDED", direction
    if kind != "ROWS" or not isinstance(value, exp.Expression):
        raise refusal(node, f"{clause_of(node)}: distances are counted in rows. Write ROWS BETWEEN … AND ….")
    return exp.Literal.number(_whole(value, node)), direction


def _frame_of_end(node: exp.Window, order: Sequence[exp.Ordered]) -> exp.WindowSpec | None:
    """Return the frame of FIRST_VALUE or LAST_VALUE: its own frame if that is of ROWS, else all rows of the partition.

    ``order``: the terms of the window's ORDER BY; empty without one. Refuses LAST_VALUE with ORDER BY and no frame,
    which would end at the current row, and a RANGE that is not the whole partition.
    """
    frame = _read_frame(node)
    if frame is None:
        if isinstance(node.this, exp.FirstValue) or not order:
            return _ALL_ROWS
        raise refusal(
            node,
            f"{clause_of(node)} ends at the current row. Write ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED "
            "FOLLOWING, or FIRST_VALUE with the order reversed.",
        )
    if frame.args["kind"] == "ROWS":
        return frame
    if frame.args["start"] == "UNBOUNDED" and frame.args["end"] == "UNBOUNDED":
        return _ALL_ROWS
    raise refusal(node, f"{clause_of(node)}: rows in the same place have no last one. Write ROWS instead of RANGE.")


def _whole(node: object, parent: exp.Expression) -> int:
    """Return the number in an offset or in a frame's end, such as the 3 of 3 PRECEDING; 1 if none is written.

    Refuses anything but a whole number.
    """
    if node is None:
        return 1
    text = str(node.this) if isinstance(node, exp.Literal) and not node.is_string else ""
    if not re.fullmatch(r"\d{1,6}", text, re.ASCII):
        raise refusal(parent, f"{clause_of(parent)}: a distance is a whole number of rows.")
    return int(text)
