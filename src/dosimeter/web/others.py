"""Which waiting queries could be answered now and no longer after an approval. Runs on the dataset's bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dosimeter.accounting import Charge, exact_decimal
from dosimeter.controller import Dataset
from dosimeter.errors import DosimeterError
from dosimeter.numerals import format_epsilon
from dosimeter.preference import parse_preference
from dosimeter.web.exhibit import Exhibit
from dosimeter.web.inbox import Row
from dosimeter.web.jobs import Meter
from dosimeter.web.office import Books, Desk

MOST_LOOKED_AT = 20


def list_squeezed(
    desk: Desk,
    books: Books,
    epsilon: float,
    waiting: Sequence[Row],
    thresholds: Mapping[str, float],
    dataset: Dataset,
    meter: Meter,
) -> list[dict[str, Any]]:
    """With algorithm 1, by the ε that each one's priority suggests; otherwise by what the account leaves at all."""
    candidates = desk.candidates
    after = books.reading.after(Charge(exact_decimal(epsilon), books.epsilon_svt, books.delta))
    left_now, left_then = set(books.remaining(candidates)), set(books.remaining(candidates, after))
    squeezed = []
    for done, row in enumerate(waiting[:MOST_LOOKED_AT]):
        meter(done, len(waiting))
        possible = set(candidates)
        if desk.settings.algorithm == "find":
            try:
                possible = _meeting(desk, row, thresholds[row["priority"]], dataset)
            except DosimeterError:
                continue
        now, then = possible & left_now, possible & left_then
        if now and not then:
            squeezed.append({"row": row, "epsilon": format_epsilon(max(now))})
    return squeezed


def _meeting(desk: Desk, row: Row, percent: float, dataset: Dataset) -> set[float]:
    preference = parse_preference(f"ratio:{percent / 100:g}")
    known = desk.bench.peek(("exhibit", row["id"]))
    if known is not None and known.state == "done":
        exhibit: Exhibit = known.result
        choice = exhibit.choose(preference)
    else:
        prepared = desk.prepare(row["sql"])
        choice = dataset.assess_plan(prepared.plan, prepared.look).find(preference)
    return {line.epsilon for line in choice.candidates if line.satisfied}
