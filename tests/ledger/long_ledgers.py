"""Makes long ledgers quickly, as the benchmark does. Not a test."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from dosimeter.ledger import Ledger, Request

BENCHMARK = Path(__file__).parents[2] / "bench" / "ledgers.py"


def _load_benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_ledgers", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def grow_ledger(ledger: Ledger, dataset: str, request: Request, entries: int) -> None:
    """Append that many released entries to an account, by what appends every record, many to a transaction."""
    _load_benchmark().grow_ledger(ledger, dataset, request, entries)
