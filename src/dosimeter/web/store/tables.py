"""The web application's own tables. Their migrations are in migrations/; the ledger's tables are not here.

Times are ISO 8601 in UTC with microseconds, as text: they sort, and read the same on SQLite and PostgreSQL.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

METADATA = sa.MetaData()
VERSION_TABLE = "dosimeter_web_version"

USERS = sa.Table(
    "web_users",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("password", sa.Text, nullable=False),
    sa.Column("disabled", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("devices_since", sa.Text),  # devices that signed in before this time count as unknown
    sa.Column("standard", sa.Text),  # a preset or "own": what rules the defaults of a controller's decision pages
)
SESSIONS = sa.Table(
    "web_sessions",
    METADATA,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, sa.ForeignKey("web_users.id"), nullable=False, index=True),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Text, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
)
TOKENS = sa.Table(
    "web_tokens",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False, unique=True),
    sa.Column("user_id", sa.Text, sa.ForeignKey("web_users.id"), nullable=False, index=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("revoked_at", sa.Text),
    sa.Column("used_on", sa.Text),  # the day of its latest use
)
ATTEMPTS = sa.Table(
    "web_attempts",
    METADATA,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("until", sa.Text, nullable=False),
)
QUERIES = sa.Table(
    "web_queries",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("analyst_id", sa.Text, sa.ForeignKey("web_users.id"), nullable=False, index=True),
    sa.Column("sql", sa.Text, nullable=False),
    sa.Column("purpose", sa.Text, nullable=False),
    sa.Column("priority", sa.Text, nullable=False),
    sa.Column("wanted_error", sa.Float),
    sa.Column("status", sa.Text, nullable=False, index=True),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("changed_at", sa.Text, nullable=False),
    sa.Column("phrase", sa.Text),  # key of the fixed phrase that asks for changes
    sa.Column("looked", sa.Boolean, nullable=False),  # the risk was shown to a controller
    sa.Column("claim", sa.Text, unique=True),  # the reference that the ledger's entry carries
    sa.Column("decided_by", sa.Text, sa.ForeignKey("web_users.id")),
    sa.Column("epsilon", sa.Text),  # what was approved, as a decimal; for the controller
    sa.Column("preference", sa.Text),
    sa.Column("reason", sa.Text),  # why it was decided so; for the controller
    sa.Column("note", sa.Text),  # what became of an approval; for the controller
    sa.Column("entry_id", sa.Text),
    sa.Column("withdrawal", sa.Boolean, nullable=False),  # its analyst withdrew it, perhaps during the release
)
AUDIT = sa.Table(
    "web_audit",
    METADATA,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("user", sa.Text, nullable=False, index=True),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("dataset", sa.Text),
    sa.Column("query_id", sa.Text),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False, unique=True),  # unique, so that the chain cannot fork
    sa.Column("digest", sa.Text, nullable=False, unique=True),
)
THRESHOLDS = sa.Table(
    "web_thresholds",
    METADATA,
    sa.Column("user_id", sa.Text, sa.ForeignKey("web_users.id"), primary_key=True),
    sa.Column("priority", sa.Text, primary_key=True),
    sa.Column("percent", sa.Float, nullable=False),
)
SETUPS = sa.Table(
    "web_setups",
    METADATA,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("form", sa.Text, nullable=False),  # what controllers filled in, as JSON: nothing of the data
    sa.Column("looked", sa.Boolean, nullable=False),  # the data were shown to a controller
)


def write_time(at: datetime | None = None) -> str:
    return (at or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def count_rows(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> int:
    """Return how many rows of the conditions' table meet all of them."""
    return int(connection.execute(sa.select(sa.func.count()).where(*conditions)).scalar_one())


def later(**span: float) -> str:
    return write_time(datetime.now(UTC) + timedelta(**span))
