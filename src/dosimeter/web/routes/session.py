"""Sign in, sign out, passwords and API tokens: everybody's own matters."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, Field

from dosimeter.errors import OptionError
from dosimeter.web import auth
from dosimeter.web.inbox import note
from dosimeter.web.models import LineText, PublicToken
from dosimeter.web.pages import (
    ENTRY_COOKIE,
    SESSION_COOKIE,
    Analyst,
    OfficeOf,
    Refused,
    Visitor,
    entry_csrf,
    find_address,
    find_visitor,
    make_entry_key,
    render,
    render_public,
)

router = APIRouter()
WRONG = "Name and password do not match."
TOO_OFTEN = "Too many wrong passwords. Wait a quarter of an hour, or ask the operator."


class SignInForm(BaseModel):
    name: Annotated[str, Field(max_length=200)] = ""
    password: Annotated[str, Field(max_length=1_000)] = ""


class PasswordForm(BaseModel):
    current: Annotated[str, Field(max_length=1_000)] = ""
    fresh: Annotated[str, Field(max_length=1_000)] = ""


class TokenForm(BaseModel):
    name: LineText


@router.get("/")
def go_home(user: Visitor) -> Response:
    return RedirectResponse("/ask" if user.role == "analyst" else "/queue", status_code=303)


@router.get("/sign-in")
def show_sign_in(request: Request) -> Response:
    if find_visitor(request) is not None:
        return RedirectResponse("/", status_code=303)
    return _sign_in_page(request)


def _sign_in_page(request: Request, problem: str | None = None, status: int = 200) -> Response:
    office = request.app.state.office
    key = make_entry_key()
    page = render(request, "sign_in.html", None, status=status, problem=problem, entry=entry_csrf(office, key))
    page.set_cookie(ENTRY_COOKIE, key, httponly=True, samesite="strict", secure=office.settings.secure, path="/sign-in")
    return page


@router.post("/sign-in")
def sign_in(request: Request, office: OfficeOf, form: Annotated[SignInForm, Form()]) -> Response:
    """A new session id at every sign-in: one that was planted beforehand is worth nothing."""
    settings, address = office.settings, find_address(request)
    before = find_visitor(request)
    try:
        key = auth.sign_in(
            office.database, form.name, form.password, address,
            allowed=settings.failures_allowed, minutes=settings.blocked_minutes, hours=settings.session_hours,
        )  # fmt: skip
    except auth.Throttled:
        return _sign_in_page(request, TOO_OFTEN, 429)
    if key is None:
        return _sign_in_page(request, WRONG, 401)
    if before is not None:
        auth.end_session(office.database, before)
    note(office.database, auth.clean_name(form.name), "signed in", detail=address)
    page = RedirectResponse("/", status_code=303)
    page.set_cookie(
        SESSION_COOKIE, str(office.signer("session").dumps(key)), max_age=settings.session_hours * 3600,
        httponly=True, samesite="lax", secure=settings.secure, path="/",
    )  # fmt: skip
    page.delete_cookie(ENTRY_COOKIE, path="/sign-in")
    return page


@router.post("/sign-out")
def sign_out(office: OfficeOf, user: Visitor) -> Response:
    auth.end_session(office.database, user)
    return _signed_out()


@router.post("/sign-out-everywhere")
def sign_out_everywhere(office: OfficeOf, user: Visitor) -> Response:
    auth.end_all_sessions(office.database, user)
    note(office.database, user.name, "signed out everywhere")
    return _signed_out()


def _signed_out() -> Response:
    page = RedirectResponse("/sign-in", status_code=303)
    page.delete_cookie(SESSION_COOKIE, path="/")
    return page


@router.get("/me")
def show_me(request: Request, office: OfficeOf, user: Visitor) -> Response:
    return _me_page(request, office, user)


def _me_page(
    request: Request, office: OfficeOf, user: Visitor, fresh: str = "", said: str = "", status: int = 200
) -> Response:
    tokens = [PublicToken(**token) for token in auth.list_tokens(office.database, user)]
    return render_public(request, "me.html", user, status=status, tokens=tokens, fresh=fresh, said=said)


@router.post("/me/password")
def change_password(
    request: Request, office: OfficeOf, user: Visitor, form: Annotated[PasswordForm, Form()]
) -> Response:
    try:
        changed = auth.change_password(office.database, user, form.current, form.fresh)
    except OptionError as problem:
        return _me_page(request, office, user, said=str(problem), status=422)
    if not changed:
        return _me_page(request, office, user, said="The current password is not right.", status=422)
    note(office.database, user.name, "changed the password")
    return _me_page(request, office, user, said="The password is changed; other sessions have ended.")


@router.post("/me/tokens")
def make_token(request: Request, office: OfficeOf, user: Analyst, form: Annotated[TokenForm, Form()]) -> Response:
    """Shown once; only its digest is kept."""
    key = auth.make_token(office.database, user, form.name)
    note(office.database, user.name, "made a token", detail=form.name)
    return _me_page(request, office, user, fresh=key)


@router.post("/me/tokens/{token_id}/revoke")
def revoke_token(office: OfficeOf, user: Analyst, token_id: str) -> Response:
    if not token_id.isalnum() or not auth.revoke_token(office.database, user, token_id):
        raise Refused(404, "not_found", "There is no such token.")
    note(office.database, user.name, "revoked a token")
    return RedirectResponse("/me", status_code=303)
