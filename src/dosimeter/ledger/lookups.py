"""Find entries without reading the whole ledger. Takes what was asked; gives entries of the chain, or their names.

An index only says where to look. Before an entry is returned, the chain of records is checked from the checkpoint
before the entry to the end, so that an altered or invented entry is refused. If an index hides an entry, its request is
answered anew and charged again: too much, never too little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from dosimeter.errors import LedgerError
from dosimeter.ledger.checked_chain import CheckedChain
from dosimeter.ledger.entries import Entry, KeptNumber, Request
from dosimeter.ledger.records import Record, read_alone, read_payload, refusing_bad_records
from dosimeter.ledger.replay import DatasetReplay
from dosimeter.ledger.transactions import LedgerTransactions
from dosimeter.ledger.values import Continuation
from dosimeter.problems import Command, Option

if TYPE_CHECKING:
    from dosimeter.ledger.store import Transaction

_FIRST = 4  # the latest records under a key are nearly always enough


class LedgerLookups(LedgerTransactions):
    """What a ledger finds again: entries by what was asked, continuations, earlier readings."""

    def entry(self, entry_id: str) -> Entry | None:
        """Return an entry by its name; None if there is none. The chain of records from it to the end is checked."""
        with self._using() as transaction:
            return find_entry(transaction, entry_id)

    def complete_entry(self, beginning: str) -> str:
        """Return the name of the only entry that begins with this text. Raises LedgerError for none or several."""
        with self._using() as transaction:
            found = transaction.list_entries(beginning, 2) if beginning else []
        if len(found) != 1:
            problem = f"has several entries that begin with {beginning}" if found else f"has no entry {beginning}"
            listed = Command("ledger LEDGER", Option("json", True), call="Ledger.describe()")
            raise LedgerError(f"The ledger {problem}. ", listed, " lists the entries.")
        return found[0]

    def entries(self, dataset: str, limit: int, *, before: str | None = None) -> tuple[Entry, ...]:
        """Return up to ``limit`` of an account's entries, newest first. Checks the chain from the oldest of these on.

        ``before``: the name of an entry; return only older ones, and none if the account has no such entry.
        """
        with self._using() as transaction:
            last = None if before is None else _find_reserved(transaction, before)
            known = before is None or (last is not None and last.dataset == dataset)
            older = None if last is None else last.seq
            numbers = transaction.numbers(dataset, "reserve", before=older, limit=limit) if known else []
            if not numbers:
                CheckedChain.read(transaction)
                return ()
            replay = CheckedChain.read(transaction, before=numbers[-1][0]).of(dataset)
            found = (replay.find_entry(entry_id) for _, entry_id in numbers)
            return tuple(entry for entry in found if entry is not None)

    def find_answer(self, dataset: str, request_digest: str) -> Entry | None:
        """Return the latest released entry whose request has this digest, or None. Checks the chain from it on."""
        with self._using() as transaction:
            return _find_answer(transaction, dataset, request_digest)

    def recall(self, dataset: str, request: Request, *, answer: bool = True) -> tuple[Entry | None, str | None]:
        """Return what was released before: the entry of this very request or, without one, the name of a similar entry.

        The result is (entry, None), (None, name) or (None, None); of several, the latest counts. A similar entry
        answered the same query on the same data, by any settings. ``answer=False``: look for a similar entry only.
        """
        with self._using() as transaction:
            found = _find_answer(transaction, dataset, request.request_digest) if answer else None
            if found is not None:
                return found, None
            return None, _find_earlier(transaction, dataset, request.plan_digest, request.source_digest)

    def find_earlier(self, dataset: str, plan_digest: str, source_digest: str) -> str | None:
        """Return the name of the latest entry that answered this query on these data, by any settings; or None."""
        with self._using() as transaction:
            return _find_earlier(transaction, dataset, plan_digest, source_digest)

    def find_kept(self, dataset: str, of: str) -> KeptNumber | None:
        """Return the latest number that a noisy test kept for the question with the digest ``of``; or None (V8).

        The chain of records is checked from the number's entry to the end. For the controller's programs: an analyst
        only gets the ε that the number leads to.
        """
        with self._using() as transaction:
            found = _find(transaction, "kept", dataset, of)
            entry = _follow_first(transaction, found, lambda entry: entry.kept is not None and entry.kept.of == of)
        return None if entry is None else entry.kept

    def find_reference(self, dataset: str, reference: str) -> Entry | None:
        """Return the latest entry whose caller gave it this reference, a text; or None. Checks the chain from it on."""
        with self._using() as transaction:
            found = _find(transaction, "reference", dataset, reference)
            return _follow_first(transaction, found, lambda entry: entry.request.settings.get("reference") == reference)

    def continuations(self, dataset: str) -> tuple[Continuation, ...]:
        """Return an account's continuations, by which it went on with changed data or schema, the oldest first."""
        with self._using() as transaction:
            CheckedChain.read(transaction)
            found = _list_records(transaction, dataset, "continue", None)
            return tuple(Continuation.from_payload(read_payload(record), record.at) for record in found)

    def readings(self, dataset: str, most: int) -> tuple[tuple[int, str, Decimal], ...]:
        """Return (entry count, time, ε) of up to ``most`` earlier readings, then of the present; () without entries."""
        with self._using() as transaction:
            replay = CheckedChain.read(transaction).of(dataset)
            if replay.summary is None or not replay.summary.entry_count:
                return ()
            count = replay.summary.entry_count
            earlier = (each for each in _list_readings(transaction, dataset, most) if each[0] < count)
            return *earlier, (count, self._now(), replay.summary.reading.epsilon)


