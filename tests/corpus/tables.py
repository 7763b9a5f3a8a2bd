"""The tables that the corpus asks: a schema beside each file of queries, and rows where answers are compared.

The rows are made of formulas, not drawn, so that every run asks the same: trips of a taxi, flights of a year, lines of
orders (as in TPC-H), visits of a hospital, answers of a survey, and small tables for what one theme needs. They keep to
what their schemas declare, so that a plain engine gives the answer that is meant.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import Any

import pyarrow as pa

from dosimeter import Dataset
from dosimeter.schema import Schema, load_schema
from tests.corpus.reading import FOLDER

Row = dict[str, Any]
ZONES = ("Astoria", "Harlem", "JFK Airport", "Midtown", "SoHo")
MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
PARTS = ("PROMO BRASS", "PROMO STEEL", "STANDARD BRASS", "STANDARD STEEL")
WARDS = ("cardiology", "maternity", "oncology", "surgery")
LARGE = 2**62 - 1


def spread(at: int, salt: int, size: int) -> int:
    """Return a number below ``size`` that looks drawn, and is the same in every run."""
    return ((at + 1) * 2_654_435_761 + salt * 40_503_001) % 4_294_967_291 // 64 % size


def pick(at: int, salt: int, values: Any) -> Any:
    return values[spread(at, salt, len(values))]


# ---------------------------------------------------------------- what analysts ask about


def make_trips() -> Iterator[Row]:
    for at in range(240):
        start = datetime.fromisoformat("2024-01-01") + timedelta(minutes=spread(at, 1, 91 * 1440))
        yield {
            "trip_id": at,
            "pickup": start,
            "dropoff": start + timedelta(minutes=4 + spread(at, 2, 55)),
            "zone_id": 1 + spread(at, 3, 5),
            "passengers": spread(at, 4, 7),
            "distance": round(spread(at, 5, 300) / 10, 1),
            "fare": round(3 + spread(at, 6, 9000) / 100, 2),
            "tip": None if at % 10 == 0 else round(spread(at, 7, 1500) / 100, 2),
            "payment": pick(at, 8, ("card", "cash", "none")) if at % 5 else "card",
        }


def make_flights() -> Iterator[Row]:
    for at in range(300):
        day = date(2023, 1, 1) + timedelta(days=spread(at, 9, 365))
        gone = at % 23 == 0
        late = spread(at, 10, 180) - 30
        yield {
            "carrier": pick(at, 11, ("AA", "B6", "DL", "UA")) if at % 6 else "DL",
            "origin": pick(at, 12, ("EWR", "JFK", "LGA")),
            "flown": day,
            "scheduled": datetime.combine(day, time(5 + at % 18, (at * 7) % 60)),
            "dep_delay": None if gone else late,
            "arr_delay": None if gone else late + spread(at, 13, 40) - 20,
            "distance": 100 + spread(at, 14, 2500),
            "cancelled": gone,
        }


def make_lines() -> Iterator[Row]:
    for at in range(240):
        ship = date(1994, 1, 1) + timedelta(days=spread(at, 15, 1800))
        yield {
            "l_custkey": at % 60,
            "l_linekey": at,
            "l_partkey": 1 + spread(at, 16, 20),
            "l_quantity": 1 + spread(at, 17, 50),
            "l_extendedprice": round(100 + spread(at, 18, 900_000) / 100, 2),
            "l_discount": round(spread(at, 19, 11) / 100, 2),
            "l_tax": round(spread(at, 20, 9) / 100, 2),
            "l_returnflag": pick(at, 21, "ANR"),
            "l_linestatus": pick(at, 22, "FO"),
            "l_shipdate": ship,
            "l_commitdate": ship + timedelta(days=spread(at, 23, 40) - 5),
            "l_receiptdate": ship + timedelta(days=1 + spread(at, 24, 30)),
            "l_shipmode": pick(at, 25, MODES),
            "o_orderpriority": pick(at, 26, PRIORITIES),
        }


def make_hospital() -> Iterator[Row]:
    for at in range(190):
        patient = at % 70
        admitted = date(2022, 1, 1) + timedelta(days=(patient * 29 + (at // 70) * (20 + patient % 60)) % 700)
        yield {
            "patient_id": patient,
            "visit_id": at,
            "ward": pick(at, 27, WARDS),
            "admitted": admitted,
            "discharged": admitted + timedelta(days=spread(at, 28, 21)),
            "code": pick(at, 29, ("E11.9", "I10", "I21.0", "J45.0", "O80")),
            "sex": "female" if patient % 5 < 3 else "male",
            "age": 20 + (patient * 13) % 70,
            "cost": round(150 + spread(at, 30, 1_500_000) / 100, 2),
            "emergency": spread(at, 31, 4) == 1,
        }


def make_survey() -> Iterator[Row]:
    for at in range(200):
        yield {
            "respondent": at,
            "region": pick(at, 32, ("East", "North", "South", "West")),
            "sex": pick(at, 33, "fmx"),
            "age": 16 + spread(at, 34, 80),
            "income": None if at % 9 == 0 else spread(at, 35, 120_000),
            "satisfaction": 1 + spread(at, 36, 5),
            "recommends": spread(at, 37, 11),
            "employed": at % 3 != 0,
            "answered": datetime.fromisoformat("2025-05-01") + timedelta(hours=spread(at, 38, 740)),
            "comment": None if at % 2 else f"note {at % 5}",
        }


# ---------------------------------------------------------------- what one theme needs


def make_sixty_people() -> Iterator[Row]:
    """Spread over every declared group; some have no pay."""
    for at in range(60):
        pay = None if at % 11 == 0 else ((at * at) % 400) / 2
        yield {"age": (at * 37) % 23, "city": ("Bonn", "Köln")[at % 3 == 0], "member": at % 7 < 3, "pay": pay}


def make_stays() -> Iterator[Row]:
    for at, ward in enumerate(["a"] * 5 + ["b"] * 9 + ["c"] * 12 + ["d"] * 15 + [None] * 19):
        day = date(2024, 3, 1 + at % 4)
        dose = round(at % 5 / 10, 1)
        yield {"stay": at, "ward": ward, "day": day, "urgent": at % 3 == 0, "dose": dose, "hours": at % 21}


def make_functions() -> Iterator[Row]:
    for at in range(55):
        came = date(2024, 1, 1) + timedelta(days=spread(at, 41, 340))
        yield {
            "patient": at % 25,
            "stay": at,
            "age": pick(at, 42, [None, *range(1, 100, 7)]),
            "cost": pick(at, 43, [None, 0.0, 0.5, *(step / 2 for step in range(90, 1800, 190))]),
            "ward": pick(at, 44, ["North ", "south", "Öst", None]),
            "urgent": pick(at, 45, [True, False, None]),
            "came": came,
            "went": datetime.combine(came, time()) + timedelta(hours=spread(at, 46, 500)),
        }


def make_points() -> Iterator[Row]:
    for (a0, a1), a2, g0 in zip(
        itertools.product([0, 4, 5, None], [-3, 1, None]), itertools.cycle([0.5, 2.0, None]), itertools.cycle("uvvu")
    ):
        yield {"a0": a0, "a1": a1, "a2": a2, "g0": g0, "people": a0}


def make_numbers() -> Iterator[Row]:
    cells = zip((1, 2, 6, 1, 1, 1), (3, 5, LARGE, 0, 1, None), (True, None, True, False, False, True), strict=True)
    for at, (pid, (y, large, sick)) in enumerate(zip(("ann", "ann", "bob", "cy", "cy", "cy"), cells, strict=True)):
        yield {"pid": pid, "vid": at + 1, "y": y, "large": large, "sick": sick}


def make_cohorts() -> Iterator[Row]:
    for at in range(1000):
        yield {
            "pid": at % 400,
            "vid": at,
            "day": date(2013, 1, 1) + timedelta(days=spread(at, 51, 324)),
            "seen": datetime.fromisoformat("2013-01-01") + timedelta(minutes=spread(at, 52, 3601)),
            "x": 3 + spread(at, 53, 85),
            "y": (spread(at, 54, 121) - 40) / 2,
        }


ROWS: dict[str, Callable[[], Iterable[Row]]] = {
    "trips": make_trips,
    "flights": make_flights,
    "lineitem": make_lines,
    "hospital": make_hospital,
    "survey": make_survey,
    "sixty people": make_sixty_people,
    "stays": make_stays,
    "functions": make_functions,
    "points": make_points,
    "numbers": make_numbers,
    "cohorts": make_cohorts,
}
BOROUGHS = ["Queens", "Manhattan", "Queens", "Manhattan", "Manhattan"]
OTHERS: dict[str, dict[str, pa.Table]] = {
    "trips": {"zones": pa.table({"zone_id": [1, 2, 3, 4, 5], "zone": list(ZONES), "borough": BOROUGHS})},
    "lineitem": {"part": pa.table({"p_partkey": range(1, 21), "p_type": [PARTS[at % 4] for at in range(20)]})},
    "hospital": {
        "wards": pa.table(
            {
                "ward": list(WARDS),
                "name": [f"Ward of {ward}" for ward in WARDS],
                "beds": [12, 7, 0, 31],
                "opened": [date(1990 + 3 * at, 5, 1) for at in range(4)],
            }
        )
    },
    "stays": {
        "wards": pa.table(  # no d; one row without a key; beds of one are not known
            {
                "ward": ["a", "b", "c", "x", None],
                "name": ["Ännchen", "O'Brien", "", "nowhere", "lost"],
                "beds": [4, 3, None, 2, 1],
                "house": [1, 2, 1, 9, 1],
                "rent": [0.1, 2.5, 1e6, 0.0, 0.0],
            }
        ),
        "houses": pa.table({"house": [1, 2], "city": ["Bonn", None]}),
        "days": pa.table({"day": [date(2024, 3, 1), date(2024, 3, 3)], "feast": [True, False]}),
        "doses": pa.table({"dose": [0.1, 0.3], "words": ["little", "much"]}),
    },
    "numbers": {"labs": pa.table({"pid": ["ann", "bob", "bob"], "lab": [1, 2, 3]})},
}


@dataclass(frozen=True)
class Source:
    """A schema, and the tables that it declares; ``rows`` is None where queries are only planned."""

    schema: Schema
    rows: Any  # a pa.Table
    others: dict[str, pa.Table]

    @property
    def tables(self) -> dict[str, pa.Table]:
        return {self.schema.table: self.rows, **self.others}

    @property
    def individuals(self) -> list[Any]:
        """Who may be left out: the numbers of rows, or units."""
        unit = self.schema.unit
        return list(range(len(self.rows))) if unit == "row" else self.rows.column(unit).unique().to_pylist()

    def open(self) -> Dataset:
        return Dataset.open(self.rows, schema=self.schema, table=self.schema.table, tables=self.others)

    def without(self, who: Any) -> Source:
        """Really delete somebody, from every private table."""
        if self.schema.unit == "row":
            return replace(self, rows=self.rows.filter(pa.array([at != who for at in range(len(self.rows))])))
        units = {name: facts.unit for name, facts in self.schema.tables.items() if facts.unit is not None}
        others = {name: _drop(each, units[name], who) if name in units else each for name, each in self.others.items()}
        return replace(self, rows=_drop(self.rows, self.schema.unit, who), others=others)


def _drop(table: pa.Table, unit: str, who: Any) -> pa.Table:
    return table.filter(pa.array([each != who for each in table.column(unit).to_pylist()]))


@cache
def find_schema(name: str) -> Schema:
    """Return the schema of a table; "sixty people" are some columns of the people."""
    schema = load_schema(FOLDER / f"{name.removeprefix('sixty ')}.toml")
    if name != "sixty people":
        return schema
    columns = {column: schema.columns[column] for column in ("age", "city", "member", "pay")}
    return replace(schema, columns=columns, individuals=60, reviewed=True)


@cache
def find_source(name: str) -> Source:
    """Return a table of the corpus by its name, the same one each time."""
    rows = pa.Table.from_pylist(list(ROWS[name]())) if name in ROWS else None
    return Source(find_schema(name), rows, OTHERS.get(name, {}))
