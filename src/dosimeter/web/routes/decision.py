"""The decision page: everything a controller needs to see before answering one query, and what moves with the slider.

Only controllers get here; that they looked is in the audit log and, for the promise, in the ledger (G1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from jinja2 import Environment
from pydantic import BaseModel, ConfigDict, ValidationError

from dosimeter.errors import DosimeterError, InputError
from dosimeter.model import Schema
from dosimeter.releasing import Prepared
from dosimeter.web.auth import User
from dosimeter.web.deciding import find_earlier
from dosimeter.web.exhibit import Exhibit, prepare_exhibit
from dosimeter.web.inbox import Row, find_query, list_open, mark_looked, note, read_thresholds
from dosimeter.web.jobs import Job
from dosimeter.web.live import Live, describe_person, read_live
from dosimeter.web.models import PHRASES
from dosimeter.web.office import Books, Desk, Office
from dosimeter.web.pages import Controller, OfficeOf, Refused, make_csrf, render
from dosimeter.web.question import describe_question, preview_answer
from dosimeter.web.wishes import OWN_EXAMPLE, Wish, list_two_way_columns, write_preference

router = APIRouter()
PATIENCE = 1.2  # seconds a page waits for a computation before it shows progress instead
FEW = 5
MOST_PEOPLE = 8


@dataclass(frozen=True, slots=True)
class Case:
    """A query with everything that is decided without its data."""

    row: Row
    desk: Desk
    prepared: Prepared

    @property
    def open(self) -> bool:
        return self.row["status"] in ("waiting", "interrupted")


def find_case(office: Office, query_id: str) -> Case:
    row = find_query(office.database, query_id) if query_id.isalnum() else None
    desk = None if row is None else office.desk(row["dataset"])
    if row is None:
        raise Refused(404, "not_found", "There is no such query.")
    if desk is None:
        raise Refused(404, "not_found", f"The dataset {row['dataset']} is no longer served.")
    try:
        return Case(row, desk, desk.prepare(row["sql"]))
    except InputError as error:
        raise Refused(
            409, "not_answerable", f"Under the present schema this query cannot be answered: {error}"
        ) from None


def list_identifying(schema: Schema) -> list[str]:
    """What identifies people: columns that say so, and the one that tells individuals apart."""
    return [c.name for c in schema.columns.values() if c.identifying or c.name == schema.unit]


def needs_consent(case: Case) -> bool:
    """Where the promise depends on not having looked (G0, G1), looking is a step of its own."""
    return case.desk.settings.algorithm != "find" and not case.row["looked"]


def find_exhibit(office: Office, case: Case, *, wait: float = PATIENCE) -> Job:
    """The measured risk, computed once per query. That it is looked at goes into the ledger first."""

    def work(dataset: Any, meter: Any) -> Exhibit:
        office.database.ledger.record_view(case.desk.name, case.prepared.plan.digest, "risk")
        return prepare_exhibit(dataset, case.prepared, meter)

    title = "Measuring how exposed everybody is"
    return case.desk.bench.ask(("exhibit", case.row["id"]), title, work, wait=wait, heavy=True)


# ---------------------------------------------------------------- the page


@router.get("/decide/{query_id}")
def show_page(request: Request, office: OfficeOf, user: Controller, query_id: str) -> Response:
    case = find_case(office, query_id)
    wish, complaint = read_wish(request)
    common: dict[str, Any] = {
        "row": case.row,
        "question": describe_question(case.prepared),
        "algorithm": case.desk.settings.algorithm,
        "policy": case.desk.settings.policy,
        "phrases": PHRASES,
        "wish": wish,
        "percent": wish.percent or read_thresholds(office.database, user)[case.row["priority"]],
        "earlier": find_earlier(office, case.desk, case.row["sql"]) if case.open else None,
        "svt": case.desk.settings.svt,
        "variance": case.desk.settings.variance,
        "entry": office.entry(case.row["entry_id"]),
    }
    if needs_consent(case):
        return render(request, "decide_blind.html", user, **common)
    job = find_exhibit(office, case)
    if job.state != "done":
        return render(request, "decide_wait.html", user, job=job, share=case.desk.bench.share(job), **common)
    note(office.database, user.name, "viewed risk", dataset=case.desk.name, query_id=query_id)
    exhibit: Exhibit = job.result
    live, problem, waiting = _read(office, case, exhibit, user, wish)
    problem = complaint or problem
    if live is None:  # the sentence cannot be used, or is being computed: show the suggested one with it
        plain = Wish(epsilon=wish.epsilon)
        live, _, _ = _read(office, case, exhibit, user, plain)
    assert live is not None
    books = office.books(case.desk, case.prepared)
    return render(
        request, "decide.html", user, live=live, problem=problem, waiting=waiting,
        columns=list_two_way_columns(case.desk.schema), example=OWN_EXAMPLE,
        all_columns=[name for name in case.desk.schema.columns if name not in list_identifying(case.desk.schema)],
        candidates=sorted(case.desk.candidates), preview=preview_answer(case.prepared, live.selected),
        other_data=_is_other_data(books, case, exhibit), many=exhibit.many, **common,
    )  # fmt: skip


def _is_other_data(books: Books, case: Case, exhibit: Exhibit) -> bool:
    return books.account is not None and not books.account.is_of(case.prepared.schema_digest, exhibit.fingerprint)


def _read(office: Office, case: Case, exhibit: Exhibit, user: User, wish: Wish) -> tuple[Live | None, str, Job | None]:
    """The live part; or why the preference cannot be used; or the scan that a FILTER needs first."""
    suggested = read_thresholds(office.database, user)[case.row["priority"]]
    try:
        preference = write_preference(wish, case.desk.schema, suggested)
        if not exhibit.is_quick(preference):
            key = ("preference", case.row["id"], preference.text)
            job = case.desk.bench.ask(
                key, "Evaluating the preference for everybody", lambda _d, _m: exhibit.choose(preference), wait=PATIENCE
            )
            if job.state == "failed":
                return None, str(job.error), None
            if job.state != "done":
                return None, "", job
        books = office.books(case.desk, case.prepared)
        return read_live(case.desk, exhibit, books, preference, wish, case.row["wanted_error"]), "", None
    except DosimeterError as error:
        return None, str(error), None


class LiveReading(BaseModel):
    """What the page exchanges when the slider or the sentence moves. For controllers only."""

    model_config = ConfigDict(extra="forbid")

    problem: str
    job: str | None = None
    share: float | None = None
    selected: str = ""
    index: int = 0
    valuetext: str = ""
    preference: str = ""
    fragments: dict[str, str] = {}
    range: dict[str, Any] | None = None
    histogram: dict[str, Any] | None = None
    bins: list[dict[str, Any]] = []


FRAGMENTS = ("line", "accuracy", "range_table", "histogram_table", "absolute", "cost", "preview", "verdict")


@router.get("/decide/{query_id}/live")
def show_live(request: Request, office: OfficeOf, user: Controller, query_id: str) -> LiveReading:
    case = find_case(office, query_id)
    if needs_consent(case):
        raise Refused(403, "not_looked", "Choose to look at the risk first.")
    wish, complaint = read_wish(request)
    if complaint:
        return LiveReading(problem=complaint)
    job = find_exhibit(office, case)
    if job.state != "done":
        return LiveReading(problem=str(job.error or ""), job=job.id, share=case.desk.bench.share(job))
    exhibit: Exhibit = job.result
    live, problem, waiting = _read(office, case, exhibit, user, wish)
    if live is None:
        running = None if waiting is None else waiting.id
        return LiveReading(
            problem=problem, job=running, share=None if waiting is None else case.desk.bench.share(waiting)
        )
    environment: Environment = request.app.state.templates
    books = office.books(case.desk, case.prepared)
    context = {
        "live": live, "row": case.row, "algorithm": case.desk.settings.algorithm, "csrf": make_csrf(office, user),
        "preview": preview_answer(case.prepared, live.selected), "phrases": PHRASES, "many": exhibit.many,
        "other_data": _is_other_data(books, case, exhibit),
    }  # fmt: skip
    return LiveReading(
        problem="",
        selected=f"{live.selected:.12g}",
        index=live.index,
        valuetext=live.valuetext,
        preference=live.preference.text,
        fragments={name: environment.get_template(f"decide/{name}.html").render(context) for name in FRAGMENTS},
        range=dict(live.range_spec),
        histogram=dict(live.histogram_spec),
        bins=[dict(row) for row in live.bins],
    )


def read_wish(request: Request) -> tuple[Wish, str]:
    """The form's fields; where one cannot be used, the defaults and what is wrong with it."""
    try:
        return Wish.model_validate({name: value for name, value in request.query_params.items() if value != ""}), ""
    except ValidationError as error:
        fields = [str(part["loc"][0]) for part in error.errors()]
        return Wish(), next((_COMPLAINTS[name] for name in fields if name in _COMPLAINTS), "This cannot be used.")


