"""Writes a record into a ledger's table past the ledger, as nothing of ours does."""

from __future__ import annotations

import sqlite3

from dosimeter.ledger import Record


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
