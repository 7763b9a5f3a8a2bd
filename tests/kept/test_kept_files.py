"""A database, its ledger and schemas that an earlier version wrote: they open, verify, and go on.

``0_1/application.sql`` is a dump of one SQLite file with the web application's tables and the ledger's, as the last
version 0.1 left them: queries in every state, looks, answers at a fixed ε, found with noise, by rank and over
undeclared groups, an account in zCDP over patients whose rows are cut, and an incident that was cleared.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dosimeter import Dataset, Ledger, Schema
from dosimeter.cli import main
from dosimeter.schema import digest_schema
from tests.known import known

if TYPE_CHECKING:
    from tests.web.web_site import Site

FOLDER = Path(__file__).with_name("0_1")
HEAD = "dd8934b6a0da19cde8328b4d66a5605b026e0a9407148784a003510f43e02e7b"
TOKENS = {"anna": "dsm_OGatKXPUHKU5j7XMTMSS62onpiPR-LmL0ReGZaaPx5g"}
RELEASED: list[tuple[str, dict[str, Any], list[dict[str, Any]]]] = [
    (
        "SELECT SUM(income) AS s, AVG(age) AS a FROM people WHERE joined >= DATE '2015-01-01'",
        {"epsilon": 0.5},
        [{"s": 48065.39, "a": 46.55}],
    ),
    (
        "SELECT note, COUNT(*) AS n FROM people GROUP BY note",
        {"epsilon": 1.0, "groups": "thresholded", "group_delta": 0.001},
        [{"note": "asthma", "n": 11}, {"note": "by bus", "n": 12}, {"note": "walks", "n": 15}],
    ),
    (
        "SELECT COUNT(*) AS n FROM people WHERE age > 40",
        {"svt": 0.5, "variance": 0.9, "candidates": "1,0.5"},
        [{"n": 45}],
    ),
    ("SELECT MIN(age) AS m FROM people", {"epsilon": 0.25}, [{"m": 66.0}]),
]


@pytest.fixture
def kept(tmp_path: Path) -> str:
    """Restore the database from its dump."""
    path = tmp_path / "site.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((FOLDER / "application.sql").read_text(encoding="utf-8"))
    return str(path)


@pytest.fixture
def site(kept: str) -> Iterator[Site]:
    """The application on the kept database, with the datasets that this was made with."""
    pytest.importorskip("fastapi", reason="the web application is not installed: pip install 'dosimeter[web]'")
    from dosimeter.web.settings import DatasetSettings
    from tests.web.web_site import Site, make_settings

    datasets = {
        name: DatasetSettings(
            data=str(FOLDER / f"{name}.csv"), schema=FOLDER / f"{name}.toml", policy=policy, algorithm="fixed"
        )
        for name, policy in {"people": "budget:4", "stays": "budget:4@1e-5"}.items()
    }
    running = Site.start(make_settings(kept, datasets), TOKENS)
    yield running
    running.stop()


def open_kept(name: str) -> Dataset:
    return Dataset.open(FOLDER / f"{name}.csv", schema=FOLDER / f"{name}.toml")


def test_schemas_are_what_they_were() -> None:
    digests = {name: digest_schema(Schema.load(FOLDER / f"{name}.toml")) for name in ("people", "stays")}
    assert digests == {
        "people": "c654d095994c1be6f92ac4ade40b2cc16c8558fa549ae3575fc4d5307351c7a3",
        "stays": "c4e0e2576a0becf56a8ff2bd2e574362ae2e83d8fc173f2e2f677cb056997994",
    }


def test_the_ledger_verifies_and_repeats_every_answer_without_charge(kept: str) -> None:
    with Ledger.open(kept, create=False) as ledger, open_kept("people") as people:
        assert ledger.verify(HEAD).describe() == {"intact": True, "records": 23, "head": HEAD}
        for sql, options, rows in RELEASED:
            answer = people.release(sql, ledger=ledger, **options)
            assert (answer.repeated, answer.answer) == (True, rows)
        assert str(known(ledger.account("people")).reading.epsilon) == "3.75"
        assert ledger.verify().records == 23
        assert people.release("SELECT COUNT(*) FROM people", ledger=ledger, epsilon=0.25).status == "released"
        assert people.release("SELECT SUM(age) FROM people", ledger=ledger, epsilon=0.25).status == "denied"
        assert ledger.verify(HEAD).intact


def test_an_account_over_patients_whose_rows_are_cut_goes_on(kept: str) -> None:
    with Ledger.open(kept, create=False) as ledger, open_kept("stays") as stays:
        before = known(ledger.account("hospital"))
        answer = stays.release("SELECT COUNT(*) AS n FROM stays WHERE days > 7", ledger=ledger, epsilon=0.1)
        after = known(ledger.account("hospital"))
        assert (answer.status, answer.repeated) == ("released", False)
        assert (len(before.entries), len(after.entries)) == (3, 4)
        assert after.reading.epsilon > before.reading.epsilon


def test_the_application_opens_it(kept: str, site: Site) -> None:
    with site.guest("carol") as carol, site.api("anna") as api, site.guest("bob") as bob:
        waiting = carol.get("/queue").text
        assert "MEDIAN(days)" in waiting
        assert "COUNT(DISTINCT patient)" in waiting
        assert "ward, COUNT(*)" not in waiting.split("Recent decisions")[0]
        listed = {query["sql"]: query for query in api.get("/queries").json()["queries"]}
        assert listed["SELECT ward, COUNT(*) AS n FROM people GROUP BY ward"]["status"] == "released"
        assert listed["SELECT COUNT(*) AS n FROM people WHERE note = 'asthma'"]["status"] == "denied"
        query = bob.ask("SELECT COUNT(*) AS n FROM people WHERE age > 60", dataset="people")
        assert carol.approve(query, "0.1", preference="").status_code == 200
    assert main(["audit", "verify", "--database", kept]) == 0
    with Ledger.open(kept, create=False) as ledger:
        assert ledger.verify(HEAD).intact
