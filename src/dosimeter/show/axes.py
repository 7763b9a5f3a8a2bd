"""One axis for pictures and for the terminal: its ends and its ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dosimeter.show.numbers import FLOOR


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from ``low`` to ``high``, logarithmic or linear, with ticks at round numbers."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool

    def position(self, value: float) -> float:
        """Return where a value lies: 0 at the low end, 1 at the high end. Values outside get the nearer end."""
        inside = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(inside / self.low) / math.log(self.high / self.low)
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
    return Axis(low, high, _ratio_ticks(low, high, ticks), True)


def even_axis(low: float, high: float, *, ticks: int = 9) -> Axis:
    """Return a linear axis from ``low`` to ``high`` with a small margin above, and one below if ``low`` > 0.

    ``ticks``: about how many ticks it has at most.
    """
    room = 0.04 * (high - low)
    low, high = (low - room if low > 0.0 else low), high + room
    return Axis(low, high, _even_ticks(low, high, ticks), False)


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
