"""Checks run in processes of their own: what grows is ended, with its request or by a limit, and holds up nobody."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from dosimeter.errors import DosimeterError, LimitError
from dosimeter.web import state
from dosimeter.web.check_processes import CheckLimits, CheckProcesses, PendingCheck
from dosimeter.web.checks import CheckQueue, check_query
from dosimeter.web.identity.users import add_user, make_token
from dosimeter.web.public import NewQuery
from dosimeter.web.store import submit_query
from tests.quick_servers import SharedProcesses
from tests.waiting import LONGEST_WAIT, wait_until
from tests.web.browsing import OpenPage, expect
from tests.web.check_program import PROGRAM, Slow, is_running
from tests.web.test_web_limits import run_story
from tests.web.web_site import COUNT, PASSWORD, Guest, Site, StartSite, find_user, read_text

pytestmark = pytest.mark.xdist_group("checks")  # whose processes are shared
OTHER = "SELECT COUNT(*) FROM clinic WHERE smoker"
TOO_LARGE = "takes too long to check, or too much memory"
NOBODY, EMPTY = pickle.dumps(None), b'["", null]'  # no planner, and a query that needs none
PATIENT = CheckLimits(processor=LONGEST_WAIT, seconds=LONGEST_WAIT)
HURRIED = CheckLimits(processor=1.0, seconds=LONGEST_WAIT, memory=2.0**28)


@pytest.fixture(scope="module")
def shared() -> Iterator[dict[CheckLimits, SharedProcesses]]:
    """The processes of all servers here, by their limits: to begin one takes longer than most checks."""
    made = {limits: SharedProcesses(program=PROGRAM, limits=limits) for limits in (PATIENT, HURRIED)}
    yield made
    for each in made.values():
        each.close_for_good()


@pytest.fixture
def start_checking(
    start_site: StartSite, shared: dict[CheckLimits, SharedProcesses], monkeypatch: pytest.MonkeyPatch
) -> Callable[[CheckLimits], Site]:
    """Starts a server whose checks do what their texts say."""

    def start(limits: CheckLimits) -> Site:
        monkeypatch.setattr(state, "CheckProcesses", lambda: shared[limits])
        return start_site()

    return start


def add_analyst(site: Site, name: str) -> None:
    database = site.state.database
    add_user(database, name, "analyst", PASSWORD)
    site.tokens[name] = make_token(database, find_user(database, name), "test")


def check_by_token(site: Site, name: str, sql: str) -> dict[str, Any]:
    with site.api(name) as api:
        verdict: dict[str, Any] = api.post("/check", json={"dataset": "clinic", "sql": sql}).json()
    return verdict


# ---------------------------------------------------------------- one at a time


def test_one_check_of_an_analyst_at_a_time(start_checking: Callable[[CheckLimits], Site], slow: Slow) -> None:
    site = start_checking(PATIENT)

    def check(_: int) -> int:
        with site.api("anna") as api:
            response = api.post("/check", json={"dataset": "clinic", "sql": slow.sql})
        if response.status_code == 429:
            assert response.json()["error"]["code"] == "too_many"
            assert int(response.headers["retry-after"]) >= 1
        return response.status_code

    with ThreadPoolExecutor(12) as threads:
        checks = [threads.submit(check, number) for number in range(12)]
        wait_until(lambda: sum(each.done() for each in checks) >= 11, "eleven have an answer")
        with site.api("bob") as bob:  # somebody else's check, and pages, go on meanwhile
            assert bob.post("/check", json={"dataset": "clinic", "sql": COUNT}).json()["answerable"]
        with site.guest("anna") as anna:
            assert anna.get("/queries").status_code == 200
        assert len(slow.begun) == 1
        slow.end()
    assert sorted(each.result() for each in checks) == [200] + [429] * 11  # one runs; the rest were sent away


def test_page_asks_again_while_an_older_check_runs(
    start_checking: Callable[[CheckLimits], Site], slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = start_checking(PATIENT)
    monkeypatch.setattr("dosimeter.web.routes.analyst.PATIENCE", 0.1)
    with site.guest("anna") as anna, site.guest("anna") as again:
        older = threading.Thread(target=lambda: anna.act("/ask/check", dataset="clinic", sql=slow.sql))
        older.start()
        wait_until(lambda: slow.begun, "the older check runs")
        fragment = again.act("/ask/check", dataset="clinic", sql=COUNT).text
        assert "Checking …" in fragment
        assert 'hx-trigger="load' in fragment
        asked = again.act("/ask", dataset="clinic", sql=COUNT, purpose="x")
        assert asked.status_code == 429
        assert COUNT in read_text(asked.text)
        slow.end()
        older.join()
        monkeypatch.setattr("dosimeter.web.routes.analyst.PATIENCE", LONGEST_WAIT)
        assert "This can be answered" in again.act("/ask/check", dataset="clinic", sql=COUNT).text


def test_newest_check_waits_and_older_ones_give_way() -> None:
    first: Future[bytes | None] = Future()
    answer = b'{"answerable": true, "message": "", "clause": null, "measures": [], "groups": null}'

    def begin(sql: str, _wanted: float | None) -> PendingCheck:
        pending = PendingCheck()
        pending.result = first if sql == "first" else Future()
        if sql != "first":
            pending.result.set_result(answer)
        return pending

    async def story() -> list[str]:
        queue, order = CheckQueue(), []

        async def check(sql: str) -> None:
            try:
                await queue.check("anna", begin, sql, patience=LONGEST_WAIT, gone=asyncio.Event().wait)
                order.append(f"{sql} done")
            except LimitError:
                order.append(f"{sql} gave way")

        tasks = []
        for sql in ("first", "second", "third"):
            tasks.append(asyncio.create_task(check(sql)))
            await asyncio.sleep(0)  # it goes as far as where it waits
        first.set_result(answer)
        await asyncio.gather(*tasks)
        return order

    assert sorted(run_story(story)) == ["first done", "second gave way", "third done"]


def test_a_check_leaves_nothing_behind_that_another_could_notice(site: Site, anna: Guest, carol: Guest) -> None:
    served = site.state.datasets["clinic"]
    anna.act("/ask/check", dataset="clinic", sql=OTHER)
    query_id = anna.ask(OTHER)
    assert OTHER not in served._prepared
    assert "Withdraw" in anna.get(f"/queries/{query_id}").text
    assert OTHER not in served._prepared
    carol.get(f"/decide/{query_id}")
    assert OTHER in served._prepared  # for controllers alone
    made: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(served), "prepare", lambda *_: made.append("recalled"))
        assert check_query(served, OTHER).answerable
    assert not made


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("sql", ["endless", "growing", "crashing"])
def test_what_takes_too_much_is_refused_wherever_it_is_asked(
    start_checking: Callable[[CheckLimits], Site], sql: str
) -> None:
    """And the next check finds another process."""
    site, asked = start_checking(HURRIED), {"dataset": "clinic", "sql": sql, "purpose": "x"}
    with site.api() as api, site.guest("anna") as anna:
        checked = api.post("/check", json={"dataset": "clinic", "sql": sql}).json()
        assert (checked["answerable"], TOO_LARGE in checked["message"]) == (False, True)
        assert api.post("/check", json={"dataset": "clinic", "sql": COUNT}).json()["answerable"]
        if sql == "crashing":  # at once
            refused = api.post("/queries", json=asked)
            assert (refused.status_code, refused.json()["error"]["code"]) == (422, "not_answerable")
            assert TOO_LARGE in read_text(anna.act("/ask", **asked).text)
            assert api.get("/queries").json()["queries"] == []


def test_a_bug_is_logged_without_its_text(
    start_checking: Callable[[CheckLimits], Site], caplog: pytest.LogCaptureFixture
) -> None:
    site = start_checking(PATIENT)
    with site.api() as api, caplog.at_level(logging.ERROR, logger="dosimeter.web"):
        assert api.post("/check", json={"dataset": "clinic", "sql": "broken"}).status_code == 503
        assert api.post("/check", json={"dataset": "clinic", "sql": COUNT}).json()["answerable"]
    assert "Checking a query failed: KeyError at" in caplog.text
    assert "nobody may read" not in caplog.text


def test_two_running_checks_keep_no_third_analyst_from_asking(
    start_checking: Callable[[CheckLimits], Site], slow: Slow
) -> None:
    site = start_checking(PATIENT)
    add_analyst(site, "cora")
    with ThreadPoolExecutor(2) as threads:
        checks = threads.map(lambda name: check_by_token(site, name, slow.sql), ("anna", "bob"))
        wait_until(lambda: len(slow.begun) == 2, "two checks run")
        assert check_by_token(site, "cora", COUNT)["answerable"]
        with site.api("cora") as api:
            assert api.post("/queries", json={"dataset": "clinic", "sql": COUNT, "purpose": "x"}).status_code == 201
        assert len(slow.begun) == 2
        slow.end()
        list(checks)


CHAIN = "WITH a0 AS (SELECT * FROM clinic), {}SELECT COUNT(*) FROM a249".format(
    "".join(f"a{at} AS (SELECT * FROM a{at - 1})," for at in range(1, 250)).rstrip(",") + " "
)
DOUBLING = "WITH a0 AS (SELECT COUNT(*) AS c FROM clinic), {} SELECT c FROM a9".format(
    ", ".join(f"a{at} AS (SELECT c + (SELECT c FROM a{at - 1}) AS c FROM a{at - 1})" for at in range(1, 10))
)


def test_queries_that_grow_are_answered_or_refused_and_hold_up_nobody(
    start_checking: Callable[[CheckLimits], Site],
) -> None:
    site = start_checking(HURRIED)
    add_analyst(site, "cora")
    with ThreadPoolExecutor(2) as threads:
        growing = threads.map(lambda pair: check_by_token(site, *pair), (("anna", CHAIN), ("bob", DOUBLING)))
        assert check_by_token(site, "cora", COUNT)["answerable"]
    assert all(verdict["answerable"] or verdict["message"] for verdict in growing)


# ---------------------------------------------------------------- the end of a check


def test_a_check_ends_with_its_request(start_checking: Callable[[CheckLimits], Site], slow: Slow) -> None:
    site = start_checking(PATIENT)
    body = f'{{"dataset": "clinic", "sql": "{slow.sql}"}}'.encode()
    head = f"Authorization: Bearer {site.tokens['anna']}\r\nContent-Type: application/json"
    host = urlsplit(site.url)
    with socket.create_connection((str(host.hostname), int(host.port or 80)), timeout=LONGEST_WAIT) as connection:
        request = f"POST /api/v1/check HTTP/1.1\r\nHost: x\r\n{head}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(request.encode() + body)
        wait_until(lambda: slow.begun, "the check runs")
        (pid,) = slow.begun
        assert is_running(pid)
    wait_until(lambda: not is_running(pid), "its process has ended")
    with site.api("anna") as api:  # nothing of it is left that would hold up the next
        wait_until(lambda: not site.state.processes._busy, "nothing runs")
        assert api.post("/check", json={"dataset": "clinic", "sql": COUNT}).json()["answerable"]


def test_a_check_that_waits_can_be_stopped_and_an_idle_process_replaced(slow: Slow) -> None:
    """One process: the second check waits for it. Somebody ends the idle process: the third gets another."""
    processes = CheckProcesses(1, program=PROGRAM, limits=PATIENT)
    try:
        first = processes.begin(NOBODY, f'["{slow.sql}", null]'.encode())
        second = processes.begin(NOBODY, EMPTY)
        wait_until(lambda: slow.begun, "the first check runs")
        second.stop()
        slow.end()
        assert b"Write a query" in (first.wait() or b"")
        assert second.wait() is None
        (idle,) = processes._idle
        os.kill(idle._process.pid, signal.SIGKILL)
        idle._process.wait()
        assert b"Write a query" in (processes.begin(NOBODY, EMPTY).wait() or b"")
        assert idle not in processes._idle
    finally:
        processes.close()
    with pytest.raises(DosimeterError, match="stopping"):
        processes.begin(NOBODY, EMPTY)


# ---------------------------------------------------------------- what is stored


def test_a_stored_query_that_grows_is_planned_nowhere_else(
    start_checking: Callable[[CheckLimits], Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was submitted to an earlier version: the controller reads why it cannot be answered, and denies it."""
    site = start_checking(HURRIED)
    served = site.state.datasets["clinic"]
    query, anna = NewQuery(dataset="clinic", sql="endless", purpose="x"), find_user(site.state.database, "anna")
    query_id = submit_query(site.state.database, anna, query, most=9, each_minute=9)
    planned: list[str] = []
    monkeypatch.setattr(type(served), "plan_anew", lambda _self, sql, _order=None: planned.append(sql))
    with site.guest("carol") as carol:
        page = carol.get(f"/decide/{query_id}")
        assert page.status_code == 409
        assert TOO_LARGE in read_text(page.text)
        assert "endless" in carol.get("/queue").text
        assert carol.act(f"/decide/{query_id}/deny", reason="it grows").status_code == 200
    assert planned == []


# ---------------------------------------------------------------- the verdict


FAIL = """document.body.dispatchEvent(
  new CustomEvent("htmx:sendError", { bubbles: true, detail: { target: document.getElementById("check") } }))"""


def test_a_verdict_is_hidden_while_another_query_is_checked(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, "anna")
    page.goto("/ask")
    verdict = page.locator("#check .good")
    page.fill("#sql", COUNT)
    expect(verdict).to_be_visible()
    held: list[Any] = []
    page.route("**/ask/check", lambda route: held.append(route))

    def is_held() -> bool:
        page.wait_for_timeout(10)  # lets the browser speak
        return bool(held)

    page.fill("#sql", "SELECT name FROM clinic")
    expect(page.locator("#check")).to_have_attribute("aria-busy", "true")
    expect(verdict).to_be_hidden()
    wait_until(is_held, "the check is held up")
    held[0].continue_()
    expect(page.locator("#check .bad")).to_be_visible()
    expect(page.locator("#check")).not_to_have_attribute("aria-busy", "true")
    page.evaluate(FAIL)
    expect(page.locator("#check")).to_contain_text("could not be checked")
