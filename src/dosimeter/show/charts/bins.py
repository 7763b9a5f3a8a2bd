"""The histogram of everybody at one ε: people per bin of "× the average person". Takes RDRs; gives bins and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.errors import OptionError
from dosimeter.show.candidates import TextTable
from dosimeter.show.numbers import count_decimals, format_multiple, format_people

if TYPE_CHECKING:
    from dosimeter.risk import RDRs

SPACE = "\u00a0"  # keeps a number and its sign on one line


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


def _write_places(bins: Sequence[Bin]) -> list[tuple[str, str]]:
    """Write ``least`` and ``most`` of each bin, all with the same number of decimals."""
    decimals = count_decimals(bins[0].least, bins[-1].most)
    return [(format_multiple(held.least, decimals), format_multiple(held.most, decimals)) for held in bins]


def write_bins(bins: Sequence[Bin]) -> list[str]:
    """Write each bin in words: "3,997 people from 0.999 to 1 ×"."""
    return [
        f"{format_people(held.people)} {f'at {least}' if least == most else f'from {least} to {most}'}{SPACE}×"
        for held, (least, most) in zip(bins, _write_places(bins), strict=True)
    ]


def bin_rows(bins: Sequence[Bin]) -> TextTable:
    """Return the numbers of a histogram as a table of text, with a row per bin."""
    rows = [
        [least if least == most else f"{least} to {most}", f"{held.people:,}"]
        for held, (least, most) in zip(bins, _write_places(bins), strict=True)
    ]
    return {"columns": ["× the average person", "people"], "rows": rows}
