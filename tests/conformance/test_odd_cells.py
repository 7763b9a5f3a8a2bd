"""An odd cell is NULL, by one rule in every source: on tables with one individual and without (N4).

Every source × every odd cell × every shape of query, for rows and for individuals with many: both tables are answered,
the exact vector is what a plain-Python oracle says, and it moves by no more than Δ in both norms.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.conformance.odd_cases import (
    ALL_PAIRS,
    JOINS,
    MAIN_PAIRS,
    MODES,
    REMOVED,
    SPARK_PAIRS,
    Case,
    cover_pairs,
    make_wide,
)
from tests.conformance.odd_meanings import BUNDLES, GROUPS_BY_KIND, list_conditions
from tests.conformance.odd_tables import FAMILIES, SOURCES, build_rows, columns_of
from tests.conformance.odd_worlds import (
    OTHERS,
    SPARK,
    Worlds,
    check_neighbours,
    list_tables,
    mark,
    marks_of,
    populate,
)

SMOKE = pytest.mark.smoke
MAIN = cover_pairs(OTHERS, MAIN_PAIRS)
IN_SPARK = cover_pairs(SPARK, SPARK_PAIRS)
AT_LENGTH = [case for case in cover_pairs(OTHERS, ALL_PAIRS) if case not in MAIN]
AT_LENGTH += [case for case in cover_pairs(SPARK, ALL_PAIRS) if case not in IN_SPARK]


@pytest.mark.parametrize(
    "case",
    [
        *(mark(case) for case in MAIN),
        *(mark(case, *([pytest.mark.long] if at % 5 else [])) for at, case in enumerate(IN_SPARK)),
        *(mark(make_wide(source, "person", "odd"), *([] if source == "spark csv" else [SMOKE])) for source in SOURCES),
        *(mark(case, pytest.mark.long) for case in AT_LENGTH),
    ],
)
def test_neighbours(worlds: Worlds, case: Case) -> None:
    check_neighbours(worlds, case)


def list_queries(source: str, column: str, mode: str) -> Iterator[Case]:
    """Give every condition, grouping, bundle and join on a column, the rest in turn: the shape of a query."""
    kind = next(found.kind for found in columns_of(source) if found.name == column)
    joins = [join for join in JOINS if join != "labs" or MODES[mode].unit != "row"]
    bundles, removed = itertools.cycle(BUNDLES), itertools.cycle(REMOVED)
    shapes = [
        *(("none", where, "none") for where in list_conditions(kind)),
        *(("none", "none", group) for group in GROUPS_BY_KIND[kind]),
        *((join, where, "grp") for join in joins for where in (">", "IS NULL") if where in list_conditions(kind)),
    ]
    for join, where, group in shapes:
        yield Case(source, column, mode, next(removed), join, where, group, next(bundles))
    for bundle in BUNDLES:
        yield Case(source, column, mode, next(removed), "none", "none", "none", bundle)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("source", "column"), [(source, c.name) for source in OTHERS for c in columns_of(source)])
def test_whole_product(worlds: Worlds, source: str, column: str, mode: str) -> None:
    for case in list_queries(source, column, mode):
        check_neighbours(worlds, case)


# ---------------------------------------------------------------- the tables are what they say


def test_the_cover_meets_every_pair() -> None:
    """By another road: what two values meet in any case that can be made, they meet in one that was."""
    for pairs, sources, cases in ((MAIN_PAIRS, OTHERS, MAIN), (SPARK_PAIRS, SPARK, IN_SPARK)):
        possible = {
            (case.source, case.column, case.mode, case.bundle)
            for source in sources
            for column in columns_of(source)
            for mode in MODES
            for case in list_queries(source, column.name, mode)
        }
        names = ("source", "column", "mode", "bundle")
        for a, b in itertools.combinations(names, 2):
            if (a, b) in pairs:
                wanted = {(values[names.index(a)], values[names.index(b)]) for values in possible}
                assert wanted == {(getattr(case, a), getattr(case, b)) for case in cases}


@SMOKE
@pytest.mark.parametrize("source", [pytest.param(source, marks=marks_of(source)) for source in SOURCES])
def test_sources_hold_the_odd_cells(worlds: Worlds, source: str) -> None:
    """Every odd cell is there, and is counted as one. pandas alone writes NaN for a NULL."""
    dataset, _ = worlds.open(make_wide(source, "row", "odd"), None)
    rows, expected = build_rows(source), {}
    for column in columns_of(source):
        cells = [row[column.name] for row in rows]
        odd = [cell for cell in cells if cell is not None and column.clean(cell) is None]
        expected[column.name] = sum(source != "pandas" or cell == cell for cell in odd)
        assert odd or column.name == "at_ns"
    assert dataset.engine.count_odd_cells(list(expected)) == expected


def test_neighbours_differ_in_one_individual() -> None:
    for source, mode, removed in itertools.product(SOURCES, MODES.values(), REMOVED):
        everybody, fewer = (populate(source, mode.unit, who) for who in (None, removed))
        gone = [row for row in everybody.rows if not any(row == other for other in fewer.rows)]
        assert len(everybody.rows) - len(fewer.rows) >= 1
        if mode.unit != "row" and FAMILIES[source] == "csv":  # cells that compare: NaN is not equal to itself
            assert len({row["who"] for row in gone}) == 1
        assert set(list_tables(fewer, None)) == {"t", "labs", "sites"}
