"""Alembic's migrations of the web application's own tables. The ledger's tables are not in here."""
