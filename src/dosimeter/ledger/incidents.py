"""Incidents: failures that stop a dataset (N4). Frozen values; no database, no clock.

A failure inside an engine while a release is measured can depend on one person's cells. So the dataset is stopped for
everybody until a controller clears it: whoever caused the failure learns something once, and not with every query.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from dosimeter.errors import DatasetStopped, LedgerError
from dosimeter.json_values import JsonObject
from dosimeter.ledger.records import check_text
from dosimeter.problems import Command, Option

IncidentKind = Literal["measuring", "lost", "killed", "noise", "unexpected"]
INCIDENT_KINDS: tuple[IncidentKind, ...] = get_args(IncidentKind)

INCIDENT_WORDS: Mapping[IncidentKind, str] = {
    "measuring": "the data could not be measured as the schema declares them",
    "lost": "the connection to the data was lost while they were measured",
    "killed": "the process that measured the data was killed before it had finished",
    "noise": "no noise could be added to the measured numbers, after the charge",
    "unexpected": "an error of the program's own interrupted the measuring",
}
"""Every kind of incident, in words for the controller. A record holds the kind, never the text of an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """An incident: why and when a dataset was stopped, and who cleared it.

    ``entry`` and ``request_digest``: the request that failed; None if there was none. ``identities``: the identities of
    the data, if no account holds these yet; otherwise empty. ``cleared_at``, ``cleared_by`` and ``reason`` (why
    releases may go on) are None while the dataset is stopped.
    """

    dataset: str
    at: str
    kind: IncidentKind
    entry: str | None
    request_digest: str | None
    software: str
    identities: frozenset[str] = frozenset()
    cleared_at: str | None = None
    cleared_by: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        self.to_stop()  # checks them

    @property
    def words(self) -> str:
        """Return what happened, for the controller: one of a few fixed phrases."""
        return INCIDENT_WORDS[self.kind]

    def to_stop(self) -> JsonObject:
        """Return the payload of the record that stops the dataset because of the incident."""
        return write_incident(self.kind, self.software, self.request_digest, self.identities)

    def to_state(self) -> JsonObject:
        """Return an incident that is not cleared as JSON values, for the ledger's record of the dataset's state."""
        return {**self.to_stop(), "at": self.at, "entry": self.entry}

    def describe(self) -> JsonObject:
        """Return the JSON form: when the dataset was stopped, and by what kind of failure."""
        return {"at": self.at, "kind": self.kind}


def write_incident(
    kind: IncidentKind, software: str, request_digest: str | None, identities: frozenset[str] = frozenset()
) -> JsonObject:
    """Return the payload of a record that stops a dataset. Refuse a kind that ``INCIDENT_WORDS`` does not list."""
    if kind not in INCIDENT_KINDS:
        raise LedgerError(f"The kind of an incident must be one of {', '.join(INCIDENT_KINDS)}.")
    check_text(software, "software")
    if request_digest is not None:
        check_text(request_digest, "request_digest")
    payload: JsonObject = {"kind": kind, "request_digest": request_digest, "software": software}
    return payload | ({"identities": sorted(identities)} if identities else {})


def refuse_stopped(dataset: str) -> DatasetStopped:
    """Return the error to raise for a release from a stopped dataset. It says what to do, and not what happened."""
    return DatasetStopped(
        f"{dataset} is stopped: no release is answered until a controller has looked at it and clears it: ",
        Command(
            "ledger LEDGER clear", shlex.quote(dataset), Option("by", text="NAME"), Option("reason", text="TEXT"),
            call=f"Ledger.clear({dataset!r}, by=…, reason=…)",
        ),
    )  # fmt: skip
