"""Write lines of CSV files that people open in a spreadsheet, which must take no text in them for a formula.

Takes values; gives text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def write_csv_line(values: Sequence[str | int | float | bool | None]) -> str:
    """Return one line. Numbers stay numbers; a text that looks like a formula gets an apostrophe before it."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\r\n").writerow([_write_value(value) for value in values])
    return stream.getvalue()


def _write_value(value: str | int | float | bool | None) -> str | int | float:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
