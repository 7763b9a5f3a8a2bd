"""What is kept between questions: plans, counts and rows per state of the data, and digests of files."""

from __future__ import annotations

import hashlib
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from sqlglot import exp

from dosimeter import Dataset, dataset
from dosimeter.engines import ReadOptions, file_digests
from dosimeter.engines.duckdb_connections import KeptTables
from dosimeter.engines.engine import digest_alike, digest_files
from dosimeter.engines.file_digests import digest_bytes
from dosimeter.influence.rows import grouping
from dosimeter.planning import PlanOptions
from tests.rows_that_count import rows_that_count
from tests.schemas import category, declare, plain, whole

SCHEMA = declare("visits", 9, {"pid": plain("integer"), "ward": category("a", "b"), "cost": whole(0, 100)})
MANY = SCHEMA | {"unit": "pid", "max_rows_per_unit": 2, "row_key": "cost"}
ROWS: dict[str, list[Any]] = {
    "pid": [1, 1, 2, 3, 4, 4, 5, 6],
    "ward": ["a", "b", "a", None, "x", "a", "b", "b"],
    "cost": [-5, 20, 20, 101, None, 50, 50, 2**60],
}


def test_a_plan_is_made_once_and_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "MOST_PLANS", 3)
    sql = "SELECT COUNT(*) FROM visits WHERE cost > {}"
    with Dataset.open(pa.table(ROWS), schema=SCHEMA) as visits:
        first = visits.plan(sql.format(0))
        assert visits.plan(sql.format(0)) is first
        assert visits.plan(sql.format(0), PlanOptions()) is first
        assert visits.plan(sql.format(0), PlanOptions(min_rows=2)) is not first
        for number in range(1, 4):
            visits.plan(sql.format(number))
        assert visits.plan(sql.format(0)) is not first
        assert visits.plan(sql.format(0)).digest == first.digest


def test_a_plan_follows_a_draft_that_grows() -> None:
    with Dataset.open(pa.table(ROWS), table="visits") as visits:
        first = visits.plan("SELECT SUM(cost) FROM visits")
        again = visits.plan("SELECT SUM(cost) FROM visits")
        assert again is first
        visits.plan("SELECT ward, COUNT(*) FROM visits GROUP BY ward", PlanOptions(groups="observed"))
        assert visits.plan("SELECT SUM(cost) FROM visits").schema is visits.schema


@pytest.mark.usefixtures("settled")
def test_rows_are_counted_once_per_state_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    csv.write_csv(pa.table(ROWS), path)
    with Dataset.open(path, schema=SCHEMA) as visits:
        visits.renew()
        generation = visits.engine.generation
        for _ in range(3):
            visits.renew()
            assert visits.count() == 8
        assert visits.engine.generation == generation
        csv.write_csv(pa.table({name: [*cells, cells[0]] for name, cells in ROWS.items()}), path)
        visits.renew()
        assert visits.engine.generation > generation
        assert visits.count() == 9


