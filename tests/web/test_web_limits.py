"""Nobody takes the server away from the others: passwords, open queries and slow requests have their limits."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit

import httpx
import pytest
import sqlalchemy as sa

from dosimeter.errors import InputError
from dosimeter.problems import Surface
from dosimeter.web import run
from dosimeter.web.http import middleware
from dosimeter.web.identity import throttle, users
from dosimeter.web.identity.password_queue import MOST_HASHED, PasswordQueue, TooManyAttempts
from dosimeter.web.identity.throttle import Limits, Throttled
from dosimeter.web.identity.users import MOST_TOKENS
from dosimeter.web.public import check_text, find_odd_letter
from dosimeter.web.settings import load_settings
from dosimeter.web.store.database import Database
from dosimeter.web.store.tables import ATTEMPTS, QUERIES
from tests.waiting import LONGEST_WAIT, wait_until
from tests.web.web_site import (
    COUNT,
    PASSWORD,
    Guest,
    Site,
    StartSite,
    write_configuration,
)

# ---------------------------------------------------------------- passwords


def test_many_wrong_passwords_at_once_are_not_more(opened: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty at the same time: five are looked at, and the rest are turned away."""
    matches = Mock(side_effect=users._matches)
    monkeypatch.setattr(users, "_matches", matches)

    def attempt(_: int) -> str:
        try:
            key = users.sign_in(opened, "anna", "wrong password", Limits("10.0.0.1", 5, 15), hours=1)
        except Throttled:
            return "throttled"
        return "in" if key else "wrong"

    with ThreadPoolExecutor(40) as threads:
        assert sorted(threads.map(attempt, range(40))) == ["throttled"] * 35 + ["wrong"] * 5
    assert matches.call_count == 5


