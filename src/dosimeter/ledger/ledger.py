"""The ledger as the controller uses it: read accounts, reserve, settle, verify. Takes values; gives values.

Every call checks the chain of records from the last checkpoint to its end; ``verify``, and calls that return a whole
history, check it from the first record. So nothing is granted by records that do not follow from one another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TextIO

from dosimeter.errors import LedgerError
from dosimeter.json_values import JsonObject
from dosimeter.ledger.accounting import admits_charge
from dosimeter.ledger.checked_chain import CheckedChain, RecordWriter
from dosimeter.ledger.entries import Details, Entry, KeptNumber, Request, tabulate_answer, write_charge, write_measured
from dosimeter.ledger.holders import check_apart, check_holder, check_public, find_shared
from dosimeter.ledger.incidents import Incident, IncidentKind, refuse_stopped, write_incident
from dosimeter.ledger.lookups import (
    checkpoint_is_near,
    complete_entry,
    find_answer,
    find_earlier,
    find_entry,
    find_kept,
    find_open,
    find_reference,
    list_continuations,
    list_entries,
    list_readings,
)
from dosimeter.ledger.people import People, SharedPeople, add_people, check_shared, find_key, make_key
from dosimeter.ledger.records import (
    GENESIS,
    BadRecord,
    check_text,
    derive_entry_id,
    follow_chain,
    refusing_bad_records,
)
from dosimeter.ledger.remaining import Remaining
from dosimeter.ledger.replay import DatasetReplay, concerns_analyst
from dosimeter.ledger.values import (
    Account,
    AccountSummary,
    Continuation,
    Identification,
    Reservation,
    Verification,
    describe_without_account,
    write_decision,
)
from dosimeter.problems import Option

if TYPE_CHECKING:
    from dosimeter.ledger.store import LedgerStore, Transaction

View = Literal["risk", "dry-run"]


def read_clock() -> datetime:
    return datetime.now(UTC)


class Ledger:
    """An open ledger. Safe to use from several threads and processes; a context manager."""

    def __init__(self, store: LedgerStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._near = False  # whether the last checkpoint was seen to be near; what this program appends keeps it so

    @classmethod
    def open(
        cls,
        target: str | Path,
        *,
        busy_timeout: float = 30.0,
        create: bool = True,
        clock: Callable[[], datetime] = read_clock,
    ) -> Ledger:
        """Open a ledger. A write-protected file can be read.

        Args:
            target: a path, or a ``postgresql://…`` URL.
            busy_timeout: how many seconds a writer waits for another.
            create: make a ledger if there is none; False refuses instead.
            clock: gives the present time; for tests.

        Raises:
            LedgerError: it is no ledger, is newer than this version, or cannot be read.
        """
        from dosimeter.ledger.store import LedgerStore

        return cls(LedgerStore.open(target, busy_timeout=busy_timeout, create=create), clock)

    def close(self) -> None:
        """Close the ledger. A ``with`` block does it at its end."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self._store.label!r})"

    def account(self, dataset: str) -> Account | None:
        """Return an account with its whole history; None without one. Reads every record; ``summary`` does not."""
        with self._store.reading() as transaction:
            return CheckedChain.read_all(transaction).of(dataset).account

    def accounts(self) -> tuple[Account, ...]:
        """Return every account with its whole history, in the order in which their datasets first appear."""
        with self._store.reading() as transaction:
            checked = CheckedChain.read_all(transaction)
        return tuple(replay.account for _, replay in checked.each() if replay.account is not None)

    def summary(self, dataset: str) -> AccountSummary | None:
        """Return an account as it is now, without its entries; None without one. Reads from the last checkpoint on."""
        with self._using() as transaction:
            return CheckedChain.read(transaction).of(dataset).summary

    def remaining(self, dataset: str) -> Remaining | None:
        """Return what is left of an account: of its budget, and how many more answers fit; None without an account.

        Args:
            dataset: the account's name.
        """
        summary = self.summary(dataset)
        return None if summary is None else summary.remaining

    def summaries(self) -> tuple[AccountSummary, ...]:
        """Return every account as it is now, in the order in which their datasets first appear."""
        with self._using() as transaction:
            found = (replay.summary for _, replay in CheckedChain.read(transaction).each())
            return tuple(summary for summary in found if summary is not None)

    def datasets(self) -> tuple[str, ...]:
        return tuple(summary.dataset for summary in self.summaries())

    def entry(self, entry_id: str) -> Entry | None:
        """Return an entry by its name; None if there is none. The chain of records from it to the end is checked."""
        with self._using() as transaction:
            return find_entry(transaction, entry_id)

    def complete_entry(self, beginning: str) -> str:
        """Return the name of the only entry that begins with this text. Raises LedgerError for none or several."""
        with self._using() as transaction:
            return complete_entry(transaction, beginning)

    def entries(self, dataset: str, limit: int, *, before: str | None = None) -> tuple[Entry, ...]:
        """Return up to ``limit`` of an account's entries, newest first. Checks the chain from the oldest of these on.

        ``before``: the name of an entry; return only older ones, and none if the account has no such entry.
        """
        with self._using() as transaction:
            return list_entries(transaction, dataset, limit, before)

    def find_answer(self, dataset: str, request_digest: str) -> Entry | None:
        """Return the latest released entry whose request has this digest, or None. Checks the chain from it on."""
        with self._using() as transaction:
            return find_answer(transaction, dataset, request_digest)

    def recall(self, dataset: str, request: Request, *, answer: bool = True) -> tuple[Entry | None, str | None]:
        """Return what was released before: the entry of this very request or, without one, the name of a similar entry.

        The result is (entry, None), (None, name) or (None, None); of several, the latest counts. A similar entry
        answered the same query on the same data, by any settings. ``answer=False``: look for a similar entry only.
        """
        with self._using() as transaction:
            found = find_answer(transaction, dataset, request.request_digest) if answer else None
            if found is not None:
                return found, None
            return None, find_earlier(transaction, dataset, request.plan_digest, request.source_digest)

    def find_earlier(self, dataset: str, plan_digest: str, source_digest: str) -> str | None:
        """Return the name of the latest entry that answered this query on these data, by any settings; or None."""
        with self._using() as transaction:
            return find_earlier(transaction, dataset, plan_digest, source_digest)

    def find_kept(self, dataset: str, of: str) -> KeptNumber | None:
        """Return the latest number that a noisy test kept for the question with the digest ``of``; or None (V8).

        For the controller's programs: an analyst only gets the ε that the number leads to.
        """
        with self._using() as transaction:
            return find_kept(transaction, dataset, of)

    def find_reference(self, dataset: str, reference: str) -> Entry | None:
        """Return the latest entry whose caller gave it this reference, a text; or None. Checks the chain from it on."""
        with self._using() as transaction:
            return find_reference(transaction, dataset, reference)

    def continuations(self, dataset: str) -> tuple[Continuation, ...]:
        """Return an account's continuations, by which it went on with changed data or schema, the oldest first."""
        with self._using() as transaction:
            CheckedChain.read(transaction)
            return list_continuations(transaction, dataset)

    def readings(self, dataset: str, most: int) -> tuple[tuple[int, str, Decimal], ...]:
        """Return (entry count, time, ε) of up to ``most`` earlier readings, then of the present; () without entries."""
        with self._using() as transaction:
            replay = CheckedChain.read(transaction).of(dataset)
            if replay.summary is None or not replay.summary.entry_count:
                return ()
            earlier = list_readings(transaction, dataset, most)
            return *earlier, (replay.summary.entry_count, self._now(), replay.summary.reading.epsilon)

    def check_holder(
        self,
        dataset: str,
        source_digest: str,
        identities: frozenset[str] = frozenset(),
        public: frozenset[str] = frozenset(),
    ) -> None:
        """Refuse data that are stopped, or that another account holds or once held: nobody may start over at zero.

        ``identities``: of the stored tables or files. ``public``: the identities of tables that are declared public;
        these are refused if any account protects them. Call this before the data are measured. ``reserve`` checks it
        again when it opens or continues an account.
        """
        with self._using() as transaction:
            checked = CheckedChain.read(transaction)
            check_holder(checked, dataset, source_digest, identities)
            check_public(checked, public)

    def people_key(self) -> str:
        """Return the key of this ledger's digests of individuals. The first call of all makes one."""
        with self._store.reading() as transaction:
            key = find_key(transaction)
        if key is not None:
            return key
        with self._store.writing() as transaction:
            return make_key(transaction)

    def shared_people(self, dataset: str, people: People) -> tuple[SharedPeople, ...]:
        """Return the other accounts that share individuals with some data, the one with most first.

        Accounts of which the controller said that they hold other people are left out. ``dataset``: the account that
        the data are for. ``people``: their individuals, as digests by this ledger's key.
        """
        with self._using() as transaction:
            return find_shared(transaction, CheckedChain.read(transaction), dataset, people)

    def unidentified(self) -> tuple[str, ...]:
        """Return the names of the accounts from version 0.1.0 whose data have no known identities yet."""
        with self._using() as transaction:
            return CheckedChain.read(transaction).list_unidentified()

    def viewed(self, dataset: str, *digests: str) -> bool:
        """Return whether somebody looked at the risk or a dry run of a query with one of these digests (G1).

        ``digests``: of what is measured (``digest_measured``); and of the plan, for looks that version 0.1.0 recorded.
        """
        with self._using() as transaction:
            return CheckedChain.read(transaction).of(dataset).find_views(*digests) != ()

    def may_tell_look(self, dataset: str, *digests: str, analyst: str | None) -> bool:
        """Return whether somebody looked (see ``viewed``) at this analyst's query, or at one that no analyst asked."""
        with self._using() as transaction:
            return concerns_analyst(CheckedChain.read(transaction).of(dataset).find_views(*digests), analyst)

    def stopped(self, dataset: str) -> Incident | None:
        """Return the incident that stopped a dataset; None if it is not stopped. No account is needed."""
        with self._using() as transaction:
            return CheckedChain.read(transaction).of(dataset).stopped

    def incidents(self, dataset: str) -> tuple[Incident, ...]:
        """Return all incidents of a dataset, cleared or not, the oldest first. If there are any, reads all records."""
        with self._using() as transaction:
            some = bool(transaction.numbers(dataset, "stop", limit=1))
            checked = CheckedChain.read_all(transaction) if some else CheckedChain.read(transaction)
            return checked.of(dataset).incidents

    def stopped_datasets(self) -> tuple[Incident, ...]:
        """Return the incident of every dataset that is stopped now, with or without an account."""
        with self._using() as transaction:
            return tuple(
                replay.stopped for _, replay in CheckedChain.read(transaction).each() if replay.stopped is not None
            )

    def describe(self, dataset: str | None = None) -> JsonObject:
        """Return accounts, with their readings, entries and stops, as JSON values: of all datasets or of one.

        An infinite reading is null: JSON has no infinity. A dataset without an account is listed while it is stopped.

        Args:
            dataset: one dataset's name; by default all.
        """
        with self._store.reading() as transaction:
            checked = CheckedChain.read_all(transaction)
        wanted = [replay for name, replay in checked.each() if dataset in (None, name)]
        return {"datasets": [described for replay in wanted if (described := _describe(replay)) is not None]}

    def export(self, stream: TextIO) -> None:
        """Write every record as one line of JSON.

        Args:
            stream: the text stream to write to.
        """
        with self._store.reading() as transaction, refusing_bad_records(), closing(transaction.rows()) as rows:
            for record in follow_chain(rows):
                stream.write(record.to_json_line() + "\n")

    def verify(self, head: str | None = None) -> Verification:
        """Check the whole chain of records, and return whether it is intact and, if not, the first bad record.

        Args:
            head: a digest that ``head`` gave earlier. Only such a digest can show that the last records were cut off.
        """
        wanted = GENESIS if head is None else head.strip().lower()
        if not re.fullmatch(r"[0-9a-f]{64}", wanted):
            raise LedgerError("A head is a digest of 64 hexadecimal digits, as verify prints it.")
        found = wanted == GENESIS
        checked = CheckedChain()
        with self._store.reading() as transaction:
            try:
                with closing(transaction.rows()) as rows:
                    for record in follow_chain(rows):
                        checked.add(record)
                        found = found or record.digest == wanted
            except BadRecord as bad:
                return Verification(False, transaction.count(), checked.head, (bad.seq, bad.reason))
        count = checked.next_seq - 1
        if not found:
            reason = "no record has the head that was asked for: the tail was cut off, or it is another ledger's"
            return Verification(False, count, checked.head, (count + 1, reason))
        return Verification(True, count, checked.head)

    def head(self) -> str:
        """Return the digest of the last record, to be noted beside an answer. Reads from the last checkpoint on."""
        with self._using() as transaction:
            return CheckedChain.read(transaction).head

    def require_intact(self) -> Verification:
        """Check the whole chain of records, and return the result. Raises LedgerError if the ledger was altered."""
        found = self.verify()
        if found.first_bad is not None:
            with refusing_bad_records():
                raise BadRecord(*found.first_bad)
        return found

    def reserve(self, dataset: str, decide: Callable[[AccountSummary | None], Reservation]) -> Entry:
        """Read the account, decide and charge, in one transaction in which nobody else writes; return the entry.

        ``decide`` gets the account as it is now. What it returns is on disk when this method returns; what it raises is
        raised here, and nothing is written. It must not use the ledger itself, and should be quick: every other writer
        waits. The ledger refuses a charge that the account's own terms do not admit.
        """
        check_text(dataset, "A dataset's name")
        with self._store.writing() as transaction:
            checked = CheckedChain.read(transaction)
            replay = checked.of(dataset)
            if replay.stopped is not None:
                raise refuse_stopped(dataset)
            reservation = decide(replay.summary)
            request = reservation.request
            writer = RecordWriter(transaction, checked, dataset, self._now())
            _agree(transaction, checked, writer, dataset, reservation)
            _check_reservation(dataset, replay.summary, reservation)
            looks = replay.find_views(request.plan_digest, request.measured_digest)
            payload = {
                "status": reservation.status,
                "charge": write_charge(reservation.charge),
                "request": request.to_payload(),
                "viewed": reservation.viewed or bool(looks),
                "told": reservation.viewed or concerns_analyst(looks, request.analyst),
            } | write_decision(reservation)
            entry_id = derive_entry_id(checked.next_seq, checked.head)
            writer.append("reserve", payload, entry_id)
            writer.finish()
            return _require_entry(replay, entry_id)  # leaving the block commits, or raises

    def identify(self, dataset: str, identification: Identification) -> None:
        """Record identities of data that the account was opened or continued with, even if another one holds them."""
        with self._store.writing() as transaction:
            checked = CheckedChain.read(transaction)
            writer = RecordWriter(transaction, checked, dataset, self._now())
            _write_identification(checked, writer, dataset, identification)
            writer.finish()

    def settle(
        self,
        entry_id: str,
        *,
        status: Literal["released", "denied"],
        answer: Sequence[Mapping[str, object]] | None = None,
        guarantee: str | None = None,
        error_95: Sequence[float | None] | None = None,
        measured: Sequence[Sequence[Fraction]] | None = None,
        incident: IncidentKind | None = None,
        details: Details | None = None,
    ) -> Entry:
        """Write the outcome of a reserved entry, and return the entry. The charge stays, even for a denial.

        ``measured``: the noisy numbers that the answer was made of, by group and measure; they let the risk be looked
        at later. ``details``: what else is to be recorded. ``incident``: the failure because of which the entry is
        denied; it stops the dataset, in the same transaction. Hand out the returned entry's answer: it is what the
        ledger holds.
        """
        details = details or Details()
        if status not in ("released", "denied"):
            raise LedgerError("An entry is settled as released or denied.")
        if (status == "released") != (answer is not None):
            raise LedgerError("A released entry has an answer, and a denied one has none.")
        if status == "denied" and measured is not None:
            raise LedgerError("A denied entry has no measured numbers.")
        if status == "released" and incident is not None:
            raise LedgerError("An entry that was released did not fail.")
        payload: dict[str, object] = {
            "status": status,
            "answer": None if answer is None else tabulate_answer(answer),
            "guarantee": guarantee,
            "error_95": None if error_95 is None else list(error_95),
            "measured": None if measured is None else [write_measured(block) for block in (measured, *details.further)],
            **details.to_payload(),
        }
        if incident is not None:
            payload["reason"] = "incident"
        with self._store.writing() as transaction:
            checked = CheckedChain.read(transaction)
            entry = find_open(transaction, checked, entry_id) or find_entry(transaction, entry_id)
            if entry is None:
                raise LedgerError(f"The ledger has no entry {entry_id!r}.")
            if entry.status != "reserved":
                raise LedgerError(f"Entry {entry_id} is {entry.status} already; an entry is settled once.")
            writer = RecordWriter(transaction, checked, entry.dataset, self._now())
            writer.append("settle", payload, entry_id)
            if incident is not None:
                stop = write_incident(incident, entry.request.software, entry.request_digest)
                writer.append("stop", stop, entry_id)
            writer.finish()
            return _require_entry(checked.of(entry.dataset), entry_id)

    def stop(
        self,
        dataset: str,
        kind: IncidentKind,
        *,
        software: str,
        request_digest: str | None = None,
        identities: frozenset[str] = frozenset(),
    ) -> Incident:
        """Stop a dataset for everybody (N4): from now on, every release from it is refused. No account is needed.

        ``kind``: what failed, as a fixed word. ``request_digest``: the digest of the request that failed, if there was
        one. ``identities``: the data's, if no account holds these data yet; until the stop is cleared, no account of
        any name is opened for them. Return the incident that stopped the dataset: the first one, if it was stopped
        already.
        """
        check_text(dataset, "A dataset's name")
        payload = write_incident(kind, software, request_digest, identities)
        with self._store.writing() as transaction:
            checked = CheckedChain.read(transaction)
            writer = RecordWriter(transaction, checked, dataset, self._now())
            writer.append("stop", payload)
            writer.finish()
            return checked.of(dataset).open_incidents[0]

    def clear(self, dataset: str, *, by: str, reason: str) -> Incident:
        """Clear all incidents that stop a dataset, and return the latest of them as cleared.

        Args:
            dataset: its name.
            by: who clears it; recorded.
            reason: why releases may go on; recorded.
        """
        payload = {"by": check_text(by, "The name of who clears it"), "reason": check_text(reason, "The reason")}
        with self._store.writing() as transaction:
            checked = CheckedChain.read(transaction)
            replay = checked.of(dataset)
            if replay.stopped is None:
                raise LedgerError(f"The dataset {dataset!r} is not stopped. There is nothing to clear.")
            writer = RecordWriter(transaction, checked, dataset, self._now())
            writer.append("clear", payload)
            writer.finish()
            return replay.incidents[-1]

    def record_view(self, dataset: str, digest: str, what: View, *, analyst: str | None = None) -> None:
        """Record that somebody looked at the risk or a dry run of a query. Looking again adds no record.

        ``digest``: of what is measured (``digest_measured``), the same for every wording of a question.
        ``analyst``: who asked the query; None if no analyst did.
        """
        check_text(dataset, "A dataset's name")
        check_text(digest, "digest")
        if what not in ("risk", "dry-run"):
            raise LedgerError("What was viewed is risk or dry-run.")
        with self._store.writing() as transaction:
            checked = CheckedChain.read(transaction)
            if not checked.of(dataset).knows_view(digest, what, analyst):
                payload = {"digest": digest, "what": what, "analyst": analyst}
                writer = RecordWriter(transaction, checked, dataset, self._now())
                writer.append("view", payload)
                writer.finish()

    @contextmanager
    def _using(self) -> Iterator[Transaction]:
        """Yield a transaction to read in. First write a checkpoint if too many records follow the last one."""
        with ExitStack() as stack:
            transaction = stack.enter_context(self._store.reading())
            if not self._near and not checkpoint_is_near(transaction):
                stack.close()
                self._write_due_checkpoint()
                transaction = stack.enter_context(self._store.reading())
            self._near = True
            yield transaction

    def _write_due_checkpoint(self) -> None:
        """Write a checkpoint if one is due. A failure is ignored: reading then only takes longer."""
        with suppress(LedgerError), self._store.writing() as transaction:
            RecordWriter(transaction, CheckedChain.read(transaction), "", self._now()).finish()

    def _now(self) -> str:
        return self._clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _describe(replay: DatasetReplay) -> JsonObject | None:
    """Return one dataset as JSON values; None if it has no account and is not stopped."""
    account, stopped = replay.account, replay.stopped
    if account is not None:
        return account.describe()
    return None if stopped is None else describe_without_account(stopped)


