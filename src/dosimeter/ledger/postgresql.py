"""A ledger in PostgreSQL: how to connect, lock and create, and what errors mean. SQLAlchemy is used here only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property

import sqlalchemy as sa

from dosimeter.errors import LedgerError
from dosimeter.ledger.backends import TABLES, Connection, Row, tell_busy
from dosimeter.ledger.chain import GENESIS


class PostgreSQLConnection(Connection):
    """A connection to a PostgreSQL server, which begins a transaction with the first statement."""

    def execute(self, statement: str, values: Mapping[str, object] | None = None) -> Sequence[Row]:
        result = self._driver.execute(_parse(statement), values or {})
        return [tuple(row) for row in result] if result.returns_rows else []

    def stream(self, statement: str, values: Mapping[str, object]) -> Iterator[Row]:
        query = _parse(statement).execution_options(yield_per=1000)
        with self._driver.execute(query, values) as result:
            for row in result:
                yield tuple(row)

    def create(self, statement: str) -> None:
        self._driver.exec_driver_sql(statement)  # in which a colon is no placeholder


# A lock must last as long as its process: no time-out of the server may end its transaction.
_UNLIMITED = (
    "SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', "
    "'idle_session_timeout', 'transaction_timeout')"
)


def _number(name: str) -> int:
    """Return the number of an advisory lock: 64 bits of a name of hexadecimal digits."""
    return int(name[:16], 16) - 2**63


@cache
def _parse(statement: str) -> sa.TextClause:
    return sa.text(statement)


class SessionLock:
    """An advisory lock, held by a transaction that stays open: behind a pool of connections too, it keeps its own."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def release(self, *, forget: bool) -> None:
        """Release the lock by ending its session. ``forget``: nothing is left of it in any case."""
        with suppress(sa.exc.DBAPIError):  # the session may be gone, and the lock with it
            self._connection.close()


