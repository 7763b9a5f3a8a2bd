"""Vega-Lite specifications for the pages. Plain dictionaries: quick to make, and their data can be replaced in place.

The same colours, digits, order and axes as ``dosimeter.show.charts``. Widths follow the page; texts and tables are
part of the page itself. Two colours are written as "INK" and "FAINT": the page fills them in for light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dosimeter.risk import Candidate
from dosimeter.show import (
    Axis,
    even_axis,
    format_epsilon,
    format_errors,
    format_number,
    format_percent,
    format_range,
    order_candidates,
    ratio_axis,
)
from dosimeter.show.charts import Bin
from dosimeter.web.figures import count_decimals, write_bins

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
MEETS_WORDS, FAILS_WORDS, PLAIN_WORDS = "meets the preference", "does not meet it", "no preference"
TICK = "M-1,0.05L-0.65,-0.3L-0.25,0.1L0.65,-0.8L1,-0.45L-0.25,0.8Z"
CROSS = "M-0.8,-0.5L-0.5,-0.8L0,-0.3L0.5,-0.8L0.8,-0.5L0.3,0L0.8,0.5L0.5,0.8L0,0.3L-0.5,0.8L-0.8,0.5L-0.3,0Z"
DISC = "circle"
FITTING = {"type": "fit-x", "contains": "padding"}


def range_rows(lines: Sequence[Candidate], *, raw: bool, remaining: Sequence[float]) -> list[dict[str, Any]]:
    """Return the data of the range chart: one bar per candidate, largest ε first."""
    allowed = set(remaining)
    rows = []
    for line in order_candidates(lines):
        low, high = (line.rdr.min, line.rdr.max) if raw else line.rdr.relative
        least, most = format_range(*line.rdr.relative)
        state = PLAIN_WORDS if line.satisfied is None else (MEETS_WORDS if line.satisfied else FAILS_WORDS)
        rows.append(
            {
                "epsilon": format_epsilon(line.epsilon),
                "low": low,
                "high": high,
                "least": f"{least} ×",
                "most": f"{most} ×",
                "share": format_percent(line.rdr.ratio),
                "error": format_errors(line),
                "state": state,
                "left": "available" if line.epsilon in allowed else "not left by the account",
                "open": line.epsilon in allowed,
            }
        )
    return rows


def range_spec(rows: Sequence[dict[str, Any]], *, raw: bool, reading: float) -> dict[str, Any]:
    """Return the range chart: from the least to the most exposed person at each ε. ``selected`` is its parameter."""
    spans = [float(row[end]) for row in rows for end in ("low", "high")]
    axis = ratio_axis([*spans, 1.0]) if not raw else find_raw_axis(rows)
    drawn = [{**row, "low": max(row["low"], axis.low), "high": max(row["high"], axis.low)} for row in rows]
    order = [row["epsilon"] for row in rows]
    sign = "" if raw else " + ' ×'"
    y = {
        "field": "epsilon", "type": "ordinal", "sort": order, "scale": {"paddingInner": 0.3, "paddingOuter": 0.25},
        "axis": {
            "title": "ε (smaller: more noise)", "ticks": False, "domain": False, "labelPadding": 26,
            "labelOverlap": False,
        },
    }  # fmt: skip
    x = {
        "field": "low", "type": "quantitative",
        "scale": {"type": "log" if axis.logarithmic else "linear", "domain": [axis.low, axis.high], "nice": False,
                  **({} if axis.logarithmic else {"zero": False})},
        "axis": {
            "title": ("RDR" if raw else "× the average person") + (" (log scale)" if axis.logarithmic else ""),
            "values": list(axis.ticks), "grid": True,
            "labelExpr": f"format(datum.value, datum.value >= 1000 ? ',.0f' : '.6~g'){sign}", "labelOverlap": True,
        },
    }  # fmt: skip
    domain = [MEETS_WORDS, FAILS_WORDS, PLAIN_WORDS]
    colour = {
        "field": "state", "type": "nominal", "legend": None,
        "scale": {"domain": domain, "range": ["MEETS", "FAILS", "MUTED"]},
    }  # fmt: skip
    shape = {**colour, "scale": {"domain": domain, "range": [TICK, CROSS, DISC]}}
    tips = [
        {"field": name, "type": "nominal", "title": title}
        for name, title in (
            ("epsilon", "ε"), ("least", "least exposed"), ("most", "most exposed"), ("share", "least ÷ most"),
            ("error", "95 % error"), ("state", "preference"), ("left", "account"),
        )
    ]  # fmt: skip
    layers: list[dict[str, Any]] = [
        {
            "transform": [{"filter": "datum.epsilon == selected"}],
            "mark": {"type": "rect", "opacity": 0.16, "color": "MEETS", "cornerRadius": 3},
            "encoding": {"y": y, "x": {"value": -22}, "x2": {"value": "width"}},
        },
        {
            "mark": {"type": "bar", "cornerRadius": 1.5, "strokeWidth": 1.5},
            "encoding": {
                "y": y, "x": x, "x2": {"field": "high"}, "color": colour, "stroke": colour, "tooltip": tips,
                "opacity": {"condition": {"test": "datum.open", "value": 1}, "value": 0.35},
            },
        },
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1, "tooltip": False},
            "encoding": {"y": y, "x": {"value": -12}, "color": colour, "shape": shape},
        },
    ]  # fmt: skip
    if not raw:
        layers.insert(
            1, {"mark": {"type": "rule", "color": "INK", "strokeWidth": 1.2}, "encoding": {"x": {"datum": 1}}}
        )
    layers += _reading_layers(rows, reading, y)
    return {
        "$schema": SCHEMA, "width": "container", "height": round(17 * (len(rows) + 0.2)), "autosize": FITTING,
        "params": [{"name": "selected", "value": ""}],
        "data": {"name": "candidates", "values": drawn}, "layer": layers, "config": CONFIG,
    }  # fmt: skip


def find_raw_axis(rows: Sequence[dict[str, Any]]) -> Axis:
    """Return a linear axis from 0 if the shortest bar is still visible on it (R8); otherwise a logarithmic one."""
    spans = [float(row[end]) for row in rows for end in ("low", "high")]
    shortest = min(row["high"] - row["low"] for row in rows)
    return even_axis(0.0, max(spans)) if shortest > 0.02 * max(spans) else ratio_axis(spans)


def _reading_layers(rows: Sequence[dict[str, Any]], reading: float, y: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the layers that mark ε_c: a dashed line below the last candidate that is larger than the reading (O2)."""
    if reading <= 0.0:
        return []
    larger = [row["epsilon"] for row in rows if float(row["epsilon"]) > reading]
    place = {**y, "bandPosition": 1 if larger else 0}
    text = "reading ∞" if math.isinf(reading) else f"reading {format_number(reading, 4)}"
    data = {"values": [{"epsilon": larger[-1] if larger else rows[0]["epsilon"], "text": text}]}
    return [
        {
            "data": data,
            "mark": {"type": "rule", "color": "INK", "strokeDash": [5, 3], "strokeWidth": 1.2, "yOffset": 2.5},
            "encoding": {"y": place, "x": {"value": 0}, "x2": {"value": "width"}},
        },
        {
            "data": data,
            "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": 1, "color": "INK", "fontSize": 11},
            "encoding": {"y": place, "x": {"value": "width"}, "text": {"field": "text"}},
        },
    ]


