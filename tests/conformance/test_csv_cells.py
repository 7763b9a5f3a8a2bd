"""Which CSV cells are values of a type: DuckDB and Spark read the same ones, as the same values, and the rest as NULL.

What is expected is written here by hand. The last test draws cells at random and asks both engines about all of them.
"""

from __future__ import annotations

import contextlib
import csv
import random
from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from dosimeter import Dataset
from dosimeter.engines.cells import read_cell
from dosimeter.engines.duckdb import open_duckdb
from dosimeter.engines.engine import Engine, ReadOptions
from dosimeter.engines.spark import open_spark
from dosimeter.schema import ColumnType
from dosimeter.schema.toml import read_schema
from tests.conformance.engine_cases import EVERY_ENGINE, GROUP, on
from tests.schemas import declare, plain

OPENERS: list[Callable[..., Engine]] = [open_duckdb, open_spark]


@pytest.fixture(params=[on("duckdb"), on("spark")])
def open_engine(request: pytest.FixtureRequest) -> Callable[..., Engine]:
    """How an engine opens a file."""
    if request.param == "spark":
        request.getfixturevalue("spark_session")
    return open_spark if request.param == "spark" else open_duckdb


NATIVE = {"integer": "BIGINT", "decimal": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP"}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


READ: dict[str, dict[str, Any]] = {
    "integer": {
        "12": 12, " 12 ": 12, "+5": 5, "-0": 0, "007": 7, "12.0": 12, "1.": 1, "-3.00": -3,
        "9007199254740993": 9007199254740993, "9007199254740993.0": 9007199254740993,
        "9223372036854775807": 9223372036854775807, "-9223372036854775808": -9223372036854775808,
    },
    "decimal": {
        "1.5": 1.5, " 1.5 ": 1.5, ".5": 0.5, "5.": 5.0, "+.5e+1": 5.0, "-1.5E3": -1500.0, "1e-400": 0.0,
        "9007199254740993": 9007199254740992.0,
    },
    "boolean": {
        "true": True, " true": True, "tRuE": True, "t": True, "YES": True, "y": True, "1": True,
        "false": False, "F": False, "no ": False, "n": False, "0": False,
    },
    "date": {"2024-01-05": date(2024, 1, 5), "2024-1-5": date(2024, 1, 5), " 2024-01-05 ": date(2024, 1, 5),
             "0001-01-01": date(1, 1, 1), "9999-12-31": date(9999, 12, 31), "1582-10-10": date(1582, 10, 10)},
    "timestamp": {
        "2024-01-05": moment("2024-01-05"), "2024-01-05 10:11": moment("2024-01-05 10:11"),
        "2024-01-05T10:11Z": moment("2024-01-05 10:11"), "2024-01-05 10:11:12Z": moment("2024-01-05 10:11:12"),
        "2024-1-5 10:11:12": moment("2024-01-05 10:11:12"), " 2024-01-05 10:11:12": moment("2024-01-05 10:11:12"),
        "2024-01-05 10:11:12.5": moment("2024-01-05 10:11:12.500000"),
        "2024-01-05 10:11:12.1234567": moment("2024-01-05 10:11:12.123456"),
        "2024-01-05 23:59:59.9999999": moment("2024-01-05 23:59:59.999999"),
        "2024-03-31 02:30:00": moment("2024-03-31 02:30:00"), "2024-01-01 00:00:00+00": moment("2024-01-01"),
        "2024-03-21 17:14:43+00:00": moment("2024-03-21 17:14:43"), "2024-03-21T17:14+0000": moment("2024-03-21 17:14"),
    },
}  # fmt: skip
ODD: dict[str, Sequence[str]] = {
    "integer": ["9007199254740992.4", "12.5", "1e1", "0.5e1", "1e-1", "1_0", "5L", "--5", " ", "1 2", "0x1F", "nan",
                "9223372036854775808", ".0", "\t1", "12\n", "\uff11\uff12", "\u00a012", "12\u202f"],
    "decimal": ["1_0.5", "1,5", "1d", "1e5f", "0x1p3", "1.2.3", "e5", ".", "-nan", "1.5\n", "1.5 kg",
                "nan", "NaN", "inf", "-Infinity", "1e400", "-1e309"],
    "boolean": ["on", "off", "2", "10", "+1", "wahr", "true\n", "ye\u017f", "true\u3000"],
    "date": ["2024-01-05 00:00:00", "2024-01-05T00:00", "24-01-05", "2024", "2024-01", "12024-01-01", "-2024-01-01",
             "2024-02-30", "2024/01/05", "20240105", "2024-01-05Z", "05.01.2024", "0000-01-01", "20222-05-05",
             "\u20032024-01-05"],
    "timestamp": ["2024-01-01 24:00:00", "2024-01-01 00:00:60", "2024-01-01 00:00:00-00", "2024-01-01 00:00:00+02:00",
                  "2024-01-01+00:00", "0000-12-31 23:59:59",
                  "2024-01-01 00:00:00 UTC", "2024-01-01Z", "2024-01-01 1:00", "2024-01-01 00", "12:30",
                  "2024-02-30 00:00", "2024-01-01t00:00z", "2024-01-01  00:00", "2024-01-01 00:00:00."],
}  # fmt: skip


WRITTEN: dict[str, dict[str, Any]] = {
    "integer": {"1.234": 1234, "12": 12, "1,0": 1, "-7": -7, "1,5": None, "12.34": None},
    "decimal": {"1,5": 1.5, "-1.234,5": -1234.5, "1 234\u00a0567,25": 1234567.25, ",5": 0.5, "7,": 7.0, "1,5E2": 150.0,
                "1.5": None, "1,2,3": None, ",": None, "1,5 kg": None},
    "date": {"31.12.2024": date(2024, 12, 31), " 1.2.2024 ": date(2024, 2, 1), "2024-12-31": date(2024, 12, 31),
             "31.13.2024": None, "12/31/2024": None, "31.12.2024\n": None, "31.12.2024 10:00": None},
    "timestamp": {"31.12.2024": moment("2024-12-31"), "1.2.2024 10:11": moment("2024-02-01 10:11"),
                  "31.12.2024 10:11:12Z": moment("2024-12-31 10:11:12"), "2024-01-05 10:11": moment("2024-01-05 10:11"),
                  "31.12.2024 24:00": None, "31.12.2024  10:11": None},
}  # fmt: skip


def open_row(
    open_engine: Callable[..., Engine], folder: Path, kind: str, cells: Sequence[str], **written: Any
) -> Engine:
    """A table of one row that has each of these cells in a column of its own."""
    path = folder / "cells.csv"
    names = [f"c{at}" for at in range(len(cells))]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([["last", *names], ["end", *cells]])
    engine = open_engine(str(path), ReadOptions(delimiter=",", **written))
    engine.impose(read_schema({"table": "t", "columns": {name: {"type": kind} for name in names}}))
    return engine


GERMAN = {"decimal": ",", "date_format": "%d.%m.%Y"}
CELLS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (kind, {}, {**READ[kind], **dict.fromkeys(ODD[kind])}) for kind in READ
]
CELLS += [(kind, GERMAN, cells) for kind, cells in WRITTEN.items()]


