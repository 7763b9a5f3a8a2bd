"""Limits of connections: how long a request may take to arrive, how many connections are open, which is closed first.

A connection is closed if the head of its request is not complete after ``SLOWEST_HEAD`` seconds, or if nobody reads
the answer for ``SLOWEST_READER`` seconds. There is a limit to open connections, so that file descriptors do not run
out, and a lower one to connections that are in the middle of sending a request. Beyond a limit, a connection of
the address that has the most is closed, so that a new visitor is let in: the one that has been in its state (``State``)
the longest.

Stands between the event loop and uvicorn: the loop (``LimitedLoop``) puts a ``Connection`` before each protocol of the
server, and the application tells it how far its request is (``note_request``). Knows nothing of uvicorn's inside.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import uvicorn

from dosimeter.web.identity import group_address
from dosimeter.web.log import LOG

SLOWEST_HEAD = 10.0  # seconds from the connection, or from the first byte of a further request
SLOWEST_REQUEST = 45.0  # seconds for head and body; the body alone may take 30, and then gets an error
SLOWEST_READER = 30.0
IDLE = 15  # seconds between two requests
MOST_OPEN = 512
FEW_MORE = 3  # connections that one visitor may have more than another and still be no worse
QUEUE = 1024  # connections that the system keeps until they are accepted
SWEEP = 0.5
QUIET = 60.0  # seconds in which the same complaint is logged once only

State = Literal["unfinished", "idle", "unread", "answering"]
"""What a connection is doing: sending a request, nothing, leaving an answer unread, waiting for its answer."""

Doing = Literal["head", "body", "answering", "idle"]
"""What a connection's latest request is doing: its head or body arrives, it waits for its answer, it is answered."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many connections may be open, how many of these may still be sending their request, and the size of a batch.

    ``batch``: how many new connections are accepted at a time.
    """

    open: int
    unfinished: int
    batch: int

    @classmethod
    def of_system(cls) -> Capacity:
        """Return a capacity that takes at most half of the process's file descriptors, or 8 if that is more.

        A batch is small, because asyncio accepts a whole one before any of its connections can be counted here. Most
        connections may be sending: hundreds of people behind one address can come at once, and each counts as sending
        until its request is read.
        """
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MOST_OPEN if descriptors == resource.RLIM_INFINITY else max(8, min(MOST_OPEN, descriptors // 2))
        return cls(most, max(4, most * 3 // 4), max(1, most // 8))


class Connections:
    """The open connections of one server, by what they are doing and since when. For the event loop's thread alone."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._known: dict[Connection, tuple[State, float]] = {}  # ordered by these times
        self._sweeping = False

    def __len__(self) -> int:
        return len(self._known)

    def add(self, connection: Connection) -> None:
        """Note a new connection, and close one if too many are open or too many are still sending their request.

        If too many are sending, one of these is closed. If too many are open, another one that is sending is closed; if
        there is none, an idle one; else one that leaves its answer unread. If all others wait for their answers, the
        new one is let in, up to ``batch`` above the limit; beyond that it is closed. Nobody is closed for somebody who
        has clearly more connections.
        """
        self._mark(connection, "unfinished")
        if not self._sweeping:
            self._sweeping = True
            connection.loop.call_later(SWEEP, self._close_slow, connection.loop)
        many = Counter(other.address for other in self._known)
        unfinished = self._list("unfinished")
        if len(unfinished) > self._capacity.unfinished:
            self._drop(_find_oldest(unfinished, many))
        elif len(self._known) > self._capacity.open:
            others = [other for other in unfinished if other is not connection]
            spare = others or self._list("idle") or self._list("unread")
            oldest = _find_oldest(spare, many) if spare else None
            if oldest is not None and many[oldest.address] >= many[connection.address] - FEW_MORE:
                self._drop(oldest)
            elif oldest is not None or len(self._known) > self._capacity.open + self._capacity.batch:
                self._drop(connection)  # until it is closed, the server answers it that it is busy

    def update(self, connection: Connection) -> None:
        """Note what a connection is doing now and, if that changed, since when."""
        known = self._known.get(connection)
        state = connection.find_state()
        if known is not None and known[0] != state:
            self._mark(connection, state)

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._known.pop(connection, None)

    def _mark(self, connection: Connection, state: State) -> None:
        self._known.pop(connection, None)
        self._known[connection] = (state, time.monotonic())

    def _list(self, state: State) -> list[Connection]:
        return [connection for connection, (doing, _) in self._known.items() if doing == state]

    def _drop(self, connection: Connection) -> None:
        self.remove(connection)
        connection.drop()

    def _close_slow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that take too long for what they are doing. One pass over all, not a timer for each."""
        now = time.monotonic()
        for connection in list(self._known):
            self.update(connection)
            state, since = self._known[connection]
            if now - since > connection.find_patience(state):
                self._drop(connection)
        self._sweeping = bool(self._known)
        if self._sweeping:
            loop.call_later(SWEEP, self._close_slow, loop)


def _find_oldest(connections: Sequence[Connection], many: Counter[str]) -> Connection:
    """Return, of the address with the most connections, the one that has been in its state the longest.

    ``connections``: those in one state, the longest first. ``many``: how many connections each address has in all.
    """
    return max(connections, key=lambda connection: many[connection.address])  # of equals the first


class Connection(asyncio.Protocol):
    """One connection in front of the server's own protocol, to which it passes everything on.

    ``doing``: what its request is doing, as far as bytes and the application tell; see ``note_request``.
    """

    def __init__(self, server: asyncio.Protocol, opened: Connections, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._opened = opened
        self._paused = False
        self.loop = loop
        self.doing: Doing = "head"
        self.address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.address = group_address(peer[0]) if peer else ""
        self._server.connection_made(transport)
        self._opened.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._opened.remove(self)
        self._server.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        CURRENT.set(self)  # the task that answers a request inherits it
        if self.doing == "idle":
            self.doing = "head"
        self._server.data_received(data)
        self._opened.update(self)

    def eof_received(self) -> bool | None:
        return self._server.eof_received()

    def pause_writing(self) -> None:
        self._paused = True
        self._server.pause_writing()
        self._opened.update(self)

    def resume_writing(self) -> None:
        self._paused = False
        self._server.resume_writing()
        self._opened.update(self)

    def note(self, doing: Doing) -> None:
        """Note what the request is doing now."""
        self.doing = doing
        self._opened.update(self)

    def find_state(self) -> State:
        """Return what this connection is doing, by the names of ``State``."""
        if self._transport.is_closing() or self._paused:
            return "unread"
        if self.doing != "answering" and self._transport.get_write_buffer_size():
            return "unread"
        return "unfinished" if self.doing == "head" or self.doing == "body" else self.doing

    def find_patience(self, state: State) -> float:
        """Return for how many seconds the connection may stay in this state."""
        match state:
            case "unfinished":
                return SLOWEST_REQUEST if self.doing == "body" else SLOWEST_HEAD
            case "unread":
                return SLOWEST_READER
            case "idle":
                return 2 * IDLE  # uvicorn closes it earlier, and cleanly
            case _:
                return float("inf")  # the application may take as long as it needs

    def drop(self) -> None:
        """Close the connection at once, even if something is unsent or unread."""
        self._transport.abort()


CURRENT: ContextVar[Connection | None] = ContextVar("CURRENT", default=None)


def note_request(doing: Doing) -> None:
    """Note what the request that is being answered is doing now. Called by the application, in the request's task."""
    if (connection := CURRENT.get()) is not None:
        connection.note(doing)


