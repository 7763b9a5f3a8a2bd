"""Generated queries of every form: functions of a row, questions about people, everything that is measured.

A query is drawn from the inside out: the rows (a table, joins, a subquery about each individual), the expressions that
these rows offer, what is measured of them and by which groups. ``parts`` says which forms a query is made of.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from dosimeter.errors import QueryError
from dosimeter.planning import PlanOptions, QueryPlan, plan_query
from dosimeter.schema import Schema
from tests.oracle import person_queries
from tests.oracle.person_queries import Lists, draw_people, shorten

REFUSED_BY_SIZE = (
    "too large to count exactly",
    "is always NULL",
    "its bounds leave it no room",
    "at most 10,000 are supported",
    "in all are supported",
    "has no declared list of values",
)
"""Refusals that follow from a drawn expression's bounds, not from its form: another query is drawn instead."""


@dataclass(frozen=True)
class FormQuery:
    """A query, its plan, and the forms that it is made of."""

    sql: str
    plan: QueryPlan
    parts: frozenset[str]


@dataclass(frozen=True)
class Rows:
    """What stands in FROM, and the expressions that may be asked of its rows."""

    source: str
    numbers: Sequence[str]
    conditions: Sequence[str]
    keys: Sequence[str]
    values: Sequence[str]
    units: Sequence[str] = ()
    parts: frozenset[str] = frozenset()


# ---------------------------------------------------------------- expressions of one row

NUMBERS = {
    "plain": ["x", "cost", "x * 2 - 3", "cost + x", "-cost"],
    "number": [
        "ABS(cost)", "ROUND(cost)", "ROUND(cost, -1)", "FLOOR(cost / 3)", "CEIL(cost)", "TRUNC(cost)", "SIGN(x)",
        "SQRT(cost)", "LN(cost + 3)", "LOG10(x)", "EXP(x / 4)", "POWER(x, 2)", "POWER(x, 3)", "x // 3", "x % 3",
        "MOD(x, 4)", "cost / 4", "cost / x", "x / 3", "cost * x", "WIDTH_BUCKET(cost, 0, 12, 5)",
    ],
    "condition": [
        "GREATEST(cost - 3, 0)", "LEAST(x, 2)", "GREATEST(x, cost)", "NULLIF(x, 6)", "COALESCE(cost, 5)",
        "IFNULL(x, -2)", "IF(sick, cost, 1)", "CASE WHEN x > 2 THEN cost WHEN sick THEN -1 END",
        "CASE ward WHEN 'A' THEN 3 WHEN 'Öst' THEN x ELSE 0 END",
    ],
    "cast": [
        "CAST(sick AS INTEGER)", "CAST(cost AS INTEGER)", "CAST(cost AS DECIMAL(4, 1))", "CAST(x AS DOUBLE) / 2",
        "TRY_CAST(code AS INTEGER)", "CAST(x > 2 AS INTEGER)", "cost::BIGINT",
    ],
    "date": [
        "DATE_DIFF('day', d, at)", "DATE_DIFF('month', d, at)", "DATE_DIFF('week', d, at)",
        "DATE_DIFF('hour', at, d)", "MONTH(d)", "WEEK(d)", "DAYOFWEEK(at)", "HOUR(at)", "DAYOFYEAR(d)",
        "at::DATE - d", "DATE_DIFF('day', d, d + INTERVAL '1' MONTH)", "DAY(LAST_DAY(d))",
    ],
    "text": ["LENGTH(ward)", "LENGTH(code)", "LENGTH(ward || code)", "POSITION('s' IN ward)"],
}  # fmt: skip
CONDITIONS = {
    "plain": [
        "x > 2", "cost < 3", "ward = 'A'", "sick", "NOT sick", "x IS NULL", "x IN (1, 6)", "cost BETWEEN 0 AND 9",
    ],
    "number": ["ROUND(cost) = 10", "x % 2 = 0", "SQRT(cost) > 1", "cost / x > 1", "GREATEST(x, cost) >= 6"],
    "condition": [
        "sick IS NOT TRUE", "ward IS DISTINCT FROM 'A'", "COALESCE(x, 6) = 6", "IF(sick, x, cost) > 0",
        "NULLIF(x, -2) IS NULL",
    ],
    "cast": ["CAST(x AS VARCHAR) = '6'", "CAST(cost AS INTEGER) > 3", "CAST(x AS BOOLEAN)", "at::DATE = d"],
    "date": [
        "d >= '2024-02-29'", "at < DATE '2024-03-01'", "d + INTERVAL '1' MONTH > at", "d <= at",
        "STRFTIME(at, '%Y-%m') = '2024-03'", "DAYNAME(d) = 'Monday'", "EXTRACT(QUARTER FROM d) = 2",
        "at - INTERVAL '36' HOUR < d", "at - d < INTERVAL 36 HOUR",
        "d - at BETWEEN INTERVAL -2 DAY AND INTERVAL 4 WEEK",
        "DATE_TRUNC('week', d) = '2024-01-29'",
    ],
    "text": [
        "UPPER(ward) = 'ÖST'", "LOWER(note) = 'cough'", "TRIM(note) = 'a'", "note LIKE 'a%'", "note ILIKE '%OUGH%'",
        "STARTS_WITH(note, 'c')", "LENGTH(note) > 2", "REPLACE(note, 'cough', '') = ''", "SUBSTR(code, 2) = '3'",
        "ward || code = 'A1'", "ward ~ '^[A-Z]'", "POSITION('u' IN note) = 3", "REGEXP_EXTRACT(code, '[0-9]') = '3'",
    ],
}  # fmt: skip
KEYS = {
    "plain": ["ward", "sick", "x", "clinic_id"],
    "number": ["x // 3", "FLOOR(cost / 4) * 4", "ROUND(cost, -1)", "x % 3", "WIDTH_BUCKET(cost, 10, 0, 4)"],
    "condition": ["x > 2", "COALESCE(ward, 'none')", "CASE WHEN cost > 5 THEN 'high' WHEN x > 2 THEN 'low' END"],
    "cast": ["CAST(x AS VARCHAR)", "CAST(cost AS INTEGER)", "CAST(code AS INTEGER)", "CAST(at AS DATE)"],
    "date": ["DATE_TRUNC('month', d)", "STRFTIME(at, '%Y-%m')", "DAYOFWEEK(d)", "QUARTER(d)", "DAYNAME(at)", "d"],
    "text": [
        "UPPER(TRIM(ward))",
        "LEFT(ward, 1)",
        "ward || sick",
        "REPLACE(code, ' ', '')",
        "SPLIT_PART(ward, 's', 1)",
        "code ~ '[0-9]'",
    ],
}


