"""Reads and writes records past the ledger, as nothing of ours does; and reads its export and JSON document."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from dosimeter.ledger import Ledger, Record
from dosimeter.ledger.store import COLUMNS

Tampered = tuple[sqlite3.Connection, Ledger]
GUARDS = ["no_update", "no_delete", "in_order", "format_no_update"]


def drop_guards(raw: sqlite3.Connection) -> None:
    """Let records be changed and deleted."""
    for guard in GUARDS:
        raw.execute(f"DROP TRIGGER IF EXISTS dosimeter_ledger_{guard}")


@contextmanager
def tamper_with(path: Path) -> Iterator[Tampered]:
    """Open a ledger without its guards, and a way to write to it behind its back."""
    with Ledger.open(path) as ledger, closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA synchronous = OFF")
        drop_guards(raw)
        yield raw, ledger


def alter(target: str, *statements: str) -> None:
    """Change a ledger on either database behind its back."""
    if target.startswith("postgresql"):
        with psycopg.connect(target, autocommit=True) as server:
            for statement in ("ALTER TABLE dosimeter_ledger DISABLE TRIGGER USER", *statements):
                server.execute(statement)
    else:
        with closing(sqlite3.connect(target, isolation_level=None)) as raw:
            drop_guards(raw)
            for statement in statements:
                raw.execute(statement)


def end_sessions(url: str, application: str) -> None:
    """End every session of a program with a database, as a server does that goes down."""
    sessions = "pg_stat_activity WHERE application_name = %s AND datname = current_database()"
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute(f"SELECT pg_terminate_backend(pid) FROM {sessions}", [application])


def put_record(raw: sqlite3.Connection, record: Record) -> None:
    """Write a record, in the place of the one that has its number."""
    values = [getattr(record, column) for column in COLUMNS]
    raw.execute(f"INSERT OR REPLACE INTO dosimeter_ledger VALUES ({', '.join('?' * len(values))})", values)


def seal(record: Record, **changes: Any) -> Record:
    """Return a changed record with the digest that belongs to it."""
    changed = replace(record, **changes)
    return replace(changed, digest=changed.compute_digest())


def read_last(raw: sqlite3.Connection, condition: str = "TRUE", *values: object) -> Record:
    """Return the last record that fulfils a condition."""
    query = f"SELECT * FROM dosimeter_ledger WHERE {condition} ORDER BY seq DESC LIMIT 1"
    return Record(*raw.execute(query, values).fetchone())


def export_records(ledger: Ledger) -> list[dict[str, Any]]:
    """Return every record as it is exported."""
    stream = io.StringIO()
    ledger.export(stream)
    return [json.loads(line) for line in stream.getvalue().rstrip("\n").split("\n") if line]


def describe_datasets(ledger: Ledger) -> list[Any]:
    """Return every dataset of the ledger's JSON document."""
    document: dict[str, Any] = ledger.describe()
    return list(document["datasets"])
