"""Five small tables like those that analysts ask about, and what their schemas declare.

The tables are made of formulas, not drawn, so that every run asks the same: trips of a taxi, flights of a year, lines
of orders (as in TPC-H), visits of a clinic's patients and answers of a survey.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

import pyarrow as pa

from dosimeter.schema import Schema
from dosimeter.schema.toml import parse_schema

ZONES = ("Astoria", "Harlem", "JFK Airport", "Midtown", "SoHo")
CARRIERS = ("AA", "B6", "DL", "UA")
AIRPORTS = ("EWR", "JFK", "LGA")
MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
WARDS = ("cardiology", "maternity", "oncology", "surgery")
CODES = ("E11.9", "I10", "I21.0", "J45.0", "O80")
REGIONS = ("East", "North", "South", "West")


def spread(at: int, salt: int, size: int) -> int:
    """Return a number below ``size`` that looks drawn, and is the same in every run."""
    return ((at + 1) * 2_654_435_761 + salt * 40_503_001) % 4_294_967_291 // 64 % size


TRIPS = parse_schema(
    """
table = "trips"
individuals = 240
reviewed = true
[columns]
trip_id = { type = "integer", identifying = true }
pickup = { type = "timestamp", bounds = [2024-01-01T00:00:00, 2024-03-31T23:59:59] }
dropoff = { type = "timestamp", bounds = [2024-01-01T00:00:00, 2024-04-01T23:59:59] }
zone_id = { type = "integer", bounds = [1, 5] }
passengers = { type = "integer", bounds = [0, 6] }
distance = { type = "decimal", bounds = [0, 40], resolution = 0.1 }
fare = { type = "decimal", bounds = [1, 200], resolution = 0.01 }
tip = { type = "decimal", bounds = [0, 50], resolution = 0.01 }
payment = { type = "category", values = ["card", "cash", "none"] }
[tables.zones]
source = "zones"
public = true
key = "zone_id"
columns.zone_id = { type = "integer", bounds = [1, 5] }
columns.zone = { type = "category", values = ["Astoria", "Harlem", "JFK Airport", "Midtown", "SoHo"] }
columns.borough = { type = "category", values = ["Manhattan", "Queens"] }
"""
)
FLIGHTS = parse_schema(
    """
table = "flights"
individuals = 300
reviewed = true
[columns]
carrier = { type = "category", values = ["AA", "B6", "DL", "UA"] }
origin = { type = "category", values = ["EWR", "JFK", "LGA"] }
flown = { type = "date", bounds = [2023-01-01, 2023-12-31] }
scheduled = { type = "timestamp", bounds = [2023-01-01T00:00:00, 2023-12-31T23:59:59] }
dep_delay = { type = "integer", bounds = [-60, 600] }
arr_delay = { type = "integer", bounds = [-60, 600] }
distance = { type = "integer", bounds = [50, 5000] }
cancelled = { type = "boolean" }
"""
)
LINES = parse_schema(
    """
