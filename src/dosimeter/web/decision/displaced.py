"""Find the waiting queries that could be answered now, but no longer after an approval. Runs on the dataset's worker.

This is extra information, so it may take a few seconds only: queries with very many numbers are left out, and so are
those that are not reached in time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from dosimeter.assessment import choose
from dosimeter.dataset import Dataset
from dosimeter.errors import DosimeterError, Interrupted
from dosimeter.risk import parse_preference
from dosimeter.web.decision.measured import recall_measured
from dosimeter.web.decision.offer import Offer
from dosimeter.web.state import ServedDataset
from dosimeter.web.store import StoredQuery
from dosimeter.web.worker import JobMeter

MOST_LOOKED_AT = 20
MOST_NUMBERS = 500
LONGEST = 5.0


def list_displaced(
    served: ServedDataset,
    offer: Offer,
    epsilon: float,
    waiting: Sequence[StoredQuery],
    thresholds: Mapping[str, float],
    dataset: Dataset,
    meter: JobMeter,
) -> tuple[list[tuple[StoredQuery, float]], int]:
    """Return the waiting queries that the account could answer now, and no longer after an approval at this ε.

    Each comes with the largest ε at which it could be answered now; the second value is how many were examined.
    Where ε is found from a preference, an answer counts as possible only at candidates at which least ÷ most exposed is
    at least ``thresholds["normal"]`` percent; otherwise at any candidate. ``thresholds``: the controller's percentages,
    by priority. Each query is taken to cost what the query of ``offer`` costs. At most the first 20 queries are
    examined, for about 5 seconds.
    """
    left_now = set(offer.remaining)
    left_then = set(offer.charges.remaining(offer.candidates, offer.charges.after(epsilon)))
    displaced: list[tuple[StoredQuery, float]] = []
    looked, deadline = 0, time.monotonic() + LONGEST
    for done, query in enumerate(waiting[:MOST_LOOKED_AT]):
        meter(done, len(waiting))
        if time.monotonic() > deadline:
            break
        possible = set(offer.candidates)
        if offer.algorithm == "find":
            try:
                found = _find_meeting(served, query, thresholds["normal"], dataset, meter.digest)
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
            displaced.append((query, max(now)))
    return displaced, looked


def _find_meeting(
    served: ServedDataset, query: StoredQuery, percent: float, dataset: Dataset, digest: str
) -> set[float] | None:
    """Return the candidates at which the least exposed has at least ``percent`` % of the RDR of the most exposed.

    None if the query is not measured yet and has so many numbers that measuring would take too long. ``digest``: of the
    data as they are now; a measurement of other data does not count.
    """
    preference = parse_preference(f"ratio:{percent / 100:g}")
    known = recall_measured(served.worker, query.id)
    if known is not None and known.fingerprint == digest:
        choice = known.choose(preference)
    else:
        prepared = served.prepare(query.sql)
        if (prepared.plan.k or 0) > MOST_NUMBERS:
            return None
        choice = choose(dataset.assess_plan(prepared.plan, prepared.look), preference)
    return set(choice.meeting)
