"""The controller's queue, thresholds and audit log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import AfterValidator, BaseModel, Field

from dosimeter.web.decision import settle_left
from dosimeter.web.http import Controller, Refused, StateOf, render
from dosimeter.web.public import PHRASES, check_text
from dosimeter.web.state import ServerState
from dosimeter.web.store import (
    AuditFilter,
    QueryStatus,
    StoredQuery,
    User,
    count_open,
    find_query,
    list_audit,
    list_decided,
    list_open,
    note,
    read_head,
    read_thresholds,
    save_thresholds,
)

router = APIRouter()
PAGE = 50
AUDIT_PAGE = 200
Shown = Annotated[int, Query(ge=1, le=1_000)]
Percent = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]


class ThresholdForm(BaseModel):
    high: Percent
    normal: Percent
    low: Percent


@router.get("/queue")
def show_queue(
    request: Request,
    state: StateOf,
    user: Controller,
    done: Annotated[str, Query(max_length=64)] = "",
    shown: Shown = PAGE,
) -> Response:
    return render(
        request, "queue.html", user, said=_tell_done(state, user, done),
        waiting=_list_waiting(state, user, shown), decided=list_decided(state.database),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class WaitingList:
    """The first queries that wait. ``following``: how many are shown next; ``thresholds``: by priority, in percent."""

    queries: list[StoredQuery]
    shown: int
    following: int
    total: int
    thresholds: Mapping[str, float]


def _list_waiting(state: ServerState, user: User, shown: int) -> WaitingList:
    """Return the first waiting queries, and how many there are in all. Settles those whose release ended unrecorded."""
    return WaitingList(
        queries=[settle_left(state, query) for query in list_open(state.database, limit=shown)],
        shown=shown,
        following=shown + PAGE,
        total=count_open(state.database),
        thresholds=read_thresholds(state.database, user),
    )


def _tell_done(state: ServerState, user: User, query_id: str) -> str:
    """Return a sentence about what this controller has just done to a query."""
    query = find_query(state.database, query_id) if query_id.isalnum() else None
    if query is None or query.decided_by != user.id:
        return ""
    sql = query.sql if len(query.sql) <= 80 else query.sql[:79] + "…"
    match query.status:
        case QueryStatus.DENIED:
            return f"Denied: “{sql}”. The analyst {query.analyst} sees the one fixed wording."
        case QueryStatus.CHANGES:
            return f"Sent back: “{sql}”. The analyst {query.analyst} is told: “{PHRASES[query.phrase or '']}”"
        case _:
            return ""


@router.get("/queue/rows")
def show_rows(request: Request, state: StateOf, user: Controller, shown: Shown = PAGE) -> Response:
    return render(request, "fragments/waiting.html", user, waiting=_list_waiting(state, user, shown))


@router.get("/settings")
def show_settings(request: Request, state: StateOf, user: Controller, saved: bool = False) -> Response:
    return render(
        request, "settings.html", user, thresholds=read_thresholds(state.database, user), saved=saved
    )  # fmt: skip


@router.post("/settings")
def change_settings(state: StateOf, user: Controller, form: Annotated[ThresholdForm, Form()]) -> Response:
    save_thresholds(state.database, user, form.model_dump())
    return RedirectResponse("/settings?saved=true", status_code=303)


@router.get("/audit")
def show_audit(
    request: Request,
    state: StateOf,
    user: Controller,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    who: Annotated[str, Query(max_length=64), AfterValidator(check_text)] = "",
    day: Annotated[str, Query(max_length=10, pattern=r"^(\d{4}-\d{2}-\d{2})?$")] = "",
    text: Annotated[str, Query(max_length=200), AfterValidator(check_text)] = "",
) -> Response:
    only = AuditFilter(who, day, text)
    entries = list_audit(state.database, limit=AUDIT_PAGE, before=before, only=only)
    earlier = urlencode({"who": who, "day": day, "text": text, "before": entries[-1].id}) if entries else ""
    count, head = read_head(state.database)
    return render(
        request, "audit.html", user, entries=entries, only=only, count=count, head=head,
        earlier=earlier if len(entries) == AUDIT_PAGE else "",
    )  # fmt: skip


@router.get("/jobs/{job_id}")
def show_job(request: Request, state: StateOf, user: Controller, job_id: str) -> Response:
    for served in state.datasets.values():
        job = served.worker.find(job_id)
        if job is not None:
            again = f"/jobs/{job_id}"
            page = render(
                request, "fragments/progress.html", user, job=job, share=served.worker.share(job), again=again
            )  # fmt: skip
            if job.state == "done":  # reload the page that waits for the job, once
                page.headers["HX-Refresh"] = "true"
            return page
    raise Refused(404, "not_found", "There is no such computation.")


@router.post("/jobs/{job_id}/cancel")
def cancel_job(request: Request, state: StateOf, user: Controller, job_id: str) -> Response:
    for served in state.datasets.values():
        job = served.worker.find(job_id)
        if job is not None:
            served.worker.cancel(job)
            note(state.database, user.name, "cancelled", dataset=served.name, detail=job.title)
            if request.headers.get("hx-target", "").startswith("job-"):  # a fragment of a page: answer in its place
                return render(request, "fragments/progress.html", user, job=job, share=None, again="")
            return Response(status_code=204, headers={"HX-Refresh": "true"})
    raise Refused(404, "not_found", "There is no such computation.")


@router.post("/jobs/{job_id}/again")
def restart_job(state: StateOf, user: Controller, job_id: str) -> Response:
    """Forget a stopped job, so that the page that shows it starts it again."""
    for served in state.datasets.values():
        job = served.worker.find(job_id)
        if job is not None:
            served.worker.forget(job)
            return Response(status_code=204, headers={"HX-Refresh": "true"})
    raise Refused(404, "not_found", "There is no such computation.")
