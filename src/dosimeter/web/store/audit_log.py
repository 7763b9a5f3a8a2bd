"""The audit log: who saw and did what, in words. Takes a transaction or a database; knows no users and no pages.

Charges and answers are not here: they are in the ledger. Records are only ever added, each chained to the one before.
A transaction writes its record last: once it has written the record, other transactions cannot write theirs until it
ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TextIO, TypedDict, Unpack

import sqlalchemy as sa

from dosimeter.errors import LedgerError, OptionError
from dosimeter.ledger import (
    GENESIS,
    BadRecord,
    ChainedRecord,
    Verification,
    check_head,
    follow_chain,
    verify_chain,
    write_canonical_json,
)
from dosimeter.web.store.database import AUDITING, Database, take_turn
from dosimeter.web.store.tables import AUDIT, write_time

OPERATOR = "operator"  # whoever runs dosimeter user
SERVER = "server"
NOBODY = "nobody"  # no such user; the name that was typed may be a password, so it is not stored


@dataclass(frozen=True, slots=True)
class AuditRecord(ChainedRecord):
    """Who did what, and when. ``id`` counts from 1 without gaps. ``previous``: the digest of the record before."""

    BEGINNING = ("dosimeter-audit-record", 1)
    id: int
    at: str
    user: str
    action: str
    dataset: str | None
    query_id: str | None
    detail: str
    previous: str
    digest: str = ""

    def to_json_line(self) -> str:
        """Return the record as one JSON object."""
        return write_canonical_json(asdict(self))


COLUMNS = tuple(AuditRecord.find_columns())


class About(TypedDict, total=False):
    """What a record is about, where there is anything: a dataset, a query, and a detail in words."""

    dataset: str | None
    query_id: str | None
    detail: str


def write_audit(connection: sa.Connection, user: str, action: str, **about: Unpack[About]) -> None:
    """Add a record to the log. The transaction must write nothing after it."""
    take_turn(connection, AUDITING)
    (count, head), at = _find_end(connection), write_time()
    told: About = {"dataset": None, "query_id": None, "detail": "", **about}
    record = AuditRecord(id=count + 1, at=at, user=user, action=action, previous=head, **told)
    connection.execute(AUDIT.insert().values(asdict(record.seal())))


def _find_end(connection: sa.Connection) -> tuple[int, str]:
    """Return how many records there are, and the digest of the last."""
    newest = sa.select(AUDIT.c.id, AUDIT.c.digest).order_by(AUDIT.c.id.desc()).limit(1)
    last = connection.execute(newest).first()
    return (0, GENESIS) if last is None else (last.id, last.digest)


def note(database: Database, user: str, action: str, **about: Unpack[About]) -> None:
    with database.writing() as connection:
        write_audit(connection, user, action, **about)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which records to list: of a user, of a date (``day``), with a text. Empty: no such condition."""

    who: str = ""
    day: str = ""
    text: str = ""

    def narrow(self, query: sa.Select[Any]) -> sa.Select[Any]:
        """Return the SELECT with the conditions of this filter."""
        if self.who:
            query = query.where(AUDIT.c.user == self.who.strip().lower())
        if self.day:
            query = query.where(AUDIT.c.at.startswith(self.day, autoescape=True))
        if self.text.strip():
            words = (AUDIT.c.action, AUDIT.c.dataset, AUDIT.c.query_id, AUDIT.c.detail)
            query = query.where(sa.or_(*(column.icontains(self.text.strip(), autoescape=True) for column in words)))
        return query


def list_audit(
    database: Database, *, limit: int = 200, before: int | None = None, only: AuditFilter | None = None
) -> list[AuditRecord]:
    """Return the latest ``limit`` records, newest first; with ``before``, the latest whose number is below it.

    ``only``: list only records that pass this filter.
    """
    query = (only or AuditFilter()).narrow(sa.select(AUDIT)).order_by(AUDIT.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(AUDIT.c.id < before)
    with database.reading() as connection:
        return [AuditRecord(**row) for row in connection.execute(query).mappings()]


def read_head(database: Database) -> tuple[int, str]:
    """Return how many records there are, and the digest of the last. Verifies nothing: ``check_audit`` does."""
    with database.reading() as connection:
        return _find_end(connection)


@contextmanager
def _open_raw_records(database: Database) -> Iterator[Iterator[Sequence[Any]]]:
    """Yield an iterator over all records of the log as the database holds them, oldest first.

    On SQLite, texts are read as bytes, because an altered text may be no valid UTF-8. Raises LedgerError if the
    database has no such log.
    """
    texts = [sa.cast(AUDIT.c[name], sa.LargeBinary) if _is_text(name, database) else AUDIT.c[name] for name in COLUMNS]
    query = sa.select(*texts).order_by(AUDIT.c.id).execution_options(yield_per=1_000)
    try:
        with database.reading() as connection, connection.execute(query) as result:
            yield (tuple(row) for row in result)
    except sa.exc.DBAPIError:
        raise LedgerError(
            "The database holds no chained audit log. A server of this version makes one when it starts."
        ) from None


def _is_text(name: str, database: Database) -> bool:
    return database.is_sqlite and isinstance(AUDIT.c[name].type, sa.Text)


def check_audit(database: Database, head: str | None = None) -> Verification:
    """Verify the whole log and return what was found: whether it is intact, and if not, the first record at fault.

    ``head``: a digest that was noted earlier; without it, nobody can see whether the end was cut off.
    """
    wanted = check_head(head, OptionError)
    with _open_raw_records(database) as rows:
        return verify_chain(_follow_begun(rows), wanted, name="log")


def _follow_begun(rows: Iterable[Sequence[object]]) -> Iterator[AuditRecord]:
    """Yield the records of a log. Raises BadRecord at the first that does not follow, and if there is none at all."""
    record = None
    for record in follow_chain(AuditRecord, rows):
        yield record
    if record is None:
        raise BadRecord(1, "it is missing: a log begins with the record that began its chain")


def follow_log(database: Database) -> Iterator[AuditRecord]:
    """Yield every record, oldest first, each verified to follow the one before; end before the first that does not."""
    with _open_raw_records(database) as rows:
        try:
            yield from follow_chain(AuditRecord, rows)
        except BadRecord:
            return


def export_audit(database: Database, stream: TextIO) -> None:
    """Write every record as one line of JSON, oldest first. Raises LedgerError at the first altered record."""
    with _open_raw_records(database) as rows:
        try:
            for record in follow_chain(AuditRecord, rows):
                stream.write(record.to_json_line() + "\n")
        except BadRecord as bad:
            raise LedgerError(
                f"The audit log was altered at record {bad.seq}: {bad.reason}. The records before it are sound."
            ) from None
