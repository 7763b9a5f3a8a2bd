"""Formulas of a column of an answer whose rows come from several blocks (SELECTs that measure). Knows no data."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

BLOCK = "block"


def choose_by_block(formulas: Mapping[int, exp.Expression]) -> exp.Expression:
    """Return one formula that chooses among these by the row's block: CASE block WHEN 0 THEN … END.

    ``formulas``: by block number. A block is a SELECT that measures.
    """
    return exp.Case(
        this=exp.column(BLOCK),
        ifs=[exp.If(this=exp.Literal.number(block), true=tree.copy()) for block, tree in formulas.items()],
    )


def formula_in(tree: exp.Expression | None, block: int) -> exp.Expression | None:
    """Return a formula with each choice by block replaced by its branch for this block, or by NULL if it has none.

    Return None if ``tree`` is None.
    """
    if tree is None:
        return None
    while _is_choice(tree):  # taken before anything is copied: a union of many SELECTs has as many branches
        tree = _find_branch(tree, block)

    def choose(node: exp.Expression) -> exp.Expression:
        return _find_branch(node, block).transform(choose) if _is_choice(node) else node

    written: exp.Expression = tree.transform(choose)
    return written


def _find_branch(choice: exp.Expression, block: int) -> exp.Expression:
    found = (branch.args["true"] for branch in choice.args["ifs"] if int(branch.this.name) == block)
    return next(found, exp.Null())


def _is_choice(node: exp.Expression) -> bool:
    return isinstance(node, exp.Case) and isinstance(node.this, exp.Column) and node.this.name == BLOCK
