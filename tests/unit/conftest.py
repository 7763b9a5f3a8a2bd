"""An open table of stays, and a ledger to release it on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dosimeter import Dataset, Ledger
from tests.unit.release_stays import make_table, schema_of


@pytest.fixture
def stays(shared_duckdb: None) -> Iterator[Dataset]:
    with Dataset.open(make_table(), schema=schema_of()) as dataset:
        yield dataset


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.db") as books:
        yield books
