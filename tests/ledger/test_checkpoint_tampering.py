"""Whoever can write to the database can forge or drop a checkpoint, a state or an index; what comes of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from dosimeter.errors import LedgerError
from dosimeter.ledger import Charge, Ledger, Record, Reservation
from dosimeter.ledger.store import COLUMNS
from tests.known import known
from tests.ledger.long_ledgers import NAMES, release, use_all
from tests.ledger.raw_records import Tampered, put_record, read_last, seal, tamper_with


@pytest.fixture
def tampered(tmp_path: Path) -> Iterator[Tampered]:
    """A ledger with several checkpoints, to be changed."""
    with tamper_with(tmp_path / "ledger.db") as (raw, ledger):
        for number in range(60):
            release(ledger, number, NAMES[number % 20 == 3])
        ledger.record_view("clinic", "digest-late", "risk")
        yield raw, ledger


def last_of(raw: sqlite3.Connection, kind: str, *, before: int = 10**6) -> Record:
    """Return the last record of a kind that bears on the account of the clinic."""
    return read_last(raw, "kind = ? AND seq < ? AND dataset <> 'Süd'", kind, before)


@pytest.mark.parametrize("kind", ["state", "checkpoint"])
@pytest.mark.parametrize("column", [column for column in COLUMNS if column not in ("seq", "version", "kind")])
def test_an_altered_checkpoint_or_state_is_refused(tampered: Tampered, kind: str, column: str) -> None:
    raw, ledger = tampered
    record = last_of(raw, kind)
    raw.execute(f"UPDATE dosimeter_ledger SET {column} = {column} || ' ' WHERE seq = ?", (record.seq,))
    for use in use_all(ledger):
        with pytest.raises(LedgerError, match=f"altered at record {record.seq}"):
            use()
    assert ledger.verify().first_bad == (record.seq, "its content does not match its digest")


@pytest.mark.parametrize("kind", ["settle", "view", "state", "checkpoint"])
def test_what_was_followed_a_moment_ago_is_no_excuse(tampered: Tampered, kind: str) -> None:
    """A process remembers what it followed, and still reads every record that a use relies on."""
    raw, ledger = tampered
    record = last_of(raw, kind)
    before = [ledger.summary("clinic"), ledger.summary("clinic")]
    assert before[0] == before[1]
    raw.execute("UPDATE dosimeter_ledger SET payload = payload || ' ' WHERE seq = ?", (record.seq,))
    for _ in range(2):
        with pytest.raises(LedgerError, match=f"altered at record {record.seq}"):
            ledger.summary("clinic")
    put_record(raw, record)
    assert ledger.summary("clinic") == before[0]


@pytest.mark.parametrize("kind", ["state", "checkpoint"])
def test_a_resealed_or_dropped_checkpoint_or_state_is_missed(tampered: Tampered, kind: str) -> None:
    raw, ledger = tampered
    record = last_of(raw, kind)
    put_record(raw, seal(record, at="2020-01-01T00:00:00Z"))
    for use in use_all(ledger)[1:3]:
        with pytest.raises(LedgerError, match="altered at record"):
            use()
    assert not ledger.verify().intact
    raw.execute("DELETE FROM dosimeter_ledger WHERE seq = ?", (record.seq,))
    for use in use_all(ledger)[1:4]:
        with pytest.raises(LedgerError, match=f"altered at record {record.seq}"):
            use()
    assert ledger.verify().first_bad == (record.seq, f"it is missing, and record {record.seq + 1} stands in its place")


def test_an_older_record_is_found_by_verify_and_by_a_repeat(tampered: Tampered) -> None:
    """A release goes on, which a whole reading would refuse; nothing that the record answers is handed out."""
    raw, ledger = tampered
    first = last_of(raw, "checkpoint", before=last_of(raw, "checkpoint").seq)
    old = last_of(raw, "settle", before=first.seq - 10)
    raw.execute("UPDATE dosimeter_ledger SET payload = replace(payload, '[[', '[[9') WHERE seq = ?", (old.seq,))
    before = known(ledger.summary("clinic")).reading.epsilon
    assert release(ledger, 1000).reading == before + Decimal("0.001")
    assert ledger.verify().first_bad == (old.seq, "its content does not match its digest")
    for use in (
        lambda: ledger.entry(old.entry),
        lambda: ledger.find_answer("clinic", "request-1"),
        lambda: ledger.account("clinic"),
        ledger.describe,
    ):
        with pytest.raises(LedgerError, match=f"altered at record {old.seq}"):
            use()
    assert ledger.find_answer("clinic", "request-59") is not None  # what is after it follows from the checkpoint


def test_a_forged_checkpoint_at_the_end_is_named_by_verify(tampered: Tampered) -> None:
    """Whoever can write to the database can append anything, as ever; a cheaper state contradicts the records."""
    raw, ledger = tampered
    head = ledger.verify().head
    last = read_last(raw)
    old = last_of(raw, "state")
    reading = old.payload.replace('"reading":{"delta":"0","epsilon":"0.', '"reading":{"delta":"0","epsilon":"0.000')
    assert reading != old.payload
    forged = seal(old, seq=last.seq + 1, previous=last.digest, payload=reading)
    put_record(raw, forged)
    names = last_of(raw, "checkpoint").payload.replace(
        f'"clinic",{old.seq},"{old.digest}"', f'"clinic",{forged.seq},"{forged.digest}"'
    )
    checkpoint = seal(last_of(raw, "checkpoint"), seq=forged.seq + 1, previous=forged.digest, payload=names)
    put_record(raw, checkpoint)
    summary = known(ledger.summary("clinic"))
    assert summary.reading.epsilon < Decimal("0.01")  # it is believed until somebody verifies
    result = ledger.verify(head)
    assert result.first_bad == (forged.seq, "it does not state what the records before it add up to")
    for whole in (ledger.accounts, ledger.describe, lambda: ledger.find_answer("clinic", "request-1")):
        with pytest.raises(LedgerError, match=f"altered at record {forged.seq}"):
            whole()


def test_a_checkpoint_that_hides_a_dataset_is_named_by_verify(tampered: Tampered) -> None:
    raw, ledger = tampered
    last = read_last(raw)
    for payload in ('{"states":[]}', "{}", '{"states":[["clinic",1]]}'):
        put_record(raw, seal(last_of(raw, "checkpoint"), seq=last.seq + 1, previous=last.digest, payload=payload))
        assert (ledger.verify().first_bad or (0,))[0] == last.seq + 1
        raw.execute("DELETE FROM dosimeter_ledger WHERE seq > ?", (last.seq,))
    assert ledger.verify().intact


def test_a_checkpoint_beyond_the_end_is_seen(tampered: Tampered) -> None:
    raw, ledger = tampered
    record = last_of(raw, "checkpoint")
    count = ledger.verify().records
    put_record(raw, seal(record, seq=record.seq + 1000, previous="p"))
    assert (ledger.verify().first_bad or (0,))[0] == count + 1


def test_an_index_that_hides_an_answer_costs_a_charge_and_no_more(tampered: Tampered) -> None:
    raw, ledger = tampered
    before = known(ledger.find_answer("clinic", "request-1"))
    index = "dosimeter_ledger_by_request"
    (honest,) = raw.execute("SELECT sql FROM sqlite_master WHERE name = ?", (index,)).fetchone()
    raw.execute(f"DROP INDEX {index}")
    assert ledger.find_answer("clinic", "request-1") == before  # without it the table is read
    raw.execute(f"{honest} AND seq > 1000000")
    raw.execute("PRAGMA writable_schema = ON")
    raw.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (honest, index))  # an empty index that looks full
    raw.execute("PRAGMA writable_schema = RESET")
    assert ledger.find_answer("clinic", "request-1") is None
    assert ledger.verify().intact
    assert ledger.entry(before.id) == before


def test_an_index_that_names_another_record_is_not_believed(tampered: Tampered) -> None:
    """A record that was put where no chain reaches is found by the index, and refused."""
    raw, ledger = tampered
    reserve = last_of(raw, "reserve", before=20)
    settle = last_of(raw, "settle", before=21)
    invented = reserve.payload.replace("request-", "invented-")
    assert '"invented-' in invented
    digest = invented.partition('"request_digest":"')[2].partition('"')[0]
    put_record(raw, seal(reserve, seq=-7, previous="p", entry="invented", payload=invented))
    put_record(raw, seal(settle, seq=-6, previous="q", entry="invented"))
    with pytest.raises(LedgerError, match="altered at record 1"):
        ledger.find_answer(reserve.dataset, digest)
    assert not ledger.verify().intact


def test_tampering_with_checkpoints_is_seen_on_postgresql(create_database: Callable[[], str]) -> None:
    url = create_database()
    with Ledger.open(url) as ledger, psycopg.connect(url, autocommit=True) as raw:
        for number in range(60):
            release(ledger, number)
        raw.execute("ALTER TABLE dosimeter_ledger DISABLE TRIGGER USER")
        for kind in ("state", "checkpoint"):
            found = known(raw.execute(f"SELECT max(seq) FROM dosimeter_ledger WHERE kind = '{kind}'").fetchone())
            raw.execute(f"UPDATE dosimeter_ledger SET payload = payload || ' ' WHERE seq = {found[0]}")
            for use in use_all(ledger):
                with pytest.raises(LedgerError, match=f"altered at record {found[0]}"):
                    use()
            raw.execute(f"UPDATE dosimeter_ledger SET payload = left(payload, -1) WHERE seq = {found[0]}")
        assert ledger.verify().intact
        raw.execute("UPDATE dosimeter_ledger SET at = '' WHERE seq = 3")
        assert ledger.summary("clinic") is not None
        with pytest.raises(LedgerError, match="altered at record 3"):
            ledger.find_answer("clinic", "request-0")


def test_an_altered_reservation_is_named_when_its_entry_is_settled(
    tampered: Tampered,
) -> None:
    """An open entry is named by number and digest in its state: its reservation cannot be exchanged."""
    raw, ledger = tampered
    request = replace(ledger.entries("clinic", 1)[0].request, request_digest="left")
    left = ledger.reserve("clinic", lambda _: Reservation(request=request, charge=Charge(Decimal("0.5"))))
    for number in range(100, 140):
        release(ledger, number)
    raw.execute("UPDATE dosimeter_ledger SET payload = replace(payload, 'left', 'lost') WHERE entry = ?", (left.id,))
    (seq,) = raw.execute("SELECT seq FROM dosimeter_ledger WHERE entry = ?", (left.id,)).fetchone()
    with pytest.raises(LedgerError, match=f"altered at record {seq}"):
        ledger.settle(left.id, status="released", answer=[{"n": 1}])
