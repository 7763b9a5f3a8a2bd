"""The decision page: everything a controller sees before deciding one query, and the parts that the slider changes.

For controllers only. Each look is recorded in the audit log, and also in the ledger, because the answer's promise
depends on looks (G1).
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel

from dosimeter.errors import DosimeterError
from dosimeter.findings import FEW
from dosimeter.risk import is_alike
from dosimeter.web.decision import (
    MOST_LOOKED_AT,
    PARTS,
    REVEALED,
    Case,
    CaseOf,
    DecisionForm,
    Measurement,
    MeasuringPage,
    UnseenPage,
    ask_of_people,
    build_page,
    list_displaced,
    list_identifying,
    list_numbers,
    make_offer,
    note_look,
    read_fields,
    read_own_fields,
    read_standards,
    recall_form,
    show_decision,
)
from dosimeter.web.http import Controller, Refused, StateOf, make_csrf, render, show_progress
from dosimeter.web.state import ServerState
from dosimeter.web.store import count_open, list_open, mark_looked, note
from dosimeter.web.worker import PATIENCE, JobPriority

router = APIRouter()
MOST_PEOPLE = 8


@router.get("/decide/{query_id}")
def show_page(request: Request, state: StateOf, user: Controller, case: CaseOf) -> Response:
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

    problem: str
    job: str | None = None
    share: float | None = None
    selected: str = ""
    index: int = 0
    valuetext: str = ""
    preference: str = ""
    fragments: dict[str, str] = {}


@router.get("/decide/{query_id}/live")
def update_view(request: Request, state: StateOf, user: Controller, case: CaseOf) -> ViewUpdate:
    form, complaint = read_fields(request.query_params)
    page = build_page(state, user, case, form, complaint=complaint, revive=True)
    if isinstance(page, UnseenPage):
        raise Refused(403, "not_looked", "Choose to look at the risk first.")
    if isinstance(page, MeasuringPage):
        return ViewUpdate(problem=page.job.problem, job=page.job.id, share=case.served.worker.share(page.job))
    if page.problem:
        return ViewUpdate(problem=page.problem)
    if page.waiting is not None:
        return ViewUpdate(problem="", job=page.waiting.id, share=case.served.worker.share(page.waiting))
    environment, csrf, view = request.app.state.templates, make_csrf(state, user), page.view
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
def look(state: StateOf, user: Controller, case: CaseOf) -> Response:
    """Record that a controller chose to look at the risk, for a query whose promise is weakened by a look."""
    mark_looked(state.database, case.query.id)
    note(state.database, user.name, "chose to look", dataset=case.served.name, query_id=case.query.id)
    return RedirectResponse(f"/decide/{case.query.id}", status_code=303)


def find_nearest(case: CaseOf, epsilon: Annotated[float, Query(gt=0, lt=1e300, allow_inf_nan=False)]) -> float:
    """Return the candidate that is nearest to an ε."""
    return min(case.served.candidates, key=lambda candidate: abs(candidate - epsilon))


def was_revealed(
    state: StateOf, user: Controller, query_id: str, revealed: Annotated[str, Query(max_length=400)] = ""
) -> bool:
    """Return whether this session has revealed the people of this query, so that the slider need not ask again.

    ``revealed``: the signed text that the page got when they were revealed; "" if they were not.
    """
    return bool(state.read_signed("reveal", revealed) == [user.session, query_id])


Nearest = Annotated[float, Depends(find_nearest)]
Revealed = Annotated[bool, Depends(was_revealed)]
Start = Annotated[int, Query(ge=0, le=10_000_000)]


@router.get("/decide/{query_id}/people")
def show_people(
    request: Request, state: StateOf, user: Controller, case: CaseOf, risk: Measurement, at: Nearest, reveal: Revealed
) -> Response:
    """Show the most exposed records, identical ones grouped. Identifying columns are masked until they are revealed."""
    note_look(state, user, case, "viewed the most exposed")
    job = ask_of_people(
        case, risk, ("people", at, reveal), "Looking up the most exposed",
        lambda measured: measured.risk.list_people(MOST_PEOPLE, epsilon=at, reveal=reveal),
    )  # fmt: skip
    mark = state.sign("reveal", [user.session, case.query.id]) if reveal else ""
    if job.state != "done":
        again = f"/decide/{case.query.id}/people?epsilon={at:.12g}&revealed={mark}"
        return show_progress(request, case.served, user, job, again)
    moved = risk.result.risk.plan.ranks or any(row.sensitivity > 0.0 for row in job.result)
    return render(
        request, "fragments/people.html", user,
        people=job.result if moved else [], equal=is_alike([risk.result.candidate(at)]), query=case.query,
        revealed=reveal, mark=mark, identifying=list_identifying(case.served.schema), epsilon=at,
        called=case.prepared.plan.words,
    )  # fmt: skip


@router.post("/decide/{query_id}/reveal")
def reveal(
    request: Request,
    state: StateOf,
    user: Controller,
    case: CaseOf,
    risk: Measurement,
    epsilon: Annotated[float, Form()],
) -> Response:
    """Show the identifying columns of the most exposed, on a click, and record it."""
    state.remember_first(REVEALED, user.session, case.query.id)
    note(
        state.database, user.name, "revealed identities", dataset=case.served.name, query_id=case.query.id,
        detail=", ".join(list_identifying(case.served.schema)),
    )  # fmt: skip
    return show_people(request, state, user, case, risk, find_nearest(case, epsilon), True)


@router.get("/decide/{query_id}/numbers")
def show_numbers(
    request: Request, state: StateOf, user: Controller, case: CaseOf, risk: Measurement, at: Nearest, start: Start = 0
) -> Response:
    """Show the numbers of the answer with their errors, a part at a time: groups and columns may be many."""
    note_look(state, user, case, "viewed exact numbers")
    numbers = list_numbers(risk.result, at, start)
    return render(request, "fragments/numbers.html", user, numbers=numbers, query=case.query, epsilon=at)


@router.get("/decide/{query_id}/groups")
def show_groups(
    request: Request, state: StateOf, user: Controller, case: CaseOf, risk: Measurement, at: Nearest, column: str
) -> Response:
    if column not in case.served.schema.columns or column in list_identifying(case.served.schema):
        raise Refused(422, "unusable", "Choose a column that does not identify people.")
    note_look(state, user, case, "viewed groups", column)
    job = ask_of_people(
        case, risk, ("groups", column, at), f"Comparing by {column}",
        lambda measured: measured.risk.by(column, epsilon=at),
    )  # fmt: skip
    if job.state != "done":
        again = f"/decide/{case.query.id}/groups?{urlencode({'column': column, 'epsilon': f'{at:.12g}'})}"
        return show_progress(request, case.served, user, job, again)
    return render(
        request,
        "fragments/groups.html",
        user,
        groups=job.result[:200],
        total=len(job.result),
        column=column,
        few=FEW,
        called=case.prepared.plan.words,
    )


@router.get("/decide/{query_id}/others")
def show_displaced(request: Request, state: StateOf, user: Controller, case: CaseOf, at: Nearest) -> Response:
    """Show which other waiting queries could be answered now, but no longer once this one is answered."""
    standard = read_standards(state, user)
    first = list_open(state.database, case.served.name, limit=MOST_LOOKED_AT + 1)
    waiting = [query for query in first if query.id != case.query.id][:MOST_LOOKED_AT]
    total = count_open(state.database, case.served.name) - int(case.query.status.open)
    key = (
        "others",
        case.query.id,
        at,
        tuple(query.id for query in waiting),
        standard.name,
        tuple(sorted(standard.percents.items())),
    )
    offer = make_offer(state, case.served, case.prepared)
    note_look(state, user, case, "viewed what others would lose")
    job = case.served.worker.ask(
        (*key, str(offer.charges.reading.epsilon)), "Looking at the other waiting queries",
        lambda dataset, meter: list_displaced(case.served, offer, at, waiting, standard, dataset, meter),
        wait=PATIENCE, rank=JobPriority.ASIDE,
    )  # fmt: skip
    if job.state != "done":
        return show_progress(request, case.served, user, job, f"/decide/{case.query.id}/others?epsilon={at:.12g}")
    displaced, looked = job.result
    return render(request, "fragments/displaced.html", user, displaced=displaced, looked=looked, total=total)
