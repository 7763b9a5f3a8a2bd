"""Queries and tables at random, with odd cells: no release is denied, and no neighbour moves the vector beyond Δ (N4).

The tables hold NaN, infinities, days of other millennia, whole numbers beyond 64 bits and texts that are no numbers;
individuals with more rows than count and repeated row keys; rows of nobody; more people than declared.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import QueryError
from dosimeter.influence import DeclaredTables, Profile, measure_exactly
from dosimeter.influence.rows.row_profile import Measured
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan
from tests.oracle.odd_fuzz_tables import SOURCES, FuzzWorld, draw_world
from tests.oracle.odd_grammar import Grammar

OFTEN, BLOCKS = 4, 164  # blocks of the ordinary run, and of all: the long run accepts more than 5,000 queries
DRAWN, FEW = 36, 8  # queries of each block, and of one in the ordinary run
ACCEPTED = 0.85  # of the queries of a block, at least
NORMS: tuple[Norm, ...] = (1, 2)


def open_world(world: FuzzWorld, folder: Path, opened: ExitStack) -> tuple[Dataset, Ledger]:
    source, options = world.write(folder)
    dataset = Dataset.open(source, schema=world.schema(folder), **options)
    ledger = Ledger.open(folder / "ledger.db")
    return opened.enter_context(dataset), opened.enter_context(ledger)


def release(dataset: Dataset, ledger: Ledger, sql: str, min_rows: int | None) -> tuple[QueryPlan, Measured]:
    """Release an answer, and return the exact vector that got the noise."""
    seen: list[tuple[QueryPlan, Measured]] = []

    def measure(plan: QueryPlan, tables: DeclaredTables, profile: Profile | None, *, late: bool) -> Measured:
        seen.append((plan, measure_exactly(plan, tables, profile, late=late)))
        return seen[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dosimeter.release.ways.fixed.measure_exactly", measure)
        answer = dataset.release(
            sql, ledger=ledger, epsilon=0.5, policy="budget:1000000", min_rows=min_rows, again=True
        )
    assert answer.status == "released", sql
    return seen[0]


def distance(plan: QueryPlan, first: Measured, second: Measured, norm: Norm) -> float:
    """Return how far two vectors are apart in the units of the norm (S5)."""
    assert first.keys == second.keys
    changes = [
        float(a - b) * weight
        for row, other in zip(first.values, second.values, strict=True)
        for a, b, weight in zip(row, other, plan.weights(norm), strict=True)
    ]
    return math.fsum(map(abs, changes)) if norm == 1 else math.hypot(*changes)


def draw_queries(seed: int, world: FuzzWorld, count: int) -> Iterator[tuple[str, int | None]]:
    chance = random.Random(seed)
    grammar = Grammar(chance, tuple(world.facts["tables"]))
    for _ in range(count):
        yield grammar.query(), chance.choice([None, None, None, 2])


@pytest.mark.parametrize(
    ("block", "source"),
    [
        pytest.param(block, source, marks=[pytest.mark.long] if block >= OFTEN else [])
        for block, source in zip(range(BLOCKS), itertools.cycle(SOURCES), strict=False)
    ],
)
def test_nothing_is_denied_and_nobody_moves_more(tmp_path: Path, block: int, source: str) -> None:
    world = draw_world(7919 * block, source)
    chance = random.Random(block)
    accepted, drawn = 0, FEW if block < OFTEN else DRAWN
    with ExitStack() as opened:
        everybody = open_world(world, tmp_path / "all", opened)
        left_out = chance.sample(world.individuals(), 2)
        fewer = [open_world(world.without(who), tmp_path / f"without{at}", opened) for at, who in enumerate(left_out)]
        for sql, min_rows in draw_queries(block, world, drawn):
            try:
                plan, measured = release(*everybody, sql, min_rows)
            except QueryError:  # by what SQL and schema say alone, before any data are looked at
                continue
            accepted += 1
            _, other = release(*fewer[accepted % 2], sql, min_rows)
            for norm in NORMS:
                moved, most = distance(plan, measured, other, norm), plan.sensitivity(norm)
                assert moved <= most * (1 + 1e-9), (norm, moved, most, sql)
            if accepted % 6 == 0:
                risk = everybody[0].risk(sql, min_rows=min_rows)
                assert float(risk.sensitivities.values.max()) <= risk.sensitivity * (1 + 1e-9), sql
    assert accepted >= ACCEPTED * drawn
