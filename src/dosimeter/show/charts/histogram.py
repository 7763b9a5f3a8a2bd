"""The histogram of everybody at one ε: people per bin of "× the average person". Takes RDRs; gives bins and a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.errors import OptionError
from dosimeter.schema import PLAIN, Words
from dosimeter.show.axes import count_axis, even_axis, ratio_axis
from dosimeter.show.candidates import TextTable
from dosimeter.show.charts.chart import PRIVATE, Bar, Chart, Label, Look, Rule, keep_apart
from dosimeter.show.written_numbers import count_decimals, format_epsilon, format_multiple

if TYPE_CHECKING:
    from dosimeter.risk import RDRs

SPACE = "\u00a0"  # keeps a number and its sign on one line
MOST_NUMBERED = 8  # bars that all have their number above them, where there is room


@dataclass(frozen=True, slots=True)
class Bin:
    """The people whose RDR lies between ``start`` and ``end`` times the average RDR.

    ``least`` and ``most``: the smallest and the largest multiple that somebody in the bin has.
    """

    start: float
    end: float
    people: int
    least: float
    most: float


def bin_people(rdrs: RDRs, bins: int = 30) -> tuple[Bin, ...]:
    """Return the histogram of everybody's RDR as a multiple of the average RDR; empty bins are left out.

    ``bins``: into how many bins the range of multiples is cut: equally wide ones, or of equal ratio if the largest
    multiple is over 20 times the smallest. There is one bin if everybody has the same RDR. Refuses RDRs of nobody, and
    ``bins`` below 1.
    """
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
    edges = np.geomspace(low, high, bins + 1) if is_wide(low, high) else np.linspace(low, high, bins + 1)
    index = np.clip(np.searchsorted(edges, relative, side="right") - 1, 0, bins - 1)
    found = []
    for place in np.unique(index):
        inside = relative[index == place]
        total = int(counts[index == place].sum())
        found.append(Bin(float(edges[place]), float(edges[place + 1]), total, float(inside.min()), float(inside.max())))
    return tuple(found)


def is_wide(low: float, high: float) -> bool:
    """Return whether ``high`` is over 20 times ``low``, so that bins of equal ratio and a logarithmic axis are needed.

    False if ``low`` is not positive.
    """
    return low > 0.0 and high / low > 20.0


def histogram_chart(rdrs: RDRs, *, log_counts: bool = True, bins: int = 30, called: Words = PLAIN) -> Chart:
    """Return the chart of how many people are how exposed at one ε. It stands below a ``range_chart``.

    ``log_counts``: draw heights on a logarithmic scale. ``bins``: how many bins there are at most.
    ``called``: what people are called.
    """
    return bins_chart(bin_people(rdrs, bins), rdrs.epsilon, log_counts=log_counts, called=called)


def bins_chart(bins: Sequence[Bin], epsilon: float, *, log_counts: bool = True, called: Words = PLAIN) -> Chart:
    """Return the histogram of these bins of everybody at this ε.

    The tallest bar and the last one (the most exposed) have their number of people above them; the others too, where
    there are few.
    """
    ends = (bins[0].start, bins[-1].end) if len(bins) > 1 else (0.9, 1.1)
    wide = is_wide(*ends)
    x = ratio_axis(ends) if wide else even_axis(*ends)
    words, tallest = write_bins(bins, called), max(bins, key=lambda held: held.people)
    notes = [f"The further right, the more exposed. 1 × is the average {called.individual}."]
    if len(bins) == 1:
        safe = "Everybody is equally exposed, which is not the same as safe"
        notes = [f"{safe}: look at what ε guarantees each {called.individual}."]
    numbered = [bins[-1], tallest, *(bins[::-1] if len(bins) <= MOST_NUMBERED else ())]
    numbers = [
        Label((held.start + held.end) / 2.0, held.people, f"{held.people:,}") for held in dict.fromkeys(numbered)
    ]
    people = sum(held.people for held in bins)
    about = f"{called.count_people(people)} at ε = {format_epsilon(epsilon)}: {words[bins.index(tallest)]}"
    about += "." if tallest is bins[-1] else f"; the most exposed are {words[-1]}."
    return Chart(
        title=f"How people compare at ε = {format_epsilon(epsilon)}",
        notes=(*notes, about, PRIVATE),
        description=about,
        table=bin_rows(bins, called),
        x=replace(x, title=f"× the average {called.individual}" + (" (log scale)" if wide else ""), unit=f"{SPACE}×"),
        y=replace(
            count_axis(tallest.people, logarithmic=log_counts),
            title=called.people + " (log scale)" * log_counts,
        ),
        marks=(
            *(Bar(b.start, b.end, 0.0, b.people, Look.PLAIN, said) for b, said in zip(bins, words, strict=True)),
            Rule(Look.AVERAGE, x=1.0, y=tallest.people),
            *keep_apart(numbers, x),
        ),
    )


def write_bins(bins: Sequence[Bin], called: Words = PLAIN) -> list[str]:
    """Write each bin in words: "3,997 people from 0.999 to 1 ×"."""
    return [
        f"{called.count_people(held.people)} {'from' if ' to ' in place else 'at'} {place}{SPACE}×"
        for held, (place, _) in zip(bins, bin_rows(bins)["rows"], strict=True)
    ]


def bin_rows(bins: Sequence[Bin], called: Words = PLAIN) -> TextTable:
    """Return the numbers of a histogram as a table of text, with a row per bin and the same decimals in each."""
    decimals = count_decimals(bins[0].least, bins[-1].most)
    rows = []
    for held in bins:
        least, most = format_multiple(held.least, decimals), format_multiple(held.most, decimals)
        rows.append([least if least == most else f"{least} to {most}", f"{held.people:,}"])
    return {"columns": [f"× the average {called.individual}", called.people], "rows": rows}
