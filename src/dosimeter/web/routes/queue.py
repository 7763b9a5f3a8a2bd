"""The controller's queue, decisions and settings, the introduction, and computations that pages wait for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, Field

from dosimeter.errors import InputError
from dosimeter.web.decision import list_allowed, settle_unfinished
from dosimeter.web.expected import find_needed
from dosimeter.web.http import Controller, Filter, Refused, StateOf, render, require_dataset
from dosimeter.web.question import describe_question
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.store import (
    PLACE,
    RANKED_PLACE,
    QueryFilter,
    QueryPage,
    QueryStatus,
    StoredQuery,
    User,
    find_query,
    list_people,
    note,
    page_decided,
    page_open,
    read_standard,
    read_thresholds,
    save_thresholds,
)
from dosimeter.web.worker import Job

router = APIRouter()
PAGE = 50
RECENT = 8  # decisions below the queue
Percent = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
Place = Annotated[str, Query(max_length=80, pattern=RANKED_PLACE)]
DecidedPlace = Annotated[str, Query(max_length=80, pattern=PLACE)]
DecidedStatus = Literal["", "released", "denied", "changes", "withdrawn"]


class ThresholdForm(BaseModel):
    standard: Literal["balanced", "cautious", "exploratory", "own"] = "own"
    high: Percent
    normal: Percent
    low: Percent


WaitingQuery = tuple[StoredQuery, str, float | None]
"""A waiting query as the queue lists it, with its words and the ε that it needs.

