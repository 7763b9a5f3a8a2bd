"""Exceptions that a route raises in place of an answer."""

from __future__ import annotations


class Refused(Exception):
    """The request is refused with a short page, or with a JSON error for programs, which read ``code``."""

    def __init__(self, status: int, code: str, message: str, *, clause: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.clause = status, code, message, clause


class NotSignedIn(Exception):
    """Nobody is signed in: the visitor is sent to the sign-in page."""
