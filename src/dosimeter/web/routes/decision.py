"""The decision page: everything a controller needs to see before answering one query, and what moves with the slider.

Only controllers get here; that they looked is in the audit log and, for the promise, in the ledger (G1).
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from itsdangerous import BadSignature
from jinja2 import Environment
from pydantic import BaseModel, ConfigDict

from dosimeter.dataset import Dataset
from dosimeter.errors import DosimeterError
from dosimeter.web.decision import (
    MOST_LOOKED_AT,
    Case,
    Exhibit,
    Squeezed,
    Wish,
    _preview,
    _read,
    describe_person,
    find_case,
    find_exhibit,
    list_identifying,
    list_squeezed,
    needs_consent,
    note_look,
    read_fields,
    read_own_fields,
    recall_wish,
    show_decision,
)
from dosimeter.web.http import Controller, OfficeOf, Refused, make_csrf, render
from dosimeter.web.state import Office
from dosimeter.web.store import OPEN, User, count_open, list_open, mark_looked, note, read_thresholds
from dosimeter.web.worker import PATIENCE, Job, Meter, Rank

router = APIRouter()
FEW = 5
MOST_PEOPLE = 8


# ---------------------------------------------------------------- the page


@router.get("/decide/{query_id}")
def show_page(request: Request, office: OfficeOf, user: Controller, query_id: str) -> Response:
    case = find_case(office, query_id)
    wish, complaint = read_own_fields(request)
    if not case.open and not request.query_params:
        wish = _recall(office, case)
    return show_decision(request, office, user, case, wish, complaint=complaint)


def _recall(office: Office, case: Case) -> Wish:
    """What a decided query was decided at: there the page starts."""
    entry = office.entry(case.row["entry_id"])
    epsilon = case.row["epsilon"] or (entry.epsilon if entry is not None else None)
    try:
        return recall_wish(case.row["preference"], None if epsilon is None else float(epsilon))
    except DosimeterError:
        return Wish()


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
    digits: int = 4


FRAGMENTS = (
    "line", "accuracy", "raw_note", "range_table", "histogram_table", "absolute", "cost", "preview", "verdict",
)  # fmt: skip


@router.get("/decide/{query_id}/live")
def show_live(request: Request, office: OfficeOf, user: Controller, query_id: str) -> LiveReading:
    case = find_case(office, query_id)
    if needs_consent(case):
        raise Refused(403, "not_looked", "Choose to look at the risk first.")
    wish, complaint = read_fields(request.query_params)
    if complaint:
        return LiveReading(problem=complaint)
    job = find_exhibit(office, case)
    if job.state != "done":
        return LiveReading(problem=str(job.error or ""), job=job.id, share=case.desk.bench.share(job))
    note_look(office, user, case, "viewed risk")
    exhibit: Exhibit = job.result
    live, problem, waiting = _read(office, case, job, user, wish, revive=True)
    if live is None:
        running = None if waiting is None else waiting.id
        return LiveReading(
            problem=problem, job=running, share=None if waiting is None else case.desk.bench.share(waiting)
        )
    environment: Environment = request.app.state.templates
    books = office.books(case.desk, case.prepared)
    context = {
        "live": live, "row": case.row, "algorithm": case.desk.settings.algorithm, "csrf": make_csrf(office, user),
        "preview": _preview(office, case, books, live.selected), "many": exhibit.many, "blocked": False,
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
        digits=live.digits,
    )


@router.post("/decide/{query_id}/look")
def look(office: OfficeOf, user: Controller, query_id: str) -> Response:
    """Looking at the risk of a query whose promise depends on not having looked: said, and recorded."""
    case = find_case(office, query_id)
    mark_looked(office.database, query_id)
    note(office.database, user.name, "chose to look", dataset=case.desk.name, query_id=query_id)
    return RedirectResponse(f"/decide/{query_id}", status_code=303)


# ---------------------------------------------------------------- parts that need the engine


def _require_exhibit(office: Office, case: Case) -> Job:
    """The finished measurement."""
    if needs_consent(case):
        raise Refused(403, "not_looked", "Choose to look at the risk first.")
    job = find_exhibit(office, case)
    if job.state != "done":
        raise Refused(503, "computing", "The risk is still being computed. Try again in a moment.")
    return job


Epsilon = Annotated[float, Query(gt=0, lt=1e300, allow_inf_nan=False)]
Revealed = Annotated[str, Query(max_length=400)]


@router.get("/decide/{query_id}/people")
def show_people(
    request: Request, office: OfficeOf, user: Controller, query_id: str, epsilon: Epsilon, revealed: Revealed = ""
) -> Response:
    """The most exposed records, identical ones grouped; what identifies people is masked until it is revealed."""
    return _people(request, office, user, query_id, epsilon, reveal=_was_revealed(office, user, query_id, revealed))


def _was_revealed(office: Office, user: User, query_id: str, mark: str) -> bool:
    """Whether this session revealed this query's people: that is on record, and the slider need not ask again."""
    try:
        return bool(mark) and office.signer("reveal").loads(mark) == [user.session, query_id]
    except BadSignature:
        return False


