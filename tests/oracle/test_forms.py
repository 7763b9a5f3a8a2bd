"""Queries of every form: the closed form is really deleting somebody, and nobody moves the vector by more than Δ.

Tables are small and odd (people_tables.py), queries are drawn from every form of the row, person and measured stages
(form_queries.py). Each is measured on the whole table, and again on the table without each individual.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest

from dosimeter.influence import measure_exactly
from dosimeter.options import LookOptions
from tests.oracle.form_queries import draw_queries
from tests.oracle.leaving_out import check_deletion
from tests.oracle.people_tables import draw_tables

EACH = 10  # queries asked of one table
OFTEN, AT_LENGTH = 4, 520  # tables of the ordinary run, and of the long one: 40 and 5,200 queries
PER_TEST = 20  # tables of one test of the long run
MECHANISMS: tuple[Any, ...] = ("laplace", "gaussian")
FORMS = {
    "number", "condition", "cast", "date", "text",
    "group by unit", "having", "window", "member", "public join", "private join",
    "count", "count_if", "sum", "avg", "spread", "pair", "order", "distinct", "unit", "approx", "filter",
    "rollup", "cube", "grouping sets", "unit = row", "unit = column",
}  # fmt: skip


def check_table(seed: int, each: int = EACH) -> Counter[str]:
    """Compare closed forms with deletions; return how often each form was asked, and how often Δ was reached."""
    tables = draw_tables(seed, odd=True, rows_each=(None, 1, 2, 3, 5))
    seen: Counter[str] = Counter()
    with ExitStack() as opened:
        whole = opened.enter_context(tables.open())
        without = [opened.enter_context(less.open()) for less in tables.delete_each()]
        for at, query in enumerate(draw_queries(seed, tables.schema, each)):
            try:
                risk = whole.assess_plan(query.plan, LookOptions(mechanism=MECHANISMS[at % 2]))
                exact = measure_exactly(risk.plan, whole.tables, None)
                assert risk.measured() == exact, "what everybody adds is the answer"
                share = check_deletion(risk, without)
            except Exception as error:
                error.add_note(f"table {seed}: {query.sql}")
                raise
            seen.update(query.parts)
            seen["Δ is reached"] += share > 1 - 1e-9
    return seen


@pytest.mark.parametrize("seed", range(OFTEN))
def test_closed_form_is_deletion_within_the_sensitivity(seed: int) -> None:
    check_table(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(AT_LENGTH // PER_TEST))
def test_the_same_at_length(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(1000 + block * PER_TEST, 1000 + (block + 1) * PER_TEST):
        seen += check_table(seed)
    assert set(seen) >= {*FORMS, "Δ is reached"}, "every form is asked, and some answers have no room to spare"
