"""Write numbers for people, and lay out the axis they are read on. Takes numbers; gives text and positions.

Charts, the terminal and the web use the same digits, the same order of candidates and the same ticks, so that a
controller who looks at two of them sees one story.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dosimeter.errors import OptionError
from dosimeter.risk import Candidate

MEETS, FAILS = "#0072B2", "#D55E00"  # Okabe–Ito blue and vermilion; never without a tick or a cross
FLOOR = 1e-6  # a value below this share of the largest one is drawn at the end of the axis

TextTable = Mapping[str, Sequence[Any]]  # {"columns": [...], "rows": [[...], ...]}, all of it text for people


def format_number(value: float, digits: int = 3, *, down: bool = False) -> str:
    """To this many significant digits, thousands separated: 0.0526, 12.3, 32,522. ``down`` never rounds up."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0.0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -7 or magnitude >= 15:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - magnitude)
    if down:
        value = math.floor(value * 10**decimals * (1.0 + 1e-12)) / 10**decimals
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_epsilon(epsilon: float) -> str:
    """A candidate as it was written: 10, 0.3, 0.001."""
    if not math.isfinite(epsilon):
        return format_number(epsilon)
    return format(Decimal(f"{epsilon:.12g}").normalize(), "f")


def format_times(value: float) -> str:
    """A multiple of the average. Close to 1 it keeps two digits of the difference: 1.0004, not 1."""
    gap = abs(value - 1.0)
    if 1e-9 < gap < 0.01:
        return f"{value:.{1 - math.floor(math.log10(gap))}f}".rstrip("0").rstrip(".")
    return format_number(value, 3)


def format_range(low: float, high: float) -> tuple[str, str]:
    """Two multiples of the average, with the digits it takes to tell them apart: 0.482 and 680; 1.000 and 1.050."""
    gap = high - low
    apart = 1 - math.floor(math.log10(1.01 * gap)) if gap > 1e-9 else 0

    def write(value: float) -> str:
        own = 2 - math.floor(math.log10(value)) if value > 0.0 else 0
        return f"{value:,.{min(max(apart, own, 0), 9)}f}"

    return write(low), write(high)


def format_percent(share: float) -> str:
    """A percentage with two decimals; more of them close to 0 and to 1, so that neither is claimed too early."""
    missing = 1.0 - share
    if 0.0 < share < 1e-6:
        return "< 0.0001 %"
    if 1e-9 < missing < 1e-4:
        return f"{100.0 * share:.{-1 - math.floor(math.log10(missing))}f} %"
    return f"{format_number(100.0 * share, 2)} %" if share < 0.01 else f"{100.0 * share:.2f} %"


# ---------------------------------------------------------------- one axis for pictures and for the terminal


@dataclass(frozen=True, slots=True)
class Axis:
    """From ``low`` to ``high``, by ratios or evenly, with ticks a person would choose."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool

    def position(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high end; what lies outside is at the nearer end."""
        inside = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(inside / self.low) / math.log(self.high / self.low)
        return (inside - self.low) / (self.high - self.low)


def ratio_axis(values: Sequence[float], *, ticks: int = 9) -> Axis:
    """A logarithmic axis that holds these values, never so narrow that rounding errors look like bars."""
    positive = [value for value in values if value > 0.0 and math.isfinite(value)] or [1.0]
    top = max(positive)
    bottom = max(min(positive), FLOOR * top)
    room = max((top / bottom) ** 0.04, 1.005)
    low, high = bottom / room, top * room
    return Axis(low, high, _ratio_ticks(low, high, ticks), True)


def even_axis(low: float, high: float, *, ticks: int = 9) -> Axis:
    """A linear axis between two different values, with a little room; it keeps 0 where it starts there."""
    room = 0.04 * (high - low)
    low, high = (low - room if low > 0.0 else low), high + room
    return Axis(low, high, _even_ticks(low, high, ticks), False)


_TICKS = (((1, 1.5, 2, 3, 5, 7), 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3), ((1,), 6))


def _ratio_ticks(low: float, high: float, limit: int) -> tuple[float, ...]:
    """Even steps on a narrow axis; on a wider one a few round numbers per decade, or every so many decades."""
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
    """The smallest 1, 2 or 5 times a power of ten that is not below ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * digit for digit in (1.0, 2.0, 5.0, 10.0) if power * digit >= step * (1.0 - 1e-9))


# ---------------------------------------------------------------- candidates, in one order


def order_candidates(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Largest ε first: the order of every list, table and chart."""
    if not candidates:
        raise OptionError("There is no candidate ε to show. Give at least one, for example --epsilon 1.")
    return tuple(sorted(candidates, key=lambda candidate: -candidate.epsilon))


def relative_range(candidate: Candidate) -> tuple[float, float]:
    """Least and most exposed person, × the average person (R8)."""
    mean = candidate.rdr["mean"]
    return (candidate.rdr["min"] / mean, candidate.rdr["max"] / mean) if mean > 0.0 else (1.0, 1.0)


def format_errors(candidate: Candidate) -> str:
    """The 95 % error of every number of the answer."""
    return ", ".join("unbounded" if e is None else f"± {format_number(e)}" for e in candidate.error_95)


def candidate_rows(candidates: Sequence[Candidate]) -> TextTable:
    """The numbers behind a range chart, as text."""
    ordered = order_candidates(candidates)
    valued = any(c.value is not None for c in ordered)
    stated = any(c.satisfied is not None for c in ordered)
    columns = ["ε", "noise scale", "95 % error", "least exposed, ×", "most exposed, ×", "least ÷ most"]
    rows = []
    for c in ordered:
        cells = [format_epsilon(c.epsilon), format_number(c.noise_scale), format_errors(c)]
        cells += [*format_range(*relative_range(c)), format_percent(c.rdr["ratio"])]
        if valued:
            cells.append("–" if c.value is None else format_number(c.value, 4))
        if stated:
            cells.append("–" if c.satisfied is None else ("✓ yes" if c.satisfied else "✗ no"))
        rows.append(cells)
    return {"columns": columns + ["preference value"] * valued + ["meets it"] * stated, "rows": rows}
