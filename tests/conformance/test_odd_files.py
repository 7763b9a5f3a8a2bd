"""What files and engines know of a column beforehand never decides an odd cell, and the same rows count everywhere.

Parquet's statistics leave NaN out. With them a reader can drop or keep all rows of a block at once, and one person's
value decides which: the exact counts here are those of a plain loop, whatever the statistics say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import DatasetStopped
from dosimeter.influence import measure_exactly
from tests.conformance.odd_cases import Case
from tests.conformance.odd_worlds import OTHERS, SPARK, Worlds, marks_of, open_worlds, release

# ---------------------------------------------------------------- statistics


NAN = math.nan
# Of three people one is NaN; the last one's value decides what the statistics of their block promise.
COMMON = [NAN if at % 3 == 0 else float(at) for at in range(199)]
TABLES = {
    "without": COMMON,
    "far above": [*COMMON, 280.0],
    "among the others": [*COMMON, 100.0],
    "NaN": [*COMMON, NAN],
    "infinite": [*COMMON, math.inf],
    "far below": [*COMMON, -280.0],
}
Test = Callable[[float], bool]
CONDITIONS: dict[str, Test] = {
    "v > 250": lambda v: v > 250,
    "v >= 198": lambda v: v >= 198,
    "v < 250": lambda v: v < 250,
    "v < 0": lambda v: v < 0,
    "v <= 1": lambda v: v <= 1,
    "v <> 500": lambda v: v != 500,
    "v = 280": lambda v: v == 280,
    "NOT v > 250": lambda v: not v > 250,
    "NOT v < 250": lambda v: not v < 250,
    "NOT (v < 0 OR v > 250)": lambda v: not (v < 0 or v > 250),
    "v NOT IN (1, 280)": lambda v: v not in (1, 280),
    "v IN (280, 100)": lambda v: v in (280, 100),
    "v BETWEEN 1 AND 198": lambda v: 1 <= v <= 198,
    "v NOT BETWEEN 1 AND 198": lambda v: not 1 <= v <= 198,
    "v IS NOT NULL": lambda v: True,
    "v + x > 250": lambda v: True,  # replaced below: it needs the other column
    "v = v": lambda v: True,
    "ABS(v) > 250": lambda v: abs(v) > 250,
    "CASE WHEN v > 250 THEN 1 ELSE 0 END = 1": lambda v: v > 250,
}
FACTS: dict[str, Any] = {
    "table": "nn",
    "individuals": 300,
    "reviewed": True,
    "columns": {
        "v": {"type": "decimal", "bounds": [0, 300], "resolution": 1},
        "x": {"type": "integer", "bounds": [0, 300]},
    },
}


def write_pyarrow(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, row_group_size=64)


def write_one_group(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path)


def write_polars(table: pa.Table, path: Path) -> None:
    pl.DataFrame(pl.from_arrow(table)).write_parquet(path, row_group_size=64, statistics=True)


def write_duckdb(table: pa.Table, path: Path) -> None:
    with duckdb.connect() as connection:
        connection.register("source", table)
        connection.execute(f"COPY source TO '{path}' (FORMAT parquet)")


WRITERS = {"pyarrow": write_pyarrow, "one row group": write_one_group, "polars": write_polars, "duckdb": write_duckdb}


def count_by_hand(values: list[float], sql: str) -> int:
    finite = [(v, x) for x, v in enumerate(values) if math.isfinite(v)]
    if sql == "v + x > 250":
        return sum(v + x > 250 for v, x in finite)
    return sum(CONDITIONS[sql](v) for v, _ in finite)


def count_in(dataset: Dataset, sql: str) -> list[int]:
    """Return how many rows meet each condition: as a WHERE, and as a FILTER beside it."""
    found = []
    for text in (f"SELECT COUNT(*) FROM nn WHERE {sql}", f"SELECT COUNT(*) FILTER (WHERE {sql}) FROM nn"):
        plan = dataset.plan(text)
        found.append(int(measure_exactly(plan, dataset.tables, None).values[0][0]))
    return found


def write_tables(folder: Path, writer: Callable[[pa.Table, Path], None], kind: pa.DataType) -> Iterator[Path]:
    for name, values in TABLES.items():
        path = folder / f"{name.replace(' ', '_')}.parquet"
        writer(pa.table({"v": pa.array(values, kind), "x": range(len(values))}), path)
        yield path


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("writer", WRITERS)
def test_statistics_decide_nothing(tmp_path: Path, writer: str, kind: pa.DataType) -> None:
    paths = list(write_tables(tmp_path, WRITERS[writer], kind))
    if writer in ("pyarrow", "polars"):  # they leave NaN out, which is what this test is about
        statistics = pq.ParquetFile(paths[0]).metadata.row_group(0).column(0).statistics
        assert statistics.has_min_max
        assert math.isfinite(statistics.max)
    for path, values in zip(paths, TABLES.values(), strict=True):
        with Dataset.open(path, schema=FACTS, table="nn") as dataset:
            found = {sql: count_in(dataset, sql) for sql in CONDITIONS}
        assert found == {sql: [count_by_hand(values, sql)] * 2 for sql in CONDITIONS}


@pytest.mark.xdist_group("conformance")
@pytest.mark.servers
@pytest.mark.usefixtures("spark_session")
def test_statistics_decide_nothing_in_spark(tmp_path: Path) -> None:
    paths = list(write_tables(tmp_path, write_pyarrow, pa.float64()))
    asked = ["v > 250", "NOT v > 250"]
    for path, values in list(zip(paths, TABLES.values(), strict=True))[:2]:
        with Dataset.open(path, schema=FACTS, table="nn", engine="spark") as dataset:
            found = {sql: count_in(dataset, sql) for sql in asked}
        assert found == {sql: [count_by_hand(values, sql)] * 2 for sql in asked}


# ---------------------------------------------------------------- the same rows count


@pytest.fixture(scope="module")
def worlds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    with open_worlds(request, tmp_path_factory) as opened:
        yield opened


COMMON_COLUMNS = ("ratio", "huge", "born", "at_us")  # every source holds them, with the same cells once they are clean


def compare_with_arrow(worlds: Worlds, source: str, column: str, mode: str) -> None:
    """bob and gus have more rows than count, and repeat their row keys: everywhere the same of them are kept."""
    vectors = []
    for one in ("arrow", source):
        case = Case(one, column, mode, "odd", "none", "none", "grp", "filtered")
        vectors.append(release(*worlds.open(case, None), case)[1].values)
    assert vectors[0] == vectors[1]


@pytest.mark.parametrize("mode", ["person", "odd units"])
@pytest.mark.parametrize(
    "column", ["ratio", "born", *(pytest.param(c, marks=pytest.mark.long) for c in ("huge", "at_us"))]
)
@pytest.mark.parametrize("source", [pytest.param(s, marks=marks_of(s)) for s in OTHERS if s != "arrow"])
def test_repeated_keys_are_cut_alike(worlds: Worlds, source: str, column: str, mode: str) -> None:
    compare_with_arrow(worlds, source, column, mode)


@pytest.mark.usefixtures("spark_session")
@pytest.mark.parametrize(
    ("source", "column", "mode"),
    [
        pytest.param(
            source,
            column,
            mode,
            marks=[*marks_of(source), *([pytest.mark.long] if (column, mode) != ("ratio", "person") else [])],
        )
        for source in SPARK
        for column in COMMON_COLUMNS
        for mode in ("person", "odd units")
    ],
)
def test_repeated_keys_are_cut_alike_in_spark(worlds: Worlds, source: str, column: str, mode: str) -> None:
    compare_with_arrow(worlds, source, column, mode)


# ---------------------------------------------------------------- moments that microseconds cannot count


MOMENT_FACTS: dict[str, Any] = {
    "table": "t",
    "individuals": 9,
    "reviewed": True,
    "columns": {"v": {"type": "timestamp"}, "x": {"type": "integer", "bounds": [0, 9]}},
}
FAR = {"s": (10**15, -(10**15), 2**63 - 1, -(2**63)), "ms": (10**17, -(10**17), 2**63 - 1, -(2**63))}


def moments_without_and_with(unit: str, zone: str | None, cell: int) -> list[pa.Table]:
    kind = pa.timestamp(unit, tz=zone)
    return [
        pa.table({"v": pa.array(cells, pa.int64()).cast(kind), "x": range(len(cells))}) for cells in ([0], [0, cell])
    ]


@pytest.mark.parametrize(
    ("source", "unit", "zone"),
    [("arrow", "s", None), ("arrow", "ms", None), ("arrow", "s", "UTC"), ("arrow", "ms", "UTC"), ("duckdb", "s", None),
     ("duckdb", "ms", None)],
)  # fmt: skip
def test_moments_that_microseconds_cannot_count(tmp_path: Path, source: str, unit: str, zone: str | None) -> None:
    """They are NULL as any other moment outside the years 1 to 9999, in everything that a release does with a table."""
    seen = []
    for at, cell in enumerate(FAR[unit]):
        for people, table in enumerate(moments_without_and_with(unit, zone, cell)):
            given: Any = table
            if source == "duckdb":
                given = f"duckdb:{tmp_path / f'{at}_{people}.duckdb'}"
                with duckdb.connect(given.removeprefix("duckdb:")) as connection:
                    connection.register("source", table)
                    connection.execute("CREATE TABLE t AS SELECT * FROM source")
            with (
                Dataset.open(given, schema=MOMENT_FACTS, table="t") as dataset,
                Ledger.open(tmp_path / f"{at}_{people}.db") as ledger,
            ):
                answer = dataset.release(
                    "SELECT COUNT(v), COUNT(*) FROM t WHERE DATE_TRUNC('year', v) <> DATE '2021-01-01' OR x >= 0",
                    ledger=ledger, epsilon=1000, policy="budget:100000",
                )  # fmt: skip
            assert answer.answer is not None
            seen.append(tuple(answer.answer[0].values()))
    assert seen == [(1, 1), (1, 2)] * len(FAR[unit])


def test_a_file_that_no_reader_takes_stops_the_dataset(tmp_path: Path) -> None:
    """DuckDB makes Parquet's milliseconds microseconds while it reads, before any rule of ours: an incident."""
    without, table = moments_without_and_with("ms", None, 10**17)
    pq.write_table(without, tmp_path / "t.parquet")
    sql = "SELECT COUNT(v) FROM t"
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        with Dataset.open(tmp_path / "t.parquet", schema=MOMENT_FACTS) as dataset:
            assert dataset.release(sql, ledger=ledger, epsilon=1, policy="budget:10").status == "released"
        pq.write_table(table, tmp_path / "t.parquet")
        with Dataset.open(tmp_path / "t.parquet", schema=MOMENT_FACTS) as dataset:
            for asked in (sql, "SELECT COUNT(*) FROM t"):
                with pytest.raises(DatasetStopped):
                    dataset.release(asked, ledger=ledger, epsilon=1, continued=True)
