"""How many individuals were cut and clamped (E5): by plain Python over the rows, and by leaving everybody out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from dosimeter import Dataset
from dosimeter.influence import DeclaredTables, measure_exactly
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan
from tests.known import known
from tests.oracle.leaving_out import Vector, assert_same_people, everybody_there, expand, size_of
from tests.oracle.visits import ARROW, COLUMNS, FIRST, GROUPS, LAST, SLOTS, TABLES, Row, kept_rows, open_visits

EXAMPLES = settings().max_examples
SHARE = 0.2
Test = Callable[[Row], bool]


def everywhere(_: Row) -> bool:
    return True


def nowhere(_: Row) -> bool:
    return False


def outside(name: str, low: float, high: float) -> Test:
    return lambda row: row[name] is not None and not low <= row[name] <= high


LARGE_X, LARGE_Y, LARGE_N = outside("x", -3, 5), outside("y", 2, 7), outside("n0", -1.5, 2.25)


@dataclass(frozen=True)
class Case:
    """A query, which rows can matter to it, and which rows have a value that is clamped; ``numbers`` get noise."""

    sql: str
    numbers: int
    within: Test = everywhere
    clamped: Test = nowhere


def in_group(row: Row) -> bool:
    return row["grp"] in GROUPS


def sum_if(row: Row) -> bool:
    first = LARGE_X(row) if row["infinite"] else LARGE_Y(row)
    return first or (LARGE_N(row) and row["y"] is not None and row["y"] > 3)


def either(row: Row) -> bool:
    """In the first SELECT the WHERE holds, in the second every row counts, and only the first reads x."""
    return row["infinite"] is True and LARGE_X(row)


def either_of_both(row: Row) -> bool:
    """Where one is NULL, the product is, and the other is not read."""
    return None not in (row["x"], row["y"]) and (LARGE_X(row) or LARGE_Y(row))


def late_or_early(row: Row) -> bool:
    return row["born"] is not None and not FIRST <= row["born"] <= LAST


CASES = [
    Case("SELECT COUNT(*) FROM visits WHERE infinite", 1, lambda row: row["infinite"] is True),
    Case("SELECT grp, SUM(x) AS s FROM visits GROUP BY grp", 1, in_group, LARGE_X),
    Case(
        "SELECT grp, AVG(n0) AS a, COUNT(*) AS n FROM visits WHERE y > 3 GROUP BY grp", 3,
        lambda row: in_group(row) and row["y"] is not None and row["y"] > 3, LARGE_N,
    ),
    Case(
        "SELECT SUM(CASE WHEN infinite THEN x ELSE y END) AS a, SUM(n0) FILTER (WHERE y > 3) AS b FROM visits", 2,
        everywhere, sum_if,
    ),
    Case(
        "SELECT SUM(x * y) AS p FROM visits", 1, everywhere, either_of_both,
    ),
    Case("SELECT SUM(SQRT(ABS(x))) AS r FROM visits", 1, everywhere, LARGE_X),
    Case(
        "SELECT 'a' AS part, SUM(x) AS s FROM visits WHERE infinite UNION ALL SELECT 'b', COUNT(y) FROM visits", 2,
        everywhere, either,
    ),
    Case("SELECT grp, SUM(y) AS s FROM visits GROUP BY ROLLUP (grp) ORDER BY s", 1, in_group, LARGE_Y),
    Case("SELECT CORR(x, y) AS c FROM visits", 6, everywhere, either_of_both),
    Case("SELECT SUM(DATE_DIFF('day', DATE '2020-01-01', born)) AS d FROM visits", 1, everywhere, late_or_early),
    Case(
        "SELECT (SELECT COUNT(*) FROM visits WHERE y > 3) AS n, (SELECT SUM(x) FROM visits WHERE infinite) AS s", 2,
        lambda row: row["infinite"] is True or (row["y"] is not None and row["y"] > 3),
        lambda row: row["infinite"] is True and LARGE_X(row),
    ),
]  # fmt: skip
BY_RANK = Case(
    "SELECT MEDIAN(x) AS m, MAX(y) AS h FROM visits", 2, everywhere, lambda row: LARGE_X(row) or LARGE_Y(row)
)


def count_told(rows: Sequence[Row], m: int | None, case: Case) -> tuple[int, int]:
    """Return how many individuals have a cut row that can matter, and how many a kept one with a clamped value."""
    kept = list(rows) if m is None else kept_rows(rows, m)
    before = Counter(row["unit"] for row in rows if row["unit"] is not None and case.within(row))
    after = Counter(row["unit"] for row in kept if case.within(row))
    found = [at if m is None else row["unit"] for at, row in enumerate(kept) if case.within(row) and case.clamped(row)]
    return len(before - after), len(set(found))


def read_told(plan: QueryPlan, tables: DeclaredTables) -> dict[str, int]:
    """Return the exact numbers by their names; 0 for what is not measured."""
    names = known(plan.told).measured
    numbers = measure_exactly(plan, tables, None).blocks[-1].values[0] if names else ()
    return {"cut": 0, "clamped": 0} | dict(zip(names, map(int, numbers), strict=True))


def weigh(plan: QueryPlan, tables: DeclaredTables, case: Case, norm: Norm) -> Vector:
    """Return the exact vector, each number divided by its own Δ, and weighed by its share (E5, S5)."""
    told = len(known(plan.told).measured)
    ratio = (SHARE / 2) / ((1 - told * SHARE / 2) / case.numbers)
    found: list[float] = []
    blocks = list(zip(plan.blocks, measure_exactly(plan, tables, None).blocks, strict=True))
    for at, (block, part) in enumerate(blocks):
        by_share = ratio ** (1 / norm) if at == len(blocks) - 1 else 1.0  # the last block tells
        weights = [by_share / each.sensitivity(norm) for each in block.measures]
        found += [float(value) * weight for row in part.values for value, weight in zip(row, weights, strict=True)]
    return tuple(found)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
@pytest.mark.parametrize("m", [1, 2, 3])
@given(rows=TABLES)
@settings(max_examples=max(2, EXAMPLES // 8))
def test_everybody_moves_what_is_told_as_if_really_left_out(
    m: int, case: Case, mechanism: Any, rows: list[Row]
) -> None:
    with open_visits(rows, m) as dataset:
        risk = dataset.query(case.sql, tell_cut=SHARE, mechanism=mechanism).risk()
        plan, norm = risk.plan, risk.mechanism.norm
        told = read_told(plan, risk.tables)
        assert (told["cut"], told["clamped"]) == count_told(rows, m, case)
        measured = [int(each) for each in risk.measured().blocks[-1].values[0]]
        assert measured == [told[name] for name in known(plan.told).measured]
        before = weigh(plan, risk.tables, case, norm)
        left = []
        for unit in {row["unit"] for row in rows}:
            with open_visits([row for row in rows if row["unit"] != unit], m) as fewer:
                after = weigh(plan, fewer.tables, case, norm)
                changed = read_told(plan, fewer.tables)
            left.append(tuple(a - b for a, b in zip(before, after, strict=True)))
            assert all(told[name] - changed[name] in (0, 1) for name in told)  # Δ = 1 each
        assert_same_people(expand(risk.contributions), everybody_there(left, risk))
        assert max((size_of(vector, norm) for vector in left), default=0.0) <= risk.sensitivity * (1 + 1e-9)


@given(rows=TABLES)
@settings(max_examples=max(3, EXAMPLES // 4))
def test_what_is_told_beside_numbers_drawn_by_rank(rows: list[Row]) -> None:
    with open_visits(rows, 2) as dataset:
        risk = dataset.query(BY_RANK.sql, tell_cut=SHARE).risk()
        assert tuple(read_told(risk.plan, risk.tables).values()) == count_told(rows, 2, BY_RANK)
        assert risk.contributions.shares is not None
        assert risk.contributions.shares.max(initial=0.0) <= 1.0 + 1e-9


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
@given(rows=TABLES)
@settings(max_examples=max(2, EXAMPLES // 8))
def test_where_rows_are_individuals_nobody_is_cut(case: Case, rows: list[Row]) -> None:
    columns = {name: facts for name, facts in COLUMNS.items() if name != "unit"}
    with open_table([{name: row[name] for name in columns} for row in rows], columns) as dataset:
        plan = dataset.query(case.sql, tell_cut=SHARE).plan
        assert "cut" not in known(plan.told).measured
        told = read_told(plan, dataset.tables)
        assert (told["cut"], told["clamped"]) == (0, count_told(rows, None, case)[1])
        risk = dataset.query(case.sql, tell_cut=SHARE).risk()
        assert risk.contributions.norms(1).max(initial=0.0) <= risk.sensitivity * (1 + 1e-9)


def test_one_individual_moves_each_number_by_at_most_1_and_both_at_once() -> None:
    """All 70 tables of up to 4 rows of two individuals, one row of whom counts: x = 0, or 9, which is out of bounds."""
    columns = {"unit": {"type": "text"}, "x": COLUMNS["x"]}
    found: dict[tuple[tuple[str, int], ...], tuple[int, ...]] = {}
    for size in range(5):
        for table in combinations_with_replacement([(unit, x) for unit in ("a", "b") for x in (0, 9)], size):
            rows = [{"unit": unit, "x": x} for unit, x in table]
            with open_table(rows, columns, unit="unit", max_rows_per_unit=1) as dataset:
                plan = dataset.query("SELECT SUM(x) AS s FROM visits WHERE x < 20", tell_cut=SHARE).plan
                found[table] = tuple(read_told(plan, dataset.tables).values())
    assert len(found) == 70
    moves = set()
    for table, told in found.items():
        for unit in ("a", "b"):
            fewer = found[tuple(row for row in table if row[0] != unit)]
            moves.add(tuple(whole - part for whole, part in zip(told, fewer, strict=True)))
    assert moves == {(0, 0), (0, 1), (1, 0), (1, 1)}


def open_table(rows: list[Row], columns: dict[str, Any], **facts: Any) -> Dataset:
    schema = {"table": "visits", "individuals": SLOTS, "reviewed": True, "columns": columns, **facts}
    arrow = pa.schema([field for field in ARROW if field.name in columns])
    return Dataset.open(pa.Table.from_pylist(rows, schema=arrow), schema=schema, table="visits")
