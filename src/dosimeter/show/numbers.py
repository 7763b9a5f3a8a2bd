"""Write numbers for people, and lay out the axis they are read on. Takes numbers; gives text and positions.

Charts, the terminal and the web use the same digits, the same order of candidates and the same ticks, so that a
controller who looks at two of them sees one story.
"""

from __future__ import annotations

import math
from decimal import Decimal

FLOOR = 1e-6  # a value below this share of the largest one is drawn at the end of the axis


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
