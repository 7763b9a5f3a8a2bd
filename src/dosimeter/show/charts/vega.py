"""Draw charts for files and notebooks. Takes a Chart; gives a Vega-Lite specification, and an Altair chart of it.

Altair is imported when a chart is drawn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from dosimeter.show.axes import Axis
from dosimeter.show.candidates import FAILS, MEETS
from dosimeter.show.charts.chart import Bar, Chart, Label, Line, Look, Mark, Point, Rule

if TYPE_CHECKING:
    import altair as alt

Spec = dict[str, Any]
"""A part of a Vega-Lite specification, or a whole one."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
INK, NEUTRAL, FAINT = "#1f2937", "#6b7280", "#e5e7eb"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif"
TICK = "M-1,0.05L-0.65,-0.3L-0.25,0.1L0.65,-0.8L1,-0.45L-0.25,0.8Z"
CROSS = "M-0.8,-0.5L-0.5,-0.8L0,-0.3L0.5,-0.8L0.8,-0.5L0.3,0L0.8,0.5L0.5,0.8L0,0.3L-0.5,0.8L-0.8,0.5L-0.3,0Z"
SIGNS = {Look.MEETS: ("meets the preference", TICK), Look.FAILS: ("does not meet it", CROSS)}
_LOOKS: dict[Look, Spec] = {
    Look.MEETS: {"color": MEETS}, Look.FAILS: {"color": FAILS}, Look.PLAIN: {"color": NEUTRAL},
    Look.AVERAGE: {"color": INK}, Look.LIMIT: {"color": INK, "strokeDash": [5, 3]}, Look.SPENT: {"color": MEETS},
    Look.DROWNED: {"color": FAILS, "filled": False},
    Look.OVERLAP: {"fill": NEUTRAL, "fillOpacity": 0.2, "strokeWidth": 0},
    Look.WITH: {"color": FAILS}, Look.WITHOUT: {"color": MEETS, "strokeDash": [6, 3]},
}  # fmt: skip
_TEXT: Spec = {"type": "text", "fontSize": 11, "color": INK}


def draw_altair(chart: Chart) -> alt.LayerChart:
    """Return a chart as an Altair chart, with its table of numbers in its ``usermeta``."""
    from dosimeter.show.charts.offline import OfflineChart

    return OfflineChart.from_dict(write_spec(chart), validate=False)  # validated when it is written


def write_spec(chart: Chart) -> Spec:
    """Return a chart as a Vega-Lite specification."""
    x, y = _encode(chart.x, grid=bool(chart.rows)), _encode(chart.y, grid=not chart.rows)
    if chart.rows:
        signed = any(row.look in SIGNS for row in chart.rows)
        y["scale"]["reverse"] = True
        y["axis"] |= {"ticks": False, "domain": False, "labelOverlap": False, "labelPadding": 26 if signed else 8}
    layers = [*_highlight_rows(chart, y)]
    for (kind, look), marks in groupby(chart.marks, key=lambda mark: (type(mark), mark.look)):
        layers += _LAYERS[kind](list(marks), _LOOKS[look], chart, x, y)
    heading = {
        "text": chart.title, "subtitle": list(chart.notes), "anchor": "start", "frame": "group", "fontSize": 15,
        "subtitleFontSize": 11.5, "subtitleColor": NEUTRAL, "color": INK, "offset": 16, "subtitlePadding": 5,
    }  # fmt: skip
    return {
        "$schema": SCHEMA, "title": heading, "description": f"{chart.title}. {chart.description}",
        "width": chart.width, "height": chart.height, "usermeta": {"table": dict(chart.table)},
        "layer": [*layers, *_write_beside(chart, y)], "config": _CONFIG,
    }  # fmt: skip


_CONFIG: Spec = {
    "background": "white", "padding": 14, "font": FONT, "view": {"stroke": None},
    "legend": {"labelFontSize": 11.5, "labelColor": INK},
    "axis": {
        "labelColor": INK, "titleColor": NEUTRAL, "titleFontWeight": "normal", "gridColor": FAINT,
        "domainColor": FAINT, "tickColor": FAINT, "labelFontSize": 11, "titleFontSize": 11.5, "titlePadding": 8,
    },
}  # fmt: skip


def _encode(axis: Axis, *, grid: bool) -> Spec:
    """Return the encoding of values along an axis, with the axis's own ticks and texts."""
    texts = [f"{label}{axis.unit}" for label in axis.labels]
    return {
        "type": "quantitative",
        "scale": {"type": axis.scale, "domain": [axis.low, axis.high], "nice": False, "zero": False},
        "axis": {
            "title": axis.title or None, "values": list(axis.ticks), "grid": grid, "labelOverlap": True,
            "labelExpr": f"{json.dumps(texts)}[indexof({json.dumps(axis.ticks)}, datum.value)]",
        },
    }  # fmt: skip


# ---------------------------------------------------------------- marks


def _draw_bars(bars: Sequence[Bar], look: Spec, chart: Chart, x: Spec, y: Spec) -> Iterator[Spec]:
    facts = [dict(chart.rows[int(bar.y)].facts) if chart.rows else {"": bar.words} for bar in bars]
    rows = [asdict(bar) | told for bar, told in zip(bars, facts, strict=True)]
    edge = {"stroke": look["color"], "strokeWidth": 1.5, "cornerRadius": 1.5}
    if not chart.rows:
        between = {"stroke": "white", "strokeWidth": 0.5}
        seen = {"stroke": look["color"], "strokeWidth": 1}  # a single person of many, on a linear axis
        edge = {"opacity": 0.14} if bars[0].look is Look.SPENT else seen if chart.y.scale == "linear" else between
    words = {"field": "words", "type": "nominal"}
    tips = [{"field": title, "type": "nominal"} for title in facts[0] if title]
    yield _layer(
        rows,
        {"type": "rect", **look, **edge},
        _place(x, y) | {"x2": {"field": "x2"}, "y2": {"field": "y2"}, "description": words, "tooltip": tips or words},
    )


