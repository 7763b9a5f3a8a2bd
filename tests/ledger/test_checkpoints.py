"""Checkpoints: what is read from one is what the whole chain says, they stay small, and nobody can forge one unseen."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest

from dosimeter.errors import DatasetStopped, LedgerError
from dosimeter.ledger import (
    Account,
    AccountSummary,
    Charge,
    Continuation,
    Identification,
    Ledger,
    Reservation,
    Verification,
)
from dosimeter.ledger.checked_chain import FEW_FOLLOWING, MOST_FOLLOWING, CheckedChain
from dosimeter.ledger.store import Transaction
from dosimeter.release import save_answer
from dosimeter.release.run import recall_answer
from tests.known import known
from tests.ledger.ledger_worker import SCHEMA, decide_on, make_request
from tests.ledger.long_ledgers import NAMES, grow_ledger, read_kinds, release, use_all
from tests.ledger.raw_records import alter, describe_datasets

Kill = Callable[[list[list[str]]], None]


# ---------------------------------------------------------------- the same as the whole chain


def act_at_random(ledger: Ledger, moves: random.Random, steps: int) -> list[str]:
    """Do anything that a ledger allows, on three datasets. Gives the entries that were left open."""
    unsettled: list[str] = []
    for step in range(steps):
        dataset = moves.choice(NAMES)
        match moves.randrange(9):
            case 0 | 1 | 2:
                with suppress(LedgerError, DatasetStopped):
                    release(ledger, step, dataset)
            case 3:
                summary = ledger.summary(dataset)
                if summary is not None and summary.stopped is None:
                    unsettled.append(ledger.reserve(dataset, reserve_only(step, summary)).id)
            case 4:
                ledger.record_view(dataset, f"digest-{step % 20}", "risk", analyst=moves.choice([None, "Zoë", "Ben"]))
            case 5:
                ledger.stop(dataset, "measuring", software="dosimeter 0", identities=frozenset({f"bytes:{step}"}))
            case 6:
                with suppress(LedgerError, DatasetStopped):
                    ledger.clear(dataset, by="Zoë", reason="mended")
            case 7:
                with suppress(LedgerError, DatasetStopped):
                    found = frozenset({f"bytes:{dataset}"})
                    pair = {"schema_digest": SCHEMA, "source_digest": f"source {dataset}"}
                    ledger.identify(dataset, Identification(**pair, identities=found))
            case 8:
                if unsettled and moves.random() < 0.5:
                    ledger.settle(unsettled.pop(0), status="released", answer=[{"n": step}])
    return unsettled


def reserve_only(number: int, summary: AccountSummary) -> Callable[[AccountSummary | None], Reservation]:
    """Reserve, now and then on data that the account did not know before."""
    source = f"moved {number}" if number % 5 == 0 else summary.source_digest
    moved = Continuation(schema_digest=SCHEMA, source_digest=source, by="Ben") if number % 5 == 0 else None
    request = make_request(f"open-{number}", source_digest=source)
    return lambda _: Reservation(request=request, charge=Charge(Decimal("0.0003")), continuation=moved)


def check_the_same(ledger: Ledger) -> None:
    """What is read from the last checkpoint is what the whole chain says."""
    assert ledger.verify().intact
    assert ledger.head() == ledger.verify().head
    for dataset in NAMES:
        whole, summary = ledger.account(dataset), ledger.summary(dataset)
        if whole is None:
            assert summary is None
            continue
        assert summary is not None
        for field in fields(AccountSummary):
            assert getattr(summary, field.name) == getattr(whole, field.name), field.name
        assert summary.entry_count == len(whole.entries)
        check_lookups(ledger, whole)
    with ledger._store.reading() as transaction:
        all_checked, checked = CheckedChain.read_all(transaction), CheckedChain.read(transaction)
        states = {name: replay.write_state() for name, replay in all_checked.each()}
        assert {name: replay.write_state() for name, replay in checked.each()} == states
        assert list(states) == [name for name, _ in checked.each()]
        for number in range(20):
            for dataset in NAMES:
                expected = set(all_checked.of(dataset).find_views(f"digest-{number}"))
                assert set(checked.of(dataset).find_views(f"digest-{number}")) == expected


def check_lookups(ledger: Ledger, whole: Account) -> None:
    assert ledger.entries(whole.dataset, 10_000) == whole.entries[::-1]
    for entry in whole.entries[:: max(1, len(whole.entries) // 8)]:
        assert ledger.entry(entry.id) == entry
        same = [e for e in whole.entries if e.status == "released" and e.request_digest == entry.request_digest]
        assert ledger.find_answer(whole.dataset, entry.request_digest) == (same[-1] if same else None)
        page = ledger.entries(whole.dataset, 3, before=entry.id)
        assert page == whole.entries[: whole.entries.index(entry)][::-1][:3]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 9))])
def test_what_is_read_from_a_checkpoint_is_what_the_chain_says(ledger: Ledger, seed: int) -> None:
    moves = random.Random(seed)
    for _ in range(3):
        act_at_random(ledger, moves, 60)
        check_the_same(ledger)
    assert [kind for _, kind, _ in read_kinds(ledger)].count("checkpoint") >= 2


def test_an_infinite_reading_stays_infinite_and_reads_null(ledger: Ledger) -> None:
    release(ledger, 0)
    request = replace(make_request(), source_digest="source clinic")
    overspent = Charge(Decimal("0.1"), delta=Decimal("1e-5"))  # more than δ_g: no policy admits it, a forger might
    with ledger._store.writing() as transaction:
        from dosimeter.ledger.checked_chain import RecordWriter
        from dosimeter.ledger.entries import write_charge

        checked = CheckedChain.read(transaction)
        payload = {"status": "reserved", "charge": write_charge(overspent), "request": request.to_payload()}
        writer = RecordWriter(transaction, checked, "clinic", "2026-01-01T00:00:00Z")
        writer.append("reserve", {**payload, "viewed": False, "told": False}, "overspent")
        for number in range(MOST_FOLLOWING):
            writer.append("view", {"digest": f"d{number}", "what": "risk", "analyst": None})
        writer.finish()
    summary, account = known(ledger.summary("clinic")), known(ledger.account("clinic"))
    assert summary.reading.infinite
    assert summary.reading == account.reading
    (dataset,) = describe_datasets(ledger)
    assert dataset["epsilon"] is dataset["entries"][-1]["reading"] is None
    json.dumps(dataset, allow_nan=False)
    with pytest.raises(LedgerError, match="does not admit"):
        ledger.reserve("clinic", lambda _: Reservation(request=request, charge=Charge(Decimal("0.1"))))
    assert ledger.verify().intact


# ---------------------------------------------------------------- constant


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each reading transaction or lookup has fetched."""
    fetched = [0]
    rows, fetch = Transaction.rows, Transaction._fetch

    def count_rows(self: Transaction, start: int = 1) -> Iterator[Any]:
        for row in rows(self, start):
            fetched[0] += 1
            yield row

    def count_fetched(self: Transaction, query: Any, values: Any = None) -> Any:
        found = fetch(self, query, values)
        fetched[0] += len(found)
        return found

    monkeypatch.setattr(Transaction, "rows", count_rows)
    monkeypatch.setattr(Transaction, "_fetch", count_fetched)
    return fetched


