"""An odd cell is NULL, by one rule in every source: on tables with one individual and without (N4).

Every source × every odd cell × every shape of query, for rows and for individuals with many: both tables are answered,
the exact vector is what a plain-Python oracle says, and it moves by no more than Δ in both norms.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from odd_cases import MAIN_PAIRS, SPARK_PAIRS, Case, cover_pairs
from odd_tables import SOURCES
from odd_worlds import Worlds, check_neighbours

SPARK = [source for source in SOURCES if source.startswith("spark")]
OTHERS = [source for source in SOURCES if source not in SPARK]


def mark(case: Case, *more: pytest.MarkDecorator) -> Any:
    """Keep the cases of a source on one worker, which then writes its tables once; servers have a worker of theirs."""
    served = case.source == "postgres" or case.source in SPARK
    group = pytest.mark.xdist_group("conformance" if served else f"odd cells in {case.source}")
    return pytest.param(case, id=str(case), marks=[group, *more])


@pytest.fixture(scope="module")
def worlds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    def connect() -> Any:
        return psycopg.connect(request.getfixturevalue("postgres_url"))

    with ExitStack() as opened:
        yield Worlds(tmp_path_factory.mktemp("odd"), connect, opened)


@pytest.mark.parametrize("case", [mark(case) for case in cover_pairs(OTHERS, MAIN_PAIRS)])
def test_neighbours(worlds: Worlds, case: Case) -> None:
    check_neighbours(worlds, case)


@pytest.mark.usefixtures("spark_session")
@pytest.mark.parametrize("case", [mark(case) for case in cover_pairs(SPARK, SPARK_PAIRS)])
def test_neighbours_in_spark(worlds: Worlds, case: Case) -> None:
    check_neighbours(worlds, case)
