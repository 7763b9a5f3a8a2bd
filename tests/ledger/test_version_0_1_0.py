"""A ledger that version 0.1.0 wrote opens, verifies and goes on, on both databases.

Its records stand in version_0_1_0/ledger.jsonl as that version exported them, beside the data and schemas that they are
of. ``visits`` and ``visits_again`` are accounts of one file, which 0.1.0 took for two because a delimiter was given.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.cli import main
from dosimeter.errors import LedgerError
from dosimeter.ledger import Reservation
from dosimeter.ledger.readings import Charge
from dosimeter.schema.toml import parse_schema
from tests.known import known
from tests.ledger.ledger_worker import SCHEMA, make_opening, make_request
from tests.ledger.raw_records import describe_datasets
from tests.schemas import declare, whole

FOLDER = Path(__file__).with_name("version_0_1_0")
HEAD = "cfd87c13182f4b4776302c31deb43bf8ced0a57c1f7876a304be0e7f1d0a095e"
COUNT = "SELECT COUNT(*) AS n FROM visits WHERE mins > 30"


def read_lines() -> list[tuple[Any, ...]]:
    """Return the exported records as rows. Their payloads are canonical JSON, so they can be written again."""
    rows = []
    for line in (FOLDER / "ledger.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        payload = json.dumps(record.pop("payload"), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        tail = [record.pop("previous"), record.pop("digest")]
        rows.append((*record.values(), payload, *tail))
    return rows


@pytest.fixture
def old(target: str) -> Iterator[Ledger]:
    """Restore the exported ledger."""
    Ledger.open(target).close()
    connect: Callable[[str], Any]
    connect, place = (psycopg.connect, "%s") if "://" in target else (sqlite3.connect, "?")
    with closing(connect(target)) as connection:
        insert = f"INSERT INTO dosimeter_ledger VALUES ({', '.join([place] * 9)})"
        connection.cursor().executemany(insert, read_lines())
        connection.commit()
    with Ledger.open(target, create=False) as ledger:
        yield ledger


def open_data(name: str, data: str | None = None, **options: Any) -> Dataset:
    return Dataset.open(FOLDER / f"{data or name}.csv", schema=FOLDER / f"{name}.toml", **options)


def test_it_verifies_and_reads_as_it_did(old: Ledger) -> None:
    assert old.verify(HEAD).describe() == {"intact": True, "records": 19, "head": HEAD}
    shown = {line["dataset"]: line for line in describe_datasets(old)}
    assert {name: line["epsilon"] for name, line in shown.items()} == {"visits": 0.75, "visits_again": 0.5, "stays": 23}
    assert [(e["status"], e["charge"], e["reason"]) for e in shown["visits"]["entries"]] == [
        ("released", 0.25, None), ("released", 0.25, None), ("denied", 0, None), ("released", 0.125, None),
        ("reserved", 0.125, None),
    ]  # fmt: skip
    assert shown["visits"]["entries"][0]["answer"] == [{"n": 8}]
    account = known(old.account("visits"))
    assert account.delta_total == Decimal("0.0625")  # what the terms were, whatever the default is now
    assert len(account.agreed) == 2
    assert account.identified == account.identities == frozenset()
    assert [line["by"] for line in shown["visits"]["continuations"]] == ["Ben"]
    assert [entry.viewed for entry in account.entries] == [False, True, False, False, True]
    assert account.entries[1].told
    assert account.entries[1].measured is not None
    assert old.unidentified() == ("visits", "visits_again", "stays")


def test_answers_of_people_with_many_rows_are_given_anew_and_the_data_identified(old: Ledger) -> None:
    """Version 0.1.0 chose the rows that count in another way (N6), so that the same words ask for another number."""
    with open_data("visits") as visits:
        answer = visits.release(COUNT, ledger=old, epsilon=0.25)
        assert (answer.status, answer.repeated, answer.earlier) == ("released", False, None)
        records = old.verify(HEAD).records
        assert visits.release(COUNT, ledger=old, epsilon=0.25).repeated
        assert old.verify().records == records
    account = known(old.account("visits"))
    assert (len(account.identified), account.reading.epsilon) == (1, Decimal(1))
    assert old.unidentified() == ("visits_again", "stays")


def test_releases_go_on_without_a_word_on_every_agreed_pair(old: Ledger) -> None:
    with open_data("visits") as may, open_data("visits", "visits-june") as june:
        assert may.release("SELECT SUM(mins) FROM visits", ledger=old, epsilon=0.125).status == "released"
        assert june.release("SELECT SUM(mins) FROM visits", ledger=old, epsilon=0.125, again=True).status == "released"
        denied = june.release("SELECT MAX(mins) FROM visits", ledger=old, epsilon=0.125)
        assert denied.status == "denied"
    account = known(old.account("visits"))
    assert account.reading.epsilon == 1
    assert len(account.identified) == 2
    assert account.entries[-1].reason == "budget"
    assert old.verify(HEAD).intact


def test_two_old_accounts_of_one_file_go_on_and_say_so(
    old: Ledger, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_data("visits") as visits, open_data("visits_again", "visits", delimiter=",") as again:
        visits.release("SELECT SUM(mins) FROM visits", ledger=old, epsilon=0.125)
        assert [account.overlaps for account in old.accounts()] == [(), (), ()]
        again.release("SELECT SUM(mins) FROM visits_again", ledger=old, epsilon=0.125)
        assert visits.release("SELECT MAX(mins) FROM visits", ledger=old, epsilon=0.125).status == "released"
    shown = {line["dataset"]: line["overlaps"] for line in describe_datasets(old)}
    assert shown == {"visits": ["visits_again"], "visits_again": ["visits"], "stays": []}
    assert main(["ledger", target]) == 0
    assert "same data as the account visits_again" in capsys.readouterr().out


def test_no_account_is_opened_beside_one_that_might_hold_the_same_people(old: Ledger) -> None:
    facts = (FOLDER / "visits.toml").read_text().replace('"visits"', '"third"')
    with Dataset.open(FOLDER / "visits.csv", schema=parse_schema(facts), null="NA") as third:
        with pytest.raises(LedgerError, match=r"'visits' was opened by an earlier version.*other_people=True"):
            third.release("SELECT COUNT(*) FROM third", ledger=old, epsilon=0.5, policy="budget:1")
        with open_data("visits") as dataset:
            dataset.release("SELECT COUNT(*) FROM visits", ledger=old, epsilon=0.01)
        with open_data("visits_again", "visits", delimiter=",") as dataset:
            dataset.release("SELECT COUNT(*) FROM visits_again", ledger=old, epsilon=0.01)
        with open_data("stays") as dataset:
            dataset.release("SELECT COUNT(*) FROM stays", ledger=old, svt=1.0, variance=0.9)
        with pytest.raises(LedgerError, match="same data have the account 'visits'"):
            third.release("SELECT COUNT(*) FROM third", ledger=old, epsilon=0.5, policy="budget:1")
    assert "third" not in old.datasets()


def test_other_people_can_be_said_to_be_others(old: Ledger, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("x\n1\n2\n")
    columns = {"x": whole(0, 3)}
    facts = declare("new", 5, columns)
    with Dataset.open(tmp_path / "new.csv", schema=facts) as dataset:
        with pytest.raises(LedgerError, match="other_people=True"):
            dataset.release("SELECT COUNT(*) FROM new", ledger=old, epsilon=0.5, policy="budget:1")
        dataset.release("SELECT COUNT(*) FROM new", ledger=old, epsilon=0.5, policy="budget:1", other_people=True)
    charge, opening = Charge(Decimal("0.1")), make_opening(source_digest="more", identities=frozenset())
    request = make_request(schema_digest=SCHEMA, source_digest="more")
    with pytest.raises(LedgerError, match="other_people=True"):  # the ledger looks for itself
        old.reserve("more", lambda _: Reservation(request=request, charge=charge, opening=opening))
    said = replace(opening, apart=old.unidentified())
    old.reserve("more", lambda _: Reservation(request=request, charge=charge, opening=said))
    assert old.verify(HEAD).intact
