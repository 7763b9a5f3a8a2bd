"""A picture of the trade-off between risk and accuracy, and the slider.

The picture has a row for each ε: a bar from the smallest to the largest RDR, and beside it the error that the analyst
would get.
Takes candidates and what is marked among them; gives positions in percent of a picture's width. Templates draw them as
tables with small SVGs, so that a page needs no script to draw them and no second table of numbers, and uses its own
colours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dosimeter.risk import NO_ERROR, Candidate
from dosimeter.show import Axis, even_axis, format_epsilon, format_number, format_percent, format_range, ratio_axis
from dosimeter.show.charts import Bin, find_range_axis, write_bins
from dosimeter.web.decision.offer import Offer

MOST_ROWS = 14  # with so few candidates, none are folded
WINDOW = 3  # candidates on each side of those that matter
LEAST_FOLDED = 3
MOST_NUMBERED = 8  # bars of a histogram that all have their number above them
NEAR = 34.0  # marks of the slider that are nearer than this, in percent, turn away from each other
EDGE, MARK_LETTER = 12.0, 3.2  # of the slider: where texts run inwards, and how wide a letter is, in percent
MARGIN, APART, THINNEST = 3.0, 9.0, 0.3  # of axes, their numbers and bars, in percent
LETTER, NARROW_LETTER, SPACE = 2.6, 6.0, 1.5  # how wide a letter is, and the space between texts, in percent
FOUND, CAUTIOUS, ENOUGH = "found", "at most 12.5 guesses", "as exact as asked"  # words beside candidates


@dataclass(frozen=True, slots=True)
class Tick:
    """A position on an axis, in percent of its width, and the text there.

    ``turn``: which part of the text is at the position, as in SVG: "start", "middle" or "end". ``minor``: on a narrow
    window there is no room for the text.
    """

    at: float
    text: str
    turn: str = "middle"
    minor: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class ShownError:
    """The 95 % error of one column at one ε, as numbers and in words.

    ``typical`` and ``worst``: the median and the largest error of the groups; None if there is no bound on it.
    ``text``: the typical error in words. ``relative``: the typical relative error, such as "12 %"; "–" if it has none.
    ``drowned``: at least half of the numbers are no larger than their errors. Where half of the groups or more have too
    few people to tell, ``drowned`` is True, ``typical`` and ``worst`` are None, and ``text`` says so.
    """

    typical: float | None
    worst: float | None
    text: str
    relative: str
    drowned: bool


@dataclass(frozen=True, slots=True, repr=False)
class TradeRow:
    """The row of one ε: a bar for the RDRs, and a line for the error of the drawn column. Positions are in percent.

    The bar reaches from the least to the most exposed person: it starts at ``left`` and is ``width`` wide. The line
    reaches from the typical error (``at``) to the worst (``to``).
    ``index``: the place of ε among the candidates, from the smallest. ``meets``: whether it meets the preference.
    ``open``: the account grants it. ``marks``: words beside it. ``least`` and ``most``: the RDRs of the least and the
    most exposed, as multiples of the average. ``share``: least ÷ most exposed.
    """

    epsilon: str
    index: int
    selected: bool
    meets: bool | None
    open: bool
    marks: tuple[str, ...]
    left: float
    width: float
    least: str
    most: str
    share: str
    error: ShownError
    at: float | None
    to: float | None


@dataclass(frozen=True, slots=True)
class FoldedRow:
    """A row in place of several candidates. ``words``: how many, and whether all or none meet the preference."""

    words: str


@dataclass(frozen=True, slots=True, repr=False)
class TradeOff:
    """The whole picture: rows, and two axes on which positions are in percent.

    On the axis of people: ``ticks``, and ``average``, where the average person is; None if raw RDRs are drawn. On the
    axis of errors: ``errors``, its ticks, and ``wanted``, where the wanted error is. ``column``: whose errors are
    drawn. ``in_rows``: these errors count rows. ``varied``: they differ between groups.
    """

    rows: tuple[TradeRow | FoldedRow, ...]
    ticks: tuple[Tick, ...]
    average: float | None
    errors: tuple[Tick, ...]
    wanted: float | None
    column: str
    in_rows: bool
    varied: bool  # groups differ, so that a dot is the typical one

    def __repr__(self) -> str:
        return "TradeOff(redacted)"


@dataclass(frozen=True, slots=True)
class SliderScale:
    """What stands on the slider's scale: ticks, and marks above them. Positions are in percent.

    ``parts``: where account and preference allow ε, each as (left, width).
    """

    ticks: tuple[Tick, ...]
    parts: tuple[tuple[float, float], ...]
    marks: tuple[Tick, ...]


class Bar(NamedTuple):
    """One bar of a histogram: its position and size in percent, what it shows in words, and the number above it."""

    left: float
    width: float
    height: float
    words: str
    number: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """The histogram of everybody's RDR at one ε, as multiples of the average RDR.

    Where there are many bars, most have no number above them.
    """

    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]


# ---------------------------------------------------------------- people and errors


def draw_tradeoff(
    lines: Sequence[Candidate],
    errors: Mapping[float, ShownError],
    offer: Offer,
    *,
    selected: float,
    marks: Mapping[float, tuple[str, ...]],
    wanted: float | None,
    column: str,
    in_rows: bool,
    raw: bool,
    every: bool,
) -> TradeOff:
    """Return the picture of risk and error at each candidate, largest ε first.

    ``lines``: the candidates. ``errors``: the errors of the drawn ``column``, by ε. ``in_rows``: these errors count
    rows. ``marks``: words beside candidates, by ε. ``wanted``: the wanted error. ``raw``: draw RDRs themselves, not
    multiples of the average. ``every``: give each candidate a row of its own; otherwise, of more than 14 candidates,
    those that are alike share a row (``_fold``).
    """
    ordered = sorted(lines, key=lambda line: -line.epsilon)
    shown = _fold(ordered, offer, selected, marks) if len(ordered) > MOST_ROWS and not every else ordered
    drawn = [errors[line.epsilon] for line in shown if not isinstance(line, FoldedRow)]
    sizes = [size for each in drawn for size in (each.typical, each.worst) if size is not None and size > 0.0]
    people, noise = find_range_axis(ordered, raw=raw), ratio_axis([*sizes, *([wanted] if wanted else [])], ticks=5)
    places = {line.epsilon: len(ordered) - 1 - at for at, line in enumerate(ordered)}
    return TradeOff(
        rows=tuple(
            line
            if isinstance(line, FoldedRow)
            else TradeRow(
                **_draw_people(line, people, raw=raw),
                epsilon=format_epsilon(line.epsilon),
                index=places[line.epsilon],
                selected=line.epsilon == selected,
                meets=line.satisfied,
                open=line.epsilon in offer.remaining,
                marks=marks.get(line.epsilon, ()),
                error=errors[line.epsilon],
                at=_place(noise, errors[line.epsilon].typical),
                to=_place(noise, errors[line.epsilon].worst),
            )
            for line in shown
        ),
        ticks=_write_ticks(people),
        average=None if raw else _percent(people, 1.0),
        errors=_write_ticks(noise) if sizes else (),
        wanted=None if wanted is None or not sizes else _percent(noise, wanted),
        column=column,
        in_rows=in_rows,
        varied=any(each.typical != each.worst for each in drawn),
    )


def _draw_people(line: Candidate, axis: Axis, *, raw: bool) -> dict[str, Any]:
    """Return the fields of a TradeRow that are about its bar, which goes from the least to the most exposed person."""
    low, high = (line.rdr.min, line.rdr.max) if raw else line.rdr.relative
    left, right = _percent(axis, low), _percent(axis, high)
    if right - left < THINNEST:
        left, right = (left + right - THINNEST) / 2.0, (left + right + THINNEST) / 2.0
    least, most = format_range(*line.rdr.relative)
    share = format_percent(line.rdr.ratio)
    return {"left": round(left, 2), "width": round(right - left, 2), "least": least, "most": most, "share": share}


def _place(axis: Axis, size: float | None) -> float | None:
    return None if size is None else _percent(axis, size)


def _percent(axis: Axis, value: float) -> float:
    """Return where a value lies on a picture, in percent of its width, with a margin at both ends."""
    return round(MARGIN + (100.0 - 2.0 * MARGIN) * axis.position(value), 2)


def _write_ticks(axis: Axis) -> tuple[Tick, ...]:
    """Return the ticks of an axis that have room for their numbers; near its ends their texts run inwards."""
    found: list[Tick] = []
    chief: list[Tick] = []
    for value in axis.ticks:
        at = _percent(axis, value)
        tick = Tick(at, f"{value:,.0f}" if value >= 1000 else f"{value:.6g}", _turn_inwards(at, 4.0))
        if found and at - found[-1].at < max(APART, _find_room(found[-1], tick, LETTER)):
            continue
        if chief and at - chief[-1].at < _find_room(chief[-1], tick, NARROW_LETTER):
            found.append(replace(tick, minor=True))
            continue
        found.append(tick)
        chief.append(tick)
    return tuple(found)


def _find_room(left: Tick, right: Tick, letter: float) -> float:
    """Return how far apart two ticks must be for their texts. ``letter``: the width of a letter, in percent."""
    return (len(left.text) + len(right.text)) / 2.0 * letter + SPACE


def _turn_inwards(at: float, edge: float) -> str:
    return "start" if at < edge else "end" if at > 100.0 - edge else "middle"


# ---------------------------------------------------------------- which candidates are folded


def _fold(
    ordered: Sequence[Candidate], offer: Offer, selected: float, marks: Mapping[float, tuple[str, ...]]
) -> list[Candidate | FoldedRow]:
    """Return the candidates, with one FoldedRow in place of each run of three or more that are alike (``_is_alike``).

    Never folded are:
    - candidates that are marked or selected;
    - candidates near an ε marked as found or cautious or, without such a mark, near the selected ε;
    - powers of ten (1, 0.1 …) that are larger than the smallest candidate kept by the two rules above.
    """
    words = [marks.get(line.epsilon, ()) for line in ordered]
    here = {at for at, line in enumerate(ordered) if line.epsilon == selected}
    chief = {at for at, each in enumerate(words) if {FOUND, CAUTIOUS} & set(each)} or here
    near = {at for each in chief for at in range(each - WINDOW, each + WINDOW + 1)}
    matter = near | here | {at for at, each in enumerate(words) if each}
    decades = {at for at, line in enumerate(ordered) if at < max(matter) and math.log10(line.epsilon).is_integer()}
    found: list[Candidate | FoldedRow] = []
    run: list[Candidate] = []
    for at, line in enumerate(ordered):
        if run and (at in matter | decades or not _is_alike(line, run[-1], offer)):
            found += _close(run, offer, larger=at <= min(chief))
            run = []
        if at in matter | decades:
            found.append(line)
        else:
            run.append(line)
    return [*found, *_close(run, offer, larger=False)]


def _is_alike(line: Candidate, other: Candidate, offer: Offer) -> bool:
    """Return whether both candidates meet the preference or neither does, and the account grants both or neither."""
    left = offer.remaining
    return line.satisfied == other.satisfied and (line.epsilon in left) == (other.epsilon in left)


def _close(run: Sequence[Candidate], offer: Offer, *, larger: bool) -> Sequence[Candidate | FoldedRow]:
    if len(run) < LEAST_FOLDED:
        return run
    met = {True: "all meet it", False: "none meets it", None: "alike"}[run[0].satisfied]
    gone = "" if run[0].epsilon in offer.remaining else "; beyond the budget"
    return [FoldedRow(f"{len(run)} {'larger' if larger else 'smaller'} ε, {met}{gone}")]


# ---------------------------------------------------------------- the slider


def draw_scale(offer: Offer, marks: Sequence[tuple[float, str]]) -> SliderScale:
    """Return the slider's scale. ``marks``: ε's with their words, ascending; several words for one ε share a mark."""
    ordered = sorted(offer.candidates)
    step = 100.0 / max(1, len(ordered) - 1)
    places = {epsilon: round(at * step, 2) for at, epsilon in enumerate(ordered)}
    decades = {epsilon for epsilon in ordered if math.log10(epsilon).is_integer()}
    named = decades if len(decades) > 2 else {ordered[0], ordered[-1]}
    ticks = tuple(
        Tick(at, format_epsilon(epsilon) if epsilon in named else "", _turn_inwards(at, 2.0))
        for epsilon, at in places.items()
    )
    merged: dict[float, list[str]] = {}
    for epsilon, word in marks:
        merged.setdefault(places[epsilon], []).append(word)
    return SliderScale(ticks, _find_parts(ordered, offer, step), _turn_apart(merged))


def _find_parts(ordered: Sequence[float], offer: Offer, step: float) -> tuple[tuple[float, float], ...]:
    """Return the parts of the slider where account and preference allow ε, as (left, width) in percent.

    A part reaches half a step beyond its first and last candidate. ``step``: from one candidate to the next, in
    percent.
    """
    parts: list[list[float]] = []
    for at, epsilon in enumerate(ordered):
        if epsilon not in offer.remaining or (offer.choice is not None and epsilon not in offer.meeting):
            continue
        left, right = max(0.0, (at - 0.5) * step), min(100.0, (at + 0.5) * step)
        if parts and left - parts[-1][1] < 1e-9:
            parts[-1][1] = right
        else:
            parts.append([left, right])
    return tuple((round(left, 2), round(right - left, 2)) for left, right in parts)


def _turn_apart(merged: Mapping[float, Sequence[str]]) -> tuple[Tick, ...]:
    """Return the marks above the slider, with texts that do not cover each other.

    Of two marks close together, the left one has its text on its left, the right one on its right. If the right text
    has no room there, the right mark gets both texts, on its left. At the ends of the slider, texts run inwards.
    ``merged``: the words at each position, in percent.
    """
    places = sorted(merged)
    found: list[Tick] = []
    for at, place in enumerate(places):
        text, turn = " = ".join(merged[place]), _turn_inwards(place, EDGE)
        if at > 0 and place - places[at - 1] < NEAR:
            turn = "start"
            if place + len(text) * MARK_LETTER > 100.0:
                text, turn = f"{found[-1].text}, {text}", "end"
                found[-1] = replace(found[-1], text="")
        elif turn == "middle" and at + 1 < len(places) and places[at + 1] - place < NEAR:
            turn = "end"
        found.append(Tick(place, text, turn))
    return tuple(found)


# ---------------------------------------------------------------- everybody at one ε


def draw_histogram(bins: Sequence[Bin], people: int, *, linear: bool) -> Histogram:
    """Return the histogram. ``people``: how many there are in all; a bar of all of them is as high as the picture.

    Heights are logarithmic unless ``linear``. A bar of a single person can still be seen.
    """
    ends = (bins[0].start, bins[-1].end) if len(bins) > 1 else (0.9, 1.1)
    wide = ends[0] > 0.0 and ends[1] / ends[0] > 20.0
    axis = ratio_axis(ends) if wide else even_axis(*ends)
    bars = []
    tallest = max(bins, key=lambda held: held.people)
    for held, words in zip(bins, write_bins(bins), strict=True):
        left, right = _percent(axis, held.start), _percent(axis, held.end)
        share = held.people / people if linear else math.log1p(held.people) / math.log1p(people)
        number = f"{held.people:,}" if len(bins) <= MOST_NUMBERED or held in (tallest, bins[-1]) else ""
        bars.append(Bar(left, max(0.4, round(right - left, 2)), round(max(0.5, 100.0 * share), 2), words, number))
    return Histogram(tuple(bars), _write_ticks(axis))


# ---------------------------------------------------------------- errors in words


def write_error(typical: float | None, worst: float | None, *, in_rows: bool) -> str:
    """Write a 95 % error: the ``typical`` one, or else the ``worst``, as in "± 12"; "no bound" if both are None.

    ``in_rows``: the error says by how many rows a rank is off, because the column is drawn by rank (E3).
    """
    size = worst if typical is None else typical
    if size is None:
        return NO_ERROR
    return f"± {math.ceil(size):,} rows" if in_rows else f"± {format_number(size)}"
