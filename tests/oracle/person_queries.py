"""Generated questions about people: as the analyst writes them, and as DuckDB may be asked about the rows that count.

The two differ only in that the second has the last word on order written out (the row key), which SQL leaves open.
{t} stands for it in ORDER BY; {latest} and {earliest} stand for the date d by which ARG_MAX and ARG_MIN choose.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from dosimeter import Dataset
from tests.oracle.unit_oracle import Row, kept_rows
from tests.shared_duckdb import ask_plain_duckdb

SLOTS = 9
WARDS = ("A", "B", "O'C")
FIRST_DAY = date(2024, 1, 1)
FACTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("people.toml").read_text(encoding="utf-8"))
LABS, CLINICS = (FACTS["tables"][name] for name in ("labs", "clinics"))
del FACTS["tables"]  # each drawn table adds them, with limits of its own
VISITS_ARROW = pa.schema(
    [
        ("pid", pa.string()), ("vid", pa.int64()), ("ward", pa.string()), ("x", pa.int64()), ("cost", pa.float64()),
        ("d", pa.date32()), ("sick", pa.bool_()), ("clinic_id", pa.int64()),
    ]
)  # fmt: skip
LABS_ARROW = pa.schema([("pid", pa.string()), ("lab", pa.int64()), ("score", pa.int64()), ("kind", pa.string())])
CLINICS_TABLE = pa.table({"clinic_id": [1, 2, 3], "region": ["north", "south", "north"]})


@dataclass(frozen=True)
class Tables:
    """Two private tables of the same people."""

    visits: list[Row]
    labs: list[Row]
    m: int
    n: int

    def open(self) -> Dataset:
        schema = {**FACTS, "max_rows_per_unit": self.m}
        schema["tables"] = {"labs": {**LABS, "max_rows_per_unit": self.n}, "clinics": CLINICS}
        return Dataset.open(
            pa.Table.from_pylist(self.visits, schema=VISITS_ARROW),
            schema=schema,
            table="visits",
            tables={"labs": pa.Table.from_pylist(self.labs, schema=LABS_ARROW), "clinics": CLINICS_TABLE},
        )

    def without(self, person: str) -> Tables:
        """Really delete somebody, from both tables."""
        visits, labs = ([row for row in rows if row["pid"] != person] for rows in (self.visits, self.labs))
        return Tables(visits, labs, self.m, self.n)

    @property
    def people(self) -> list[str]:
        return sorted({row["pid"] for row in self.visits if row["pid"] is not None})

    def ask_duckdb(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask DuckDB, as it is, about the rows that count, which are found here by the rule of math.md."""
        visits = kept_rows(self.visits, self.m, FACTS["columns"], "pid")
        labs = kept_rows(self.labs, self.n, LABS["columns"], "pid")
        tables = {
            "visits": pa.Table.from_pylist(visits, schema=VISITS_ARROW),
            "labs": pa.Table.from_pylist(labs, schema=LABS_ARROW),
        }
        with ask_plain_duckdb(**tables, clinics=CLINICS_TABLE) as plain:
            return plain.execute(sql).fetchall()


def draw_tables(seed: int, *, odd: bool = False) -> Tables:
    """Up to 16 visits of up to 5 people. Odd: cells out of bounds, NaN, repeated row keys, rows of nobody."""
    chance = random.Random(seed)
    people = [f"p{at}" for at in range(chance.choice([1, 3, 4, 5]))]
    keys = chance.sample(range(-20, 40), 24)

    def some(values: Sequence[Any]) -> Any:
        return None if chance.random() < 0.12 else chance.choice(values)

    costs = [steps / 4 for steps in range(-8, 41)]
    wild = [-(2**62), 2**62, 7, -1]
    visits = [
        {
            "pid": chance.choice([*people, None] if odd else people),
            "vid": chance.choice(keys[:5]) if odd else keys[at],
            "ward": some([*WARDS, "Nowhere"]),
            "x": some([*range(7), *(wild if odd else [])]),
            "cost": some([*costs, *([float("nan"), float("inf"), -1e300, 99.13] if odd else [])]),
            "d": some([FIRST_DAY + timedelta(days) for days in (0, 1, 1, 20, 45, 45, 200)]),
            "sick": some([True, False]),
            "clinic_id": some(range(1, 6)),
        }
        for at in range(chance.choice([0, 1, 5, 10, 16, 16]))
    ]
    labs = [
        {
            "pid": chance.choice([*people, "stranger", None]),
            "lab": chance.choice([0, 1, 2]) if odd else at,
            "score": some([*range(6), *(wild if odd else [])]),
            "kind": some(["u", "v", "w"]),
        }
        for at in range(chance.choice([0, 3, 8]))
    ]
    return Tables(visits, labs, chance.choice([1, 2, 3, 5]), chance.choice([1, 2, 4]))


