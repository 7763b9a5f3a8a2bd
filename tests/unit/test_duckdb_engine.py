"""The embedded engine: every source gives the same rows, types are the schema's, and no message quotes a cell."""

from __future__ import annotations

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

from dosimeter.engines.duckdb import open_duckdb
from dosimeter.engines.engine import ReadOptions
from dosimeter.engines.opening import open_engine
from dosimeter.errors import DataError, DosimeterError, OptionError
from dosimeter.influence.measured_rows import count_individuals
from dosimeter.influence.rows.row_profile import measure_answer, measure_profile
from dosimeter.planning.planner import PlanOptions, plan_query
from dosimeter.schema.facts import Column, ColumnType, Schema
from tests.unit.duckdb_sources import (
    CSV,
    ROWS,
    SCHEMA,
    SOURCES,
    arrow_table,
    make_csv,
    make_gzip,
    only,
    read_rows,
)
from tests.whole_tables import whole_table

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


def test_csv_options(tmp_path: Path) -> None:
    text = CSV.replace('"Ada, ""the"" first"', "Ada").replace(",", ";").replace("32;;", "32;n/a;")
    (tmp_path / "people.csv").write_text(text, encoding="latin-1")
    options = ReadOptions(delimiter=";", encoding="latin-1", null="n/a")
    engine = open_duckdb(str(tmp_path / "people.csv"), options)
    engine.impose(Schema("people", {name: SCHEMA.columns[name] for name in ("pay", "name")}))
    rows = engine.fetch(exp.select("*").from_(engine.relation())).to_pylist()
    assert rows[:2] == [{"pay": 1.5, "name": "Ada"}, {"pay": None, "name": "Größe"}]
    with pytest.raises(OptionError, match="one character"):
        open_duckdb(str(tmp_path / "people.csv"), ReadOptions(delimiter=";;"))


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


def read_odd(path: Path, name: str, kind: ColumnType) -> list[Any]:
    """The cells of a CSV's column. Those that are not of its type are NULL, are counted, and make it doubtful."""
    engine = open_duckdb(str(path))
    engine.impose(only(name, kind))
    values: list[Any] = engine.fetch(exp.select("*").from_(engine.relation())).column(name).to_pylist()
    assert engine.odd_cells([name]) == {name: values.count(None)}
    assert engine.doubtful_columns() <= {name}
    engine.close()
    return values


@pytest.mark.parametrize("kind", [ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.BOOLEAN, ColumnType.DATE,
                                  ColumnType.TIMESTAMP])  # fmt: skip
@pytest.mark.parametrize("bad", [SECRET, f"{SECRET} {DIGITS}", f"x{DIGITS}", f"{DIGITS}{DIGITS}{DIGITS}x"])
def test_wrong_type_in_csv(kind: ColumnType, bad: str, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"age,other\n{bad},{SECRET}\n{bad},{DIGITS}\n")
    assert read_odd(path, "age", kind) == [None, None]


@pytest.mark.parametrize(
    "number", ["12.5", f"{DIGITS}.25", "1e-1", "92233720368547758080", "0x1F", "1 2", "nan", "inf"]
)
def test_an_integer_column_is_never_rounded(number: str, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"age\n1\n{number}\n3\n")
    assert read_odd(path, "age", ColumnType.INTEGER) == [1, None, 3]


@pytest.mark.parametrize(
    "day", ["31/12/2020", "12/31/2020", "01/02/2020", "2020-13-01", "20-01-01", f"2020-01-01 {SECRET}"]
)
def test_dates_are_iso_and_never_guessed(day: str, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"born\n{day}\n{day}\n")
    assert read_odd(path, "born", ColumnType.DATE) == [None, None]


