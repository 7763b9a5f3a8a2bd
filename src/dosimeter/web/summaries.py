"""A dataset's table about every column, on the web: the query for it, and the latest answer as every analyst sees it.

The query is an ordinary one: it waits, is decided and released like any other. It is known by its text, which the
schema alone determines.
"""

from __future__ import annotations

from dosimeter.errors import InputError
from dosimeter.release import recall_answer
from dosimeter.summary import HEADINGS, list_cells, list_notes, read_summary, write_summary
from dosimeter.web.public import NewQuery, PublicSummary
from dosimeter.web.released import find_release
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.store import OPEN, QueryStatus, StoredQuery, find_latest

PURPOSE = "To know what is in the table"


def make_query(served: ServedDataset) -> NewQuery:
    """Return the query for a dataset's summary. Raises OptionError where the schema has none, or too many columns.

    It may be longer than what people may write.
    """
    return NewQuery.model_construct(dataset=served.name, sql=write_summary(served.schema), purpose=PURPOSE)


def find_waiting(state: ServerState, served: ServedDataset) -> StoredQuery | None:
    """Return the latest query for the dataset's summary that waits, whoever asked. For controllers."""
    return find_latest(state.database, served.name, make_query(served).sql, OPEN)


def find_summary(state: ServerState, served: ServedDataset) -> PublicSummary | None:
    """Return the latest released summary of a dataset; None if there is none by its present schema."""
    try:
        sql = make_query(served).sql
        query = find_latest(state.database, served.name, sql, {QueryStatus.RELEASED})
        entry = None if query is None else state.entry(query.entry_id)
        if entry is None or find_release(state, served, entry.id) is None:
            return None
        prepared = served.prepare(sql)
    except InputError:
        return None
    found = read_summary(prepared.plan, prepared.mechanism, recall_answer(entry))
    rows = [list(list_cells(found, column)) for column in found.columns]
    return PublicSummary(
        dataset=served.name, entry=entry.id, headings=list(HEADINGS), rows=rows, notes=list_notes(found)
    )