def test_a_use_reads_few_records_however_long_the_ledger_is(ledger: Ledger, counted: list[int]) -> None:
    uses: dict[str, Callable[[Ledger], object]] = {
        "summary": lambda ledger: ledger.summary("clinic"),
        "stopped": lambda ledger: ledger.stopped("clinic"),
        "head": lambda ledger: ledger.head(),
        "viewed": lambda ledger: ledger.viewed("clinic", "digest-1"),
        "new": lambda ledger: ledger.find_answer("clinic", "never asked"),
        "recent": lambda ledger: ledger.entries("clinic", 5),
        "recall": lambda ledger: ledger.recall("clinic", make_request("never asked", plan_digest="plan-1")),
        "record_view": lambda ledger: ledger.record_view("clinic", "digest-1", "risk"),
        "check_holder": lambda ledger: ledger.check_holder("new", "source-9"),
        "release": lambda ledger: release(ledger, 10_000 + counted[0]),
    }
    most: dict[int, int] = {}
    request = release(ledger, 0).request
    for length in (30, 90):
        grow_ledger(ledger, "clinic", request, length)
        found = []
        for _ in range(17):  # wherever the last checkpoint is
            for use in uses.values():
                counted[0] = 0
                use(ledger)
                found.append(counted[0])
        most[length] = max(found)
    assert most[30] <= 2 * (MOST_FOLLOWING + 12)  # a release reads twice, and looks a few records up
    assert most[90] <= most[30] + 2  # one more or less, by where the checkpoint is


