"""Charge a search for a schema's facts once, draw it question by question, and settle it in the ledger (B1).

All questions together are one request. It is charged before the first is measured, since what the last one asks depends
on what the others released. If the process stops half-way, the entry stays reserved with nothing handed out, and the
same request takes it up at no further charge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from dosimeter.errors import ConnectionLost, DataError, DosimeterError, OptionError, QueryError, SourceUnreachable
from dosimeter.influence import DeclaredTables, measure_exactly
from dosimeter.ledger import (
    ZERO,
    Charge,
    Continuation,
    Details,
    IncidentKind,
    Ledger,
    Reservation,
    describe_charge,
    refuse_stopped,
)
from dosimeter.mechanisms import round_rho
from dosimeter.options import LookOptions
from dosimeter.planning import QueryPlan
from dosimeter.problems import Option
from dosimeter.release.account_terms import (
    agree_on_terms,
    check_account,
    expect_charges,
    find_charges,
    recognise_data,
    require_running,
    write_request,
)
from dosimeter.release.facts.found import Fact, list_bounds, list_remarks, list_values, make_schema, write_comment
from dosimeter.release.facts.grids import read_first, read_second
from dosimeter.release.facts.questions import MECHANISM, FactQuestion, FactSearch
from dosimeter.release.order import PreparedRelease, ReleaseOrder
from dosimeter.release.prices import find_rho
from dosimeter.release.promises import promise_fixed
from dosimeter.release.thresholds import draw_numbers
from dosimeter.schema import Column, Schema, digest_schema, dump_schema

if TYPE_CHECKING:
    from dosimeter.engines import Engine
    from dosimeter.ledger import AccountSummary, Entry, Request, RequestCharges
    from dosimeter.release.account_terms import Agreement
    from dosimeter.release.measurable import Measurable
    from dosimeter.release.noisy_vector import NoisyVector

_UNCOUNTED = 1  # the individuals in the terms of an account that is opened before they are counted
_DELTA_TOTAL = Decimal("1e-6")
_LOOKED = " The ledger records that the data were looked at before."
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FoundSchema:
    """A schema whose facts were found by spending ε, or a denial.

    ``schema``: ready to use; None for a denial. ``remarks``: what its facts are worth, in sentences. ``entry``: the id
    of the ledger's entry. ``epsilon`` and ``delta``: what all of it cost. ``repeated``: whether the ledger had found
    these facts before, so that it cost nothing now.
    """

    schema: Schema | None
    remarks: tuple[str, ...]
    entry: str | None
    epsilon: float
    delta: float
    repeated: bool = False

    @property
    def text(self) -> str:
        """Return the schema as TOML, with its remarks as comments; empty for a denial."""
        return "" if self.schema is None else dump_schema(self.schema, comment=write_comment(self.remarks))


@dataclass(frozen=True, slots=True)
class PreparedSearch(PreparedRelease):
    """A search as far as what is declared decides it. ``search``: its questions; ``plan`` is that of the first."""

    search: FactSearch = field(kw_only=True)

    @property
    def group_delta(self) -> Decimal:
        return self.search.delta


def prepare_search(search: FactSearch, order: ReleaseOrder) -> PreparedSearch:
    """Return the request for a search. ``order``: at its ε, with its terms, and who asks."""
    first = search.people().plan
    return PreparedSearch(
        dataset=search.declared.account_name,
        plan=replace(first, sql=search.text, digest=search.digest),
        n=_UNCOUNTED,
        mechanism=MECHANISM,
        candidates=(float(search.spend),),
        order=order,
        look=LookOptions(),
        schema_digest=digest_schema(search.declared),
        find_rho=lambda _: _price(search),
        search=search,
    )


def _price(search: FactSearch) -> Decimal:
    """Return ρ of the whole search: the sum of what its questions cost."""
    first = sum((find_rho(each.plan, MECHANISM, each.epsilon) for each in search.list_first()), ZERO)
    return first + len(search.numbers) * round_rho(Fraction(search.of_second) ** 2 / 2)


def expect_search(ledger: Ledger | None, prepared: PreparedSearch) -> RequestCharges | None:
    """Return what a search would be charged, and whether the account admits it; None without an account or a policy.

    Reads no data and charges nothing.
    """
    account = None if ledger is None else ledger.summary(prepared.dataset)
    if account is not None:
        return find_charges(account, prepared)
    terms = _complete(prepared, None).order.terms
    return None if terms.policy is None else expect_charges(terms, prepared)


def spend_on_schema(
    dataset: Measurable, search: FactSearch, order: ReleaseOrder, ledger: Ledger, tell: Tell
) -> FoundSchema:
    """Find a schema's facts, charge them once, and let the account that paid agree to the schema.

    ``dataset``: the table, read by the types that are declared. ``tell``: called with what is done next, in words: once
    before everybody is counted, then once before each column is searched. Raises what ``release`` raises.
    """
    begun = require_running(ledger, search.declared)
    source = recognise_data(dataset, begun)
    prepared = _complete(prepare_search(search, order), begun)
    account, entered = check_account(ledger, prepared, source, dataset.engine, begun)
    request = write_request(prepared, source)
    if account is not None and not order.again:
        earlier, _ = ledger.recall(prepared.dataset, request, answer=True)
        if earlier is not None:
            return _read_found(search, earlier, repeated=True)
    measuring = ledger.lock_measurement(prepared.dataset)
    try:
        ledger.begin(measuring, request, entered.identities or frozenset())

        def decide(account: AccountSummary | None) -> Reservation:
            return _decide(account, prepared, request, entered)

        entry = ledger.reserve(prepared.dataset, decide, measuring=measuring, take_up=request)
        if entry.status != "denied":
            entry = _draw_and_settle(dataset, prepared, entry, ledger, entered, tell)
        measuring.done = True
        return _read_found(search, entry)
    except (DosimeterError, KeyboardInterrupt, SystemExit) as error:
        raise ledger.end_by(error, measuring) from None
    finally:
        measuring.release()


def _complete(prepared: PreparedSearch, account: AccountSummary | None) -> PreparedSearch:
    """Return the request with the terms that its account needs.

    A new account gets a δ in all, whose default otherwise follows from the number of individuals, which nobody knows
    yet.
    """
    order, terms = prepared.order, prepared.order.terms
    in_zcdp = terms.policy is not None and "@" in str(terms.policy)
    if account is not None or terms.delta_total is not None or in_zcdp:
        return prepared
    if 2 * prepared.search.delta > _DELTA_TOTAL:
        raise OptionError(
            "The account's δ in all would be 10⁻⁶, too little for this search and what follows. Say what it may be: ",
            Option("delta_total", text="D"), ".",
        )  # fmt: skip
    return replace(prepared, order=replace(order, terms=replace(terms, delta_total=str(_DELTA_TOTAL))))


def _decide(
    account: AccountSummary | None, prepared: PreparedSearch, request: Request, entered: Agreement
) -> Reservation:
    """Return the decision on a search, inside the ledger's transaction, by the account as it is then."""
    source = request.source_digest
    agreement = agree_on_terms(account, prepared, source)
    agreement = agreement.identified_by(entered.identities, prepared.schema_digest, source).keep_found(entered)
    charges, spend = find_charges(agreement.terms, prepared), float(prepared.search.spend)
    obstacle = charges.find_obstacle((spend,))
    if obstacle is not None and agreement.opening is not None:
        raise OptionError(
            f"ε = {spend:g}, or its δ, is more than the account would ever allow. Spend less, or give another ",
            Option("policy"), ".",
        )  # fmt: skip
    return Reservation(
        request=request,
        charge=charges.charge(spend) if obstacle is None else Charge(ZERO),
        status="reserved" if obstacle is None else "denied",
        reason=None if obstacle is None else obstacle.rule,
        opening=agreement.opening,
        continuation=agreement.continuation,
        identification=agreement.identification,
        people=agreement.people,
    )


