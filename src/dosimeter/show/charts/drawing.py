"""Draw what the controller sees. Takes plain values (candidates, RDRs, readings); gives Altair charts.

Nothing here computes a risk, opens data or touches the network. Three rules hold for every chart:

- Colour never stands alone: Okabe–Ito colours come with a tick or a cross, drawn as shapes so that no font is needed.
- Every chart has words (title, description) and its numbers as a table, kept in the chart's ``usermeta``.
- Candidates run from the largest ε to the smallest, top to bottom, here and on the terminal.

RDRs are shown relative to their mean, "× the average person" (R8), on a logarithmic axis: there the length of a bar is
the ratio of the most to the least exposed person, and nothing else. Altair is imported when a chart is drawn.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dosimeter.errors import OptionError
from dosimeter.show.axes import Axis, even_axis, ratio_axis
from dosimeter.show.candidates import (
    FAILS,
    MEETS,
    TextTable,
    candidate_rows,
    format_errors,
    order_candidates,
)
from dosimeter.show.numbers import format_epsilon, format_number, format_percent, format_range, format_times

if TYPE_CHECKING:
    import altair as alt

    from dosimeter.risk import Candidate, RDRs

INK, NEUTRAL, FAINT = "#1f2937", "#6b7280", "#e5e7eb"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif"
WHY_PRIVATE = "drawn from private data, not covered by differential privacy."
PRIVATE = f"Controller only: {WHY_PRIVATE}"
MEETS_WORDS, FAILS_WORDS = "meets the preference", "does not meet it"
TICK = "M-1,0.05L-0.65,-0.3L-0.25,0.1L0.65,-0.8L1,-0.45L-0.25,0.8Z"
CROSS = "M-0.8,-0.5L-0.5,-0.8L0,-0.3L0.5,-0.8L0.8,-0.5L0.3,0L0.8,0.5L0.5,0.8L0,0.3L-0.5,0.8L-0.8,0.5L-0.3,0Z"


# ---------------------------------------------------------------- ranges over the candidates: the first picture


def range_chart(
    candidates: Sequence[Candidate],
    *,
    view: Literal["relative", "raw"] = "relative",
    reading: float | None = None,
    selected: float | None = None,
) -> alt.LayerChart:
    """Draw one bar per candidate ε, from the least to the most exposed person.

    The largest ε that meets the preference is marked, and ``selected`` where it is another one. ``reading`` draws the
    odometer's reading as a line between the candidates that are larger and those that are not.
    """
    import altair as alt

    ordered = order_candidates(candidates)
    epsilons = [c.epsilon for c in ordered]
    if selected is not None and selected not in epsilons:
        raise OptionError(f"ε = {format_epsilon(selected)} is not among the candidates, so it cannot be marked.")
    found = max((c.epsilon for c in ordered if c.satisfied), default=None)
    stated = any(c.satisfied is not None for c in ordered)
    rows = [_range_row(c, view, found, selected) for c in ordered]
    axis = _value_axis(rows, view)
    for row in rows:
        row["low"], row["high"] = max(row["low"], axis.low), max(row["high"], axis.low)

    width, step, order = 430, 17 if len(rows) > 20 else 24, [row["epsilon"] for row in rows]
    sign_at, share_at, label_at, end_at = width + 18, width + 76, width + 90, width + (212 if reading is None else 275)
    legend = alt.Legend(orient="bottom", direction="horizontal", title=None, symbolSize=90, offset=14, labelLimit=0)
    colours = alt.Scale(domain=[MEETS_WORDS, FAILS_WORDS], range=[MEETS, FAILS])
    shapes = alt.Scale(domain=[MEETS_WORDS, FAILS_WORDS], range=[TICK, CROSS])
    colour: Any = alt.Color("state:N", scale=colours, legend=legend) if stated else alt.value(NEUTRAL)
    tint: Any = alt.when("datum.mark == 'selected'").then(alt.value(NEUTRAL)).otherwise(alt.value(MEETS))
    y_axis = alt.Axis(title="ε (smaller: more noise)", labelOverlap=False, ticks=False, domain=False, labelPadding=8)
    y = alt.Y("epsilon:O", sort=order, scale=alt.Scale(paddingInner=0.28, paddingOuter=0.2), axis=y_axis)
    x = _value_encoding("low:Q", axis, "× the average person" if view == "relative" else "RDR", grid=True)
    tips = [alt.Tooltip(f"{field}:N", title=title) for field, title in _TIPS]

    data = alt.InlineData(values=rows)
    bars = alt.Chart(data).encode(y=y)
    marked = bars.transform_filter("datum.mark != ''")
    header = alt.Chart(alt.InlineData(values=[{"text": "least ÷ most"}])).encode(x=alt.value(share_at), y=alt.value(-3))
    layers: list[Any] = [
        marked.mark_rect(opacity=0.12, cornerRadius=3).encode(x=alt.value(0), x2=alt.value(end_at), fill=tint)
    ]
    if view == "relative":
        layers.append(alt.Chart(data).mark_rule(color=INK, strokeWidth=1.5).encode(x=alt.datum(1.0)))
    layers += [
        bars.mark_bar(strokeWidth=1.5, cornerRadius=1.5).encode(
            x=x, x2="high:Q", color=colour, stroke=colour, tooltip=tips
        ),
        bars.mark_text(align="right", fontSize=11, color=INK).encode(x=alt.value(share_at), text="share:N"),
        marked.mark_text(align="left", fontSize=11, fontWeight="bold", color=INK).encode(
            x=alt.value(label_at), text="mark:N"
        ),
        header.mark_text(align="right", fontSize=10, color=NEUTRAL, baseline="bottom").encode(text="text:N"),
    ]
    if stated:
        signs = bars.transform_filter("datum.state != ''").mark_point(filled=True, opacity=1, size=64)
        shape = alt.Shape("state:N", scale=shapes, legend=legend)
        layers.append(signs.encode(x=alt.value(sign_at), color=colour, shape=shape))
    if reading is not None:
        layers += _reading_rule(epsilons, order, reading, end_at, 0.14 * step)

    title, subtitle = _range_words(ordered, view, axis.logarithmic)
    chart = alt.layer(*layers).properties(width=width, height=alt.Step(step))
    return _finish(chart, title, subtitle, _describe_ranges(ordered, found, reading), candidate_rows(ordered))


_TIPS = (
    ("epsilon", "ε"),
    ("least", "least exposed"),
    ("most", "most exposed"),
    ("share", "least ÷ most"),
    ("noise", "noise scale"),
    ("error", "95 % error"),
)


def _value_encoding(field: str, axis: Axis, title: str, *, grid: bool) -> alt.X:
    """Return the horizontal axis of a chart, with our own ticks."""
    import altair as alt

    sign = "" if title == "RDR" else " + ' ×'"
    domain = [axis.low, axis.high]
    return alt.X(
        field,
        scale=alt.Scale(type="log", domain=domain, nice=False)
        if axis.logarithmic
        else alt.Scale(domain=domain, nice=False, zero=False),
        axis=alt.Axis(
            title=title + (" (log scale)" if axis.logarithmic else ""),
            values=list(axis.ticks),
            labelExpr="format(datum.value, datum.value >= 1000 ? ',.0f' : '.6~g')" + sign,
            grid=grid,
        ),
    )


def _range_row(candidate: Candidate, view: str, found: float | None, selected: float | None) -> dict[str, Any]:
    least, most = format_range(*candidate.rdr.relative)
    low, high = candidate.rdr.relative if view == "relative" else (candidate.rdr.min, candidate.rdr.max)
    mark = "largest ε that meets it" if candidate.epsilon == found else ""
    if candidate.epsilon == selected and not mark:
        mark = "selected"
    return {
        "epsilon": format_epsilon(candidate.epsilon),
        "low": low,
        "high": high,
        "least": f"{least} × (RDR {format_number(candidate.rdr.min, 4)})",
        "most": f"{most} × (RDR {format_number(candidate.rdr.max, 4)})",
        "share": format_percent(candidate.rdr.ratio),
        "noise": format_number(candidate.noise_scale),
        "error": format_errors(candidate),
        "state": "" if candidate.satisfied is None else (MEETS_WORDS if candidate.satisfied else FAILS_WORDS),
        "mark": mark,
    }


def _value_axis(rows: Sequence[Mapping[str, Any]], view: str) -> Axis:
    """Return a log axis for relative bars; for raw bars a linear one while the shortest can still be seen there."""
    spans = [float(row[end]) for row in rows for end in ("low", "high")]
    if view == "relative":
        return ratio_axis([*spans, 1.0])
    shortest = min(row["high"] - row["low"] for row in rows)
    return even_axis(0.0, max(spans)) if shortest > 0.02 * max(spans) else ratio_axis(spans)


def _reading_rule(epsilons: Sequence[float], order: Sequence[str], reading: float, end: int, gap: float) -> list[Any]:
    """Draw a dashed line below the last candidate that is still larger than the reading (O2)."""
    import altair as alt

    larger = [epsilon for epsilon in epsilons if epsilon > reading]
    place = alt.Y("epsilon:O", sort=list(order), bandPosition=1 if larger else 0)
    down = gap if larger else -gap  # half the space between two bars
    row = {
        "epsilon": format_epsilon(larger[-1] if larger else epsilons[0]),
        "text": f"reading {format_number(reading, 4)}",
    }
    chart = alt.Chart(alt.InlineData(values=[row])).encode(y=place)
    return [
        chart.mark_rule(color=INK, strokeDash=[5, 3], strokeWidth=1.2, yOffset=down).encode(
            x=alt.value(0), x2=alt.value(end)
        ),
        chart.mark_text(align="right", baseline="bottom", dy=down - 2, fontSize=10, color=INK).encode(
            x=alt.value(end), text="text:N"
        ),
    ]


def _range_words(ordered: Sequence[Candidate], view: str, logarithmic: bool) -> tuple[str, list[str]]:
    if all(c.rdr.ratio >= 1.0 - 1e-12 for c in ordered):
        return "Everybody is equally exposed, at every ε", [
            "No bar has a length, whatever the noise. Equally exposed is not safe: RDR cannot help to choose ε here.",
            "Look at what ε guarantees each person (own ε).",
        ]
    if view == "relative":
        return "From the least to the most exposed person, at each ε", [
            "Shorter bars are fairer: everyone looks more alike. 1 × is the average person."
        ]
    subtitle = ["Raw RDR compares people within one bar only; it is not a probability."]
    spreads = [c.rdr.max - c.rdr.min for c in ordered]
    if len(ordered) > 1 and max(spreads) - min(spreads) <= 1e-9 * max(c.rdr.max for c in ordered):  # R8
        note = f"Most minus least exposed is {format_number(spreads[0])} at every ε: under Laplace it never changes."
        subtitle += [
            note,
            *(["On this log axis it only looks shorter where the level is higher."] if logarithmic else []),
        ]
    return "Raw RDR of the least and the most exposed person, at each ε", subtitle


def _describe_ranges(ordered: Sequence[Candidate], found: float | None, reading: float | None) -> str:
    first, last = ordered[0], ordered[-1]
    text = f"{len(ordered)} candidates. " + " ".join(
        f"At ε = {format_epsilon(c.epsilon)} people carry between {' and '.join(format_range(*c.rdr.relative))} "
        "times the average person's RDR."
        for c in ((first, last) if len(ordered) > 1 else (first,))
    )
    if found is not None:
        text += f" The largest ε that meets the preference is {format_epsilon(found)}."
    elif any(c.satisfied is False for c in ordered):
        text += " No candidate meets the preference."
    return text if reading is None else f"{text} The odometer reads {format_number(reading, 4)}."


# ---------------------------------------------------------------- everybody at one ε: the second picture


@dataclass(frozen=True, slots=True)
class Bin:
    """People between two multiples of the average. ``least`` and ``most`` are multiples that somebody has."""

    start: float
    end: float
    people: int
    least: float
    most: float

    @property
    def words(self) -> str:
        who = "1 person" if self.people == 1 else f"{self.people:,} people"
        least, most = format_times(self.least), format_times(self.most)
        return f"{who} at {least} ×" if least == most else f"{who} from {least} to {most} ×"


def bin_people(rdrs: RDRs, bins: int = 30) -> tuple[Bin, ...]:
    """Count people per bin of "× the average person", empty bins left out. Wide spreads get bins of equal ratio."""
    if bins < 1:
        raise OptionError("A histogram needs at least one bin.")
    held = rdrs.counts > 0
    values, counts = rdrs.values[held], rdrs.counts[held]
    if counts.size == 0:
        raise OptionError("There is nobody to draw: the table declares no individuals.")
    mean = float(values @ counts) / float(counts.sum())
    relative = values / mean if mean > 0.0 else np.ones_like(values)
    low, high = float(relative.min()), float(relative.max())
    if high - low <= 1e-12 * high:
        return (Bin(low * 0.995, high * 1.005, int(counts.sum()), low, high),)
    edges = np.geomspace(low, high, bins + 1) if _is_wide(low, high) else np.linspace(low, high, bins + 1)
    index = np.clip(np.searchsorted(edges, relative, side="right") - 1, 0, bins - 1)
    found = []
    for place in np.unique(index):
        inside = relative[index == place]
        total = int(counts[index == place].sum())
        found.append(Bin(float(edges[place]), float(edges[place + 1]), total, float(inside.min()), float(inside.max())))
    return tuple(found)


def _is_wide(low: float, high: float) -> bool:
    return low > 0.0 and high / low > 20.0


def histogram_chart(rdrs: RDRs, *, log_counts: bool = True, bins: int = 30) -> alt.LayerChart:
    """Draw how many people are how exposed at one ε, with the tail named. Show ranges first, and never this alone."""
    import altair as alt

    binned = bin_people(rdrs, bins)
    low, high = binned[0].start, binned[-1].end
    ends = (low, high) if len(binned) > 1 else (0.9, 1.1)
    axis = ratio_axis(ends) if _is_wide(low, high) else even_axis(*ends)
    tallest, tail = max(binned, key=lambda b: b.people), binned[-1]
    rows = [{"start": b.start, "end": b.end, "people": b.people, "words": b.words} for b in binned]
    top = tallest.people
    y = alt.Y("people:Q", scale=_count_scale(top, log_counts), axis=_count_axis(top, log_counts))
    x = _value_encoding("start:Q", axis, "× the average person", grid=False)
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=y)
    layers: list[Any] = [
        base.mark_bar(color=NEUTRAL, stroke="white" if log_counts else NEUTRAL, strokeWidth=0.5).encode(
            x=x, x2="end:Q", y2=alt.datum(0), tooltip=[alt.Tooltip("words:N", title="who")]
        ),
        alt.Chart(alt.InlineData(values=[{"start": 1.0, "people": top}]))
        .mark_rule(color=INK, strokeWidth=1)
        .encode(x="start:Q", y="people:Q", y2=alt.datum(0)),
        *_histogram_labels(binned, tallest, tail, axis, y),
    ]
    title = f"How people compare at ε = {format_epsilon(rdrs.epsilon)}"
    subtitle = ["The further right, the more exposed. 1 × is the average person."]
    if len(binned) == 1:
        subtitle = [
            "Everybody is equally exposed, which is not the same as safe: look at what ε guarantees each person."
        ]
    table: TextTable = {"columns": ["× the average person", "people"], "rows": [_bin_cells(b) for b in binned]}
    chart = alt.layer(*layers).properties(width=560, height=240)
    words = f"{rdrs.n:,} people at ε = {format_epsilon(rdrs.epsilon)}: {tallest.words}"
    words += "." if tail is tallest else f"; the most exposed are {tail.words}."
    return _finish(chart, title, subtitle, words, table)


def _count_scale(top: int, log_counts: bool) -> alt.Scale:
    """Return a scale with space for two lines of words above the bars.

    symlog keeps 0 on the axis, and gives a single person a bar of their own.
    """
    import altair as alt

    if log_counts:
        return alt.Scale(type="symlog", constant=1, domain=[0, (top + 1) ** 1.16], nice=False)
    return alt.Scale(domain=[0, top * 1.18], nice=False)


def _count_axis(top: int, log_counts: bool) -> alt.Axis:
    import altair as alt

    if not log_counts:
        return alt.Axis(title="people", format=",d", tickMinStep=1, tickCount=6)
    powers = [10**power for power in range(len(str(top)))]
    return alt.Axis(title="people (log scale)", format=",d", values=[0, *powers])


def _histogram_labels(binned: Sequence[Bin], tallest: Bin, tail: Bin, axis: Axis, y: alt.Y) -> list[Any]:
    """Write words for the tallest bar and for the tail, set so that they cover neither a bar nor each other."""
    import altair as alt

    crowded = axis.position(tallest.start) > 0.6

    def write(
        held: Bin, height: int, lift: int, align: Literal["left", "right"], weight: Literal["normal", "bold"]
    ) -> list[Any]:
        place = held.start if align == "left" else held.end
        row: dict[str, Any] = {
            "start": place,
            "middle": (held.start + held.end) / 2,
            "people": height,
            "own": held.people,
        }
        row["label"] = held.words
        chart = alt.Chart(alt.InlineData(values=[row])).encode(y=y)
        words = chart.mark_text(align=align, baseline="bottom", dy=-4 - lift, fontSize=11, fontWeight=weight, color=INK)
        leader = chart.mark_rule(color=NEUTRAL, strokeWidth=0.75).encode(x="middle:Q", y="own:Q", y2="people:Q")
        return [*([leader] if height > held.people else []), words.encode(x="start:Q", text="label:N")]

    if tail is tallest:
        return write(tail, tail.people, 0, "right" if crowded else "left", "bold")
    above = max(b.people for b in binned if axis.position(b.end) > 0.6)
    most = write(tallest, tallest.people, 0, "right" if crowded else "left", "normal")
    return most + write(tail, above, 15 if crowded else 0, "right", "bold")


def _bin_cells(held: Bin) -> list[str]:
    least, most = format_times(held.least), format_times(held.most)
    return [least if least == most else f"{least} to {most}", f"{held.people:,}"]


# ---------------------------------------------------------------- the odometer


def staircase_chart(entries: Sequence[tuple[str, float]]) -> alt.LayerChart:
    """Draw what an account has spent after each of its entries: its reading.

    Where the reading becomes infinite (O1), the last step goes to the top of the chart.
    """
    import altair as alt

    if not entries:
        raise OptionError("The account has no entries yet, so there is no staircase to draw.")
    finite = max((reading for _, reading in entries if math.isfinite(reading)), default=1.0) or 1.0
    top = finite * (1.3 if any(math.isinf(reading) for _, reading in entries) else 1.12)
    rows: list[dict[str, Any]] = []
    before = 0.0
    for place, (label, reading) in enumerate(entries, start=1):
        shown = min(reading, top)
        text = format_number(reading, 4)
        rows.append({"place": place, "entry": label, "before": before, "reading": shown, "text": text})
        before = shown
    data = alt.InlineData(values=rows)
    width = min(640, max(240, 56 * len(rows)))
    names = json.dumps([label for label, _ in entries])
    fits = 6.5 * max(len(label) for label, _ in entries) < width / len(rows)
    x = alt.X(
        "place:O",
        scale=alt.Scale(paddingInner=0, paddingOuter=0.3),
        axis=alt.Axis(title=None, labelExpr=f"{names}[datum.value - 1]", labelLimit=140, labelAngle=0 if fits else -40),
    )
    y = alt.Y("reading:Q", scale=alt.Scale(domain=[0, top], nice=False), axis=alt.Axis(title="reading, ε", tickCount=6))
    base = alt.Chart(data).encode(x=x)
    tip = [alt.Tooltip("entry:N", title="entry"), alt.Tooltip("text:N", title="reading afterwards")]
    shown_text = "true" if len(rows) <= 14 else f"datum.place == {len(rows)}"
    layers: list[Any] = [
        base.mark_bar(color=MEETS, opacity=0.14).encode(y=y, tooltip=tip),
        base.mark_rule(color=MEETS, strokeWidth=2.5).encode(
            y=y, x=alt.X("place:O", bandPosition=0), x2=alt.X2("place", bandPosition=1)
        ),
        base.mark_rule(color=MEETS, strokeWidth=2.5, strokeCap="round").encode(
            x=alt.X("place:O", bandPosition=0), y=alt.Y("before:Q"), y2="reading:Q"
        ),
        base.transform_filter(shown_text)
        .mark_text(baseline="bottom", dy=-5, fontSize=11, color=INK)
        .encode(y=y, text="text:N"),
    ]
    last = format_number(entries[-1][1], 4)
    chart = alt.layer(*layers).properties(width=width, height=220)
    table: TextTable = {
        "columns": ["entry", "reading afterwards"],
        "rows": [[e, format_number(r, 4)] for e, r in entries],
    }
    words = f"{len(entries)} entries; the odometer reads {last}."
    subtitle = ["Every answer adds its charge; nothing takes it back."]
    return _finish(
        chart,
        f"The odometer reads {last}",
        subtitle,
        words,
        table,
        "Controller only: a reading can depend on private data.",
    )


# ---------------------------------------------------------------- finishing


def _finish(
    chart: Any, title: str, subtitle: Sequence[str], description: str, table: TextTable, private: str = PRIVATE
) -> alt.LayerChart:
    """Add the words, the table behind the chart, and the common style."""
    import altair as alt

    heading = alt.TitleParams(
        text=title, subtitle=[*subtitle, private], anchor="start", frame="group", fontSize=15, subtitleFontSize=11.5,
        subtitleColor=NEUTRAL, color=INK, offset=16, subtitlePadding=5,
    )  # fmt: skip
    words = {"title": heading, "description": f"{title}. {description}", "usermeta": {"table": dict(table)}}
    axes = {
        "labelColor": INK, "titleColor": NEUTRAL, "titleFontWeight": "normal", "gridColor": FAINT, "domainColor": FAINT,
        "tickColor": FAINT, "labelFontSize": 11, "titleFontSize": 11.5, "titlePadding": 8,
    }  # fmt: skip
    finished: alt.LayerChart = (
        chart.properties(**words)
        .configure(font=FONT, background="white", padding=14)
        .configure_axis(**axes)
        .configure_view(stroke=None)
        .configure_legend(labelFontSize=11.5, labelColor=INK)
    )
    return finished
