"""Groups that nobody declared (H1): every engine observes the same ones, and leaving people out changes the same.

The oracle groups plain Python rows and deletes everybody in turn (group_tables.py). Releases are compared at an ε so
large that noise is 0: what is shown then is exactly the groups with at least T individuals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.planning import PlanOptions
from tests.conformance.engine_cases import EVERY_ENGINE, on_every_engine
from tests.conformance.group_tables import ROWS, M, kept_rows, rows_of
from tests.oracle.leaving_out import assert_same_people, everybody_there, expand
from tests.oracle.query_meanings import (
    Aggregate,
    Condition,
    Grouping,
    Part,
    Query,
    each_row,
    lift,
    make_count_star,
    read,
)

DELTA = 1e-3
THRESHOLDED: dict[str, Any] = {"groups": "thresholded", "group_delta": DELTA}
COUNT = make_count_star(None)
PEOPLE = Aggregate("", (Part("people", lambda rows: Fraction(len({row["pid"] for row in rows})), each_row(1)),))
URGENT = Condition("urgent", read("urgent"))
TOPIC, WARD, X, COST = (Grouping(name, read(name)) for name in ("topic", "ward", "x", "cost"))
SECOND = Grouping("SUBSTR(topic, 2, 2)", lift(lambda topic: topic[1:3], read("topic")))
ENDING = Grouping("RIGHT(LOWER(topic), 3)", lift(lambda topic: topic.lower()[-3:], read("topic")))
INITIAL = Grouping("LEFT(topic, 1)", lift(lambda topic: topic[:1], read("topic")))
CASES = [
    *(Query((COUNT,), None, groups) for groups in ((TOPIC,), (SECOND,), (TOPIC, WARD))),
    Query((COUNT,), URGENT, (X,)),
    *(Query((COUNT,), None, groups) for groups in ((COST,), (ENDING,))),
    Query((), None, (INITIAL,)),
]


@pytest.mark.parametrize("by_row", [True, False], ids=["rows", "units"])
@pytest.mark.parametrize(("engine", "case"), on_every_engine(CASES, often=[0, 1], smoke=[0]))
def test_everybody_moves_the_observed_groups(
    grouped_in: Callable[[str, bool], Dataset], engine: str, case: Query, by_row: bool
) -> None:
    """Beside rows, people are counted wherever they have several; S5: both counts are divided by their Δ = 3."""
    counted = (COUNT,) if by_row else (COUNT, PEOPLE)
    query = replace(
        case, aggregates=counted, m=None if by_row else M, unit="pid", options=PlanOptions(groups="observed")
    )
    rows = rows_of(by_row)
    # Only of columns that declare it is NULL a group: of a topic it is none.
    keys = [key for key in query.keys(rows) if key[0] is not None or case.groups[0] in (X, COST)]
    risk = grouped_in(engine, by_row).risk(case.sql, **THRESHOLDED)
    measured = risk.measured()
    assert list(measured.keys) == keys
    assert risk.k == len(keys) * len(counted)
    assert [number for row in measured.values for number in row] == query.measure(rows, keys)
    left = query.leave_out(rows, 1, keys)
    assert_same_people(expand(risk.contributions), everybody_there(left.values(), risk))


@pytest.mark.parametrize("by_row", [True, False], ids=["rows", "units"])
@pytest.mark.parametrize("engine", EVERY_ENGINE)
def test_groups_with_enough_individuals_are_released(
    grouped_in: Callable[[str, bool], Dataset], engine: str, by_row: bool, tmp_path: Path
) -> None:
    """At ε = 200 a noise other than 0 comes once in e^60, and T is 2: whoever is alone in a group is left out."""
    rows = rows_of(by_row)
    people: dict[str | None, set[Any]] = defaultdict(set)
    for at, row in enumerate(rows):
        people[row["topic"]].add(at if by_row else row["pid"])
    expected = {each: len(members) for each, members in people.items() if each is not None and len(members) >= 2}
    assert len(expected) < len(set(people) - {None}), "somebody is alone in a group"
    counted = "COUNT(*)" if by_row else "COUNT(DISTINCT pid)"
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        answer = grouped_in(engine, by_row).release(
            f"SELECT topic, {counted} AS n FROM visits GROUP BY topic",
            ledger=ledger,
            epsilon=200 if by_row else 600,
            policy="budget:1000",
            delta_total=0.01,
            **THRESHOLDED,
        )
        account = ledger.account("visits")
    assert {row["topic"]: row["n"] for row in answer.answer or ()} == expected
    assert account is not None
    assert float(account.entries[0].delta) == DELTA


@pytest.mark.parametrize("engine", EVERY_ENGINE)
def test_exposed_people_are_named_by_their_observed_group(
    grouped_in: Callable[[str, bool], Dataset], engine: str
) -> None:
    risk = grouped_in(engine, False).risk("SELECT topic, COUNT(*) FROM visits GROUP BY topic", **THRESHOLDED)
    topics = {row["topic"] for row in kept_rows(ROWS)}
    for person in risk.list_people(3):
        assert any(f"{each}: " in person.why for each in topics if each)
    assert sum(group.people for group in risk.by("urgent")) == len({row["pid"] for row in ROWS})
