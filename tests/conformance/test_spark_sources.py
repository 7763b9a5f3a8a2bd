"""What Spark reads, how it fails, and what it leaves behind in a session that is not ours."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import os
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

from dosimeter import Dataset
from dosimeter.engines.duckdb import open_duckdb
from dosimeter.engines.engine import Engine, ReadOptions
from dosimeter.engines.spark import SparkEngine, open_spark
from dosimeter.errors import DataError, DosimeterError, Interrupted, OptionError
from dosimeter.influence.measured_rows import count_individuals
from dosimeter.influence.rows.row_profile import measure_answer
from dosimeter.influence.rows.row_queries import count_query
from dosimeter.inspection.compare import check_schema
from dosimeter.inspection.draft import draft_schema
from dosimeter.planning import plan_query
from dosimeter.schema import Schema
from dosimeter.schema.toml import read_schema
from tests.conformance.engine_cases import SERVER
from tests.interrupting import interrupting
from tests.whole_tables import whole_table

pytestmark = [*SERVER, pytest.mark.usefixtures("spark_session")]
PEOPLE = read_schema({"table": "t", "columns": {"n": {"type": "integer", "bounds": [0, 9]}, "s": {"type": "text"}}})
SECRET = "4711-secret"


def write(path: Path, text: str, encoding: str = "utf-8") -> str:
    path.write_bytes(text.encode(encoding))
    return str(path)


def read_rows(engine: Engine, schema: Schema) -> list[tuple[Any, ...]]:
    """Every record, through the same trees as everything else."""
    engine.impose(schema)
    query = exp.select(*(exp.column(name, quoted=True) for name in schema.columns)).from_(engine.relation())
    rows = [tuple(row.values()) for row in engine.fetch(query).to_pylist()]
    engine.close()
    return sorted(rows, key=repr)


# ---------------------------------------------------------------- CSV


@pytest.fixture(scope="module")
def csv_file(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The conformance table as CSV. A missing value is NA, so that an empty text is one."""
    path = tmp_path_factory.mktemp("csv") / "people.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.column_names)
        for row in table.to_pylist():
            cells = [str(value).lower() if isinstance(value, bool) else value for value in row.values()]
            writer.writerow(["NA" if cell is None else cell for cell in cells])
    return path


@pytest.mark.smoke
def test_csv_is_read_as_by_duckdb(csv_file: Path, schema: Schema) -> None:
    options = ReadOptions(null="NA")
    expected, found = (read_rows(open(str(csv_file), options), schema) for open in (open_duckdb, open_spark))
    assert found == expected


def test_csv_types_are_drafted_as_by_duckdb(csv_file: Path) -> None:
    drafts = []
    for open_engine in (open_duckdb, open_spark):
        engine = open_engine(str(csv_file), ReadOptions(null="NA"))
        drafts.append((draft_schema(engine), engine.fingerprint()))
        engine.close()
    assert drafts[1] == drafts[0]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("n,s\n1,a\n2,\n,c\n", ReadOptions()),
        ('n,s\n1,"a"\n2,""\n,"c"\n', ReadOptions()),
        ("n;s\n1;a,b\n2;c\n", ReadOptions()),
        ("n\ts\n1\ta,b\n2\tc\n", ReadOptions()),
        ("n|s\n1|a,b\n2|c\n", ReadOptions(delimiter="|")),
        ('n,s\n1,"two\nlines"\n2,"a ""quote"""\n', ReadOptions()),
        ("n,s\r\n1,a\r\n2,b\r\n", ReadOptions()),
        ("n,s\n1,a\n2,b", ReadOptions()),
        ("\ufeffn,s\n1,a\n2,b\n", ReadOptions()),
        ("n,s\n 1 ,a\n2, b \n", ReadOptions()),
        ("n,s\n1,a\n?,?\n", ReadOptions(null="?")),
        ("n,s\n1,back\\slash\n2,\\n\n", ReadOptions()),
        ("n,s\n1,#x\n2,'y'\n", ReadOptions()),
    ],
)
def test_csv_of_many_forms(tmp_path: Path, text: str, options: ReadOptions) -> None:
    path = write(tmp_path / "t.csv", text)
    expected, found = (read_rows(open(path, options), PEOPLE) for open in (open_duckdb, open_spark))
    assert found == expected
    assert len(found) >= 2