def _flat(table: dict[str, list[str]]) -> list[str]:
    return [each for expressions in table.values() for each in expressions]


def _kinds(sql: str) -> set[str]:
    """Which kinds of row functions a text holds."""
    return {
        kind
        for table in (NUMBERS, CONDITIONS, KEYS)
        for kind, expressions in table.items()
        if kind != "plain" and any(each in sql for each in expressions if len(each) > 2)
    }


# ---------------------------------------------------------------- rows

PRIVATE_JOINS = [
    "labs l ON v.pid = l.pid",
    "(SELECT pid, COUNT(*) AS n, SUM(score) AS s FROM labs GROUP BY pid) l ON v.pid = l.pid",
    "(SELECT pid, MAX(score) AS s, COUNT(DISTINCT kind) AS n FROM labs WHERE kind <> 'w' GROUP BY pid) l "
    "ON l.pid = v.pid",
]
MEMBERS = [
    *map(shorten, person_queries.MEMBERS),
    "pid IN (SELECT pid FROM visits WHERE UPPER(ward) = 'A')",
    "EXISTS (SELECT 1 FROM labs o WHERE o.pid = visits.pid AND o.taken > DATE '2024-03-01')",
    "pid IN (SELECT pid FROM visits GROUP BY pid HAVING SUM(cost) > 5 AND MAX(x) < 6)",
    "pid NOT IN (SELECT pid FROM labs WHERE pid IS NOT NULL GROUP BY pid HAVING AVG(score) > 3)",
]
PERSON_AGGREGATES = [
    *person_queries.AGGREGATES, "COUNT(cost)", "COUNT(DISTINCT d)", "ARG_MAX(x, at)", "SUM(SQRT(cost))",
    "SUM(DATE_DIFF('day', d, at))", "DATE_DIFF('day', MIN(d), MAX(d))", "AVG(LENGTH(ward))",
]  # fmt: skip
HAVINGS = [*person_queries.HAVINGS, "SUM(cost) > 5", "MIN(d) < DATE '2024-03-01'"]
WINDOWS = [
    *person_queries.WINDOWS,
    "LAG(cost, 2) OVER (PARTITION BY pid ORDER BY at DESC)",
    "LEAD(x) OVER (PARTITION BY pid ORDER BY cost)",
    "SUM(cost) OVER (PARTITION BY pid, ward ORDER BY at)",
    "DATE_DIFF('day', LAG(d) OVER (PARTITION BY pid ORDER BY d), d)",
    "CASE WHEN at - LAG(at) OVER (PARTITION BY pid ORDER BY at) < INTERVAL 30 DAY THEN 1 ELSE 0 END",
]


