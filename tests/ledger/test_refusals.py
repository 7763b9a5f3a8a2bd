"""What must not go into the ledger is refused, says why, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from dosimeter.errors import LedgerError
from dosimeter.ledger import AccountSummary, Continuation, Ledger, Reservation
from dosimeter.ledger.readings import Charge
from tests.ledger.ledger_worker import SCHEMA, SOURCE, decide_on, make_opening, make_request


def refuse(account: AccountSummary | None) -> Reservation:
    raise RuntimeError("decided against it")


def test_nothing_is_written_when_the_decision_raises(target: str) -> None:
    with Ledger.open(target) as ledger:
        with pytest.raises(RuntimeError, match="decided against it"):
            ledger.reserve("clinic", refuse)
        with pytest.raises(KeyboardInterrupt):
            ledger.reserve("clinic", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        assert ledger.verify().records == 0
        ledger.reserve("clinic", decide_on("0.1"))  # and the lock is free


@pytest.mark.parametrize(
    ("reservation", "message"),
    [
        (lambda: Reservation(request=make_request(), charge=Charge(Decimal("0.8"))), "does not admit"),
        (
            lambda: Reservation(request=make_request(), charge=Charge(Decimal("0.1"), delta=Decimal("2e-6"))),
            "does not admit",
        ),
        (lambda: Reservation(request=make_request(), charge=Charge(Decimal("0.6"))), "does not admit"),
        (lambda: Reservation(request=make_request(algorithm="find"), charge=Charge(Decimal("0.1"))), "one algorithm"),
        (
            lambda: Reservation(request=make_request(schema_digest="other"), charge=Charge(Decimal("0.1"))),
            "continued=True",
        ),
        (lambda: Reservation(request=make_request(), charge=Charge(Decimal(0))), "larger than 0"),
        (lambda: Reservation(request=make_request(), charge=Charge(Decimal(1)), status="denied"), "nothing but"),
        (
            lambda: Reservation(request=make_request(settings={"rows": [1]}), charge=Charge(Decimal("0.1"))),
            "never lists",
        ),
        (lambda: Reservation(request=make_request(analyst="\udcff"), charge=Charge(Decimal("0.1"))), "valid text"),
    ],
)
def test_the_ledger_itself_refuses(tmp_path: Path, reservation: Callable[[], Reservation], message: str) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        opening = make_opening("budget:1", max_epsilon=Decimal("0.5"))
        ledger.reserve(
            "clinic", lambda _: Reservation(request=make_request(), charge=Charge(Decimal("0.3")), opening=opening)
        )
        with pytest.raises(LedgerError, match=message):
            ledger.reserve("clinic", lambda _: reservation())
        assert ledger.verify().records == 2


def test_an_account_must_be_opened_first(target: str) -> None:
    with Ledger.open(target) as ledger:
        with pytest.raises(LedgerError, match="policy="):
            ledger.reserve("clinic", lambda _: Reservation(request=make_request(), charge=Charge(Decimal("0.1"))))
        continuation = Continuation(schema_digest=SCHEMA, source_digest=SOURCE)
        with pytest.raises(LedgerError, match="no account"):
            ledger.reserve(
                "clinic",
                lambda _: Reservation(request=make_request(), charge=Charge(Decimal("0.1")), continuation=continuation),
            )
        assert ledger.verify().records == 0


def test_an_entry_is_settled_once_and_properly(target: str) -> None:
    with Ledger.open(target) as ledger:
        entry = ledger.reserve("clinic", decide_on("0.1"))
        with pytest.raises(LedgerError, match="no entry"):
            ledger.settle("unknown", status="denied")
        with pytest.raises(LedgerError, match="has an answer"):
            ledger.settle(entry.id, status="released")
        with pytest.raises(LedgerError, match="same columns"):
            ledger.settle(entry.id, status="released", answer=[{"a": 1}, {"b": 1}])
        with pytest.raises(LedgerError, match="finite numbers"):
            ledger.settle(entry.id, status="released", answer=[{"a": float("nan")}])
        ledger.settle(entry.id, status="released", answer=[])
        for status in ("released", "denied"):
            with pytest.raises(LedgerError, match="settled once"):
                ledger.settle(entry.id, status=status, answer=[] if status == "released" else None)
        assert ledger.verify().records == 3


@pytest.mark.parametrize("name", ["", "a\nb", "a\0b", "\udcff"])
def test_names_that_no_database_compares_alike_are_refused(tmp_path: Path, name: str) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger, pytest.raises(LedgerError, match="dataset's name"):
        ledger.reserve(name, decide_on("0.1"))


def test_values_show_no_private_numbers(tmp_path: Path) -> None:
    """An ε of algorithm 1, and the reading it adds to, are private: no repr shows them."""
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        entry = ledger.reserve("clinic", decide_on("0.777", request=make_request(algorithm="find")))
        assert "0.777" not in f"{entry!r} {ledger.account('clinic')!r} {ledger!r}"
