"""Datasets that an incident stopped (N4): what controllers and analysts are told, and how a stop is cleared.

Analysts read one sentence, the same for everybody: not when, nor what failed, nor at which query. Controllers read when
and what kind of failure it was; the ledger holds no more.
"""

from __future__ import annotations

from dosimeter.errors import LedgerError
from dosimeter.ledger import Incident
from dosimeter.web.state import Desk, Office
from dosimeter.web.store import User, note

SENTENCE = "Answers from this dataset are stopped until a controller has looked at it."
REFUSED = "This dataset is stopped, so nothing is released from it. Clear the incident first."


def tell_analysts(office: Office, dataset: str) -> str:
    """Return the one sentence about a stopped dataset; empty while it answers."""
    return SENTENCE if office.is_stopped(dataset) else ""


def list_incidents(office: Office) -> list[tuple[Desk, tuple[Incident, ...]]]:
    """Return every dataset with an incident, cleared or not; the newest incident first."""
    seen = [(desk, office.database.ledger.incidents(desk.schema.account_name)) for desk in office.desks.values()]
    return [(desk, incidents[::-1]) for desk, incidents in seen if incidents]


def clear_incident(office: Office, desk: Desk, user: User, reason: str) -> None:
    """End the stop of a dataset, in the ledger and then in the audit log. Raises LedgerError if it is not stopped."""
    try:
        office.database.ledger.clear(desk.schema.account_name, by=user.name, reason=reason)
    except LedgerError:
        office.forget(desk.name)
        if office.is_stopped(desk.name):
            raise
        raise LedgerError("This dataset is not stopped: somebody cleared it before.") from None
    office.forget(desk.name)
    note(office.database, user.name, "cleared an incident", dataset=desk.name, detail=reason)
