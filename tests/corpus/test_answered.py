"""What is answered: planned as it says, without noise the plain engine's own answer, and Δ by leaving people out.

The other roads: DuckDB runs the analyst's SQL on the tables themselves, and people are really deleted from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import numpy as np
import pytest

from dosimeter import Dataset
from dosimeter.arrays import FloatArray
from dosimeter.assessment import Risk
from dosimeter.planning import PlanOptions, QueryPlan, plan_query
from tests.corpus.harmless import expect_harmless
from tests.corpus.plain_answers import answer_without_noise, ask_plainly, assert_same_answer
from tests.corpus.reading import Entry, answered
from tests.corpus.tables import ROWS, find_schema, find_source
from tests.oracle.leaving_out import measure_weighted

OPTIONS = {
    "noise": PlanOptions(quantiles="noise"),
    "floor": PlanOptions(min_rows=99),
    "hand": PlanOptions(sensitivity=2.5),
}
PLANNED = [entry for entry in answered() if entry.table not in ROWS]
ASKED = [entry for entry in answered() if entry.table in ROWS]
ALL, FEW = 30, 3  # how many people are all left out in turn, and how many are where there are more
Open = Callable[[str, object], Dataset]


def check_facts(plan: QueryPlan, entry: Entry) -> None:
    """Compare a plan with what is written above its query."""
    keys = plan.group_keys
    assert keys is not None
    found = {
        "groups": len(keys),
        "numbers": len(keys) * len(plan.measures),
        "rows": plan.schema.max_rows_per_unit,
        "columns": ", ".join(output.name for output in plan.outputs),
        "measures": ", ".join(measure.name for measure in plan.measures),
    }
    assert {name: str(found[name]) for name in entry.facts if name in found} == {
        name: text for name, text in entry.facts.items() if name in found
    }
    if "delta" in entry.facts:
        assert plan.sensitivity(1) == pytest.approx(float(entry.facts["delta"]), rel=1e-12)


@pytest.mark.parametrize("entry", PLANNED, ids=str)
def test_understood(entry: Entry) -> None:
    """S1–S3, S5, C8: the numbers, Δ of the vector in L1, and the columns of the answer."""
    schema = find_schema(entry.table)
    plan = plan_query(entry.sql, schema, OPTIONS.get(entry.facts.get("options", ""), PlanOptions()))
    assert entry.facts
    check_facts(plan, entry)
    if schema.unit == "row":
        expect_harmless(plan)


# ---------------------------------------------------------------- without noise, and without somebody


@pytest.fixture(scope="module")
def opened() -> Iterator[Open]:
    """Open a table of the corpus, with everybody (None) or without somebody, once for all queries."""
    with ExitStack() as stack:

        @cache
        def find(name: str, who: object) -> Dataset:
            source = find_source(name)
            return stack.enter_context((source if who is None else source.without(who)).open())

        yield find


@pytest.mark.parametrize("entry", ASKED, ids=str)
def test_answered(entry: Entry, opened: Open) -> None:
    """Q1, Q2, Q4: the exact answer is the plain engine's, and leaving people out moves what the closed form says."""
    source = find_source(entry.table)
    # What is drawn by rank is a p-quantile of values on a coarser grid: tests/oracle/test_ranks.py compares that.
    by_rank = "_DISC(" in entry.sql.upper()
    risk = opened(entry.table, None).risk(entry.sql, quantiles="ranks" if by_rank else "noise")
    check_facts(risk.plan, entry)
    _, rows = answer_without_noise(risk)
    assert_same_answer(rows, ask_plainly(source.tables, entry.sql), float(entry.facts.get("grain", 1e-5)))
    if not by_rank:
        people = source.individuals
        chosen = people if len(people) <= ALL else people[:: len(people) // FEW][:FEW]
        check_deletion(risk, [opened(entry.table, who) for who in chosen], everybody=chosen is people)


def check_deletion(risk: Risk, without: list[Dataset], *, everybody: bool) -> None:
    """Leave people out; their vectors are among those of the closed form (all of them, if ``everybody``), within Δ."""
    contributions = risk.contributions
    found = np.zeros((len(contributions.people), contributions.k))
    for row, (start, end) in enumerate(zip(contributions.starts, contributions.starts[1:], strict=False)):
        np.add.at(found[row], contributions.cells[start:end], contributions.changes[start:end])
    tables = [risk.tables, *(fewer.tables for fewer in without)]
    whole, *others = np.array([measure_weighted(risk.plan, each, risk.mechanism.norm) for each in tables])
    left = whole - np.array(others)
    sizes = np.linalg.norm(left, ord=risk.mechanism.norm, axis=1)
    assert sizes.max() <= risk.sensitivity * (1 + 1e-9)
    if everybody:
        found, left = (_put_in_order(each) for each in (np.repeat(found, contributions.people, axis=0), left))
        np.testing.assert_allclose(found, left, rtol=1e-7, atol=1e-7)
        return
    for moved in left:
        assert np.isclose(found, moved, rtol=1e-7, atol=1e-7).all(axis=1).any()


def _put_in_order(vectors: FloatArray) -> Any:
    """Sort what moves something; individuals that are declared and not there move nothing."""
    moving = vectors[np.abs(vectors).max(axis=1) > 1e-7]
    return moving[np.lexsort(np.round(moving, 5).T)]


def test_most_of_what_analysts_ask_is_answered() -> None:
    """Nine in ten of more than a hundred queries of the kinds that analysts write."""
    tables = ("trips", "flights", "lineitem", "hospital", "survey")
    assert sum(len(answered(name)) for name in tables) >= 90
