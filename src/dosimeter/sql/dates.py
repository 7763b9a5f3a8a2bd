"""Dates and timestamps of a row: parts, truncation, intervals, differences, and their text. One small function each.

Every function means what it means in DuckDB. Results outside the years 1 to 9999 are NULL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import cast

from sqlglot import exp

from dosimeter.sql.checking import align_types, cast_moment, check_expression, check_moment, check_number
from dosimeter.sql.literals import constant_moment, constant_tree, read_text, read_whole
from dosimeter.sql.safe_arithmetic import UnitNumber, extract, mark_done, mark_safe
from dosimeter.sql.trees import as_bigint, as_text, case, concatenated, is_not_null, wrap
from dosimeter.sql.types import Checked, Scope, Type, clause_of, expect_only, limit_size, refusal

# The parts of a date, and the values that each can have; the years depend on the bounds.
PART_VALUES: dict[str, tuple[int, int] | None] = {
    "YEAR": None,
    "ISOYEAR": None,
    "QUARTER": (1, 4),
    "MONTH": (1, 12),
    "WEEK": (1, 53),
    "DAY": (1, 31),
    "DOY": (1, 366),
    "DOW": (0, 6),
    "ISODOW": (1, 7),
    "HOUR": (0, 23),
    "MINUTE": (0, 59),
    "SECOND": (0, 59),
}
OF_A_CLOCK = ("HOUR", "MINUTE", "SECOND")
PART_NAMES = {
    **{name: name for name in PART_VALUES},
    **{f"{name}S": name for name in PART_VALUES},
    "DAYOFWEEK": "DOW",
    "WEEKDAY": "DOW",
    "DAYOFYEAR": "DOY",
    "DAYOFMONTH": "DAY",
    "WEEKOFYEAR": "WEEK",
}
PART_NODES: dict[type[exp.Expression], str] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.Week: "WEEK",
    exp.WeekOfYear: "WEEK",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.DayOfYear: "DOY",
    exp.DayOfWeek: "DOW",
    exp.DayOfWeekIso: "ISODOW",
    exp.Hour: "HOUR",
    exp.Minute: "MINUTE",
    exp.Second: "SECOND",
}
TRUNCATIONS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", *OF_A_CLOCK)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_LAST_MONTH = 9999 * 12 + 11


# ---------------------------------------------------------------- parts and truncation


def check_extract(node: exp.Expression, scope: Scope) -> Checked:
    """Check EXTRACT(part FROM x)."""
    expect_only(node, "this", "expression")
    return _part(node, str(node.this.name), node.expression, scope)


def check_part(node: exp.Expression, scope: Scope) -> Checked:
    """Check YEAR(x), MONTH(x) …"""
    expect_only(node, "this")
    return _part(node, PART_NODES[type(node)], node.this, scope)


def check_named_part(node: exp.Expression, scope: Scope) -> Checked:
    """Check DATE_PART('year', x)."""
    if len(node.expressions) != 2:
        raise refusal(node, f"{clause_of(node)} takes a part and a date: DATE_PART('year', born).")
    return _part(node, str(node.expressions[0].name), node.expressions[1], scope)


def check_part_of_one(node: exp.Expression, scope: Scope) -> Checked:
    """Check WEEKDAY(x) and ISOYEAR(x), for which the parser has no class of its own."""
    if len(node.expressions) != 1:
        raise refusal(node, f"{clause_of(node)} takes one date.")
    return _part(node, node.name, node.expressions[0], scope)


def _part(node: exp.Expression, name: str, subject_node: exp.Expression, scope: Scope) -> Checked:
    subject = check_moment(subject_node, scope, node)
    part = PART_NAMES.get(name.upper())
    if part is None:
        raise refusal(node, f"{clause_of(node)}: supported date parts are {', '.join(PART_VALUES)}.")
    if part in OF_A_CLOCK and subject.type is Type.DATE:
        raise refusal(node, f"{clause_of(node)}: a date has no {part.lower()}.")
    return Checked(extract(part, subject.tree), Type.INTEGER)


def check_truncation(node: exp.Expression, scope: Scope) -> Checked:
    """Check DATE_TRUNC. The result is a date if it truncates to days or longer, a timestamp if to hours or shorter."""
    expect_only(node, "this", "unit", "input_type_preserved")
    subject = check_expression(node.this, scope)
    unit = str(node.args["unit"].name).upper()
    if subject.type not in (Type.DATE, Type.TIMESTAMP) or unit not in TRUNCATIONS:
        raise refusal(node, f"{clause_of(node)}: DATE_TRUNC takes {', '.join(TRUNCATIONS).lower()} and a date column.")
    if unit in OF_A_CLOCK and subject.type is Type.DATE:
        raise refusal(node, f"{clause_of(node)}: a date has no {unit.lower()}.")
    kind = Type.TIMESTAMP if unit in OF_A_CLOCK else Type.DATE
    return cast_moment(exp.TimestampTrunc(this=subject.tree, unit=exp.Var(this=unit)), kind)


def check_day(node: exp.Expression, scope: Scope) -> Checked:
    """Check DATE(x): the date of a timestamp."""
    expect_only(node, "this")
    return cast_moment(check_moment(node.this, scope, node).tree, Type.DATE)


def check_last_day(node: exp.Expression, scope: Scope) -> Checked:
    """Check LAST_DAY(x): the last date of the month."""
    expect_only(node, "this")
    subject = check_moment(node.this, scope, node)
    first = cast_moment(exp.TimestampTrunc(this=subject.tree, unit=exp.Var(this="MONTH")), Type.DATE)
    before_next = add_days(_add_months(first, 1, node), -1, node)
    last = exp.GTE(this=first.tree.copy(), expression=constant_tree(date(9999, 12, 1)))
    return Checked(case((last, constant_tree(date(9999, 12, 31))), default=before_next.tree), Type.DATE)


def check_made_date(node: exp.Expression, scope: Scope) -> Checked:
    """Check MAKE_DATE(year, month, day), which is NULL where there is no such date."""
    expect_only(node, "year", "month", "day")
    parts = [check_number(node.args[name], scope, node) for name in ("year", "month", "day")]
    plain = (exp.Column, exp.Identifier, exp.Literal, exp.Cast, exp.DataType, exp.Extract, exp.Var)
    if any(part.type is not Type.INTEGER or any(not isinstance(n, plain) for n in part.tree.walk()) for part in parts):
        raise refusal(node, f"{clause_of(node)}: MAKE_DATE takes whole numbers, each a column, a part or a literal.")
    year, month, day = (part.tree for part in parts)

    def is_one_of(tree: exp.Expression, *values: int) -> exp.Expression:
        return exp.In(this=wrap(tree.copy()), expressions=[exp.Literal.number(value) for value in values])

    def between(tree: exp.Expression, low: int, high: int) -> exp.Expression:
        ends = {"low": exp.Literal.number(low), "high": exp.Literal.number(high)}
        return exp.Between(this=wrap(tree.copy()), **ends)

    def divides(number: int) -> exp.Expression:
        return is_one_of(exp.Mod(this=wrap(year.copy()), expression=exp.Literal.number(number)), 0)

    leap = exp.And(
        this=divides(4), expression=exp.Paren(this=exp.Or(this=exp.Not(this=divides(100)), expression=divides(400)))
    )
    days = case(
        (is_one_of(month, 4, 6, 9, 11), exp.Literal.number(30)),
        (exp.EQ(this=wrap(month.copy()), expression=exp.Literal.number(2)), exp.Paren(this=case(
            (mark_safe(leap), exp.Literal.number(29)), default=exp.Literal.number(28)))),
        default=exp.Literal.number(31),
    )  # fmt: skip
    in_month = exp.Between(this=wrap(day.copy()), low=exp.Literal.number(1), high=exp.Paren(this=days))
    exists = mark_safe(exp.And(this=exp.And(this=between(year, 1, 9999), expression=between(month, 1, 12)),
                             expression=in_month))  # fmt: skip
    parts_of_int = [exp.Cast(this=tree.copy(), to=exp.DataType.build("INT")) for tree in (year, month, day)]
    made = exp.Anonymous(this="MAKE_DATE", expressions=parts_of_int)
    return Checked(limit_size(case((exists, made)), node), Type.DATE)


# ---------------------------------------------------------------- intervals

_UNITS = {"YEAR": ("MONTH", 12), "QUARTER": ("MONTH", 3), "MONTH": ("MONTH", 1), "WEEK": ("DAY", 7), "DAY": ("DAY", 1),
          "HOUR": ("SECOND", 3600), "MINUTE": ("SECOND", 60), "SECOND": ("SECOND", 1)}  # fmt: skip
_INTERVAL = "Write it with a whole number: INTERVAL '30' DAY."
_A_DAY = 24 * 60 * 60  # seconds
_MIRRORED: dict[type[exp.Expr], type[exp.Expression]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}


def is_interval(node: exp.Expression) -> bool:
    """Return whether a node is an interval, such as INTERVAL 30 DAY or '30 days'::INTERVAL, also in parentheses."""
    bare = node.unnest()
    return isinstance(bare, exp.Interval) or (isinstance(bare, exp.Cast) and bare.to.this is exp.DataType.Type.INTERVAL)


def _read_interval(node: exp.Expression, parent: exp.Expression) -> dict[str, int]:
    """Return what an interval adds, by unit: two weeks are {"MONTH": 0, "DAY": 14, "SECOND": 0}.

    Refuse an interval that is not written out in whole numbers. ``parent``: the expression that the interval is
    part of, which a refusal names.
    """
    interval = cast(exp.Expression, node.unnest())
    expect_only(interval, "this", "to" if isinstance(interval, exp.Cast) else "unit")
    unit = interval.args.get("unit")
    text = read_text(interval.this) if unit is None else None
    parts = [(read_whole(interval.this), "" if unit is None else str(unit.name))]
    if text is not None:
        found = re.findall(r"([+-]?\d{1,9})\s*([a-zA-Z]+)", text, re.ASCII)
        joined = re.sub(r"[\s,]", "", text) == "".join(number + name for number, name in found)
        parts = [(int(number), name) for number, name in found] if joined else []
    total = {"MONTH": 0, "DAY": 0, "SECOND": 0}
    for number, name in parts:
        known = _UNITS.get(name.upper().removesuffix("S"))
        if number is None or known is None or abs(number) > 10**12:
            raise refusal(parent, f"{clause_of(node)} is not an interval that engines agree about. {_INTERVAL}")
        total[known[0]] += number * known[1]
    if not parts:
        raise refusal(parent, f"{clause_of(node)} is not an interval that engines agree about. {_INTERVAL}")
    return total


def shift_moment(
    subject_node: exp.Expression, interval: exp.Expression, sign: int, scope: Scope, parent: exp.Expression
) -> Checked:
    """Check a date or timestamp plus an interval: months are added first, then days, then seconds.

    ``sign``: 1 to add the interval, −1 to subtract it.
    """
    text = read_text(subject_node)
    if text is not None:
        raise refusal(parent, f"{clause_of(parent)}: write DATE '{text[:10]}' or TIMESTAMP '{text[:40]}'.")
    subject = check_moment(subject_node, scope, parent)
    amounts = {unit: sign * number for unit, number in _read_interval(interval, parent).items()}
    shifted = _add_months(subject, amounts["MONTH"], parent)
    shifted = add_days(shifted, amounts["DAY"], parent)
    return _add_seconds(shifted, amounts["SECOND"], parent)


def check_shift(node: exp.Expression, scope: Scope) -> Checked:
    """Check DATE_ADD(x, INTERVAL …), and DATE_ADD(x, n) of a date and a whole number of days."""
    expect_only(node, "this", "expression")
    step = node.expression
    if isinstance(step, exp.Expression) and is_interval(step):
        return shift_moment(node.this, step, 1, scope, node)
    days = read_whole(step)
    subject = check_moment(node.this, scope, node)
    if days is None or subject.type is not Type.DATE:
        raise refusal(node, f"{clause_of(node)}: write x + INTERVAL '30' DAY.")
    return add_days(subject, days, node)


def _add_months(subject: Checked, months: int, node: exp.Expression) -> Checked:
    if months == 0:
        return subject
    edge = (_LAST_MONTH - months) if months > 0 else 12 - months  # the last or first month that may be shifted
    if not 12 <= edge <= _LAST_MONTH:
        raise _always_null(node)
    year, month = divmod(edge, 12)
    first = date(year, month + 1, 1)
    if months < 0:
        limit: date = first
    else:
        limit = date(9999, 12, 31) if edge == _LAST_MONTH else _next_month(first) - timedelta(days=1)
    return _shift(subject, months, "MONTH", limit, node)


def _next_month(first: date) -> date:
    return (first.replace(day=28) + timedelta(days=4)).replace(day=1)


def add_days(subject: Checked, days: int, node: exp.Expression) -> Checked:
    """Return SQL for the date or timestamp ``days`` days after ``subject``; NULL outside the years 1 to 9999.

    Refuse a number of days that would move every date out of these years.
    """
    if days == 0:
        return subject
    ends = (date(1, 1, 1), date(9999, 12, 31))
    if abs(days) > (ends[1] - ends[0]).days:
        raise _always_null(node)
    return _shift(subject, days, "DAY", (ends[1] if days > 0 else ends[0]) - timedelta(days=days), node)


def _add_seconds(subject: Checked, seconds: int, node: exp.Expression) -> Checked:
    if seconds == 0:
        return subject
    ends = (datetime.combine(date.min, time.min), datetime.combine(date.max, time.max))
    if abs(seconds) >= (ends[1] - ends[0]).total_seconds():
        raise _always_null(node)
    moment = cast_moment(subject.tree, Type.TIMESTAMP) if subject.type is Type.DATE else subject
    limit = (ends[1] if seconds > 0 else ends[0]) - timedelta(seconds=seconds)
    return _shift(moment, seconds, "SECOND", limit, node)


def _always_null(node: exp.Expression) -> Exception:
    return refusal(node, f"{clause_of(node)} lies outside the years 1 to 9999 for every date.")


def _shift(subject: Checked, amount: int, unit: str, limit: date, node: exp.Expression) -> Checked:
    """Return SQL for ``subject`` plus ``amount`` months, days or seconds; NULL outside the years 1 to 9999.

    Refuse a constant date that would leave these years. ``unit``: MONTH, DAY or SECOND. ``limit``: the last date that
    can be moved forwards by ``amount`` or, for a negative ``amount``, the first that can be moved backwards.
    """
    constant = constant_moment(subject.tree)
    if constant is not None:
        return Checked(constant_tree(_shift_constant(constant, amount, unit, node)), subject.type)
    if subject.type is Type.TIMESTAMP and not isinstance(limit, datetime):
        limit = datetime.combine(limit, time.max if amount > 0 else time.min)
    inside = (exp.LTE if amount > 0 else exp.GTE)(this=wrap(subject.tree.copy()), expression=constant_tree(limit))
    step = exp.Interval(this=exp.Literal.string(str(abs(amount))), unit=exp.Var(this=unit))
    moved = (exp.Add if amount > 0 else exp.Sub)(this=wrap(subject.tree.copy()), expression=step)
    mark_done(moved)
    return Checked(limit_size(case((inside, cast_moment(moved, subject.type).tree)), node), subject.type)


def _shift_constant(moment: date, amount: int, unit: str, node: exp.Expression) -> date:
    try:
        if unit != "MONTH":
            return moment + (timedelta(days=amount) if unit == "DAY" else timedelta(seconds=amount))
        year, month = divmod(moment.year * 12 + moment.month - 1 + amount, 12)
        first = date(year, month + 1, 1)
        last = 31 if (year, month) == (9999, 11) else (_next_month(first) - timedelta(days=1)).day
        return moment.replace(year=year, month=month + 1, day=min(moment.day, last))
    except (OverflowError, ValueError):
        raise _always_null(node) from None


# ---------------------------------------------------------------- differences


def check_difference(node: exp.Expression, scope: Scope) -> Checked:
    """Check DATE_DIFF('month', start, end): how many times a new month, day, hour … begins between start and end.

    For weeks it is the number of days divided by 7, rounded towards 0.
    """
    expect_only(node, "this", "expression", "unit")
    unit = PART_NAMES.get(str(node.args["unit"].name).upper() if node.args.get("unit") is not None else "DAY", "")
    if unit not in TRUNCATIONS:
        raise refusal(node, f"{clause_of(node)}: DATE_DIFF counts {', '.join(TRUNCATIONS).lower()}.")
    end, start = (check_moment(part, scope, node) for part in (node.this, node.expression))
    if unit in OF_A_CLOCK:
        end, start = (
            cast_moment(part.tree, Type.TIMESTAMP) if part.type is Type.DATE else part for part in (end, start)
        )
    return Checked(_difference(end, start, unit), Type.INTEGER)


def _difference(end: Checked, start: Checked, unit: str) -> exp.Expression:
    counted = exp.Var(this="DAY" if unit == "WEEK" else unit)
    numbers = [UnitNumber(this=part.tree, unit=counted.copy()) for part in (end, start)]
    tree: exp.Expression = exp.Sub(this=numbers[0], expression=numbers[1])
    return exp.IntDiv(this=exp.Paren(this=tree), expression=exp.Literal.number(7)) if unit == "WEEK" else tree


def days_between(end: Checked, start: Checked, node: exp.Expression) -> Checked:
    """Check date − date: the number of days from start to end. Refuse timestamps."""
    if Type.TIMESTAMP in (end.type, start.type):
        raise refusal(
            node,
            f"{clause_of(node)} is an interval. Write DATE_DIFF('hour', start, end) for a number of hours, or days, or "
            "compare it: end - start < INTERVAL '30' DAY.",
        )
    return Checked(_difference(end, start, "DAY"), Type.INTEGER)


def compare_difference(node: exp.Expression, scope: Scope) -> Checked:
    """Check a comparison of end − start with an interval of days, hours …, on either side of it.

    It is written as a comparison of end with start plus the interval, which every engine computes exactly. Where that
    sum lies outside the years 1 to 9999, so that no date or timestamp reaches it, the comparison is decided by the sign
    of the interval. Refuse months and years, which are no fixed number of days.
    """
    mirrored = is_interval(node.this)
    compare: type[exp.Expression] = _MIRRORED[type(node)] if mirrored else type(node)
    interval, between = (node.this, node.expression) if mirrored else (node.expression, node.this)
    difference = between.unnest()
    if not isinstance(difference, exp.Sub) or is_interval(difference.expression):
        raise refusal(
            node,
            f"{clause_of(node)}: an interval is compared with the time between two dates or timestamps: end - start < "
            "INTERVAL '30' DAY.",
        )
    amounts = _read_interval(interval, node)
    if amounts["MONTH"]:
        later = exp.Add(this=difference.expression.copy(), expression=interval.copy())
        form = clause_of(compare(this=difference.this.copy(), expression=later))
        raise refusal(node, f"{clause_of(node)}: months differ in length. Write {form}, or an interval of days.")
    seconds = amounts["DAY"] * _A_DAY + amounts["SECOND"]
    end, start = (check_moment(part, scope, node) for part in (difference.this, difference.expression))
    days, rest = divmod(seconds, _A_DAY)
    moved = _add_seconds(start, seconds, node) if rest else add_days(start, days, node)
    parts = [(difference.this, end), (difference.expression, moved)]
    left, right = align_types(parts, parent=node)
    tree: exp.Expression = compare(this=wrap(left.tree), expression=wrap(right.tree))
    if moved is not start and constant_moment(moved.tree) is None:
        beyond = exp.Boolean(
            this=compare in ((exp.LT, exp.LTE, exp.NEQ) if seconds > 0 else (exp.GT, exp.GTE, exp.NEQ))
        )
        known = exp.And(this=is_not_null(end.tree.copy()), expression=is_not_null(start.tree.copy()))
        tree = exp.Coalesce(this=wrap(tree), expressions=[case((known, beyond))])
    return Checked(limit_size(tree, node), Type.BOOLEAN)


# ---------------------------------------------------------------- written dates

_LONGEST_PATTERN = 100  # letters: the date is written out for each code
# strftime's codes that DuckDB knows, with the parts that they are made of: part, digits, added.
_NUMBER_CODES = {
    "Y": ("YEAR", 4), "G": ("ISOYEAR", 4), "m": ("MONTH", 2), "d": ("DAY", 2), "H": ("HOUR", 2), "M": ("MINUTE", 2),
    "S": ("SECOND", 2), "j": ("DOY", 3), "V": ("WEEK", 2), "u": ("ISODOW", 1), "w": ("DOW", 1),
}  # fmt: skip
_NAME_CODES: dict[str, tuple[str, Sequence[str]]] = {
    "A": ("ISODOW", _DAYS),
    "a": ("ISODOW", [name[:3] for name in _DAYS]),
    "B": ("MONTH", _MONTHS),
    "b": ("MONTH", [name[:3] for name in _MONTHS]),
}
# to_char's patterns, longest first: each means a code of strftime.
_PATTERNS = {
    "YYYY": "%Y", "IYYY": "%G", "HH24": "%H", "DDD": "%j", "Mon": "%b", "MM": "%m", "DD": "%d", "MI": "%M", "SS": "%S",
    "IW": "%V", "ID": "%u", "Dy": "%a", "Q": "%Q",
}  # fmt: skip


def check_written(node: exp.Expression, scope: Scope) -> Checked:
    """Check STRFTIME(x, '%Y-%m'), also with its arguments the other way round, as DuckDB allows."""
    expect_only(node, "this", "format")
    subject, pattern = node.this, read_text(node.args.get("format"))
    if pattern is None and read_text(subject) is not None:
        subject, pattern = node.args["format"], read_text(subject)
    if pattern is None:
        raise refusal(node, f"{clause_of(node)}: STRFTIME takes a written-out pattern, such as '%Y-%m'.")
    return Checked(_write(check_moment(subject, scope, node), pattern, node), Type.TEXT)


def check_to_char(node: exp.Expression, scope: Scope) -> Checked:
    """Check TO_CHAR(x, 'YYYY-MM') with PostgreSQL's patterns."""
    if isinstance(node, exp.ToChar):
        node = name_to_char(node)
    pattern = read_text(node.expressions[1] if len(node.expressions) == 2 else None)
    found = [] if pattern is None else re.findall(f'({"|".join(_PATTERNS)})|([^A-Za-z"%])', pattern)
    if pattern is None or "".join(code + other for code, other in found) != pattern:
        raise refusal(node, f"{clause_of(node)}: TO_CHAR takes a pattern of {', '.join(_PATTERNS)} and punctuation.")
    codes = "".join(_PATTERNS.get(code, other) for code, other in found)
    return Checked(_write(check_moment(node.expressions[0], scope, node), codes, node), Type.TEXT)


