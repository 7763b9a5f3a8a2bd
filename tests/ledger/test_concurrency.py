"""Many processes at one ledger: every grant is made against its own reading, and nobody waits for ever."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest

from dosimeter.errors import LedgerError
from dosimeter.ledger import Account, AccountSummary, Ledger, Reservation
from dosimeter.ledger.readings import Charge
from tests.known import known
from tests.ledger.ledger_worker import decide_on, make_request
from tests.ledger.processes import keep_running, run_releases
from tests.ledger.release_worker import EPSILON
from tests.waiting import LONGEST_WAIT, wait_until


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: [ledger.reserve("clinic", decide_on("0.01")) for _ in range(3)], range(4)))
    assert known(ledger.account("clinic")).reading.epsilon == Decimal("0.12")


def test_nobody_decides_while_another_does(ledger: Ledger) -> None:
    """A second request that comes while the first is being decided gets to see what the first has spent."""
    seen: list[Decimal] = []
    asking = threading.Event()

    def decide_second(account: AccountSummary | None) -> Reservation:
        seen.append(known(account).reading.epsilon)
        return Reservation(request=make_request(), charge=Charge(Decimal("0.4")))

    def ask_second() -> None:
        asking.set()
        with pytest.raises(LedgerError, match="does not admit"):  # it forgot to ask the policy: the ledger does not
            ledger.reserve("clinic", decide_second)

    with ThreadPoolExecutor(1) as thread:

        def decide_first(account: AccountSummary | None) -> Reservation:
            running.append(thread.submit(ask_second))
            wait_until(asking.is_set, "the second asks")
            time.sleep(0.2)  # time enough to be decided, if nothing kept it from that
            assert seen == []
            return decide_on("0.4", "paper")(account)

        running: list[Future[None]] = []
        ledger.reserve("clinic", decide_first)
        running[0].result()
    assert seen == [Decimal("0.4")]


def test_a_busy_ledger_ends_in_a_clear_error(target: str) -> None:
    with Ledger.open(target) as ledger:
        ledger.reserve("clinic", decide_on("0.1"))
    with keep_running("ledger_worker.py", "hold", target, "86400", until="holding") as holder:
        with Ledger.open(target, busy_timeout=0.3) as ledger:
            with pytest.raises(LedgerError, match=r"busy for 0\.3 seconds"):
                ledger.reserve("clinic", decide_on("0.1"))
            assert ledger.verify().records == 2  # readers are not held up
        assert holder.poll() is None  # it holds the lock to this moment
    with Ledger.open(target, busy_timeout=LONGEST_WAIT) as ledger:
        assert ledger.reserve("clinic", decide_on("0.1")).reading == Decimal("0.2")


# ---------------------------------------------------------------- whole releases


PROCESSES = 16


def crowd_releases(target: str, each: int, policy: str) -> tuple[list[dict[str, Any]], Account]:
    """All at once on a ledger that does not exist yet."""
    outcomes: list[Any] = run_releases("crowd", target, str(PROCESSES), str(each), policy)
    assert len(outcomes) == PROCESSES * each
    with Ledger.open(target, create=False) as ledger:
        assert ledger.verify().intact
        account = known(ledger.account("crowded"))
    assert {entry.id: entry.status for entry in account.entries} == {o["entry"]: o["status"] for o in outcomes}
    before = Decimal(0)
    for entry in account.entries:  # every entry was decided on the reading that the one before it left
        assert entry.charge == (entry.epsilon or 0)
        assert entry.reading == before + entry.charge
        before = entry.reading
    assert account.reading.epsilon == before
    return outcomes, account


@pytest.mark.smoke
@pytest.mark.parametrize(("each", "budget"), [(1, "1.1"), pytest.param(20, "30.1", marks=pytest.mark.long)])
def test_16_processes_share_a_budget(target: str, each: int, budget: str) -> None:
    outcomes, account = crowd_releases(target, each, f"budget:{budget}")
    granted = [entry for entry in account.entries if entry.status == "released"]
    assert len(granted) == min(int(Decimal(budget) / Decimal(str(EPSILON))), PROCESSES * each)
    assert account.reading.epsilon == Decimal(str(EPSILON)) * len(granted) <= Decimal(budget)
    assert len(outcomes) > len(granted)  # some were denied, at no charge


@pytest.mark.parametrize("each", [1, pytest.param(20, marks=pytest.mark.long)])
def test_16_processes_climb_by_the_papers_rule(target: str, each: int) -> None:
    outcomes, account = crowd_releases(target, each, "paper")
    readings = [Decimal(0), *(entry.reading for entry in account.entries)]
    asked = {outcome["entry"]: Decimal(str(outcome["epsilon"])) for outcome in outcomes}
    for before, entry in zip(itertools.islice(readings, len(account.entries)), account.entries, strict=True):
        assert (asked[entry.id] > before) == (entry.status == "released")  # granted where it may be, and only there
    granted = [entry for entry in account.entries if entry.status == "released"]
    assert 1 <= len(granted) <= 13
    assert account.reading.epsilon == sum(asked[entry.id] for entry in granted)
