"""What analysts read: the page of one query with its answer, released answers, CSV files and printable records."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from dosimeter.errors import DosimeterError
from dosimeter.ledger import Entry
from dosimeter.release import write_record
from dosimeter.risk import parse_preference
from dosimeter.web.answer_view import view_answer, write_csv
from dosimeter.web.decision import word_condition
from dosimeter.web.http import (
    Analyst,
    Controller,
    Refused,
    StateOf,
    render_public,
    require_dataset,
    require_found,
    require_some_dataset,
    send_file,
)
from dosimeter.web.own_queries import find_shown
from dosimeter.web.public import AnswerShape, PublicQuery, PublicRelease, ShownAnswer
from dosimeter.web.question import describe_question
from dosimeter.web.released import describe_shape, find_release, list_released, note_listing
from dosimeter.web.state import ServerState
from dosimeter.web.store import StoredQuery, User, find_by_entry, find_own, note

router = APIRouter()
PAGE = 20
FEW_ROWS = 12  # of an answer in a list of answers
FirstRow = Annotated[int, Query(ge=1, le=1_000_000, alias="from")]
EntryId = Annotated[str, Path(max_length=64, pattern="^[0-9a-f]+$")]


@router.get("/queries/{query_id}")
def show_one(request: Request, state: StateOf, user: Analyst, query_id: str, first: FirstRow = 1) -> Response:
    return _query_page(request, state, user, query_id, "query.html", first)


@router.get("/queries/{query_id}/status")
def show_status(request: Request, state: StateOf, user: Analyst, query_id: str) -> Response:
    return _query_page(request, state, user, query_id, "fragments/status.html")


def _query_page(
    request: Request, state: ServerState, user: User, query_id: str, template: str, first: int = 1
) -> Response:
    query = find_shown(state, user, query_id)
    view: ShownAnswer | None = None
    if query.answer is not None:
        view = view_answer(query.answer, _find_shape(state, query), first=first)
    return render_public(request, template, user, query=query, view=view)


def _find_shape(state: ServerState, query: PublicQuery) -> AnswerShape:
    """Return which columns of the answer carry noise, and whether there are groups.

    For a query without an answer, return the defaults of AnswerShape at once, without planning the query. Planning is
    quicker once a controller has opened the query, so its time would tell an analyst that somebody did.
    """
    served = state.datasets.get(query.dataset) if query.answer is not None else None
    shape = None if served is None else describe_shape(served, query.sql)
    return shape or AnswerShape()


@router.get("/queries/{query_id}/answer.csv")
def download_answer(state: StateOf, user: Analyst, query_id: str) -> Response:
    """Send the answer of one's own query as CSV: every row and every digit."""
    query = find_shown(state, user, query_id)
    answer = require_found(query.answer, "There is no answer to this query.")
    return send_file(write_csv(answer, _find_shape(state, query)), f"answer-{query.id[:8]}.csv")


@router.get("/queries/{query_id}/record")
def show_record(state: StateOf, user: Analyst, query_id: str) -> Response:
    """Show the printable page about the answer of one's own query."""
    query = find_own(state.database, user, query_id) if query_id.isalnum() else None
    entry = None if query is None else state.entry(query.entry_id)
    if query is None or entry is None or find_shown(state, user, query_id).answer is None:
        raise Refused(404, "not_found", "There is no answer to this query.")
    return send_record(write_record(_keep_public(entry, query), None, None))


def _keep_public(entry: Entry, query: StoredQuery) -> Entry:
    """Return an entry as the analyst of ``query`` may read it: the answer, with their own SQL, name, purpose and times.

    If an earlier answer was given again, the entry names whoever asked first; this analyst must not learn who. Left
    out is what no page tells an analyst: the preference, the threshold τ of the noisy test, and who approved.
    """
    settings = {name: value for name, value in entry.request.settings.items() if name != "approved_by"}
    request = replace(
        entry.request,
        query=query.sql,
        analyst=query.analyst,
        purpose=query.purpose,
        preference=None,
        tau=None,
        settings=settings,
    )
    asked, answered = (_cut_to_second(moment) for moment in (query.created_at, query.changed_at))
    return replace(entry, request=request, at=asked, settled_at=answered)


