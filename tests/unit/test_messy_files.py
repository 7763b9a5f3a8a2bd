"""Files as offices have them: decimal commas, other days, other letters, no header, many columns, many values."""

from __future__ import annotations

import csv
import random
from contextlib import closing
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from sqlglot import exp

from dosimeter import DataError, Dataset, OptionError
from dosimeter.engines.duckdb import open_duckdb
from dosimeter.engines.engine import ReadOptions
from dosimeter.inspection.written_draft import write_draft
from dosimeter.problems import Surface
from dosimeter.schema.facts import ColumnType
from tests.unit import drafts
from tests.unit.drafts import check

EUROPEAN = ReadOptions(encoding="cp1252", decimal=",", date_format="%d.%m.%Y")
PEOPLE = 300
draft = partial(drafts.draft, surface=Surface.COMMAND_LINE)


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """A file from an office in Bern: cp1252, semicolons, commas, points between thousands, days as 31.12.2024."""
    chance = random.Random(7)
    lines = ["Patienten-Nr;Größe;Kosten;Aufnahme;Entlassung;Preis"]
    for at in range(PEOPLE):
        day = date(2024, 1, 1).fromordinal(date(2024, 1, 1).toordinal() + at)
        cost = f"{chance.randint(1, 9)}.{chance.randint(0, 999):03},{chance.randint(0, 99):02}"
        lines.append(
            f"{1000 + at};1,{50 + at % 40};{cost};{day:%d.%m.%Y};{day:%d.%m.%Y} 14:05;{'für viele' if at % 3 else 'ok'}"
        )
    path = tmp_path / "clinic.csv"
    path.write_bytes(("\r\n".join(lines) + "\r\n").encode("cp1252"))
    return path


def write(path: Path, header: str, cells: list[str]) -> str:
    path.write_text("\n".join([f"{header};other", *(f"{cell};{at % 3}" for at, cell in enumerate(cells))]) + "\n")
    return str(path)


# ---------------------------------------------------------------- read as told


def test_a_european_file_is_drafted_and_agrees(clinic: Path) -> None:
    written = draft(str(clinic), EUROPEAN)
    kinds = {name: column.type for name, column in written.schema.columns.items()}
    assert kinds == {
        "Patienten-Nr": ColumnType.INTEGER, "Größe": ColumnType.DECIMAL, "Kosten": ColumnType.DECIMAL,
        "Aufnahme": ColumnType.DATE, "Entlassung": ColumnType.TIMESTAMP, "Preis": ColumnType.CATEGORY,
    }  # fmt: skip
    assert written.remarks == ()
    assert written.schema.columns["Patienten-Nr"].identifying
    assert written.schema.columns["Größe"].bounds == (Decimal("1.5"), Decimal("1.89"))
    assert written.schema.columns["Aufnahme"].bounds == (date(2024, 1, 1), date(2024, 10, 26))
    assert written.schema.columns["Preis"].values == ("für viele", "ok")
    assert check(str(clinic), written.schema, EUROPEAN).agrees


def test_its_numbers_are_those_of_python(clinic: Path) -> None:
    """The sum is that of the cells, read here by hand."""
    cells = [line.split(";")[2] for line in clinic.read_text(encoding="cp1252").splitlines()[1:]]
    expected = sum(Decimal(cell.replace(".", "").replace(",", ".")) for cell in cells)
    with Dataset.open(clinic, encoding="cp1252", decimal=",", date_format="%d.%m.%Y") as dataset:
        risk = dataset.risk("SELECT SUM(Kosten) AS s FROM clinic WHERE Aufnahme <= DATE '2024-12-31'")
        assert float(risk.measured().values[0][0]) == pytest.approx(float(expected))
        assert risk.matched == PEOPLE


def read_cells(path: Path, kind: str, cells: list[str], options: ReadOptions) -> list[object]:
    """Return the cells of one column as values of a type."""
    from dosimeter.schema.toml import read_schema

    with closing(open_duckdb(write(path, "x", cells), options)) as engine:
        engine.impose(read_schema({"table": "t", "columns": {"x": {"type": kind}}}))
        return list(engine.fetch(exp.select("x").from_(engine.relation())).column(0).to_pylist())


