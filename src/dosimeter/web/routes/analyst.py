"""The analyst's pages: ask, see one's own queue, read results. Everything shown here comes from ``public``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import AfterValidator, BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from dosimeter.errors import LimitError
from dosimeter.planning import list_functions
from dosimeter.problems import Surface
from dosimeter.schema import Schema
from dosimeter.show import format_epsilon
from dosimeter.web.answer_view import view_answer
from dosimeter.web.checks import RunCheck, RunTrial, count_invented, underline, write_examples
from dosimeter.web.csv_lines import write_csv_line
from dosimeter.web.expected import EPSILONS
from dosimeter.web.http import (
    Analyst,
    Checks,
    StateOf,
    Trials,
    Words,
    render_public,
    require_dataset,
    require_found,
    require_some_dataset,
    send_file,
)
from dosimeter.web.own_queries import show_query, submit_own, withdraw_own
from dosimeter.web.public import (
    NewQuery,
    OwnList,
    PublicCheck,
    PublicColumn,
    PublicNames,
    PublicSchema,
    PublicTrial,
    show_table,
)
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.store import (
    PLACE,
    PublicStatusName,
    QueryFilter,
    User,
    find_own,
    page_own,
)

router = APIRouter()
PAGE = 50
MOST_COLUMNS = 60  # of a schema that are listed at a time
MOST_VALUES = 24  # of a column that are listed at a time
MOST_MATCHES = 200
PATIENCE = 10.0  # seconds that a page waits for the analyst's previous check
FEW_ROWS = 10  # of an answer on invented rows
TRIED = {format_epsilon(epsilon): epsilon for epsilon in reversed(EPSILONS)}
"""The ε's of which a query can be tried with the noise, by how they are written."""


class AskForm(BaseModel):
    """The form of a new query as the browser sends it: every field is a text, validated when it becomes a NewQuery.

    ``switch``: not empty if only another dataset was chosen; then nothing is submitted. ``find``: the words by which
    the analyst searches the schema's columns. ``trial``: not empty if the query is to be tried on invented rows; then
    nothing is submitted. ``epsilon``: that of the trial's noise, one of ``TRIED``.
    """

    dataset: Annotated[str, Field(max_length=200)] = ""
    sql: Annotated[str, Field(max_length=20_000), AfterValidator(lambda sql: sql.replace("\r\n", "\n"))] = ""
    purpose: Annotated[str, Field(max_length=1_000)] = ""
    priority: Annotated[str, Field(max_length=20)] = "normal"
    wanted_error: Annotated[str, Field(max_length=40)] = ""
    switch: Annotated[str, Field(max_length=10)] = ""
    find: Annotated[str, Field(max_length=100)] = ""
    trial: Annotated[str, Field(max_length=10)] = ""
    epsilon: Annotated[str, Field(max_length=10)] = ""


