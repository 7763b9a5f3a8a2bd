"""The controller's queue, thresholds and audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, Field

from dosimeter.web.inbox import list_audit, list_decided, list_open, note, read_thresholds, save_thresholds
from dosimeter.web.pages import Controller, OfficeOf, Refused, render

router = APIRouter()
Percent = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]


class ThresholdForm(BaseModel):
    high: Percent
    normal: Percent
    low: Percent


@router.get("/queue")
def show_queue(request: Request, office: OfficeOf, user: Controller) -> Response:
    return render(
        request, "queue.html", user,
        waiting=list_open(office.database), decided=list_decided(office.database),
        thresholds=read_thresholds(office.database, user),
    )  # fmt: skip


@router.get("/queue/rows")
def show_rows(request: Request, office: OfficeOf, user: Controller) -> Response:
    return render(
        request, "fragments/waiting.html", user,
        waiting=list_open(office.database), thresholds=read_thresholds(office.database, user),
    )  # fmt: skip


@router.get("/settings")
def show_settings(request: Request, office: OfficeOf, user: Controller, saved: bool = False) -> Response:
    return render(
        request, "settings.html", user, thresholds=read_thresholds(office.database, user), saved=saved
    )  # fmt: skip


@router.post("/settings")
def change_settings(office: OfficeOf, user: Controller, form: Annotated[ThresholdForm, Form()]) -> Response:
    save_thresholds(office.database, user, form.model_dump())
    return RedirectResponse("/settings?saved=true", status_code=303)


@router.get("/audit")
def show_audit(
    request: Request,
    office: OfficeOf,
    user: Controller,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
) -> Response:
    return render(request, "audit.html", user, entries=list_audit(office.database, before=before))


@router.get("/jobs/{job_id}")
def show_job(request: Request, office: OfficeOf, user: Controller, job_id: str) -> Response:
    for desk in office.desks.values():
        job = desk.bench.find(job_id)
        if job is not None:
            return render(request, "fragments/progress.html", user, job=job, share=desk.bench.share(job), again="")
    raise Refused(404, "not_found", "There is no such computation.")


@router.post("/jobs/{job_id}/cancel")
def cancel_job(office: OfficeOf, user: Controller, job_id: str) -> Response:
    for desk in office.desks.values():
        job = desk.bench.find(job_id)
        if job is not None:
            desk.bench.cancel(job)
            note(office.database, user.name, "cancelled", dataset=desk.name, detail=job.title)
            return Response(status_code=204, headers={"HX-Refresh": "true"})
    raise Refused(404, "not_found", "There is no such computation.")