def name_to_char(node: exp.Expression) -> exp.Expression:
    """Return a TO_CHAR node as ``exp.Anonymous``, a function that has a name and no class; any other node unchanged.

    The parser's own class for TO_CHAR would lose the pattern when written as DuckDB's SQL.
    """
    if not isinstance(node, exp.ToChar):
        return node
    expect_only(node, "this", "format", "is_numeric")
    pattern = node.args.get("format")
    return exp.Anonymous(this="TO_CHAR", expressions=[node.this, *([pattern] if pattern is not None else [])])


def write_day(subject: Checked, node: exp.Expression) -> exp.Expression:
    """Return SQL that gives a date as a text such as 2024-12-31."""
    return _write(subject, "%Y-%m-%d", node)


def _write(subject: Checked, pattern: str, node: exp.Expression) -> exp.Expression:
    if not 0 < len(pattern) <= _LONGEST_PATTERN:
        raise refusal(node, f"{clause_of(node)}: a pattern has 1 to {_LONGEST_PATTERN} letters.")
    codes = re.findall(r"%(-?.|$)|([^%]+)", pattern, re.DOTALL)
    limit_size(subject.tree, node, sum(len(_NAME_CODES[code][1]) if code in _NAME_CODES else 1 for code, _ in codes))
    parts = [exp.Literal.string(other) if other else _write_code(code, subject, node) for code, other in codes]
    tree = concatenated(*parts)
    return limit_size(exp.Paren(this=tree) if len(parts) > 1 else tree, node)


