"""The table about every column of a dataset: for analysts once it is released, and how to ask for it."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from dosimeter.errors import InputError
from dosimeter.problems import Audience, Surface
from dosimeter.web.checks import RunCheck
from dosimeter.web.http import Analyst, Checks, Controller, StateOf, render, render_public, require_dataset
from dosimeter.web.own_queries import submit_own
from dosimeter.web.public import PublicCheck
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.store import User
from dosimeter.web.summaries import find_summary, find_waiting, make_query

router = APIRouter()
PATIENCE = 30.0  # seconds that a page waits until the query is checked: it is as long as the schema is wide


@router.get("/about/{dataset}")
def show_table(request: Request, state: StateOf, user: Analyst, dataset: str) -> Response:
    """Show the latest released summary of a dataset; without one, offer to ask for it."""
    served = require_dataset(state, dataset)
    found = find_summary(state, served)
    if found is not None:
        state.note_once(user, "read a released answer", dataset=served.name, detail=found.entry)
    return render_public(request, "about.html", user, dataset=served.name, summary=found, problem="")


@router.post("/about/{dataset}")
async def ask_for_table(request: Request, state: StateOf, run_check: Checks, user: Analyst, dataset: str) -> Response:
    """Submit the query for a dataset's summary as the analyst's own; where it cannot be answered, say why."""
    served = require_dataset(state, dataset)
    problem = await _find_problem(run_check, user, served)
    if not problem:
        try:
            query_id = await run_in_threadpool(submit_own, state, user, make_query(served))
            return RedirectResponse(f"/queries/{query_id}", status_code=303)
        except InputError as error:
            problem = error.word(Surface.WEB, Audience.ANALYST)
    return render_public(
        request, "about.html", user, status=422, dataset=served.name, summary=None, problem=problem
    )  # fmt: skip


async def _find_problem(run_check: RunCheck, user: User, served: ServedDataset) -> str:
    """Return why the summary cannot be answered, by the schema alone; "" if it can."""
    try:
        check: PublicCheck = await run_check(user.id, served.begin_check, make_query(served).sql, patience=PATIENCE)
    except InputError as error:
        return error.word(Surface.WEB, Audience.ANALYST)
    return "" if check.answerable else check.message


@router.get("/accounts/{name}/summary")
def show_to_controller(request: Request, state: StateOf, user: Controller, name: str) -> Response:
    """Show controllers what analysts see of a dataset's summary; without one, offer to put it into the queue."""
    served = require_dataset(state, name)
    return _show_to_controller(request, state, user, served)


@router.post("/accounts/{name}/summary")
async def put_into_queue(request: Request, state: StateOf, run_check: Checks, user: Controller, name: str) -> Response:
    """Open the decision on a dataset's summary: of the query that waits or, without one, of a new one."""
    served = require_dataset(state, name)
    problem = await _find_problem(run_check, user, served)
    if problem:
        return await run_in_threadpool(_show_to_controller, request, state, user, served, problem)
    waiting = await run_in_threadpool(find_waiting, state, served)
    try:
        query_id = waiting.id if waiting else await run_in_threadpool(submit_own, state, user, make_query(served))
    except InputError as error:
        return await run_in_threadpool(_show_to_controller, request, state, user, served, error.word(Surface.WEB))
    return RedirectResponse(f"/decide/{quote(query_id)}", status_code=303)


def _show_to_controller(
    request: Request, state: ServerState, user: User, served: ServedDataset, problem: str = ""
) -> Response:
    return render(
        request, "about.html", user, status=422 if problem else 200, dataset=served.name,
        summary=find_summary(state, served), problem=problem,
    )  # fmt: skip
