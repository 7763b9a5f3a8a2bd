"""The tables of what a row-wise expression may hold: for each kind of node, the function that checks it.

To support one more SQL function, add one line to one of these tables.
"""

from __future__ import annotations

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.sql import casts, conditions, dates, literals, numbers, patterns, texts
from dosimeter.sql.types import COMPARISONS, Checker, clause_of, refusal

ROW_FUNCTIONS: dict[type[exp.Expression], Checker] = {
    exp.Paren: conditions.check_paren,
    exp.Column: conditions.check_column,
    exp.Literal: literals.check_literal,
    exp.Boolean: literals.check_truth,
    exp.Null: literals.check_null,
    # arithmetic
    exp.Neg: numbers.check_negation,
    exp.Add: numbers.check_sum,
    exp.Sub: numbers.check_sum,
    exp.Mul: numbers.check_product,
    exp.Div: numbers.check_quotient,
    exp.IntDiv: numbers.check_whole_division,
    exp.Mod: numbers.check_whole_division,
    exp.Abs: numbers.check_size,
    exp.Sign: numbers.check_sign,
    exp.Floor: numbers.check_function,
    exp.Ceil: numbers.check_function,
    exp.Trunc: numbers.check_function,
    exp.Round: numbers.check_rounding,
    exp.Sqrt: numbers.check_function,
    exp.Ln: numbers.check_function,
    exp.Exp: numbers.check_function,
    exp.Log: numbers.check_logarithm,
    exp.Pow: numbers.check_power,
    exp.WidthBucket: numbers.check_bucket,
    # conditions and choices
    exp.And: conditions.check_connector,
    exp.Or: conditions.check_connector,
    exp.Not: conditions.check_not,
    **dict.fromkeys(COMPARISONS, conditions.check_comparison),
    exp.NullSafeEQ: conditions.check_distinct_from,
    exp.NullSafeNEQ: conditions.check_distinct_from,
    exp.Between: conditions.check_between,
    exp.In: conditions.check_membership,
    exp.Is: conditions.check_is,
    exp.Like: conditions.check_like,
    exp.ILike: conditions.check_like,
    exp.Case: conditions.check_case,
    exp.If: conditions.check_if,
    exp.Coalesce: conditions.check_coalesce,
    exp.Nullif: conditions.check_nullif,
    exp.Greatest: conditions.check_extremum,
    exp.Least: conditions.check_extremum,
    # casts
    exp.Cast: casts.check_cast,
    exp.TryCast: casts.check_cast,
    # dates
    exp.Extract: dates.check_extract,
    **dict.fromkeys(dates.PART_NODES, dates.check_part),
    exp.TimestampTrunc: dates.check_truncation,
    exp.DateTrunc: dates.check_truncation,
    exp.Date: dates.check_day,
    exp.LastDay: dates.check_last_day,
    exp.DateFromParts: dates.check_made_date,
    exp.DateAdd: dates.check_shift,
    exp.DateDiff: dates.check_difference,
    exp.TimeToStr: dates.check_written,
    exp.ToChar: dates.check_to_char,
    exp.Dayname: dates.check_day_name,
    exp.Monthname: dates.check_day_name,
    # texts
    exp.Upper: texts.check_letters,
    exp.Lower: texts.check_letters,
    exp.Trim: texts.check_trim,
    exp.Left: texts.check_ends,
    exp.Right: texts.check_ends,
    exp.Substring: texts.check_substring,
    exp.Replace: texts.check_replacement,
    exp.Length: texts.check_length,
    exp.StartsWith: texts.check_part_of_text,
    exp.EndsWith: texts.check_part_of_text,
    exp.Contains: texts.check_part_of_text,
    exp.DPipe: texts.check_joined,
    exp.Concat: texts.check_concat,
    exp.StrPosition: patterns.check_position,
    exp.SplitPart: patterns.check_split_part,
    exp.RegexpLike: patterns.check_match,
    exp.RegexpILike: patterns.check_match,
    exp.RegexpFullMatch: patterns.check_match,
    exp.RegexpExtract: patterns.check_extraction,
    exp.JSONExtract: patterns.refuse_json,
    exp.JSONExtractScalar: patterns.check_json_text,
}
# Functions for which the parser has no class of nodes.
NAMED_FUNCTIONS: dict[str, Checker] = {
    "date_part": dates.check_named_part,
    "datepart": dates.check_named_part,
    "to_char": dates.check_to_char,
    "weekday": dates.check_part_of_one,
    "isoyear": dates.check_part_of_one,
    "prefix": texts.check_part_of_text,
    "suffix": texts.check_part_of_text,
}
# Nodes that stand inside those, and are read by them.
_INSIDE = (exp.Identifier, exp.Alias, exp.Var, exp.DataType, exp.DataTypeParam, exp.Interval)