class LimitedLoop(asyncio.SelectorEventLoop):
    """An event loop whose servers have limits on their connections."""

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], *, sock: socket.socket | None = None, **options: Any
    ) -> asyncio.Server:
        opened = Connections(Capacity.of_system())
        server = await super().create_server(
            lambda: Connection(protocol_factory(), opened, self), sock=sock, **options
        )  # fmt: skip
        if sock is not None:
            sock.listen(QUEUE)  # asyncio accepts in small batches, and made the queue only as long as one batch
        return server


class OncePerMinute(logging.Filter):
    """A log filter that lets the same warning pass once a minute: unreadable requests cannot fill the disk.

    Errors always pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR or self.is_due(str(record.msg))

    def is_due(self, words: str) -> bool:
        """Return whether a warning with this text is to be logged now. If so, it is not due again for a minute."""
        now = time.monotonic()
        if now - self._last.get(words, -QUIET) < QUIET:
            return False
        self._last[words] = now
        return True


class LimitedServer(uvicorn.Server):
    """A uvicorn server whose connections are limited, and whose log stays small.

    ``stop``: called before the server waits for open requests; ends what these wait for.
    """

    def __init__(self, config: uvicorn.Config, stop: Callable[[], None] = lambda: None) -> None:
        super().__init__(config)
        self._quiet = OncePerMinute()
        self._stop = stop

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        with asyncio.Runner(loop_factory=LimitedLoop) as runner:
            runner.run(self.serve(sockets))

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._report)
        log = logging.getLogger("uvicorn.error")
        log.addFilter(self._quiet)
        try:
            await super().serve(sockets)
        finally:
            log.removeFilter(self._quiet)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stop()
        await super().shutdown(sockets)

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log what the event loop reports.

        It reports thousands of times that file descriptors are missing: that is logged once a minute.
        """
        if not str(context.get("message", "")).startswith("socket.accept() out of system resource"):
            loop.default_exception_handler(context)
        elif self._quiet.is_due("descriptors"):
            LOG.error(
                "The server is out of file descriptors and accepts nobody until some are free. Allow it more: "
                "LimitNOFILE= in a systemd unit, or ulimit -n."
            )


def make_server(app: Any, *, stop: Callable[[], None] = lambda: None, **options: Any) -> LimitedServer:
    """Return a server for an application, with every limit on connections.

    ``stop``: called before the server waits for open requests; ends what these wait for. ``options`` are passed to
    uvicorn.
    """
    capacity = Capacity.of_system()
    config = uvicorn.Config(
        app, http="h11", ws="none", backlog=capacity.batch, limit_concurrency=capacity.open + 1,
        timeout_keep_alive=IDLE, h11_max_incomplete_event_size=32_768, access_log=False, server_header=False, **options,
    )  # fmt: skip
    return LimitedServer(config, stop)
