"""One table, and every engine that can read it.

The table holds what engines are known to treat differently: NULLs, duplicates, ties of the grid, negative numbers,
zeros of both signs, texts that differ in case, accents, normal form and trailing spaces, dates at the ends of weeks and
years. PostgreSQL and Spark get it in other native types than DuckDB (numeric, timestamptz, enum; int, decimal).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dosimeter import Dataset
from dosimeter.engines.duckdb import open_duckdb
from dosimeter.engines.engine import Engine, ReadOptions
from dosimeter.engines.postgres import open_postgres
from dosimeter.engines.spark import open_spark
from dosimeter.engines.spark_sessions import find_session
from dosimeter.errors import OptionError
from dosimeter.schema import Schema
from dosimeter.schema.toml import read_schema
from tests.conformance import group_tables
from tests.conformance.engine_cases import SERVERS
from tests.conformance.odd_worlds import Worlds

ROWS = 240
NAMES = [
    "Ada", "ada", "ADA", "Ádá", "A\u0301da\u0301", "Zoë", "zoe", "_", "%", "a%b", "O'Hara", 'say "hi"', "NA{x}",
    "back\\slash", "\\n", "two\nlines", "tab\there", "a,b;c|d", " lead", "trail ", "", "ß", "SS", "İ", "i", "😀",
    "é", "e", "Ω", "ω", "10", "9",
]  # fmt: skip
CITIES = ["Bonn", "bonn", "Köln", "Aix", "Ülm", "Zug", "aix"]
PAYS = [0.0, -0.0, 0.025, 0.075, -0.025, -0.075, 0.125, 1.005, 2.675, 999.975, 1e-9, 0.1 + 0.2, 1234.5, -2000.0, 5000.0]
BIGS = [2**53, 2**53 + 1, -(2**53) - 1, 2**53 - 1, 7]

FACTS: dict[str, Any] = {
    "table": "people",
    "individuals": ROWS + 10,
    "reviewed": True,
    "columns": {
        "id": {"type": "integer", "bounds": [1, 1000], "identifying": True},
        "age": {"type": "integer", "bounds": [-5, 90]},
        "pay": {"type": "decimal", "bounds": [-1000, 2000], "resolution": 0.05},
        "fine": {"type": "decimal", "bounds": [-1, 1], "resolution": 0.001},
        "big": {"type": "integer", "bounds": [-9007199254740993, 9007199254740993]},
        "name": {"type": "text"},
        "city": {"type": "category", "values": ["Bonn", "bonn", "Köln", "Aix", "Ülm", "Zug", "Nowhere"]},
        "member": {"type": "boolean"},
        "born": {"type": "date", "bounds": ["2019-12-20", "2021-01-10"]},
        "seen": {"type": "timestamp", "bounds": ["2020-01-01T00:00:00", "2020-12-31T23:59:59"]},
    },
}
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("age", pa.int32()),
        ("pay", pa.float64()),
        ("fine", pa.float64()),
        ("big", pa.int64()),
        ("name", pa.string()),
        ("city", pa.string()),
        ("member", pa.bool_()),
        ("born", pa.date32()),
        ("seen", pa.timestamp("us")),
    ]
)
POSTGRES = """
    CREATE SCHEMA registry;
    CREATE TYPE registry.city AS ENUM ('Zug', 'aix', 'Bonn', 'bonn', 'Köln', 'Aix', 'Ülm');
    CREATE DOMAIN registry.years AS smallint;
    CREATE TABLE registry.people (id numeric(10, 0), age registry.years, pay double precision, fine numeric, big bigint,
        name varchar(100), city registry.city, member boolean, born date, seen timestamptz, notes jsonb, tags text[]);
