"""Columns of types that have no equivalent here: named, left out, and no trouble for the others."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.engines.duckdb import open_duckdb
from dosimeter.errors import DataError
from dosimeter.inspection.compare import check_schema
from dosimeter.inspection.written_draft import write_draft
from dosimeter.schema.facts import ColumnType
from dosimeter.schema.toml import parse_schema
from tests.schemas import declare, plain, whole
from tests.unit.drafts import draft

SECRET = "Xanthippe"
UNREAD: dict[str, pa.Array] = {
    "clock": pa.array([time(1, 2, 3), None, time(4, 5)], pa.time64("us")),
    "fine_clock": pa.array([1, 2, None], pa.time64("ns")),
    "tags": pa.array([[SECRET], [], None]),
    "prices": pa.array([[1], None, [2]], pa.list_(pa.decimal128(9, 2))),
    "days": pa.array([[datetime(2024, 1, 1)]] * 3, pa.list_(pa.timestamp("us"))),  # noqa: DTZ001
    "place": pa.array([{"town": SECRET}] * 3),
    "notes": pa.array([[("key", SECRET)]] * 3, pa.map_(pa.string(), pa.string())),
    "picture": pa.array([b"\xff\x00", None, b""]),
}
FACTS: dict[str, Any] = declare("k", 3, {"x": whole(0, 9)})


def save(folder: Path, columns: dict[str, Any]) -> str:
    path = folder / "k.parquet"
    pq.write_table(pa.table({"x": [1, 2, 3], **columns}), path)
    return str(path)


@pytest.mark.parametrize("name", UNREAD)
def test_a_parquet_file_with_one_such_column(name: str, tmp_path: Path) -> None:
    path = save(tmp_path, {name: UNREAD[name]})
    for source in (path, pa.table({"x": [1, 2, 3], name: UNREAD[name]})):
        engine = open_duckdb(source, None)
        assert list(engine.describe()) == ["x"]
        assert list(engine.unread_columns()) == [name]
        written = write_draft(engine)
        assert list(written.schema.columns) == ["x"]
        assert f"Left out, since these types have no equivalent here: {name} (" in written.text
        assert check_schema(engine, parse_schema(written.text)).agrees


def test_all_of_them_are_named_and_the_rest_is_used(tmp_path: Path, ledger: Ledger) -> None:
    path = save(tmp_path, UNREAD)
    with Dataset.open(path) as dataset:
        assert list(dataset.schema.columns) == ["x"]
        assert dataset.risk("SELECT SUM(x) FROM k").measured().values == ((6,),)
    with Dataset.open(path, schema=FACTS) as dataset:
        answer = dataset.release("SELECT SUM(x) AS s FROM k", epsilon=1e6, ledger=ledger, policy="budget:1e7")
        assert (answer.status, answer.answer) == ("released", [{"s": 6}])
    written = draft(path)
    (remark,) = written.remarks
    assert [name for name in UNREAD if f"{name} (" not in remark] == []
    assert SECRET not in written.text
    stay = pa.table({"x": [1], "stay": pa.array([timedelta(1)], pa.duration("us"))})  # no file has intervals
    assert open_duckdb(stay).unread_columns() == {"stay": "INTERVAL"}


@pytest.mark.parametrize("name", UNREAD)
def test_declaring_such_a_column_is_refused_by_name(name: str, tmp_path: Path) -> None:
    facts = {**FACTS, "columns": {**FACTS["columns"], name: plain("text")}}
    with pytest.raises(DataError, match=f"Column {name} is .* in the data, which has no equivalent here. Leave it out"):
        Dataset.open(save(tmp_path, UNREAD), schema=facts)


# ---------------------------------------------------------------- what looks alike, and can be read


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_zoned_moments_are_read_in_utc(zone: str, unit: str, tmp_path: Path) -> None:
    """pandas keeps moments in nanoseconds, with their zone."""
    moments = [datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2024, 7, 1, 12, 30, 5, tzinfo=UTC), None]
    column = pa.array(moments, pa.timestamp(unit, tz=zone))
    for source in (save(tmp_path, {"at": column}), pa.table({"x": [1, 2, 3], "at": column})):
        engine = open_duckdb(source)
        assert engine.unread_columns() == {}
        written = write_draft(engine)
        low, high = (moment.replace(tzinfo=None) for moment in moments if moment is not None)
        assert written.schema.columns["at"].bounds == (low, high)
        found = check_schema(engine, parse_schema(written.text))
        assert (found.agrees, found.odd_cells) == (True, {})


def test_odd_moments_in_nanoseconds_are_null(tmp_path: Path) -> None:
    """The ends of 64 bits are DuckDB's infinities."""
    column = pa.array([0, 2**63 - 1, -(2**63) + 1], pa.timestamp("ns", tz="UTC"))
    path = save(tmp_path, {"at": column})
    facts = {**FACTS, "columns": {**FACTS["columns"], "at": plain("timestamp")}}
    with Dataset.open(path, schema=facts) as dataset:
        assert dataset.engine.count_odd_cells(["at"]) == {"at": 2}
        assert dataset.risk("SELECT COUNT(at) FROM k WHERE at < '2000-01-01'").measured().values == ((1,),)


def test_a_column_of_nothing_is_of_any_type() -> None:
    table = pa.table({"x": [1, 2], "n": pa.nulls(2)})
    for kind in ColumnType:
        with Dataset.open(table, schema={**FACTS, "columns": {"n": {"type": str(kind)}}}) as dataset:
            assert dataset.risk("SELECT COUNT(n) FROM k").measured().values == ((0,),)


def test_times_in_a_csv_are_text(tmp_path: Path) -> None:
    path = tmp_path / "k.csv"
    path.write_text("x,clock\n1,12:30:00\n2,12:45:00\n3,12:30:00\n")
    engine = open_duckdb(str(path))
    assert engine.describe()["clock"] is ColumnType.TEXT
    assert engine.unread_columns() == {}
    assert write_draft(engine).schema.columns["clock"].values == ("12:30:00", "12:45:00")
