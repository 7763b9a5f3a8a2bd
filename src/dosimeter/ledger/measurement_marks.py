"""Measurements in progress: what is on disk before data are measured, and who still lives. No database, no clock.

Whoever measures data for a release first writes a mark, and holds a lock until the answer is settled. The reservation
ends the mark, in one transaction; so does an incident, or an end of its own where nothing is charged. A mark that has
no end, and whose lock nobody holds, was left by a process that was killed: that is an incident (N4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dosimeter.errors import LedgerError
from dosimeter.json_values import JsonObject, JsonValue, read_optional_text, read_text
from dosimeter.ledger.entries import Entry
from dosimeter.ledger.incidents import Incident, write_incident
from dosimeter.ledger.records import check_text
from dosimeter.ledger.values import read_identities


class HeldLock(Protocol):
    """A lock that this process holds, until it is released or the process ends."""

    def release(self, *, forget: bool) -> None:
        """Release the lock. ``forget``: nobody will ask for it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The mark of a measurement that has no end yet. ``lock``: the name of the lock that its process holds.

    ``request_digest``, ``software`` and ``identities``: as in ``Incident``, which the mark becomes if the process dies.
    """

    dataset: str
    lock: str
    at: str
    request_digest: str | None
    software: str
    identities: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        check_text(self.lock, "lock")
        self.to_incident()  # checks the rest

    def to_payload(self) -> JsonObject:
        """Return the payload of the record that begins a measurement."""
        payload: JsonObject = {"lock": self.lock, "request_digest": self.request_digest, "software": self.software}
        return payload | ({"identities": sorted(self.identities)} if self.identities else {})

    def to_stop(self) -> JsonObject:
        """Return the payload of the record that stops the dataset because the measurement's process died."""
        return {**write_incident("killed", self.software, self.request_digest, self.identities), "lock": self.lock}

    def to_state(self) -> JsonObject:
        """Return the mark as JSON values, for the ledger's record of the dataset's state."""
        return {**self.to_payload(), "at": self.at}

    def to_incident(self) -> Incident:
        """Return the incident that the mark is once its process has died, before anybody has recorded it."""
        return Incident(
            dataset=self.dataset, at=self.at, kind="killed", entry=None, request_digest=self.request_digest,
            software=self.software, identities=self.identities,
        )  # fmt: skip


def read_mark(dataset: str, payload: Mapping[str, JsonValue]) -> Mark:
    return Mark(
        dataset=dataset,
        lock=read_text(payload["lock"]),
        at=read_text(payload["at"]),
        request_digest=read_optional_text(payload["request_digest"]),
        software=read_text(payload["software"]),
        identities=read_identities(payload.get("identities")) or frozenset(),
    )


class Measuring:
    """A measurement that this process makes for a release: its mark's lock, and that of an entry it takes up."""

    def __init__(self, dataset: str, lock: str, held: HeldLock) -> None:
        self.dataset = dataset
        self.lock = lock
        self.entry: str | None = None  # the name of the entry that it was or will be reserved as
        self.failed = False  # whether an incident was, or had to be, recorded: then no other end may be written
        self.done = False  # whether nothing is open in the ledger that these locks stand for
        self._held = [held]

    def keep(self, held: HeldLock) -> None:
        """Hold a further lock until the end: that of an entry which a dead process reserved."""
        self._held.append(held)

    def release(self) -> None:
        """Release all locks. Whoever looks from now on takes what is unfinished for left behind."""
        for held in self._held:
            held.release(forget=self.done)


def describe_charge(entry: Entry) -> str:
    """Return a sentence on an entry whose request failed or was interrupted, and on what asking again does."""
    if entry.status == "released":
        return f"The answer is in the ledger (entry {entry.id}): the same request gives it again, at no charge."
    charged = "Its charge" if entry.hides_epsilon else f"ε = {entry.charge:f}"
    if entry.status == "denied":
        return f"{charged} counts (entry {entry.id}, denied)."
    return (
        f"{charged} is charged (entry {entry.id}, reserved), and nothing was handed out: the same request takes this "
        "entry up, at no further charge."
    )


def describe_unknown(measuring: Measuring) -> str:
    """Return what is known after an error if the ledger can be neither read nor written any more."""
    ended = "its end could not be written down: the dataset is stopped until a controller clears it."
    if measuring.entry is None:
        return f"Nothing was charged. The data were perhaps measured, and {ended}"
    return (
        f"The ledger tells, once it can be read, whether it was charged (entry {measuring.entry}): then the same "
        f"request takes this entry up, at no further charge. If not, the data were measured, and {ended}"
    )


def add_sentence(error: LedgerError, sentence: str) -> LedgerError:
    """Return the error with a sentence added to its message."""
    return LedgerError(*error.problem.pieces, f" {sentence}")
