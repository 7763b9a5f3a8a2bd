"""Check the chain of records, from the last checkpoint or from the first record, and append to it.

A state is a record of what one dataset's records add up to. A checkpoint is a record that names, by number and digest,
the latest state of every dataset. A call of the ledger usually reads the last checkpoint and checks the records after
it. It reads the state of a dataset only if it needs that dataset. A call that begins with the first record computes
every state and checkpoint again, and refuses one that differs.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from dosimeter.json_values import JsonObject, JsonValue, read_list, read_text
from dosimeter.ledger.chain import GENESIS, BadRecord, follow_chain, write_canonical_json
from dosimeter.ledger.records import Record, read_alone, read_payload, refusing_bad_records, seal_record
from dosimeter.ledger.replay import DatasetReplay

if TYPE_CHECKING:
    from dosimeter.ledger.store import Transaction

MOST_FOLLOWING = 64
"""The most records after the last checkpoint that a call of the ledger has to check."""
MOST_AT_ONCE = 3
"""The most records that one call of the ledger appends, besides states and a checkpoint."""
FEW_FOLLOWING = 32
"""The number of records after which a ledger of few datasets gets a checkpoint.

A checkpoint names all datasets, so a ledger of many datasets gets one less often.
"""

SALT_BYTES = 16
"""The length of the random salt in a record, in bytes."""


def draw_lock_name() -> str:
    """Return the name of a new lock, which nobody else can know or hold."""
    return secrets.token_hex(SALT_BYTES)


class Link(NamedTuple):
    """The number and the digest of a record."""

    seq: int
    digest: str


class CheckedChain:
    """The ledger's records, checked, and for each dataset what its records add up to.

    ``next_seq``: the number of the next record. ``head``: the digest of the last one. ``following``: how many records
    follow the last checkpoint.
    """

    def __init__(self, older: _OlderRecords | None = None) -> None:
        self.next_seq = 1
        self.head = GENESIS
        self.following = 0
        self._older = older
        self._replayed: dict[str, DatasetReplay] = {}
        self._states: dict[str, Link] = {}  # the latest of each dataset, in the order in which datasets first appear
        self._read: dict[int, Sequence[object]] = {}  # states that were read, as they are stored, by number
        self._touched: dict[str, None] = {}  # the datasets that are no longer as their latest state says

    @classmethod
    def read(cls, transaction: Transaction, *, before: int | None = None) -> CheckedChain:
        """Check the chain of records from the last checkpoint, or else the first record, to its end, and return it.

        Rows that this process checked in its last call, and that have not changed, are not checked again. ``before``:
        the number of a record; begin at the last checkpoint before this record, and check every row.
        """
        start = transaction.last_checkpoint(before)
        with closing(transaction.rows(start or 1)) as found:
            rows = list(found if start is not None else islice(found, MOST_FOLLOWING))
            if start is None and len(rows) == MOST_FOLLOWING:  # perhaps of an earlier version, and long
                return cls._follow(transaction, None, chain(rows, found))
        if before is not None:
            return cls._follow(transaction, start, rows)
        followed = transaction.followed.pop("checked", None)
        if isinstance(followed, _Followed) and followed.begins(transaction, start, rows):
            checked, known = followed.continue_in(transaction, rows)
        else:
            checked, known = cls._follow(transaction, start, rows), None
        transaction.followed["checked"] = known or _Followed(start, rows, checked._copy(None))
        return checked

    @classmethod
    def _follow(cls, transaction: Transaction, start: int | None, rows: Iterable[Sequence[object]]) -> CheckedChain:
        """Check these stored records, one per row, and return the chain that they make.

        ``start``: the number of the checkpoint with which the rows begin; None if they begin with the first record.
        """
        checked = cls(_find_older(transaction, start))
        with refusing_bad_records():
            for record in follow_chain(Record, rows, start=start or 1):
                if record.seq == start:
                    checked._begin(record)
                else:
                    checked.add(record)
        return checked

    def _copy(self, older: _OlderRecords | None) -> CheckedChain:
        """Return a copy to which records can be added without changing this one.

        ``older``: lets the copy read records from before the checkpoint at which checking began; with None, it cannot.
        """
        checked = CheckedChain(older)
        checked.next_seq, checked.head, checked.following = self.next_seq, self.head, self.following
        checked._replayed = {name: replay.copy(older) for name, replay in self._replayed.items()}
        checked._states, checked._touched, checked._read = self._states.copy(), self._touched.copy(), self._read.copy()
        return checked

    @classmethod
    def read_all(cls, transaction: Transaction) -> CheckedChain:
        """Check the whole chain, from the first record to the last, and return it."""
        with closing(transaction.rows()) as rows:
            return cls._follow(transaction, None, rows)

    def _begin(self, record: Record) -> None:
        if record.kind != "checkpoint":
            raise BadRecord(record.seq, "it is no checkpoint")
        self._states = _read_states(record)
        self.next_seq, self.head = record.seq + 1, record.digest

    def add(self, record: Record) -> None:
        """Replay one more record. Raises BadRecord if it contradicts the records before it."""
        match record.kind:
            case "state":
                self._check_state(record)
            case "checkpoint":
                self._check_checkpoint(record)
            case _:
                self._apply(record)
        self.next_seq, self.head = record.seq + 1, record.digest

    def _apply(self, record: Record) -> None:
        replay = self.of(record.dataset)
        replay.apply(record)
        self._touched[record.dataset] = None
        if record.kind == "identify":  # each of the two accounts names the other
            for name in replay.overlaps:
                self.of(name).note_overlap(record.dataset)
                self._touched[name] = None
        self.following += 1

    def _check_state(self, record: Record) -> None:
        expected = write_canonical_json(self.of(record.dataset).write_state())
        if record.dataset not in self._touched or record.payload != expected:
            raise BadRecord(record.seq, "it does not state what the records before it add up to")
        del self._touched[record.dataset]
        self._states[record.dataset] = Link(record.seq, record.digest)
        self.following += 1

    def _check_checkpoint(self, record: Record) -> None:
        if self._touched or record.payload != write_canonical_json(_write_states(self._states)):
            raise BadRecord(record.seq, "it does not name the states before it")
        self.following = 0

    def of(self, dataset: str) -> DatasetReplay:
        """Return what the records of a dataset add up to, reading its latest state first if need be."""
        if dataset not in self._replayed:
            link = self._states.get(dataset)
            if link is None or self._older is None:
                self._replayed[dataset] = DatasetReplay(dataset)
            else:
                with refusing_bad_records():
                    self._replayed[dataset], self._read[link.seq] = self._older.read_state(dataset, link)
        return self._replayed[dataset]

    def each(self) -> Iterator[tuple[str, DatasetReplay]]:
        """Yield each dataset's name and what its records add up to, in the order in which datasets first appear."""
        for name in dict.fromkeys((*self._states, *self._replayed)):
            yield name, self.of(name)

    def list_unidentified(self) -> tuple[str, ...]:
        return tuple(name for name, replay in self.each() if replay.is_unidentified)

    def list_holders(self, dataset: str, identities: frozenset[str]) -> list[str]:
        """Return the accounts, except ``dataset``, that hold or once held data with one of these identities."""
        return [name for name, replay in self.each() if name != dataset and replay.shares(identities)]

    @property
    def needs_checkpoint(self) -> bool:
        """Return whether so many records follow the last checkpoint that another is due."""
        return self.following >= min(FEW_FOLLOWING + len(self._states) // 8, MOST_FOLLOWING - MOST_AT_ONCE)


class RecordWriter:
    """A writer of one dataset's records. It checks each record before appending it, as every later reader will."""

    def __init__(self, transaction: Transaction, checked: CheckedChain, dataset: str, at: str) -> None:
        self._transaction = transaction
        self._checked = checked
        self._dataset = dataset
        self._at = at

    def append(self, kind: str, payload: Mapping[str, object], entry: str = "") -> None:
        """Append a record. A random salt is added to ``payload``.

        ``entry``: the name of the entry that the record belongs to; empty if it belongs to none. The salt is there
        because digests get out: the last record's is noted beside an answer, and an entry's name is made from one.
        Without a salt, somebody who guesses what a record holds could check the guess against its digest.
        """
        self._append(self._dataset, kind, {**payload, "salt": secrets.token_hex(SALT_BYTES)}, entry)

    def finish(self) -> None:
        """Append a checkpoint if one is due, and before it the state of every dataset that changed.

        They are committed together with the records before them, or not at all. With a checkpoint, also create the
        indexes that are missing.
        """
        if not self._checked.needs_checkpoint:
            return
        for dataset in tuple(self._checked._touched):
            self._append(dataset, "state", self._checked.of(dataset).write_state())
        self._append("", "checkpoint", _write_states(self._checked._states))
        self._transaction.add_indexes()

    def _append(self, dataset: str, kind: str, payload: Mapping[str, object], entry: str = "") -> None:
        checked = self._checked
        record = seal_record(
            seq=checked.next_seq, dataset=dataset, kind=kind, at=self._at, entry=entry, payload=payload,
            previous=checked.head,
        )  # fmt: skip
        checked.add(record)
        self._transaction.append(record)


class _OlderRecords:
    """The records before a checkpoint, read one by one.

    A state or a checkpoint names an older record by number and digest. The record is refused if its digest differs.
    """

    def __init__(self, transaction: Transaction, checkpoint: int) -> None:
        self._transaction = transaction
        self._checkpoint = checkpoint

    def record(self, seq: int, digest: str) -> Record:
        return self._read(seq, digest, self._transaction.row(seq))

    def _read(self, seq: int, digest: str, row: Sequence[object] | None) -> Record:
        if row is None:
            raise BadRecord(seq, "it is missing, and a checkpoint or a state names it")
        record = read_alone(row)
        if record.digest != digest:
            raise BadRecord(seq, "it is not the record that a checkpoint or a state names")
        return record

    def views(self, dataset: str, digest: str) -> Iterator[Record]:
        for row in self._transaction.find("view", digest):
            with refusing_bad_records():
                record = read_alone(row)
            if record.seq < self._checkpoint and record.dataset == dataset:
                yield record

    def read_state(self, dataset: str, link: Link) -> tuple[DatasetReplay, Sequence[object]]:
        """Return a replay that goes on from a dataset's latest state, and the stored row of this state.

        ``link``: the number and digest of the state. Raises BadRecord if the record of this number has another digest,
        or is no state of this dataset.
        """
        row = self._transaction.row(link.seq)
        record = self._read(link.seq, link.digest, row)
        if (record.kind, record.dataset) != ("state", dataset) or row is None:
            raise BadRecord(link.seq, "it is not the state that the last checkpoint names")
        return DatasetReplay.read_state(record, self), row


def _find_older(transaction: Transaction, checkpoint: int | None) -> _OlderRecords | None:
    return None if checkpoint is None else _OlderRecords(transaction, checkpoint)


class _Followed:
    """The rows that this process read and checked in its last call of the ledger, and what they add up to.

    ``start``: the number of the checkpoint with which the rows begin; None if they begin with the first record. The
    next call of the ledger reads all rows again. It checks only the rows added since, if the old ones have not changed;
    otherwise it checks all rows.
    """

    def __init__(self, start: int | None, rows: Sequence[Sequence[object]], checked: CheckedChain) -> None:
        self._start, self._rows, self._checked = start, rows, checked

    def begins(self, transaction: Transaction, start: int | None, rows: Sequence[Sequence[object]]) -> bool:
        """Return whether all that the last check read is unchanged, so that ``continue_in`` need not check it again.

        ``start`` and ``rows``: as they are read now. Unchanged means: ``start`` is the same, ``rows`` begin with the
        rows of the last check, and the states that the last check read are stored as they were.
        """
        if start != self._start or rows[: len(self._rows)] != self._rows:
            return False
        return all(transaction.row(seq) == row for seq, row in self._checked._read.items())

    def continue_in(
        self, transaction: Transaction, rows: Sequence[Sequence[object]]
    ) -> tuple[CheckedChain, _Followed | None]:
        """Return the chain that ``rows`` make. Check only the rows that were added since the last check.

        The second value is this object if no rows were added, so that the next call can use it again; otherwise None,
        and the caller makes a new object.
        """
        checked = self._checked._copy(_find_older(transaction, self._start))
        with refusing_bad_records():
            for record in follow_chain(Record, rows[len(self._rows) :], start=checked.next_seq, after=checked.head):
                checked.add(record)
        return checked, self if len(rows) == len(self._rows) else None


def _write_states(states: Mapping[str, Link]) -> JsonObject:
    return {"states": [[dataset, *link] for dataset, link in states.items()]}


def _read_states(record: Record) -> dict[str, Link]:
    try:
        return dict(_read_link(state) for state in read_list(read_payload(record)["states"]))
    except (KeyError, TypeError, ValueError):
        raise BadRecord(record.seq, "its payload is not that of a record of kind checkpoint") from None


def _read_link(payload: JsonValue) -> tuple[str, Link]:
    dataset, seq, digest = read_list(payload)
    if type(seq) is not int:
        raise TypeError
    return read_text(dataset), Link(seq, read_text(digest))