def _draw_lines(lines: Sequence[Line], look: Spec, chart: Chart, x: Spec, y: Spec) -> Iterator[Spec]:
    for line in lines:
        rows = [{"x": at, "y": height, "order": order} for order, (at, height) in enumerate(line.points)]
        mark = {"type": "line", "strokeWidth": 2.5, "strokeJoin": "round", **look}
        yield _layer(rows, mark, _place(x, y) | {"order": {"field": "order"}})


def _draw_rules(rules: Sequence[Rule], look: Spec, chart: Chart, x: Spec, y: Spec) -> Iterator[Spec]:
    for rule in rules:
        place = {name: each for name, each in _place(x, y).items() if getattr(rule, name) is not None}
        if rule.x is not None and rule.y is not None:
            place["y2"] = {"datum": chart.y.low}
        yield _layer([asdict(rule)], {"type": "rule", "strokeWidth": 1.25, **look}, place)
        if rule.text:
            mark = {**_TEXT, "align": "right", "baseline": "bottom", "dy": -3, "dx": -2}
            yield _layer([asdict(rule)], mark, place | {"x": {"value": "width"}, "text": {"field": "text"}})


def _draw_points(points: Sequence[Point], look: Spec, chart: Chart, x: Spec, y: Spec) -> Iterator[Spec]:
    mark = {"type": "point", "filled": True, "size": 40, "opacity": 1.0, **look}
    yield _layer([asdict(point) for point in points], mark, _place(x, y))


def _write_labels(labels: Sequence[Label], look: Spec, chart: Chart, x: Spec, y: Spec) -> Iterator[Spec]:
    mark = {**_TEXT, "baseline": "bottom", "dy": -4}
    yield _layer([asdict(label) for label in labels], mark, _place(x, y) | {"text": {"field": "text"}})


_LAYERS: dict[type[Mark], Callable[..., Iterator[Spec]]] = {
    Bar: _draw_bars, Line: _draw_lines, Rule: _draw_rules, Point: _draw_points, Label: _write_labels,
}  # fmt: skip


def _place(x: Spec, y: Spec) -> Spec:
    return {"x": {**x, "field": "x"}, "y": {**y, "field": "y"}}


def _layer(rows: Sequence[Spec], mark: Spec, encoding: Spec) -> Spec:
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": encoding}


# ---------------------------------------------------------------- what stands beside rows


def _list_rows(chart: Chart) -> list[Spec]:
    return [{"y": at, "y2": at + 1, "middle": at + 0.5, **asdict(row)} for at, row in enumerate(chart.rows)]


def _highlight_rows(chart: Chart, y: Spec) -> Iterator[Spec]:
    """Yield the tint behind highlighted rows, and the sign beside each row: whether it meets the preference."""
    picked = [row for row in _list_rows(chart) if row["mark"]]
    signed = [{**row, "sign": SIGNS[row["look"]][0]} for row in _list_rows(chart) if row["look"] in SIGNS]
    if picked:
        tint = {"condition": {"test": "datum.mark == 'selected'", "value": NEUTRAL}, "value": MEETS}
        across = {"x": {"value": -22 if signed else 0}, "x2": {"value": chart.width + 198}, "fill": tint}
        mark = {"type": "rect", "opacity": 0.14, "cornerRadius": 3}
        yield _layer(picked, mark, {"y": {**y, "field": "y"}, "y2": {"field": "y2"}, **across})
    if signed:
        words, shapes = map(list, zip(*SIGNS.values(), strict=True))
        legend = {
            "orient": "bottom", "direction": "horizontal", "title": None, "symbolSize": 90, "offset": 14,
            "labelLimit": 0,
        }  # fmt: skip
        field = {"field": "sign", "type": "nominal", "legend": legend}
        colour = {**field, "scale": {"domain": words, "range": [_LOOKS[look]["color"] for look in SIGNS]}}
        shape = {**field, "scale": {"domain": words, "range": shapes}}
        mark = {"type": "point", "filled": True, "size": 72, "opacity": 1, "tooltip": False}
        place = {"x": {"value": -12}, "y": {**y, "field": "middle"}}
        yield _layer(signed, mark, {**place, "color": colour, "shape": shape})


def _write_beside(chart: Chart, y: Spec) -> Iterator[Spec]:
    """Yield the numbers on the right of the rows under their heading, and the words that highlight some of them."""
    if not chart.beside:
        return
    at, place = chart.width + 62, {"y": {**y, "field": "middle"}}
    right, bold = {**_TEXT, "align": "right"}, {**_TEXT, "align": "left", "fontWeight": "bold"}
    rows, heading = _list_rows(chart), {**right, "fontSize": 10, "color": NEUTRAL, "baseline": "bottom"}
    yield _layer(rows, right, {**place, "x": {"value": at}, "text": {"field": "beside"}})
    yield _layer(rows, bold, {**place, "x": {"value": at + 14}, "text": {"field": "mark"}})
    above = {"x": {"value": at}, "y": {"value": -3}, "text": {"field": "text"}}
    yield _layer([{"text": chart.beside}], heading, above)
