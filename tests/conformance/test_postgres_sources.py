"""What PostgreSQL is asked, how it fails, and that nothing is written, leaked or left behind."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from sqlglot import exp

from dosimeter import Dataset
from dosimeter.engines.engine import ReadOptions
from dosimeter.engines.postgres import PostgresEngine, open_postgres
from dosimeter.engines.postgres_catalogue import split_name
from dosimeter.errors import DataError, Interrupted, OptionError, SourceUnreachable
from dosimeter.influence.measured_rows import count_individuals
from dosimeter.influence.rows.row_queries import count_query
from dosimeter.inspection.draft import draft_schema
from dosimeter.schema import Column, ColumnType, JoinTable
from dosimeter.schema.toml import read_schema
from tests.conformance.engine_cases import SERVER
from tests.interrupting import interrupting

pytestmark = SERVER
SECRET = "s3cret-w0rd"


@pytest.fixture(scope="module")
def database(postgres_server: str) -> str:
    """A database of odd tables; its URL for the superuser."""
    with psycopg.connect(f"host={postgres_server} user=postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE odd TEMPLATE template0 ENCODING 'UTF8'")
    url = f"postgresql://postgres@/odd?host={postgres_server}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"""
            CREATE TABLE visits (n int, s text);
            INSERT INTO visits VALUES (1, 'a'), (2, 'B'), (2, NULL);
            CREATE SCHEMA "Odd.Schema";
            CREATE TABLE "Odd.Schema"."Vis""its" ("Age" int, age int, "sel;ect" text);
            INSERT INTO "Odd.Schema"."Vis""its" VALUES (1, 2, '{SECRET}');
            CREATE TABLE mixed (n int, doc jsonb, many int[], span interval, day date, u uuid, c char(5), r real);
            INSERT INTO mixed VALUES (1, '{{}}', '{{1}}', '1 day', 'infinity', gen_random_uuid(), 'ab', 0.1);
            CREATE VIEW young AS SELECT n FROM visits WHERE n < 2;
            CREATE TABLE hidden (n int);
            CREATE TABLE rules (n int);
            ALTER TABLE rules ENABLE ROW LEVEL SECURITY;
            CREATE TABLE part (n int, secret text);
            CREATE ROLE guest LOGIN PASSWORD '{SECRET}';
            GRANT SELECT ON visits, rules TO guest;
            GRANT SELECT (n) ON part TO guest;
            CREATE FUNCTION public.floor(double precision) RETURNS double precision LANGUAGE sql AS 'SELECT 666.0';
            CREATE TABLE names (s text PRIMARY KEY, title text);
            INSERT INTO names VALUES ('a', 'Anna'), ('B', 'Bert');
        """)
        connection.execute("ALTER DATABASE odd SET search_path = public, pg_catalog")
        hba = Path(connection.execute("SHOW hba_file").fetchone()[0])  # type: ignore[index]
        hba.write_text(f"local odd guest scram-sha-256\n{hba.read_text()}")
        connection.execute("SELECT pg_reload_conf()")
    return url


def at(url: str, table: str | None) -> PostgresEngine:
    return open_postgres(url, ReadOptions(table=table))


def columns(engine: PostgresEngine) -> dict[str, str]:
    found = {name: str(kind) for name, kind in engine.describe().items()}
    engine.close()
    return found


def count(url: str, table: str) -> int:
    with contextlib.closing(at(url, table)) as engine:
        return count_individuals(engine)


# ---------------------------------------------------------------- finding the table


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("visits", [("visits", False)]),
        ("public.visits", [("public", False), ("visits", False)]),
        ('"Odd.Schema"."Vis""its"', [("Odd.Schema", True), ('Vis"its', True)]),
        ('public."A b"', [("public", False), ("A b", True)]),
        ("a.b.c", []),
        ("a.", []),
        (".a", []),
        ('"a"b', []),
        ('"', []),
        ("", []),
    ],
)
@pytest.mark.smoke  # without a server
def test_names_are_split(name: str, parts: list[tuple[str, bool]]) -> None:
    assert split_name(name) == parts


@pytest.mark.smoke
def test_tables_are_found(database: str) -> None:
    assert columns(at(database, "visits")) == {"n": "integer", "s": "text"}
    assert columns(at(database, "VISITS")) == {"n": "integer", "s": "text"}
    assert columns(at(database, "public.young")) == {"n": "integer"}
    odd = at(database, '"Odd.Schema"."Vis""its"')
    assert odd.default_table() == 'Odd.Schema.Vis"its'
    odd.impose(read_schema({"table": "t", "columns": {"AGE": {"type": "integer"}, "sel;ect": {"type": "text"}}}))
    query = exp.select(exp.column("AGE", quoted=True), exp.column("sel;ect", quoted=True)).from_(odd.relation())
    assert odd.fetch(query).to_pylist() == [{"AGE": 2, "sel;ect": SECRET}]
    odd.close()
    for name in ("gone", "public.gone", "a.b.c", "visits; DROP TABLE visits", "pg_catalog.pg_class_oid_index"):
        with pytest.raises(OptionError, match="table"):
            at(database, name)
    with pytest.raises(OptionError, match=r'has 8 tables \("Odd.Schema"."Vis""its", public.hidden.*table='):
        at(database, None)


def test_the_only_table_needs_no_name(create_database: Callable[[], str]) -> None:
    url = create_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE people (n int)")
    engine = at(url, None)
    assert engine.default_table() == "people"
    engine.close()


# ---------------------------------------------------------------- types


@pytest.mark.smoke
def test_types_are_checked(database: str) -> None:
    engine = at(database, "mixed")
    assert {name: str(kind) for name, kind in engine.describe().items()} == {
        "n": "integer", "day": "date", "u": "text", "c": "text", "r": "decimal",
    }  # fmt: skip
    for facts, message in [
        ({"n": {"type": "text"}}, r"n is integer in the data and text in the schema.*a view with CAST\(n AS TEXT\)"),
        ({"c": {"type": "decimal"}}, r"c is character\(5\) .*a view with CAST\(c AS DOUBLE PRECISION\)"),
        ({"day": {"type": "timestamp"}}, r"day is date in .*a view with CAST\(day AS TIMESTAMP\)"),
        ({"day": {"type": "integer"}}, r"day is date in the data and integer in the schema. Change one.$"),
        ({"doc": {"type": "text"}}, "Column doc is jsonb in the data, which has no equivalent here"),
        ({"many": {"type": "text"}}, r"Column many is integer\[\] in the data, which has no equivalent here"),
        ({"gone": {"type": "text"}}, "no column gone"),
    ]:
        with pytest.raises(DataError, match=message):
            engine.impose(read_schema({"table": "t", "columns": facts}))
    engine.impose(read_schema({"table": "t", "columns": {"c": {"type": "text"}, "r": {"type": "decimal"}}}))
    table = engine.fetch(exp.select("*").from_(engine.relation()))
    assert table.to_pylist() == [{"c": "ab", "r": 0.10000000149011612}]
    engine.close()


def test_every_text_is_compared_by_bytes(postgres_url: str) -> None:
    """PostgreSQL's own word for it, whatever the database's collation: columns, literals and what is made of them."""
    engine = at(postgres_url, "registry.people")
    seen: list[str] = []

    def collation(tree: exp.Expression) -> exp.Expr:
        seen.append(tree.sql())
        return exp.alias_(exp.Anonymous(this="pg_collation_for", expressions=[tree]), f"c{len(seen)}")

    branch = exp.If(this=exp.column("member", quoted=True), true=exp.Literal.string("a"))
    chosen = exp.Case(ifs=[branch], default=exp.Literal.string("b"))
    trees = [exp.column("name", quoted=True), exp.column("city", quoted=True), exp.Literal.string("x"), chosen]
    row = engine.fetch(exp.select(*(collation(tree) for tree in trees)).from_(engine.relation()).limit(1)).to_pylist()[
        0
    ]
    assert list(row.values()) == ['"C"'] * 4
    engine.close()


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://ada:{secret}@/odd?host={socket}/nowhere", "cannot be reached"),
        ("postgresql://ada:{secret}@127.0.0.1:{port}/odd", "cannot be reached"),
        ("postgresql://ada:{secret}@no.such.host.invalid/odd", "unknown|cannot be reached"),
        ("postgresql://nobody:{secret}@/odd?host={socket}", "does not know this user|refuses this user"),
        ("postgresql://postgres:{secret}@/missing?host={socket}", "There is no database missing"),
        ("postgresql://ada:{secret}@host:port/odd", "URL gives port a value that PostgreSQL does not take"),
        ("postgresql://ada:{secret}@host:99999/odd", "URL gives port a value that PostgreSQL does not take"),
        (
            "postgresql://ada:{secret}@127.0.0.1:{port}/odd?sslmode=foo",
            "URL gives sslmode a value that PostgreSQL does not take",
        ),
        (
            "postgresql://postgres@/postgres?host={socket}&options=-c%20no_such%3D1",
            "URL gives options a value",
        ),
        ("postgresql://ada:{secret}@/odd?no_such_option=1", "URL cannot be read"),
    ],
)
@pytest.mark.smoke
def test_connections_that_fail(postgres_server: str, url: str, message: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]  # nobody listens there
    with pytest.raises(OptionError, match=message) as caught:
        at(url.format(secret=SECRET, socket=postgres_server, port=port), "t")
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_passwords_that_are_wrong(database: str) -> None:
    for given in (f":not-{SECRET}", ""):
        with pytest.raises(OptionError, match=r"odd on .* refuses this user or password.*~/\.pgpass") as caught:
            at(database.replace("postgres@", f"guest{given}@"), "visits")
        assert SECRET not in str(caught.value)


def test_rows_that_may_not_be_read(database: str) -> None:
    guest = database.replace("postgres@", f"guest:{SECRET}@")
    assert count(guest, "visits") == 3
    assert columns(at(guest, "part")) == {"n": "integer"}
    with pytest.raises(DataError, match=r"may not read public\.hidden. It needs: GRANT SELECT"):
        at(guest, "hidden")
    with pytest.raises(DataError, match="Row-level security hides rows"):
        at(guest, "rules")
    assert count(database, "rules") == 0  # the owner sees every row


def test_a_schema_that_may_not_be_used(database: str) -> None:
    guest = database.replace("postgres@", f"guest:{SECRET}@")
    needed = "GRANT USAGE ON SCHEMA closed TO the user, and GRANT SELECT ON closed.notes TO the user"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "CREATE SCHEMA closed; CREATE TABLE closed.notes (n int); GRANT SELECT ON closed.notes TO guest"
        )
        with pytest.raises(DataError, match=needed):
            at(guest, "closed.notes")
        engine = at(guest, "visits")
        with pytest.raises(DataError, match=needed):
            engine.joined(JoinTable("notes", {}, public=True, key="n", source="closed.notes"))
        engine.close()
        connection.execute("GRANT USAGE ON SCHEMA closed TO guest")
        assert count(guest, "closed.notes") == 0  # the remedy works
        connection.execute("DROP SCHEMA closed CASCADE")


def test_names_that_differ_in_case_alone(database: str) -> None:
    """Nobody can say in SQL which of the two is meant: without a schema that is refused, and with one it is said."""
    odd = '"Odd.Schema"."Vis""its"'
    with pytest.raises(
        DataError, match=r"columns Age and age differ only in upper and lower case.*view.*or give a schema"
    ):
        Dataset.open(database, table=odd)
    engine = at(database, odd)
    with pytest.raises(DataError, match="columns Age and age differ only"):
        draft_schema(engine)
    for name, value in (("Age", 1), ("age", 2)):
        engine.impose(read_schema({"table": "t", "columns": {name: {"type": "integer"}}}))
        assert engine.fetch(exp.select("*").from_(engine.relation())).to_pylist() == [{name: value}]
    engine.close()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute('CREATE TABLE alike ("AGE" int, "Age" int)')
        engine = at(database, "alike")
        with pytest.raises(DataError, match=r"has the columns AGE and Age. Write in the schema which"):
            engine.impose(read_schema({"table": "t", "columns": {"age": {"type": "integer"}}}))
        engine.close()
        connection.execute("DROP TABLE alike")


def test_a_table_without_a_usable_column(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE papers (doc jsonb, many int[])")
        with pytest.raises(DataError, match=r"papers has no column whose type has an equivalent here. Read a view"):
            Dataset.open(database, table="papers")
        engine = at(database, "papers")
        with pytest.raises(DataError, match=r"papers has no column whose type has an equivalent here. Read a view"):
            draft_schema(engine)
        engine.close()
        connection.execute("DROP TABLE papers")


def test_a_joined_table_is_no_url(database: str) -> None:
    engine = at(database, "visits")
    for source in (f"postgresql://ada:{SECRET}@host/db", f"postgres:ada:{SECRET}@host/db"):
        with pytest.raises(OptionError, match="database URL") as caught:
            engine.joined(JoinTable("names", {}, public=True, key="s", source=source))
        assert SECRET not in str(caught.value)
    engine.close()


def slow_query(engine: PostgresEngine) -> exp.Select:
    return exp.select(exp.Anonymous(this="pg_sleep", expressions=[exp.Literal.number(600)])).from_(engine.relation())


def test_the_time_limit(database: str) -> None:
    limited = f"{database}&options=-c%20statement_timeout%3D4000"
    engine = at(limited, "visits")
    with pytest.raises(DataError, match="longer than statement_timeout allows"):
        engine.fetch(slow_query(engine))
    assert count_individuals(engine) == 3
    engine.close()
    for url, expected in [(database, "15min"), (limited, "4s"), (limited.replace("D4000", "D0"), "0")]:
        engine = at(url, "visits")
        setting = exp.Anonymous(this="current_setting", expressions=[exp.Literal.string("statement_timeout")])
        assert engine.fetch(exp.select(setting).from_(engine.relation()).limit(1)).column(0).to_pylist() == [expected]
        engine.close()


def test_a_query_can_be_interrupted(database: str) -> None:
    engine = at(database, "visits")
    with interrupting(engine), pytest.raises(Interrupted):
        engine.fetch(slow_query(engine))
    assert count_individuals(engine) == 3
    engine.close()
    engine.interrupt()  # nobody is there to be told


def test_a_lost_connection(database: str) -> None:
    engine = at(database, "visits")
    assert count_individuals(engine) == 3
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dosimeter' "
            "AND datname = 'odd' AND pid <> pg_backend_pid()"
        )
    with pytest.raises(SourceUnreachable, match="connection to the server was lost"):
        count_individuals(engine)
    assert count_individuals(engine) == 3  # by a new connection
    engine.close()


# ---------------------------------------------------------------- what it does to the server


@pytest.mark.smoke
def test_only_selects_run_and_nothing_is_written(database: str) -> None:
    engine = at(database, "visits")
    with pytest.raises(TypeError):
        engine.fetch(exp.Drop(this=exp.to_table("visits"), kind="TABLE"))  # type: ignore[arg-type]
    writing = exp.select(exp.Anonymous(this="lo_create", expressions=[exp.Literal.number(0)])).from_(engine.relation())
    with pytest.raises(DataError, match="SQLSTATE 25006"):  # read_only_sql_transaction
        engine.fetch(writing)
    engine.close()


def test_functions_of_others_do_not_stand_in(database: str) -> None:
    """public.floor says 666, and this database has public before pg_catalog in its search path."""
    facts = {"table": "visits", "columns": {"n": {"type": "integer", "bounds": [0, 9]}}}
    with Dataset.open(database, schema=facts, table="visits") as dataset:
        assert dataset.risk("SELECT COUNT(*) FROM visits WHERE FLOOR(n) = 2").measured().values == ((2,),)


@pytest.mark.smoke
def test_one_snapshot(database: str) -> None:
    engine = at(database, "visits")
    assert count_individuals(engine) == 3
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("INSERT INTO visits VALUES (3, 'c')")
        try:
            assert count_individuals(engine) == 3
            later = at(database, "visits")
            assert count_individuals(later) == 4
            later.close()
            before = engine.fingerprint()
            assert engine.is_still(before)
            engine.refresh()
            assert not engine.is_still(before)
            assert count_individuals(engine) == 4
        finally:
            connection.execute("DELETE FROM visits WHERE n = 3")
    engine.close()


def test_nothing_is_held_after_a_refresh(database: str) -> None:
    """An open snapshot keeps the server from cleaning up."""
    engine = at(database, "visits")
    count_individuals(engine)
    open_snapshots = (
        "SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = 'dosimeter' AND datname = 'odd' "
        "AND state = 'idle in transaction'"
    )
    with psycopg.connect(database, autocommit=True) as connection:
        assert connection.execute(open_snapshots).fetchone() == (1,)
        engine.refresh()
        assert connection.execute(open_snapshots).fetchone() == (0,)
    engine.close()


def test_fingerprint_is_of_the_content(database: str) -> None:
    def digest(*statements: str) -> str:
        with psycopg.connect(database, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)
        engine = at(database, "marked")
        found = engine.fingerprint()
        assert engine.rows_fetched == 0
        engine.close()
        return found

    made = "CREATE TABLE marked (n int, s text)"
    first = digest(made, "INSERT INTO marked VALUES (1, 'a'), (2, NULL), (2, NULL)")
    again = digest("DROP TABLE marked", made, "INSERT INTO marked VALUES (2, NULL), (1, 'a'), (2, NULL)")
    assert again == first  # another table of the same content, in another order
    changes = [
        "DELETE FROM marked WHERE ctid = (SELECT ctid FROM marked WHERE n = 2 LIMIT 1)",
        "UPDATE marked SET s = 'A' WHERE n = 1",
        "UPDATE marked SET s = CASE WHEN n = 2 THEN 'A' END",
        "UPDATE marked SET s = ''",
        "ALTER TABLE marked ALTER n TYPE bigint",
        "ALTER TABLE marked RENAME s TO t",
        "TRUNCATE marked",
    ]
    assert len({first, *(digest(change) for change in changes)}) == 1 + len(changes)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP TABLE marked")


def test_results_are_exact(database: str) -> None:
    engine = at(database, "visits")
    kinds: dict[str, Any] = {
        "CAST(9007199254740993 AS BIGINT)": (pa.int64(), 9007199254740993),
        "CAST(12345678901234567890123456789012345678 AS DECIMAL(38, 0))": (
            pa.decimal128(38, 0),
            12345678901234567890123456789012345678,
        ),
        "CAST(0.1 AS DOUBLE)": (pa.float64(), 0.1),
        "TRUE": (pa.bool_(), True),
        "NULL": (pa.string(), None),
    }
    query = exp.select(*kinds).from_(engine.relation()).limit(1)
    table = engine.fetch(query)
    assert table.schema.types == [kind for kind, _ in kinds.values()]
    assert [column.to_pylist()[0] for column in table.columns] == [value for _, value in kinds.values()]
    empty = engine.fetch(count_query(engine.relation()).where("FALSE").limit(0))
    assert empty.num_rows == 0
    assert empty.schema.types == [pa.int64()]
    engine.close()


def test_tables_are_joined_in_the_server(database: str) -> None:
    engine = at(database, "visits")
    facts = {"s": Column("s", ColumnType.TEXT), "title": Column("title", ColumnType.TEXT)}
    other = engine.joined(JoinTable("names", facts, public=True, key="s"))
    query = exp.select("t.title").from_(exp.alias_(engine.relation().this.subquery(), "v", table=True))
    query = query.join(other.this.subquery("t"), on="v.s = t.s")
    assert sorted(engine.fetch(query).column(0).to_pylist()) == ["Anna", "Bert"]
    with pytest.raises(OptionError, match="no table"):
        engine.joined(JoinTable("gone", facts, public=True, key="s"))
    engine.close()
