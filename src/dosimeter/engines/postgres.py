"""A table, view or materialised view of a PostgreSQL server, through psycopg. Everything is aggregated in the server.

Takes a ``postgresql://`` URL and a table name; gives an Engine. Only SELECT trees that Dosimeter wrote run, in one
read-only transaction that sees one snapshot of the data. The table is read through casts, so that every type and
collation is the same as on the other engines. PostgreSQL's messages can quote cells and the URL can hold a password:
neither is passed on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import psycopg
import pyarrow as pa
from psycopg.conninfo import conninfo_to_dict
from sqlglot import exp

from dosimeter.engines.cells import odd_cells_query, read_odd_cells
from dosimeter.engines.columns import NativeColumn
from dosimeter.engines.engine import Engine, ReadOptions, combine_fingerprints, digest_sums, joined_with_itself
from dosimeter.engines.postgres_catalogue import (
    TYPES,
    CatalogueTable,
    Reading,
    describe_relation,
    find_relation,
    match_columns,
    quote_identifier,
    read_column,
    read_settings,
    read_through_casts,
    split_name,
    table_of,
)
from dosimeter.engines.postgres_identities import identify_relation, name_address, name_system
from dosimeter.engines.postgres_trees import write_query
from dosimeter.errors import ConnectionLost, DataError, DosimeterError, Interrupted, OptionError, SourceUnreachable
from dosimeter.problems import CHECK_SCHEMA
from dosimeter.schema import ColumnType, JoinTable, Schema

OLDEST_SERVER = 12
STATEMENT_TIMEOUT = "15min"
WORK_MEM = 64 * 1024  # kB: a hundred thousand individuals are grouped in memory
CONNECT_TIMEOUT = "10"  # seconds
# SET LOCAL, so that nothing outlives the transaction behind a connection pool. The search path keeps others' functions
# from replacing PostgreSQL's own; row_security = off turns hidden rows into an error; the rest fixes how values
# are written, which the fingerprint depends on.
_SETTINGS = {
    "search_path": "pg_catalog",
    "row_security": "off",
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "extra_float_digits": "3",
    "bytea_output": "hex",
}


def open_postgres(url: str, options: ReadOptions | None = None) -> PostgresEngine:
    """Connect and find the table: ``--table visits``, ``--table registry.visits``, or the only one there is."""
    options = options or ReadOptions()
    connection, server = _connect(url)
    try:
        relation, attributes = _look_up(connection, options.table, server)
    except BaseException:
        connection.close()
        raise
    if options.table is None:
        table = relation.name
    else:
        table = ".".join(name for name, _ in split_name(options.table))
    return PostgresEngine(connection, lambda: _connect(url)[0], relation, table, attributes, options)


class PostgresEngine(Engine):
    """An engine over one table of a PostgreSQL server. Other threads may call ``interrupt``.

    All queries see the data as they were at the first query. After an error or ``refresh`` the next query takes a new
    snapshot, by a new connection where the old one was lost.
    """

    name = "postgres"
    keeps_rows = False

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        reconnect: Callable[[], psycopg.Connection[Any]],
        relation: CatalogueTable,
        table: str,
        attributes: Mapping[str, NativeColumn],
        options: ReadOptions,
    ) -> None:
        self._connection = connection
        self._reconnect = reconnect
        self._snapshot_digest: str | None = None
        self.generation = 0
        self._options = options
        self._joined: dict[str, tuple[CatalogueTable, Reading]] = {}
        self._kept: dict[str, str] = {}  # the text of a query, and how the names of its settings begin
        self._declared: Mapping[str, JoinTable] = {}
        self._relation = relation
        self._table = table
        self._attributes = dict(attributes)
        self._reading: Reading = {
            name: (name, self._attributes[name].kind, kind) for name, kind in self.describe().items()
        }
        self._interrupted = False
        self.rows_fetched = 0

    # ------------------------------------------------------------ describing

    def default_table(self) -> str:
        return self._table

    def describe(self) -> Mapping[str, ColumnType]:
        """Return the columns and their types. Columns of a type without equivalent (JSON, arrays …) are left out."""
        found = {name: TYPES.find_type(attribute.kind) for name, attribute in self._attributes.items()}
        return {name: kind for name, kind in found.items() if kind is not None}

    def unread_columns(self) -> Mapping[str, str]:
        """Return the columns that ``describe`` leaves out, each with its type in the source."""
        return {name: each.written for name, each in self._attributes.items() if TYPES.find_type(each.kind) is None}

    def impose(self, schema: Schema) -> None:
        self._reading = match_columns(schema.columns, self._attributes)
        self._declared = schema.tables

    def relation(self) -> exp.Expression:
        return read_through_casts(self._relation, self._reading, "dosimeter_table")

    def joined(self, table: JoinTable) -> exp.Expression:
        """Return another table of the same database, for a FROM or JOIN clause.

        The table is looked up in the main table's PostgreSQL schema, unless its ``source`` names another schema, as
        registry.visits does. Raises OptionError for a table in memory.
        """
        if table.name in self._options.tables:
            raise OptionError(
                f"{table.name} is in memory and cannot be joined in PostgreSQL. Load it into the database."
            )
        relation, reading = self._join(table)
        return read_through_casts(relation, reading, f"dosimeter_joined_{list(self._joined).index(table.name)}")

    def _join(self, table: JoinTable) -> tuple[CatalogueTable, Reading]:
        if table.name not in self._joined:
            relation, attributes = self._find_joined(table)
            if table.public and (relation.schema, relation.name) == (self._relation.schema, self._relation.name):
                raise joined_with_itself(table)
            self._joined[table.name] = (relation, match_columns(table.columns, attributes))
        return self._joined[table.name]

    def count_odd_cells(self, names: Collection[str], table: JoinTable | None = None) -> Mapping[str, int]:
        relation, reading = (self._relation, self._reading) if table is None else self._join(table)
        if not names:
            return {}
        cells = {
            name: (exp.column(exp.to_identifier(reading[name][0], quoted=True)), read_column(*reading[name]))
            for name in names
        }
        return read_odd_cells(self._run(write_query(odd_cells_query(cells, table_of(relation)))))

    def _find_declared(self, table: JoinTable) -> tuple[CatalogueTable, dict[str, NativeColumn]] | None:
        """Return a declared table and its columns; None if it is absent, so that no query can join it either."""
        try:
            return self._find_joined(table)
        except SourceUnreachable:
            raise
        except (DataError, OptionError):
            return None

    def _find_joined(self, table: JoinTable) -> tuple[CatalogueTable, dict[str, NativeColumn]]:
        name = table.source or table.name
        named = name if len(split_name(name)) > 1 else f"{quote_identifier(self._relation.schema)}.{name}"
        try:
            self._begin_if_idle()
            relation = find_relation(self._connection, named, self._connection.info.dbname)
            return relation, describe_relation(self._connection, relation)
        except psycopg.Error as error:
            self._leave_transaction()
            raise _not_found(error, named, named) from None

    # ------------------------------------------------------------ running

    def fetch(self, query: exp.Select) -> pa.Table:
        table = self._run(write_query(query))
        self.rows_fetched += table.num_rows
        return table

    def keep(
        self, query: exp.Select, columns: Mapping[str, ColumnType], *, rows: int, by: str | None = None
    ) -> exp.Expression:
        """Keep each column as an array in a setting of the transaction.

        A read-only transaction can make no table. The arrays do not leave the server, and no statement names a cell,
        so that none is in the server's log. They end with the transaction.
        """
        text = write_query(query)
        if text not in self._kept:
            name = f"dosimeter.kept_{len(self._kept)}_"
            arrays = [f"CAST(array_agg({quote_identifier(column)}) AS TEXT)" for column in columns]
            items = [
                f"length(set_config('{name}{at}', COALESCE({array}, '{{}}'), true)) AS length_{at}"
                for at, array in enumerate(arrays)
            ]
            self._run(f"SELECT {', '.join(items)} FROM ({text}) AS kept")
            self._kept[text] = name
        return read_settings(self._kept[text], columns)

    def fingerprint(self) -> str:
        """Return a digest of the columns' names and types, the number of rows, and sums over a hash of each row.

        A live table has no bytes to digest. The sums do not depend on the order of the rows, and need one scan and no
        memory. They stay the same over VACUUM, a dump and a restore; the server's own marks (system identifier, oid,
        transaction ids) do not. The digest notices that data changed; it is no proof against somebody who can write to
        the table and tries to keep two 64-bit sums the same.
        """
        joined = {name: self._digest_joined(table) for name, table in self._declared.items()}
        self._snapshot_digest = combine_fingerprints(self._digest(self._relation, self._attributes), joined)
        return self._snapshot_digest

    def is_still(self, digest: str) -> bool:
        return self._snapshot_digest == digest or self.fingerprint() == digest

    def identities(self, *, public: bool = False) -> frozenset[str]:
        """Return an identity for every stored table that is read: its server, database and OID.

        Which tables a view reads is found out in the current snapshot. ``public``: as in ``Engine.identities``.
        """
        joined = [self._find_declared(table) for table in self._declared.values() if table.public is public]
        relations = [*([] if public else [self._relation]), *(found[0] for found in joined if found is not None)]
        return frozenset(identity for relation in relations for identity in self._identify(relation))

    def _identify(self, relation: CatalogueTable) -> frozenset[str]:
        try:
            self._begin_if_idle()
            try:
                server = name_system(self._connection)
            except psycopg.Error:
                server = name_address(self._connection)
            return identify_relation(self._connection, relation.oid, server)
        except psycopg.Error as error:
            self._leave_transaction()
            raise _translate(error, relation.label) from None

    def refresh(self) -> None:
        self._leave_transaction()
        self._snapshot_digest = None
        self._joined.clear()

    def _digest_joined(self, table: JoinTable) -> str:
        found = self._find_declared(table)
        return "absent" if found is None else self._digest(*found)

    def _digest(self, relation: CatalogueTable, attributes: Mapping[str, NativeColumn]) -> str:
        record = ", ".join(quote_identifier(name) for name in attributes)
        table = f"{quote_identifier(relation.schema)}.{quote_identifier(relation.name)}"
        sums = ", ".join(f"SUM(CAST(hashtextextended(record, {seed}) AS NUMERIC)) AS sum{seed}" for seed in (0, 1))
        records = (
            f"SELECT CAST(ROW({record}) AS TEXT) AS record FROM {table} OFFSET 0"  # OFFSET 0: each is written once
        )
        found = self._run(f"SELECT COUNT(*) AS people, {sums} FROM ({records}) AS records")
        return digest_sums([(name, attribute.written) for name, attribute in attributes.items()], found)

    def _run(self, text: str) -> pa.Table:
        self._interrupted = False
        running = False
        try:
            self._begin_if_idle()
            self._connection.execute("SELECT 1")  # a connection that was lost before is not lost by the query
            running = True
            with self._connection.cursor(binary=True) as cursor:
                cursor.execute(text.encode())  # as bytes: a % is no placeholder
                return _as_arrow(cursor)
        except psycopg.Error as error:
            self._leave_transaction()
            if self._interrupted and error.sqlstate == "57014":
                raise Interrupted("Stopped.") from None
            raise _translate(error, self._relation.label, running=running) from None
        except UnicodeDecodeError:
            self._leave_transaction()
            raise DataError(
                f"{self._relation.label} holds text that is not UTF-8. Correct it, or read a view."
            ) from None
        except KeyboardInterrupt:
            self._leave_transaction()
            raise

    def _begin_if_idle(self) -> None:
        if self._connection.closed:
            self._connection = self._reconnect()
        if self._connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE:
            self._snapshot_digest = None
            _begin(self._connection, _SETTINGS)

    def _leave_transaction(self) -> None:
        """End the snapshot. Until the next one begins, ``is_still`` answers by this one: its data made a query fail."""
        self._kept.clear()
        self.generation += 1
        try:
            self._connection.rollback()
        except psycopg.Error:
            return  # the connection is gone, and its transaction with it

    def interrupt(self) -> None:
        self._interrupted = True
        try:
            self._connection.cancel_safe(timeout=5.0)
        except psycopg.Error:
            return  # nothing runs, or the server cannot be reached

    def close(self) -> None:
        self._connection.close()


# ---------------------------------------------------------------- connecting


def _connect(url: str) -> tuple[psycopg.Connection[Any], str]:
    """Return the connection, and a name of the server for messages: host and database, never the user or password."""
    try:
        parameters: dict[str, Any] = dict(conninfo_to_dict(url))
    except (psycopg.Error, ValueError):
        raise OptionError(
            "The database URL cannot be read. It looks like postgresql://user:password@host:5432/database; in the "
            "password write @ as %40, : as %3A and / as %2F."
        ) from None
    ports = [port for port in str(parameters.get("port") or "").split(",") if port]
    if not all(port.isascii() and port.isdigit() and 0 < int(port) < 2**16 for port in ports):
        raise _wrong_option("port")
    server = f"{parameters.get('dbname') or 'the default database'} on {parameters.get('host') or 'the local socket'}"
    if "connect_timeout" not in parameters and "PGCONNECT_TIMEOUT" not in os.environ:
        parameters["connect_timeout"] = CONNECT_TIMEOUT
    parameters = {"application_name": "dosimeter"} | parameters | {"client_encoding": "utf8"}
    try:
        # No prepared statements: nothing here runs often enough, and connection pools do not carry them over.
        connection = psycopg.connect(**parameters, autocommit=False, prepare_threshold=None)
    except psycopg.Error as error:
        raise _refused(error, server) from None
    if connection.info.server_version < OLDEST_SERVER * 10_000:
        connection.close()
        raise OptionError(f"{server} is too old. PostgreSQL {OLDEST_SERVER} or newer is needed.")
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    return connection, server


def _begin(connection: psycopg.Connection[Any], settings: Mapping[str, str]) -> None:
    """Start a transaction with these settings, and with Dosimeter's own limits on time and memory where needed.

    Dosimeter's time limit on statements is set only where there is none, and its memory limit only where the present
    one is smaller. A limit that the connection itself asks for is kept.
    """
    asked = "SELECT name, setting, source FROM pg_catalog.pg_settings WHERE name IN ('statement_timeout', 'work_mem')"
    found = {name: (setting, source) for name, setting, source in connection.execute(asked).fetchall()}
    chosen = dict(settings)
    (timeout, timeout_source), (memory, memory_source) = found["statement_timeout"], found["work_mem"]
    if timeout == "0" and timeout_source != "client":
        chosen["statement_timeout"] = STATEMENT_TIMEOUT
    if int(memory) < WORK_MEM and memory_source != "client":
        chosen["work_mem"] = f"{WORK_MEM}kB"
    calls = ", ".join(["pg_catalog.set_config(%s, %s, true)"] * len(chosen))
    if chosen:
        connection.execute(f"SELECT {calls}", [part for pair in chosen.items() for part in pair])


def _look_up(
    connection: psycopg.Connection[Any], table: str | None, server: str
) -> tuple[CatalogueTable, dict[str, NativeColumn]]:
    try:
        _begin(connection, {})
        relation = find_relation(connection, table, server)
        attributes = describe_relation(connection, relation)
        connection.rollback()
    except psycopg.Error as error:
        raise _not_found(error, table, server) from None
    return relation, attributes


# ---------------------------------------------------------------- results


def _as_arrow(cursor: psycopg.Cursor[Any]) -> pa.Table:
    """Return the cursor's rows as an Arrow table. Whole numbers of up to 38 digits stay exact."""
    description = cursor.description or []
    columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(description)
    arrays = [_array(values, item.type_code) for values, item in zip(columns, description, strict=True)]
    return pa.Table.from_arrays(arrays, names=[item.name for item in description])


