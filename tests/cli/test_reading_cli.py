"""Where commands read SQL and data from, and the two that do not look at people: schema and explain."""

from __future__ import annotations

import gzip
import io
import math
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dosimeter.dataset import Dataset
from dosimeter.schema.toml import load_schema
from tests.cli.command_line import Run
from tests.cli.looking_documents import SUM, check_shape

# ---------------------------------------------------------------- where SQL and data come from


def test_sql_from_a_file_and_from_standard_input(
    run: Run, patients: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "query.sql").write_text(f"{SUM}\n-- everybody's age\n", encoding="utf-8")
    assert run("risk", patients, f"@{tmp_path / 'query.sql'}", "--epsilon", 1, "--json").json["query"].startswith(SUM)
    for name in ("-", "@-"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(SUM))
        assert run("risk", patients, name, "--epsilon", 1, "--json").json["query"] == SUM
    monkeypatch.setattr(sys, "stdin", None)
    assert run("risk", patients, "-").status == 2
    for source in ("-", "/dev/stdin"):  # read more than once
        refused = run("risk", source, SUM)
        assert refused.status == 2
        assert "Data cannot come from standard input" in refused.err


def test_sources(run: Run, patients: Path, tmp_path: Path) -> None:
    expected = run("risk", patients, SUM, "--epsilon", 1, "--json").json
    table = pa.csv.read_csv(patients)
    pa.parquet.write_table(table, tmp_path / "patients.parquet")
    (tmp_path / "zipped").mkdir()
    (tmp_path / "zipped" / "patients.csv.gz").write_bytes(gzip.compress(patients.read_bytes()))
    (tmp_path / "parts").mkdir()
    lines = patients.read_text().splitlines(keepends=True)
    (tmp_path / "parts" / "a.csv").write_text("".join(lines[:3]))
    (tmp_path / "parts" / "b.csv").write_text("".join([lines[0], *lines[3:]]))
    (tmp_path / "semicolons.csv").write_bytes(patients.read_bytes().replace(b",", b";").replace(b"Ann", b"Zo\xeb"))
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as database:
        database.register("source", table)
        database.execute("CREATE TABLE patients AS SELECT * FROM source")
        database.execute("CREATE TABLE others AS SELECT 1 AS one")
    for words in (
        [tmp_path / "patients.parquet"],
        [tmp_path / "zipped" / "patients.csv.gz"],
        [tmp_path / "parts" / "*.csv", "--table", "patients"],
        [tmp_path / "semicolons.csv", "--table", "patients", "--delimiter", ";", "--encoding", "latin-1"],
        [f"duckdb:{tmp_path / 'clinic.duckdb'}", "--table", "patients"],
    ):
        document = run("risk", words[0], SUM, *words[1:], "--epsilon", 1, "--json").json
        assert {**document, "query": SUM} == expected, words


def test_null_is_written_as_told(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x\n1\nNA\n3\n")
    document = run("risk", path, "SELECT COUNT(x) FROM t", "--null", "NA", "--epsilon", 1, "--json").json
    assert document["sensitivities"]["histogram"] == [{"value": 0.0, "count": 1}, {"value": 1.0, "count": 2}]


# ---------------------------------------------------------------- schema and explain


AGREES = {"agrees": True, "findings": [], "remarks": [], "odd_cells": {}}


def test_schema_draft_loads_and_agrees(run: Run, patients: Path, clinic: Path, tmp_path: Path) -> None:
    for data in (patients, clinic):
        target = tmp_path / "drafted.toml"
        assert run("schema", data, "-o", target).status == 0
        text = target.read_text(encoding="utf-8")
        assert text.startswith("# Drafted from the data.")
        schema = load_schema(target)
        assert (schema.table, schema.reviewed) == (data.stem, False)
        assert run("schema", data).out == text
        check = run("schema", data, "--check", target)
        assert (check.status, check.err) == (0, "")
        assert run("schema", data, "--check", target, "--json").json == AGREES
        as_json = run("schema", data, "--json").json
        with Dataset.open(data, schema=as_json) as dataset:
            assert dataset.schema == schema


def test_schema_check_counts_what_disagrees(run: Run, patients: Path, patients_schema: Path) -> None:
    text = patients_schema.read_text()
    text = text.replace("individuals = 6", "individuals = 4").replace("[0, 100] }\nward", "[35, 80] }\nward")
    patients_schema.write_text(text.replace('"north", ', "").replace("resolution = 0.25", "resolution = 0.5"))
    outcome = run("schema", patients, "--check", patients_schema, "--json")
    assert outcome.status == 1
    assert outcome.json["agrees"] is False
    findings = {(finding["column"], finding["problem"]) for finding in outcome.json["findings"]}
    assert findings == {
        (None, "the data holds 5 individuals and the schema declares 4"),
        ("age", "values below the lower bound: 1"),
        ("age", "values above the upper bound: 1"),
        ("ward", "values that are not in its list: 1"),
        ("pay", "values that are no multiple of its resolution, and would be rounded: 2"),
    }
    assert "pay: values that are no multiple" in run("schema", patients, "--check", patients_schema).out


def test_explain(run: Run, patients_schema: Path) -> None:
    query = "SELECT ward, AVG(age) FROM patients GROUP BY ward ORDER BY ward LIMIT 2"
    document = run("explain", query, "--schema", patients_schema, "--json").json
    check_shape(
        document,
        {
            "query": str, "table": str, "columns": list, "outputs": list, "measures": list, "groups": int,
            "group_columns": list, "k": int, "sensitivity": dict, "additive": bool, "post_processing": list,
            "digest": str, "notes": list, "stages": dict, "less_noise": dict, "costs": list,
        },
    )  # fmt: skip
    assert (document["groups"], document["k"]) == (3, 6)
    assert document["sensitivity"] == {"laplace": 2.0, "gaussian": pytest.approx(math.sqrt(2))}  # S5
    assert [(measure["sensitivity"], measure["grid"]) for measure in document["measures"]] == [(1.0, 1.0), (50.0, 0.5)]
    spoken = run("explain", query, "--schema", patients_schema).out
    assert "6 noisy numbers: 2 for each of the 3 declared groups of ward." in spoken
    floor = run("explain", "SELECT AVG(age) FROM patients", "--schema", patients_schema, "--min-rows", 9, "--json").json
    assert floor["sensitivity"]["laplace"] == pytest.approx(10.0)
    assert (
        "and not by a noisy test" in run("explain", "SELECT MEDIAN(age) FROM patients", "--schema", patients_schema).out
    )
