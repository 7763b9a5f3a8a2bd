"""Connections that send half a request, nothing at all, or read no answer: the page goes on answering the others."""

from __future__ import annotations

import asyncio
import http.client
import logging
import resource
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn

from dosimeter.web.http import connections
from dosimeter.web.http.connections import Capacity, Connections, LimitedServer, OncePerMinute
from dosimeter.web.identity.addresses import group_address
from tests.waiting import LONGEST_WAIT, wait_until
from tests.web.test_web_commands import RUN, end
from tests.web.web_site import Site

HALF = b"GET / HTTP/1.1\r\nHost: x\r\n"
HALF_A_BODY = b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nhalf"


def connect(url: str) -> socket.socket:
    host = urlsplit(url)
    return socket.create_connection((str(host.hostname), int(host.port or 80)), timeout=LONGEST_WAIT)


def is_closed(connection: socket.socket) -> bool:
    """Wait until the other side closes, and tell whether it did."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


# ---------------------------------------------------------------- the attack, on a real server


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A demonstration that may have 256 file descriptors: its address and its log."""
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, "serve", "--demo", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
        )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        wait_for(url)
        yield url, log
    finally:
        end(process)


def wait_for(url: str) -> None:
    def answers() -> bool:
        try:
            return visit(url, "/health") == 200
        except OSError:
            return False

    wait_until(answers, "the server answers")


def visit(url: str, path: str) -> int:
    """Ask for a page on a connection of its own; gives the status."""
    connection = http.client.HTTPConnection(str(urlsplit(url).hostname), urlsplit(url).port, timeout=LONGEST_WAIT)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def attack(url: str, sockets: int, seconds: float, sent: bytes) -> int:
    """Hold so many half-sent requests, open up to a hundred closed ones again, and be an honest visitor meanwhile.

    Return how many honest requests were answered. One that is not raises.
    """
    held: list[socket.socket] = []
    answered = 0
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until or answered < 10:
            for _ in range(min(sockets - len(held), 100 if answered else sockets)):
                held.append(connect(url))
                held[-1].sendall(sent)
                held[-1].setblocking(False)
            assert visit(url, "/sign-in") == 200
            answered += 1
            held = [each for each in held if is_open(each)]
            time.sleep(0.05)
    finally:
        for each in held:
            each.close()
    return answered


def is_open(connection: socket.socket) -> bool:
    try:
        still = bool(connection.recv(4_096))
    except BlockingIOError:
        return True
    except OSError:
        still = False
    if not still:
        connection.close()
    return still


def test_half_sent_requests_leave_the_page_to_others(attacked: tuple[str, Path]) -> None:
    """More sockets than the server has descriptors."""
    url, log = attacked
    for sent in (HALF, HALF_A_BODY, b""):
        assert attack(url, 280, 1, sent) >= 10
    assert "descriptors" not in log.read_text()
    assert log.stat().st_size < 10_000


# ---------------------------------------------------------------- one connection


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SLOWEST_HEAD", 0.3)
    monkeypatch.setattr(connections, "SLOWEST_READER", 0.3)
    monkeypatch.setattr(connections, "SWEEP", 0.05)


@pytest.mark.usefixtures("hurried")
def test_a_head_that_does_not_come_closes_its_connection(site: Site) -> None:
    for sent in (b"", b"G", HALF):
        with connect(site.url) as connection:
            connection.sendall(sent)
            assert is_closed(connection)


def go_on_sending(connection: socket.socket, data: bytes) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < deadline:
        connection.sendall(data)
        time.sleep(0.05)


@pytest.mark.usefixtures("hurried")
def test_a_trickling_head_closes_its_connection(site: Site) -> None:
    """A byte now and then does not buy more time."""
    with connect(site.url) as connection:
        connection.sendall(HALF)
        with pytest.raises(OSError, match=r"pipe|reset"):
            go_on_sending(connection, b"X-Slow: 1\r\n")


