"""What an analyst may see, and only that. Every page, fragment and JSON answer for analysts is made of these values.

None of them has a field for an RDR, a per-instance sensitivity, an exact answer, a reason, or a reading. The ledger's
entry does hold an ε that was found from a preference; every answer shown here comes from ``show_answer``, which leaves
it out (G2).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import islice
from textwrap import shorten
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dosimeter.ledger import Algorithm, Entry
from dosimeter.planning import QueryPlan
from dosimeter.postprocess import find_counts
from dosimeter.release import Answer, recall_answer
from dosimeter.schema import Column, Schema

Priority = Literal["low", "normal", "high"]
Noise = Literal["laplace", "gaussian"]
PublicStatus = Literal["waiting", "released", "denied", "changes", "withdrawn"]

DENIED = "This query is not answered. A denial never comes with a reason: the reason itself could tell about people."
MOST_NAMES = 1_000  # columns of a table that the editor offers
LONGEST_HINT = 120  # letters of what it says of each
WITHHELD = "ε is withheld because it depends on the data."
PHRASES: Mapping[str, str] = {
    "purpose": "Please say more precisely what the answer is for.",
    "narrower": "Please ask for fewer columns or fewer groups.",
    "coarser": "Please group more coarsely.",
    "larger": "Please ask about more people, or about a longer time.",
    "rougher": "Please say whether a larger error would do.",
    "shorter": "Please split this into separate queries.",
    "duplicate": "You have asked this before; please use the earlier answer, or say why you need another.",
    "syntax": "Please simplify the SQL.",
}


JOINERS = "\u200c\u200d"  # zero-width joiners: some languages need them, and they hide nothing


def find_odd_letter(text: str) -> str:
    """Say what is wrong with the first character that cannot be stored or misleads readers; "" if there is none.

    Direction marks and other invisible characters make a text look different from what it says.
    """
    for place, letter in enumerate(text, start=1):
        kind = unicodedata.category(letter)
        if kind in ("Cc", "Cs") and letter not in "\r\n\t":
            return f"The text holds a character that cannot be stored, U+{ord(letter):04X} at position {place}."
        if kind == "Cf" and letter not in JOINERS:
            return f"The text holds an invisible character, U+{ord(letter):04X} at position {place}. Remove it."
    return ""


def check_text(text: str) -> str:
    """Return the text with one kind of line breaks. Raises ValueError for characters that cannot be stored or seen."""
    odd = find_odd_letter(text)
    if odd:
        raise ValueError(odd)
    return text.replace("\r\n", "\n").replace("\r", "\n")


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
    """One column of a table. ``identifying``: it tells people apart; queries that single people out may be refused.

    ``values``: the declared values, or the first of them. ``further``: how many more there are. ``max_length``: how
    many letters of a text count where it is joined to another or handed on; None if the schema does not say.
    """

    name: str
    type: str
    description: str | None
    bounds: list[str] | None
    values: list[str] | None
    resolution: str | None
    nulls: bool
    identifying: bool
    further: int = 0
    max_length: int | None = None


class PublicDataset(Public):
    """The public facts of a table: its schema, and how ε is set and noise drawn. Never a row.

    ``unit``: the column that says whose a row is; ``row`` where each row is an individual. ``max_rows_per_unit``: how
    many rows of one individual count at most. ``row`` to ``people``: what one row and several are called, one
    individual and several. ``stopped``: no query is answered until a controller has looked at the dataset.
    """

    name: str
    description: str | None
    individuals: int
    algorithm: Algorithm
    mechanism: Noise
    columns: list[PublicColumn]
    unit: str = "row"
    max_rows_per_unit: int = 1
    row: str = "row"
    rows: str = "rows"
    individual: str = "person"
    people: str = "people"
    stopped: bool = False


class PublicName(Public):
    """A column as the editor offers it. ``listed``: its values are declared, and can be looked up."""

    name: str
    type: str
    description: str
    listed: bool


class PublicTable(Public):
    """The columns of a table that a query may name."""

    name: str
    columns: list[PublicName]


class PublicNames(Public):
    """What the editor of a query offers to complete: the tables of a dataset, its own first, and SQL's functions."""

    tables: list[PublicTable]
    functions: list[str]


class Example(Public):
    """A query that works on a dataset, and what it asks."""

    title: str
    sql: str


class PublicSchema(Public):
    """What a page lists of a dataset: examples, and the columns whose name, type or description has the words ``find``.

    ``total``: how many columns the dataset has; ``found``: how many of them have the words. ``tables``: the dataset's
    own table and those that can be joined to it.
    """

    dataset: PublicDataset
    find: str
    total: int
    found: int
    examples: list[Example]
    tables: list[str]


