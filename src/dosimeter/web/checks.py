"""Check whether a query can be answered, by its text and the schema alone, so that every reason may be explained.

A trial shows what the answer would look like, on invented rows. Both cost time, and any analyst may ask for them. So
they run in a few processes of their own, where each is ended when it takes too much, or when nobody waits for it any
more. There is one per analyst at a time. A check uses nothing that another analyst's check left behind: how long it
takes tells nobody what others ask.
"""

from __future__ import annotations

import asyncio
import html
import json
import pickle
import re
from collections.abc import Awaitable, Callable
from typing import Any

from dosimeter.errors import InputError, LimitError, QueryError
from dosimeter.options import LookOptions
from dosimeter.planning import explain_plan
from dosimeter.postprocess import note_public_facts
from dosimeter.problems import Audience, Surface
from dosimeter.release import Fixed, ReleaseOrder, answer_on_invented_rows, prepare_release
from dosimeter.schema import Schema, count_most_rows, read_schema
from dosimeter.sql import quote_text, write_name
from dosimeter.web.check_processes import PendingCheck, answer_each
from dosimeter.web.expected import expect_errors, find_needed
from dosimeter.web.public import (
    Example,
    PublicCheck,
    PublicDataset,
    PublicTrial,
    find_odd_letter,
    show_outcome,
    show_shape,
)
from dosimeter.web.query_planner import TOO_LARGE, QueryPlanner

BUSY = "Another check of yours is still running. Try again in a moment."
GRACE = 0.5  # seconds that a check goes on when nobody waits for it: most end sooner than a process can be replaced
INVENTED_ROWS = 1_000
TOO_MUCH = (
    "On invented rows this query takes too long, or too much memory, to show what its answer would look like. It can "
    "be submitted all the same."
)
Begin = Callable[[str, float | None], PendingCheck]
RunCheck = Callable[..., Awaitable[PublicCheck]]
"""``CheckQueue.check`` for one request, with which its checks end."""
RunTrial = Callable[..., Awaitable[PublicTrial]]
"""``CheckQueue.try_out`` for one request, with which its trials end."""