def _write_code(code: str, subject: Checked, node: exp.Expression) -> exp.Expression:
    bare = code.removeprefix("-")
    if code == "%":
        return exp.Literal.string("%")
    if code in _NAME_CODES:
        return _name(subject, *_NAME_CODES[code])
    part, digits = ("QUARTER", 1) if code == "Q" else _NUMBER_CODES.get(bare, ("", 0))
    if not part or (bare != code and digits != 2) or (part in OF_A_CLOCK and subject.type is Type.DATE):
        known = ", ".join(f"%{each}" for each in (*_NUMBER_CODES, *_NAME_CODES))
        hint = " A date has no clock." if part in OF_A_CLOCK else ""
        raise refusal(node, f"{clause_of(node)}: supported in a pattern are {known}.{hint}")
    number = as_text(extract(part, subject.tree.copy()))
    if digits == 1 or bare != code:
        return number
    width = exp.Literal.number(digits)
    return exp.Anonymous(this="LPAD", expressions=[number, width, exp.Literal.string("0")])


def _name(subject: Checked, part: str, names: Sequence[str]) -> exp.Expression:
    number = extract(part, subject.tree.copy())
    return case(
        *(
            (exp.EQ(this=number.copy(), expression=as_bigint(exp.Literal.number(at + 1))), exp.Literal.string(name))
            for at, name in enumerate(names)
        )
    )


def check_day_name(node: exp.Expression, scope: Scope) -> Checked:
    """Check DAYNAME(x) and MONTHNAME(x)."""
    expect_only(node, "this")
    code = "A" if isinstance(node, exp.Dayname) else "B"
    return Checked(_write(check_moment(node.this, scope, node), f"%{code}", node), Type.TEXT)
