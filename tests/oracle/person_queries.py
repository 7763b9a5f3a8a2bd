"""Generated questions about people: as the analyst writes them, and as DuckDB may be asked about the rows that count.

The two differ only in that the second has the last word on order written out (the row key), which SQL leaves open.
{t} stands for it in ORDER BY; {latest} and {earliest} stand for the date d by which ARG_MAX and ARG_MIN choose.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

CONDITIONS = ["x > 2", "ward = 'A'", "sick", "NOT sick", "cost < 3", "d >= '2024-03-01'", "x IS NULL", "ward <> 'Öst'"]
AGGREGATES = [
    "COUNT(*)", "COUNT(x)", "COUNT(DISTINCT ward)", "COUNT_IF(x > 2)", "SUM(x)", "SUM(cost)", "SUM(x * 2 - 3)",
    "MIN(x)", "MAX(cost)", "MIN(cost)", "AVG(x)", "AVG(cost)", "MEDIAN(x)", "MEDIAN(cost)", "MAX(x) - MIN(x)",
    "SUM(CASE WHEN sick THEN 1 ELSE 0 END)", "MAX(CASE WHEN ward = 'A' THEN 1 ELSE 0 END)",
    "COUNT(*) FILTER (WHERE sick)", "SUM(cost) FILTER (WHERE x > 1)", "2 * COUNT(*) + 1",
    "CASE WHEN BOOL_OR(sick) THEN 2 ELSE 0 END", "CASE WHEN BOOL_AND(x > 1) THEN 1 END",
    "ARG_MAX(x, {latest})", "ARG_MIN(cost, {earliest})", "MAX_BY(x * 2, {latest}) FILTER (WHERE sick)",
    "CASE WHEN ARG_MIN(sick, {earliest}) THEN 1 ELSE 0 END", "CASE WHEN ARG_MAX(ward, {latest}) = 'A' THEN 2 END",
    "CASE WHEN CAST(MAX(d) AS TIMESTAMP) - MIN(d) <= INTERVAL 44 DAY THEN 1 ELSE 0 END",
    "CASE WHEN MIN(d) < '2024-02-10' THEN 1 ELSE 0 END", "CASE WHEN MIN(ward) = MAX(ward) THEN 1 ELSE 0 END",
]  # fmt: skip
KEYS = ["ward", "sick", "x > 2", "clinic_id", "YEAR(d)", "MONTH(d)"]
ALL_ROWS = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
WINDOWS = [
    "LAG(x) OVER ({p} ORDER BY d{t})",
    "LEAD(cost, 2) OVER ({p} ORDER BY d DESC{t})",
    "ROW_NUMBER() OVER ({p} ORDER BY d{t})",
    "RANK() OVER ({p} ORDER BY d)",
    "DENSE_RANK() OVER ({p} ORDER BY x DESC)",
    "SUM(x) OVER ({p} ORDER BY d)",
    "COUNT(*) OVER ({p})",
    "COUNT(x) OVER ({p} ORDER BY d)",
    "MIN(cost) OVER ({p} ORDER BY d)",
    "MAX(x) OVER ({p})",
    "AVG(cost) OVER ({p})",
    "FIRST_VALUE(x) OVER ({p} ORDER BY d{t})",
    "LAST_VALUE(cost) OVER ({p} ORDER BY d{t} " + ALL_ROWS + ")",
    "SUM(cost) OVER ({p} ORDER BY d{t} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "x - LAG(x) OVER ({p} ORDER BY d NULLS FIRST{t})",
    "CASE WHEN d > LAG(d) OVER ({p} ORDER BY d{t}) THEN 1 ELSE 0 END",
    "CASE WHEN LAG(ward) OVER ({p} ORDER BY x{t}) = ward THEN 1 ELSE 0 END",
    "CASE WHEN CAST(d AS TIMESTAMP) - LAG(d) OVER ({p} ORDER BY d{t}) < INTERVAL 20 DAY THEN 1 ELSE 0 END",
    "CASE WHEN d < LAG(d) OVER ({p} ORDER BY d{t}) + INTERVAL '1 month' THEN 1 ELSE 0 END",
    "COUNT_IF(sick) OVER ({p} ORDER BY d)",
]
MEMBERS = [
    "pid IN (SELECT pid FROM labs WHERE score > 2)",
    "pid NOT IN (SELECT pid FROM labs WHERE score > 2 OR score IS NULL)",
    "pid IN (SELECT pid FROM visits WHERE ward = 'A')",
    "EXISTS (SELECT 1 FROM labs l WHERE l.pid = visits.pid)",
    "NOT EXISTS (SELECT * FROM labs AS l WHERE visits.pid = l.pid AND l.kind = 'u')",
    "pid IN (SELECT pid FROM visits GROUP BY pid HAVING COUNT(*) >= 2)",
    "pid NOT IN (SELECT pid FROM labs WHERE pid IS NOT NULL GROUP BY pid HAVING MAX(score) > 3)",
    "pid IN (SELECT v.pid FROM visits v JOIN clinics c ON v.clinic_id = c.clinic_id WHERE c.region = 'north')",
    "pid IN (SELECT DISTINCT pid FROM (SELECT pid, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY x{t}) AS r, ward "
    "FROM visits) f WHERE r = 1 AND ward = 'Öst')",
]


HAVINGS = ["COUNT(*) >= 2", "a > 1", "MAX(x) > 3 OR NOT BOOL_OR(sick)"]


@dataclass(frozen=True)
class Lists:
    """What a question about people is made of."""

    conditions: Sequence[str]
    members: Sequence[str]
    aggregates: Sequence[str]
    havings: Sequence[str]
    windows: Sequence[str]
    keys: Sequence[str]


PLAIN = Lists(CONDITIONS, MEMBERS, AGGREGATES, HAVINGS, WINDOWS, KEYS)
LAST_WORDS = {
    "{t}": ", vid",
    "{latest}": "CASE WHEN d IS NOT NULL THEN ROW(d, -vid) END",
    "{earliest}": "CASE WHEN d IS NOT NULL THEN ROW(d, vid) END",
}


@dataclass(frozen=True)
class PersonQuery:
    """One query, in two wordings with one meaning, and how many group columns it gives."""

    sql: str
    plain: str
    groups: int


def draw_query(seed: int) -> PersonQuery:
    """Draw a query of one of the person stage's forms."""
    chance = random.Random(seed)
    text, groups = chance.choice([_measured] * 6 + [_chosen, _joined])(chance)
    full = text
    for mark, last_word in LAST_WORDS.items():
        full = full.replace(mark, last_word)
    return PersonQuery(shorten(text), full, groups)