@pytest.mark.parametrize(
    ("form", "cells", "expected"),
    [
        ("%d.%m.%Y", ["31.12.2024", "1.2.2024", "2024-12-31", "31.13.2024", "12/31/2024", "31.12.24"],
         [date(2024, 12, 31), date(2024, 2, 1), date(2024, 12, 31), None, None, None]),
        ("%m/%d/%Y", ["12/31/2024", "2/1/2024", "31/12/2024"], [date(2024, 12, 31), date(2024, 2, 1), None]),
        ("%Y%m%d", ["20241231", "2024123"], [date(2024, 12, 31), None]),
        ("%Y-%d-%m", ["2024-01-02", "2024-13-01"], [date(2024, 2, 1), date(2024, 1, 13)]),
        ("%d.%m.%Y %H:%M", ["31.12.2024"], [date(2024, 12, 31)]),
    ],
)  # fmt: skip
def test_days_in_a_format(form: str, cells: list[str], expected: list[date | None], tmp_path: Path) -> None:
    assert read_cells(tmp_path / "t.csv", "date", cells, ReadOptions(delimiter=";", date_format=form)) == expected


@pytest.mark.parametrize("form", ["", "%d.%m", "%d.%m.%y", "%d.%d.%m.%Y", "%B %d %Y", "%d[%m]%Y", "31.12.2024", "%x"])
def test_a_format_that_says_nothing_is_refused(form: str, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "x", ["1"])
    with pytest.raises(OptionError, match="date_format"):
        open_duckdb(path, ReadOptions(date_format=form))
    with pytest.raises(OptionError, match="comma or a point"):
        open_duckdb(path, ReadOptions(decimal=";"))


def test_how_a_file_is_read_is_part_of_its_digest_and_not_of_its_identity(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "x", ["1,5", "2,5"])
    ways = [{}, {"decimal": "."}, {"decimal": ","}, {"date_format": "%d.%m.%Y"}]
    digests: list[str] = []
    identities: set[str] = set()
    for way in ways:
        with closing(open_duckdb(path, ReadOptions(**way))) as engine:  # type: ignore[arg-type]
            digests.append(engine.fingerprint())
            identities |= engine.identities()
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    assert len(identities) == 1


# ---------------------------------------------------------------- what a draft remarks on


@pytest.mark.parametrize(
    ("cells", "remark"),
    [
        (["36,5", "37,1"], "--decimal ,"),
        (["1,234", "12,345"], "between thousands"),
        (["31.12.2024", "1.2.2024"], "--date-format %d.%m.%Y"),
        (["31.12.24", "01.02.24"], "two digits for the year"),
        (["37%", "4.5 %"], "percent signs"),
        (["12 EUR", "7,50 €"], "currency signs"),
        (["1", "2", "NA"], "--null NA"),
        (["1.5", "n/a", "2"], "--null n/a"),
        *((cells, None) for cells in (["yes", "no"], ["A1", "B2"], ["1,5 kg", "2"], ["1", "2", "many"])),
    ],
)
def test_cells_in_another_form_are_remarked_on(cells: list[str], remark: str | None, tmp_path: Path) -> None:
    written = draft(write(tmp_path / "t.csv", "x", cells * 10))
    if remark is None:
        assert written.remarks == ()
        return
    (found,) = written.remarks
    assert found.startswith("x looks like")
    assert remark in found
    assert f"# {found}" in written.text
    assert not any(cell in found for cell in cells if not cell.isalpha() and cell != "n/a" and len(cell) > 1)


