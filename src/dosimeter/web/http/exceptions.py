"""Exceptions that a route raises in place of an answer."""

from __future__ import annotations


class Refused(Exception):
    """The error of a request that is refused: people get a short page, programs a JSON error with its ``code``."""

    def __init__(self, status: int, code: str, message: str, *, clause: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.clause = status, code, message, clause


class NotSignedIn(Exception):
    """The error that nobody is signed in: the visitor is sent to the sign-in page."""
