"""Find the waiting queries that could be answered now, but no longer after an approval. Runs on the dataset's worker.

This is extra information, so it may take a few seconds only: queries with very many numbers are left out, and so are
those that are not reached in time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from dosimeter.assessment import choose
from dosimeter.dataset import Dataset
from dosimeter.errors import DosimeterError, Interrupted
from dosimeter.web.decision.measured import recall_measured
from dosimeter.web.decision.offer import Offer
from dosimeter.web.decision.standard import Standard
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
    standard: Standard,
    dataset: Dataset,
    meter: JobMeter,
) -> tuple[list[tuple[StoredQuery, float]], int]:
    """Return the waiting queries that the account could answer now, and no longer after an approval at this ε.

    Each comes with the largest ε at which it could be answered now; the second value is how many were examined.
    Where ε is found from a preference, an answer counts as possible only at candidates that meet the controller's
    ``standard``; otherwise at any candidate. Each query is taken to cost what the query of ``offer`` costs. At most the
    first 20 queries are examined, for about 5 seconds.
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
                found = _find_meeting(served, query, standard, dataset, meter.digest)
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
    served: ServedDataset, query: StoredQuery, standard: Standard, dataset: Dataset, digest: str
) -> set[float] | None:
    """Return the candidates that meet the controller's standard.

    None if the query is not measured yet and has so many numbers that measuring would take too long. ``digest``: of the
    data as they are now; a measurement of other data does not count.
    """
    prepared, known = served.prepare(query.sql), recall_measured(served.worker, query.id)
    preference = standard.prefer(served.schema)
    if known is not None and known.fingerprint == digest:
        choice = known.choose(preference)
    else:
        if (prepared.plan.k or 0) > MOST_NUMBERS:
            return None
        choice = choose(dataset.assess_plan(prepared.plan, prepared.look), preference)
    return set(choice.meeting)
