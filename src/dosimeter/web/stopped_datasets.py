"""Datasets that an incident stopped (N4): what controllers and analysts are told, and how a stop is cleared.

Analysts read one sentence, the same for all. It says neither when the dataset was stopped, nor what failed, nor at
which query. Controllers read when it happened and what kind of failure it was; the ledger holds no more.
"""

from __future__ import annotations

from dosimeter.errors import LedgerError
from dosimeter.ledger import Incident
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.store import User, note

SENTENCE = "Answers from this dataset are stopped until a controller has looked at it."
REFUSED = "This dataset is stopped: a release from it failed. Clear the incident first."
"""What controllers read wherever something is not done because of it."""


def tell_analysts(state: ServerState, dataset: str) -> str:
    """Return the sentence that analysts read about a stopped dataset; "" if it is not stopped."""
    return SENTENCE if state.is_stopped(dataset) else ""


def list_incidents(state: ServerState) -> list[tuple[ServedDataset, tuple[Incident, ...]]]:
    """Return every dataset that ever had an incident, cleared or not, with its incidents, newest first."""
    seen = [(served, state.database.ledger.incidents(served.schema.account_name)) for served in state.known]
    return [(served, incidents[::-1]) for served, incidents in seen if incidents]


def clear_incident(state: ServerState, served: ServedDataset, user: User, reason: str) -> None:
    """Clear a dataset's incident in the ledger, and write that into the audit log.

    Raises LedgerError if the dataset is not stopped. ``reason``: why the controller clears it.
    """
    try:
        state.database.ledger.clear(served.schema.account_name, by=user.name, reason=reason)
    except LedgerError:
        state.forget(served.name)
        if state.is_stopped(served.name):
            raise
        raise LedgerError("This dataset is not stopped: somebody cleared it before.") from None
    state.forget(served.name)
    note(state.database, user.name, "cleared an incident", dataset=served.name, detail=reason)
