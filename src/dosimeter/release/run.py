"""Release an answer: check, mark, measure, find ε, reserve the charge, draw noise, settle; also if something crashes.

A refusal that SQL and schema alone decide is explained; a denial gives no reason. A failure while the data are measured
is not a denial but an incident: it stops the dataset for everybody (N4). A mark on disk says that they are measured, so
that a process which is killed leaves an incident too. The choice of ε and the charge happen in one write transaction of
the ledger, so that no two releases are granted against the same reading. Noise is drawn only after the charge is on
disk, and an answer is handed out only after it is settled: one that never was can be drawn again for the same charge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from dosimeter.errors import ConnectionLost, DataError, DosimeterError, Interrupted, SourceUnreachable
from dosimeter.influence import Measured, read_public_tables
from dosimeter.inspection import find_overlooked_owner, warn_of_owner, warn_of_people
from dosimeter.ledger import (
    AccountSummary,
    DenialReason,
    Details,
    Entry,
    Incident,
    IncidentKind,
    Ledger,
    Measuring,
    Request,
    Reservation,
    exact_decimal,
    refuse_stopped,
)
from dosimeter.planning import knows_earlier_looks
from dosimeter.postprocess import (
    AssembledAnswer,
    Noise,
    assemble_answer,
    find_told,
    list_facts,
    list_released_groups,
    rank_errors,
    tell_ranks,
    withhold_errors,
    word_facts,
    word_told,
)
from dosimeter.release.account_terms import (
    Agreement,
    agree_on_terms,
    check_account,
    find_charges,
    keep_number,
    recall_number,
    recognise_data,
    require_running,
    write_request,
)
from dosimeter.release.noisy_vector import Numbers, calibrate_plan
from dosimeter.release.order import Answer, PreparedRelease, ReleaseOrder
from dosimeter.release.prepare import prepare_release
from dosimeter.release.thresholds import draw_numbers, read_keys, write_keys
from dosimeter.release.ways.way import Decide
from dosimeter.sql import EmbeddedError

if TYPE_CHECKING:
    from dosimeter.release.measurable import Measurable, Question

Stop = Callable[[IncidentKind], Incident]


class _DeniedBeforeAccount(Exception):
    """The signal that a first request is denied at no charge, so that no account is opened. ``reason``: why."""

    def __init__(self, reason: DenialReason) -> None:
        super().__init__(reason)
        self.reason = reason


_PUBLISHED = ("epsilon", "epsilon_svt", "error_95", "errors", "about", "guarantee", "cut", "clamped")
# What computing with numbers can raise.
_OF_NUMBERS = (ArithmeticError, EmbeddedError, LookupError, MemoryError, TypeError, ValueError)


def release(query: Question, order: ReleaseOrder, ledger: Ledger) -> Answer:
    """Charge and release one answer, or deny it.

    Raises DatasetStopped if an incident stops the dataset, now or earlier (N4): then nothing is answered, not even what
    the ledger could repeat.
    """
    dataset = query.dataset
    begun = require_running(ledger, dataset.schema)
    prepared = prepare_release(dataset.schema, query.sql, query.look, order, dataset.plan)
    source = recognise_data(dataset, begun)
    prepared = replace(prepared, plan=read_public_tables(prepared.plan, dataset.tables))
    account, entered = check_account(ledger, prepared, source, dataset.engine, begun)
    request = write_request(prepared, source)
    other = None
    if account is not None and not order.again:
        earlier, other = ledger.recall(prepared.dataset, request, answer=order.way.text_identifies_request)
        if earlier is not None:
            if entered.identification is not None:
                ledger.identify(prepared.dataset, entered.identification)
            return repeat_answer(earlier, prepared)
        prepared = recall_number(ledger, prepared, source)
    measuring = ledger.lock_measurement(prepared.dataset)
    try:
        ledger.begin(measuring, request, entered.identities or frozenset())
        answer = _measure_and_answer(dataset, prepared, request, ledger, entered, measuring)
        measuring.done = True
        return answer if answer.status == "denied" else replace(answer, earlier=other)
    except (DosimeterError, KeyboardInterrupt, SystemExit) as error:
        raise ledger.end_by(error, measuring) from None
    finally:
        measuring.release()


def _measure_and_answer(
    dataset: Measurable,
    prepared: PreparedRelease,
    request: Request,
    ledger: Ledger,
    entered: Agreement,
    measuring: Measuring,
) -> Answer:
    """Measure the data, decide and charge, draw and settle. ``measuring``: what the ledger knows of this by then."""
    stop = partial(
        ledger.stop, measuring.dataset, software=request.software, request_digest=request.request_digest,
        identities=entered.identities or frozenset(), measuring=measuring,
    )  # fmt: skip
    try:
        measured, decide_release, warnings = _measure_or_stop(dataset, prepared, request, stop)
        if not dataset.engine.is_still(request.source_digest):
            raise _changed(prepared)
        _price_beforehand(prepared, entered)
        take_up = request if prepared.order.way.text_identifies_request else None
        decide = _decide_by(decide_release, prepared, request, entered)
        entry = ledger.reserve(prepared.dataset, decide, measuring=measuring, take_up=take_up)
    except _DeniedBeforeAccount as denial:
        ledger.end(measuring, denied=(request, denial.reason))
        return Answer("denied", notes=("no account was opened, because nothing was charged.",))
    except DosimeterError:
        raise
    except Exception:  # an error that nobody foresaw tells as much as a DataError
        stop("unexpected")
        raise
    if entry.status == "denied":
        answer = Answer("denied", entry=entry.id)
    else:
        answer = _draw_and_settle(prepared, measured, entry, ledger, taken_up=entry.lock != measuring.lock)
    told = warnings if answer.status == "released" else ()
    return replace(answer, notes=(*told, *_list_notes(dataset, prepared, entered)))


def _decide_by(
    decide_release: Decide, prepared: PreparedRelease, request: Request, entered: Agreement
) -> Callable[[AccountSummary | None], Reservation]:
    """Return the function that decides on the request inside the ledger's transaction, by the account as it is then."""
    source = request.source_digest

    def decide(account: AccountSummary | None) -> Reservation:
        agreement = agree_on_terms(account, prepared, source)  # the account may have changed meanwhile
        agreement = agreement.identified_by(entered.identities, prepared.schema_digest, source).keep_found(entered)
        decision = decide_release(find_charges(agreement.terms, prepared))
        if agreement.opening is not None and decision.reason is not None and decision.charge.is_nothing:
            raise _DeniedBeforeAccount(decision.reason)
        return Reservation(
            request=request,
            charge=decision.charge,
            status=decision.status,
            reason=decision.reason,
            viewed=not knows_earlier_looks(prepared.plan),  # one that cannot be found counts as looked at (G1)
            kept=keep_number(prepared, source, decision.number),
            opening=agreement.opening,
            continuation=agreement.continuation,
            identification=agreement.identification,
            people=agreement.people,
        )

    return decide


