"""The decision page: everything a controller sees before deciding one query, and the parts that the slider changes.

For controllers only. Each look is recorded in the audit log, and also in the ledger, because the answer's promise
depends on looks (G1).
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
from dosimeter.findings import FEW
from dosimeter.risk import ExposedPerson, GroupRisk, is_alike
from dosimeter.show import format_number, format_times
from dosimeter.web.decision import (
    MOST_LOOKED_AT,
    PARTS,
    Case,
    DecisionForm,
    DecisionPage,
    MeasuredQuery,
    MeasuringPage,
    UnseenPage,
    build_page,
    find_case,
    find_measurement,
    list_displaced,
    list_identifying,
    list_numbers,
    make_offer,
    needs_consent,
    note_look,
    read_fields,
    read_own_fields,
    recall_form,
    show_decision,
)
from dosimeter.web.http import Controller, Refused, StateOf, make_csrf, render
from dosimeter.web.state import ServerState
from dosimeter.web.store import User, count_open, list_open, mark_looked, note, read_thresholds
from dosimeter.web.worker import PATIENCE, Job, JobMeter, JobPriority

router = APIRouter()
MOST_PEOPLE = 8


@router.get("/decide/{query_id}")
def show_page(request: Request, state: StateOf, user: Controller, query_id: str) -> Response:
    case = find_case(state, query_id)
    form, complaint = read_own_fields(request)
    if not case.query.status.undecided and not request.query_params:
        form = _recall(state, case)
    return show_decision(request, state, user, case, form, complaint=complaint)


def _recall(state: ServerState, case: Case) -> DecisionForm:
    """Return the form by which a query was decided, for the page to start with.

    The default form if the preference of that decision can no longer be read.
    """
    entry = state.entry(case.query.entry_id)
    epsilon = case.query.epsilon or (entry.epsilon if entry is not None else None)
    try:
        return recall_form(case.query.preference, None if epsilon is None else float(epsilon))
    except DosimeterError:
        return DecisionForm()


class ViewUpdate(BaseModel):
    """What the page replaces when the slider or the preference changes. For controllers only.

    ``problem``: why there is nothing to show. ``job``: the id of the job that the page has to wait for, and ``share``:
    how much of it is done, in percent. ``index``: the place of the selected ε on the slider. ``fragments``: HTML of
    each of ``PARTS``.
    """

    model_config = ConfigDict(extra="forbid")

    problem: str
    job: str | None = None
    share: float | None = None
    selected: str = ""
    index: int = 0
    valuetext: str = ""
    preference: str = ""
    fragments: dict[str, str] = {}


@router.get("/decide/{query_id}/live")
def update_view(request: Request, state: StateOf, user: Controller, query_id: str) -> ViewUpdate:
    case = find_case(state, query_id)
    form, complaint = read_fields(request.query_params)
    page = build_page(state, user, case, form, complaint=complaint, revive=True)
    if isinstance(page, UnseenPage):
        raise Refused(403, "not_looked", "Choose to look at the risk first.")
    if isinstance(page, MeasuringPage):
        return ViewUpdate(problem=page.job.problem, job=page.job.id, share=page.share)
    if page.problem:
        return ViewUpdate(problem=page.problem)
    if page.waiting is not None:
        return ViewUpdate(problem="", job=page.waiting.id, share=case.served.worker.share(page.waiting))
    return _show_update(request.app.state.templates, page, make_csrf(state, user))


def _show_update(environment: Environment, page: DecisionPage, csrf: str) -> ViewUpdate:
    view = page.view
    return ViewUpdate(
        problem="",
        selected=f"{view.selected:.12g}",
        index=page.candidates.index(view.selected),
        valuetext=view.valuetext,
        preference=view.choice.preference.text,
        fragments={
            name: environment.get_template(f"decide/{name}.html").render(page=page, csrf=csrf) for name in PARTS
        },
    )


@router.post("/decide/{query_id}/look")
def look(state: StateOf, user: Controller, query_id: str) -> Response:
    """Record that a controller chose to look at the risk, for a query whose promise is weakened by a look."""
    case = find_case(state, query_id)
    mark_looked(state.database, query_id)
    note(state.database, user.name, "chose to look", dataset=case.served.name, query_id=query_id)
    return RedirectResponse(f"/decide/{query_id}", status_code=303)


def _require_measurement(state: ServerState, case: Case) -> Job[MeasuredQuery]:
    """Return the finished job that measured the risk.

    Refuses if a controller must first choose to look (``needs_consent``), or if the job is not done.
    """
    if needs_consent(case):
        raise Refused(403, "not_looked", "Choose to look at the risk first.")
    job = find_measurement(state, case)
    if job.state != "done":
        raise Refused(503, "computing", "The risk is still being computed. Try again in a moment.")
    return job


Epsilon = Annotated[float, Query(gt=0, lt=1e300, allow_inf_nan=False)]
Start = Annotated[int, Query(ge=0, le=10_000_000)]
Revealed = Annotated[str, Query(max_length=400)]


@router.get("/decide/{query_id}/people")
def show_people(
    request: Request, state: StateOf, user: Controller, query_id: str, epsilon: Epsilon, revealed: Revealed = ""
) -> Response:
    """Show the most exposed records, identical ones grouped. Identifying columns are masked until they are revealed."""
    return _people(request, state, user, query_id, epsilon, reveal=_was_revealed(state, user, query_id, revealed))


def _was_revealed(state: ServerState, user: User, query_id: str, mark: str) -> bool:
    """Return whether this session has revealed the people of this query, so that the slider need not ask again.

    ``mark``: the signed text that the page got when they were revealed; "" if they were not.
    """
    try:
        return bool(mark) and state.signer("reveal").loads(mark) == [user.session, query_id]
    except BadSignature:
        return False


class RevealForm(BaseModel):
    epsilon: float


@router.post("/decide/{query_id}/reveal")
def reveal(
    request: Request, state: StateOf, user: Controller, query_id: str, form: Annotated[RevealForm, Form()]
) -> Response:
    """Show the identifying columns of the most exposed, on a click, and record it."""
    case = find_case(state, query_id)
    _require_measurement(state, case)
    columns = ", ".join(list_identifying(case.served.schema))
    state.mark_revealed(user.session, query_id)
    note(
        state.database, user.name, "revealed identities", dataset=case.served.name, query_id=query_id, detail=columns
    )  # fmt: skip
    return _people(request, state, user, query_id, form.epsilon, reveal=True)


def _people(
    request: Request, state: ServerState, user: User, query_id: str, epsilon: float, *, reveal: bool
) -> Response:
    case = find_case(state, query_id)
    measurement = _require_measurement(state, case)
    measured = measurement.result
    at = min(case.served.candidates, key=lambda candidate: abs(candidate - epsilon))
    identifying = list_identifying(case.served.schema)

    def work(_dataset: Dataset, meter: JobMeter) -> list[ExposedPerson]:
        measured.require_data(meter.digest)
        return measured.risk.list_people(MOST_PEOPLE, epsilon=at, reveal=reveal)

    note_look(state, user, case, "viewed the most exposed")
    key = ("people", measurement.id, at, reveal)
    job = case.served.worker.ask(key, "Looking up the most exposed", work, wait=PATIENCE)
    mark = str(state.signer("reveal").dumps([user.session, query_id])) if reveal else ""
    again = f"/decide/{query_id}/people?epsilon={at:.12g}&revealed={mark}"
    if job.state != "done":
        return _progress(request, case, user, job, again)
    moved = measured.risk.plan.ranks or any(row.sensitivity > 0.0 for row in job.result)
    people = [_describe_person(row) for row in job.result] if moved else []
    equal = is_alike([measured.candidate(at)])
    return render(
        request, "fragments/people.html", user,
        people=people, equal=equal, query=case.query, revealed=reveal, mark=mark, identifying=identifying, epsilon=at,
    )  # fmt: skip


def _describe_person(person: ExposedPerson) -> dict[str, Any]:
    """Return a row of the page's table of the most exposed.

    It says how many people share the record, how exposed they are, their own guarantee, and why.
    """
    people, why = person.people, person.why
    if person.sensitivity == 0.0 and person.own_epsilon > 0.0:  # drawn by rank
        why = "without them the ranks of the others shift"
    return {
        "who": "1 person has this record" if people == 1 else f"{people:,} people share this",
        "columns": person.columns,
        "times": f"{format_times(person.times_average)} ×",
        "own": format_number(person.own_epsilon),
        "why": f"removing one changes {why}" if person.sensitivity > 0.0 else why,
    }


@router.get("/decide/{query_id}/numbers")
def show_numbers(
    request: Request, state: StateOf, user: Controller, query_id: str, epsilon: Epsilon, start: Start = 0
) -> Response:
    """Show the numbers of the answer with their errors, a part at a time: groups and columns may be many."""
    case = find_case(state, query_id)
    measured = _require_measurement(state, case).result
    at = min(case.served.candidates, key=lambda candidate: abs(candidate - epsilon))
    note_look(state, user, case, "viewed exact numbers")
    numbers = list_numbers(measured, at, start)
    return render(request, "fragments/numbers.html", user, numbers=numbers, query=case.query, epsilon=at)


@router.get("/decide/{query_id}/groups")
def show_groups(
    request: Request, state: StateOf, user: Controller, query_id: str, column: str, epsilon: Epsilon
) -> Response:
    case = find_case(state, query_id)
    measurement = _require_measurement(state, case)
    measured = measurement.result
    if column not in case.served.schema.columns or column in list_identifying(case.served.schema):
        raise Refused(422, "unusable", "Choose a column that does not identify people.")
    at = min(case.served.candidates, key=lambda candidate: abs(candidate - epsilon))

    def work(_dataset: Dataset, meter: JobMeter) -> list[GroupRisk]:
        measured.require_data(meter.digest)
        return measured.risk.by(column, epsilon=at)

    note_look(state, user, case, "viewed groups", column)
    key = ("groups", measurement.id, column, at)
    job = case.served.worker.ask(key, f"Comparing by {column}", work, wait=PATIENCE)
    if job.state != "done":
        again = f"/decide/{query_id}/groups?{urlencode({'column': column, 'epsilon': f'{at:.12g}'})}"
        return _progress(request, case, user, job, again)
    return render(
        request, "fragments/groups.html", user, groups=job.result[:200], total=len(job.result), column=column, few=FEW
    )


def _progress(request: Request, case: Case, user: User, job: Job[Any], again: str) -> Response:
    if job.state == "failed":
        raise Refused(409, "failed", job.problem)
    return render(request, "fragments/progress.html", user, job=job, share=case.served.worker.share(job), again=again)


@router.get("/decide/{query_id}/others")
def show_displaced(request: Request, state: StateOf, user: Controller, query_id: str, epsilon: Epsilon) -> Response:
    """Show which other waiting queries could be answered now, but no longer once this one is answered."""
    case = find_case(state, query_id)
    at = min(case.served.candidates, key=lambda candidate: abs(candidate - epsilon))
    thresholds = read_thresholds(state.database, user)
    first = list_open(state.database, case.served.name, limit=MOST_LOOKED_AT + 1)
    waiting = [query for query in first if query.id != query_id][:MOST_LOOKED_AT]
    total = count_open(state.database, case.served.name) - int(case.query.status.open)
    key = ("others", query_id, at, tuple(query.id for query in waiting), tuple(sorted(thresholds.items())))
    offer = make_offer(state, case.served, case.prepared)
    note_look(state, user, case, "viewed what others would lose")
    job = case.served.worker.ask(
        (*key, str(offer.charges.reading.epsilon)), "Looking at the other waiting queries",
        lambda dataset, meter: list_displaced(case.served, offer, at, waiting, thresholds, dataset, meter),
        wait=PATIENCE, rank=JobPriority.ASIDE,
    )  # fmt: skip
    if job.state != "done":
        return _progress(request, case, user, job, f"/decide/{query_id}/others?epsilon={at:.12g}")
    displaced, looked = job.result
    return render(request, "fragments/displaced.html", user, displaced=displaced, looked=looked, total=total)
