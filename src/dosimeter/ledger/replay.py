"""Replay the records of one dataset. Takes records in order; gives its Account, its entries and the looks at its risk.

A record that contradicts those before it raises BadRecord with the reason. A replay begins with the first record, or
with a state that a checkpoint names. If it began with a state, it only knows the entries after the state, and the
entries that were not settled at the state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from dosimeter.errors import InputError, LedgerError
from dosimeter.json_values import JsonObject, JsonValue, read_list, read_object, read_optional_text, read_text
from dosimeter.ledger.chain import GENESIS, BadRecord, write_canonical_json
from dosimeter.ledger.entries import (
    RESERVED,
    SETTLED,
    Entry,
    Request,
    check_choice,
    read_charge,
    read_kept,
    read_reason,
    read_settled,
)
from dosimeter.ledger.incidents import INCIDENT_KINDS, Incident
from dosimeter.ledger.measurement_marks import Mark
from dosimeter.ledger.readings import Reading
from dosimeter.ledger.records import Record, check_text, read_payload, refusing_bad_records
from dosimeter.ledger.values import (
    Account,
    AccountOpening,
    AccountSummary,
    Continuation,
    Pair,
    describe_without_account,
    read_apart,
    read_identities,
)

_TERMS = ("policy", "algorithm", "delta_total", "max_epsilon", "individuals")


class OlderRecords(Protocol):
    """The records before a checkpoint. A replay that began at the checkpoint reads the few of them that it needs."""

    def record(self, seq: int, digest: str) -> Record:
        """Return the record that a state names by number and digest. Raises BadRecord if its digest is another."""

    def views(self, dataset: str, digest: str) -> Iterator[Record]:
        """Yield the records of looks at a query of a dataset. ``digest``: of what the query measures."""


class View(NamedTuple):
    """One look at a query's risk or dry run. ``digest``: of what is measured (version 0.1.0: of the query's plan).

    ``what``: ``risk`` or ``dry-run``. ``analyst``: who asked the query; None if no analyst did.
    """

    digest: str
    what: str
    analyst: str | None


def concerns_analyst(views: Iterable[View], analyst: str | None) -> bool:
    """Return whether one of these looks was at this analyst's query, or at a query that no analyst asked.

    A look at another analyst's query does not count: telling of it would reveal that somebody else asked the same.
    """
    return any(view.analyst in (None, analyst) for view in views)


class OpenEntry(NamedTuple):
    """An entry that is reserved and not settled: the number and digest of its record, and the reading after it."""

    seq: int
    digest: str
    reading: Reading


def _read_view(payload: JsonObject, version: int) -> View:
    if version == 1:
        return View(read_text(payload["request_digest"]), read_text(payload["what"]), None)
    return View(read_text(payload["digest"]), read_text(payload["what"]), read_optional_text(payload["analyst"]))


class DatasetReplay:
    """The replay of one dataset's records: what those replayed so far add up to."""

    def __init__(self, dataset: str, older: OlderRecords | None = None) -> None:
        self.dataset = dataset
        self._older = older
        self._opening: AccountOpening | None = None
        self._opened = ("", 0)  # when, and by which version of the record
        self._pairs: dict[Pair, None] = {}  # the latest last
        self._identified: set[Pair] = set()
        self._identities: set[str] = set()
        self._public: set[str] = set()  # identities of tables that a schema declared public
        self._apart: dict[str, None] = {}  # said when the account was continued
        self._overlaps: dict[str, None] = {}
        self._continuations: list[Continuation] = []
        self._reading: Reading | None = None
        self._entries: dict[str, Entry] = {}
        self._unsettled: dict[str, OpenEntry] = {}
        self._count = 0
        self._views: set[View] = set()
        self._view_count = 0
        self._views_digest = GENESIS
        self._incidents: list[Incident] = []
        self.unrecorded = False  # whether ``lose`` was called
        self._marks: dict[str, Mark] = {}  # the measurements that have no end, by their locks

    def copy(self, older: OlderRecords | None) -> DatasetReplay:
        """Return a copy to which records can be added without changing this one.

        ``older``: lets the copy read records from before the state that the replay began with; with None, it cannot.
        """
        copied = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | set | list):
                setattr(copied, name, value.copy())
        copied._older = older
        return copied

    @classmethod
    def read_state(cls, record: Record, older: OlderRecords | None = None) -> DatasetReplay:
        """Return the replay that goes on from a state. Raises BadRecord if the record is no valid state.

        ``older``: lets the replay read records from before the state; with None, it cannot.
        """
        replay, payload = cls(record.dataset, older), read_payload(record)
        try:
            replay._read_state(payload)
        except (KeyError, TypeError, ValueError, InputError):
            raise BadRecord(record.seq, "its payload is not that of a record of kind state") from None
        return replay

    def _read_state(self, payload: JsonObject) -> None:
        if payload["account"] is not None:
            account = read_object(payload["account"])
            self._opening = AccountOpening.from_payload(read_object(account["terms"]))
            self._opened = read_text(account["at"]), _read_count(account["version"])
            self._reading = self._opening.policy.read_reading(account["reading"], self._opening.delta_total)
        for agreed in read_list(payload["agreed"]):
            schema, source, identified = read_list(agreed)
            pair = read_text(schema), read_text(source)
            self._pairs[pair] = None
            if identified:
                self._identified.add(pair)
        self._identities = set(map(read_text, read_list(payload["identities"])))
        self._public = set(read_identities(payload.get("public")) or ())
        self._apart = dict.fromkeys(read_apart(payload))
        self._overlaps = dict.fromkeys(map(read_text, read_list(payload["overlaps"])))
        for entry in read_list(payload["open"]):
            name, seq, digest, reading = read_list(entry)
            self._unsettled[read_text(name)] = OpenEntry(
                _read_count(seq), read_text(digest), self._terms.policy.read_reading(reading, self._terms.delta_total)
            )
        self._count = _read_count(payload["entries"])
        self._incidents = [_read_incident(self.dataset, read_object(stop)) for stop in read_list(payload["stops"])]
        for written in read_list(payload.get("measuring", [])):
            mark = _read_mark(self.dataset, read_object(written))
            self._marks[mark.lock] = mark
        count, digest = read_list(payload["views"])
        self._view_count, self._views_digest = _read_count(count), read_text(digest)

    def write_state(self) -> JsonObject:
        """Return the payload of a state of the dataset. It is the same whichever record the replay began with."""
        account: JsonObject | None = None
        if self._opening is not None and self._reading is not None:
            account = {
                "terms": self._opening.to_payload(),
                "at": self._opened[0],
                "version": self._opened[1],
                "reading": self._opening.policy.write_reading(self._reading),
            }
        return {
            "account": account,
            "agreed": [[*pair, pair in self._identified] for pair in self._pairs],
            "identities": sorted(self._identities),
            **({"public": sorted(self._public)} if self._public else {}),  # as before in ledgers without any
            **({"apart": list(self._apart)} if self._apart else {}),
            "overlaps": list(self._overlaps),
            "open": [
                [name, entry.seq, entry.digest, self._terms.policy.write_reading(entry.reading)]
                for name, entry in self._unsettled.items()
            ],
            "entries": self._count,
            "stops": [incident.to_state() for incident in self.open_incidents],
            "views": [self._view_count, self._views_digest],
            **({"measuring": [mark.to_state() for mark in self._marks.values()]} if self._marks else {}),
        }

    @property
    def _terms(self) -> AccountOpening:
        """Return the terms of the account. Raises TypeError if there is no account."""
        if self._opening is None:
            raise TypeError
        return self._opening

    def apply(self, record: Record) -> None:
        payload = read_payload(record)
        try:
            _APPLIED[record.kind](self, record, payload)
        except (KeyError, TypeError, ValueError, InputError):
            raise BadRecord(record.seq, f"its payload is not that of a record of kind {record.kind}") from None

    def _open(self, record: Record, payload: JsonObject) -> None:
        if self._opening is not None:
            raise BadRecord(record.seq, "it opens an account that is already open")
        self._opening = AccountOpening.from_payload(payload)
        self._opened = record.at, record.version
        self._agree(self._opening)
        self._reading = self._opening.policy.start(self._opening.delta_total)

    def _continue(self, record: Record, payload: JsonObject) -> None:
        if self._opening is None:
            raise BadRecord(record.seq, "it continues an account that was never opened")
        continuation = Continuation.from_payload(payload, record.at)
        self._agree(continuation)
        if continuation.individuals is not None:
            self._opening = replace(self._opening, individuals=continuation.individuals)
        self._apart |= dict.fromkeys(continuation.apart)
        self._continuations.append(continuation)

    def _agree(self, agreed: AccountOpening | Continuation) -> None:
        latest = (agreed.schema_digest, agreed.source_digest)
        self._pairs.pop(latest, None)
        self._pairs[latest] = None
        self._public |= agreed.public
        if agreed.identities is not None:
            self._identified.add(latest)
            self._identities |= agreed.identities

    def _identify(self, record: Record, payload: JsonObject) -> None:
        pair = read_text(payload["schema_digest"]), read_text(payload["source_digest"])
        identities = read_identities(payload["identities"])
        if pair not in self._pairs or identities is None:
            raise BadRecord(record.seq, "it identifies data that nobody agreed to")
        self._identified.add(pair)
        self._identities |= identities
        self._overlaps |= dict.fromkeys(map(read_text, read_list(payload["overlaps"])))

    @property
    def overlaps(self) -> tuple[str, ...]:
        return tuple(self._overlaps)

    def note_overlap(self, dataset: str) -> None:
        """Remember that another account, named ``dataset``, turned out to hold the same data."""
        self._overlaps[dataset] = None

    def _measure(self, record: Record, payload: JsonObject) -> None:
        mark = _read_mark(record.dataset, {**payload, "at": record.at})
        if mark.lock in self._marks:
            raise BadRecord(record.seq, "it begins a measurement that has begun")
        self._marks[mark.lock] = mark

    def _end(self, record: Record, payload: JsonObject) -> None:
        self._end_mark(record, read_text(payload["lock"]))

    def _end_mark(self, record: Record, lock: str | None) -> None:
        """End a measurement. ``lock``: the name of its lock; None if the record ends none."""
        if lock is not None and self._marks.pop(lock, None) is None:
            raise BadRecord(record.seq, "it ends a measurement that was not begun, or has ended")

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Return the marks of the measurements that have no end yet, the oldest first."""
        return tuple(self._marks.values())

    def is_measured_by(self, lock: str) -> bool:
        """Return whether the measurement with this lock has no end yet."""
        return lock in self._marks

    def lose(self, mark: Mark) -> None:
        """Count a measurement as an incident, in memory alone, because its process died and nobody recorded it yet."""
        del self._marks[mark.lock]
        self.unrecorded = True
        self._incidents.append(mark)

    def _reserve(self, record: Record, payload: JsonObject) -> None:
        if self._reading is None:
            raise BadRecord(record.seq, "it charges an account that was never opened")
        if not record.entry or record.entry in self._entries:
            raise BadRecord(record.seq, "its entry has no name of its own")
        if payload["status"] not in RESERVED:
            raise BadRecord(record.seq, "it reserves with an unknown status")
        self._end_mark(record, read_optional_text(payload.get("lock")))
        reading = self._reading.after(read_charge(payload))
        self._entries[record.entry] = _read_reserved(record, payload, reading)
        self._unsettled[record.entry] = OpenEntry(record.seq, record.digest, reading)
        if self._entries[record.entry].status != "reserved":
            del self._unsettled[record.entry]
        self._reading = reading
        self._count += 1

    def _settle(self, record: Record, payload: JsonObject) -> None:
        entry = self._find_entry(record.entry)
        if entry is None or entry.status != "reserved":
            raise BadRecord(record.seq, "it settles an entry that is not reserved")
        if payload["status"] not in SETTLED:
            raise BadRecord(record.seq, "it settles with an unknown status")
        self._entries[entry.id] = read_settled(entry, payload, record.version, record.at)
        del self._unsettled[entry.id]

    def _stop(self, record: Record, payload: JsonObject) -> None:
        if record.entry and self._find_entry(record.entry) is None:
            raise BadRecord(record.seq, "it stops the dataset for an entry that does not exist")
        self._end_mark(record, read_optional_text(payload.get("lock")))
        self._incidents.append(_read_incident(record.dataset, {**payload, "at": record.at, "entry": record.entry}))

    def _clear(self, record: Record, payload: JsonObject) -> None:
        if self.stopped is None:
            raise BadRecord(record.seq, "it clears a dataset that is not stopped")
        by, reason = check_text(payload["by"], "by"), check_text(payload["reason"], "reason")
        self._incidents = [
            replace(incident, cleared_at=record.at, cleared_by=by, reason=reason)
            if incident.cleared_at is None
            else incident
            for incident in self._incidents
        ]

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        """Return the incidents that are not cleared, the oldest first."""
        return tuple(incident for incident in self._incidents if incident.cleared_at is None)

    @property
    def stopped(self) -> Incident | None:
        """Return the oldest incident that is not cleared; None if the dataset is not stopped."""
        return next(iter(self.open_incidents), None)

    @property
    def incidents(self) -> tuple[Incident, ...]:
        return tuple(self._incidents)

    @property
    def summary(self) -> AccountSummary | None:
        """Return the account as it is now, without its entries; None if there is none."""
        fields = self._standing()
        return None if fields is None else AccountSummary(**fields)

    @property
    def account(self) -> Account | None:
        """Return the account with the entries that were replayed; None if there is none.

        These are all entries only if the replay began with the first record.
        """
        fields = self._standing()
        if fields is None:
            return None
        return Account(entries=tuple(self._entries.values()), continuations=tuple(self._continuations), **fields)

    def _standing(self) -> dict[str, Any] | None:
        if self._opening is None or self._reading is None:
            return None
        agreed = tuple(self._pairs)
        return {
            "dataset": self.dataset,
            "opened_at": self._opened[0],
            **{name: getattr(self._opening, name) for name in _TERMS},
            "schema_digest": agreed[-1][0],
            "source_digest": agreed[-1][1],
            "reading": self._reading,
            "stopped": self.stopped,
            "agreed": agreed,
            "identified": frozenset(self._identified),
            "identities": frozenset(self._identities),
            "overlaps": self.overlaps,
            "entry_count": self._count,
            "unsettled": len(self._unsettled),
        }

    def describe(self) -> JsonObject | None:
        """Return the dataset as JSON values; None if it has no account and is not stopped."""
        account, stopped = self.account, self.stopped
        if account is not None:
            return account.describe()
        return None if stopped is None else describe_without_account(stopped)

    def find_entry(self, entry_id: str) -> Entry | None:
        """Return the entry of this name; None if it was settled before the replay began, or does not exist."""
        with refusing_bad_records():
            return self._find_entry(entry_id)

    def require_entry(self, entry_id: str) -> Entry:
        """Return the entry of this name, as ``find_entry`` does; raise LedgerError if there is none."""
        entry = self.find_entry(entry_id)
        if entry is None:
            raise LedgerError(f"The ledger has no entry {entry_id!r}.")
        return entry

    def _find_entry(self, entry_id: str) -> Entry | None:
        known = self._entries.get(entry_id)
        where = self._unsettled.get(entry_id)
        if known is not None or where is None or self._older is None:
            return known
        record = self._older.record(where.seq, where.digest)
        return _read_reserved(record, read_payload(record), where.reading)

    def list_unsettled(self) -> tuple[Entry, ...]:
        """Return the entries that are reserved and have no outcome, the oldest first."""
        found = (self.find_entry(name) for name in self._unsettled)
        return tuple(entry for entry in found if entry is not None)

    def held(self, source_digest: str) -> bool:
        """Return whether the account was ever opened or continued with data of this digest."""
        return any(source_digest == source for _, source in self._pairs)

    def shares(self, identities: frozenset[str]) -> bool:
        """Return whether the account holds, or ever held, a stored table or file with one of these identities."""
        return not self._identities.isdisjoint(identities)

    def share_held(self, identities: frozenset[str]) -> float:
        """Return which share of these identities the account holds or ever held; 0 if there are none."""
        return len(identities & self._identities) / max(1, len(identities))

    def calls_public(self, identities: frozenset[str]) -> bool:
        """Return whether a schema of the account ever declared a table with one of these identities public."""
        return not self._public.isdisjoint(identities)

    @property
    def apart(self) -> tuple[str, ...]:
        """Return the accounts of which somebody said that they hold other people than this one."""
        return (*(() if self._opening is None else self._opening.apart), *self._apart)

    @property
    def is_unidentified(self) -> bool:
        """Return whether version 0.1.0 opened the account and the identities of its data are not known yet."""
        return self._opening is not None and self._opened[1] == 1 and not self._identified

    def find_views(self, *digests: str | None) -> tuple[View, ...]:
        """Return the looks that have one of these digests (see ``View``); a digest that is None matches nothing."""
        return tuple(self._find_views(digests))

    def knows_view(self, digest: str, what: str, analyst: str | None) -> bool:
        return View(digest, what, analyst) in self._find_views([digest])

    def _look(self, record: Record, payload: JsonObject) -> None:
        view = _read_view(payload, record.version)
        self._views.add(view)
        self._view_count += 1
        text = write_canonical_json([self._views_digest, *view])
        self._views_digest = hashlib.sha256(text.encode("utf-8")).hexdigest()

    def _find_views(self, digests: Sequence[str | None]) -> Iterator[View]:
        """Yield the looks that have one of these digests (see ``View``); a digest that is None matches nothing.

        First come the looks that were replayed, then those from before the state with which the replay began, if any.
        """
        yield from (view for view in self._views if view.digest in digests)
        if self._older is None or self._view_count == len(self._views):
            return
        for digest in digests:
            if digest is not None:
                records = self._older.views(self.dataset, digest)
                found = (_read_view(read_payload(record), record.version) for record in records)
                yield from (view for view in found if view.digest == digest)


_APPLIED: Mapping[str, Callable[[DatasetReplay, Record, JsonObject], None]] = {
    "account": DatasetReplay._open,
    "continue": DatasetReplay._continue,
    "identify": DatasetReplay._identify,
    "measure": DatasetReplay._measure,
    "end": DatasetReplay._end,
    "reserve": DatasetReplay._reserve,
    "settle": DatasetReplay._settle,
    "stop": DatasetReplay._stop,
    "clear": DatasetReplay._clear,
    "view": DatasetReplay._look,
}
"""What each kind of record of a dataset changes. States and checkpoints change nothing."""


def _read_reserved(record: Record, payload: JsonObject, reading: Reading) -> Entry:
    return Entry(
        id=record.entry,
        dataset=record.dataset,
        at=record.at,
        status=check_choice(payload["status"], RESERVED, "The status"),
        spent=read_charge(payload),
        after=reading,
        request=Request.from_payload(read_object(payload["request"])),
        viewed=bool(payload["viewed"]),
        told=bool(payload.get("told", payload["viewed"])),
        reason=read_reason(payload.get("reason")),
        kept=read_kept(payload.get("kept")),
        lock=read_optional_text(payload.get("lock")),
    )


def _read_incident(dataset: str, payload: Mapping[str, JsonValue]) -> Incident:
    return Incident(
        kind=check_choice(payload["kind"], INCIDENT_KINDS, "The kind"),
        entry=read_optional_text(payload["entry"]) or None,
        **_read_failed(dataset, payload),
    )


def _read_mark(dataset: str, payload: Mapping[str, JsonValue]) -> Mark:
    return Mark(lock=read_text(payload["lock"]), **_read_failed(dataset, payload))


def _read_failed(dataset: str, payload: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return what a mark and any other incident have alike."""
    return {
        "dataset": dataset,
        "at": read_text(payload["at"]),
        "request_digest": read_optional_text(payload["request_digest"]),
        "software": read_text(payload["software"]),
        "identities": read_identities(payload.get("identities")) or frozenset(),
    }


def _read_count(payload: JsonValue) -> int:
    if type(payload) is not int or payload < 0:
        raise TypeError
    return payload
