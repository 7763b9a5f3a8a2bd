"""Choose the engine for a source: files and data frames in DuckDB, databases where they are, Spark when asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dosimeter.engines.engine import Engine, ReadOptions
from dosimeter.errors import DataError, OptionError
from dosimeter.problems import Option, leave_out

if TYPE_CHECKING:
    import pyarrow as pa

_POSTGRES = ("postgresql", "postgres")


def open_engine(source: Any, engine: str | None, options: ReadOptions) -> Engine:
    """Open a path, glob or URL, ``duckdb:PATH``, ``spark:TABLE``, a table in memory, a Spark session or DataFrame.

    ``engine``: the name of the engine to use; None chooses by the source. Raises OptionError if this engine cannot read
    this source.
    """
    if engine is not None and engine not in ENGINES:
        raise OptionError(f"There is no engine {engine}. Available: {', '.join(ENGINES)}.")
    if isinstance(source, str) and source in ("-", "/dev/stdin"):
        raise OptionError(
            "Data cannot come from standard input: they are read several times, and known again by their digest. Write "
            "them to a file first."
        )
    wanted = _engine_of(source)
    if wanted is not None and engine not in (None, wanted):
        raise OptionError(f"This source is read by {wanted}, not by {engine}.", leave_out("engine"))
    chosen = engine or wanted or "duckdb"
    given = str(source) if isinstance(source, (str, Path)) else source
    return ENGINES[chosen](given, options)


def _engine_of(source: Any) -> str | None:
    """Return the name of the only engine that can read this source; None where several can."""
    if isinstance(source, str):
        scheme = source.partition(":")[0]
        if scheme in (*_POSTGRES, "postgresql+psycopg") and source.startswith(f"{scheme}://"):
            return "postgres"
        return scheme if scheme in ("duckdb", "spark") and ":" in source else None
    return "spark" if type(source).__module__.startswith("pyspark.") else None


def _open_postgres(source: Any, options: ReadOptions) -> Engine:
    if _engine_of(source) != "postgres":
        raise OptionError(
            Option("engine", "postgres"), " needs a URL: postgresql://user@host/database, and ", Option("table"), "."
        )
    try:
        from dosimeter.engines.postgres import open_postgres
    except ImportError:
        raise OptionError("PostgreSQL needs the psycopg driver: pip install 'dosimeter[postgres]'.") from None
    return open_postgres(source.replace("postgresql+psycopg://", "postgresql://", 1), options)


def _open_spark(source: Any, options: ReadOptions) -> Engine:
    if not isinstance(source, str) and _engine_of(source) != "spark":
        raise OptionError(
            Option("engine", "spark"),
            " reads files, tables of its catalogue and its own DataFrames. Leave it out here.",
        )
    from dosimeter.engines.spark import open_spark

    return open_spark(source, options)


def _open_duckdb(source: Any, options: ReadOptions) -> Engine:
    from dosimeter.engines.duckdb import open_duckdb

    if not isinstance(source, str):
        return open_duckdb(_as_arrow(source), options)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", source):
        raise OptionError(
            f"{source.split('://')[0]}:// is not supported. Use a file, a glob, duckdb:PATH or postgresql://…; ",
            Option("engine", "spark"),
            " reads what Spark can reach.",
        )
    return open_duckdb(source, options)


ENGINES: Mapping[str, Callable[[Any, ReadOptions], Engine]] = {
    "duckdb": _open_duckdb,
    "postgres": _open_postgres,
    "spark": _open_spark,
}


def read_frames(tables: Mapping[str, object]) -> dict[str, object]:
    """Return the tables given beside the source for joins: paths and Spark's tables unchanged, all others as Arrow."""
    return {
        name: table if isinstance(table, str) or _engine_of(table) == "spark" else _as_arrow(table)
        for name, table in tables.items()
    }


def _as_arrow(source: Any) -> pa.Table:
    import pyarrow as pa

    kind = f"{type(source).__module__}.{type(source).__name__}"
    try:
        if isinstance(source, pa.Table):
            return source
        if isinstance(source, pa.RecordBatch):
            return pa.Table.from_batches([source])
        if kind.startswith("pandas."):
            if not source.columns.is_unique:
                raise DataError(
                    f"The {kind} has two columns of one name, which SQL cannot tell apart. Rename one first."
                )
            return pa.Table.from_pandas(source, preserve_index=False)
        if kind.startswith("polars."):
            return source.collect().to_arrow() if hasattr(source, "collect") else source.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, AttributeError, OverflowError):
        # Arrow's own message quotes the cell it stumbled on.
        raise DataError(
            f"The {kind} cannot be read as a table: a column mixes types, or holds what has no type here. "
            "Give every column one type first."
        ) from None
    raise OptionError(
        f"A {kind} cannot be read. Give a path, a URL, duckdb:PATH, or a pandas, Polars, Arrow or Spark table."
    )
