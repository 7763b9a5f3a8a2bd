"""Each picture, specified once in Vega-Lite, for files, notebooks and the web. Takes plain values; gives dictionaries.

Three rules hold for every picture:

- Colour never stands alone: Okabe–Ito colours come with a tick or a cross, drawn as shapes so that no font is needed.
- RDRs are shown relative to their mean, "× the average person" (R8), unless raw ones are asked for. Ranges have a
  logarithmic axis: there the length of a bar is the ratio of the most to the least exposed person, and nothing else.
- Candidates run from the largest ε to the smallest, top to bottom, here and on the terminal.

Ranges and histograms stand alone, in a file or a notebook. A staircase stands alone or on a page, as its Frame says.
Nothing here computes a risk, opens data, touches the network or imports a drawing library.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from dosimeter.show.axes import Axis, even_axis, ratio_axis
from dosimeter.show.candidates import FAILS, MEETS, format_errors, format_scale, order_candidates
from dosimeter.show.charts.bins import Bin, is_wide, write_bins
from dosimeter.show.numbers import format_epsilon, format_number, format_percent, format_range

if TYPE_CHECKING:
    from dosimeter.risk import Candidate

Spec = dict[str, Any]
"""A part of a Vega-Lite specification, or a whole one."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
INK, NEUTRAL, FAINT = "#1f2937", "#6b7280", "#e5e7eb"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif"
MEETS_WORDS, FAILS_WORDS, PLAIN_WORDS = "meets the preference", "does not meet it", "no preference"
TICK = "M-1,0.05L-0.65,-0.3L-0.25,0.1L0.65,-0.8L1,-0.45L-0.25,0.8Z"
CROSS = "M-0.8,-0.5L-0.5,-0.8L0,-0.3L0.5,-0.8L0.8,-0.5L0.3,0L0.8,0.5L0.5,0.8L0,0.3L-0.5,0.8L-0.8,0.5L-0.3,0Z"
SELECTED = "selected"
MOST_TEXTS = 20  # steps of a staircase whose readings are written beside them
MOST_BANDS = 60  # entries of a staircase that have a band each
MOST_STEPS = 200  # steps of a staircase that are drawn
MOST_PLACES = 20


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a picture is shown, and its colours. ``alone``: in a file or notebook; otherwise on a page of the web.

    A page has its own title, legend and table around the picture, and decides the picture's width. ``ink``: the colour
    of texts. ``meets``: the colour of what meets the preference, and of staircases. ``neutral`` and ``faint``: the
    colours of what matters less.
    """

    ink: str
    neutral: str
    faint: str
    meets: str
    alone: bool


ALONE = Frame(INK, NEUTRAL, FAINT, MEETS, alone=True)
PAGE = Frame("INK", "MUTED", "FAINT", "MEETS", alone=False)  # the page fills in its colours, light or dark


def _frame_spec(frame: Frame, *, width: int, height: int, data: Spec, layer: Sequence[Spec]) -> Spec:
    """Return the specification of the whole picture: these layers over this data, with size and style.

    ``width``: used for a picture that stands alone; on a page, the page decides.
    """
    sizes: Spec = {"width": width} if frame.alone else {"width": "container"}
    fitting: Spec = {} if frame.alone else {"autosize": {"type": "fit-x", "contains": "padding"}}
    return {
        "$schema": SCHEMA, **sizes, "height": height, **fitting,
        "data": data, "layer": list(layer), "config": _style(frame),
    }  # fmt: skip


def _style(frame: Frame) -> Spec:
    return {
        "background": "white" if frame.alone else "transparent", "padding": 14 if frame.alone else 5, "font": FONT,
        "view": {"stroke": None}, "legend": {"labelFontSize": 11.5, "labelColor": frame.ink},
        "axis": {
            "labelColor": frame.ink, "titleColor": frame.neutral if frame.alone else frame.ink,
            "titleFontWeight": "normal", "gridColor": frame.faint, "domainColor": frame.faint, "tickColor": frame.faint,
            "labelFontSize": 11 if frame.alone else 12, "titleFontSize": 11.5 if frame.alone else 12,
            "titlePadding": 8,
        },
    }  # fmt: skip


# ---------------------------------------------------------------- ranges over the candidates: the first picture


def range_spec(
    candidates: Sequence[Candidate],
    *,
    raw: bool = False,
    reading: float | None = None,
    marks: Mapping[float, str] | None = None,
) -> Spec:
    """Return the picture of one bar per candidate ε, from the least to the most exposed person.

    ``raw``: RDRs themselves instead of multiples of the average. ``reading``: draw a line between the candidates above
    the account's reading and the others. ``marks``: candidates to be highlighted, and the word that stands beside each.
    """
    ordered = order_candidates(candidates)
    marks = marks or {}
    stated = any(c.satisfied is not None for c in ordered)
    axis = find_range_axis(ordered, raw=raw)
    rows = [_range_row(c, axis, marks, raw=raw) for c in ordered]
    width, step = 430, 17 if len(rows) > 20 else 24
    share_at = width + 62
    end: Spec = {"value": share_at + (136 if reading is None else 200)}
    y: Spec = {
        "field": "epsilon", "type": "ordinal", "sort": [row["epsilon"] for row in rows],
        "scale": {"paddingInner": 0.3, "paddingOuter": 0.25},
        "axis": {
            "title": "ε (smaller: more noise)", "ticks": False, "domain": False, "labelOverlap": False,
            "labelPadding": 26 if stated else 8,
        },
    }  # fmt: skip
    colour, shape = _state_encodings(rows)
    picked = {"transform": [{"filter": "datum.mark != ''"}]}
    tint = {"condition": {"test": f"datum.mark == '{SELECTED}'", "value": NEUTRAL}, "value": MEETS}
    tips = [{"field": field, "type": "nominal", "title": title} for field, title in _TIPS]
    layers: list[Spec] = [
        {**picked, "mark": {"type": "rect", "opacity": 0.14, "cornerRadius": 3},
         "encoding": {"y": y, "x": {"value": -22 if stated else 0}, "x2": end, "fill": tint}},
        {"mark": {"type": "bar", "cornerRadius": 1.5, "strokeWidth": 1.5},
         "encoding": {"y": y, "x": _value_encoding("low", axis, "RDR" if raw else "× the average person", grid=True),
                      "x2": {"field": "high"}, "color": colour, "stroke": colour, "tooltip": tips}},
    ]  # fmt: skip
    if not raw:
        average = {"mark": {"type": "rule", "color": INK, "strokeWidth": 1.3}, "encoding": {"x": {"datum": 1}}}
        layers.insert(1, average)
    if stated:
        mark = {"type": "point", "filled": True, "size": 72, "opacity": 1, "tooltip": False}
        layers.append({"mark": mark, "encoding": {"y": y, "x": {"value": -12}, "color": colour, "shape": shape}})
    layers += _beside_bars(y, picked, share_at)
    if reading is not None and reading > 0.0:
        layers += _reading_layers(ordered, reading, y, end, 0.15 * step)
    height, data = round(step * (len(rows) + 0.2)), {"name": "candidates", "values": rows}
    return _frame_spec(ALONE, width=width, height=height, data=data, layer=layers)


_TIPS = (
    ("epsilon", "ε"),
    ("least", "least exposed"),
    ("most", "most exposed"),
    ("share", "least ÷ most"),
    ("noise", "noise scale"),
    ("error", "95 % error"),
    ("state", "preference"),
)


def _range_row(candidate: Candidate, axis: Axis, marks: Mapping[float, str], *, raw: bool) -> Spec:
    least, most = format_range(*candidate.rdr.relative)
    low, high = _span(candidate, raw=raw)
    words = {None: PLAIN_WORDS, True: MEETS_WORDS, False: FAILS_WORDS}[candidate.satisfied]
    return {
        "epsilon": format_epsilon(candidate.epsilon),
        "low": max(low, axis.low),
        "high": max(high, axis.low),
        "least": f"{least} × (RDR {format_number(candidate.rdr.min, 4)})",
        "most": f"{most} × (RDR {format_number(candidate.rdr.max, 4)})",
        "share": format_percent(candidate.rdr.ratio),
        "noise": format_scale(candidate),
        "error": format_errors(candidate),
        "state": words,
        "mark": marks.get(candidate.epsilon, ""),
    }


def _span(candidate: Candidate, *, raw: bool) -> tuple[float, float]:
    return (candidate.rdr.min, candidate.rdr.max) if raw else candidate.rdr.relative


def find_range_axis(candidates: Sequence[Candidate], *, raw: bool) -> Axis:
    """Return the axis for bars from the smallest to the largest RDR of each candidate (R8).

    It is logarithmic for multiples of the average RDR. For RDRs themselves (``raw``) it is linear, unless the shortest
    bar could hardly be seen on a linear axis.
    """
    spans = [_span(candidate, raw=raw) for candidate in candidates]
    ends = [end for span in spans for end in span]
    if not raw:
        return ratio_axis([*ends, 1.0])
    shortest = min(high - low for low, high in spans)
    return even_axis(0.0, max(ends)) if shortest > 0.02 * max(ends) else ratio_axis(ends)


def _state_encodings(rows: Sequence[Spec]) -> tuple[Spec, Spec]:
    """Return encodings of colour and shape, by whether a candidate meets the preference.

    Without a preference every bar is grey, and there is no shape.
    """
    looks = {MEETS_WORDS: (MEETS, TICK), FAILS_WORDS: (FAILS, CROSS), PLAIN_WORDS: (NEUTRAL, "circle")}
    states = {row["state"] for row in rows}
    if states == {PLAIN_WORDS}:
        return {"value": NEUTRAL}, {}
    shown = [words for words in looks if words in states or words != PLAIN_WORDS]
    legend = {
        "orient": "bottom", "direction": "horizontal", "title": None, "symbolSize": 90, "offset": 14, "labelLimit": 0,
    }  # fmt: skip
    field: Spec = {"field": "state", "type": "nominal", "legend": legend}
    colours, shapes = zip(*(looks[words] for words in shown), strict=True)
    return (
        {**field, "scale": {"domain": shown, "range": list(colours)}},
        {**field, "scale": {"domain": shown, "range": list(shapes)}},
    )


def _value_encoding(field: str, axis: Axis, title: str, *, grid: bool) -> Spec:
    """Return the encoding of this field along the horizontal axis, with the axis's own ticks."""
    sign = "" if title == "RDR" else " + ' ×'"
    kind: Spec = {"type": "log"} if axis.logarithmic else {"type": "linear", "zero": False}
    return {
        "field": field, "type": "quantitative", "scale": {**kind, "domain": [axis.low, axis.high], "nice": False},
        "axis": {
            "title": title + (" (log scale)" if axis.logarithmic else ""), "values": list(axis.ticks), "grid": grid,
            "labelExpr": f"format(datum.value, datum.value >= 1000 ? ',.0f' : '.6~g'){sign}", "labelOverlap": True,
        },
    }  # fmt: skip