@pytest.mark.parametrize("cells", [["01067", "80331"], ["01067", "NA", "80331"]])
def test_codes_with_leading_zeros_are_no_numbers_with_missing_values(cells: list[str], tmp_path: Path) -> None:
    found = draft(write(tmp_path / "t.csv", "zip", cells))
    (remark,) = [remark for remark in found.remarks if remark.startswith("zip ")]
    assert remark.startswith("zip holds codes with leading zeros")
    assert found.schema.columns["zip"].type in (ColumnType.TEXT, ColumnType.CATEGORY)


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        (["34,M,12.5", "51,F,3.25", "34,M,1.5"], True),
        (["Asthma,North", "Flu,South", "Asthma,North"], True),
        (["2024-01-05,A", "2024-01-06,B"], True),
        (["age,sex", "34,M", "51,F"], False),
        (["Country,2019,2020", "Chad,1,2", "Mali,3,4"], False),
        (["Country,2019,2020", "Chad,1,2", "Country,3,4"], True),
        (["2019,2020", "1,2", "3,4"], False),
        (["name,city", "Ann,Bern", "Bea,Chur"], False),
    ],
)
def test_a_missing_header_is_noticed(lines: list[str], missing: bool, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    assert any("no header line" in remark for remark in draft(str(path)).remarks) is missing
    with Dataset.open(path) as dataset:
        notes = dataset.risk("SELECT COUNT(*) FROM t").notes
        assert any("no header line" in note for note in notes) is missing


def test_text_that_is_not_utf_8_says_what_to_try(clinic: Path) -> None:
    with pytest.raises(DataError, match=r"not UTF-8.*encoding=\"cp1252\""):
        draft(str(clinic))
    clinic.write_bytes(clinic.read_bytes().replace(b"ok", b"\x80\x96"))  # € and a dash, which latin-1 does not have
    with pytest.raises(DataError, match="iconv -f cp1252"):
        draft(str(clinic), EUROPEAN)


# ---------------------------------------------------------------- names, and many values


@pytest.mark.parametrize(
    ("name", "values", "listed"),
    [
        ("un_continent_name", 5, True), ("name", 5, True), ("region name", 40, True), ("patient_name", 5, False),
        ("surname", 5, False), ("first_name", 5, False), ("email", 5, False), ("address", 5, False),
        ("name", 150, False),
    ],
)  # fmt: skip
def test_a_name_of_few_things_identifies_nobody(name: str, values: int, listed: bool) -> None:
    written = draft(pa.table({name: [f"v{at % values}" for at in range(600)], "x": list(range(600))}))
    column = written.schema.columns[name]
    assert column.identifying is not listed
    assert (column.values is not None) is listed
    assert ("Are they names of people?" in written.text) is listed


@pytest.mark.parametrize(("rows", "identifying"), [(20_000, False), (1_000, True)])
def test_more_than_a_hundred_values_are_a_question(rows: int, identifying: bool) -> None:
    written = draft(pa.table({"dest": [f"D{at % 105}" for at in range(rows)], "flight_id": list(range(rows))}))
    column = written.schema.columns["dest"]
    assert column.type is ColumnType.TEXT
    assert column.identifying is identifying
    assert "# 105 different values" in written.text
    assert written.schema.unit == "row"
    (remark,) = written.remarks
    assert remark.startswith("Too many values to list: dest.")


def test_many_columns_are_drafted_in_few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distinct counts of many columns at once take an engine longer than their number; a query for each does too."""
    columns: dict[str, list[str] | list[float]] = {f"c{at}": [f"v{at % 7}", "a", "b"] * 4 for at in range(100)}
    columns |= {f"n{at}": [at / 4, 1.5, 2.25] * 4 for at in range(100)}
    asked: list[int] = []
    with closing(open_duckdb(pa.table(columns))) as engine:
        run = engine.fetch

        def count(query: exp.Select) -> pa.Table:
            asked.append(len(query.expressions))
            return run(query)

        monkeypatch.setattr(engine, "fetch", count)
        written = write_draft(engine)
    assert len(written.schema.columns) == 200
    assert len(asked) <= 30
    assert max(asked) <= 25 * 25


def test_a_wide_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its draft is that of the same columns in a narrow file, and comes about although the file is gone meanwhile."""
    cells = {
        "whole": [str(at % 9) for at in range(40)],
        "number": [f"{at / 8}" for at in range(40)],
        "kind": ["abc"[at % 3] for at in range(40)],
        "day": [f"2024-01-{at % 28 + 1:02}" for at in range(40)],
        "flag": ["true", "false"] * 20,
        "big": ["1e5", "2.5e7", "", "nan"] * 10,
        "zoned": [f"2024-01-01 10:{at:02}:00+02:00" for at in range(40)],
        "comma": [f"{at},5" for at in range(40)],
    }
    wide = {f"{name}_{copy}": column for copy in range(4) for name, column in cells.items()}
    drafts = []
    for table in (wide, {f"{name}_0": column for name, column in cells.items()}):
        path = tmp_path / f"{len(table)}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([list(table), *zip(*table.values(), strict=True)])
        with closing(open_duckdb(str(path))) as engine:
            hold = engine.hold
            monkeypatch.setattr(engine, "hold", lambda hold=hold, path=path: (hold(), path.unlink()))
            drafts.append(write_draft(engine))
            assert path.exists() == (table is not wide)
    found, narrow = (drafted.schema.columns for drafted in drafts)
    assert found == {name: replace(narrow[f"{name[:-2]}_0"], name=name) for name in wide}
    assert set(drafts[0].remarks) >= set(drafts[1].remarks)


def test_prose_is_no_list(tmp_path: Path) -> None:
    notes = ["well", "x" * 100_000] * 10
    written = draft(pa.table({"note": notes, "short": ["a", "b"] * 10}))
    assert written.schema.columns["note"].type is ColumnType.TEXT
    assert written.schema.columns["short"].values == ("a", "b")
    assert "xxx" not in written.text


def test_a_schema_drafted_from_a_csv_fits_the_same_table_in_pandas(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,smokes\n" + "".join(f"{20 + at},{'yes' if at % 3 else 'no'}\n" for at in range(30)))
    schema = draft(str(path)).schema
    assert schema.columns["smokes"].type is ColumnType.BOOLEAN
    sql = f"SELECT COUNT(*) FROM {schema.table} WHERE smokes"
    for source in (path, pd.read_csv(path)):
        with Dataset.open(source, schema=schema) as dataset:
            assert dataset.risk(sql).measured().values == ((20,),)
