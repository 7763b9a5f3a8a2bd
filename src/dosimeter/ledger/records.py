"""One record of the ledger, and its kinds. Never touches a database."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dosimeter.errors import LedgerError
from dosimeter.json_values import JsonObject, JsonValue
from dosimeter.ledger.chain import BadRecord, ChainedRecord, write_canonical_json
from dosimeter.ledger.decimals import write_decimal
from dosimeter.problems import Command

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

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
class Record(ChainedRecord):
    """One record of the chain.

    ``seq``: its number in the chain, from 1. ``entry``: the name of its entry, empty if it belongs to none.
    ``payload``: canonical JSON. ``previous``: the digest of the record before it.
    """

    BEGINNING = ("dosimeter-ledger-record",)
    seq: int
    dataset: str
    kind: str
    version: int
    at: str
    entry: str
    payload: str
    previous: str
    digest: str

    def check_kind(self) -> None:
        """Refuse an intact record of an unknown kind or version, which a newer version of Dosimeter wrote."""
        if not 1 <= self.version <= KINDS.get(self.kind, 0):
            raise LedgerError(
                f"Record {self.seq} of the ledger is of a kind or version this program does not know ({self.kind!r}, "
                f"version {self.version}). Use the version of dosimeter that wrote it, or a newer one."
            )

    def to_json_line(self) -> str:
        """Return the record as one JSON object. It contains the payload exactly as it was digested."""
        head = write_fields(self, "payload", "previous", "digest")
        tail = {"previous": self.previous, "digest": self.digest}
        opening = json.dumps(head, ensure_ascii=False, separators=(",", ":"))[:-1]
        closing = json.dumps(tail, separators=(",", ":"))[1:]
        return f'{opening},"payload":{self.payload},{closing}'


def seal_record(
    *, seq: int, dataset: str, kind: str, at: str, entry: str, payload: Mapping[str, object], previous: str
) -> Record:
    """Return a new record with its digest."""
    text = write_canonical_json(payload)
    return Record(seq, dataset, kind, KINDS[kind], at, entry, text, previous, "").seal()


def derive_entry_id(seq: int, previous: str) -> str:
    """Return an entry's name: 16 hexadecimal digits of a digest of ``seq`` and ``previous``, nothing random.

    ``seq``: the number of the entry's first record. ``previous``: the digest of the record before that one.
    """
    return hashlib.sha256(f"dosimeter-ledger-entry:{seq}:{previous}".encode()).hexdigest()[:16]


def read_alone(row: Sequence[object]) -> Record:
    """Return the record of a row after checking its digest. Whether it belongs to the chain is not checked."""
    seq = row[0] if isinstance(row[0], int) else 0
    record = Record.read(row, seq)
    record.check_digest(seq)
    record.check_kind()
    return record


def read_payload(record: Record) -> JsonObject:
    try:
        payload = json.loads(record.payload)
    except ValueError:
        raise BadRecord(record.seq, "its payload is not JSON") from None
    if not isinstance(payload, dict):
        raise BadRecord(record.seq, "its payload is not a JSON object")
    return payload


def write_fields(value: DataclassInstance, *left_out: str) -> JsonObject:
    """Return the fields of a value as what a payload can hold, except those named in ``left_out``."""
    return {each.name: write_value(getattr(value, each.name)) for each in fields(value) if each.name not in left_out}


def write_value(value: Any) -> JsonValue:
    """Return a value as what a payload can hold: an exact number as text, a set as a sorted list."""
    match value:
        case Decimal():
            return write_decimal(value)
        case frozenset():
            return sorted(value)
        case tuple() | list():
            return [write_value(each) for each in value]
        case Mapping():
            return {name: write_value(each) for name, each in value.items()}
        case _:
            found: JsonValue = value
            return found


def check_text(value: object, name: str) -> str:
    """Return ``value`` if it is a text that every database can hold and compare. ``name``: for the message.

    Refuse what is no text, is empty, or is not printable.
    """
    if not isinstance(value, str) or not value or not value.isprintable():
        raise LedgerError(f"{name} must be a text without line breaks or control characters, and not empty.")
    return value
