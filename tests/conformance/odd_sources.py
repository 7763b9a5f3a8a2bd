"""Raw rows written into every source, without the product: files by three writers, frames in memory, databases.

``write_source`` gives what ``Dataset.open`` takes. Nothing here knows the rule: an odd cell goes in as it is.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.conformance.odd_tables import FAMILIES, Endless, OddColumn, Row

ROW_GROUP = 5
ARROW_TYPES: dict[str, pa.DataType] = {
    "float64": pa.float64(),
    "float32": pa.float32(),
    "uint64": pa.uint64(),
    "int64": pa.int64(),
    "decimal128": pa.decimal128(38, 0),
    "decimal128(38, 10)": pa.decimal128(38, 10),
    "date32": pa.date32(),
    "timestamp[us]": pa.timestamp("us"),
    "timestamp[us, UTC]": pa.timestamp("us", tz="UTC"),
    "timestamp[ms]": pa.timestamp("ms"),
    "timestamp[ms, UTC]": pa.timestamp("ms", tz="UTC"),
    "timestamp[s]": pa.timestamp("s"),
    "timestamp[ns]": pa.timestamp("ns"),
}


@dataclass(frozen=True)
class Written:
    """A table as a source holds it: what ``Dataset.open`` gets, and the joined tables beside it."""

    source: Any
    options: Mapping[str, Any]
    tables: Mapping[str, Any]  # tables in memory
    located: Mapping[str, str]  # joined tables that the schema names as files


Tables = Mapping[str, tuple[Sequence[Row], Sequence[OddColumn]]]  # name → raw rows, and the columns that are no text


def write_source(source: str, tables: Tables, folder: Path, connect: Callable[[], Any] | None = None) -> Written:
    """Write ``t`` and the tables that may be joined with it. ``connect`` opens a PostgreSQL for the folder's name."""
    folder.mkdir(parents=True, exist_ok=True)
    match source:
        case "csv" | "spark csv" | "csv.gz":
            ending = "csv.gz" if source == "csv.gz" else "csv"
            paths = {name: _write_csv(folder / f"{name}.{ending}", rows) for name, (rows, _) in tables.items()}
            return _files(paths, source, {"delimiter": ","} if "spark" not in source else {})
        case "parquet by pyarrow" | "parquet by polars" | "parquet by duckdb" | "spark parquet":
            paths = {
                name: write_parquet(source, folder / f"{name}.parquet", as_arrow(rows, columns))
                for name, (rows, columns) in tables.items()
            }
            return _files(paths, source, {})
        case "arrow" | "pandas" | "polars":
            frames = {name: _frame(source, as_arrow(rows, columns)) for name, (rows, columns) in tables.items()}
            return Written(frames.pop("t"), {"table": "t"}, frames, {})
        case "duckdb":
            path = folder / "all.duckdb"
            with duckdb.connect(str(path)) as connection:
                for name, (rows, columns) in tables.items():
                    _write_duckdb(connection, name, rows, columns)
            return Written(f"duckdb:{path}", {"table": "t"}, {}, {})
        case _:
            assert connect is not None
            place, url = folder.name, _write_postgres(connect, folder.name, tables)
            return Written(url, {"table": f"{place}.t"}, {}, {})


def _files(paths: Mapping[str, str], source: str, options: Mapping[str, Any]) -> Written:
    engine = {"engine": "spark"} if source.startswith("spark") else {}
    located = {name: path for name, path in paths.items() if name != "t"}
    return Written(paths["t"], {**options, **engine}, {}, located)


# ---------------------------------------------------------------- files