The words are "" if the schema no longer admits the query. The ε is the smallest that gives the wanted error, if SQL and
schema alone tell it; no data are read for it.
"""


@router.get("/queue")
def show_queue(
    request: Request,
    state: StateOf,
    user: Controller,
    only: Filter,
    done: Annotated[str, Query(max_length=64)] = "",
    place: Place = "",
) -> Response:
    """Show what waits, the most urgent first, in parts; below it the latest decisions.

    ``done``: the id of the query that this controller has just decided; a sentence says so.
    """
    return render(
        request, "queue.html", user, done=_find_done(state, user, done), names=list(state.datasets), place=place,
        waiting=_list_waiting(state, only, place), only=only, unserved=list(state.unserved.values()),
        decided=list_shown(state, page_decided(state.database, limit=RECENT, only=QueryFilter())),
    )  # fmt: skip


@router.get("/queue/rows")
def show_rows(request: Request, state: StateOf, user: Controller, only: Filter, place: Place = "") -> Response:
    waiting = _list_waiting(state, only, place)
    return render(request, "fragments/waiting.html", user, waiting=waiting, only=only, place=place, polled=True)


def _list_waiting(state: ServerState, only: QueryFilter, place: str) -> tuple[list[WaitingQuery], QueryPage]:
    """Return one part of the waiting queries, after settling those whose release ended without a recorded status."""
    page = page_open(state.database, limit=PAGE, only=only, place=place)
    return [_describe(state, settle_unfinished(state, query)) for query in page.queries], page


def _describe(state: ServerState, query: StoredQuery) -> WaitingQuery:
    """Return a waiting query with its words and the ε that it needs, from SQL and schema alone."""
    try:
        served = require_dataset(state, query.dataset)
        prepared = served.prepare(query.sql)
    except (InputError, Refused):  # the schema no longer allows it, or the dataset is not served any more
        return query, "", None
    wanted = query.wanted_error
    needed = None if wanted is None else find_needed(prepared, wanted, served.candidates)
    return query, describe_question(prepared).words, needed


def list_shown(state: ServerState, page: QueryPage) -> list[tuple[StoredQuery, str]]:
    """Return decided queries and their ε: the approved one or, as after a noisy test, the one of the ledger's entry.

    The ε is "" if there is neither.
    """
    found = []
    for query in page.queries:
        entry = state.entry(query.entry_id) if query.status is QueryStatus.RELEASED else None
        epsilon = query.epsilon or ("" if entry is None or entry.epsilon is None else f"{entry.epsilon.normalize():f}")
        found.append((query, epsilon))
    return found


@router.get("/decided")
def show_decided(
    request: Request,
    state: StateOf,
    user: Controller,
    only: Filter,
    status: DecidedStatus = "",
    place: DecidedPlace = "",
) -> Response:
    """Show every decision, the latest first, in parts."""
    only = replace(only, status=status)
    page = page_decided(state.database, limit=PAGE, only=only, place=place)
    return render(
        request, "decided.html", user, decided=list_shown(state, page), total=page.total, only=only, place=place,
        names=list(state.datasets), following=page.following,
    )  # fmt: skip


def _find_done(state: ServerState, user: User, query_id: str) -> StoredQuery | None:
    """Return a query that this controller decided; None for any other."""
    query = find_query(state.database, query_id) if query_id.isalnum() else None
    return None if query is None or query.decided_by != user.id else query


@router.get("/settings")
def show_settings(request: Request, state: StateOf, user: Controller, saved: bool = False) -> Response:
    thresholds = read_thresholds(state.database, user)
    return render(
        request, "settings.html", user, thresholds=thresholds, standard=read_standard(state.database, user),
        saved=saved, examples=_exemplify(state, thresholds),
        people=list_people(state.database), served=state.datasets.values(),
        limits=state.settings,
    )  # fmt: skip


def _exemplify(
    state: ServerState, thresholds: Mapping[str, float]
) -> list[tuple[str, float, float | None, float | None]]:
    """Return each priority with its threshold on least ÷ most exposed, and what that means for counts (R3).

    That is the largest candidate that meets it for a COUNT without groups, and for one with ten groups; None if none
    does.
    """
    candidates = state.known[0].candidates

    def allow(percent: float, k: int) -> float | None:
        return max(list_allowed(candidates, percent, k), default=None)

    percents = ((name, thresholds[name]) for name in ("high", "normal", "low"))
    return [(name, percent, allow(percent, 1), allow(percent, 10)) for name, percent in percents]


@router.post("/settings")
def change_settings(state: StateOf, user: Controller, form: Annotated[ThresholdForm, Form()]) -> Response:
    save_thresholds(state.database, user, form.model_dump(exclude={"standard"}), form.standard)
    return RedirectResponse("/settings?saved=true", status_code=303)


@router.get("/introduction")
def show_introduction(request: Request, user: Controller) -> Response:
    return render(request, "introduction.html", user)


def _require_job(state: ServerState, job_id: str) -> tuple[ServedDataset, Job[Any]]:
    """Return a computation and the dataset that it reads. Raises Refused if there is none with this id."""
    for served in state.known:
        job = served.worker.find(job_id)
        if job is not None:
            return served, job
    raise Refused(404, "not_found", "There is no such computation.")


@router.get("/jobs/{job_id}")
def show_job(request: Request, state: StateOf, user: Controller, job_id: str) -> Response:
    served, job = _require_job(state, job_id)
    page = render(
        request, "fragments/progress.html", user, job=job, share=served.worker.share(job), again=f"/jobs/{job_id}"
    )
    if job.state == "done":  # reload the page that waits for the job, once
        page.headers["HX-Refresh"] = "true"
    return page


@router.post("/jobs/{job_id}/cancel")
def cancel_job(request: Request, state: StateOf, user: Controller, job_id: str) -> Response:
    served, job = _require_job(state, job_id)
    served.worker.cancel(job)
    note(state.database, user.name, "cancelled", dataset=served.name, detail=job.title)
    if request.headers.get("hx-target", "").startswith("job-"):  # a fragment of a page: answer in its place
        return render(request, "fragments/progress.html", user, job=job, share=None, again=f"/jobs/{job_id}")
    return Response(status_code=204, headers={"HX-Refresh": "true"})


@router.post("/jobs/{job_id}/again")
def restart_job(state: StateOf, user: Controller, job_id: str) -> Response:
    """Forget a job that was stopped, so that the page that shows it begins it again."""
    served, job = _require_job(state, job_id)
    served.worker.forget(job)
    return Response(status_code=204, headers={"HX-Refresh": "true"})
