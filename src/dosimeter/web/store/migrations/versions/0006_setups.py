"""Make the table of how datasets are to be set up: what controllers filled in, before a dataset has its schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "web_setups",
        sa.Column("dataset", sa.Text, primary_key=True),
        sa.Column("form", sa.Text, nullable=False),
        sa.Column("looked", sa.Boolean, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("web_setups")