def _draw_and_settle(
    dataset: Measurable, prepared: PreparedSearch, entry: Entry, ledger: Ledger, entered: Agreement, tell: Tell
) -> Entry:
    """Ask every question that the entry paid for, and settle it with the facts and the schema that they make."""
    search, source = prepared.search, entry.request.source_digest
    try:
        facts = list(Drawing(dataset.engine, search, tell).list_facts())
        if not dataset.engine.is_still(source):
            raise SourceUnreachable(f"{prepared.dataset} changed while it was measured.")
    except DataError as error:
        if isinstance(error, SourceUnreachable) and not isinstance(error, ConnectionLost):  # tells nothing of a cell
            raise SourceUnreachable(*error.problem.pieces, f" {describe_charge(entry)}") from None
        kind: IncidentKind = "lost" if isinstance(error, ConnectionLost) else "measuring"
        asked = entry.request
        ledger.stop(prepared.dataset, kind, software=asked.software, request_digest=asked.request_digest)
        raise refuse_stopped(prepared.dataset) from None  # N4; what is reserved can be taken up once that is cleared
    schema = make_schema(search, facts, entry.id)
    agreed = Continuation(
        schema_digest=digest_schema(schema),
        source_digest=source,
        by=prepared.order.approved_by or prepared.order.analyst,
        identities=entered.identities,
        public=entered.public,
        individuals=schema.individuals if entered.terms.individuals == _UNCOUNTED else None,
    )
    return ledger.settle(
        entry.id,
        status="released",
        answer=[fact.describe() for fact in facts],
        guarantee=promise_fixed(
            MECHANISM, entry.spent.epsilon, schema.individuals or 0, viewed=False, group_delta=float(search.delta)
        )
        + (_LOOKED if entry.told else ""),
        details=Details(about=list_remarks(search, facts)),
        agreed=agreed,
    )


