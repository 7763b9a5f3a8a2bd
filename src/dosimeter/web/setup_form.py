"""How a dataset is to be set up, as a controller fills it in: what is declared of it, and what is to be found (B1).

Takes the fields of a form and the names and types that the source gives of its columns; gives the search for the facts.
Knows no data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal, InvalidOperation
from itertools import groupby

from starlette.datastructures import FormData

from dosimeter.errors import InputError, OptionError
from dosimeter.findings import word, write_reading
from dosimeter.ledger import Entry
from dosimeter.problems import Surface
from dosimeter.release import (
    FactSearch,
    Fixed,
    ReleaseOrder,
    declare_facts,
    expect_search,
    find_refusal,
    holds_facts,
    plan_search,
    prepare_search,
)
from dosimeter.schema import Column, ColumnType, Schema, read_schema
from dosimeter.show import format_epsilon, format_small
from dosimeter.web.decision import describe_account
from dosimeter.web.state import ServedDataset, ServerState

MOST_TICKED = 40  # columns of a table that are all ticked to begin with: of more, a controller chooses some
MOST_NAMED = 12  # columns that are named where they are too many to name
_TEXTS = ("integer", "decimal", "date", "timestamp", "boolean")
_OTHERS: Mapping[str, Sequence[str]] = {
    "integer": ("decimal", "text"), "decimal": ("integer", "text"), "boolean": ("text",), "date": ("text",),
    "timestamp": ("date", "text"), "text": _TEXTS, "category": _TEXTS,
}  # fmt: skip


def list_types(column: Column) -> tuple[str, ...]:
    """Return the types that a column may be declared to have, the one that its source gives first."""
    own = "text" if column.type is ColumnType.CATEGORY else str(column.type)
    return own, *_OTHERS[own]


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """What is declared of a column, as it was typed. ``find``: its bounds or values are to be found."""

    type: str
    resolution: str = ""
    description: str = ""
    identifying: bool = False
    find: bool = True


@dataclass(frozen=True, slots=True)
class SetupForm:
    """A set-up as it was typed. ``unit``: the column that says whose a row is, "row", or "" where nothing was chosen.

    ``spend``, ``delta`` and ``keep``: as in FactSearch. ``row`` and ``individual``: what one row and one individual are
    called.
    """

    unit: str = ""
    spend: str = ""
    delta: str = "1e-9"
    keep: str = "0.95"
    row: str = ""
    individual: str = ""
    columns: Mapping[str, ColumnForm] = field(default_factory=dict)

    @classmethod
    def begin(cls, served: ServedDataset) -> SetupForm:
        """Return the form before anything is filled in. Whose privacy is protected is never guessed."""
        few = len(served.schema.columns) <= MOST_TICKED
        columns = {
            name: ColumnForm(list_types(column)[0], identifying=column.identifying, find=few and _is_findable(column))
            for name, column in served.schema.columns.items()
        }
        return cls(spend=format_epsilon(served.find_test_cost(served.settings.budget)), columns=columns)

    @classmethod
    def load(cls, text: str, served: ServedDataset) -> SetupForm:
        """Return the form that ``dump`` wrote; a new one if ``text`` is empty, or was by a version with other fields.

        Columns that the source has got since then are as in a new form.
        """
        begun = cls.begin(served)
        if not text:
            return begun
        try:
            given = json.loads(text)
            typed = {name: ColumnForm(**column) for name, column in given.pop("columns").items()}
            return cls(**given, columns={name: typed.get(name, column) for name, column in begun.columns.items()})
        except TypeError:
            return begun

    @classmethod
    def read(cls, fields: FormData, served: ServedDataset) -> SetupForm:
        """Return the form that a page sent. Its columns are numbered as the source lists them."""
        found, identifying = ({str(value) for value in fields.getlist(name)} for name in ("find", "who"))
        columns = {
            name: ColumnForm(
                _read_type(str(fields.get(f"t{at}", "")), column), str(fields.get(f"r{at}", "")).strip(),
                " ".join(str(fields.get(f"d{at}", "")).split()), str(at) in identifying, str(at) in found,
            )
            for at, (name, column) in enumerate(served.schema.columns.items())
        }  # fmt: skip
        typed = {
            name: str(fields.get(name, "")).strip()[:200]
            for name in ("unit", "spend", "delta", "keep", "row", "individual")
        }
        return cls(**typed, columns=columns)

    def dump(self) -> str:
        return json.dumps(asdict(self))

    def tick(self, *, find: bool) -> SetupForm:
        """Return the form with all columns, or none, to be searched."""
        return replace(self, columns={name: replace(each, find=find) for name, each in self.columns.items()})

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.dump().encode()).hexdigest()[:32]

    def plan(self, served: ServedDataset) -> FactSearch:
        """Return the search for the facts. Raises InputError for what cannot be used, in words for a page."""
        if not self.unit:
            raise OptionError("Choose whose privacy is protected: it is never guessed.")
        spend, keep = _read_number(self.spend, "ε to spend"), _read_number(self.keep, "The share of people")
        if spend <= 0:
            raise OptionError("ε to spend must be above 0.")
        if not 0 < keep < 1:
            raise OptionError("The share of people whose rows all count must lie between 0 and 1.")
        declared = declare_facts(self._declare(served.schema.table), unit=self.unit)
        searched = [column for column in declared.columns.values() if self._is_searched(column, declared)]
        delta = None
        if any(column.type is ColumnType.TEXT for column in searched):
            delta = _read_number(self.delta, "δ")
            if not 0 < delta < 1:
                raise OptionError("δ must lie between 0 and 1, far below 1 ÷ the number of people.")
        return plan_search(
            declared, spend=spend, delta=delta, keep=float(keep), columns=[column.name for column in searched]
        )

    def _declare(self, table: str) -> Schema:
        """Return a schema of what was typed, checked as a schema's file is."""
        words = {name: text for name, text in (("row", self.row), ("individual", self.individual)) if text}
        return read_schema(
            {"table": table, **words, "columns": {name: _describe(name, each) for name, each in self.columns.items()}}
        )

    def _is_searched(self, column: Column, declared: Schema) -> bool:
        return _is_findable(column) and column.name != declared.unit and self.columns[column.name].find