def find_entry(transaction: Transaction, entry_id: str) -> Entry | None:
    """Return an entry by its name; None if there is none. The chain of records from it to the end is checked."""
    record = _find_reserved(transaction, entry_id)
    return _follow_first(transaction, [] if record is None else [record], lambda _: True)


def find_open(transaction: Transaction, checked: CheckedChain, entry_id: str) -> Entry | None:
    """Return the entry of this name if it is still reserved or has a record after the last checkpoint; otherwise None.

    ``checked``: the ledger as read from the last checkpoint on.
    """
    record = _find_reserved(transaction, entry_id)
    return None if record is None else checked.of(record.dataset).find_entry(entry_id)


def _find_answer(transaction: Transaction, dataset: str, request_digest: str) -> Entry | None:
    """Return the latest released entry whose request has this digest; None without one. Checks the chain from it on."""
    found = _find_released(transaction, "request", dataset, request_digest)
    return _follow_first(
        transaction, found, lambda entry: entry.status == "released" and entry.request_digest == request_digest
    )


def _find_earlier(transaction: Transaction, dataset: str, plan_digest: str, source_digest: str) -> str | None:
    """Return the name of the latest released entry of this query on these data, by any settings; None without one.

    The chain is not checked here, but later, when the entry is read by its name.
    """
    found = _find_released(transaction, "query", dataset, plan_digest, source_digest)
    return next((record.entry for record in found), None)


def _list_readings(transaction: Transaction, dataset: str, most: int) -> Iterator[tuple[int, str, Decimal]]:
    """Yield up to ``most`` earlier readings of an account, the oldest first.

    They are read from the account's states; of more than ``most`` states, from every second, every third …. Each is a
    triple: how many entries there were, the time, and the reading in ε. Each state is checked by itself; the chain is
    not checked.
    """
    for record in _list_records(transaction, dataset, "state", most):
        with refusing_bad_records():
            summary = DatasetReplay.read_state(record).summary
        if summary is not None and summary.entry_count:
            yield summary.entry_count, record.at, summary.reading.epsilon


def _list_records(transaction: Transaction, dataset: str, kind: str, most: int | None) -> Iterator[Record]:
    numbers = [number for number, _ in transaction.numbers(dataset, kind)][::-1]
    step = 1 if most is None else max(1, -(-len(numbers) // most))
    for number in numbers[::step]:
        yield from _read([row for row in [transaction.row(number)] if row is not None])


def _follow_first(
    transaction: Transaction, records: Iterable[Record], is_wanted: Callable[[Entry], bool]
) -> Entry | None:
    """Return the first wanted entry among those of these records, or None. Checks the chain of records from it on."""
    for record in records:
        entry = CheckedChain.read(transaction, before=record.seq).of(record.dataset).find_entry(record.entry)
        if entry is not None and is_wanted(entry):
            return entry
    CheckedChain.read(transaction)
    return None


def _find_reserved(transaction: Transaction, entry_id: str) -> Record | None:
    return next((record for record in _read(transaction.find_by_entry(entry_id)) if record.kind == "reserve"), None)


def _find_released(transaction: Transaction, key: str, dataset: str, *texts: str) -> Iterator[Record]:
    """Yield a dataset's reservations that a lookup by ``key`` finds and whose answer was released, the latest first.

    ``key``: a name in ``KEYS`` of ``backends.py``. With ``request``, the lookup is by the digest of a request; with
    ``query``, by the digests of a plan and a source. ``texts``: these digests.
    """
    for record in _find(transaction, key, dataset, *texts):
        of_entry = _read(transaction.find_by_entry(record.entry))
        if any(each.kind == "settle" and _is_released(each) for each in of_entry):
            yield record


def _is_released(record: Record) -> bool:
    with refusing_bad_records():
        return read_payload(record).get("status") == "released"


def _find(transaction: Transaction, key: str, dataset: str, *texts: str) -> Iterator[Record]:
    rows = transaction.find(key, *texts, limit=_FIRST)
    yield from (record for record in _read(rows) if record.dataset == dataset)
    if len(rows) == _FIRST:
        others = _read(transaction.find(key, *texts)[_FIRST:])
        yield from (record for record in others if record.dataset == dataset)


def _read(rows: Sequence[Sequence[object]]) -> Iterator[Record]:
    for row in rows:
        with refusing_bad_records():
            record = read_alone(row)
        yield record