def _read_found(search: FactSearch, entry: Entry, *, repeated: bool = False) -> FoundSchema:
    schema, remarks = None, list[str]()
    if entry.answer is not None:
        facts = [Fact.read(row) for row in entry.answer]
        schema, remarks = make_schema(search, facts, entry.id), list_remarks(search, facts)
    return FoundSchema(schema, tuple(remarks), entry.id, float(entry.spent.epsilon), float(entry.delta), repeated)


class Drawing:
    """The questions of a search, asked one after the other of an engine. Only noisy numbers leave it."""

    def __init__(self, engine: Engine, search: FactSearch, tell: Tell) -> None:
        self._engine, self._search, self._tell = engine, search, tell
        self._tables: dict[int, DeclaredTables] = {}

    def list_facts(self) -> Iterator[Fact]:
        search = self._search
        self._tell("Counting")
        people = search.people()
        (counted,) = self._count(people)
        limit = max(2, counted + people.error)  # too small a number would break no promise (N4)
        yield Fact(None, "individuals", str(limit))
        if search.finds_rows:
            (power,) = self._count(search.rows_each())
            yield Fact(None, "rows each", str(2**power))
        present = self._count(search.counts()) if search.numbers else []
        for at, column in enumerate((*search.numbers, *search.texts)):
            self._tell(f"Searching {column.name} ({at + 1} of {len(search.columns)})")
            if at < len(present):
                yield from self._find_bounds(column, min(counted, present[at]))
            else:
                yield from self._find_values(column, counted, limit)

    def _find_bounds(self, column: Column, people: int) -> Iterator[Fact]:
        """Yield the bounds of a column. ``people``: the noisy number of individuals who have a value."""
        search = self._search
        beyond = search.find_beyond(column)
        if 2 * beyond >= people:  # B2
            yield Fact(column.name, "not found", people=2 * beyond)
            return
        noisy, _ = self._measure(search.first(column))
        ends = read_first(column, noisy.values[0])
        noisy, plan = self._measure(search.second(column, ends))
        step = next(rank.grid for rank in plan.ranks.values())
        yield from list_bounds(column, read_second(column, ends, step, noisy.values[0]), beyond)

    def _find_values(self, column: Column, people: int, limit: int) -> Iterator[Fact]:
        """Yield the values of a column. ``people``: the noisy number of individuals; ``limit``: the most there are."""
        question = self._search.values(column, limit)
        try:
            noisy, plan = self._measure(question)
        except QueryError:  # by the number that was found, there are too many individuals to group
            yield Fact(column.name, "not found", people=limit)
            return
        assert plan.threshold is not None, "values are searched for in thresholded groups"
        of_people = plan.threshold.people
        sizes = zip(noisy.keys, noisy.values, strict=True)
        shown = {str(value): int(row[of_people]) for (value,), row in sizes}
        yield from list_values(column, shown, people, question.least)

    def _count(self, question: FactQuestion) -> list[int]:
        """Return the noisy numbers of a question whose numbers are whole."""
        noisy, _ = self._measure(question)
        return [int(number) for number in noisy.values[0]]

    def _measure(self, question: FactQuestion) -> tuple[NoisyVector, QueryPlan]:
        """Measure a question, and return its noisy numbers and its plan. What was measured is not kept."""
        plan, most = question.plan, question.schema.max_rows_per_unit
        if most not in self._tables:
            self._tables[most] = DeclaredTables(self._engine, question.schema)
        measured = measure_exactly(plan, self._tables[most], None, late=True)
        return draw_numbers(plan, measured, question.calibrate(plan))[0], plan