_COMPLAINTS = {
    "percent": "The percentage must lie above 0 and at most at 100.",
    "share": "The percentage must lie above 0 and at most at 100.",
    "tau": "The variance must be a positive number.",
    "epsilon": "ε must be a positive number.",
}


@router.post("/decide/{query_id}/look")
def look(office: OfficeOf, user: Controller, query_id: str) -> Response:
    """Looking at the risk of a query whose promise depends on not having looked: said, and recorded."""
    case = find_case(office, query_id)
    mark_looked(office.database, query_id)
    note(office.database, user.name, "chose to look", dataset=case.desk.name, query_id=query_id)
    return RedirectResponse(f"/decide/{query_id}", status_code=303)


# ---------------------------------------------------------------- parts that need the engine


def _require_exhibit(office: Office, case: Case) -> Exhibit:
    if needs_consent(case):
        raise Refused(403, "not_looked", "Choose to look at the risk first.")
    job = find_exhibit(office, case)
    if job.state != "done":
        raise Refused(503, "computing", "The risk is still being computed. Try again in a moment.")
    exhibit: Exhibit = job.result
    return exhibit


Epsilon = Annotated[float, Query(gt=0, lt=1e300, allow_inf_nan=False)]


@router.get("/decide/{query_id}/people")
def show_people(request: Request, office: OfficeOf, user: Controller, query_id: str, epsilon: Epsilon) -> Response:
    """The most exposed records, identical ones grouped; what identifies people is masked."""
    return _people(request, office, user, query_id, epsilon, reveal=False)


