"""Visits of which rows are cut and values clamped: the plain and the measured answer by DuckDB's own SQL (E4).

The plain answer is over the table as it is; the measured one over a table of the rows that count by plain Python
(``rows_that_count``), with values put into their bounds and undeclared groups left out. Dosimeter's own queries have no
part in either.
"""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from tests.rows_that_count import rows_that_count
from tests.schemas import category, plain, whole

PEOPLE, WARDS = 120, ("a", "b", "c")
SHARES = (0.0, 0.01, 0.1, 0.4)
TYPES = {"visits": "pid int, vid int, ward text, pay double precision, nights int"}
QUERIES = {
    "rows": "SELECT ward, COUNT(*) AS x FROM visits GROUP BY ward",
    "sum": "SELECT ward, SUM(pay) AS x FROM visits GROUP BY ward",
    "average": "SELECT ward, AVG(pay) AS x FROM visits GROUP BY ward",
    "spread": "SELECT ward, STDDEV_POP(nights) AS x FROM visits GROUP BY ward",
    "median": "SELECT ward, MEDIAN(nights) AS x FROM visits GROUP BY ward",
    "ratio": "SELECT ward, COUNT(*) FILTER (WHERE nights > 5) * 1.0 / COUNT(*) AS x FROM visits GROUP BY ward",
    "people": "SELECT ward, COUNT(DISTINCT pid) AS x FROM visits GROUP BY ward",
    "totals": "SELECT ward, COUNT(*) AS x FROM visits GROUP BY ROLLUP (ward)",
    "each": "SELECT AVG(s) AS x FROM (SELECT pid, SUM(nights) AS s FROM visits GROUP BY pid)",
    "inside": "SELECT SUM(pay) AS x FROM visits WHERE ward = 'a' AND nights < 9",
}


def make_rows() -> list[dict[str, Any]]:
    """Return the visits of people with 1 to 50 each, whose charges have a heavy tail; a tenth lie elsewhere."""
    chance = np.random.default_rng(20261119)
    counts = np.clip(np.round(chance.pareto(1.2, PEOPLE) * 2 + 1), 1, 50).astype(int)
    counts[:2] = 50
    owners = np.repeat(np.arange(PEOPLE), counts)
    wards = chance.choice([*WARDS, "elsewhere"], len(owners), p=[0.4, 0.3, 0.2, 0.1])
    pays = np.round(chance.lognormal(3.0, 1.2, len(owners)), 2)
    nights = np.minimum(chance.geometric(0.2, len(owners)), 60)
    cells = zip(owners.tolist(), wards.tolist(), pays.tolist(), nights.tolist(), strict=True)
    return [{"pid": pid, "vid": at, "ward": w, "pay": p, "nights": n} for at, (pid, w, p, n) in enumerate(cells)]


ROWS = make_rows()
TABLE = pa.Table.from_pylist(ROWS)


def bound(share: float) -> tuple[int, int, int]:
    """Return how many rows of each person count, and the largest charge and nights, so that about a share is beyond."""
    counts = np.bincount([row["pid"] for row in ROWS])
    most = next(m for m in range(50, 0, -1) if np.maximum(counts - m, 0).sum() >= share * len(ROWS))
    if not share:
        most = 50
    pay, nights = (np.quantile([row[name] for row in ROWS], 1.0 - share) for name in ("pay", "nights"))
    return most, int(np.ceil(pay)), int(np.ceil(nights))


def declare_with(share: float) -> dict[str, Any]:
    most, pay, nights = bound(share)
    columns = {
        "pid": plain("integer"),
        "vid": whole(0, 10**4),
        "ward": category(*WARDS),
        "pay": {"type": "decimal", "bounds": [0, pay], "resolution": 0.01},
        "nights": whole(0, nights),
    }
    facts = {"table": "visits", "individuals": PEOPLE, "reviewed": True, "unit": "pid", "row_key": "vid"}
    return facts | {"max_rows_per_unit": most, "columns": columns}


def measure_apart(sql: str, share: float) -> dict[Any, float]:
    """Return the measured numbers by group, from the rows that count and clamped values, by DuckDB's own SQL."""
    most, pay, nights = bound(share)
    kept = rows_that_count(ROWS, declare_with(share)["columns"], "pid", most)
    read = [
        row | {"pay": min(row["pay"], pay)} | ({} if "WHERE" in sql else {"nights": min(row["nights"], nights)})
        for row in kept
    ]
    visits = pa.Table.from_pylist([row for row in read if row["ward"] in WARDS or "GROUP BY pid" in sql])
    return ask_duckdb(sql, visits)


def ask_duckdb(sql: str, visits: pa.Table) -> dict[Any, float]:
    """Return the numbers of DuckDB's own answer, by group."""
    with duckdb.connect() as connection:
        connection.register("visits", visits)
        rows = connection.sql(sql).fetchall()
    return {(row[0] if len(row) > 1 else None): float(row[-1]) for row in rows}
