"""N5: the controller's own view counts who is in the table; promises go by the declared number."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.influence.units import joint_queries
from dosimeter.release.ways.selected import Selected
from tests.schemas import category, declare, plain, whole

pytestmark = pytest.mark.usefixtures("shared_duckdb")
PEOPLE = 40
COLUMNS: dict[str, list[Any]] = {
    "ward": ["east", "west", "north", "elsewhere"] * (PEOPLE // 4),
    "age": list(range(PEOPLE)),
}
QUERIES = [
    "SELECT COUNT(*) FROM people",
    "SELECT COUNT(*) FROM people WHERE age < 10",
    "SELECT ward, COUNT(*) FROM people GROUP BY ward",
    "SELECT SUM(age) FROM people WHERE ward = 'east'",
]
UNION = (
    "SELECT ward, COUNT(*) AS n FROM people WHERE age < 12 GROUP BY ward "
    "UNION ALL SELECT 'few', SUM(age) FROM people WHERE age BETWEEN 30 AND 33"
)
PREFERENCES = ["ratio:0.9", "variance:0.001", "MEDIAN(rdr) / MAX(rdr) >= 0.5", "advantage:0.3", "own:0.2,error:400"]


def declare_people(individuals: int, **more: Any) -> dict[str, Any]:
    wards = category("east", "west", "north")
    columns = {"ward": wards, "age": whole(0, 100)}
    return declare("people", individuals, columns) | more


def open_people(individuals: int) -> Dataset:
    return Dataset.open(pa.table(COLUMNS), schema=declare_people(individuals))


def open_visits() -> Dataset:
    """Ten people of 25 declared, with a visit in each of the four wards."""
    visits = pa.table({"who": [f"p{at // 4}" for at in range(40)], "id": list(range(40)), **COLUMNS})
    schema = declare_people(25, unit="who", max_rows_per_unit=4, row_key="id")
    schema["columns"] |= {"who": plain("text"), "id": whole(0, 100)}
    return Dataset.open(visits, schema=schema)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(
    "options",
    [{}, {"mechanism": "gaussian", "delta": 1e-5}, {"indicator": "cell"}],
    ids=["laplace", "gaussian", "cell"],
)
def test_padding_changes_no_advice(query: str, options: dict[str, Any]) -> None:
    told = []
    for individuals in (PEOPLE, 2 * PEOPLE, 1_000_000):
        with open_people(individuals) as dataset:
            risk = dataset.risk(query, **options)
            assert (risk.n, risk.present, risk.contributions.n) == (individuals, PEOPLE, PEOPLE)
            choices = [risk.find(preference) for preference in PREFERENCES]
            told.append([(choice.epsilon, choice.limit, choice.words) for choice in choices])
    assert told[0] == told[1] == told[2]


def test_the_difference_is_said_once() -> None:
    sentence = "40 people are in the table; 80 were declared."
    with open_people(80) as dataset:
        risk = dataset.risk(QUERIES[0])
        assert risk.risk_notes().count(sentence) == 1
        assert risk.find("ratio:0.9").notes.count(sentence) == 1
        assert dataset.risk(QUERIES[0], mechanism="gaussian").mechanism.delta == 1 / 80**2  # a promise: declared
    with open_people(40) as dataset:
        assert not any("declared" in note for note in dataset.risk(QUERIES[0]).risk_notes())


def test_who_is_touched() -> None:
    """Nobody outside the WHERE, and nobody in a group that was not declared: counted by hand."""
    with open_people(PEOPLE) as dataset:
        assert dataset.risk("SELECT ward, COUNT(*) FROM people GROUP BY ward").matched == 30
        assert dataset.risk("SELECT ward, SUM(age) FROM people WHERE age >= 20 GROUP BY ward").matched == 15
        assert dataset.risk("SELECT COUNT(*) FROM people WHERE age > 900").matched == 0
        assert dataset.risk("SELECT SUM(age) FROM people WHERE age < 1").matched == 1  # moves nothing, and is in it
        assert dataset.risk("SELECT COUNT(*) FROM people").matched == 40
        assert dataset.risk(UNION).matched == 13  # 9 of ages 0 … 11 are in a declared ward, 4 more are of 30 … 33
        by_age = "SELECT age, COUNT(*) FROM people WHERE age < 7 GROUP BY age"
        assert dataset.risk(by_age, groups="thresholded", group_delta=1e-4).matched == 7
    with open_visits() as dataset:
        grouped = dataset.risk("SELECT ward, COUNT(*) FROM people WHERE age >= 20 GROUP BY ward")
        assert (grouped.n, grouped.present, grouped.matched) == (25, 10, 5)
        assert dataset.risk("SELECT COUNT(*) FROM people WHERE ward = 'elsewhere'").matched == 10


@pytest.mark.parametrize("most", [1000, 0], ids=["side by side", "as texts"])
def test_several_selects_touch_whom_any_of_them_touches_by_unit(most: int) -> None:
    """Units p0 … p9 have ages 4i … 4i + 3, one in each ward; whoever has zeros everywhere may be in or out."""
    with patch.object(joint_queries, "MOST_COLUMNS", most), open_visits() as dataset:
        assert dataset.risk(UNION).matched == 5  # p0, p1, p2, and p7 and p8, who have ages 30 … 33
        nothing = "SELECT SUM(age) FROM people WHERE age < 1 UNION ALL SELECT COUNT(*) FROM people WHERE age > 90"
        assert dataset.risk(nothing).matched == 1  # p0 moves nothing, and is in it
        outside = "SELECT ward, COUNT(*) FROM people WHERE ward = 'elsewhere' GROUP BY ward"
        assert dataset.risk(f"{outside} UNION ALL SELECT 'old', COUNT(*) FROM people WHERE age > 90").matched == 0


def test_the_noisy_test_is_over_the_declared_slots() -> None:
    """V1 goes by what is public: the levels are those of 500 slots, of which 460 are empty."""
    with open_people(500) as dataset:
        risk = dataset.query(QUERIES[1]).risk()
        prepared: Any = type("PreparedRelease", (), {"n": 500, "mechanism": risk.mechanism, "candidates": (1.0,)})()
        problem = Selected(1.0, 0.01).state_problem(prepared, risk)
        assert (problem.n, problem.slots) == (500, 500)
        values = np.repeat(problem.values, problem.counts)
        assert np.sort(values).tolist() == [0.0] * 490 + [1.0] * 10


def test_an_empty_table_is_one_empty_slot() -> None:
    empty = pa.table({"ward": pa.array([], pa.string()), "age": pa.array([], pa.int64())})
    with Dataset.open(empty, schema=declare_people(30)) as dataset:
        risk = dataset.risk(QUERIES[1])
        assert (risk.n, risk.present, risk.matched) == (30, 0, 0)
        assert risk.find("ratio:0.9").epsilon == 10.0
        assert "0 people are in the table; 30 were declared." in risk.risk_notes()
    with Dataset.open(empty) as dataset:
        assert any(note.startswith("The table is empty.") for note in dataset.risk("SELECT COUNT(*) FROM data").notes)
