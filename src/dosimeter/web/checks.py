"""Check whether a query can be answered, by its text and the schema alone, so that every reason may be explained.

A check costs time, and any analyst may ask for one. So checks run in two threads of their own, one check per analyst at
a time, and use nothing that another analyst's check left behind: how long a check takes tells nobody what others ask.
"""

from __future__ import annotations

import asyncio
import html
import re
from concurrent.futures import ThreadPoolExecutor

from dosimeter.errors import InputError, LimitError, QueryError
from dosimeter.planning import QueryPlan, explain_plan
from dosimeter.problems import Audience, Surface
from dosimeter.release import PreparedRelease
from dosimeter.sql import write_name
from dosimeter.web.expected import expect_errors, find_needed
from dosimeter.web.public import Example, ExpectedErrors, PublicCheck, PublicDataset, find_odd_letter
from dosimeter.web.state import ServedDataset

THREADS = 2
BUSY = "Another check of yours is still running. Try again in a moment."


class CheckQueue:
    """A queue of checks, which run in threads of its own. Used from the server's event loop alone."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="check")
        self._running: dict[str, asyncio.Future[PublicCheck]] = {}
        self._newest: dict[str, object] = {}

    async def check(
        self, user_id: str, served: ServedDataset, sql: str, *, patience: float, wanted: float | None = None
    ) -> PublicCheck:
        """Return the check of a query. ``wanted``: the error that would be good enough for the analyst.

        Waits at most ``patience`` seconds for the same user's previous check. Raises LimitError if that one is not done
        by then, or if a newer check of this user came meanwhile.
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
            running = asyncio.wrap_future(self._threads.submit(check_query, served, sql, wanted))
            self._running[user_id] = running
            running.add_done_callback(lambda _: self._running.pop(user_id, None))
            return await asyncio.shield(running)  # the check runs to its end, even if the request was cancelled
        finally:
            if self._newest.get(user_id) is me:
                del self._newest[user_id]

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def check_query(served: ServedDataset, sql: str, wanted: float | None = None) -> PublicCheck:
    """Return whether a query can be answered: with which errors, or why not. Never touches the data.

    ``wanted``: the error that would be good enough; the check then names the ε that gives it, if one does.
    """
    if not sql.strip():
        return PublicCheck(answerable=False, message="Write a query.", clause=None, measures=[], groups=None)
    odd = find_odd_letter(sql)
    if odd:
        return PublicCheck(answerable=False, message=odd, clause=None, measures=[], groups=None)
    try:
        prepared = served.prepare_anew(sql)
    except InputError as error:
        clause = error.clause if isinstance(error, QueryError) else None
        return PublicCheck(answerable=False, message=_for_analysts(error), clause=clause, measures=[], groups=None)
    plan = prepared.plan
    if plan.singled_out and not served.settings.allow_identifying:
        return _refuse_singling_out(plan)
    facts = explain_plan(plan, advise=False)
    names = [measure.measure for measure in facts.measures]
    return PublicCheck(
        answerable=True, message="This can be answered.", clause=None, measures=names, groups=facts.groups,
        notes=list(facts.notes), expected=_expect(served, prepared, wanted),
    )  # fmt: skip


def _expect(served: ServedDataset, prepared: PreparedRelease, wanted: float | None) -> ExpectedErrors:
    found = expect_errors(prepared)
    if wanted is None:
        return found
    return found.model_copy(update={"wanted": wanted, "needed": find_needed(prepared, wanted, served.candidates)})


def _refuse_singling_out(plan: QueryPlan) -> PublicCheck:
    """Return the check of a query about single persons: a refusal that names the clause which singles them out."""
    name, clause = plan.singled_out[0]
    message = (
        f"{clause} asks about single persons: {name} identifies people. Ask about something that many people share, or "
        "count persons with COUNT(DISTINCT …)."
    )
    return PublicCheck(answerable=False, message=message, clause=clause, measures=[], groups=None)


def _for_analysts(error: InputError) -> str:
    """Return the message without the hints that only a controller can act on.

    If there are such hints, a sentence in their place tells the analyst to ask the controller, or to change the query.
    """
    message = error.word(Surface.WEB, Audience.ANALYST)
    if not error.problem.hides_hint_from(Audience.ANALYST):
        return message
    theirs = "Only the controller can change that: the schema is theirs."
    return f"{message} {theirs} Ask them to, or write the query differently."


def underline_clause(sql: str, clause: str | None) -> str:
    """Return the SQL as HTML, with the clause marked where it is found first (case and blanks do not matter).

    If only the first word of the clause is found, that word is marked.
    """
    place = None if not clause else _find(sql, clause)
    if place is None:
        return html.escape(sql)
    start, end = place
    return f"{html.escape(sql[:start])}<mark>{html.escape(sql[start:end])}</mark>{html.escape(sql[end:])}"


def _find(sql: str, clause: str) -> tuple[int, int] | None:
    parts = re.findall(r"\w+|[^\w\s]", clause)
    if not parts:
        return None
    found = re.search(r"\s*".join(re.escape(part) for part in parts), sql, flags=re.IGNORECASE)
    if found is None and len(parts) > 1:
        found = re.search(re.escape(parts[0]) + r"\b", sql, flags=re.IGNORECASE)
    return None if found is None else found.span()


def write_examples(dataset: PublicDataset) -> list[Example]:
    """Return queries that can be answered on this dataset, made from the columns of its schema."""
    table = write_name(dataset.name)
    plain = [column for column in dataset.columns if not column.identifying]
    groups = next((column for column in plain if column.values and len(column.values) <= 50), None)
    number = next((column for column in plain if column.bounds and column.type in ("integer", "decimal")), None)
    whole = next((column for column in plain if column.bounds and column.type == "integer"), None)
    found = [Example(title="How many there are", sql=f"SELECT COUNT(*) FROM {table}")]
    if groups is not None and groups.values:
        name, value = write_name(groups.name), groups.values[0].replace("'", "''")
        found.append(Example(title="Some of them", sql=f"SELECT COUNT(*) FROM {table} WHERE {name} = '{value}'"))
        sql = f"SELECT {name}, COUNT(*) FROM {table} GROUP BY {name}"
        found.append(Example(title="In each group", sql=sql))
    if number is not None and groups is not None:
        name, of = write_name(groups.name), write_name(number.name)
        sql = f"SELECT {name}, AVG({of}) FROM {table} GROUP BY {name}"
        found.append(Example(title="An average by group", sql=sql))
    if whole is not None:
        found.append(Example(title="A median", sql=f"SELECT MEDIAN({write_name(whole.name)}) FROM {table}"))
    return found
