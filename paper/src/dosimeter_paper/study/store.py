"""Answers in one SQLite file. Takes one step of one participant at a time; never knows who they are.

What is not stored cannot leak: no address, no browser, no time but the day. A participant is found by the digest of the
token in their cookie, and the digest is erased when they finish. Rows lie in the order of their random numbers (the
table has no rowid), so the file does not tell who came first. The study's seed, groups, sample and texts are stored
at the first start, and a later start has to agree with them.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dosimeter.errors import OptionError
from dosimeter.json_values import JsonRow, JsonScalar
from dosimeter_paper.study import texts
from dosimeter_paper.study.answers import CONTROL, StudyAnswer
from dosimeter_paper.study.generate import (
    digest_token,
    draw_assignment,
    make_participant_number,
    make_study_name,
    make_token,
)

FINISHED = ("done", "failed")
_TABLES = sa.MetaData()
_STUDY = sa.Table(
    "study",
    _TABLES,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("seed", sa.Integer, nullable=False),
    sa.Column("groups", sa.Text, nullable=False),
    sa.Column("sample", sa.Text, nullable=False),
    sa.Column("texts_version", sa.Text, nullable=False),
    sa.Column("next_slot", sa.Integer, nullable=False),
)
_PARTICIPANTS = sa.Table(
    "participants",
    _TABLES,
    sa.Column("participant", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("token", sa.Text, unique=True),
    sa.Column("step", sa.Text, nullable=False),
    sa.Column("day", sa.Text, nullable=False),
    sa.Column("texts_version", sa.Text, nullable=False),
    sa.Column("prior_knowledge", sa.Text),
    sa.Column("quiz", sa.Text),
    sa.Column("quiz_score", sa.Integer),
    sa.Column("passed", sa.Boolean),
    sa.Column("group", sa.Text),
    sa.Column("first_query", sa.Text),
    sa.Column("epsilon_q1", sa.Float),
    sa.Column("epsilon_q2", sa.Float),
    sa.Column("used_rdr", sa.Boolean),
    sqlite_with_rowid=False,
)


@dataclass(frozen=True, slots=True)
class StudySettings:
    """What decides which participant sees what. ``sample``: the digest of the sample of the data."""

    seed: int
    groups: tuple[str, ...]
    sample: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a participant has come. ``step``: the name of the page that they are on, such as ``quiz``.

    ``queries``: the two queries in the order in which this participant sees them. ``group`` and ``queries`` are None
    until the quiz is passed.
    """

    step: str
    group: str | None
    queries: tuple[str, str] | None


