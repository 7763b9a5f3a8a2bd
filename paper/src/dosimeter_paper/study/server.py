"""The study's pages. Takes an Instrument and a StudyStore; gives an ASGI application, or serves it.

A participant is always on one page: ``GET /`` shows it, and its form goes to ``POST /step/<its name>``. A form that
comes from any other page than the current one changes nothing, so a choice cannot be taken back and the quiz cannot be
repeated. Everything works without JavaScript. Nothing about a request is logged.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from dosimeter.errors import OptionError
from dosimeter.json_values import JsonScalar
from dosimeter_paper.study import texts
from dosimeter_paper.study.answers import EPSILONS
from dosimeter_paper.study.instrument import ROWS, Instrument, Stimulus, describe_group, find_picture
from dosimeter_paper.study.store import Progress, StudyStore

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
LARGEST_BODY = 10_000
COOKIE_DAYS = 14
_STATIC = Path(__file__).parent / "static"
_ENDINGS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "done": (texts.DONE_TITLE, texts.DONE),
    "failed": (texts.FAILED_TITLE, texts.FAILED),
    "withdrawn": (texts.WITHDRAWN_TITLE, texts.WITHDRAWN),
}

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Site:
    """What every page needs. ``approval``: the ethics approval, shown to participants; empty in a try-out.

    ``secure``: the site is reached over HTTPS only.
    """

    instrument: Instrument
    store: StudyStore
    name: str
    approval: str
    secure: bool
    templates: Environment

    @property
    def cookie(self) -> str:
        return f"dosimeter_study_{self.name}"


def make_app(instrument: Instrument, store: StudyStore, *, name: str, approval: str = "", secure: bool = False) -> Any:
    """Return the application. ``name``: the name of the study, which is part of its cookie's name.

    ``approval``: the ethics approval, shown to participants. ``secure``: the site is reached over HTTPS only.
    """
    environment = Environment(
        loader=PackageLoader("dosimeter_paper.study"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["texts"] = texts
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.site = Site(instrument, store, name, approval, secure, environment)
    app.add_api_route("/", show_page, methods=["GET"])
    app.add_api_route("/consent", accept_consent, methods=["POST"])
    app.add_api_route("/step/{step}", take_step, methods=["POST"])
    app.add_api_route("/withdraw", withdraw, methods=["POST"])
    app.add_api_route("/end/{ending}", show_ending, methods=["GET"])
    app.add_api_route("/picture/{query}/{number}.svg", show_picture, methods=["GET"])
    app.add_exception_handler(HTTPException, _show_problem)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    return _Guard(app)


def serve(app: Any, *, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until interrupted, without a log of visitors. ``announce`` is called with the address."""
    import uvicorn

    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            reason = error.strerror or "the system refused"
            raise OptionError(f"Cannot listen on {host}:{port}: {reason}. Choose another --host or --port.") from None
        announce(f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}")
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        config = uvicorn.Config(app, log_level="error", access_log=False, server_header=False, proxy_headers=False)
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        listener.close()


# ---------------------------------------------------------------- requests


async def _read_form(request: Request) -> dict[str, str]:
    form = await request.form(max_fields=20, max_files=0)
    return {name: value for name, value in form.items() if isinstance(value, str)}


def _read_site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


Form = Annotated[dict[str, str], Depends(_read_form)]
At = Annotated[Site, Depends(_read_site)]


def show_page(request: Request, site: At) -> Response:
    """Show the page that this participant is on: without a cookie the consent form, and at the end a message."""
    token = request.cookies.get(site.cookie)
    if token is None:
        return _render(site, "consent.html")
    progress = site.store.find_progress(token)
    if progress is None:
        return _render(site, "message.html", {"title": texts.OVER_TITLE, "paragraphs": texts.OVER})
    return _show_step(site, progress)


def accept_consent(request: Request, site: At, form: Form) -> Response:
    if site.cookie in request.cookies:
        return _go("/")
    if form.get("consent") != "yes":
        return _render(site, "consent.html", problem=texts.CONSENT_MISSING, status=422)
    response = _go("/")
    response.set_cookie(
        site.cookie, site.store.add_participant(), max_age=COOKIE_DAYS * 86_400, httponly=True, samesite="lax",
        secure=site.secure,
    )  # fmt: skip
    return response


def take_step(request: Request, step: str, site: At, form: Form) -> Response:
    """Store the answer and go to the next page; show the page again if the answer is missing.

    An answer to another page than the current one is ignored.
    """
    token = request.cookies.get(site.cookie)
    progress = None if token is None else site.store.find_progress(token)
    if token is None or progress is None or progress.step != step:
        return _go("/")
    try:
        value = _read_answer(step, form)
    except _Missing as missing:
        return _show_step(site, progress, problem=str(missing), given=form)
    following = site.store.record(token, step, value)
    return _go(f"/end/{following}" if following in _ENDINGS else "/")


def withdraw(request: Request, site: At) -> Response:
    token = request.cookies.get(site.cookie)
    if token is None or site.store.find_progress(token) is None:
        return _go("/")
    site.store.withdraw(token)
    return _go("/end/withdrawn")


