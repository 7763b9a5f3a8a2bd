"""Small tables to leave records out of, and what their vectors must equal."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa

from dosimeter.engines.duckdb import DuckDBEngine, open_duckdb
from dosimeter.engines.engine import ReadOptions
from dosimeter.influence.rows.row_profile import measure_profile
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan
from dosimeter.schema import Schema
from dosimeter.schema.toml import read_schema
from dosimeter_paper.recompute.run import recompute_contributions
from tests.oracle.leaving_out import assert_same_people, expand
from tests.schemas import category, decimal, declare, whole
from tests.whole_tables import whole_table


def open_table(columns: dict[str, Any], schema: Schema) -> DuckDBEngine:
    engine = open_duckdb(pa.table(columns), ReadOptions(table=schema.table))
    engine.impose(schema)
    return engine


def assert_equals_closed_form(plan: QueryPlan, engine: DuckDBEngine, n: int, norms: Sequence[Norm] = (1, 2)) -> None:
    profile = measure_profile(plan, whole_table(engine))
    for norm in norms:
        found = recompute_contributions(plan, whole_table(engine), n, norm, processes=1)
        assert found.n == n
        assert_same_people(expand(found), expand(profile.contributions(n, norm)))


SMALL: dict[str, Any] = {
    "team": category("a", "b", "c", "nobody"),
    "score": whole(-5, 9),
    "pay": decimal(-2, 10, 0.25),
}
SMALL_SCHEMA = read_schema(declare("people", 40, SMALL))


def draw_people(seed: int, rows: int) -> dict[str, Any]:
    """NULLs, values out of bounds and off the grid, a team nobody declared, groups of one."""
    random = Random(seed)
    return {
        "team": pa.array(random.choices(["a", "b", "c", "undeclared", None], [9, 5, 1, 1, 1], k=rows), pa.string()),
        "score": pa.array([random.choice([None, -7, -5, 0, 1, 1, 2, 3, 9, 12]) for _ in range(rows)], pa.int64()),
        "pay": pa.array([random.choice([None, -3.0, 0.1, 0.125, 2.4, 7.75, 10.2]) for _ in range(rows)], pa.float64()),
    }
