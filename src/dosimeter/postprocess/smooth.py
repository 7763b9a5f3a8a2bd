"""Arithmetic over released numbers: is a formula smooth (E1), what rounds around it, its value over arrays.

Takes trees that the planner wrote. Knows no noise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from sqlglot import exp

from dosimeter.arrays import FloatArray
from dosimeter.measures import Estimate

_ARITHMETIC = (exp.Column, exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Nullif, exp.Cast,
               exp.TryCast, exp.DataType, exp.Identifier)  # fmt: skip


def strip_rounding(tree: exp.Expression) -> tuple[exp.Expression, float]:
    """Return a formula without the ROUND and the casts around it, and the most that these can add to its error."""
    moved = 0.0
    while isinstance(tree, (exp.Paren, exp.Round)) or is_double(tree):
        if isinstance(tree, exp.Round):
            decimals = tree.args.get("decimals")
            places = 0 if decimals is None else read_literal(decimals)
            if places is None:
                break
            moved += 10.0**-places
        tree = tree.this
    return tree, moved


def read_literal(node: exp.Expression) -> float | None:
    """Return the number that a literal is, with a sign and parentheses around it; None for anything else."""
    if isinstance(node, exp.Paren):
        return read_literal(node.this)
    if isinstance(node, exp.Neg):
        inner = read_literal(node.this)
        return None if inner is None else -inner
    return float(node.this) if isinstance(node, exp.Literal) and not node.is_string else None


def is_double(node: exp.Expression) -> bool:
    """Return whether a node is a cast to DOUBLE."""
    return isinstance(node, (exp.Cast, exp.TryCast)) and node.args["to"].sql(dialect="duckdb") == "DOUBLE"


def is_smooth(tree: exp.Expression, numbers: Collection[str]) -> bool:
    """Return whether a formula has only + − × ÷ over aggregates, literals and the columns named in ``numbers``."""
    for node in tree.walk():
        if not isinstance(node, _ARITHMETIC):
            return False
        if isinstance(node, exp.Column) and node.name[0] != "e" and node.name not in numbers:
            return False
        if isinstance(node, (exp.Cast, exp.TryCast)) and not is_double(node):
            return False
        if isinstance(node, exp.Literal) and node.is_string:
            return False
        if isinstance(node, exp.Nullif) and read_literal(_inner(node.expression)) != 0.0:
            return False
    return True


def _inner(node: exp.Expression) -> exp.Expression:
    while isinstance(node, (exp.Cast, exp.TryCast, exp.Paren)):
        node = node.this
    return node


def compute_smooth(node: exp.Expression, columns: Mapping[str, FloatArray]) -> FloatArray | float:
    """Return the value of a smooth formula (``is_smooth``); a quotient by 0 is NaN. ``columns``: what it reads."""
    match node:
        case exp.Column():
            return columns[node.name]
        case exp.Literal():
            return float(node.this)
        case exp.Neg():
            return -compute_smooth(node.this, columns)
        case exp.Add():
            return compute_smooth(node.this, columns) + compute_smooth(node.expression, columns)
        case exp.Sub():
            return compute_smooth(node.this, columns) - compute_smooth(node.expression, columns)
        case exp.Mul():
            return compute_smooth(node.this, columns) * compute_smooth(node.expression, columns)
        case exp.Div():
            divisor = np.asarray(compute_smooth(node.expression, columns))
            return compute_smooth(node.this, columns) / np.where(divisor == 0.0, np.nan, divisor)
        case _:  # a parenthesis, a cast to double, NULLIF(…, 0)
            return compute_smooth(node.this, columns)


def clips(estimate: Estimate) -> bool:
    """Return whether all that ``Estimate.finish`` does for this aggregate is to put the number back into a range.

    If so, it never enlarges the error. A square root, for example, does more.
    """
    return type(estimate).finish is Estimate.finish
