"""A query can be withdrawn while it is being released: the withdrawal is stored until the release has ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("web_queries", sa.Column("withdrawal", sa.Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("web_queries", "withdrawal")
