"""The ledger as the controller uses it: read accounts, reserve, settle, verify. Takes values; gives values.

Every call checks the chain of records from the last checkpoint to its end; ``verify``, and calls that return a whole
history, check it from the first record. So nothing is granted by records that do not follow from one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from traceback import clear_frames
from typing import Literal, Self, TextIO

from dosimeter.errors import Interrupted, LedgerError
from dosimeter.json_values import JsonObject
from dosimeter.ledger.agreement import agree, check_reservation, write_identification
from dosimeter.ledger.chain import BadRecord, Verification, check_head, follow_chain, verify_chain
from dosimeter.ledger.checked_chain import CheckedChain, RecordWriter, draw_lock_name
from dosimeter.ledger.entries import (
    DenialReason,
    Details,
    Entry,
    Request,
    tabulate_answer,
    write_charge,
    write_measured,
)
from dosimeter.ledger.holders import check_holder, check_public, find_shared
from dosimeter.ledger.incidents import Incident, IncidentKind, refuse_stopped, write_incident
from dosimeter.ledger.lookups import LedgerLookups, find_entry, find_open
from dosimeter.ledger.measurement_marks import Mark, Measuring, add_sentence, describe_charge, describe_unknown
from dosimeter.ledger.people import People, SharedPeople, find_key, make_key
from dosimeter.ledger.records import Record, check_text, derive_entry_id, refusing_bad_records
from dosimeter.ledger.remaining import Remaining
from dosimeter.ledger.replay import DatasetReplay, concerns_analyst
from dosimeter.ledger.values import (
    Account,
    AccountSummary,
    Continuation,
    Identification,
    Reservation,
    write_decision,
)

View = Literal["risk", "dry-run"]


def read_clock() -> datetime:
    return datetime.now(UTC)


class Ledger(LedgerLookups):
    """An open ledger. Safe to use from several threads and processes; a context manager."""

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

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self._store.backend.label!r})"

    def account(self, dataset: str) -> Account | None:
        """Return an account with its whole history; None without one. Reads every record; ``summary`` does not."""
        return self._look(lambda checked: checked.of(dataset).account, dataset, whole=True)

    def accounts(self) -> tuple[Account, ...]:
        """Return every account with its whole history, in the order in which their datasets first appear."""
        return self._list(lambda replay: replay.account, whole=True)

    def summary(self, dataset: str) -> AccountSummary | None:
        """Return an account as it is now, without its entries; None without one. Reads from the last checkpoint on."""
        return self._look(lambda checked: checked.of(dataset).summary, dataset)

    def remaining(self, dataset: str) -> Remaining | None:
        """Return what is left of an account: of its budget, and how many more answers fit; None without an account.

        Args:
            dataset: the account's name.
        """
        summary = self.summary(dataset)
        return None if summary is None else summary.remaining

    def summaries(self) -> tuple[AccountSummary, ...]:
        """Return every account as it is now, in the order in which their datasets first appear."""
        return self._list(lambda replay: replay.summary)

    def datasets(self) -> tuple[str, ...]:
        return tuple(summary.dataset for summary in self.summaries())

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

        def check(checked: CheckedChain) -> None:
            check_holder(checked, dataset, source_digest, identities)
            check_public(checked, public)

        self._look(check)

    def share_held(self, dataset: str, identities: frozenset[str]) -> float:
        """Return which share of these identities of stored tables or files the account holds or ever held."""
        return self._look(lambda checked: checked.of(dataset).share_held(identities))

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
        return self._look(lambda checked: checked.of(dataset).stopped, dataset)

    def incidents(self, dataset: str) -> tuple[Incident, ...]:
        """Return all incidents of a dataset, cleared or not, the oldest first. If there are any, reads all records."""
        with self._using() as transaction:
            some = bool(transaction.numbers(dataset, "stop", limit=1))
        return self._look(lambda checked: checked.of(dataset).incidents, dataset, whole=some)

    def stopped_datasets(self) -> tuple[Incident, ...]:
        """Return the incident of every dataset that is stopped now, with or without an account."""
        return self._list(lambda replay: replay.stopped)

    def describe(self, dataset: str | None = None) -> JsonObject:
        """Return accounts, with their readings, entries and stops, as JSON values: of all datasets or of one.

        An infinite reading is null: JSON has no infinity. A dataset without an account is listed while it is stopped.

        Args:
            dataset: one dataset's name; by default all.
        """
        wanted = self._list(lambda replay: replay.describe() if dataset in (None, replay.dataset) else None, whole=True)
        return {"datasets": list(wanted)}

    def export(self, stream: TextIO) -> None:
        """Write every record as one line of JSON.

        Args:
            stream: the text stream to write to.
        """
        with self._store.reading() as transaction, refusing_bad_records(), closing(transaction.rows()) as rows:
            for record in follow_chain(Record, rows):
                stream.write(record.to_json_line() + "\n")

    def verify(self, head: str | None = None) -> Verification:
        """Check the whole chain of records, and return whether it is intact and, if not, the first bad record.

        Args:
            head: a digest that ``head`` gave earlier. Only such a digest can show that the last records were cut off.
        """
        wanted, checked = check_head(head, LedgerError), CheckedChain()

        def follow(rows: Iterable[Sequence[object]]) -> Iterator[Record]:
            for record in follow_chain(Record, rows):
                checked.add(record)
                yield record

        with self._store.reading() as transaction:
            with closing(transaction.rows()) as rows:
                found = verify_chain(follow(rows), wanted, name="ledger")
            return found if found.intact else replace(found, records=transaction.count())

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

    def lock_measurement(self, dataset: str) -> Measuring:
        """Take a lock by which others know that this process still lives. Release what is returned when all is over."""
        lock = draw_lock_name()
        held = self._store.backend.take_lock(lock)
        assert held is not None, "nobody else knows the name"
        return Measuring(check_text(dataset, "A dataset's name"), lock, held)

    def begin(self, measuring: Measuring, request: Request, identities: frozenset[str] = frozenset()) -> None:
        """Write a mark that data are measured for a request: call this before they are.

        ``reserve`` ends the mark, and so do ``stop`` and ``end_by``. A mark without an end whose process no longer runs
        is an incident at the next use. ``identities``: as in ``stop``.
        """
        mark = Mark(
            dataset=measuring.dataset, lock=measuring.lock, at=self._now(), request_digest=request.request_digest,
            software=request.software, identities=identities,
        )  # fmt: skip
        with self._writing(measuring.dataset) as (_, _, writer):
            writer.append("measure", mark.to_payload())

    def end_by(self, error: BaseException, measuring: Measuring) -> BaseException:
        """Return the error that ended a release, with a sentence on its charge if it is an interrupt or the ledger's.

        Call this for interrupts and errors of this package. They end the mark, if nothing else has: neither tells of
        the data. What does is recorded by ``stop`` first, and if that fails, no end is written in its place.
        """
        if measuring.failed:
            return error
        if isinstance(error, KeyboardInterrupt | SystemExit):  # its frames may hold a transaction open
            clear_frames(error.__traceback__)
        try:
            entry = self.end(measuring)
        except LedgerError:
            return add_sentence(error, describe_unknown(measuring)) if isinstance(error, LedgerError) else error
        measuring.done = entry is None or entry.status != "reserved"
        if isinstance(error, KeyboardInterrupt | Interrupted) and entry is not None:
            return Interrupted(f"Stopped. {describe_charge(entry)}")
        if isinstance(error, LedgerError):
            return add_sentence(error, "Nothing was charged." if entry is None else describe_charge(entry))
        return error

    def end(self, measuring: Measuring, *, denied: tuple[Request, DenialReason] | None = None) -> Entry | None:
        """Write that a measurement ended, if it has not ended; return the entry that it was reserved as, or None.

        ``denied``: the request, and why it was denied before there was an account, which it does not open.
        """
        payload: JsonObject = {"lock": measuring.lock}
        if denied is not None:
            payload |= {"request": denied[0].to_payload(), "reason": denied[1]}
        with self._writing(measuring.dataset) as (transaction, checked, writer):  # after what is still being committed
            if checked.of(measuring.dataset).is_measured_by(measuring.lock):
                writer.append("end", payload)
                return None
            return None if measuring.entry is None else find_entry(transaction, measuring.entry)

    def reserve(
        self,
        dataset: str,
        decide: Callable[[AccountSummary | None], Reservation],
        *,
        measuring: Measuring | None = None,
        take_up: Request | None = None,
    ) -> Entry:
        """Read the account, decide and charge, in one transaction in which nobody else writes; return the entry.

        ``decide`` gets the account as it is now. What it returns is on disk when this method returns; what it raises is
        raised here, and nothing is written. It must not use the ledger itself, and should be quick: every other writer
        waits. The ledger refuses a charge that the account's own terms do not admit.

        ``measuring``: the measurement that this ends. ``take_up``: a request; if an entry is reserved for it that a
        process left behind when it died, nothing is decided and charged. That entry is returned, and ``measuring``
        holds its lock: nobody else takes it up. Its answer was never handed out, for this happens after settling, and
        an entry is settled once.
        """
        check_text(dataset, "A dataset's name")
        with self._writing(dataset) as (transaction, checked, writer):
            replay = checked.of(dataset)
            if replay.stopped is not None:
                raise refuse_stopped(dataset)
            if measuring is not None and not replay.is_measured_by(measuring.lock):
                raise LedgerError(f"The measurement of {dataset!r} has ended already, or its lock was lost.")
            left = None if measuring is None or take_up is None else self._take_up(replay, take_up, measuring)
            if left is not None and measuring is not None:
                measuring.entry = left.id
                writer.append("end", {"lock": measuring.lock, "taken_up": left.id})
                return left
            reservation = decide(replay.summary)
            request = reservation.request
            if reservation.opening is not None or reservation.continuation is not None:
                self._record_lost(transaction, checked, [name for name, _ in checked.each()])
            agree(transaction, checked, writer, dataset, reservation)
            check_reservation(dataset, replay.summary, reservation)
            looks = replay.find_views(request.plan_digest, request.measured_digest)
            payload = {
                "status": reservation.status,
                "charge": write_charge(reservation.charge),
                "request": request.to_payload(),
                "viewed": reservation.viewed or bool(looks),
                "told": reservation.viewed or concerns_analyst(looks, request.analyst),
            } | write_decision(reservation)
            entry_id = derive_entry_id(checked.next_seq, checked.head)
            if measuring is not None:
                payload["lock"], measuring.entry = measuring.lock, entry_id
            writer.append("reserve", payload, entry_id)
            return replay.require_entry(entry_id)  # leaving the block commits, or raises

    def _take_up(self, replay: DatasetReplay, request: Request, measuring: Measuring) -> Entry | None:
        """Return an entry that a dead process left reserved for this request, once its lock is taken; or None.

        Entries from before there were locks are left alone: nobody can tell whether their process still runs.
        """
        wanted = request.request_digest, request.schema_digest
        for entry in replay.list_unsettled():
            if entry.lock is None or (entry.request_digest, entry.request.schema_digest) != wanted:
                continue
            held = self._store.backend.take_lock(entry.lock)
            if held is not None:
                measuring.keep(held)
                return entry
        return None

    def identify(self, dataset: str, identification: Identification) -> None:
        """Record identities of data that the account was opened or continued with, even if another one holds them."""
        with self._writing(dataset) as (_, checked, writer):
            write_identification(checked, writer, dataset, identification)

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
        agreed: Continuation | None = None,
    ) -> Entry:
        """Write the outcome of a reserved entry, and return the entry. The charge stays, even for a denial.

        ``measured``: the noisy numbers that the answer was made of, by group and measure; they let the risk be looked
        at later. ``details``: what else is to be recorded. ``incident``: the failure because of which the entry is
        denied; it stops the dataset, in the same transaction. ``agreed``: the schema that the released facts make, to
        which the account agrees in the same transaction. Hand out the returned entry's answer: it is what the
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
            if agreed is not None:
                writer.append("continue", agreed.to_payload())
            if incident is not None:
                stop = write_incident(incident, entry.request.software, entry.request_digest)
                writer.append("stop", stop, entry_id)
            writer.finish()
            return checked.of(entry.dataset).require_entry(entry_id)

    def stop(
        self,
        dataset: str,
        kind: IncidentKind,
        *,
        software: str,
        request_digest: str | None = None,
        identities: frozenset[str] = frozenset(),
        measuring: Measuring | None = None,
    ) -> Incident:
        """Stop a dataset for everybody (N4): from now on, every release from it is refused. No account is needed.

        ``kind``: what failed, as a fixed word. ``request_digest``: the digest of the request that failed, if there was
        one. ``identities``: the data's, if no account holds these data yet; until the stop is cleared, no account of
        any name is opened for them. ``measuring``: the measurement that failed, which this ends. Return the incident
        that stopped the dataset: the first one, if it was stopped already.
        """
        check_text(dataset, "A dataset's name")
        payload = write_incident(kind, software, request_digest, identities)
        if measuring is not None:
            measuring.failed = True
        with self._writing(dataset) as (_, checked, writer):
            if measuring is not None and checked.of(dataset).is_measured_by(measuring.lock):
                payload["lock"] = measuring.lock
            writer.append("stop", payload)
            return checked.of(dataset).open_incidents[0]

    def stop_killed(self, dataset: str) -> None:
        """Record an incident for every measurement of a dataset whose process was killed, if there are any.

        A ledger that cannot be written to is left as it is: readers count such a measurement as an incident anyway.
        """
        if self._look(lambda checked: checked.of(dataset).unrecorded, dataset):
            with suppress(LedgerError), self._writing(dataset):
                pass

    def clear(self, dataset: str, *, by: str, reason: str) -> Incident:
        """Clear all incidents that stop a dataset, and return the latest of them as cleared.

        Args:
            dataset: its name.
            by: who clears it; recorded.
            reason: why releases may go on; recorded.
        """
        payload = {"by": check_text(by, "The name of who clears it"), "reason": check_text(reason, "The reason")}
        with self._writing(dataset) as (_, checked, writer):
            replay = checked.of(dataset)
            if replay.stopped is None:
                raise LedgerError(f"The dataset {dataset!r} is not stopped. There is nothing to clear.")
            writer.append("clear", payload)
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
        with self._writing(dataset) as (_, checked, writer):
            if not checked.of(dataset).knows_view(digest, what, analyst):
                writer.append("view", {"digest": digest, "what": what, "analyst": analyst})
