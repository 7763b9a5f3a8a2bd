"""One record of the ledger: its kinds, its canonical text and its digest. Never touches a database."""

from __future__ import annotations

import hashlib
import json
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from typing import Any

from dosimeter.errors import LedgerError
from dosimeter.json_values import JsonObject
from dosimeter.problems import Command

GENESIS = "0" * 64
"""The digest that the first record names as the one before it, and the head of an empty ledger."""

KINDS = {
    "account": 3,
    "continue": 3,
    "identify": 1,
    "measure": 1,
    "end": 1,
    "reserve": 3,
    "settle": 3,
    "view": 2,
    "stop": 2,
    "clear": 1,
    "state": 2,
    "checkpoint": 1,
}
"""Every kind of record this program can read, and the newest version of each, which is the one it writes.

What each version added, or what the kind is for:

- account 2 and continue 2: ``identities``, which tell what stored data these are. identify: the same, found out later.
- account 3 and continue 3: ``public``, the identities of the tables that the schema declares public. continue 3 and
  state 2: ``apart``, the accounts of which the controller said that they hold other people.
- reserve 2: the ``reason`` of a denial, what is measured, and whether the analyst may be told of a look; where there
  are any, a kept number and ρ.
- measure: data are about to be measured for a release, by a process that holds a lock. end: the measurement came to
  nothing, and nothing was charged. reserve 3 and stop 2 name the lock of the measurement that they end, if there was
  one; state 2 has the measurements that have no end.
- settle 2: ``measured``, the noisy numbers that the answer was made of. settle 3: a table of these for each block;
  where there are any, errors, public facts, undeclared groups, and the incident that is the reason of a denial.
- view 2: the digest of what is measured, and who asked the query.
- stop and clear: an incident, and its end.
- state: what the records of one dataset add up to. checkpoint: where the latest state of every dataset stands, so that
  a call of the ledger need not read all records before it.
"""


class BadRecord(Exception):
    """The error for a record that is invalid where it stands in the chain. ``seq``: its number. ``reason``: why."""

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(f"record {seq}: {reason}")
        self.seq = seq
        self.reason = reason


