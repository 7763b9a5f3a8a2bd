"""The bundled clinic and the benchmark's table: made again they are the same, and they are what their schemas say."""

from __future__ import annotations

import csv
import subprocess
import sys
import tomllib
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def people(clinic: Path) -> list[dict[str, str]]:
    with clinic.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def facts(clinic: Path) -> dict[str, Any]:
    return tomllib.loads(clinic.with_suffix(".toml").read_text(encoding="utf-8"))


def test_clinic_is_made_again_byte_for_byte(clinic: Path, tmp_path: Path) -> None:
    words = [sys.executable, str(REPOSITORY / "tools" / "generate_clinic.py"), "--output", str(tmp_path / "again.csv")]
    subprocess.run(words, check=True, capture_output=True)
    assert (tmp_path / "again.csv").read_bytes() == clinic.read_bytes()


def test_clinic_is_what_its_schema_says(people: list[dict[str, str]], facts: dict[str, Any]) -> None:
    read: dict[str, Callable[[str], Any]] = {"integer": int, "decimal": Decimal, "date": date.fromisoformat}
    assert facts["individuals"] == len(people) == len({person["patient_id"] for person in people})
    assert list(people[0]) == list(facts["columns"])
    for name, column in facts["columns"].items():
        cells = [person[name] for person in people if person[name]]
        assert len(cells) == len(people) or name == "cost_eur"
        if "values" in column:
            assert set(cells) == set(column["values"])
        if "bounds" in column:
            low, high = column["bounds"]
            assert all(low <= read[column["type"]](cell) <= high for cell in cells)
        if "resolution" in column:
            assert all(Decimal(cell) % Decimal(str(column["resolution"])) == 0 for cell in cells)
        if column["type"] == "boolean":
            assert set(cells) == {"true", "false"}
