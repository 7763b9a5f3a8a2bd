"""A query as it is stored, and what its status may become. Values only: ``queries`` reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import cast

import sqlalchemy as sa

from dosimeter.web.public import Priority, PublicStatus


class QueryStatus(StrEnum):
    """How far a query has come. Analysts see it as waiting while its approval is under way or was interrupted."""

    WAITING = "waiting"
    APPROVING = "approving"  # claimed by an approval; its release is under way
    INTERRUPTED = "interrupted"  # charged, and without an answer
    RELEASED = "released"
    DENIED = "denied"
    CHANGES = "changes"  # sent back to its analyst with a request for changes
    WITHDRAWN = "withdrawn"

    @property
    def undecided(self) -> bool:
        """Return whether a controller can decide the query now."""
        return self in UNDECIDED

    @property
    def open(self) -> bool:
        """Return whether the query counts as waiting, in the queue and for its analyst."""
        return self in OPEN

    @property
    def following(self) -> frozenset[QueryStatus]:
        """Return the statuses that may follow this one."""
        return _FOLLOWING[self]


UNDECIDED = frozenset({QueryStatus.WAITING, QueryStatus.INTERRUPTED})
OPEN = UNDECIDED | {QueryStatus.APPROVING}
_DECISIONS = frozenset({QueryStatus.APPROVING, QueryStatus.RELEASED, QueryStatus.DENIED, QueryStatus.CHANGES})
_FOLLOWING: Mapping[QueryStatus, frozenset[QueryStatus]] = {
    QueryStatus.WAITING: _DECISIONS | {QueryStatus.WITHDRAWN},
    QueryStatus.INTERRUPTED: _DECISIONS | {QueryStatus.WITHDRAWN},
    QueryStatus.APPROVING: UNDECIDED | {QueryStatus.RELEASED, QueryStatus.DENIED, QueryStatus.WITHDRAWN},
    QueryStatus.CHANGES: frozenset({QueryStatus.WITHDRAWN}),
    QueryStatus.RELEASED: frozenset(),
    QueryStatus.DENIED: frozenset(),
    QueryStatus.WITHDRAWN: frozenset(),
}


@dataclass(frozen=True, slots=True, repr=False)
class StoredQuery:
    """One query with the names of its analyst and of whoever decided it (``decider``; ``decided_by`` is their id).

    ``phrase``: the key of the words that ask for changes. ``looked``: the risk was shown to a controller. ``claim``:
    the reference that the ledger's entry carries. ``epsilon`` and ``preference``: as approved. ``reason``: why it was
    decided so. ``note``: what became of an approval. ``withdrawal``: its analyst withdrew it.
    """

    id: str
    dataset: str
    analyst: str
    sql: str
    purpose: str
    priority: Priority
    wanted_error: float | None
    status: QueryStatus
    created_at: str
    changed_at: str
    phrase: str | None
    looked: bool
    claim: str | None
    decided_by: str | None
    decider: str | None
    epsilon: str | None
    preference: str | None
    reason: str | None
    note: str | None
    entry_id: str | None
    withdrawal: bool

    @classmethod
    def from_row(cls, row: sa.RowMapping) -> StoredQuery:
        values = {field.name: row[field.name] for field in fields(cls)}
        return cls(**values | {"status": QueryStatus(row["status"])})

    @property
    def seen_as(self) -> PublicStatus:
        """Return the status as analysts see it: every open query waits, even while it is being released."""
        if self.status.open:
            return "withdrawn" if self.withdrawal else "waiting"
        return cast("PublicStatus", self.status.value)  # all others have the same name for analysts

    def __repr__(self) -> str:
        return f"StoredQuery({self.id}, {self.status})"
