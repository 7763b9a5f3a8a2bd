"""A released number lies within its error and its bias of the plain answer, in 94 % of the releases or more (E4).

Releases are real ones, through the ledger, with OpenDP's noise; bias and plain answer are DuckDB's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from dosimeter import Dataset, Ledger
from tests.cut_visits import QUERIES, TABLE, ask_duckdb, declare_with, measure_apart
from tests.known import known
from tests.statistical.coverage_cases import ALPHA

MEDIAN = "SELECT MEDIAN(nights) AS x FROM visits WHERE ward = 'a' AND pid >= 0"


@pytest.mark.parametrize("releases", [60, pytest.param(2000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["rows", "sum", "average", "spread", "people", "ratio", "each", "totals", "median"])
def test_a_released_number_lies_within_error_and_bias_of_the_plain_one(
    name: str, releases: int, tmp_path: Path
) -> None:
    sql, share = MEDIAN if name == "median" else QUERIES[name], 0.1
    measured, plain = measure_apart(sql.replace("WHERE", "where"), share), ask_duckdb(sql, TABLE)
    stated = within = 0
    with (
        Dataset.open(TABLE, schema=declare_with(share), table="visits") as visits,
        Ledger.open(tmp_path / "l") as ledger,
    ):
        (column,) = visits.risk(sql, candidates=[2.0]).candidate(2.0).accuracy
        drawn = known(column.worst) if name == "median" else None
        for _ in range(releases):
            answer = visits.release(sql, epsilon=2.0, ledger=ledger, policy="budget:1000000", again=True)
            for row, errors in zip(known(answer.answer), known(answer.errors), strict=True):
                group: Any = row.get("ward")
                error = drawn if errors["x"] is None else errors["x"]
                if error is None:  # too few people to tell
                    continue
                number: Any = row["x"]
                far = abs(number - plain[group])
                stated += 1
                within += far <= abs(measured[group] - plain[group]) + error + 1e-9
    assert stated >= releases // 2
    assert binom.cdf(within, stated, 0.95) > ALPHA
    assert releases < 1000 or within >= 0.94 * stated