def test_utf_8_with_and_without_a_mark(tmp_path: Path) -> None:
    for name in ("utf-8-sig", "UTF-8-SIG", "utf_8_sig", "utf-8"):
        for mark in ("", "\ufeff"):
            path = write(tmp_path / "t.csv", f"{mark}n,s\n1,Köln\n")
            for open_engine in (open_duckdb, open_spark):
                assert read_rows(open_engine(path, ReadOptions(encoding=name)), PEOPLE) == [(1, "Köln")]


def test_latin_1_and_gzip(tmp_path: Path) -> None:
    plain = write(tmp_path / "t.csv", "n,s\n1,Köln\n2,é\n", "latin-1")
    assert read_rows(open_spark(plain, ReadOptions(encoding="latin-1")), PEOPLE) == [(1, "Köln"), (2, "é")]
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress("n;s\n1;Köln\n".encode()))
    engine = open_spark(str(packed))
    assert engine.default_table() == "t"
    assert read_rows(engine, PEOPLE) == [(1, "Köln")]


@pytest.mark.parametrize("row", ["1", "1,a,b"])
def test_malformed_rows_fail_even_where_their_cells_are_not_needed(tmp_path: Path, row: str) -> None:
    path = write(tmp_path / "t.csv", f"n,s\n2,{SECRET}\n{row}\n")
    engine = open_spark(path)
    engine.impose(PEOPLE)
    with pytest.raises(DataError, match="malformed") as caught:
        count_individuals(engine)
    assert SECRET not in str(caught.value)


def test_files_with_other_headers_fail(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "n,s\n1,a\n")
    write(tmp_path / "b.csv", "s,n\nb,2\n")
    engine = open_spark(str(tmp_path / "*.csv"))
    engine.impose(PEOPLE)
    with pytest.raises(DataError):
        count_individuals(engine)


# ---------------------------------------------------------------- where the data is


def test_a_uri_without_a_password_is_asked_of_spark() -> None:
    with pytest.raises(DosimeterError) as asked:
        open_spark("abfss://container@account/t.parquet")
    assert "database URL" not in str(asked.value)


def test_names_that_look_like_patterns(tmp_path: Path) -> None:
    directory = tmp_path / "we[ird] {dir} %20"
    directory.mkdir()
    path = write(directory / "t*.csv", "n,s\n1,a\n")
    assert read_rows(open_spark(path), PEOPLE) == [(1, "a")]


