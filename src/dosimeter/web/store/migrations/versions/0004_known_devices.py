"""Add a time to each user: devices count as known only if the user signed in on them after it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("web_users", sa.Column("devices_since", sa.Text))


def downgrade() -> None:
    op.drop_column("web_users", "devices_since")
