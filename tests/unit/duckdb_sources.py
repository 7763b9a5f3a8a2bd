"""The same people in every kind of source that DuckDB reads, and the schema and rows that each must give."""

from __future__ import annotations

import gzip
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp

from dosimeter.engines.duckdb import DuckDBEngine
from dosimeter.schema.facts import Column, ColumnType, Schema

SCHEMA = Schema(
    table="people",
    individuals=10,
    columns={
        "age": Column("age", ColumnType.INTEGER, bounds=(Decimal(0), Decimal(100))),
        "pay": Column("pay", ColumnType.DECIMAL, bounds=(Decimal(0), Decimal(100)), resolution=Decimal("0.5")),
        "zip": Column("zip", ColumnType.CATEGORY, values=("01234", "99999")),
        "member": Column("member", ColumnType.BOOLEAN),
        "born": Column("born", ColumnType.DATE),
        "seen": Column("seen", ColumnType.TIMESTAMP),
        "name": Column("name", ColumnType.TEXT),
    },
)
CSV = """age,pay,zip,member,born,seen,name
31,1.5,01234,true,2000-01-31,2024-01-01 10:00:00,"Ada, ""the"" first"
32,,99999,false,1999-12-31,2024-01-02 11:30:00,Größe
,3,01234,,,,
"""
ROWS: list[dict[str, Any]] = [
    {"age": 31, "pay": 1.5, "zip": "01234", "member": True, "born": date(2000, 1, 31),
     "seen": datetime.fromisoformat("2024-01-01T10:00:00"), "name": 'Ada, "the" first'},
    {"age": 32, "pay": None, "zip": "99999", "member": False, "born": date(1999, 12, 31),
     "seen": datetime.fromisoformat("2024-01-02T11:30:00"), "name": "Größe"},
    {"age": None, "pay": 3.0, "zip": "01234", "member": None, "born": None, "seen": None, "name": None},
]  # fmt: skip
ARROW = pa.schema(
    [
        ("age", pa.int32()),
        ("pay", pa.float32()),
        ("zip", pa.dictionary(pa.int8(), pa.string())),
        ("member", pa.bool_()),
        ("born", pa.date32()),
        ("seen", pa.timestamp("ms", tz="UTC")),
        ("name", pa.large_string()),
    ]
)


def read_rows(engine: DuckDBEngine) -> list[dict[str, Any]]:
    engine.impose(SCHEMA)
    query = exp.select("*").from_(engine.relation())
    rows: list[dict[str, Any]] = engine.fetch(query).to_pylist()
    return rows


def arrow_table() -> pa.Table:
    return pa.Table.from_pylist(ROWS, schema=ARROW)


def make_csv(folder: Path) -> str:
    (folder / "people.csv").write_text(CSV, encoding="utf-8")
    return str(folder / "people.csv")


def make_gzip(folder: Path) -> str:
    (folder / "people.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    return str(folder / "people.csv.gz")


def make_parquet(folder: Path) -> str:
    pq.write_table(arrow_table(), folder / "people.parquet")
    return str(folder / "people.parquet")


def make_csv_glob(folder: Path) -> str:
    lines = CSV.splitlines(keepends=True)
    for at, line in enumerate(lines[1:]):
        (folder / f"part{at}.csv").write_text(lines[0] + line, encoding="utf-8")
    return str(folder / "part*.csv")


def make_parquet_glob(folder: Path) -> str:
    table = arrow_table()
    for at in range(3):
        columns = table.column_names if at % 2 else table.column_names[::-1]  # by name, whatever the order
        pq.write_table(table.slice(at, 1).select(columns), folder / f"part{at}.parquet")
    return str(folder / "part*.parquet")


def make_database(folder: Path) -> str:
    table = arrow_table()
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.register("incoming", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM incoming")
    return f"duckdb:{folder / 'people.duckdb'}"


SOURCES = [make_csv, make_gzip, make_parquet, make_csv_glob, make_parquet_glob, make_database]


def only(name: str, kind: ColumnType, **facts: Any) -> Schema:
    return Schema("people", {name: Column(name, kind, **facts)}, individuals=10)
