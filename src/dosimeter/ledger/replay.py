"""Replay the records of one dataset. Takes records in order; gives its Account, entries and views.

A record that contradicts the ones before it raises BadRecord with the reason.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from dosimeter.errors import InputError
from dosimeter.json_values import JsonObject, read_list, read_object, read_optional_text, read_text
from dosimeter.ledger.accounting import Reading
from dosimeter.ledger.entries import (
    RESERVED,
    SETTLED,
    Entry,
    Request,
    check_choice,
    read_charge,
    read_kept,
    read_reason,
    read_rho,
    read_settled,
)
from dosimeter.ledger.incidents import INCIDENT_KINDS, Incident
from dosimeter.ledger.records import BadRecord, Record, check_text, read_payload
from dosimeter.ledger.values import Account, AccountOpening, Continuation, Pair, read_identities


class View(NamedTuple):
    """One look: at what is measured (version 0.1.0: at a query's text), in which way, and for whose query.

    ``analyst`` is None where it was nobody's in particular.
    """

    digest: str
    what: str
    analyst: str | None


def _read_view(payload: JsonObject, version: int) -> View:
    if version == 1:
        return View(read_text(payload["request_digest"]), read_text(payload["what"]), None)
    return View(read_text(payload["digest"]), read_text(payload["what"]), read_optional_text(payload["analyst"]))


class DatasetReplay:
    """The state of one dataset after the records applied so far."""

    def __init__(self) -> None:
        self._opening: AccountOpening | None = None
        self._opened: Record | None = None
        self._pairs: dict[Pair, None] = {}  # the latest last
        self._latest: Pair = ("", "")
        self._identified: set[Pair] = set()
        self._identities: set[str] = set()
        self._overlaps: dict[str, None] = {}
        self._continuations: list[Continuation] = []
        self._reading: Reading | None = None
        self._entries: dict[str, Entry] = {}
        self._views: set[View] = set()
        self._incidents: list[Incident] = []

    def apply(self, record: Record) -> None:
        payload = read_payload(record)
        try:
            match record.kind:
                case "account":
                    self._open(record, payload)
                case "continue":
                    self._continue(record, payload)
                case "identify":
                    self._identify(record, payload)
                case "reserve":
                    self._reserve(record, payload)
                case "settle":
                    self._settle(record, payload)
                case "stop":
                    self._stop(record, payload)
                case "clear":
                    self._clear(record, payload)
                case "view":
                    self._views.add(_read_view(payload, record.version))
        except (KeyError, TypeError, ValueError, InputError):
            raise BadRecord(record.seq, f"its payload is not that of a record of kind {record.kind}") from None

    def _open(self, record: Record, payload: JsonObject) -> None:
        if self._opening is not None:
            raise BadRecord(record.seq, "it opens an account that is already open")
        self._opening = AccountOpening.from_payload(payload)
        self._opened = record
        self._agree(self._opening.schema_digest, self._opening.source_digest, self._opening.identities)
        self._reading = Reading(delta_total=self._opening.delta_total)

    def _continue(self, record: Record, payload: JsonObject) -> None:
        if self._opening is None:
            raise BadRecord(record.seq, "it continues an account that was never opened")
        continuation = Continuation.from_payload(payload, record.at)
        self._agree(continuation.schema_digest, continuation.source_digest, continuation.identities)
        self._continuations.append(continuation)

    def _agree(self, schema_digest: str, source_digest: str, identities: frozenset[str] | None) -> None:
        self._latest = (schema_digest, source_digest)
        self._pairs.pop(self._latest, None)
        self._pairs[self._latest] = None
        if identities is not None:
            self._identified.add(self._latest)
            self._identities |= identities

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
        """Remember that another account turned out to be of the same data."""
        self._overlaps[dataset] = None

    def _reserve(self, record: Record, payload: JsonObject) -> None:
        if self._reading is None:
            raise BadRecord(record.seq, "it charges an account that was never opened")
        if not record.entry or record.entry in self._entries:
            raise BadRecord(record.seq, "its entry has no name of its own")
        if payload["status"] not in RESERVED:
            raise BadRecord(record.seq, "it reserves with an unknown status")
        charge = read_charge(payload["charge"])
        entry = Entry(
            id=record.entry,
            dataset=record.dataset,
            at=record.at,
            status=check_choice(payload["status"], RESERVED, "The status"),
            spent=charge,
            reading=self._reading.after(charge).epsilon,
            request=Request.from_payload(read_object(payload["request"])),
            viewed=bool(payload["viewed"]),
            told=bool(payload.get("told", payload["viewed"])),
            reason=read_reason(payload.get("reason")),
            kept=read_kept(payload.get("kept")),
            rho=read_rho(payload.get("rho")),
        )
        self._reading = self._reading.after(charge)
        self._entries[entry.id] = entry

    def _settle(self, record: Record, payload: JsonObject) -> None:
        entry = self._entries.get(record.entry)
        if entry is None or entry.status != "reserved":
            raise BadRecord(record.seq, "it settles an entry that is not reserved")
        if payload["status"] not in SETTLED:
            raise BadRecord(record.seq, "it settles with an unknown status")
        self._entries[entry.id] = read_settled(entry, payload, record.version, record.at)

    def _stop(self, record: Record, payload: JsonObject) -> None:
        if record.entry and record.entry not in self._entries:
            raise BadRecord(record.seq, "it stops the dataset for an entry that does not exist")
        self._incidents.append(
            Incident(
                dataset=record.dataset,
                at=record.at,
                kind=check_choice(payload["kind"], INCIDENT_KINDS, "The kind"),
                entry=record.entry or None,
                request_digest=read_optional_text(payload["request_digest"]),
                software=read_text(payload["software"]),
                identities=read_identities(payload.get("identities")) or frozenset(),
            )
        )

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
        """Return the incidents that nobody has cleared, the oldest first."""
        return tuple(incident for incident in self._incidents if incident.cleared_at is None)

    @property
    def stopped(self) -> Incident | None:
        """Return the first incident that nobody has cleared, or None while the dataset answers releases."""
        return next(iter(self.open_incidents), None)

    @property
    def incidents(self) -> tuple[Incident, ...]:
        return tuple(self._incidents)

    @property
    def account(self) -> Account | None:
        if self._opening is None or self._opened is None or self._reading is None:
            return None
        return Account(
            dataset=self._opened.dataset,
            opened_at=self._opened.at,
            policy=self._opening.policy,
            algorithm=self._opening.algorithm,
            delta_total=self._opening.delta_total,
            max_epsilon=self._opening.max_epsilon,
            individuals=self._opening.individuals,
            schema_digest=self._latest[0],
            source_digest=self._latest[1],
            reading=self._reading,
            entries=tuple(self._entries.values()),
            stopped=self.stopped,
            agreed=tuple(self._pairs),
            identified=frozenset(self._identified),
            identities=frozenset(self._identities),
            overlaps=self.overlaps,
            continuations=tuple(self._continuations),
        )

    def find_entry(self, entry_id: str) -> Entry | None:
        return self._entries.get(entry_id)

    def held(self, source_digest: str) -> bool:
        """Return whether the account was ever agreed to be of these data."""
        return any(source_digest == source for _, source in self._pairs)

    def shares(self, identities: frozenset[str]) -> bool:
        """Return whether the account is, or ever was, of one of these stored tables or files."""
        return not self._identities.isdisjoint(identities)

    @property
    def is_unidentified(self) -> bool:
        """Return whether an earlier version opened the account, and its data are not identified yet."""
        return self._opened is not None and self._opened.version == 1 and not self._identified

    def has_view(self, *digests: str | None) -> bool:
        """Return whether somebody looked at what one of these digests stands for."""
        return any(view.digest in digests for view in self._views)

    def has_named_view(self, *digests: str | None, analyst: str | None) -> bool:
        """Return whether somebody looked for this analyst's query, or for nobody's in particular.

        A look at another analyst's query does not count: telling of it would reveal that somebody else asked the same.
        """
        return any(view.digest in digests and view.analyst in (None, analyst) for view in self._views)

    def knows_view(self, digest: str, what: str, analyst: str | None) -> bool:
        return View(digest, what, analyst) in self._views
