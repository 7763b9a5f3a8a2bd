"""What files and engines know of a column beforehand never decides an odd cell, and the same rows count everywhere.

Parquet's statistics leave NaN out. With them a reader can drop or keep all rows of a block at once, and one person's
value decides which: the exact counts here are those of plain Python, whatever the statistics say.
"""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import DatasetStopped
from dosimeter.influence import measure_exactly
from tests.conformance.odd_meanings import Subject, find_condition, list_conditions
from tests.conformance.odd_sources import write_parquet
from tests.conformance.odd_tables import BOUNDS
from tests.schemas import declare, plain, whole

NAN = math.nan
# Of three people one is NaN; the last one's value decides what the statistics of their block promise.
COMMON = [NAN if at % 3 == 0 else 1.5 + at % 5 / 2 for at in range(199)]
LAST: tuple[list[float], ...] = ([], [7.0], [2.5], [NAN], [math.inf], [-7.0])
TESTS = [find_condition(name, Subject("t.v", "v", "decimal")) for name in list_conditions("decimal")]
FACTS = declare("t", 300, {"v": plain("decimal") | BOUNDS["decimal"], "z": plain("integer") | BOUNDS["integer"]})


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("writer", ["parquet by pyarrow", "parquet by polars", "parquet by duckdb"])
def test_statistics_decide_nothing(tmp_path: Path, writer: str, kind: pa.DataType) -> None:
    """Each condition as a WHERE, and as a FILTER."""
    for last in LAST:
        values = [*COMMON, *last]
        places = [at % 7 for at in range(len(values))]
        path = write_parquet(writer, tmp_path / "t.parquet", pa.table({"v": pa.array(values, kind), "z": places}))
        if writer != "parquet by duckdb":  # they leave NaN out, which is what this test is about
            statistics = pq.ParquetFile(path).metadata.row_group(0).column(0).statistics
            assert statistics.has_min_max
            assert math.isfinite(statistics.max)
        rows = [{"v": v if math.isfinite(v) else None, "z": z} for v, z in zip(values, places, strict=True)]
        with Dataset.open(path, schema=FACTS, table="t") as dataset:
            for test in TESTS:
                expected = sum(test.value(row) is True for row in rows)
                for asked in (f"COUNT(*) FROM t WHERE {test.sql}", f"COUNT(*) FILTER (WHERE {test.sql}) FROM t"):
                    plan = dataset.plan(f"SELECT {asked}")
                    assert measure_exactly(plan, dataset.tables, None).values == ((expected,),), (asked, last)


# ---------------------------------------------------------------- moments that microseconds cannot count


MOMENT_FACTS = declare("t", 9, {"v": plain("timestamp"), "x": whole(0, 9)})


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
