"""Numbers as the pages write them: with a real minus sign, small ones with a power of ten, never broken over two lines.

Takes numbers; gives text. The digits themselves are those of ``dosimeter.show.numbers``.
"""

from __future__ import annotations

import math

from dosimeter.show import format_number

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
