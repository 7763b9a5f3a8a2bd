"""Middleware: security headers, limits on the size and time of a body, no uploads. Internal errors are never shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from dosimeter.web.http.connections import note_request
from dosimeter.web.log import report_bug

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


SLOWEST_BODY = 30.0  # seconds for the whole body
Refusal = tuple[int, str, str]


class ClientGone(Exception):
    """The error that a connection was closed before its request was complete: nobody waits for an answer."""


class SecurityMiddleware:
    """Middleware around the application: security headers and limits on requests.

    Pure ASGI, so that streaming and background work keep working. ``largest_body``: in bytes. ``secure``: browsers are
    told to come by HTTPS only. ``stop``: ends what requests may be waiting for; a server calls it before it stops.
    """

    def __init__(
        self, application: Application, *, largest_body: int, secure: bool, stop: Callable[[], None] = lambda: None
    ) -> None:
        self._application = application
        self.stop = stop
        self._largest = largest_body
        headers = {
            "content-security-policy": POLICY,
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "permissions-policy": "camera=(), geolocation=(), microphone=()",
        }
        if secure:
            headers["strict-transport-security"] = "max-age=31536000"
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        private = not scope["path"].startswith("/static/")
        started, bare = False, scope["method"] == "HEAD"
        if bare:  # a page's head is that of the page itself
            scope = {**scope, "method": "GET"}

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                given = [(n, v) for n, v in message.get("headers", []) if n.lower() != b"server"]
                extra = [(b"cache-control", b"no-store")] if private else []
                named = {name.lower() for name, _ in given}
                own = [(name, value) for name, value in self._headers if name not in named]  # a page may be stricter
                message = {**message, "headers": [*given, *own, *extra]}
            if message["type"] == "http.response.body":
                if bare:
                    message = {**message, "body": b""}
                if not message.get("more_body", False):
                    note_request("idle")
            await send(message)

        note_request("body")
        refusal = self._check_head(dict(scope["headers"]))
        if refusal is not None:
            await self._refuse(scope, send_with_headers, refusal)
            return
        try:
            async with asyncio.timeout(SLOWEST_BODY):
                body = await self._read_body(receive)
        except TimeoutError:
            slow = (408, "too_slow", f"The request took longer than {SLOWEST_BODY:g} seconds to arrive.")
            await self._refuse(scope, send_with_headers, slow)
            return
        except ClientGone:
            return
        if body is None:
            await self._refuse(scope, send_with_headers, self._too_large())
            return
        note_request("answering")
        try:
            await self._application(scope, body, send_with_headers)
        except Exception as error:  # noqa: BLE001 - the outermost frame; the error's text could quote the data
            report_bug(f"{scope['method']} {_shorten(scope['path'])}", error)
            if not started:
                await send_with_headers({"type": "http.response.start", "status": 500, "headers": []})
                await send_with_headers({"type": "http.response.body", "body": b""})

    def _check_head(self, headers: dict[bytes, bytes]) -> Refusal | None:
        if b"content-length" in headers and b"transfer-encoding" in headers:  # where it ends depends on who reads it
            return 400, "malformed", "The request gives its length in two ways."
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self._largest:
            return self._too_large()
        if headers.get(b"content-type", b"").strip().lower().startswith(b"multipart/"):  # none of our forms sends files
            return 415, "not_a_form", "Send forms as application/x-www-form-urlencoded."
        return None

    def _too_large(self) -> Refusal:
        return 413, "too_large", f"The request is larger than {self._largest:,} bytes."

    async def _read_body(self, receive: Receive) -> Receive | None:
        """Read the whole body and return a receiver that replays it; None if the body is too large.

        The application therefore never waits for the rest of a body. Raises ClientGone if the connection is closed
        meanwhile.
        """
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientGone
            size += len(message.get("body", b""))
            if size > self._largest:
                return None
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                first: Message = {"type": "http.request", "body": b"".join(parts), "more_body": False}
                break
        given = False

        async def replay() -> Message:
            nonlocal given
            if not given:
                given = True
                return first
            return await receive()

        return replay

    async def _refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        status, code, message = refusal
        if scope["path"].startswith("/api/"):
            body = json.dumps({"error": {"code": code, "message": message, "clause": None}}).encode()
            kind = b"application/json"
        else:
            body, kind = message.encode(), b"text/plain; charset=utf-8"
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _shorten(path: str) -> str:
    """Return a path for the log: without line breaks, and cut to 100 characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in path[:100])
