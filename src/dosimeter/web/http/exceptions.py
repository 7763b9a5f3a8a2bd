"""Exceptions that a route raises in place of an answer."""

from __future__ import annotations

from typing import TypeVar

Found = TypeVar("Found")


class Refused(Exception):
    """The error of a request that is refused: people get a short page, programs a JSON error with its ``code``."""

    def __init__(self, status: int, code: str, message: str, *, clause: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.clause = status, code, message, clause


def require_found(found: Found | None, message: str) -> Found:
    """Return what was found. Raises Refused with this message if it is None."""
    if found is None:
        raise Refused(404, "not_found", message)
    return found


class NotSignedIn(Exception):
    """The error that nobody is signed in: the visitor is sent to the sign-in page."""
