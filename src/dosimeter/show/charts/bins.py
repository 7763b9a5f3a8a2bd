"""Everybody at one ε, counted per bin of "× the average person", and the bins in words. Takes RDRs; gives values."""

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
    """People between two multiples of the average. ``least`` and ``most`` are multiples that somebody has."""

    start: float
    end: float
    people: int
    least: float
    most: float


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
    edges = np.geomspace(low, high, bins + 1) if is_wide(low, high) else np.linspace(low, high, bins + 1)
    index = np.clip(np.searchsorted(edges, relative, side="right") - 1, 0, bins - 1)
    found = []
    for place in np.unique(index):
        inside = relative[index == place]
        total = int(counts[index == place].sum())
        found.append(Bin(float(edges[place]), float(edges[place + 1]), total, float(inside.min()), float(inside.max())))
    return tuple(found)


def is_wide(low: float, high: float) -> bool:
    """Return whether a spread needs bins of equal ratio, and a logarithmic axis."""
    return low > 0.0 and high / low > 20.0


def _write_places(bins: Sequence[Bin]) -> list[tuple[str, str]]:
    """Write the least and the most of each bin, with the same number of decimals in every bin."""
    decimals = count_decimals(bins[0].least, bins[-1].most)
    return [(format_multiple(held.least, decimals), format_multiple(held.most, decimals)) for held in bins]


def write_bins(bins: Sequence[Bin]) -> list[str]:
    """Write each bin in words: "3,997 people from 0.999 to 1 ×"."""
    return [
        f"{format_people(held.people)} {f'at {least}' if least == most else f'from {least} to {most}'}{SPACE}×"
        for held, (least, most) in zip(bins, _write_places(bins), strict=True)
    ]


def bin_rows(bins: Sequence[Bin]) -> TextTable:
    """Return the numbers behind a histogram, as text."""
    rows = [
        [least if least == most else f"{least} to {most}", f"{held.people:,}"]
        for held, (least, most) in zip(bins, _write_places(bins), strict=True)
    ]
    return {"columns": ["× the average person", "people"], "rows": rows}