class CheckQueue:
    """The checks and trials that are under way, by analyst. Used from the server's event loop alone."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Future[bytes | None]] = {}
        self._newest: dict[str, object] = {}

    async def check(
        self,
        user_id: str,
        begin: Begin,
        sql: str,
        *,
        patience: float,
        wanted: float | None = None,
        gone: Callable[[], Awaitable[object]],
    ) -> PublicCheck:
        """Return the check of a query. ``wanted``: the error that would be good enough for the analyst.

        ``begin``: begins a check in another process. Everything else is as for ``run``.
        """
        reply = await self.run(user_id, lambda: begin(sql, wanted), patience=patience, gone=gone)
        return _refuse(TOO_LARGE) if reply is None else PublicCheck.model_validate_json(reply)

    async def try_out(
        self,
        user_id: str,
        begin: Callable[[], PendingCheck],
        *,
        patience: float,
        gone: Callable[[], Awaitable[object]],
    ) -> PublicTrial:
        """Return the answer that a query has on invented rows. ``begin``, ``patience`` and ``gone``: as for ``run``."""
        reply = await self.run(user_id, begin, patience=patience, gone=gone)
        return PublicTrial(problem=TOO_MUCH) if reply is None else PublicTrial.model_validate_json(reply)

    async def run(
        self,
        user_id: str,
        begin: Callable[[], PendingCheck],
        *,
        patience: float,
        gone: Callable[[], Awaitable[object]],
    ) -> bytes | None:
        """Return the reply of another process; None if it took too much. ``begin``: asks it.

        Waits at most ``patience`` seconds for the same user's previous check. Raises LimitError if that one is not done
        by then, or if a newer check of this user came meanwhile. ``gone``: returns when nobody waits for the reply any
        more; the process is then ended.
        """
        clock, me = asyncio.get_running_loop(), object()
        self._newest[user_id] = me
        deadline = clock.time() + patience
        try:
            while (before := self._running.get(user_id)) is not None:
                left = deadline - clock.time()
                if left <= 0 or self._newest.get(user_id) is not me:
                    raise LimitError(BUSY)
                await asyncio.wait([before], timeout=left)
            if self._newest.get(user_id) is not me:
                raise LimitError(BUSY)
            pending = begin()
            running = asyncio.wrap_future(pending.result)
            self._running[user_id] = running
            running.add_done_callback(lambda _: self._running.pop(user_id, None))
            return await _wait_until_gone(pending, running, gone)
        finally:
            if self._newest.get(user_id) is me:
                del self._newest[user_id]


async def _wait_until_gone(
    pending: PendingCheck, running: asyncio.Future[bytes | None], gone: Callable[[], Awaitable[object]]
) -> bytes | None:
    """Return the check's reply; None if it took too much. End the check if its request ends first.

    Raises LimitError if nobody waits for the reply, and DosimeterError if the server is stopping.
    """
    watching = asyncio.ensure_future(gone())
    both: list[asyncio.Future[Any]] = [running, watching]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await asyncio.wait([running], timeout=GRACE)
        if not running.done():
            raise LimitError(BUSY)
    finally:
        watching.cancel()
        if not running.done():
            pending.stop()
    return pending.wait()


def answer_requests() -> None:
    """Answer requests for checks and trials, in a process for checks."""
    _load_libraries()
    answer_each(_answer)


def _load_libraries() -> None:
    """Load what checks and trials need: when it is first needed, memory is limited, and libraries reserve much more
    than they use.
    """
    facts = read_schema({"table": "t", "individuals": 1, "reviewed": True, "columns": {"a": {"type": "boolean"}}})
    order = ReleaseOrder(Fixed(1.0))
    sql = "SELECT a, COUNT(*) FROM t GROUP BY a ORDER BY 2"
    answer_on_invented_rows(prepare_release(facts, sql, LookOptions(), order), facts, 1)


def _answer(planner: bytes, request: bytes) -> bytes:
    sql, wanted, *tried = json.loads(request)
    if tried:
        return try_query(pickle.loads(planner), sql, *tried).model_dump_json().encode()
    return check_query(pickle.loads(planner), sql, wanted).model_dump_json().encode()


def count_invented(schema: Schema) -> int:
    """Return how many invented rows a dataset's own table has, where analysts try SQL."""
    return min(INVENTED_ROWS, count_most_rows(schema))


def try_query(planner: QueryPlanner, sql: str, epsilon: float) -> PublicTrial:
    """Return the answer that a query has on invented rows, with noise as at this ε. Never touches the data."""
    rows = count_invented(planner.schema)
    try:
        prepared = planner.plan_anew(sql, ReleaseOrder(Fixed(epsilon)))
        answer = answer_on_invented_rows(prepared, planner.schema, rows)
    except InputError as error:
        return PublicTrial(problem=_for_analysts(error))
    return PublicTrial(answer=show_outcome(answer), shape=show_shape(prepared.plan), rows=rows)


def _refuse(message: str, clause: str | None = None, place: tuple[int, int] | None = None) -> PublicCheck:
    return PublicCheck(answerable=False, message=message, clause=clause, place=place, measures=[], groups=None)


def check_query(planner: QueryPlanner, sql: str, wanted: float | None = None) -> PublicCheck:
    """Return whether a query can be answered: with which errors, or why not. Never touches the data.

    ``wanted``: the error that would be good enough; the check then names the ε that gives it, if one does.
    """
    if not sql.strip():
        return _refuse("Write a query.")
    odd = find_odd_letter(sql)
    if odd:
        return _refuse(odd)
    try:
        prepared = planner.plan_anew(sql)
    except QueryError as error:
        return _refuse(_for_analysts(error), error.clause, find_clause(sql, error.clause, error.at))
    except InputError as error:
        return _refuse(_for_analysts(error))
    plan = prepared.plan
    if plan.singled_out and not planner.settings.allow_identifying:
        name, clause = plan.singled_out[0]
        words = (
            f"{clause} asks about single persons: {name} identifies people. Ask about something that many people "
            "share, or count persons with COUNT(DISTINCT …)."
        )
        return _refuse(words, clause, find_clause(sql, clause))
    facts, expected = explain_plan(plan, advise=False), expect_errors(prepared)
    if wanted is not None:
        needed = find_needed(prepared, wanted, planner.candidates)
        expected = expected.model_copy(update={"wanted": wanted, "needed": needed})
    names = [measure.measure for measure in facts.measures]
    return PublicCheck(
        answerable=True, message="This can be answered.", clause=None, measures=names, groups=facts.groups,
        notes=list(facts.notes), about=list(note_public_facts(plan)), expected=expected,
    )  # fmt: skip