def _price_beforehand(prepared: PreparedRelease, entered: Agreement) -> None:
    """Compute and remember ρ of every ε that may be granted, if the account counts in ρ.

    This is done before the transaction, in which every other writer has to wait.
    """
    if entered.terms.policy.in_zcdp:
        named = prepared.order.way.named_epsilon
        for epsilon in prepared.candidates if named is None else (named,):
            prepared.find_rho(exact_decimal(epsilon))


def _list_notes(dataset: Measurable, prepared: PreparedRelease, entered: Agreement) -> Iterator[str]:
    """Yield what the controller should know of the account. None of it is for the analyst."""
    if entered.opening is not None:
        yield from entered.opening.notes
    if entered.opening is not None or entered.continuation is not None:
        yield from _note_data(dataset)
    if prepared.kept is not None:
        yield "finding ε cost nothing: the noisy number that an earlier request paid for was used again."  # V8


def _note_data(dataset: Measurable) -> Iterator[str]:
    """Yield a warning if a column that identifies people repeats although the schema says that each row is a person.

    Yield another if the table holds more people than the schema declares. No answer depends on them (N4). Both take a
    scan, so they are looked for only if the release opened or continued an account. In every other release the schema
    and the data are as they were.
    """
    with suppress(DataError, Interrupted):  # the answer is released; only the warning is missing
        owner = find_overlooked_owner(dataset.engine, dataset.schema)
        if owner is not None:
            yield warn_of_owner(owner)
        people, declared = dataset.tables.count_people(), dataset.schema.individuals or 0
        if people > declared:
            yield warn_of_people(people, declared, dataset.schema.words)


