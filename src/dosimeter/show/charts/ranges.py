"""The chart of one bar per candidate ε, from the least to the most exposed person. Takes candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from dosimeter.errors import OptionError
from dosimeter.risk import is_alike
from dosimeter.schema import PLAIN, Words
from dosimeter.show.axes import Axis, list_spans, range_axis, row_axis
from dosimeter.show.candidates import candidate_rows, order_candidates
from dosimeter.show.charts.chart import PRIVATE, Bar, Chart, Look, Mark, Row, Rule
from dosimeter.show.written_numbers import format_epsilon, format_number, format_range

if TYPE_CHECKING:
    from dosimeter.risk import Candidate

SELECTED, FOUND = "selected", "largest ε that meets it"
LOOKS = {None: Look.PLAIN, True: Look.MEETS, False: Look.FAILS}
SHARE = "least ÷ most"


def range_chart(
    candidates: Sequence[Candidate],
    *,
    view: Literal["relative", "raw"] = "relative",
    reading: float | None = None,
    selected: float | None = None,
    called: Words = PLAIN,
) -> Chart:
    """Return the chart of one bar per candidate ε, from the least to the most exposed person.

    The largest ε that meets the preference is marked, and so is ``selected`` if it is another one; a ``selected`` that
    is no candidate is refused. ``view``: multiples of the average RDR, or raw RDRs. ``reading``: draw a line between
    the candidates above the account's reading and the others (O2). ``called``: what people are called.
    """
    ordered, raw = order_candidates(candidates), view == "raw"
    if selected is not None and selected not in [c.epsilon for c in ordered]:
        raise OptionError(f"ε = {format_epsilon(selected)} is not among the candidates, so it cannot be marked.")
    found = max((c.epsilon for c in ordered if c.satisfied), default=None)
    marked = {selected: SELECTED} | {found: FOUND}
    axis, table = range_axis(ordered, raw=raw), candidate_rows(ordered)
    marks: list[Mark] = [] if raw else [Rule(Look.AVERAGE, x=1.0)]
    rows = []
    spans = list_spans(ordered, raw=raw)
    for place, (c, ends, cells) in enumerate(zip(ordered, spans, table["rows"], strict=True)):
        facts = dict(zip(table["columns"], cells, strict=True))
        low, high = (max(end, axis.low) for end in ends)
        words = f"{facts['least exposed, ×']} to {facts['most exposed, ×']} × the average"
        marks.append(Bar(low, high, place + 0.22, place + 0.78, LOOKS[c.satisfied], words))
        raws = ("RDR", f"{format_number(c.rdr.min, 4)} to {format_number(c.rdr.max, 4)}")
        rows.append(Row(LOOKS[c.satisfied], (*facts.items(), raws), facts[SHARE], marked.get(c.epsilon, "")))
    if reading is not None and reading > 0.0:
        above = sum(c.epsilon > reading for c in ordered)
        marks.append(Rule(Look.LIMIT, y=float(above), text=f"reading {format_number(reading, 4)}"))
    title, notes = _write_heading(ordered, axis, called, raw=raw)
    names = row_axis([format_epsilon(c.epsilon) for c in ordered])
    return Chart(
        title=title,
        notes=(*notes, PRIVATE),
        description=_describe(ordered, found, reading, called),
        table=table,
        x=axis,
        y=replace(names, title="ε (smaller: more noise)"),
        marks=tuple(marks),
        rows=tuple(rows),
        beside=SHARE,
        width=430,
        height=(17 if len(ordered) > 20 else 24) * len(ordered),
    )


def _write_heading(ordered: Sequence[Candidate], axis: Axis, called: Words, *, raw: bool) -> tuple[str, list[str]]:
    """Return the title, and sentences that say how to read the chart."""
    if is_alike(ordered):
        return "Everybody is equally exposed, at every ε", [
            "No bar has a length, whatever the noise. Equally exposed is not safe: RDR cannot help to choose ε here.",
            f"Look at what ε guarantees each {called.individual} (own ε).",
        ]
    if not raw:
        return f"From the least to the most exposed {called.individual}, at each ε", [
            f"Shorter bars are fairer: everyone looks more alike. 1 × is the average {called.individual}."
        ]
    notes = [f"Raw RDR compares {called.people} within one bar only; it is not a probability."]
    spreads = [c.rdr.max - c.rdr.min for c in ordered]
    if len(ordered) > 1 and max(spreads) - min(spreads) <= 1e-9 * max(c.rdr.max for c in ordered):  # R8
        note = f"Most minus least exposed is {format_number(spreads[0])} at every ε: under Laplace it never changes."
        notes.append(note)
        if axis.logarithmic:
            notes.append("On this log axis it only looks shorter where the level is higher.")
    return f"Raw RDR of the least and the most exposed {called.individual}, at each ε", notes


def _describe(ordered: Sequence[Candidate], found: float | None, reading: float | None, called: Words) -> str:
    first, last = ordered[0], ordered[-1]
    text = f"{len(ordered)} candidates. " + " ".join(
        f"At ε = {format_epsilon(c.epsilon)} {called.people} carry between "
        f"{' and '.join(format_range(*c.rdr.relative))} times the average {called.individual}'s RDR."
        for c in ((first, last) if len(ordered) > 1 else (first,))
    )
    if found is not None:
        text += f" The largest ε that meets the preference is {format_epsilon(found)}."
    elif any(c.satisfied is False for c in ordered):
        text += " No candidate meets the preference."
    return text if reading is None else f"{text} The odometer reads {format_number(reading, 4)}."
