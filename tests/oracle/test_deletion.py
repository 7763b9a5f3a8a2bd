"""The closed form against really leaving each individual out.

A query is drawn together with its meaning (query_meanings.py), and everybody is deleted in turn. What the engine
profiles must give the same vectors, person by person.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from datetime import date
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings

from dosimeter.engines.duckdb import DuckDBEngine, open_duckdb
from dosimeter.influence.rows.row_profile import measure_answer, measure_profile
from dosimeter.mechanisms import Norm
from dosimeter.planning import PlanOptions, plan_query
from tests.oracle.leaving_out import assert_same_people, expand, size_of
from tests.oracle.query_meanings import (
    GROUPINGS,
    PAY,
    Grouping,
    Query,
    X,
    Y,
    compare,
    make_count,
    make_count_distinct,
    make_count_star,
    make_moments,
    make_quantile,
    make_sum,
    queries,
)
from tests.oracle.visits import ARROW, COLUMNS, FIRST, SCHEMA, SLOTS, TABLES, Row
from tests.whole_tables import whole_table

NORMS: tuple[Norm, ...] = (1, 2)


def open_rows(rows: Sequence[Row]) -> DuckDBEngine:
    engine = open_duckdb(pa.Table.from_pylist(list(rows), schema=ARROW))
    engine.impose(SCHEMA)
    return engine


def check(rows: Sequence[Row], *queries: Query) -> None:
    with closing(open_rows(rows)) as engine:
        for query in queries:
            check_query(rows, query, engine)


def check_query(rows: Sequence[Row], query: Query, engine: DuckDBEngine) -> None:
    plan = plan_query(query.sql, SCHEMA, query.options)
    assert len(plan.measures) == len(query.parts) > 0  # N3
    profile = measure_profile(plan, whole_table(engine))
    answer = measure_answer(plan, whole_table(engine))
    keys = query.keys(rows)
    assert list(profile.keys) == list(answer.keys) == keys
    exact = [float(value) for value in query.measure(rows, keys)]
    assert [float(value) for row in answer.values for value in row] == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert answer.values == measure_answer(plan, whole_table(engine), profile).values
    outside = [row for row in rows if query.matches(row) and query.key(row) not in keys]
    assert profile.undeclared == len(outside)
    for norm in NORMS:
        contributions = profile.contributions(SLOTS, norm)
        assert contributions.n == SLOTS
        assert contributions.k == len(keys) * len(query.parts)
        assert (contributions.people > 0).all()
        left = list(query.leave_out(rows, norm).values())
        expected = [*left, *[(0.0,) * contributions.k] * (SLOTS - len(rows))]
        assert_same_people(expand(contributions), expected)
        sizes = np.repeat(contributions.norms(norm), contributions.people)
        assert sorted(sizes.tolist()) == pytest.approx(sorted(size_of(each, norm) for each in expected), abs=1e-9)
        if plan.hand_sensitivity is None:
            if keys:
                _, delta = query.weigh(norm)
                assert plan.sensitivity(norm) == pytest.approx(delta, rel=1e-12)
            assert all(size_of(vector, norm) <= plan.sensitivity(norm) * (1 + 1e-12) + 1e-12 for vector in left)
            for measure, part in zip(plan.measures, query.parts, strict=True):
                assert math.isclose(measure.sensitivity(norm), float(part.deltas(1, 1)[norm - 1]), rel_tol=1e-12)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(rows=TABLES, query=queries())
def test_closed_form_is_deletion(rows: list[Row], query: Query) -> None:
    note(query.sql)
    check(rows, query)


# ---------------------------------------------------------------- cases worth naming


BLANK: Row = dict.fromkeys(COLUMNS)
ALICE: Row = {**BLANK, "x": 1, "y": 3, "n0": 0.5, "grp": "Bonn", "infinite": True, "born": FIRST}
FAR: Row = {**BLANK, "x": 1000, "y": -1000, "n0": 1e300, "grp": "Nowhere", "infinite": False, "born": date(1900, 1, 1)}
EVERY_KIND = [
    make_count_star(None),
    make_count(X, None),
    make_count_distinct("n0", None),
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
    rows = [ALICE, BLANK, FAR, {**ALICE, "x": -2, "n0": 2.2}, {**ALICE, "grp": "Köln", "y": 7}]
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
