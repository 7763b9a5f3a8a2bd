"""Many queries, each of tables of its own; and the stays and the ledger of tests/unit."""

from __future__ import annotations

import pytest

from tests.unit.conftest import ledger, stays

__all__ = ["ledger", "stays"]


@pytest.fixture(scope="module", autouse=True)
def _shared_duckdb(shared_duckdb: None) -> None:
    """Every table in memory is opened in the DuckDB of its module."""
