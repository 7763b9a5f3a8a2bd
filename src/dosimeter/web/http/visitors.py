"""Who is asking, and what routes depend on: a user of the right role, the server's state, a dataset."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Request

from dosimeter.web.checks import RunCheck, RunTrial
from dosimeter.web.http.exceptions import NotSignedIn, Refused, require_found
from dosimeter.web.identity import NameTurns, PasswordQueue, find_session
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.store import Role, User

SESSION_COOKIE = "dosimeter_session"


def get_state(request: Request) -> ServerState:
    state: ServerState = request.app.state.server
    return state


HOMES = {
    "analyst": ("/ask", "/queries", "/answers", "/about/", "/me"),
    "controller": (
        "/queue",
        "/decide/",
        "/decided",
        "/records/",
        "/accounts",
        "/incidents",
        "/setup/",
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


async def get_checks(request: Request) -> RunCheck:
    return partial(request.app.state.checks.check, gone=partial(_wait_until_gone, request))


async def get_trials(request: Request) -> RunTrial:
    return partial(request.app.state.checks.try_out, gone=partial(_wait_until_gone, request))


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _hold(name: str) -> Any:
    """Return a dependency on what the application holds under this name."""

    async def get(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(get)


def find_address(request: Request) -> str:
    return request.client.host if request.client is not None else "unknown"


def find_visitor(request: Request) -> User | None:
    """Return the user whose session the request's cookie names.

    None without a cookie, if it is not signed by this server, or if the session has ended.
    """
    state = get_state(request)
    key = state.read_signed("session", request.cookies.get(SESSION_COOKIE, ""))
    return None if key is None else find_session(state.database, key)


def require_visitor(request: Request) -> User:
    user = find_visitor(request)
    if user is None:
        raise NotSignedIn
    return user


def _require(role: Role) -> Any:
    """Return a dependency on a visitor of this role."""

    async def require(user: Annotated[User, Depends(require_visitor)]) -> User:
        if user.role != role:
            raise Refused(403, "forbidden", f"This page is for {role}s.")
        return user

    return Depends(require)


def require_dataset(state: ServerState, name: str) -> ServedDataset:
    return require_found(state.datasets.get(name), "There is no such dataset.")


def require_some_dataset(state: ServerState, name: str) -> ServedDataset:
    """Return the dataset of this name; the first one if there is none. Raises Refused while none is served."""
    first = next(iter(state.datasets.values()), None)
    if first is None:
        raise Refused(409, "no_dataset", "As yet no dataset is served.")
    return state.datasets.get(name, first)


StateOf = Annotated[ServerState, _hold("server")]
PasswordQueueOf = Annotated[PasswordQueue, _hold("password_queue")]
NameTurnsOf = Annotated[NameTurns, _hold("name_turns")]
Checks = Annotated[RunCheck, Depends(get_checks)]
Trials = Annotated[RunTrial, Depends(get_trials)]
Visitor = Annotated[User, Depends(require_visitor)]
Analyst = Annotated[User, _require("analyst")]
Controller = Annotated[User, _require("controller")]
