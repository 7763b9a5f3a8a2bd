"""Approve, deny, ask for changes: what a controller decides about one query, once."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import AfterValidator, BaseModel, Field

from dosimeter.errors import DatasetStopped, DosimeterError
from dosimeter.risk import parse_preference
from dosimeter.show import format_epsilon
from dosimeter.web.decision import (
    AlreadyDecided,
    Approval,
    Case,
    Wish,
    admit_condition,
    ask_for_changes,
    claim_query,
    count_cost,
    deny_query,
    explain_refusal,
    find_case,
    find_earlier,
    find_exhibit,
    find_worst,
    needs_consent,
    read_own_fields,
    recall_wish,
    renew_digest,
    repeat_answer,
    round_down,
    run_release,
    show_decision,
    state_preference,
    write_query,
)
from dosimeter.web.http import Controller, OfficeOf, Reason, Refused, Remark, render, show_moment
from dosimeter.web.incidents import REFUSED
from dosimeter.web.public import DENIED, PHRASES, check_text
from dosimeter.web.state import Office
from dosimeter.web.store import User
from dosimeter.web.worker import PATIENCE, Rank

router = APIRouter()


class ApproveForm(BaseModel):
    """``confirmed`` repeats the ε: without it the page that asks whether this is meant comes first."""

    epsilon: Annotated[float, Field(gt=0, lt=1e300, allow_inf_nan=False)] | None = None
    preference: Annotated[str, Field(max_length=3_000), AfterValidator(check_text)] = ""
    reason: Reason
    continued: bool = False
    confirmed: Annotated[str, Field(max_length=40)] = ""


class DenyForm(BaseModel):
    reason: Reason


class ChangesForm(BaseModel):
    phrase: Annotated[str, Field(max_length=40)]
    reason: Remark = ""


@router.get("/decide/{query_id}/confirm")
def confirm(request: Request, office: OfficeOf, user: Controller, query_id: str) -> Response:
    """Whether this is meant: what the form says, read anew, with what it costs. Changes nothing."""
    case = find_case(office, query_id)
    if not case.open:
        return _conflict(request, user, AlreadyDecided(case.row))
    wish, complaint = read_own_fields(request)
    if complaint:
        return show_decision(request, office, user, case, wish, complaint=complaint, status=422)
    algorithm = case.desk.settings.algorithm
    epsilon = None if wish.epsilon is None else round_down(wish.epsilon, case.desk.candidates)
    if algorithm == "find-and-release":
        epsilon = None
    try:
        preference = state_preference(office, case, user, wish).text if algorithm == "find" else None
        _check(office, user, case, Approval(epsilon, preference, continued=True))
    except DosimeterError as error:
        return show_decision(request, office, user, case, wish, complaint=str(error), status=422)
    except Refused as refused:
        return show_decision(
            request, office, user, case, wish, refusal=refused.message, status=refused.status
        )  # fmt: skip
    books = office.books(case.desk, case.prepared)
    at = find_worst(case.desk, books) if epsilon is None else epsilon
    asked = "" if epsilon is None or epsilon == wish.epsilon else format_epsilon(wish.epsilon or 0.0)
    return render(
        request, "confirm.html", user, row=case.row, epsilon=epsilon, at=at, asked=asked, preference=preference or "",
        wanted="test" if epsilon is None else format_epsilon(epsilon), algorithm=algorithm,
        cost=count_cost(case.desk, at, books), other_data=_is_other_data(office, case), blind=needs_consent(case),
        svt=case.desk.settings.svt, variance=case.desk.settings.variance,
        back=f"/decide/{query_id}?{write_query(wish, epsilon)}",
    )  # fmt: skip


def _is_other_data(office: Office, case: Case) -> bool:
    """Whether the data or the schema changed since the account was used. Compares digests, looks at no number."""
    account = office.account(case.desk.name)
    if account is None:
        return False
    digest = renew_digest(case.desk)
    return bool(digest) and not account.is_of(case.prepared.schema_digest, digest)


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
    try:
        _check(office, user, case, approval)
    except Refused as refused:
        return _turn_down(request, office, user, case, approval, refused)
    wanted = "test" if approval.epsilon is None else format_epsilon(approval.epsilon)
    if form.confirmed != wanted:
        wish = recall_wish(approval.preference, approval.epsilon)
        query = write_query(wish, approval.epsilon)
        return RedirectResponse(f"/decide/{query_id}/confirm?{query}", status_code=303)
    try:
        claim, order = claim_query(office, case.desk, case.row, user, approval)
    except AlreadyDecided as decided:
        return _conflict(request, user, decided)
    try:
        case.desk.bench.ask(
            ("release", claim), "Releasing",
            lambda dataset, _m: run_release(office, case.desk, case.row, claim, order, dataset),
            wait=4 * PATIENCE, rank=Rank.RELEASE,
        )  # fmt: skip
    except DosimeterError:  # the server is stopping: nothing was begun
        office.end_claim(claim)
    return RedirectResponse(f"/decide/{query_id}", status_code=303)  # its page says what became of it, also later


def _turn_down(
    request: Request, office: Office, user: User, case: Case, approval: Approval, refused: Refused
) -> Response:
    """The decision page again, at what was asked for, with the reason in words."""
    try:
        wish = recall_wish(approval.preference, approval.epsilon)
    except DosimeterError:
        wish = Wish()
    return show_decision(request, office, user, case, wish, refusal=refused.message, status=refused.status)


def _check(office: Office, user: User, case: Case, approval: Approval) -> None:
    """What the page would not have offered is refused here too; the ledger decides once more, in its transaction."""
    if office.is_stopped(case.desk.name):
        raise Refused(409, "stopped", REFUSED)
    books = office.books(case.desk, case.prepared, fresh=True)
    remaining = books.remaining(case.desk.candidates)
    if approval.epsilon is None:
        if case.desk.settings.algorithm != "find-and-release":
            raise Refused(422, "unusable", "Choose an ε.")
        if not remaining:
            why = explain_refusal(books, min(case.desk.candidates))
            raise Refused(409, "odometer", f"The account leaves no candidate: {why}.")
        return
    if approval.epsilon not in case.desk.candidates:
        raise Refused(422, "unusable", "ε must be one of the candidates.")
    if approval.epsilon not in remaining:
        raise Refused(
            409,
            "odometer",
            f"ε = {format_epsilon(approval.epsilon)} cannot be granted: {explain_refusal(books, approval.epsilon)}.",
        )
    if case.desk.settings.algorithm != "find":
        return
    try:
        preference = parse_preference(approval.preference or "")
        admit_condition(office, user, case.row, case.prepared.plan, preference)
        job = find_exhibit(office, case, wait=4 * PATIENCE, renew=True)
        if job.state != "done":
            raise Refused(503, "computing", "The risk is still being computed. Try again in a moment.")
        choice = job.result.recall(preference)
        if choice is None:
            raise Refused(409, "computing", "The preference was not evaluated yet. Wait for its line, then approve.")
    except DosimeterError as error:
        raise Refused(422, "unusable", str(error)) from None
    found = max(
        (line.epsilon for line in choice.candidates if line.satisfied and line.epsilon in remaining), default=None
    )
    if found is None or approval.epsilon > found:
        raise Refused(409, "above", "This ε is above the largest remaining one that meets the preference.")


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
    except DatasetStopped as stopped:
        raise Refused(409, "stopped", str(stopped)) from None
    return RedirectResponse(f"/decide/{query_id}", status_code=303)


@router.get("/decide/{query_id}/deny")
def show_deny(request: Request, office: OfficeOf, user: Controller, query_id: str) -> Response:
    return _refusal_page(request, office, user, query_id, "deny.html", wording=DENIED)


@router.get("/decide/{query_id}/changes")
def show_changes(request: Request, office: OfficeOf, user: Controller, query_id: str) -> Response:
    return _refusal_page(request, office, user, query_id, "changes.html", phrases=PHRASES)


def _refusal_page(
    request: Request, office: Office, user: User, query_id: str, template: str, **context: Any
) -> Response:
    case = find_case(office, query_id)
    if not case.open:
        return _conflict(request, user, AlreadyDecided(case.row))
    return render(request, template, user, row=case.row, **context)


@router.post("/decide/{query_id}/deny")
def deny(
    request: Request, office: OfficeOf, user: Controller, query_id: str, form: Annotated[DenyForm, Form()]
) -> Response:
    case = find_case(office, query_id)
    try:
        deny_query(office, case.row, user, " ".join(form.reason.split()))
    except AlreadyDecided as decided:
        return _conflict(request, user, decided)
    return RedirectResponse(f"/queue?done={query_id}", status_code=303)


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
    return RedirectResponse(f"/queue?done={query_id}", status_code=303)


_WORDS = {
    "approving": "is being released", "released": "was answered", "denied": "was denied",
    "changes": "was sent back with a request for changes", "withdrawn": "was withdrawn by its analyst",
}  # fmt: skip


def _conflict(request: Request, user: User, decided: AlreadyDecided) -> Response:
    """Somebody was faster, perhaps this controller's own second click: say who and what."""
    row = decided.row
    if row is None:
        raise Refused(404, "not_found", "There is no such query.")
    who = "you" if row["decided_by"] == user.id else row["decider"]
    words = _WORDS.get(row["status"], "was decided")
    if who is not None and row["status"] != "withdrawn":
        words += f", by {who}"
    message = f"This query {words}, on {show_moment(row['changed_at'])} UTC. Nothing more was changed."
    return render(request, "conflict.html", user, status=409, row=row, message=message)
