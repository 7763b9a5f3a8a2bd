"""Sign-in, sign-out, passwords and API tokens: what users manage for themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, Path, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from dosimeter.errors import OptionError
from dosimeter.problems import Surface
from dosimeter.web import identity
from dosimeter.web.http import (
    DEVICE_COOKIE,
    ENTRY_COOKIE,
    KEPT,
    NOTICE_COOKIE,
    SESSION_COOKIE,
    Analyst,
    Device,
    NameTurnsOf,
    NotSignedIn,
    PasswordQueueOf,
    Refused,
    StateOf,
    Visitor,
    entry_csrf,
    find_address,
    find_device,
    find_visitor,
    find_way_back,
    is_own,
    render,
    render_public,
    write_device,
)
from dosimeter.web.identity import (
    PAUSE,
    Limits,
    NameTurns,
    Throttled,
    TooManyAttempts,
    clean_name,
    refuse_throttled,
)
from dosimeter.web.public import LineText, PublicSession, PublicToken
from dosimeter.web.store import make_key, note

router = APIRouter()
Password = Annotated[str, Form(max_length=1_000)]
TOKEN_COOKIE = "dosimeter_token"
SLOWED = (
    "Many wrong passwords were tried for this account. Wait a minute, then try again. A device that you signed in on "
    "before is not held up."
)
WRONG = "Name and password do not match."
CROWDED = "Too many people sign in just now. Try again in a moment."
CHANGED = "The password is changed; other sessions have ended, and API tokens are revoked."
ENDED = "Your session ended; nothing was decided or changed. Sign in to go on where you were."
GO_ON = "Sign in to go on."


class SignInForm(BaseModel):
    name: Annotated[str, Field(max_length=200)] = ""
    password: Annotated[str, Field(max_length=1_000)] = ""
    next: Annotated[str, Field(max_length=4_000)] = ""


@router.get("/")
def go_home(user: Visitor) -> Response:
    return RedirectResponse("/ask" if user.role == "analyst" else "/queue", status_code=303)


@router.get("/sign-in")
def show_sign_in(request: Request) -> Response:
    if find_visitor(request) is not None:
        return RedirectResponse("/", status_code=303)
    back = find_way_back(request.query_params.get("next", ""))
    if not is_own(request):  # a link on another site may lead to this page, but not fill it in
        back = back.partition("?")[0]
    said = ENDED if request.query_params.get("ended") == "1" else GO_ON if back else ""
    return _sign_in_page(request, back=back, said=said)


def _sign_in_page(
    request: Request, problem: str | None = None, status: int = 200, *, back: str = "", name: str = "", said: str = ""
) -> Response:
    state = request.app.state.server
    key = make_key()
    page = render(
        request, "sign_in.html", None, status=status, problem=problem, entry=entry_csrf(state, key), back=back,
        name=name[:64], said=said, contact=state.settings.contact,
    )  # fmt: skip
    page.set_cookie(ENTRY_COOKIE, key, httponly=True, samesite="strict", secure=state.settings.secure, path="/sign-in")
    return page


@router.post("/sign-in")
async def sign_in(
    request: Request,
    state: StateOf,
    password_queue: PasswordQueueOf,
    name_turns: NameTurnsOf,
    form: Annotated[SignInForm, Form()],
) -> Response:
    """Sign in, with a new session id each time: an id that somebody planted in the browser is useless."""
    back, cookie = find_way_back(form.next), request.cookies.get(DEVICE_COOKIE, "")
    device = await run_in_threadpool(find_device, state, cookie, form.name) if cookie else None
    limits = _find_limits(request, state, device)
    visitor = limits.network if device is None else f"user {device.user_id}"

    async def verify() -> identity.SignedIn | None:
        hours = state.settings.session_hours
        work = partial(identity.sign_in, state.database, form.name, form.password, limits, hours=hours)
        return await password_queue.run(visitor, work, known=device is not None)

    try:
        if device is not None:
            await run_in_threadpool(refuse_throttled, state.database, form.name, limits)
            begun = await verify()
        else:
            begun = await _verify_in_turn(state, name_turns, form.name, limits, verify)
    except (Throttled, TooManyAttempts) as error:
        return _sign_in_page(request, *_explain_delay(state, error), back=back, name=form.name)
    if begun is None:
        return _sign_in_page(request, WRONG, 401, back=back, name=form.name)
    return await run_in_threadpool(_begin_session, request, state, begun, back, known=device is not None)


async def _verify_in_turn(
    state: StateOf,
    name_turns: NameTurns,
    name: str,
    limits: Limits,
    verify: Callable[[], Awaitable[identity.SignedIn | None]],
) -> identity.SignedIn | None:
    """Verify a stranger's password when it is their turn. Raises Throttled."""
    user_name, network = clean_name(name), limits.network
    name_turns.refuse_hopeless(user_name, network)
    usual = await run_in_threadpool(refuse_throttled, state.database, name, limits) and await run_in_threadpool(
        identity.signed_in_from, state.database, name, network
    )
    async with name_turns.take_turn(user_name, network, usual=usual) as attempt:
        attempt.slowed = await run_in_threadpool(refuse_throttled, state.database, name, limits)
        try:
            begun = await verify()
        except Throttled as throttled:
            if not throttled.slowed:
                raise
            await asyncio.sleep(PAUSE)  # it was slowed down by the attempt before, after which there was no pause yet
            begun = await verify()
    if begun is not None:
        name_turns.forget(user_name, network)
    return begun


