"""Find entries without reading the whole ledger. Takes a transaction; gives entries of the chain, or their names.

An index says where to look, and nothing more: an entry is given once the chain was followed from the checkpoint before
it to the end, so that an altered one, or one that the index invents, is refused. What an index hides is asked anew, and
charged: too much, never too little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from dosimeter.ledger.entries import Entry, KeptNumber
from dosimeter.ledger.pages import MOST_FOLLOWING, Pages
from dosimeter.ledger.records import Record, read_alone, read_payload, refusing_bad_records
from dosimeter.ledger.replay import DatasetReplay
from dosimeter.ledger.values import Continuation

if TYPE_CHECKING:
    from dosimeter.ledger.store import Transaction

_FIRST = 4  # the latest records under a key are nearly always enough


def is_near(transaction: Transaction) -> bool:
    """Return whether the last checkpoint is as near as a use may expect it."""
    return transaction.last() - (transaction.last_checkpoint() or 0) <= MOST_FOLLOWING


def find_entry(transaction: Transaction, entry_id: str) -> Entry | None:
    """Return an entry by its name, once the chain from it to the end was followed."""
    record = _find_reserved(transaction, entry_id)
    if record is None:
        Pages.read(transaction)
        return None
    return _follow_to(transaction, record)


def find_open(transaction: Transaction, pages: Pages, entry_id: str) -> Entry | None:
    """Return an entry that is reserved and not settled, or was settled since the last checkpoint."""
    record = _find_reserved(transaction, entry_id)
    return None if record is None else pages.of(record.dataset).find_entry(entry_id)


def find_answer(transaction: Transaction, dataset: str, request_digest: str) -> Entry | None:
    """Return the latest released entry of the same request, once the chain from it to the end was followed."""
    for record in _find_released(transaction, "request", dataset, request_digest):
        entry = _follow_to(transaction, record)
        if entry is not None and entry.status == "released" and entry.request_digest == request_digest:
            return entry
    Pages.read(transaction)
    return None


def find_earlier(transaction: Transaction, dataset: str, plan_digest: str, source_digest: str) -> str | None:
    """Return the name of the latest released entry of the same query on the same data, whatever its settings were.

    A name is no answer: the chain is followed to it when it is asked for.
    """
    found = _find_released(transaction, "query", dataset, plan_digest, source_digest)
    return next((record.entry for record in found), None)


def find_reference(transaction: Transaction, dataset: str, reference: str) -> Entry | None:
    """Return the latest entry whose request has this reference, once the chain from it to the end was followed."""
    for record in _find(transaction, "reference", dataset, reference):
        entry = _follow_to(transaction, record)
        if entry is not None and entry.request.settings.get("reference") == reference:
            return entry
    Pages.read(transaction)
    return None


def find_kept(transaction: Transaction, dataset: str, of: str) -> KeptNumber | None:
    """Return the noisy number that was paid for and is of this (V8), once the chain from it to the end was followed."""
    for record in _find(transaction, "kept", dataset, of):
        entry = _follow_to(transaction, record)
        if entry is not None and entry.kept is not None and entry.kept.of == of:
            return entry.kept
    Pages.read(transaction)
    return None


def list_entries(transaction: Transaction, dataset: str, limit: int, before: str | None) -> tuple[Entry, ...]:
    """Return the latest entries of a dataset, the newest first, once the chain from the oldest was followed."""
    last = None if before is None else _find_reserved(transaction, before)
    if before is not None and (last is None or last.dataset != dataset):
        Pages.read(transaction)
        return ()
    numbers = transaction.numbers(dataset, "reserve", before=None if last is None else last.seq, limit=limit)
    if not numbers:
        Pages.read(transaction)
        return ()
    page = Pages.read(transaction, before=numbers[-1][0]).of(dataset)
    found = (page.find_entry(entry_id) for _, entry_id in numbers)
    return tuple(entry for entry in found if entry is not None)


def list_continuations(transaction: Transaction, dataset: str) -> tuple[Continuation, ...]:
    """Return who said when that the account goes on, the oldest first. Only these records themselves are looked at."""
    found = _list_records(transaction, dataset, "continue", None)
    return tuple(Continuation.from_payload(read_payload(record), record.at) for record in found)


def list_readings(transaction: Transaction, dataset: str, most: int) -> Iterator[tuple[int, str, Decimal]]:
    """Yield number of entries, time and reading at some of the states of an account, the oldest first.

    Only the states themselves are looked at: whoever follows the chain works them out again.
    """
    for record in _list_records(transaction, dataset, "state", most):
        with refusing_bad_records():
            standing = DatasetReplay.read_state(record).standing
        if standing is not None and standing.entry_count:
            yield standing.entry_count, record.at, standing.reading.epsilon


def _list_records(transaction: Transaction, dataset: str, kind: str, most: int | None) -> Iterator[Record]:
    numbers = [number for number, _ in transaction.numbers(dataset, kind)][::-1]
    step = 1 if most is None else max(1, -(-len(numbers) // most))
    for number in numbers[::step]:
        yield from _read([row for row in [transaction.row(number)] if row is not None])


def _follow_to(transaction: Transaction, record: Record) -> Entry | None:
    return Pages.read(transaction, before=record.seq).of(record.dataset).find_entry(record.entry)


def _find_reserved(transaction: Transaction, entry_id: str) -> Record | None:
    return next((record for record in _read(transaction.find_by_entry(entry_id)) if record.kind == "reserve"), None)


def _find_released(transaction: Transaction, key: str, dataset: str, *texts: str) -> Iterator[Record]:
    """Yield the reservations under a key whose answers were released, the latest first."""
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
