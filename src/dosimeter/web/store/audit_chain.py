"""One record of the audit log, its digest, and the check that a log was not altered. Never touches a database.

Chained as the ledger is: every record holds the digest of the one before, so that none can be changed, removed or
inserted without changing all that follow. Only somebody who noted a *head*, the digest of the record that was
the last at that time, can see that the end was cut off.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from dosimeter.errors import OptionError
from dosimeter.ledger import GENESIS, Verification, write_canonical_json


class BadAuditRecord(Exception):
    """The error of a record that does not fit the chain. ``number``: which record; ``reason``: why."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"record {number}: {reason}")
        self.number, self.reason = number, reason


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Who did what, and when. ``id`` counts from 1 without gaps. ``previous``: the digest of the record before."""

    id: int
    at: str
    user: str
    action: str
    dataset: str | None
    query_id: str | None
    detail: str
    previous: str
    digest: str = ""

    def compute_digest(self) -> str:
        """Return SHA-256 over all other fields as canonical JSON, a text that differs for any two different records."""
        parts: list[object] = [getattr(self, name) for name in COLUMNS if name != "digest"]
        text = write_canonical_json(["dosimeter-audit-record", 1, *parts])
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def seal(self) -> AuditRecord:
        """Return the record with its digest."""
        return replace(self, digest=self.compute_digest())

    def to_json_line(self) -> str:
        """Return the record as one JSON object."""
        return write_canonical_json(asdict(self))


COLUMNS = tuple(column.name for column in fields(AuditRecord))
_MAY_BE_NULL = ("dataset", "query_id")


def follow_audit(rows: Iterable[Sequence[Any]]) -> Iterator[AuditRecord]:
    """Yield the records in order, each verified to follow the one before it.

    ``rows``: the records as the database holds them, oldest first; texts may be bytes. Raises BadAuditRecord at the
    first record that does not fit.
    """
    expected, previous = 1, GENESIS
    for row in rows:
        record = _read_row(expected, row)
        if record.id != expected:
            raise BadAuditRecord(expected, f"it is missing, and record {record.id} stands in its place")
        if record.compute_digest() != record.digest:
            raise BadAuditRecord(expected, "its content does not match its digest")
        if record.previous != previous:
            raise BadAuditRecord(expected, "it does not follow the record before it")
        yield record
        expected, previous = expected + 1, record.digest


def _read_row(expected: int, row: Sequence[Any]) -> AuditRecord:
    values: list[Any] = []
    for value, column in zip(row, COLUMNS, strict=True):
        try:
            text = value.decode("utf-8") if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            raise BadAuditRecord(expected, f"its {column} is not valid text") from None
        right = text is None if column in _MAY_BE_NULL and text is None else type(text) is _kind_of(column)
        if not right:
            raise BadAuditRecord(expected, f"its {column} is not of the right type")
        values.append(text)
    return AuditRecord(*values)


def _kind_of(column: str) -> type:
    return int if column == "id" else str


def verify_audit(rows: Iterable[Sequence[Any]], head: str | None = None) -> Verification:
    """Verify rows of the log, oldest first, and return whether they are intact; if not, the first record at fault.

    ``head``: a digest noted earlier, to see whether the end was cut off; one that is no digest is refused. A log
    without records is not intact.
    """
    wanted = GENESIS if head is None else head.strip().lower()
    if not re.fullmatch(r"[0-9a-f]{64}", wanted):
        raise OptionError("A head is a digest of 64 hexadecimal digits, as verify prints it.")
    found, count, last = wanted == GENESIS, 0, GENESIS
    try:
        for record in follow_audit(rows):
            count, last = record.id, record.digest
            found = found or record.digest == wanted
    except BadAuditRecord as bad:
        return Verification(False, count, last, (bad.number, bad.reason))
    if count == 0:
        return Verification(False, 0, GENESIS, (1, "it is missing: a log begins with the record that began its chain"))
    if not found:
        reason = "no record has the head that was asked for: the tail was cut off, or it is another log's"
        return Verification(False, count, last, (count + 1, reason))
    return Verification(True, count, last)
