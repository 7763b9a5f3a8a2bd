"""Add to each user which preset rules the defaults of their decision pages; NULL: nothing was chosen."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("web_users", sa.Column("standard", sa.Text))


def downgrade() -> None:
    op.drop_column("web_users", "standard")
