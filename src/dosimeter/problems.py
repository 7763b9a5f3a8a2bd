"""Say what is wrong so that every surface can word it: to the command line, to Python, in settings, on a web page.

A problem is made of pieces: text, and values that each surface names in its own way. Whoever finds a problem does not
know who will read of it; ``Problem.word`` is the one place that turns the pieces into a sentence.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

_FLAGS = {"continued": "continue", "show_all": "all"}  # options whose name on the command line is another


class Surface(Enum):
    """Where a problem is read: on the command line, in a Python program, in the server's settings or on a web page."""

    COMMAND_LINE = "the command line"
    PYTHON = "a program"
    SETTINGS = "the server's settings"
    WEB = "a page"


class Audience(Enum):
    """Who reads a problem, and so what they can do about it. A controller can do all that an analyst can."""

    ANALYST = "analyst"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Option:
    """An option that a message or a help text mentions. ``name``: the option's name in Python.

    ``value``: the value to show with the option; None for none. ``text``: if there is no value, a word to show in place
    of one, such as FILE.
    """

    name: str
    value: str | float | bool | None = None
    text: str | None = None

    @property
    def flag(self) -> str:
        """Return the option as it is written on the command line."""
        return "--" + _FLAGS.get(self.name, self.name).replace("_", "-")

    def word(self, surface: Surface) -> str:
        """Return the option, with its value if it has one, as this surface writes options."""
        given = self.text if self.value is None else json.dumps(self.value, ensure_ascii=False)
        match surface:
            case Surface.COMMAND_LINE:
                value = self.text if self.value is None else f"{self.value}"
                return self.flag if value is None or self.value is True else f"{self.flag} {value}"
            case Surface.PYTHON:
                return f"{self.name}={self.value if isinstance(self.value, bool) else given or ''}"
            case Surface.SETTINGS | Surface.WEB:
                return self.name if given is None else f"{self.name} = {given}"


@dataclass(frozen=True, slots=True, init=False)
class Command:
    """A command that a message tells people to run. ``words``: what to write after ``dosimeter`` on a command line.

    ``call``: what a message in Python shows instead, such as Dataset.draft_schema(); None to show the command.
    """

    words: tuple[str | Option, ...]
    call: str | None

    def __init__(self, *words: str | Option, call: str | None = None) -> None:
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "call", call)

    def word(self, surface: Surface) -> str:
        """Return what to run: ``call`` for Python, if there is one, and the command for every other surface."""
        if surface is Surface.PYTHON and self.call is not None:
            return self.call
        words = (word if isinstance(word, str) else word.word(Surface.COMMAND_LINE) for word in self.words)
        return " ".join(["dosimeter", *words])


@dataclass(frozen=True, slots=True, init=False)
class Hint:
    """A part of a message that is shown only on these surfaces, and only to those who can act on it.

    ``audience``: CONTROLLER if only a controller can, ANALYST if everybody can.
    """

    pieces: tuple[Piece, ...]
    audience: Audience
    surfaces: frozenset[Surface]

    def __init__(
        self, *pieces: Piece, audience: Audience = Audience.ANALYST, surfaces: Collection[Surface] = tuple(Surface)
    ) -> None:
        object.__setattr__(self, "pieces", pieces)
        object.__setattr__(self, "audience", audience)
        object.__setattr__(self, "surfaces", frozenset(surfaces))

    def is_for(self, audience: Audience) -> bool:
        """Return whether this audience can act on the hint. A controller can act on every hint."""
        return audience in (self.audience, Audience.CONTROLLER)


Piece = str | Option | Command | Hint


@dataclass(frozen=True, slots=True, init=False)
class Problem:
    """What is wrong, and hints on what to do about it: pieces of a message, in the order in which they are read."""

    pieces: tuple[Piece, ...]

    def __init__(self, *pieces: Piece) -> None:
        object.__setattr__(self, "pieces", pieces)

    def word(self, surface: Surface, audience: Audience = Audience.CONTROLLER) -> str:
        """Return the message as it is worded for a surface, such as a web page, with the hints for this audience."""
        return "".join(_word(self.pieces, surface, audience))

    def hides_hint_from(self, audience: Audience) -> bool:
        """Return whether the message has a hint that this audience is not shown, because it cannot act on it."""
        return any(isinstance(piece, Hint) and not piece.is_for(audience) for piece in self.pieces)


def _word(pieces: Collection[Piece], surface: Surface, audience: Audience) -> Iterator[str]:
    for piece in pieces:
        match piece:
            case str():
                yield piece
            case Hint():
                if piece.is_for(audience) and surface in piece.surfaces:
                    yield " "
                    yield from _word(piece.pieces, surface, audience)
            case _:
                yield piece.word(surface)


def for_controller(*pieces: Piece) -> Hint:
    """Return a hint that only a controller can act on: the schema, the account and the options are theirs."""
    return Hint(*pieces, audience=Audience.CONTROLLER)


def leave_out(name: str) -> Hint:
    """Return the hint to leave an option out. Only a controller chooses options."""
    return for_controller("Leave ", Option(name), " out.")


ASKING = (Surface.COMMAND_LINE, Surface.PYTHON)
"""Where somebody looks and releases by options of their own; for pages the settings decide."""

CHECK_SCHEMA = for_controller(
    "Check with: ", Command("schema DATA", Option("check", text="FILE"), call="Dataset.check_schema()"), "."
)
"""The hint to compare the schema with the data."""
