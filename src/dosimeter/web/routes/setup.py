"""Set up a dataset that has no schema yet: what is declared, what finding the rest costs, confirm. Controllers only.

Until the dataset is served, nothing but its columns' names and types is known here. Whatever is read off the data is
shown on a page of its own, after a click that is recorded.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import FormData

from dosimeter.ledger import Entry
from dosimeter.web.http import MOST_FIELDS, Controller, Refused, StateOf, render, require_found, show_progress
from dosimeter.web.setup_form import SetupForm, list_names, list_paid, list_types, view_setup
from dosimeter.web.setup_search import begin_search, find_search_job, look_at_data, needs_word
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.store import User, find_setup, mark_data_shown, save_setup
from dosimeter.web.worker import Job

router = APIRouter()


async def read_fields(request: Request) -> FormData:
    """Return the fields of a form that has some for each column of a table."""
    return await request.form(max_fields=MOST_FIELDS)


Fields = Annotated[FormData, Depends(read_fields)]


def _require_unserved(state: ServerState, name: str) -> ServedDataset:
    return require_found(state.unserved.get(name), "There is no dataset of this name to be set up.")


def _address(name: str, part: str = "") -> str:
    return f"/setup/{quote(name, safe='')}{part}"


@router.get("/setup/{name}")
def show_setup(request: Request, state: StateOf, user: Controller, name: str) -> Response:
    """Show the form of a set-up, with what it costs; while its facts are searched, how far that is; then the facts."""
    if name in state.datasets:
        return _show_facts(request, state, user, name)
    served = _require_unserved(state, name)
    job = find_search_job(served)
    if job is not None and not job.ended.is_set():
        return _show_running(request, user, served, job)
    stored = find_setup(state.database, name)
    form = SetupForm.load(stored.form, served)
    return render(
        request, "setup.html", user, served=served, form=form, types=list_types, stored=stored,
        view=view_setup(form, served, state) if stored.form else None,
        problem="" if job is None else job.problem, paid=list_paid(state, served), here_at=_address(name),
        names=[name for name, column in served.schema.columns.items() if column.type in ("integer", "text")],
    )  # fmt: skip


def _show_running(request: Request, user: User, served: ServedDataset, job: Job[Any]) -> Response:
    return render(request, "setup_wait.html", user, served=served, job=job, share=served.worker.share(job))


def _show_facts(request: Request, state: ServerState, user: User, name: str) -> Response:
    """Show what was found of a dataset. All of it is public."""
    served = state.datasets[name]
    entry: Entry | None = state.entry(served.schema.found)
    if entry is None or entry.answer is None:
        raise Refused(404, "not_found", "The schema of this dataset was not found by spending.")
    return render(
        request, "setup_done.html", user, served=served, entry=entry, columns=state.public(served).columns,
        remarks=entry.about, account=state.account(name),
    )  # fmt: skip


@router.post("/setup/{name}")
def change_setup(state: StateOf, user: Controller, name: str, fields: Fields) -> Response:
    """Save what was filled in, and show the form again, with what it costs."""
    served = _require_unserved(state, name)
    form = SetupForm.read(fields, served)
    if fields.get("tick") in ("all", "none"):
        form = form.tick(find=fields["tick"] == "all")
    save_setup(state.database, name, form.dump())
    goes_on = fields.get("go") == "confirm" and view_setup(form, served, state).possible
    part = "/confirm" if goes_on else "#hc" if fields.get("tick") else ""
    return RedirectResponse(_address(name, part), status_code=303)


@router.get("/setup/{name}/confirm")
def show_confirmation(request: Request, state: StateOf, user: Controller, name: str) -> Response:
    """Show a page that asks whether the set-up is meant, and what it costs. Spends nothing."""
    if name in state.datasets:
        return RedirectResponse(_address(name), status_code=303)
    served = _require_unserved(state, name)
    stored = find_setup(state.database, name)
    form = SetupForm.load(stored.form, served)
    view, job = view_setup(form, served, state), find_search_job(served)
    if not view.possible or view.search is None:
        return RedirectResponse(_address(name), status_code=303)
    declared = view.search.declared
    kept = [
        each for each in declared.columns.values() if each not in view.search.columns and each.name != declared.unit
    ]
    return render(
        request, "setup_confirm.html", user, served=served, form=form, view=view, looked=stored.looked,
        asks_word=job is not None and needs_word(job.error), problem="" if job is None else job.problem,
        searched=list_names([each.name for each in view.search.columns]), count=len(view.search.columns),
        identifying=list_names([each.name for each in declared.columns.values() if each.identifying]),
        kept=list_names([each.name for each in kept if not each.identifying]), back=_address(name),
    )  # fmt: skip


@router.post("/setup/{name}/spend")
def spend(
    state: StateOf,
    user: Controller,
    name: str,
    confirmed: Annotated[str, Form(max_length=64)],
    continued: Annotated[bool, Form()] = False,
    other_people: Annotated[bool, Form()] = False,
) -> Response:
    """Find the facts of a dataset, as its set-up was confirmed; ask again if it was changed since."""
    if name in state.datasets:  # a second click, or another controller's
        return RedirectResponse(_address(name), status_code=303)
    served = _require_unserved(state, name)
    form = SetupForm.load(find_setup(state.database, name).form, served)
    view = view_setup(form, served, state)
    if confirmed != form.digest or not view.possible or view.search is None:
        return RedirectResponse(_address(name, "/confirm"), status_code=303)
    job = find_search_job(served)
    if job is None or job.ended.is_set():
        begin_search(state, served, user, form, view.search, continued=continued, other_people=other_people)
    return RedirectResponse(_address(name), status_code=303)


@router.post("/setup/{name}/look")
def look(state: StateOf, user: Controller, name: str) -> Response:
    """Record that somebody looks at the data before setting the dataset up."""
    _require_unserved(state, name)
    mark_data_shown(state.database, name, user)
    state.remember_first(user.session, "looked at", name)
    return RedirectResponse(_address(name, "/look"), status_code=303)


@router.get("/setup/{name}/look")
def show_look(request: Request, state: StateOf, user: Controller, name: str) -> Response:
    """Show counts and extremes of every column. Refuses until this controller has clicked, in this session."""
    served = _require_unserved(state, name)
    if not state.is_noted(user.session, "looked at", name):
        raise Refused(403, "not_looked", "Choose to look at the data first, on the page that sets the dataset up.")
    job = look_at_data(served)
    if job.state != "done":
        if request.headers.get("hx-request") == "true":
            return show_progress(request, served, user, job, _address(name, "/look"))
        return _show_running(request, user, served, job)
    form = SetupForm.load(find_setup(state.database, name).form, served)
    hidden = {form.unit, *(column for column, each in form.columns.items() if each.identifying)}
    return render(request, "setup_look.html", user, served=served, facts=job.result, hidden=hidden, back=_address(name))