def _require_entry(replay: DatasetReplay, entry_id: str) -> Entry:
    entry = replay.find_entry(entry_id)
    if entry is None:
        raise LedgerError(f"The ledger has no entry {entry_id!r}.")
    return entry


def _agree(
    transaction: Transaction, checked: CheckedChain, writer: RecordWriter, dataset: str, reservation: Reservation
) -> None:
    """Write what the reservation adds to the account: its opening, a continuation, its data's identities; or refuse."""
    account = checked.of(dataset).summary
    opening, continuation = reservation.opening, reservation.continuation
    agreed = opening or continuation
    if agreed is not None:
        check_holder(checked, dataset, reservation.request.source_digest, agreed.identities or frozenset())
        check_public(checked, agreed.public)
        if reservation.people is not None:
            check_shared(find_shared(transaction, checked, dataset, reservation.people), agreed.apart)
            add_people(transaction, dataset, reservation.people)
    if opening is not None:
        if account is not None:
            raise LedgerError(f"The dataset {dataset!r} has an account already; it cannot be opened again.")
        check_apart(checked.list_unidentified(), opening.apart)
        writer.append("account", opening.to_payload())
    if continuation is not None:
        if account is None:
            raise LedgerError(f"The dataset {dataset!r} has no account that could be continued.")
        writer.append("continue", continuation.to_payload())
    if reservation.identification is not None:
        _write_identification(checked, writer, dataset, reservation.identification)


