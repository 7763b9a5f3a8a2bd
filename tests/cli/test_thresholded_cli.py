"""Groups that nobody declared (H1) on the command line: who sees what, and where no cell may stand."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dosimeter.schema.toml import dump_schema, read_schema
from tests.cli.command_line import Run, check_refusal
from tests.unit.test_thresholded_groups import COUNTS, FACTS, NOTES


def write_notes(folder: Path) -> tuple[Path, Path]:
    data, schema = folder / "notes.parquet", folder / "notes.toml"
    pq.write_table(NOTES, data)
    schema.write_text(dump_schema(read_schema(FACTS)))
    return data, schema


def test_every_command(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    data, schema = write_notes(tmp_path)
    asked = ["--schema", schema, "--groups", "thresholded", "--group-delta", "1e-6"]
    risk = run("risk", data, COUNTS, *asked, "--epsilon", "1", "--json")
    assert risk.json["thresholded"]["observed"] == 33
    shown = run("risk", data, COUNTS, *asked, "--epsilon", "1")
    assert "15 people" in shown.out
    assert "34 of 414" in shown.out
    found = run("find", data, COUNTS, *asked, "--prefer", "ratio:0.5")
    assert "of 33" in found.out
    terms = ["--ledger", tmp_path / "l.db", "--policy", "budget:5", "--delta-total", "1e-4", "--epsilon", "1"]
    dry = run("release", data, COUNTS, *asked, *terms, "--dry-run")
    assert "15 people" in dry.out
    released = run("release", data, COUNTS, *asked, *terms, "--json")
    assert {row["topic"] for row in released.json["answer"]} >= {"flu", "gout"}
    explained = run("explain", COUNTS, *asked)
    assert explained.status == 0
    told = "".join(result.err for result in (risk, shown, found, dry, released)) + caplog.text + explained.out
    assert not any(topic in told for topic in ("flu", "gout", "alone-"))
    check_refusal(run("risk", data, COUNTS, "--schema", schema), "--groups thresholded and --group-delta D")


def test_find_honours_the_delta_that_is_left(run: Run, tmp_path: Path) -> None:
    """What find says of the account is what a release meets there: δ for one more answer, then for none."""
    data, schema = write_notes(tmp_path)
    asked = [data, COUNTS, "--schema", schema, "--groups", "thresholded", "--group-delta", "1e-6"]
    asked += ["--ledger", tmp_path / "l.db"]
    terms = ["--policy", "budget:5", "--delta-total", "1.5e-6", "--epsilon", "1"]
    assert run("release", *asked, *terms).status == 0
    found = run("find", *asked, "--prefer", "ratio:0.5", "--json")
    denied = run("release", *asked, "--epsilon", "0.5")
    assert (found.status, found.json["epsilon"], len(found.json["cut_off"])) == (1, None, 37)
    assert denied.status == 1
