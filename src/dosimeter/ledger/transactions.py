"""The transactions of a ledger, with its chain checked, in which killed measurements are incidents (N4).

Whoever reads sees such an incident at once; whoever writes records it. Takes a LedgerStore; gives checked chains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from dosimeter.errors import LedgerError
from dosimeter.ledger.checked_chain import MOST_FOLLOWING, CheckedChain, RecordWriter
from dosimeter.ledger.measurement_marks import Mark

if TYPE_CHECKING:
    from dosimeter.ledger.replay import DatasetReplay
    from dosimeter.ledger.store import LedgerStore, Transaction

Found = TypeVar("Found")


class LedgerTransactions:
    """What every call of a ledger begins with: a transaction that reads or writes, and the chain of records in it."""

    def __init__(self, store: LedgerStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._near = False  # whether the last checkpoint was seen to be near; what this program appends keeps it so

    def _look(self, get: Callable[[CheckedChain], Found], dataset: str | None = None, *, whole: bool = False) -> Found:
        """Return what ``get`` finds in the ledger, where a measurement whose process was killed is an incident.

        ``dataset``: the only one whose measurements matter; None for all. ``whole``: check the chain from the first
        record on. A process writes its end before it releases its lock. So a free lock alone says nothing, for the end
        may have been written after the records were read: they are read again, until no further lock is free.
        """
        free: set[str] = set()
        while True:
            with self._store.reading() if whole else self._using() as transaction:
                checked = CheckedChain.read_all(transaction) if whole else CheckedChain.read(transaction)
                names = [name for name, _ in checked.each()] if dataset is None else [dataset]
                lost = _find_lost(transaction, checked, names)
                if free.issuperset(mark.lock for mark in lost):
                    for mark in lost:
                        checked.of(mark.dataset).lose(mark)
                    return get(checked)
            free |= {mark.lock for mark in lost}

    def _list(self, get: Callable[[DatasetReplay], Found | None], *, whole: bool = False) -> tuple[Found, ...]:
        """Return what ``get`` finds for each dataset, without None, in the order in which they first appear."""
        found = self._look(lambda checked: [get(replay) for _, replay in checked.each()], whole=whole)
        return tuple(each for each in found if each is not None)

    @contextmanager
    def _writing(self, dataset: str) -> Iterator[tuple[Transaction, CheckedChain, RecordWriter]]:
        """Yield a transaction to write records of a dataset in, and what it is written with; at its end, commit.

        First record the incidents of the dataset's measurements whose process was killed: nobody ends theirs while this
        transaction lasts. Last, write a checkpoint if one is due.
        """
        with self._store.writing() as transaction:
            checked = CheckedChain.read(transaction)
            lost = self._record_lost(transaction, checked, [dataset])
            writer = RecordWriter(transaction, checked, dataset, self._now())
            yield transaction, checked, writer
            writer.finish()
        for mark in lost:
            self._store.backend.forget_lock(mark.lock)

    def _record_lost(self, transaction: Transaction, checked: CheckedChain, names: Sequence[str]) -> Sequence[Mark]:
        lost = _find_lost(transaction, checked, names)
        for mark in lost:
            RecordWriter(transaction, checked, mark.dataset, self._now()).append("stop", mark.to_stop())
        return lost

    @contextmanager
    def _using(self) -> Iterator[Transaction]:
        """Yield a transaction to read in. First write a checkpoint if too many records follow the last one."""
        with ExitStack() as stack:
            transaction = stack.enter_context(self._store.reading())
            if not self._near and transaction.last() - (transaction.last_checkpoint() or 0) > MOST_FOLLOWING:
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


def _find_lost(transaction: Transaction, checked: CheckedChain, names: Sequence[str]) -> list[Mark]:
    """Return the marks of measurements of these datasets that have no end, and whose lock nobody holds."""
    marks = (mark for name in names for mark in checked.of(name).marks)
    return [mark for mark in marks if not transaction.is_locked(mark.lock)]