class PublicAnswer(Public):
    """A released answer, as the ledger holds it; without ε and errors where these would tell about the data (G2).

    ``epsilon_svt``: what the noisy test cost, if ε was found by one. ``error_95``: the largest 95 % error of each
    column. ``errors``: the errors of each row, by column. ``rank_errors``: errors in rows, of columns drawn by rank.
    ``violation``: the promised chance that the noisy test releases an ε which does not meet what it looks for (V7).
    ``guarantee``: what is promised about privacy, in words. ``cut`` and ``clamped``: how many individuals have rows or
    values that do not count as they are, where the server tells it (E5).
    """

    rows: list[dict[str, str | int | float | bool | None]]
    epsilon: float | None
    epsilon_svt: float | None
    error_95: list[float | None] | None
    violation: float | None = None
    rank_errors: dict[str, float | None] | None = None
    errors: list[dict[str, float | None]] | None = None
    about: list[str] = []
    guarantee: str
    cut: dict[str, float | None] | None = None
    clamped: dict[str, float | None] | None = None


class AnswerShape(Public):
    """Which columns of an answer carry noise (``measured``), and whether there are groups (``grouped``).

    ``counts``: columns that count, so that a number below 0 is noise. If the shape is not known, no column is listed
    and ``grouped`` is true.
    """

    measured: list[str] = []
    grouped: bool = True
    counts: list[str] = []


class Whisker(Public):
    """Where a number and the ends of its 95 % range lie, in percent of a picture's width.

    ``zero``: where 0 lies; None if it lies outside the picture or at one of its ends.
    """

    dot: float
    low: float
    high: float
    zero: float | None


class ShownCell(Public):
    """One cell of an answer as it is written. ``margin``: the 95 % error after ±; ``interval``: the range in words.

    ``note``: a remark, if there is one. ``faint``: there is no value. ``whisker``: the picture of the number, if its
    column has one.
    """

    text: str
    margin: str = ""
    interval: str = ""
    note: str = ""
    faint: bool = False
    whisker: Whisker | None = None


class ShownColumn(Public):
    """The head of a column. ``ranged``: its numbers have errors; ``scale``: the ends of its picture, if it has one."""

    name: str
    numeric: bool
    measured: bool
    ranged: bool
    scale: list[str] = []


class ShownAnswer(Public):
    """A part of an answer's rows: from row ``first`` to row ``last``, counted from 1, of the ``total`` of ``answer``.

    ``earlier`` and ``later``: the row with which the part before and the part after begin; None where there is no such
    part. ``negative``: a count below 0 is among the rows; ``ranged``: numbers have a 95 % range; ``untold``: most of
    the numbers that carry noise have too few people behind them to be told.
    """

    answer: PublicAnswer
    columns: list[ShownColumn]
    rows: list[list[ShownCell]]
    first: int
    last: int
    total: int
    earlier: int | None
    later: int | None
    negative: bool
    ranged: bool
    untold: bool


class PublicRelease(Public):
    """A released answer as every analyst sees it: not who asked, why, or when.

    ``measured``: which columns carry noise; ``grouped``: whether there are groups.
    """

    entry: str
    dataset: str
    sql: str
    answer: PublicAnswer
    measured: list[str]
    grouped: bool
    counts: list[str] = []

    @property
    def shape(self) -> AnswerShape:
        """Return what is known of the answer's columns."""
        return AnswerShape(measured=self.measured, grouped=self.grouped, counts=self.counts)


class PublicSummary(Public):
    """The released table about every column of a dataset, as every analyst sees it. ``entry``: that of its answer.

    ``rows``: the cells of each row.
    """

    dataset: str
    entry: str
    headings: list[str]
    rows: list[list[str]]
    notes: list[str]


class PublicReleases(Public):
    """Some released answers, newest first. ``following``: send it as ``before`` to get older ones; None at the end."""

    answers: list[PublicRelease]
    following: str | None


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
    """Some of an analyst's queries, newest first.

    ``following``: send it as ``place`` to get older ones; None at the end.
    """

    queries: list[PublicQuery]
    following: str | None = None


class OwnList(PublicList):
    """A part of an analyst's queries, as the page lists them. ``total``: how many the filter lets through in all.

    ``dataset``, ``status``, ``text``: the filter.
    """

    total: int
    dataset: str = ""
    status: str = ""
    text: str = ""


class ExpectedError(Public):
    """The 95 % errors of one column, one per ε; None where the error depends on the data.

    ``in_rows``: the errors are in rows, as the column is drawn by rank. ``by_people``: for an average, the errors at
    each ε in a group of 100 people, of 1,000 and so on; the key is their number. Where people may have several rows, it
    is the number of rows.
    """

    column: str
    errors: list[float | None]
    in_rows: bool = False
    by_people: dict[int, list[float | None]] = {}


