"""Numbers as the pages write them: with a real minus sign, small ones with a power of ten, never broken over two lines.

Takes numbers; gives text.
"""

from __future__ import annotations

import math

from dosimeter.show import format_number

SPACE = "\u00a0"  # keeps a number and its sign on one line


def show_number(value: float, digits: int = 6) -> str:
    """Write a number to ``digits`` significant digits, with U+2212 as its minus sign, which is no hyphen."""
    return format_number(value, digits).replace("-", "−")


def show_estimate(value: float, error: float | None) -> tuple[str, str]:
    """Return a released number, written to as many digits as its 95 % error allows, and the error, to two digits.

    12,345 ± 1,234 gives "12,300" and "1,300": the error is rounded up. For a whole number both have no decimals. If the
    error is unknown, infinite or 0, a whole number keeps all its digits, and any other keeps six; the second text is
    then "", or "0" for an error of 0.
    """
    if error is None or not math.isfinite(error) or error <= 0.0 or not math.isfinite(value):
        text = f"{value:,}".replace("-", "−") if isinstance(value, int) else show_number(value, 6)
        return text, "0" if error == 0.0 else ""
    unit = _find_unit(error, isinstance(value, int))
    return _write_multiple(round(value / unit), unit), _write_multiple(math.ceil(error / unit * (1 - 1e-12)), unit)


def show_interval(value: float, error: float) -> str:
    """Write the range from ``value`` − ``error`` to ``value`` + ``error``, rounded outwards.

    "" if either is not finite, and "exactly 12" for an error of 0. ``value``: a released number. ``error``: its 95 %
    error, so that the range holds the number without noise 95 times in 100.
    """
    if not (math.isfinite(value) and math.isfinite(error)):
        return ""
    if error <= 0.0:
        return f"exactly {show_number(value, 8)}"
    unit = _find_unit(error, isinstance(value, int))
    low, high = math.floor((value - error) / unit + 1e-9), math.ceil((value + error) / unit - 1e-9)
    return f"{_write_multiple(low, unit)} to {_write_multiple(high, unit)}"


def _find_unit(error: float, whole: bool) -> float:
    """Return the step in which two digits of an error are written: 100 for 1,234, and 0.01 for 0.123.

    ``whole``: the number itself is whole; then the step is at least 1.
    """
    power = math.floor(math.log10(error)) - 1
    return 10.0 ** (max(power, 0) if whole else max(power, -12))


def _write_multiple(times: int, unit: float) -> str:
    decimals = max(0, -round(math.log10(unit)))
    number = times * round(unit) if unit >= 1.0 else times * unit
    return f"{number:,.{decimals}f}".replace("-", "−") if times else "0"


def show_age(seconds: float) -> str:
    """Write how long ago something was, from seconds: "just now", "5 min", "3 h", "12 days"."""
    if seconds < 60.0:
        return "just now"
    if seconds < 3_600.0:
        return f"{int(seconds // 60)} min"
    if seconds < 2 * 86_400.0:
        return f"{int(seconds // 3_600)} h"
    return f"{int(seconds // 86_400):,} days"


def keep_together(text: str) -> str:
    """Return a text in which "ε = 0.5", "± 6" and "5 %" stay on one line."""
    return text.replace("ε = ", f"ε{SPACE}={SPACE}").replace("± ", f"±{SPACE}").replace(" %", f"{SPACE}%")


def show_bound(bound: str) -> str:
    """Write a bound of the schema: a number with separators between thousands, anything else (a date) unchanged."""
    try:
        number = float(bound)
    except ValueError:
        return bound
    if not math.isfinite(number):
        return bound
    whole, dot, rest = bound.lstrip("-").partition(".")
    grouped = f"{int(whole):,}{dot}{rest}" if whole.isdigit() else bound.lstrip("-")
    return f"−{grouped}" if number < 0 else grouped