def bin_rows(bins: Sequence[Bin]) -> list[dict[str, Any]]:
    """Return the histogram's data. The last bin is labelled, and the tallest one too where both labels can be read.

    The last bin's label stands to its left, so it is raised above the bars that are there.
    """
    words = write_bins(bins)
    tallest = max(range(len(bins)), key=lambda place: bins[place].people)
    middle = (bins[0].start + bins[-1].end) / 2
    under = max(held.people for held in bins if held.end > middle)
    apart = math.log10(bins[tallest].people + 1) - math.log10(under + 1) > 0.15 * math.log10(bins[tallest].people + 1)
    rows = []
    for place, held in enumerate(bins):
        last = place == len(bins) - 1
        shown = last or (place == tallest and apart and bins[tallest].end < middle)
        right = last and len(bins) > 1
        raised = under if right else held.people
        rows.append(
            {
                "start": held.start, "end": held.end, "people": held.people, "level": math.log10(held.people + 1),
                "words": words[place], "label": words[place] if shown else "",
                "align": "right" if right else "left", "place": held.end if right else held.start,
                "top_people": raised, "top_level": math.log10(raised + 1),
            }
        )  # fmt: skip
    return rows


def bin_digits(bins: Sequence[Bin]) -> int:
    """Return how many decimals the histogram's axis needs, so that no two ticks read the same."""
    return count_decimals(bins[0].start, bins[-1].end)