def _for_analysts(error: InputError) -> str:
    """Return the message without the hints that only a controller can act on.

    If there are such hints, a sentence in their place tells the analyst to ask the controller, or to change the query.
    """
    message = error.word(Surface.WEB, Audience.ANALYST)
    if not error.problem.hides_hint_from(Audience.ANALYST):
        return message
    theirs = "Only the controller can change that: the schema is theirs."
    return f"{message} {theirs} Ask them to, or write the query differently."


def underline(sql: str, place: tuple[int, int] | None) -> str:
    """Return the SQL as HTML, with what stands in this place marked."""
    if place is None:
        return html.escape(sql)
    start, end = place
    return f"{html.escape(sql[:start])}<mark>{html.escape(sql[start:end])}</mark>{html.escape(sql[end:])}"


def find_clause(sql: str, clause: str | None, at: int | None = None) -> tuple[int, int] | None:
    """Return where a clause stands in the SQL: where it begins and ends; None if it is not found.

    Case and blanks do not matter. ``at``: where a name of the clause stands; of several places, the one around it is
    returned, otherwise the first. A clause that is written differently is found by the word there, or by its own first.
    """
    parts = re.findall(r"\w+|[^\w\s]", clause or "")
    if not parts:
        return None
    found = [each.span() for each in re.finditer(r"\s*".join(map(_whole, parts)), sql, flags=re.IGNORECASE)]
    around = [span for span in found if at is not None and span[0] <= at < span[1]]
    if around or found:
        return (around or found)[0]
    word = None if at is None else re.compile(r"\w+|\"[^\"]*\"").match(sql, at)
    if word is None and len(parts) > 1:
        word = re.search(_whole(parts[0]), sql, flags=re.IGNORECASE)
    return None if word is None else word.span()


def _whole(part: str) -> str:
    """Return a pattern for a word or a sign: a word is not found inside a longer one."""
    return rf"\b{part}\b" if part[0].isalnum() or part[0] == "_" else re.escape(part)


def write_examples(dataset: PublicDataset) -> list[Example]:
    """Return queries that can be answered on this dataset, made from the columns of its schema."""
    table = write_name(dataset.name)
    plain = [column for column in dataset.columns if not column.identifying]
    groups = next((column for column in plain if column.values and len(column.values) <= 50), None)
    number = next((column for column in plain if column.bounds and column.type in ("integer", "decimal")), None)
    whole = next((column for column in plain if column.bounds and column.type == "integer"), None)
    found = [Example(title="How many there are", sql=f"SELECT COUNT(*) FROM {table}")]
    if groups is not None and groups.values:
        name, value = write_name(groups.name), quote_text(groups.values[0])
        found.append(Example(title="Some of them", sql=f"SELECT COUNT(*) FROM {table} WHERE {name} = {value}"))
        sql = f"SELECT {name}, COUNT(*) FROM {table} GROUP BY {name}"
        found.append(Example(title="In each group", sql=sql))
    if number is not None and groups is not None:
        name, of = write_name(groups.name), write_name(number.name)
        sql = f"SELECT {name}, AVG({of}) FROM {table} GROUP BY {name}"
        found.append(Example(title="An average by group", sql=sql))
    if whole is not None:
        found.append(Example(title="A median", sql=f"SELECT MEDIAN({write_name(whole.name)}) FROM {table}"))
    return found
