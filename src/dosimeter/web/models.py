"""What an analyst may see, and only that. Every page, fragment and JSON answer for analysts is made of these values.

None of them has a field for an RDR, a per-instance sensitivity, an exact answer, a reason, or a reading; the ε of
algorithm 1 never gets in, because ``show_answer`` takes it from what the ledger hands out (G2).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy import RowMapping

from dosimeter.ledger import Entry
from dosimeter.model import Column, Schema

Priority = Literal["low", "normal", "high"]
PublicStatus = Literal["waiting", "released", "denied", "changes", "withdrawn"]

DENIED = "This query is not answered. A denial never comes with a reason: the reason itself could tell about people."
WITHHELD = "ε is withheld because it depends on the data."
PHRASES: Mapping[str, str] = {
    "purpose": "Please say more precisely what the answer is for.",
    "narrower": "Please ask for fewer columns or fewer groups.",
    "coarser": "Please group more coarsely.",
    "shorter": "Please split this into separate queries.",
    "duplicate": "You have asked this before; please use the earlier answer, or say why you need another.",
    "syntax": "Please simplify the SQL.",
}


def check_text(text: str) -> str:
    """Text that every database can hold: no control characters but tab and newline, no half characters."""
    cleaned = text.replace("\r\n", "\n").replace("\r", "\n")
    if any(unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t" for letter in cleaned):
        raise ValueError("The text holds characters that cannot be stored.")
    return cleaned


def check_line(text: str) -> str:
    stripped = " ".join(check_text(text).split())
    if not stripped:
        raise ValueError("This may not be empty.")
    return stripped


SqlText = Annotated[str, Field(min_length=1, max_length=10_000), AfterValidator(check_text)]
LineText = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(check_line)]
WantedError = Annotated[float, Field(gt=0, lt=1e300, allow_inf_nan=False)]


class Public(BaseModel):
    """The root of everything an analyst may be given. Unknown fields are refused, not passed on."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PublicColumn(Public):
    name: str
    type: str
    bounds: list[str] | None
    values: list[str] | None
    resolution: str | None


class PublicDataset(Public):
    """The public facts of a table: its schema, and whether answers come with their ε. Never a row."""

    name: str
    individuals: int
    algorithm: Literal["fixed", "find", "find-and-release"]
    mechanism: Literal["laplace", "gaussian"]
    columns: list[PublicColumn]


class PublicAnswer(Public):
    """A released answer, as the ledger holds it. Algorithm 1: no ``epsilon``, ``epsilon_svt`` or ``error_95``."""

    rows: list[dict[str, str | int | float | bool | None]]
    epsilon: float | None
    epsilon_svt: float | None
    error_95: list[float | None] | None
    guarantee: str


class PublicQuery(Public):
    """A query as its analyst sees it. ``message`` is one of a few fixed wordings."""

    id: str
    dataset: str
    sql: str
    purpose: str
    priority: Priority
    wanted_error: float | None
    status: PublicStatus
    created_at: str
    message: str | None
    answer: PublicAnswer | None


class PublicList(Public):
    queries: list[PublicQuery]


class PublicCheck(Public):
    """Whether a query can be answered at all: decided by its text and the schema alone."""

    answerable: bool
    message: str
    clause: str | None
    measures: list[str]
    groups: int | None


class PublicToken(Public):
    id: str
    name: str
    created_at: str


class PublicVisitor(Public):
    """The signed-in user, for the head of a page."""

    name: str
    role: Literal["analyst", "controller"]


class NewQuery(BaseModel):
    """What an analyst submits."""

    model_config = ConfigDict(extra="forbid")

    dataset: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(check_line)]
    sql: SqlText
    purpose: LineText
    priority: Priority = "normal"
    wanted_error: WantedError | None = None


class QueryText(BaseModel):
    """SQL to be checked, without asking it."""

    model_config = ConfigDict(extra="forbid")

    dataset: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(check_line)]
    sql: SqlText


# ---------------------------------------------------------------- from what is stored to what may be seen


def show_column(column: Column) -> PublicColumn:
    return PublicColumn(
        name=column.name,
        type=str(column.type),
        bounds=None if column.bounds is None else [str(bound) for bound in column.bounds],
        values=None if column.values is None else list(column.values),
        resolution=None if column.resolution is None else str(column.resolution),
    )


def show_dataset(schema: Schema, algorithm: Any, mechanism: Any) -> PublicDataset:
    return PublicDataset(
        name=schema.table,
        individuals=schema.individuals or 0,
        algorithm=algorithm,
        mechanism=mechanism,
        columns=[show_column(column) for column in schema.columns.values()],
    )


def show_query(row: RowMapping, entry: Entry | None) -> PublicQuery:
    """The analyst's side of a stored query. What is being decided, or was interrupted, is still waiting for them."""
    status: PublicStatus = _PUBLIC.get(row["status"], "waiting")
    answer = None if status != "released" or entry is None else show_answer(entry)
    message = {"denied": DENIED, "changes": PHRASES.get(row["phrase"] or "", "Please revise the query.")}.get(status)
    return PublicQuery(
        id=row["id"],
        dataset=row["dataset"],
        sql=row["sql"],
        purpose=row["purpose"],
        priority=row["priority"],
        wanted_error=row["wanted_error"],
        status=status,
        created_at=row["created_at"],
        message=message,
        answer=answer,
    )


_PUBLIC: Mapping[str, PublicStatus] = {
    "released": "released",
    "denied": "denied",
    "changes": "changes",
    "withdrawn": "withdrawn",
}


def show_answer(entry: Entry) -> PublicAnswer | None:
    if entry.status != "released" or entry.answer is None:
        return None
    hidden = entry.request.algorithm == "find"  # G2
    return PublicAnswer(
        rows=entry.answer,
        epsilon=None if hidden or entry.epsilon is None else float(entry.epsilon),
        epsilon_svt=None if hidden or entry.epsilon_svt is None else float(entry.epsilon_svt),
        error_95=None if hidden or entry.error_95 is None else list(entry.error_95),
        guarantee=entry.guarantee or "",
    )
