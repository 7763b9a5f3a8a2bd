"""The base of values that are private to the controller: what Python shows of them holds nothing of the data."""

from __future__ import annotations


class Private:
    """A value whose repr gives its class alone."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(redacted)"
