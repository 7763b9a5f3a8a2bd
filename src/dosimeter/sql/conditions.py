"""Conditions and choices over one row: comparisons, AND, IN, LIKE, IS, CASE, COALESCE. One small function for each."""

from __future__ import annotations

from sqlglot import exp

from dosimeter.sql.checking import check_aligned, check_condition, check_expression, common_type
from dosimeter.sql.dates import compare_difference, is_interval
from dosimeter.sql.literals import read_text
from dosimeter.sql.safe_arithmetic import make_total
from dosimeter.sql.text_lengths import limit_text
from dosimeter.sql.texts import lower_ascii, require_short_pattern
from dosimeter.sql.trees import case, connect, flatten_connector, is_null, wrap
from dosimeter.sql.types import (
    COLUMN_TYPES,
    COMPARISONS,
    Checked,
    Scope,
    Type,
    clause_of,
    expect_only,
    limit_size,
    refusal,
)


def check_paren(node: exp.Expression, scope: Scope) -> Checked:
    expect_only(node, "this")
    inner = check_expression(node.this, scope)
    return Checked(wrap(inner.tree), inner.type)


def check_column(node: exp.Expression, scope: Scope) -> Checked:
    assert isinstance(node, exp.Column)
    column = scope.resolve(node)
    return Checked(exp.column(exp.to_identifier(column.name, quoted=True)), COLUMN_TYPES[column.type])


def check_connector(node: exp.Expression, scope: Scope) -> Checked:
    conditions = [check_condition(part, scope) for part in flatten_connector(node)]
    return Checked(connect(conditions, exp.And if isinstance(node, exp.And) else exp.Or), Type.BOOLEAN)


def check_not(node: exp.Expression, scope: Scope) -> Checked:
    expect_only(node, "this")
    return Checked(exp.Not(this=wrap(check_condition(node.this, scope))), Type.BOOLEAN)


def check_comparison(node: exp.Expression, scope: Scope) -> Checked:
    expect_only(node, "this", "expression")
    for side in (node.this, node.expression):
        if isinstance(side.unnest(), COMPARISONS):
            raise refusal(
                node,
                f"{clause_of(node)} chains comparisons, which means something else in SQL. "
                "Write x BETWEEN low AND high, or join two comparisons with AND.",
            )
    if is_interval(node.this) or is_interval(node.expression):
        return compare_difference(node, scope)
    left, right = check_aligned([node.this, node.expression], scope, node)
    return Checked(type(node)(this=wrap(left.tree), expression=wrap(right.tree)), Type.BOOLEAN)


def check_between(node: exp.Expression, scope: Scope) -> Checked:
    if node.args.get("symmetric"):
        raise refusal(node, f"{clause_of(node)}: SYMMETRIC is not supported. Write the smaller end first.")
    expect_only(node, "this", "low", "high")
    if is_interval(node.args["low"]) and is_interval(node.args["high"]):
        ends = [kind(this=node.this, expression=node.args[end]) for kind, end in ((exp.GTE, "low"), (exp.LTE, "high"))]
        return check_connector(exp.And(this=ends[0], expression=ends[1]), scope)
    subject, low, high = check_aligned([node.args[name] for name in ("this", "low", "high")], scope, node)
    tree = exp.Between(this=wrap(subject.tree), low=wrap(low.tree), high=wrap(high.tree))
    return Checked(tree, Type.BOOLEAN)


def check_membership(node: exp.Expression, scope: Scope) -> Checked:
    if any(node.args.get(name) for name in ("query", "unnest", "field")):
        raise refusal(node, "IN (SELECT …) is not supported. List the values: IN ('a', 'b').")
    expect_only(node, "this", "expressions")
    if not node.expressions:
        raise refusal(node, f"{clause_of(node)}: IN needs a list of values.")
    subject, *members = check_aligned([node.this, *node.expressions], scope, node)
    return Checked(exp.In(this=wrap(subject.tree), expressions=[member.tree for member in members]), Type.BOOLEAN)


def check_is(node: exp.Expression, scope: Scope) -> Checked:
    """Check IS NULL, IS TRUE and IS FALSE. The parser turns x IS NOT … into NOT x IS …."""
    expect_only(node, "this", "expression")
    if isinstance(node.expression, exp.Null):
        return Checked(is_null(check_expression(node.this, scope).tree), Type.BOOLEAN)
    if not isinstance(node.expression, exp.Boolean):
        raise refusal(node, f"{clause_of(node)}: IS takes NULL, TRUE or FALSE.")
    condition = check_condition(node.this, scope)
    wanted = condition if node.expression.this else exp.Not(this=wrap(condition))
    return Checked(exp.Coalesce(this=wrap(wanted), expressions=[exp.Boolean(this=False)]), Type.BOOLEAN)


