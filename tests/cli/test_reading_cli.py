"""Where commands read SQL from, and the words of the two that do not look at people: schema and explain."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tests.cli.command_line import Run, check_refusal
from tests.cli.test_risk_and_find import SUM

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
        check_refusal(run("risk", source, SUM), "standard input")


# ---------------------------------------------------------------- schema and explain


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
