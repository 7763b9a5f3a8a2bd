"""Incidents: which datasets are stopped, by what kind of failure, and the form that clears one. Controllers only."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from dosimeter.errors import LedgerError
from dosimeter.problems import Surface
from dosimeter.web.http import Controller, Reason, Refused, StateOf, render, require_found
from dosimeter.web.stopped_datasets import clear_incident, list_incidents

router = APIRouter()


@router.get("/incidents")
def show_incidents(request: Request, state: StateOf, user: Controller) -> Response:
    """Show every incident of the served datasets, the open ones with a form that clears them."""
    found = list_incidents(state)
    if found:
        state.note_once(user, "viewed incidents")
    return render(request, "incidents.html", user, found=found)


@router.post("/incidents/{name}/clear")
def clear(state: StateOf, user: Controller, name: str, reason: Annotated[Reason, Form()]) -> Response:
    """Clear the incident that stops a dataset, and record the reason."""
    served = require_found({each.name: each for each in state.known}.get(name), "There is no such dataset.")
    try:
        clear_incident(state, served, user, reason)
    except LedgerError as error:
        raise Refused(409, "not_stopped", error.word(Surface.WEB)) from None
    return RedirectResponse("/incidents", status_code=303)