def _write_identification(checked: CheckedChain, writer: RecordWriter, dataset: str, found: Identification) -> None:
    account = checked.of(dataset).summary
    if account is None or not account.is_of(found.schema_digest, found.source_digest):
        raise LedgerError(f"The account of {dataset!r} never agreed to these data: they cannot be identified.")
    if (found.schema_digest, found.source_digest) not in account.identified:  # another process may have been faster
        writer.append("identify", found.to_payload(checked.list_holders(dataset, found.identities)))


def _check_reservation(dataset: str, account: AccountSummary | None, reservation: Reservation) -> None:
    """Refuse a reservation that the terms of the account do not allow, whatever the caller decided (O2, O3)."""
    if account is None:
        raise LedgerError(
            f"The dataset {dataset!r} has no account yet. Say with ", Option("policy"), " on which terms to open one."
        )
    request = reservation.request
    account.check_terms(algorithm=request.algorithm)
    if not account.is_of(request.schema_digest, request.source_digest):
        raise account.refuse_change(request.schema_digest, request.source_digest)
    charge = reservation.charge
    if charge.is_nothing:
        return
    if account.policy.in_zcdp != (charge.rho is not None):
        raise LedgerError(f"A charge has a ρ if the policy of its account counts ρ; that of {dataset!r} differs.")
    if not admits_charge(account.policy, account.reading, charge, max_epsilon=account.max_epsilon):
        raise LedgerError(f"The account of {dataset!r} does not admit this charge under its policy {account.policy}.")
