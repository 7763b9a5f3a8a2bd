"""Who is listed as most exposed, against really leaving each record out.

A query is drawn together with its meaning (query_meanings.py). Whoever meets its WHERE has to be listed once, with the
sensitivity that deleting that very record gives; nobody else is listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings

from dosimeter import Dataset
from dosimeter.risk.exposure import ExposedPerson
from tests.oracle.leaving_out import size_of
from tests.oracle.query_meanings import Query, queries
from tests.oracle.visits import ARROW, COLUMNS, GROUPS, SLOTS, TABLES, Row

NUMBERED = {**COLUMNS, "id": {"type": "integer", "identifying": True}}


def open_numbered(rows: Sequence[Row]) -> Dataset:
    table = pa.Table.from_pylist(list(rows), schema=ARROW).append_column("id", pa.array(range(len(rows)), pa.int64()))
    return Dataset.open(table, schema={"table": "visits", "individuals": SLOTS, "columns": NUMBERED})


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(rows=TABLES, query=queries())
def test_everybody_is_listed_once_with_their_own_sensitivity(rows: list[Row], query: Query) -> None:
    note(query.sql)
    left = query.leave_out(rows, 1)
    expected = {at: size_of(left[at], 1) for at, row in enumerate(rows) if query.matches(row)}
    options = query.options
    with open_numbered(rows) as dataset:
        risk = dataset.risk(
            query.sql, groups=options.groups, min_rows=options.min_rows, sensitivity=options.sensitivity
        )
        single = risk.list_people(2 * SLOTS, columns=["id"], reveal=True)
        together = risk.list_people(2 * SLOTS, columns=["grp"])
        first = risk.list_people(3, columns=["id"], reveal=True)
    found = {person.columns["id"]: person.sensitivity for person in single}
    assert Counter(person.columns["id"] for person in single) == Counter(expected.keys())
    assert all(person.people == 1 for person in single)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert [person.sensitivity for person in single] == sorted(found.values(), reverse=True)
    unmoved = [person.why == "leaving them out changes nothing" for person in single]
    assert unmoved == [person.sensitivity == 0.0 for person in single]
    assert sum(person.people for person in together) == len(expected)
    assert first == single[:3]


# ---------------------------------------------------------------- groups that nobody declared


def list_cities(cities: Sequence[str | None], sql: str) -> list[ExposedPerson]:
    rows: list[Row] = [{**dict.fromkeys(COLUMNS), "x": at % 5, "grp": city} for at, city in enumerate(cities)]
    with open_numbered(rows) as dataset:
        return dataset.risk(sql).list_people(len(cities), columns=["grp"])


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(x)", "AVG(x)", "MEDIAN(x)", "COUNT(DISTINCT x)", "COUNT(x)"])
def test_people_in_undeclared_groups_are_listed_for_themselves(aggregate: str) -> None:
    bonn, koeln, _ = GROUPS
    cities = [bonn] * 4 + [koeln] * 3 + ["Nowhere"] * 2 + ["Elsewhere"] * 2 + [None]
    listed = list_cities(cities, f"SELECT grp, {aggregate} FROM visits GROUP BY grp")
    assert sum(person.people for person in listed) == len(cities)
    for person in listed:
        if person.columns["grp"] not in GROUPS:
            assert (person.sensitivity, person.why) == (0.0, "leaving them out changes nothing")
    undeclared = {p.columns["grp"]: p.people for p in listed if p.columns["grp"] not in GROUPS}
    assert undeclared == {"Nowhere": 2, "Elsewhere": 2, None: 1}
