"""Pictures that stand alone, in a file or a notebook: a specification with title and description. Gives Altair charts.

Every chart has a title, a description and its numbers as a table, kept in the chart's ``usermeta``. Altair is imported
when a chart is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from dosimeter.errors import OptionError
from dosimeter.risk import is_alike
from dosimeter.show.candidates import TextTable, candidate_rows, order_candidates
from dosimeter.show.charts.bins import bin_people, bin_rows, write_bins
from dosimeter.show.charts.specifications import (
    ALONE,
    SELECTED,
    Spec,
    Step,
    find_range_axis,
    histogram_spec,
    range_spec,
    staircase_spec,
)
from dosimeter.show.numbers import format_epsilon, format_number, format_range

if TYPE_CHECKING:
    import altair as alt

    from dosimeter.risk import Candidate, RDRs

WHY_PRIVATE = "drawn from private data, not covered by differential privacy."
PRIVATE = f"Controller only: {WHY_PRIVATE}"


def range_chart(
    candidates: Sequence[Candidate],
    *,
    view: Literal["relative", "raw"] = "relative",
    reading: float | None = None,
    selected: float | None = None,
) -> alt.LayerChart:
    """Draw one bar per candidate ε, from the least to the most exposed person.

    The largest ε that meets the preference is marked, and so is ``selected`` if it is another one; a ``selected`` that
    is no candidate is refused. ``view``: multiples of the average RDR, or raw RDRs. ``reading``: draw a line between
    the candidates above the account's reading and the others.
    """
    ordered, raw = order_candidates(candidates), view == "raw"
    if selected is not None and selected not in [c.epsilon for c in ordered]:
        raise OptionError(f"ε = {format_epsilon(selected)} is not among the candidates, so it cannot be marked.")
    found = max((c.epsilon for c in ordered if c.satisfied), default=None)
    marks = {} if selected is None else {selected: SELECTED}
    if found is not None:
        marks[found] = "largest ε that meets it"
    title, subtitle = _range_words(ordered, raw=raw)
    spec = range_spec(ordered, raw=raw, reading=reading, marks=marks)
    return _finish(spec, title, subtitle, _describe_ranges(ordered, found, reading), candidate_rows(ordered))


def _range_words(ordered: Sequence[Candidate], *, raw: bool) -> tuple[str, list[str]]:
    if is_alike(ordered):
        return "Everybody is equally exposed, at every ε", [
            "No bar has a length, whatever the noise. Equally exposed is not safe: RDR cannot help to choose ε here.",
            "Look at what ε guarantees each person (own ε).",
        ]
    if not raw:
        return "From the least to the most exposed person, at each ε", [
            "Shorter bars are fairer: everyone looks more alike. 1 × is the average person."
        ]
    subtitle = ["Raw RDR compares people within one bar only; it is not a probability."]
    spreads = [c.rdr.max - c.rdr.min for c in ordered]
    if len(ordered) > 1 and max(spreads) - min(spreads) <= 1e-9 * max(c.rdr.max for c in ordered):  # R8
        note = f"Most minus least exposed is {format_number(spreads[0])} at every ε: under Laplace it never changes."
        subtitle.append(note)
        if find_range_axis(ordered, raw=True).logarithmic:
            subtitle.append("On this log axis it only looks shorter where the level is higher.")
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


def histogram_chart(rdrs: RDRs, *, log_counts: bool = True, bins: int = 30) -> alt.LayerChart:
    """Draw how many people are how exposed at one ε. Show it below a ``range_chart``, which compares all candidates.

    ``log_counts``: draw heights on a logarithmic scale. ``bins``: how many bins there are at most.
    """
    binned = bin_people(rdrs, bins)
    title = f"How people compare at ε = {format_epsilon(rdrs.epsilon)}"
    subtitle = "The further right, the more exposed. 1 × is the average person."
    if len(binned) == 1:
        subtitle = "Everybody is equally exposed, which is not the same as safe: look at what ε guarantees each person."
    words = write_bins(binned)
    tallest = max(range(len(binned)), key=lambda place: binned[place].people)
    about = f"{rdrs.n:,} people at ε = {format_epsilon(rdrs.epsilon)}: {words[tallest]}"
    about += "." if tallest == len(binned) - 1 else f"; the most exposed are {words[-1]}."
    return _finish(histogram_spec(binned, log_counts=log_counts), title, [subtitle], about, bin_rows(binned))


def staircase_chart(
    entries: Sequence[tuple[str, float]], *, budget: float | None = None, by_time: bool = False
) -> alt.LayerChart:
    """Draw an account's reading after each of its entries, as a staircase. Refuse an account without entries.

    ``entries``: the name of each entry, or its time, and the reading after it. ``by_time``: the names are times, and
    the axis is time. ``budget``: drawn as a line.
    """
    if not entries:
        raise OptionError("The account has no entries yet, so there is no staircase to draw.")
    last = format_number(entries[-1][1], 4)
    rows = [[name, format_number(reading, 4)] for name, reading in entries]
    steps = [Step(place, name, reading) for place, (name, reading) in enumerate(entries, start=1)]
    return _finish(
        staircase_spec(steps, ALONE, budget=budget, by_time=by_time),
        f"The odometer reads {last}",
        ["Every answer adds its charge; nothing takes it back."],
        f"{len(entries)} entries; the odometer reads {last}.",
        {"columns": ["entry", "reading afterwards"], "rows": rows},
        "Controller only: a reading can depend on private data.",
    )


def _finish(
    spec: Spec, title: str, subtitle: Sequence[str], description: str, table: TextTable, private: str = PRIVATE
) -> alt.LayerChart:
    """Return the chart of a specification, with its title, its description, and the table behind it.

    ``private``: the sentence that says who may see the chart.
    """
    from dosimeter.show.charts.offline import OfflineChart

    heading = {
        "text": title, "subtitle": [*subtitle, private], "anchor": "start", "frame": "group", "fontSize": 15,
        "subtitleFontSize": 11.5, "subtitleColor": ALONE.neutral, "color": ALONE.ink, "offset": 16,
        "subtitlePadding": 5,
    }  # fmt: skip
    words = {"title": heading, "description": f"{title}. {description}", "usermeta": {"table": dict(table)}}
    return OfflineChart.from_dict(spec | words, validate=False)  # validated when it is written
