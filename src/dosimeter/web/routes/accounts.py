"""The account page: the ledger, the reading as a staircase, and what adds up per person."""

from __future__ import annotations

import math
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dosimeter.dataset import Dataset
from dosimeter.ledger import Entry
from dosimeter.show import format_number
from dosimeter.web.account_exposure import Sums, sum_guarantees
from dosimeter.web.charts import staircase_spec
from dosimeter.web.decision import ALGORITHMS, describe_policy
from dosimeter.web.http import Controller, OfficeOf, Refused, render, require_desk, show_moment
from dosimeter.web.state import Desk, Office
from dosimeter.web.store import User, note
from dosimeter.web.worker import PATIENCE, Job, Meter

router = APIRouter()


@router.get("/accounts")
def list_accounts(request: Request, office: OfficeOf, user: Controller) -> Response:
    shown = [
        (desk, office.account(desk.name), ALGORITHMS[desk.settings.algorithm], describe_policy(desk.settings.policy))
        for desk in office.desks.values()
    ]
    return render(request, "accounts.html", user, accounts=shown)


@router.get("/accounts/{name}")
def show_account(request: Request, office: OfficeOf, user: Controller, name: str) -> Response:
    desk = require_desk(office, name)
    account = office.account(name, fresh=True)
    verified = office.database.ledger.verify()
    note(office.database, user.name, "viewed account", dataset=name)
    entries = () if account is None else account.entries
    steps = [(entry.at, math.inf if entry.reading.is_infinite() else float(entry.reading)) for entry in entries]
    table: dict[str, Any] = {
        "columns": ["entry", "at (UTC)", "reading afterwards"],
        "rows": [
            [number, show_moment(at), format_number(reading, 6)] for number, (at, reading) in enumerate(steps, start=1)
        ],
    }
    budget = None if account is None or account.policy.budget is None else float(account.policy.budget)
    return render(
        request, "account.html", user, desk=desk, account=account, entries=entries, verified=verified,
        spec=staircase_spec(steps, budget) if steps else None, table=table, budget=budget,
        algorithm=ALGORITHMS[desk.settings.algorithm], policy=describe_policy(desk.settings.policy),
    )  # fmt: skip


@router.get("/accounts/{name}/people")
def show_sums(request: Request, office: OfficeOf, user: Controller, name: str) -> Response:
    """Per person: the sum of own guarantees, beside the guaranteed total. A scan per answer."""
    desk = require_desk(office, name)
    entries = _list_charged(office, name)
    job = desk.bench.peek(_key(entries))
    if _needs_click(desk) and job is None:
        raise Refused(403, "not_looked", "Choose to look at everybody's sums first.")
    if not _needs_click(desk) and office.is_first(user.session, "viewed sums per person", name, str(len(entries))):
        note(office.database, user.name, "viewed sums per person", dataset=name)
    return _sums(request, office, user, desk, entries)


@router.post("/accounts/{name}/people")
def look_at_sums(request: Request, office: OfficeOf, user: Controller, name: str) -> Response:
    """Looking at everybody, where a promise depends on not having looked (G1): on purpose, and on record."""
    desk = require_desk(office, name)
    note(office.database, user.name, "viewed sums per person", dataset=name)
    return _sums(request, office, user, desk, _list_charged(office, name))


def _needs_click(desk: Desk) -> bool:
    return desk.settings.algorithm != "find"


def _list_charged(office: Office, name: str) -> tuple[Entry, ...]:
    account = office.account(name)
    return () if account is None else tuple(entry for entry in account.entries if entry.charge > 0)


def _key(entries: tuple[Entry, ...]) -> tuple[str, tuple[str, ...]]:
    return "sums", tuple(entry.id for entry in entries)


def _sums(request: Request, office: Office, user: User, desk: Desk, entries: tuple[Entry, ...]) -> Response:
    def work(dataset: Dataset, meter: Meter) -> Sums:
        asked = [entry.request for entry in entries]
        looks = dict.fromkeys((each.measured_digest or each.plan_digest, each.analyst) for each in asked)
        for digest, analyst in looks:
            office.database.ledger.record_view(desk.schema.account_name, digest, "risk", analyst=analyst)
        return sum_guarantees(dataset, entries, meter)

    _forget_other_data(desk, entries)
    job = desk.bench.ask(_key(entries), "Adding up everybody's own guarantees", work, wait=PATIENCE)
    if job.state == "failed":
        raise Refused(409, "failed", str(job.error))
    if job.state != "done":
        again = f"/accounts/{quote(desk.name, safe='')}/people"
        return render(
            request, "fragments/progress.html", user, job=job, share=desk.bench.share(job), again=again
        )  # fmt: skip
    return render(
        request, "fragments/sums.html", user, sums=job.result, answers=len(entries), algorithm=desk.settings.algorithm
    )


def _forget_other_data(desk: Desk, entries: tuple[Entry, ...]) -> None:
    """Sums of data that have changed since are added up again."""
    known: Job | None = desk.bench.peek(_key(entries))
    if known is not None and known.state == "done" and known.meter.digest != desk.bench.digest:
        desk.bench.forget(known)
