"""A search for facts by other roads: its grid against Python's, its chances summed exactly, neighbours by replay."""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.influence import DeclaredTables, Measured, measure_exactly
from dosimeter.measures import Rank
from dosimeter.planning import POWERS, QueryPlan
from dosimeter.release.facts import spending
from dosimeter.release.facts.declared import declare_facts, plan_search
from dosimeter.release.facts.found import Fact
from dosimeter.release.facts.grids import read_first, read_second
from dosimeter.release.facts.questions import FactQuestion, FactSearch
from dosimeter.release.noise import Calibrated, CalibratedSelection
from dosimeter.release.noisy_vector import NoisyVector
from dosimeter.release.thresholds import draw_numbers
from dosimeter.schema import Column, ColumnType, Schema
from tests.fact_tables import KnownTable, holds, is_narrow, list_known_tables, list_numbers, promise_search

TABLES = [known for known in list_known_tables() if known.name != "wide"]


def _search(kinds: dict[str, str], unit: str = "row", spend: str = "1", delta: str | None = "1e-6") -> FactSearch:
    columns = {name: Column(name, ColumnType(kind), identifying=name == unit) for name, kind in kinds.items()}
    return plan_search(Schema("t", columns, unit=unit, reviewed=True), spend=spend, delta=delta)


# ---------------------------------------------------------------- the grid


def test_the_first_grid_is_the_rulings() -> None:
    assert len(POWERS) == 151
    assert sorted(POWERS) == list(POWERS)
    assert set(POWERS) == {s * d * Decimal(10) ** k for k in range(-6, 19) for d in (1, 2, 5) for s in (1, -1)} | {0}


def test_a_number_is_placed_as_python_places_it() -> None:
    """Also far out, at every point of the grid, and one unit in the last place below and above it."""
    points = [float(point) for point in POWERS]
    beside = [math.nextafter(point, side) for point in points for side in (-math.inf, math.inf)]
    given = [*points, *beside, 1e300, -1e300, 0.0, -0.0, 37.5, math.nan, math.inf, -math.inf, None]
    search = _search({"x": "decimal"})
    (column,) = search.numbers
    with Dataset.open(pa.table({"x": pa.array(given, pa.float64())}), schema=search.declared, table="t") as dataset:
        plan = search.first(column).plan
        measured = measure_exactly(plan, dataset.tables, None)
    counted = next(iter(measured.columns.values()))[0]
    assert counted is not None
    kept = [value for value in given if value is not None and math.isfinite(value)]
    wanted = np.bincount([max(0, bisect_right(points, value) - 1) for value in kept], minlength=151)
    found = np.zeros(151, dtype=int)
    np.add.at(found, counted.values[counted.present], counted.people[counted.present])
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("kind", ["integer", "decimal"])
def test_bounds_are_found_wherever_the_draws_fall(kind: str) -> None:
    """Also of numbers at or beyond the grid's ends: nothing may be refused after the charge."""
    search = _search({"x": kind})
    (column,) = search.numbers
    for place in range(len(POWERS)):
        low, high = ends = read_first(column, (Fraction(place), Fraction(place)))
        assert low < high
        assert search.second(column, ends).plan.ranks


# ---------------------------------------------------------------- the promise, summed exactly (B2)


@pytest.mark.parametrize("known", TABLES, ids=[known.name for known in TABLES])
def test_the_chance_that_bounds_hold_and_are_not_too_wide(known: KnownTable) -> None:
    """Both draws of both searches, with the exact chance of each outcome, at just the ε of the promise."""
    search = promise_search(known)
    with Dataset.open(known.table, schema=known.declared, table="known") as dataset:
        tables = DeclaredTables(dataset.engine, known.declared)
        for column in search.numbers:
            values, good, seen = list_numbers(known, column), 0.0, 0.0
            for first, chance in _list_ends(search.first(column), tables):
                ends = read_first(column, first)
                question = search.second(column, ends)
                step = next(rank.grid for rank in question.plan.ranks.values())
                for second, inner in _list_ends(question, tables):
                    found = _fill(search, column, read_second(column, ends, step, second))
                    seen += chance * inner
                    good += chance * inner * (holds(found, values) and is_narrow(found, values))
            assert seen > 0.999
            assert good >= 0.95, column.name


def _list_ends(question: FactQuestion, tables: DeclaredTables) -> Iterator[tuple[tuple[Fraction, Fraction], float]]:
    """Every pair of ends that a search can draw with a chance worth counting, with that chance."""
    plan = question.plan
    measured, noise = measure_exactly(plan, tables, None), question.calibrate(plan)
    ends = []
    for at, rank in plan.ranks.items():
        chosen = noise[at]
        assert isinstance(chosen, CalibratedSelection)
        chances = rank.chances(rank.count(measured.columns[at][0]), chosen.share)
        places = np.nonzero(chances > 1e-6)[0]
        ends.append([(int(rank.candidates[place]) * rank.unit, float(chances[place])) for place in places])
    yield from (((low, high), p * q) for low, p in ends[0] for high, q in ends[1])


