"""The audit log: who saw and did what, in words. Takes a transaction or a database; knows nobody and no pages.

Charges and answers are not here: they are in the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from dosimeter.web.database import Database
from dosimeter.web.tables import AUDIT, write_time

OPERATOR = "operator"  # whoever types dosimeter user
SERVER = "server"
NOBODY = "nobody"  # no such user; what was typed may be a password, so it is not kept


def write_audit(
    connection: sa.Connection,
    user: str,
    action: str,
    *,
    dataset: str | None = None,
    query_id: str | None = None,
    detail: str = "",
) -> None:
    row = {
        "at": write_time(),
        "user": user,
        "action": action,
        "dataset": dataset,
        "query_id": query_id,
        "detail": detail,
    }
    connection.execute(AUDIT.insert().values(row))


def note(
    database: Database,
    user: str,
    action: str,
    *,
    dataset: str | None = None,
    query_id: str | None = None,
    detail: str = "",
) -> None:
    with database.writing() as connection:
        write_audit(connection, user, action, dataset=dataset, query_id=query_id, detail=detail)


def list_audit(database: Database, *, limit: int = 200, before: int | None = None) -> Sequence[sa.RowMapping]:
    query = sa.select(AUDIT).order_by(AUDIT.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(AUDIT.c.id < before)
    with database.reading() as connection:
        return connection.execute(query).mappings().all()