def test_parquet_directory_as_spark_writes_it(spark_session: Any, tmp_path: Path) -> None:
    target = tmp_path / "people.parquet"
    spark_session.sql("SELECT 1 AS n, 'a' AS s UNION ALL SELECT 2, NULL").write.parquet(str(target))
    engine = open_spark(str(target))
    assert engine.default_table() == "people"
    first = engine.fingerprint()
    assert read_rows(engine, PEOPLE) == [(1, "a"), (2, None)]
    spark_session.sql("SELECT 2 AS n, 'a' AS s").write.mode("append").parquet(str(target))
    again = open_spark(str(target))
    assert again.fingerprint() != first
    again.close()
    engine.refresh()
    assert not engine.is_still(first)
    assert sorted(read_rows(engine, PEOPLE), key=str) == [(1, "a"), (2, "a"), (2, None)]
    engine.close()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_was_written_anew_is_read_anew(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"people.{kind}"

    def write(rows: int, **more: list[int]) -> None:
        table = pa.table({"n": list(range(rows)), **more})
        if kind == "csv":
            pa.csv.write_csv(table, path)
        else:
            pq.write_table(table, path)

    write(3)
    facts = {"table": "people", "columns": {"n": {"type": "integer", "bounds": [0, 99]}}}
    with Dataset.open(str(path), schema=facts, engine="spark") as dataset:
        assert dataset.risk("SELECT COUNT(*) FROM people").measured().values == ((3,),)
        write(90)
        dataset.renew()
        assert dataset.count() == 90
        assert dataset.risk("SELECT COUNT(*) FROM people").measured().values == ((90,),)
        write(90, m=list(range(90)))
        with pytest.raises(DataError, match="no longer has the columns"):
            dataset.renew()


def test_catalogue_tables_frames_and_sessions(spark_session: Any) -> None:
    frame = spark_session.sql("SELECT 1 AS n, 'a' AS s UNION ALL SELECT 2, 'B'")
    frame.createOrReplaceTempView("visits")
    facts = {"table": "visits", "columns": {"n": {"type": "integer", "bounds": [0, 9]}, "s": {"type": "text"}}}
    sql = "SELECT SUM(n) FROM visits WHERE s < 'a'"
    sources: list[tuple[Any, dict[str, Any]]] = [
        (frame, {}),
        (spark_session, {"table": "visits"}),
        ("spark:visits", {}),
        ("spark:", {"table": "visits"}),
    ]
    fingerprints = set()
    for source, options in sources:
        with Dataset.open(source, schema=facts, **options) as dataset:
            assert dataset.engine.name == "spark"
            assert dataset.risk(sql).measured().values == ((2,),)
            fingerprints.add(dataset.engine.fingerprint())
    assert len(fingerprints) == 1
    with Dataset.open("spark:visits") as dataset:
        assert dataset.schema.table == "visits"
        assert dataset.risk(sql).measured().values == ((2,),)


def test_fingerprint_is_of_the_content(spark_session: Any) -> None:
    def digest(sql: str) -> str:
        engine = open_spark(spark_session.sql(sql))
        found = engine.fingerprint()
        assert engine.rows_fetched == 0
        engine.close()
        return found

    whole = "SELECT * FROM VALUES (1, 'a'), (2, NULL), (2, NULL) AS t(n, s)"
    assert digest(whole) == digest("SELECT * FROM VALUES (2, NULL), (1, 'a'), (2, NULL) AS t(n, s)")
    others = [
        "SELECT * FROM VALUES (1, 'a'), (2, NULL) AS t(n, s)",
        "SELECT * FROM VALUES (1, 'b'), (2, NULL), (2, NULL) AS t(n, s)",
        "SELECT * FROM VALUES (2, 'a'), (1, NULL), (2, NULL) AS t(n, s)",
        "SELECT * FROM VALUES (1, 'a'), (2, NULL), (2, NULL) AS t(n, other)",
        "SELECT CAST(n AS BIGINT) AS n, s FROM VALUES (1, 'a'), (2, NULL), (2, NULL) AS t(n, s)",
    ]
    assert len({digest(whole), *(digest(other) for other in others)}) == 1 + len(others)


# ---------------------------------------------------------------- types


@pytest.mark.smoke
def test_types_are_checked(spark_session: Any) -> None:
    frame = spark_session.sql("SELECT 1 AS n, 'a' AS s, ARRAY(1) AS many, CAST('x' AS BINARY) AS bytes")
    engine = open_spark(frame)
    assert list(engine.describe()) == ["n", "s"]
    for columns, message in [
        ({"s": {"type": "integer"}}, r"s is string in the data and integer in .*a view with CAST\(s AS BIGINT\)"),
        ({"n": {"type": "text"}}, r"n is int in the data and text in the schema.*a view with CAST\(n AS STRING\)"),
        ({"n": {"type": "date"}}, r"n is int in the data and date in the schema. Change one.$"),
        ({"many": {"type": "text"}}, "Column many is array<int> in the data, which has no equivalent"),
        ({"gone": {"type": "text"}}, "no column gone"),
    ]:
        with pytest.raises(DataError, match=message):
            engine.impose(read_schema({"table": "t", "columns": columns}))
    engine.close()


def test_texts_compare_by_bytes_whatever_their_collation(spark_session: Any) -> None:
    frame = spark_session.sql("SELECT CAST(s AS STRING COLLATE UTF8_LCASE) AS s FROM VALUES ('Ada'), ('ada') AS t(s)")
    with Dataset.open(frame, table="t") as dataset:
        counted = dataset.risk("SELECT COUNT(DISTINCT s), COUNT(*) FILTER (WHERE s = 'ADA') FROM t").measured().values
    assert counted == ((2, 0),)


def test_bounds_of_any_length(spark_session: Any) -> None:
    """Spark's decimals end at 38 digits, and DuckDB's, too; what is longer is a double."""
    bound = Decimal("12345678901.0000000000000000000000000005")
    facts = {"table": "t", "columns": {"v": {"type": "decimal", "bounds": [Decimal(0), bound]}}}
    engine = open_spark(spark_session.sql("SELECT * FROM VALUES (12345678901D), (12345678902D) AS t(v)"))
    found = check_schema(engine, read_schema(facts))
    assert [finding.problem for finding in found.findings] == ["values above the upper bound: 1"]
    engine.close()


# ---------------------------------------------------------------- sessions


def test_the_settings_of_a_session_stay(spark_session: Any) -> None:
    others = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "Asia/Tokyo"}
    before = {name: spark_session.conf.get(name) for name in others}
    for name, value in others.items():
        spark_session.conf.set(name, value)
    try:
        frame = spark_session.sql("SELECT TIMESTAMP '2024-01-01 08:00:00' AS v, 9223372036854775807 AS n")
        facts = {"table": "t", "columns": {"v": {"type": "timestamp"}, "n": {"type": "integer", "bounds": [0, 9]}}}
        with Dataset.open(frame, schema=facts, table="t") as dataset:
            counted = dataset.risk("SELECT COUNT(*) FROM t WHERE v = '2023-12-31 23:00:00'").measured().values
            beyond = dataset.risk("SELECT COUNT(*) FROM t WHERE n + 1 > 0").measured().values
        assert counted == beyond == ((Fraction(1),),)
        assert {name: spark_session.conf.get(name) for name in others} == others
    finally:
        for name, value in before.items():
            spark_session.conf.set(name, value)


