"""Numbers per person on any grid: DuckDB's own answer, Δ by really leaving somebody out, and no row that overflows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset, QueryError
from dosimeter.planning.measured import aggregate_collector
from dosimeter.planning.rows import grid
from dosimeter.planning.rows.steps import Gridded
from tests.oracle.exact_answers import measure_alone, plan_alone
from tests.shared_duckdb import ask_plain_duckdb

LARGE = 2**62 - 1
SCHEMA: dict[str, Any] = {
    "table": "visits",
    "individuals": 10,
    "unit": "pid",
    "row_key": "vid",
    "max_rows_per_unit": 3,
    "reviewed": True,
    "columns": {
        "pid": {"type": "text"},
        "vid": {"type": "integer"},
        "y": {"type": "integer", "bounds": [0, 6]},
        "large": {"type": "integer", "bounds": [0, LARGE]},
        "sick": {"type": "boolean"},
    },
    "tables": {
        "labs": {
            "unit": "pid",
            "row_key": "lab",
            "max_rows_per_unit": 2,
            "columns": {"pid": {"type": "text"}, "lab": {"type": "integer"}},
        }
    },
}
VISITS = pa.table(
    {
        "pid": ["ann", "ann", "bob", "cy", "cy", "cy"],
        "vid": [1, 2, 3, 4, 5, 6],
        "y": [1, 2, 6, 1, 1, 1],
        "large": [3, 5, LARGE, 0, 1, None],
        "sick": [True, None, True, False, False, True],
    }
)
LABS = pa.table({"pid": ["ann", "bob", "bob"], "lab": [1, 2, 3]})


def measure(visits: pa.Table, sql: str) -> tuple[float, float]:
    """Return the one number that is measured, and its sensitivity."""
    with Dataset.open(visits, schema=SCHEMA, table="visits", tables={"labs": LABS}) as dataset:
        plan = dataset.plan(sql)
        return float(measure_alone(dataset, plan_alone(dataset, sql)).values[0][0]), plan.sensitivity(1)


def ask(sql: str) -> float:
    with ask_plain_duckdb(visits=VISITS, labs=LABS) as plain:
        return float(plain.execute(sql).fetchall()[0][0])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(m) FROM (SELECT pid, SUM(y / 3) AS m FROM visits GROUP BY pid) p",
        "SELECT SUM(m) FROM (SELECT pid, AVG(y / 3) AS m FROM visits GROUP BY pid) p",
        "SELECT SUM(m) FROM (SELECT pid, MAX(y / 7) AS m FROM visits GROUP BY pid) p",
        "SELECT SUM(m) FROM (SELECT pid, MEDIAN(-y / 7) AS m FROM visits GROUP BY pid) p",
        "SELECT SUM(m) FROM (SELECT pid, LAG(y / 7) OVER (PARTITION BY pid ORDER BY vid) AS m FROM visits) p",
        "SELECT SUM(k) FROM (SELECT pid, y / 7 AS k, COUNT(*) AS n FROM visits GROUP BY pid, y / 7) p",
        "SELECT SUM(p.m) FROM visits JOIN (SELECT pid, MAX(y / 3) AS m FROM visits GROUP BY pid) p USING (pid)",
        "SELECT COUNT(*) FROM (SELECT pid, SUM(y / 3) AS m FROM visits GROUP BY pid) p WHERE m >= 1",
        "SELECT COUNT(*) FROM (SELECT pid, MAX(y / 3) AS m FROM visits GROUP BY pid) p WHERE m = 2",
        "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT MAX(lab) FROM labs l WHERE l.pid = v.pid GROUP BY l.pid)",
        "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE l.pid = v.pid)",
        "SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM visits AS o WHERE o.pid = visits.pid AND o.y = 2)",
        "SELECT COUNT(*) FROM visits WHERE NOT EXISTS (SELECT 1 FROM visits o WHERE visits.pid = o.pid AND o.sick)",
    ],
)
def test_numbers_on_no_decimal_grid_are_duckdbs(sql: str) -> None:
    whole, delta = measure(VISITS, sql)
    assert whole == pytest.approx(ask(sql), abs=1e-4)
    for person in ("ann", "bob", "cy"):
        others = VISITS.filter(pa.array([pid != person for pid in VISITS.column("pid").to_pylist()]))
        assert abs(whole - measure(others, sql)[0]) <= delta * (1 + 1e-12)


@pytest.mark.parametrize("listed", ["COUNT(*)", "MAX(lab) + 1", "1, COUNT(*) FILTER (WHERE lab > 1)"])
def test_an_aggregate_alone_exists_always_and_is_refused(listed: str) -> None:
    sql = f"SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT {listed} FROM labs l WHERE l.pid = v.pid)"
    assert ask(sql) == VISITS.num_rows  # also for Cy, who has none
    with pytest.raises(QueryError, match="without GROUP BY"):
        measure(VISITS, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM (SELECT pid, {f}(y / 1e-19) AS m FROM visits WHERE sick GROUP BY pid) p WHERE m > 5",
        "SELECT COUNT(*) FROM (SELECT pid, {f}(large / 0.5) AS m FROM visits WHERE sick GROUP BY pid) p WHERE m > 5",
        "SELECT COUNT(*) FROM (SELECT pid, LAG(y / 1e-19) OVER (PARTITION BY pid ORDER BY vid) AS m FROM visits) p "
        "WHERE m > 5",
        "SELECT COUNT(*) FROM visits JOIN (SELECT pid, y / 1e-19 AS m FROM visits) p USING (pid) WHERE p.m > 5",
        "SELECT {f}(CASE WHEN sick THEN 0 ELSE 1e-40 END) FROM visits",
        "SELECT {f}(CASE WHEN sick THEN y - y ELSE 1e-17 END) FROM visits",
        "SELECT {f}(y / 1e-19) FROM visits",
        "SELECT {f}(y" + " / 298023223876953125 / 0.00390625" * 45 + ") FROM visits",
    ],
)
@pytest.mark.parametrize("function", ["SUM", "MEDIAN"])
def test_nobodys_row_overflows(sql: str, function: str) -> None:
    """Either SQL and schema refuse the query, for any data, or it is measured for any data (N4)."""
    sql = sql.format(f=function)
    for sick in (True, False):
        visits = VISITS.set_column(4, "sick", pa.array([sick] * VISITS.num_rows))
        with Dataset.open(visits, schema=SCHEMA, table="visits") as dataset:
            try:
                dataset.plan(sql)
            except QueryError:
                continue
            measure_alone(dataset, plan_alone(dataset, sql))


@pytest.mark.parametrize("argument", ["y * 2", "LEAST(y, 9 - y)", "ABS(y - 9)", "y // 1", "CASE WHEN sick THEN -y END"])
def test_bounds_that_were_found_wrongly_still_hold(argument: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured is clamped to the bounds behind Δ once more, wherever these come from."""

    def narrow(*given: Any) -> Gridded:
        found = grid.put_on_grid(*given)
        return replace(found, lower=0, upper=1)

    monkeypatch.setattr(aggregate_collector, "put_on_grid", narrow)
    whole, delta = measure(VISITS, f"SELECT SUM({argument}) FROM visits")
    without_bob = VISITS.filter(pa.array([pid != "bob" for pid in VISITS.column("pid").to_pylist()]))
    assert delta == 3.0
    assert abs(whole - measure(without_bob, f"SELECT SUM({argument}) FROM visits")[0]) <= 1.0  # one row, of at most 1
