"""Values of the wrong kind in Python: refused as what a user got wrong, before anything is charged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import DosimeterError

PEOPLE = pa.table({"town": ["north", "south", "north"], "age": [30, 40, 50]})
SCHEMA = {
    "table": "people",
    "individuals": 3,
    "unit": "row",
    "reviewed": True,
    "columns": {"town": {"type": "text"}, "age": {"type": "integer", "bounds": [0, 120]}},
}
BY_TOWN = "SELECT town, COUNT(*) FROM people GROUP BY town"
WRONG: list[dict[str, Any]] = [
    {"sql": BY_TOWN, "groups": None},  # would be groups of the data, which nobody declared
    {"groups": 1},
    {"mechanism": None},
    {"epsilon": "a"},
    {"epsilon": True},
    {"min_rows": 1.5},
    {"min_rows": "a"},
    {"groups": "thresholded", "group_delta": "a"},
    {"epsilon": None, "svt": "a", "variance": 0.1},
    {"epsilon": None, "svt": 1, "variance": 0.1, "selection": None},
    {"policy": 5},
    {"sql": None},
    {"sql": 5},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_no_option_takes_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"sql": "SELECT AVG(age) FROM people", "epsilon": 1.0, "policy": "budget:1"} | wrong
    if asked["epsilon"] is None:
        del asked["epsilon"]
    with Dataset.open(PEOPLE, schema=SCHEMA) as people, Ledger.open(tmp_path / "ledger.db") as ledger:
        with pytest.raises(DosimeterError):
            people.release(asked.pop("sql"), ledger=ledger, **asked)
        assert ledger.verify().records == 0


def test_values_that_are_no_text_are_refused() -> None:
    town = {"type": "category", "values": ["\ud800"]}
    with pytest.raises(DosimeterError, match="not Unicode text"):
        Dataset.open(PEOPLE, schema={**SCHEMA, "columns": {**SCHEMA["columns"], "town": town}})  # type: ignore[dict-item]
