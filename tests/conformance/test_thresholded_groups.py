"""Groups that nobody declared (H1): every engine observes the same ones, and leaving people out changes the same.

The oracle groups plain Python rows and deletes everybody in turn (group_tables.py). Releases are compared at an ε so
large that noise is 0: what is shown then is exactly the groups with at least T individuals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Dataset, Ledger
from tests.conformance.engine_cases import EVERY_ENGINE, on_every_engine
from tests.conformance.group_tables import (
    ROWS,
    Key,
    Row,
    clean,
    count_vectors,
    kept_rows,
    leave_out,
    measure,
)

DELTA = 1e-3
THRESHOLDED: dict[str, Any] = {"groups": "thresholded", "group_delta": DELTA}


@dataclass(frozen=True)
class Case:
    """A query, the group of a row (None: it is in none), and whether it counts rows beside individuals."""

    sql: str
    key: Callable[[Row], Key | None]


def topic(row: Row) -> Key | None:
    return None if row["topic"] is None else (row["topic"],)


def part_of_topic(row: Row) -> Key | None:
    return None if row["topic"] is None else (row["topic"][1:3],)  # letters, as in SUBSTR(topic, 2, 2)


CASES = [
    Case("SELECT topic, COUNT(*) FROM visits GROUP BY topic", topic),
    Case("SELECT SUBSTR(topic, 2, 2), COUNT(*) FROM visits GROUP BY 1", part_of_topic),
    Case(
        "SELECT topic, ward, COUNT(*) FROM visits GROUP BY topic, ward",  # NULL is a group of ward alone
        lambda row: None if row["topic"] is None else (row["topic"], row["ward"]),
    ),
    Case("SELECT x, COUNT(*) FROM visits WHERE urgent GROUP BY x", lambda row: (row["x"],) if row["urgent"] else None),
    Case("SELECT cost, COUNT(*) FROM visits GROUP BY cost", lambda row: (row["cost"],)),
    Case(
        "SELECT RIGHT(LOWER(topic), 3) AS ending, COUNT(*) FROM visits GROUP BY ending",
        lambda row: None if row["topic"] is None else (row["topic"].lower()[-3:],),
    ),
    Case(
        "SELECT DISTINCT LEFT(topic, 1) AS t FROM visits",
        lambda row: None if row["topic"] is None else (row["topic"][:1],),
    ),
]


def observe(rows: Sequence[Row], case: Case) -> list[Key]:
    keys = {key for row in rows if (key := case.key(row)) is not None}
    return sorted(keys, key=lambda key: [(value is None, value) for value in key])


def numbers_of(by_row: bool) -> Callable[[Sequence[Row]], list[float]]:
    """COUNT(*), which is all where rows are people; otherwise the people besides, each divided by Δ = m among two."""

    def count(rows: Sequence[Row]) -> list[float]:
        return [len(rows)] if by_row else [len(rows), len({row["pid"] for row in rows})]

    return count


@pytest.mark.parametrize("by_row", [True, False], ids=["rows", "units"])
@pytest.mark.parametrize(("engine", "case"), on_every_engine(CASES, often=[0, 1], smoke=[0]))
def test_everybody_moves_the_observed_groups(
    grouped_in: Callable[[str, bool], Dataset], engine: str, case: Case, by_row: bool
) -> None:
    rows = [clean(row) for row in ROWS] if by_row else kept_rows(ROWS)
    keys, count = observe(rows, case), numbers_of(by_row)

    def key(row: Row) -> Key:
        return case.key(row) or ("in no group", "")

    risk = grouped_in(engine, by_row).risk(case.sql, **THRESHOLDED)
    measured = risk.measured()
    assert list(measured.keys) == keys
    assert risk.k == len(keys) * (1 if by_row else 2)
    assert [float(number) for row in measured.values for number in row] == measure(rows, keys, key, count)
    people = len(rows) if by_row else len({row["pid"] for row in rows})
    found = count_vectors(risk.contributions, risk.contributions.n - people)
    expected = leave_out(rows, by_row, keys, key, count)
    weight = 1.0 if by_row else 1 / 3  # S5: both counts are divided by their Δ = 3
    assert {tuple((cell, round(change, 9)) for cell, change in vector): n for vector, n in found.items()} == {
        tuple((cell, round(change * weight, 9)) for cell, change in vector): n for vector, n in expected.items()
    }


@pytest.mark.parametrize("by_row", [True, False], ids=["rows", "units"])
@pytest.mark.parametrize("engine", EVERY_ENGINE)
def test_groups_with_enough_individuals_are_released(
    grouped_in: Callable[[str, bool], Dataset], engine: str, by_row: bool, tmp_path: Path
) -> None:
    """At ε = 200 a noise other than 0 comes once in e^60, and T is 2: whoever is alone in a group is left out."""
    rows = [clean(row) for row in ROWS] if by_row else kept_rows(ROWS)
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
