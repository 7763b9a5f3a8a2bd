"""The embedded engine is locked: it runs SELECT trees over its own source, reads nothing else, and can be stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp

from dosimeter.engines.duckdb import DuckDBEngine, open_duckdb
from dosimeter.errors import DataError, Interrupted
from dosimeter.influence.measured_rows import count_individuals
from dosimeter.schema.facts import ColumnType
from tests.unit.duckdb_sources import ROWS, SCHEMA, arrow_table, make_csv, make_database, make_parquet, only, read_rows


@pytest.mark.parametrize("make", [make_csv, make_parquet, make_database])
def test_a_locked_connection_reads_and_writes_nothing_else(make: Callable[[Path], str], tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a\n1\n")
    engine = open_duckdb(make(tmp_path))
    engine.impose(SCHEMA)
    connection = engine._connection
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for statement in (
        f"SELECT * FROM read_csv('{other}')",
        f"SELECT * FROM '{other}'",
        f"SELECT * FROM read_text('{other}')",
        f"SELECT * FROM glob('{tmp_path}/*')",
        f"COPY (SELECT 1) TO '{tmp_path / 'new.csv'}'",
        f"EXPORT DATABASE '{tmp_path / 'export'}'",
        f"ATTACH '{tmp_path / 'new.db'}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM 'https://example.org/x.csv'",
        "SET enable_external_access = true",
        f"SET allowed_paths = ['{other}']",
        "SET lock_configuration = false",
        "RESET enable_external_access",
        "PRAGMA enable_external_access",
        "SELECT * FROM SCHEMA",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(statement)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert read_rows(engine) == ROWS


@pytest.mark.parametrize("fetch", [DuckDBEngine.fetch, DuckDBEngine.fetch_few])
def test_only_selects_run(fetch: Any) -> None:
    engine = open_duckdb(arrow_table())
    refused: list[Any] = [exp.Drop(this=exp.to_table("x"), kind="TABLE"), exp.Command(this="CHECKPOINT"), "SELECT 1"]
    for tree in refused:
        with pytest.raises(TypeError, match="only SELECT trees"):
            fetch(engine, tree)


def test_few_rows_hold_what_arrow_holds() -> None:
    """Every type that a group or a total can have, and NULL; totals beyond 64 bits stay exact."""
    kinds = ["HUGEINT", "DOUBLE", "BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP", "BIGINT", "DECIMAL(38, 0)"]
    values = ["100000000000000000001", "1.5", "true", "'é'", "'2024-02-29'", "'2024-02-29 23:59:59.000001'", "-7", "12"]
    cells = [f"CAST({value} AS {kind}) AS c{at}" for at, (kind, value) in enumerate(zip(kinds, values, strict=True))]
    nulls = [f"CAST(NULL AS {kind}) AS n{at}" for at, kind in enumerate(kinds)]
    engine = open_duckdb(arrow_table())
    query = exp.select(*cells, *nulls, dialect="duckdb").from_(engine.relation())
    few, many = engine.fetch_few(query), engine.fetch(query)
    assert engine.rows_fetched == 6
    assert few.num_rows == many.num_rows == 3
    assert few.column_names == many.column_names
    assert few.column("c0") == [100000000000000000001] * 3
    for name in few.column_names[1:]:
        assert few.column(name) == many.column(name).to_pylist()


@pytest.mark.parametrize("fetch", [DuckDBEngine.fetch, DuckDBEngine.fetch_few])
def test_python_variables_are_no_tables(fetch: Any) -> None:
    hidden = arrow_table()
    engine = open_duckdb(arrow_table())
    with pytest.raises(DataError):
        fetch(engine, exp.select("*").from_("hidden"))
    assert hidden.num_rows == 3


@pytest.mark.parametrize("fetch", [DuckDBEngine.fetch, DuckDBEngine.fetch_few])
def test_a_query_can_be_interrupted(fetch: Any) -> None:
    engine = open_duckdb(pa.table({"age": range(3000)}))
    engine.impose(only("age", ColumnType.INTEGER))
    endless = exp.select("COUNT(*)").from_(exp.alias_(engine.relation(), "t0", table=True))
    for at in range(1, 5):
        endless = endless.join(exp.alias_(engine.relation(), f"t{at}", table=True), join_type="cross")
    endless = endless.where("(t0.age + t1.age + t2.age * t3.age + t4.age) % 7 = 1")
    stop = threading.Event()

    def interrupt() -> None:
        while not stop.is_set():
            time.sleep(0.05)
            engine.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(Interrupted):
            fetch(engine, endless)
    finally:
        stop.set()
        thread.join()
    assert count_individuals(engine) == 3000
    progress = engine.progress()
    assert progress is None or 0 <= progress <= 100
