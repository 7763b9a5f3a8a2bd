"""Exact decimals. Floats enter as the decimal they print as (0.3 is 0.3), and sums never round."""

from __future__ import annotations

from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow

from dosimeter.errors import OptionError
from dosimeter.json_values import JsonValue, read_text
from dosimeter.problems import Option

Number = Decimal | float | int | str

INFINITY = Decimal("Infinity")
ZERO = Decimal(0)

# Every double lies between 5e-324 and 1.8e308. With numbers kept in this range, no sum of fewer than 10^300 of them
# needs more than 1,000 digits, so that additions are exact and need no rounding rule.
_SMALLEST_EXPONENT = -340
_LARGEST_MAGNITUDE = 320
_DIGITS = 1000


EXACTLY = Context(prec=_DIGITS, traps=[Inexact, InvalidOperation, DivisionByZero, Overflow])
"""A decimal context in which arithmetic raises an error instead of rounding."""


def exact_decimal(value: Number, *, name: str | Option = "the number") -> Decimal:
    """Return the decimal that ``value`` prints as, without trailing zeros. ``name``: what it is, for the message.

    Refuse what is no number, is negative or infinite, or is beyond what a double can hold.
    """
    text = str(value).strip()
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise OptionError(name, f" must be a number, not {text!r}.") from None
    if not number.is_finite() or number < 0:
        raise OptionError(name, f" must be finite and not negative, not {text}.")
    if number == 0:
        return ZERO
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < _SMALLEST_EXPONENT or number.adjusted() > _LARGEST_MAGNITUDE:
        raise OptionError(name, " is out of range: use a number that a double can hold.")
    return EXACTLY.normalize(number)


def write_decimal(number: Decimal) -> str:
    """Return the number as text. Equal numbers give equal texts: ``2.0`` and ``2`` both give ``2``.

    ``exact_decimal`` reads the text back.
    """
    canonical = exact_decimal(number)
    if canonical == 0:
        return "0"
    return format(canonical, "f") if -7 < canonical.adjusted() < 16 else str(canonical)


def write_reading(epsilon: Decimal) -> str:
    """Return the ε of a reading, which can be infinite, as text. Equal numbers give equal texts."""
    return str(INFINITY) if epsilon.is_infinite() else write_decimal(epsilon)


def read_reading(payload: JsonValue) -> Decimal:
    text = read_text(payload)
    return INFINITY if text == str(INFINITY) else exact_decimal(text)
