"""Say where two recordings differ: one line for each place. Floats may differ by rounding, nothing else may."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

RELATIVE = 1e-9
ABSOLUTE = 1e-15  # what is zero but for rounding


def find_differences(recorded: Any, now: Any, place: str = "") -> list[str]:
    """Return every place where ``now`` is not as ``recorded``; an empty list where all is the same."""
    return list(_walk(recorded, now, place))


def _walk(recorded: Any, now: Any, place: str) -> Iterator[str]:
    if type(recorded) is not type(now):
        yield f"{place}: was {_write(recorded)}, is {_write(now)}"
    elif isinstance(recorded, dict):
        yield from _walk_keys(recorded, now, place)
    elif isinstance(recorded, list):
        if len(recorded) != len(now):
            yield f"{place}: had {len(recorded)} items, has {len(now)}"
        for number, (before, after) in enumerate(zip(recorded, now, strict=False)):
            yield from _walk(before, after, f"{place}[{number}]")
    elif not _are_equal(recorded, now):
        yield f"{place}: was {_write(recorded)}, is {_write(now)}"


def _walk_keys(recorded: dict[str, Any], now: dict[str, Any], place: str) -> Iterator[str]:
    for key in recorded:
        if key not in now:
            yield f"{place}.{key}: is missing"
    for key in now:
        if key not in recorded:
            yield f"{place}.{key}: is new"
    shared = [key for key in recorded if key in now]
    if shared != [key for key in now if key in recorded]:
        yield f"{place}: its keys are in another order"
    for key in shared:
        yield from _walk(recorded[key], now[key], f"{place}.{key}")


def _are_equal(recorded: Any, now: Any) -> bool:
    if isinstance(recorded, float):
        return math.isclose(recorded, now, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return bool(recorded == now)


def _write(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:119] + "…"
