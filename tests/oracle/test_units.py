"""Individuals with many rows: the closed form against really leaving each individual out, with all their rows.

What the engine profiles is compared with the oracle of unit_oracle.py person by person, in both norms.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import mpmath
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dosimeter import Dataset, Risk
from dosimeter.engines.duckdb import DuckDBEngine
from dosimeter.errors import DataError, OptionError
from dosimeter.influence.units import unit_profile as unit_sensitivity
from dosimeter.influence.units import unit_queries
from dosimeter.influence.units.unit_profile import UnitProfile
from dosimeter.planning import PlanOptions
from dosimeter_paper.recompute import recompute_risk
from tests.oracle.leaving_out import assert_same_people, bound, everybody_there, expand, size_of
from tests.oracle.query_meanings import (
    GROUPINGS,
    KINDS,
    MOMENTS,
    TESTS,
    Aggregate,
    Condition,
    Query,
    Vector,
    X,
    make_count,
    make_count_distinct,
    make_count_star,
    make_moments,
    make_sum,
    queries,
)
from tests.oracle.visits import ARROW, COLUMNS, GROUPS, SLOTS, TABLES, Row, draw_rows, kept_rows, open_visits

EXAMPLES = settings().max_examples  # of the profile in use


@contextmanager
def allow_columns(most: int) -> Iterator[None]:
    """Another MOST_COLUMNS, in both modules that read it: the second has a name of its own for it."""
    assert vars(unit_sensitivity)["MOST_COLUMNS"] == unit_queries.MOST_COLUMNS
    with patch.object(unit_queries, "MOST_COLUMNS", most), patch.object(unit_sensitivity, "MOST_COLUMNS", most):
        yield


# ---------------------------------------------------------------- leaving everybody out


def ask(visits: Dataset, query: Query, **options: Any) -> Risk:
    meant = query.options
    return visits.risk(query.sql, min_rows=meant.min_rows, sensitivity=meant.sensitivity, quantiles="noise", **options)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), rows=TABLES)
@settings(max_examples=EXAMPLES // 4)
def test_contributions_are_those_of_deletion(kind: str, data: st.DataObject, rows: list[Row]) -> None:
    """Each aggregate in turn, alone or beside others, in columns and in texts."""
    query = data.draw(queries(by_unit=True, kind=kind))
    mechanism: Any = data.draw(st.sampled_from(["laplace", "gaussian"]))
    with allow_columns(data.draw(st.sampled_from([64, 5, 0]))):
        check_individuals(rows, query, mechanism)


@pytest.mark.parametrize("seed", [3, 4, 5])
@pytest.mark.parametrize("kind", MOMENTS)
def test_moments_in_a_study_are_those_of_deletion(kind: str, seed: int) -> None:
    """S7: with a sensitivity given by hand they are one number each."""
    rows = next(rows for rows in map(draw_rows, range(100 * seed, 100 * seed + 99)) if len(rows) == 14)
    options = PlanOptions(quantiles="noise", sensitivity=0.75)
    check_individuals(rows, Query((make_moments(kind, X, None, options),), None, (), options, m=3), "laplace")


def check_individuals(rows: list[Row], query: Query, mechanism: Any) -> None:
    kept, keys = kept_rows(rows, query.m or 1), query.keys(rows)
    with open_visits(rows, query.m or 1) as visits:
        risk = ask(visits, query, mechanism=mechanism)
        norm = risk.mechanism.norm
        left = query.leave_out(kept, norm)
        everybody = everybody_there(left.values(), risk)
        assert risk.k == len(keys) * len(query.parts)
        assert_same_people(expand(risk.contributions), everybody)
        exact = [float(value) for group in risk.measured().values for value in group]
        assert exact == pytest.approx([float(value) for value in query.measure(kept, keys)], rel=1e-9, abs=1e-9)
        assert risk.sensitivity == pytest.approx(query.weigh(norm)[1], rel=1e-9)
        sizes = sorted(size_of(vector, norm) for vector in everybody)
        assert query.options.sensitivity or sizes[-1] <= risk.sensitivity * (1 + 1e-12)
        found = np.repeat(risk.sensitivities.values, risk.sensitivities.counts).tolist()
        assert found == pytest.approx(sizes, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("sql", "wide"),
    [
        ("SELECT MEDIAN(n0) FROM visits", True),
        ("SELECT QUANTILE_CONT(n0, 0.9), MEDIAN(n0), SUM(x) FROM visits", True),
        ("SELECT grp, MEDIAN(x), COUNT(*) FROM visits GROUP BY grp", False),
        ("SELECT grp, MEDIAN(n0) FROM visits GROUP BY grp", False),
    ],
)
def test_values_around_a_quantile_are_counted_in_columns_or_listed_in_a_text(sql: str, wide: bool) -> None:
    """Where they are few, and where they are many: the same contributions, of the same individuals."""
    rows = [
        visit(f"p{row % 23}", row, x=row * 37 % 9 - 3 if row % 23 else None, grp=GROUPS[row % 2])
        | {"n0": (row * 53 % 76) / 20 - 1.5 if row % 23 else None}
        for row in range(120)
    ]  # p0 has nothing but NULL
    found: list[tuple[list[Vector], list[tuple[str, float]]]] = []
    for columns in (64, 0):
        with open_visits(rows, 6, individuals=23) as visits, allow_columns(columns):
            risk = visits.risk(sql)
            assert isinstance(risk.profile, UnitProfile)
            layout = risk.profile.layout
            assert (layout.wide, bool(layout.near)) == ((True, True) if columns else (wide, False))
            found.append((expand(risk.contributions), _list_revealed(risk)))
    assert_same_people(found[0][0], found[1][0])
    assert any(any(vector) for vector in found[0][0])
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("values", [(41731, 43002), (41731,)])
def test_values_of_the_data_never_stand_in_a_query(
    values: tuple[int, ...], grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers write queries to their logs."""
    sent: list[str] = []

    def listen(run: Any) -> Any:
        def fetch(engine: DuckDBEngine, query: exp.Select) -> Any:
            sent.append(query.sql())
            return run(engine, query)

        return fetch

    for name in ("fetch", "fetch_few"):
        monkeypatch.setattr(DuckDBEngine, name, listen(getattr(DuckDBEngine, name)))
    rows = [visit(f"p{row}", row, x=values[row % len(values)]) for row in range(4)]
    columns = COLUMNS | {"x": {"type": "integer", "bounds": [0, 100_000]}}
    with open_visits(rows, 2, columns=columns) as visits:
        sql = "SELECT grp, MEDIAN(x) FROM visits GROUP BY grp" if grouped else "SELECT MEDIAN(x) FROM visits"
        risk = visits.risk(sql, quantiles="noise")  # by rank, values are rounded to candidates first
    assert isinstance(risk.profile, UnitProfile)
    assert risk.profile.layout.near["v0_0"][0] == values
    assert len(sent) >= 3
    assert not any(str(value) in query for value in values for query in sent)


