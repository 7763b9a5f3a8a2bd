"""What was reserved and never handed out is taken up by the same request: one charge, one taker, one answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from unittest import mock

import pytest

from dosimeter import Answer, Dataset, Ledger
from dosimeter.errors import DatasetStopped, LedgerError
from dosimeter.ledger import Account, Record
from dosimeter.ledger.store import Transaction
from dosimeter.release import run as releasing
from tests.known import known
from tests.ledger.ledger_worker import decide_on, make_request, measure
from tests.ledger.release_worker import open_table
from tests.ledger.test_incidents import WAYS, wrap_measuring

pytestmark = pytest.mark.smoke

SQL = "SELECT COUNT(*) AS n FROM t WHERE x > 2"
TERMS: dict[str, Any] = {"epsilon": 0.5, "policy": "budget:70"}
ALL_WAYS = [*WAYS, {"svt": 1.0, "variance": 0.9, "selection": "paper"}]


@contextmanager
def full_disk(*kinds: str) -> Iterator[None]:
    """Make records of these kinds not fit on the disk any more."""
    append = Transaction.append

    def append_if_it_fits(transaction: Transaction, record: Record) -> None:
        if record.kind in kinds:
            raise LedgerError("The disk is full: the ledger could not be written to.")
        append(transaction, record)

    with mock.patch.object(Transaction, "append", append_if_it_fits):
        yield


@pytest.fixture
def table() -> Iterator[Dataset]:
    with open_table("t") as opened:
        yield opened


def account(ledger: Ledger) -> Account:
    return known(ledger.account("t"))


# ---------------------------------------------------------------- a full disk


@pytest.mark.parametrize("kind", ["measure", "reserve"])
def test_a_full_disk_before_the_charge(ledger: Ledger, table: Dataset, kind: str) -> None:
    for _ in range(2):
        with full_disk(kind), pytest.raises(LedgerError, match=r"disk is full.* Nothing was charged\.$"):
            table.release(SQL, ledger=ledger, **TERMS)
        assert (ledger.accounts(), ledger.stopped("t")) == ((), None)
    assert table.release(SQL, ledger=ledger, **TERMS).status == "released"
    assert account(ledger).reading.epsilon == Decimal("0.5")


def test_a_full_disk_on_which_not_even_an_end_fits(ledger: Ledger, table: Dataset) -> None:
    with full_disk("reserve", "end"), pytest.raises(LedgerError, match="stopped until a controller clears it"):
        table.release(SQL, ledger=ledger, **TERMS)
    with pytest.raises(DatasetStopped):
        table.release(SQL, ledger=ledger, **TERMS)
    assert ledger.accounts() == ()
    ledger.clear("t", by="Carol", reason="there is room again")
    assert table.release(SQL, ledger=ledger, **TERMS).status == "released"
    assert account(ledger).reading.epsilon == Decimal("0.5")


@pytest.mark.parametrize("way", ALL_WAYS, ids=["fixed", "find", "sharp", "paper"])
@pytest.mark.parametrize("again", [False, True])
def test_a_full_disk_after_the_charge(ledger: Ledger, table: Dataset, way: dict[str, Any], again: bool) -> None:
    for _ in range(2):
        charged = "Its charge is" if "prefer" in way else "ε = [0-9.]+ is"
        said = f"disk is full.* {charged} charged .entry ([0-9a-f]*), reserved.*at no further charge"
        with full_disk("settle"), pytest.raises(LedgerError, match=said):
            table.release(SQL, ledger=ledger, policy="budget:70", again=again, **way)
        before = account(ledger)
        (entry,) = before.entries
        assert entry.status == "reserved"
    answer = table.release(SQL, ledger=ledger, again=again, **way)
    after = account(ledger)
    assert (answer.status, answer.entry, answer.repeated) == ("released", entry.id, False)
    assert after.reading == before.reading  # of the noisy test too
    assert [each.status for each in after.entries] == ["released"]
    assert answer.answer == after.entries[0].answer
    assert ledger.verify().intact
    assert table.release(SQL, ledger=ledger, **way).answer == answer.answer
    more = table.release(SQL, ledger=ledger, again=True, **way)
    assert (more.entry != entry.id, account(ledger).reading.epsilon > after.reading.epsilon) == (True, True)


# ---------------------------------------------------------------- who may take it up


def leave_reserved(table: Dataset, ledger: Ledger, **options: Any) -> str:
    with full_disk("settle"), pytest.raises(LedgerError):
        table.release(SQL, ledger=ledger, **TERMS, **options)
    return account(ledger).entries[-1].id


def test_one_of_several_takes_it_up(
    target: str, ledger: Ledger, table: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have measured before the first reserves: one takes the entry up, and each of the others pays."""
    left = leave_reserved(table, ledger)
    together = threading.Barrier(3)

    def ask(_: int) -> str | None:
        with open_table("t") as own, Ledger.open(target, busy_timeout=120) as books:
            return own.release(SQL, ledger=books, epsilon=0.5, again=True).entry

    wrap_measuring(monkeypatch, lambda: None, lambda: together.wait(120))
    with ThreadPoolExecutor(3) as threads:
        answered = list(threads.map(ask, range(3)))
    found = account(ledger)
    assert set(answered) == {entry.id for entry in found.entries}
    assert (len(found.entries), answered.count(left)) == (3, 1)
    assert {entry.status for entry in found.entries} == {"released"}
    assert found.reading.epsilon == Decimal("1.5")


