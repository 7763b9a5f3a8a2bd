"""kill -9 in the middle of approvals: after the restart nothing is lost, doubled or uncharged."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest

from dosimeter.errors import LedgerError
from dosimeter.ledger import Ledger
from tests.known import known
from tests.web.test_web_commands import sign_in
from tests.web.web_site import PASSWORD, Guest, Site, StartSite, add_users

SCRIPT = Path(__file__).with_name("web_crash.py")
SHARED = os.pathsep.join(filter(None, [str(SCRIPT.parents[2]), os.environ.get("PYTHONPATH", "")]))


class Process:
    """A server as a process of its own, to be killed."""

    def __init__(self, database: str, place: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), database, place],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": SHARED},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]

    def guest(self, name: str) -> Guest:
        return sign_in(self.url, name, PASSWORD)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def ledger_entries(database: str) -> list[tuple[str, str]]:
    with Ledger.open(database, create=False) as ledger:
        assert ledger.verify().intact
        account = ledger.account("clinic")
        return [] if account is None else [(entry.status, str(entry.epsilon)) for entry in account.entries]


STEPS = [  # two steps in a row leave the same in the database, and the second of them is for the long run
    ("after claim", [], "waiting", "before anything was charged"),
    ("after reserve", [("reserved", "0.05")], "waiting", "it counts, and there is no answer"),
    ("before settle", [("reserved", "0.05")], "waiting", "it counts, and there is no answer"),
    ("after settle", [("released", "0.05")], "released", "Answered"),
    ("after release", [("released", "0.05")], "released", "Answered"),
    ("after all", [("released", "0.05")], "released", "Answered"),
]
ALWAYS = {("sqlite", f"after {step}") for step in ("claim", "reserve", "settle", "release")}
ALWAYS |= {("postgresql", "before settle"), ("postgresql", "after settle")}  # a charge apart from its answer


@pytest.mark.parametrize(
    ("database", "place", "entries", "status", "words"),
    [
        pytest.param(kind, *step, marks=[] if (kind, step[0]) in ALWAYS else [pytest.mark.long])
        for kind in ("sqlite", "postgresql")
        for step in STEPS
    ],
    indirect=["database"],
)
def test_killed_at_every_step(
    database: str,
    start_site: StartSite,
    place: str,
    entries: list[tuple[str, str]],
    status: str,
    words: str,
) -> None:
    tokens = add_users(database)
    victim = Process(database, place)
    try:
        with victim.guest("anna") as anna, victim.guest("carol") as carol:
            query_id = anna.ask()
            with contextlib.suppress(httpx.TransportError):
                carol.approve(query_id)
    finally:
        victim.end()
    assert ledger_entries(database) == entries

    site = start_site(database=database, tokens=tokens)
    with site.guest("carol") as carol, site.api() as api:
        assert words in carol.get(f"/decide/{query_id}").text
        assert api.get(f"/queries/{query_id}").json()["status"] == status
        if status == "waiting":  # it can be answered (again): what was charged is taken up, and now has an answer
            assert ("interrupted: charged, no answer" in carol.get("/queue").text) == bool(entries)
            assert carol.approve(query_id).status_code == 200
            assert ledger_entries(database) == [("released", "0.05")]
        else:
            assert carol.approve(query_id).status_code == 409
            assert ledger_entries(database) == entries
        assert api.get(f"/queries/{query_id}").json()["answer"] is not None


@pytest.mark.long
def test_killed_at_any_time(database: str, start_site: StartSite) -> None:
    """Two controllers approve a dozen queries at once while the server is killed somewhere among them, three times."""
    tokens = add_users(database)
    asked: list[str] = []
    dice = random.Random(7)
    for _ in range(3):
        victim = Process(database, "nowhere")
        try:
            with victim.guest("anna") as anna:
                asked += [anna.ask(f"SELECT COUNT(*) FROM clinic WHERE age = {len(asked) + n}") for n in range(4)]
            guests = [victim.guest(name) for name in ("carol", "conrad")]

            def approve(guest: Guest, queries: tuple[str, ...] = tuple(asked)) -> None:
                for query_id in queries:
                    with contextlib.suppress(httpx.TransportError):
                        guest.approve(query_id, epsilon="0.01")

            with ThreadPoolExecutor(2) as threads:
                threads.map(approve, guests)
                time.sleep(dice.uniform(0.05, 0.9))
                os.kill(victim.process.pid, 9)
            for guest in guests:
                guest.close()
        finally:
            victim.end()

    site = start_site(database=database, tokens=tokens)
    with site.guest("carol") as carol, site.api() as api:
        for query_id in asked:
            carol.approve(query_id, epsilon="0.01")
        found = {query_id: api.get(f"/queries/{query_id}").json() for query_id in asked}
    assert {query["status"] for query in found.values()} == {"released"}
    with Ledger.open(database, create=False) as ledger:
        account = known(ledger.account("clinic"))
        released = [entry for entry in account.entries if entry.status == "released"]
        assert ledger.verify().intact
    # Every query has exactly one released entry, with the numbers its analyst sees; the rest are charged reservations.
    assert sorted(entry.query for entry in released) == sorted(query["sql"] for query in found.values())
    answers = {entry.query: entry.answer for entry in released}
    assert all(answers[query["sql"]] == query["answer"]["rows"] for query in found.values())
    assert {entry.status for entry in account.entries} <= {"released", "reserved"}
    assert account.reading.epsilon == sum(entry.charge for entry in account.entries)


def test_double_click_releases_once(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    carol.get(f"/decide/{query_id}")
    with ThreadPoolExecutor(6) as threads:
        results = threads.map(lambda _: carol.approve(query_id).status_code, range(6))
    assert sorted(results) == [200, 409, 409, 409, 409, 409]
    assert ledger_entries(site.settings.database) == [("released", "0.05")]
    with site.guest("conrad") as conrad:  # who had the page open meanwhile
        late = conrad.approve(query_id)
    assert "Decided already" in late.text
    assert "by carol" in late.text


def test_failure_after_the_charge_is_said_at_once(
    site: Site, anna: Guest, carol: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    query_id = anna.ask()
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "settle", Mock(side_effect=LedgerError("The disk is full.")))
        page = carol.approve(query_id)
    assert "it counts, and there is no answer" in page.text
    assert carol.approve(query_id).status_code == 200
    assert ledger_entries(site.settings.database) == [("released", "0.05")]
