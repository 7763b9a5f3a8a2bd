"""Numbers per person on any grid: DuckDB's own answer, Δ by really leaving somebody out, and no row that overflows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import QueryError
from dosimeter.influence import measure_exactly
from dosimeter.planning import PlanOptions, plan_query
from dosimeter.planning.measured import aggregate_collector
from dosimeter.planning.rows import grid
from dosimeter.planning.rows.steps import Gridded
from tests.corpus.plain_answers import ask_plainly
from tests.corpus.tables import find_source

SOURCE = find_source("numbers")
VISITS = SOURCE.rows


def measure(visits: pa.Table, sql: str) -> tuple[float, float]:
    """Return the one number that is measured, and its sensitivity."""
    with replace(SOURCE, rows=visits).open() as dataset:
        plan = dataset.plan(sql)
        return float(measure_exactly(plan, dataset.tables, None).values[0][0]), plan.sensitivity(1)


@pytest.mark.parametrize("listed", ["COUNT(*)", "MAX(lab) + 1", "1, COUNT(*) FILTER (WHERE lab > 1)"])
def test_an_aggregate_alone_exists_always_and_is_refused(listed: str) -> None:
    sql = f"SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT {listed} FROM labs l WHERE l.pid = v.pid)"
    assert ask_plainly(SOURCE.tables, sql) == [{"count_star()": len(VISITS)}]  # also for Cy, who has none
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
        with replace(SOURCE, rows=visits).open() as dataset:
            try:
                plan = plan_query(sql, dataset.schema, PlanOptions(quantiles="noise"))
            except QueryError:
                continue
            measure_exactly(plan, dataset.tables, None)


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
