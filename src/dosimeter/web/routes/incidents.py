"""Incidents: which datasets are stopped, by what kind of failure, and the form that clears one. Controllers only."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel

from dosimeter.errors import LedgerError
from dosimeter.web.http import Controller, OfficeOf, Reason, Refused, render, require_desk
from dosimeter.web.incidents import clear_incident, list_incidents
from dosimeter.web.store import note

router = APIRouter()


class ClearForm(BaseModel):
    reason: Reason


@router.get("/incidents")
def show_incidents(request: Request, office: OfficeOf, user: Controller) -> Response:
    """Every incident of the datasets that are served, the open ones with a form."""
    found = list_incidents(office)
    if found and office.is_first(user.session, "viewed incidents"):
        note(office.database, user.name, "viewed incidents")
    return render(request, "incidents.html", user, found=found)


@router.post("/incidents/{name}/clear")
def clear(office: OfficeOf, user: Controller, name: str, form: Annotated[ClearForm, Form()]) -> Response:
    """End the stop, with the reason on record."""
    desk = require_desk(office, name)
    try:
        clear_incident(office, desk, user, " ".join(form.reason.split()))
    except LedgerError as error:
        raise Refused(409, "not_stopped", str(error)) from None
    return RedirectResponse("/incidents", status_code=303)
