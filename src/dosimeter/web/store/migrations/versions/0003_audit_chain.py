"""The audit log is chained, and triggers protect its records. Existing records are chained as they are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import sqlalchemy as sa
from alembic import op

from dosimeter.ledger import GENESIS
from dosimeter.web.store.audit_log import AuditRecord
from dosimeter.web.store.tables import write_time

revision = "0003"
down_revision = "0002"

CHUNK = 1_000
REFUSAL = "the audit log is append-only"


def upgrade() -> None:
    connection = op.get_bind()
    previous = sa.Column("previous", sa.Text, nullable=False, unique=True)
    digest = sa.Column("digest", sa.Text, nullable=False, unique=True)
    chained = _create("web_audit_chained", previous, digest)
    _chain_records(connection, sa.table("web_audit", *(sa.column(c.name) for c in chained.c)), chained)
    op.drop_table("web_audit")
    op.rename_table("web_audit_chained", "web_audit")
    op.create_index("ix_web_audit_user", "web_audit", ["user"])
    for statement in _list_guards(connection.dialect.name):
        connection.exec_driver_sql(statement)
    op.add_column("web_tokens", sa.Column("used_on", sa.Text))


def _create(name: str, *further: sa.Column[str]) -> sa.Table:
    """Create a table for the records, with these columns besides those that every version has."""
    return op.create_table(
        name,
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=not further
        ),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("dataset", sa.Text),
        sa.Column("query_id", sa.Text),
        sa.Column("detail", sa.Text, nullable=False),
        *further,
    )


def _chain_records(connection: sa.Connection, old: sa.TableClause, new: sa.Table) -> None:
    """Write to ``new`` a record that says that the chain begins here, and after it, chained, the records of ``old``."""
    count = connection.execute(sa.select(sa.func.count()).select_from(old)).scalar_one()
    before = f"{count} records from before follow, as they were found" if count else "no records from before"
    last = AuditRecord(1, write_time(), "server", "began the chain", None, None, before, GENESIS).seal()
    connection.execute(new.insert().values(asdict(last)))
    names = ("at", "user", "action", "dataset", "query_id", "detail")
    done = None
    while True:
        query = sa.select(old.c.id, *(old.c[name] for name in names)).order_by(old.c.id).limit(CHUNK)
        rows = connection.execute(query if done is None else query.where(old.c.id > done)).mappings().all()
        if not rows:
            return
        sealed = []
        for row in rows:
            values = {name: row[name] for name in names}
            last = AuditRecord(id=last.id + 1, **values, previous=last.digest).seal()
            sealed.append(asdict(last))
        connection.execute(new.insert(), sealed)
        done = rows[-1]["id"]


def _list_guards(dialect: str) -> Sequence[str]:
    """Return the SQL of triggers that refuse accidental changes. Deliberate ones are shown by the chain alone."""
    if dialect == "sqlite":
        refuse = f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        return (
            f"CREATE TRIGGER web_audit_no_update BEFORE UPDATE ON web_audit {refuse}",
            f"CREATE TRIGGER web_audit_no_delete BEFORE DELETE ON web_audit {refuse}",
            # INSERT OR REPLACE deletes without firing the trigger above; so only the next record is accepted.
            "CREATE TRIGGER web_audit_in_order BEFORE INSERT ON web_audit "
            "WHEN NEW.id IS NOT (SELECT COALESCE(MAX(id), 0) + 1 FROM web_audit) OR NEW.previous IS NOT "
            f"COALESCE((SELECT digest FROM web_audit ORDER BY id DESC LIMIT 1), '{GENESIS}') {refuse}",
        )
    return (
        "CREATE FUNCTION web_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{REFUSAL}'; END $$",
        "CREATE FUNCTION web_audit_in_order() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "DECLARE last_id bigint; last_digest text; BEGIN "
        "EXECUTE 'SELECT id, digest FROM ' || TG_RELID::regclass || ' ORDER BY id DESC LIMIT 1' "
        "INTO last_id, last_digest; "
        "IF NEW.id IS DISTINCT FROM COALESCE(last_id, 0) + 1 "
        f"OR NEW.previous IS DISTINCT FROM COALESCE(last_digest, '{GENESIS}') "
        f"THEN RAISE EXCEPTION '{REFUSAL}'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER web_audit_in_order BEFORE INSERT ON web_audit "
        "FOR EACH ROW EXECUTE FUNCTION web_audit_in_order()",
        "CREATE TRIGGER web_audit_no_change BEFORE UPDATE OR DELETE ON web_audit "
        "FOR EACH ROW EXECUTE FUNCTION web_audit_refuse()",
        "CREATE TRIGGER web_audit_no_truncate BEFORE TRUNCATE ON web_audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION web_audit_refuse()",
    )


def downgrade() -> None:
    """Go back to a log without a chain. The records stay, and so does the one that began the chain."""
    connection = op.get_bind()
    plain = _create("web_audit_plain")
    names = [column.name for column in plain.c]
    chained = sa.table("web_audit", *(sa.column(name) for name in names))
    connection.execute(plain.insert().from_select(names, sa.select(*(chained.c[name] for name in names))))
    op.drop_table("web_audit")
    if connection.dialect.name == "postgresql":
        for function in ("refuse", "in_order"):
            connection.exec_driver_sql(f"DROP FUNCTION web_audit_{function}()")
    op.rename_table("web_audit_plain", "web_audit")
    op.drop_column("web_tokens", "used_on")
