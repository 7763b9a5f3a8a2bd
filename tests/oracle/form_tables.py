"""Small tables for generated queries of every form: two private ones of the same people, and a public one beside them.

The same rows are opened with individuals that have many rows, or one each. Cells are odd on purpose: NULL, ties, values
at and beyond their bounds, NaN, infinities, texts nobody declared, repeated row keys, rows of nobody.
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
from tests.oracle.unit_oracle import Row

SLOTS = 20  # declared individuals: more than there are
WARDS = ("A", "b ", "O'C", "Öst")
FIRST, LAST = date(2024, 1, 29), date(2024, 4, 2)
FACTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("forms.toml").read_text(encoding="utf-8"))
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
        return read_schema(describe(self.m, self.n))

    def open(self) -> Dataset:
        visits = pa.Table.from_pylist(self.visits, schema=VISITS_ARROW)
        labs = pa.Table.from_pylist(self.labs, schema=LABS_ARROW)
        return Dataset.open(
            visits, schema=describe(self.m, self.n), table="visits", tables={"labs": labs, "clinics": CLINICS_TABLE}
        )

    def delete_each(self) -> list[Tables]:
        """Really delete everybody in turn: a row, or all rows of a person in both tables."""
        if self.m is None:
            return [replace(self, visits=[*self.visits[:at], *self.visits[at + 1 :]]) for at in range(len(self.visits))]
        people = sorted({row["pid"] for row in self.visits if row["pid"] is not None})
        return [replace(self, visits=_without(self.visits, who), labs=_without(self.labs, who)) for who in people]


def _without(rows: list[Row], person: str) -> list[Row]:
    return [row for row in rows if row["pid"] != person]


def describe(m: int | None, n: int) -> dict[str, Any]:
    """The schema: whose rows these are, and how many of each count."""
    facts: dict[str, Any] = {"table": "visits", "individuals": SLOTS, "reviewed": True, "columns": COLUMNS}
    if m is None:
        return {**facts, "tables": {"clinics": CLINICS}}
    facts |= {"unit": "pid", "row_key": "vid", "max_rows_per_unit": m}
    return {**facts, "tables": {"labs": {**LABS, "max_rows_per_unit": n}, "clinics": CLINICS}}


def draw_tables(seed: int) -> Tables:
    """Up to 16 visits of up to 5 people. Some tables hold nothing but extremes, so that Δ is reached."""
    chance = random.Random(seed)
    kinds = chance.choice([[SPREAD], [SPREAD, BEYOND], [EXTREME], [EXTREME, EXTREME, BEYOND]])
    missing = chance.choice([0.0, 0.12, 0.3])
    people = [f"p{at}" for at in range(chance.choice([1, 2, 4, 5]))]
    nobody = chance.choice([[], [None]])
    keys = chance.sample(range(-20, 40), 24)
    repeated = chance.random() < 0.4

    def some(values: Sequence[Any]) -> Any:
        return None if chance.random() < missing else chance.choice(values)

    def number(name: str) -> Any:
        return some(chance.choice(kinds)[name])

    m = chance.choice([None, 1, 2, 3, 5])
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
