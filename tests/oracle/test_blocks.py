"""Queries of several blocks: what somebody moves in all of them together is what really deleting them moves.

Queries are generated: UNION ALL of two to four SELECTs with their own WHERE, groups and aggregates, ROLLUP of what does
not add up, percentages of totals; over rows, over individuals with many rows, over joined tables and a person stage.
Everybody is deleted in turn and the table is measured again, each block by a query of its own.
"""

from __future__ import annotations

import math
import random
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.influence import measure_influence
from dosimeter.influence.profiles import JointProfile
from dosimeter.influence.units import joint_queries
from dosimeter.planning import plan_query
from dosimeter.sql import column_tree
from dosimeter_paper.recompute import recompute_risk
from tests.oracle.leaving_out import assert_same_people, check_deletion, expand
from tests.oracle.people_tables import COLUMNS, Tables, draw_tables

EXAMPLES = settings().max_examples
SEEDS = st.integers(0, 2**32)
TOTALS = ("COUNT(*)", "SUM(x)", "SUM(cost)", "COUNT(cost)", "COUNT_IF(sick)")
OTHERS = ("MEDIAN(x)", "MAX(cost)", "AVG(x)", "VAR_POP(x)", "COUNT(DISTINCT ward)", "COUNT(DISTINCT x)",
          "QUANTILE_CONT(cost, 0.75)", "COUNT(DISTINCT pid)")  # fmt: skip
CONDITIONS = ("", "", "x > 2", "sick", "NOT sick", "cost BETWEEN 0 AND 5", "ward <> 'A'", "x IS NULL OR cost > 1")
GROUPS = ("", "", "ward", "sick", "ward, sick", "x > 3")
STAGE = (
    "WITH p AS (SELECT pid, MAX(ward) AS ward, COUNT(*) AS x, SUM(cost) AS cost, BOOL_OR(sick) AS sick "
    "FROM visits GROUP BY pid) "
)
SOURCES = {
    "visits": ("", "visits"),
    "joined": ("", "visits JOIN clinics USING (clinic_id)"),
    "labs": ("", "visits LEFT JOIN labs ON visits.pid = labs.pid"),
    "people": (STAGE, "p"),
}


def draw_blocks(seed: int, source: str) -> str:
    """A query of two blocks or more."""
    chance = random.Random(seed)
    head, origin = SOURCES[source]
    others = [each.replace("DISTINCT pid", "DISTINCT visits.pid") if source == "labs" else each for each in OTHERS]

    def part(count: int, groups: str, at: int) -> str:
        where = chance.choice(CONDITIONS)
        first, *more = chance.sample([*TOTALS, *chance.sample(others, 2)], count)
        shown = ", ".join([groups or f"'{at}'", f"{first} AS n{at}", *more])  # no SELECT is another one again
        clause = f" WHERE {where}" if where else ""
        return f"SELECT {shown} FROM {origin}{clause}" + (f" GROUP BY {groups}" if groups else "")

    kind = chance.choice(["union", "union", "rollup", "share"])
    if kind == "rollup":
        pool = others[:2] + others[4 : -1 if source == "people" else None]  # people add up where each has one row
        asked = ", ".join(chance.sample(pool, 1) + chance.sample(TOTALS, chance.choice([0, 1])))
        sets = chance.choice(["ROLLUP (ward, sick)", "CUBE (ward, sick)", "GROUPING SETS ((ward), (sick), ())"])
        return f"{head}SELECT ward, sick, {asked} FROM {origin} GROUP BY {sets}"
    if kind == "share":
        inner = chance.choice([*TOTALS, *others])
        where = chance.choice([each for each in CONDITIONS if each])
        return (
            f"{head}SELECT ward, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM {origin}) AS share FROM {origin} "
            f"WHERE {where} GROUP BY ward HAVING SUM(x) > (SELECT {inner} FROM {origin} WHERE {where})"
        )
    count = chance.choice([1, 1, 2])
    groups = [chance.choice([each for each in GROUPS if "," not in each]) for _ in range(chance.choice([2, 3, 4]))]
    return head + " UNION ALL ".join(part(count, each, at) for at, each in enumerate(groups))


