"""Makes ledgers that have checkpoints, and uses them; long ones quickly, as the benchmark does. Not a test."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import ModuleType

from dosimeter.ledger import AccountSummary, Charge, Entry, Ledger, Request, Reservation
from tests.known import known
from tests.ledger.ledger_worker import decide_on, make_opening, make_request

NAMES = ("clinic", "Süd", "third")
BENCHMARK = Path(__file__).parents[2] / "bench" / "ledgers.py"


def _load_benchmark() -> ModuleType:
    spec = known(importlib.util.spec_from_file_location("bench_ledgers", BENCHMARK))
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def grow_ledger(ledger: Ledger, dataset: str, request: Request, entries: int) -> None:
    """Append that many released entries to an account, by what appends every record, many to a transaction."""
    _load_benchmark().grow_ledger(ledger, dataset, request, entries)


def release(ledger: Ledger, number: int, dataset: str = "clinic") -> Entry:
    request = make_request(f"request-{number}", plan_digest=f"plan-{number % 7}", source_digest=f"source {dataset}")

    def decide(account: AccountSummary | None) -> Reservation:
        opening = None if account else make_opening("budget:1000", source_digest=f"source {dataset}")
        return Reservation(request=request, charge=Charge(Decimal("0.001")), opening=opening)

    entry = ledger.reserve(dataset, decide)
    return ledger.settle(entry.id, status="released", answer=[{"n": number}], guarantee="ε")


def read_kinds(ledger: Ledger) -> list[tuple[int, str, int]]:
    """Return number, kind and length of every record."""
    with ledger._store.reading() as transaction:
        return [(int(str(r[0])), text(r[2]), len(text(r[6]))) for r in transaction.rows()]


def text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def use_all(ledger: Ledger) -> list[Callable[[], object]]:
    return [
        lambda: ledger.summary("clinic"),
        lambda: ledger.reserve("clinic", decide_on("0.1")),
        lambda: ledger.account("clinic"),
        lambda: ledger.find_answer("clinic", "request-1"),
        lambda: ledger.entries("clinic", 50),
        lambda: ledger.head(),
    ]
