"""What every route shares: who is asking, the token against forged requests, templates, and refusals in one shape.

An analyst's page is rendered by ``render_public``, which takes nothing but values of ``models``.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode, urlsplit

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from itsdangerous import BadSignature
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from sqlalchemy.exc import SQLAlchemyError

from dosimeter.errors import DosimeterError
from dosimeter.show import format_epsilon
from dosimeter.version import __version__
from dosimeter.web.checks import CheckRoom
from dosimeter.web.figures import keep_together, show_bound, show_number, show_small
from dosimeter.web.identity import Gate, find_session
from dosimeter.web.public import Public, PublicVisitor
from dosimeter.web.state import Desk, Office
from dosimeter.web.store import NOBODY, User, digest_key, make_key, note, write_time

SESSION_COOKIE = "dosimeter_session"
ENTRY_COOKIE = "dosimeter_entry"
NOTICE_COOKIE = "dosimeter_notice"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FOLDER = Path(__file__).parent


class Refused(Exception):
    """A request that is answered with a short page or a JSON error. ``code`` is for programs."""

    def __init__(self, status: int, code: str, message: str, *, clause: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.clause = status, code, message, clause


class NotSignedIn(Exception):
    """Nobody is signed in: to the sign-in page."""


# ---------------------------------------------------------------- who is asking


def get_office(request: Request) -> Office:
    office: Office = request.app.state.office
    return office


HOMES = {
    "analyst": ("/ask", "/queries", "/answers", "/me"),
    "controller": ("/queue", "/decide/", "/accounts", "/incidents", "/audit", "/settings", "/me"),
}
"""The pages of each role, the first one its home. Only to these does a sign-in lead back."""


def find_way_back(address: str, role: str | None = None) -> str:
    """A local address that a sign-in may lead to, or "". For a role, only one of its own pages."""
    if len(address) > 2_000 or not re.fullmatch(r"/[A-Za-z0-9_.-][A-Za-z0-9_./%-]*(\?[A-Za-z0-9_.%&=+*~-]*)?", address):
        return ""
    homes = HOMES.get(role, ()) if role is not None else tuple(start for starts in HOMES.values() for start in starts)
    return address if address.startswith(homes) else ""


def _way_back_from(request: Request) -> str:
    """The page somebody was on: the one asked for, or the one whose form or part was sent."""
    if request.headers.get("hx-request") == "true":
        parts = urlsplit(request.headers.get("hx-current-url", ""))
    else:
        parts = urlsplit(str(request.url))
    path = parts.path
    if request.method not in SAFE:  # a form: back to the page it stands on
        path = re.sub(r"^(/decide/\w+)/\w+$", r"\1", re.sub(r"^(/queries/\w+)/\w+$", r"\1", path))
        return find_way_back(re.sub(r"^/me/.*$", "/me", path))
    return find_way_back(path + (f"?{parts.query}" if parts.query else ""))


def get_checks(request: Request) -> CheckRoom:
    checks: CheckRoom = request.app.state.checks
    return checks


def get_gate(request: Request) -> Gate:
    gate: Gate = request.app.state.gate
    return gate


def find_address(request: Request) -> str:
    return request.client.host if request.client is not None else "unknown"


def find_visitor(request: Request) -> User | None:
    """The user of a signed, unexpired session, or None."""
    cookie = request.cookies.get(SESSION_COOKIE)
    if cookie is None or len(cookie) > 400:
        return None
    office = get_office(request)
    try:
        key = office.signer("session").loads(cookie)
    except BadSignature:
        return None
    return find_session(office.database, key) if isinstance(key, str) else None


def require_visitor(request: Request) -> User:
    user = find_visitor(request)
    if user is None:
        raise NotSignedIn
    return user


def require_analyst(user: Annotated[User, Depends(require_visitor)]) -> User:
    if user.role != "analyst":
        raise Refused(403, "forbidden", "This page is for analysts.")
    return user


def require_controller(user: Annotated[User, Depends(require_visitor)]) -> User:
    if user.role != "controller":
        raise Refused(403, "forbidden", "This page is for controllers.")
    return user


def require_desk(office: Office, name: str) -> Desk:
    desk = office.desk(name)
    if desk is None:
        raise Refused(404, "not_found", "There is no such dataset.")
    return desk


OfficeOf = Annotated[Office, Depends(get_office)]
GateOf = Annotated[Gate, Depends(get_gate)]
Checks = Annotated[CheckRoom, Depends(get_checks)]
Visitor = Annotated[User, Depends(require_visitor)]
Analyst = Annotated[User, Depends(require_analyst)]
Controller = Annotated[User, Depends(require_controller)]


# ---------------------------------------------------------------- forged requests


def is_own(request: Request) -> bool:
    """Whether the address was put together here, or typed: not by a link that somebody else made.

    Browsers say so themselves where the connection is safe; elsewhere a page of ours names itself as the referrer.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    if request.headers.get("hx-request") == "true":  # no other site can add this header
        return True
    return urlsplit(request.headers.get("referer", "")).netloc == request.headers.get("host", "") != ""