def _is_findable(column: Column) -> bool:
    return column.type is not ColumnType.BOOLEAN and not column.identifying


def _read_type(given: str, column: Column) -> str:
    allowed = list_types(column)
    return given if given in allowed else allowed[0]


def _read_number(text: str, name: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise OptionError(f"{name} must be a number, such as 0.5.") from None
    if not number.is_finite():
        raise OptionError(f"{name} must be a number, such as 0.5.")
    return number


def _describe(name: str, form: ColumnForm) -> dict[str, object]:
    described: dict[str, object] = {"type": form.type, "identifying": form.identifying}
    if form.type == "decimal" and form.resolution:
        described["resolution"] = _read_number(form.resolution, f"The resolution of {name}")
    if form.description:
        described["description"] = form.description
    return described


# ---------------------------------------------------------------- what it costs, and is good for


@dataclass(frozen=True, slots=True)
class WorthView:
    """What is found of some columns alike. ``fact``: what it is; ``epsilon``: what it costs for each of the columns."""

    fact: str
    names: tuple[str, ...]
    epsilon: float
    words: str

    @property
    def listed(self) -> str:
        return list_names(self.names)


@dataclass(frozen=True, slots=True)
class SetupView:
    """What a set-up costs and is good for, or why it cannot be used (``problem``). By what is declared alone.

    ``cost``: what the account has spent, and has left afterwards. ``refused``: why the account would not grant it.
    ``paid``: the account was charged for this search before, so that it is taken up at no further charge.
    """

    problem: str = ""
    search: FactSearch | None = None
    worth: tuple[WorthView, ...] = ()
    cost: str = ""
    refused: str = ""
    paid: bool = False

    @property
    def possible(self) -> bool:
        return self.search is not None and (self.paid or not self.refused)


def list_names(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def order_search(served: ServedDataset, search: FactSearch, **fields: str | bool) -> ReleaseOrder:
    return ReleaseOrder(Fixed(float(search.spend)), terms=served.terms, purpose="to set the dataset up", **fields)  # type: ignore[arg-type]


PlannedSearch = tuple[FactSearch, tuple[WorthView, ...]]
"""A search, and what its facts are worth. To plan the questions about a wide table takes seconds."""


def view_setup(form: SetupForm, served: ServedDataset, state: ServerState) -> SetupView:
    """Return what a set-up would cost and be good for. Reads no data and charges nothing."""

    def plan() -> PlannedSearch:
        search = form.plan(served)
        return search, tuple(_group(search))

    try:
        search, worth = state.searches.read(f"{served.name} {form.digest}", plan)
        charges = expect_search(state.database.ledger, prepare_search(search, order_search(served, search)))
        assert charges is not None, "the settings of a dataset name its policy"
        refusal = find_refusal(charges, (float(search.spend),))
    except InputError as error:
        return SetupView(error.word(Surface.WEB))
    if is_paid(search, served, state):
        paid = f"This search was charged before: taking it up costs nothing more. {describe_account(charges)}"
        return SetupView(search=search, worth=worth, cost=paid, paid=True)
    takes = f"This takes ε = {search.spend.normalize():f}" + (
        f" and δ = {format_small(float(search.delta))}" if search.delta else ""
    )
    left = None
    if refusal is None:
        left = charges.policy.left(charges.after(float(search.spend)))
    rest = "." if left is None else f"; ε = {write_reading(float(left))} is left then."
    return SetupView(
        search=search, worth=worth, cost=f"{describe_account(charges)} {takes}{rest}",
        refused="" if refusal is None else word(refusal),
    )  # fmt: skip


def is_paid(search: FactSearch, served: ServedDataset, state: ServerState) -> bool:
    """Return whether the account was charged for this search before, so that it costs nothing more."""
    return any(entry.request.plan_digest == search.digest for entry in list_paid(state, served))


def list_paid(state: ServerState, served: ServedDataset) -> list[Entry]:
    """Return the searches that the dataset's account was charged for, and whose facts are there or can still be found.

    There are some if a search was interrupted, or if its schema's file is gone.
    """
    charged = (entry for entry in state.history(served.name) if not entry.spent.is_nothing)
    return [entry for entry in charged if entry.status != "denied" and holds_facts(entry)]


_FACTS = {"individuals": "how many {people} there are", "rows each": "how many {rows} of one {individual} count"}


def _group(search: FactSearch) -> Iterator[WorthView]:
    """Yield what each fact costs and is worth; columns of which that is the same are taken together."""
    words = search.declared.words
    lines = sorted(search.list_worth(), key=lambda line: (line.column is not None, line.fact, line.beyond or 0))
    for (fact, epsilon, told), alike in groupby(lines, lambda line: (line.fact, line.epsilon, line.word(words.people))):
        names = tuple(line.column for line in alike if line.column is not None)
        called = _FACTS.get(fact, fact).format(people=words.people, rows=words.rows, individual=words.individual)
        yield WorthView(called, names, epsilon, told)


def describe_confirmed(form: SetupForm, search: FactSearch) -> str:
    """Return what a controller confirms with a set-up, for the audit log."""
    people = [name for name, column in search.declared.columns.items() if column.identifying]
    parts = [
        f"ε = {search.spend.normalize():f}, δ = {float(search.delta):g}, keep {form.keep}",
        "every row is another person" if form.unit == "row" else f"{form.unit} says whose a row is",
        "found: " + (", ".join(column.name for column in search.columns) or "no column"),
        "identify people: " + (", ".join(people) or "none"),
        "declared: " + ", ".join(f"{name} {column.type}" for name, column in search.declared.columns.items()),
    ]
    return "; ".join(parts)
