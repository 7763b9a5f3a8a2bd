"""Run the command line inside this process, and small data to run it on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import Run, run_command
from tests.cli.small_shop import Shop
from tests.small_tables import PATIENTS_SCHEMA, write_patients


@pytest.fixture
def run() -> Run:
    """``run("risk", path, "SELECT …")`` → exit status and what was printed."""
    return run_command


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    """Five people, all of whom can be counted by hand."""
    return write_patients(tmp_path)


@pytest.fixture
def patients_schema(tmp_path: Path) -> Path:
    path = tmp_path / "patients.toml"
    path.write_text(PATIENTS_SCHEMA, encoding="utf-8")
    return path


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)