def shorten(text: str) -> str:
    """Return a query as an analyst writes it, without the last word on order."""
    return text.replace("{t}", "").replace("{latest}", "d").replace("{earliest}", "d")


def _where(chance: random.Random, lists: Lists, *, members: bool = True) -> str:
    rows, people = lists.conditions, lists.members
    kinds = chance.choice([[], [rows], [people], [rows, people]] if members else [[], [rows]])
    parts = [f"({chance.choice(kind)})" for kind in kinds]
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def draw_people(chance: random.Random, lists: Lists) -> tuple[str, list[str], set[str]]:
    """Draw a subquery with columns a and b: its text, its columns to group by, and the forms that it is made of."""
    form = chance.choice([_grouped, _grouped, _windowed, _windowed, _nested, _one_row])
    source, keys, parts = form(chance, lists)
    return source, keys, parts | ({"member"} if any(each in source for each in lists.members) else set())


def _measured(chance: random.Random) -> tuple[str, int]:
    """Measure what a subquery gives."""
    source, keys, _ = draw_people(chance, PLAIN)
    asked = ", ".join(chance.sample(["COUNT(*)", "SUM(a)", "COUNT(b)", "SUM(b)", "COUNT(DISTINCT pid)"], 3))
    where = chance.choice(["", "", " WHERE a > 1", " WHERE b <= 2 OR a IS NULL"])
    group = chance.choice([*keys, None]) if keys else None
    if group is None:
        return f"SELECT {asked} FROM ({source}) t{where}", 0
    return f"SELECT {group} AS k, {asked} FROM ({source}) t{where} GROUP BY {group}", 1


def _grouped(chance: random.Random, lists: Lists) -> tuple[str, list[str], set[str]]:
    first, second = chance.sample(lists.aggregates, 2)
    key = chance.choice([None, None, *lists.keys])
    having = chance.choice(["", "", *(f" HAVING {test}" for test in lists.havings)])
    keys = "pid" if key is None else f"pid, {key}"
    named = "" if key is None else f", {key} AS k0"
    joined = chance.choice(["visits", "visits", "visits JOIN clinics USING (clinic_id)"]) if key is None else "visits"
    where = _where(chance, lists, members=joined == "visits")
    ward = chance.choice(["MAX(ward)", "ARG_MAX(ward, {latest})", "ARG_MIN(ward, {earliest})"])
    source = f"SELECT pid{named}, {ward} AS w, {first} AS a, {second} AS b FROM {joined}{where} GROUP BY {keys}{having}"
    parts = {"group by unit", *(["having"] if having else []), *(["public join"] if joined != "visits" else [])}
    return source, ["w"] if key is None else ["w", "k0"], parts


def _windowed(chance: random.Random, lists: Lists) -> tuple[str, list[str], set[str]]:
    first, second = (each.replace("{p}", "PARTITION BY pid") for each in chance.sample(lists.windows, 2))
    source = f"SELECT pid, ward AS w, sick, {first} AS a, {second} AS b FROM visits{_where(chance, lists)}"
    if chance.random() < 0.3:
        source += " QUALIFY ROW_NUMBER() OVER (PARTITION BY pid ORDER BY d{t}) <= 2"
    return source, ["w", "sick"], {"window"}


