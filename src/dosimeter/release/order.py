"""What a release is asked to do, and its outcome, as frozen values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dosimeter.errors import OptionError
from dosimeter.html import write_paragraphs, write_table
from dosimeter.json_values import JsonObject, JsonRow, JsonScalar
from dosimeter.ledger import ZERO, Errors, KeptNumber, Policy
from dosimeter.mechanisms import Mechanism
from dosimeter.options import LookOptions
from dosimeter.planning import QueryPlan
from dosimeter.release.prices import add_delta, group_delta
from dosimeter.release.ways.way import Way
from dosimeter.show import format_measured

if TYPE_CHECKING:
    import pyarrow as pa

    from dosimeter.ledger import Ledger


_SHOWN = 3  # rows of an answer at a prompt


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms that an account is opened with. Later releases may leave them out, but must not contradict them.

    ``delta_total``: the δ of all its answers together. ``max_epsilon``: the largest ε of a single answer.
    """

    policy: Policy | str | None = None
    delta_total: float | str | None = None
    max_epsilon: float | str | None = None


RECORDED: Mapping[str, bool] = {"recorded": True}
"""What marks a field of ReleaseOrder that goes on record under its own name."""


@dataclass(frozen=True, slots=True)
class ReleaseOrder:
    """Everything a release is asked to do. What is marked as recorded, ``record`` gives to the ledger.

    ``way``: how ε is set. ``terms``: the terms of the account, as far as they are given. ``again``: draw a new answer
    even if the ledger could repeat one. ``continued``: the controller says that the data or the schema changed and the
    people are the same. ``other_people``: the controller says that other accounts hold other people, although
    individuals have the same keys there, or an earlier version did not write down whose data they hold. ``clamp``: put
    noisy numbers back into their bounds. ``reference``: a text by which the caller finds the entry again.
    ``approved_by``: the controller who approved an analyst's request.
    """

    way: Way
    terms: Terms = Terms()
    analyst: str | None = None
    purpose: str | None = None
    again: bool = False
    continued: bool = False
    other_people: bool = False
    clamp: bool = field(default=False, metadata=RECORDED)
    reference: str | None = field(default=None, metadata=RECORDED)
    approved_by: str | None = field(default=None, metadata=RECORDED)

    def record(self) -> dict[str, JsonScalar]:
        """Return the fields that go on record as settings of the request, by name; those that are None are left out."""
        marked = {each.name: getattr(self, each.name) for each in fields(self) if "recorded" in each.metadata}
        return {name: value for name, value in marked.items() if value is not None}


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """The outcome of a release. ``describe`` gives what the analyst may see, and only that.

    ``answer``: the rows that the analyst gets. ``epsilon_svt``: the ε that finding ε costs. ``error_95``: the largest
    95 % error of each aggregate column; ``errors``: for each of these rows, the 95 % error of each such column, None
    for a number that has none (E1). ``rank_errors``: for each column drawn by rank, the 95 % error of the rank, in rows
    (E3). ``about``: public facts that a reader of the numbers needs. ``guarantee``: the sentence on privacy.
    ``violation``: for an ε selected by a noisy test, the promised probability of releasing an ε at which the variance
    of the normalised RDRs is above its threshold (V7). ``entry``: the id of the ledger's entry for this answer.
    ``repeated``: whether the answer was given before, and now again at no charge. ``earlier``: the id of an entry that
    answered the same query by other settings; this answer was charged anew. ``notes``: what the controller should know
    of the account; not for the analyst. ``cut`` and ``clamped``, where they were asked for: how many individuals have
    rows or values that do not count as they are (``individuals``), with its 95 % ``error`` (E5). Fields are None,
    empty or false where they do not apply.
    """

    status: Literal["released", "denied"]
    answer: list[JsonRow] | None = None
    epsilon: float | None = None
    epsilon_svt: float | None = None
    error_95: tuple[float | None, ...] | None = None
    errors: tuple[Errors, ...] | None = None
    about: tuple[str, ...] = ()
    guarantee: str | None = None
    entry: str | None = None
    violation: float | None = None
    repeated: bool = False
    earlier: str | None = None
    rank_errors: Mapping[str, float | None] | None = None
    notes: tuple[str, ...] = ()
    cut: Errors | None = None
    clamped: Errors | None = None

    def describe(self) -> JsonObject:
        """Return what the analyst may see, and only that, as ``dosimeter release --json`` prints it."""
        if self.status == "denied":
            return {"status": "denied"}
        return {
            "status": "released",
            "answer": self.answer,
            "epsilon": self.epsilon,
            "epsilon_svt": self.epsilon_svt,
            "error_95": None if self.error_95 is None else list(self.error_95),
            "errors": None if self.errors is None else [dict(row) for row in self.errors],
            **({} if self.violation is None else {"violation": self.violation}),
            **({} if self.rank_errors is None else {"rank_errors": dict(self.rank_errors)}),
            **({} if self.cut is None else {"cut": dict(self.cut)}),
            **({} if self.clamped is None else {"clamped": dict(self.clamped)}),
            "about": list(self.about),
            "guarantee": self.guarantee,
        }

    @property
    def table(self) -> pa.Table | None:
        """Return, as an Arrow table, the rows that the analyst gets; None for a denial."""
        import pyarrow as pa

        return None if self.answer is None else pa.Table.from_pylist(self.answer)

    def to_arrow(self) -> pa.Table:
        """Return the rows that the analyst gets as an Arrow table.

        Raises:
            OptionError: the answer was denied: it has no rows.
        """
        if self.table is None:
            raise OptionError("The answer was denied: there are no rows.")
        return self.table

    def to_pandas(self) -> Any:
        """Return the rows that the analyst gets as a pandas DataFrame. Raises what ``to_arrow`` raises."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return the rows that the analyst gets as a Polars DataFrame. Raises what ``to_arrow`` raises."""
        import polars as pl

        return pl.from_arrow(self.to_arrow())

    def save(self, path: str | Path, *, ledger: Ledger) -> None:
        """Write the table as .csv or .parquet, and beside it a .json with what a reader of the table needs.

        Args:
            path: the table's file; the other one has the same name and ends in .json.
            ledger: the ledger that holds the answer.

        Raises:
            OptionError: the answer was denied, or the files cannot be written. The ledger still holds the answer.
        """
        from dosimeter.release.saved_files import save_answer

        save_answer(self, ledger, Path(path))

    def __repr__(self) -> str:
        if self.answer is None:
            return f"Answer(status={self.status!r})"
        more = f", and {len(self.answer) - _SHOWN:,} more rows" if len(self.answer) > _SHOWN else ""
        return f"Answer(status={self.status!r}, epsilon={self.epsilon}, answer={self.answer[:_SHOWN]}{more})"

    def _repr_html_(self) -> str:
        """Show the answer in a notebook: what the analyst may see, and only that."""
        if self.answer is None:
            return write_paragraphs(["Denied."])
        columns = list(self.answer[0]) if self.answer else []
        told = [] if self.epsilon is None else [f"ε = {self.epsilon:g}"]
        if self.errors is not None:
            told.append("After ±: the 95 % error of the noise.")
        rows = [
            [format_measured(row[name], self._find_error(at, name), label=self.is_label(name)) for name in columns]
            for at, row in enumerate(self.answer)
        ]
        return write_table(columns, rows) + write_paragraphs([*told, *self.about, self.guarantee or ""])

    def is_label(self, column: str) -> bool:
        """Return whether a column of the answer surely names groups: it is not among the numbers that have errors."""
        return bool(self.errors) and column not in (self.errors or ({},))[0]

    def _find_error(self, row: int, column: str) -> float | None:
        return None if self.errors is None else self.errors[row].get(column)


