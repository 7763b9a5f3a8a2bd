"""The bundled clinic and the benchmark's table: made again they are the same, and they are what their schemas say."""

from __future__ import annotations

import csv
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

REPOSITORY = Path(__file__).parents[2]
BENCH_ROWS = 500_000  # a little more than one chunk


def run_script(script: str, *arguments: str) -> None:
    subprocess.run([sys.executable, REPOSITORY / script, *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def people(clinic: Path) -> list[dict[str, str]]:
    with clinic.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def facts(clinic: Path) -> dict[str, Any]:
    return tomllib.loads(clinic.with_suffix(".toml").read_text(encoding="utf-8"))


def test_clinic_is_made_again_byte_for_byte(clinic: Path, tmp_path: Path) -> None:
    run_script("tools/generate_clinic.py", "--output", str(tmp_path / "again.csv"))
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


def test_somebody_in_the_clinic_stands_out(people: list[dict[str, str]]) -> None:
    diagnoses = Counter(person["diagnosis"] for person in people)
    assert diagnoses["Wilson disease"] == 3
    assert min(count for name, count in diagnoses.items() if name != "Wilson disease") > 100
    assert Counter(person["district"] for person in people)["Seal Island"] == 11
    assert sum(p["district"] == "Seal Island" and p["diagnosis"] == "Wilson disease" for p in people) == 1


def test_clinic_has_heavy_tails_and_gaps(people: list[dict[str, str]]) -> None:
    visits = sorted(int(person["visits"]) for person in people)
    costs = sorted(Decimal(person["cost_eur"]) for person in people if person["cost_eur"])
    assert 100 < len(people) - len(costs) < 220
    assert visits[len(visits) // 2] <= 3 < 50 < visits[-1] <= 60
    assert costs[len(costs) // 2] < 500 < 40_000 < costs[-1] < 50_000


@pytest.fixture(scope="module")
def bench_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("bench") / "adult.parquet"
    run_script("bench/generate.py", "--rows", str(BENCH_ROWS), "-o", str(target))
    return target


def test_bench_table_is_made_again_byte_for_byte(bench_table: Path, tmp_path: Path) -> None:
    run_script("bench/generate.py", "--rows", str(BENCH_ROWS), "-o", str(tmp_path / "adult.parquet"))
    for suffix in (".parquet", ".toml"):
        assert (tmp_path / "adult").with_suffix(suffix).read_bytes() == bench_table.with_suffix(suffix).read_bytes()


def test_bench_table_is_what_its_schema_says(bench_table: Path) -> None:
    table = pq.read_table(bench_table)
    facts = tomllib.loads(bench_table.with_suffix(".toml").read_text(encoding="utf-8"))
    assert facts["individuals"] == table.num_rows == BENCH_ROWS
    assert table.column_names == list(facts["columns"])
    for name, column in facts["columns"].items():
        assert table[name].null_count == 0
        if "values" in column:
            assert set(pc.unique(table[name]).to_pylist()) <= set(column["values"])
        else:
            low, high = column["bounds"]
            extremes = pc.min_max(table[name]).as_py()
            assert low <= extremes["min"] <= extremes["max"] <= high


def test_bench_table_matches_as_many_people_as_adult(bench_table: Path, adult_train: Path) -> None:
    """The shares of people in the paper's five queries, within a quarter of Adult's own. The table is seeded."""
    shares = """
        SELECT AVG(CAST(income = '>50K' AND education_num = 13 AND age = 25 AS INTEGER)),
               AVG(CAST(race = 'Asian-Pac-Islander' AND age BETWEEN 30 AND 40 AS INTEGER)),
               AVG(CAST(native_country <> 'United-States' AND sex = 'Female' AS INTEGER)),
               AVG(CAST(workclass IN ('Federal-gov', 'Local-gov', 'State-gov') AS INTEGER)),
               AVG(capital_gain)
        FROM read_{format}($path)
    """
    with duckdb.connect() as connection:
        truth = connection.execute(shares.format(format="csv"), {"path": str(adult_train)}).fetchone()
        made = connection.execute(shares.format(format="parquet"), {"path": str(bench_table)}).fetchone()
    assert made == pytest.approx(truth, rel=0.25)
