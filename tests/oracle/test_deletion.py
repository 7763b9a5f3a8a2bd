"""The closed form against really leaving each individual out.

A query is drawn together with its meaning (query_meanings.py), and everybody is deleted in turn. What the engine
profiles must give the same vectors, person by person.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings

from dosimeter.engines.duckdb import DuckDBEngine, open_duckdb
from dosimeter.influence.contributions import Contributions
from dosimeter.influence.rows.row_profile import measure_answer, measure_profile
from dosimeter.mechanisms import Norm
from dosimeter.planning import PlanOptions, QueryPlan, plan_query
from tests.oracle.query_meanings import (
    ARROW,
    COLUMNS,
    FIRST,
    GROUPINGS,
    SCHEMA,
    SLOTS,
    TABLES,
    Grouping,
    Query,
    Row,
    compare,
    make_count,
    make_count_distinct,
    make_count_star,
    make_moments,
    make_quantile,
    make_sum,
    queries,
)
from tests.whole_tables import whole_table

# ---------------------------------------------------------------- the comparison


def delete_each(query: Query, rows: Sequence[Row], keys: Sequence[tuple[Any, ...]]) -> list[list[float]]:
    """c_i for everybody (N1), in real units: measure, leave out, measure again, subtract exactly."""
    whole = query.measure(rows, keys)
    changes = []
    for at in range(len(rows)):
        left = query.measure([*rows[:at], *rows[at + 1 :]], keys)
        changes.append([float(before - after) for before, after in zip(whole, left, strict=True)])
    return changes


def scale(query: Query, vector: Sequence[float], plan: QueryPlan) -> list[float]:
    """S5: several measures are each divided by their own Δ."""
    if len(query.parts) == 1 or plan.hand_sensitivity is not None:
        return list(vector)
    deltas = [float(part.delta) for part in query.parts]
    return [change / deltas[at % len(deltas)] for at, change in enumerate(vector)]


def norm_of(vector: Sequence[float], norm: Norm) -> float:
    return sum(map(abs, vector)) if norm == 1 else math.sqrt(sum(change * change for change in vector))


def expand(contributions: Contributions) -> list[list[float]]:
    """One dense vector per individual."""
    people: list[list[float]] = []
    for at, number in enumerate(contributions.people.tolist()):
        vector = [0.0] * contributions.k
        for place in range(int(contributions.starts[at]), int(contributions.starts[at + 1])):
            vector[int(contributions.cells[place])] += float(contributions.changes[place])
        people.extend(list(vector) for _ in range(number))
    return people


def close(left: Sequence[float], right: Sequence[float]) -> bool:
    return len(left) == len(right) and all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in zip(left, right, strict=True)
    )


def same_vectors(found: Sequence[Sequence[float]], expected: Sequence[Sequence[float]]) -> bool:
    """The same people as multisets, to 1e-9: sorted by a coarser rounding first, then compared number by number."""

    def ordered(vectors: Sequence[Sequence[float]]) -> list[Sequence[float]]:
        return sorted(vectors, key=lambda vector: [round(change, 6) + 0.0 for change in vector])

    pairs = zip(ordered(found), ordered(expected), strict=True)
    return len(found) == len(expected) and all(close(a, b) for a, b in pairs)


def open_rows(rows: Sequence[Row]) -> DuckDBEngine:
    engine = open_duckdb(pa.Table.from_pylist(list(rows), schema=ARROW))
    engine.impose(SCHEMA)
    return engine


def check(rows: Sequence[Row], *queries: Query) -> None:
    engine = open_rows(rows)
    try:
        for query in queries:
            check_query(rows, query, engine)
    finally:
        engine.close()


def check_query(rows: Sequence[Row], query: Query, engine: DuckDBEngine) -> None:
    plan = plan_query(query.sql, SCHEMA, query.options)
    assert [measure.label for measure in plan.measures], "something is measured"
    assert len(plan.measures) == len(query.parts)  # N3
    profile = measure_profile(plan, whole_table(engine))
    answer = measure_answer(plan, whole_table(engine))
    from_profile = measure_answer(plan, whole_table(engine), profile)
    keys = query.keys(rows)
    assert list(profile.keys) == keys
    assert list(answer.keys) == keys
    exact = [float(value) for value in query.measure(rows, keys)]
    assert close([float(value) for row in answer.values for value in row], exact)
    assert answer.values == from_profile.values
    outside = [row for row in rows if query.matches(row) and query.key(row) not in keys]
    assert profile.undeclared == len(outside)

    changes = delete_each(query, rows, keys)
    for norm in (1, 2):
        contributions = profile.contributions(SLOTS, norm)
        assert contributions.n == SLOTS
        assert contributions.k == len(keys) * len(query.parts)
        assert (contributions.people > 0).all()
        expected = [scale(query, vector, plan) for vector in changes]
        expected += [[0.0] * contributions.k] * (SLOTS - len(rows))
        found = expand(contributions)
        assert same_vectors(found, expected), (found, expected)
        assert close(
            sorted(norm_of(vector, norm) for vector in found), sorted(norm_of(vector, norm) for vector in expected)
        )
        if plan.hand_sensitivity is None:
            limit = plan.sensitivity(norm)
            assert all(norm_of(vector, norm) <= limit * (1 + 1e-12) + 1e-12 for vector in expected)
            for at, part in enumerate(query.parts):
                assert math.isclose(plan.measures[at].sensitivity(norm), float(part.delta), rel_tol=1e-12)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(rows=TABLES, query=queries())
def test_closed_form_is_deletion(rows: list[Row], query: Query) -> None:
    note(query.sql)
    check(rows, query)


@pytest.mark.long
@settings(
    max_examples=3000, derandomize=False, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(rows=TABLES, query=queries())
def test_closed_form_is_deletion_at_length(rows: list[Row], query: Query) -> None:
    note(query.sql)
    check(rows, query)


# ---------------------------------------------------------------- cases worth naming


BLANK: Row = {"x": None, "y": None, "pay": None, "city": None, "member": None, "born": None}
ALICE: Row = {"x": 1, "y": 3, "pay": 0.5, "city": "Bonn", "member": True, "born": FIRST}
FAR: Row = {"x": 1000, "y": -1000, "pay": 1e300, "city": "Nowhere", "member": False, "born": date(1900, 1, 1)}
X, Y, PAY = COLUMNS
EVERY_KIND = [
    make_count_star(None),
    make_count(X, None),
    make_count_distinct("pay", None),
    make_sum(PAY, None),
    make_moments("AVG", PAY, None, PlanOptions()),
    make_quantile("MIN({})", Fraction(0), X, None),
    make_quantile("MAX({})", Fraction(1), PAY, None),
    make_quantile("MEDIAN({})", Fraction(1, 2), Y, None),
    make_quantile("QUANTILE_CONT({}, 0.3)", Fraction(3, 10), PAY, None),
    make_moments("VAR_POP", X, None, PlanOptions()),
    make_moments("STDDEV_POP", PAY, None, PlanOptions()),
]


@pytest.mark.parametrize("groups", [(), (GROUPINGS[0],), (GROUPINGS[0], GROUPINGS[1])], ids=["none", "one", "two"])
@pytest.mark.parametrize(
    "rows",
    [[], [ALICE], [BLANK], [FAR], [ALICE] * 2, [ALICE, BLANK, FAR], [ALICE] * 5 + [BLANK] * 5],
    ids=["nobody", "one", "blank", "far", "twins", "three", "crowd"],
)
def test_edges(rows: list[Row], groups: tuple[Grouping, ...]) -> None:
    check(rows, *(Query((aggregate,), None, groups) for aggregate in EVERY_KIND))


def test_nobody_matches() -> None:
    never = compare("x", "=", 77, "77")
    check([ALICE, BLANK, FAR], *(Query((aggregate,), never, ()) for aggregate in EVERY_KIND))


def test_all_kinds_in_one_query() -> None:
    rows = [ALICE, BLANK, FAR, {**ALICE, "x": -2, "pay": 2.2}, {**ALICE, "city": "Köln", "y": 7}]
    check(rows, Query(tuple(EVERY_KIND), None, (GROUPINGS[0],)))


def test_a_shared_measure_counts_once() -> None:
    options = PlanOptions()
    shared = (
        make_count(PAY, None),
        make_moments("AVG", PAY, None, options),
        make_moments("VAR_POP", PAY, None, options),
    )
    query = Query(shared, None, ())
    assert len(query.parts) == 3
    check([ALICE, FAR, BLANK], query)
