"""Who is listed as most exposed, against really leaving each record out.

A query is drawn together with its meaning (query_meanings.py). Whoever meets its WHERE has to be listed once, with the
sensitivity that deleting that very record gives; nobody else is listed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings

from dosimeter import Dataset
from dosimeter.risk.exposure import ExposedPerson
from dosimeter.schema import Column, ColumnType
from tests.oracle.query_meanings import ARROW, CITIES, SCHEMA, SLOTS, TABLES, Query, Row, queries

NUMBERED = replace(SCHEMA, columns={**SCHEMA.columns, "id": Column("id", ColumnType.INTEGER, identifying=True)})


def open_numbered(rows: Sequence[Row]) -> Dataset:
    table = pa.Table.from_pylist(list(rows), schema=ARROW)
    return Dataset.open(table.append_column("id", pa.array(range(len(rows)), pa.int64())), schema=NUMBERED)


def expected_sensitivities(query: Query, rows: Sequence[Row]) -> dict[int, float]:
    """What deleting each record that meets the WHERE does to the measured numbers, in the norm of Laplace (N1, S5)."""
    keys = query.keys(rows)
    whole = query.measure(rows, keys)
    deltas = [float(part.delta) for part in query.parts]
    if len(deltas) == 1 or query.options.sensitivity is not None:
        deltas = [1.0] * len(deltas)
    found = {}
    for at, row in enumerate(rows):
        if query.matches(row):
            left = query.measure([*rows[:at], *rows[at + 1 :]], keys)
            moves = [abs(float(before - after)) for before, after in zip(whole, left, strict=True)]
            found[at] = sum(move / deltas[cell % len(deltas)] for cell, move in enumerate(moves))
    return found


def check_listing(rows: Sequence[Row], query: Query) -> None:
    expected = expected_sensitivities(query, rows)
    options = query.options
    with open_numbered(rows) as dataset:
        risk = dataset.risk(
            query.sql, groups=options.groups, min_rows=options.min_rows, sensitivity=options.sensitivity
        )
        single = risk.list_people(2 * SLOTS, columns=["id"], reveal=True)
        together = risk.list_people(2 * SLOTS, columns=["city"])
        first = risk.list_people(3, columns=["id"], reveal=True)
    found = {person.columns["id"]: person.sensitivity for person in single}
    assert Counter(person.columns["id"] for person in single) == Counter(expected.keys())
    assert all(person.people == 1 for person in single)
    assert all(math.isclose(found[at], expected[at], rel_tol=1e-9, abs_tol=1e-9) for at in expected)
    assert [person.sensitivity for person in single] == sorted(found.values(), reverse=True)
    unmoved = [person.why == "leaving them out changes nothing" for person in single]
    assert unmoved == [person.sensitivity == 0.0 for person in single]
    assert sum(person.people for person in together) == len(expected)
    assert first == single[:3]


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(rows=TABLES, query=queries())
def test_everybody_is_listed_once_with_their_own_sensitivity(rows: list[Row], query: Query) -> None:
    note(query.sql)
    check_listing(rows, query)


@pytest.mark.long
@settings(max_examples=3000, derandomize=False, suppress_health_check=list(HealthCheck))
@given(rows=TABLES, query=queries())
def test_everybody_is_listed_once_at_length(rows: list[Row], query: Query) -> None:
    note(query.sql)
    check_listing(rows, query)


# ---------------------------------------------------------------- groups that nobody declared


def list_cities(cities: Sequence[str | None], sql: str) -> list[ExposedPerson]:
    rows: list[Row] = [
        {"x": at % 5, "y": 3, "pay": 0.5, "city": city, "member": True, "born": None} for at, city in enumerate(cities)
    ]
    with open_numbered(rows) as dataset:
        return dataset.risk(sql).list_people(len(cities), columns=["city"])


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(x)", "AVG(x)", "MEDIAN(x)", "COUNT(DISTINCT x)", "COUNT(x)"])
def test_people_in_undeclared_groups_are_listed_for_themselves(aggregate: str) -> None:
    bonn, koeln, _ = CITIES
    cities = [bonn] * 4 + [koeln] * 3 + ["Nowhere"] * 2 + ["Elsewhere"] * 2 + [None]
    listed = list_cities(cities, f"SELECT city, {aggregate} FROM people GROUP BY city")
    assert sum(person.people for person in listed) == len(cities)
    for person in listed:
        if person.columns["city"] not in CITIES:
            assert (person.sensitivity, person.why) == (0.0, "leaving them out changes nothing")
    undeclared = {p.columns["city"]: p.people for p in listed if p.columns["city"] not in CITIES}
    assert undeclared == {"Nowhere": 2, "Elsewhere": 2, None: 1}