def test_a_file_that_changed_just_now_is_counted_each_time(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    csv.write_csv(pa.table(ROWS), path)
    with Dataset.open(path, schema=MANY) as visits:
        visits.renew()
        generation = visits.engine.generation
        visits.renew()
        assert visits.engine.generation > generation


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(cost) FROM visits",
        "SELECT ward, AVG(cost) FROM visits GROUP BY ward",
        "SELECT UPPER(ward) AS w, COUNT(*), SUM(cost) FILTER (WHERE ward = 'a') FROM visits WHERE pid < 6 GROUP BY w",
        "SELECT MEDIAN(cost), COUNT(DISTINCT cost) FROM visits",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward UNION ALL SELECT 'all', SUM(cost) FROM visits",
    ],
)
def test_raw_cells_first_gives_the_same(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values beyond the bounds, groups that nobody declared, and NULL, with and without counting raw cells first."""

    def look() -> tuple[list[float], list[int], int | None, object]:
        with Dataset.open(pa.table(ROWS), schema=SCHEMA) as visits:
            risk = visits.risk(sql, quantiles="noise")
            found = risk.sensitivities
            return found.values.tolist(), found.counts.tolist(), risk.matched, risk.measured().values

    rewritten: list[bool] = []
    group = grouping.group_raw_first

    def note_rewritten(query: Any, schema: Any) -> Any:
        found = group(query, schema)
        rewritten.append(found is not query)
        return found

    monkeypatch.setattr("dosimeter.influence.rows.row_queries.group_raw_first", note_rewritten)
    first = look()
    assert any(rewritten)
    monkeypatch.setattr(grouping, "MOST_CELLS", 0)
    assert look() == first


# ---------------------------------------------------------------- digests of files


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often bytes were read."""
    count = [0]
    digest = hashlib.file_digest

    def counting(stream: Any, name: str) -> Any:
        count[0] += 1
        return digest(stream, name)

    monkeypatch.setattr(hashlib, "file_digest", counting)
    return count


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a file that was just written for one that was written long ago."""
    monkeypatch.setattr(file_digests, "SETTLED_NS", -(10**18))


@pytest.mark.usefixtures("settled")
def test_bytes_are_read_once_per_state(tmp_path: Path, reads: list[int]) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"x\n1\n")
    expected = hashlib.sha256(b"x\n1\n").digest()
    assert [digest_bytes(str(path)) for _ in range(3)] == [expected] * 3
    assert reads == [1]
    (tmp_path / "other.csv").hardlink_to(path)  # the same file, but a link changes the inode
    assert digest_bytes(str(tmp_path / "other.csv")) == expected
    assert digest_bytes(str(path)) == expected
    assert reads == [2]


@pytest.mark.usefixtures("settled")
def test_a_change_that_hides_its_time_and_another_file_in_its_place_are_noticed(
    tmp_path: Path, reads: list[int]
) -> None:
    """The same size, and the time of change set back: the inode's own time cannot be set."""
    path = tmp_path / "data.csv"
    path.write_bytes(b"x\n1\n")
    before = digest_bytes(str(path))
    times = path.stat()
    path.write_bytes(b"x\n2\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_mtime_ns == times.st_mtime_ns
    assert digest_bytes(str(path)) == hashlib.sha256(b"x\n2\n").digest() != before
    other = tmp_path / "other.csv"
    other.write_bytes(b"x\n3\n")
    other.replace(path)
    assert digest_bytes(str(path)) == hashlib.sha256(b"x\n3\n").digest()
    assert reads == [3]


def test_a_file_that_just_changed_is_read_again(tmp_path: Path, reads: list[int]) -> None:
    """Within a tick of the clock a second change would leave all times as they are."""
    path = tmp_path / "data.csv"
    path.write_bytes(b"x\n1\n")
    for _ in range(2):
        digest_bytes(str(path))
    assert reads == [2]


@pytest.mark.usefixtures("settled")
def test_a_file_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[int]
) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"x\n1\n")
    digest = hashlib.file_digest

    def append_meanwhile(stream: Any, name: str) -> Any:
        found = digest(stream, name)
        with path.open("ab") as more:
            more.write(b"2\n")
        return found

    monkeypatch.setattr(hashlib, "file_digest", append_meanwhile)
    digest_bytes(str(path))
    monkeypatch.setattr(hashlib, "file_digest", digest)
    assert digest_bytes(str(path)) == hashlib.sha256(b"x\n1\n2\n").digest()
    assert reads == [2]


@pytest.mark.usefixtures("settled")
def test_few_digests_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_digests, "MOST_KEPT", 2)
    for number in range(5):
        (tmp_path / str(number)).write_text(str(number))
        digest_bytes(str(tmp_path / str(number)))
    assert len(file_digests._kept) <= 2


def test_options_that_mean_the_same_read_a_file_that_was_just_written_once(tmp_path: Path, reads: list[int]) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"x;y\n1;2\n")
    alike = digest_alike("csv", [str(path)], ReadOptions())
    assert reads == [1]
    assert digest_files("csv", [str(path)], ReadOptions(table="data", delimiter=";", encoding="utf-8")) in alike
    assert digest_files("csv", [str(path)], ReadOptions(delimiter=",")) not in alike


# ---------------------------------------------------------------- the rows that count


Row = dict[str, Any]
KEPT_COLUMNS: dict[str, dict[str, Any]] = {
    "who": plain("text"),
    "v": whole(0, 9),
    "ward": category("A", "B"),
}
FACTS: dict[str, Any] = declare("t", 20, KEPT_COLUMNS, unit="who", max_rows_per_unit=3)  # fmt: skip


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
    return count_rows(rows_that_count(rows, KEPT_COLUMNS, "who", 3))


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
    columns = {"who": plain("text"), **{name: plain("integer") for name in names}}
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