def _array(values: Sequence[Any], oid: int) -> pa.Array:
    types = {
        16: pa.bool_(),
        20: pa.int64(),
        21: pa.int16(),
        23: pa.int32(),
        25: pa.string(),
        700: pa.float32(),
        701: pa.float64(),
        1082: pa.date32(),
        1114: pa.timestamp("us"),
    }
    if oid in types:
        return pa.array(values, types[oid])
    if oid == 1700:  # numeric: Dosimeter's trees give only whole ones, of up to 38 digits
        return pa.array(values, pa.decimal128(38, 0))
    return pa.array([None if value is None else str(value) for value in values], pa.string())


# ---------------------------------------------------------------- errors


def _refused(error: psycopg.Error, server: str) -> OptionError:
    """Return our own error for a refused connection, chosen by phrases in psycopg's message: there is no SQLSTATE.

    That message can quote the user, so it is not passed on.
    """
    text = str(error)
    option = re.search(r'invalid (\w+) value|connection option "(\w+)"|bad value for (\w+)', text)
    if option is not None:
        return _wrong_option(next(name for name in option.groups() if name))
    if "unrecognized configuration parameter" in text or "invalid command-line argument" in text:
        return _wrong_option("options")
    if any(words in text for words in ("authentication failed", "no password supplied", "no pg_hba.conf entry")):
        return OptionError(
            f"{server} refuses this user or password. Correct the URL, or keep the password in ~/.pgpass or PGPASSWORD."
        )
    if "does not exist" in text and "database" in text:
        return OptionError(f"There is no database {server}. Correct the URL.")
    if "does not exist" in text and "role" in text:
        return OptionError(f"{server} does not know this user. Correct the URL.")
    if "translate host name" in text or "resolve" in text:
        return OptionError(f"The host of {server} is unknown. Correct the URL.")
    return OptionError(
        f"{server} cannot be reached. Check host and port, that the server runs, and that it accepts connections "
        "from here."
    )


