"""Who is asking, and what routes depend on: a user of the right role, the server's state, a dataset."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Request
from itsdangerous import BadSignature

from dosimeter.web.checks import RequestChecks
from dosimeter.web.http.errors import NotSignedIn, Refused
from dosimeter.web.identity import NameTurns, PasswordQueue, find_session
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.store import User

SESSION_COOKIE = "dosimeter_session"


def get_state(request: Request) -> ServerState:
    state: ServerState = request.app.state.server
    return state


HOMES = {
    "analyst": ("/ask", "/queries", "/answers", "/me"),
    "controller": (
        "/queue",
        "/decide/",
        "/decided",
        "/records/",
        "/accounts",
        "/incidents",
        "/audit",
        "/settings",
        "/me",
    ),
}
"""The pages of each role, the first one its home. Only to these does a sign-in lead back."""


def find_way_back(address: str, role: str | None = None) -> str:
    """Return the address if it is a page of ours that a sign-in may lead to, else "".

    ``role``: the page must be one of this role; None: of any role.
    """
    if len(address) > 2_000 or not re.fullmatch(r"/[A-Za-z0-9_.-][A-Za-z0-9_./%-]*(\?[A-Za-z0-9_.%&=+*~-]*)?", address):
        return ""
    homes = HOMES.get(role, ()) if role is not None else tuple(start for starts in HOMES.values() for start in starts)
    return address if address.startswith(homes) else ""


# FastAPI runs what is not async in a thread, which takes longer than all that these do.


async def provide_state(request: Request) -> ServerState:
    return get_state(request)


async def get_checks(request: Request) -> RequestChecks:
    async def wait_until_gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return RequestChecks(request.app.state.checks, wait_until_gone)


async def get_password_queue(request: Request) -> PasswordQueue:
    password_queue: PasswordQueue = request.app.state.password_queue
    return password_queue


async def get_name_turns(request: Request) -> NameTurns:
    name_turns: NameTurns = request.app.state.name_turns
    return name_turns


def find_address(request: Request) -> str:
    return request.client.host if request.client is not None else "unknown"


def find_visitor(request: Request) -> User | None:
    """Return the user whose session the request's cookie names.

    None without a cookie, if it is not signed by this server, or if the session has ended.
    """
    cookie = request.cookies.get(SESSION_COOKIE)
    if cookie is None or len(cookie) > 400:
        return None
    state = get_state(request)
    try:
        key = state.signer("session").loads(cookie)
    except BadSignature:
        return None
    return find_session(state.database, key) if isinstance(key, str) else None


def require_visitor(request: Request) -> User:
    user = find_visitor(request)
    if user is None:
        raise NotSignedIn
    return user


async def require_analyst(user: Annotated[User, Depends(require_visitor)]) -> User:
    if user.role != "analyst":
        raise Refused(403, "forbidden", "This page is for analysts.")
    return user


async def require_controller(user: Annotated[User, Depends(require_visitor)]) -> User:
    if user.role != "controller":
        raise Refused(403, "forbidden", "This page is for controllers.")
    return user


def require_dataset(state: ServerState, name: str) -> ServedDataset:
    served = state.dataset(name)
    if served is None:
        raise Refused(404, "not_found", "There is no such dataset.")
    return served


StateOf = Annotated[ServerState, Depends(provide_state)]
PasswordQueueOf = Annotated[PasswordQueue, Depends(get_password_queue)]
NameTurnsOf = Annotated[NameTurns, Depends(get_name_turns)]
Checks = Annotated[RequestChecks, Depends(get_checks)]
Visitor = Annotated[User, Depends(require_visitor)]
Analyst = Annotated[User, Depends(require_analyst)]
Controller = Annotated[User, Depends(require_controller)]
