"""Chain records by their digests, and verify that a chain was not altered. Knows no kinds of records and no database.

Every record holds the digest of the one before, so that none can be changed, removed or inserted without changing all
that follow. Only somebody who noted a *head*, the digest of the record that was the last at that time, can see that
the end was cut off. The ledger is such a chain, and the web application's audit log is another.
"""

from __future__ import annotations

import hashlib
import json
import numbers
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from functools import cache
from types import NoneType
from typing import Any, ClassVar, Self, TypeVar

from dosimeter.errors import DosimeterError, LedgerError
from dosimeter.json_values import JsonObject

GENESIS = "0" * 64
"""The digest that the first record names as the one before it, and the head of an empty chain."""

_TYPES = {"int": (int,), "str": (str,), "str | None": (str, NoneType)}


class BadRecord(Exception):
    """The error for a record that is invalid where it stands in the chain. ``seq``: its number. ``reason``: why."""

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(f"record {seq}: {reason}")
        self.seq = seq
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of checking the chain of records: whether nothing was altered.

    ``records``: how many there are. ``head``: the digest of the last good record. ``first_bad``: the number of the
    first bad record and what is wrong with it; None if nothing is.
    """

    intact: bool
    records: int
    head: str
    first_bad: tuple[int, str] | None = None

    def describe(self) -> JsonObject:
        document: JsonObject = {"intact": self.intact, "records": self.records, "head": self.head}
        if self.first_bad is not None:
            document["first_bad"] = {"seq": self.first_bad[0], "reason": self.first_bad[1]}
        return document


class ChainedRecord:
    """What records of every chain share: their digest, and how they are read from a database's rows.

    A kind of record is a dataclass of numbers and texts, in the order in which they are digested. Its first field is
    the record's number in the chain, counted from 1 without gaps; its last two are ``previous``, the digest of the
    record before, and ``digest``. ``BEGINNING``: what is digested first, different for each chain.
    """

    __slots__ = ()
    BEGINNING: ClassVar[tuple[str | int, ...]]
    previous: str
    digest: str

    @classmethod
    @cache
    def find_columns(cls) -> dict[str, str]:
        """Return the names of the fields, which are the database's columns, and the type of each as it is written."""
        kind: Any = cls
        return {field.name: str(field.type) for field in fields(kind)}

    @classmethod
    def read(cls, row: Sequence[object], expected: int) -> Self:
        """Return a row of the database as a record. Raises BadRecord if a value has another type than its field.

        Texts may come as bytes. ``expected``: the number that the record should have, for the error.
        """
        values: list[Any] = []
        for value, (name, kind) in zip(row, cls.find_columns().items(), strict=True):
            if isinstance(value, bytes):
                try:
                    value = value.decode("utf-8")
                except UnicodeDecodeError:
                    raise BadRecord(expected, f"its {name} is not valid text") from None
            if type(value) not in _TYPES[kind]:
                raise BadRecord(expected, f"its {name} is not of the right type")
            values.append(value)
        return cls(*values)

    def compute_digest(self) -> str:
        """Return SHA-256 over all other fields as a JSON array: different records give different arrays."""
        text = write_canonical_json([*self.BEGINNING, *self._list_digested()])
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def _list_digested(self) -> list[Any]:
        return [getattr(self, name) for name in self.find_columns() if name != "digest"]

    def seal(self) -> Self:
        """Return the record with its digest."""
        values = [*self._list_digested(), self.compute_digest()]
        return type(self)(*values)

    def check_digest(self, expected: int) -> None:
        """Refuse a record that was altered. ``expected``: the number that it should have, for the error."""
        if self.compute_digest() != self.digest:
            raise BadRecord(expected, "its content does not match its digest")

    def check_kind(self) -> None:
        """Refuse an intact record that this program cannot read. Most chains have none."""


R = TypeVar("R", bound=ChainedRecord)


def follow_chain(
    kind: type[R], rows: Iterable[Sequence[object]], *, start: int = 1, after: str | None = None
) -> Iterator[R]:
    """Yield the records in the order of their numbers. Each is checked to follow from the one before it.

    ``rows``: as a database holds them, oldest first. ``start``: the number that the first of them should have.
    ``after``: the digest of the record before the first; None if it is not known. Raises BadRecord at the first record
    that does not follow.
    """
    previous = GENESIS if start == 1 and after is None else after
    for expected, row in enumerate(rows, start):
        record = kind.read(row, expected)
        if row[0] != expected:
            raise BadRecord(expected, f"it is missing, and record {row[0]} stands in its place")
        record.check_digest(expected)
        if previous is not None and record.previous != previous:
            raise BadRecord(expected, "it does not follow the record before it")
        record.check_kind()
        yield record
        previous = record.digest


def verify_chain(records: Iterable[ChainedRecord], head: str | None, *, name: str) -> Verification:
    """Follow a whole chain, and return whether it is intact and, if not, the first bad record.

    ``records``: as ``follow_chain`` yields them. ``head``: a digest as ``check_head`` returns it, which shows whether
    the end was cut off. ``name``: what the chain is called in the reason.
    """
    found, count, last = head in (None, GENESIS), 0, GENESIS
    try:
        for record in records:
            count, last = count + 1, record.digest
            found = found or last == head
    except BadRecord as bad:
        return Verification(False, count, last, (bad.seq, bad.reason))
    if not found:
        reason = f"no record has the head that was asked for: the tail was cut off, or it is another {name}'s"
        return Verification(False, count, last, (count + 1, reason))
    return Verification(True, count, last)


def check_head(head: str | None, refusal: type[DosimeterError]) -> str | None:
    """Return a head as digests are written; None if none is given. ``refusal``: raised for one that is no digest."""
    wanted = None if head is None else head.strip().lower()
    if wanted is not None and not re.fullmatch(r"[0-9a-f]{64}", wanted):
        raise refusal("A head is a digest of 64 hexadecimal digits, as verify prints it.")
    return wanted


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
