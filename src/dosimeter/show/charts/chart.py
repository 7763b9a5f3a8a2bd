"""A chart as a value: axes, marks with their numbers, and words. Made once per kind of chart, drawn by each renderer.

Three rules hold for every chart:

- Colour never stands alone: Okabe–Ito colours come with a tick or a cross, drawn as shapes so that no font is needed.
- RDRs are shown relative to their mean, "× the average person" (R8), unless raw ones are asked for. Ranges have a
  logarithmic axis: there the length of a bar is the ratio of the most to the least exposed person, and nothing else.
- Candidates run from the largest ε to the smallest, top to bottom, here and on the terminal.

Nothing here computes a risk, opens data, touches the network or imports a drawing library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dosimeter.html import Private
from dosimeter.show.axes import Axis, pick_apart
from dosimeter.show.candidates import TextTable

WHY_PRIVATE = "drawn from private data, not covered by differential privacy."
PRIVATE = f"Controller only: {WHY_PRIVATE}"
LETTER = 0.012  # how wide a letter is, as a share of a chart's width


class Look(StrEnum):
    """What a mark stands for. Each renderer has its own colours; in the web's SVG this is a class of CSS."""

    MEETS = "meets"
    FAILS = "fails"
    PLAIN = "plain"
    AVERAGE = "average"
    LIMIT = "limit"
    SPENT = "spent"
    DROWNED = "drowned"
    WITH = "with"
    WITHOUT = "without"
    OVERLAP = "overlap"


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle between two values on each axis. ``words``: what it shows."""

    x: float
    x2: float
    y: float
    y2: float
    look: Look
    words: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line through these points."""

    points: tuple[tuple[float, float], ...]
    look: Look


@dataclass(frozen=True, slots=True)
class Rule:
    """A straight line across the whole chart, at a value of one of its axes, with a text at its end.

    Where both are given, it goes from the bottom of the chart up to this point.
    """

    look: Look
    x: float | None = None
    y: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """A dot."""

    x: float
    y: float
    look: Look


@dataclass(frozen=True, slots=True)
class Label:
    """A text above a point."""

    x: float
    y: float
    text: str
    look: Look = Look.PLAIN


Mark = Bar | Line | Rule | Point | Label


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a chart of rows: whether it meets the preference, and what is written beside it.

    ``facts``: its numbers, each with its title. ``beside``: the number on its right. ``mark``: the word that highlights
    it; "" for a row like any other.
    """

    look: Look
    facts: tuple[tuple[str, str], ...]
    beside: str
    mark: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Chart(Private):
    """A chart. Marks that come later lie above earlier ones.

    ``notes``: sentences under the title. ``description``: the chart in words, for those who cannot see it. ``table``:
    its numbers. ``rows``: where the vertical axis is one of rows, what belongs to each. ``beside``: the heading over
    the numbers beside them. ``width`` and ``height``: in pixels, where nothing else decides.
    """

    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    title: str = ""
    notes: tuple[str, ...] = ()
    description: str = ""
    table: TextTable = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    beside: str = ""
    width: int = 560
    height: int = 240

    @property
    def bars(self) -> tuple[Bar, ...]:
        return tuple(mark for mark in self.marks if isinstance(mark, Bar))


def keep_apart(labels: Sequence[Label], x: Axis) -> list[Label]:
    """Return the labels that have room beside each other; of two that have none, the first stays."""
    room = pick_apart([(x.position(label.x), label.text) for label in labels], LETTER)
    return [label for label, fits in zip(labels, room, strict=True) if fits]
