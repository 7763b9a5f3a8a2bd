"""Products of two arguments are computed after grouping: also of columns named like those of the profile."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.influence import measure_exactly
from tests.oracle.unit_oracle import assert_same_people, expand

SCHEMA: dict[str, Any] = {
    "table": "points",
    "individuals": 12,
    "reviewed": True,
    "columns": {
        "a0": {"type": "integer", "bounds": [0, 5]},
        "a1": {"type": "integer", "bounds": [-3, 3]},
        "a2": {"type": "decimal", "bounds": [0, 2], "resolution": 0.5},
        "g0": {"type": "category", "values": ["u", "v"]},
        "people": {"type": "integer", "bounds": [0, 9]},
    },
}
ROWS = [
    {"a0": a0, "a1": a1, "a2": a2, "g0": g0, "people": a0}
    for (a0, a1), a2, g0 in zip(
        itertools.product([0, 4, 9, None], [-3, 1, None]), itertools.cycle([0.5, 2.0, None]), itertools.cycle("uvvx")
    )
]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CORR(a0, a1) FROM points",
        "SELECT g0, COVAR_POP(a1, a0), SUM(a0 * a1), SUM(a0) FROM points GROUP BY g0",
        "SELECT SUM(a1 * a2), SUM(a0), SUM(people), SUM(people * a0) FROM points",
        "SELECT SUM(a1), SUM(a0 * a1), SUM(a1 * a1) FROM points WHERE a0 > 0",
        "SELECT REGR_SLOPE(a2, a1), MEDIAN(a1), CORR(a1, people) FROM points",
        "SELECT COVAR_SAMP(a0, a0), COUNT(a1) FROM points",
    ],
)
def test_closed_form_is_deletion(sql: str) -> None:
    def open_rows(rows: list[dict[str, Any]]) -> Dataset:
        return Dataset.open(pa.Table.from_pylist(rows, schema=ARROW), schema=SCHEMA, table="points")

    opened = open_rows(ROWS)
    risk = opened.risk(sql)
    weights = risk.plan.weights(1)

    def vector(dataset: Dataset) -> list[float]:
        groups = measure_exactly(risk.plan, dataset.tables, None).values  # by totals, without a profile
        return [float(value) * weight for group in groups for value, weight in zip(group, weights, strict=True)]

    whole, expected = vector(opened), []
    for at in range(len(ROWS)):
        with open_rows([*ROWS[:at], *ROWS[at + 1 :]]) as less:
            expected.append(tuple(a - b for a, b in zip(whole, vector(less), strict=True)))
    assert risk.measured().values == measure_exactly(risk.plan, risk.data.tables, None).values
    assert_same_people(expand(risk.contributions), expected)
    assert any(any(each) for each in expected)
    opened.close()


ARROW = pa.schema(
    [("a0", pa.int64()), ("a1", pa.int64()), ("a2", pa.float64()), ("g0", pa.string()), ("people", pa.int64())]
)