def _wrong_option(name: str) -> OptionError:
    return OptionError(f"The database URL gives {name} a value that PostgreSQL does not take. Correct the URL.")


def _not_found(error: psycopg.Error, table: str | None, label: str) -> DosimeterError:
    """Return our own error for PostgreSQL's error while a table is looked up.

    ``table``: the table's name as given. ``label``: the name of the table or the server, for messages. A missing
    privilege can only concern the PostgreSQL schema that ``table`` names: everybody may read PostgreSQL's catalogue.
    """
    parts = split_name(table) if table is not None else []
    if error.sqlstate != "42501" or len(parts) < 2:
        return _translate(error, label)
    schema, name = (quote_identifier(part) if quoted else part for part, quoted in parts)
    return DataError(
        f"The user may not use the schema {schema}. It needs: GRANT USAGE ON SCHEMA {schema} TO the user, and GRANT "
        f"SELECT ON {schema}.{name} TO the user."
    )


def _translate(error: Exception, label: str, *, running: bool = False) -> DosimeterError:
    """Return our own error for one of PostgreSQL's, chosen mostly by its SQLSTATE: PostgreSQL's text can quote cells.

    ``label``: the name of the table or, while a table is looked up, of the server, for messages. ``running``: whether a
    query over the data was running.
    """
    lost = ConnectionLost if running else SourceUnreachable
    state = cast("str | None", getattr(error, "sqlstate", None))
    match state:
        case "57014" if "user request" in str(error):
            return SourceUnreachable(f"{label}: somebody cancelled the query at the server. Try again.")
        case "57014":
            return DataError(
                f"{label}: the query took longer than statement_timeout allows ({STATEMENT_TIMEOUT} unless set "
                "otherwise). Allow more with ?options=-c%20statement_timeout%3D1h at the end of the URL."
            )
        case "42501":
            return SourceUnreachable(f"The user may not read {label}. It needs: GRANT SELECT ON {label} TO the user.")
        case "42P01" | "42703":
            return SourceUnreachable(f"{label} was changed or dropped meanwhile. Open it again.")
        case "22003" | "22P02" | "22008" | "22007" | "22012" | "22023":
            return DataError(
                f"{label}: a value does not have its declared type, or a number in the query went out of range.",
                CHECK_SCHEMA,
            )
        case "40001" | "40P01":
            return SourceUnreachable(
                f"{label}: the server cancelled the query because of a conflict. Try again, or ask the primary."
            )
        case "53300":
            return SourceUnreachable(f"{label}: the server has no connection to spare. Try again.")
        case str() if state.startswith("53"):
            return DataError(f"{label}: the server has not enough memory, disk or connections for this query.")
        case str() if state.startswith(("08", "57P")):
            return lost(_tell_lost(label))
        case str():
            return DataError(f"{label} cannot be read: PostgreSQL says SQLSTATE {state}.")
        case None if type(error).__name__ == "DataError":
            return DataError(f"{label} holds a value that cannot be read here. Leave its column out with a view.")
        case None:
            return lost(_tell_lost(label))


def _tell_lost(label: str) -> str:
    return f"{label}: the connection to the server was lost. Try again."
