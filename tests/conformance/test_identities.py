"""Identities: the same stored files and tables are known again, whichever engine reads them and by whatever name."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.engines.engine import ReadOptions
from dosimeter.engines.postgres import open_postgres
from dosimeter.errors import LedgerError
from tests.conformance.engine_cases import SERVER, with_smoke

pytestmark = SERVER
COLUMNS = {"pid": {"type": "integer"}, "mins": {"type": "integer", "bounds": [0, 90]}}


def facts(name: str, **changes: Any) -> dict[str, Any]:
    return {"table": name, "individuals": 50, "reviewed": True, "columns": COLUMNS, **changes}


def try_release(ledger: Ledger, source: Any, name: str, **how: Any) -> str:
    tables = how.pop("tables", {})
    with Dataset.open(source, schema=facts(name, tables=tables), **how) as dataset:
        try:
            return dataset.release(f"SELECT COUNT(*) FROM {name}", ledger=ledger, epsilon=1.0, policy="budget:1").status
        except LedgerError as error:
            return "refused" if "account = " in str(error) else str(error)


# ---------------------------------------------------------------- PostgreSQL


TABLES = """
    CREATE TABLE visits (pid int, mins int);
    INSERT INTO visits SELECT n, n % 60 FROM generate_series(1, 40) n;
    CREATE TABLE others (pid int, mins int);
    INSERT INTO others SELECT n, n % 50 FROM generate_series(100, 120) n;
    CREATE VIEW early AS SELECT pid, mins FROM visits WHERE pid < 20;
    CREATE VIEW nested AS SELECT pid, mins FROM early WHERE mins > 2;
    CREATE MATERIALIZED VIEW kept AS SELECT pid, mins FROM nested WHERE pid < 15;
    CREATE TABLE years (pid int, mins int, year int) PARTITION BY LIST (year);
    CREATE TABLE years_1 PARTITION OF years FOR VALUES IN (1);
    CREATE TABLE years_2 PARTITION OF years FOR VALUES IN (2);
    INSERT INTO years SELECT n, n % 60, 1 + n % 2 FROM generate_series(1, 30) n;
    CREATE VIEW second AS SELECT pid, mins FROM years_2;
    CREATE TABLE base (pid int, mins int);
    CREATE TABLE child () INHERITS (base);
    INSERT INTO child SELECT n, n % 60 FROM generate_series(1, 30) n;
    CREATE FUNCTION secretly() RETURNS SETOF others LANGUAGE sql AS 'SELECT * FROM public.others WHERE pid < 110';
    CREATE VIEW veiled AS SELECT pid, mins FROM secretly();