def _beside_bars(y: Spec, picked: Spec, share_at: int) -> list[Spec]:
    """Return layers of text for two columns to the right of the bars.

    The first column, headed "least ÷ most", has each candidate's smallest RDR divided by its largest. The second has
    the word that marks a highlighted candidate. ``y``: the encoding of the candidates. ``picked``: a filter that keeps
    only the highlighted candidates. ``share_at``: where the first column ends, in pixels from the left.
    """
    share: Spec = {"type": "text", "align": "right", "fontSize": 11, "color": INK}
    heading: Spec = {**share, "fontSize": 10, "color": NEUTRAL, "baseline": "bottom"}
    return [
        {"mark": share, "encoding": {"y": y, "x": {"value": share_at}, "text": {"field": "share"}}},
        {**picked, "mark": {**share, "align": "left", "fontWeight": "bold"},
         "encoding": {"y": y, "x": {"value": share_at + 14}, "text": {"field": "mark"}}},
        {"data": {"values": [{"text": "least ÷ most"}]}, "mark": heading,
         "encoding": {"x": {"value": share_at}, "y": {"value": -3}, "text": {"field": "text"}}},
    ]  # fmt: skip


def _reading_layers(ordered: Sequence[Candidate], reading: float, y: Spec, end: Spec, gap: float) -> list[Spec]:
    """Return a dashed line with its text, below the smallest candidate that is still larger than the reading (O2).

    If no candidate is larger, the line lies above them all. ``y``: the encoding of the candidates. ``end``: where the
    line ends on the right. ``gap``: by how many pixels the line is moved, to lie between two bars.
    """
    larger = [candidate.epsilon for candidate in ordered if candidate.epsilon > reading]
    place, down = {**y, "bandPosition": 1 if larger else 0}, gap if larger else -gap  # half the space between two bars
    row = {
        "epsilon": format_epsilon(larger[-1] if larger else ordered[0].epsilon),
        "text": f"reading {format_number(reading, 4)}",
    }
    data: Spec = {"values": [row]}
    rule = {"type": "rule", "color": INK, "strokeDash": [5, 3], "strokeWidth": 1.2, "yOffset": down}
    text = {"type": "text", "align": "right", "baseline": "bottom", "dy": down - 2, "color": INK, "fontSize": 11}
    return [
        {"data": data, "mark": rule, "encoding": {"y": place, "x": {"value": 0}, "x2": end}},
        {"data": data, "mark": text, "encoding": {"y": place, "x": end, "text": {"field": "text"}}},
    ]


