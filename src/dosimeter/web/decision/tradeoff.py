"""The trade-off between risk and accuracy, and the slider.

A row for each ε: a bar from the smallest to the largest RDR, and beside it the error that the analyst would get.
Takes candidates and what is marked among them; gives two charts with the same rows, of which a template puts each row
into a table, so that a page needs no second table of numbers; and positions in percent of the slider's width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dosimeter.risk import Candidate
from dosimeter.show import Axis, format_epsilon, order_candidates, ratio_axis, row_axis
from dosimeter.show.charts import (
    Bar,
    Chart,
    Line,
    Look,
    Mark,
    Point,
    Rule,
    range_chart,
    turn_inwards,
)
from dosimeter.web.decision.accuracy import ColumnError
from dosimeter.web.decision.form import DecisionForm
from dosimeter.web.decision.offer import Offer

MOST_ROWS = 14  # with so few candidates, none are folded
WINDOW = 1  # candidates on each side of those that matter
LEAST_FOLDED = 3
NEAR = 34.0  # marks of the slider that are nearer than this, in percent, turn away from each other
EDGE, MARK_LETTER = 12.0, 3.2  # of the slider: where texts run inwards, and how wide a letter is, in percent
FOUND, CAUTIOUS, ENOUGH = "found", "at most 12.5 guesses", "as exact as asked"  # words beside candidates


@dataclass(frozen=True, slots=True)
class Tick:
    """A position on the slider, in percent of its width, and the text there.

    ``turn``: which part of the text is at the position, as in SVG: "start", "middle" or "end".
    """

    at: float
    text: str
    turn: str = "middle"


@dataclass(frozen=True, slots=True, repr=False)
class TradeOff:
    """The whole picture: rows, and the two charts that are drawn in them.

    ``rows``: candidates, and texts that stand for several of them: how many, and whether all or none meet the
    preference. ``places``: which row of the charts each ε has. ``marks``: words beside candidates, by ε. ``before``:
    ε's whose words stand left of the bar, which is on the right. ``errors``: of the drawn column, by ε. ``wanted``: the
    wanted error is drawn.
    """

    rows: tuple[Candidate | str, ...]
    places: Mapping[float, int]
    marks: Mapping[float, tuple[str, ...]]
    before: frozenset[float]
    people: Chart
    dots: Chart
    errors: Mapping[float, ColumnError]
    wanted: bool

    @property
    def varied(self) -> bool:
        """Return whether errors differ between groups, so that a dot is the typical one."""
        drawn = [self.errors[epsilon] for epsilon in self.places]
        return any(not each.too_few and each.typical != each.worst for each in drawn)

    @property
    def longest(self) -> int:
        """Return how many letters the longest of the drawn errors has."""
        return max(len(self.errors[epsilon].text) for epsilon in self.places)

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


# ---------------------------------------------------------------- people and errors


def draw_tradeoff(
    lines: Sequence[Candidate],
    axis: Axis,
    offer: Offer,
    form: DecisionForm,
    errors: Mapping[float, ColumnError],
    *,
    selected: float,
    marks: Mapping[float, tuple[str, ...]],
    wanted: float | None,
) -> TradeOff:
    """Return the picture of risk and error at each candidate, largest ε first.

    ``lines``: the candidates. ``axis``: of their bars. ``form``: whether to draw RDRs themselves, not multiples of the
    average, and whether to give each candidate a row of its own; otherwise, of more than 14 candidates, those that are
    alike share a row (``_fold``). ``errors``: the errors of the drawn column, by ε. ``marks``: words beside candidates,
    by ε. ``wanted``: the wanted error, unless the column's errors count rows.
    """
    ordered = order_candidates(lines)
    shown = _fold(ordered, offer, selected, marks) if len(ordered) > MOST_ROWS and not form.every else ordered
    drawn = [line for line in shown if isinstance(line, Candidate)]
    people = replace(range_chart(drawn, view="raw" if form.raw else "relative"), x=axis)
    dots = errors_chart({line.epsilon: errors[line.epsilon] for line in drawn}, wanted)
    return TradeOff(
        rows=tuple(shown),
        places={line.epsilon: place for place, line in enumerate(drawn)},
        marks=marks,
        before=frozenset(
            line.epsilon for line, bar in zip(drawn, people.bars, strict=True) if _is_on_the_right(bar, axis)
        ),
        people=people,
        dots=dots,
        errors=errors,
        wanted=any(isinstance(mark, Rule) for mark in dots.marks),
    )


def _is_on_the_right(bar: Bar, axis: Axis) -> bool:
    """Return whether a bar is in the right part of its row, so that the left part is empty."""
    return axis.position(bar.x) > 0.33 and axis.position(bar.x2) > 0.67


def errors_chart(errors: Mapping[float, ColumnError], wanted: float | None) -> Chart:
    """Return the chart of the 95 % error at each ε: a dot at the typical one, and a line from there to the worst.

    ``errors``: by ε. ``wanted``: the error that the analyst would like, drawn as a line down all rows.
    """
    drawn = [(place, each) for place, each in enumerate(errors.values()) if not each.too_few]
    sizes = [size for _, each in drawn for size in (each.typical, each.worst) if size is not None and size > 0.0]
    axis = ratio_axis([*sizes, *([wanted] if wanted else [])], ticks=5)
    marks: list[Mark] = [Rule(Look.LIMIT, x=wanted)] if sizes and wanted is not None else []
    for place, each in drawn:
        if each.typical is None:
            continue
        if each.worst is not None and each.worst != each.typical:
            marks.append(Line(((each.typical, place + 0.5), (each.worst, place + 0.5)), Look.PLAIN))
        marks.append(Point(each.typical, place + 0.5, Look.DROWNED if each.drowned else Look.PLAIN))
    names = [format_epsilon(epsilon) for epsilon in errors]
    return Chart(axis if sizes else replace(axis, ticks=()), row_axis(names), tuple(marks))


# ---------------------------------------------------------------- which candidates are folded


def _fold(
    ordered: Sequence[Candidate], offer: Offer, selected: float, marks: Mapping[float, tuple[str, ...]]
) -> list[Candidate | str]:
    """Return the candidates, with one text in place of each run of three or more that are alike (``_is_alike``).

    Never folded are:
    - candidates that are marked or selected;
    - candidates near an ε marked as found or cautious or, without such a mark, near the selected ε;
    - the largest candidate.
    """
    words = [marks.get(line.epsilon, ()) for line in ordered]
    here = {at for at, line in enumerate(ordered) if line.epsilon == selected}
    chief = {at for at, each in enumerate(words) if {FOUND, CAUTIOUS} & set(each)} or here
    near = {at for each in chief for at in range(each - WINDOW, each + WINDOW + 1)}
    matter = {0} | near | here | {at for at, each in enumerate(words) if each}
    found: list[Candidate | str] = []
    run: list[Candidate] = []
    for at, line in enumerate(ordered):
        if run and (at in matter or not _is_alike(line, run[-1], offer)):
            found += _close(run, offer)
            run = []
        if at in matter:
            found.append(line)
        else:
            run.append(line)
    return [*found, *_close(run, offer)]


def _is_alike(line: Candidate, other: Candidate, offer: Offer) -> bool:
    """Return whether both candidates meet the preference or neither does, and the account grants both or neither."""
    left = offer.remaining
    return line.satisfied == other.satisfied and (line.epsilon in left) == (other.epsilon in left)


def _close(run: Sequence[Candidate], offer: Offer) -> Sequence[Candidate | str]:
    if len(run) < LEAST_FOLDED:
        return run
    met = {True: "all meet it", False: "none meets it", None: "alike"}[run[0].satisfied]
    gone = "" if run[0].epsilon in offer.remaining else "; beyond the budget"
    return [f"{len(run)} more: {met}{gone}"]


# ---------------------------------------------------------------- the slider


def draw_scale(offer: Offer, marks: Sequence[tuple[float, str]]) -> SliderScale:
    """Return the slider's scale. ``marks``: ε's with their words, ascending; several words for one ε share a mark."""
    ordered = sorted(offer.candidates)
    step = 100.0 / max(1, len(ordered) - 1)
    places = {epsilon: round(at * step, 2) for at, epsilon in enumerate(ordered)}
    decades = {epsilon for epsilon in ordered if math.log10(epsilon).is_integer()}
    named = decades if len(decades) > 2 else {ordered[0], ordered[-1]}
    ticks = tuple(
        Tick(at, format_epsilon(epsilon) if epsilon in named else "", turn_inwards(at, 2.0))
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
        text, turn = " = ".join(merged[place]), turn_inwards(place, EDGE)
        if at > 0 and place - places[at - 1] < NEAR:
            turn = "start"
            if place + len(text) * MARK_LETTER > 100.0:
                text, turn = f"{found[-1].text}, {text}", "end"
                found[-1] = replace(found[-1], text="")
        elif turn == "middle" and at + 1 < len(places) and places[at + 1] - place < NEAR:
            turn = "end"
        found.append(Tick(place, text, turn))
    return tuple(found)
