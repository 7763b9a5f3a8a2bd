"""A demonstration server: the bundled clinic, a controller, an analyst and a few waiting queries, all temporary."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from dosimeter.ledger import Algorithm
from dosimeter.web.identity import add_user
from dosimeter.web.public import NewQuery
from dosimeter.web.settings import DatasetSettings, Settings
from dosimeter.web.store import USERS, Database, User, make_key, make_password, submit_query

WAITING = (
    NewQuery(
        dataset="clinic",
        sql="SELECT diagnosis, COUNT(*) FROM clinic WHERE district = 'Seal Island' GROUP BY diagnosis",
        purpose="Yearly report on the island's health",
        priority="high",
    ),
    NewQuery(
        dataset="clinic",
        sql="SELECT COUNT(*) FROM clinic WHERE diagnosis = 'Wilson disease'",
        purpose="Plan the stock of a rare medicine",
        priority="normal",
        wanted_error=5,
    ),
    NewQuery(
        dataset="clinic",
        sql="SELECT sex, AVG(cost_eur) FROM clinic WHERE smoker GROUP BY sex",
        purpose="Compare what treating smokers costs",
        priority="normal",
    ),
    NewQuery(
        dataset="clinic", sql="SELECT SUM(visits) FROM clinic", purpose="Number of consulting rooms", priority="low"
    ),
)


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
        sign_ins = tuple((name, role, make_password()) for name, role in (("carol", "controller"), ("anna", "analyst")))
        for name, role, password in sign_ins:
            add_user(database, name, role, password)
        analyst = _find_user(database, "anna")
        for query in WAITING:
            submit_query(database, analyst, query)
    finally:
        database.close()
    return DemoSettings(settings, sign_ins)


def _find_user(database: Database, name: str) -> User:
    with database.reading() as connection:
        row = connection.execute(USERS.select().where(USERS.c.name == name)).one()
    return User(row.id, row.name, row.role)
