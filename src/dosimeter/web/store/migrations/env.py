"""Run by Alembic with an open connection: the web application's tables only, with a version table of their own."""

from __future__ import annotations

from alembic import context

from dosimeter.web.store.tables import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