def test_data_that_change_between_two_looks_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*values: int) -> None:
        rows = [visit(f"p{row}", row, x=value) for row, value in enumerate(values)]
        pq.write_table(pa.Table.from_pylist(rows, schema=ARROW), tmp_path / "visits.parquet")

    def lay_out_late(*words: Any, **options: Any) -> Any:
        write(0, 0, 0, 0, 0, 1)
        return lay_out(*words, **options)

    lay_out = unit_queries.lay_out
    write(0, 0, 0, 1, 1, 1)
    schema = {
        "table": "visits", "individuals": 6, "unit": "unit", "max_rows_per_unit": 1, "row_key": "entries",
        "reviewed": True, "columns": COLUMNS,
    }  # fmt: skip
    with Dataset.open(tmp_path / "visits.parquet", schema=schema) as visits:
        assert visits.risk("SELECT MEDIAN(x) FROM visits").sensitivities.values.max() > 0
        monkeypatch.setattr(unit_sensitivity, "lay_out", lay_out_late)
        with pytest.raises(DataError, match="visits changed while it was measured"):
            visits.risk("SELECT MEDIAN(x) FROM visits")


def _list_revealed(risk: Risk) -> list[tuple[str, float]]:
    """Everybody with their sensitivity, one by one."""
    shown = ((str(row.columns["unit"]).split(", "), row.sensitivity) for row in risk.list_people(23, reveal=True))
    return sorted((unit, sensitivity) for units, sensitivity in shown for unit in units)


