"""Many processes release from the same dataset at once: no reading is spent twice, and every sum is exact."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import pytest

from dosimeter.ledger import Account, Ledger
from tests.ledger.release_worker import EPSILON
from tests.ledger.test_release_crash import run_release_worker

PROCESSES = 16  # as many again take part in test_concurrency.py, where each does less


def crowd(target: str, each: int, policy: str) -> tuple[list[dict[str, Any]], Account]:
    """All at once on a ledger that does not exist yet."""
    outcomes: list[Any] = run_release_worker("crowd", target, str(PROCESSES), str(each), policy)
    assert len(outcomes) == PROCESSES * each
    with Ledger.open(target, create=False) as ledger:
        assert ledger.verify().intact
        account = ledger.account("crowded")
    assert account is not None
    assert {entry.id: entry.status for entry in account.entries} == {o["entry"]: o["status"] for o in outcomes}
    before = Decimal(0)
    for entry in account.entries:  # every entry was decided on the reading that the one before it left
        assert entry.charge == (entry.epsilon or 0)
        assert entry.reading == before + entry.charge
        before = entry.reading
    assert account.reading.epsilon == before
    return outcomes, account


def share_a_budget(target: str, each: int, budget: str) -> None:
    outcomes, account = crowd(target, each, f"budget:{budget}")
    granted = [entry for entry in account.entries if entry.status == "released"]
    assert len(granted) == min(int(Decimal(budget) / Decimal(str(EPSILON))), PROCESSES * each)
    assert account.reading.epsilon == Decimal(str(EPSILON)) * len(granted) <= Decimal(budget)
    assert len(outcomes) > len(granted)  # some were denied, at no charge


def climb_by_the_papers_rule(target: str, each: int) -> None:
    outcomes, account = crowd(target, each, "paper")
    readings = [Decimal(0), *(entry.reading for entry in account.entries)]
    asked = {outcome["entry"]: Decimal(str(outcome["epsilon"])) for outcome in outcomes}
    for before, entry in zip(itertools.islice(readings, len(account.entries)), account.entries, strict=True):
        assert (asked[entry.id] > before) == (entry.status == "released")  # granted where it may be, and only there
    granted = [entry for entry in account.entries if entry.status == "released"]
    assert 1 <= len(granted) <= 13
    assert account.reading.epsilon == sum(asked[entry.id] for entry in granted)


def test_16_processes_share_a_budget(target: str) -> None:
    share_a_budget(target, each=1, budget="1.1")


def test_16_processes_climb_by_the_papers_rule(target: str) -> None:
    climb_by_the_papers_rule(target, each=1)


@pytest.mark.long
def test_16_processes_share_a_budget_many_times(target: str) -> None:
    share_a_budget(target, each=20, budget="30.1")


@pytest.mark.long
def test_16_processes_climb_by_the_papers_rule_many_times(target: str) -> None:
    climb_by_the_papers_rule(target, each=20)