def _fill(search: FactSearch, column: Column, ends: tuple[Decimal, Decimal]) -> Column:
    from dosimeter.release.facts.found import list_bounds, make_schema

    facts = [Fact(None, "individuals", "2"), *list_bounds(column, ends, 1)]
    return make_schema(search, facts, "0").columns[column.name]


# ---------------------------------------------------------------- values of categories (H1)


@pytest.mark.parametrize("texts", [1, 4])
def test_a_value_of_one_individual_is_shown_with_at_most_its_share_of_the_delta(texts: int) -> None:
    search = _search({f"s{at}": "text" for at in range(texts)}, spend="0.4", delta="1e-5")
    for column in search.texts:
        question = search.values(column, 100)
        plan = question.plan
        noise = question.calibrate(plan)[0]
        assert isinstance(noise, Calibrated)
        q = math.exp(-1 / noise.scale)
        alone = sum((1 - q) / (1 + q) * q**z for z in range(question.least - 1, question.least + 5_000))
        assert alone <= 1e-5 / texts
        missed = sum((1 - q) / (1 + q) * q**z for z in range(2 * question.least + 1, 2 * question.least + 5_000))
        assert missed < 1e-9, "three times as many individuals are shown"


# ---------------------------------------------------------------- shares


@pytest.mark.parametrize("unit", ["row", "id"])
def test_the_parts_certified_by_opendp_add_up_to_no_more_than_is_charged(unit: str) -> None:
    kinds = {"id": "integer", "a": "integer", "b": "decimal", "d": "date", "m": "timestamp", "s": "text", "r": "text"}
    search = _search(kinds, unit=unit, spend="0.7")
    asked = list(search.list_first())
    for column in search.numbers:
        first = (Fraction(90), Fraction(110)) if column.type in (ColumnType.INTEGER, ColumnType.DECIMAL) else None
        asked.append(search.second(column, read_first(column, first or (Fraction(1990), Fraction(2020)))))
    spent = sum(Fraction(drawn.certified) for each in asked for drawn in each.calibrate(each.plan))
    assert Fraction(6, 10) < spent <= Fraction("0.7")
    assert sum(Fraction(each.options.group_delta or 0) for each in asked) <= Fraction("1e-6")


def test_what_is_said_beforehand_of_those_beyond_is_what_the_draws_seek() -> None:
    search = _search({"a": "integer", "b": "decimal", "d": "date"}, spend="0.8", delta=None)
    for column in search.numbers:
        first = (Fraction(1990), Fraction(2020)) if column.type is ColumnType.DATE else (Fraction(90), Fraction(110))
        asked = [search.first(column), search.second(column, read_first(column, first))]
        sought = [rank.rows_from_end(float(each.epsilon / 2)) for each in asked for rank in each.plan.ranks.values()]
        assert max(sought) == search.find_beyond(column)


# ---------------------------------------------------------------- neighbours


