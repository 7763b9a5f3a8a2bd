"""What can go wrong, as a tree. Every error carries its exit status and a message that names the fix.

    DosimeterError
    ├── InputError            exit 2: what the user gave cannot be used; the message says what to change
    │   ├── OptionError           an option or argument out of range, or two that exclude each other
    │   ├── SchemaError           a schema that is malformed or contradicts itself
    │   ├── QueryError            SQL that does not parse or cannot be analysed; knows the clause
    │   ├── PreferenceError       a preference that is not a condition on RDRs, other risks or errors
    │   ├── DataError             data that cannot be read, or contradicts the schema; private to the controller
    │   │   └── SourceUnreachable     a source that is not there: a missing file, a server that does not answer
    │   │       └── ConnectionLost        a connection that was lost while a query ran
    │   ├── DatasetClosed         a dataset that is used after it was closed
    │   ├── LedgerError           a ledger that is damaged, newer, busy, out of space, or of other data
    │   ├── LimitError            more at a time than one user may have: try later, or with fewer
    │   └── ServerError           a server that refuses, or does not answer as a Dosimeter server does; knows its code
    ├── DatasetStopped        exit 1: an incident stopped the dataset until a controller clears it
    └── Interrupted           exit 130: the user pressed Ctrl-C

What is wrong is a ``Problem``. ``str(error)`` words it for Python, ``error.word(surface, audience)`` for others.

Messages never quote a cell of the data. A ``DataError`` that an engine raises while a release is measured stops the
dataset for everybody (N4), because its *occurrence* could depend on private data. So does ``ConnectionLost``, for the
query may have been what ended the server; any other ``SourceUnreachable`` does not.
"""

from __future__ import annotations

from dosimeter.problems import Audience, Piece, Problem, Surface


class DosimeterError(Exception):
    """The base class of every error that this package raises on purpose.

    ``pieces``: the pieces of the message that says what is wrong. The attribute ``problem`` holds them.
    """

    exit_code = 3

    def __init__(self, *pieces: Piece) -> None:
        self.problem = Problem(*pieces)
        super().__init__(self.word(Surface.PYTHON))

    def word(self, surface: Surface, audience: Audience = Audience.CONTROLLER) -> str:
        """Return the message as it is worded for a surface, such as a web page, with the hints for this audience."""
        return self.problem.word(surface, audience)


class InputError(DosimeterError):
    """What the user gave cannot be used; the message says what to change."""

    exit_code = 2


class OptionError(InputError):
    """An option or argument is out of range or contradicts another."""


class SchemaError(InputError):
    """The schema is malformed or contradicts itself."""


class QueryError(InputError):
    """The SQL cannot be analysed. ``clause`` is the offending text, so that a screen can underline it.

    ``at``: where in the SQL the first name of the clause stands, counted from 0; None if that is not known.
    ``undeclared``: whether the SQL was refused because it groups by values that the schema does not declare. With
    thresholded groups it may be analysed (H1).
    """

    def __init__(
        self, *pieces: Piece, clause: str | None = None, undeclared: bool = False, at: int | None = None
    ) -> None:
        super().__init__(*pieces)
        self.clause = clause
        self.at = at
        self.undeclared = undeclared


class PreferenceError(InputError):
    """The preference is not a condition on people's RDRs and other risks, or on the errors of the answer."""


class DataError(InputError):
    """The data cannot be read, or contradict the schema. For the controller's eyes only."""


class SourceUnreachable(DataError):
    """The source is not there: a missing file, a server that does not answer. It says nothing about what data hold."""


class ConnectionLost(SourceUnreachable):
    """The connection was lost while a query ran. What the data hold may be why, so it stops a release's dataset."""


class DatasetClosed(InputError):
    """The dataset is used after it was closed. No data are involved, so it is no ``DataError``."""


class LedgerError(InputError):
    """The ledger cannot do what it is asked.

    It is damaged, written by a newer version, busy, not writable or of other data, or it has no such entry.
    """


class LimitError(InputError):
    """One user asks for more at a time than is allowed. ``wait``: after how many seconds trying again may succeed."""

    def __init__(self, *pieces: Piece, wait: int = 2) -> None:
        super().__init__(*pieces)
        self.wait = wait


class ServerError(InputError):
    """The server refused, or does not answer as a Dosimeter server does. ``code`` names the refusal, for programs."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class DatasetStopped(DosimeterError):
    """An incident stopped the dataset. No release is answered until a controller clears it."""

    exit_code = 1


class Interrupted(DosimeterError):
    """The user pressed Ctrl-C."""

    exit_code = 130
