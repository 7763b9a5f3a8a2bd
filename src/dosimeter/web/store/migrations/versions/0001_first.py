"""The first tables: users, sessions, tokens, sign-in attempts, queries, the audit log, and controllers' settings.

The settings (web_thresholds) are percentages for least ÷ most exposed, one for each priority of a query.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "web_users",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("password", sa.Text, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
    )
    op.create_table(
        "web_sessions",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, sa.ForeignKey("web_users.id"), nullable=False, index=True),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
    )
    op.create_table(
        "web_tokens",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        sa.Column("user_id", sa.Text, sa.ForeignKey("web_users.id"), nullable=False, index=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("revoked_at", sa.Text),
    )
    op.create_table(
        "web_attempts",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("until", sa.Text, nullable=False),
    )
    op.create_table(
        "web_queries",
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
        sa.Column("phrase", sa.Text),
        sa.Column("looked", sa.Boolean, nullable=False),
        sa.Column("claim", sa.Text, unique=True),
        sa.Column("decided_by", sa.Text, sa.ForeignKey("web_users.id")),
        sa.Column("epsilon", sa.Text),
        sa.Column("preference", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("note", sa.Text),
        sa.Column("entry_id", sa.Text),
    )
    op.create_table(
        "web_audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("dataset", sa.Text),
        sa.Column("query_id", sa.Text),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_table(
        "web_thresholds",
        sa.Column("user_id", sa.Text, sa.ForeignKey("web_users.id"), primary_key=True),
        sa.Column("priority", sa.Text, primary_key=True),
        sa.Column("percent", sa.Float, nullable=False),
    )


def downgrade() -> None:
    for name in ("thresholds", "audit", "queries", "attempts", "tokens", "sessions", "users"):
        op.drop_table(f"web_{name}")