# ---------------------------------------------------------------- everybody at one ε: the second picture


def histogram_spec(bins: Sequence[Bin], *, log_counts: bool = True) -> Spec:
    """Return the histogram of people by their RDR at one ε, in multiples of the average person's RDR.

    The tallest bar and the last bar (the most exposed people) have labels. The histogram is meant to stand below the
    picture of all candidates (``range_spec``). ``log_counts``: draw heights on a logarithmic scale.
    """
    ends = (bins[0].start, bins[-1].end) if len(bins) > 1 else (0.9, 1.1)
    axis = ratio_axis(ends) if is_wide(*ends) else even_axis(*ends)
    y = _count_encoding(max(held.people for held in bins), log_counts=log_counts)
    x = _value_encoding("start", axis, "× the average person", grid=False)
    stroke = "white" if log_counts else NEUTRAL
    text: Spec = {
        "type": "text", "align": {"expr": "datum.align"}, "baseline": "bottom", "dy": {"expr": "-4 - datum.lift"},
        "fontSize": 11, "fontWeight": {"expr": "datum.weight"}, "color": INK,
    }  # fmt: skip
    named = {"transform": [{"filter": "datum.label != ''"}]}
    layers: list[Spec] = [
        {"mark": {"type": "bar", "color": NEUTRAL, "stroke": stroke, "strokeWidth": 0.5 if log_counts else 1},
         "encoding": {"x": x, "x2": {"field": "end"}, "y": y, "y2": {"datum": 0},
                      "tooltip": [{"field": "words", "type": "nominal", "title": "who"}]}},
        {"transform": [{"filter": "datum.tallest"}], "mark": {"type": "rule", "color": INK, "strokeWidth": 1},
         "encoding": {"x": {"datum": 1}, "y": y, "y2": {"datum": 0}}},
        {"transform": [{"filter": "datum.label != '' && datum.height > datum.people"}],
         "mark": {"type": "rule", "color": NEUTRAL, "strokeWidth": 0.75},
         "encoding": {"x": {**x, "field": "middle"}, "y": y, "y2": {"field": "height"}}},
        {**named, "mark": text,
         "encoding": {"x": {**x, "field": "place"}, "y": {**y, "field": "height"}, "text": {"field": "label"}}},
    ]  # fmt: skip
    data: Spec = {"name": "bins", "values": _histogram_rows(bins, axis, log_counts=log_counts)}
    return _frame_spec(ALONE, width=560, height=240, data=data, layer=layers)


