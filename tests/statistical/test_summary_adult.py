"""A summary of Adult at ε = 1: how near its counts and medians come, against the table read by Python's own reader."""

from __future__ import annotations

import csv
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Dataset, Ledger, Summary
from tests.known import known
from tests.schemas import Facts, category, declare, whole
from tests.statistical.conftest import PEOPLE

BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education_num": (1, 16),
    "capital_gain": (0, 99_999),
    "capital_loss": (0, 4_356),
    "hours_per_week": (1, 99),
}
EXACT = ("age", "education_num", "hours_per_week", "capital_gain", "capital_loss")
SURE = ("hours_per_week", "capital_gain", "capital_loss")  # nearly half of all rows and more share the median
RUNS, ENOUGH = 100, 95


@pytest.fixture(scope="module")
def cells(adult_train: Path) -> dict[str, list[str]]:
    with adult_train.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == PEOPLE
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.fixture(scope="module")
def adult_table(adult_train: Path, cells: dict[str, list[str]]) -> Iterator[Dataset]:
    columns: dict[str, Facts] = {
        name: whole(*BOUNDS[name]) if name in BOUNDS else category(*sorted(set(values)))
        for name, values in cells.items()
    }
    with Dataset.open(adult_train, schema=declare("adult", PEOPLE, columns), table="adult") as dataset:
        yield dataset


def summarise(dataset: Dataset, folder: Path, runs: int) -> list[Summary]:
    with Ledger.open(folder / "ledger.db") as ledger:
        found = [dataset.summary(ledger, epsilon=1, policy=f"budget:{runs}", again=True) for _ in range(runs)]
        assert len(known(ledger.account("adult")).entries) == runs
    return found


def counts_are_near(found: Summary) -> bool:
    """Every column has 32,561 rows and misses none; every value is as frequent as it is; within 3 % of all rows."""
    near = 0.03 * PEOPLE
    counts: list[Any] = [(each.count.value, PEOPLE) for each in found.columns]
    counts += [(each.missing.value, 0) for each in found.columns]
    return all(abs(value - meant) <= near for value, meant in counts)


def values_are_near(found: Summary, cells: dict[str, list[str]]) -> bool:
    listed: list[tuple[Any, int]] = [
        (figure.value, cells[column.declared.name].count(value))
        for column in found.columns
        for value, figure in column.values
    ]
    assert len(listed) > 70
    return all(abs(value - meant) <= 0.03 * PEOPLE for value, meant in listed)


def find_medians(found: Summary) -> dict[str, Any]:
    return {column.declared.name: column.quartiles[1].value for column in found.columns if column.quartiles}


def find_median(cells: dict[str, list[str]], name: str) -> int:
    return sorted(int(cell) for cell in cells[name])[PEOPLE // 2]  # n is odd: one row is in the middle


def test_what_is_all_but_sure(adult_table: Dataset, cells: dict[str, list[str]], tmp_path: Path) -> None:
    """n = 2 runs. 40 measures share ε, so counts have noise of scale 40, and a difference of two is beyond 977 rows
    with a chance below e⁻²⁴ · 14; for 30 of them and 75 values, α < 1e-7. A wrong median of hours lies at least
    2,000 rows further away, α < e⁻⁴⁰."""
    for found in summarise(adult_table, tmp_path, 2):
        assert counts_are_near(found)
        assert values_are_near(found, cells)
        medians = find_medians(found)
        assert {name: medians[name] for name in SURE} == {name: find_median(cells, name) for name in SURE}


@pytest.mark.long
def test_a_summary_of_adult_at_epsilon_1(adult_table: Dataset, cells: dict[str, list[str]], tmp_path: Path) -> None:
    """n = 100 runs, of which 95 are to hold."""
    weights = sorted(int(cell) for cell in cells["fnlwgt"])
    meant = {name: find_median(cells, name) for name in EXACT}
    counted = exact = placed = 0
    for found in summarise(adult_table, tmp_path, RUNS):
        counted += counts_are_near(found) and values_are_near(found, cells)
        medians = find_medians(found)
        exact += {name: medians[name] for name in EXACT} == meant
        low, high = bisect_left(weights, medians["fnlwgt"]), bisect_right(weights, medians["fnlwgt"])
        placed += low <= 0.52 * PEOPLE and high >= 0.48 * PEOPLE
    assert min(counted, exact, placed) >= ENOUGH
