"""Questions about people: the exact answer is DuckDB's own, and leaving somebody out is really leaving them out.

Queries of every form of the person stage are generated (person_queries.py). On clean tables the measured vector is what
DuckDB answers to the query as it is written, over the rows that count. On odd ones (cells out of bounds, NaN, repeated
row keys, nobody's rows, more rows than declared) everybody is deleted in turn and the table is measured again: the
closed form says the same, and nobody moves the answer by more than its sensitivity.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.influence import measure_influence
from dosimeter.influence.rows.row_profile import RowProfile
from dosimeter.influence.units.unit_profile import UnitProfile
from dosimeter.sql import column_tree
from tests.oracle.leaving_out import assert_same_people, check_deletion, expand
from tests.oracle.people_tables import WARDS, Tables, draw_tables
from tests.oracle.person_queries import FULL_JOINS, PersonQuery, draw_join, draw_query

EXAMPLES = settings().max_examples // 2
SEEDS = st.integers(0, 2**32)


def check_exact(tables: Tables, asked: PersonQuery) -> None:
    with tables.open() as dataset:
        measured = dataset.risk(asked.sql, quantiles="noise").measured()
    judged = {tuple(row[: asked.groups]): row[asked.groups :] for row in tables.ask_duckdb(asked.plain)}
    for key, values in zip(measured.keys, measured.values, strict=True):
        expected = [float(value or 0) for value in judged.get(key, (0,) * len(values))]
        np.testing.assert_allclose([float(value) for value in values], expected, rtol=0, atol=1e-4, err_msg=asked.sql)


def check_left(tables: Tables, asked: PersonQuery, mechanism: Any) -> None:
    """Really delete each person."""
    with ExitStack() as opened:
        whole, *fewer = (opened.enter_context(each.open()) for each in (tables, *tables.delete_each()))
        check_deletion(whole.risk(asked.sql, mechanism=mechanism, quantiles="noise"), fewer)


MECHANISMS = st.sampled_from(["laplace", "gaussian"])


@given(table=SEEDS, query=SEEDS)
@settings(max_examples=EXAMPLES)
def test_the_exact_answer_is_duckdbs_own(table: int, query: int) -> None:
    check_exact(draw_tables(table), draw_query(query))


@given(table=SEEDS, query=SEEDS, mechanism=MECHANISMS)
@settings(max_examples=EXAMPLES)
def test_nobody_moves_the_answer_by_more_than_its_sensitivity(table: int, query: int, mechanism: Any) -> None:
    """Also where the data are not what the schema says."""
    check_left(draw_tables(table, odd=True), draw_query(query), mechanism)


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize("source", FULL_JOINS)
@given(table=SEEDS, query=SEEDS, mechanism=MECHANISMS)
@settings(max_examples=EXAMPLES // 3)
def test_joined_tables_too(source: str, kind: str, table: int, query: int, mechanism: Any) -> None:
    asked = draw_join(query, source.format(kind), FULL_JOINS[source])
    check_exact(draw_tables(table), asked)
    check_left(draw_tables(table, odd=True), asked, mechanism)


NESTED = [
    "WITH d AS (SELECT x * 2 - 1 AS y, ward FROM visits WHERE vid > 0) SELECT ward, SUM(y) FROM d GROUP BY ward",
    "SELECT w, COUNT(*) FROM (SELECT ward AS w, x AS y FROM (SELECT * FROM visits WHERE x > 1) a) b WHERE y < 6 "
    "GROUP BY w",
    "WITH d AS (SELECT region, beds, pid FROM visits JOIN clinics USING (clinic_id)) "
    "SELECT region, SUM(LEAST(beds, 9)), COUNT(DISTINCT pid) FROM d GROUP BY region",
    "SELECT clinics.region, SUM(d.y) FROM (SELECT x AS y, clinic_id FROM visits WHERE ward = 'A') d "
    "LEFT JOIN clinics ON d.clinic_id = clinics.clinic_id GROUP BY clinics.region",
    "WITH visits AS (SELECT * FROM visits WHERE ward = 'A') SELECT COUNT(*), SUM(score) FROM visits "
    "JOIN labs USING (pid)",
]


@pytest.mark.parametrize("sql", NESTED)
@given(table=SEEDS)
@settings(max_examples=EXAMPLES // 3)
def test_nested_queries_too(sql: str, table: int) -> None:
    asked = PersonQuery(sql, sql, sql.count("GROUP BY"))
    check_exact(draw_tables(table), asked)
    check_left(draw_tables(table, odd=True), asked, "laplace")


@given(table=SEEDS, query=SEEDS)
@settings(max_examples=EXAMPLES // 3)
def test_filters_and_by_are_about_the_tables_own_columns(table: int, query: int) -> None:
    """Everybody in the table is counted, whether or not the query's subqueries keep them."""
    tables, asked = draw_tables(table), draw_query(query)
    kept = tables.counted()
    wards = [{row["ward"] for row in kept if row["pid"] == person} for person in tables.people]
    agreed = Counter(next(iter(each)) if len(each) == 1 else None for each in wards)
    with tables.open() as dataset:
        risk = dataset.risk(asked.sql, quantiles="noise")
        assert {group.group: group.people for group in risk.by("ward")} == agreed
        _, flagged = measure_influence(risk.plan, risk.tables, max(risk.present, 1), 1, {"sick": column_tree("sick")})
        assert flagged.people[flagged.attributes["sick"]].sum() == len({row["pid"] for row in kept if row["sick"]})
        assert_same_people(expand(flagged), expand(risk.contributions))


