"""The analyst's pages: ask, see one's own queue, read results. Everything shown here comes from ``models``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, Field, ValidationError

from dosimeter.web.auth import User
from dosimeter.web.checking import check_query, underline_clause
from dosimeter.web.inbox import find_own, list_own, submit_query, withdraw_query
from dosimeter.web.models import NewQuery, PublicQuery, show_query
from dosimeter.web.office import Office
from dosimeter.web.pages import Analyst, OfficeOf, Refused, render_public

router = APIRouter()


class AskForm(BaseModel):
    """As the browser sends it: every field a text. Checked when it becomes a NewQuery."""

    dataset: Annotated[str, Field(max_length=200)] = ""
    sql: Annotated[str, Field(max_length=20_000)] = ""
    purpose: Annotated[str, Field(max_length=1_000)] = ""
    priority: Annotated[str, Field(max_length=20)] = "normal"
    wanted_error: Annotated[str, Field(max_length=40)] = ""


@router.get("/ask")
def show_form(request: Request, office: OfficeOf, user: Analyst, dataset: str = "", again: str = "") -> Response:
    form = AskForm(dataset=dataset if dataset in office.desks else next(iter(office.desks)))
    earlier = find_own(office.database, user, again) if again.isalnum() else None
    if earlier is not None:
        error = earlier["wanted_error"]
        form = AskForm(
            dataset=earlier["dataset"], sql=earlier["sql"], purpose=earlier["purpose"], priority=earlier["priority"],
            wanted_error="" if error is None else f"{error:g}",
        )  # fmt: skip
    return _ask_page(request, office, user, form)


def _ask_page(
    request: Request, office: Office, user: User, form: AskForm, problems: dict[str, str] | None = None
) -> Response:
    desk = office.desk(form.dataset) or next(iter(office.desks.values()))
    return render_public(
        request, "ask.html", user, status=200 if problems is None else 422,
        form=form.model_dump(), problems=problems or {}, names=list(office.desks), dataset=desk.public(),
        **_checked(office, form) if form.sql else {"check": None, "marked": ""},
    )  # fmt: skip


def _checked(office: Office, form: AskForm) -> dict[str, Any]:
    desk = office.desk(form.dataset)
    if desk is None:
        raise Refused(404, "not_found", "There is no such dataset.")
    check = check_query(desk, form.sql)
    return {"check": check, "marked": "" if check.answerable else underline_clause(form.sql, check.clause)}


@router.post("/ask/check")
def check(request: Request, office: OfficeOf, user: Analyst, form: Annotated[AskForm, Form()]) -> Response:
    """While one types: can this be answered, and if not, which clause is in the way."""
    return render_public(request, "fragments/check.html", user, **_checked(office, form))


@router.post("/ask")
def ask(request: Request, office: OfficeOf, user: Analyst, form: Annotated[AskForm, Form()]) -> Response:
    desk = office.desk(form.dataset)
    if desk is None:
        raise Refused(404, "not_found", "There is no such dataset.")
    values: dict[str, Any] = form.model_dump()
    values["wanted_error"] = form.wanted_error.strip().replace(",", ".") or None
    try:
        query = NewQuery(**values)
    except ValidationError as error:
        return _ask_page(request, office, user, form, _name_problems(error))
    if not check_query(desk, query.sql).answerable:
        return _ask_page(request, office, user, form, {"sql": "This query cannot be answered as it is."})
    query_id = submit_query(office.database, user, query)
    return RedirectResponse(f"/queries/{query_id}", status_code=303)


def _name_problems(error: ValidationError) -> dict[str, str]:
    words = {
        "sql": "Write a query of at most 10,000 characters.",
        "purpose": "Say in one line what the answer is for, in at most 500 characters.",
        "priority": "Choose one of the priorities.",
        "wanted_error": "Give a positive number, or leave it empty.",
    }
    return {str(e["loc"][0]): words.get(str(e["loc"][0]), "This cannot be used.") for e in error.errors() if e["loc"]}


@router.get("/queries")
def list_queries(request: Request, office: OfficeOf, user: Analyst) -> Response:
    shown = [show_query(row, None) for row in list_own(office.database, user)]
    return render_public(request, "queries.html", user, queries=shown)


@router.get("/queries/{query_id}")
def show_one(request: Request, office: OfficeOf, user: Analyst, query_id: str) -> Response:
    return render_public(request, "query.html", user, query=find_shown(office, user, query_id))


@router.get("/queries/{query_id}/status")
def show_status(request: Request, office: OfficeOf, user: Analyst, query_id: str) -> Response:
    return render_public(request, "fragments/status.html", user, query=find_shown(office, user, query_id))


def find_shown(office: Office, user: User, query_id: str) -> PublicQuery:
    row = find_own(office.database, user, query_id) if query_id.isalnum() else None
    if row is None:
        raise Refused(404, "not_found", "There is no such query.")
    return show_query(row, office.entry(row["entry_id"]) if row["status"] == "released" else None)


@router.post("/queries/{query_id}/withdraw")
def withdraw(office: OfficeOf, user: Analyst, query_id: str) -> Response:
    find_shown(office, user, query_id)
    if not withdraw_query(office.database, user, query_id):
        raise Refused(409, "decided", "This query is being decided, or was; it can no longer be withdrawn.")
    return RedirectResponse("/queries", status_code=303)
