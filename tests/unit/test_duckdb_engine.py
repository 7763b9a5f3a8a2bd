"""The embedded engine: every source gives the same rows, no message quotes a cell, and it reads nothing else."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

from dosimeter.engines.duckdb import DuckDBEngine, open_duckdb
from dosimeter.engines.engine import ReadOptions
from dosimeter.errors import DataError, DosimeterError, Interrupted, OptionError
from dosimeter.influence.measured_rows import count_individuals
from dosimeter.influence.rows.row_profile import measure_answer, measure_profile
from dosimeter.planning import PlanOptions, plan_query
from dosimeter.schema.facts import Column, ColumnType, Schema
from tests.interrupting import interrupting
from tests.whole_tables import whole_table

# The same people in every kind of source that DuckDB reads, and the schema and rows that each must give.
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


SECRET, DIGITS = "SECRETCELL", "987654321"


@pytest.mark.parametrize("make", SOURCES)
def test_every_source_gives_the_same_rows(make: Callable[[Path], str], tmp_path: Path) -> None:
    engine = open_duckdb(make(tmp_path))
    assert read_rows(engine) == ROWS
    assert count_individuals(engine) == 3
    engine.close()


def test_arrow_gives_the_same_rows() -> None:
    engine = open_duckdb(arrow_table(), ReadOptions(table="people"))
    assert engine.default_table() == "people"
    assert read_rows(engine) == ROWS
    assert engine.rows_fetched == 3


def test_relative_paths_and_table_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_gzip(tmp_path)
    monkeypatch.chdir(tmp_path)
    engine = open_duckdb("people.csv.gz")
    assert engine.default_table() == "people"
    assert read_rows(engine) == ROWS
    assert open_duckdb("people.csv.gz", ReadOptions(table="adults")).default_table() == "adults"


@pytest.mark.parametrize("name", ["data[1].csv", "da*ta.csv", "wh?t.csv", "it's.csv", "名前.csv"])
def test_a_file_name_is_no_pattern(name: str, tmp_path: Path) -> None:
    (tmp_path / "data1.csv").write_text(CSV.replace("31,", "99,"), encoding="utf-8")
    (tmp_path / "daxta.csv").write_text(CSV.replace("31,", "99,"), encoding="utf-8")
    (tmp_path / "what.csv").write_text(CSV.replace("31,", "99,"), encoding="utf-8")
    (tmp_path / name).write_text(CSV, encoding="utf-8")
    assert read_rows(open_duckdb(str(tmp_path / name))) == ROWS


def test_types_are_the_schemas(tmp_path: Path) -> None:
    """01234 stays text for a category and is a number for an integer, whatever the file looks like."""
    (tmp_path / "people.csv").write_text("zip\n01234\n00007\n")
    engine = open_duckdb(str(tmp_path / "people.csv"))
    for kind, expected in ((ColumnType.CATEGORY, ["01234", "00007"]), (ColumnType.INTEGER, [1234, 7])):
        engine.impose(Schema("people", {"zip": Column("zip", kind)}))
        rows = engine.fetch(exp.select("*").from_(engine.relation())).column("zip").to_pylist()
        assert rows == expected
    assert engine.describe().keys() == {"zip"}


def test_columns_are_found_whatever_their_case(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("AGE,Other\n3,x\n")
    engine = open_duckdb(str(tmp_path / "people.csv"))
    engine.impose(Schema("people", {"age": SCHEMA.columns["age"]}))
    assert engine.fetch(exp.select("*").from_(engine.relation())).to_pylist() == [{"age": 3}]


def test_fingerprint_follows_the_content(tmp_path: Path) -> None:
    path = make_csv(tmp_path)
    first = open_duckdb(path).fingerprint()
    assert open_duckdb(path).fingerprint() == first
    Path(path).write_text(CSV.replace("31", "30"), encoding="utf-8")
    assert open_duckdb(path).fingerprint() != first
    table = arrow_table()
    rebuilt = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert open_duckdb(table).fingerprint() == open_duckdb(rebuilt).fingerprint()
    assert open_duckdb(table).fingerprint() != open_duckdb(table.slice(1)).fingerprint()


# ---------------------------------------------------------------- what is wrong, told without a cell


def fail(source: str | pa.Table, schema: Schema, sql: str = "", options: ReadOptions | None = None) -> str:
    """The message of whichever step fails: opening, imposing, profiling or answering."""
    with pytest.raises(DosimeterError) as failure:
        run_everything(source, schema, sql, options)
    assert failure.value.exit_code == 2
    message = str(failure.value)
    chain, link = [], failure.value.__cause__ or failure.value.__context__
    while link is not None and not failure.value.__suppress_context__:
        chain.append(str(link))
        link = link.__cause__ or link.__context__
    for text in (message, *chain):
        assert SECRET not in text
        assert DIGITS not in text
        assert "\n" not in text
    return message


def run_everything(source: str | pa.Table, schema: Schema, sql: str, options: ReadOptions | None) -> None:
    engine = open_duckdb(source, options)
    engine.impose(schema)
    everything = ", ".join(f'COUNT("{name}")' for name in schema.columns)
    plan = plan_query(sql or f"SELECT {everything} FROM {schema.table}", schema, PlanOptions(groups="observed"))
    measure_profile(plan, whole_table(engine))
    measure_answer(plan, whole_table(engine))
    engine.fetch(exp.select("*").from_(engine.relation()))


def test_a_connection_is_closed_whatever_stops_the_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[duckdb.DuckDBPyConnection] = []
    connect = duckdb.connect

    def connect_and_keep(*given: Any, **named: Any) -> duckdb.DuckDBPyConnection:
        opened.append(connect(*given, **named))
        return opened[-1]

    monkeypatch.setattr(duckdb, "connect", connect_and_keep)
    (tmp_path / "a.csv").write_text("age,pay\n1,2\n")
    (tmp_path / "b.csv").write_text("pay,age\n30,40\n")
    with pytest.raises(DataError, match="same columns"):
        open_duckdb(str(tmp_path / "*.csv"))
    with pytest.raises(OptionError, match="not supported"):
        open_duckdb(str(tmp_path / "a.csv"), ReadOptions(encoding="cp437"))
    assert len(opened) == 2
    for connection in opened:
        with pytest.raises(duckdb.ConnectionException):
            connection.execute("SELECT 1")


@pytest.mark.parametrize(
    "content",
    [
        f'age,pay\n1,"{SECRET}\n2,{DIGITS}\n',
        f"age,pay\n{SECRET}\n",
        "",
        "\n\n\n",
    ],
)
def test_malformed_csv(content: str, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(content)
    fail(str(path), only("age", ColumnType.INTEGER))


def test_csv_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"{SECRET},{DIGITS}\nfoo,1\nbar,2\n")
    assert "must name its columns" in fail(str(path), only("age", ColumnType.INTEGER))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([SECRET], ColumnType.INTEGER),
        ([True], ColumnType.INTEGER),
        ([SECRET], ColumnType.DECIMAL),
        ([1], ColumnType.TEXT),
        ([1], ColumnType.BOOLEAN),
        (["2020-01-01"], ColumnType.DATE),
        ([date(2020, 1, 1)], ColumnType.TIMESTAMP),
        ([[SECRET]], ColumnType.TEXT),
        ([{SECRET: 1}], ColumnType.INTEGER),
    ],
)
def test_wrong_type_in_a_typed_source(values: list[Any], kind: ColumnType, tmp_path: Path) -> None:
    table = pa.table({"age": values})
    message = fail(table, only("age", kind))
    assert "Change one" in message or "no equivalent here" in message
    assert ('parse_dates=["age"]' in message) is (kind is ColumnType.DATE)
    pq.write_table(table, tmp_path / "people.parquet")
    assert "age" in fail(str(tmp_path / "people.parquet"), only("age", kind))


def test_enumerated_values_are_cells_too(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "p.duckdb")) as connection:
        connection.execute(f"CREATE TYPE mood AS ENUM ('{SECRET}', '{DIGITS}')")
        connection.execute("CREATE TABLE people (age mood)")
    message = fail(f"duckdb:{tmp_path / 'p.duckdb'}", only("age", ColumnType.INTEGER))
    assert "ENUM" in message


@pytest.mark.parametrize(
    "column",
    [
        pa.array([7, int(DIGITS + DIGITS + "1"), None], pa.decimal128(38, 0)),
        pa.array([7, 2**64 - 1, 2**63], pa.uint64()),
        pa.array([7.0, 2.0**63, -(2.0**64)], pa.float64()),
        pa.array([7.0, 7.5, float("nan")], pa.float32()),
        pa.array([Decimal("7.00"), Decimal("7.01"), Decimal("1e30")], pa.decimal128(38, 2)),
    ],
)
def test_what_is_no_whole_number_of_64_bits_is_null(column: pa.Array) -> None:
    engine = open_duckdb(pa.table({"age": column}))
    engine.impose(only("age", ColumnType.INTEGER))
    assert engine.fetch(exp.select("*").from_(engine.relation())).column("age").to_pylist() == [7, None, None]
    assert engine.count_odd_cells(["age"]) == {"age": 2 - column.null_count}


def test_overflow_in_an_expression_of_the_engine_quotes_no_cell() -> None:
    """No query of an analyst can overflow any more; whatever else fails in the engine must not quote a cell."""
    engine = open_duckdb(pa.table({"age": [int(DIGITS) * 10**9]}))
    squared = exp.Mul(this=exp.column("age"), expression=exp.column("age"))
    with pytest.raises(DataError) as caught:
        engine.fetch(exp.select(exp.Sum(this=squared)).from_(engine.relation()))
    assert DIGITS not in str(caught.value)


def test_tables_of_a_database(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "p.duckdb")) as connection:
        connection.execute("CREATE TABLE one (age BIGINT)")
        connection.execute("CREATE VIEW two AS SELECT 7 AS age")
        connection.execute('CREATE SCHEMA deep; CREATE TABLE deep."od""d" AS SELECT 8 AS age')
    source = f"duckdb:{tmp_path / 'p.duckdb'}"
    with pytest.raises(OptionError, match="3 tables"):
        open_duckdb(source)
    with pytest.raises(DataError, match="has no table three"):
        open_duckdb(source, ReadOptions(table="three"))
    engines = [open_duckdb(source, ReadOptions(table=table)) for table in ("one", "two", 'deep.od"d')]
    with duckdb.connect(str(tmp_path / "one.duckdb")) as connection:
        connection.execute("CREATE SCHEMA deep; CREATE TABLE deep.people AS SELECT 8 AS age")
    engines.append(open_duckdb(f"duckdb:{tmp_path / 'one.duckdb'}"))  # the only table may be in a schema
    assert engines[-1].default_table() == "deep.people"
    for engine, rows in zip(engines, (0, 1, 1, 1), strict=True):
        engine.impose(only("age", ColumnType.INTEGER))
        assert count_individuals(engine) == rows


@pytest.mark.parametrize("replace", [os.replace, shutil.copyfile])
def test_a_database_that_was_replaced_is_not_read_on(tmp_path: Path, replace: Callable[[Path, Path], object]) -> None:
    """It stays attached: answers would be of the old rows, and the ledger would have them under the new digest."""
    for name, rows in (("p.duckdb", 3), ("new.duckdb", 5000)):
        with duckdb.connect(str(tmp_path / name)) as connection:
            connection.execute(f"CREATE TABLE people AS SELECT range AS age FROM range({rows})")
    engine = open_duckdb(f"duckdb:{tmp_path / 'p.duckdb'}")
    engine.impose(only("age", ColumnType.INTEGER))
    engine.refresh()
    assert count_individuals(engine) == 3
    replace(tmp_path / "new.duckdb", tmp_path / "p.duckdb")
    with pytest.raises(DataError, match="leads to another file now"):
        engine.refresh()


def test_moments_for_days_are_refused_with_a_remedy_that_works(tmp_path: Path) -> None:
    table = pd.DataFrame({"age": pd.to_datetime(["2020-01-01", None])})
    table.to_parquet(tmp_path / "people.parquet")
    for source in (pa.Table.from_pandas(table), str(tmp_path / "people.parquet")):
        message = fail(source, only("age", ColumnType.DATE))
        assert ".dt.date" in message
        assert "CAST(age AS" in message
    table["age"] = table["age"].dt.date
    engine = open_duckdb(pa.Table.from_pandas(table))
    engine.impose(only("age", ColumnType.DATE))
    assert engine.fetch(exp.select("*").from_(engine.relation())).column("age").null_count == 1


def test_a_column_whose_name_has_a_line_break(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text('"a,\nb"\n1\n2\n')
    engine = open_duckdb(str(path))
    assert dict(engine.describe()) == {"a,\nb": ColumnType.INTEGER}
    assert count_individuals(engine) == 2
    engine.close()


# ---------------------------------------------------------------- what it cannot do


@pytest.mark.parametrize("make", [make_csv, make_parquet, make_database])
def test_a_locked_connection_reads_and_writes_nothing_else(make: Callable[[Path], str], tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a\n1\n")
    engine = open_duckdb(make(tmp_path))
    engine.impose(SCHEMA)
    connection = engine._connection
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for statement in (
        f"SELECT * FROM read_csv('{other}')",
        f"SELECT * FROM '{other}'",
        f"SELECT * FROM read_text('{other}')",
        f"SELECT * FROM glob('{tmp_path}/*')",
        f"COPY (SELECT 1) TO '{tmp_path / 'new.csv'}'",
        f"EXPORT DATABASE '{tmp_path / 'export'}'",
        f"ATTACH '{tmp_path / 'new.db'}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM 'https://example.org/x.csv'",
        "SET enable_external_access = true",
        f"SET allowed_paths = ['{other}']",
        "SET lock_configuration = false",
        "RESET enable_external_access",
        "PRAGMA enable_external_access",
        "SELECT * FROM SCHEMA",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(statement)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert read_rows(engine) == ROWS


@pytest.mark.parametrize("fetch", [DuckDBEngine.fetch, DuckDBEngine.fetch_few])
def test_only_selects_run(fetch: Any) -> None:
    engine = open_duckdb(arrow_table())
    refused: list[Any] = [exp.Drop(this=exp.to_table("x"), kind="TABLE"), exp.Command(this="CHECKPOINT"), "SELECT 1"]
    for tree in refused:
        with pytest.raises(TypeError, match="only SELECT trees"):
            fetch(engine, tree)


def test_few_rows_hold_what_arrow_holds() -> None:
    """Every type that a group or a total can have, and NULL; totals beyond 64 bits stay exact."""
    kinds = ["HUGEINT", "DOUBLE", "BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP", "BIGINT", "DECIMAL(38, 0)"]
    values = ["100000000000000000001", "1.5", "true", "'é'", "'2024-02-29'", "'2024-02-29 23:59:59.000001'", "-7", "12"]
    cells = [f"CAST({value} AS {kind}) AS c{at}" for at, (kind, value) in enumerate(zip(kinds, values, strict=True))]
    nulls = [f"CAST(NULL AS {kind}) AS n{at}" for at, kind in enumerate(kinds)]
    engine = open_duckdb(arrow_table())
    query = exp.select(*cells, *nulls, dialect="duckdb").from_(engine.relation())
    few, many = engine.fetch_few(query), engine.fetch(query)
    assert engine.rows_fetched == 6
    assert few.num_rows == many.num_rows == 3
    assert few.column_names == many.column_names
    assert few.column("c0") == [100000000000000000001] * 3
    for name in few.column_names[1:]:
        assert few.column(name) == many.column(name).to_pylist()


@pytest.mark.parametrize("fetch", [DuckDBEngine.fetch, DuckDBEngine.fetch_few])
def test_python_variables_are_no_tables(fetch: Any) -> None:
    hidden = arrow_table()
    engine = open_duckdb(arrow_table())
    with pytest.raises(DataError):
        fetch(engine, exp.select("*").from_("hidden"))
    assert hidden.num_rows == 3


@pytest.mark.parametrize("fetch", [DuckDBEngine.fetch, DuckDBEngine.fetch_few])
def test_a_query_can_be_interrupted(fetch: Any) -> None:
    engine = open_duckdb(pa.table({"age": range(3000)}))
    engine.impose(only("age", ColumnType.INTEGER))
    endless = exp.select("COUNT(*)").from_(exp.alias_(engine.relation(), "t0", table=True))
    for at in range(1, 5):
        endless = endless.join(exp.alias_(engine.relation(), f"t{at}", table=True), join_type="cross")
    endless = endless.where("(t0.age + t1.age + t2.age * t3.age + t4.age) % 7 = 1")
    with interrupting(engine), pytest.raises(Interrupted):
        fetch(engine, endless)
    assert count_individuals(engine) == 3000
    progress = engine.progress()
    assert progress is None or 0 <= progress <= 100
