"""An analyst's own queries as they see them, on pages and through the API. Reading an answer is recorded."""

from __future__ import annotations

from dosimeter.ledger import Entry
from dosimeter.web.http import Refused, require_found
from dosimeter.web.public import DENIED, PHRASES, NewQuery, PublicQuery, show_answer
from dosimeter.web.state import ServerState
from dosimeter.web.stopped_datasets import tell_analysts
from dosimeter.web.store import QueryStatus, StoredQuery, User, find_own, submit_query, withdraw_query


def find_shown(state: ServerState, user: User, query_id: str) -> PublicQuery:
    """Return one of the analyst's own queries, with its answer. Raises Refused if there is none with this id.

    Records that the answer was read, once per session.
    """
    query = find_own(state.database, user, query_id) if query_id.isalnum() else None
    return show_own(state, user, require_found(query, "There is no such query."))


def show_own(state: ServerState, user: User, query: StoredQuery) -> PublicQuery:
    """Return a query with its answer, and record that the answer was read, once per session."""
    if query.status is not QueryStatus.RELEASED:
        return show_query(query, None, stopped=tell_analysts(state, query.dataset))
    state.note_once(user, "read an answer", dataset=query.dataset, query_id=query.id)
    return show_query(query, state.entry(query.entry_id))


def submit_own(state: ServerState, user: User, query: NewQuery) -> str:
    """Store a query of the analyst and return its id. Raises LimitError if they have too many."""
    most, each_minute = state.settings.open_queries, state.settings.queries_per_minute
    return submit_query(state.database, user, query, most=most, each_minute=each_minute)


def withdraw_own(state: ServerState, user: User, query_id: str) -> None:
    """Withdraw one of the analyst's own queries. Raises Refused if there is none with this id, or it is decided."""
    find_shown(state, user, query_id)
    if not withdraw_query(state.database, user, query_id):
        raise Refused(409, "decided", "This query is decided, or was withdrawn before.")


def show_query(query: StoredQuery, entry: Entry | None, *, stopped: str = "") -> PublicQuery:
    """Return a stored query as its analyst sees it.

    While its release is under way, or if that was interrupted, it is shown as waiting. ``entry``: the ledger's entry
    with its answer. ``stopped``: the sentence about a stopped dataset, or "".
    """
    status = query.seen_as
    message: str | None = None
    match status:
        case "waiting":
            message = stopped or None
        case "denied":
            message = DENIED
        case "changes":
            message = PHRASES.get(query.phrase or "", "Please revise the query.")
    return PublicQuery(
        id=query.id,
        dataset=query.dataset,
        sql=query.sql,
        purpose=query.purpose,
        priority=query.priority,
        wanted_error=query.wanted_error,
        status=status,
        created_at=query.created_at,
        message=message,
        answer=None if status != "released" or entry is None else show_answer(entry),
    )