# ---------------------------------------------------------------- queries

CONDITIONS = ["x > 2", "ward = 'A'", "sick", "NOT sick", "cost < 3", "d >= '2024-01-15'", "x IS NULL", "ward <> 'B'"]
AGGREGATES = [
    "COUNT(*)", "COUNT(x)", "COUNT(DISTINCT ward)", "COUNT_IF(x > 2)", "SUM(x)", "SUM(cost)", "SUM(x * 2 - 3)",
    "MIN(x)", "MAX(cost)", "MIN(cost)", "AVG(x)", "AVG(cost)", "MEDIAN(x)", "MEDIAN(cost)", "MAX(x) - MIN(x)",
    "SUM(CASE WHEN sick THEN 1 ELSE 0 END)", "MAX(CASE WHEN ward = 'A' THEN 1 ELSE 0 END)",
    "COUNT(*) FILTER (WHERE sick)", "SUM(cost) FILTER (WHERE x > 1)", "2 * COUNT(*) + 1",
    "CASE WHEN BOOL_OR(sick) THEN 2 ELSE 0 END", "CASE WHEN BOOL_AND(x > 1) THEN 1 END",
    "ARG_MAX(x, {latest})", "ARG_MIN(cost, {earliest})", "MAX_BY(x * 2, {latest}) FILTER (WHERE sick)",
    "CASE WHEN ARG_MIN(sick, {earliest}) THEN 1 ELSE 0 END", "CASE WHEN ARG_MAX(ward, {latest}) = 'A' THEN 2 END",
    "CASE WHEN CAST(MAX(d) AS TIMESTAMP) - MIN(d) <= INTERVAL 44 DAY THEN 1 ELSE 0 END",
    "CASE WHEN MIN(d) < '2024-01-10' THEN 1 ELSE 0 END", "CASE WHEN MIN(ward) = MAX(ward) THEN 1 ELSE 0 END",
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
    "FROM visits) f WHERE r = 1 AND ward = 'B')",
]


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
    forms = [_grouped, _grouped, _windowed, _windowed, _chosen, _nested, _one_row, _joined]
    text, groups = chance.choice(forms)(chance)
    short, full = text, text
    for mark, last_word in LAST_WORDS.items():
        short, full = short.replace(mark, "" if mark == "{t}" else "d"), full.replace(mark, last_word)
    return PersonQuery(short, full, groups)


def _where(chance: random.Random, *, members: bool = True) -> str:
    kinds = chance.choice([[], [CONDITIONS], [MEMBERS], [CONDITIONS, MEMBERS]] if members else [[], [CONDITIONS]])
    parts = [chance.choice(kind) for kind in kinds]
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def _measured(chance: random.Random, source: str, keys: Sequence[str]) -> tuple[str, int]:
    """Measure what a subquery with columns a and b gives."""
    asked = ", ".join(chance.sample(["COUNT(*)", "SUM(a)", "COUNT(b)", "SUM(b)", "COUNT(DISTINCT pid)"], 3))
    where = chance.choice(["", "", " WHERE a > 1", " WHERE b <= 2 OR a IS NULL"])
    group = chance.choice([*keys, None]) if keys else None
    if group is None:
        return f"SELECT {asked} FROM ({source}) t{where}", 0
    return f"SELECT {group} AS k, {asked} FROM ({source}) t{where} GROUP BY {group}", 1