def test_one_address_keeps_nobody_else_from_signing_in(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty at once with wrong passwords, over and over, for names that are not throttled yet."""
    matches, hashing, most, guard = users._matches, 0, 0, threading.Lock()

    def slowly(stored: str, password: str) -> bool:
        nonlocal hashing, most
        with guard:
            hashing += 1
            most = max(most, hashing)
        time.sleep(0.1)
        with guard:
            hashing -= 1
        return matches(stored, password)

    monkeypatch.setattr(users, "_matches", slowly)
    monkeypatch.setattr(throttle, "PER_ADDRESS", 1_000)  # the attack goes on for as long as the honest need
    stop, refused = threading.Event(), Counter[int]()

    def guess(number: int) -> None:
        with site.guest() as guest:
            while not stop.is_set():
                refused[guest.sign_in(f"name{number}-{sum(refused.values())}", "wrong password").status_code] += 1

    with ThreadPoolExecutor(30) as threads:
        attack = threads.map(guess, range(30))
        try:
            wait_until(lambda: refused[503] >= 30, "thirty were sent away")  # the attack was one
            for _ in range(5):
                elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
                with site.guest(transport=elsewhere) as honest:
                    assert honest.sign_in("anna").status_code == 200
                    assert honest.csrf
        finally:
            stop.set()
        list(attack)
    assert most <= MOST_HASHED


def test_who_is_throttled_takes_nobodys_turn(site: Site, guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written for it either, after the first time."""
    for _ in range(site.settings.failures_allowed + 1):
        guest.sign_in("anna", "wrong password")
    writes: list[str] = []
    monkeypatch.setattr(throttle, "count_attempt", lambda *_: writes.append("counted"))
    monkeypatch.setattr(PasswordQueue, "run", lambda *_, **__: writes.append("entered"))
    assert guest.sign_in("anna").status_code == 429
    assert not writes


def run_story(story: Callable[[], Any]) -> Any:
    """In a thread of its own: a browser of the same tests may have a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(story())).result()


async def queue_up(visitors: list[tuple[str, str, bool]], **limits: int) -> tuple[list[str], set[str]]:
    """Let attempts come in this order while one hashes: (name, visitor, whether the device is known).

    Returns the names of those that were let in, in their order, and of those that were refused.
    """
    gate, free, admitted, crowded = PasswordQueue(running=1, **limits), threading.Event(), list[str](), set[str]()

    def hash_it(name: str) -> None:
        free.wait(LONGEST_WAIT)
        admitted.append(name)

    async def attempt(name: str, visitor: str, known: bool) -> None:
        try:
            await gate.run(visitor, partial(hash_it, name), known=known)
        except TooManyAttempts:
            crowded.add(name)

    async with asyncio.TaskGroup() as tasks:
        for each in visitors:
            tasks.create_task(attempt(*each))
            await asyncio.sleep(0)
        free.set()
    gate.close()
    return admitted, crowded


@pytest.mark.parametrize(
    ("names", "limits", "admitted", "crowded"),
    [
        # Whoever has two waiting is asked once, then the others, then again; a known device goes first.
        ("a1 a2 a3 b1 b2 c1 a4 owner!", {"each": 2, "waiting": 10}, "a1 owner! a2 b1 c1 b2", "a3 a4"),
        # A full gate sends the second attempt of somebody away; where nobody has two, only a known device is let in.
        ("x1 a1 a2 b1 c1 d1 owner!", {"each": 2, "waiting": 3}, "x1 owner! a1 b1", "a2 c1 d1"),
        # Each known device takes the place of another who waits. When only known devices wait, the next is refused.
        ("x1 a1 b1 k! l! m!", {"each": 2, "waiting": 2}, "x1 k! l!", "a1 b1 m!"),
    ],
)
def test_every_visitor_gets_their_turn_at_the_gate(
    names: str, limits: dict[str, int], admitted: str, crowded: str
) -> None:
    """One hashes at a time. The letter is the visitor; those with ! have a known device."""
    visitors = [(name, name[0], name.endswith("!")) for name in names.split()]
    assert run_story(lambda: queue_up(visitors, **limits)) == (admitted.split(), set(crowded.split()))


def test_right_password_is_taken_back(site: Site, guest: Guest) -> None:
    """However often somebody signs in rightly, nothing is counted; and a wrong one stays counted for the address."""
    for _ in range(site.settings.failures_allowed + 3):
        assert guest.sign_in("anna").status_code == 200
        guest.act("/sign-out")
        guest.cookies.clear()  # a device that is known counts by itself
    assert guest.sign_in("anna", "wrong password").status_code == 401
    assert guest.sign_in("anna").status_code == 200
    with site.state.database.reading() as connection:
        rows = {row.key: row.failures for row in connection.execute(sa.select(ATTEMPTS))}
    assert rows == {"|127.0.0.1": 1, "anna|": 1}


def test_guessing_a_password_on_ones_own_page_is_slowed_down_too(site: Site, guest: Guest, anna: Guest) -> None:
    for _ in range(site.settings.failures_allowed):
        assert anna.act("/me/password", current="wrong", fresh="another password").status_code == 422
    late = anna.act("/me/password", current=PASSWORD, fresh="another password")
    assert late.status_code == 429
    assert f"Wait {site.settings.blocked_minutes} minutes" in late.text
    assert guest.sign_in("anna").status_code == 200  # who guesses in a session keeps nobody from signing in


# ---------------------------------------------------------------- open queries


def test_an_analyst_has_so_many_open_queries(start_site: StartSite) -> None:
    site = start_site(open_queries=6)
    with site.api("anna") as api, site.api("bob") as bob, site.guest("anna") as anna:
        body = {"dataset": "clinic", "sql": COUNT, "purpose": "x"}
        made = [api.post("/queries", json=body).json()["id"] for _ in range(6)]
        refused = api.post("/queries", json=body)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 60  # not in two seconds: somebody has to decide first
        assert "6 open queries" in refused.json()["error"]["message"]
        assert "6 open queries" in anna.act("/ask", **body).text
        assert bob.post("/queries", json=body).status_code == 201
        anna.act(f"/queries/{made[0]}/withdraw")
        assert api.post("/queries", json=body).status_code == 201


def test_an_analyst_submits_so_many_queries_a_minute(start_site: StartSite) -> None:
    """Withdrawing does not help: every submission is on record, and would push others off the lists."""
    site = start_site(queries_per_minute=4)
    body = {"dataset": "clinic", "sql": COUNT, "purpose": "x"}
    with site.api("anna") as api, site.api("bob") as bob, site.guest("anna") as anna:
        for _ in range(4):
            query_id = api.post("/queries", json=body).json()["id"]
            assert api.post(f"/queries/{query_id}/withdraw").json()["status"] == "withdrawn"
        refused = api.post("/queries", json=body)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
        assert "4 queries within a minute" in refused.json()["error"]["message"]
        assert anna.act("/ask", **body).status_code == 429
        assert bob.post("/queries", json=body).status_code == 201
        old = QUERIES.update().values(created_at="2020-01-01T00:00:00.000000Z")
        with site.state.database.writing() as connection:
            connection.execute(old)
        assert api.post("/queries", json=body).status_code == 201


def test_an_analyst_has_so_many_tokens(anna: Guest) -> None:
    statuses = [anna.act("/me/tokens", name=f"t{number}").status_code for number in range(MOST_TOKENS + 1)]
    assert statuses == [200] * (MOST_TOKENS - 1) + [429, 429]  # one was made for the tests


# ---------------------------------------------------------------- texts that read as something else


@pytest.mark.parametrize("letter", ["\u202e", "\u202a", "\u2066", "\u2069", "\u200b", "\u00ad", "\ufeff", "\u0600"])
def test_invisible_letters_are_refused(api: httpx.Client, anna: Guest, carol: Guest, letter: str) -> None:
    query_id = anna.ask()
    for field in ("sql", "purpose"):
        body = {"dataset": "clinic", "sql": COUNT, "purpose": "why"}
        body[field] = body[field][:3] + letter + body[field][3:]
        response = api.post("/queries", json=body)
        assert response.status_code == 422
        assert f"U+{ord(letter):04X} at position 4" in response.json()["error"]["message"]
        assert anna.act("/ask", **body).status_code == 422
    assert f"U+{ord(letter):04X}" in anna.act("/ask/check", dataset="clinic", sql=f"SELECT {letter}").text
    assert anna.act("/me/tokens", name=f"a{letter}b").status_code == 422
    assert carol.act(f"/decide/{query_id}/deny", reason=f"a{letter}b").status_code == 422


def test_letters_of_real_languages_stay() -> None:
    for text in ("naïve café", "\u0645\u06cc\u200c\u062e\u0648", "क्\u200dष", "日本語", "👩\u200d⚕️", "a\tb\nc"):
        assert check_text(text) == text
        assert not find_odd_letter(text)
    assert check_text("a\r\nb\rc") == "a\nb\nc"


# ---------------------------------------------------------------- requests


def test_forms_are_not_uploads(anna: Guest) -> None:
    body = (
        b'--x\r\nContent-Disposition: form-data; name="csrf"\r\n'
        b"Content-Type: text/plain; charset=unicode_escape\r\n\r\n\\ud800\r\n--x--\r\n"
    )
    kind = {"Content-Type": "multipart/form-data; boundary=x; charset=unicode_escape"}
    for path in ("/ask", "/sign-in", "/me/password", "/api/v1/queries"):
        assert anna.post(path, content=body, headers=kind).status_code == 415


def test_slow_bodies_are_not_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "SLOWEST_BODY", 0.2)
    host = urlsplit(site.url)
    with socket.create_connection((host.hostname, host.port)) as connection:
        connection.settimeout(LONGEST_WAIT)
        connection.sendall(b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nhalf")
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 408")


def test_no_address_is_made_from_the_host_header(site: Site, anna: Guest) -> None:
    with httpx.Client(base_url=site.url, cookies=anna.cookies, headers={"Host": "evil.example"}) as client:
        for path in ("/queries/", "/ask/", "/sign-in/", "/api/v1/datasets/", "/api/v1", "/static"):
            response = client.get(path)
            assert response.status_code == 404
            assert "evil.example" not in response.headers.get("location", "")


def test_nobodys_word_on_an_address_is_taken_unless_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure = Mock(side_effect=RuntimeError("far enough"))
    monkeypatch.setattr("uvicorn.Config", configure)
    monkeypatch.setattr(run, "make_app", Mock())
    for text in ("", 'trusted_proxies = "10.1.2.3"'):
        with pytest.raises(RuntimeError, match="far enough"):
            run.serve(load_settings(write_configuration(tmp_path, f"port = 0\n{text}")), lambda _address: None)
    plain, trusting = (call.kwargs for call in configure.call_args_list)
    assert (plain["proxy_headers"], trusting["proxy_headers"]) == (False, True)
    assert trusting["forwarded_allow_ips"] == "10.1.2.3"


# ---------------------------------------------------------------- the operator's mistakes


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        ('candidates = "abc"', "'abc' is not a positive number"),
        ("variance = -1.0", "variance must be a positive number"),
        ("svt = 500.0", "svt"),
        ("violation = 1.0", "violation must be a number strictly between 0 and 1"),
        ("min_rows = 0", "min_rows"),
        ("max_epsilon = -1.0", "max_epsilon must be"),
        ("delta_total = 2.0", "delta_total must not be larger than 1"),
    ],
)
def test_operators_mistakes_are_found_at_the_start(tmp_path: Path, dataset: str, words: str) -> None:
    file = write_configuration(tmp_path, dataset=dataset)
    file.write_text(file.read_text().replace('"find"', '"find-and-release"'))
    with pytest.raises(InputError, match=words) as refused:
        Site.start(load_settings(file))
    told = refused.value.word(Surface.SETTINGS)
    assert told.startswith("[datasets.clinic]: ")
    assert "--" not in told