def test_a_table_is_written_without_reading_the_whole_chain(tmp_path: Path, counted: list[int]) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        for number in range(90):
            entry = release(ledger, number)
        counted[0] = 0
        _, beside = save_answer(recall_answer(entry), ledger, tmp_path / "answer.csv")
        read, found = counted[0], ledger.verify()
    assert json.loads(beside.read_text(encoding="utf-8"))["head"] == found.head
    assert read <= 2 * (MOST_FOLLOWING + 12) < found.records  # for the entry, and for the head


def test_a_checkpoint_does_not_grow_with_entries(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        for number in range(180):
            release(ledger, number)
            if number % 10 == 0:
                ledger.record_view("clinic", f"digest-{number}", "risk")
        records = read_kinds(ledger)
    for kind in ("state", "checkpoint"):
        sizes = [size for _, written, size in records if written == kind]
        assert len(sizes) > 10
        assert sizes[-1] <= sizes[1] + 16, kind  # a few more digits
    places = [0, *(seq for seq, kind, _ in records if kind == "checkpoint")]
    assert max(after - before for before, after in pairwise(places)) <= MOST_FOLLOWING


def test_many_datasets_share_a_checkpoint(tmp_path: Path) -> None:
    """A state is written for the datasets that changed; a checkpoint names all, in a hundred characters each."""
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        for number in range(60):
            release(ledger, number, f"dataset-{number}")
        for number in range(40):
            release(ledger, 1000 + number, "dataset-5")
        records = read_kinds(ledger)
        assert len(ledger.summaries()) == 60
        assert [summary.dataset for summary in ledger.summaries()] == [f"dataset-{n}" for n in range(60)]
        assert ledger.verify().intact
    places = [seq for seq, kind, _ in records if kind == "checkpoint"]
    states = [seq for seq, kind, _ in records if kind == "state"]
    assert [seq for seq in states if places[-2] < seq < places[-1]] == [places[-1] - 1]  # one dataset changed
    assert max(size for _, kind, size in records if kind == "checkpoint") < 60 * 110


# ---------------------------------------------------------------- killed, and ledgers of earlier versions

STATE = "account, agreed, entries, identities, open, overlaps, stops, views"
WRITING = [f"after inserting {STATE}", "after inserting states"]


def test_killed_while_a_checkpoint_is_written(new_target: Callable[[], str], tmp_path: Path, kill: Kill) -> None:
    """A checkpoint is committed with the reservation that made it due, or neither is."""
    steps = ["after insert reserved", *WRITING, "before commit 2", "after the reservation"]
    jobs = [["crash", step, new_target(), str(tmp_path / "outbox"), "budget:1000"] for step in steps]
    befores = [fill_up(target, FEW_FOLLOWING - 1) for _, _, target, _, _ in jobs]
    kill(jobs)
    for (_, step, target, _, _), before in zip(jobs, befores, strict=True):
        with Ledger.open(target) as ledger:
            assert ledger.verify().intact
            if step != "after the reservation":
                assert ledger.verify() == before, step
            else:
                assert [kind for _, kind, _ in read_kinds(ledger)][-3:] == ["reserve", "state", "checkpoint"]
            summary, whole = known(ledger.summary("clinic")), known(ledger.account("clinic"))
            assert summary.reading == whole.reading
            assert ledger.reserve("clinic", decide_on("0.001")).reading == whole.reading.epsilon + Decimal("0.001")


def test_killed_while_a_settlement_writes_a_checkpoint(
    new_target: Callable[[], str], tmp_path: Path, kill: Kill
) -> None:
    """The entry can still be settled, and a new checkpoint is due."""
    steps = ["after insert released", *WRITING]
    jobs = [["crash", step, new_target(), str(tmp_path / "outbox"), "budget:1000"] for step in steps]
    for _, _, target, _, _ in jobs:
        fill_up(target, FEW_FOLLOWING - 2)
    kill(jobs)
    for _, step, target, _, _ in jobs:
        with Ledger.open(target) as ledger:
            assert ledger.verify().intact
            entry = known(ledger.account("clinic")).entries[-1]
            assert entry.status == "reserved", step
            assert ledger.settle(entry.id, status="denied").status == "denied"
            assert read_kinds(ledger)[-1][1] == "checkpoint"


def fill_up(target: str, records: int) -> Verification:
    """Write that many records, the first of which open an account."""
    with Ledger.open(target) as ledger:
        ledger.reserve("clinic", decide_on("0.001", "budget:1000"))
        for number in range(records - 2):
            ledger.record_view("clinic", f"digest-{number}", "risk")
        return ledger.verify()


def forget_checkpoints(target: str, monkeypatch: pytest.MonkeyPatch, entries: int = 50) -> None:
    """Write a ledger as an earlier version wrote it: no checkpoint, and no index."""
    with monkeypatch.context() as patched, Ledger.open(target) as ledger:
        patched.setattr(CheckedChain, "needs_checkpoint", False)
        for number in range(entries):
            release(ledger, number)
        assert {kind for _, kind, _ in read_kinds(ledger)} == {"account", "reserve", "settle"}
    indexes = [f"dosimeter_ledger_{name}" for name in ("checkpoints", "entries", "datasets")]
    indexes += [f"dosimeter_ledger_by_{key}" for key in ("request", "query", "reference", "view")]
    alter(target, *(f"DROP INDEX {index}" for index in indexes))


def test_a_ledger_without_checkpoints_gets_one_at_its_next_use(
    target: str, monkeypatch: pytest.MonkeyPatch, counted: list[int]
) -> None:
    forget_checkpoints(target, monkeypatch)
    with Ledger.open(target, create=False) as ledger:
        head = ledger.verify().head
        assert ledger.verify().records == 101
        counted[0] = 0
        summary = known(ledger.summary("clinic"))  # the first use reads it all, once
        assert counted[0] <= 101 + 6
        assert summary.reading.epsilon == Decimal("0.050")
        result = ledger.verify(head)
        assert (result.intact, result.records) == (True, 103)
        counted[0] = 0
        assert ledger.summary("clinic") == summary
        assert counted[0] <= 6
        assert known(ledger.find_answer("clinic", "request-3")).answer == [{"n": 3}]
        release(ledger, 1000)
        assert ledger.verify(head).intact


def test_a_ledger_without_checkpoints_that_cannot_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_checkpoints(str(tmp_path / "ledger.db"), monkeypatch)
    with Ledger.open(tmp_path / "ledger.db", create=False) as ledger:
        monkeypatch.setattr(Transaction, "append", Mock(side_effect=LedgerError("The ledger cannot be written to.")))
        assert known(ledger.summary("clinic")).entry_count == 50
        assert ledger.find_answer("clinic", "request-3") is not None
        assert ledger.verify().records == 101


def test_an_altered_ledger_without_checkpoints_gets_none(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_checkpoints(target, monkeypatch)
    alter(target, "UPDATE dosimeter_ledger SET at = '' WHERE seq = 5")
    with Ledger.open(target, create=False) as ledger:
        for use in use_all(ledger):
            with pytest.raises(LedgerError, match="altered at record 5"):
                use()
        assert ledger.verify().records == 101


def test_a_user_who_does_not_own_the_table_goes_on(create_database: Callable[[], str]) -> None:
    """The right to SELECT and INSERT is enough, as it was: what the owner never indexed is looked up in the table."""
    url = create_database()
    with Ledger.open(url) as ledger:
        release(ledger, 0)
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("DROP INDEX dosimeter_ledger_by_request")
        raw.execute("DROP ROLE IF EXISTS teller")
        raw.execute("CREATE ROLE teller LOGIN")
        raw.execute("GRANT SELECT, INSERT ON dosimeter_ledger TO teller")
        raw.execute("GRANT SELECT ON dosimeter_ledger_format TO teller")
    with Ledger.open(url.replace("postgres@", "teller@"), create=False) as ledger:
        for number in range(1, 40):
            release(ledger, number)
        assert ledger.find_answer("clinic", "request-3") is not None
        assert ledger.verify().intact
        assert "checkpoint" in [kind for _, kind, _ in read_kinds(ledger)]
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("DROP OWNED BY teller")
        raw.execute("DROP ROLE teller")