class ExpectedErrors(Public):
    """The 95 % errors to expect, by SQL and schema alone. ``more``: how many further columns are left out.

    ``wanted``: the error that would be good enough; None if the analyst names none. ``needed``: the smallest ε at which
    every column is within the ``wanted`` error; None without a ``wanted`` error, or if no ε is known to be enough.
    ``rows``: what rows are called; ``counted``: what an average is over, rows too, or people with one row each.
    """

    epsilons: list[float]
    columns: list[ExpectedError]
    more: int
    wanted: float | None = None
    needed: float | None = None
    rows: str = "rows"
    counted: str = "people"


class PublicCheck(Public):
    """Whether a query can be answered at all: decided by its text and the schema alone.

    ``message``: the result in words. ``clause``: the part of the SQL that is at fault, if it is known. ``place``: where
    it stands in the SQL: its first character, counted from 0, and the one after its last; None where it is not found.
    The other fields are of an answerable query. ``measures``: what is measured. ``groups``: how many groups there are;
    None if they are not declared. ``notes``: remarks on the query. ``about``: what does not count, by the declared
    facts. ``expected``: the errors to expect.
    """

    answerable: bool
    message: str
    clause: str | None
    measures: list[str]
    groups: int | None
    notes: list[str] = []
    about: list[str] = []
    expected: ExpectedErrors | None = None
    place: tuple[int, int] | None = None


class PublicTrial(Public):
    """What an answer to a query looks like: an ``answer`` from so many invented ``rows``, or a ``problem`` in words."""

    answer: PublicAnswer | None = None
    shape: AnswerShape = AnswerShape()
    rows: int = 0
    problem: str = ""


class PublicToken(Public):
    id: str
    name: str
    created_at: str
    used_on: str | None


class PublicSession(Public):
    """One sign-in of a user. ``here``: it is the session of this request. ``id``: names it in the form that ends it."""

    id: str
    created_at: str
    expires_at: str
    address: str
    here: bool


class PublicVisitor(Public):
    """The signed-in user, for the head of a page."""

    name: str
    role: Literal["analyst", "controller"]


class QueryText(BaseModel):
    """A query that is only checked, and not submitted."""

    model_config = ConfigDict(extra="forbid")

    dataset: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(check_line)]
    sql: SqlText


class NewQuery(QueryText):
    """What an analyst submits."""

    purpose: LineText
    priority: Priority = "normal"
    wanted_error: WantedError | None = None


def show_column(column: Column) -> PublicColumn:
    return PublicColumn(
        name=column.name,
        type=str(column.type),
        bounds=None if column.bounds is None else [str(bound) for bound in column.bounds],
        values=None if column.values is None else list(column.values),
        resolution=None if column.resolution is None else str(column.resolution),
        nulls=column.nulls,
        identifying=column.identifying,
        description=column.description,
        max_length=column.max_length,
    )


def show_table(name: str, columns: Iterable[Column]) -> PublicTable:
    names = [
        PublicName(
            name=column.name,
            type=str(column.type),
            description=shorten(column.description or "", LONGEST_HINT, placeholder=" …"),
            listed=column.values is not None,
        )
        for column in islice(columns, MOST_NAMES)
    ]
    return PublicTable(name=name, columns=names)


def show_dataset(schema: Schema, algorithm: Algorithm, mechanism: Noise, *, stopped: bool = False) -> PublicDataset:
    return PublicDataset(
        name=schema.table,
        description=schema.description,
        individuals=schema.individuals or 0,
        algorithm=algorithm,
        mechanism=mechanism,
        columns=[show_column(column) for column in schema.columns.values()],
        unit=schema.unit,
        max_rows_per_unit=schema.max_rows_per_unit,
        **asdict(schema.words),
        stopped=stopped,
    )


def show_shape(plan: QueryPlan) -> AnswerShape:
    """Return the shape of a plan's answer: decided by SQL and schema."""
    measured = [output.name for output in plan.outputs if output.is_aggregate]
    grouped = bool(plan.groups or plan.is_united)
    return AnswerShape(measured=measured, grouped=grouped, counts=list(find_counts(plan)))


def show_answer(entry: Entry) -> PublicAnswer | None:
    """Return the released answer of an entry; None if it has none."""
    return show_outcome(recall_answer(entry))


def show_outcome(answer: Answer) -> PublicAnswer | None:
    """Return what an analyst may see of an answer; None of a denial."""
    if answer.answer is None:
        return None
    return PublicAnswer(
        rows=answer.answer,
        epsilon=answer.epsilon,
        epsilon_svt=answer.epsilon_svt,
        error_95=None if answer.error_95 is None else list(answer.error_95),
        violation=answer.violation,
        rank_errors=None if answer.rank_errors is None else dict(answer.rank_errors),
        errors=None if answer.errors is None else [dict(row) for row in answer.errors],
        about=list(answer.about),
        guarantee=answer.guarantee or "",
        cut=None if answer.cut is None else dict(answer.cut),
        clamped=None if answer.clamped is None else dict(answer.clamped),
    )
