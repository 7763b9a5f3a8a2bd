"""Queries as they are stored: submitted, listed, changed, withdrawn. Each function says for whom it reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from dosimeter.errors import LimitError
from dosimeter.risk import PRESETS, USUAL_PRESET
from dosimeter.web.public import NewQuery
from dosimeter.web.store.audit_log import write_audit
from dosimeter.web.store.database import Database
from dosimeter.web.store.keys import make_identifier
from dosimeter.web.store.listing import RANK, with_names
from dosimeter.web.store.stored_query import OPEN, QueryStatus, StoredQuery
from dosimeter.web.store.tables import QUERIES, THRESHOLDS, USERS, count_rows, later, write_time
from dosimeter.web.store.user import User

MINUTE = 60  # seconds
_IS_OPEN = QUERIES.c.status.in_(OPEN)
OPEN_WAIT = 300  # seconds after which a program may try again that has too many open queries
PRIORITIES = {"high": 90.0, "normal": 95.0, "low": 97.0}
"""Suggested thresholds on least ÷ most exposed, in percent: the more urgent a query, the looser.

Controllers may set their own.
"""
OWN = "own"
STANDARDS = (*PRESETS, OWN)
"""What can rule the defaults of a controller's decision pages: a preset, or own thresholds."""


def submit_query(
    database: Database, analyst: User, query: NewQuery, *, most: int | None = None, each_minute: int | None = None
) -> str:
    """Store a query; return its id. Raises LimitError if the analyst has too many.

    ``most``: how many they may have open at a time. ``each_minute``: how many they may submit in a minute, whatever
    became of them: somebody who submits and withdraws all the time would fill the audit log.
    """
    now, query_id = write_time(), make_identifier()
    row = {
        "id": query_id,
        "analyst_id": analyst.id,
        "status": QueryStatus.WAITING,
        "created_at": now,
        "changed_at": now,
    }
    row |= query.model_dump() | {"looked": False, "withdrawal": False}
    with database.writing() as connection:
        connection.execute(sa.select(USERS.c.id).where(USERS.c.id == analyst.id).with_for_update())  # one at a time
        theirs, waiting = QUERIES.c.analyst_id == analyst.id, _IS_OPEN & QUERIES.c.withdrawal.is_(False)
        if most is not None and count_rows(connection, theirs, waiting) >= most:
            raise LimitError(
                f"You have {most} open queries, the most at a time. Wait until some are decided, or withdraw some.",
                wait=OPEN_WAIT,
            )
        latest = QUERIES.c.created_at > later(seconds=-MINUTE)
        if each_minute is not None and count_rows(connection, theirs, latest) >= each_minute:
            raise LimitError(
                f"You have submitted {each_minute} queries within a minute, the most. Wait a minute, then go on.",
                wait=MINUTE,
            )
        connection.execute(QUERIES.insert().values(row))
        write_audit(connection, analyst.name, "asked", dataset=query.dataset, query_id=query_id)
    return query_id


def _read(database: Database, query: sa.Select[Any]) -> list[StoredQuery]:
    with database.reading() as connection:
        return [StoredQuery.from_row(row) for row in connection.execute(query).mappings()]


# ---------------------------------------------------------------- for the analyst: only their own


def find_own(database: Database, analyst: User, query_id: str) -> StoredQuery | None:
    query = with_names().where(QUERIES.c.id == query_id, QUERIES.c.analyst_id == analyst.id)
    return next(iter(_read(database, query)), None)


def withdraw_query(database: Database, analyst: User, query_id: str) -> bool:
    """Withdraw an analyst's query; return False if it was answered, denied or withdrawn before, or is not theirs.

    A release under way is not stopped; if it ends without an answer, the withdrawal counts. Analysts must not learn
    whether a release is under way, so a withdrawal is accepted in every open state.
    """
    with database.writing() as connection:
        changed = connection.execute(
            QUERIES.update()
            .where(
                QUERIES.c.id == query_id,
                QUERIES.c.analyst_id == analyst.id,
                QUERIES.c.status.in_(OPEN | {QueryStatus.CHANGES}),
                QUERIES.c.withdrawal.is_(False),
            )
            .values(
                status=sa.case(
                    (QUERIES.c.status == QueryStatus.APPROVING, QueryStatus.APPROVING), else_=QueryStatus.WITHDRAWN
                ),
                withdrawal=True,
                changed_at=write_time(),
            )
        )
        if changed.rowcount:
            write_audit(connection, analyst.name, "withdrew", query_id=query_id)
    return changed.rowcount == 1


# ---------------------------------------------------------------- for the controller: everybody's