@pytest.mark.parametrize(("kind", "written", "cells"), CELLS)
def test_cells_are_values_or_odd(
    open_engine: Callable[..., Engine], kind: str, written: dict[str, Any], cells: dict[str, Any], tmp_path: Path
) -> None:
    """Each odd one is NULL, and is counted."""
    with contextlib.closing(open_row(open_engine, tmp_path, kind, list(cells), **written)) as engine:
        row = engine.fetch(exp.select("*").from_(engine.relation())).to_pylist()[0]
        counted = engine.count_odd_cells(list(row))
    assert dict(zip(cells, row.values(), strict=True)) == cells
    assert [counted[name] for name in row] == [value is None for value in cells.values()]


@pytest.mark.parametrize("engine", EVERY_ENGINE)
def test_flags_written_as_text_in_a_typed_source(engine: str, open_in: Callable[..., Dataset]) -> None:
    """A schema drafted from a CSV fits the same table however it is held: the same cells are TRUE and FALSE."""
    expected = {**READ["boolean"], **dict.fromkeys(ODD["boolean"])}
    table = pa.table({"at": range(len(expected)), "flag": list(expected)})
    facts = declare("flags", len(expected), {"at": plain("integer"), "flag": plain("boolean")})
    opened = open_in(engine, facts, {"flags": table}, {"flags": "at int, flag varchar(20)"}).engine
    rows = opened.fetch(exp.select("flag").from_(opened.relation()).order_by("at")).column(0).to_pylist()
    assert dict(zip(expected, rows, strict=True)) == expected
    assert opened.count_odd_cells(["flag"]) == {"flag": len(ODD["boolean"])}