def _cut_to_second(moment: str) -> str:
    """Return a stored time in the ledger's form, cut to seconds: 2026-01-31T12:00:00Z."""
    return f"{moment[:19]}Z"


@router.get("/records/{entry_id}")
def show_full_record(state: StateOf, user: Controller, entry_id: EntryId, private: bool = False) -> Response:
    """Show controllers the printable page about an entry; ``private``: with what only they may see.

    The page of a denial is always private.
    """
    entry = require_found(state.entry(entry_id), "There is no such entry.")
    shared = private or entry.status == "denied"
    note(state.database, user.name, "viewed record", dataset=entry.dataset, detail=entry_id)
    account = state.database.ledger.summary(entry.dataset) if shared else None
    decision = _list_decision(state, entry) if shared else []
    return send_record(write_record(entry, account, state.verify()[1], controller=shared, decision=decision))


def _list_decision(state: ServerState, entry: Entry) -> list[tuple[str, str]]:
    """Return how a controller came to an answer, as pairs of a title and a text.

    They tell the question in words, when it was asked and decided, the preference in words, and the reason.
    Empty for an entry that no query of this server led to.
    """
    query = find_by_entry(state.database, entry.id)
    if query is None:
        return []
    facts = [("Asked on", _cut_to_second(query.created_at)), ("Decided on", _cut_to_second(query.changed_at))]
    try:
        question = describe_question(require_dataset(state, query.dataset).prepare(query.sql))
        if question.words:
            facts.insert(0, ("The question in words", question.words))
    except (DosimeterError, Refused):  # the schema no longer allows it, or the dataset is not served any more
        pass
    told = "" if query.preference is None else word_condition(parse_preference(query.preference))
    if told:
        facts.append(("The rule in words", told))
    return [*facts, ("Reason given", query.reason or "none")]


def send_record(page: str) -> Response:
    """Send a printable page, which is HTML with its own style. The browser may load and run nothing else."""
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(page, headers={"Content-Security-Policy": policy})


# ---------------------------------------------------------------- released answers, whoever asked for them


@router.get("/answers")
def show_answers(
    request: Request,
    state: StateOf,
    user: Analyst,
    dataset: Annotated[str, Query(max_length=200)] = "",
    before: Annotated[str | None, Query(max_length=64, pattern="^[0-9a-f]+$")] = None,
) -> Response:
    """Show the released answers of a dataset, without names and purposes; of a long answer its first rows."""
    served = require_dataset(state, dataset) if dataset else require_some_dataset(state, "")
    listed = list_released(state, served, limit=PAGE, before=before)
    note_listing(state, user, listed)
    views = [view_answer(item.answer, item.shape, most=FEW_ROWS) for item in listed.answers]
    return render_public(
        request, "answers.html", user, names=list(state.datasets), dataset=served.name, listed=listed, views=views,
        later=before is not None,
    )  # fmt: skip


@router.get("/answers/{dataset}/{entry_id}")
def show_answer(
    request: Request, state: StateOf, user: Analyst, dataset: str, entry_id: EntryId, first: FirstRow = 1
) -> Response:
    """Show one released answer, in parts."""
    item = _require_release(state, user, dataset, entry_id)
    view = view_answer(item.answer, item.shape, first=first)
    return render_public(request, "answer.html", user, item=item, view=view)


@router.get("/answers/{dataset}/{entry_id}/answer.csv")
def download_released(state: StateOf, user: Analyst, dataset: str, entry_id: EntryId) -> Response:
    """Send one released answer as CSV."""
    item = _require_release(state, user, dataset, entry_id)
    return send_file(write_csv(item.answer, item.shape), f"answer-{entry_id[:8]}.csv")


def _require_release(state: ServerState, user: User, dataset: str, entry_id: str) -> PublicRelease:
    found = require_found(find_release(state, require_dataset(state, dataset), entry_id), "There is no such answer.")
    state.note_once(user, "read a released answer", dataset=dataset, detail=entry_id)
    return found