def find_latest(database: Database, dataset: str, sql: str, statuses: Collection[QueryStatus]) -> StoredQuery | None:
    """Return the latest query with this very text, whoever asked it, that has one of these statuses."""
    query = with_names().where(QUERIES.c.dataset == dataset, QUERIES.c.sql == sql, QUERIES.c.status.in_(statuses))
    return next(iter(_read(database, query.order_by(QUERIES.c.changed_at.desc()).limit(1))), None)


def list_open(database: Database, dataset: str, *, limit: int) -> list[StoredQuery]:
    """Return the open queries of a dataset, most urgent first, then oldest first, at most ``limit``."""
    query = with_names().where(_IS_OPEN, QUERIES.c.dataset == dataset)
    return _read(database, query.order_by(RANK, QUERIES.c.created_at).limit(limit))


def count_open(database: Database, dataset: str) -> int:
    with database.reading() as connection:
        return count_rows(connection, _IS_OPEN, QUERIES.c.dataset == dataset)


def list_approving(database: Database) -> list[StoredQuery]:
    """Return the queries whose approval is under way; after a start, those that a crash interrupted."""
    return _read(database, with_names().where(QUERIES.c.status == QueryStatus.APPROVING))


def find_query(database: Database, query_id: str) -> StoredQuery | None:
    return next(iter(_read(database, with_names().where(QUERIES.c.id == query_id))), None)


def find_by_entry(database: Database, entry_id: str) -> StoredQuery | None:
    """Return the first query that an entry of the ledger answered. For controllers."""
    query = with_names().where(QUERIES.c.entry_id == entry_id).order_by(QUERIES.c.created_at).limit(1)
    return next(iter(_read(database, query)), None)


def find_texts(database: Database, query_ids: Collection[str]) -> dict[str, str]:
    """Return the SQL of these queries, by id. For controllers."""
    query = sa.select(QUERIES.c.id, QUERIES.c.sql).where(QUERIES.c.id.in_(query_ids))
    with database.reading() as connection:
        return {row.id: row.sql for row in connection.execute(query)}


def move_query(
    connection: sa.Connection,
    query_id: str,
    since: Collection[QueryStatus],
    to: QueryStatus,
    *,
    claimed_by: str | None = None,
    **changes: str | None,
) -> bool:
    """Give a query the status ``to``, and its columns these ``changes``, if its status is one of ``since``.

    Returns whether that was done. ``claimed_by``: it is done only if the query has this claim. Compares and sets in one
    statement, so that only one caller wins. Raises ValueError if one of ``since`` may not become ``to``.
    """
    if any(to not in status.following for status in since):
        raise ValueError(f"A query cannot become {to} from each of: {', '.join(sorted(since))}.")
    update = QUERIES.update().where(QUERIES.c.id == query_id, QUERIES.c.status.in_(since))
    if claimed_by is not None:
        update = update.where(QUERIES.c.claim == claimed_by)
    return connection.execute(update.values(status=to, changed_at=write_time(), **changes)).rowcount == 1


def is_withdrawn(connection: sa.Connection, query_id: str) -> bool:
    """Return whether a query was withdrawn by its analyst. Locks the query until the transaction ends."""
    query = sa.select(QUERIES.c.withdrawal).where(QUERIES.c.id == query_id).with_for_update()
    return bool(connection.execute(query).scalar())


def mark_looked(database: Database, query_id: str) -> None:
    with database.writing() as connection:
        connection.execute(QUERIES.update().where(QUERIES.c.id == query_id).values(looked=True))


# ---------------------------------------------------------------- thresholds


def read_thresholds(database: Database, controller: User) -> dict[str, float]:
    query = sa.select(THRESHOLDS).where(THRESHOLDS.c.user_id == controller.id)
    with database.reading() as connection:
        own = {row["priority"]: float(row["percent"]) for row in connection.execute(query).mappings()}
    return PRIORITIES | own


def read_standard(database: Database, controller: User) -> str:
    """Return what rules the defaults of a controller's decision pages: one of ``STANDARDS``."""
    with database.reading() as connection:
        found = connection.execute(sa.select(USERS.c.standard).where(USERS.c.id == controller.id)).scalar()
    return found if found in STANDARDS else USUAL_PRESET


def save_thresholds(database: Database, controller: User, percents: Mapping[str, float], standard: str) -> None:
    with database.writing() as connection:
        connection.execute(USERS.update().where(USERS.c.id == controller.id).values(standard=standard))
        connection.execute(THRESHOLDS.delete().where(THRESHOLDS.c.user_id == controller.id))
        rows = [{"user_id": controller.id, "priority": p, "percent": percents[p]} for p in PRIORITIES]
        connection.execute(THRESHOLDS.insert(), rows)
        listed = ", ".join(f"{p} {percents[p]:g} %" for p in PRIORITIES)
        write_audit(connection, controller.name, "changed thresholds", detail=f"{standard}; {listed}")