class StudyStore:
    """The SQLite file of one study. ``existing``: refuse a file that does not exist, instead of making it."""

    def __init__(self, path: Path, *, existing: bool = False) -> None:
        self.path = path
        self._turn = threading.Lock()
        if existing and not path.is_file():
            raise OptionError(f"There is no study in {path}. Begin one with: dosimeter study serve.")
        self._engine = sa.create_engine("sqlite://", creator=self._connect, poolclass=sa.QueuePool)
        try:
            with self._transaction() as connection:
                if not existing:
                    _TABLES.create_all(connection)
                connection.execute(sa.select(_STUDY.c.name)).all()
        except sa.exc.DatabaseError:
            self.close()
            raise OptionError(f"{path} is not a study's file, or cannot be written. Choose another --store.") from None

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=10.0, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA secure_delete = ON")  # overwrite what is withdrawn or erased
        return connection

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        with self._turn, self._engine.begin() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    # ------------------------------------------------------------ the study

    def begin_study(self, settings: StudySettings) -> str:
        """Store the settings, or refuse those that differ from the stored ones. Returns the study's name."""
        wanted = {
            "seed": settings.seed,
            "groups": json.dumps(settings.groups),
            "sample": settings.sample,
            "texts_version": texts.VERSION,
        }
        with self._transaction() as connection:
            found = connection.execute(sa.select(_STUDY)).mappings().first()
            if found is None:
                name = make_study_name()
                connection.execute(_STUDY.insert().values(name=name, next_slot=0, **wanted))
                return name
            changed = [field for field, value in wanted.items() if found[field] != value]
            if changed:
                raise OptionError(
                    f"{self.path} holds a study with another {' and '.join(changed)}. One study has one design: "
                    "start it as before, or give another --store."
                )
            return str(found["name"])

    # ------------------------------------------------------------ participants

    def add_participant(self) -> str:
        """Add a participant who consented. Returns the token for their cookie."""
        token = make_token()
        with self._transaction() as connection:
            number = make_participant_number()
            taken = sa.select(_PARTICIPANTS.c.participant)
            while connection.execute(taken.where(_PARTICIPANTS.c.participant == number)).first() is not None:
                number = make_participant_number()
            connection.execute(
                _PARTICIPANTS.insert().values(
                    participant=number,
                    token=digest_token(token),
                    step="knowledge",
                    day=self.today().isoformat(),
                    texts_version=texts.VERSION,
                )
            )
        return token

    def today(self) -> date:
        return datetime.now(UTC).date()

    def find_progress(self, token: str) -> Progress | None:
        """Return how far a participant has come; None if the token is unknown, or they have finished or withdrawn."""
        with self._transaction() as connection:
            row = _find(connection, token)
        if row is None:
            return None
        first = row["first_query"]
        return Progress(row["step"], row["group"], None if first is None else _order_queries(first))

    def withdraw(self, token: str) -> None:
        with self._transaction() as connection:
            connection.execute(_PARTICIPANTS.delete().where(_PARTICIPANTS.c.token == digest_token(token)))

    def record(self, token: str, step: str, value: JsonScalar = None) -> str | None:
        """Store the participant's answer to this step, and move them on. Return the step that follows.

        None if the participant is not at this step: nothing is stored, so nothing can be answered twice.
        """
        with self._transaction() as connection:
            row = _find(connection, token)
            if row is None or row["step"] != step:
                return None
            changes = self._decide(connection, row, value)
            if changes["step"] in FINISHED:
                changes["token"] = None
            connection.execute(
                _PARTICIPANTS.update().where(_PARTICIPANTS.c.participant == row["participant"]).values(changes)
            )
            return str(changes["step"])

    def _decide(self, connection: sa.Connection, row: sa.RowMapping, value: JsonScalar) -> JsonRow:
        match row["step"]:
            case "knowledge":
                return {"prior_knowledge": value, "step": "tutorial"}
            case "tutorial":
                return {"step": "quiz"}
            case "quiz":
                return self._grade(connection, str(value))
            case "briefing":
                return {"step": "first"}
            case "first" | "second" as step:
                queries = _order_queries(row["first_query"])
                following = "done" if row["group"] == CONTROL else "follow-up"
                return {
                    f"epsilon_{queries[step == 'second']}": value,
                    "step": "second" if step == "first" else following,
                }
            case "follow-up":
                return {"used_rdr": value, "step": "done"}
            case other:
                raise AssertionError(f"a participant stands at {other}")

    def _grade(self, connection: sa.Connection, letters: str) -> JsonRow:
        """Return the columns to store after the quiz: letters, score, whether it is passed, and the step that follows.

        Only those who pass get a group and an order of queries, so that the groups that are analysed are balanced.
        """
        score = sum(given == question.right for given, question in zip(letters, texts.QUIZ, strict=True))
        graded: JsonRow = {"quiz": letters, "quiz_score": score, "passed": score >= texts.PASS_MARK}
        if not graded["passed"]:
            return graded | {"step": "failed"}
        study = connection.execute(sa.select(_STUDY)).mappings().one()
        connection.execute(_STUDY.update().values(next_slot=study["next_slot"] + 1))
        drawn = draw_assignment(study["next_slot"], json.loads(study["groups"]), seed=study["seed"])
        return graded | {"group": drawn.group, "first_query": drawn.first_query, "step": "briefing"}

    # ------------------------------------------------------------ export

    def list_answers(self) -> tuple[StudyAnswer, ...]:
        with self._transaction() as connection:
            rows: Sequence[Any] = connection.execute(sa.select(_PARTICIPANTS)).mappings().all()
        left_out = {"token", "step"}
        return tuple(
            StudyAnswer(
                **{name: value for name, value in row.items() if name not in left_out}, completed=row["step"] == "done"
            )
            for row in rows
        )


def _find(connection: sa.Connection, token: str) -> sa.RowMapping | None:
    query = sa.select(_PARTICIPANTS).where(_PARTICIPANTS.c.token == digest_token(token))
    return connection.execute(query).mappings().first()


def _order_queries(first: str) -> tuple[str, str]:
    return ("q1", "q2") if first == "q1" else ("q2", "q1")
