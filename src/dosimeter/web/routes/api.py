"""The JSON API for analysts' programs: datasets, and queries submitted, listed and read. Bearer tokens only.

Mounted as an application of its own, so that its OpenAPI document describes exactly this and its errors have one shape.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from dosimeter.version import __version__
from dosimeter.web.checks import CheckQueue
from dosimeter.web.http import Checks, Refused, StateOf, require_dataset
from dosimeter.web.identity import find_token
from dosimeter.web.own_queries import find_shown, show_own, submit_own, withdraw_own
from dosimeter.web.public import (
    NewQuery,
    Public,
    PublicCheck,
    PublicDataset,
    PublicList,
    PublicQuery,
    PublicReleases,
    QueryText,
)
from dosimeter.web.released import MOST_LISTED, list_released, note_listing
from dosimeter.web.state import ServerState
from dosimeter.web.store import PLACE, PublicStatusName, QueryFilter, User, page_own

router = APIRouter()
PATIENCE = 2.0  # seconds that a request waits for the analyst's check before
_bearer = HTTPBearer(auto_error=False, description="A token made on the page “You”.")


class ApiProblem(Public):
    code: str
    message: str
    clause: str | None


class ApiError(Public):
    """Every error looks like this. ``clause`` is the part of the SQL that is in the way, where there is one."""

    error: ApiProblem


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ApiError, "description": words}
    for status, words in {
        400: "Malformed", 401: "No valid token", 404: "Not there", 408: "Too slow", 409: "Decided before",
        413: "Too large", 415: "Not JSON", 422: "Cannot be used",
        429: "Too many at a time; Retry-After says when to try again",
    }.items()
}  # fmt: skip


def make_api(state: ServerState, checks: CheckQueue) -> FastAPI:
    api = FastAPI(
        title="Dosimeter", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False,
        description="Ask queries about datasets that a controller holds, and read what was released.",
    )  # fmt: skip
    api.state.server = state
    api.state.checks = checks
    api.include_router(router, responses=ERRORS)
    return api


def require_token(
    state: StateOf, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> User:
    user = None if credentials is None else find_token(state.database, credentials.credentials)
    if user is None:
        raise Refused(401, "unauthorised", "Give a valid token: Authorization: Bearer dsm_…")
    return user


TokenUser = Annotated[User, Depends(require_token)]
QueryId = Annotated[str, Path(max_length=64)]


@router.get("/datasets", summary="The datasets and their public schemas")
def list_datasets(state: StateOf, user: TokenUser) -> list[PublicDataset]:
    return [state.public(served) for served in state.datasets.values()]


@router.post("/check", summary="Whether a query can be answered; asks nothing")
async def check(state: StateOf, run_check: Checks, user: TokenUser, text: QueryText) -> PublicCheck:
    served = require_dataset(state, text.dataset)
    return await run_check(user.id, served.begin_check, text.sql, patience=PATIENCE)


@router.post("/queries", status_code=201, summary="Submit a query")
async def submit(
    state: StateOf, run_check: Checks, user: TokenUser, query: NewQuery, response: Response
) -> PublicQuery:
    served = require_dataset(state, query.dataset)
    checked = await run_check(user.id, served.begin_check, query.sql, patience=PATIENCE)
    if not checked.answerable:
        raise Refused(422, "not_answerable", checked.message, clause=checked.clause)
    shown = await run_in_threadpool(_submit, state, user, query)
    response.headers["Location"] = f"/api/v1/queries/{shown.id}"
    return shown


def _submit(state: ServerState, user: User, query: NewQuery) -> PublicQuery:
    return find_shown(state, user, submit_own(state, user, query))


@router.get("/queries", summary="Your queries, newest first")
def list_queries(
    state: StateOf,
    user: TokenUser,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
    before: Annotated[str, Query(max_length=40, description="created_at of the last one seen")] = "",
    place: Annotated[str, Query(max_length=80, pattern=PLACE, description="following of the list before")] = "",
    dataset: Annotated[str, Query(max_length=200)] = "",
    status: PublicStatusName = "",
    text: Annotated[str, Query(max_length=200, description="words in SQL, purpose or id")] = "",
) -> PublicList:
    for name, given in {"before": before, "dataset": dataset, "text": text}.items():
        if not given.isprintable():
            raise Refused(422, "unusable", f"{name} holds a character that cannot be printed.")
    only = QueryFilter(dataset=dataset, status=status, text=text)
    page = page_own(state.database, user, limit=limit, only=only, place=place, before=before)
    shown = [show_own(state, user, query) for query in page.queries]
    return PublicList(queries=shown, following=page.following or None)


@router.get("/queries/{query_id}", summary="One of your queries, with its answer once it is released")
def read_query(state: StateOf, user: TokenUser, query_id: QueryId) -> PublicQuery:
    return find_shown(state, user, query_id)


@router.post("/queries/{query_id}/withdraw", summary="Withdraw a query that is not decided")
def withdraw(state: StateOf, user: TokenUser, query_id: QueryId) -> PublicQuery:
    withdraw_own(state, user, query_id)
    return find_shown(state, user, query_id)


@router.get("/answers", summary="The released answers of a dataset, whoever asked, newest first")
def list_answers(
    state: StateOf,
    user: TokenUser,
    dataset: Annotated[str, Query(max_length=200)],
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 50,
    before: Annotated[str | None, Query(max_length=64, pattern="^[0-9a-f]+$", description="following")] = None,
) -> PublicReleases:
    listed = list_released(state, require_dataset(state, dataset), limit=limit, before=before)
    note_listing(state, user, listed)
    return listed
