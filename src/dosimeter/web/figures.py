"""Numbers as the pages write them: a real minus sign, enough digits to tell two multiples apart, bins in words.

Takes numbers and histogram bins; gives text. The digits themselves are those of ``dosimeter.show.numbers``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dosimeter.show import format_number
from dosimeter.show.charts import Bin

SPACE = "\u00a0"  # keeps a number and its sign on one line


def show_number(value: float, digits: int = 6) -> str:
    """Return a number with U+2212 as its minus sign, so that it is not taken for a hyphen."""
    return format_number(value, digits).replace("-", "−")


def show_small(value: float) -> str:
    """Return a small number such as δ: 0, 0.01, or 6.25·10⁻⁶ instead of a row of zeros."""
    if value == 0.0 or abs(value) >= 1e-3:
        return show_number(value, 3)
    mantissa, _, power = f"{value:.2e}".partition("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa.rstrip('0').rstrip('.')}·10{raised}"


def keep_together(text: str) -> str:
    """Return a text in which "ε = 0.5" and "5 %" stay on one line."""
    return text.replace("ε = ", f"ε{SPACE}={SPACE}").replace(" %", f"{SPACE}%")


def show_bound(bound: str) -> str:
    """Return a bound of the schema: a number with separators between thousands, anything else (a date) unchanged."""
    try:
        number = float(bound)
    except ValueError:
        return bound
    if not math.isfinite(number):
        return bound
    whole, dot, rest = bound.lstrip("-").partition(".")
    grouped = f"{int(whole):,}{dot}{rest}" if whole.isdigit() else bound.lstrip("-")
    return f"−{grouped}" if number < 0 else grouped


def show_count(people: int) -> str:
    return "1 person" if people == 1 else f"{people:,} people"


def count_decimals(low: float, high: float) -> int:
    """Return how many decimals tell two multiples of the average apart that differ by a fortieth of this span."""
    gap = (high - low) / 40
    return min(9, max(2, -math.floor(math.log10(gap)))) if gap > 1e-12 else 2


def show_multiple(value: float, decimals: int) -> str:
    """Return a multiple of the average: with three digits from 100 on, otherwise with so many decimals."""
    if value >= 100:
        return format_number(value, 3)
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text and float(text) != 0.0 else text


def write_bins(bins: Sequence[Bin]) -> list[str]:
    """Return each bin in words, "3,997 people from 0.999 to 1 ×", with the same number of decimals in every bin."""
    decimals = count_decimals(bins[0].least, bins[-1].most)
    words = []
    for held in bins:
        least, most = show_multiple(held.least, decimals), show_multiple(held.most, decimals)
        where = f"at {least}" if least == most else f"from {least} to {most}"
        words.append(f"{show_count(held.people)} {where}{SPACE}×")
    return words
