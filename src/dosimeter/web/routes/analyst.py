"""The analyst's pages: ask, see one's own queue, read results. Everything shown here comes from ``public``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from dosimeter.errors import LimitError
from dosimeter.problems import Surface
from dosimeter.web.checks import CheckQueue, underline_clause
from dosimeter.web.http import Analyst, Checks, Refused, StateOf, render_public, require_dataset
from dosimeter.web.own_queries import find_shown, show_query
from dosimeter.web.public import AnswerShape, NewQuery, PublicCheck, PublicQuery
from dosimeter.web.released import describe_shape, list_released, note_readings
from dosimeter.web.state import ServerState
from dosimeter.web.store import User, find_own, list_own, submit_query, withdraw_query

router = APIRouter()
PAGE = 20
PATIENCE = 10.0  # seconds that a page waits for the analyst's previous check


class AskForm(BaseModel):
    """The form as the browser sends it: every field a text. Validated when it becomes a NewQuery."""

    dataset: Annotated[str, Field(max_length=200)] = ""
    sql: Annotated[str, Field(max_length=20_000)] = ""
    purpose: Annotated[str, Field(max_length=1_000)] = ""
    priority: Annotated[str, Field(max_length=20)] = "normal"
    wanted_error: Annotated[str, Field(max_length=40)] = ""
    switch: Annotated[str, Field(max_length=10)] = ""  # only another dataset was chosen; nothing is submitted yet


@router.get("/ask")
async def show_form(
    request: Request, state: StateOf, checks: Checks, user: Analyst, dataset: str = "", again: str = ""
) -> Response:
    form = await run_in_threadpool(_begin_form, state, user, dataset, again)
    return await _ask_page(request, state, checks, user, form)


def _begin_form(state: ServerState, user: User, dataset: str, again: str) -> AskForm:
    """Return an empty form, or that of an earlier query."""
    form = AskForm(dataset=dataset if dataset in state.datasets else next(iter(state.datasets)))
    earlier = find_own(state.database, user, again) if again.isalnum() else None
    if earlier is not None:
        error = earlier.wanted_error
        form = AskForm(
            dataset=earlier.dataset, sql=earlier.sql, purpose=earlier.purpose, priority=earlier.priority,
            wanted_error="" if error is None else f"{error:g}",
        )  # fmt: skip
    return form


async def _ask_page(
    request: Request,
    state: ServerState,
    checks: CheckQueue,
    user: User,
    form: AskForm,
    problems: dict[str, str] | None = None,
    status: int = 422,
) -> Response:
    served = state.dataset(form.dataset) or next(iter(state.datasets.values()))
    check, marked = await _checked(state, checks, user, form) if form.sql else (None, "")
    return render_public(
        request, "ask.html", user, status=status if problems else 200,
        form=form.model_dump(), problems=problems or {}, names=list(state.datasets),
        dataset=await run_in_threadpool(state.public, served), check=check, marked=marked,
    )  # fmt: skip


async def _checked(state: ServerState, checks: CheckQueue, user: User, form: AskForm) -> tuple[PublicCheck | None, str]:
    """Return the check of a query, and its SQL with the clause in the way marked; None while another check runs."""
    served = require_dataset(state, form.dataset)
    try:
        check = await checks.check(user.id, served, form.sql, patience=PATIENCE)
    except LimitError:
        return None, ""
    return check, "" if check.answerable else underline_clause(form.sql, check.clause)


@router.get("/ask/schema")
def show_schema(
    request: Request, state: StateOf, user: Analyst, dataset: Annotated[str, Field(max_length=200)] = ""
) -> Response:
    """Show the public facts of another dataset; what was typed stays."""
    served = require_dataset(state, dataset)
    return render_public(request, "fragments/schema.html", user, dataset=state.public(served))


@router.post("/ask/check")
async def show_check(
    request: Request, state: StateOf, checks: Checks, user: Analyst, form: Annotated[AskForm, Form()]
) -> Response:
    """Show, while the analyst types, whether the query can be answered, and if not, which clause prevents it.

    Shows nothing while a previous check is running: the page asks again.
    """
    check, marked = await _checked(state, checks, user, form)
    return render_public(request, "fragments/check.html", user, check=check, marked=marked)


@router.post("/ask")
async def ask(
    request: Request, state: StateOf, checks: Checks, user: Analyst, form: Annotated[AskForm, Form()]
) -> Response:
    served = require_dataset(state, form.dataset)
    if form.switch:
        return await _ask_page(request, state, checks, user, form, {})
    wanted = form.wanted_error.strip().replace(",", ".") or None
    try:
        query = NewQuery.model_validate(form.model_dump(exclude={"switch"}) | {"wanted_error": wanted})
    except ValidationError as error:
        return await _ask_page(request, state, checks, user, form, _name_problems(error))
    try:
        checked: PublicCheck = await checks.check(user.id, served, query.sql, patience=PATIENCE)
        if not checked.answerable:
            problems = {"sql": "This query cannot be answered as it is."}
            return await _ask_page(request, state, checks, user, form, problems)
        most = state.settings.open_queries
        query_id = await run_in_threadpool(submit_query, state.database, user, query, most=most)
    except LimitError as error:
        return await _ask_page(request, state, checks, user, form, {"sql": error.word(Surface.WEB)}, 429)
    return RedirectResponse(f"/queries/{query_id}", status_code=303)


def _name_problems(error: ValidationError) -> dict[str, str]:
    words = {
        "sql": "Write a query of at most 10,000 characters, all of them visible.",
        "purpose": "Say in one line what the answer is for, in at most 500 characters.",
        "priority": "Choose one of the priorities.",
        "wanted_error": "Give a positive number, or leave it empty.",
    }
    return {str(e["loc"][0]): words.get(str(e["loc"][0]), "This cannot be used.") for e in error.errors() if e["loc"]}


@router.get("/queries")
def list_queries(request: Request, state: StateOf, user: Analyst) -> Response:
    shown = [show_query(query, None) for query in list_own(state.database, user)]
    stopped = [name for name in state.datasets if state.is_stopped(name)]
    return render_public(request, "queries.html", user, queries=shown, stopped=stopped)


@router.get("/queries/{query_id}")
def show_one(request: Request, state: StateOf, user: Analyst, query_id: str) -> Response:
    return _query_page(request, state, user, query_id, "query.html")


@router.get("/queries/{query_id}/status")
def show_status(request: Request, state: StateOf, user: Analyst, query_id: str) -> Response:
    return _query_page(request, state, user, query_id, "fragments/status.html")


def _query_page(request: Request, state: ServerState, user: User, query_id: str, template: str) -> Response:
    query = find_shown(state, user, query_id, user.session)
    shape = _find_shape(state, query)
    return render_public(request, template, user, query=query, measured=shape.measured, grouped=shape.grouped)


def _find_shape(state: ServerState, query: PublicQuery) -> AnswerShape:
    """Return which columns of the answer carry noise, and whether there are groups.

    Only for an answered query: the time this takes could reveal that somebody opened a waiting one.
    """
    served = state.dataset(query.dataset) if query.answer is not None else None
    shape = None if served is None else describe_shape(served, query.sql)
    return shape or AnswerShape()


@router.post("/queries/{query_id}/withdraw")
def withdraw(state: StateOf, user: Analyst, query_id: str) -> Response:
    find_shown(state, user, query_id, user.session)
    if not withdraw_query(state.database, user, query_id):
        raise Refused(409, "decided", "This query is decided, or was withdrawn before.")
    return RedirectResponse("/queries", status_code=303)


@router.get("/answers")
def show_answers(
    request: Request,
    state: StateOf,
    user: Analyst,
    dataset: Annotated[str, Query(max_length=200)] = "",
    before: Annotated[str | None, Query(max_length=64, pattern="^[0-9a-f]+$")] = None,
) -> Response:
    """Show the released answers of a dataset, without names and purposes."""
    served = require_dataset(state, dataset or next(iter(state.datasets)))
    listed = list_released(state, served, limit=PAGE, before=before)
    note_readings(state, user, listed, user.session)
    return render_public(
        request,
        "answers.html",
        user,
        names=list(state.datasets),
        dataset=served.name,
        listed=listed,
        later=before is not None,
    )