class RevealForm(BaseModel):
    epsilon: float


@router.post("/decide/{query_id}/reveal")
def reveal(
    request: Request, office: OfficeOf, user: Controller, query_id: str, form: Annotated[RevealForm, Form()]
) -> Response:
    """Show what identifies people, on purpose and on record."""
    case = find_case(office, query_id)
    _require_exhibit(office, case)
    columns = ", ".join(list_identifying(case.desk.schema))
    office.mark_revealed(user.session, query_id)
    note(
        office.database, user.name, "revealed identities", dataset=case.desk.name, query_id=query_id, detail=columns
    )  # fmt: skip
    return _people(request, office, user, query_id, form.epsilon, reveal=True)


def _people(request: Request, office: Office, user: User, query_id: str, epsilon: float, *, reveal: bool) -> Response:
    case = find_case(office, query_id)
    measured = _require_exhibit(office, case)
    exhibit: Exhibit = measured.result
    at = min(case.desk.candidates, key=lambda candidate: abs(candidate - epsilon))
    identifying = list_identifying(case.desk.schema)

    def work(_dataset: Dataset, meter: Meter) -> list[dict[str, Any]]:
        exhibit.require_data(meter.digest)
        return exhibit.risk.people_rows(MOST_PEOPLE, epsilon=at, reveal=reveal)

    note_look(office, user, case, "viewed the most exposed")
    key = ("people", measured.id, at, reveal)
    job = case.desk.bench.ask(key, "Looking up the most exposed", work, wait=PATIENCE)
    mark = str(office.signer("reveal").dumps([user.session, query_id])) if reveal else ""
    again = f"/decide/{query_id}/people?epsilon={at:.12g}&revealed={mark}"
    if job.state != "done":
        return _progress(request, case, user, job, again)
    people = [describe_person(row) for row in job.result]
    return render(
        request, "fragments/people.html", user,
        people=people, row=case.row, revealed=reveal, mark=mark, identifying=identifying, epsilon=at,
    )  # fmt: skip


@router.get("/decide/{query_id}/groups")
def show_groups(
    request: Request, office: OfficeOf, user: Controller, query_id: str, column: str, epsilon: Epsilon
) -> Response:
    case = find_case(office, query_id)
    measured = _require_exhibit(office, case)
    exhibit: Exhibit = measured.result
    if column not in case.desk.schema.columns or column in list_identifying(case.desk.schema):
        raise Refused(422, "unusable", "Choose a column that does not identify people.")
    at = min(case.desk.candidates, key=lambda candidate: abs(candidate - epsilon))

    def work(_dataset: Dataset, meter: Meter) -> list[dict[str, Any]]:
        exhibit.require_data(meter.digest)
        return exhibit.risk.by(column, epsilon=at)

    note_look(office, user, case, "viewed groups", column)
    key = ("groups", measured.id, column, at)
    job = case.desk.bench.ask(key, f"Comparing by {column}", work, wait=PATIENCE)
    if job.state != "done":
        again = f"/decide/{query_id}/groups?{urlencode({'column': column, 'epsilon': f'{at:.12g}'})}"
        return _progress(request, case, user, job, again)
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
    case = find_case(office, query_id)
    at = min(case.desk.candidates, key=lambda candidate: abs(candidate - epsilon))
    thresholds = read_thresholds(office.database, user)
    first = list_open(office.database, case.desk.name, limit=MOST_LOOKED_AT + 1)
    waiting = [row for row in first if row["id"] != query_id][:MOST_LOOKED_AT]
    total = count_open(office.database, case.desk.name) - int(case.row["status"] in OPEN)
    key = ("others", query_id, at, tuple(row["id"] for row in waiting), tuple(sorted(thresholds.items())))
    books = office.books(case.desk, case.prepared)
    note_look(office, user, case, "viewed what others would lose")
    job = case.desk.bench.ask(
        (*key, str(books.reading.epsilon)), "Looking at the other waiting queries",
        lambda dataset, meter: list_squeezed(case.desk, books, at, waiting, thresholds, dataset, meter),
        wait=PATIENCE, rank=Rank.ASIDE,
    )  # fmt: skip
    if job.state != "done":
        return _progress(request, case, user, job, f"/decide/{query_id}/others?epsilon={at:.12g}")
    found: Squeezed = job.result
    return render(
        request, "fragments/others.html", user, squeezed=found.rows, looked=found.looked, total=total
    )  # fmt: skip