def _chosen(chance: random.Random) -> tuple[str, int]:
    parts = [chance.choice(MEMBERS), *chance.sample([*CONDITIONS, *MEMBERS], chance.choice([0, 1]))]
    where = chance.choice([" AND ", " OR "]).join(f"({part})" for part in parts)
    asked = "COUNT(*), SUM(x), COUNT(cost)"
    if chance.random() < 0.5:
        return f"SELECT ward, {asked} FROM visits WHERE {where} GROUP BY ward", 1
    return f"SELECT {asked}, COUNT(*) FILTER (WHERE {chance.choice(MEMBERS)}) FROM visits WHERE {where}", 0


def _nested(chance: random.Random, lists: Lists) -> tuple[str, list[str], set[str]]:
    window = chance.choice(lists.windows).replace("{p}", "PARTITION BY pid")
    inner = f"SELECT pid, ward, x, {window} AS c FROM visits{_where(chance, lists)}"
    outer = chance.choice(["SUM(c)", "MAX(c)", "COUNT(c)", "MIN(c)"])
    source = f"SELECT pid, MAX(ward) AS w, {outer} AS a, COUNT(*) AS b FROM ({inner}) u GROUP BY pid"
    return source, ["w"], {"window", "group by unit"}


def _one_row(chance: random.Random, lists: Lists) -> tuple[str, list[str], set[str]]:
    inner = (
        "SELECT pid, ward AS w, x AS a, cost AS b, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY d{t}) AS r FROM visits"
    )
    if chance.random() < 0.4:
        on, order = chance.choice([("pid", "d DESC NULLS LAST"), ("pid", "b"), ("pid, w", "w, d")])
        chosen = f"SELECT DISTINCT ON ({on}) pid, ward AS w, x AS a, cost AS b FROM visits ORDER BY pid, {order}{{t}}"
        return chosen, ["w"], set()
    limit = chance.choice(["r = 1", "r <= 2", "r < 3"])
    return f"SELECT * FROM ({inner}) f WHERE {limit}", ["w"], {"window"}


JOINED = [
    "(SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid HAVING COUNT(*) >= 2) p ON v.pid = p.pid",
    "(SELECT pid, SUM(score) AS n FROM labs WHERE kind <> 'w' GROUP BY pid) p ON v.pid = p.pid",
    "(SELECT pid, ward, COUNT(x) AS n FROM visits GROUP BY pid, ward) p ON p.pid = v.pid AND v.ward = p.ward",
    "(SELECT pid, score + 1 AS n FROM labs WHERE score > 1) p ON v.pid = p.pid",
]


def _joined(chance: random.Random) -> tuple[str, int]:
    kind = chance.choice(["JOIN", "LEFT JOIN"])
    source = f"visits v {kind} {chance.choice(JOINED)}"
    where = chance.choice(["", " WHERE p.n > 1", " WHERE v.x < 5 OR p.n IS NULL"])
    if chance.random() < 0.3:
        inner = f"SELECT v.pid, SUM(v.x - p.n) AS a, COUNT(p.n) AS b FROM {source}{where} GROUP BY v.pid"
        return f"SELECT COUNT(*), SUM(a), SUM(b), COUNT(DISTINCT pid) FROM ({inner}) t", 0
    asked = "COUNT(*), SUM(p.n), SUM(v.x * p.n), COUNT(v.cost)"
    if chance.random() < 0.5:
        return f"SELECT v.ward, {asked} FROM {source}{where} GROUP BY v.ward", 1
    return f"SELECT {asked} FROM {source}{where}", 0


FULL_JOINS = {
    "visits {0} clinics USING (clinic_id)": "clinics",
    "visits {0} clinics ON (clinics.clinic_id = visits.clinic_id)": "clinics",
    "visits {0} labs USING (pid)": "labs",
    "visits {0} labs ON visits.pid = labs.pid AND visits.x = labs.score": "labs",
    "visits {0} clinics USING (clinic_id) LEFT JOIN labs USING (pid)": "clinics labs",
    "visits JOIN labs USING (pid) {0} clinics ON labs.score = clinics.clinic_id": "clinics labs",
}
OFFERED = {
    "visits": (["SUM(x)", "COUNT(visits.cost)"], ["ward", "sick"], ["ward = 'A'", "x > 90"]),
    "clinics": (["SUM(LEAST(beds, 9))", "COUNT(DISTINCT region)"], ["region"], ["region <> 'north'", "beds IS NULL"]),
    "labs": (["SUM(score)", "COUNT(DISTINCT lab)"], ["kind"], ["score IS NULL", "kind <> 'u' OR x < 3"]),
}


def draw_join(seed: int, source: str, names: str) -> PersonQuery:
    """Draw a query of whole tables that are joined: public ones by their keys, private ones by individual."""
    chance = random.Random(seed)
    asked, keys, tests = (
        [each for name in ("visits", *names.split()) for each in OFFERED[name][kind]] for kind in range(3)
    )
    origin = f"FROM {source}{chance.choice(['', f' WHERE {chance.choice(tests)}'])}"
    measured = ", ".join(["COUNT(*)", *chance.sample(asked, 2)])
    group = chance.choice([None, *keys])
    sql = f"SELECT {measured} {origin}" if group is None else f"SELECT {group}, {measured} {origin} GROUP BY 1"
    return PersonQuery(sql, sql, int(group is not None))