def _write_csv(path: Path, rows: Sequence[Row]) -> str:
    opening: Any = gzip.open if path.suffix == ".gz" else open
    with opening(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([list(rows[0]), *(["" if cell is None else cell for cell in row.values()] for row in rows)])
    return str(path)


def write_parquet(source: str, path: Path, table: pa.Table) -> str:
    """Several row groups, with statistics; DuckDB writes none that are smaller than its vectors, so it gets one."""
    if source == "parquet by polars":
        import polars as pl

        pl.DataFrame(pl.from_arrow(table)).write_parquet(path, row_group_size=ROW_GROUP, statistics=True)
    elif source == "parquet by duckdb":
        with duckdb.connect() as connection:
            connection.register("source", table)
            connection.execute(f"COPY source TO '{path}' (FORMAT parquet)")
    else:
        pq.write_table(table, path, row_group_size=ROW_GROUP)
    return str(path)


# ---------------------------------------------------------------- memory


def as_arrow(rows: Sequence[Row], columns: Sequence[OddColumn]) -> pa.Table:
    typed = {column.name: column for column in columns}
    cells = {name: [row[name] for row in rows] for name in rows[0]}
    return pa.table({name: _as_array(own, typed[name].arrow if name in typed else None) for name, own in cells.items()})


def _as_array(cells: Sequence[Any], kind: str | None) -> pa.Array:
    if kind is None:
        return pa.array(cells, pa.string())
    wanted = ARROW_TYPES[kind]
    if not pa.types.is_temporal(wanted):
        return pa.array(cells, wanted)
    counted = pa.int32() if kind == "date32" else pa.int64()
    return pa.array([_count(cell, counted) for cell in cells], counted).cast(wanted)


def _count(cell: Any, counted: pa.DataType) -> int | None:
    """Infinite days and moments are the outermost numbers for DuckDB, and far-away days for everybody else."""
    largest = 2**31 - 1 if counted == pa.int32() else 2**63 - 1
    return cell.sign * largest if isinstance(cell, Endless) else cell


def _frame(source: str, table: pa.Table) -> Any:
    if source == "polars":
        import polars as pl

        return pl.from_arrow(table)
    if source == "pandas":
        import pandas as pd

        plain = [pa.float64(), pa.float32(), pa.string()]
        return table.to_pandas(types_mapper=lambda kind: None if kind in plain else pd.ArrowDtype(kind))
    return table


# ---------------------------------------------------------------- databases


def _write_duckdb(
    connection: duckdb.DuckDBPyConnection, name: str, rows: Sequence[Row], columns: Sequence[OddColumn]
) -> None:
    """Numbers as literals; days and moments from Arrow, since no literal reaches all that DuckDB's types can count."""
    kinds = {column.name: column for column in columns}
    temporal = [column for column in columns if column.kind in ("date", "timestamp") and column.name in rows[0]]
    places = pa.table({"place": range(len(rows))})
    counted = as_arrow([{column.name: row[column.name] for column in temporal} for row in rows], columns)
    for column in counted.column_names:
        places = places.append_column(column, counted.column(column))
    connection.register("counted", places)
    listed = ", ".join(f"{key} {kinds[key].duckdb if key in kinds else 'VARCHAR'}" for key in rows[0])
    connection.execute(f"CREATE TABLE {name} ({listed})")
    for place, row in enumerate(rows):
        values = [
            f"(SELECT {key} FROM counted WHERE place = {place})"
            if key in counted.column_names
            else _duckdb_literal(cell, kinds.get(key))
            for key, cell in row.items()
        ]
        connection.execute(f"INSERT INTO {name} SELECT {', '.join(values)}")
    connection.unregister("counted")


def _duckdb_literal(cell: Any, column: OddColumn | None) -> str:
    if cell is None:
        return "NULL"
    text = "'" + str(cell).replace("'", "''") + "'"
    return text if column is None else f"CAST({text} AS {column.duckdb})"


def _write_postgres(connect: Callable[[], Any], place: str, tables: Tables) -> str:
    with connect() as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        connection.execute(f"CREATE SCHEMA {place}")
        for name, (rows, columns) in tables.items():
            kinds = {column.name: column for column in columns}
            listed = ", ".join(f"{key} {kinds[key].postgres if key in kinds else 'text'}" for key in rows[0])
            connection.execute(f"CREATE TABLE {place}.{name} ({listed})")
            values = [
                "(" + ", ".join(_postgres_literal(cell, kinds.get(key)) for key, cell in row.items()) + ")"
                for row in rows
            ]
            connection.execute(f"INSERT INTO {place}.{name} VALUES {', '.join(values)}")
        info = connection.info
        return f"postgresql://postgres@/{info.dbname}?host={info.host}"


def _postgres_literal(cell: Any, column: OddColumn | None) -> str:
    if cell is None or column is None:
        return "NULL" if cell is None else "'" + str(cell).replace("'", "''") + "'"
    if isinstance(cell, Endless):
        return f"CAST('{'-' if cell.sign < 0 else ''}infinity' AS {column.postgres})"
    match column.kind:
        case "date":
            return f"DATE '1970-01-01' + {cell}"
        case "timestamp":
            moment = f"TIMESTAMP '1970-01-01' + {cell // 1_000_000} * INTERVAL '1 second'"
            moment += f" + {cell % 1_000_000} * INTERVAL '1 microsecond'"
            return f"({moment}) AT TIME ZONE 'UTC'" if column.postgres == "timestamptz" else moment
        case _:
            return f"CAST('{cell}' AS {column.postgres})"


assert set(FAMILIES.values()) == {"csv", "arrow", "duckdb", "postgres"}
