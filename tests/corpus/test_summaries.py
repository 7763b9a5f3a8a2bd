"""A summary of every table of the corpus: planned from the schema, and without noise what plain DuckDB says.

The other road: DuckDB counts each column of the tables themselves. Where rows or values may not count as they are, the
tables keep to what their schemas declare.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Dataset, Ledger, OptionError, QueryError
from dosimeter.planning import plan_query
from dosimeter.schema import Column, ColumnType, Schema, load_schema
from dosimeter.summary import ColumnSummary, Figure, write_summary
from tests.corpus.reading import FOLDER
from tests.corpus.tables import ROWS, find_source
from tests.shared_duckdb import ask_plain_duckdb

SCHEMAS = sorted(path.stem for path in FOLDER.glob("*.toml"))
EXACT = 1e9  # noise of a whole step has a probability below e⁻⁹⁰⁰⁰⁰
TOO_LARGE = {"numbers": "large"}  # a column whose sum has no room
SHARES = (0.25, 0.5, 0.75)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_has_a_summary(name: str) -> None:
    schema = load_schema(FOLDER / f"{name}.toml")
    columns = [column for column in schema.columns if column != schema.unit]
    assert write_summary(schema) == write_summary(schema, columns)
    if name in TOO_LARGE:
        with pytest.raises(QueryError, match=f"{TOO_LARGE[name]} is too large to count exactly"):
            plan_query(write_summary(schema), schema)
    columns = choose_columns(name, schema)
    plan = plan_query(write_summary(schema, columns), schema)
    assert len(plan.blocks) == 1 + len(columns)


def choose_columns(name: str, schema: Schema) -> list[str]:
    """Return the columns that can be summarised together."""
    return [each for each in schema.columns if each not in (schema.unit, TOO_LARGE.get(name))]


@pytest.mark.parametrize("name", ROWS)
def test_without_noise_it_is_what_plain_sql_counts(name: str, tmp_path: Path) -> None:
    source = find_source(name)
    schema = replace(source.schema, reviewed=True)
    with (
        Dataset.open(source.rows, schema=schema, table=schema.table, tables=source.others) as dataset,
        Ledger.open(tmp_path / "ledger.db") as ledger,
    ):
        columns = choose_columns(name, schema)
        found = dataset.summary(ledger, epsilon=EXACT, columns=columns, policy="budget:1e12")
    with ask_plain_duckdb(t=source.rows) as plain:

        def count(condition: str) -> Any:
            return known_row(plain.execute(f"SELECT COUNT(*) FROM t WHERE {condition}").fetchone())

        assert found.rows is not None
        assert found.rows.value == count("true")
        compared = [check_column(each, count, plain) for each in found.columns]
    assert [each.declared.name for each in found.columns] == columns
    assert sum(compared) > 0, "nothing but counts was compared"


def known_row(row: tuple[Any, ...] | None) -> Any:
    assert row is not None
    return row[0]


def check_column(found: ColumnSummary, count: Any, plain: Any) -> int:
    """Compare a column; return how many numbers besides its counts were compared."""
    column = found.declared
    name = f'"{column.name}"'
    rows = count(f"{name} IS NOT NULL")
    assert found.count.value == rows
    assert found.missing.value == count(f"{name} IS NULL")
    for value, figure in found.values:
        assert figure.value == count(f"CAST({name} AS TEXT) = '{value}'")
    assert [count_of(figure) for _, figure in found.values] == sorted(
        (count_of(figure) for _, figure in found.values), reverse=True
    )
    if found.mean is not None and found.mean.value is not None:
        mean = known_row(plain.execute(f"SELECT AVG({name}) FROM t").fetchone())
        assert found.mean.value == pytest.approx(float(mean), rel=1e-5, abs=1e-5)
    for share, figure in zip(SHARES, found.quartiles, strict=False):
        low, high = find_step(column, figure.value)
        assert count(f"{name} < {low}") <= share * rows <= count(f"{name} <= {high}")
    return len(found.values) + len(found.quartiles)


def count_of(figure: Figure) -> int:
    assert isinstance(figure.value, int)
    return figure.value


def find_step(column: Column, value: Any) -> tuple[str, str]:
    """Return the ends of the values that a quartile can stand for, as SQL: candidates can be coarser."""
    if isinstance(value, str):
        day = date.fromisoformat(value)
        if column.type is ColumnType.DATE:
            return f"DATE '{day}'", f"DATE '{day}'"
        return f"TIMESTAMP '{day}'", f"TIMESTAMP '{day} 23:59:59.999999'"
    assert column.bounds is not None
    width = float(column.bounds[1]) - float(column.bounds[0])  # type: ignore[arg-type]
    step = max(width / 65_535, 1e-9)
    return repr(value - step), repr(value + step)


def test_a_schema_of_individuals_alone_has_none() -> None:
    schema = Schema("t", {"who": Column("who", ColumnType.TEXT)}, individuals=3, unit="who", reviewed=True)
    with pytest.raises(OptionError, match="no column to summarise"):
        write_summary(schema)