class PostgreSQL:
    """A ledger in two tables of a PostgreSQL database."""

    errors: tuple[type[Exception], ...] = (sa.exc.DBAPIError,)
    number = "BIGINT"
    texts_as_bytes = False
    _WRITERS = 0x646F73696D657465  # the advisory lock's number: "dosimete"

    def __init__(self, url: str, busy_timeout: float) -> None:
        self._busy_timeout = busy_timeout
        try:
            parsed = sa.make_url(url)
        except (sa.exc.ArgumentError, ValueError):
            parsed = None
        parts = () if parsed is None else (parsed.username or "", parsed.host or "", parsed.database or "")
        if parsed is None or "@" in "".join(parts):
            raise LedgerError(
                "The ledger's URL cannot be read. It looks like postgresql://user:password@host:5432/database; in the "
                "password write @ as %40, : as %3A and / as %2F."
            )
        host = parsed.host or parsed.query.get("host") or "the local socket"
        self.label = f"{parsed.database or 'default'} on {host} (PostgreSQL)"
        self._url = parsed.set(drivername="postgresql+psycopg")

    def prepare(self, *, create: bool) -> None:
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise LedgerError(
                "A ledger in PostgreSQL needs the psycopg driver: pip install 'dosimeter[postgres]'."
            ) from None

    @cached_property
    def _engine(self) -> sa.Engine:
        arguments: dict[str, str | int] = {"client_encoding": "utf8", "application_name": "dosimeter ledger"}
        if "connect_timeout" not in self._url.query:
            arguments["connect_timeout"] = max(2, min(10, round(self._busy_timeout)))
        # READ COMMITTED whatever the server's default: a writer must see what was committed while it waited.
        return sa.create_engine(
            self._url, connect_args=arguments, isolation_level="READ COMMITTED", poolclass=sa.NullPool
        )

    def connect(self) -> Connection:
        return PostgreSQLConnection(self._engine.connect())

    def begin(self, connection: Connection, *, writing: bool) -> None:
        if not writing:  # all that a reader asks is about one state
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            return
        settings = (
            "SELECT set_config('lock_timeout', :wait, true), CASE WHEN current_setting('synchronous_commit') = 'off' "
            "THEN set_config('synchronous_commit', 'on', true) END"
        )
        connection.execute(settings, {"wait": f"{max(1, round(self._busy_timeout * 1000))}ms"})
        # An advisory lock, for LOCK TABLE would need more than the right to SELECT and INSERT.
        connection.execute("SELECT pg_advisory_xact_lock(:number)", {"number": self._WRITERS})

    def take_lock(self, name: str) -> SessionLock | None:
        try:
            connection = self._engine.connect()
            try:
                connection.execute(_parse(_UNLIMITED))
                found = connection.execute(_parse("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _number(name)})
                taken = bool(found.scalar())
            except BaseException:
                connection.close()
                raise
        except sa.exc.DBAPIError as error:
            raise LedgerError(self.explain(error.orig or error, writing=True)) from None
        if not taken:
            connection.close()
            return None
        return SessionLock(connection)

    def is_locked(self, connection: Connection, name: str) -> bool:
        # Shared: two who look do not see each other. A standby does not know the primary's locks, and nothing is
        # written there.
        query = "SELECT pg_is_in_recovery() OR NOT pg_try_advisory_xact_lock_shared(:key)"
        return bool(connection.execute(query, {"key": _number(name)})[0][0])

    def forget_lock(self, name: str) -> None:
        """Do nothing: the server keeps nothing of a lock."""

    def has_table(self, connection: Connection, name: str) -> bool:
        return connection.execute("SELECT to_regclass(:name)", {"name": name})[0][0] is not None

    def check_vacant(self, connection: Connection) -> None:
        """Accept any database: it may hold other tables besides the ledger's."""

    def guards(self) -> Sequence[str]:
        refuse = "EXECUTE FUNCTION dosimeter_ledger_refuse()"
        return (
            "CREATE FUNCTION dosimeter_ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$",
            "CREATE FUNCTION dosimeter_ledger_in_order() RETURNS trigger LANGUAGE plpgsql AS $$ "
            "DECLARE last_seq bigint; last_digest text; BEGIN "
            "EXECUTE 'SELECT seq, digest FROM ' || TG_RELID::regclass || ' ORDER BY seq DESC LIMIT 1' "
            "INTO last_seq, last_digest; "
            "IF NEW.seq IS DISTINCT FROM COALESCE(last_seq, 0) + 1 "
            f"OR NEW.previous IS DISTINCT FROM COALESCE(last_digest, '{GENESIS}') "
            "THEN RAISE EXCEPTION 'the ledger is append-only'; END IF; RETURN NEW; END $$",
            "CREATE TRIGGER dosimeter_ledger_in_order BEFORE INSERT ON dosimeter_ledger "
            "FOR EACH ROW EXECUTE FUNCTION dosimeter_ledger_in_order()",
            "CREATE TRIGGER dosimeter_ledger_format_no_insert BEFORE INSERT ON dosimeter_ledger_format "
            f"FOR EACH ROW {refuse}",
            *(f"CREATE TRIGGER {t}_no_change BEFORE UPDATE OR DELETE ON {t} FOR EACH ROW {refuse}" for t in TABLES),
            *(f"CREATE TRIGGER {t}_no_truncate BEFORE TRUNCATE ON {t} FOR EACH STATEMENT {refuse}" for t in TABLES),
        )

    def contains(self, mark: str) -> str:
        return f"strpos(payload, '{mark}') > 0"

    def text_after(self, mark: str) -> str:
        return f"split_part(substr(payload, strpos(payload, '{mark}') + {len(mark)}), '\"', 1)"

    def may_index(self, connection: Connection, name: str) -> bool:
        """Return whether the index is missing and can be created, which only an owner of the table can do.

        Without the index, lookups read the whole table.
        """
        query = (
            "SELECT to_regclass(:name) IS NULL AND pg_has_role(relowner, 'USAGE') FROM pg_class "
            "WHERE oid = 'dosimeter_ledger'::regclass"
        )
        found = connection.execute(query, {"name": name})
        return bool(found and found[0][0])

    def explain(self, error: BaseException, *, writing: bool) -> str:
        state = getattr(error, "sqlstate", None) or _guess_state(str(error))
        match state:
            case "55P03":
                return tell_busy(self.label, self._busy_timeout)
            case "28P01" | "28000":
                return (
                    f"The server of the ledger {self.label} refuses this user or password. Correct the URL, or keep "
                    "the password in ~/.pgpass or PGPASSWORD."
                )
            case "":
                return (
                    f"The server of the ledger {self.label} answered and refused the connection. Check the user, the "
                    "password and the database in the URL; the server's log says why."
                )
            case "3D000":
                return f"There is no such database: {self.label}. Create it, or correct the URL."
            case "42501" if writing:
                return (
                    f"The user may not write to the ledger {self.label}. It needs SELECT and INSERT on "
                    "dosimeter_ledger and SELECT on dosimeter_ledger_format; to open or continue an account SELECT, "
                    "INSERT and UPDATE on dosimeter_ledger_people; for the first use, CREATE on the schema."
                )
            case "42501":
                return f"The user may not read the ledger {self.label}. It needs SELECT on all of its tables."
            case "25006":
                return f"The ledger {self.label} is on a server that is read-only. Use the primary server."
            case "53100":
                return f"The server's disk is full: the ledger {self.label} could not be written to."
            case "22P05":
                return f"The database {self.label} cannot hold this text: it was not created with the encoding UTF8."
            case None:
                return (
                    f"The ledger {self.label} cannot be reached, or the connection was lost. Check host, port and "
                    "network, and that the server is running."
                )
            case _:
                return f"The ledger {self.label} cannot be used: PostgreSQL says SQLSTATE {state}."


def _guess_state(message: str) -> str | None:
    """Return the SQLSTATE of a refused connection, guessed from the error's message; None if no server answered.

    The driver gives such an error no SQLSTATE. The words are the server's, in its own language: "" for a refusal that
    is in none of the words known here.
    """
    if re.search(r'database ".*" does not exist', message):
        return "3D000"
    refused = ("authentication failed", "no password supplied", "no pg_hba.conf entry", "is not permitted to log in")
    if any(words in message for words in refused) or re.search(r'role ".*" does not exist', message):
        return "28P01"
    return "" if "FATAL" in message else None
