"""What is remembered between questions: plans, counts per state of the data, the profile of raw cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from dosimeter import Dataset, Ledger, dataset
from dosimeter.engines import file_digests
from dosimeter.influence.rows import grouping
from dosimeter.planning import PlanOptions

COLUMNS: dict[str, Any] = {
    "pid": {"type": "integer"},
    "ward": {"type": "category", "values": ["a", "b"]},
    "cost": {"type": "integer", "bounds": [0, 100]},
}
SCHEMA = {"table": "visits", "individuals": 9, "reviewed": True, "columns": COLUMNS}
MANY = SCHEMA | {"unit": "pid", "max_rows_per_unit": 2, "row_key": "cost"}
ROWS: dict[str, list[Any]] = {
    "pid": [1, 1, 2, 3, 4, 4, 5, 6],
    "ward": ["a", "b", "a", None, "x", "a", "b", "b"],
    "cost": [-5, 20, 20, 101, None, 50, 50, 2**60],
}


def test_a_plan_is_made_once_and_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "MOST_PLANS", 3)
    sql = "SELECT COUNT(*) FROM visits WHERE cost > {}"
    with Dataset.open(pa.table(ROWS), schema=SCHEMA) as visits:
        first = visits.plan(sql.format(0))
        assert visits.plan(sql.format(0)) is first
        assert visits.plan(sql.format(0), PlanOptions()) is first
        assert visits.plan(sql.format(0), PlanOptions(min_rows=2)) is not first
        for number in range(1, 4):
            visits.plan(sql.format(number))
        assert visits.plan(sql.format(0)) is not first
        assert visits.plan(sql.format(0)).digest == first.digest


def test_a_plan_follows_a_draft_that_grows() -> None:
    with Dataset.open(pa.table(ROWS), table="visits") as visits:
        first = visits.plan("SELECT SUM(cost) FROM visits")
        again = visits.plan("SELECT SUM(cost) FROM visits")
        assert again is first
        visits.plan("SELECT ward, COUNT(*) FROM visits GROUP BY ward", PlanOptions(groups="observed"))
        assert visits.plan("SELECT SUM(cost) FROM visits").schema is visits.schema


def test_rows_are_counted_once_per_state_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_digests, "SETTLED_NS", -(10**18))  # a file that was just written counts as an old one
    path = tmp_path / "visits.csv"
    csv.write_csv(pa.table(ROWS), path)
    with Dataset.open(path, schema=SCHEMA) as visits:
        visits.renew()
        generation = visits.engine.generation
        for _ in range(3):
            visits.renew()
            assert visits.count() == 8
        assert visits.engine.generation == generation
        csv.write_csv(pa.table({name: [*cells, cells[0]] for name, cells in ROWS.items()}), path)
        visits.renew()
        assert visits.engine.generation > generation
        assert visits.count() == 9


def count_noisily(visits: Dataset, ledger: Ledger, **options: Any) -> int:
    answer = visits.release("SELECT COUNT(*) AS n FROM t", ledger=ledger, **options).answer
    assert answer is not None
    count = answer[0]["n"]
    assert isinstance(count, int)
    return count


def test_a_table_in_memory_is_what_it_was_when_it_was_opened(tmp_path: Path) -> None:
    """The noise is for two rows of each, also where the memory of the table becomes one person's."""
    people, key = np.arange(1000) // 2, np.arange(1000)
    table = pa.table({"pid": pa.array(people), "key": pa.array(key)})
    columns = {"pid": {"type": "integer"}, "key": {"type": "integer"}}
    schema = {"table": "t", "individuals": 1000, "unit": "pid", "max_rows_per_unit": 2, "row_key": "key"}
    with (
        Dataset.open(table, schema={**schema, "reviewed": True, "columns": columns}) as visits,
        Ledger.open(tmp_path / "ledger.db") as ledger,
    ):
        first = count_noisily(visits, ledger, epsilon=50, policy="budget:100")
        assert 990 < first < 1010  # noise of scale 2/50
        people[:] = 0
        assert 990 < count_noisily(visits, ledger, epsilon=49) < 1010


def test_a_file_that_changed_just_now_is_counted_each_time(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    csv.write_csv(pa.table(ROWS), path)
    with Dataset.open(path, schema=MANY) as visits:
        visits.renew()
        generation = visits.engine.generation
        visits.renew()
        assert visits.engine.generation > generation


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(cost) FROM visits",
        "SELECT ward, AVG(cost) FROM visits GROUP BY ward",
        "SELECT UPPER(ward) AS w, COUNT(*), SUM(cost) FILTER (WHERE ward = 'a') FROM visits WHERE pid < 6 GROUP BY w",
        "SELECT MEDIAN(cost), COUNT(DISTINCT cost) FROM visits",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward UNION ALL SELECT 'all', SUM(cost) FROM visits",
    ],
)
def test_raw_cells_first_gives_the_same(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values beyond the bounds, groups that nobody declared, and NULL, with and without counting raw cells first."""

    def look() -> tuple[list[float], list[int], int | None, object]:
        with Dataset.open(pa.table(ROWS), schema=SCHEMA) as visits:
            risk = visits.risk(sql, quantiles="noise")
            found = risk.sensitivities
            return found.values.tolist(), found.counts.tolist(), risk.matched, risk.measured().values

    rewritten: list[bool] = []
    group = grouping.group_raw_first

    def note_rewritten(query: Any, schema: Any) -> Any:
        found = group(query, schema)
        rewritten.append(found is not query)
        return found

    monkeypatch.setattr("dosimeter.influence.rows.queries.group_raw_first", note_rewritten)
    first = look()
    assert any(rewritten)
    monkeypatch.setattr(grouping, "MOST_CELLS", 0)
    assert look() == first
