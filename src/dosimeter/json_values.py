"""Types of what can stand in a JSON document, and functions that check the type of a value that was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

JsonScalar: TypeAlias = str | int | float | bool | None
JsonValue: TypeAlias = "JsonScalar | Sequence[JsonValue] | Mapping[str, JsonValue]"
JsonObject: TypeAlias = dict[str, JsonValue]
"""A document that is being written: ``describe`` returns one, and so does what goes into a record of the ledger."""
JsonRow: TypeAlias = dict[str, JsonScalar]
"""One row of an answer: a value per column."""


def read_text(value: JsonValue) -> str:
    """Return a value that must be a text; raise TypeError otherwise."""
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def read_optional_text(value: JsonValue) -> str | None:
    """Return a value that must be a text or null; raise TypeError otherwise."""
    return None if value is None else read_text(value)


def read_scalar(value: JsonValue) -> JsonScalar:
    """Return a value that must be neither a list nor an object; raise TypeError otherwise."""
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError("not a single value")


def read_number(value: JsonValue) -> float | None:
    """Return a value that must be a number or null; raise TypeError otherwise."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise TypeError("not a number")


def read_object(value: JsonValue) -> Mapping[str, JsonValue]:
    """Return a value that must be an object; raise TypeError otherwise."""
    if not isinstance(value, Mapping):
        raise TypeError("not an object")
    return value


def read_list(value: JsonValue) -> Sequence[JsonValue]:
    """Return a value that must be a list; raise TypeError otherwise."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError("not a list")
    return value
