"""The account page: the ledger, the reading as a staircase, and what adds up per person."""

from __future__ import annotations

import math
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dosimeter.numerals import format_number
from dosimeter.web.charts import staircase_spec
from dosimeter.web.exposure import sum_guarantees
from dosimeter.web.inbox import note
from dosimeter.web.office import Desk
from dosimeter.web.pages import Controller, OfficeOf, Refused, render
from dosimeter.web.routes.decision import PATIENCE

router = APIRouter()


def _require_desk(office: OfficeOf, name: str) -> Desk:
    desk = office.desk(name)
    if desk is None:
        raise Refused(404, "not_found", "There is no such dataset.")
    return desk


@router.get("/accounts")
def list_accounts(request: Request, office: OfficeOf, user: Controller) -> Response:
    shown = [(desk, office.account(desk.name)) for desk in office.desks.values()]
    return render(request, "accounts.html", user, accounts=shown)


@router.get("/accounts/{name}")
def show_account(request: Request, office: OfficeOf, user: Controller, name: str) -> Response:
    desk = _require_desk(office, name)
    account = office.account(name, fresh=True)
    verified = office.database.ledger.verify()
    note(office.database, user.name, "viewed account", dataset=name)
    entries = () if account is None else account.entries
    steps = [(entry.at, math.inf if entry.reading.is_infinite() else float(entry.reading)) for entry in entries]
    table: dict[str, Any] = {
        "columns": ["entry", "at", "reading afterwards"],
        "rows": [[number, at, format_number(reading, 4)] for number, (at, reading) in enumerate(steps, start=1)],
    }
    return render(
        request, "account.html", user, desk=desk, account=account, entries=entries, verified=verified,
        spec=staircase_spec(steps) if steps else None, table=table,
    )  # fmt: skip


@router.get("/accounts/{name}/people")
def show_sums(request: Request, office: OfficeOf, user: Controller, name: str) -> Response:
    """Per person: the sum of own guarantees, beside the guaranteed total. A scan per answer."""
    desk = _require_desk(office, name)
    account = office.account(name)
    entries = () if account is None else tuple(entry for entry in account.entries if entry.charge > 0)
    key = ("sums", tuple(entry.id for entry in entries))
    job = desk.bench.ask(
        key, "Adding up everybody's own guarantees",
        lambda dataset, meter: sum_guarantees(dataset, entries, meter), wait=PATIENCE,
    )  # fmt: skip
    if job.state == "failed":
        raise Refused(409, "failed", str(job.error))
    if job.state != "done":
        return render(
            request,
            "fragments/progress.html",
            user,
            job=job,
            share=desk.bench.share(job),
            again=f"/accounts/{name}/people",
        )
    return render(
        request, "fragments/sums.html", user, sums=job.result, answers=len(entries), algorithm=desk.settings.algorithm
    )
