"""Write numbers for people. Takes numbers; gives text.

Charts, the terminal and the web use the same digits, so that a controller who looks at two of them sees the same
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

FLOOR = 1e-6  # a value below this share of the largest one is drawn at the end of the axis


def format_number(value: float, digits: int = 3, *, down: bool = False) -> str:
    """Write a number to ``digits`` significant digits, or to all digits before its point if these are more.

    Such as 0.0526; 12.3; 32,522. ``down``: round down, never up. Numbers below 1e-7 or from 1e15 on are written with an
    exponent, and always rounded to the nearest.
    """
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
    """Write an ε in full, as somebody would enter it: 10, 0.3, 0.001."""
    if not math.isfinite(epsilon):
        return format_number(epsilon)
    return format(Decimal(f"{epsilon:.12g}").normalize(), "f")


def format_times(value: float) -> str:
    """Write a multiple of the average RDR to three significant digits: 12.3.

    A multiple less than 0.01 away from 1 gets more, so that two digits of its distance from 1 are seen: 1.00042, not 1.
    """
    gap = abs(value - 1.0)
    if 1e-9 < gap < 0.01:
        return f"{value:.{1 - math.floor(math.log10(gap))}f}".rstrip("0").rstrip(".")
    return format_number(value, 3)


def format_range(low: float, high: float) -> tuple[str, str]:
    """Write two numbers, the lower and the upper end of a range, with enough digits to tell them apart.

    Three significant digits each, and more where the two are close, with at most 9 decimals: 0.482 and 680; 1.000 and
    1.050. Used for the smallest and the largest RDR, each divided by the average RDR.
    """
    gap = high - low
    apart = 1 - math.floor(math.log10(1.01 * gap)) if gap > 1e-9 else 0

    def write(value: float) -> str:
        own = 2 - math.floor(math.log10(value)) if value > 0.0 else 0
        return f"{value:,.{min(max(apart, own, 0), 9)}f}"

    return write(low), write(high)


def format_percent(share: float) -> str:
    """Write a share (0 to 1) in percent: with two decimals from 1 % on, with two significant digits below.

    It has more decimals where two would round it to 100 %. A share below a millionth becomes "< 0.0001 %".
    """
    missing = 1.0 - share
    if 0.0 < share < 1e-6:
        return "< 0.0001 %"
    if 1e-9 < missing < 1e-4:
        return f"{100.0 * share:.{-1 - math.floor(math.log10(missing))}f} %"
    return f"{format_number(100.0 * share, 2)} %" if share < 0.01 else f"{100.0 * share:.2f} %"


def format_measured(value: object, error: float | None, *, label: bool = False) -> str:
    """Write a value of an answer, and after a number its 95 % error, if it has one: 12.34 ± 0.56.

    Number and error get as many decimals as show two significant digits of the error. A whole number with an error of 1
    or more gets no decimals: 1,234 ± 6. ``label``: the value names a group, so that a whole number gets no commas: 1980
    is a year, 80331 a postcode. Without an error, commas begin at five digits, since the value may still be a label.
    """
    if value is None:
        return "NULL"
    if isinstance(value, (bool, str)) or not isinstance(value, (int, float)):
        return str(value)
    if error is None or not math.isfinite(error):
        if isinstance(value, int):
            return str(value) if label or abs(value) < 10_000 else f"{value:,}"
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.2f}"
    if error == 0.0:
        return f"{value:,} ± 0"
    decimals = min(12, max(0, 1 - math.floor(math.log10(error)))) if isinstance(value, float) or error < 1.0 else 0
    return f"{value:,.{decimals}f} ± {error:,.{decimals}f}"


def format_released(low: float, high: float, step: float) -> str:
    """Write a number that may be released, or a range of such numbers: 57; 12,340 to 12,380.

    ``step``: how far apart such numbers lie. The ends of a range get two digits that matter for its width.
    """
    if low == high:
        return format_number(low, 10)
    return f"{_round_to(low, high - low + step)} to {_round_to(high, high - low + step)}"


def format_about(value: float, gap: float, *, rounded: bool) -> str:
    """Write a number as ``format_apart`` does: 57, or "about 12,360" if it is ``rounded`` already, or by this."""
    text = format_apart(value, gap)
    return f"about {text}" if rounded or float(text.replace(",", "")) != value else text


def format_apart(value: float, gap: float) -> str:
    """Write a number with as many digits as tell it apart from one that is ``gap`` larger: two that matter.

    ``gap``: 0 for no other number.
    """
    return format_number(value, 6) if gap == 0.0 else _round_to(value, abs(gap))


def _round_to(value: float, width: float) -> str:
    """Write a number with as many digits as tell apart numbers that lie a tenth of ``width`` apart."""
    decimals = 1 - math.floor(math.log10(width))
    text = f"{round(value, decimals):,.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count_decimals(low: float, high: float) -> int:
    """Return with how many decimals, from 2 to 9, to write multiples of the average RDR from ``low`` to ``high``.

    With so many, two multiples that differ by a fortieth of ``high`` − ``low`` look different.
    """
    gap = (high - low) / 40
    return min(9, max(2, -math.floor(math.log10(gap)))) if gap > 1e-12 else 2


def format_multiple(value: float, decimals: int) -> str:
    """Write a multiple of the average RDR: to three significant digits from 100 on, to at most ``decimals`` below."""
    if value >= 100:
        return format_number(value, 3)
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text and float(text) != 0.0 else text


def format_small(value: float) -> str:
    """Return a small number such as δ: 0, 0.01, or 6.25·10⁻⁶ instead of a row of zeros."""
    if value == 0.0 or abs(value) >= 1e-3:
        return format_number(value, 3)
    mantissa, _, power = f"{value:.2e}".partition("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa.rstrip('0').rstrip('.')}·10{raised}"


def join_names(names: Sequence[str]) -> str:
    """Write names one after another: "a", "a and b", "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