@router.get("/ask")
async def show_form(
    request: Request,
    state: StateOf,
    run_check: Checks,
    user: Analyst,
    dataset: str = "",
    again: str = "",
    find: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    form = await run_in_threadpool(_begin_form, state, user, dataset, again)
    form.find = find
    return await _ask_page(request, state, run_check, user, form)


def _begin_form(state: ServerState, user: User, dataset: str, again: str) -> AskForm:
    """Return an empty form; with ``again``, one filled in from the analyst's own earlier query with that id."""
    form = AskForm(dataset=require_some_dataset(state, dataset).name)
    earlier = find_own(state.database, user, again) if again.isalnum() else None
    if earlier is not None:
        error = earlier.wanted_error
        form = AskForm(
            dataset=earlier.dataset, sql=earlier.sql, purpose=earlier.purpose, priority=earlier.priority,
            wanted_error="" if error is None else f"{error:g}",
        )  # fmt: skip
    return form


async def _ask_page(
    request: Request,
    state: ServerState,
    run_check: RunCheck,
    user: User,
    form: AskForm,
    problems: dict[str, str] | None = None,
    status: int = 422,
    run_trial: RunTrial | None = None,
) -> Response:
    """Show the form as it is filled in. ``run_trial``: runs the query on invented rows, if that was asked for."""
    served = require_some_dataset(state, form.dataset)
    check, marked = await _checked(state, run_check, user, form) if form.sql or run_trial else (None, "")
    trial = await _try_out(served, run_trial, user, form) if run_trial and check and check.answerable else None
    return render_public(
        request, "ask.html", user, status=status if problems else 200,
        form=form.model_dump(), problems=problems or {}, names=list(state.datasets),
        schema=await run_in_threadpool(_find_schema, state, served, form.find), check=check, marked=marked,
        trial=trial, view=None if trial is None or trial.answer is None else view_answer(
            trial.answer, trial.shape, most=FEW_ROWS
        ),
        epsilons=list(TRIED),
    )  # fmt: skip


async def _try_out(served: ServedDataset, run_trial: RunTrial, user: User, form: AskForm) -> PublicTrial | None:
    """Return the answer that the form's query has on invented rows; None while another check of this user runs."""
    begin = partial(served.begin_trial, form.sql, TRIED.get(form.epsilon, EPSILONS[-1]))
    try:
        return await run_trial(user.id, begin, patience=PATIENCE)
    except LimitError:
        return None


def _find_schema(state: ServerState, served: ServedDataset, words: str) -> PublicSchema:
    """Return the public facts of a dataset, with the columns whose name, type or description has these words.

    At most ``MOST_COLUMNS`` columns are returned, and at most ``MOST_VALUES`` values of each.
    """
    dataset = state.public(served)
    found = [column for column in dataset.columns if _is_about(column, words)]
    kept = [
        column
        if column.values is None or len(column.values) <= MOST_VALUES
        else column.model_copy(
            update={"values": column.values[:MOST_VALUES], "further": len(column.values) - MOST_VALUES}
        )
        for column in found[:MOST_COLUMNS]
    ]
    return PublicSchema(
        dataset=dataset.model_copy(update={"columns": kept}), find=words, total=len(dataset.columns),
        found=len(found), examples=write_examples(dataset), tables=[served.schema.table, *served.schema.tables],
    )  # fmt: skip


def _is_about(column: PublicColumn, words: str) -> bool:
    text = f"{column.name} {column.type} {column.description or ''}".lower()
    return all(word in text for word in words.lower().split())


async def _checked(
    state: ServerState, run_check: RunCheck, user: User, form: AskForm
) -> tuple[PublicCheck | None, str]:
    """Return the check of the form's query, and its SQL as HTML, in which the clause that prevents an answer is marked.

    The HTML is "" if the query can be answered. Returns None and "" while another check of this user runs.
    """
    served = require_dataset(state, form.dataset)
    try:
        check = await run_check(user.id, served.begin_check, form.sql, patience=PATIENCE, wanted=_read_wanted(form))
    except LimitError:
        return None, ""
    return check, "" if check.answerable else underline(form.sql, check.place)


def _read_wanted(form: AskForm) -> float | None:
    """Return the wanted error as a number; None if what was typed so far is not a positive number."""
    try:
        wanted = float(form.wanted_error.strip().replace(",", "."))
    except ValueError:
        return None
    return wanted if 0.0 < wanted < 1e300 else None


@router.get("/ask/schema")
def show_schema(
    request: Request,
    state: StateOf,
    user: Analyst,
    dataset: Annotated[str, Field(max_length=200)] = "",
    find: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Show the public facts of the chosen dataset, with the columns that ``_find_schema`` finds by the words ``find``.

    Only this part of the page is replaced, so that what was typed into the form is kept.
    """
    served = require_dataset(state, dataset)
    return render_public(request, "fragments/schema.html", user, schema=_find_schema(state, served, find))


@router.get("/ask/values")
def show_values(
    request: Request,
    state: StateOf,
    user: Analyst,
    dataset: Annotated[str, Query(max_length=200)],
    column: Annotated[str, Query(max_length=200)],
    text: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Show the declared values of a column in which ``text`` occurs, in upper or lower case; of many, the first."""
    matching = _find_values(state, dataset, column, text)
    return render_public(
        request, "values.html", user, dataset=dataset, column=column, text=text, values=matching[:MOST_MATCHES],
        counted=f"{len(matching):,}", cut=len(matching) > MOST_MATCHES,
    )  # fmt: skip


@router.get("/ask/invented.csv")
def download_invented(
    state: StateOf,
    user: Analyst,
    dataset: Annotated[str, Query(max_length=200)],
    table: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Send invented rows of a dataset's own table, or of a ``table`` that its schema declares for joins."""
    schema = require_dataset(state, dataset).schema
    known = table if table in ("", schema.table, *schema.tables) else None
    name = require_found(known, "There is no such table.") or schema.table
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", name)
    lines = state.invented.read((dataset, name), lambda: tuple(_write_invented(schema, name)))
    return send_file(lines, f"invented-{stem}.csv")


def _write_invented(schema: Schema, name: str) -> Iterator[str]:
    """Yield invented rows of a table as CSV, line by line."""
    rows = schema.dummy(count_invented(schema), table=name)
    yield write_csv_line(rows.column_names)
    for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        yield write_csv_line([str(cell) if isinstance(cell, date) else cell for cell in row])


def _find_values(state: ServerState, dataset: str, column: str, text: str) -> list[str]:
    schema = require_dataset(state, dataset).schema
    tables = (schema.columns, *(table.columns for table in schema.tables.values()))
    lists = [columns[column].values for columns in tables if column in columns]
    values = require_found(next(filter(None, lists), None), "There is no such list of values.")
    return [value for value in values if text.lower() in value.lower()]


@router.get("/ask/names")
def list_names(state: StateOf, user: Analyst, dataset: Annotated[str, Query(max_length=200)]) -> PublicNames:
    """List what the editor completes. Declared values are looked up one column at a time: there may be many."""
    schema = require_dataset(state, dataset).schema
    tables = [(schema.table, schema.columns), *((name, table.columns) for name, table in schema.tables.items())]
    return PublicNames(
        tables=[show_table(name, columns.values()) for name, columns in tables], functions=list(list_functions())
    )


@router.get("/ask/names/values")
def list_values(
    state: StateOf,
    user: Analyst,
    dataset: Annotated[str, Query(max_length=200)],
    column: Annotated[str, Query(max_length=200)],
    text: Annotated[str, Query(max_length=200)] = "",
) -> list[str]:
    """List the declared values of a column in which ``text`` occurs; of many, the first."""
    return _find_values(state, dataset, column, text)[:MOST_MATCHES]


@router.post("/ask/check")
async def show_check(
    request: Request, state: StateOf, run_check: Checks, user: Analyst, form: Annotated[AskForm, Form()]
) -> Response:
    """Show, while the analyst types, whether the query can be answered, and if not, which clause prevents it.

    Shows nothing while a previous check is running: the page asks again.
    """
    check, marked = await _checked(state, run_check, user, form)
    return render_public(request, "fragments/check.html", user, check=check, marked=marked)


@router.post("/ask")
async def ask(
    request: Request,
    state: StateOf,
    run_check: Checks,
    run_trial: Trials,
    user: Analyst,
    form: Annotated[AskForm, Form()],
) -> Response:
    served = require_dataset(state, form.dataset)
    if form.switch:
        return await _ask_page(request, state, run_check, user, form)
    if form.trial:
        return await _ask_page(request, state, run_check, user, form, run_trial=run_trial)
    wanted = form.wanted_error.strip().replace(",", ".") or None
    try:
        query = NewQuery.model_validate(
            form.model_dump(exclude={"switch", "find", "trial", "epsilon"}) | {"wanted_error": wanted}
        )
    except ValidationError as error:
        return await _ask_page(request, state, run_check, user, form, _name_problems(error))
    try:
        checked: PublicCheck = await run_check(user.id, served.begin_check, query.sql, patience=PATIENCE)
        if not checked.answerable:
            problems = {"sql": "This query cannot be answered as it is."}
            return await _ask_page(request, state, run_check, user, form, problems)
        query_id = await run_in_threadpool(submit_own, state, user, query)
    except LimitError as error:
        return await _ask_page(request, state, run_check, user, form, {"sql": error.word(Surface.WEB)}, 429)
    return RedirectResponse(f"/queries/{query_id}", status_code=303)


def _name_problems(error: ValidationError) -> dict[str, str]:
    words = {
        "sql": "Write a query of at most 10,000 characters, all of them visible.",
        "purpose": "Say in one line what the answer is for, in at most 500 characters.",
        "priority": "Choose one of the priorities.",
        "wanted_error": "Give a positive number, or leave it empty.",
    }
    return {str(e["loc"][0]): words.get(str(e["loc"][0]), "This cannot be used.") for e in error.errors() if e["loc"]}


@router.get("/queries")
def list_queries(
    request: Request,
    state: StateOf,
    user: Analyst,
    dataset: Words = "",
    status: PublicStatusName = "",
    text: Words = "",
    place: Annotated[str, Query(max_length=80, pattern=PLACE)] = "",
) -> Response:
    """Show the analyst's own queries, newest first, in parts."""
    only = QueryFilter(dataset=dataset, status=status, text=text)
    page = page_own(state.database, user, limit=PAGE, only=only, place=place)
    listed = OwnList(
        queries=[show_query(query, None) for query in page.queries], following=page.following, total=page.total,
        dataset=dataset, status=status, text=text,
    )  # fmt: skip
    return render_public(
        request, "queries.html", user, listed=listed, names=list(state.datasets),
        stopped=[name for name in state.datasets if state.is_stopped(name)], place=place,
    )  # fmt: skip


@router.post("/queries/{query_id}/withdraw")
def withdraw(state: StateOf, user: Analyst, query_id: str) -> Response:
    withdraw_own(state, user, query_id)
    return RedirectResponse("/queries", status_code=303)