def histogram_spec(rows: Sequence[dict[str, Any]], *, people: int, log_counts: bool, digits: int = 4) -> dict[str, Any]:
    """Return the histogram: how many people have how much RDR at one ε.

    The page replaces its data when the slider moves; its height stays the same.
    """
    powers = [10**power for power in range(len(str(people)))]
    y: dict[str, Any] = {
        "field": "people", "type": "quantitative",
        "axis": {"title": "people", "format": "~s", "tickCount": 5},
        "scale": {"domain": [0, people * 1.2], "nice": False},
    }  # fmt: skip
    if log_counts:  # log(1 + people): zero people have no bar, one person has a visible one
        ticks = [0.0, *(math.log10(power + 1) for power in powers)]
        label = "format(round(pow(10, datum.value) - 1), '~s')"
        y |= {
            "field": "level", "axis": {"title": "people (log scale)", "values": ticks, "labelExpr": label},
            "scale": {"domain": [0, math.log10(people + 1) * 1.2], "nice": False},
        }  # fmt: skip
    x = {
        "field": "start", "type": "quantitative", "scale": {"zero": False, "nice": True, "padding": 6},
        "axis": {
            "title": "× the average person", "grid": False, "tickCount": 6, "labelOverlap": True,
            "labelExpr": "format(datum.value, datum.value >= 100 ? ',.0f' : '.' + digits + '~f') + ' ×'",
        },
    }  # fmt: skip
    bars = {
        "mark": {"type": "bar", "color": "MUTED", "stroke": "MUTED", "strokeWidth": 1},
        "encoding": {
            "x": x, "x2": {"field": "end"}, "y": y, "y2": {"datum": 0},
            "tooltip": [{"field": "words", "type": "nominal", "title": "who"}],
        },
    }  # fmt: skip
    names = {
        "transform": [{"filter": "datum.label != ''"}],
        "mark": {
            "type": "text", "align": {"expr": "datum.align"}, "baseline": "bottom", "dy": -4, "color": "INK",
            "fontSize": 11.5, "fontWeight": "bold",
        },
        "encoding": {
            "x": {**x, "field": "place"}, "y": {**y, "field": f"top_{y['field']}"}, "text": {"field": "label"},
        },
    }  # fmt: skip
    return {
        "$schema": SCHEMA, "width": "container", "height": 200, "autosize": FITTING,
        "params": [{"name": "digits", "value": digits}],
        "data": {"name": "bins", "values": list(rows)}, "layer": [bars, names], "config": CONFIG,
    }  # fmt: skip


def staircase_spec(steps: Sequence[tuple[str, float]], budget: float | None = None) -> dict[str, Any]:
    """Return the chart of the reading after each entry; an infinite reading is drawn at the top (O1).

    The budget is a line, unless it is far above the readings.
    """
    finite = max((reading for _, reading in steps if math.isfinite(reading)), default=1.0) or 1.0
    line = budget if budget is not None and finite / 1.3 <= budget <= 12 * finite else None
    finite = max(finite, line or 0.0)
    top = finite * (1.3 if any(math.isinf(reading) for _, reading in steps) else 1.15)
    places = list(range(1, len(steps) + 1, 1 + len(steps) // 20))
    rows = [{"place": 0, "reading": 0.0, "text": ""}]
    rows += [
        {"place": place, "entry": label, "reading": min(reading, top), "text": format_number(reading, 4)}
        for place, (label, reading) in enumerate(steps, start=1)
    ]
    rows.append({"place": len(steps) + 1, "reading": min(steps[-1][1], top), "text": ""})
    x = {
        "field": "place", "type": "quantitative", "scale": {"domain": [0, len(steps) + 1], "nice": False},
        "axis": {"title": "entries of the ledger, in order", "values": places, "format": "d", "grid": False},
    }  # fmt: skip
    y = {
        "field": "reading", "type": "quantitative", "scale": {"domain": [0, top], "nice": False},
        "axis": {"title": "reading, ε", "tickCount": 5},
    }  # fmt: skip
    limits: list[dict[str, Any]] = []
    if line is not None:
        limit = {"values": [{"reading": line, "text": f"budget {format_number(line, 4)}"}]}
        limits = [
            {"data": limit, "mark": {"type": "rule", "color": "INK", "strokeDash": [5, 3], "strokeWidth": 1.2},
             "encoding": {"y": y}},
            {"data": limit,
             "mark": {"type": "text", "align": "right", "baseline": "bottom", "dy": -3, "dx": -2, "color": "INK",
                      "fontSize": 11},
             "encoding": {"y": y, "x": {"value": "width"}, "text": {"field": "text"}}},
        ]  # fmt: skip
    return {
        "$schema": SCHEMA, "width": "container", "height": 220, "autosize": FITTING,
        "data": {"values": rows}, "config": CONFIG,
        "layer": [
            *limits,
            {"mark": {"type": "area", "interpolate": "step-after", "color": "MEETS", "opacity": 0.14},
             "encoding": {"x": x, "y": y}},
            {"mark": {"type": "line", "interpolate": "step-after", "color": "MEETS", "strokeWidth": 2.5},
             "encoding": {"x": x, "y": y}},
            {"transform": [{"filter": "datum.text != ''"}],
             "mark": {
                 "type": "text", "align": "left", "baseline": "bottom", "dx": 4, "dy": -5, "color": "INK",
                 "fontSize": 11,
             },
             "encoding": {"x": x, "y": y, "text": {"field": "text"}}},
        ],
    }  # fmt: skip


CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "INK", "titleColor": "INK", "titleFontWeight": "normal", "gridColor": "FAINT",
        "domainColor": "FAINT", "tickColor": "FAINT", "labelFontSize": 12, "titleFontSize": 12, "titlePadding": 8,
    },
}  # fmt: skip