def _measure_or_stop(
    dataset: Measurable, prepared: PreparedRelease, request: Request, stop: Stop
) -> tuple[Measured, Decide, tuple[str, ...]]:
    """Measure the data, as ``_measure`` does. If that fails, record an incident, which stops the dataset (N4).

    Whether measuring fails can depend on what the data hold, so a failure must not end as a denial of one query. Errors
    that say nothing about the data do not stop it: a source that could not be reached before it was asked, data that
    changed meanwhile, an interrupt, or a DosimeterError that is no DataError.
    """
    try:
        return _measure(dataset, prepared)
    except ConnectionLost:  # the query may have been what ended the server, whatever has changed since
        stop("lost")
        raise refuse_stopped(prepared.dataset) from None
    except SourceUnreachable:
        raise
    except DataError:
        if _has_changed(dataset, request):  # no sign of what it holds
            raise _changed(prepared) from None
        stop("measuring")
        raise refuse_stopped(prepared.dataset) from None


def _has_changed(dataset: Measurable, request: Request) -> bool:
    """Return whether the data changed since they were digested; False if that cannot be told any more."""
    with suppress(DosimeterError):
        return not dataset.engine.is_still(request.source_digest)
    return False


def _measure(dataset: Measurable, prepared: PreparedRelease) -> tuple[Measured, Decide, tuple[str, ...]]:
    """Read all that is needed of the data. Return what the way of the order measures, with a function that decides.

    This is done before the transaction, in which that function is called.
    """
    return prepared.order.way.measure(dataset, prepared)


def _changed(prepared: PreparedRelease) -> SourceUnreachable:
    return SourceUnreachable(f"{prepared.dataset} changed while it was measured. Nothing was charged: release again.")


def _draw_and_settle(
    asked: PreparedRelease, measured: Measured, entry: Entry, ledger: Ledger, *, taken_up: bool
) -> Answer:
    """Draw the noise that the entry paid for, and return the answer that the ledger then holds.

    ``taken_up``: whether another process reserved the entry. Its numbers are clamped or not as it was asked to; here,
    as is asked now. Who looked at the question meanwhile is told too.
    """
    clamp = bool(entry.request.settings.get("clamp"))
    prepared = replace(asked, order=replace(asked.order, clamp=clamp))
    viewed = entry.told or (taken_up and _was_viewed(ledger, asked, entry))
    epsilon = entry.spent.epsilon
    try:
        noise = calibrate_plan(prepared.plan, prepared.mechanism, epsilon)
        noisy = draw_numbers(prepared.plan, measured, noise)
    except DataError:
        ledger.settle(entry.id, status="denied", incident="noise")  # the charge stays, and the dataset is stopped (N4)
        raise refuse_stopped(prepared.dataset) from None
    answer = assemble_noisy(prepared, epsilon, [(block.keys, block.values) for block in noisy])
    settled = ledger.settle(
        entry.id,
        status="released",
        answer=answer.rows,
        guarantee=prepared.order.way.promise(prepared, epsilon, viewed=viewed),
        error_95=None if entry.hides_epsilon else answer.error_95,
        measured=noisy[0].values,
        details=replace(
            detail_answer(prepared, answer, None if entry.hides_epsilon else epsilon),
            further=[block.values for block in noisy[1:]],
            keys=write_keys(noisy[0].keys) if prepared.plan.threshold else None,
        ),
    )
    return replace(repeat_answer(settled, asked), repeated=False)


def _was_viewed(ledger: Ledger, prepared: PreparedRelease, entry: Entry) -> bool:
    digests = [each for each in (entry.request.plan_digest, entry.request.measured_digest) if each is not None]
    return ledger.may_tell_look(prepared.dataset, *digests, analyst=prepared.order.analyst)


