"""Bad input: status 2, one message on standard error that names the fix, and never a cell of the data."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from tests.cli.command_line import Run, check_refusal
from tests.cli.marked_table import MARKER, SCHEMA, TABLE

COUNT = "SELECT COUNT(*) FROM t"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "t.toml"
    path.write_text(SCHEMA)
    return path


# ---------------------------------------------------------------- SQL

# What is refused, and in which words, is for tests/golden. Here: that no text breaks the command, or reaches the data.
REFUSED_SQL = {
    "   ": "SELECT",
    "COPY t TO 'stolen.csv'": "Only SELECT",
    "SELECT COUNT(*) FROM '/etc/passwd'": "",
    "SELECT SUM(salary) FROM t": "Known columns: name, age, ward, pay",
    "SELECT COUNT(*) FROM t WHERE getenv('HOME') = 'x'": "Supported",
    "SELECT name, COUNT(*) FROM t GROUP BY name": "identifies people",
    "SELECT COUNT(*) FROM t WHERE age = " + "(" * 3000 + "1" + ")" * 3000: "",
}


@pytest.mark.parametrize("sql", REFUSED_SQL, ids=lambda sql: sql[:60].strip() or "empty")
def test_sql_is_refused(run: Run, data: Path, schema: Path, sql: str) -> None:
    for words in (["risk", data, sql], ["explain", sql]):
        check_refusal(run(*words, "--schema", schema, "--json"), REFUSED_SQL[sql])


# ---------------------------------------------------------------- preferences and options

# Every other text that is no preference, option or schema is refused in tests/unit, where its problem is found.
REFUSED_PREFERENCES = {
    "ratio:2": "at most 1",
    "MIN(rdr) FILTER (WHERE salary > 1) > 1": "FILTER",
}


@pytest.mark.parametrize("prefer", REFUSED_PREFERENCES)
def test_preference_is_refused(run: Run, data: Path, prefer: str) -> None:
    check_refusal(run("find", data, COUNT, "--prefer", prefer, "--json"), REFUSED_PREFERENCES[prefer])


REFUSED_OPTIONS = [
    (["--epsilon", "0"], "positive"),
    (["--epsilon", "x"], "--epsilon"),
    (["--epsilon", "1", "--candidates", "1"], "not both"),
    (["--candidates", "1,nan"], "1,0.5,0.1"),
    (["--mechanism", "geometric"], "'laplace', 'gaussian'"),
    (["--method", "recompute"], "No such option"),
    (["--calibration", "zcdp"], "--mechanism gaussian"),
    (["--delta", "1e-6"], "--mechanism gaussian"),
    (["--mechanism", "gaussian", "--delta", "0"], "strictly between 0 and 1"),
    (["--mechanism", "gaussian", "--delta", "small"], "1/n^2"),
    (["--sensitivity", "inf"], "positive"),
    (["--min-rows", "0"], "at least 1"),
    (["--min-rows", "1.5"], "--min-rows"),
    (["--top", "0"], "at least 1"),
    (["--top", "2", "--columns", "salary"], "Known columns"),
    (["--by", "salary"], "Known columns"),
    (["--engine", "oracle"], "duckdb"),
    (["--delimiter", ";;"], "one character"),
    (["--encoding", "klingon"], "utf-8, latin-1, cp1252 and utf-16"),
    (["--plot", "picture.gif"], ".svg"),
    (["--plot", "nowhere/picture.svg"], "folder"),
    (["-o", "risk.xlsx"], ".csv"),
    (["-o", "nowhere/risk.csv"], "folder"),
    (["--frobnicate"], "--help"),
    (["--json=1"], "--help"),
    (["--schema", "nowhere.toml"], "dosimeter schema"),
]


@pytest.mark.parametrize(("options", "fix"), REFUSED_OPTIONS, ids=lambda value: " ".join(value))
def test_option_is_refused(run: Run, data: Path, options: list[str], fix: str) -> None:
    check_refusal(run("risk", data, COUNT, *options), fix)


def test_arguments_are_needed(run: Run, data: Path) -> None:
    check_refusal(run("risk"), "DATA", "dosimeter risk --help")
    check_refusal(run("risk", data), "SQL")
    check_refusal(run("find", data, COUNT), "--prefer")
    check_refusal(run("explain", COUNT), "--schema")
    check_refusal(run("risk", data, COUNT, "more"), "--help")
    check_refusal(run("fnid", data, COUNT), "fnid")
    check_refusal(run("risk", data, "@nowhere.sql"), "nowhere.sql")
    check_refusal(run("risk", data, f"@{data.parent}"), "UTF-8")


def test_sql_file_that_is_not_text(run: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_bytes(b"\xff\xfe\x00SELECT")
    check_refusal(run("risk", data, f"@{tmp_path / 'query.sql'}"), "UTF-8")


def test_target_that_cannot_be_written(run: Run, data: Path, tmp_path: Path) -> None:
    for name in ("taken.csv", "taken.svg", "taken.toml"):
        (tmp_path / name).mkdir()
    check_refusal(run("risk", data, COUNT, "-o", tmp_path / "taken.csv"), "folder")
    check_refusal(run("risk", data, COUNT, "--plot", tmp_path / "taken.svg"), "folder")
    check_refusal(run("schema", data, "-o", tmp_path / "taken.toml"), "folder")
    check_refusal(run("schema", data, "-o", tmp_path / "nowhere" / "t.toml"), "folder")
    check_refusal(run("demo", "-o", data), "folder")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc, where not even root may do everything")
def test_files_without_permission(run: Run, data: Path, tmp_path: Path) -> None:
    for words in (["-o", "/proc/risk.csv"], ["-o", "/proc/risk.parquet"], ["--plot", "/proc/risk.svg"]):
        check_refusal(run("risk", data, COUNT, "--candidates", "1", *words), "folder")
    check_refusal(run("schema", data, "-o", "/proc/t.toml"), "folder")
    (tmp_path / "u.csv").symlink_to("/proc/self/mem")
    check_refusal(run("risk", tmp_path / "u.csv", "SELECT COUNT(*) FROM u"), "u.csv")


# ---------------------------------------------------------------- data


def write(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def make_folder(folder: Path) -> Path:
    (folder / "t.csv").mkdir()
    return folder / "t.csv"


def make_database(folder: Path) -> str:
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE one AS SELECT 1 AS x; CREATE TABLE two AS SELECT 2 AS y")
    return f"duckdb:{folder / 't.duckdb'}"


REFUSED_DATA: dict[str, tuple[Callable[[Path], object], str]] = {
    "no file": (lambda folder: folder / "none.csv", "no file"),
    "no match": (lambda folder: folder / "*.parquet", "no file"),
    "no ending": (lambda folder: folder / "t", ".csv"),
    "a folder": (make_folder, ""),
    "the folder itself": (lambda folder: folder, ".csv"),
    "unknown kind": (write("t.xlsx", TABLE.encode()), ".parquet"),
    "empty": (write("t.csv", b""), ""),
    "binary as CSV": (write("t.csv", bytes(range(256)) * 40), ""),
    "binary as Parquet": (write("t.parquet", bytes(range(256)) * 40), "Parquet"),
    "text as Parquet": (write("t.parquet", TABLE.encode()), "Parquet"),
    "text as gzip": (write("t.csv.gz", TABLE.encode()), ""),
    "cut gzip": (write("t.csv.gz", gzip.compress(TABLE.encode() * 50)[:-30]), ""),
    "not a database": (lambda folder: f"duckdb:{write('t.csv', TABLE.encode())(folder)}", "DuckDB"),
    "no database": (lambda folder: f"duckdb:{folder / 'none.db'}", "no DuckDB file"),
    "two tables": (make_database, "--table"),
    "a web address": (lambda _: "https://example.org/t.csv", "duckdb:PATH"),
    "nothing": (lambda _: "", ".csv"),
    "a database without slashes": (lambda _: f"postgresql:ada:{MARKER}@host/db", "starts with postgresql://"),
    "a database like a file": (lambda _: f"postgres:{MARKER}@host/db.csv", "starts with postgresql://"),
    "Latin-1": (write("t.csv", f"name,age\n{MARKER} Zo\xeb,3\n".encode("latin-1")), "--encoding"),
}


@pytest.mark.parametrize("kind", REFUSED_DATA)
@pytest.mark.parametrize("command", ["risk", "schema"])
def test_data_is_refused(run: Run, tmp_path: Path, command: str, kind: str) -> None:
    make, fix = REFUSED_DATA[kind]
    source = make(tmp_path)
    check_refusal(run("schema", source) if command == "schema" else run("risk", source, COUNT, "--json"), fix)


def test_a_joined_database_is_not_quoted(run: Run, data: Path, schema: Path) -> None:
    """Its URL can hold a password, whether it is written as it should be or not."""
    columns = "[tables.wards.columns.ward]\ntype = 'text'\n"
    for source in (f"postgresql://ada:{MARKER}@host/db", f"postgresql:ada:{MARKER}@host/db.csv"):
        schema.write_text(f"{SCHEMA}[tables.wards]\npublic = true\nkey = 'ward'\nsource = '{source}'\n{columns}")
        joined = f"{COUNT} JOIN wards USING (ward)"
        check_refusal(run("risk", data, joined, "--schema", schema, "--json"), "database URL")


def test_table_that_is_not_there(run: Run, tmp_path: Path) -> None:
    check_refusal(run("risk", make_database(tmp_path), COUNT, "--table", "three"), "--table")


def test_only_a_header_is_nobody(run: Run, tmp_path: Path) -> None:
    """Nobody is no mistake: one empty slot, which nothing exposes."""
    source = write("t.csv", b"name,age\n")(tmp_path)
    outcome = run("risk", source, COUNT, "--epsilon", "1", "--json")
    assert outcome.status == 0
    assert outcome.json["sensitivities"]["histogram"] == [{"value": 0.0, "count": 1}]
    assert run("schema", source).status == 0


NARROW = """table = "t"
individuals = 40000
reviewed = true
[columns]
name = { type = "text" }
age = { type = "integer", bounds = [0, 100] }
"""
BROKEN_ROWS = {
    "too many cells": f"name,age\n{MARKER},1\nBob,2,{MARKER}\n",
    "too few cells": f"name,age\n{MARKER},1\n{MARKER}\n",
    "unclosed quote": f'name,age\n{MARKER},1\n"{MARKER},2\nBob,3\n',
}
ODD_ROWS = {
    "text among numbers": f"name,age\nBob,1\nCleo,{MARKER}\n",
    "far text among numbers": "name,age\n" + "Bob,1\n" * 30_000 + f"Cleo,{MARKER}\n",
    "a fraction": "name,age\nBob,1\nCleo,77731.5\n",
    "out of 64 bits": "name,age\nBob,1\nCleo,7773177731777317773177731\n",
}


@pytest.mark.parametrize("kind", BROKEN_ROWS)
def test_rows_that_contradict_the_schema(run: Run, tmp_path: Path, kind: str) -> None:
    fix = "fields than the header" if kind == "too many cells" else "t.csv"
    source = write("t.csv", BROKEN_ROWS[kind].encode())(tmp_path)
    facts = write("t.toml", NARROW.encode())(tmp_path)
    for query in (COUNT, "SELECT SUM(age) FROM t"):
        outcome = run("risk", source, query, "--schema", facts, "--epsilon", "1", "--json")
        if outcome.status == 0:  # a COUNT need not read the broken column
            assert query == COUNT
        else:
            check_refusal(outcome, fix)
    assert MARKER not in run("schema", source, "--check", facts).err


@pytest.mark.parametrize("kind", ODD_ROWS)
def test_cells_that_are_not_of_their_type_count_as_missing(run: Run, tmp_path: Path, kind: str) -> None:
    """The controller is told how many there are, and never what they hold."""
    source = write("t.csv", ODD_ROWS[kind].encode())(tmp_path)
    facts = write("t.toml", NARROW.encode())(tmp_path)
    outcome = run("risk", source, "SELECT SUM(age) FROM t", "--schema", facts, "--epsilon", "1", "--json")
    assert outcome.status == 0
    assert outcome.json["sensitivities"]["max"] == 1.0
    check = run("schema", source, "--check", facts, "--json")
    assert (check.status, check.json["odd_cells"]["age"]) == (0, 1)
    for said in (outcome.out, outcome.err, check.out, check.err):
        assert MARKER not in said
        assert "7773" not in said


# ---------------------------------------------------------------- schemas

REFUSED_SCHEMAS = {
    "binary": ("\x00\x01", "TOML"),
    "a column the data lacks": (SCHEMA + "[columns.salary]\ntype = \"integer\"\n", "salary"),
    "another table": (SCHEMA.replace('table = "t"', 'table = "people"'), "people"),
    "other data": ('table = "t"\n[columns.height]\ntype = "decimal"\n', "height"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED_SCHEMAS)
def test_schema_is_refused(run: Run, data: Path, schema: Path, kind: str) -> None:
    text, fix = REFUSED_SCHEMAS[kind]
    schema.write_text(text)
    check_refusal(run("risk", data, COUNT, "--schema", schema, "--json"), fix)


def test_schema_file_that_cannot_be_read(run: Run, data: Path, tmp_path: Path) -> None:
    check_refusal(run("risk", data, COUNT, "--schema", tmp_path), "UTF-8")
    latin = write("latin.toml", 'table = "Zo\xeb"'.encode("latin-1"))(tmp_path)
    check_refusal(run("explain", COUNT, "--schema", latin), "UTF-8")
    check_refusal(run("schema", data, "--check", tmp_path / "none.toml"), "dosimeter schema")
    check_refusal(run("schema", data, "--check", latin, "-o", tmp_path / "x.toml"), "-o")


@pytest.mark.parametrize("words", [["paper", "example"], ["study"], ["study", "--help"]])
def test_without_the_papers_package_its_commands_say_where_they_come_from(
    run: Run, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **wanted: ())
    check_refusal(run(*words), f"dosimeter {words[0]} comes with the package in paper/", "pip install ./paper")
    listed = run("--help")
    assert listed.status == 0
    assert "release" in listed.out
    assert "study" not in listed.out
