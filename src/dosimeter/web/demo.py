"""A demonstration server: the bundled clinic, a controller, an analyst and a few waiting queries, all temporary."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from dosimeter.ledger import Algorithm
from dosimeter.web.identity import add_user
from dosimeter.web.public import NewQuery, Priority
from dosimeter.web.settings import DatasetSettings, Settings
from dosimeter.web.store import USERS, Database, User, make_key, submit_query

WAITING: tuple[tuple[str, str, Priority, float | None], ...] = (
    (
        "SELECT diagnosis, COUNT(*) FROM clinic WHERE district = 'Seal Island' GROUP BY diagnosis",
        "Yearly report on the island's health",
        "high",
        None,
    ),
    (
        "SELECT COUNT(*) FROM clinic WHERE diagnosis = 'Wilson disease'",
        "Plan the stock of a rare medicine",
        "normal",
        5,
    ),
    (
        "SELECT sex, AVG(cost_eur) FROM clinic WHERE smoker GROUP BY sex",
        "Compare what treating smokers costs",
        "normal",
        None,
    ),
    ("SELECT SUM(visits) FROM clinic", "Number of consulting rooms", "low", None),
)
"""Queries that wait: SQL, purpose, priority and wanted error."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The settings of a demonstration, and who can sign in. ``sign_ins``: name, role and password of each."""

    settings: Settings
    sign_ins: tuple[tuple[str, str, str], ...]


def prepare_demo(
    folder: Path, *, host: str = "127.0.0.1", port: int = 8765, algorithm: Algorithm = "fixed"
) -> DemoSettings:
    """Set up the demonstration in a folder: database, users, waiting queries.

    By default ε is fixed beforehand: the answers are then differentially private at that very ε (G0).
    """
    bundled = resources.files("dosimeter") / "data"
    dataset = DatasetSettings(
        data=str(bundled / "clinic.csv"),
        schema=Path(str(bundled / "clinic.toml")),
        policy="budget:2",
        algorithm=algorithm,
    )
    settings = Settings(
        database=str(folder / "dosimeter.db"),
        datasets={"clinic": dataset},
        secret=make_key().encode(),
        host=host,
        port=port,
        demo=True,
    )
    database = Database(settings.database)
    try:
        database.migrate()
        sign_ins = tuple(
            (name, role, add_user(database, name, role))
            for name, role in (("carol", "controller"), ("anna", "analyst"))
        )
        analyst = _find_user(database, "anna")
        for sql, purpose, priority, wanted in WAITING:
            query = NewQuery(dataset="clinic", sql=sql, purpose=purpose, priority=priority, wanted_error=wanted)
            submit_query(database, analyst, query)
    finally:
        database.close()
    return DemoSettings(settings, sign_ins)


def _find_user(database: Database, name: str) -> User:
    with database.reading() as connection:
        row = connection.execute(USERS.select().where(USERS.c.name == name)).one()
    return User(row.id, row.name, row.role)