def detail_answer(prepared: PreparedRelease, answer: AssembledAnswer, told: Decimal | None) -> Details:
    """Return what the ledger records beside the rows for whoever reads the answer: errors and public facts.

    ``told``: the ε of the answer; None if it is hidden. Then nothing that depends on it is among them (G2).
    """
    plan = prepared.plan
    facts = list_facts(plan, answer, clamp=prepared.order.clamp, errors=told is not None)
    counts = withhold_errors(answer.told) if told is None else answer.told
    return Details(
        errors=None if told is None else answer.errors,
        about=(*word_facts(facts), *word_told(plan, counts), *tell_ranks(plan, told)),
        cut=counts.get("cut"),
        clamped=counts.get("clamped"),
        rank_errors=(rank_errors(plan, told) or None) if told is not None else None,
    )


def assemble_noisy(prepared: PreparedRelease, epsilon: Decimal, noisy: Sequence[Numbers]) -> AssembledAnswer:
    """Return the answer made from noisy numbers, with the error of every number; clamped if the request asks for it.

    ``noisy``: the groups and numbers of each block (a SELECT that measures). If what the query computes from these
    numbers fails, the answer is the numbers themselves, by group (Q4).
    """
    plan, mechanism = prepared.plan, prepared.mechanism
    scale = mechanism.scale(plan.sensitivity(mechanism.norm), float(epsilon))
    noise = Noise.of(plan, mechanism, scale)
    keys, values = noisy[0]
    clamp, further = prepared.order.clamp, noisy[1:]
    try:
        answer = assemble_answer(plan, keys, values, clamp=clamp, noise=noise, further=further)
    except _OF_NUMBERS:  # it worked on made-up ones; ε is charged, so the noisy numbers themselves are handed out (Q4)
        answer = list_released_groups(plan, keys, values, clamp=clamp, further=further)
    return replace(answer, told=find_told(plan, noise, noisy[-1][1], clamp=clamp))


def repeat_answer(entry: Entry, prepared: PreparedRelease) -> Answer:
    """Return the answer of an earlier entry again, at no charge, with numbers clamped if the present order says so."""
    answer = replace(recall_answer(entry), repeated=True)
    if bool(entry.request.settings.get("clamp")) == prepared.order.clamp or entry.measured is None:
        return answer
    noisy: list[Numbers] = []
    for block, texts in zip(prepared.plan.blocks, entry.blocks, strict=True):
        keys = block.group_keys if entry.keys is None else read_keys(entry.keys, block.groups)
        assert keys is not None, "an answer has declared groups, or its entry has them"
        noisy.append((keys, [[Fraction(text) for text in row] for row in texts]))
    found = assemble_noisy(prepared, entry.spent.epsilon, noisy)
    details = detail_answer(prepared, found, None if entry.hides_epsilon else entry.spent.epsilon)
    return replace(
        answer,
        answer=found.rows,
        error_95=None if entry.hides_epsilon else found.error_95,
        errors=None if details.errors is None else tuple(details.errors),
        about=tuple(details.about or ()),
        cut=details.cut,
        clamped=details.clamped,
    )


def recall_answer(entry: Entry) -> Answer:
    """Return the answer that the ledger holds for an entry; a denial if the entry was not released.

    Everybody gets the same, now and on every later request.
    """
    if entry.status != "released":
        return Answer("denied", entry=entry.id)
    published = entry.publish()
    return Answer(
        status="released",
        answer=published.rows,
        **{name: getattr(published, name) for name in _PUBLISHED},
        violation=_read_promise(entry),
        entry=entry.id,
        rank_errors=None if entry.hides_epsilon or entry.rank_errors is None else dict(entry.rank_errors),
    )


def _read_promise(entry: Entry) -> float | None:
    """Return ``Answer.violation`` of an entry: the probability that its noisy test promised (V7); None without one."""
    promised = entry.request.settings.get("violation")
    return float(promised) if isinstance(promised, (int, float)) else None