"""


def build_table() -> pa.Table:
    chance = random.Random(20200229)

    def some(values: list[Any], missing: float = 0.1) -> Any:
        return None if chance.random() < missing else chance.choice(values)

    moments = [
        datetime.fromisoformat(text) for text in ("2020-01-01", "2020-12-31 23:59:59.999999", "2020-02-29 12:00")
    ]
    moments += [datetime.fromisoformat("2020-03-29 01:30") + timedelta(hours=11 * at) for at in range(40)]
    rows = [
        {
            "id": at + 1,
            "age": some([*range(-5, 20), 91, 120, -9]),
            "pay": some([*PAYS, *(chance.randrange(-4000, 8000) / 40 for _ in range(10))]),
            "fine": some([float(Decimal(chance.randrange(-2400, 2400)) / 2000) for _ in range(5)]),
            "big": some(BIGS),
            "name": some(NAMES),
            "city": some(CITIES),
            "member": some([True, False]),
            "born": some([date(2019, 12, 28) + timedelta(days=chance.randrange(380))]),
            "seen": some(moments),
        }
        for at in range(ROWS)
    ]
    rows += [dict(row, id=row["id"] + 500) for row in rows[:8]]  # people nobody can tell apart
    del rows[8:16]
    return pa.Table.from_pylist(rows, schema=ARROW)


@pytest.fixture(scope="session")
def table() -> pa.Table:
    return build_table()


@pytest.fixture(scope="session")
def schema() -> Schema:
    return read_schema(FACTS)


# ---------------------------------------------------------------- PostgreSQL


@pytest.fixture(scope="session")
def postgres_url(postgres_server: str, table: pa.Table) -> str:
    """A database that orders texts as a language does, quite unlike bytes, where the machine knows a language."""
    with psycopg.connect(f"host={postgres_server} user=postgres", autocommit=True) as connection:
        languages = "SELECT collcollate FROM pg_collation WHERE collprovider = 'c' AND collcollate ~* '^[a-z]+_.*utf'"
        found = connection.execute(f"{languages} ORDER BY collcollate <> 'en_US.utf8', 1").fetchone()
        locale = found[0] if found is not None else "C"
        connection.execute(f"CREATE DATABASE conformance TEMPLATE template0 ENCODING 'UTF8' LOCALE '{locale}'")
    url = f"postgresql://postgres@/conformance?host={postgres_server}"
    with psycopg.connect(url) as connection:
        connection.execute("SET TIME ZONE 'America/New_York'")
        connection.execute(POSTGRES)
        names = ", ".join(table.column_names)
        with connection.cursor().copy(f"COPY registry.people ({names}) FROM STDIN") as copy:
            for row in table.to_pylist():
                seen = row["seen"]
                copy.write_row([*list(row.values())[:-1], seen and seen.replace(tzinfo=UTC)])
    return url


# ---------------------------------------------------------------- Spark


@pytest.fixture(scope="session")
def spark_session(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The session the engine builds for itself: one for all tests, since it takes seconds to start."""
    with pytest.MonkeyPatch.context() as patch:
        # What runs once is not worth compiling well. Java then keeps a fifth of the room for compiled code, which
        # these tests fill. Their memory is small: cleaning it takes no further threads.
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC")
        try:
            session = find_session()
        except OptionError as error:
            pytest.skip(str(error))
    session.conf.set("spark.sql.shuffle.partitions", "1")  # tiny tables
    if request.config.option.markexpr != "long":  # what runs once is not worth translating to Java either
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        session.conf.set("spark.sql.adaptive.enabled", "false")
    gateway = session.sparkContext._gateway
    assert gateway is not None
    java = gateway.proc
    yield session
    assert java.poll() is None, f"Java ended by itself, with status {java.poll()}"
    session.stop()