@pytest.mark.parametrize(
    ("sql", "rows", "profile", "delta"),
    [
        ("SELECT AVG(n) FROM (SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid) p", 1, RowProfile, 2.0),
        ("SELECT COUNT(*) FROM (SELECT pid FROM visits GROUP BY pid HAVING COUNT(*) >= 3) p", 1, RowProfile, 1.0),
        ("SELECT MAX(s) FROM (SELECT pid, SUM(cost) AS s FROM visits GROUP BY pid) p", 1, RowProfile, 60.0),
        ("SELECT SUM(n) FROM (SELECT pid, ward, COUNT(*) AS n FROM visits GROUP BY pid, ward) p", 5, UnitProfile, 25.0),
        ("SELECT COUNT(DISTINCT pid) FROM visits", 5, UnitProfile, 1.0),
        ("SELECT ward, COUNT(DISTINCT pid) FROM visits GROUP BY ward", 5, UnitProfile, 4.0),
        ("SELECT COUNT(DISTINCT ward) FROM visits", 5, UnitProfile, 4.0),
        ("SELECT sick, COUNT(DISTINCT sick) FROM visits GROUP BY sick", 5, UnitProfile, 4.0),
        ("SELECT SUM(beds) FROM visits JOIN clinics USING (clinic_id)", 5, UnitProfile, 45.0),
        ("SELECT COUNT(*) FROM visits LEFT JOIN labs USING (pid)", 10, UnitProfile, 10.0),
    ],
)
def test_rows_and_sensitivity_after_the_person_stage(sql: str, rows: int, profile: type, delta: float) -> None:
    with replace(draw_tables(3), m=5, n=2).open() as dataset:
        risk = dataset.risk(sql)
        assert risk.plan.schema.max_rows_per_unit == rows
        assert isinstance(risk.profile, profile)
        assert math.isclose(risk.sensitivity, delta)


@given(table=SEEDS)
@settings(max_examples=EXAMPLES // 4)
def test_individuals_are_counted_beside_a_median_too(table: int) -> None:
    """The rest of the vector comes from a profile that counts rows."""
    tables = draw_tables(table)
    with tables.open() as dataset:
        measured = dataset.risk("SELECT ward, COUNT(DISTINCT pid), MEDIAN(x) FROM visits GROUP BY ward").measured()
    judged = dict(tables.ask_duckdb("SELECT ward, COUNT(DISTINCT pid) FROM visits GROUP BY ward"))
    assert {key: int(row[0]) for key, row in zip(measured.keys, measured.values, strict=True)} == {
        (ward,): judged.get(ward, 0) for ward in WARDS
    }