def make_csrf(office: Office, user: User) -> str:
    """A token that belongs to this session: nobody else's page can know it."""
    return str(office.signer("form").dumps(user.session))


def make_entry_key() -> str:
    return make_key()


def entry_csrf(office: Office, key: str) -> str:
    return str(office.signer("entry").dumps(digest_key(key)))


async def check_csrf(request: Request) -> None:
    """Every request that changes something carries its session's token, in the form or in a header."""
    if request.method in SAFE:
        return
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Refused(403, "forged", "This request came from another site.")
    given = request.headers.get("x-csrf-token")
    if given is None:
        field = (await request.form()).get("csrf")
        given = field if isinstance(field, str) else ""
    office = get_office(request)
    if request.url.path == "/sign-in":
        expected = entry_csrf(office, request.cookies.get(ENTRY_COOKIE, "")) if ENTRY_COOKIE in request.cookies else ""
    else:
        from starlette.concurrency import run_in_threadpool

        user = await run_in_threadpool(find_visitor, request)
        if user is None:
            raise NotSignedIn
        expected = make_csrf(office, user)
    if not expected or not hmac.compare_digest(given.encode(errors="replace"), expected.encode()):
        raise Refused(403, "forged", "The page was too old. Go back, load it again, and repeat what you did.")


# ---------------------------------------------------------------- templates


def make_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["moment"] = show_moment
    environment.filters["number"] = lambda value: "–" if value is None else show_number(float(value), 6)
    environment.filters["short"] = lambda value: "–" if value is None else show_number(float(value), 4)
    environment.filters["small"] = lambda value: show_small(float(value))
    environment.filters["together"] = keep_together
    environment.filters["bound"] = show_bound
    environment.filters["range"] = show_range
    environment.filters["epsilon"] = lambda value: "–" if value is None else format_epsilon(float(value))
    environment.filters["cell"] = show_answer_cell
    environment.globals["version"] = __version__
    return environment


def show_moment(at: str | None) -> str:
    """2026-11-15T10:00:00.123Z → 2026-11-15 10:00. Every time is in UTC, and the pages say so."""
    return "" if not at else at[:16].replace("T", " ")


def show_answer_cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    return show_number(value, 8) if isinstance(value, float) else str(value)


def show_range(value: object, error: float | None) -> str:
    """Where the exact number lies with a chance of 95 %, seen from a released one. Empty where that cannot be said."""
    if error is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    digits = 6 if abs(value) >= 1000 else 4
    return f"{show_number(value - error, digits)} to {show_number(value + error, digits)}"


