"""What an analyst gets depends on the data through the noise alone (N4).

All noise is replaced by numbers that have nothing to do with the data. Then a release from a table and one from the
same table without a person must be alike to the last character: status, rows and their order, errors, facts, promise,
and what is left of the budget. Whatever else were read off the data on the way would show as a difference.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dosimeter import Dataset, Ledger
from dosimeter.errors import DosimeterError
from dosimeter.release import noise, noisy_vector
from dosimeter.release.ways import selected
from tests.oracle.people_tables import draw_tables
from tests.oracle.person_queries import draw_query
from tests.oracle.test_blocks import draw_blocks

EXAMPLES = settings().max_examples // 10
SEEDS = st.integers(0, 2**32)
NAMED = {"entry", "earlier", "notes"}  # names of entries are random; notes are the controller's


def ask(dataset: Dataset, ledger: Ledger, sql: str, how: dict[str, Any], seed: int) -> list[str]:
    """Return everything that the analyst can see of a release without noise of its own."""

    def draw(mechanism: object, scale: float, exact: Sequence[int]) -> list[int]:
        chance = random.Random(f"{seed} {scale}")
        return [round(chance.gauss(20, 30)) for _ in exact]

    def select(scores: Sequence[Sequence[int]], calibrated: object) -> list[int]:
        return [random.Random(seed).randrange(len(cell)) for cell in scores]

    with (
        patch.object(noise, "_draw", draw),
        patch.object(noisy_vector, "select_lowest", select),
        patch.object(selected, "draw_number", lambda _: random.Random(seed).choice([-(2**40), 2**28, 2**40])),
    ):
        try:
            answer = dataset.release(sql, ledger=ledger, policy="budget:2", **how)
        except DosimeterError as error:
            return [type(error).__name__, str(error)]
    seen = [f"{each.name}: {getattr(answer, each.name)!r}" for each in fields(answer) if each.name not in NAMED]
    return [*seen, repr(ledger.remaining("visits"))]


@pytest.mark.parametrize(
    "how", [{"epsilon": 0.5}, {"epsilon": 0.5, "mechanism": "gaussian"}, {"svt": 0.5, "variance": 0.01}], ids=str
)
@given(table=SEEDS, query=SEEDS)
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_else_tells_that_somebody_is_there(how: dict[str, Any], table: int, query: int, tmp_path: Path) -> None:
    tables = draw_tables(table, odd=True)
    queries = [draw_query(query).sql, draw_blocks(query, "visits"), draw_blocks(query, "people")]
    person = random.Random(table).choice(tables.people or ["nobody"])
    seen = []
    for at, each in enumerate((tables, tables.without(person))):
        target = tmp_path / f"{at}.db"
        target.unlink(missing_ok=True)
        with each.open() as dataset, Ledger.open(target) as ledger:
            seen.append([ask(dataset, ledger, sql, how, query) for sql in (*queries, queries[0])])
    assert seen[0] == seen[1]
    assert any("status" in answer[0] for answer in seen[0]) or "svt" in how