SUPPORTED = (
    "Supported: columns, numbers, 'text', + - * / // %, ABS, SIGN, FLOOR, CEIL, TRUNC, ROUND, SQRT, LN, LOG, EXP, "
    "POWER, CASE, IF, COALESCE, NULLIF, GREATEST, LEAST, comparisons, AND, OR, NOT, BETWEEN, IN (…), LIKE, ILIKE, IS "
    "NULL, CAST, UPPER, LOWER, TRIM, LEFT, RIGHT, SUBSTR, REPLACE, LENGTH, STARTS_WITH, CONTAINS, POSITION, CONCAT, "
    "WIDTH_BUCKET, EXTRACT of a date part, DATE_TRUNC, DATE_DIFF, STRFTIME, INTERVAL, DATE '…'; of declared values "
    "SPLIT_PART, REGEXP_MATCHES, REGEXP_EXTRACT and x ->> 'key'."
)
# What to write instead of a function that is not supported.
_PARTS = "One part of a text with declared values: SPLIT_PART(x, '-', 1), REGEXP_EXTRACT(x, '[a-z]+')."
_KEYS = "The text of a key, if the column's values are declared: x ->> 'key', x -> 'inner' ->> 'key'."
_MATCHES = "Engines read such patterns differently. Use LIKE or, if values are declared, REGEXP_FULL_MATCH(x, 'A.*')."
_INSTEAD: dict[type[exp.Expression] | str, str] = {
    exp.SimilarTo: _MATCHES,
    exp.Glob: _MATCHES,
    exp.Split: _PARTS,
    exp.RegexpSplit: _PARTS,
    exp.RegexpExtractAll: _PARTS,
    exp.RegexpReplace: f"{_PARTS} REPLACE takes plain texts.",
    "regexp_split_to_array": _PARTS,
    exp.JSONBExtract: _KEYS,
    exp.JSONBExtractScalar: _KEYS,
    "json_value": _KEYS,
    exp.ConcatWs: "Join texts by x || '-' || y.",
    exp.Bracket: "A part of a text is SUBSTR(x, 1, 3) or, if values are declared, SPLIT_PART(x, '-', 1).",
}
_CHANGING = (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.CurrentDatetime, exp.Rand)
_TIME_BETWEEN = ("age", "date_sub", "datesub")
_CHANGING_NAMES = ("now", "today", "current_date", "get_current_timestamp", "transaction_timestamp", "uuid", "setseed")


def is_row_wise(node: exp.Expression) -> bool:
    """Return whether a node of this kind may be part of an expression over one row."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in NAMED_FUNCTIONS
    return isinstance(node, (*ROW_FUNCTIONS, *_INSIDE))


def refuse_unknown(node: exp.Expression) -> QueryError:
    """Return the error for a node of a kind that the tables do not list."""
    named = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    match node:
        case exp.Subquery() | exp.Select() | exp.Exists() | exp.SetOperation():
            return refusal(node, "Subqueries are not supported. Ask a plain SELECT … FROM table WHERE … GROUP BY ….")
        case exp.Window():
            return refusal(
                node, "Window functions (OVER) are not supported here. Compute them for each individual in a subquery."
            )
        case exp.AggFunc():
            return refusal(node, f"{clause_of(node)}: an aggregate cannot stand inside another expression here.")
        case exp.Interval():
            return refusal(
                node, f"{clause_of(node)}: an interval is added to a date: DATE '2024-12-31' - INTERVAL '90' DAY."
            )
    if isinstance(node, exp.TimeToUnix) or named in _TIME_BETWEEN:
        return refusal(
            node,
            f"{clause_of(node)} is not supported. For the time between two dates or timestamps write "
            "DATE_DIFF('second', start, end), or compare it: end - start < INTERVAL '30' DAY.",
        )
    if isinstance(node, _CHANGING) or named in _CHANGING_NAMES:
        return refusal(
            node,
            f"{clause_of(node)} is not supported: the same question would mean something else each time. Write the "
            "date or number: DATE '2024-12-31'.",
        )
    instead = _INSTEAD.get(type(node)) or _INSTEAD.get(named)
    return refusal(node, f"{clause_of(node)} is not supported. {instead or SUPPORTED}")