table = "lineitem"
individuals = 60
unit = "l_custkey"
max_rows_per_unit = 6
row_key = "l_linekey"
reviewed = true
[columns]
l_custkey = { type = "integer", identifying = true }
l_linekey = { type = "integer" }
l_partkey = { type = "integer", bounds = [1, 20] }
l_quantity = { type = "integer", bounds = [1, 50] }
l_extendedprice = { type = "decimal", bounds = [0, 10000], resolution = 0.01 }
l_discount = { type = "decimal", bounds = [0, 0.1], resolution = 0.01 }
l_tax = { type = "decimal", bounds = [0, 0.08], resolution = 0.01 }
l_returnflag = { type = "category", values = ["A", "N", "R"] }
l_linestatus = { type = "category", values = ["F", "O"] }
l_shipdate = { type = "date", bounds = [1994-01-01, 1998-12-31] }
l_commitdate = { type = "date", bounds = [1993-12-01, 1999-03-31] }
l_receiptdate = { type = "date", bounds = [1994-01-01, 1999-03-31] }
l_shipmode = { type = "category", values = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"] }
o_orderpriority = { type = "category", values = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"] }
[tables.part]
source = "part"
public = true
key = "p_partkey"
columns.p_partkey = { type = "integer", bounds = [1, 20] }
columns.p_type = { type = "category", values = ["PROMO BRASS", "PROMO STEEL", "STANDARD BRASS", "STANDARD STEEL"] }
"""
)
VISITS = parse_schema(
    """
table = "visits"
individuals = 70
unit = "patient_id"
max_rows_per_unit = 5
row_key = "visit_id"
reviewed = true
[columns]
patient_id = { type = "integer", identifying = true }
visit_id = { type = "integer" }
ward = { type = "category", values = ["cardiology", "maternity", "oncology", "surgery"] }
admitted = { type = "date", bounds = [2022-01-01, 2023-12-31] }
discharged = { type = "date", bounds = [2022-01-01, 2024-01-31] }
code = { type = "category", values = ["E11.9", "I10", "I21.0", "J45.0", "O80"] }
sex = { type = "category", values = ["female", "male"] }
age = { type = "integer", bounds = [0, 105] }
cost = { type = "decimal", bounds = [0, 20000], resolution = 0.01 }
emergency = { type = "boolean" }
[tables.wards]
source = "wards"
public = true
key = "ward"
columns.ward = { type = "category", values = ["cardiology", "maternity", "oncology", "surgery"] }
columns.name = { type = "text" }
columns.beds = { type = "integer", bounds = [0, 100] }
columns.opened = { type = "date" }
"""
)
SURVEY = parse_schema(
    """
table = "survey"
individuals = 200
reviewed = true
[columns]
respondent = { type = "integer", identifying = true }
region = { type = "category", values = ["East", "North", "South", "West"] }
sex = { type = "category", values = ["f", "m", "x"] }
age = { type = "integer", bounds = [16, 99] }
income = { type = "integer", bounds = [0, 250000] }
satisfaction = { type = "integer", bounds = [1, 5] }
recommends = { type = "integer", bounds = [0, 10] }
employed = { type = "boolean" }
answered = { type = "timestamp", bounds = [2025-05-01T00:00:00, 2025-05-31T23:59:59] }
comment = { type = "text" }
"""
)


def make_trips() -> pa.Table:
    rows = []
    for at in range(240):
        start = datetime.fromisoformat("2024-01-01") + timedelta(minutes=spread(at, 1, 91 * 1440))
        length = 4 + spread(at, 2, 55)
        rows.append(
            {
                "trip_id": at,
                "pickup": start,
                "dropoff": start + timedelta(minutes=length),
                "zone_id": 1 + spread(at, 3, 5),
                "passengers": spread(at, 4, 7),
                "distance": round(spread(at, 5, 300) / 10, 1),
                "fare": round(3 + spread(at, 6, 9000) / 100, 2),
                "tip": None if at % 10 == 0 else round(spread(at, 7, 1500) / 100, 2),
                "payment": ("card", "cash", "none")[spread(at, 8, 3) if at % 5 else 0],
            }
        )
    return pa.Table.from_pylist(rows)


def make_zones() -> pa.Table:
    boroughs = ("Queens", "Manhattan", "Queens", "Manhattan", "Manhattan")
    return pa.table({"zone_id": [1, 2, 3, 4, 5], "zone": list(ZONES), "borough": list(boroughs)})


def make_flights() -> pa.Table:
    rows = []
    for at in range(300):
        day = date(2023, 1, 1) + timedelta(days=spread(at, 9, 365))
        gone = at % 23 == 0
        late = spread(at, 10, 180) - 30
        rows.append(
            {
                "carrier": CARRIERS[spread(at, 11, 4) if at % 6 else 2],
                "origin": AIRPORTS[spread(at, 12, 3)],
                "flown": day,
                "scheduled": datetime.combine(day, time(5 + at % 18, (at * 7) % 60)),
                "dep_delay": None if gone else late,
                "arr_delay": None if gone else late + spread(at, 13, 40) - 20,
                "distance": 100 + spread(at, 14, 2500),
                "cancelled": gone,
            }
        )
    return pa.Table.from_pylist(rows)


def make_lines() -> pa.Table:
    rows = []
    for at in range(240):
        ship = date(1994, 1, 1) + timedelta(days=spread(at, 15, 1800))
        rows.append(
            {
                "l_custkey": at % 60,
                "l_linekey": at,
                "l_partkey": 1 + spread(at, 16, 20),
                "l_quantity": 1 + spread(at, 17, 50),
                "l_extendedprice": round(100 + spread(at, 18, 900_000) / 100, 2),
                "l_discount": round(spread(at, 19, 11) / 100, 2),
                "l_tax": round(spread(at, 20, 9) / 100, 2),
                "l_returnflag": "ANR"[spread(at, 21, 3)],
                "l_linestatus": "FO"[spread(at, 22, 2)],
                "l_shipdate": ship,
                "l_commitdate": ship + timedelta(days=spread(at, 23, 40) - 5),
                "l_receiptdate": ship + timedelta(days=1 + spread(at, 24, 30)),
                "l_shipmode": MODES[spread(at, 25, 7)],
                "o_orderpriority": ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")[spread(at, 26, 5)],
            }
        )
    return pa.Table.from_pylist(rows)


def make_parts() -> pa.Table:
    kinds = ("PROMO BRASS", "PROMO STEEL", "STANDARD BRASS", "STANDARD STEEL")
    return pa.table({"p_partkey": list(range(1, 21)), "p_type": [kinds[at % 4] for at in range(20)]})


def make_visits() -> pa.Table:
    rows = []
    for at in range(190):
        patient = at % 70
        admitted = date(2022, 1, 1) + timedelta(days=(patient * 29 + (at // 70) * (20 + patient % 60)) % 700)
        rows.append(
            {
                "patient_id": patient,
                "visit_id": at,
                "ward": WARDS[spread(at, 27, 4)],
                "admitted": admitted,
                "discharged": admitted + timedelta(days=spread(at, 28, 21)),
                "code": CODES[spread(at, 29, 5)],
                "sex": "female" if patient % 5 < 3 else "male",
                "age": 20 + (patient * 13) % 70,
                "cost": round(150 + spread(at, 30, 1_500_000) / 100, 2),
                "emergency": spread(at, 31, 4) == 1,
            }
        )
    return pa.Table.from_pylist(rows)


def make_wards() -> pa.Table:
    opened = [date(1990 + 3 * at, 5, 1) for at in range(4)]
    return pa.table(
        {"ward": list(WARDS), "name": [f"Ward of {ward}" for ward in WARDS], "beds": [12, 7, 0, 31], "opened": opened}
    )


def make_survey() -> pa.Table:
    rows = [
        {
            "respondent": at,
            "region": REGIONS[spread(at, 32, 4)],
            "sex": "fmx"[spread(at, 33, 3)],
            "age": 16 + spread(at, 34, 80),
            "income": None if at % 9 == 0 else spread(at, 35, 120_000),
            "satisfaction": 1 + spread(at, 36, 5),
            "recommends": spread(at, 37, 11),
            "employed": at % 3 != 0,
            "answered": datetime.fromisoformat("2025-05-01") + timedelta(hours=spread(at, 38, 740)),
            "comment": None if at % 2 else f"note {at % 5}",
        }
        for at in range(200)
    ]
    return pa.Table.from_pylist(rows)


SOURCES: dict[str, tuple[Schema, pa.Table, dict[str, pa.Table]]] = {
    "trips": (TRIPS, make_trips(), {"zones": make_zones()}),
    "flights": (FLIGHTS, make_flights(), {}),
    "lineitem": (LINES, make_lines(), {"part": make_parts()}),
    "visits": (VISITS, make_visits(), {"wards": make_wards()}),
    "survey": (SURVEY, make_survey(), {}),
}
