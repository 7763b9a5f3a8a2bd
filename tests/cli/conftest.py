"""Run the command line inside this process, and small data to run it on."""

from __future__ import annotations

from pathlib import Path

import pytest

from dosimeter.cli import main
from tests.cli.command_line import Outcome, Run
from tests.cli.small_shop import Shop


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """``run("risk", path, "SELECT …")`` → exit status and what was printed."""

    def call(*words: object) -> Outcome:
        capsys.readouterr()
        status = main([str(word) for word in words])
        printed = capsys.readouterr()
        return Outcome(status, printed.out, printed.err)

    return call


@pytest.fixture
def clinic_schema(clinic: Path) -> Path:
    return clinic.with_suffix(".toml")


PATIENTS = """name,age,ward,pay,ill,since
Ann,30,east,10.50,true,2020-01-01
Bob,40,east,20.25,false,2020-06-01
Cleo,40,west,30.00,true,2021-01-01
Dan,,west,,false,
Zara,90,north,99.75,true,2021-12-31
"""
PATIENTS_SCHEMA = """table = "patients"
individuals = 6
reviewed = true

[columns.name]
type = "text"
identifying = true

[columns.age]
type = "integer"
bounds = [0, 100]

[columns.ward]
type = "category"
values = ["east", "north", "west"]

[columns.pay]
type = "decimal"
bounds = [0, 100]
resolution = 0.25

[columns.ill]
type = "boolean"

[columns.since]
type = "date"
bounds = [2020-01-01, 2021-12-31]
"""


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    """Five people, all of whom can be counted by hand."""
    path = tmp_path / "patients.csv"
    path.write_text(PATIENTS, encoding="utf-8")
    return path


@pytest.fixture
def patients_schema(tmp_path: Path) -> Path:
    path = tmp_path / "patients.toml"
    path.write_text(PATIENTS_SCHEMA, encoding="utf-8")
    return path


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shop:
    return Shop(tmp_path, capsys)