class Replay:
    """The draws of one run, to be given again on a neighbour, with everything that was measured in both."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.drawn: list[list[NoisyVector]] = []
        self.measured: list[list[tuple[QueryPlan, Measured, Any]]] = []
        patch.setattr(spending, "draw_numbers", self._answer)

    def run(self, source: Any, search: FactSearch) -> list[Fact]:
        self.measured.append([])
        with Dataset.open(source, schema=search.declared, table="t") as dataset:
            return list(spending.Drawing(dataset.engine, search, lambda words: None).list_facts())

    def _answer(self, plan: QueryPlan, measured: Measured, noise: Any) -> list[NoisyVector]:
        asked = self.measured[-1]
        asked.append((plan, measured, noise))
        if len(self.measured) == 1:
            self.drawn.append(draw_numbers(plan, measured, noise))
        return self.drawn[len(asked) - 1]


def _find_loss(plan: QueryPlan, one: Measured, other: Measured, noise: Any) -> tuple[float, int]:
    """How much ε one question costs between these neighbours; and in how many groups they differ."""
    if plan.threshold is not None:
        sizes: list[dict[Any, Any]] = [
            dict(zip(each.keys, (row[0] for row in each.values), strict=True)) for each in (one, other)
        ]
        moved = {key for key in {*sizes[0], *sizes[1]} if sizes[0].get(key, 0) != sizes[1].get(key, 0)}
        assert all(abs(sizes[0].get(key, 0) - sizes[1].get(key, 0)) <= 1 for key in moved)
        assert all(max(each.get(key, 0) for each in sizes) == 1 for key in sizes[0].keys() ^ sizes[1].keys())
        return len(moved) * noise[0].certified, len(moved)
    loss = 0.0
    for at, (measure, drawn) in enumerate(zip(plan.measures, noise, strict=True)):
        if isinstance(measure, Rank):
            scores = [measure.scores(measure.count(each.columns[at][0]), drawn.share) for each in (one, other)]
            moved_by = int(np.abs(scores[0] - scores[1]).max())
            assert moved_by <= measure.score_sensitivity
            loss += drawn.share * moved_by / measure.score_sensitivity
        else:
            loss += drawn.certified * abs(float(one.values[0][at] - other.values[0][at])) / drawn.sensitivity
    return loss, 0


def _people(seed: int = 1, n: int = 900) -> list[dict[str, Any]]:
    draw = np.random.default_rng(seed)
    return [
        {
            "id": owner,
            "visit": visit,
            "age": int(draw.integers(18, 90)),
            "pay": round(float(draw.lognormal(8, 1)), 2),
            "day": f"20{draw.integers(10, 24)}-0{draw.integers(1, 9)}-11",
            "city": str(draw.choice(["Aby", "Bro", "Cam"])),
        }
        for owner in range(n)
        for visit in range(1 + int(draw.integers(0, 4)))
    ]


OUTLIERS: dict[str, list[dict[str, Any]]] = {
    "usual": [],
    "outlier": [{"age": 10**15, "pay": -1e17, "day": "0001-01-01", "city": "Aby"}],
    "text among numbers": [{"age": "none of your business", "pay": "n/a", "day": "soon", "city": "Bro"}],
    "most rows": [{"age": at, "pay": at, "day": "2020-01-01", "city": "Cam"} for at in range(300)],
    "a city of their own": [{"age": 50, "pay": 10, "day": "2015-05-05", "city": "Dun"}] * 3,
    "nothing at all": [{"age": "", "pay": "", "day": "", "city": ""}],
}
KINDS = {"id": "integer", "visit": "integer", "age": "integer", "pay": "decimal", "day": "date", "city": "text"}


@pytest.mark.parametrize("unit", ["id", "row"])
@pytest.mark.parametrize("who", OUTLIERS)
def test_a_neighbour_moves_nothing_beyond_the_claim(
    who: str, unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same draws: the same questions, the same schema, and no more loss than what is charged."""
    own = [{"id": 5_000, "visit": at, **row} for at, row in enumerate(OUTLIERS[who])]
    own = own if unit == "id" else own[:1]
    rows = _people()
    paths = [tmp_path / "with.csv", tmp_path / "without.csv"]
    for path, people in zip(
        paths, ([*rows, *own], rows if own else rows[1:] if unit == "row" else _leave_out(rows)), strict=True
    ):
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(KINDS))
            writer.writeheader()
            writer.writerows(people)
    spend = 120.0  # so much that every column is searched in a table this small
    declared = []
    for path in paths:
        with Dataset.open(path, table="t") as dataset:
            declared.append(dataset.declare(unit=unit))
    assert declared[0] == declared[1], "what is declared is not decided by one individual's cells"
    assert {name: str(column.type) for name, column in declared[0].columns.items()} == KINDS
    search = plan_search(declared[0], spend=spend, delta="1e-6", columns=["age", "pay", "day", "city"])
    replay = Replay(monkeypatch)
    found = [replay.run(path, search) for path in paths]
    assert found[0] == found[1]
    assert len([fact for fact in found[0] if fact.kind == "low"]) == 3, "every column was searched"
    one, other = replay.measured
    assert [plan.sql for plan, _, _ in one] == [plan.sql for plan, _, _ in other]
    assert [plan.schema for plan, _, _ in one] == [plan.schema for plan, _, _ in other]
    losses = [
        _find_loss(plan, here, there, noise) for (plan, here, noise), (_, there, _) in zip(one, other, strict=True)
    ]
    assert 0 < sum(loss for loss, _ in losses) <= spend
    assert max(groups for _, groups in losses) <= 1


def _leave_out(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["id"] != 3]


@pytest.mark.parametrize("odd", ["maybe", "2"])
def test_one_odd_cell_makes_no_text_of_truth_values(odd: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("active\n" + "true\nfalse\n" * 50 + odd + "\n")
    with Dataset.open(path, table="t") as dataset:
        assert dataset.declare(unit="row").columns["active"].type is ColumnType.BOOLEAN


def test_declared_facts_of_a_draft_are_left_out_and_those_of_a_review_stay() -> None:
    column = Column("x", ColumnType.INTEGER, bounds=(Decimal(0), Decimal(9)))
    schema = Schema("t", {"x": column, "y": Column("y", ColumnType.INTEGER)}, individuals=40)
    assert declare_facts(schema, unit="row").columns["x"].bounds is None
    known = declare_facts(replace(schema, reviewed=True), unit="row")
    assert known.columns["x"].bounds == (Decimal(0), Decimal(9))
    assert [each.name for each in plan_search(known, spend=1).columns] == ["y"]
    assert known.individuals is None, "how many there are is found"
