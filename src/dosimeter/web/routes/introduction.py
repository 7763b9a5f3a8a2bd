"""The introduction for new controllers: one page of text."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dosimeter.web.http import Controller, render

router = APIRouter()


@router.get("/introduction")
def show_introduction(request: Request, user: Controller) -> Response:
    return render(request, "introduction.html", user)
