"""What is drafted, the tool accepts: a written draft loads, ``--check`` agrees, and no number is drafted away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter import Dataset
from dosimeter.inspection.compare import SchemaCheck
from dosimeter.inspection.written_draft import WrittenDraft
from dosimeter.schema.facts import Column, ColumnType
from dosimeter.schema.toml import parse_schema
from tests.unit.drafts import check, draft

NAN, INFINITY = float("nan"), float("inf")
pytestmark = pytest.mark.usefixtures("shared_duckdb")


def check_draft(source: str | pa.Table) -> tuple[WrittenDraft, SchemaCheck]:
    """Draft, write, read again and check, each time with the source opened afresh."""
    written = draft(source)
    schema = parse_schema(written.text)
    assert schema == written.schema
    return written, check(source, schema)


def check_column(values: pa.Array | Sequence[Any]) -> tuple[Column, SchemaCheck]:
    written, found = check_draft(pa.table({"x": values}))
    assert found.agrees, found.findings
    return written.schema.columns["x"], found


def write_csv(folder: Path, name: str, cells: Sequence[object]) -> str:
    path = folder / "t.csv"
    path.write_text("\n".join([f"{name},other", *(f"{cell},{at}" for at, cell in enumerate(cells))]) + "\n")
    return str(path)


# ---------------------------------------------------------------- the grid that numbers lie on


@pytest.mark.parametrize(
    ("values", "resolution", "low", "high"),
    [
        ([0.1, 0.2, 0.1 + 0.2, 0.7], "0.1", "0.1", "0.7"),
        ([0.25, 1.5, 124.75], "0.01", "0.25", "124.75"),
        ([24.01, 249947.79], "0.01", "24.01", "249947.79"),
        ([1e11 + 0.25, 3.5], "0.01", "3.50", "100000000000.25"),
        ([3e-9, 2.75e-8], "0.0000000001", "0.0000000030", "0.0000000275"),
        ([52.5200289, 52.5299951], "0.0000001", "52.5200289", "52.5299951"),
        ([1.5, -0.0, -2.5], "0.1", "-2.5", "1.5"),
        (pa.array(np.arange(1, 499) / 10, pa.float32()), "0.1", "0.1", "49.8"),
    ],
)
def test_numbers_are_put_on_the_grid_they_lie_on(values: Any, resolution: str, low: str, high: str) -> None:
    column, _ = check_column(values)
    assert column.type is ColumnType.DECIMAL
    assert column.resolution == Decimal(resolution)
    assert column.bounds == (Decimal(low), Decimal(high))


@pytest.mark.parametrize("size", [-23, -12, -8, -3, 0, 4, 9, 15])
def test_numbers_on_no_grid_keep_their_first_digits(size: int) -> None:
    chance = np.random.default_rng(size + 100)
    values = chance.random(300) * 10.0**size
    column, _ = check_column(values)
    assert column.resolution is not None
    step, widest = float(column.resolution), float(values.max())
    assert 1e5 * step <= widest
    assert widest <= 1e8 * step or step == 1, "sums of squares have to fit into 64 bits"
    rounded = np.floor(values / step + 0.5) * step  # S8
    assert np.abs(rounded - values).max() <= 1e-6 * widest
    assert len(np.unique(rounded)) > 250, "not drafted away"


@st.composite
def number_columns(draw: st.DrawFn) -> list[float]:
    """Columns as people have them: multiples of a power of ten, thirds, sums of floats, 32-bit floats."""
    size = draw(st.integers(-20, 12))
    steps = draw(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=12))
    match draw(st.sampled_from(["grid", "thirds", "sums", "single", "any"])):
        case "grid":
            return [float(Decimal(step).scaleb(size - 4)) for step in steps]
        case "thirds":
            return [step / 3 * 10.0**size for step in steps]
        case "sums":
            return [math.fsum([0.1] * (step % 7)) + 0.1 * (step % 5) for step in steps]
        case "single":
            return [float(np.float32(step * 10.0**size)) for step in steps]
        case _:
            return draw(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12))


@given(values=number_columns())
def test_a_draft_of_any_numbers_agrees_with_them(values: list[float]) -> None:
    column, found = check_column(values)
    assert not found.odd_cells
    if column.bounds is None:
        widest = max(map(abs, values))
        assert widest >= 2**62 or 0 < widest < 1e-23
        return
    low, high = (float(Decimal(str(bound))) for bound in column.bounds)
    assert low <= min(values) <= max(values) <= high
    if column.type is ColumnType.DECIMAL:
        step = float(column.resolution or 0)
        rounded = [math.floor(value / step + 0.5) * step for value in values]
        moved = [abs(a - b) for a, b in zip(rounded, values, strict=True)]
        widest = max(map(abs, values))
        assert all(move <= max(1e-6 * widest, 2e-7 * abs(value)) for move, value in zip(moved, values, strict=True))
    else:
        assert all(value.is_integer() for value in values)


@pytest.mark.parametrize(
    ("resolution", "bounds", "values", "rounded"),
    [
        ("1", (0, 1), [3e-8, 0.0, 1.0], 1),  # a small number is no multiple of a large step
        ("0.1", (0, 50), [0.1, 0.30000001192092896, 0.35], 1),  # the second is 0.3 in 32 bits
        ("0.01", (0, 250_000), [0.004, 17.2549], 0),  # 25 million steps: nothing that could be seen is lost
        ("0.01", (0, 100), [0.004, 17.2549, 17.25], 2),
    ],
)
def test_check_tells_numbers_that_would_be_rounded(
    resolution: str, bounds: tuple[int, int], values: list[float], rounded: int
) -> None:
    facts = f'table = "data"\n[columns.x]\ntype = "decimal"\nbounds = {list(bounds)}\nresolution = {resolution}\n'
    found = check(pa.table({"x": values}), parse_schema(facts))
    said = "values that are no multiple of its resolution, and would be rounded"
    assert [finding.problem for finding in found.findings] == ([f"{said}: {rounded}"] if rounded else [])


# ---------------------------------------------------------------- whole numbers that are kept as floats


def test_whole_numbers_kept_as_floats_are_integers() -> None:
    for values in ([1.0, None, 3.0], [0.0, -4.0, 1e6], [NAN, 2.0, 5.0]):
        column, _ = check_column(values)
        assert (column.type, column.resolution) == (ColumnType.INTEGER, None)
    column, _ = check_column([1.0, 2.0**53])
    assert column.type is ColumnType.DECIMAL, "beyond that every float is whole"
    column, _ = check_column([1.0, 2.0000000000000004])
    assert column.type is ColumnType.DECIMAL


def test_whole_numbers_with_gaps_can_be_grouped_by_without_a_schema(tmp_path: Path) -> None:
    path = write_csv(tmp_path, "size", ["1.0", "2.0", "", "2.0"])
    frame = pa.table({"size": [1.0, 2.0, None, 2.0]})
    for source, name in ((path, "t"), (frame, "data")):
        with Dataset.open(source) as dataset:
            risk = dataset.risk(f'SELECT "size", COUNT(*) AS n FROM {name} GROUP BY "size"')
            assert risk.measured().keys == ((1,), (2,))
            assert [int(row[0]) for row in risk.measured().values] == [1, 2]
            assert not any("NULL" in note for note in risk.notes)


def test_whole_numbers_in_another_notation_stay_decimal(tmp_path: Path) -> None:
    """1e3 is a whole number, but a whole number is not written so: as an integer the cell would be lost."""
    path = write_csv(tmp_path, "x", ["1e3", "2e3", "5.0"])
    written, found = check_draft(path)
    assert written.schema.columns["x"].type is ColumnType.DECIMAL
    assert found.agrees
    assert not found.odd_cells
    with Dataset.open(path) as dataset:
        assert [int(row[0]) for row in dataset.risk("SELECT SUM(x) FROM t").measured().values] == [3005]


# ---------------------------------------------------------------- odd cells


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_nan_in_a_parquet_file(library: str, tmp_path: Path) -> None:
    """Its statistics leave NaN out, and DuckDB can decide comparisons by them."""
    values = [1.5, NAN, 2.5, INFINITY, -INFINITY, None] * 20
    path = str(tmp_path / "k.parquet")
    if library == "pyarrow":
        pq.write_table(pa.table({"t": values}), path)
    else:
        pl.DataFrame({"t": values}).write_parquet(path)
    written, found = check_draft(path)
    assert written.schema.columns["t"].bounds == (Decimal("1.5"), Decimal("2.5"))
    assert found.agrees
    assert found.odd_cells == {"t": 60}
    (remark,) = found.remarks
    assert (remark.column, remark.remark) == ("t", "60 cells are odd (no finite numbers) and count as NULL")
    assert any(each.startswith("t: 60 cells are odd") for each in written.remarks)
    with Dataset.open(path) as dataset:
        assert dataset.risk("SELECT COUNT(t) FROM k").measured().values == ((40,),)


def test_unsigned_numbers_beyond_64_bits() -> None:
    few, found = check_column(pa.array([*range(20), 2**63, 2**64 - 1], pa.uint64()))
    assert (few.type, few.bounds, found.odd_cells) == (ColumnType.INTEGER, (0, 19), {"x": 2})
    many, found = check_column(pa.array([5, *range(2**63, 2**63 + 20)], pa.uint64()))
    assert (many.type, many.bounds, found.odd_cells) == (ColumnType.DECIMAL, None, {})
    assert any("no bounds are drafted" in remark for remark in draft(pa.table({"x": [1e300, 2.5]})).remarks)


def test_moments_with_a_zone_in_a_csv(tmp_path: Path) -> None:
    utc = write_csv(tmp_path, "at", [f"2024-03-{day:02d} 17:14:43+00:00" for day in range(1, 9)])
    written, found = check_draft(utc)
    assert written.schema.columns["at"].bounds == (
        datetime(2024, 3, 1, 17, 14, 43),  # noqa: DTZ001
        datetime(2024, 3, 8, 17, 14, 43),  # noqa: DTZ001
    )
    assert (found.agrees, found.odd_cells) == (True, {})
    elsewhere = write_csv(tmp_path, "at", [f"2024-03-{day:02d} 17:14:43+02:00" for day in range(1, 9)])
    written, found = check_draft(elsewhere)
    assert written.schema.columns["at"].type is ColumnType.TEXT
    assert any("not in UTC" in remark for remark in written.remarks)
    assert (found.agrees, found.odd_cells) == (True, {})


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("us", tz="UTC")), ColumnType.TIMESTAMP),
        (pa.array([date(2024, 1, 1), None], pa.date32()), ColumnType.DATE),
        (pa.array([True, None, False]), ColumnType.BOOLEAN),
        (pa.array([Decimal("1.25"), Decimal("7.00")]), ColumnType.DECIMAL),
        (pa.array([Decimal(3), Decimal(7)], pa.decimal128(10, 0)), ColumnType.INTEGER),
        (pa.array([None, None], pa.float64()), ColumnType.DECIMAL),
        (pa.array(["a", "b", "a"]), ColumnType.CATEGORY),
        (pa.array([2**62, -(2**63)], pa.int64()), ColumnType.INTEGER),
    ],
)
def test_other_columns_agree_with_their_draft(values: pa.Array, kind: ColumnType) -> None:
    column, found = check_column(values)
    assert (column.type, found.odd_cells) == (kind, {})
