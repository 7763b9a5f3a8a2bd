"""What files and engines know of a column beforehand never decides an odd cell, and the same rows count everywhere.

Parquet's statistics leave NaN out. With them a reader can drop or keep all rows of a block at once, and one person's
value decides which: the exact counts here are those of a plain loop, whatever the statistics say.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import DatasetStopped
from dosimeter.influence import measure_exactly
from tests.conformance.odd_sources import write_parquet

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


WRITERS = ("parquet by pyarrow", "parquet by polars", "parquet by duckdb")


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


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("writer", WRITERS)
def test_statistics_decide_nothing(tmp_path: Path, writer: str, kind: pa.DataType) -> None:
    paths = [
        write_parquet(
            writer, tmp_path / f"{name}.parquet", pa.table({"v": pa.array(values, kind), "x": range(len(values))})
        )
        for name, values in TABLES.items()
    ]
    if writer != "parquet by duckdb":  # they leave NaN out, which is what this test is about
        statistics = pq.ParquetFile(paths[0]).metadata.row_group(0).column(0).statistics
        assert statistics.has_min_max
        assert math.isfinite(statistics.max)
    for path, values in zip(paths, TABLES.values(), strict=True):
        with Dataset.open(path, schema=FACTS, table="nn") as dataset:
            found = {sql: count_in(dataset, sql) for sql in CONDITIONS}
        assert found == {sql: [count_by_hand(values, sql)] * 2 for sql in CONDITIONS}


# ---------------------------------------------------------------- moments that microseconds cannot count


MOMENT_FACTS: dict[str, Any] = {
    "table": "t",
    "individuals": 9,
    "reviewed": True,
    "columns": {"v": {"type": "timestamp"}, "x": {"type": "integer", "bounds": [0, 9]}},
}


def test_a_file_that_no_reader_takes_stops_the_dataset(tmp_path: Path) -> None:
    """DuckDB makes Parquet's milliseconds microseconds while it reads, before any rule of ours: an incident."""
    without, table = (
        pa.table({"v": pa.array(cells, pa.int64()).cast(pa.timestamp("ms")), "x": range(len(cells))})
        for cells in ([0], [0, 10**17])
    )
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
