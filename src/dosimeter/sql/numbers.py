"""Numbers of a row: arithmetic, rounding, roots and logarithms. One small function for each.

An operation that engines write differently is kept as one node here; ``make_total`` writes it for every engine, and
``put_on_grid`` finds its bounds. What has no value (a zero divisor, the root of a negative number) is NULL.
"""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from dosimeter.sql.checking import check_expression, check_number, require_number
from dosimeter.sql.dates import add_days, days_between, is_interval, shift_moment
from dosimeter.sql.literals import constant_tree, read_decimal, read_whole
from dosimeter.sql.safe_arithmetic import Log10, make_total
from dosimeter.sql.trees import as_bigint, as_double, case, double, is_null, quotient, wrap
from dosimeter.sql.types import TEMPORAL, Checked, Scope, Type, clause_of, expect_only, limit_size, refusal

MAX_PLACES = 15
MAX_EXPONENT = 10
MAX_BUCKETS = 500


def check_negation(node: exp.Expression, scope: Scope) -> Checked:
    expect_only(node, "this")
    operand = check_number(node.this, scope, node)
    return Checked(exp.Neg(this=wrap(operand.tree)), operand.type)


def check_sum(node: exp.Expression, scope: Scope) -> Checked:
    """Check + and − of numbers, and of dates with intervals, whole numbers of days or other dates."""
    expect_only(node, "this", "expression")
    left, right = node.this, node.expression
    sign = -1 if isinstance(node, exp.Sub) else 1
    if is_interval(right):
        return shift_moment(left, right, sign, scope, node)
    if is_interval(left) and sign == 1:
        return shift_moment(right, left, sign, scope, node)
    first, second = check_expression(left, scope), check_expression(right, scope)
    if first.type in TEMPORAL and second.type in TEMPORAL and sign == -1:
        return days_between(first, second, node)
    if first.type is Type.DATE and read_whole(right) is not None:
        return add_days(first, sign * (read_whole(right) or 0), node)
    if second.type is Type.DATE and read_whole(left) is not None and sign == 1:
        return add_days(second, read_whole(left) or 0, node)
    return _arithmetic(node, first, second)


def check_product(node: exp.Expression, scope: Scope) -> Checked:
    expect_only(node, "this", "expression")
    return _arithmetic(node, check_expression(node.this, scope), check_expression(node.expression, scope))


def _arithmetic(node: exp.Expression, first: Checked, second: Checked) -> Checked:
    left, right = require_number(first, node.this, node), require_number(second, node.expression, node)
    exact = read_decimal(node)
    if exact is not None and exact % 1:
        return Checked(constant_tree(float(exact)), Type.NUMBER)
    kind = Type.INTEGER if left.type is right.type is Type.INTEGER else Type.NUMBER
    return Checked(type(node)(this=wrap(left.tree), expression=wrap(right.tree)), kind)


def check_quotient(node: exp.Expression, scope: Scope) -> Checked:
    """Check x / y. It is NULL where y is 0, since engines disagree on that."""
    expect_only(node, "this", "expression")
    left, right = check_number(node.this, scope, node), check_number(node.expression, scope, node)
    return Checked(quotient(left.tree, right.tree), Type.NUMBER)


def check_whole_division(node: exp.Expression, scope: Scope) -> Checked:
    """Check // and % of integers: the quotient rounded towards 0, and the remainder."""
    expect_only(node, "this", "expression")
    left, right = check_number(node.this, scope, node), check_number(node.expression, scope, node)
    if not left.type is right.type is Type.INTEGER:
        raise refusal(node, f"{clause_of(node)}: // and % take integers on both sides. FLOOR(x / y) takes any numbers.")
    return Checked(type(node)(this=wrap(left.tree), expression=wrap(right.tree)), Type.INTEGER)


def check_size(node: exp.Expression, scope: Scope) -> Checked:
    expect_only(node, "this")
    operand = check_number(node.this, scope, node)
    return Checked(exp.Abs(this=operand.tree), operand.type)


def check_rounding(node: exp.Expression, scope: Scope) -> Checked:
    """Check ROUND(x, places), which rounds halves away from 0, as DuckDB does."""
    expect_only(node, "this", "decimals")
    operand = check_number(node.this, scope, node)
    decimals = node.args.get("decimals")
    places = 0 if decimals is None else read_whole(decimals)
    if places is None or abs(places) > MAX_PLACES:
        raise refusal(node, f"{clause_of(node)}: ROUND takes a whole number of places up to {MAX_PLACES}.")
    if operand.type is Type.INTEGER and places >= 0:
        return operand
    return Checked(round_tree(operand.tree, places), operand.type)


