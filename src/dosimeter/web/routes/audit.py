"""The audit log: who saw and did what, in parts, by user, day and words; and as files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator

from dosimeter.web.csv_lines import write_csv_line
from dosimeter.web.http import Controller, StateOf, Words, render, send_file
from dosimeter.web.public import check_text
from dosimeter.web.state import ServerState
from dosimeter.web.store import AuditFilter, AuditRecord, find_texts, follow_log, list_audit, note, read_head

router = APIRouter()
PAGE = 100
COLUMNS = ("id", "at", "user", "action", "dataset", "query_id", "detail")  # of a file
LOOKS = ("viewed", "chose to look")


async def read_filter(
    who: Annotated[str, Query(max_length=64), AfterValidator(check_text)] = "",
    day: Annotated[str, Query(max_length=10, pattern=r"^(\d{4}-\d{2}-\d{2})?$")] = "",
    text: Words = "",
) -> AuditFilter:
    """Return which records a page or a file has."""
    return AuditFilter(who, day, text)


Only = Annotated[AuditFilter, Depends(read_filter)]


@router.get("/audit")
def show_audit(
    request: Request,
    state: StateOf,
    user: Controller,
    only: Only,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
) -> Response:
    entries = list_audit(state.database, limit=PAGE, before=before, only=only)
    asked = {name: value for name, value in asdict(only).items() if value}
    earlier = urlencode({**asked, "before": entries[-1].id}) if len(entries) == PAGE else ""
    count, head = read_head(state.database)
    return render(
        request, "audit.html", user, lines=_fold(entries), only=only, count=count, head=head, earlier=earlier,
        texts=find_texts(state.database, {entry.query_id for entry in entries if entry.query_id}),
        latest=urlencode(asked) if before else None, asked=urlencode(asked),
    )  # fmt: skip


def _fold(entries: Sequence[AuditRecord]) -> list[list[AuditRecord]]:
    """Return lines of records, newest first; looks that follow each other share a line if ``_belongs`` says so."""
    lines: list[list[AuditRecord]] = []
    for entry in entries:
        if lines and _belongs(entry, lines[-1][-1]):
            lines[-1].append(entry)
        else:
            lines.append([entry])
    return lines


def _belongs(entry: AuditRecord, newer: AuditRecord) -> bool:
    """Return whether both records are looks of one person at one query, in the same hour of the clock."""
    looks = all(each.action.startswith(LOOKS) for each in (entry, newer)) and entry.query_id is not None
    return looks and (entry.user, entry.query_id, entry.at[:13]) == (newer.user, newer.query_id, newer.at[:13])


@router.get("/audit/export.jsonl")
def export_whole(state: StateOf, user: Controller) -> Response:
    """Send the log as JSON lines, oldest first, as ``dosimeter audit export`` writes it: it can be verified.

    If a record was altered, the file ends before it, without a message.
    """
    note(state.database, user.name, "exported the audit log")
    lines = (record.to_json_line() + "\n" for record in follow_log(state.database))
    return send_file(lines, "audit.jsonl")


@router.get("/audit/export.csv")
def export_part(state: StateOf, user: Controller, only: Only) -> Response:
    """Send the records that the filter lets through as CSV, newest first."""
    named = {"who": only.who, "day": only.day, "words": only.text}
    fits = ", ".join(f"{name} {value}" for name, value in named.items() if value)
    note(state.database, user.name, "exported the audit log", detail=fits)
    return send_file(_write_csv(state, only), "audit.csv")


def _write_csv(state: ServerState, only: AuditFilter) -> Iterator[str]:
    yield write_csv_line(COLUMNS)
    before: int | None = None
    while entries := list_audit(state.database, limit=1_000, before=before, only=only):
        for entry in entries:
            yield write_csv_line([getattr(entry, name) for name in COLUMNS])
        before = entries[-1].id
