"""Which rows of an individual count, in plain Python and exact fractions: N6 written out once more, without SQL."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import reduce
from typing import Any

Row = dict[str, Any]
_MASK = 0xFFFFFFFF


def rows_that_count(rows: Iterable[Row], columns: Mapping[str, Mapping[str, Any]], unit: str, m: int) -> list[Row]:
    """Return at most m rows of each individual. ``columns``: the declared ones, as a schema's TOML has them.

    Odd cells are NULL already. Rows without a unit are nobody's.
    """
    owned: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        if row[unit] is not None:
            owned[row[unit]].append(row)
    return [row for own in owned.values() for row in _choose(own, columns, m)]


def _choose(own: list[Row], columns: Mapping[str, Mapping[str, Any]], m: int) -> list[Row]:
    seen: Counter[int] = Counter()
    keyed: list[tuple[int, int, int, Row]] = []
    for row in sorted(own, key=lambda row: [_place(row[name]) for name in columns]):
        base = reduce(lambda left, right: left ^ right, (_term(name, facts, row) for name, facts in columns.items()))
        seen[base] += 1
        keyed.append((_mix(base ^ (seen[base] * 0x61C88647 & _MASK)), base, len(keyed), row))
    return [row for *_, row in sorted(keyed, key=lambda each: each[:3])[:m]]


def _place(cell: Any) -> tuple[bool, Any]:
    """Return what a cell is ordered by: NULL last, text by its bytes."""
    return (True, 0) if cell is None else (False, cell.encode() if isinstance(cell, str) else cell)


def _term(name: str, facts: Mapping[str, Any], row: Row) -> int:
    number = _number(row[name], facts["type"])
    term = (number & _MASK) * _multiplier(name)
    if facts["type"] in ("integer", "decimal", "timestamp"):
        term ^= (number >> 32 & 0x7FFFFFFF) * _multiplier(f"{name} high")
    return term & _MASK


def _multiplier(name: str) -> int:
    named = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return named % 2**30 | 2**30 | 1


def _number(cell: Any, kind: str) -> int:
    if cell is None:
        return 0x9E3779B9
    if kind in ("text", "category"):
        return int(hashlib.md5(str(cell).encode()).hexdigest()[:8], 16)
    if kind == "boolean":
        return 1 if cell else 2
    if kind == "date":
        return int((cell - date(1970, 1, 1)).days)
    if kind == "timestamp":
        return int((cell - datetime(1970, 1, 1)) // timedelta(microseconds=1))  # noqa: DTZ001
    if kind == "decimal":
        return _steps(Fraction(float(cell)))
    return int(cell)


def _steps(value: Fraction) -> int:
    for below, steps in ((Fraction(1, 2**16), Fraction(2**64)), (2**40, 2**20), (2**100, Fraction(1, 2**40))):
        if abs(value) < below:
            return math.floor(value * steps)
    return 0


def _mix(word: int) -> int:
    for shift, multiplier in ((16, 0x45D9F3B), (15, 0x5BD1E995), (16, 0x2C1B3C6D)):
        word = (word ^ word >> shift) * multiplier & _MASK
    return word