@pytest.mark.smoke
def test_nothing_is_left_in_the_catalogue(spark_session: Any) -> None:
    before = {found.name for found in spark_session.catalog.listTables()}
    engine = open_spark(spark_session.range(3))
    assert count_individuals(engine) == 3
    engine.close()
    assert {found.name for found in spark_session.catalog.listTables()} == before


def test_a_query_can_be_interrupted(spark_session: Any) -> None:
    engine = open_spark(spark_session.range(10**12))  # minutes of work
    with interrupting(engine), pytest.raises(Interrupted):
        engine.fetch(count_query(engine.relation()).where("id % 7 = 3"))
    engine.close()


@pytest.mark.smoke
def test_only_selects_run(spark_session: Any) -> None:
    engine = open_spark(spark_session.range(1))
    with pytest.raises(TypeError):
        engine.fetch(exp.Drop(this=exp.to_table("t"), kind="TABLE"))  # type: ignore[arg-type]
    engine.close()


@pytest.mark.smoke
def test_errors_quote_nothing_and_name_the_fix(spark_session: Any, tmp_path: Path, capfd: Any) -> None:
    with pytest.raises(OptionError, match="no table nowhere"):
        open_spark("spark:nowhere")
    with pytest.raises(OptionError, match="Which table"):
        open_spark("spark:")
    with pytest.raises(DataError, match="There is no file"):
        open_spark(str(tmp_path / "gone.parquet"))
    with pytest.raises(OptionError, match="kind of data is unknown"):
        open_spark("data.xlsx")
    with pytest.raises(OptionError, match="one character"):
        open_spark(write(tmp_path / "t.csv", "n,s\n1,a\n"), ReadOptions(delimiter="||"))
    with pytest.raises(OptionError, match="no encoding"):
        open_spark(str(tmp_path / "t.csv"), ReadOptions(encoding="klingon"))
    with pytest.raises(DataError, match="no two alike"):
        open_spark(write(tmp_path / "twice.csv", "n,N\n1,a\n"))
    with pytest.raises(DataError, match="name every column"):
        open_spark(write(tmp_path / "empty.csv", ""))
    (tmp_path / "no.parquet").write_text(SECRET)
    with pytest.raises(DataError, match=r"no\.parquet") as caught:
        count_individuals(open_spark(str(tmp_path / "no.parquet")))
    captured = capfd.readouterr()
    assert SECRET not in str(caught.value) + captured.out + captured.err
    assert captured.err == ""


def test_parquet_of_the_embedded_engine_has_the_same_fingerprint(parquet: Path) -> None:
    engines: list[Engine] = [open(f"{parquet}/*.parquet", ReadOptions()) for open in (open_duckdb, open_spark)]
    assert len({engine.fingerprint() for engine in engines}) == 1
    for engine in engines:
        engine.close()