def test_what_a_living_process_holds_is_left_alone(
    ledger: Ledger, table: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = releasing.calibrate_plan  # type: ignore[attr-defined]
    asked: list[Answer | None] = []

    def ask_meanwhile(*arguments: Any) -> Any:
        if not asked:
            asked.append(None)
            with open_table("t") as own:
                asked.append(own.release(SQL, ledger=ledger, epsilon=0.5))
        return inner(*arguments)

    monkeypatch.setattr(releasing, "calibrate_plan", ask_meanwhile)
    first = table.release(SQL, ledger=ledger, **TERMS)
    assert asked[1] is not None
    assert first.entry != asked[1].entry
    assert [entry.status for entry in account(ledger).entries] == ["released"] * 2
    assert account(ledger).reading.epsilon == Decimal(1)


def test_another_request_does_not_take_it_up(ledger: Ledger, table: Dataset) -> None:
    left = leave_reserved(table, ledger)
    for sql, epsilon in ((SQL, 0.25), (SQL.replace("2", "3"), 0.5)):
        assert table.release(sql, ledger=ledger, epsilon=epsilon).entry != left
    assert account(ledger).entries[0].status == "reserved"
    assert account(ledger).reading.epsilon == Decimal("1.25")


def test_entries_from_before_there_were_locks_are_left_alone(ledger: Ledger) -> None:
    old = ledger.reserve("clinic", decide_on("0.1"))
    with measure(ledger) as measuring:
        new = ledger.reserve("clinic", decide_on("0.1"), measuring=measuring, take_up=make_request())
        assert new.id != old.id


def test_it_is_taken_up_only_after_an_incident_is_cleared(ledger: Ledger, table: Dataset) -> None:
    left = leave_reserved(table, ledger)
    with mock.patch.object(releasing, "_measure", side_effect=MemoryError), pytest.raises(MemoryError):
        table.release(SQL, ledger=ledger, epsilon=0.5)
    with pytest.raises(DatasetStopped):
        table.release(SQL, ledger=ledger, epsilon=0.5)
    assert account(ledger).entries[0].status == "reserved"
    ledger.clear("t", by="Carol", reason="r")
    assert table.release(SQL, ledger=ledger, epsilon=0.5).entry == left
    assert account(ledger).reading.epsilon == Decimal("0.5")


def test_who_takes_it_up_may_want_it_clamped(ledger: Ledger, table: Dataset) -> None:
    few = "SELECT COUNT(*) AS n FROM t WHERE x > 5"  # nobody: half of the noisy counts are below 0
    noisy: list[int] = []
    for number in range(12):
        sql = f"{few} AND x > {-number}"
        with full_disk("settle"), pytest.raises(LedgerError):
            table.release(sql, ledger=ledger, epsilon=0.1, policy="budget:70")
        clamped = table.release(sql, ledger=ledger, epsilon=0.1, clamp=True)
        plain = table.release(sql, ledger=ledger, epsilon=0.1)
        assert plain.repeated
        noisy.append(int(str(known(plain.answer)[0]["n"])))
        assert known(clamped.answer)[0]["n"] == max(0, noisy[-1])
    assert len(account(ledger).entries) == 12
    assert min(noisy) < 0  # all 12 at least 0: less than once in 3,000 runs


def test_a_look_before_it_is_taken_up_is_told(ledger: Ledger, table: Dataset) -> None:
    leave_reserved(table, ledger)
    table.dry_run(SQL, ledger=ledger, epsilon=0.5)
    taken = table.release(SQL, ledger=ledger, epsilon=0.5)
    looked = table.release(SQL.replace("2", "3"), ledger=ledger, epsilon=0.5)
    assert known(taken.guarantee) != looked.guarantee  # which nobody looked at
