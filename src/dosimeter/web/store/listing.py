"""Lists of queries, in parts: which ones to list, and where a part begins. Each function says for whom it reads.

A part begins after a *place*: the sort key of the last query of the part before, as text. So no query is skipped or
repeated because others came or went meanwhile, and the last part costs no more than the first.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal
from urllib.parse import urlencode

import sqlalchemy as sa

from dosimeter.web.store.database import Database
from dosimeter.web.store.stored_query import OPEN, QueryStatus, StoredQuery
from dosimeter.web.store.tables import QUERIES, USERS
from dosimeter.web.store.user import User

RANK: sa.ColumnElement[int] = sa.case({"high": 0, "normal": 1}, value=QUERIES.c.priority, else_=2)
"""The order of priorities: the most urgent first."""

PublicStatusName = Literal["", "waiting", "released", "denied", "changes", "withdrawn"]
_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\.[0-9a-z]+"
PLACE = rf"^({_MOMENT})?$"
"""What a place looks like in an address: a time and a query's id; empty for the beginning."""
RANKED_PLACE = rf"^([0-2]\.{_MOMENT})?$"
"""A place among waiting queries: the rank of a priority before the time."""


@dataclass(frozen=True, slots=True)
class QueryFilter:
    """Which queries to list: of a dataset, of an analyst, with a status, with words. Empty: no such condition.

    ``text``: each of its first ten words must occur in the SQL, the purpose or the id, in upper or lower case.
    """

    dataset: str = ""
    analyst: str = ""
    status: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.dataset or self.analyst or self.status or self.text.strip())

    def write(self, place: str = "") -> str:
        """Return the filter, and where a part of the list begins, as the query string of an address."""
        parts = asdict(self) | {"place": place}
        return urlencode({name: value for name, value in parts.items() if value})

    def narrow(self, query: sa.Select[Any]) -> sa.Select[Any]:
        """Return the SELECT with the conditions of this filter, but for the status, which depends on who reads."""
        if self.dataset:
            query = query.where(QUERIES.c.dataset == self.dataset)
        if self.analyst:
            query = query.where(USERS.c.name == self.analyst.strip().lower())
        for word in self.text.split()[:10]:
            places = (QUERIES.c.sql, QUERIES.c.purpose, QUERIES.c.id)
            query = query.where(sa.or_(*(place.icontains(word, autoescape=True) for place in places)))
        return query


@dataclass(frozen=True, slots=True)
class QueryPage:
    """One part of a list. ``following``: the place after which the next part begins; empty if this is the last.

    ``total``: how many queries the filter lets through, in all parts.
    """

    queries: list[StoredQuery]
    following: str
    total: int


def with_names() -> sa.Select[Any]:
    """Return a SELECT of queries with the names of analyst and decider, from whose rows StoredQuery values are made."""
    decider = USERS.alias("decider")
    return (
        sa.select(QUERIES, USERS.c.name.label("analyst"), decider.c.name.label("decider"))
        .join(USERS, USERS.c.id == QUERIES.c.analyst_id)
        .join(decider, decider.c.id == QUERIES.c.decided_by, isouter=True)
    )


def page_own(
    database: Database, analyst: User, *, limit: int, only: QueryFilter, place: str = "", before: str = ""
) -> QueryPage:
    """Return at most ``limit`` of an analyst's own queries, newest first, after ``place``.

    The filter's status is meant as analysts see it. ``before``: only queries that were asked before this time.
    """
    query = only.narrow(with_names().where(QUERIES.c.analyst_id == analyst.id))
    if only.status:
        query = query.where(_seen_as(only.status))
    if before:
        query = query.where(QUERIES.c.created_at < before)
    return _read_page(database, query, (QUERIES.c.created_at, QUERIES.c.id), place, limit, newest_first=True)


