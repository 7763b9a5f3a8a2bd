"""Measurements in progress: what is on disk before data are measured, and who still lives. No database, no clock.

Whoever measures data for a release first writes a mark, and holds a lock until the answer is settled. The reservation
ends the mark, in one transaction; so does an incident, or an end of its own where nothing is charged. A mark that has
no end, and whose lock nobody holds, was left by a process that was killed: that is an incident (N4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dosimeter.errors import LedgerError
from dosimeter.json_values import JsonObject
from dosimeter.ledger.entries import Entry
from dosimeter.ledger.incidents import Incident, IncidentKind
from dosimeter.ledger.records import check_text


class HeldLock(Protocol):
    """A lock that this process holds, until it is released or the process ends."""

    def release(self, *, forget: bool) -> None:
        """Release the lock. ``forget``: nobody will ask for it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(Incident):
    """The mark of a measurement that has no end yet, as the incident that it is once its process has died.

    ``lock``: the name of the lock that its process holds. ``at``: when the measurement began.
    """

    kind: IncidentKind = "killed"
    entry: str | None = None
    lock: str

    def __post_init__(self) -> None:
        check_text(self.lock, "lock")
        Incident.__post_init__(self)

    def to_stop(self) -> JsonObject:
        """Return the payload of the record that stops the dataset because the measurement's process died."""
        return {**Incident.to_stop(self), "lock": self.lock}

    def to_payload(self) -> JsonObject:
        """Return the payload of the record that begins a measurement."""
        return {name: value for name, value in self.to_stop().items() if name != "kind"}

    def to_state(self) -> JsonObject:
        """Return the mark as JSON values, for the ledger's record of the dataset's state."""
        return {**self.to_payload(), "at": self.at}


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
