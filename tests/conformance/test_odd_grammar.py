"""Queries at random over tables with odd cells: no release is denied, and no neighbour moves the vector beyond Δ (N4).

The tables are those of ``test_odd_cells.py``, with all their odd columns at once: individuals with more rows than count
and repeated row keys; rows of nobody; more people than declared. MIN, MEDIAN … are drawn by rank, as in any release.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from dosimeter.errors import QueryError
from tests.conformance.odd_cases import JOINS, MODES, REMOVED, make_wide
from tests.conformance.odd_grammar import Grammar
from tests.conformance.odd_tables import columns_of
from tests.conformance.odd_worlds import OTHERS, Worlds, check_distance, release

OFTEN, BLOCKS = 4, 164  # blocks of the ordinary run, and of all: the long run accepts more than 5,000 queries
DRAWN, FEW = 36, 8  # queries of each block, and of one in the ordinary run
ACCEPTED = 0.7  # of the queries of a block, at least
SOURCES = [source for source in ("arrow", "parquet by pyarrow", "duckdb", *OTHERS) if source != "postgres"]


@pytest.mark.parametrize(
    ("block", "source"),
    [
        pytest.param(block, source, marks=[pytest.mark.long] if block >= OFTEN else [])
        for block, source in zip(range(BLOCKS), itertools.cycle(SOURCES), strict=False)
    ],
)
def test_nothing_is_denied_and_nobody_moves_more(worlds: Worlds, block: int, source: str) -> None:
    chance = random.Random(block)
    mode = chance.choice(list(MODES))
    join = chance.choice([name for name in JOINS if "," not in name and (name != "labs" or MODES[mode].unit != "row")])
    column = chance.choice(columns_of(source)).name
    case = replace(make_wide(source, mode, chance.choice(list(REMOVED))), column=column, join=join)
    grammar = Grammar(chance, case)
    accepted, drawn = 0, FEW if block < OFTEN else DRAWN
    for _ in range(drawn):
        sql, min_rows = grammar.query(), chance.choice([None, None, None, 2])
        try:
            (plan, measured), (_, other) = (
                release(*worlds.open(case, removed), sql, min_rows) for removed in (None, case.removed)
            )
        except QueryError:  # by what SQL and schema say alone, before any data are looked at
            continue
        accepted += 1
        assert measured.keys == other.keys
        check_distance(plan, measured, other)
        if accepted % 6 == 0:
            risk = worlds.open(case, None)[0].risk(sql, min_rows=min_rows)
            assert float(risk.sensitivities.values.max()) <= risk.sensitivity * (1 + 1e-9), sql
    assert accepted >= ACCEPTED * drawn