# ---------------------------------------------------------------- Java


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "There is no Java. Spark needs Java 17 or newer"),
        ("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n", "This is Java 11. Spark needs Java 17"),
    ],
)
def test_java_that_is_missing_or_old(tmp_path: Path, script: str | None, message: str) -> None:
    """In a process of its own, where no session runs yet."""
    if script is not None:
        (tmp_path / "java").write_text(script)
        (tmp_path / "java").chmod(0o755)
    code = "from dosimeter.engines.spark import open_spark; open_spark('t.parquet')"
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert f"dosimeter.errors.OptionError: {message}" in run.stderr


def test_java_that_ends_while_it_works(tmp_path: Path) -> None:
    """It may be the query that ended it, so a release stops the dataset; a look says what happened.

    In a process of its own, since Spark does not come back in one that has lost it.
    """
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    code = """
from dosimeter import Dataset, Ledger, errors
from dosimeter.release import run as releasing
from dosimeter.engines.spark_sessions import find_session

schema = {"table": "t", "individuals": 2, "reviewed": True, "columns": {"a": {"type": "integer"}}}
measure = releasing._measure

def end_java(*words):
    java = find_session().sparkContext._gateway.proc
    java.kill()
    java.wait()
    return measure(*words)

releasing._measure = end_java
with Ledger.open("books.db") as ledger, Dataset.open("t.csv", schema=schema, engine="spark") as dataset:
    try:
        dataset.release("SELECT COUNT(*) FROM t", ledger=ledger, epsilon=1.0, policy="paper")
    except errors.DatasetStopped as error:
        print(error)
    assert ledger.account("t") is None
    print(ledger.describe()["datasets"][0]["stopped"]["kind"])
    try:
        dataset.risk("SELECT COUNT(*) FROM t")
    except errors.SourceUnreachable as error:
        print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    stopped, kind, looked = run.stdout.splitlines()
    assert stopped.startswith("t is stopped")
    assert kind == "lost"
    assert "Spark's Java process has ended" in looked


@pytest.mark.skipif(importlib.util.find_spec("grpc") is not None, reason="Spark Connect is installed")
def test_connect_that_is_not_installed() -> None:
    command = [sys.executable, "-m", "dosimeter", "risk", "spark:t", "SELECT COUNT(*) FROM t"]
    environment = {"SPARK_REMOTE": "sc://localhost", "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "dosimeter: SPARK_REMOTE needs Spark Connect: pip install 'pyspark[connect]'." in run.stderr


def test_plain_types(spark_session: Any) -> None:
    """Every native type that fits, in the type the trees are written for."""
    frame = spark_session.sql(
        "SELECT CAST(1 AS TINYINT) AS a, CAST(2 AS SMALLINT) AS b, 3 AS c, 4L AS d, CAST(5 AS DECIMAL(9, 0)) AS e, "
        "CAST(0.1 AS FLOAT) AS f, CAST(1.25 AS DECIMAL(9, 2)) AS g, CAST('x' AS VARCHAR(3)) AS h, "
        "TIMESTAMP_NTZ '2024-01-01 00:00:00' AS i, TIMESTAMP '2024-01-01 00:00:00' AS j"
    )
    engine = open_spark(frame)
    kinds = [str(kind) for kind in engine.describe().values()]
    assert kinds == ["integer"] * 5 + ["decimal"] * 2 + ["text"] + ["timestamp"] * 2
    table = engine.fetch(exp.select("*").from_(engine.relation()))
    assert [str(field.type) for field in table.schema] == (
        ["int64"] * 5 + ["double"] * 2 + ["string"] + ["timestamp[us]"] * 2
    )
    assert table.to_pylist()[0]["f"] == 0.10000000149011612
    assert isinstance(engine, SparkEngine)
    engine.close()


def test_totals_beyond_64_bits_are_exact(tmp_path: Path) -> None:
    """S8: sums are decimals, also where Spark's own SUM of a BIGINT would overflow."""
    highest = 2**60
    pq.write_table(pa.table({"v": [highest - 1] * 40}), tmp_path / "t.parquet")
    facts = {"table": "t", "individuals": 40, "columns": {"v": {"type": "integer", "bounds": [0, highest]}}}
    schema = read_schema(facts)
    engine = open_spark(str(tmp_path / "t.parquet"))
    engine.impose(schema)
    assert measure_answer(plan_query("SELECT SUM(v) FROM t", schema), whole_table(engine)).values == (
        (40 * (highest - 1),),
    )
    engine.close()