def _begin_session(request: Request, state: StateOf, begun: identity.SignedIn, back: str, *, known: bool) -> Response:
    """End the visitor's earlier session, if any, and redirect to ``back`` with the cookie of the new one.

    ``back``: the page that was asked for; / if the user's role may not open it. ``known``: the device has its cookie
    already; otherwise it gets one.
    """
    settings, before = state.settings, find_visitor(request)
    if before is not None:
        identity.end_session(state.database, before)
    page = RedirectResponse(find_way_back(back, begun.user.role) or "/", status_code=303)
    set_cookie = partial(page.set_cookie, httponly=True, secure=settings.secure)
    session = state.sign("session", begun.key)
    set_cookie(SESSION_COOKIE, session, max_age=settings.session_hours * 3600, samesite="lax", path="/")
    page.delete_cookie(ENTRY_COOKIE, path="/sign-in")
    if begun.failures:
        told = state.sign("notice", [begun.user.session, begun.failures])
        set_cookie(NOTICE_COOKIE, told, max_age=300, samesite="lax", path="/")
    if not known:
        device = write_device(state, begun.user.id)
        set_cookie(DEVICE_COOKIE, device, max_age=KEPT, samesite="strict", path="/sign-in")
    return page


def _find_limits(request: Request, state: StateOf, device: Device | None = None) -> Limits:
    settings = state.settings
    return Limits(
        find_address(request), settings.failures_allowed, settings.blocked_minutes, "" if device is None else device.id
    )


def _explain_delay(state: StateOf, error: Throttled | TooManyAttempts) -> tuple[str, int]:
    """Return why a password is not verified now, and the status of the response."""
    if isinstance(error, TooManyAttempts):
        return CROWDED, 503
    minutes = state.settings.blocked_minutes
    return SLOWED if error.slowed else f"Too many wrong passwords. Wait {minutes} minutes, then try again.", 429


@router.post("/sign-out")
def sign_out(state: StateOf, user: Visitor) -> Response:
    identity.end_session(state.database, user)
    return _signed_out()


@router.post("/sign-out-everywhere")
def sign_out_everywhere(state: StateOf, user: Visitor) -> Response:
    identity.end_everything(state.database, user)
    return _signed_out()


def _signed_out() -> Response:
    page = RedirectResponse("/sign-in", status_code=303)
    page.delete_cookie(SESSION_COOKIE, path="/")
    return page


@router.get("/me")
def show_me(request: Request, state: StateOf, user: Visitor) -> Response:
    """Show the user's own page. A new token, handed over in a cookie, is shown this once."""
    session, key = state.read_signed("fresh token", request.cookies.get(TOKEN_COOKIE, "")) or ("", "")
    page = _me_page(request, state, user, fresh=key if session == user.session else "")
    if TOKEN_COOKIE in request.cookies:
        page.delete_cookie(TOKEN_COOKIE, path="/me")
    return page


def _me_page(
    request: Request, state: StateOf, user: Visitor, fresh: str = "", said: str = "", status: int = 200
) -> Response:
    tokens = [PublicToken.model_validate(token) for token in identity.list_tokens(state.database, user)]
    sessions = [PublicSession.model_validate(session) for session in identity.list_sessions(state.database, user)]
    return render_public(
        request, "me.html", user, status=status, tokens=tokens, fresh=fresh, said=said, sessions=sessions
    )  # fmt: skip


@router.post("/me/password")
async def change_password(
    request: Request,
    state: StateOf,
    password_queue: PasswordQueueOf,
    user: Visitor,
    current: Password = "",
    fresh: Password = "",
) -> Response:
    limits = _find_limits(request, state, Device(f"session {user.session}", user.id))
    try:
        changed = await password_queue.run(
            f"user {user.id}",
            lambda: identity.change_password(state.database, user, current, fresh, limits),
            known=True,
        )
        said, status = (CHANGED, 200) if changed else ("The current password is not right.", 422)
    except OptionError as problem:
        said, status = problem.word(Surface.WEB), 422
    except (Throttled, TooManyAttempts) as error:
        said, status = _explain_delay(state, error)
    return await run_in_threadpool(_me_page, request, state, user, said=said, status=status)


@router.post("/me/sessions/{session_id}/end")
def end_other(state: StateOf, user: Visitor, session_id: Annotated[str, Path(pattern="^[0-9a-f]{16}$")]) -> Response:
    """End another session of the user's own: on a device that was lost, or left open."""
    if not identity.end_other_session(state.database, user, session_id):
        raise Refused(404, "not_found", "There is no such session: it may have ended.")
    return RedirectResponse("/me", status_code=303)


@router.post("/me/tokens")
def make_token(state: StateOf, user: Analyst, name: Annotated[LineText, Form()]) -> Response:
    """Make an API token. It is shown once; only its digest is stored."""
    try:
        key = identity.make_token(state.database, user, name)
    except identity.SessionEnded:
        raise NotSignedIn from None
    note(state.database, user.name, "made a token", detail=name)
    page = RedirectResponse("/me", status_code=303)
    page.set_cookie(
        TOKEN_COOKIE, state.sign("fresh token", [user.session, key]), max_age=60,
        httponly=True, samesite="strict", secure=state.settings.secure, path="/me",
    )  # fmt: skip
    return page


@router.post("/me/tokens/{token_id}/revoke")
def revoke_token(state: StateOf, user: Analyst, token_id: str) -> Response:
    if not token_id.isalnum() or not identity.revoke_token(state.database, user, token_id):
        raise Refused(404, "not_found", "There is no such token.")
    note(state.database, user.name, "revoked a token")
    return RedirectResponse("/me", status_code=303)
