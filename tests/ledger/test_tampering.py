"""Whoever can write to the database can change it, but not unseen: verify names the first record that is wrong."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from dosimeter.errors import LedgerError
from dosimeter.ledger import Identification, Ledger
from dosimeter.ledger.store import COLUMNS
from tests.known import known
from tests.ledger.ledger_worker import SCHEMA, SOURCE, decide_on, make_request
from tests.ledger.raw_records import Tampered, put_record, read_last, seal, tamper_with

pytestmark = pytest.mark.smoke

TEXTS = [column for column in COLUMNS if column not in ("seq", "version")]


RECORDS = 10


def fill(target: str | Path) -> None:
    """Write ten records, the last three an incident, its end, and which data an account is of."""
    with Ledger.open(target) as ledger:
        ledger.record_view("clinic", "request-1", "risk")
        for number, ward in enumerate(("Süd", "Nord")):
            request = make_request(f"request-{number}", analyst="Zoë")
            entry = ledger.reserve("clinic", decide_on("0.1", request=request))
            ledger.settle(entry.id, status="released", answer=[{"ward": ward, "count": 12.5}], guarantee="ε")
        ledger.record_view("other", "request-2", "dry-run")
        ledger.stop("other", "measuring", software="dosimeter 0", request_digest="request-2")
        ledger.clear("other", by="Zoë", reason="mended")
        found = frozenset({"bytes:1", "bytes:2"})
        ledger.identify("clinic", Identification(schema_digest=SCHEMA, source_digest=SOURCE, identities=found))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "ledger.db"
    fill(path)
    return path


@pytest.fixture
def tampered(sound: Path, tmp_path: Path) -> Iterator[Tampered]:
    """A copy of the ledger to be changed."""
    shutil.copy(sound, tmp_path / "ledger.db")
    with tamper_with(tmp_path / "ledger.db") as (raw, ledger):
        assert ledger.verify().intact
        yield raw, ledger


def first_bad(ledger: Ledger) -> int | None:
    """What verify names. What it finds, everybody else who reads the ledger must find."""
    result = ledger.verify()
    assert result.intact == (result.first_bad is None)
    if result.first_bad is None:
        return None
    assert result.describe()["first_bad"] == {"seq": result.first_bad[0], "reason": result.first_bad[1]}
    return result.first_bad[0]


def flipped(content: bytes, masks: Sequence[int]) -> Iterator[bytes]:
    """The same bytes with one of them changed, every one in turn. 0x80 makes it something that is not ASCII."""
    for position, byte in enumerate(content):
        for mask in masks:
            yield content[:position] + bytes([byte ^ mask]) + content[position + 1 :]


@contextmanager
def changed(raw: sqlite3.Connection, seq: int, column: str, value: object) -> Iterator[None]:
    (before,) = raw.execute(f"SELECT {column} FROM dosimeter_ledger WHERE seq = ?", (seq,)).fetchone()
    # A value of bytes is put in as text, valid or not.
    placeholder = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
    raw.execute(f"UPDATE dosimeter_ledger SET {column} = {placeholder} WHERE seq = ?", (value, seq))
    yield
    raw.execute(f"UPDATE dosimeter_ledger SET {column} = ? WHERE seq = ?", (before, seq))


@pytest.mark.parametrize("bits", [(0x01,), pytest.param([1 << bit for bit in range(8)], marks=pytest.mark.long)])
@pytest.mark.parametrize("seq", range(1, RECORDS + 1))
def test_every_byte_of_every_text_counts(tampered: Tampered, seq: int, bits: Sequence[int]) -> None:
    raw, ledger = tampered
    tried = 0
    for column in TEXTS:
        content = str(getattr(read_last(raw, "seq = ?", seq), column)).encode()
        for value in flipped(content, masks=bits if column == "payload" else (0x01, 0x80)):
            with changed(raw, seq, column, value):
                assert first_bad(ledger) == seq, (column, value)
            tried += 1
    assert tried > 300
    assert ledger.verify().intact


@pytest.mark.parametrize("value", [0, 1, 4, -1, 2**40, "1x", None, 1.5, b"\xff"])
def test_numbers_count_as_well(tampered: Tampered, value: object) -> None:
    """SQLite takes any type in any column once its declaration is rewritten."""
    raw, ledger = tampered
    raw.execute("CREATE TABLE loose (seq, dataset, kind, version, at, entry, payload, previous, digest)")
    raw.execute("INSERT INTO loose SELECT * FROM dosimeter_ledger")
    raw.execute("DROP TABLE dosimeter_ledger")
    raw.execute("ALTER TABLE loose RENAME TO dosimeter_ledger")
    assert ledger.verify().intact
    raw.execute("UPDATE dosimeter_ledger SET version = ? WHERE seq = 4", (value,))
    assert first_bad(ledger) == 4
    raw.execute("UPDATE dosimeter_ledger SET version = 1, payload = ? WHERE seq = 3", (value,))
    assert first_bad(ledger) == 3


@pytest.mark.parametrize("seq", range(1, RECORDS + 1))
def test_a_deleted_record_is_missed(tampered: Tampered, seq: int) -> None:
    raw, ledger = tampered
    head = ledger.verify().head
    raw.execute("DELETE FROM dosimeter_ledger WHERE seq = ?", (seq,))
    if seq < RECORDS:
        assert ledger.verify().first_bad == (seq, f"it is missing, and record {seq + 1} stands in its place")
        with pytest.raises(LedgerError, match=f"altered at record {seq}"):
            ledger.reserve("clinic", decide_on("0.1"))
    else:
        assert first_bad(ledger) is None  # a chain cannot show a missing tail …
        result = ledger.verify(head)  # … but a head that was noted down can
        assert (result.intact, result.first_bad is not None and result.first_bad[0]) == (False, RECORDS)


def test_a_deleted_record_is_missed_even_if_the_others_move_up(tampered: Tampered) -> None:
    raw, ledger = tampered
    raw.execute("DELETE FROM dosimeter_ledger WHERE seq = 4")
    for seq in range(5, RECORDS + 1):
        raw.execute("UPDATE dosimeter_ledger SET seq = ? WHERE seq = ?", (seq - 1, seq))
    assert first_bad(ledger) == 4


@pytest.mark.parametrize(("one", "other"), [(1, 2), (3, 5), (4, 6), (6, 7), (1, 7), (8, 9), (7, 9)])
def test_swapped_records_are_seen(tampered: Tampered, one: int, other: int) -> None:
    raw, ledger = tampered
    for before, after in ((one, 100), (other, one), (100, other)):
        raw.execute("UPDATE dosimeter_ledger SET seq = ? WHERE seq = ?", (after, before))
    assert first_bad(ledger) == one


@pytest.mark.parametrize("seq", range(1, RECORDS + 1))
def test_an_inserted_record_is_seen(tampered: Tampered, seq: int) -> None:
    """Even one that is sealed properly: then it is the next one that does not follow."""
    raw, ledger = tampered
    here = read_last(raw, "seq = ?", seq)
    for later in range(RECORDS, seq - 1, -1):
        raw.execute("UPDATE dosimeter_ledger SET seq = ? WHERE seq = ?", (later + 1, later))
    raw.execute("UPDATE dosimeter_ledger SET previous = 'moved' WHERE seq = ?", (seq + 1,))
    forged = seal(here, seq=seq, kind="view", version=1, entry="", payload='{"request_digest":"x","what":"risk"}')
    put_record(raw, forged)
    raw.execute("UPDATE dosimeter_ledger SET previous = ? WHERE seq = ?", (forged.digest, seq + 1))
    assert first_bad(ledger) == seq + 1


@pytest.mark.parametrize("seq", [0, -1, RECORDS + 2])
def test_a_record_outside_the_count_is_seen(tampered: Tampered, seq: int) -> None:
    raw, ledger = tampered
    put_record(raw, replace(read_last(raw, "seq = ?", 3), seq=seq, previous="p", digest="d"))
    assert first_bad(ledger) == (1 if seq < 1 else RECORDS + 1)


def rewrite_from(raw: sqlite3.Connection, seq: int, **changes: object) -> None:
    """Change a record and reseal it and every later one: a forger who knows the format."""
    previous = read_last(raw, "seq = ?", seq).previous
    records = [read_last(raw, "seq = ?", number) for number in range(seq, RECORDS + 1)]
    raw.execute("DELETE FROM dosimeter_ledger WHERE seq >= ?", (seq,))
    for record in records:
        fresh = seal(record, previous=previous, **(changes if record.seq == seq else {}))
        put_record(raw, fresh)
        previous = fresh.digest


@pytest.mark.parametrize("seq", range(1, RECORDS))
def test_a_record_that_was_resealed_alone_is_seen(tampered: Tampered, seq: int) -> None:
    raw, ledger = tampered
    put_record(raw, seal(read_last(raw, "seq = ?", seq), at="2020-01-01T00:00:00Z"))
    assert ledger.verify().first_bad == (seq + 1, "it does not follow the record before it")


def test_a_rewritten_chain_needs_the_head_to_be_seen(tampered: Tampered) -> None:
    raw, ledger = tampered
    head = ledger.verify().head
    cheaper = read_last(raw, "seq = ?", 3).payload.replace('"epsilon":"0.1"', '"epsilon":"0.01"')
    rewrite_from(raw, 3, payload=cheaper)
    assert first_bad(ledger) is None
    assert ledger.verify().head != head
    assert not ledger.verify(head).intact


@pytest.mark.parametrize(
    ("seq", "changes", "reason"),
    [
        (2, {"kind": "view", "version": 1, "payload": '{"request_digest":"x","what":"risk"}'}, (3, "never opened")),
        (4, {"entry": "another"}, (4, "not reserved")),
        (5, {"kind": "account", "version": 2}, (5, "already open")),
        (5, {"payload": "{}"}, (5, "payload")),
        (5, {"payload": "[1]"}, (5, "JSON object")),
        (5, {"payload": "{"}, (5, "not JSON")),
        (3, {"entry": ""}, (3, "name of its own")),
        (2, {"dataset": "other"}, (3, "never opened")),
        (8, {"dataset": "clinic"}, (9, "not stopped")),
        (8, {"entry": "another"}, (8, "does not exist")),
        (8, {"payload": '{"kind":"a cell","request_digest":null,"software":"d"}'}, (8, "payload")),
        (9, {"payload": '{"by":"","reason":"r"}'}, (9, "payload")),
        (9, {"dataset": "clinic"}, (9, "not stopped")),
        (10, {"dataset": "other"}, (10, "nobody agreed to")),
        (10, {"payload": '{"identities":[1],"overlaps":[],"schema_digest":"a","source_digest":"b"}'}, (10, "payload")),
    ],
)
def test_a_rewritten_chain_must_still_make_sense(
    tampered: Tampered, seq: int, changes: dict[str, object], reason: tuple[int, str]
) -> None:
    raw, ledger = tampered
    if changes.get("kind") == "account":
        changes = {**changes, "payload": read_last(raw, "seq = ?", 2).payload, "entry": ""}
    rewrite_from(raw, seq, **changes)
    bad, why = known(ledger.verify().first_bad)
    assert bad == reason[0]
    assert reason[1] in why
    with pytest.raises(LedgerError, match=f"altered at record {reason[0]}"):
        ledger.account("clinic")


def test_a_head_of_any_moment_is_accepted(tampered: Tampered) -> None:
    raw, ledger = tampered
    for seq in range(1, RECORDS + 1):
        assert ledger.verify(read_last(raw, "seq = ?", seq).digest.upper() + "\n").intact
    assert ledger.verify("0" * 64).intact
    assert not ledger.verify("f" * 64).intact
    for malformed in ("", "abc", "g" * 64, "0" * 65):
        with pytest.raises(LedgerError, match="64 hexadecimal"):
            ledger.verify(malformed)


def test_an_altered_ledger_is_neither_read_nor_extended(tampered: Tampered) -> None:
    """A charge that was moved to another dataset would lower the reading: nobody builds on it."""
    raw, ledger = tampered
    raw.execute("UPDATE dosimeter_ledger SET dataset = 'other' WHERE seq = 5")
    calls: list[Callable[[], object]] = [
        lambda: ledger.account("clinic"),
        ledger.describe,
        ledger.datasets,
        lambda: ledger.entry("x"),
        lambda: ledger.viewed("clinic", "request-1"),
        lambda: ledger.record_view("clinic", "request-9", "risk"),
        lambda: ledger.reserve("clinic", decide_on("0.1")),
        lambda: ledger.settle("x", status="denied"),
        lambda: ledger.stopped("clinic"),
        ledger.unidentified,
        lambda: ledger.check_holder("clinic", "source-2"),
        lambda: ledger.stop("clinic", "measuring", software="dosimeter 0"),
        lambda: ledger.clear("clinic", by="Zoë", reason="r"),
    ]
    for call in calls:
        with pytest.raises(LedgerError, match="altered at record 5"):
            call()
    assert ledger.verify().records == RECORDS


def inspect_file(path: Path) -> list[str] | None:
    """What the ledger says of a damaged file: None if it refuses or finds it not intact, otherwise its records."""
    try:
        with Ledger.open(path, create=False, busy_timeout=0) as ledger:
            if not ledger.verify().intact:
                return None
    except LedgerError:
        return None
    with closing(sqlite3.connect(path)) as raw:
        return [json.dumps(row) for row in raw.execute("SELECT * FROM dosimeter_ledger ORDER BY seq")]


@pytest.mark.parametrize("step", [151, pytest.param(1, marks=pytest.mark.long)])
def test_flipped_bytes_of_the_file(sound: Path, tmp_path: Path, step: int) -> None:
    """Flip bytes of the file itself: either it is noticed, or no record is any different."""
    expected = known(inspect_file(sound))
    content, path = sound.read_bytes(), tmp_path / "flipped.db"
    noticed = 0
    for position in range(0, len(content), step):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :])
        found = inspect_file(path)
        assert found in (None, expected), position
        noticed += found is None
    assert noticed > 0


def test_tampering_is_seen_on_postgresql(create_database: Callable[[], str]) -> None:
    url = create_database()
    fill(url)
    with psycopg.connect(url, autocommit=True) as raw, Ledger.open(url) as ledger:
        raw.execute("ALTER TABLE dosimeter_ledger DISABLE TRIGGER USER")
        head = ledger.verify().head
        for column in TEXTS:
            for seq in range(1, RECORDS + 1):
                raw.execute("BEGIN")
                raw.execute(f"UPDATE dosimeter_ledger SET {column} = {column} || ' ' WHERE seq = {seq}")
                raw.execute("COMMIT")
                assert first_bad(ledger) == seq
                raw.execute(f"UPDATE dosimeter_ledger SET {column} = left({column}, -1) WHERE seq = {seq}")
        raw.execute("UPDATE dosimeter_ledger SET version = 4 WHERE seq = 6")
        assert first_bad(ledger) == 6
        raw.execute("DELETE FROM dosimeter_ledger WHERE seq = 4")
        assert first_bad(ledger) == 4
        raw.execute("DELETE FROM dosimeter_ledger WHERE seq > 4")
        assert ledger.verify().intact
        assert not ledger.verify(head).intact
