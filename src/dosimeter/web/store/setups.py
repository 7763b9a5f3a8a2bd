"""How a dataset without a schema is to be set up: what controllers filled in last, and whether they looked.

A row stays when the dataset has its schema; nothing reads it then.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from dosimeter.web.store.audit_log import write_audit
from dosimeter.web.store.database import Database
from dosimeter.web.store.tables import SETUPS
from dosimeter.web.store.user import User


@dataclass(frozen=True, slots=True)
class StoredSetup:
    """What is stored of a dataset's set-up. ``form``: as JSON, "" before anything was saved.

    ``looked``: a controller was shown what the data hold.
    """

    form: str = ""
    looked: bool = False


def find_setup(database: Database, dataset: str) -> StoredSetup:
    with database.reading() as connection:
        row = connection.execute(sa.select(SETUPS).where(SETUPS.c.dataset == dataset)).first()
    return StoredSetup() if row is None else StoredSetup(row.form, bool(row.looked))


def _change(connection: sa.Connection, dataset: str, **values: str | bool) -> None:
    """Change a dataset's row, or make it. ``values``: of its columns."""
    changed = connection.execute(SETUPS.update().where(SETUPS.c.dataset == dataset).values(**values))
    if not changed.rowcount:
        connection.execute(SETUPS.insert().values(**{"dataset": dataset, "form": "", "looked": False, **values}))


def save_setup(database: Database, dataset: str, form: str) -> None:
    with database.writing() as connection:
        _change(connection, dataset, form=form)


def mark_data_shown(database: Database, dataset: str, user: User) -> None:
    """Record that a controller looks at the data of a dataset that is to be set up."""
    with database.writing() as connection:
        _change(connection, dataset, looked=True)
        write_audit(connection, user.name, "viewed the data for a set-up", dataset=dataset)
