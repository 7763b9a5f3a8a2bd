"""The chart of two worlds: the chance of each released number, with the most exposed person and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dosimeter.show.axes import Axis, even_axis
from dosimeter.show.candidates import TextTable
from dosimeter.show.charts.chart import PRIVATE, Chart, Label, Line, Look
from dosimeter.show.written_numbers import (
    format_apart,
    format_epsilon,
    format_number,
    format_percent,
    format_released,
    format_times,
)

if TYPE_CHECKING:
    from dosimeter.risk import TwoWorlds

SIGNS = {Look.WITH: "—", Look.WITHOUT: "- -"}
"""How each curve is drawn, as a text, beside its name."""

_ABOVE = 1.22  # room over the curves for their names
_EDGE = 0.21  # how far the middle of a name lies from the nearer end of the axis, as a share of it
_SMOOTH_FROM = 100  # bins from which a curve has no steps
_FEW_STEPS = 40


def worlds_chart(worlds: TwoWorlds, words: str) -> Chart:
    """Return the chart of both curves, what they have in common shaded. ``words``: what they say, in a sentence."""
    bins = worlds.bins
    top = 100.0 * max(max(each.with_them, each.without) for each in bins)
    x, y = _find_axis(worlds), even_axis(0.0, top * _ABOVE / 1.04, ticks=6)
    here, there = [100.0 * each.with_them for each in bins], [100.0 * each.without for each in bins]
    shaded = _outline(worlds, list(map(min, here, there)))
    area = ((shaded[0][0], 0.0), *shaded, (shaded[-1][0], 0.0))
    return Chart(
        title=f"Two worlds at ε = {format_epsilon(worlds.epsilon)}",
        notes=(words, _write_overlap(worlds), PRIVATE),
        description=f"{words} {_write_overlap(worlds)}",
        table=_list_rows(worlds),
        x=x,
        y=replace(y, ticks=tuple(tick for tick in y.ticks if tick <= 1.01 * top), title="chance, %"),
        marks=(
            Line(area, Look.OVERLAP),
            Line(_outline(worlds, there), Look.WITHOUT),
            Line(_outline(worlds, here), Look.WITH),
            *_name_curves(worlds, x, top),
        ),
    )


def _find_axis(worlds: TwoWorlds) -> Axis:
    """Return the axis of the numbers that may be released. Few of them have ticks at these numbers alone."""
    low, high = worlds.bins[0].low - 0.5 * worlds.step, worlds.bins[-1].high + 0.5 * worlds.step
    ticks = [tick for tick in even_axis(low, high).ticks if low <= tick <= high]
    if high - low < _FEW_STEPS * worlds.step:
        places = [(tick - worlds.exact[0]) / worlds.step for tick in ticks]
        ticks = [tick for tick, place in zip(ticks, places, strict=True) if abs(place - round(place)) < 1e-6] or ticks
    group = f" of {worlds.group}" if worlds.group else ""
    return Axis(low, high, tuple(ticks), title=f"released {worlds.number}{group}")


def _outline(worlds: TwoWorlds, heights: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Return the corners of a curve: a step for each bin, or a point for each of many."""
    pairs, half = list(zip(worlds.bins, heights, strict=True)), 0.5 * worlds.step
    if len(pairs) > _SMOOTH_FROM:
        return tuple((each.middle, height) for each, height in pairs)
    return tuple(corner for each, y in pairs for corner in ((each.low - half, y), (each.high + half, y)))


def _name_curves(worlds: TwoWorlds, x: Axis, top: float) -> list[Label]:
    """Return the names of both curves, with their exact numbers: each on the side on which its number lies."""
    sides = (x.low + _EDGE * (x.high - x.low), x.high - _EDGE * (x.high - x.low))
    here, there = sides[::-1] if worlds.exact[0] >= worlds.exact[1] else sides
    exact = [format_apart(number, worlds.exact[0] - worlds.exact[1]) for number in worlds.exact]
    return [
        Label(here, 1.06 * top, f"{SIGNS[Look.WITH]} with them: {exact[0]}"),
        Label(there, 1.06 * top, f"{SIGNS[Look.WITHOUT]} without: {exact[1]}"),
    ]


def _write_overlap(worlds: TwoWorlds) -> str:
    shared = f"Shaded: what both worlds have in common, about {format_number(100.0 * worlds.overlap, 2)} %."
    return f"{shared} It is what protects the person."


def _list_rows(worlds: TwoWorlds) -> TextTable:
    """Return the numbers of both curves as a table of text."""
    rows = [
        [
            format_released(each.low, each.high, worlds.step),
            format_percent(each.with_them),
            format_percent(each.without),
            format_times(each.times),
        ]
        for each in worlds.bins
    ]
    other = "any other, or the group is not shown" if worlds.shown is not None else "any other"
    rows.append([other, *(format_percent(each) for each in worlds.beyond), ""])
    return {"columns": ["released", "with them", "without", "times as likely with them"], "rows": rows}
