"""Writes a record into a ledger's table past the ledger, as nothing of ours does; and reads its JSON document."""

from __future__ import annotations

import sqlite3
from typing import Any

from dosimeter.ledger import Ledger, Record


def insert_raw(raw: sqlite3.Connection, record: Record) -> None:
    values = (
        record.seq,
        record.dataset,
        record.kind,
        record.version,
        record.at,
        record.entry,
        record.payload,
        record.previous,
        record.digest,
    )
    raw.execute("INSERT INTO dosimeter_ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)


def describe_datasets(ledger: Ledger) -> list[Any]:
    """Return every dataset of the ledger's JSON document."""
    document: dict[str, Any] = ledger.describe()
    return list(document["datasets"])