def _histogram_rows(bins: Sequence[Bin], axis: Axis, *, log_counts: bool) -> list[Spec]:
    """Return the histogram's data, a row per bin. The tallest bar and the last one (the tail) get a label.

    Labels cover neither a bar nor each other. The tail's label stands to its left, above the bars that are there; one
    line higher where it would meet the other label.
    """
    words, last = write_bins(bins), len(bins) - 1
    tallest = max(range(len(bins)), key=lambda place: bins[place].people)
    level = math.log1p if log_counts else float
    reached = (held for held in bins if axis.position(held.end) > 0.5 or held is bins[last])  # by the tail's label
    above = max(held.people for held in reached)
    crowded = axis.position(bins[tallest].start) > 0.6
    near = crowded or level(above) > 0.85 * level(bins[tallest].people)
    rows = []
    for place, held in enumerate(bins):
        right = crowded if place == tallest else True
        tail = place == last != tallest
        rows.append(
            {
                "start": held.start, "end": held.end, "middle": (held.start + held.end) / 2, "people": held.people,
                "words": words[place], "label": words[place] if place in (tallest, last) else "",
                "align": "right" if right else "left", "place": held.end if right else held.start,
                "height": above if tail else held.people, "lift": 15 if tail and near else 0,
                "weight": "bold" if place == last else "normal", "tallest": place == tallest,
            }
        )  # fmt: skip
    return rows


