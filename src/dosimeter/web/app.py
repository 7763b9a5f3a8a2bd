"""The application: routes, middleware, and error pages that reveal nothing. Takes Settings; gives an ASGI app."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from dosimeter.errors import DosimeterError, LimitError
from dosimeter.problems import Surface
from dosimeter.web.assets import Assets
from dosimeter.web.checks import CheckQueue
from dosimeter.web.decision import AlreadyDecided, reconcile
from dosimeter.web.http import (
    NotSignedIn,
    Refused,
    SecurityMiddleware,
    check_csrf,
    make_environment,
    note_refusal,
    refuse,
    send_to_sign_in,
)
from dosimeter.web.identity import NameTurns, PasswordQueue
from dosimeter.web.log import LOG, report_bug
from dosimeter.web.routes import (
    accounts,
    analyst,
    api,
    audit,
    decision,
    decision_actions,
    incidents,
    queue,
    results,
    session,
    setup,
    summaries,
)
from dosimeter.web.settings import Settings
from dosimeter.web.state import ServerState

_WORDS = {
    400: ("malformed", "The request could not be read."),
    404: ("not_found", "There is no such page."),
    405: ("not_allowed", "This cannot be done here."),
}
FOR_GOOD = 31_536_000  # seconds: a year, the most that is usual
BROKEN = "Something went wrong on our side. It is in the server's log."


def make_app(settings: Settings) -> Any:
    """Open the database and every dataset, settle approvals that a crash left unfinished, and return the app."""
    state = ServerState(settings)
    left = reconcile(state)
    if left:
        LOG.warning("%d approvals were interrupted; each was settled by what the ledger holds", left)
    return SecurityMiddleware(
        build_app(state), largest_body=settings.largest_body, secure=settings.secure, stop=state.processes.close
    )


def build_app(state: ServerState) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        state.processes.warm()
        yield
        password_queue.close()
        state.close()

    checks, password_queue, assets = CheckQueue(), PasswordQueue(), Assets()
    app = FastAPI(
        title="Dosimeter", openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan, redirect_slashes=False
    )  # fmt: skip
    app.state.server = state
    app.state.checks = checks
    app.state.password_queue = password_queue
    app.state.name_turns = NameTurns()
    app.state.templates = make_environment(assets.address)
    app.state.assets = assets
    pages = (session, analyst, results, queue, audit, decision, decision_actions, accounts, incidents, setup, summaries)
    for module in pages:
        app.include_router(module.router, dependencies=[Depends(check_csrf)])
    app.add_api_route("/health", show_health, methods=["GET"])
    app.add_api_route("/static/{path:path}", show_asset, methods=["GET"])
    interface = api.make_api(state, checks)
    for kind, show in _ERRORS.items():
        app.add_exception_handler(kind, show)
        interface.add_exception_handler(kind, show)
    app.mount("/api/v1", interface)
    return app


def show_health(request: Request) -> Response:
    """Return whether the database responds, and every dataset is there and has its worker. Nothing about the data."""
    state: ServerState = request.app.state.server
    try:
        with state.database.reading() as connection:
            connection.execute(sa.text("SELECT 1"))
    except sa.exc.SQLAlchemyError:
        return JSONResponse({"status": "no database"}, status_code=503)
    if not all(served.worker.is_alive for served in state.datasets.values()):
        return JSONResponse({"status": "a dataset's thread ended"}, status_code=503)
    if not all(served.is_there for served in state.datasets.values()):
        return JSONResponse({"status": "the data of a dataset cannot be found"}, status_code=503)
    return JSONResponse({"status": "ok"})


def show_asset(request: Request, path: str) -> Response:
    """Send a static file. A browser may keep it for good under its versioned address, not under its plain name."""
    assets: Assets = request.app.state.assets
    found = assets.find(path)
    if found is None:
        raise HTTPException(404)
    asset, versioned = found
    headers = {
        "Cache-Control": f"public, max-age={FOR_GOOD}, immutable" if versioned else "public, max-age=300",
        "Vary": "Accept-Encoding",
    }
    packs = any(part.split(";")[0].strip() == "gzip" for part in request.headers.get("accept-encoding", "").split(","))
    if packs and asset.packed is not None:
        return Response(asset.packed, media_type=asset.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(asset.content, media_type=asset.media_type, headers=headers)


def _name_fields(error: RequestValidationError) -> str:
    """Return a message that names the unusable fields of a request, and says what some of them must be.

    Where pydantic gives a number in place of a field's name, it is a position in a list, and is left out.
    """
    problems = error.errors()
    if any(part["type"] == "json_invalid" for part in problems):
        return "The request is not valid JSON."
    fields = sorted({part["loc"][-1] for part in problems if part["loc"] and isinstance(part["loc"][-1], str)})
    named = [name for name in fields if name != "body"]
    if not named:
        return "The request cannot be used: send the fields that /api/v1/openapi.json describes."
    said = dict.fromkeys(words for part in problems if (words := _tell_limit(part)))
    return " ".join([f"The request cannot be used. Look at: {', '.join(named)}.", *said])  # our own words, no values


def _tell_limit(problem: Mapping[str, Any]) -> str:
    """Return a sentence on what a field must be, without quoting what was given; "" if its name says enough.

    ``problem``: one of pydantic's errors.
    """
    limits, name = problem.get("ctx", {}), problem["loc"][-1] if problem["loc"] else ""
    match problem["type"]:
        case "value_error":
            return str(limits["error"])
        case "string_too_long":
            return f"{name} may have {limits['max_length']:,} characters at most."
        case "string_too_short" | "missing":
            return f"{name} is needed."
        case "greater_than" | "greater_than_equal":
            than = "above" if problem["type"] == "greater_than" else "at least"
            return f"{name} must be {than} {limits.get('gt', limits.get('ge'))}."
        case "less_than" | "less_than_equal":
            than = "below" if problem["type"] == "less_than" else "at most"
            return f"{name} must be {than} {limits.get('lt', limits.get('le')):,}."
        case "literal_error":
            return f"{name} must be one of: {str(limits['expected']).replace(chr(39), '')}."
        case _:
            return ""


def _show_refused(request: Request, error: Refused) -> Response:
    if error.status == 403:
        note_refusal(request)
    return refuse(request, error.status, error.code, error.message, error.clause)


def _show_too_many(request: Request, error: LimitError) -> Response:
    response = refuse(request, 429, "too_many", error.word(Surface.WEB))
    response.headers["Retry-After"] = str(error.wait)
    return response


def _show_unavailable(request: Request, error: DosimeterError) -> Response:
    report_bug(request.method, error)
    return refuse(request, 503, "unavailable", "This cannot be done at the moment. Try again later.")


def _show_http(request: Request, error: HTTPException) -> Response:
    code, words = _WORDS.get(error.status_code, ("refused", "The request cannot be answered."))
    response = refuse(request, error.status_code, code, words)
    response.headers.update(error.headers or {})
    return response


# None is async, so that each runs in a thread of its own.
_ERRORS: dict[Any, Callable[[Request, Any], Response]] = {
    Refused: _show_refused,
    NotSignedIn: lambda request, _: send_to_sign_in(request),
    RequestValidationError: lambda request, error: refuse(request, 422, "unusable", _name_fields(error)),
    AlreadyDecided: decision_actions.show_conflict,
    LimitError: _show_too_many,
    DosimeterError: _show_unavailable,
    HTTPException: _show_http,
    Exception: lambda request, _: refuse(request, 500, "broken", BROKEN),
}