@given(rows=TABLES, query=queries(by_unit=True))
@settings(max_examples=EXAMPLES // 2)
def test_recompute_agrees(rows: list[Row], query: Query) -> None:
    """The paper's own way, over whole individuals, sees the same kept rows."""
    with open_visits(rows, query.m or 1) as visits:
        closed, meant = ask(visits, query), query.options
        recomputed = recompute_risk(
            visits, query.sql, min_rows=meant.min_rows, sensitivity=meant.sensitivity, quantiles="noise"
        )
        assert_same_people(expand(closed.contributions), expand(recomputed.contributions))


# ---------------------------------------------------------------- the exact indicator, by another road


def expected_distance(change: float, grid: float, scale: float) -> float:
    """E|c + Z| for discrete Laplace noise on the grid, term by term."""
    steps = np.arange(-math.ceil(45 * scale / grid), math.ceil(45 * scale / grid) + 1)
    weights = np.exp(-np.abs(steps) * grid / scale)
    return float(np.sum(np.abs(change + steps * grid) * weights) / np.sum(weights))


WHOLE = [make_count_star(None), make_sum(X, None), make_count_distinct("grp", None), make_count(X, None)]


@given(rows=TABLES, parts=st.lists(st.sampled_from(WHOLE), min_size=1, max_size=2, unique=True), data=st.data())
@settings(max_examples=EXAMPLES // 2)
def test_exact_indicator_is_the_expected_distance(rows: list[Row], parts: list[Aggregate], data: st.DataObject) -> None:
    """Of whole numbers, whose grid is 1."""
    m, epsilon = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([0.3, 1.0, 4.0]))
    query = Query(tuple(parts), None, GROUPINGS[: data.draw(st.integers(0, 1))], m=m)
    grids, _ = query.weigh(1)
    with open_visits(rows, m) as visits:
        risk = visits.risk(query.sql, indicator="exact")
        scale = risk.mechanism.scale(risk.sensitivity, epsilon)
        everybody = everybody_there(query.leave_out(kept_rows(rows, m), 1).values(), risk)
        expected = sorted(
            sum(expected_distance(change, grids[at % len(grids)], scale) for at, change in enumerate(vector))
            for vector in everybody
        )
        found = risk.rdr(epsilon)
        np.testing.assert_allclose(np.sort(np.repeat(found.values, found.counts)), expected, rtol=1e-9)


@given(rows=TABLES, m=st.integers(1, 3), grouped=st.integers(0, 1))
@settings(max_examples=EXAMPLES // 4)
def test_exact_gaussian_indicator_is_the_expected_distance(rows: list[Row], m: int, grouped: int) -> None:
    """E‖c + σZ‖ as an integral over its Laplace transform: E√Y = ∫ (1 − E e^{−tY}) t^{−3/2} dt / 2√π."""
    query = Query((make_sum(X, None),), None, GROUPINGS[:grouped], m=m)
    with open_visits(rows, m) as visits:
        risk = visits.risk(query.sql, mechanism="gaussian", indicator="exact")
        sigma = mpmath.mpf(risk.noise_scale(1.0))

        def distance(vector: Vector) -> float:
            squared = mpmath.fsum(mpmath.mpf(value) ** 2 for value in vector) / sigma**2

            def integrand(t: Any) -> Any:
                spread = 1 + 2 * t
                transform = spread ** (-mpmath.mpf(risk.k) / 2) * mpmath.exp(-t * squared / spread)
                return (1 - transform) * t ** mpmath.mpf(-1.5)

            return float(sigma * mpmath.quad(integrand, [0, 1e-3, 1, 100, mpmath.inf]) / (2 * mpmath.sqrt(mpmath.pi)))

        everybody = everybody_there(query.leave_out(kept_rows(rows, m), 2).values(), risk)
        known = {vector: distance(vector) for vector in set(everybody)}
        found = risk.rdr(1.0)
        np.testing.assert_allclose(
            np.sort(np.repeat(found.values, found.counts)), sorted(known[v] for v in everybody), rtol=1e-6
        )


# ---------------------------------------------------------------- preferences with FILTER, and --by


@given(rows=TABLES, query=queries(by_unit=True), condition=TESTS)
@settings(max_examples=EXAMPLES // 2)
def test_filter_holds_for_an_individual_when_it_holds_for_one_kept_row(
    rows: list[Row], query: Query, condition: Condition
) -> None:
    kept = kept_rows(rows, query.m or 1)
    left = query.leave_out(kept, 1)
    chosen = {row["unit"] for row in kept if condition.value(row) is True}
    with open_visits(rows, query.m or 1) as visits:
        risk = ask(visits, query)
        choice = risk.find(f"AVG(rdr) FILTER (WHERE {condition.sql}) <= 0.001 * MAX(rdr)", candidates=[0.5])
        line = risk.find(f"AVG(rdr) FILTER (WHERE {condition.sql}) >= 0", candidates=[0.5]).candidates[0]
        if not chosen:
            assert choice.epsilon is None or line.value is None
            return
        expected = math.fsum(bound(left[unit], risk, 0.5) for unit in chosen) / len(chosen)
        assert line.value == pytest.approx(expected, rel=1e-9)
        assert line.satisfied


@pytest.mark.parametrize("column", ["grp", "infinite", "x", "n0", "unit"])
@given(rows=TABLES, query=queries(by_unit=True))
@settings(max_examples=EXAMPLES // 8)
def test_by_column_takes_the_value_on_which_all_kept_rows_agree(column: str, rows: list[Row], query: Query) -> None:
    kept = kept_rows(rows, query.m or 1)
    left = query.leave_out(kept, 1)
    members: dict[Any, list[str]] = defaultdict(list)
    for unit in left:
        values = {row[column] for row in kept if row["unit"] == unit}
        members[values.pop() if len(values) == 1 else None].append(unit)
    with open_visits(rows, query.m or 1) as visits:
        risk = ask(visits, query)
        found = {line.group: line for line in risk.by(column, epsilon=2.0, reveal=True)}
        everybody = [bound(vector, risk, 2.0) for vector in everybody_there(left.values(), risk)]
        mean = math.fsum(everybody) / len(everybody)
    assert set(found) == set(members)
    for group, units in members.items():
        rdrs = [bound(left[unit], risk, 2.0) / mean for unit in units]
        assert found[group].people == len(units)
        assert found[group].max == pytest.approx(max(rdrs), rel=1e-9)
        assert found[group].median == pytest.approx(float(np.median(rdrs)), rel=1e-9)


@given(rows=TABLES, query=queries(by_unit=True))
@settings(max_examples=EXAMPLES // 4)
def test_revealed_individuals_are_the_most_exposed(rows: list[Row], query: Query) -> None:
    kept = kept_rows(rows, query.m or 1)
    left, keys = query.leave_out(kept, 1), query.keys(kept)
    with open_visits(rows, query.m or 1) as visits:
        risk = ask(visits, query)
        shown = risk.list_people(SLOTS, reveal=True)
        hidden = risk.list_people(SLOTS)
    matching = {row["unit"] for row in kept if query.matches(row) and query.key(row) in keys}
    named = []
    for line in shown:
        units = str(line.columns["unit"]).split(", ")
        assert len(units) == line.people
        for unit in units:
            assert line.sensitivity == pytest.approx(size_of(left[unit], 1), rel=1e-9, abs=1e-9)
        named += units
    assert len(named) == len(set(named))
    assert matching.issuperset(named)
    assert not any(size_of(left[unit], 1) for unit in matching.difference(named))  # nothing but NULLs: they add nothing
    assert [line.sensitivity for line in shown] == sorted((line.sensitivity for line in shown), reverse=True)
    assert {line.columns["unit"] for line in hidden} <= {"•••"}


# ---------------------------------------------------------------- which rows count, and what is refused


def visit(unit: str | None, key: int | None, **cells: Any) -> Row:
    return {**dict.fromkeys(COLUMNS), "unit": unit, "entries": key, "x": 1, "n0": 0.5, "grp": "Bonn", **cells}


def test_more_individuals_than_declared_are_all_counted() -> None:
    rows = [visit(f"p{at}", at) for at in range(SLOTS + 1)]
    with open_visits(rows, 1) as visits:
        risk = visits.risk("SELECT COUNT(*) FROM visits")
        assert risk.sensitivities.counts.tolist() == [SLOTS + 1]
        assert visits.risk("SELECT COUNT(*) FROM visits WHERE unit = 'p0'").sensitivities.counts.tolist() == [SLOTS, 1]


def test_observed_groups_are_refused() -> None:
    with open_visits([visit("ann", 1)], 1) as visits, pytest.raises(OptionError, match="declared groups"):
        visits.risk("SELECT grp, COUNT(*) FROM visits GROUP BY grp", groups="observed")


@pytest.mark.parametrize(
    ("aggregate", "bounds", "of_ann", "of_one", "expected", "by_hand"),
    [
        (
            "VAR_POP",
            (-(2**28), 2**28),
            (2**28 - 1, -(2**28)),
            2**27 + 1,
            ((2**29 - 2) ** 2 + 2**58, (2**28 + 2) ** 2),
            None,
        ),
        ("SUM", (-(2**61), 2**61), (2**61, 2**61 - 1, 2**61 - 2, 2**61 - 3), 3, (2**63 - 6, 3), None),
        # S7: a variance by hand has no limit on its bounds, so that a single square may leave 64 bits.
        ("VAR_POP", (0, 2**40), (2**40, 2**40 - 1), 3, (2**80 + (2**40 - 2) ** 2, (6 - 2**40) ** 2), 1.0),
    ],
)
def test_totals_beyond_doubles_and_64_bits_stay_exact(
    aggregate: str, bounds: Any, of_ann: tuple[int, ...], of_one: int, expected: tuple[int, ...], by_hand: float | None
) -> None:
    """Texts and numbers of the profile are read as whole numbers, never through a float."""
    columns = {**COLUMNS, "x": {"type": "integer", "bounds": list(bounds)}}
    rows = [*(visit("ann", key, x=x) for key, x in enumerate(of_ann)), visit("1", 1, x=of_one)]
    asked = [f"{aggregate}(x) FROM visits", f"grp, {aggregate}(x) FROM visits GROUP BY grp"]
    asked += (
        [] if by_hand else [f"grp, {aggregate}(x), COUNT(DISTINCT x) FROM visits GROUP BY grp"]
    )  # entries as a text
    for each in asked:
        with open_visits(rows, len(of_ann), columns=columns) as visits:
            risk = visits.risk(f"SELECT {each}", sensitivity=by_hand)
            assert isinstance(risk.profile, UnitProfile)
            totals = risk.profile.fields["t0" if aggregate == "SUM" else "q0"].tolist()
            assert sorted(value for value in totals if value) == sorted(expected)
            if aggregate == "SUM":
                assert risk.measured().values[0][0] == sum(expected)
                assert risk.sensitivities.values[-1] <= risk.sensitivity
