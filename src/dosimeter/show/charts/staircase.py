"""The chart of an account's reading after each of its entries, as a staircase. Takes the entries' readings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from dosimeter.errors import OptionError
from dosimeter.show.axes import Axis, even_axis, time_axis
from dosimeter.show.charts.chart import Bar, Chart, Label, Line, Look, Mark, Rule, keep_apart
from dosimeter.show.written_numbers import format_number

MOST_TEXTS = 20  # steps whose readings are written above them
MOST_STEPS = 200  # steps that are drawn


class Step(NamedTuple):
    """The reading of an account after one of its entries. ``place``: which entry, counted from 1.

    ``name``: the entry's name, or its time.
    """

    place: int
    name: str
    reading: float


def staircase_chart(steps: Sequence[Step], *, budget: float | None = None, by_time: bool = False) -> Chart:
    """Return the chart of an account's reading after each of its entries. Refuse an account without entries.

    At most 200 steps are drawn. If there are more than 20, only the last has its reading written above it. An infinite
    reading (O1) is drawn at the top. ``budget``: drawn as a line. ``by_time``: the steps' names are times, and the axis
    is time.
    """
    if not steps:
        raise OptionError("The account has no entries yet, so there is no staircase to draw.")
    last = format_number(steps[-1].reading, 4)
    finite = max((step.reading for step in steps if math.isfinite(step.reading)), default=1.0) or 1.0
    finite = max(finite, budget or 0.0)
    top = finite * (1.3 if any(math.isinf(step.reading) for step in steps) else 1.15)
    drawn = _thin_out(steps)
    starts = [_read_time(step.name) if by_time else step.place - 0.5 for step in drawn]
    axis = _find_axis(drawn, starts, by_time=by_time)
    y = replace(even_axis(0.0, top / 1.04, ticks=8), title="spent, ε")
    marks = _draw_steps(drawn, [*starts, axis.high], axis, y)
    if budget is not None:
        marks.insert(0, Rule(Look.LIMIT, y=budget, text=f"budget {format_number(budget, 4)}"))
    return Chart(
        title=f"The odometer reads {last}",
        notes=(
            "Every answer adds its charge; nothing takes it back.",
            "Controller only: a reading can depend on private data.",
        ),
        description=f"{len(steps)} entries; the odometer reads {last}.",
        table={
            "columns": ["entry", "reading afterwards"],
            "rows": [[step.name, format_number(step.reading, 4)] for step in steps],
        },
        x=axis,
        y=y,
        marks=tuple(marks),
        width=640 if by_time else min(640, max(240, 56 * len(drawn))),
        height=220,
    )


def _thin_out(steps: Sequence[Step], most: int = MOST_STEPS) -> Sequence[Step]:
    """Return at most ``most`` of the steps, evenly chosen, with the last one and the first infinite one among them."""
    if len(steps) <= most:
        return steps
    kept = {round(place * (len(steps) - 1) / (most - 2)) for place in range(most - 1)}
    kept |= {next((place for place, step in enumerate(steps) if math.isinf(step.reading)), 0)}
    return [steps[place] for place in sorted(kept)]


def _read_time(moment: str) -> float:
    """Return a time of the ledger as seconds since 1970."""
    return datetime.fromisoformat(moment).timestamp()


def _find_axis(drawn: Sequence[Step], starts: Sequence[float], *, by_time: bool) -> Axis:
    if by_time:
        return replace(time_axis(starts[0], starts[-1]), title="time (UTC)")
    last = drawn[-1].place
    ticks = tuple(tick for tick in even_axis(0.0, last, ticks=20).ticks if tick.is_integer() and 1.0 <= tick <= last)
    return Axis(0.5, last + 0.5, ticks, title="entries of the ledger, in order")


def _draw_steps(drawn: Sequence[Step], edges: Sequence[float], x: Axis, y: Axis) -> list[Mark]:
    """Return the staircase: what lies below each step, the line above all of them, and readings where there is room.

    ``edges``: where each step begins, and where the last one ends.
    """
    below: list[Mark] = []
    corners, labels = [(edges[0], 0.0)], []
    for step, (start, end) in zip(drawn, pairwise(edges), strict=True):
        height, text = min(step.reading, y.high), format_number(step.reading, 4)
        below.append(
            Bar(start, end, 0.0, height, Look.SPENT, f"Entry {step.place}, {step.name}: {text} spent afterwards")
        )
        corners += [(start, height), (end, height)]
        labels.append(Label((start + end) / 2.0, height, text))
    told = labels[::-1] if len(drawn) <= MOST_TEXTS else labels[-1:]
    return [*below, Line(tuple(corners), Look.SPENT), *keep_apart(told, x)]
