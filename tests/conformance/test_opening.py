"""Which engine reads what, and what is said about sources that none can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dosimeter.engines.engine import ReadOptions
from dosimeter.engines.opening import open_engine
from dosimeter.errors import DataError, OptionError
from dosimeter.influence.measured_rows import count_individuals

SECRET = "s3cret-w0rd"


@pytest.mark.parametrize(
    "source",
    [
        pa.table({"n": [1, 2]}),
        pa.record_batch({"n": [1, 2]}),
        pd.DataFrame({"n": [1, 2]}),
        pl.DataFrame({"n": [1, 2]}),
        pl.LazyFrame({"n": [1, 2]}),
    ],
    ids=lambda source: f"{type(source).__module__}.{type(source).__name__}",
)
def test_tables_in_memory(source: Any) -> None:
    engine = open_engine(source, None, ReadOptions())
    assert engine.name == "duckdb"
    assert count_individuals(engine) == 2
    engine.close()


def test_paths(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("n\n1\n")
    for source in (tmp_path / "t.csv", str(tmp_path / "t.csv")):
        engine = open_engine(source, None, ReadOptions())
        assert (engine.name, engine.default_table()) == ("duckdb", "t")
        engine.close()


@pytest.mark.parametrize("name", ["staff.duckdb", "staff.db", "staff"])
def test_a_duckdb_file_needs_no_prefix(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE staff AS SELECT 1 AS n")
    digests = set()
    for source in (path, f"duckdb:{path}"):
        engine = open_engine(source, None, ReadOptions())
        assert (engine.default_table(), count_individuals(engine)) == ("staff", 1)
        digests.add(engine.fingerprint())
        engine.close()
    assert len(digests) == 1
    with pytest.raises(DataError, match="There is no DuckDB file"):
        open_engine(tmp_path / "absent.duckdb", None, ReadOptions())


@pytest.mark.parametrize(
    ("source", "engine", "message"),
    [
        ("t.csv", "oracle", "There is no engine oracle. Available: duckdb, postgres, spark"),
        ("t.csv", "postgres", "needs a URL: postgresql://"),
        (f"postgresql://ada:{SECRET}@host/db", "duckdb", "read by postgres, not by duckdb"),
        (f"postgresql+psycopg://ada:{SECRET}@host/db", "spark", "read by postgres, not by spark"),
        ("duckdb:t.db", "spark", "read by duckdb, not by spark"),
        ("spark:t", "duckdb", "read by spark, not by duckdb"),
        (f"mysql://ada:{SECRET}@host/db", None, "mysql:// is not supported"),
        (f"s3://ada:{SECRET}@bucket/t.csv", None, 'engine="spark" reads what Spark can reach'),
        (f"s3a://ada:{SECRET}@bucket/t.parquet", "spark", "database URL"),
        (f"host=h user=ada password={SECRET} dbname=d", "spark", "database URL"),
        (f"jdbc:postgresql://h/d?user=ada&password={SECRET}", "spark", "database URL"),
        (pa.table({"n": [1]}), "spark", "its own DataFrames. Leave it out here"),
        (pa.table({"n": [1]}), "postgres", "needs a URL"),
        (object(), None, "A builtins.object cannot be read"),
        (None, None, "cannot be read"),
        (pd.Series([1]), None, "cannot be read"),
    ],
)
def test_sources_that_cannot_be_read(source: Any, engine: str | None, message: str) -> None:
    with pytest.raises((OptionError, DataError), match=message) as caught:
        open_engine(source, engine, ReadOptions())
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("engine", [None, "spark"])
@pytest.mark.parametrize(
    "source",
    [
        f"postgresql:postgres:{SECRET}@host/att",
        f"postgres:{SECRET}@host/db.csv",
        f"POSTGRESQL:{SECRET}@host/db",
        f"ada:{SECRET}@host/db.parquet",
        f"host:5432/{SECRET}@db",
    ],
)
def test_a_database_url_without_slashes_is_not_quoted(source: str, engine: str | None) -> None:
    with pytest.raises(OptionError, match="One starts with postgresql://") as caught:
        open_engine(source, engine, ReadOptions())
    assert SECRET not in str(caught.value)


def test_a_file_may_have_such_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("10:30 ada@host.csv").write_text("n\n1\n")
    engine = open_engine("10:30 ada@host.csv", None, ReadOptions())
    assert count_individuals(engine) == 1
    engine.close()


def test_a_frame_with_two_columns_of_one_name() -> None:
    with pytest.raises(DataError, match="two columns of one name"):
        open_engine(pd.DataFrame([[1, 2]], columns=["n", "n"]), None, ReadOptions())


def test_a_column_that_duckdb_has_no_type_for() -> None:
    wide = pa.array([1, None], pa.decimal256(50, 2))
    engine = open_engine(pa.table({"n": [1, 2], "pay": wide}), None, ReadOptions())
    assert list(engine.describe()) == ["n"]
    assert engine.unread_columns() == {"pay": "decimal256"}
    engine.close()
    with pytest.raises(DataError, match=r"no column of a type that DuckDB reads: pay \(decimal256\(50, 2\)\). Cast"):
        open_engine(pa.table({"pay": wide}), None, ReadOptions())


def test_a_frame_that_mixes_types_is_not_quoted() -> None:
    with pytest.raises(DataError, match="a column mixes types") as caught:
        open_engine(pd.DataFrame({"n": [1, SECRET, 2.5]}, dtype=object), None, ReadOptions())
    assert SECRET not in str(caught.value)
