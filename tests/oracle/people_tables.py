"""Small tables for generated queries: two private ones of the same people, and a public one beside them.

The same rows are opened with individuals that have many rows, or one each. Where it is asked for, cells are odd: values
at and beyond their bounds, NaN, infinities, repeated row keys, rows of nobody.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from dosimeter import Dataset
from dosimeter.schema import Schema, read_schema
from tests.rows_that_count import rows_that_count
from tests.shared_duckdb import ask_plain_duckdb

Row = dict[str, Any]
SLOTS = 20  # declared individuals: more than there are
WARDS = ("A", "b ", "O'C", "Öst")
FIRST, LAST = date(2024, 1, 29), date(2024, 4, 2)
FACTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("people.toml").read_text(encoding="utf-8"))
COLUMNS, LABS, CLINICS = FACTS["columns"], *(FACTS["tables"][name] for name in ("labs", "clinics"))
VISITS_ARROW = pa.schema(
    [
        ("pid", pa.string()), ("vid", pa.int64()), ("ward", pa.string()), ("code", pa.string()), ("x", pa.int64()),
        ("cost", pa.float64()), ("d", pa.date32()), ("at", pa.timestamp("us")), ("sick", pa.bool_()),
        ("note", pa.string()), ("clinic_id", pa.int64()),
    ]
)  # fmt: skip
LABS_ARROW = pa.schema(
    [("pid", pa.string()), ("lab", pa.int64()), ("score", pa.int64()), ("kind", pa.string()), ("taken", pa.date32())]
)
CLINICS_TABLE = pa.table({"clinic_id": [1, 2, 3], "region": ["north", "south", None], "beds": [0, 12, 5]})
DAYS = [FIRST, FIRST, date(2024, 2, 29), date(2024, 3, 1), date(2024, 3, 31), LAST, LAST]
CLOCKS = [timedelta(0), timedelta(hours=23, minutes=59, seconds=59), timedelta(hours=11), timedelta(minutes=30)]
NOTES = ["", " a", "cough", "COUGH ", "äx", "a%b"]
SPREAD: dict[str, Sequence[Any]] = {
    "x": range(-2, 7),
    "cost": [steps / 4 for steps in range(-8, 41)],
    "score": range(6),
}
EXTREME: dict[str, Sequence[Any]] = {"x": [-2, 6], "cost": [-2.0, 10.0], "score": [0, 5]}
BEYOND: dict[str, Sequence[Any]] = {
    "x": [-(2**62), 2**62, 7],
    "cost": [float("nan"), float("inf"), -1e300, 99.13],
    "score": [-(2**62), 2**62],
}


@dataclass(frozen=True)
class Tables:
    """Two private tables. ``m``, ``n``: how many rows of each individual count; ``m`` is None for one row each."""

    visits: list[Row]
    labs: list[Row]
    m: int | None
    n: int

    @property
    def schema(self) -> Schema:
        return read_schema(self.facts)

    @property
    def facts(self) -> dict[str, Any]:
        """The schema: whose rows these are, and how many of each count."""
        facts: dict[str, Any] = {"table": "visits", "individuals": SLOTS, "reviewed": True, "columns": COLUMNS}
        if self.m is None:
            return {**facts, "tables": {"clinics": CLINICS}}
        facts |= {"unit": "pid", "row_key": "vid", "max_rows_per_unit": self.m}
        return {**facts, "tables": {"labs": {**LABS, "max_rows_per_unit": self.n}, "clinics": CLINICS}}

    def open(self) -> Dataset:
        tables = write_tables(self.visits, self.labs)
        return Dataset.open(tables.pop("visits"), schema=self.facts, table="visits", tables=tables)

    @property
    def people(self) -> list[str]:
        return sorted({row["pid"] for row in self.visits if row["pid"] is not None})

    def without(self, person: str) -> Tables:
        """Really delete somebody, from both tables."""
        visits, labs = ([row for row in rows if row["pid"] != person] for rows in (self.visits, self.labs))
        return replace(self, visits=visits, labs=labs)

    def delete_each(self) -> list[Tables]:
        """Really delete everybody in turn: a row, or all rows of a person."""
        if self.m is None:
            return [replace(self, visits=[*self.visits[:at], *self.visits[at + 1 :]]) for at in range(len(self.visits))]
        return [self.without(person) for person in self.people]

    def counted(self) -> list[Row]:
        """Return the visits that count, which are found here by the rule of math.md."""
        return rows_that_count(self.visits, COLUMNS, "pid", self.m or 1)

    def ask_duckdb(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask DuckDB, as it is, about the rows that count."""
        labs = rows_that_count(self.labs, LABS["columns"], "pid", self.n)
        with ask_plain_duckdb(**write_tables(self.counted(), labs)) as plain:
            return plain.execute(sql).fetchall()


def write_tables(visits: list[Row], labs: list[Row]) -> dict[str, pa.Table]:
    return {
        "visits": pa.Table.from_pylist(visits, schema=VISITS_ARROW),
        "labs": pa.Table.from_pylist(labs, schema=LABS_ARROW),
        "clinics": CLINICS_TABLE,
    }


def draw_tables(seed: int, *, odd: bool = False, rows_each: Sequence[int | None] = (1, 2, 3, 5)) -> Tables:
    """Up to 16 visits of up to 5 people. Some odd tables hold nothing but extremes, so that Δ is reached."""
    chance = random.Random(seed)
    kinds = chance.choice([[SPREAD], [SPREAD, BEYOND], [EXTREME], [EXTREME, EXTREME, BEYOND]] if odd else [[SPREAD]])
    missing = chance.choice([0.0, 0.12, 0.3])
    people = [f"p{at}" for at in range(chance.choice([1, 2, 4, 5]))]
    nobody = chance.choice([[], [None]] if odd else [[]])
    keys = chance.sample(range(-20, 40), 24)
    repeated = odd and chance.random() < 0.4

    def some(values: Sequence[Any]) -> Any:
        return None if chance.random() < missing else chance.choice(values)

    def number(name: str) -> Any:
        return some(chance.choice(kinds)[name])

    m = chance.choice(rows_each)
    visits = []
    for at in range(chance.choice([0, 1, 3, 6, 9] if m is None else [0, 1, 5, 10, 16, 16])):
        day = chance.choice([*DAYS, date(1, 1, 1), date(9999, 12, 31)] if BEYOND in kinds else DAYS)
        moment = datetime.combine(chance.choice(DAYS), datetime.min.time()) + chance.choice(CLOCKS)
        visits.append(
            {
                "pid": chance.choice([*people, *nobody]),
                "vid": chance.choice(keys[:5]) if repeated else keys[at],
                "ward": some([*WARDS, "Nowhere"]),
                "code": some(["1", "2", " 3", "x", "y"]),
                "x": number("x"),
                "cost": number("cost"),
                "d": some([day]),
                "at": some([moment]),
                "sick": some([True, False]),
                "note": some(NOTES),
                "clinic_id": some(range(1, 6)),
            }
        )
    labs = [
        {
            "pid": chance.choice([*people, "stranger", None]),
            "lab": chance.choice([0, 1, 2]) if repeated else at,
            "score": number("score"),
            "kind": some(["u", "v", "w"]),
            "taken": some(DAYS),
        }
        for at in range(chance.choice([0, 3, 8]))
    ]
    return Tables(visits, labs, m, chance.choice([1, 2, 4]))