@contextmanager
def refusing_bad_records() -> Iterator[None]:
    """Turn a BadRecord raised inside the block into a LedgerError, for callers that rely on the records."""
    try:
        yield
    except BadRecord as bad:
        raise LedgerError(
            f"The ledger was altered at record {bad.seq}: {bad.reason}. Nothing is read from it or added to it. Run ",
            Command("ledger LEDGER verify", call="Ledger.verify()"),
            ", and restore a backup.",
        ) from None


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the chain.

    ``seq``: its number in the chain, from 1. ``entry``: the name of its entry, empty if it belongs to none.
    ``payload``: canonical JSON. ``previous``: the digest of the record before it.
    """

    seq: int
    dataset: str
    kind: str
    version: int
    at: str
    entry: str
    payload: str
    previous: str
    digest: str

    def compute_digest(self) -> str:
        """Return SHA-256 over all other fields as a JSON array: different records give different arrays."""
        parts = [
            "dosimeter-ledger-record",
            self.seq,
            self.dataset,
            self.kind,
            self.version,
            self.at,
            self.entry,
            self.payload,
            self.previous,
        ]
        text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def to_json_line(self) -> str:
        """Return the record as one JSON object. It contains the payload exactly as it was digested."""
        head = {
            "seq": self.seq,
            "dataset": self.dataset,
            "kind": self.kind,
            "version": self.version,
            "at": self.at,
            "entry": self.entry,
        }
        tail = {"previous": self.previous, "digest": self.digest}
        opening = json.dumps(head, ensure_ascii=False, separators=(",", ":"))[:-1]
        closing = json.dumps(tail, separators=(",", ":"))[1:]
        return f'{opening},"payload":{self.payload},{closing}'


COLUMNS = tuple(column.name for column in fields(Record))


def seal_record(
    *, seq: int, dataset: str, kind: str, at: str, entry: str, payload: Mapping[str, object], previous: str
) -> Record:
    """Return a new record with its digest."""
    text = write_canonical_json(payload)
    unsealed = Record(seq, dataset, kind, KINDS[kind], at, entry, text, previous, "")
    return Record(seq, dataset, kind, KINDS[kind], at, entry, text, previous, unsealed.compute_digest())


def derive_entry_id(seq: int, previous: str) -> str:
    """Return an entry's name: 16 hexadecimal digits of a digest of ``seq`` and ``previous``, nothing random.

    ``seq``: the number of the entry's first record. ``previous``: the digest of the record before that one.
    """
    return hashlib.sha256(f"dosimeter-ledger-entry:{seq}:{previous}".encode()).hexdigest()[:16]


def follow_chain(rows: Iterable[Sequence[object]], *, start: int = 1, after: str | None = None) -> Iterator[Record]:
    """Yield the records in the order of their numbers. Each is checked to follow from the one before it.

    ``start``: the number that the first of ``rows`` should have. ``after``: the digest of the record before the first;
    None if it is not known. Raises BadRecord at the first record that does not follow.
    """
    expected, previous = start, after or GENESIS
    for row in rows:
        record = _read_row(expected, row)
        if record.seq != expected:
            raise BadRecord(expected, f"it is missing, and record {record.seq} stands in its place")
        if record.compute_digest() != record.digest:
            raise BadRecord(expected, "its content does not match its digest")
        if record.previous != previous and (expected > start or start == 1 or after is not None):
            raise BadRecord(expected, "it does not follow the record before it")
        _check_kind(record)
        yield record
        expected, previous = expected + 1, record.digest


def read_alone(row: Sequence[object]) -> Record:
    """Return the record of a row after checking its digest. Whether it belongs to the chain is not checked."""
    seq = row[0] if isinstance(row[0], int) else 0
    record = _read_row(seq, row)
    if record.compute_digest() != record.digest:
        raise BadRecord(seq, "its content does not match its digest")
    _check_kind(record)
    return record


def _read_row(expected: int, row: Sequence[object]) -> Record:
    """Return a row of the database as a record. Raises BadRecord if a value has another type than its column.

    Texts may come as bytes. ``expected``: the number that the record should have, for the error.
    """
    values: list[Any] = []
    for value, column in zip(row, COLUMNS, strict=True):
        if isinstance(value, bytes):
            try:
                value = value.decode("utf-8")
            except UnicodeDecodeError:
                raise BadRecord(expected, f"its {column} is not valid text") from None
        if type(value) is not (int if column in ("seq", "version") else str):
            raise BadRecord(expected, f"its {column} is not of the right type")
        values.append(value)
    return Record(*values)


def _check_kind(record: Record) -> None:
    """Refuse an intact record of an unknown kind or version, which a newer version of Dosimeter wrote."""
    if not 1 <= record.version <= KINDS.get(record.kind, 0):
        raise LedgerError(
            f"Record {record.seq} of the ledger is of a kind or version this program does not know "
            f"({record.kind!r}, version {record.version}). Use the version of dosimeter that wrote it, or a newer one."
        )


def read_payload(record: Record) -> JsonObject:
    try:
        payload = json.loads(record.payload)
    except ValueError:
        raise BadRecord(record.seq, "its payload is not JSON") from None
    if not isinstance(payload, dict):
        raise BadRecord(record.seq, "its payload is not a JSON object")
    return payload


def write_canonical_json(value: object) -> str:
    """Return a value as JSON; equal values give equal texts. Sorted keys, no spaces, decimals as strings."""
    try:
        text = json.dumps(
            value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_simplify
        )
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise LedgerError("The ledger can only hold valid text: a value contains bytes that are not UTF-8.") from None
    except (TypeError, ValueError):
        raise LedgerError(
            "The ledger can only hold finite numbers, texts, dates and truth values, in lists and named fields."
        ) from None
    return text


def _simplify(value: object) -> object:
    match value:
        case Decimal() if value.is_finite():
            return str(value)
        case date():
            return value.isoformat()
        case numbers.Integral():
            return int(value)
        case numbers.Real():
            return float(value)
        case _:
            raise TypeError


def check_text(value: object, name: str) -> str:
    """Return ``value`` if it is a text that every database can hold and compare. ``name``: for the message.

    Refuse what is no text, is empty, or is not printable.
    """
    if not isinstance(value, str) or not value or not value.isprintable():
        raise LedgerError(f"{name} must be a text without line breaks or control characters, and not empty.")
    return value