@pytest.mark.parametrize("source", SOURCES)
@given(table=SEEDS, query=SEEDS, mechanism=st.sampled_from(["laplace", "gaussian"]), wide=st.booleans())
@settings(max_examples=EXAMPLES // 10)
def test_individuals_move_what_deleting_them_moves(
    source: str, table: int, query: int, mechanism: Any, wide: bool
) -> None:
    tables, sql = draw_tables(table, odd=True), draw_blocks(query, source)
    most = vars(joint_queries)["MOST_COLUMNS"] if wide else 0  # 0: each block gives a text, whatever it measures
    with patch.object(joint_queries, "MOST_COLUMNS", most):
        check_blocks(tables, sql, mechanism)


def check_blocks(tables: Tables, sql: str, mechanism: Any) -> None:
    with ExitStack() as opened:
        whole, *fewer = (opened.enter_context(each.open()) for each in (tables, *tables.delete_each()))
        risk = whole.risk(sql, mechanism=mechanism, quantiles="noise")
        assert isinstance(risk.profile, JointProfile) == bool(risk.plan.further)
        check_deletion(risk, fewer)


@given(table=SEEDS, query=SEEDS, mechanism=st.sampled_from(["laplace", "gaussian"]))
@settings(max_examples=EXAMPLES // 8)
def test_rows_move_what_deleting_them_moves(table: int, query: int, mechanism: Any) -> None:
    check_blocks(draw_tables(table, odd=True, rows_each=[None]), draw_blocks(query, "visits"), mechanism)


@given(table=SEEDS, query=SEEDS, source=st.sampled_from(sorted(SOURCES)))
@settings(max_examples=EXAMPLES // 8)
def test_recomputing_says_the_same(table: int, query: int, source: str) -> None:
    with draw_tables(table, odd=True).open() as dataset:
        sql = draw_blocks(query, source)
        closed, again = dataset.risk(sql), recompute_risk(dataset, sql)
        assert_same_people(expand(closed.contributions), expand(again.contributions))


@given(table=SEEDS, query=SEEDS, source=st.sampled_from(sorted(SOURCES)))
@settings(max_examples=EXAMPLES // 8)
def test_filters_tell_people_apart_and_move_nothing_else(table: int, query: int, source: str) -> None:
    with draw_tables(table).open() as dataset:
        risk = dataset.risk(draw_blocks(query, source))
        _, flagged = measure_influence(risk.plan, risk.tables, max(risk.present, 1), 1, {"sick": column_tree("sick")})
        assert_same_people(expand(flagged), expand(risk.contributions))


@given(query=SEEDS, source=st.sampled_from(sorted(SOURCES)))
@settings(max_examples=EXAMPLES // 2)
def test_all_numbers_share_epsilon(query: int, source: str) -> None:
    """S5 over all blocks: each measure scaled by its own Δ, so that Δ is their number, or its root."""
    facts = Tables([], [], 3, 2)
    with facts.open() as dataset:
        plan = plan_query(draw_blocks(query, source), dataset.schema)
    shares = sum(len(block.measures) for block in plan.blocks)
    assert math.isclose(plan.sensitivity(1), shares)
    assert math.isclose(plan.sensitivity(2), math.sqrt(shares))
    cells = [len(block.group_keys or ()) * len(block.measures) for block in plan.blocks]
    assert plan.k == sum(cells) == len(plan.grids(1))
    by_hand = [
        float(measure.grid) / measure.sensitivity_l1
        for block in plan.blocks
        for _ in block.group_keys or ()
        for measure in block.measures
    ]
    np.testing.assert_allclose(plan.grids(1), by_hand)


def test_the_most_exposed_are_explained_in_every_block() -> None:
    rows = [
        {**dict.fromkeys(COLUMNS), "pid": pid, "vid": at, "ward": ward, "sick": sick}
        for at, (pid, ward, sick) in enumerate([("ann", "A", True), ("ann", "Öst", True), ("bob", "A", False)])
    ]
    sql = (
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward UNION ALL SELECT 'sick', COUNT(*) FROM visits WHERE sick"
    )
    with replace(draw_tables(1), visits=rows, m=2).open() as dataset:
        (first,) = dataset.risk(sql).list_people(1, reveal=True)
        assert first.why == "A: n from 2 to 1; Öst: n from 1 to 0; n from 2 to 0"
        assert first.columns == {"pid": "ann"}
    with Tables(rows, [], None, 1).open() as dataset:
        people = dataset.risk(sql).list_people(5, columns=["vid"])
        assert [(person.why, person.columns["vid"]) for person in people] == [
            ("A: n from 2 to 1; n from 2 to 1", 0),
            ("Öst: n from 1 to 0; n from 2 to 1", 1),
            ("A: n from 2 to 1", 2),
        ]
