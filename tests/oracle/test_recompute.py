"""Really leaving records out against the closed forms."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.engines.duckdb import open_duckdb
from dosimeter.errors import DataError
from dosimeter.influence.rows.row_profile import measure_profile
from dosimeter.planning import PlanOptions, plan_query
from dosimeter.schema import Column, ColumnType
from dosimeter.schema.toml import load_schema, read_schema
from dosimeter_paper.recompute.run import recompute_contributions
from tests.oracle.leaving_out import assert_same_people, expand
from tests.oracle.query_meanings import KINDS, queries
from tests.oracle.recompute_tables import SMALL_SCHEMA, assert_equals_closed_form, draw_people, open_table
from tests.oracle.visits import ARROW, SCHEMA, SLOTS, TABLES, Row
from tests.schemas import declare, whole
from tests.whole_tables import whole_table


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=settings().max_examples // 4)
@given(rows=TABLES, data=st.data())
def test_leaving_out_equals_the_closed_form(kind: str, rows: list[Row], data: st.DataObject) -> None:
    """In both norms (S5); of individuals with many rows test_units.py says the same."""
    query = data.draw(queries(kind=kind))
    engine = open_duckdb(pa.Table.from_pylist(rows, schema=ARROW))
    engine.impose(SCHEMA)
    assert_equals_closed_form(plan_query(query.sql, SCHEMA, query.options), engine, SLOTS)


def test_processes_share_the_work(clinic: Path) -> None:
    schema, engine = load_schema(clinic.with_suffix(".toml")), open_duckdb(str(clinic))
    engine.impose(schema)
    plan = plan_query("SELECT diagnosis, COUNT(*), AVG(age) FROM clinic GROUP BY diagnosis", schema)
    heard: list[tuple[int, int]] = []
    found = recompute_contributions(
        plan, whole_table(engine), 4000, 1, processes=2, progress=lambda done, total: heard.append((done, total))
    )
    assert_same_people(expand(found), expand(measure_profile(plan, whole_table(engine)).contributions(4000, 1)))
    records = len(found.people)  # age and diagnosis decide the vector, so there are as many rows as records
    assert heard[0] == (0, records)
    assert heard[-1] == (records, records)
    assert len(heard) > 2
    assert heard == sorted(heard)


def test_deletion_by_hand() -> None:
    """S2, C6 and C7 without either method: three people, one of them alone in their team, one undeclared."""
    engine = open_table({"team": ["a", "a", "b", "x"], "score": [1, 4, 9, 9], "pay": [0.0] * 4}, SMALL_SCHEMA)
    plan = plan_query("SELECT team, MEDIAN(score) FROM people GROUP BY team", SMALL_SCHEMA)
    found = recompute_contributions(plan, whole_table(engine), 6, 1, processes=1)
    middle = 2.0  # of [-5, 9]
    expected = [(2.5 - 4, 0, 0, 0), (2.5 - 1, 0, 0, 0), (0, 9 - middle, 0, 0), *[(0.0,) * 4] * 3]
    assert_same_people(expand(found), expected)
    bounded = plan_query("SELECT AVG(score) FROM people WHERE team = 'a'", SMALL_SCHEMA, PlanOptions(min_rows=5))
    found = recompute_contributions(bounded, whole_table(engine), 4, 1, processes=1)
    assert_same_people(expand(found), [((1 - middle) / 5,), ((4 - middle) / 5,), (0.0,), (0.0,)])


def test_totals_beyond_64_bits_stay_exact() -> None:
    top = 2**61
    schema = read_schema({"table": "t", "columns": {"v": {"type": "integer", "bounds": [Decimal(-top), Decimal(top)]}}})
    values = [top, top, top - 1, top, top, 3]
    plan = plan_query("SELECT SUM(v) FROM t", schema)
    found = recompute_contributions(plan, whole_table(open_table({"v": values}, schema)), len(values), 1, processes=1)
    assert sum(values) > 2**63
    # A total taken for a double is off by up to 1024 here, so 3 would not come out.
    moved = dict(zip(found.changes.tolist(), found.people.tolist(), strict=True))
    assert moved == {3.0: 1, float(top): 5}


@pytest.mark.parametrize("aggregate", ["MEDIAN", "MIN", "MAX"])
def test_values_beyond_doubles_are_read_all_the_same(aggregate: str) -> None:
    """Rounded like every number that is not a total; not refused, in words that would quote a cell."""
    values = [2**61, 2**61 + 2**59 + 1, 2**60, 5, 2**53 + 1]
    schema = read_schema(
        {"table": "t", "columns": {"v": {"type": "integer", "bounds": [Decimal(0), Decimal(2**62 - 1)]}}}
    )
    plan = plan_query(f"SELECT {aggregate}(v) FROM t", schema)
    assert_equals_closed_form(plan, open_table({"v": values}, schema), len(values))


def test_names_of_ours_may_be_columns_of_theirs() -> None:
    names = ["owner", "kind", "left_out", "g0", "a0", "a1", "m0", "people", "matching"]
    schema = read_schema(declare("people", 9, {name: whole(0, 50) for name in names}))
    random = Random(3)
    engine = open_table({name: [random.randrange(4) for _ in range(9)] for name in names}, schema)
    for first, second in zip(names[::2], names[1::2], strict=False):
        sql = (
            f'SELECT "{second}", SUM("{first}"), MEDIAN(people), MAX(a0) FROM people '
            f'WHERE "{first}" + g0 + kind + owner < 8 GROUP BY "{second}"'
        )
        plan = plan_query(sql, schema, PlanOptions(groups="observed"))
        assert_equals_closed_form(plan, engine, 9, norms=(1,))


# ---------------------------------------------------------------- individuals with several rows


VISITS_SCHEMA = replace(
    SMALL_SCHEMA,
    table="visits",
    unit="person",
    max_rows_per_unit=3,
    row_key="visit",
    columns={
        **SMALL_SCHEMA.columns,
        "person": Column("person", ColumnType.TEXT),
        "visit": Column("visit", ColumnType.INTEGER),
    },
)


def test_more_rows_of_an_individual_than_declared_are_refused() -> None:
    columns = {"person": ["p"] * 4, "team": ["a"] * 4, "score": [1] * 4, "visit": [1, 2, 3, 4], "pay": [0.0] * 4}
    plan = plan_query("SELECT COUNT(*) FROM visits", VISITS_SCHEMA)
    with pytest.raises(DataError, match="max_rows_per_unit = 3"):
        recompute_contributions(plan, whole_table(open_table(columns, VISITS_SCHEMA)), 40, 1)


# ---------------------------------------------------------------- nobody


@pytest.mark.parametrize("sql", ["SELECT COUNT(*) FROM people", "SELECT team, MAX(pay) FROM people GROUP BY team"])
def test_an_empty_table_moves_nothing(sql: str) -> None:
    plan = plan_query(sql, SMALL_SCHEMA)
    found = recompute_contributions(plan, whole_table(open_table(draw_people(0, 0), SMALL_SCHEMA)), 40, 1, processes=2)
    assert found.people.tolist() == [40]
    assert found.starts.tolist() == [0, 0]
    assert found.k == len(plan.group_keys or ())
