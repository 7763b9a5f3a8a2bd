"""Protection against forged requests (CSRF): every request that changes something carries a token of its session."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from fastapi import Request

from dosimeter.web.http.exceptions import NotSignedIn, Refused
from dosimeter.web.http.visitors import find_visitor, get_state
from dosimeter.web.state import ServerState
from dosimeter.web.store import User, digest_key

ENTRY_COOKIE = "dosimeter_entry"
MOST_FIELDS = 20_000  # of a form: some for each column of a wide table; the size of a request is limited before
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def is_own(request: Request) -> bool:
    """Return whether the visitor came to this URL by our own page or by typing it, and not by a link on another site.

    On a secure connection, browsers tell it in the header Sec-Fetch-Site. Without that header, only two requests count
    as our own: one with our own page as its referrer, and one by htmx.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    if request.headers.get("hx-request") == "true":  # another site cannot add this header
        return True
    return urlsplit(request.headers.get("referer", "")).netloc == request.headers.get("host", "") != ""


def make_csrf(state: ServerState, user: User) -> str:
    """Return the token that forms of this user's session carry, and that no other site's page can know."""
    return state.sign("form", user.session)


def entry_csrf(state: ServerState, key: str) -> str:
    return state.sign("entry", digest_key(key))


async def check_csrf(request: Request) -> None:
    """Refuse a request that changes something and does not carry its session's token, in the form or in a header.

    The sign-in form carries a token that belongs to a cookie instead. Raises NotSignedIn if the session has ended.
    """
    if request.method in SAFE:
        return
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Refused(403, "forged", "This request came from another site.")
    given = request.headers.get("x-csrf-token")
    if given is None:
        field = (await request.form(max_fields=MOST_FIELDS)).get("csrf")
        given = field if isinstance(field, str) else ""
    state = get_state(request)
    if request.url.path == "/sign-in":
        expected = entry_csrf(state, request.cookies.get(ENTRY_COOKIE, "")) if ENTRY_COOKIE in request.cookies else ""
    else:
        from starlette.concurrency import run_in_threadpool

        user = await run_in_threadpool(find_visitor, request)
        if user is None:
            raise NotSignedIn
        expected = make_csrf(state, user)
    if not expected or not hmac.compare_digest(given.encode(errors="replace"), expected.encode()):
        raise Refused(403, "forged", "The page was too old. Go back, load it again, and repeat what you did.")
