"""What can go wrong, as a tree. Every error carries its exit status and a message that names the fix.

    DosimeterError
    ├── InputError            exit 2: what the user gave cannot be used; the message says what to change
    │   ├── OptionError           an option or argument out of range, or two that exclude each other
    │   ├── SchemaError           a schema that is malformed or contradicts itself
    │   ├── QueryError            SQL that does not parse or cannot be analysed; knows the clause
    │   ├── PreferenceError       a preference that is not a condition on the RDRs
    │   ├── DataError             data that cannot be read, or contradicts the schema; private to the controller
    │   ├── LedgerError           a ledger that is unclear, newer, full, busy, or belongs to other data
    │   ├── LimitError            more at a time than one user may have; later, or fewer
    │   └── ServerError           a server that refuses, or does not answer as a Dosimeter server does; knows its code
    └── Interrupted           exit 130: the user pressed Ctrl-C

Messages never quote a cell of the data. ``DataError`` is the only branch whose *occurrence* depends on
private data: a release turns it into a denial.
"""

from __future__ import annotations


class DosimeterError(Exception):
    """The root of every error this package raises on purpose."""

    exit_code = 3


class InputError(DosimeterError):
    """The user's input cannot be used as it is."""

    exit_code = 2


class OptionError(InputError):
    """An option or argument is out of range or contradicts another."""


class SchemaError(InputError):
    """The schema is malformed or contradicts itself."""


class QueryError(InputError):
    """The SQL cannot be analysed. ``clause`` is the offending text, so that a screen can underline it."""

    def __init__(self, message: str, *, clause: str | None = None) -> None:
        super().__init__(message)
        self.clause = clause


class PreferenceError(InputError):
    """The preference is not a condition on the RDRs."""


class DataError(InputError):
    """The data cannot be read or contradicts the schema. For the controller's eyes only."""


class LedgerError(InputError):
    """The ledger cannot be used: unclear, newer, busy, not writable, or of other data."""


class LimitError(InputError):
    """More at a time than one user may have. It works later, or with fewer."""


class ServerError(InputError):
    """The server refused, or does not answer. ``code`` is the server's word for it."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class Interrupted(DosimeterError):
    """The user asked to stop."""

    exit_code = 130
