"""Accounts and entries: what goes in comes out, on both databases; what must not go in leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest

from dosimeter.errors import LedgerError
from dosimeter.ledger import AccountSummary, Continuation, Identification, Ledger, Reservation
from dosimeter.ledger.readings import Charge
from tests.known import known
from tests.ledger.ledger_worker import SCHEMA, SOURCE, decide_on, make_opening, make_request
from tests.ledger.raw_records import describe_datasets

pytestmark = pytest.mark.smoke


def decide_always(reservation: Reservation) -> Callable[[AccountSummary | None], Reservation]:
    return lambda _: reservation


def test_an_empty_ledger(ledger: Ledger) -> None:
    assert ledger.describe() == {"datasets": []}
    assert ledger.account("clinic") is None
    assert ledger.entry("none") is None
    assert ledger.find_answer("clinic", "request-1") is None
    assert ledger.verify().describe() == {"intact": True, "records": 0, "head": "0" * 64}


def test_a_release_from_reservation_to_answer(target: str) -> None:
    clock = iter(datetime(2026, 11, 15, 11, minute, tzinfo=timezone(timedelta(hours=1))) for minute in range(60))
    with Ledger.open(target, clock=lambda: next(clock)) as ledger:
        entry = ledger.reserve("clinic", decide_on("0.3", "budget:2.0"))
        assert (entry.status, entry.answer) == ("reserved", None)
        assert entry.epsilon == entry.charge == entry.reading == Decimal("0.3")
        answer = [{"ward": "B", "count": 12}, {"ward": "A", "count": 7.5}]
        settled = ledger.settle(
            entry.id, status="released", answer=answer, guarantee="(0.3, 0)-DP", error_95=[9.5, None]
        )
        assert settled.answer == answer
        assert [list(row) for row in settled.answer] == [["ward", "count"]] * 2  # columns keep their order
        assert (settled.guarantee, settled.error_95) == ("(0.3, 0)-DP", (9.5, None))
        assert ledger.entry(entry.id) == settled
        ledger.reserve("clinic", decide_on("0.05", "budget:2.0"))
        (shown,) = describe_datasets(ledger)
        assert (shown["epsilon"], shown["remaining"]["epsilon"], shown["policy"]) == (0.35, 1.65, "budget:2")
        told = ("at", "status", "epsilon", "charge", "reading", "answer")
        assert [[each[name] for name in told] for each in shown["entries"]] == [
            ["2026-11-15T10:00:00Z", "released", 0.3, 0.3, 0.3, answer],
            ["2026-11-15T10:02:00Z", "reserved", 0.05, 0.05, 0.35, None],
        ]
    with Ledger.open(target, create=False) as again:
        assert again.entry(entry.id) == settled
        assert again.verify().records == 4


def test_the_account_keeps_its_terms(ledger: Ledger) -> None:
    opening = make_opening("paper", "find-and-release", max_epsilon=Decimal("0.5"), delta_total=Decimal("2e-6"))
    more: dict[str, Any] = {"selection": "sharp", "analyst": "Ada", "purpose": "a study", "settings": {"min_rows": 5}}
    asked = make_request(algorithm="find-and-release", tau=Decimal("1e-5"), **more)
    charge = Charge(Decimal("0.2"), Decimal(1), Decimal("1e-6"))
    entry = ledger.reserve("clinic", lambda _: Reservation(request=asked, charge=charge, opening=opening))
    account = known(ledger.account("clinic"))
    assert (account.policy, account.algorithm, account.individuals) == (opening.policy, "find-and-release", 1000)
    assert (account.delta_total, account.max_epsilon) == (Decimal("2e-6"), Decimal("0.5"))
    assert account.is_of(SCHEMA, SOURCE)
    assert (account.reading.epsilon, account.reading.delta) == (Decimal("1.2"), Decimal("1e-6"))
    assert account.entries == (entry,)
    assert entry.request == asked
    assert (entry.epsilon_svt, entry.charge, entry.delta) == (1, Decimal("1.2"), Decimal("1e-6"))
    account.check_terms(algorithm="find-and-release")
    account.check_terms(algorithm="find-and-release", policy=opening.policy, max_epsilon=Decimal("0.50"))
    other: dict[str, Any] = {"policy": make_opening("budget:1").policy, "delta_total": Decimal(0), "max_epsilon": 1}
    for term, value in other.items():
        with pytest.raises(LedgerError, match=f"{term}="):
            account.check_terms(algorithm="find-and-release", **{term: value})
    with pytest.raises(LedgerError, match="one algorithm"):
        account.check_terms(algorithm="find")


def test_a_denial_after_the_noisy_test_costs_epsilon_svt(ledger: Ledger) -> None:
    asked = make_request(algorithm="find-and-release")

    def deny(account: AccountSummary | None) -> Reservation:
        opening = None if account else make_opening("paper", "find-and-release")
        svt = Decimal(1) if account is None else Decimal(0)
        return Reservation(request=asked, charge=Charge(Decimal(0), svt), status="denied", opening=opening)

    tested, untested = ledger.reserve("clinic", deny), ledger.reserve("clinic", deny)
    assert [(e.status, e.epsilon, e.charge, e.reading) for e in (tested, untested)] == [
        ("denied", None, 1, 1),
        ("denied", None, 0, 1),
    ]
    with pytest.raises(LedgerError, match="settled once"):
        ledger.settle(tested.id, status="released", answer=[])


def test_the_latest_answer_to_the_same_request_is_found(ledger: Ledger) -> None:
    for count in (1, 2):
        entry = ledger.reserve("clinic", decide_on("0.1"))
        ledger.settle(entry.id, status="released", answer=[{"count": count}])
    ledger.settle(ledger.reserve("clinic", decide_on("0.1")).id, status="denied")
    ledger.reserve("clinic", decide_on("0.1"))
    ledger.reserve("clinic", decide_on("0.1", request=make_request("request-2")))
    assert known(ledger.find_answer("clinic", "request-1")).answer == [{"count": 2}]
    assert ledger.find_answer("clinic", "request-2") is None
    assert ledger.find_answer("other", "request-1") is None


def test_views_are_remembered_and_recorded_with_the_charge(ledger: Ledger) -> None:
    assert not ledger.viewed("clinic", "plan-1")
    ledger.record_view("clinic", "plan-1", "risk")
    ledger.record_view("clinic", "plan-1", "risk")
    ledger.record_view("clinic", "plan-1", "dry-run")
    assert ledger.verify().records == 2
    assert ledger.viewed("clinic", "plan-1")
    assert not ledger.viewed("clinic", "plan-2")
    assert not ledger.viewed("other", "plan-1")
    assert ledger.account("clinic") is None  # looking opens no account
    assert ledger.reserve("clinic", decide_on("0.1")).viewed
    assert not ledger.reserve(
        "clinic", decide_on("0.1", request=make_request("request-2", plan_digest="plan-2"))
    ).viewed
    known = Reservation(
        request=make_request("request-3", plan_digest="plan-3"), charge=Charge(Decimal("0.1")), viewed=True
    )
    assert ledger.reserve("clinic", lambda _: known).viewed


def test_changed_data_never_open_a_fresh_account(ledger: Ledger) -> None:
    changed = make_request(source_digest="source-2")
    charge = Charge(Decimal("0.1"))
    ledger.reserve("clinic", decide_on("0.3"))
    with pytest.raises(LedgerError, match="continued=True"):
        ledger.reserve("clinic", lambda _: Reservation(request=changed, charge=charge))
    with pytest.raises(LedgerError, match="already"):
        ledger.reserve(
            "clinic",
            lambda _: Reservation(request=changed, charge=charge, opening=make_opening(source_digest="source-2")),
        )
    assert ledger.verify().records == 2
    agreed = Continuation(schema_digest=SCHEMA, source_digest="source-2", by="Ada")
    entry = ledger.reserve("clinic", lambda _: Reservation(request=changed, charge=charge, continuation=agreed))
    assert entry.reading == Decimal("0.4")
    account = known(ledger.account("clinic"))
    assert account.is_of(SCHEMA, "source-2")
    assert account.agreed == ((SCHEMA, SOURCE), (SCHEMA, "source-2"))
    assert [(c.by, c.source_digest) for c in account.continuations] == [("Ada", "source-2")]
    assert ledger.reserve("clinic", decide_on("0.1")).reading == Decimal("0.5")  # the old data: agreed to before
    for pair in ((SCHEMA, "source-3"), ("schema-2", "source-2")):
        other = make_request(schema_digest=pair[0], source_digest=pair[1])
        reservation = Reservation(request=other, charge=charge)
        with pytest.raises(LedgerError, match="continued=True"):
            ledger.reserve("clinic", decide_always(reservation))


def test_datasets_are_told_apart(ledger: Ledger) -> None:
    names = ["clinic", "Clinic", "clinic ", "Kliník", "a'b\"c;--"]
    for name in names:
        ledger.reserve(name, open_with(f"data of {name}", epsilon="0.9"))
    assert ledger.datasets() == tuple(names)
    assert all(len(account.entries) == 1 for account in ledger.accounts())


def open_with(source: str, *identities: str, epsilon: str = "0.1") -> Callable[[AccountSummary | None], Reservation]:
    """Open an account on these data, or continue one with them, knowing which stored data they are."""

    def decide(account: AccountSummary | None) -> Reservation:
        request, charge = make_request(source_digest=source), Charge(Decimal(epsilon))
        found: dict[str, Any] = {"identities": frozenset(identities)} if identities else {}
        if account is None:
            opening = make_opening(source_digest=source, **found)
            return Reservation(request=request, charge=charge, opening=opening)
        agreed = Continuation(schema_digest=SCHEMA, source_digest=source, **found)
        return Reservation(request=request, charge=charge, continuation=agreed)

    return decide


def test_data_are_identified_once(ledger: Ledger) -> None:
    found = Identification(schema_digest=SCHEMA, source_digest=SOURCE, identities=frozenset({"bytes:1"}))
    with pytest.raises(LedgerError, match="never agreed"):
        ledger.identify("clinic", found)
    ledger.reserve("clinic", decide_on("0.1"))  # opened without: nobody looked
    with pytest.raises(LedgerError, match="never agreed"):
        ledger.identify("clinic", replace(found, source_digest="another"))
    for _ in range(2):
        ledger.identify("clinic", found)
    assert ledger.verify().records == 3
    account = known(ledger.account("clinic"))
    assert (account.identities, account.overlaps) == ({"bytes:1"}, ())


@pytest.mark.parametrize(
    ("known_as", "copies", "words"),
    [
        ([(), (), ()], [("may",), ("june",)], "same data have the account 'clinic'"),
        (
            [("bytes:1", "bytes:2"), ("bytes:3",), ("bytes:9",)],
            [("read otherwise", "bytes:7", shared) for shared in ("bytes:1", "bytes:2", "bytes:3")],
            "or some of them do",
        ),
    ],
    ids=["by their digest", "by what is stored"],
)
def test_the_same_data_have_one_account(
    ledger: Ledger, known_as: list[tuple[str, ...]], copies: list[tuple[str, ...]], words: str
) -> None:
    """Neither opened nor continued under another name, nor after the first account went on with newer data."""
    for name, source, found in zip(("clinic", "clinic", "other"), ("may", "june", "elsewhere"), known_as, strict=True):
        ledger.reserve(name, open_with(source, *found))
    before = ledger.verify()
    for name, (source, *shared) in product(("copy", "other"), copies):
        with pytest.raises(LedgerError, match=r"account 'clinic' in.*account = .clinic. in"):
            ledger.reserve(name, open_with(source, *shared))
        with pytest.raises(LedgerError, match=words):
            ledger.check_holder(name, source, frozenset(shared))
    if known_as[0]:
        with pytest.raises(LedgerError, match="declares public holds people whom the account 'clinic' protects"):
            ledger.check_holder("clinic", "may", public=frozenset({"bytes:2"}))
        account = known(ledger.account("clinic"))
        assert account.identities == {"bytes:1", "bytes:2", "bytes:3"}
        assert account.identified == {(SCHEMA, "may"), (SCHEMA, "june")}
    assert ledger.verify() == before
    ledger.check_holder("clinic", "may")
    ledger.check_holder("copy", "july")
    ledger.reserve("clinic", open_with("may"))  # its own data again


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize("error", [RuntimeError("decided against it"), KeyboardInterrupt()])
def test_nothing_is_written_when_the_decision_raises(ledger: Ledger, error: BaseException) -> None:
    with pytest.raises(type(error)):
        ledger.reserve("clinic", Mock(side_effect=error))
    assert ledger.verify().records == 0
    ledger.reserve("clinic", decide_on("0.1"))  # and the lock is free


@pytest.mark.parametrize(
    ("asked", "charge", "status", "message"),
    [
        ({}, ("0.8",), "reserved", "does not admit"),
        ({}, ("0.1", "0", "2e-6"), "reserved", "does not admit"),
        ({}, ("0.6",), "reserved", "does not admit"),
        ({"algorithm": "find"}, ("0.1",), "reserved", "one algorithm"),
        ({"schema_digest": "other"}, ("0.1",), "reserved", "continued=True"),
        ({}, ("0",), "reserved", "larger than 0"),
        ({}, ("1",), "denied", "nothing but"),
        ({"settings": {"rows": [1]}}, ("0.1",), "reserved", "never lists"),
        ({"analyst": "\udcff"}, ("0.1",), "reserved", "valid text"),
    ],
)
def test_the_ledger_itself_refuses(
    ledger: Ledger, asked: dict[str, Any], charge: tuple[str, ...], status: Any, message: str
) -> None:
    first = Charge(Decimal("0.3"))
    opening = make_opening("budget:1", max_epsilon=Decimal("0.5"))
    ledger.reserve("clinic", decide_always(Reservation(request=make_request(), charge=first, opening=opening)))
    with pytest.raises(LedgerError, match=message):
        ledger.reserve(
            "clinic",
            lambda _: Reservation(request=make_request(**asked), charge=Charge(*map(Decimal, charge)), status=status),
        )
    assert ledger.verify().records == 2


def test_an_account_must_be_opened_first(ledger: Ledger) -> None:
    continuation = Continuation(schema_digest=SCHEMA, source_digest=SOURCE)
    for given, words in ((None, "policy="), (continuation, "no account")):
        reservation = Reservation(request=make_request(), charge=Charge(Decimal("0.1")), continuation=given)
        with pytest.raises(LedgerError, match=words):
            ledger.reserve("clinic", decide_always(reservation))
    assert ledger.verify().records == 0


def test_an_entry_is_settled_once_and_properly(ledger: Ledger) -> None:
    entry = ledger.reserve("clinic", decide_on("0.1"))
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("no measured numbers", {"status": "denied", "measured": [[Fraction(1)]]}),
        ("has an answer", {"status": "released"}),
        ("same columns", {"status": "released", "answer": [{"a": 1}, {"b": 1}]}),
        ("finite numbers", {"status": "released", "answer": [{"a": float("nan")}]}),
    ]
    for words, given in wrong:
        with pytest.raises(LedgerError, match=words):
            ledger.settle(entry.id, **given)
    with pytest.raises(LedgerError, match="no entry"):
        ledger.settle("unknown", status="denied")
    ledger.settle(entry.id, status="released", answer=[])
    again: list[dict[str, Any]] = [{"status": "released", "answer": []}, {"status": "denied"}]
    for given in again:
        with pytest.raises(LedgerError, match="settled once"):
            ledger.settle(entry.id, **given)
    assert ledger.verify().records == 3


@pytest.mark.parametrize("name", ["", "a\nb", "a\0b", "\udcff"])
def test_names_that_no_database_compares_alike_are_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(LedgerError, match="dataset's name"):
        ledger.reserve(name, decide_on("0.1"))


def test_values_show_no_private_numbers(ledger: Ledger) -> None:
    """An ε of algorithm 1, and the reading it adds to, are private: no repr shows them."""
    entry = ledger.reserve("clinic", decide_on("0.777", request=make_request(algorithm="find")))
    assert "0.777" not in f"{entry!r} {ledger.account('clinic')!r} {ledger!r}"