LISTS = Lists(
    _flat(CONDITIONS), MEMBERS, PERSON_AGGREGATES, HAVINGS, WINDOWS, [key for key in _flat(KEYS) if key != "d"]
)


def _plain_rows(chance: random.Random) -> Rows:
    return Rows("visits", _flat(NUMBERS), _flat(CONDITIONS), _flat(KEYS), ["x", "ward", "cost", "d", "code"], ["pid"])


def _public_join(chance: random.Random) -> Rows:
    kind = chance.choice(["JOIN", "LEFT JOIN"])
    numbers = [*NUMBERS["plain"], *NUMBERS["date"], "beds", "beds * x", "COALESCE(beds, 1)", "LEAST(beds, x)"]
    conditions = [*CONDITIONS["plain"], *CONDITIONS["text"], "region = 'north'", "region IS NULL", "beds >= x"]
    keys = ["region", "ward", "sick", "beds", "UPPER(region)", "COALESCE(region, 'none')"]
    source = f"visits {kind} clinics USING (clinic_id)"
    return Rows(source, numbers, conditions, keys, ["region", "x", "beds"], ["pid"], frozenset({"public join"}))


def _private_join(chance: random.Random) -> Rows:
    joined = chance.choice(PRIVATE_JOINS)
    score = "score" if joined.startswith("labs") else "s"
    other = "lab" if joined.startswith("labs") else "n"
    numbers = ["v.x", "v.cost", f"l.{score}", f"v.x * l.{score}", f"COALESCE(l.{score}, 1)", f"SQRT(l.{score})"]
    conditions = ["v.sick", "v.x > 2", f"l.{score} > 1", f"l.{other} IS NULL", f"l.{score} < v.cost"]
    keys = ["v.ward", "v.sick", "v.x // 3", "UPPER(v.ward)"]
    values = ["v.x", "v.ward", f"l.{score}"]
    source = f"visits v {chance.choice(['JOIN', 'LEFT JOIN'])} {joined}"
    return Rows(source, numbers, conditions, keys, values, ["v.pid"], frozenset({"private join"}))


def _chosen(chance: random.Random) -> Rows:
    rows = _plain_rows(chance)
    members = chance.sample(MEMBERS, 3)
    conditions = [*members, *members, *chance.sample(_flat(CONDITIONS), 4)]
    return Rows("visits", rows.numbers, conditions, rows.keys, rows.values, rows.units, frozenset({"member"}))


def _people(chance: random.Random) -> Rows:
    source, keys, parts = draw_people(chance, LISTS)
    numbers = ["a", "b", "a - b", "a * b", "GREATEST(a, b)", "SQRT(a)", "COALESCE(b, 1)", "a / 2", "IF(a > b, a, 0)"]
    conditions = ["a > 1", "b <= 2 OR a IS NULL", "w = 'A'", "a = b", "b IS NULL", "w = 'A' AND a >= 0"]
    text = f"({shorten(source)}) t"
    return Rows(text, numbers, conditions, [*keys, "UPPER(w)", "a > 1"], ["a", "w"], ["pid"], frozenset(parts))


BY_PERSON = [_people, _people, _people, _people, _chosen, _private_join, _public_join, _plain_rows, _plain_rows]
BY_ROW = [_plain_rows, _plain_rows, _public_join]


# ---------------------------------------------------------------- what is measured