def _grouped(chance: random.Random) -> tuple[str, int]:
    first, second = chance.sample(AGGREGATES, 2)
    key = chance.choice([None, None, *KEYS])
    having = chance.choice(
        ["", "", " HAVING COUNT(*) >= 2", " HAVING a > 1", " HAVING MAX(x) > 3 OR NOT BOOL_OR(sick)"]
    )
    keys = "pid" if key is None else f"pid, {key}"
    named = "" if key is None else f", {key} AS k0"
    joined = chance.choice(["visits", "visits", "visits JOIN clinics USING (clinic_id)"]) if key is None else "visits"
    where = _where(chance, members=joined == "visits")
    ward = chance.choice(["MAX(ward)", "ARG_MAX(ward, {latest})", "ARG_MIN(ward, {earliest})"])
    source = f"SELECT pid{named}, {ward} AS w, {first} AS a, {second} AS b FROM {joined}{where} GROUP BY {keys}{having}"
    return _measured(chance, source, ["w"] if key is None else ["w", "k0"])


def _windowed(chance: random.Random) -> tuple[str, int]:
    first, second = (each.replace("{p}", "PARTITION BY pid") for each in chance.sample(WINDOWS, 2))
    source = f"SELECT pid, ward AS w, sick, {first} AS a, {second} AS b FROM visits{_where(chance)}"
    if chance.random() < 0.3:
        source += " QUALIFY ROW_NUMBER() OVER (PARTITION BY pid ORDER BY d{t}) <= 2"
    return _measured(chance, source, ["w", "sick"])


def _chosen(chance: random.Random) -> tuple[str, int]:
    parts = [chance.choice(MEMBERS), *chance.sample([*CONDITIONS, *MEMBERS], chance.choice([0, 1]))]
    where = chance.choice([" AND ", " OR "]).join(f"({part})" for part in parts)
    asked = "COUNT(*), SUM(x), COUNT(cost)"
    if chance.random() < 0.5:
        return f"SELECT ward, {asked} FROM visits WHERE {where} GROUP BY ward", 1
    return f"SELECT {asked}, COUNT(*) FILTER (WHERE {chance.choice(MEMBERS)}) FROM visits WHERE {where}", 0


def _nested(chance: random.Random) -> tuple[str, int]:
    window = chance.choice(WINDOWS).replace("{p}", "PARTITION BY pid")
    inner = f"SELECT pid, ward, x, {window} AS c FROM visits{_where(chance)}"
    outer = chance.choice(["SUM(c)", "MAX(c)", "COUNT(c)", "MIN(c)"])
    source = f"SELECT pid, MAX(ward) AS w, {outer} AS a, COUNT(*) AS b FROM ({inner}) u GROUP BY pid"
    return _measured(chance, source, ["w"])


def _one_row(chance: random.Random) -> tuple[str, int]:
    inner = (
        "SELECT pid, ward AS w, x AS a, cost AS b, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY d{t}) AS r FROM visits"
    )
    if chance.random() < 0.4:
        on, order = chance.choice([("pid", "d DESC NULLS LAST"), ("pid", "b"), ("pid, w", "w, d")])
        chosen = f"SELECT DISTINCT ON ({on}) pid, ward AS w, x AS a, cost AS b FROM visits ORDER BY pid, {order}{{t}}"
        return _measured(chance, chosen, ["w"])
    limit = chance.choice(["r = 1", "r <= 2", "r < 3"])
    return _measured(chance, f"SELECT * FROM ({inner}) f WHERE {limit}", ["w"])


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
        return _measured(chance, inner, [])
    asked = "COUNT(*), SUM(p.n), SUM(v.x * p.n), COUNT(v.cost)"
    if chance.random() < 0.5:
        return f"SELECT v.ward, {asked} FROM {source}{where} GROUP BY v.ward", 1
    return f"SELECT {asked} FROM {source}{where}", 0
