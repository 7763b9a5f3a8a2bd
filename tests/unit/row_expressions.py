"""A grammar of row-wise expressions over one table, and tables to evaluate them on: ordinary ones and extreme ones."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from dosimeter.schema.facts import Column, ColumnType, Schema

CITIES = ("Bonn", "köln", " Aix ", "Straße", "İzmir", "12", "2.5", "2024-02-29", "")
SCHEMA = Schema(
    table="t",
    individuals=100,
    columns={
        "a": Column("a", ColumnType.INTEGER, bounds=(Decimal(-40), Decimal(60))),
        "b": Column("b", ColumnType.INTEGER, bounds=(Decimal(0), Decimal(9))),
        "v": Column("v", ColumnType.DECIMAL, bounds=(Decimal(-100), Decimal(200)), resolution=Decimal("0.25")),
        "w": Column("w", ColumnType.DECIMAL, bounds=(Decimal(0), Decimal(5)), resolution=Decimal("0.01")),
        "c": Column("c", ColumnType.CATEGORY, values=CITIES),
        "s": Column("s", ColumnType.TEXT),
        "p": Column("p", ColumnType.BOOLEAN),
        "q": Column("q", ColumnType.BOOLEAN),
        "d": Column("d", ColumnType.DATE, bounds=(date(2023, 12, 25), date(2025, 1, 5))),
        "e": Column("e", ColumnType.DATE, bounds=(date(1969, 1, 1), date(2025, 1, 5))),
        "m": Column("m", ColumnType.TIMESTAMP, bounds=(datetime.fromisoformat("2024-01-01"),
                                                       datetime.fromisoformat("2024-03-31T23:59:59"))),
    },
)  # fmt: skip
ARROW = pa.schema(
    [
        ("a", pa.int64()), ("b", pa.int64()), ("v", pa.float64()), ("w", pa.float64()), ("c", pa.string()),
        ("s", pa.string()), ("p", pa.bool_()), ("q", pa.bool_()), ("d", pa.date32()), ("e", pa.date32()),
        ("m", pa.timestamp("us")),
    ]
)  # fmt: skip


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def build(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(ARROW.names, row, strict=True)) for row in rows], schema=ARROW)


PLAIN = build(
    [
        (7, 2, 2.5, 0.01, "Bonn", "Ada Lovelace", True, None, date(2024, 2, 29), date(1969, 12, 31),
         moment("2024-02-29 23:59:59.999999")),
        (-7, 0, -2.5, 0.5, "köln", "x", False, True, date(2023, 12, 31), date(1970, 1, 1),
         moment("2024-01-01 00:00:00")),
        (0, 3, 0.0, 1.0, " Aix ", "  two  ", None, False, date(2024, 12, 30), date(2024, 12, 30),
         moment("2024-03-31 12:30:15.5")),
        (15, 9, 3.5, 4.99, "Straße", "", True, True, date(2025, 1, 5), date(2024, 2, 29),
         moment("2024-01-31 10:00:00")),
        (-25, 1, 1.005, 2.675, "İzmir", "abcabc", False, False, date(2024, 1, 31), date(1999, 12, 31),
         moment("2024-02-01 00:00:01")),
        (None, None, None, None, None, None, None, None, None, None, None),
        (49, 5, -0.5, 0.125, "12", "ADA", True, False, date(2024, 3, 31), date(2000, 2, 29),
         moment("2024-03-01 06:07:08")),
        (50, 4, 199.75, 5.0, "2.5", "a%b_c", None, None, date(2024, 1, 1), date(2001, 1, 1),
         moment("2024-03-10 23:00:00")),
        (60, 7, -99.9, 0.29, "2024-02-29", "Zz", False, None, date(2024, 7, 4), date(1990, 6, 15),
         moment("2024-01-07 01:02:03")),
        (1, 8, 0.49999999999999994, 3.0, "", "nan", True, True, date(2024, 10, 27), date(2023, 10, 29),
         moment("2024-02-04 04:05:06")),
    ]
)  # fmt: skip
EXTREME = build(
    [
        (2**63 - 1, -(2**63), 1.7976931348623157e308, 5e-324, "elsewhere", "\u212a\u0130ß" * 50, True, True,
         date(9999, 12, 31), date(1, 1, 1), moment("9999-12-31 23:59:59.999999")),
        (-(2**63), 2**63 - 1, -1.7976931348623157e308, 1e100, "\x7f", "\\", False, False, date(1, 1, 1),
         date(9999, 12, 31), moment("0001-01-01 00:00:00")),
        (2**53 + 1, -1, 5e-324, -1e300, "BONN", "'", None, True, date(9999, 2, 28), date(4, 2, 29),
         moment("9999-02-28 12:00:00")),
        (0, 0, -0.0, 0.0, "", "\n\t", True, None, date(1582, 10, 10), date(1900, 2, 28), moment("1582-10-10 00:00:00")),
        (None, None, None, None, None, None, None, None, None, None, None),
    ]
)  # fmt: skip

INTEGERS: st.SearchStrategy[str] = st.deferred(lambda: st.one_of(WHOLE_LEAVES, WHOLE_LEAVES, DEEPER_INTEGERS))
NUMBERS: st.SearchStrategy[str] = st.deferred(lambda: st.one_of(NUMBER_LEAVES, INTEGERS, DEEPER_NUMBERS))
TEXTS: st.SearchStrategy[str] = st.deferred(lambda: st.one_of(TEXT_LEAVES, TEXT_LEAVES, DEEPER_TEXTS))
DATES: st.SearchStrategy[str] = st.deferred(lambda: st.one_of(DATE_LEAVES, DATE_LEAVES, DEEPER_DATES))
MOMENTS: st.SearchStrategy[str] = st.deferred(lambda: st.one_of(st.just("m"), DEEPER_MOMENTS))
CONDITIONS: st.SearchStrategy[str] = st.deferred(lambda: st.one_of(CONDITION_LEAVES, DEEPER_CONDITIONS))

WHOLE_LEAVES: st.SearchStrategy[str] = st.sampled_from(["a", "b", "3", "10", "0", "1"])
NUMBER_LEAVES: st.SearchStrategy[str] = st.sampled_from(["v", "w", "v", "0.5::DOUBLE", "2.5::DOUBLE"])
TEXT_LEAVES: st.SearchStrategy[str] = st.sampled_from(["c", "c", "s", "'Bonn'", "'a'"])
DATE_LEAVES: st.SearchStrategy[str] = st.sampled_from(["d", "e", "DATE '2024-02-29'"])
DAY_PATTERNS = st.sampled_from(
    ["%Y", "%Y-%m", "%Y-%m-%d", "%d.%m.%Y", "%a %A", "%b %B", "%G-W%V-%u", "%j", "%-d", "%w%%"]
)
PARTS = st.sampled_from(["year", "isoyear", "quarter", "month", "week", "day", "doy", "dow", "isodow"])
CLOCK = st.sampled_from(["hour", "minute", "second"])
UNITS = st.sampled_from(["year", "quarter", "month", "week", "day"])
INTERVALS = st.builds(
    "INTERVAL '{}' {}".format,
    st.sampled_from([1, 2, 13, 90, -1]),
    st.sampled_from(["DAY", "WEEK", "MONTH", "QUARTER", "YEAR"]),
)
CLOCK_INTERVALS = st.builds("INTERVAL '{}' {}".format, st.sampled_from([1, 36, 90]), CLOCK)
FIXED_INTERVALS = st.sampled_from(
    ["INTERVAL 30 DAY", "INTERVAL '36 hours'", "INTERVAL '-2' WEEK", "'1 day 5 seconds'::INTERVAL", "INTERVAL (0) DAY"]
)
SIGNS = st.sampled_from(["+", "-"])
COMPARISON = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
DEEPER_INTEGERS: st.SearchStrategy[str] = st.one_of(
    st.builds("({} {} {})".format, INTEGERS, st.sampled_from(["+", "-", "*"]), INTEGERS),
    # A zero divisor is an error in DuckDB, and NULL here.
    st.builds("({} {} NULLIF({}, 0))".format, INTEGERS, st.sampled_from(["//", "%"]), INTEGERS),
    st.builds("MOD({}, NULLIF({}, 0))".format, INTEGERS, INTEGERS),
    st.builds("ABS({})".format, INTEGERS),
    st.builds("SIGN({})".format, NUMBERS),
    st.builds("CAST({} AS {})".format, NUMBERS, st.sampled_from(["INTEGER", "BIGINT", "TINYINT", "SMALLINT"])),
    st.builds("CAST({} AS INTEGER)".format, CONDITIONS),
    st.builds("ROUND({}, {})".format, INTEGERS, st.sampled_from([0, -1, 2])),
    st.builds("NULLIF({}, {})".format, INTEGERS, INTEGERS),
    st.builds("IFNULL({}, {})".format, INTEGERS, INTEGERS),
    st.builds("{}({}, {})".format, st.sampled_from(["GREATEST", "LEAST"]), INTEGERS, INTEGERS),
    st.builds("EXTRACT({} FROM {})".format, PARTS, DATES),
    st.builds("DATE_PART('{}', {})".format, st.one_of(PARTS, CLOCK), MOMENTS),
    st.builds("DATE_DIFF('{}', {}, {})".format, UNITS, DATES, DATES),
    st.builds("DATE_DIFF('{}', {}, {})".format, st.one_of(UNITS, CLOCK), DATES, MOMENTS),
    st.builds("({} - {})".format, DATES, DATES),
    st.builds("LENGTH({})".format, TEXTS),
    st.builds("POSITION('{}' IN {})".format, st.sampled_from(["a", "ß", "B", "2024", "b_"]), TEXTS),
)
DEEPER_NUMBERS: st.SearchStrategy[str] = st.one_of(
    st.builds("({} {} {})".format, NUMBERS, st.sampled_from(["+", "-", "*"]), NUMBERS),
    st.builds("({} / NULLIF({}, 0))".format, NUMBERS, NUMBERS),
    st.builds("(-{})".format, NUMBERS),
    st.builds("{}({})".format, st.sampled_from(["FLOOR", "CEIL", "TRUNC", "ABS", "ROUND"]), NUMBERS),
    st.builds("ROUND({}, {})".format, NUMBERS, st.sampled_from([1, 2, -1])),
    st.builds("{}(ABS({}) + 1)".format, st.sampled_from(["SQRT", "LN", "LOG10", "LOG"]), NUMBERS),
    st.builds("EXP({} / 50)".format, NUMBERS),
    st.builds("POWER({}, {})".format, NUMBERS, st.sampled_from([0, 1, 2, 3])),
    st.builds("CAST({} AS DECIMAL(9, 2))".format, NUMBERS),
    st.builds("{}::DOUBLE".format, INTEGERS),
    st.builds("{}({}, {})".format, st.sampled_from(["GREATEST", "LEAST"]), NUMBERS, NUMBERS),
    st.builds("COALESCE({}, {})".format, NUMBERS, NUMBERS),
    st.builds("IF({}, {}, {})".format, CONDITIONS, NUMBERS, NUMBERS),
    st.builds("CASE {} WHEN {} THEN {} ELSE {} END".format, INTEGERS, INTEGERS, NUMBERS, NUMBERS),
)
DEEPER_TEXTS: st.SearchStrategy[str] = st.one_of(
    st.builds("{}({})".format, st.sampled_from(["UPPER", "LOWER", "TRIM", "LTRIM", "RTRIM"]), TEXTS),
    st.builds("{}({}, {})".format, st.sampled_from(["LEFT", "RIGHT"]), TEXTS, st.sampled_from([0, 1, 3])),
    st.builds("SUBSTR({}, {}, {})".format, TEXTS, st.sampled_from([1, 2, 4]), st.sampled_from([0, 1, 3])),
    st.builds("SUBSTR({}, 2)".format, TEXTS),
    st.builds("SPLIT_PART({}, '{}', {})".format, TEXTS, st.sampled_from(["a", "ß", "-"]), st.sampled_from([1, 2, -1])),
    st.builds("REGEXP_EXTRACT({}, '{}')".format, TEXTS, st.sampled_from(["[a-z]+", "^.", "(x)?", "[0-9]{2,4}-"])),
    st.builds("REPLACE({}, 'a', '{}')".format, TEXTS, st.sampled_from(["", "o"])),
    st.builds("({} || {})".format, TEXTS, TEXTS),
    st.builds("CONCAT({}, {})".format, TEXTS, st.one_of(TEXTS, INTEGERS)),
    st.builds("COALESCE({}, {})".format, TEXTS, TEXTS),
    st.builds("CASE WHEN {} THEN {} END".format, CONDITIONS, TEXTS),
    st.builds("CAST({} AS VARCHAR)".format, st.one_of(INTEGERS, CONDITIONS, DATES)),
    st.builds("STRFTIME({}, '{}')".format, DATES, DAY_PATTERNS),
    st.builds("STRFTIME({}, '{}')".format, MOMENTS, st.sampled_from(["%H:%M", "%H:%M:%S", "%Y-%m-%d %H"])),
    st.builds("{}({})".format, st.sampled_from(["DAYNAME", "MONTHNAME"]), DATES),
)  # fmt: skip
DEEPER_DATES: st.SearchStrategy[str] = st.one_of(
    st.builds("CAST(DATE_TRUNC('{}', {}) AS DATE)".format, UNITS, st.one_of(DATES, MOMENTS)),
    st.builds("CAST({} {} {} AS DATE)".format, DATES, SIGNS, INTERVALS),
    st.builds("({} {} 3)".format, DATES, SIGNS),
    st.builds("CAST({} AS DATE)".format, MOMENTS),
    st.builds("LAST_DAY({})".format, DATES),
    st.builds("COALESCE({}, {})".format, DATES, DATES),
    st.builds("{}({}, {})".format, st.sampled_from(["GREATEST", "LEAST"]), DATES, DATES),
    st.builds("TRY_CAST(c AS DATE)".format),
)
DEEPER_MOMENTS: st.SearchStrategy[str] = st.one_of(
    st.builds("CAST(DATE_TRUNC('{}', m) AS TIMESTAMP)".format, st.one_of(UNITS, CLOCK)),
    st.builds("({} {} {})".format, MOMENTS, SIGNS, st.one_of(INTERVALS, CLOCK_INTERVALS)),
    st.builds("({} {} {})".format, DATES, SIGNS, CLOCK_INTERVALS),
    st.builds("CAST({} AS TIMESTAMP)".format, DATES),
    st.builds("GREATEST({}, {})".format, DATES, MOMENTS),
)
CONDITION_LEAVES: st.SearchStrategy[str] = st.one_of(
    st.sampled_from(["p", "q", "TRUE"]),
    st.builds("({} {} {})".format, INTEGERS, COMPARISON, INTEGERS),
    st.builds("({} {} {})".format, TEXTS, COMPARISON, TEXTS),
    st.builds("({} {} {})".format, DATES, COMPARISON, st.one_of(DATES, MOMENTS)),
)
DEEPER_CONDITIONS: st.SearchStrategy[str] = st.one_of(
    st.builds("({} - {} {} {})".format, MOMENTS, st.one_of(MOMENTS, DATES), COMPARISON, FIXED_INTERVALS),
    st.builds("({} {} {} - {})".format, FIXED_INTERVALS, COMPARISON, DATES, MOMENTS),
    st.builds("({} - {} BETWEEN {} AND {})".format, MOMENTS, MOMENTS, FIXED_INTERVALS, FIXED_INTERVALS),
    st.builds("({} AND {})".format, CONDITIONS, CONDITIONS),
    st.builds("({} OR {})".format, CONDITIONS, CONDITIONS),
    st.builds("(NOT {})".format, CONDITIONS),
    st.builds("({} IS {}{})".format, CONDITIONS, st.sampled_from(["", "NOT "]), st.sampled_from(["TRUE", "FALSE"])),
    st.builds("({} IS {}DISTINCT FROM {})".format, INTEGERS, st.sampled_from(["", "NOT "]), INTEGERS),
    st.builds("({} BETWEEN {} AND {})".format, NUMBERS, NUMBERS, NUMBERS),
    st.builds("({} BETWEEN {} AND {})".format, MOMENTS, DATES, MOMENTS),
    st.builds("({} IN ({}, {}))".format, DATES, DATES, MOMENTS),
    st.builds("({} {}LIKE '{}')".format, TEXTS, st.sampled_from(["", "NOT "]), st.sampled_from(["%a%", "_", "B%"])),
    st.builds("({} ILIKE '{}')".format, TEXT_LEAVES, st.sampled_from(["%A%", "b%", "_"])),
    st.builds("{}({}, '{}')".format, st.sampled_from(["STARTS_WITH", "ENDS_WITH", "CONTAINS", "PREFIX", "SUFFIX"]),
              TEXTS, st.sampled_from(["a", "B", "", "bc"])),
    st.builds("REGEXP_MATCHES({}, '{}')".format, TEXTS, st.sampled_from(["^[A-Z]", "[^a-z]", "", "n{2}|ß", "\\s"])),
    st.builds("REGEXP_FULL_MATCH({}, '{}')".format, TEXTS, st.sampled_from(["[A-Z].*", ".{2,4}", "[0-9.]+"])),
    st.builds("CAST({} AS BOOLEAN)".format, NUMBERS),
    st.builds("(({}) IS NULL)".format, st.one_of(NUMBERS, TEXTS, DATES, MOMENTS)),
)  # fmt: skip
ANY = st.one_of(NUMBERS, INTEGERS, TEXTS, DATES, MOMENTS, CONDITIONS)