def check_distinct_from(node: exp.Expression, scope: Scope) -> Checked:
    """Check IS [NOT] DISTINCT FROM: a comparison in which NULL equals NULL and nothing else."""
    expect_only(node, "this", "expression")
    left, right = check_aligned([node.this, node.expression], scope, node)
    a, b = (make_total(side.tree, scope.schema) for side in (left, right))
    both = exp.And(this=is_null(a.copy()), expression=is_null(b.copy()))
    same = exp.Coalesce(
        this=exp.Paren(this=exp.EQ(this=wrap(a), expression=wrap(b))), expressions=[exp.Paren(this=both)]
    )
    tree = same if isinstance(node, exp.NullSafeEQ) else exp.Not(this=same)
    return Checked(limit_size(tree, node), Type.BOOLEAN)


def check_like(node: exp.Expression, scope: Scope) -> Checked:
    """Check LIKE and ILIKE. ILIKE ignores the case of the letters a to z only, so that engines agree."""
    expect_only(node, "this", "expression", "negate")
    subject = check_expression(node.this, scope)
    pattern = read_text(node.expression)
    if subject.type is not Type.TEXT or pattern is None:
        raise refusal(node, f"{clause_of(node)}: LIKE compares a text column with a pattern such as 'A%'.")
    if "\\" in pattern:
        raise refusal(node, f"{clause_of(node)}: a backslash in a LIKE pattern means different things in engines.")
    require_short_pattern(pattern, node)
    tree = subject.tree
    if isinstance(node, exp.ILike):
        if not pattern.isascii():
            raise refusal(node, f"{clause_of(node)}: engines differ in the cases of these letters. Use LIKE.")
        tree, pattern = limit_text(lower_ascii(tree), scope.schema), pattern.lower()
    like = exp.Like(this=wrap(tree), expression=exp.Literal.string(pattern))
    return Checked(exp.Not(this=wrap(like)) if node.args.get("negate") else like, Type.BOOLEAN)


def check_case(node: exp.Expression, scope: Scope) -> Checked:
    expect_only(node, "this", "ifs", "default")
    subject = node.args.get("this")
    branches = node.args.get("ifs") or []
    if subject is not None:
        limit_size(subject, node, len(branches))  # it is checked and written for each of them
    conditions = [
        check_condition(exp.EQ(this=subject.copy(), expression=branch.this.copy()) if subject else branch.this, scope)
        for branch in branches
    ]
    default = node.args.get("default")
    results = [branch.args["true"] for branch in branches] + ([default] if default is not None else [])
    checked = check_aligned(results, scope, node)
    trees = [part.tree for part in checked]
    last = trees.pop() if default is not None else None
    tree = case(*zip(conditions, trees, strict=True), default=last)
    return Checked(limit_size(tree, node), common_type(checked, node))


def check_if(node: exp.Expression, scope: Scope) -> Checked:
    expect_only(node, "this", "true", "false")
    branch = exp.If(this=node.this, true=node.args["true"])
    return check_case(exp.Case(ifs=[branch], default=node.args.get("false")), scope)


def check_coalesce(node: exp.Expression, scope: Scope) -> Checked:
    expect_only(node, "this", "expressions")
    first, *others = parts = check_aligned([node.this, *node.expressions], scope, node)
    tree = exp.Coalesce(this=first.tree, expressions=[part.tree for part in others]) if others else first.tree
    return Checked(tree, common_type(parts, node))


def check_nullif(node: exp.Expression, scope: Scope) -> Checked:
    expect_only(node, "this", "expression")
    left, right = check_aligned([node.this, node.expression], scope, node)
    same = make_total(exp.EQ(this=wrap(left.tree), expression=wrap(right.tree)), scope.schema)
    return Checked(limit_size(case((same, exp.Null()), default=left.tree), node), left.type)


def check_extremum(node: exp.Expression, scope: Scope) -> Checked:
    """Check GREATEST and LEAST, which skip NULL."""
    expect_only(node, "this", "expressions")
    first, *others = parts = check_aligned([node.this, *node.expressions], scope, node)
    kind = common_type(parts, node)
    if kind in (Type.TEXT, Type.BOOLEAN):
        raise refusal(node, f"{clause_of(node)}: {node.key.upper()} takes numbers or dates. Use CASE.")
    tree = type(node)(this=first.tree, expressions=[part.tree for part in others], ignore_nulls=True)
    return Checked(tree, kind)
