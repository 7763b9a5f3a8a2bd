"""Many queries of a few tables."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _shared_duckdb(shared_duckdb: None) -> None:
    """Every table in memory is opened in the DuckDB of its module."""
