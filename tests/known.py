"""Take what must be there: a test fails where it is not, and type checkers know that it is."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


def known(value: Value | None) -> Value:
    """Return a value that is not None."""
    assert value is not None
    return value
