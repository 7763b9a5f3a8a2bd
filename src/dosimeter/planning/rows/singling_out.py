"""Find the identifying columns that a query tests, and so asks about single persons. By SQL and schema alone.

Takes a parsed query and the names of identifying columns; gives those that it tests. `name = 'Yusuf Demir'` asks about
one person, and so does everything that could stand for it: IN, LIKE, BETWEEN, CASE name WHEN …, NULLIF, or a function
such as ABS(id - 7) that treats one value differently. Counting different persons, joining by them, one window for
each of them and asking whether a name is NULL are fine. Never opens a connection.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.sql import COMPARISONS, NAMED_FUNCTIONS, ROW_FUNCTIONS, Scope, clause_of

_TESTS: tuple[type[exp.Expr], ...] = (
    *COMPARISONS, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between, exp.Like, exp.ILike, exp.Is, exp.Nullif,
    exp.StartsWith, exp.EndsWith, exp.Contains,
)  # fmt: skip
_TEST_NAMES = ("prefix", "suffix")
# What moves a value without folding it: a column in it is still only added, counted or chosen.
_STRAIGHT: tuple[type[exp.Expr], ...] = (
    exp.Paren, exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.And,
    exp.Or, exp.Not, exp.Case, exp.If, exp.Coalesce, *_TESTS,
)  # fmt: skip
_BENDING: tuple[type[exp.Expr], ...] = tuple(kind for kind in ROW_FUNCTIONS if kind not in _STRAIGHT)


def find_singled_out(select: exp.Select, scope: Scope, watched: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Return each watched column that the query tests, with the first clause that tests it.

    select: the query, with its subqueries inlined.
    scope: what its names mean.
    watched: full names of the columns that identify people.
    """
    found: dict[str, str] = {}
    if not watched:
        return ()
    for node in select.find_all(exp.Column):
        with suppress(QueryError):  # an alias, or what the planner refuses by name
            name = scope.resolve(node).name
            clause = _find_test(node) if name in watched and name not in found else None
            if isinstance(clause, exp.Expression):
                found[name] = clause_of(clause)
    return tuple(found.items())


def _find_test(column: exp.Column) -> exp.Expr | None:
    """Return the test that a column is part of, or a function that could stand for one, such as ABS(id - 7).

    None if the column is only counted, added up, grouped by, compared with another column, tested for NULL, or says
    whose rows a window has and in which order.
    """
    child: exp.Expr = column
    parent, bent = column.parent, None
    while parent is not None and not isinstance(parent, (exp.Group, exp.Select)):
        if isinstance(parent, _TESTS) or (isinstance(parent, exp.Anonymous) and parent.name.lower() in _TEST_NAMES):
            return None if _is_about_plain_columns(parent) else parent
        if _is_truth(child, parent):
            return child
        if isinstance(parent, exp.AggFunc) or (isinstance(parent, exp.Window) and parent.this is not child):
            break
        if isinstance(parent, exp.Case) and parent.this is child:
            return parent
        if _is_bending(parent) or (isinstance(parent, exp.Div) and parent.expression is child):
            bent = parent if bent is None and _has_other_leaves(parent) else bent
        child, parent = parent, parent.parent
    return bent


def _is_bending(node: exp.Expr) -> bool:
    return isinstance(node, _BENDING) or (isinstance(node, exp.Anonymous) and node.name.lower() in NAMED_FUNCTIONS)


def _is_about_plain_columns(test: exp.Expr) -> bool:
    """Return whether a test has only columns as operands (a = b, but not a = 7), or is a column's IS NULL.

    Such a test singles nobody out. A column inside an expression, as in ABS(a) = b, is not such an operand.
    """
    operands = [operand.unnest() for operand in test.iter_expressions()]
    if isinstance(test, exp.Is) and isinstance(operands[-1], exp.Null):
        operands.pop()
    return all(isinstance(operand, exp.Column) for operand in operands)


def _is_truth(child: exp.Expr, parent: exp.Expr) -> bool:
    """Return whether the child stands where a condition is expected, as ``retired`` does in WHERE retired.

    A column that stands there is a test by itself.
    """
    if isinstance(parent, (exp.Where, exp.Having, exp.CountIf, exp.Not, exp.Connector)):
        return True
    return isinstance(parent, exp.If) and parent.this is child


def _has_other_leaves(tree: exp.Expr) -> bool:
    return sum(1 for _ in tree.find_all(exp.Column, exp.Literal)) > 1
