"""How accurate an answer would be, which candidate is cautious, which conditions exclude each other. Private."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from dosimeter.html import Private
from dosimeter.risk.preference_names import SAFE_LIMIT

if TYPE_CHECKING:
    from dosimeter.json_values import JsonObject
    from dosimeter.postprocess import ColumnAccuracy
    from dosimeter.risk.exposure import Candidate
    from dosimeter.risk.preference import Preference
    from dosimeter.risk.preference_terms import Verdict


@dataclass(frozen=True, slots=True, repr=False)
class AnswerAccuracy(Private):
    """The accuracy of a whole answer at one ε: its 95 % errors, compared with the exact numbers. Private.

    ``errors``: for each column, its largest error by noise (None without one) and whether this error is counted in
    rows, as that of numbers drawn by rank is. ``typical``: for each column, the error of the median group by noise;
    None if at least half of the groups have too few people to tell. ``columns``: the accuracy of each column, with the
    total errors, of noise and bias together, by which the answer is judged (E4). ``relative``: the largest relative
    total error; for what is bounded, in relation to the width of its bounds (E6). ``numbers``: how many counts and sums
    have an error and are not 0. ``drowned``: how many of these are at most as large as their own error. ``bounded`` and
    ``lost``: how many averages and other bounded numbers have an error, and how many of these are off by more than a
    quarter of the width of their bounds. ``too_few``: how many numbers have too few people to tell. ``without``: how
    many other numbers have no error.
    """

    errors: tuple[tuple[float | None, bool], ...]
    typical: tuple[float | None, ...]
    columns: tuple[ColumnAccuracy, ...]
    relative: float | None
    numbers: int
    drowned: int
    bounded: int
    lost: int
    too_few: int
    without: int

    @classmethod
    def of(
        cls, columns: Sequence[ColumnAccuracy], errors: Sequence[tuple[float | None, bool]] | None = None
    ) -> AnswerAccuracy:
        """Return the accuracy of an answer with these columns.

        ``errors``: ``Candidate.errors``, needed if a column's error is in rows. Without them every error is read off
        its column.
        """
        relative = [each.largest_relative for each in columns if each.largest_relative is not None]
        worst = tuple((each.worst, False) for each in columns) if errors is None else tuple(errors)
        too_few = sum(each.too_few or 0 for each in columns)
        open_ended, bounded = ([each for each in columns if each.bounded is kind] for kind in (False, True))
        return cls(
            errors=worst,
            typical=tuple(None if each.mostly_too_few else each.typical for each in columns),
            columns=tuple(columns),
            relative=max(relative, default=None),
            numbers=sum(each.numbers for each in open_ended),
            drowned=sum(each.drowned for each in open_ended),
            bounded=sum(each.numbers for each in bounded),
            lost=sum(each.drowned for each in bounded),
            too_few=too_few,
            without=sum(each.without for each in columns) - too_few,
        )

    @property
    def is_biased(self) -> bool:
        """Return whether what is left out is known to move a number (E4)."""
        return any(each.bias is not None and each.bias.worst > 0.0 for each in self.columns)

    @property
    def largest(self) -> float | None:
        """Return the largest total error over all columns; None if there is none."""
        return max((each.total.worst for each in self.columns if each.total.worst is not None), default=None)

    @property
    def widest(self) -> int | None:
        """Return the index of the column with the largest error that is not in rows; None if there is no such error."""
        sizes = [(error, at) for at, (error, in_rows) in enumerate(self.errors) if error is not None and not in_rows]
        return max(sizes)[1] if sizes else None

    def usual(self, column: int) -> float | None:
        """Return the error of the column's median group, or the column's largest error if ``typical`` is None there."""
        typical = self.typical[column]
        return self.errors[column][0] if typical is None else typical

    def is_within(self, wanted: float, *, relative: bool = False, noise_alone: bool = False) -> bool:
        """Return whether the error of a typical number of every column is known and at most ``wanted``.

        ``relative``: ``wanted`` is a relative error. ``noise_alone``: do not count the bias.
        """
        errors = [each.find_usual(relative=relative, noise_alone=noise_alone) for each in self.columns]
        return bool(errors) and all(error is not None and error <= wanted * (1.0 + 1e-12) for error in errors)

    def is_biased_beyond(self, wanted: float, *, relative: bool = False) -> bool:
        """Return whether the bias of some column alone exceeds ``wanted``, so that no ε gives it."""
        known = [each.bias for each in self.columns if each.bias is not None]
        return any((bias.relative if relative else bias.typical) > wanted for bias in known)

    @property
    def only_bounded(self) -> bool:
        """Return whether every number lies within bounds, so that relative errors are over their width (E6)."""
        return all(each.bounded for each in self.columns)

    @property
    def share(self) -> float | None:
        """Return the relative total error of a typical number, in the column where it is largest; None without one."""
        shares = [each.find_usual(relative=True) for each in self.columns]
        return max((share for share in shares if share is not None), default=None)

    @property
    def noise_share(self) -> float | None:
        """Return ``share`` by noise alone."""
        shares = [each.find_usual(relative=True, noise_alone=True) for each in self.columns]
        return max((share for share in shares if share is not None), default=None)

    @property
    def is_mostly_noise(self) -> bool:
        """Return whether half of the numbers or more are lost in their errors, or have too few people to tell."""
        numbers, lost = self.numbers + self.bounded + self.too_few, self.drowned + self.lost + self.too_few
        return numbers > 0 and 2 * lost >= numbers


@dataclass(frozen=True, slots=True, repr=False)
class ConditionRange(Private):
    """One of the conditions that a preference joins by AND, with the range of the candidates that meet it. Private.

    ``smallest`` and ``largest``: the smallest and the largest of these candidates; None if there are none.
    """

    condition: str
    smallest: float | None
    largest: float | None

    def describe(self) -> JsonObject:
        """Return the condition and the smallest and largest ε that meet it alone, as JSON has them."""
        return {"condition": self.condition, "smallest": self.smallest, "largest": self.largest}


def find_safe(candidates: Iterable[Candidate]) -> float | None:
    """Return the largest candidate at which nobody's membership advantage exceeds 0.25, the limit of ``balanced`` (P4).

    If nobody moves the answer, the advantage of somebody who moves it by Δ is looked at instead. None if there is no
    such candidate.
    """
    found = [(line.epsilon, line.absolute.advantage) for line in candidates if line.absolute is not None]
    if not any(advantage for _, advantage in found):
        found = [(epsilon, math.tanh(0.5 * epsilon)) for epsilon, _ in found]
    return max((epsilon for epsilon, advantage in found if advantage <= SAFE_LIMIT), default=None)


def is_alike(candidates: Iterable[Candidate]) -> bool:
    """Return whether everybody is equally exposed at every candidate."""
    return all(line.rdr.ratio >= 1.0 - 1e-12 for line in candidates)


def decides(candidates: Iterable[Candidate]) -> bool:
    """Return whether some candidate meets the preference and another does not (F4)."""
    return {line.satisfied for line in candidates} == {True, False}


def find_conflict(preference: Preference, tested: Sequence[tuple[float, Verdict]]) -> tuple[ConditionRange, ...]:
    """Return conditions that no candidate meets together, as few as are found.

    If there is one that no candidate meets by itself, return this one; otherwise two of which no candidate meets both;
    otherwise all. ``tested``: each candidate with the verdict on it. Empty if some candidate meets all conditions, or
    if there is only one condition.
    """
    if len(preference.comparisons) < 2 or any(verdict.satisfied for _, verdict in tested):
        return ()
    parts = preference.write_parts()
    met = [{epsilon for epsilon, verdict in tested if verdict.parts[at]} for at in range(len(parts))]
    told = [
        ConditionRange(text, min(found, default=None), max(found, default=None))
        for text, found in zip(parts, met, strict=True)
    ]
    alone = next((part for part in told if part.largest is None), None)
    if alone is not None:
        return (alone,)
    pair = next(((a, b) for a, b in combinations(range(len(parts)), 2) if not met[a] & met[b]), None)
    return tuple(told) if pair is None else (told[pair[0]], told[pair[1]])
