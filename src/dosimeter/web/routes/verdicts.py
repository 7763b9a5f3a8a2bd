"""Approve, deny, ask for changes: what a controller decides about one query, once."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import AfterValidator, BaseModel, Field

from dosimeter.accounting import Charge, exact_decimal
from dosimeter.errors import DosimeterError
from dosimeter.numerals import format_epsilon, format_number
from dosimeter.preference import parse_preference
from dosimeter.web.auth import User
from dosimeter.web.deciding import (
    AlreadyDecided,
    Approval,
    ask_for_changes,
    claim_query,
    deny_query,
    find_earlier,
    repeat_answer,
    run_release,
)
from dosimeter.web.models import check_text
from dosimeter.web.office import Office
from dosimeter.web.pages import Controller, OfficeOf, Refused, render, show_moment
from dosimeter.web.routes.decision import PATIENCE, Case, find_case, find_exhibit, needs_consent

router = APIRouter()
Reason = Annotated[str, Field(max_length=1_000), AfterValidator(check_text)]


class ApproveForm(BaseModel):
    """``confirmed`` repeats the ε: without it the page asks whether this is meant."""

    epsilon: Annotated[float, Field(gt=0, lt=1e300, allow_inf_nan=False)] | None = None
    preference: Annotated[str, Field(max_length=3_000), AfterValidator(check_text)] = ""
    reason: Reason = ""
    continued: bool = False
    confirmed: Annotated[str, Field(max_length=40)] = ""


class DenyForm(BaseModel):
    reason: Reason = ""


class ChangesForm(BaseModel):
    phrase: Annotated[str, Field(max_length=40)]
    reason: Reason = ""


@router.post("/decide/{query_id}/approve")
def approve(
    request: Request, office: OfficeOf, user: Controller, query_id: str, form: Annotated[ApproveForm, Form()]
) -> Response:
    case = find_case(office, query_id)
    if not case.open:
        return _conflict(request, user, AlreadyDecided(case.row))
    algorithm = case.desk.settings.algorithm
    approval = Approval(
        epsilon=None if algorithm == "find-and-release" else form.epsilon,
        preference=form.preference if algorithm == "find" else None,
        continued=form.continued,
        reason=" ".join(form.reason.split()),
    )
    _check(office, case, approval)
    wanted = "test" if approval.epsilon is None else format_epsilon(approval.epsilon)
    if form.confirmed != wanted:
        return _confirm_page(request, office, user, case, form, approval, wanted)
    try:
        claim, order = claim_query(office, case.desk, case.row, user, approval)
    except AlreadyDecided as decided:
        return _conflict(request, user, decided)
    job = case.desk.bench.ask(
        ("release", claim), "Releasing",
        lambda dataset, _m: run_release(office, case.desk, case.row, claim, order, dataset),
        wait=4 * PATIENCE, cancellable=False,
    )  # fmt: skip
    del job  # the query's own page says what became of it, also when it is not done yet
    return RedirectResponse(f"/decide/{query_id}", status_code=303)


def _check(office: Office, case: Case, approval: Approval) -> None:
    """What the page would not have offered is refused here too; the ledger decides once more, in its transaction."""
    books = office.books(case.desk, case.prepared, fresh=True)
    remaining = books.remaining(case.desk.candidates)
    if approval.epsilon is None:
        if case.desk.settings.algorithm != "find-and-release":
            raise Refused(422, "unusable", "Choose an ε.")
        if not remaining:
            raise Refused(409, "odometer", "The odometer leaves no candidate: a release would be denied.")
        return
    if approval.epsilon not in case.desk.candidates:
        raise Refused(422, "unusable", "ε must be one of the candidates.")
    if approval.epsilon not in remaining:
        raise Refused(
            409,
            "odometer",
            f"ε = {format_epsilon(approval.epsilon)} can no longer be granted: the account does not leave it.",
        )
    if case.desk.settings.algorithm != "find":
        return
    try:
        preference = parse_preference(approval.preference or "")
        job = find_exhibit(office, case, wait=4 * PATIENCE)
        if job.state != "done":
            raise Refused(503, "computing", "The risk is still being computed. Try again in a moment.")
        if not job.result.is_quick(preference):
            raise Refused(409, "computing", "The preference was not evaluated yet. Go back and wait for its line.")
        choice = job.result.choose(preference)
    except DosimeterError as error:
        raise Refused(422, "unusable", str(error)) from None
    found = max(
        (line.epsilon for line in choice.candidates if line.satisfied and line.epsilon in remaining), default=None
    )
    if found is None or approval.epsilon > found:
        raise Refused(409, "above", "This ε is above the largest remaining one that meets the preference.")


def _confirm_page(
    request: Request, office: Office, user: User, case: Case, form: ApproveForm, approval: Approval, wanted: str
) -> Response:
    books = office.books(case.desk, case.prepared)
    epsilon = max(case.desk.candidates) if approval.epsilon is None else approval.epsilon
    after = books.reading.after(Charge(exact_decimal(epsilon), books.epsilon_svt, books.delta))
    shown = "∞" if after.infinite else format_number(float(after.epsilon), 6)
    return render(
        request, "confirm.html", user, row=case.row, form=form, wanted=wanted, algorithm=case.desk.settings.algorithm,
        before=format_number(float(books.reading.epsilon), 6), after=shown, blind=needs_consent(case),
        svt=case.desk.settings.svt, variance=case.desk.settings.variance,
    )  # fmt: skip


@router.post("/decide/{query_id}/repeat")
def repeat(request: Request, office: OfficeOf, user: Controller, query_id: str) -> Response:
    """Hand out the earlier answer to the same query: the same numbers, no charge."""
    case = find_case(office, query_id)
    earlier = find_earlier(office, case.desk, case.row["sql"])
    if earlier is None:
        raise Refused(409, "no_answer", "There is no earlier answer to this query on these data.")
    try:
        repeat_answer(office, case.row, user, earlier)
    except AlreadyDecided as decided:
        return _conflict(request, user, decided)
    return RedirectResponse(f"/decide/{query_id}", status_code=303)


@router.post("/decide/{query_id}/deny")
def deny(
    request: Request, office: OfficeOf, user: Controller, query_id: str, form: Annotated[DenyForm, Form()]
) -> Response:
    case = find_case(office, query_id)
    try:
        deny_query(office, case.row, user, " ".join(form.reason.split()))
    except AlreadyDecided as decided:
        return _conflict(request, user, decided)
    return RedirectResponse("/queue", status_code=303)


@router.post("/decide/{query_id}/changes")
def changes(
    request: Request, office: OfficeOf, user: Controller, query_id: str, form: Annotated[ChangesForm, Form()]
) -> Response:
    case = find_case(office, query_id)
    try:
        ask_for_changes(office, case.row, user, form.phrase, " ".join(form.reason.split()))
    except AlreadyDecided as decided:
        return _conflict(request, user, decided)
    except DosimeterError as error:
        raise Refused(422, "unusable", str(error)) from None
    return RedirectResponse("/queue", status_code=303)


_WORDS = {
    "approving": "is being released", "released": "was answered", "denied": "was denied",
    "changes": "was sent back with a request for changes", "withdrawn": "was withdrawn by its analyst",
}  # fmt: skip


def _conflict(request: Request, user: User, decided: AlreadyDecided) -> Response:
    """Somebody was faster, perhaps this controller's own second click: say who and what."""
    row = decided.row
    if row is None:
        raise Refused(404, "not_found", "There is no such query.")
    who = "you" if row["decided_by"] == user.id else (row["decider"] or "its analyst")
    words = _WORDS.get(row["status"], "was decided")
    message = f"This query {words}, by {who}, on {show_moment(row['changed_at'])} UTC. Your decision changed nothing."
    return render(request, "conflict.html", user, status=409, row=row, message=message)
