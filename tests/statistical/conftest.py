"""Many releases, of tables that differ by somebody."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

PEOPLE = 32_561  # of Adult's training split


@pytest.fixture(scope="module", autouse=True)
def _shared_duckdb(shared_duckdb: None) -> None:
    """Every table in memory is opened in the DuckDB of its module."""


@pytest.fixture(scope="session")
def matching(adult_train: Path) -> int:
    """How many of Adult the paper's first query counts, by Python's own reader."""
    with adult_train.open(encoding="utf-8", newline="") as stream:
        rows = [(row["income"], row["education_num"], row["age"]) for row in csv.DictReader(stream)]
    assert len(rows) == PEOPLE
    return rows.count((">50K", "13", "25"))