DRAFTED: list[tuple[dict[str, Any], dict[tuple[str, str], str]]] = [
    (GERMAN, {("1,5", "2"): "decimal", ("1.234", "5"): "integer", ("31.12.2024", "1.2.2024"): "date",
              ("31.12.2024 10:00", "31.12.2024 10:00"): "timestamp", ("1.5", "2.5"): "text",
              ("true", "false"): "boolean", ("x", "1,5"): "text"}),
    ({}, {("12.0", "3.0"): "decimal", ("1", "0"): "integer", ("true", "False"): "boolean",
          ("2024-01-05", "2024-12-31"): "date", ("2024-01-05 10:00:00", "2024-12-31 11:00:00"): "timestamp",
          ("yes", "no"): "boolean", ("1.5", "2"): "decimal", ("y", "n"): "text", ("007", "008"): "text",
          ("007.5", "1.5"): "text", ("-0", "5"): "integer", (".5", "1e5"): "decimal"}),
]  # fmt: skip


@pytest.mark.parametrize(("written", "columns"), DRAFTED, ids=["German", "plain"])
def test_types_are_drafted(
    open_engine: Callable[..., Engine], written: dict[str, Any], columns: dict[tuple[str, str], str], tmp_path: Path
) -> None:
    """What could be several types is the same one on both: 12.0 is a decimal, 1 no boolean, a day no moment."""
    path = tmp_path / "t.csv"
    rows = [[f"c{at}" for at in range(len(columns))], *zip(*columns, strict=True)]
    path.write_text("".join(";".join(row) + "\n" for row in rows))
    with contextlib.closing(open_engine(str(path), ReadOptions(delimiter=";", **written))) as engine:
        found = [str(kind) for kind in engine.describe().values()]
    assert found == list(columns.values())


@GROUP
@pytest.mark.servers
@pytest.mark.usefixtures("spark_session")
@pytest.mark.parametrize("kind", NATIVE)
def test_cells_at_random(kind: str, tmp_path: Path) -> None:
    """Cells a few keystrokes away from a value: both engines take the same ones, for the same values."""
    chance = random.Random(20240105)
    seeds, keys = [*READ[kind], *ODD[kind]], "0123456789.eE+-_ :TZtfyn\t\n"
    cells = set(seeds)
    while len(cells) < 1500:
        letters = list(chance.choice(seeds))
        for _ in range(chance.choice([1, 1, 2])):
            at = chance.randrange(len(letters) + 1)
            letters[at : at + chance.randrange(2)] = chance.choice([*keys, ""])
        cells.add("".join(letters) or "0")
    path = tmp_path / "cells.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerows([["n", "v"], *enumerate(sorted(cells))])
    outcomes = []
    for open_engine in OPENERS:
        with contextlib.closing(open_engine(str(path), ReadOptions(delimiter=",", null="none"))) as engine:
            columns = {"n": {"type": "integer"}, "v": {"type": "text"}}
            engine.impose(read_schema({"table": "t", "columns": columns}))
            value = read_cell(exp.column("v"), ColumnType(kind), exp.DataType.build(NATIVE[kind]))
            query = exp.select("n", "v", exp.alias_(value, "value")).from_(engine.relation())
            outcomes.append({row["n"]: (row["v"], repr(row["value"])) for row in engine.fetch(query).to_pylist()})
    assert len(outcomes[0]) > 1400
    assert outcomes[0] == outcomes[1]
