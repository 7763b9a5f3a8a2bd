"""Check row-wise SQL expressions against the schema and rebuild them.

Takes a parsed sqlglot node and a Scope; gives a rebuilt tree with its type, or a QueryError that names the clause.
Nothing of the analyst's tree survives: every node is rebuilt from an allow-list of (class, argument) pairs, every
name is resolved, and what engines do differently (division by zero, date_trunc's type) is written so that all of
them agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dosimeter.errors import QueryError
from dosimeter.problems import Piece
from dosimeter.schema import Column, ColumnType, Schema
from dosimeter.sql.safe_arithmetic import make_total


class Type(StrEnum):
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    NULL = "null"


COLUMN_TYPES = {
    ColumnType.INTEGER: Type.INTEGER,
    ColumnType.DECIMAL: Type.NUMBER,
    ColumnType.CATEGORY: Type.TEXT,
    ColumnType.TEXT: Type.TEXT,
    ColumnType.BOOLEAN: Type.BOOLEAN,
    ColumnType.DATE: Type.DATE,
    ColumnType.TIMESTAMP: Type.TIMESTAMP,
}
NUMERIC = frozenset({Type.INTEGER, Type.NUMBER})
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
DATE_PARTS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "ISODOW")
DATE_PART_NODES: dict[type[exp.Expression], str] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.Day: "DAY",
    exp.Hour: "HOUR",
    exp.DayOfWeekIso: "ISODOW",
}
TRUNCATIONS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY")
# Arguments that the parser sets and that mean nothing by themselves.
PARSER_MARKS = frozenset({"typed", "safe", "big_int", "ignore_nulls", "_type"})
MAX_NODES = 10_000
_QUOTES = "Text goes in single quotes: '{}'."
_NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_SMALLEST, _LARGEST = Decimal("1e-300"), Decimal("1e300")


@dataclass(frozen=True, slots=True)
class Scope:
    """The meaning of names in a query: the table, the aliases it may have, and its columns."""

    schema: Schema
    names: frozenset[str]

    def resolve(self, node: exp.Column) -> Column:
        expect_only(node, "this", "table")
        if node.table and node.table.lower() not in self.names:
            raise refusal(node, f"Unknown table {node.table}. The query's table is {self.schema.table}.")
        for name, column in self.schema.columns.items():
            if name.lower() == node.name.lower():
                return column
        known = f"There is no column {node.name}. Known columns: {_listing(self.schema.columns)}."
        raise refusal(node, f"{known} {_QUOTES.format(node.name)}" if self._looks_like_text(node) else known)

    def _looks_like_text(self, node: exp.Column) -> bool:
        """Return whether an unknown name stands where a text is expected: on the right of a text column."""
        parent = node.parent
        if node.table or node.arg_key not in ("expression", "expressions"):
            return False
        if not isinstance(parent, (*COMPARISONS, exp.In, exp.Like)) or not isinstance(parent.this, exp.Column):
            return False
        beside = parent.this.name.lower()
        return any(
            name.lower() == beside and COLUMN_TYPES[column.type] is Type.TEXT
            for name, column in self.schema.columns.items()
        )


@dataclass(frozen=True, slots=True)
class Checked:
    """A rebuilt tree and the type of its value."""

    tree: exp.Expression
    type: Type


def _listing(names: Iterable[str]) -> str:
    ordered = list(names)
    return ", ".join(ordered[:20]) + (" …" if len(ordered) > 20 else "")


def refusal(node: exp.Expression, *pieces: Piece) -> QueryError:
    """Return the error that refuses this part of the SQL."""
    return QueryError(*pieces, clause=clause_of(node))


def clause_of(node: exp.Expression) -> str:
    """Return the node as SQL text, for messages and underlining. It is the analyst's own text, never data."""
    try:
        text = node.sql(dialect="duckdb")
    except (SqlglotError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return type(node).__name__  # a half-parsed tree can fail to print in many ways
    return text if len(text) <= 200 else text[:197] + "…"


def expect_only(node: exp.Expression, *allowed: str) -> None:
    """Refuse any argument of the node that is set and not on the list."""
    for name, value in node.args.items():
        if name in allowed or name in PARSER_MARKS or value is None or value is False or value == []:
            continue
        raise refusal(node, f"{clause_of(node)} uses an option that is not supported ({name}). Leave it out.")


def note_unlisted(trees: Iterable[exp.Expression | None], schema: Schema) -> tuple[str, ...]:
    """Return a sentence for each text that is compared with a category column and is not among its declared values.

    Takes rebuilt trees. Depends on SQL and schema only.
    """
    notes: dict[str, None] = {}
    for tree in trees:
        for node in tree.find_all(exp.EQ, exp.NEQ, exp.In) if tree is not None else ():
            sides = [node.this, *(node.expressions if isinstance(node, exp.In) else [node.expression])]
            for name in (side.name for side in sides if isinstance(side, exp.Column)):
                values = schema.columns[name].values if name in schema.columns else None
                texts = [side.this for side in sides if isinstance(side, exp.Literal) and side.is_string]
                notes |= dict.fromkeys(_unlisted(name, text, values) for text in texts if values and text not in values)
    return tuple(notes)


def _unlisted(name: str, text: str, values: Sequence[str]) -> str:
    near = get_close_matches(text.strip().lower(), [value.lower() for value in values], 1, 0.7)
    meant = f" Is '{next(value for value in values if value.lower() == near[0])}' meant?" if near else ""
    return f"'{text}' is not among the declared values of {name}.{meant}"


def column_tree(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def wrap(tree: exp.Expression) -> exp.Expression:
    """Parenthesise a tree that could bind differently inside another expression."""
    if isinstance(tree, (exp.Binary, exp.Connector, exp.Not, exp.Neg, exp.Between, exp.In, exp.Is)):
        return exp.Paren(this=tree)
    return tree


def is_infinite(value: exp.Expression) -> exp.Expression:
    """Write the test whether a number is infinite or NaN, which counts as the largest number on every engine."""
    number, largest = as_double(value.copy()), as_double(exp.Literal.number("1.7976931348623157e308"))
    over = exp.GT(this=number, expression=largest)
    return exp.Or(this=over, expression=exp.LT(this=number.copy(), expression=exp.Neg(this=largest.copy())))


def as_double(tree: exp.Expression) -> exp.Expression:
    return exp.Cast(this=tree, to=exp.DataType.build("DOUBLE"))


def as_bigint(tree: exp.Expression) -> exp.Expression:
    return exp.Cast(this=tree, to=exp.DataType.build("BIGINT"))


def conjunction(trees: Iterable[exp.Expression]) -> exp.Expression | None:
    """Connect the trees by AND; None where there are none."""
    listed = list(trees)
    return connect(listed, exp.And) if listed else None


def connect(trees: Sequence[exp.Expression], connector: type[exp.And] | type[exp.Or]) -> exp.Expression:
    """Connect at least one tree in balance, so that a long list of conditions does not become a deep tree."""
    if len(trees) <= 1:
        return trees[0]
    middle = (len(trees) + 1) // 2
    left, right = connect(trees[:middle], connector), connect(trees[middle:], connector)
    return connector(this=wrap(left), expression=wrap(right))


def check_condition(node: exp.Expression, scope: Scope) -> exp.Expression:
    """Check and rebuild a WHERE, FILTER or CASE condition."""
    checked = check_expression(node, scope)
    if checked.type not in (Type.BOOLEAN, Type.NULL):
        raise refusal(node, f"{clause_of(node)} is not a condition. Compare it with something.")
    return make_total(checked.tree, scope.schema)


def check_expression(node: exp.Expression, scope: Scope) -> Checked:
    """Rebuild one row-wise expression, or refuse it and say why."""
    match node:
        case exp.Paren():
            expect_only(node, "this")
            inner = check_expression(node.this, scope)
            return Checked(wrap(inner.tree), inner.type)
        case exp.Column():
            column = scope.resolve(node)
            return Checked(column_tree(column.name), COLUMN_TYPES[column.type])
        case exp.Literal():
            return _check_literal(node)
        case exp.Boolean():
            return Checked(exp.Boolean(this=bool(node.this)), Type.BOOLEAN)
        case exp.Null():
            return Checked(exp.Null(), Type.NULL)
        case exp.Neg():
            expect_only(node, "this")
            operand = _check_number(node.this, scope, node)
            return Checked(exp.Neg(this=wrap(operand.tree)), operand.type)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.IntDiv() | exp.Mod():
            return _check_arithmetic(node, scope)
        case exp.Abs() | exp.Floor() | exp.Ceil():
            expect_only(node, "this")
            operand = _check_number(node.this, scope, node)
            kind = operand.type if isinstance(node, exp.Abs) else Type.NUMBER
            return Checked(type(node)(this=operand.tree), kind)
        case exp.And() | exp.Or():
            conditions = [check_condition(part, scope) for part in flatten_connector(node)]
            return Checked(connect(conditions, type(node)), Type.BOOLEAN)
        case exp.Not():
            expect_only(node, "this")
            return Checked(exp.Not(this=wrap(check_condition(node.this, scope))), Type.BOOLEAN)
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _check_comparison(node, scope)
        case exp.Between():
            return _check_between(node, scope)
        case exp.In():
            return _check_membership(node, scope)
        case exp.Is():
            expect_only(node, "this", "expression")
            subject = check_expression(node.this, scope)
            if isinstance(node.expression, exp.Null):
                return Checked(exp.Is(this=wrap(subject.tree), expression=exp.Null()), Type.BOOLEAN)
            raise refusal(node, f"{clause_of(node)}: only IS NULL and IS NOT NULL are supported.")
        case exp.Like():
            return _check_like(node, scope)
        case exp.Case():
            return _check_case(node, scope)
        case exp.If():
            expect_only(node, "this", "true", "false")
            branch = exp.If(this=node.this, true=node.args["true"])
            return _check_case(exp.Case(ifs=[branch], default=node.args.get("false")), scope)
        case exp.Coalesce():
            expect_only(node, "this", "expressions")
            parts = [check_expression(part, scope) for part in (node.this, *node.expressions)]
            kind = _common_type(parts, node)
            return Checked(exp.Coalesce(this=parts[0].tree, expressions=[part.tree for part in parts[1:]]), kind)
        case exp.Cast() | exp.TryCast():
            return _check_cast(node)
        case exp.Extract():
            expect_only(node, "this", "expression")
            return _check_date_part(node, str(node.this.name).upper(), node.expression, scope)
        case exp.Year() | exp.Quarter() | exp.Month() | exp.Day() | exp.Hour() | exp.DayOfWeekIso():
            expect_only(node, "this")
            return _check_date_part(node, DATE_PART_NODES[type(node)], node.this, scope)
        case exp.TimestampTrunc() | exp.DateTrunc():
            return _check_truncation(node, scope)
        case exp.Anonymous() if node.name.lower() in ("date_part", "datepart") and len(node.expressions) == 2:
            part, subject_node = node.expressions
            return _check_date_part(node, str(part.name).upper(), subject_node, scope)
        case exp.Subquery() | exp.Select() | exp.Exists() | exp.SetOperation():
            raise refusal(node, "Subqueries are not supported. Ask a plain SELECT … FROM table WHERE … GROUP BY ….")
        case exp.Window():
            raise refusal(
                node, "Window functions (OVER) are not supported here. Compute them for each individual in a subquery."
            )
        case exp.AggFunc():
            raise refusal(node, f"{clause_of(node)}: an aggregate cannot stand inside another expression here.")
        case _:
            raise refusal(node, f"{clause_of(node)} is not supported. {SUPPORTED}")


SUPPORTED = (
    "Supported: columns, numbers, 'text', + - * / // %, ABS, FLOOR, CEIL, CASE, COALESCE, comparisons, AND, OR, NOT, "
    "BETWEEN, IN (…), LIKE, IS NULL, EXTRACT of a date part, DATE_TRUNC, DATE '…'."
)


def flatten_connector(node: exp.Expression) -> list[exp.Expression]:
    """Return the parts of a AND b AND c as [a, b, c], however many there are."""
    parts: list[exp.Expression] = []
    pending = [node]
    while pending:
        part = pending.pop()
        if type(part) is type(node):
            expect_only(part, "this", "expression")
            pending.extend((part.expression, part.this))
        else:
            parts.append(part)
    return parts


def _check_literal(node: exp.Literal) -> Checked:
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
    return Checked(as_double(exp.Literal.number(repr(float(value)))), Type.NUMBER)


def read_number(node: exp.Literal) -> Decimal:
    """Return a number as the analyst wrote it. Overlong digits and exponents are refused, not computed with."""
    text = str(node.this)
    if len(text) > 320 or not _NUMBER.fullmatch(text):
        raise refusal(node, f"{text[:40]} is not a number this tool reads. Write it in decimal notation.")
    value = Decimal(text)
    if not value:
        return Decimal(0)
    if not _SMALLEST <= value <= _LARGEST:
        raise refusal(node, f"The number {text[:40]} is too {'large' if value > 1 else 'small'}.")
    return value


def _check_number(node: exp.Expression, scope: Scope, parent: exp.Expression) -> Checked:
    checked = check_expression(node, scope)
    if checked.type not in NUMERIC and checked.type is not Type.NULL:
        raise refusal(parent, f"{clause_of(parent)} needs numbers, and {clause_of(node)} is {checked.type}.")
    return checked


def _check_arithmetic(node: exp.Expression, scope: Scope) -> Checked:
    expect_only(node, "this", "expression")
    left = _check_number(node.this, scope, node)
    right = _check_number(node.expression, scope, node)
    integers = left.type is Type.INTEGER and right.type is Type.INTEGER
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
        kind = Type.INTEGER if integers else Type.NUMBER
        return Checked(type(node)(this=wrap(left.tree), expression=wrap(right.tree)), kind)
    # Engines disagree on x / 0, so a zero divisor gives NULL everywhere.
    divisor = exp.Nullif(this=as_double(right.tree), expression=as_double(exp.Literal.number(0)))
    if isinstance(node, exp.Div):
        return Checked(exp.Div(this=as_double(left.tree), expression=divisor, typed=False, safe=False), Type.NUMBER)
    if not integers:
        raise refusal(node, f"{clause_of(node)}: // and % take integers on both sides.")
    # Rounded towards 0, in doubles: whole numbers below 2^53 divide exactly, and nothing can overflow.
    quotient = exp.Div(this=as_double(left.tree), expression=divisor, typed=False, safe=False)
    zero = as_double(exp.Literal.number(0))
    whole = exp.Case(
        ifs=[exp.If(this=exp.LT(this=wrap(quotient), expression=zero), true=exp.Ceil(this=quotient.copy()))],
        default=exp.Floor(this=quotient.copy()),
    )
    if isinstance(node, exp.IntDiv):
        return Checked(_limited(whole, node), Type.INTEGER)
    multiple = exp.Mul(this=as_double(right.tree.copy()), expression=whole)
    return Checked(_limited(exp.Sub(this=as_double(left.tree.copy()), expression=multiple), node), Type.INTEGER)


def _limited(tree: exp.Expression, node: exp.Expression) -> exp.Expression:
    """Return the tree, or refuse it if it is too large: parts that are written out twice double at every nesting."""
    for count, _ in enumerate(tree.walk()):
        if count > MAX_NODES:
            raise refusal(node, f"{clause_of(node)} is nested too deeply.")
    return tree


def _check_comparison(node: exp.Expression, scope: Scope) -> Checked:
    expect_only(node, "this", "expression")
    for side in (node.this, node.expression):
        if isinstance(side.unnest(), COMPARISONS):
            raise refusal(
                node,
                f"{clause_of(node)} chains comparisons, which means something else in SQL. "
                "Write x BETWEEN low AND high, or join two comparisons with AND.",
            )
    left, right = align_types(
        [(side, check_expression(side, scope)) for side in (node.this, node.expression)], parent=node
    )
    return Checked(type(node)(this=wrap(left.tree), expression=wrap(right.tree)), Type.BOOLEAN)


def align_types(parts: Sequence[tuple[exp.Expression, Checked]], *, parent: exp.Expression) -> list[Checked]:
    """Bring what is compared to one type. A text literal beside a date is read as a date."""
    temporal = {checked.type for _, checked in parts} & {Type.DATE, Type.TIMESTAMP}
    if len(temporal) == 1:
        wanted = next(iter(temporal))
        aligned = [_read_as(checked, wanted, node) for node, checked in parts]
    else:
        aligned = [checked for _, checked in parts]
    _common_type(aligned, parent)
    return aligned


def _read_as(checked: Checked, wanted: Type, node: exp.Expression) -> Checked:
    if isinstance(checked.tree, exp.Literal) and checked.type is Type.TEXT:
        return _date_literal(str(checked.tree.this), wanted, node)
    return checked


def _date_literal(text: str, wanted: Type, node: exp.Expression) -> Checked:
    reader: Callable[[str], date] = date.fromisoformat if wanted is Type.DATE else datetime.fromisoformat
    try:
        moment = reader(text)
    except ValueError:
        form = "2024-12-31" if wanted is Type.DATE else "2024-12-31 23:59:59"
        raise refusal(node, f"{clause_of(node)} is not a {wanted}. Write it as '{form}'.") from None
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        raise refusal(node, f"{clause_of(node)}: timestamps are UTC. Leave the time zone out.")
    text = moment.isoformat(sep=" ") if isinstance(moment, datetime) else moment.isoformat()
    target = "DATE" if wanted is Type.DATE else "TIMESTAMP"
    return Checked(exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(target)), wanted)


def _common_type(parts: Iterable[Checked], parent: exp.Expression) -> Type:
    kinds = {part.type for part in parts} - {Type.NULL}
    if not kinds:
        return Type.NULL
    if kinds == {Type.INTEGER}:
        return Type.INTEGER
    if kinds <= NUMERIC:
        return Type.NUMBER
    if len(kinds) == 1:
        return kinds.pop()
    raise refusal(parent, f"{clause_of(parent)} mixes {' and '.join(sorted(kinds))}. Both sides need the same type.")


def _check_between(node: exp.Between, scope: Scope) -> Checked:
    expect_only(node, "this", "low", "high")
    nodes = [node.args[name] for name in ("this", "low", "high")]
    subject, low, high = align_types([(part, check_expression(part, scope)) for part in nodes], parent=node)
    tree = exp.Between(this=wrap(subject.tree), low=wrap(low.tree), high=wrap(high.tree))
    return Checked(tree, Type.BOOLEAN)


def _check_membership(node: exp.In, scope: Scope) -> Checked:
    if any(node.args.get(name) for name in ("query", "unnest", "field")):
        raise refusal(node, "IN (SELECT …) is not supported. List the values: IN ('a', 'b').")
    expect_only(node, "this", "expressions")
    if not node.expressions:
        raise refusal(node, f"{clause_of(node)}: IN needs a list of values.")
    nodes = [node.this, *node.expressions]
    subject, *members = align_types([(part, check_expression(part, scope)) for part in nodes], parent=node)
    return Checked(exp.In(this=wrap(subject.tree), expressions=[member.tree for member in members]), Type.BOOLEAN)


def _check_like(node: exp.Like, scope: Scope) -> Checked:
    expect_only(node, "this", "expression", "negate")
    subject = check_expression(node.this, scope)
    pattern = node.expression
    if subject.type is not Type.TEXT or not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise refusal(node, f"{clause_of(node)}: LIKE compares a text column with a pattern such as 'A%'.")
    if "\\" in pattern.this:
        raise refusal(node, f"{clause_of(node)}: a backslash in a LIKE pattern means different things in engines.")
    like = exp.Like(this=subject.tree, expression=exp.Literal.string(pattern.this))
    return Checked(exp.Not(this=wrap(like)) if node.args.get("negate") else like, Type.BOOLEAN)


def _check_case(node: exp.Case, scope: Scope) -> Checked:
    expect_only(node, "this", "ifs", "default")
    subject = node.args.get("this")
    conditions, results = [], []
    for branch in node.args.get("ifs") or []:
        test = exp.EQ(this=subject.copy(), expression=branch.this.copy()) if subject else branch.this
        conditions.append(check_condition(test, scope))
        results.append(check_expression(branch.args["true"], scope))
    default = node.args.get("default")
    tail = check_expression(default, scope) if default is not None else None
    kind = _common_type([*results, *([tail] if tail else [])], node)
    ifs = [exp.If(this=test, true=result.tree) for test, result in zip(conditions, results, strict=True)]
    return Checked(_limited(exp.Case(ifs=ifs, default=tail.tree if tail else None), node), kind)


_LITERAL_CASTS = {
    exp.DataType.Type.DATE: Type.DATE,
    exp.DataType.Type.TIMESTAMP: Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ: Type.TIMESTAMP,
}


def _check_cast(node: exp.Cast) -> Checked:
    expect_only(node, "this", "to")
    target = node.to.this
    literal = node.this
    wanted = _LITERAL_CASTS.get(target)
    if wanted and isinstance(literal, exp.Literal) and literal.is_string:
        return _date_literal(str(literal.this), wanted, node)
    raise refusal(
        node, f"{clause_of(node)}: casts differ between engines. Only DATE '…' and TIMESTAMP '…' are supported."
    )


def _check_date_part(node: exp.Expression, part: str, subject_node: exp.Expression, scope: Scope) -> Checked:
    subject = check_expression(subject_node, scope)
    if subject.type not in (Type.DATE, Type.TIMESTAMP):
        raise refusal(node, f"{clause_of(node)} needs a date or timestamp column.")
    if part not in DATE_PARTS:
        raise refusal(node, f"{clause_of(node)}: supported date parts are {', '.join(DATE_PARTS)}.")
    if part == "HOUR" and subject.type is Type.DATE:
        raise refusal(node, f"{clause_of(node)}: a date has no hour.")
    tree = exp.Extract(this=exp.Var(this=part), expression=subject.tree)
    return Checked(as_bigint(tree), Type.INTEGER)


def _check_truncation(node: exp.Expression, scope: Scope) -> Checked:
    expect_only(node, "this", "unit", "input_type_preserved")
    subject = check_expression(node.this, scope)
    unit = str(node.args["unit"].name).upper()
    if subject.type not in (Type.DATE, Type.TIMESTAMP) or unit not in TRUNCATIONS:
        raise refusal(node, f"{clause_of(node)}: DATE_TRUNC takes {', '.join(TRUNCATIONS).lower()} and a date column.")
    tree = exp.TimestampTrunc(this=subject.tree, unit=exp.Var(this=unit))
    return Checked(exp.Cast(this=tree, to=exp.DataType.build("DATE")), Type.DATE)