PAIRS = ("COVAR_POP", "COVAR_SAMP", "CORR", "REGR_SLOPE", "REGR_INTERCEPT")
SPREADS = ("STDDEV", "STDDEV_SAMP", "STDDEV_POP", "VARIANCE", "VAR_SAMP", "VAR_POP")


@dataclass
class _Asking:
    """The aggregates of one query, drawn one after the other."""

    chance: random.Random
    rows: Rows
    parts: set[str] = field(default_factory=set)

    def draw(self, *, sums_only: bool) -> str:
        chance, rows = self.chance, self.rows
        kinds = ["count", "count", "count_if", "sum", "sum", "avg", "spread", "pair", "pair"]
        kinds += [] if sums_only else ["order", "distinct", "distinct", "unit", "approx"]
        kind = chance.choice(kinds)
        number = chance.choice(rows.numbers)
        self.parts.add(kind)
        if kind == "count":
            text = chance.choice(["COUNT(*)", f"COUNT({number})"])
        elif kind == "count_if":
            return f"COUNT_IF({chance.choice(rows.conditions)})"
        elif kind == "spread":
            text = f"{chance.choice(SPREADS)}({number})"
        elif kind == "pair":
            text = f"{chance.choice(PAIRS)}({number}, {chance.choice(rows.numbers)})"
        elif kind == "order":
            text = chance.choice(["MIN({})", "MAX({})", "MEDIAN({})", "QUANTILE_CONT({}, 0.3)"]).format(number)
        elif kind == "distinct":
            text = f"COUNT(DISTINCT {chance.choice([*rows.values, *rows.keys])})"
        elif kind == "approx":
            text = f"APPROX_COUNT_DISTINCT({chance.choice(rows.values)})"
        elif kind == "unit":
            text = f"COUNT(DISTINCT {chance.choice(rows.units)})"
        else:
            text = f"{kind.upper()}({number})"
        if chance.random() < 0.2:
            self.parts.add("filter")
            text += f" FILTER (WHERE {chance.choice(rows.conditions)})"
        return text


def _condition(chance: random.Random, rows: Rows) -> str:
    tests = [chance.choice(rows.conditions) for _ in range(chance.choice([0, 0, 1, 1, 2]))]
    if rows.parts & {"member"} and not tests:
        tests = [rows.conditions[0]]
    return f" WHERE {chance.choice([' AND ', ' OR ']).join(f'({test})' for test in tests)}" if tests else ""


def _draw(chance: random.Random, by_person: bool) -> tuple[str, frozenset[str]]:
    """Draw a query: its text, and the forms that it is made of."""
    rows = chance.choice(BY_PERSON if by_person else BY_ROW)(chance)
    keys = chance.sample(rows.keys, min(chance.choice([0, 0, 1, 1, 2]), len(rows.keys)))
    totals = chance.choice(["", "", "ROLLUP", "CUBE", "GROUPING SETS"]) if keys else ""
    asking = _Asking(chance, rows)
    measured = [asking.draw(sums_only=bool(totals)) for _ in range(chance.choice([1, 1, 2, 3]))]
    names = [f"q{at}" for at in range(len(keys))]
    shown = [f"{key} AS {name}" for key, name in zip(keys, names, strict=True)]
    group = ", ".join(names)
    if totals in ("ROLLUP", "CUBE"):
        group = f"{totals} ({group})"
    elif totals:
        group = f"GROUPING SETS (({group}), ({names[0]}), ())"
    where = _condition(chance, rows)
    sql = f"SELECT {', '.join([*shown, *measured])} FROM {rows.source}{where}" + (f" GROUP BY {group}" if keys else "")
    parts = {*rows.parts, *asking.parts, *_kinds(sql), *({totals.lower()} if totals else ())}
    return sql, frozenset(parts | {"unit = column" if by_person else "unit = row"})


def draw_queries(seed: int, schema: Schema, number: int) -> list[FormQuery]:
    """Draw queries that are answered; what is refused for its bounds is drawn again, anything else is a failure."""
    chance = random.Random(seed)
    drawn: list[FormQuery] = []
    while len(drawn) < number:
        sql, parts = _draw(chance, schema.unit != "row")
        try:
            drawn.append(FormQuery(sql, plan_query(sql, schema, PlanOptions(quantiles="noise")), parts))
        except QueryError as error:
            if not any(words in str(error) for words in REFUSED_BY_SIZE):
                raise
    return drawn
