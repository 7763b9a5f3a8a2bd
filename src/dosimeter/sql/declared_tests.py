"""Test whether a tree has a declared value, where NULL may be declared as the last one (C8). Trees for any engine."""

from __future__ import annotations

from sqlglot import exp

from dosimeter.schema import Scalar
from dosimeter.sql.literals import literal
from dosimeter.sql.trees import is_null, wrap


def equals(tree: exp.Expression, value: Scalar) -> exp.Expression:
    """Return the test that a tree has this value, which may be NULL."""
    if value is None:
        return is_null(tree.copy())
    return exp.EQ(this=wrap(tree.copy()), expression=wrap(literal(value)))


def without_null(values: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """Return the declared values without NULL, which is always the last one (C8)."""
    return values[:-1] if values[-1:] == (None,) else values


def are_consecutive(values: tuple[Scalar, ...]) -> bool:
    first, last = values[0], values[-1]
    return type(first) is int and type(last) is int and values == tuple(range(first, last + 1))


def is_declared(tree: exp.Expression, values: tuple[Scalar, ...]) -> exp.Expression:
    """Return the test that a tree has one of these values; NULL passes only where it is one of them."""
    known = without_null(values)
    if len(known) < len(values):
        return exp.Paren(this=exp.Or(this=equals(tree, None), expression=is_declared(tree, known)))
    if are_consecutive(known):
        return exp.Between(this=wrap(tree.copy()), low=literal(known[0]), high=literal(known[-1]))
    return exp.In(this=wrap(tree.copy()), expressions=[literal(value) for value in known])