def _count_encoding(top: int, *, log_counts: bool) -> Spec:
    """Return the encoding of counts along the vertical axis, with space for two lines of text above the bars.

    ``top``: the largest count. The scale symlog keeps 0 on a logarithmic axis, and a single person gets a visible bar.
    """
    encoding: Spec = {"field": "people", "type": "quantitative"}
    if not log_counts:
        axis = {"title": "people", "format": ",d", "tickMinStep": 1, "tickCount": 5}
        return {**encoding, "axis": axis, "scale": {"domain": [0, top * 1.2], "nice": False}}
    scale = {"type": "symlog", "constant": 1, "domain": [0, (top + 1) ** 1.2], "nice": False}
    powers = [10**power for power in range(len(str(top)))]
    return {
        **encoding, "scale": scale, "axis": {"title": "people (log scale)", "format": ",d", "values": [0, *powers]},
    }  # fmt: skip


# ---------------------------------------------------------------- the odometer


class Step(NamedTuple):
    """The reading of an account after one of its entries. ``place``: which entry, counted from 1.

    ``name``: the entry's name, or its time.
    """

    place: int
    name: str
    reading: float


def staircase_spec(steps: Sequence[Step], frame: Frame, *, budget: float | None = None, by_time: bool = False) -> Spec:
    """Return the picture of an account's reading after each of its entries, as a staircase.

    An infinite reading (O1) is drawn at the top. The budget is a line. At most 200 steps are drawn; if there are more
    than 20, only the last has its reading written beside it. Along the axis entries are named if there are at most 60
    and the picture stands alone (``frame``); otherwise they are numbered. ``by_time``: the steps' names are times, and
    the axis is time.
    """
    finite = max((step.reading for step in steps if math.isfinite(step.reading)), default=1.0) or 1.0
    finite = max(finite, budget or 0.0)
    top = finite * (1.3 if any(math.isinf(step.reading) for step in steps) else 1.15)
    drawn = _thin_out(steps, MOST_STEPS)
    named = {step.place for step in (drawn if len(drawn) <= MOST_TEXTS else drawn[-1:])}
    rows: list[Spec] = []
    before = 0.0
    for step in drawn:
        shown = min(step.reading, top)
        rows.append(
            {
                "place": step.place, "entry": step.name, "before": before, "reading": shown,
                "text": format_number(step.reading, 4) if step.place in named else "",
                "after": format_number(step.reading, 4),
            }
        )  # fmt: skip
        before = shown
    y: Spec = {
        "field": "reading", "type": "quantitative", "scale": {"domain": [0, top], "nice": False},
        "axis": {"title": "spent, ε", "tickCount": 6},
    }  # fmt: skip
    even = drawn[-1].place == len(drawn)  # every entry is drawn, in order
    width = min(640, max(240, 56 * len(rows))) if even and not by_time else 640
    layers = (
        _step_layers([step.name for step in drawn], width, y, frame)
        if even and not by_time and len(drawn) <= MOST_BANDS
        else _line_layers(y, frame, by_time=by_time)
    )
    if budget is not None:
        layers = [*_limit_layers(budget, y, frame), *layers]
    data: Spec = {"name": "steps", "values": rows}
    return _frame_spec(frame, width=width, height=220, data=data, layer=layers)


def _thin_out(steps: Sequence[Step], most: int) -> Sequence[Step]:
    """Return at most ``most`` of the steps, evenly chosen, with the last one and the first infinite one among them."""
    if len(steps) <= most:
        return steps
    kept = {round(place * (len(steps) - 1) / (most - 2)) for place in range(most - 1)}
    kept |= {next((place for place, step in enumerate(steps) if math.isinf(step.reading)), 0)}
    return [steps[place] for place in sorted(kept)]