def _seen_as(status: str) -> sa.ColumnElement[bool]:
    """Return the condition that a query is shown to analysts with this status.

    Every open query is shown as waiting, even while it is being released; once withdrawn, as withdrawn.
    """
    match status:
        case "waiting":
            return sa.and_(QUERIES.c.status.in_(OPEN), QUERIES.c.withdrawal.is_(False))
        case "withdrawn":
            withdrawn = sa.and_(QUERIES.c.status.in_(OPEN), QUERIES.c.withdrawal.is_(True))
            return sa.or_(QUERIES.c.status == QueryStatus.WITHDRAWN, withdrawn)
        case other:
            return QUERIES.c.status == other


def page_open(database: Database, *, limit: int, only: QueryFilter, place: str = "") -> QueryPage:
    """Return at most ``limit`` open queries after ``place``, for controllers: most urgent first, then oldest first."""
    query = only.narrow(with_names().where(QUERIES.c.status.in_(OPEN)))
    return _read_page(database, query, (RANK, QUERIES.c.created_at, QUERIES.c.id), place, limit, newest_first=False)


def page_decided(database: Database, *, limit: int, only: QueryFilter, place: str = "") -> QueryPage:
    """Return at most ``limit`` decided queries after ``place``, for controllers: latest decision first.

    Withdrawn queries are listed only if their status is asked for: a withdrawal is no decision, and an analyst who
    withdraws many would push everything else off the list.
    """
    status = (
        QUERIES.c.status == only.status
        if only.status
        else QUERIES.c.status.in_([QueryStatus.RELEASED, QueryStatus.DENIED, QueryStatus.CHANGES])
    )
    query = only.narrow(with_names().where(QUERIES.c.status.not_in(OPEN), status))
    return _read_page(database, query, (QUERIES.c.changed_at, QUERIES.c.id), place, limit, newest_first=True)


def _read_page(
    database: Database,
    query: sa.Select[Any],
    order: tuple[sa.ColumnElement[Any], ...],
    place: str,
    limit: int,
    *,
    newest_first: bool,
) -> QueryPage:
    count = sa.select(sa.func.count()).select_from(query.subquery())
    if place:
        behind = sa.tuple_(*_read_place(place, len(order)))
        here = sa.tuple_(*order)
        listed = query.where(here < behind if newest_first else here > behind)
    else:
        listed = query
    listed = listed.add_columns(*(part.label(f"place_{at}") for at, part in enumerate(order)))
    listed = listed.order_by(*(part.desc() if newest_first else part for part in order)).limit(limit + 1)
    with database.reading() as connection:
        rows = connection.execute(listed).mappings().all()
        total = int(connection.execute(count).scalar_one())
    following = ""
    if len(rows) > limit:
        following = ".".join(str(rows[limit - 1][f"place_{at}"]) for at in range(len(order)))
    return QueryPage([StoredQuery.from_row(row) for row in rows[:limit]], following, total)


def _read_place(place: str, length: int) -> list[sa.ColumnElement[Any]]:
    """Return the parts of a place as SQL literals, to compare with the columns that the list is sorted by.

    ``length``: how many columns these are: 2 (time, id) or 3 (priority, time, id). Routes check the place beforehand,
    by the pattern ``PLACE`` or ``RANKED_PLACE``.
    """
    start, query_id = place.rsplit(".", 1)
    if length == 2:
        return [sa.literal(start), sa.literal(query_id)]
    rank, at = start.split(".", 1)
    return [sa.literal(int(rank)), sa.literal(at), sa.literal(query_id)]


def list_people(database: Database) -> list[tuple[str, str, bool, str, int]]:
    """Return all users, for controllers: name, role, whether disabled, when added, and how many open queries."""
    waiting = (
        sa.select(QUERIES.c.analyst_id, sa.func.count().label("open"))
        .where(QUERIES.c.status.in_(OPEN))
        .group_by(QUERIES.c.analyst_id)
        .subquery()
    )
    query = (
        sa.select(USERS.c.name, USERS.c.role, USERS.c.disabled, USERS.c.created_at, sa.func.coalesce(waiting.c.open, 0))
        .join(waiting, waiting.c.analyst_id == USERS.c.id, isouter=True)
        .order_by(USERS.c.disabled, USERS.c.role.desc(), USERS.c.name)
    )
    with database.reading() as connection:
        return [tuple(row) for row in connection.execute(query)]
