"""Identify the stored tables that PostgreSQL reads: by server, database and OID.

Takes an open connection inside a transaction; gives identities. A table keeps its OID for as long as it exists,
whatever is written to it, and also if it is renamed. Does not catch the driver's errors.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

_FIRST_OF_USERS = 16384  # OIDs below belong to PostgreSQL itself

# A view reads what its rule depends on; a partition or child is read together with its parent, and the other way round.
_UNDER = """
    WITH RECURSIVE under AS (
        SELECT CAST(%s AS oid) AS oid
        UNION
        SELECT next.oid FROM under, LATERAL (
            SELECT d.refobjid AS oid FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d ON d.objid = r.oid
            WHERE r.ev_class = under.oid AND r.ev_type = '1' AND d.refobjid <> under.oid
            AND d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
            UNION ALL SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = under.oid
            UNION ALL SELECT inhparent FROM pg_catalog.pg_inherits WHERE inhrelid = under.oid
        ) AS next
    )
    SELECT c.oid, c.relkind FROM under JOIN pg_catalog.pg_class c ON c.oid = under.oid"""

_FUNCTIONS_UNDER = """
    SELECT COUNT(*) FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d ON d.objid = r.oid
    WHERE r.ev_class = ANY(CAST(%s AS oid[])) AND r.ev_type = '1' AND d.classid = 'pg_catalog.pg_rewrite'::regclass
    AND d.refclassid = 'pg_catalog.pg_proc'::regclass AND d.refobjid >= %s"""

_EVERY_TABLE = "SELECT oid FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p', 'm', 'f') AND oid >= %s"


def identify_relation(connection: psycopg.Connection[Any], oid: int, server: str) -> frozenset[str]:
    """Return the identities of the stored tables that a table or view reads.

    Where a function hides what is read, or nothing stored is found, return the identities of all tables of the
    database. ``server``: from ``name_system`` or ``name_address``.
    """
    place = f"{server}/{_fetch_one(connection, _DATABASE)}"
    return frozenset(f"postgres:{place}/{stored}" for stored in _list_stored(connection, oid))


def _list_stored(connection: psycopg.Connection[Any], oid: int) -> list[int]:
    found = [(int(row[0]), _as_text(row[1])) for row in connection.execute(_UNDER, [oid]).fetchall()]
    relations = [known for known, _ in found]
    stored = [known for known, kind in found if kind in ("r", "p", "m", "f") and known >= _FIRST_OF_USERS]
    hidden = _fetch_one(connection, _FUNCTIONS_UNDER, [relations, _FIRST_OF_USERS])
    if hidden or not stored:
        return [int(row[0]) for row in connection.execute(_EVERY_TABLE, [_FIRST_OF_USERS]).fetchall()]
    return stored


_DATABASE = "SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()"
_SYSTEM = "SELECT system_identifier FROM pg_catalog.pg_control_system()"
_ADDRESS = "SELECT pg_catalog.host(pg_catalog.inet_server_addr())"
_PORT = "SELECT COALESCE(CAST(pg_catalog.inet_server_port() AS TEXT), pg_catalog.current_setting('port'))"


def name_system(connection: psycopg.Connection[Any]) -> str:
    """Return the server's own identifier, which its replicas share.

    Raises psycopg.Error if the user may not read it.
    """
    with connection.transaction():  # a savepoint: a refusal does not end the transaction
        return f"system {_fetch_one(connection, _SYSTEM)}"


def name_address(connection: psycopg.Connection[Any]) -> str:
    """Return the server's address and port, for a server whose identifier the user may not read."""
    address = _fetch_one(connection, _ADDRESS) or f"socket of {socket.gethostname()}"
    return f"address {address}:{_fetch_one(connection, _PORT)}"


def _fetch_one(connection: psycopg.Connection[Any], query: str, arguments: list[Any] | None = None) -> Any:
    row = connection.execute(query, arguments).fetchone()
    return None if row is None else row[0]


def _as_text(value: object) -> str:
    """Return as text a value of PostgreSQL's type "char". The driver gives such values as bytes."""
    return value.decode("ascii") if isinstance(value, bytes) else str(value)
