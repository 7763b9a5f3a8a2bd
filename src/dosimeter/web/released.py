"""The released answers of a dataset, for every analyst who may ask it: what was asked and answered, not by whom or why.

A released answer is public. If it were hidden from colleagues, an answer "from the ledger" would tell whoever asks the
same query that somebody asked it before; listed for all, it tells nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dosimeter.errors import InputError
from dosimeter.ledger import Entry, Ledger
from dosimeter.planning import write_plainly
from dosimeter.release import holds_facts
from dosimeter.web.public import AnswerShape, PublicRelease, PublicReleases, show_answer, show_shape
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.store import User, note

MOST_LISTED = 100


def list_released(
    state: ServerState, served: ServedDataset, *, limit: int, before: str | None = None
) -> PublicReleases:
    """Return the latest released answers of a dataset, newest first, at most ``limit``.

    ``before``: only those older than the entry with this id.
    """
    shown: list[PublicRelease] = []
    for entry in _list_backwards(state.database.ledger, served.schema.account_name, limit + 1, before):
        found = _show_release(state, served, entry)
        if found is not None and len(shown) == limit:
            return PublicReleases(answers=shown, following=shown[-1].entry)
        if found is not None:
            shown.append(found)
    return PublicReleases(answers=shown, following=None)


def find_release(state: ServerState, served: ServedDataset, entry_id: str) -> PublicRelease | None:
    """Return the released answer of a dataset with this entry id; None if there is none."""
    entry = state.entry(entry_id)
    if entry is None or entry.dataset != served.schema.account_name:
        return None
    return _show_release(state, served, entry)


def _list_backwards(ledger: Ledger, account: str, first: int, before: str | None) -> Iterator[Entry]:
    """Yield the entries of an account, newest first; with ``before``, only those older than that entry.

    They are read in pages, the first of ``first`` entries and each next one twice as long. Few pages are best: for each
    one the ledger follows its chain, from the oldest entry of the page to the end.
    """
    size = first
    while page := ledger.entries(account, size, before=before):
        yield from page
        if len(page) < size:
            return
        before, size = page[-1].id, 2 * size


def _show_release(state: ServerState, served: ServedDataset, entry: Entry) -> PublicRelease | None:
    """Return what every analyst may see of an entry; None if it has no answer, or belongs to another table."""
    answer = show_answer(entry) if entry.status == "released" else None
    if answer is None:
        return None
    shape = None if holds_facts(entry) else describe_shape(served, entry.query)
    # the query is on another table with the same account, or was planned by an earlier schema
    others = sum(other.schema.account_name == served.schema.account_name for other in state.datasets.values()) > 1
    if shape is None and served.schema.found != entry.id and others:
        return None
    return PublicRelease(
        entry=entry.id,
        dataset=served.name,
        sql=entry.query if holds_facts(entry) else _write_query(entry.query),
        answer=answer,
        **(shape or AnswerShape()).model_dump(),
    )


def describe_shape(served: ServedDataset, sql: str) -> AnswerShape | None:
    """Return the shape of a query's answer, by SQL and schema alone; None if the schema no longer admits the query."""
    try:
        return show_shape(served.prepare(sql).plan)
    except InputError:
        return None


def _write_query(sql: str) -> str:
    """Return a query without comments and in a uniform layout: comments and layout could reveal who wrote it."""
    try:
        return write_plainly(sql)
    except InputError:
        return " ".join(re.sub(r"--[^\n]*|/\*.*?\*/", " ", sql, flags=re.DOTALL).split())


def note_listing(state: ServerState, user: User, listed: PublicReleases) -> None:
    """Record that somebody was shown a list of released answers.

    In the same session, a list is recorded again only if it begins with another answer. An empty list is not recorded.
    """
    if listed.answers and state.remember_first("listed", user.session, listed.answers[0].entry):
        dataset = listed.answers[0].dataset
        note(state.database, user.name, "read released answers", dataset=dataset, detail=str(len(listed.answers)))
