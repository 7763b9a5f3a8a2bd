"""The rows that count are chosen once and kept by DuckDB, until the data may have changed or where they have room."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

from dosimeter import Dataset
from dosimeter.engines.duckdb_connections import KeptTables
from tests.rows_that_count import rows_that_count

Row = dict[str, Any]
COLUMNS: dict[str, dict[str, Any]] = {
    "who": {"type": "text"},
    "v": {"type": "integer", "bounds": [0, 9]},
    "ward": {"type": "category", "values": ["A", "B"]},
}
FACTS: dict[str, Any] = {
    "table": "t", "individuals": 20, "unit": "who", "max_rows_per_unit": 3, "reviewed": True, "columns": COLUMNS,
}  # fmt: skip


def draw_rows(seed: int) -> list[Row]:
    chance = random.Random(seed)
    return [
        {"who": f"p{chance.randrange(8)}", "v": chance.randrange(10), "ward": chance.choice("AB")} for _ in range(90)
    ]


def count_rows(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows)


def keep(dataset: Dataset) -> Counter[tuple[Any, ...]]:
    return count_rows(dataset.engine.fetch(exp.select("*").from_(dataset.tables.cut(None))).to_pylist())


def expect(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    return count_rows(rows_that_count(rows, COLUMNS, "who", 3))


def list_kept(dataset: Dataset) -> list[str]:
    tables = exp.select("table_name").from_(exp.Anonymous(this="duckdb_tables"))
    found = dataset.engine.fetch(tables.where("table_name LIKE 'dosimeter_kept%'")).to_pylist()
    return sorted(str(row["table_name"]) for row in found)


def test_looks_share_one_choice_and_a_changed_file_has_another(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    rows, others = draw_rows(1), draw_rows(2)
    pq.write_table(pa.Table.from_pylist(rows), path)
    with Dataset.open(path, schema=FACTS) as dataset:
        assert keep(dataset) == expect(rows)
        kept = list_kept(dataset)
        for sql in ("SELECT COUNT(*) FROM t", "SELECT ward, SUM(v) FROM t GROUP BY ward", "SELECT MEDIAN(v) FROM t"):
            dataset.risk(sql).find("ratio:0.5")
        assert list_kept(dataset) == kept != []
        pq.write_table(pa.Table.from_pylist(others), tmp_path / "new.parquet")
        (tmp_path / "new.parquet").replace(path)
        dataset.renew()
        assert keep(dataset) == expect(others)
        assert len(list_kept(dataset)) == len(kept)
        assert not set(list_kept(dataset)) & set(kept)


def test_without_room_the_same_rows_count(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = draw_rows(3)
    monkeypatch.setattr(KeptTables, "_find_memory", lambda _: 0)
    with Dataset.open(pa.Table.from_pylist(rows), schema=FACTS, table="t") as dataset:
        assert keep(dataset) == expect(rows)
        assert list_kept(dataset) == []
        assert dataset.risk("SELECT COUNT(*) FROM t").measured().values[0][0] == 24


@pytest.mark.long
def test_a_table_of_very_many_columns() -> None:
    names = [f"c{at}" for at in range(1_100)]
    chance = random.Random(5)
    rows: list[Row] = [{"who": f"p{at % 2}", **{name: chance.randrange(3) for name in names}} for at in range(10)]
    columns = {"who": {"type": "text"}, **{name: {"type": "integer"} for name in names}}
    facts = {**FACTS, "columns": columns}
    with Dataset.open(pa.Table.from_pylist(rows), schema=facts, table="t") as dataset:
        assert keep(dataset) == count_rows(rows_that_count(rows, columns, "who", 3))


def test_an_interrupt_between_the_parts_leaves_no_rows_behind() -> None:
    """A server would hold half a table for every first look that somebody stopped."""
    halves = [f"SELECT range AS a FROM range(10) WHERE range % 2 = {part}" for part in (0, 1)]

    class Stopped:
        def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
            self._connection = connection

        def execute(self, sql: str) -> duckdb.DuckDBPyConnection:
            if sql.startswith("INSERT"):
                raise duckdb.InterruptException("stopped")
            return self._connection.execute(sql)

    connection = duckdb.connect()
    kept = KeptTables(cast("duckdb.DuckDBPyConnection", Stopped(connection)))
    with pytest.raises(duckdb.InterruptException):
        kept.keep(halves, cells=10, by="a")
    assert connection.execute("SELECT COUNT(*) FROM duckdb_tables()").fetchall() == [(0,)]
    name = KeptTables(connection).keep(halves, cells=10, by="a")
    assert connection.execute(f"SELECT LIST(a) FROM {name}").fetchall() == [([0, 2, 4, 6, 8, 1, 3, 5, 7, 9],)]


def test_connections_to_one_duckdb_keep_rows_apart() -> None:
    connection = duckdb.connect()
    tables = [KeptTables(cursor) for cursor in (connection, connection.cursor())]
    names = [kept.keep([f"SELECT {at} AS a"], cells=1) for at, kept in enumerate(tables)]
    assert [connection.execute(f"FROM {name}").fetchall() for name in names] == [[(0,)], [(1,)]]