@pytest.fixture(scope="session")
def parquet(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table in two files, for Spark and DuckDB alike, with whole numbers as decimals in the second column."""
    directory = tmp_path_factory.mktemp("parquet")
    for at in range(2):
        half = table.slice(at * 100, 100 if at == 0 else None)
        pq.write_table(
            half.set_column(1, "age", half.column("age").cast(pa.decimal128(10, 0))), directory / f"p{at}.parquet"
        )
    return directory


# ---------------------------------------------------------------- every engine


Opener = Callable[[], Engine]


@pytest.fixture(scope="session")
def openers(request: pytest.FixtureRequest, table: pa.Table) -> dict[str, Opener]:
    """How to open the table in each engine. Servers start when they are first asked for."""

    def postgres() -> Engine:
        return open_postgres(request.getfixturevalue("postgres_url"), ReadOptions(table="registry.people"))

    def spark() -> Engine:
        request.getfixturevalue("spark_session")
        return open_spark(f"{request.getfixturevalue('parquet')}/*.parquet", ReadOptions(table="people"))

    return {"duckdb": lambda: open_duckdb(table), "postgres": postgres, "spark": spark}


@pytest.fixture(scope="session")
def reference(openers: dict[str, Opener], schema: Schema) -> Iterator[Dataset]:
    engine = openers["duckdb"]()
    engine.impose(schema)
    with Dataset(engine, schema, drafted=False) as dataset:
        yield dataset


OpenIn = Callable[..., Dataset]


@pytest.fixture(scope="module")
def open_in(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenIn]:
    """Open a schema's tables, the measured one first, in an engine; PostgreSQL needs the types of their columns.

    Servers start when they are first asked for.
    """
    module = request.node.name.rpartition("/")[2].removesuffix(".py")
    places = itertools.count(1)
    with ExitStack() as opened:

        def open_tables(
            engine: str, facts: dict[str, Any], tables: dict[str, pa.Table], types: Mapping[str, str], place: str = ""
        ) -> Dataset:
            name, *others = tables
            place = place or f"{module}_{next(places)}"
            if engine == "duckdb":
                further = {other: tables[other] for other in others}
                return opened.enter_context(Dataset.open(tables[name], schema=facts, table=name, tables=further))
            if engine == "postgres":
                url = request.getfixturevalue("postgres_url")
                write_postgres(url, place, tables, types)
                opened.callback(drop_schema, url, place)
                return opened.enter_context(Dataset.open(url, schema=facts, table=f"{place}.{name}"))
            request.getfixturevalue("spark_session")
            paths = {each: tmp_path_factory.mktemp(place) / f"{each}.parquet" for each in tables}
            for each, path in paths.items():
                pq.write_table(tables[each], path)
            located = {other: {**facts["tables"][other], "source": str(paths[other])} for other in others}
            schema = {**facts, "tables": located}
            return opened.enter_context(Dataset.open(paths[name], schema=schema, engine="spark"))

        yield open_tables


def drop_schema(url: str, name: str) -> None:
    """Leave the database to tests that find their only table in it."""
    with psycopg.connect(url) as connection:
        connection.execute(f"DROP SCHEMA {name} CASCADE")


def write_postgres(url: str, place: str, tables: Mapping[str, pa.Table], types: Mapping[str, str]) -> None:
    """Write tables into a new schema of a database."""
    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE SCHEMA {place}")
        for name, table in tables.items():
            connection.execute(f"CREATE TABLE {place}.{name} ({types[name]})")
            with connection.cursor().copy(f"COPY {place}.{name} FROM STDIN") as copy:
                for row in table.to_pylist():
                    copy.write_row(list(row.values()))


@pytest.fixture(scope="module")
def grouped_in(open_in: OpenIn) -> Callable[[str, bool], Dataset]:
    """The table of groups in an engine, where everybody is a row or has many, opened once."""
    tables = {"visits": pa.Table.from_pylist(group_tables.ROWS, schema=group_tables.ARROW)}
    tables["clinics"] = group_tables.CLINICS

    @cache
    def find(engine: str, by_row: bool) -> Dataset:
        facts = group_tables.BY_ROW if by_row else group_tables.FACTS
        return open_in(engine, facts, tables, group_tables.POSTGRES)

    return find


@pytest.fixture(scope="module")
def worlds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """Tables with odd cells, opened as cases ask for them. Servers start when a case first asks for one."""

    def connect() -> Any:
        return psycopg.connect(request.getfixturevalue("postgres_url"))

    folder = tmp_path_factory.mktemp("odd")
    with closing(Worlds(folder, connect, lambda: request.getfixturevalue("spark_session"))) as opened:
        yield opened


@pytest.fixture(scope="session", params=SERVERS)
def dataset(request: pytest.FixtureRequest, openers: dict[str, Opener], schema: Schema) -> Iterator[Dataset]:
    """The table in every engine but the reference, with the schema imposed."""
    engine = openers[request.param]()
    engine.impose(schema)
    with Dataset(engine, schema, drafted=False) as dataset:
        yield dataset