def test_line_of_a_malformed_row(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,pay\n" + "1,2\n" * 50 + f"{SECRET},{DIGITS},{DIGITS},{SECRET}\n" + "1,2\n" * 10)
    assert "people.csv, line 52: the row has more fields than the header" in fail(
        str(path), only("age", ColumnType.INTEGER)
    )


@pytest.mark.parametrize(
    "moment", [f"2020-01-01 10:00:00 {SECRET}", "2020-01-01 10:00:00+02", "2020-13-01 10:00:00", "01.02.2020 10:00"]
)
def test_moments_are_utc_and_never_guessed(moment: str, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"seen\n2020-01-01T10:00:00Z\n{moment}\n2020-01-01 10:00:00+00:00\n")
    moments = read_odd(path, "seen", ColumnType.TIMESTAMP)
    assert moments == [datetime.fromisoformat("2020-01-01T10:00:00"), None, moments[0]]


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


def test_forms_of_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("seen\n2020-01-02\n2020-01-02 03:04\n2020-01-02T03:04:05Z\n2020-01-02 03:04:05.25\n")
    engine = open_duckdb(str(path))
    engine.impose(only("seen", ColumnType.TIMESTAMP))
    moments = engine.fetch(exp.select("*").from_(engine.relation())).column("seen").to_pylist()
    assert [moment.isoformat() for moment in moments] == [
        "2020-01-02T00:00:00",
        "2020-01-02T03:04:00",
        "2020-01-02T03:04:05",
        "2020-01-02T03:04:05.250000",
    ]


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


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(b"age,name\n1,caf\xe9 " + SECRET.encode() + b"\n")
    assert "people.csv" in fail(str(path), only("name", ColumnType.TEXT))


def test_missing_column(tmp_path: Path) -> None:
    message = fail(make_csv(tmp_path), Schema("people", {**SCHEMA.columns, "iq": Column("iq", ColumnType.INTEGER)}))
    assert "no column iq" in message
    assert "age" in message


def test_files_of_different_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,pay\n1,2\n")
    (tmp_path / "b.csv").write_text("pay,age\n30,40\n")
    assert "same columns" in fail(str(tmp_path / "*.csv"), only("age", ColumnType.INTEGER))


def test_moments_as_text_name_the_way_to_read_them() -> None:
    table = pa.table({"admitted_at": ["2025-03-05 08:17:37"]})
    for kind in (ColumnType.TIMESTAMP, ColumnType.DATE):
        message = fail(table, only("admitted_at", kind))
        assert 'parse_dates=["admitted_at"]' in message
        assert f"cast it to {kind}" in message
    assert "parse_dates" not in fail(table, only("admitted_at", ColumnType.INTEGER))


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
    name = "age"
    table = pa.table({name: values})
    message = fail(table, only(name, kind))
    assert "Change one" in message or "no equivalent here" in message
    pq.write_table(table, tmp_path / "people.parquet")
    assert "age" in fail(str(tmp_path / "people.parquet"), only(name, kind))


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
    assert engine.odd_cells(["age"]) == {"age": 2 - column.null_count}


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "aggregate", ["SUM(pay)", "AVG(pay)", "MEDIAN(pay)", "MIN(pay)", "SUM(CASE WHEN age > 0 THEN pay * 2 END)"]
)
def test_nan_and_infinities_are_missing(aggregate: str, bad: float) -> None:
    schema = Schema("people", {name: SCHEMA.columns[name] for name in ("age", "pay")}, individuals=10)
    plan = plan_query(f"SELECT {aggregate} FROM people", schema)
    measured = []
    for cell in (bad, None):
        engine = open_duckdb(pa.table({"age": [1, 2, 2], "pay": [1.0, cell, 3.5]}))
        engine.impose(schema)
        measured.append(
            (
                measure_answer(plan, whole_table(engine)).values,
                measure_answer(plan, whole_table(engine), measure_profile(plan, whole_table(engine))).values,
            )
        )
    assert measured[0] == measured[1]


def test_overflow_in_an_expression_of_the_engine_quotes_no_cell() -> None:
    """No query of an analyst can overflow any more; whatever else fails in the engine must not quote a cell."""
    engine = open_duckdb(pa.table({"age": [int(DIGITS) * 10**9]}))
    squared = exp.Mul(this=exp.column("age"), expression=exp.column("age"))
    with pytest.raises(DataError) as caught:
        engine.fetch(exp.select(exp.Sum(this=squared)).from_(engine.relation()))
    assert DIGITS not in str(caught.value)


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no file"):
        open_duckdb(str(tmp_path / "none.csv"))
    with pytest.raises(DataError, match="There is no file"):
        open_duckdb(str(tmp_path / "none*.csv"))
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="There is no file"):
        open_duckdb(str(tmp_path / "folder.csv"))
    with pytest.raises(DataError, match="There is no DuckDB file"):
        open_duckdb(f"duckdb:{tmp_path / 'none.db'}")
    with pytest.raises(OptionError, match="kind of data is unknown"):
        open_duckdb(str(tmp_path / "people.xlsx"))
    (tmp_path / "fake.db").write_text(SECRET * 1000)
    with pytest.raises(DataError, match="cannot be opened as a DuckDB file"):
        open_duckdb(f"duckdb:{tmp_path / 'fake.db'}")
    (tmp_path / "fake.parquet").write_text(SECRET * 1000)
    with pytest.raises(DataError, match="cannot be read"):
        open_duckdb(str(tmp_path / "fake.parquet"))
    (tmp_path / "fake.csv.gz").write_text(SECRET * 1000)
    with pytest.raises(DataError, match=r"fake\.csv\.gz"):
        open_duckdb(str(tmp_path / "fake.csv.gz"))


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
    for engine, rows in zip(engines, (0, 1, 1), strict=True):
        engine.impose(only("age", ColumnType.INTEGER))
        assert count_individuals(engine) == rows


def test_the_only_table_of_a_database_may_be_in_a_schema(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "p.duckdb")) as connection:
        connection.execute("CREATE SCHEMA deep; CREATE TABLE deep.people AS SELECT 8 AS age")
    engine = open_duckdb(f"duckdb:{tmp_path / 'p.duckdb'}")
    engine.impose(only("age", ColumnType.INTEGER))
    assert count_individuals(engine) == 1
    assert engine.default_table() == "deep.people"


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


def test_whole_numbers_with_gaps_in_pandas_are_read(tmp_path: Path) -> None:
    table = pd.DataFrame({"age": [1.0, None, 3.0]})
    table.to_parquet(tmp_path / "people.parquet")
    for source in (pa.Table.from_pandas(table), str(tmp_path / "people.parquet")):
        engine = open_duckdb(source)
        engine.impose(only("age", ColumnType.INTEGER))
        assert engine.fetch(exp.select("*").from_(engine.relation())).column("age").to_pylist() == [1, None, 3]


def test_a_number_beyond_64_bits_in_pandas_is_one_clear_error() -> None:
    with pytest.raises(DataError, match="Give every column one type first") as refused:
        open_engine(pd.DataFrame({"age": [1, 2**70]}), None, ReadOptions())
    assert str(2**70) not in str(refused.value)


def test_a_column_whose_name_has_a_line_break(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text('"a,\nb"\n1\n2\n')
    engine = open_duckdb(str(path))
    assert dict(engine.describe()) == {"a,\nb": ColumnType.INTEGER}
    assert count_individuals(engine) == 2
    engine.close()
