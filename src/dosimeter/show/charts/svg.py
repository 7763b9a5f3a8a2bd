"""Draw charts as SVG for the web. Takes a Chart; gives markup without script, style or colour: these are the page's.

Each mark has the class of its kind and of its look. Across, positions are in percent of the picture's width, so that a
page decides how wide it is; downwards they are in pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html import escape

from dosimeter.show.axes import Axis, pick_apart
from dosimeter.show.charts.chart import Bar, Chart, Label, Line, Mark, Point, Rule

MARGIN, THINNEST, APART = 3.0, 0.3, 9.0  # of axes, bars and the numbers over rows, in percent
LETTERS = (0.9, 2.4)  # how wide a letter is, in percent: as a rule, and on a narrow window
ROW_LETTERS = (2.6, 6.0)  # the same over rows, which share the width with other columns
ROW = 21  # the height of a row, in pixels


def write_svg(chart: Chart, label: str) -> str:
    """Return a whole chart, with both axes. ``label``: what it is, for those who cannot see it.

    The texts of its axes lie outside its width and height, in a margin that the page leaves around it.
    """
    down, height = partial(_find_height, chart), chart.height
    levels = "".join(
        _tag("line", "grid", x1=0, x2="100%", y1=down(tick), y2=down(tick)) + _text(-6, down(tick) + 4, text, "end")
        for tick, text in zip(chart.y.ticks, chart.y.labels, strict=True)
    )
    titles = _text(-32, -12, chart.y.title, "start") + _text("50%", height + 36, chart.x.title)
    ticks = _write_ticks(chart.x, height + 17, LETTERS, chart.x.unit)
    marks = "".join(_write_marks(chart, chart.marks, down, height))
    inside = levels + titles + ticks + marks
    return _tag("svg", "chart", inside, width="100%", height=height, role="img", aria_label=escape(label))


def write_rows(chart: Chart) -> list[str]:
    """Return each row of a chart of rows, as a picture of its own without axes."""
    rules = [mark for mark in chart.marks if isinstance(mark, Rule)]
    held: list[list[Mark]] = [[] for _ in chart.y.ticks]
    for mark in chart.marks:
        if not isinstance(mark, Rule):
            held[int(mark.points[0][1] if isinstance(mark, Line) else mark.y)].append(mark)
    ticks = map(partial(_find_place, chart.x), chart.x.ticks)
    behind = "".join(_tag("line", "grid", x1=f"{at}%", x2=f"{at}%", y1=0, y2=ROW) for at in ticks)
    behind += "".join(_write_marks(chart, rules, float, ROW))
    return [_write_row(chart, row, marks, behind) for row, marks in enumerate(held)]


def _write_row(chart: Chart, row: int, marks: Sequence[Mark], behind: str) -> str:
    drawn = "".join(_write_marks(chart, marks, lambda value: round(ROW * (value - row), 1), ROW))
    hidden = {} if any(isinstance(mark, Bar) for mark in marks) else {"aria_hidden": "true"}  # a bar has words
    return _tag("svg", "row", behind + drawn, width="100%", height=ROW, **hidden)


def write_axis(axis: Axis) -> str:
    """Return the axis over the rows of a chart: the numbers that have room, without lines."""
    return _tag("svg", "axis", _write_ticks(axis, 13, ROW_LETTERS, "", APART), width="100%", height=18)


def turn_inwards(at: float, edge: float) -> str:
    """Return which part of a text stands ``at`` this percentage, as SVG says it: near an edge, it runs inwards."""
    return "start" if at < edge else "end" if at > 100.0 - edge else "middle"


def _find_place(axis: Axis, value: float) -> float:
    """Return where a value lies on a picture, in percent of its width, with a margin at both ends."""
    return round(MARGIN + (100.0 - 2.0 * MARGIN) * axis.position(value), 2)


def _find_height(chart: Chart, value: float) -> float:
    """Return where a value of the vertical axis lies, in pixels from the top."""
    return round(chart.height * (1.0 - chart.y.position(value)), 1)


def _write_ticks(axis: Axis, y: float, letters: tuple[float, float], unit: str, gap: float = 0.0) -> str:
    """Write the texts of an axis that have room; those without room on a narrow window are of the class "minor".

    ``letters``: how wide a letter is, in percent, as a rule and on a narrow window. ``gap``: the least distance of two.
    """
    places = [(_find_place(axis, tick), f"{text}{unit}") for tick, text in zip(axis.ticks, axis.labels, strict=True)]
    shown = [place for place, fits in zip(places, pick_apart(places, letters[0], gap), strict=True) if fits]
    return "".join(
        _text(f"{x}%", y, text, turn_inwards(x, 4.0), "tick" if fits else "tick minor")
        for (x, text), fits in zip(shown, pick_apart(shown, letters[1]), strict=True)
    )


def _write_marks(chart: Chart, marks: Sequence[Mark], down: Callable[[float], float], height: float) -> Iterator[str]:
    """Write marks. ``down``: returns where a value of the vertical axis lies, in pixels from the top."""
    across = partial(_find_place, chart.x)
    labels = [(across(mark.x), mark.text) for mark in marks if isinstance(mark, Label)]
    roomy = dict(zip(labels, pick_apart(labels, LETTERS[1]), strict=True))
    for mark in marks:
        match mark:
            case Bar(x, x2, y, y2, look, words):
                left, (top, bottom) = across(x), sorted((down(y), down(y2)))
                top = min(top, bottom - 1.0)  # a single person of many can still be seen
                size = {"width": f"{max(round(across(x2) - left, 2), THINNEST)}%", "height": f"{bottom - top:.1f}"}
                yield _tag("rect", f"bar {look}", f"<title>{escape(words)}</title>", x=f"{left}%", y=top, **size)
            case Line(points, look):
                path = _tag("path", f"line {look}", d="M" + "L".join(f"{across(x)},{down(y)}" for x, y in points))
                box = {"viewBox": f"0 0 100 {height}", "preserveAspectRatio": "none"}
                yield _tag("svg", "lines", path, width="100%", height=height, **box)
            case Rule(look, None, float(y), text):
                yield _tag("line", f"rule {look}", x1=0, x2="100%", y1=down(y), y2=down(y))
                yield _text("100%", down(y) - 6, text, "end")
            case Rule(look, float(x), y):
                top = 0 if y is None else down(y)
                yield _tag("line", f"rule {look}", x1=f"{across(x)}%", x2=f"{across(x)}%", y1=top, y2=height)
            case Point(x, y, look):
                yield _tag("circle", f"dot {look}", cx=f"{across(x)}%", cy=down(y), r=4)
            case Label(x, y, text):
                kind = "told" if roomy[across(x), text] else "told minor"
                yield _text(f"{across(x)}%", down(y) - 6, text, look=kind)


def _text(x: float | str, y: float, text: str, turn: str = "middle", look: str = "told") -> str:
    return _tag("text", look, escape(text), x=x, y=round(y, 1), text_anchor=turn)


def _tag(name: str, look: str, inside: str = "", **attributes: object) -> str:
    """Return an element of SVG. ``look``: its classes. ``inside``: markup, whose texts are escaped."""
    written = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in attributes.items())
    return f'<{name} class="{look}"{written}>{inside}</{name}>'
