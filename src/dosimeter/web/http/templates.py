"""Templates: how a page is made. Pages for analysts are made by ``render_public``, from values of ``public`` alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from sqlalchemy.exc import SQLAlchemyError

from dosimeter.errors import DosimeterError
from dosimeter.findings import word
from dosimeter.release import name_question
from dosimeter.risk import PRESETS
from dosimeter.show import format_epsilon, format_number, format_percent, format_small, format_times
from dosimeter.show.charts import write_axis, write_rows, write_svg
from dosimeter.version import __version__
from dosimeter.web.figures import keep_together, show_age, show_bound, show_number
from dosimeter.web.http.csrf import make_csrf
from dosimeter.web.http.exceptions import Refused
from dosimeter.web.http.visitors import get_state
from dosimeter.web.public import DENIED, PHRASES, Public, PublicVisitor
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.store import QueryStatus, User
from dosimeter.web.worker import Job

NOTICE_COOKIE = "dosimeter_notice"
_FOLDER = Path(__file__).parents[1]


class _Loader(FileSystemLoader):
    """A loader of templates that replaces the name of a static file ("/static/style.css") by its versioned address."""

    def __init__(self, folder: Path, address: Callable[[str], str]) -> None:
        super().__init__(folder)
        self._address = address

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        source, name, is_fresh = super().get_source(environment, template)
        return re.sub(r'"/static/([^"]+)"', lambda found: f'"{self._address(found[1])}"', source), name, is_fresh


def make_environment(address: Callable[[str], str]) -> Environment:
    """Return the environment that renders templates. ``address``: returns where a static file is served."""
    environment = Environment(
        loader=_Loader(_FOLDER / "templates", address),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["question"] = name_question
    environment.filters["moment"] = show_moment
    environment.filters["when"] = show_when
    environment.filters["age"] = lambda at: show_age((datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds())
    environment.filters["number"] = lambda value: "–" if value is None else show_number(float(value), 6)
    environment.filters["short"] = lambda value: "–" if value is None else show_number(float(value), 4)
    environment.filters["figure"] = lambda value: format_number(float(value))
    environment.filters["small"] = lambda value: format_small(float(value))
    environment.filters["together"] = keep_together
    environment.filters["bound"] = show_bound
    environment.filters["epsilon"] = lambda value: "–" if value is None else format_epsilon(float(value))
    environment.filters["cell"] = show_answer_cell
    environment.filters["times"] = format_times
    environment.filters["percent"] = format_percent
    environment.filters["percentage"] = lambda value: keep_together(f"{format_number(value, 2)} %")
    environment.filters["word"] = word
    # what draws charts escapes their texts itself
    environment.filters["svg"] = lambda chart, label: Markup(write_svg(chart, label))
    environment.filters["rows"] = lambda chart: [Markup(row) for row in write_rows(chart)]
    environment.filters["axis"] = lambda axis: Markup(write_axis(axis))
    environment.globals["version"] = __version__
    environment.globals |= {"QueryStatus": QueryStatus, "PHRASES": PHRASES, "DENIED": DENIED, "PRESETS": PRESETS}
    return environment


def show_moment(at: str | None) -> str:
    """Return a stored time as a page writes it: 2026-11-15T10:00:00.123Z → 2026-11-15 10:00; "" for None. In UTC."""
    return "" if not at else at[:16].replace("T", " ")


def show_when(at: str | None) -> Markup:
    """Return a time in UTC as an HTML element; a script adds the reader's own time to it. Empty for None."""
    return Markup("") if not at else Markup('<time datetime="{}">{}</time>').format(at, show_moment(at))


def show_answer_cell(value: object) -> str:
    """Return a value of an answer, or of a person's record, as a page writes it: NULL, true, 1,234, −5, 0.25."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    return show_number(value, 8) if isinstance(value, float) else str(value)


def render(request: Request, template: str, user: User | None, *, status: int = 200, **context: Any) -> HTMLResponse:
    """Render a page for a controller, or for somebody not signed in. Analysts' pages come by ``render_public``."""
    state = get_state(request)
    environment: Environment = request.app.state.templates
    whole = request.headers.get("hx-request") != "true"
    made = environment.get_template(template).render(
        visitor=None if user is None else PublicVisitor(name=user.name, role=user.role),
        csrf="" if user is None else make_csrf(state, user),
        here=request.url.path,
        demo=state.settings.demo,
        failed=_count_failed(request, state, user) if whole and user is not None else 0,
        halted=_list_halted(state) if whole and user is not None and user.role == "controller" else [],
        **context,
    )
    page = HTMLResponse(made, status_code=status)
    if whole and user is not None and NOTICE_COOKIE in request.cookies:
        page.delete_cookie(NOTICE_COOKIE, path="/")
    return page


def show_progress(request: Request, served: ServedDataset, user: User, job: Job[Any], again: str) -> Response:
    """Render how far a computation is, with the address to ask ``again``. Refuse if it failed."""
    if job.state == "failed":
        raise Refused(409, "failed", job.problem)
    return render(request, "fragments/progress.html", user, job=job, share=served.worker.share(job), again=again)


def send_file(lines: Iterable[str], name: str) -> Response:
    """Send lines as a file of this name, to be saved. Its ending says what it is."""
    kind = {"csv": "text/csv", "jsonl": "application/jsonl"}[name.rpartition(".")[2]]
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines, media_type=f"{kind}; charset=utf-8", headers=headers)


def _list_halted(state: ServerState) -> list[str]:
    """Return the datasets that are stopped, for the head of a controller's page; none if that cannot be read."""
    try:
        return [each.name for each in state.known if state.is_stopped(each.name)]
    except (SQLAlchemyError, DosimeterError):
        return []


def _count_failed(request: Request, state: ServerState, user: User) -> int:
    """Return how many sign-ins failed before this session began; 0 on all but the first page of the session."""
    session, failures = state.read_signed("notice", request.cookies.get(NOTICE_COOKIE, "")) or ("", 0)
    return int(failures) if session == user.session else 0


def render_public(request: Request, template: str, user: User, *, status: int = 200, **context: Any) -> HTMLResponse:
    """Render a page for an analyst, from public values and fixed words. Raises TypeError for any other value."""
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
