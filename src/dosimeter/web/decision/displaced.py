"""Waiting queries that could be answered now, but no longer after an approval. A side job of the worker.

This is extra information, so it may take a few seconds only: queries with very many numbers are left out, and so are
those that are not reached in time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dosimeter.dataset import Dataset
from dosimeter.errors import DosimeterError, Interrupted
from dosimeter.ledger import Books
from dosimeter.risk import parse_preference
from dosimeter.show import format_epsilon
from dosimeter.web.decision.measured import MeasuredQuery
from dosimeter.web.state import ServedDataset
from dosimeter.web.store import Row
from dosimeter.web.worker import Meter

MOST_LOOKED_AT = 20
MOST_NUMBERS = 500
LONGEST = 5.0


@dataclass(frozen=True, slots=True, repr=False)
class Displaced:
    """Waiting queries that the account could answer now and not after this approval, and how many were examined."""

    rows: tuple[Mapping[str, Any], ...]
    looked: int

    def __repr__(self) -> str:
        return "Displaced(redacted)"


def list_displaced(
    served: ServedDataset,
    books: Books,
    epsilon: float,
    waiting: Sequence[Row],
    thresholds: Mapping[str, float],
    dataset: Dataset,
    meter: Meter,
) -> Displaced:
    """Return the waiting queries that the account could answer now, and no longer after an approval at this ε.

    With algorithm 1 a query counts by the candidates that meet its priority's threshold; otherwise by all candidates.
    """
    candidates = served.candidates
    after = books.after(epsilon)
    left_now, left_then = set(books.remaining(candidates)), set(books.remaining(candidates, after))
    displaced: list[Mapping[str, Any]] = []
    looked, deadline = 0, time.monotonic() + LONGEST
    for done, row in enumerate(waiting[:MOST_LOOKED_AT]):
        meter(done, len(waiting))
        if time.monotonic() > deadline:
            break
        possible = set(candidates)
        if served.settings.algorithm == "find":
            try:
                found = _find_meeting(served, row, thresholds[row["priority"]], dataset, meter.digest)
            except Interrupted:
                raise
            except DosimeterError:
                continue
            if found is None:
                continue
            possible = found
        looked += 1
        now, then = possible & left_now, possible & left_then
        if now and not then:
            displaced.append({"row": row, "epsilon": format_epsilon(max(now))})
    return Displaced(tuple(displaced), looked)


def _find_meeting(served: ServedDataset, row: Row, percent: float, dataset: Dataset, digest: str) -> set[float] | None:
    """Return the candidates that meet the ratio for a query; None for a query that takes too long for a side job."""
    preference = parse_preference(f"ratio:{percent / 100:g}")
    known = served.worker.peek(("measured", row["id"]))
    if known is not None and known.state == "done" and known.result.fingerprint == digest:
        measured: MeasuredQuery = known.result
        choice = measured.choose(preference)
    else:
        prepared = served.prepare(row["sql"])
        if len(prepared.plan.group_keys or ((),)) * len(prepared.plan.measures) > MOST_NUMBERS:
            return None
        choice = dataset.assess_plan(prepared.plan, prepared.look).find(preference)
    return {line.epsilon for line in choice.candidates if line.satisfied}