@dataclass(frozen=True, slots=True)
class PreparedRelease:
    """A release as far as SQL, schema and public tables decide it: it holds nothing of private data.

    ``n``: how many individuals are declared. ``find_rho``: a function from the ε of an answer to its ρ. ``kept``: a
    noisy number that an earlier entry paid for, by which ε is found at no further cost (V8).
    """

    dataset: str
    plan: QueryPlan
    n: int
    mechanism: Mechanism
    candidates: tuple[float, ...]
    order: ReleaseOrder
    look: LookOptions
    schema_digest: str
    find_rho: Callable[[Decimal], Decimal] = field(compare=False, repr=False)  # of the noise at an ε (O4)
    kept: KeptNumber | None = None

    @property
    def delta(self) -> Decimal:
        """Return δ of the answer: the δ of its noise plus the δ of thresholded groups (H1)."""
        return add_delta(self.mechanism, self.group_delta)

    @property
    def group_delta(self) -> Decimal:
        """Return δ of thresholded groups (H1); 0 if the schema declares the groups."""
        return group_delta(self.plan)

    @property
    def epsilon_svt(self) -> Decimal:
        """Return the ε that will be charged for finding ε; 0 if a kept noisy number is used."""
        return self.order.way.epsilon_svt if self.kept is None else ZERO