"""


@pytest.fixture
def postgres(create_database: Callable[[], str]) -> str:
    url = create_database()
    with psycopg.connect(url) as connection:
        connection.execute(TABLES)
    return url


@pytest.mark.parametrize(
    "names",
    with_smoke(
        [
            ("visits", "early", "nested", "kept"),
            ("years", "years_1", "years_2", "second"),
            ("base", "child"),
            ("others", "veiled"),
        ],
        2,
    ),
    ids=["views", "partitions", "children", "functions"],
)
def test_a_table_of_postgresql_is_known_again(postgres: str, tmp_path: Path, names: tuple[str, ...]) -> None:
    for first in names:
        with Ledger.open(tmp_path / f"{first}.db") as ledger:
            assert try_release(ledger, postgres, "a", table=first) == "released"
            for second in names:
                if second != first:
                    assert try_release(ledger, postgres, f"b_{second}", table=second) == "refused", (first, second)
            assert [account.dataset for account in ledger.accounts()] == ["a"]


def test_other_tables_of_postgresql_have_accounts_of_their_own(postgres: str, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        for name in ("visits", "years", "base", "others"):
            assert try_release(ledger, postgres, name, table=name) == "released"


def test_what_is_written_or_renamed_does_not_make_another_table(postgres: str, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert try_release(ledger, postgres, "a", table="visits") == "released"
        with psycopg.connect(postgres) as connection:
            connection.execute("DELETE FROM visits WHERE pid > 30; ALTER TABLE visits RENAME TO stays")
        assert try_release(ledger, postgres, "b", table="stays") == "refused"


def test_a_private_table_beside_counts_though_it_is_not_joined(postgres: str, tmp_path: Path) -> None:
    private = {"others": {"unit": "pid", "max_rows_per_unit": 1, "row_key": "mins", "columns": COLUMNS}}
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert try_release(ledger, postgres, "a", table="visits", tables=private) == "released"
        assert try_release(ledger, postgres, "b", table="others") == "refused"


def test_a_server_that_hides_its_identifier_goes_by_its_address(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS plain")
        connection.execute("CREATE ROLE plain LOGIN")
        connection.execute("GRANT SELECT ON visits, early TO plain")
        as_plain = postgres.replace("postgres@", "plain@")
        assert identify(as_plain, "visits") == identify(postgres, "visits")  # everybody may read it, as a rule
        connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        try:
            found = identify(as_plain, "visits")
            assert found == identify(as_plain, "early")
            assert all(identity.startswith("postgres:address ") for identity in found)
            assert all(identity.startswith("postgres:system ") for identity in identify(postgres, "visits"))
        finally:
            connection.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
            connection.execute("REVOKE ALL ON visits, early FROM plain")
            connection.execute("DROP ROLE plain")


def identify(url: str, table: str) -> frozenset[str]:
    engine = open_postgres(url, ReadOptions(table=table))
    try:
        found = engine.identities()
        assert engine.identities() == found  # the transaction is not lost
        return found
    finally:
        engine.close()


# ---------------------------------------------------------------- Spark


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """Write the same people as a CSV, packed and not, and as a directory of Parquet files."""
    rows = "".join(f"{at},{at % 60}\n" for at in range(40))
    (tmp_path / "visits.csv").write_text(f"pid,mins\n{rows}")
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress((tmp_path / "visits.csv").read_bytes()))
    (tmp_path / "visits.parquet").mkdir()
    for part in range(2):
        table = pa.table({"pid": list(range(20 * part, 20 * part + 20)), "mins": [part] * 20})
        pq.write_table(table, tmp_path / "visits.parquet" / f"part 0{part}.parquet")
    return tmp_path


@pytest.fixture
def warehouse(spark_session: Any, parts: Path) -> Iterator[Any]:
    frame = spark_session.read.parquet(str(parts / "visits.parquet"))
    frame.createOrReplaceTempView("identified")
    yield spark_session
    spark_session.catalog.dropTempView("identified")


def test_spark_and_duckdb_read_the_same_files(warehouse: Any, parts: Path) -> None:
    text = {
        "duckdb": (parts / "visits.csv", {}),
        "spark": (parts / "visits.csv", {"engine": "spark", "delimiter": ","}),
        "packed": (parts / "packed.csv.gz", {"engine": "spark"}),
        "uri": (f"file://{parts / 'visits.csv'}", {"engine": "spark"}),
    }
    binary = {
        "glob": (str(parts / "visits.parquet" / "*.parquet"), {}),
        "one part": (str(parts / "visits.parquet" / "part 01.parquet"), {}),
        "directory": (str(parts / "visits.parquet"), {"engine": "spark"}),
        "view": ("spark:identified", {}),
        "frame": (warehouse.sql("SELECT pid, mins FROM identified WHERE pid > 30"), {}),
    }
    for ways in (text, binary):
        for first, (source, how) in ways.items():
            with Ledger.open(parts / f"{first}.db") as ledger:
                assert try_release(ledger, source, "a", **how) == "released", first
                for second, (other, differently) in ways.items():
                    if second != first:
                        assert try_release(ledger, other, "b", **differently) == "refused", (first, second)
                assert len(ledger.accounts()) == 1


@pytest.mark.smoke
def test_spark_digests_files_it_alone_can_reach(warehouse: Any, parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the driver is elsewhere, Spark itself reads the bytes: the digests are the same."""
    source = str(parts / "visits.parquet")
    with Dataset.open(source, schema=facts("a"), engine="spark") as dataset:
        here = dataset.engine.identities()
        monkeypatch.setattr("dosimeter.engines.spark_files.is_remote", lambda _: True)
        assert dataset.engine.identities() == here
        assert len(here) == 2


def test_what_is_in_no_file_goes_by_its_content(spark_session: Any, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        for name, outcome in (("a", "released"), ("b", "refused")):
            frame = spark_session.createDataFrame([(1, 2), (3, 4)], "pid int, mins int")
            assert try_release(ledger, frame, name) == outcome
        frame = spark_session.createDataFrame([(1, 2), (3, 5)], "pid int, mins int")
        assert try_release(ledger, frame, "c") == "released"