_STEP_TIPS: list[Spec] = [
    {"field": field, "type": "nominal", "title": title}
    for field, title in (("entry", "entry"), ("after", "spent afterwards"))
]


def _step_layers(names: Sequence[str], width: int, y: Spec, frame: Frame) -> list[Spec]:
    """Return the staircase of few entries, in which each entry has a band of its own on the axis."""
    x = _entry_encoding(names, width, frame)
    line: Spec = {"type": "rule", "color": frame.meets, "strokeWidth": 2.5}
    return [
        {"mark": {"type": "bar", "color": frame.meets, "opacity": 0.14},
         "encoding": {"x": x, "y": y, "tooltip": _STEP_TIPS}},
        {"mark": line,
         "encoding": {"x": {**x, "bandPosition": 0}, "x2": {"field": "place", "bandPosition": 1}, "y": y}},
        {"mark": {**line, "strokeCap": "round"},
         "encoding": {"x": {**x, "bandPosition": 0}, "y": {**y, "field": "before"}, "y2": {"field": "reading"}}},
        _text_layer(x, y, frame),
    ]  # fmt: skip


def _line_layers(y: Spec, frame: Frame, *, by_time: bool) -> list[Spec]:
    """Return the staircase as one stepped line, for many entries or for an axis of time (``by_time``)."""
    x: Spec = {
        "field": "place", "type": "quantitative", "scale": {"nice": False},
        "axis": {"title": "entries of the ledger, in order", "format": ",d", "tickMinStep": 1},
    }  # fmt: skip
    if by_time:
        x = {"field": "entry", "type": "temporal", "scale": {"type": "utc"}, "axis": {"title": "time (UTC)"}}
    mark: Spec = {"interpolate": "step-after", "color": frame.meets}
    return [
        {"mark": {**mark, "type": "area", "opacity": 0.14}, "encoding": {"x": x, "y": y}},
        {"mark": {**mark, "type": "line", "strokeWidth": 2.5}, "encoding": {"x": x, "y": y}},
        {"mark": {"type": "point", "filled": True, "size": 12, "color": frame.meets},
         "encoding": {"x": x, "y": y, "tooltip": _STEP_TIPS}},
        _text_layer(x, y, frame),
    ]  # fmt: skip


def _text_layer(x: Spec, y: Spec, frame: Frame) -> Spec:
    return {
        "transform": [{"filter": "datum.text != ''"}],
        "mark": {"type": "text", "baseline": "bottom", "dy": -5, "fontSize": 11, "color": frame.ink},
        "encoding": {"x": x, "y": y, "text": {"field": "text"}},
    }


def _entry_encoding(names: Sequence[str], width: int, frame: Frame) -> Spec:
    places = list(range(1, len(names) + 1, 1 + len(names) // MOST_PLACES))
    axis: Spec = {"title": "entries of the ledger, in order", "labelAngle": 0, "values": places}
    if frame.alone:
        fits = 6.5 * max(len(name) for name in names) < width / len(names)
        axis = {
            "title": None, "labelExpr": f"{json.dumps(list(names))}[datum.value - 1]", "labelLimit": 140,
            "labelAngle": 0 if fits else -40,
        }  # fmt: skip
    return {
        "field": "place", "type": "ordinal", "scale": {"paddingInner": 0, "paddingOuter": 0.3},
        "axis": {**axis, "grid": False},
    }  # fmt: skip


def _limit_layers(limit: float, y: Spec, frame: Frame) -> list[Spec]:
    """Return the budget as a dashed line with its text."""
    data: Spec = {"values": [{"reading": limit, "text": f"budget {format_number(limit, 4)}"}]}
    rule = {"type": "rule", "color": frame.ink, "strokeDash": [5, 3], "strokeWidth": 1.2}
    text = {
        "type": "text", "align": "right", "baseline": "bottom", "dy": -3, "dx": -2, "color": frame.ink, "fontSize": 11,
    }  # fmt: skip
    return [
        {"data": data, "mark": rule, "encoding": {"y": y}},
        {"data": data, "mark": text, "encoding": {"y": y, "x": {"value": "width"}, "text": {"field": "text"}}},
    ]