def round_tree(tree: exp.Expression, places: int) -> exp.Expression:
    """Return SQL for ROUND to ``places`` decimal places; with −1, −2 … it rounds to tens, hundreds …."""
    number: exp.Expression = exp.Literal.number(abs(places))
    return exp.Round(this=tree, decimals=exp.Neg(this=number) if places < 0 else number)


def check_function(node: exp.Expression, scope: Scope) -> Checked:
    """Check FLOOR, CEIL, TRUNC, SQRT, LN and EXP."""
    expect_only(node, "this")
    operand = check_number(node.this, scope, node)
    return Checked(type(node)(this=operand.tree), Type.NUMBER)


def check_logarithm(node: exp.Expression, scope: Scope) -> Checked:
    """Check LOG(x), LOG10(x) and LOG(10, x): to the base 10, as in DuckDB. Refuse another base."""
    expect_only(node, "this", "expression")
    subject = node.args.get("expression")
    if subject is not None and read_whole(node.this) != 10:
        raise refusal(node, f"{clause_of(node)}: LOG takes the base 10. Write LN(x) / LN(base) for another.")
    operand = check_number(node.this if subject is None else subject, scope, node)
    return Checked(Log10(this=operand.tree), Type.NUMBER)


def check_power(node: exp.Expression, scope: Scope) -> Checked:
    """Check POWER with a whole exponent. POWER(x, 3) becomes x·x·x, and POWER(x, −3) becomes 1 / (x·x·x)."""
    expect_only(node, "this", "expression")
    exponent = read_whole(node.expression)
    if exponent is None or abs(exponent) > MAX_EXPONENT:
        raise refusal(
            node, f"{clause_of(node)}: POWER takes a whole exponent up to {MAX_EXPONENT}. SQRT is the power 0.5."
        )
    operand = check_number(node.this, scope, node)
    known = exp.Not(this=is_null(make_total(operand.tree, scope.schema)))
    tree: exp.Expression = case((known, double(1)))
    for at in range(abs(exponent)):
        factor = wrap(operand.tree.copy())
        tree = as_double(factor) if at == 0 else exp.Mul(this=tree, expression=factor)
    tree = tree if exponent >= 0 else quotient(exp.Literal.number(1), wrap(tree))
    return Checked(limit_size(tree, node), Type.NUMBER)


def check_sign(node: exp.Expression, scope: Scope) -> Checked:
    """Check SIGN, which gives −1, 0 or 1."""
    expect_only(node, "this")
    operand = make_total(check_number(node.this, scope, node).tree, scope.schema)
    zero, one = exp.Literal.number(0), as_bigint(exp.Literal.number(1))
    tree = case(
        (exp.GT(this=wrap(operand), expression=zero), one),
        (exp.LT(this=wrap(operand.copy()), expression=zero.copy()), exp.Neg(this=one.copy())),
        (exp.EQ(this=wrap(operand.copy()), expression=zero.copy()), as_bigint(zero.copy())),
    )
    return Checked(limit_size(tree, node), Type.INTEGER)


def check_bucket(node: exp.Expression, scope: Scope) -> Checked:
    """Check WIDTH_BUCKET(x, low, high, n), as in PostgreSQL: n intervals of equal width, numbered from 1.

    It is 0 below low, and n + 1 at high and above. With low > high the intervals are numbered downwards, and each
    includes its upper end. Ends are compared with x one by one: an end such as 0.29 is the same double as a cell 0.29,
    and arithmetic would put that cell below it.
    """
    expect_only(node, "this", "min_value", "max_value", "num_buckets")
    low, high = (
        None if end is None else read_decimal(end) for end in (node.args.get("min_value"), node.args.get("max_value"))
    )
    count = read_whole(node.args.get("num_buckets"))
    if low is None or high is None or count is None or low == high or not 1 <= count <= MAX_BUCKETS:
        raise refusal(
            node,
            f"{clause_of(node)}: WIDTH_BUCKET takes a number, two different ends and how many intervals there are, up "
            f"to {MAX_BUCKETS}, all written out: WIDTH_BUCKET(x, 0, 100, 5).",
        )
    operand = make_total(check_number(node.this, scope, node).tree, scope.schema)
    ends = [Fraction(low) + at * (Fraction(high) - Fraction(low)) / count for at in range(count + 1)]
    before, beyond = (exp.LT, exp.GTE) if low < high else (exp.GT, exp.LTE)

    def compare(kind: type[exp.Expression], end: Fraction) -> exp.Expression:
        value = int(end) if end.denominator == 1 else float(end)
        return kind(this=wrap(operand.copy()), expression=constant_tree(value))

    tests = [*(compare(before, end) for end in ends), compare(beyond, ends[-1])]
    tree = case(*((test, as_bigint(exp.Literal.number(at))) for at, test in enumerate(tests)))
    return Checked(limit_size(tree, node), Type.INTEGER)
