"""The account page: entries, what is spent as a staircase, and the sum of own guarantees per person."""

from __future__ import annotations

import math
from decimal import Decimal
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dosimeter.dataset import Dataset
from dosimeter.ledger import REASON_WORDS, AccountSummary, Entry, Ledger
from dosimeter.show.charts import MOST_STEPS, Step, staircase_chart
from dosimeter.web.account_exposure import Sums, sum_guarantees
from dosimeter.web.http import Controller, Refused, StateOf, render, require_dataset, show_progress
from dosimeter.web.state import FEW_RECORDS, ServedDataset, ServerState
from dosimeter.web.store import User, note
from dosimeter.web.worker import PATIENCE, JobMeter

MOST_LISTED = 50

router = APIRouter()


@router.get("/accounts")
def list_accounts(request: Request, state: StateOf, user: Controller) -> Response:
    shown = [(served, state.account(served.name)) for served in state.datasets.values()]
    accounts = [(served, account, _share_spent(account, served.settings.budget)) for served, account in shown]
    return render(request, "accounts.html", user, accounts=accounts, unserved=list(state.unserved.values()))


def _share_spent(account: AccountSummary | None, budget: Decimal | None) -> float:
    """Return how much of a budget is spent, in percent; 0 without an account or a budget."""
    if account is None or not budget:
        return 0.0
    return 100.0 if account.reading.infinite else min(100.0, 100.0 * float(account.reading.epsilon / budget))


@router.get("/accounts/{name}")
def show_account(
    request: Request, state: StateOf, user: Controller, name: str, before: str = "", axis: str = "", verify: str = ""
) -> Response:
    """Show an account: its latest entries, or those before the entry ``before``, and its readings as a staircase.

    ``axis``: "time" draws the readings by time, anything else by entry. ``verify``: if not empty, verify the ledger
    anew.
    """
    served = require_dataset(state, name)
    account = state.account(name, fresh=True)
    verified_at, verified = state.verify(anew=bool(verify))
    note(state.database, user.name, "viewed account", dataset=name)
    ledger = state.database.ledger
    shown = () if account is None else ledger.entries(account.dataset, MOST_LISTED + 1, before=before or None)
    entries, older = shown[:MOST_LISTED], len(shown) > MOST_LISTED
    steps = [] if account is None else list_steps(ledger, account)
    budget = None if account is None or account.policy.budget is None else float(account.policy.budget)
    return render(
        request, "account.html", user, served=served, account=account, entries=entries[::-1], verified=verified,
        chart=staircase_chart(steps, budget=budget, by_time=axis == "time") if steps else None, steps=steps,
        budget=budget,
        continuations=() if account is None else ledger.continuations(account.dataset)[-MOST_LISTED:],
        older=entries[-1].id if older else None, before=before, by_time=axis == "time",
        verified_at=verified_at if verified.records > FEW_RECORDS else None, reasons=REASON_WORDS,
    )  # fmt: skip


def list_steps(ledger: Ledger, account: AccountSummary) -> list[Step]:
    """Return the reading of an account after each of its entries; for a long account, after some of them."""
    if account.entry_count <= MOST_STEPS:
        entries = ledger.entries(account.dataset, MOST_STEPS)[::-1]
        found = [(place, entry.at, entry.reading) for place, entry in enumerate(entries, start=1)]
    else:
        found = list(ledger.readings(account.dataset, MOST_STEPS))
    return [Step(place, at, math.inf if reading.is_infinite() else float(reading)) for place, at, reading in found]


@router.get("/accounts/{name}/people")
def show_sums(request: Request, state: StateOf, user: Controller, name: str) -> Response:
    """Show the sum of each person's own guarantees over all charged answers, beside what was charged.

    Scans the data once per answer. Unless the dataset's ε is found from a preference, a look weakens the answers'
    promise (G1). Then this refuses until a controller has clicked to see the sums (``look_at_sums``), and again after
    every further charge.
    """
    served = require_dataset(state, name)
    entries = _list_charged(state, name)
    needs_click = served.settings.algorithm != "find"
    if needs_click and served.worker.peek(_key(entries)) is None:
        raise Refused(403, "not_looked", "Choose to look at everybody's sums first.")
    if not needs_click:
        state.note_once(user, "viewed sums per person", key=str(len(entries)), dataset=name)
    return _sums(request, state, user, served, entries)


@router.post("/accounts/{name}/people")
def look_at_sums(request: Request, state: StateOf, user: Controller, name: str) -> Response:
    """Show everybody's sums after a click, and record it. Used where a look weakens the answers' promise (G1)."""
    served = require_dataset(state, name)
    note(state.database, user.name, "viewed sums per person", dataset=name)
    return _sums(request, state, user, served, _list_charged(state, name))


def _list_charged(state: ServerState, name: str) -> tuple[Entry, ...]:
    return tuple(entry for entry in state.history(name) if not entry.spent.is_nothing)


def _key(entries: tuple[Entry, ...]) -> tuple[str, tuple[str, ...]]:
    return "sums", tuple(entry.id for entry in entries)


def _sums(
    request: Request, state: ServerState, user: User, served: ServedDataset, entries: tuple[Entry, ...]
) -> Response:
    def work(dataset: Dataset, meter: JobMeter) -> Sums:
        asked = [entry.request for entry in entries]
        looks = dict.fromkeys((each.measured_digest or each.plan_digest, each.analyst) for each in asked)
        for digest, analyst in looks:
            state.database.ledger.record_view(served.schema.account_name, digest, "risk", analyst=analyst)
        return sum_guarantees(dataset, entries, meter)

    title = "Adding up everybody's own guarantees"
    job = served.worker.ask(_key(entries), title, work, wait=PATIENCE, current=True)
    if job.state != "done":
        return show_progress(request, served, user, job, f"/accounts/{quote(served.name, safe='')}/people")
    return render(
        request, "fragments/sums.html", user, sums=job.result, answers=len(entries),
        algorithm=served.settings.algorithm, in_zcdp=any(entry.rho is not None for entry in entries),
    )  # fmt: skip
