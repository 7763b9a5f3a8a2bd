"""Refusals in one shape: JSON for programs, a page for people. Internal errors are never shown."""

from __future__ import annotations

import re
from urllib.parse import urlencode, urlsplit

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from jinja2 import Environment
from sqlalchemy.exc import SQLAlchemyError

from dosimeter.errors import DosimeterError
from dosimeter.web.http.csrf import SAFE
from dosimeter.web.http.templates import render
from dosimeter.web.http.visitors import find_address, find_visitor, find_way_back, get_state
from dosimeter.web.store import NOBODY, User, note, write_time


def _way_back_from(request: Request) -> str:
    """Return the address of the page to go back to after a refusal; "" if there is none.

    - After a refused page: its own address.
    - After a refused form: the page with the form, as the header Referer names it, with all that was chosen on it.
      Without that header, the page is found from the path: /decide/7/deny leads to /decide/7.
    - After any other refused request by htmx: the page that sent it.
    """
    if request.headers.get("hx-request") == "true":
        parts = urlsplit(request.headers.get("hx-current-url", ""))
    else:
        parts = urlsplit(str(request.url))
    path = parts.path
    if request.method not in SAFE:  # a form: back to the page that contains it
        came = urlsplit(request.headers.get("referer", ""))
        if came.netloc == request.url.netloc and (known := find_way_back(f"{came.path}?{came.query}".rstrip("?"))):
            return known
        path = re.sub(r"^(/decide/\w+)/\w+$", r"\1", re.sub(r"^(/queries/\w+)/\w+$", r"\1", path))
        path = re.sub(r"^(/setup/[^/]+)/\w+$", r"\1", path)
        return find_way_back(re.sub(r"^/me/.*$", "/me", path))
    return find_way_back(path + (f"?{parts.query}" if parts.query else ""))


def note_refusal(request: Request) -> None:
    """Record that somebody asked for a page that they may not see, once per session and kind of page.

    Requests of people who are not signed in are recorded once per hour and kind of page, so that nobody can fill the
    log.
    """
    user, state = _find_visitor_if_possible(request), get_state(request)
    asked = f"{request.method} {getattr(request.scope.get('route'), 'path', '/…')}"
    if user is not None:
        state.note_once(user, "was refused", detail=asked)
    elif state.remember_first("refused", write_time()[:13], asked):
        note(state.database, NOBODY, "was refused", detail=f"{asked}, from {find_address(request)}")


def is_for_programs(request: Request) -> bool:
    return request.url.path.startswith("/api/")


def refuse(request: Request, status: int, code: str, message: str, clause: str | None = None) -> Response:
    """Return a refusal: JSON for programs, a fragment for htmx, a page for people.

    ``code``: the kind of refusal; ``clause``: the part of the SQL at fault, for programs.
    """
    if is_for_programs(request):
        body = {"error": {"code": code, "message": message, "clause": clause}}
        return JSONResponse(body, status_code=status)
    if request.headers.get("hx-request") == "true":
        environment: Environment = request.app.state.templates
        fragment = environment.get_template("fragments/problem.html").render(message=message)
        return HTMLResponse(fragment, status_code=status)
    user = _find_visitor_if_possible(request) if status < 500 else None
    return render(request, "error.html", user, status=status, code=status, kind=code, message=message)


def _find_visitor_if_possible(request: Request) -> User | None:
    """Return who is asking; None if nobody is signed in, or if the database does not respond."""
    try:
        return find_visitor(request)
    except (SQLAlchemyError, DosimeterError):
        return None


def send_to_sign_in(request: Request) -> Response:
    """Redirect to the sign-in page, with the address to return to, and a notice if a form was sent and is now lost.

    Programs get a refusal instead.
    """
    if is_for_programs(request):
        return refuse(request, 401, "unauthorised", "Sign in first.")
    back = _way_back_from(request)
    parts = {"next": back} if back else {}
    if request.method not in SAFE and request.url.path not in ("/sign-out", "/sign-out-everywhere"):
        parts["ended"] = "1"
    address = f"/sign-in?{urlencode(parts)}" if parts else "/sign-in"
    if request.headers.get("hx-request") == "true":
        return Response(status_code=401, headers={"HX-Redirect": address})
    return RedirectResponse(address, status_code=303)