def test_a_further_head_that_stops_closes_its_connection(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(site.url) as connection:
        connection.sendall(HALF.replace(b"GET /", b"GET /health") + b"\r\n")
        answer = connection.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 200")
        monkeypatch.setattr(connections, "SLOWEST_HEAD", 0.3)  # not before: the first head may come late
        connection.sendall(HALF)
        assert is_closed(connection)


@pytest.mark.usefixtures("hurried")
def test_an_answer_that_nobody_reads_closes_its_connection(site: Site) -> None:
    """Asked for so often that the answers fill the system's buffers before somebody reads."""
    request = HALF.replace(b"GET /", b"GET /static/vendor/htmx-2.0.11.min.js") + b"\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(LONGEST_WAIT)
        host = urlsplit(site.url)
        connection.connect((host.hostname, host.port))
        with pytest.raises(OSError, match=r"pipe|reset"):  # nothing is read, and more is asked for
            go_on_sending(connection, request)


def test_a_slow_answer_closes_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the application takes, whoever has sent a whole request is answered."""
    monkeypatch.setattr(connections, "SWEEP", 0.02)
    state = site.state
    reading = state.database.reading

    def slowly() -> Any:  # called when the whole request is there, which may take a while
        for name in ("SLOWEST_HEAD", "SLOWEST_REQUEST", "SLOWEST_READER", "IDLE"):
            monkeypatch.setattr(connections, name, 0.05)
        time.sleep(0.5)
        return reading()

    monkeypatch.setattr(state.database, "reading", slowly)
    assert httpx.get(f"{site.url}/health", timeout=LONGEST_WAIT).json() == {"status": "ok"}


SMUGGLED = (
    b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 46\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\nX: 1\r\n\r\n"
)


def test_two_lengths_of_one_request_are_refused(site: Site) -> None:
    """One reader would see one request, the other two: there is one answer, and the connection is closed."""
    for sent in (SMUGGLED, SMUGGLED.replace(b"Content-Length", b"content-length").replace(b"chunked", b"Chunked")):
        with connect(site.url) as connection:
            connection.sendall(sent)
            answer = b""
            while part := connection.recv(65_536):
                answer += part
        assert answer.startswith(b"HTTP/1.1 400")
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"connection: close" in answer.lower()
    with connect(site.url) as connection:  # either of them by itself is fine
        connection.sendall(SMUGGLED.replace(b"Content-Length: 46\r\n", b""))
        assert connection.recv(12) == b"HTTP/1.1 403"  # no token, that is all


def test_two_hundred_people_behind_one_address_come_at_once(site: Site) -> None:
    host, statuses = urlsplit(site.url), Counter[bytes]()
    head = HALF.replace(b"GET /", b"GET /sign-in") + b"Connection: close\r\n\r\n"

    async def visit_once() -> None:
        reader, writer = await asyncio.open_connection(host.hostname, host.port)
        writer.write(head)
        statuses[(await reader.read())[:12]] += 1
        writer.close()

    async def visit_all() -> None:
        await asyncio.gather(*(visit_once() for _ in range(200)))

    with ThreadPoolExecutor(1) as thread:  # a browser of the same tests may have a loop in this one
        thread.submit(lambda: asyncio.run(visit_all())).result()
    assert statuses == {b"HTTP/1.1 200": 200}


# ---------------------------------------------------------------- who goes first


class Fake:
    """A connection that is doing what it is told."""

    def __init__(self, address: str, state: str = "unfinished") -> None:
        self.address, self.state, self.dropped = address, state, False
        self.loop = SimpleNamespace(call_later=lambda *_: None)

    def find_state(self) -> str:
        return self.state

    def drop(self) -> None:
        self.dropped = True


def test_the_oldest_of_the_address_with_the_most_goes_first() -> None:
    opened = Connections(Capacity(open=20, unfinished=4, batch=2))
    honest = Fake("10.0.0.1")
    greedy = [Fake("10.0.0.2") for _ in range(10)]
    opened.add(honest)  # type: ignore[arg-type]
    for each in greedy:
        opened.add(each)  # type: ignore[arg-type]
    assert not honest.dropped
    assert [each.dropped for each in greedy] == [True] * 7 + [False] * 3


def test_a_full_server_lets_go_of_the_idle_before_the_new() -> None:
    opened = Connections(Capacity(open=4, unfinished=3, batch=1))
    first = [Fake(f"10.0.0.{n}") for n in range(4)]
    for each, state in zip(first, ("answering", "idle", "unread", "answering"), strict=True):
        opened.add(each)  # type: ignore[arg-type]
        each.state = state
        opened.update(each)  # type: ignore[arg-type]
    later = []
    for n in range(4):
        later.append(Fake(f"10.1.0.{n}", "unfinished"))
        opened.add(later[-1])  # type: ignore[arg-type]
        later[-1].state = "answering"
        opened.update(later[-1])  # type: ignore[arg-type]
    assert [each.dropped for each in first] == [False, True, True, False]  # nobody who waits for an answer
    assert [each.dropped for each in later] == [False, False, False, True]  # one more than fits is told so
    assert len(opened) == 5


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
    ],
)
def test_an_ipv6_network_is_one_visitor(address: str, counted: str) -> None:
    assert group_address(address) == counted


def test_capacity_leaves_descriptors_for_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for descriptors in (64, 256, 1_024, 20_000, resource.RLIM_INFINITY):
        monkeypatch.setattr(resource, "getrlimit", lambda _which, given=descriptors: (given, given))
        capacity = Capacity.of_system()
        assert 1 <= capacity.batch <= capacity.unfinished < capacity.open <= connections.MOST_OPEN
        if descriptors != resource.RLIM_INFINITY:  # accepted, being counted, and being closed at the same time
            assert capacity.open + 3 * capacity.batch <= descriptors * 0.7


# ---------------------------------------------------------------- the log stays small


def test_missing_descriptors_are_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = LimitedServer(uvicorn.Config(lambda: None))
    passed: list[dict[str, Any]] = []
    loop = SimpleNamespace(default_exception_handler=passed.append)
    clock = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    for _ in range(3):
        for _ in range(1_000):
            server._report(loop, {"message": "socket.accept() out of system resource"})  # type: ignore[arg-type]
        clock += 61.0
    assert caplog.text.count("out of file descriptors") == 3
    assert not passed
    server._report(loop, {"message": "something else"})  # type: ignore[arg-type]
    assert passed == [{"message": "something else"}]


def test_the_same_warning_is_logged_once_a_minute_and_errors_always(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, clock = OncePerMinute(), 0.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)

    def count(level: int, words: str) -> int:
        return sum(quiet.filter(logging.LogRecord("x", level, "", 0, words, None, None)) for _ in range(50))

    assert count(logging.WARNING, "Invalid HTTP request received.") == 1
    assert count(logging.WARNING, "Exceeded concurrency limit.") == 1
    assert count(logging.ERROR, "Exception in ASGI application\n") == 50
    clock = 61.0
    assert count(logging.WARNING, "Invalid HTTP request received.") == 1