def show_ending(ending: str, site: At) -> Response:
    if ending not in _ENDINGS:
        raise HTTPException(404)
    title, paragraphs = _ENDINGS[ending]
    return _render(site, "message.html", {"title": title, "paragraphs": paragraphs})


def show_picture(request: Request, query: str, number: int, site: At) -> Response:
    """Send a picture of the query this participant is on, if their group sees pictures; otherwise 404."""
    token = request.cookies.get(site.cookie)
    progress = None if token is None else site.store.find_progress(token)
    if progress is None or _find_query(progress) != query:
        raise HTTPException(404)
    picture = find_picture(progress.group, site.instrument.stimuli[query], number)
    if picture is None:
        raise HTTPException(404)
    return Response(picture, media_type="image/svg+xml")


class _Missing(Exception):
    """The error that a form was sent without a usable answer."""


def _read_answer(step: str, form: Mapping[str, str]) -> JsonScalar:
    match step:
        case "knowledge":
            return _choose(form, "knowledge", texts.KNOWLEDGE_OPTIONS)
        case "quiz":
            letters = [form.get(f"q{place}", "") for place in range(1, len(texts.QUIZ) + 1)]
            if any(letter not in question.options for letter, question in zip(letters, texts.QUIZ, strict=True)):
                raise _Missing(texts.QUIZ_MISSING)
            return "".join(letters)
        case "first" | "second":
            chosen = {f"{epsilon:.1f}": epsilon for epsilon in EPSILONS}.get(form.get("epsilon", ""))
            if chosen is None:
                raise _Missing(texts.CHOICE_MISSING)
            return chosen
        case "follow-up":
            return _choose(form, "used", texts.FOLLOW_UP_OPTIONS) == "yes"
        case "tutorial" | "briefing":  # there is only a button to go on
            return None
        case _:
            raise AssertionError(f"the study has no step {step}")


def _choose(form: Mapping[str, str], name: str, options: Mapping[str, str]) -> str:
    if form.get(name) not in options:
        raise _Missing(texts.ANSWER_MISSING)
    return form[name]


# ---------------------------------------------------------------- pages


def _show_step(
    site: Site, progress: Progress, *, problem: str = "", given: Mapping[str, str] | None = None
) -> Response:
    """Return the page that the participant is on, ``progress.step``, such as the quiz or the first query.

    ``problem``: what is missing in the form that was sent. ``given``: what was entered there, to be kept.
    """
    values: dict[str, object] = {"step": progress.step, "given": given or {}}
    template = f"{progress.step}.html"
    query = _find_query(progress)
    if progress.step == "briefing":
        values["sample"] = site.instrument.sample
    if query is not None:
        stimulus = site.instrument.stimuli[query]
        values |= _describe_task(progress, stimulus)
        template = "task.html"
    return _render(site, template, values, problem=problem, status=422 if problem else 200)


def _describe_task(progress: Progress, stimulus: Stimulus) -> dict[str, object]:
    return {
        "place": 1 if progress.step == "first" else 2,
        "stimulus": stimulus,
        "shown": describe_group(progress.group or "", stimulus),
        "epsilons": [f"{epsilon:.1f}" for epsilon in EPSILONS],
    }


def _find_query(progress: Progress) -> str | None:
    """Return the query that this participant's page is about; None if it is about none."""
    if progress.queries is None or progress.step not in ("first", "second"):
        return None
    return progress.queries[progress.step == "second"]


def _render(
    site: Site, template: str, values: Mapping[str, object] | None = None, *, status: int = 200, problem: str = ""
) -> Response:
    shared = {
        "approval": site.approval,
        "problem": problem,
        "step": "",
        "limits": {"rows": ROWS, "smallest": f"{EPSILONS[0]:.1f}", "largest": f"{EPSILONS[-1]:.1f}"},
    }
    page = site.templates.get_template(template).render({**shared, **(values or {})})
    return Response(page, status_code=status, media_type="text/html; charset=utf-8")


async def _show_problem(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    site: Site = request.app.state.site
    return _render(site, "message.html", {"title": "There is no such page", "paragraphs": ()}, status=status)


def _go(place: str) -> Response:
    return RedirectResponse(place, status_code=303)


# ---------------------------------------------------------------- middleware


class _Guard:
    """Middleware: security headers on every response, small bodies only, and no forms sent from other sites."""

    def __init__(self, application: Any) -> None:
        self._application = application
        headers = {
            "content-security-policy": POLICY,
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "permissions-policy": "camera=(), geolocation=(), microphone=()",
            "cache-control": "no-store",
        }
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *self._headers]}
            await send(message)

        given = dict(scope["headers"])
        length = given.get(b"content-length", b"0" if scope["method"] == "GET" else b"")
        if scope["method"] == "POST":
            if not length.isdigit() or int(length) > LARGEST_BODY:
                await Response("The request is too large.", status_code=413)(scope, receive, send_guarded)
                return
            if given.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
                await Response("Open the study in its own window.", status_code=403)(scope, receive, send_guarded)
                return
        await self._application(scope, receive, send_guarded)
