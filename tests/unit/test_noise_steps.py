"""How many steps of its grid one individual moves a measured number, before noise is added."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dosimeter import Dataset
from dosimeter.mechanisms import Gaussian, Laplace
from dosimeter.planning.planner import PlanOptions, plan_query
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.release.noisy_vector import _rounding, calibrate_plan
from dosimeter.schema.toml import read_schema
from tests.unit.release_stays import SCHEMA, schema_of


def test_a_grid_of_decimals_costs_no_extra_step(stays: Dataset) -> None:
    """35 bounds that no float holds exactly: Δ is the whole number of steps it is, never one more."""
    for cents in range(1, 36):
        columns = {"x": {"type": "decimal", "bounds": [0, cents / 100], "resolution": 0.01}}
        with Dataset.open(pa.table({"x": [0.0]}), schema={**SCHEMA, "table": "t", "columns": columns}) as dataset:
            (noise,) = calibrate_plan(dataset.plan("SELECT SUM(x) FROM t"), Laplace(), Decimal(1))
            assert noise.sensitivity == cents


@cache
def plan_of(sql: str) -> QueryPlan:
    return plan_query(sql, read_schema(schema_of()), PlanOptions(quantiles="noise"))


@given(st.lists(st.tuples(st.fractions(-9, 9), st.fractions(-9, 9)), min_size=1, max_size=6))
def test_rounding_several_cells_adds_what_is_allowed_for(cells: list[tuple[Fraction, Fraction]]) -> None:
    """An individual with c rows moves up to c cells that are on no grid; each is rounded on its own."""
    plan = plan_of("SELECT day, MEDIAN(nights) FROM stays GROUP BY day")
    count = len(cells)
    groups = (replace(plan.groups[0], values=tuple(range(count))),)
    many = replace(plan, groups=groups, schema=replace(plan.schema, max_rows_per_unit=count))
    moved = [abs(math.floor(a + Fraction(1, 2)) - math.floor(b + Fraction(1, 2))) for a, b in cells]
    for mechanism in (Laplace(), Gaussian(1e-6)):
        extra = _rounding(many, many.measures[0], mechanism)
        if mechanism.norm == 1:
            assert sum(moved) <= math.ceil(sum(abs(a - b) for a, b in cells)) + extra
        else:
            exactly = math.sqrt(sum((a - b) ** 2 for a, b in cells))
            assert math.sqrt(sum(step * step for step in moved)) <= math.ceil(exactly) + extra + 1e-9
        assert extra == 0 or count > 1
    totals = plan_of(
        "SELECT day, COUNT(*), SUM(cost), MAX(cost), COUNT(DISTINCT cost), AVG(cost) FROM stays GROUP BY 1"
    )
    many = replace(totals, schema=replace(totals.schema, max_rows_per_unit=count))
    assert [_rounding(many, measure, Laplace()) for measure in many.measures] == [0] * 6  # on their grids
