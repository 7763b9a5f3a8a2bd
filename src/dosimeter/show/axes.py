"""Axes, the same for pictures, for pages and for the terminal: their ends, their ticks, and what is written there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from dosimeter.show.written_numbers import FLOOR, format_number

if TYPE_CHECKING:
    from dosimeter.risk import Candidate

Scale = Literal["linear", "log", "symlog"]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from ``low`` to ``high``, with ticks at round numbers.

    ``scale``: "symlog" is a logarithm that begins at 0, log(1 + value). ``names``: the texts at the ticks, where these
    are not their numbers. ``unit``: what is written after each of them. ``title``: what the axis shows.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    scale: Scale = "linear"
    names: tuple[str, ...] = ()
    unit: str = ""
    title: str = ""

    @property
    def logarithmic(self) -> bool:
        return self.scale == "log"

    @property
    def labels(self) -> tuple[str, ...]:
        """The text at each tick, without its unit."""
        return self.names or tuple(format_number(tick, 6) for tick in self.ticks)

    def position(self, value: float) -> float:
        """Return where a value lies: 0 at the low end, 1 at the high end. Values outside get the nearer end."""
        inside = min(max(value, self.low), self.high)
        if self.scale == "log":
            return math.log(inside / self.low) / math.log(self.high / self.low)
        if self.scale == "symlog":
            return math.log1p(inside) / math.log1p(self.high)
        return (inside - self.low) / (self.high - self.low)


def ratio_axis(values: Sequence[float], *, ticks: int = 9) -> Axis:
    """Return a logarithmic axis over these values, with a margin of at least 0.5 % at both ends.

    Without the margin, values that differ by a rounding error only would make a bar as long as the axis. The low end is
    never below about a millionth of the largest value. ``ticks``: about how many ticks the axis has at most.
    """
    positive = [value for value in values if value > 0.0 and math.isfinite(value)] or [1.0]
    top = max(positive)
    bottom = max(min(positive), FLOOR * top)
    room = max((top / bottom) ** 0.04, 1.005)
    low, high = bottom / room, top * room
    return Axis(low, high, _ratio_ticks(low, high, ticks), "log")


def range_axis(candidates: Sequence[Candidate], *, raw: bool = False, ticks: int = 9) -> Axis:
    """Return the axis for bars from the smallest to the largest RDR of each candidate (R8).

    It is logarithmic for multiples of the average RDR. For RDRs themselves (``raw``) it is linear, unless the shortest
    bar could hardly be seen on a linear axis. ``ticks``: about how many it has at most.
    """
    spans = list_spans(candidates, raw=raw)
    ends = [end for span in spans for end in span]
    if not raw:
        return replace(ratio_axis([*ends, 1.0], ticks=ticks), title="× the average person (log scale)", unit=" ×")
    if min(high - low for low, high in spans) > 0.02 * max(ends):
        return replace(even_axis(0.0, max(ends), ticks=ticks), title="RDR")
    return replace(ratio_axis(ends, ticks=ticks), title="RDR (log scale)")


def list_spans(candidates: Sequence[Candidate], *, raw: bool) -> list[tuple[float, float]]:
    """Return the two ends of each candidate's bar: the smallest and the largest RDR, or these by the average (R8)."""
    return [(each.rdr.min, each.rdr.max) if raw else each.rdr.relative for each in candidates]


def even_axis(low: float, high: float, *, ticks: int = 9) -> Axis:
    """Return a linear axis from ``low`` to ``high`` with a small margin above, and one below if ``low`` > 0.

    ``ticks``: about how many ticks it has at most.
    """
    room = 0.04 * (high - low)
    low, high = (low - room if low > 0.0 else low), high + room
    return Axis(low, high, _even_ticks(low, high, ticks))


def count_axis(top: int, *, logarithmic: bool) -> Axis:
    """Return an axis of counts from 0 to ``top``, with room above for a line of text.

    On a logarithmic one, a single person can still be seen.
    """
    if logarithmic:
        powers = (float(10**power) for power in range(len(str(top))))
        return Axis(0.0, (top + 1) ** 1.16 - 1, (0.0, *powers), "symlog")
    axis = even_axis(0.0, 1.12 * top, ticks=8)
    return replace(axis, ticks=tuple(tick for tick in axis.ticks if tick.is_integer()))


def row_axis(names: Sequence[str]) -> Axis:
    """Return an axis of rows: the first lies from 0 to 1, and has its name in its middle."""
    return Axis(0.0, float(len(names)), tuple(place + 0.5 for place in range(len(names))), names=tuple(names))


_SECONDS = (1, 5, 15, 60, 300, 900, 3_600, 10_800, 21_600, 43_200)
_DAYS = (1, 2, 7, 14, 30, 91, 182, 365)


def time_axis(low: float, high: float, *, ticks: int = 6) -> Axis:
    """Return an axis of time (UTC) from ``low`` to ``high``, in seconds since 1970, with room at its end.

    ``ticks``: how many it has at most, unless it spans decades.
    """
    high += max(0.04 * (high - low), 1.0)
    steps = (*_SECONDS, *(86_400 * days for days in _DAYS))
    step = next((each for each in steps if (high - low) / each <= ticks), steps[-1])
    form = "%Y-%m-%d" if step >= 86_400 else "%m-%d %H:%M" if step >= 60 else "%H:%M:%S"
    marks = tuple(float(step * place) for place in range(math.ceil(low / step), math.floor(high / step) + 1))
    return Axis(low, high, marks, names=tuple(datetime.fromtimestamp(mark, UTC).strftime(form) for mark in marks))


def pick_apart(places: Sequence[tuple[float, str]], letter: float, gap: float = 0.0) -> list[bool]:
    """Return which of these texts have room beside each other; of two that have none, the first stays.

    ``places``: where the middle of each text lies, and the text. ``letter``: the width of a letter, in the same units;
    ``gap``: the least distance of two texts.
    """
    kept: list[tuple[float, str]] = []
    found = []
    for at, text in places:
        room = all(abs(at - other) >= max(gap, (len(text) + len(beside) + 1) / 2.0 * letter) for other, beside in kept)
        found.append(room)
        if room:
            kept.append((at, text))
    return found


_TICKS = (((1, 1.5, 2, 3, 5, 7), 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3), ((1,), 6))


def _ratio_ticks(low: float, high: float, limit: int) -> tuple[float, ...]:
    """Return about ``limit`` ticks at most: evenly spaced ones if high/low < 4, otherwise round numbers.

    The round numbers are the densest set that fits: from 1, 1.5, 2, 3, 5 and 7 in each decade down to a single one in
    every sixth decade (1, a million …).
    """
    if high / low < 4.0:
        return _even_ticks(low, high, limit)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    inside: tuple[float, ...] = ()
    for digits, every in _TICKS:
        marks = [float(f"{digit}e{power}") for power in decades if power % every == 0 for digit in digits]
        inside = tuple(mark for mark in marks if low <= mark <= high)
        if len(inside) <= limit:
            break
    return inside


def _even_ticks(low: float, high: float, limit: int) -> tuple[float, ...]:
    step = _round_step((high - low) / limit)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(float(f"{index * step:.10g}") for index in range(first, last + 1))


def _round_step(step: float) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that is not below ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * digit for digit in (1.0, 2.0, 5.0, 10.0) if power * digit >= step * (1.0 - 1e-9))