def render(request: Request, template: str, user: User | None, *, status: int = 200, **context: Any) -> HTMLResponse:
    """A page for a controller, or for anybody who is not signed in."""
    office = get_office(request)
    environment: Environment = request.app.state.templates
    whole = request.headers.get("hx-request") != "true"
    made = environment.get_template(template).render(
        visitor=None if user is None else PublicVisitor(name=user.name, role=user.role),
        csrf="" if user is None else make_csrf(office, user),
        here=request.url.path,
        demo=office.settings.demo,
        failed=_count_failed(request, office, user) if whole and user is not None else 0,
        halted=_list_halted(office) if whole and user is not None and user.role == "controller" else [],
        **context,
    )
    page = HTMLResponse(made, status_code=status)
    if whole and user is not None and NOTICE_COOKIE in request.cookies:
        page.delete_cookie(NOTICE_COOKIE, path="/")
    return page


def _list_halted(office: Office) -> list[str]:
    """Return the datasets that are stopped, for the head of a controller's page. A page is not lost for it."""
    try:
        return [name for name in office.desks if office.is_stopped(name)]
    except (SQLAlchemyError, DosimeterError):
        return []


def _count_failed(request: Request, office: Office, user: User) -> int:
    """Return how many sign-ins failed before this session began, on its first page; afterwards 0."""
    cookie = request.cookies.get(NOTICE_COOKIE, "")
    try:
        session, failures = office.signer("notice").loads(cookie) if 0 < len(cookie) < 400 else ("", 0)
    except (BadSignature, TypeError, ValueError):
        return 0
    return int(failures) if session == user.session else 0


def render_public(request: Request, template: str, user: User, *, status: int = 200, **context: Any) -> HTMLResponse:
    """A page for an analyst: made of public values and fixed words, or not at all."""
    for name, value in context.items():
        if not _is_public(value):
            raise TypeError(f"{name} is not for an analyst's eyes")
    return render(request, template, user, status=status, **context)


def _is_public(value: object) -> bool:
    if value is None or isinstance(value, (Public, str, bool)):
        return True
    if isinstance(value, (list, tuple)):
        return all(_is_public(item) for item in value)
    return isinstance(value, Mapping) and all(isinstance(k, str) and _is_public(v) for k, v in value.items())


# ---------------------------------------------------------------- refusals


def note_refusal(request: Request) -> None:
    """Put on record that somebody asked for what is not theirs: once per session and kind of page.

    Of those who are not signed in, whoever they are, once an hour: nobody can fill the log from many addresses.
    """
    user, office = _find_quietly(request), get_office(request)
    asked = f"{request.method} {getattr(request.scope.get('route'), 'path', '/…')}"
    if user is not None and office.is_first("refused", user.session, asked):
        note(office.database, user.name, "was refused", detail=asked)
    if user is None and office.is_first("refused", write_time()[:13], asked):
        note(office.database, NOBODY, "was refused", detail=f"{asked}, from {find_address(request)}")


def is_for_programs(request: Request) -> bool:
    return request.url.path.startswith("/api/")


def refuse(request: Request, status: int, code: str, message: str, clause: str | None = None) -> Response:
    """One shape for programs, one page for people, nothing of what went wrong inside."""
    if is_for_programs(request):
        body = {"error": {"code": code, "message": message, "clause": clause}}
        return JSONResponse(body, status_code=status)
    if request.headers.get("hx-request") == "true":
        environment: Environment = request.app.state.templates
        fragment = environment.get_template("fragments/problem.html").render(message=message)
        return HTMLResponse(fragment, status_code=status)
    user = _find_quietly(request) if status < 500 else None
    return render(request, "error.html", user, status=status, code=status, message=message)


def _find_quietly(request: Request) -> User | None:
    """Who is asking, for the head of an error page; nobody where the database does not answer."""
    try:
        return find_visitor(request)
    except (SQLAlchemyError, DosimeterError):
        return None


def send_to_sign_in(request: Request) -> Response:
    """With the way back, and with a word where something was sent that is not done now."""
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