class RevealForm(BaseModel):
    epsilon: float


@router.post("/decide/{query_id}/reveal")
def reveal(
    request: Request, office: OfficeOf, user: Controller, query_id: str, form: Annotated[RevealForm, Form()]
) -> Response:
    """Show what identifies people, on purpose and on record."""
    case = find_case(office, query_id)
    columns = list_identifying(case.desk.schema)
    note(
        office.database,
        user.name,
        "revealed identities",
        dataset=case.desk.name,
        query_id=query_id,
        detail=", ".join(columns),
    )
    return _people(request, office, user, query_id, form.epsilon, reveal=True)


def _people(request: Request, office: Office, user: User, query_id: str, epsilon: float, *, reveal: bool) -> Response:
    case = find_case(office, query_id)
    exhibit = _require_exhibit(office, case)
    at = min(case.desk.candidates, key=lambda candidate: abs(candidate - epsilon))
    identifying = list_identifying(case.desk.schema)
    job = case.desk.bench.ask(
        ("people", query_id, at, reveal), "Looking up the most exposed",
        lambda _d, _m: exhibit.risk.people_rows(MOST_PEOPLE, epsilon=at, reveal=reveal),
        wait=PATIENCE,
    )  # fmt: skip
    again = "" if reveal else f"/decide/{query_id}/people?epsilon={at:.12g}"
    if job.state != "done":
        return _progress(request, case, user, job, again)
    people = [describe_person(row) for row in job.result]
    return render(
        request, "fragments/people.html", user,
        people=people, row=case.row, revealed=reveal, identifying=identifying, epsilon=at,
    )  # fmt: skip


@router.get("/decide/{query_id}/groups")
def show_groups(
    request: Request, office: OfficeOf, user: Controller, query_id: str, column: str, epsilon: Epsilon
) -> Response:
    case = find_case(office, query_id)
    exhibit = _require_exhibit(office, case)
    if column not in case.desk.schema.columns or column in list_identifying(case.desk.schema):
        raise Refused(422, "unusable", "Choose a column that does not identify people.")
    at = min(case.desk.candidates, key=lambda candidate: abs(candidate - epsilon))
    job = case.desk.bench.ask(
        ("groups", query_id, column, at), f"Comparing by {column}",
        lambda _d, _m: exhibit.risk.by(column, epsilon=at), wait=PATIENCE,
    )  # fmt: skip
    if job.state != "done":
        return _progress(request, case, user, job, f"/decide/{query_id}/groups?column={column}&epsilon={at:.12g}")
    return render(
        request, "fragments/groups.html", user, groups=job.result[:200], total=len(job.result), column=column, few=FEW
    )


def _progress(request: Request, case: Case, user: User, job: Job, again: str) -> Response:
    if job.state == "failed":
        raise Refused(409, "failed", str(job.error))
    return render(request, "fragments/progress.html", user, job=job, share=case.desk.bench.share(job), again=again)


@router.get("/decide/{query_id}/others")
def show_others(request: Request, office: OfficeOf, user: Controller, query_id: str, epsilon: Epsilon) -> Response:
    """Which other waiting queries could be answered now, and no longer once this one is."""
    from dosimeter.web.others import list_squeezed

    case = find_case(office, query_id)
    at = min(case.desk.candidates, key=lambda candidate: abs(candidate - epsilon))
    thresholds = read_thresholds(office.database, user)
    waiting = [row for row in list_open(office.database, case.desk.name) if row["id"] != query_id]
    key = ("others", query_id, at, tuple(row["id"] for row in waiting), tuple(sorted(thresholds.items())))
    books = office.books(case.desk, case.prepared)
    job = case.desk.bench.ask(
        (*key, str(books.reading.epsilon)), "Looking at the other waiting queries",
        lambda dataset, meter: list_squeezed(case.desk, books, at, waiting, thresholds, dataset, meter), wait=PATIENCE,
    )  # fmt: skip
    if job.state != "done":
        return _progress(request, case, user, job, f"/decide/{query_id}/others?epsilon={at:.12g}")
    return render(request, "fragments/others.html", user, squeezed=job.result, total=len(waiting))
