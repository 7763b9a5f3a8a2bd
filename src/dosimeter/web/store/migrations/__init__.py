"""Alembic's migrations of the web's own tables. The ledger's tables are not in here."""
