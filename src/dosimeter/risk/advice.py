"""Advice on an ε, as values: how accurate the answer would be, and how exposed the most exposed people would be.

All values are private. ``show.advice`` puts them into words, the same for the terminal, a notebook and a page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from dosimeter.risk.preference_names import SAFE_ADVANTAGE

if TYPE_CHECKING:
    from dosimeter.json_values import JsonObject
    from dosimeter.postprocess import ColumnAccuracy
    from dosimeter.risk.preference_terms import Verdict
    from dosimeter.risk.values import AbsoluteRisk, Candidate


@dataclass(frozen=True, slots=True, repr=False)
class AnswerAccuracy:
    """The accuracy of a whole answer at one ε: its 95 % errors, compared with the exact numbers. Private.

    ``errors``: for each column, its largest error (None without one) and whether this error is counted in rows, as that
    of numbers drawn by rank is. ``typical``: for each column, the error of the median group; None if at least half of
    the groups have too few people to tell. ``numbers``: how many numbers have an error and are not 0. ``relative``: the
    largest relative error among these. ``drowned``: how many of these are at most as large as their own error.
    ``too_few``: how many numbers have too few people to tell. ``without``: how many other numbers have no error;
    numbers drawn by rank are not among them, as their error is in rows.
    """

    errors: tuple[tuple[float | None, bool], ...]
    typical: tuple[float | None, ...]
    relative: float | None
    numbers: int
    drowned: int
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
        told = [each for each, (_, in_rows) in zip(columns, worst, strict=True) if not in_rows]
        too_few = sum(each.too_few or 0 for each in told)
        return cls(
            errors=worst,
            typical=tuple(None if each.mostly_too_few else each.typical for each in columns),
            relative=max(relative, default=None),
            numbers=sum(each.numbers for each in columns),
            drowned=sum(each.drowned for each in columns),
            too_few=too_few,
            without=sum(each.without for each in told) - too_few,
        )

    @property
    def largest(self) -> float | None:
        """Return the largest error over all columns that is not in rows; None if there is no such error."""
        return max((error for error, in_rows in self.errors if error is not None and not in_rows), default=None)

    @property
    def widest(self) -> int | None:
        """Return the index of the column with the largest error that is not in rows; None if there is no such error."""
        sizes = [(error, at) for at, (error, in_rows) in enumerate(self.errors) if error is not None and not in_rows]
        return max(sizes)[1] if sizes else None

    def usual(self, column: int) -> float | None:
        """Return the error of the column's median group, or the column's largest error if ``typical`` is None there."""
        typical = self.typical[column]
        return self.errors[column][0] if typical is None else typical

    @property
    def is_mostly_noise(self) -> bool:
        """Return whether half of the numbers or more are no larger than their error, or have too few people to tell."""
        numbers, lost = self.numbers + self.too_few, self.drowned + self.too_few
        return numbers > 0 and 2 * lost >= numbers

    def __repr__(self) -> str:
        return "AnswerAccuracy(redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class RiskAndAccuracy:
    """One ε, how accurate the answer would be, and the absolute risks of the most exposed people. Private."""

    epsilon: float
    accuracy: AnswerAccuracy
    absolute: AbsoluteRisk

    def __repr__(self) -> str:
        return f"RiskAndAccuracy(epsilon={self.epsilon!r}, redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class CoarserQuery:
    """The same query without some of its GROUP BY columns, at the same ε and with the same noise. Private.

    ``dropped``: the columns left out. ``numbers``: how many numbers of the answer are not 0. ``drowned``: how many of
    these are at most as large as their own error.
    """

    dropped: tuple[str, ...]
    numbers: int
    drowned: int

    def __repr__(self) -> str:
        return "CoarserQuery(redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class ConditionRange:
    """One of the conditions that a preference joins by AND, with the range of the candidates that meet it. Private.

    ``smallest`` and ``largest``: the smallest and the largest of these candidates; None if there are none.
    """

    condition: str
    smallest: float | None
    largest: float | None

    def describe(self) -> JsonObject:
        """Return the condition and the smallest and largest ε that meet it alone, as JSON has them."""
        return {"condition": self.condition, "smallest": self.smallest, "largest": self.largest}

    def __repr__(self) -> str:
        return "ConditionRange(redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class Advice:
    """What a controller should know before taking an ε. Private.

    ``columns``: the names of the aggregate columns. ``at``: the ε that the preference gives, or the largest candidate
    if it gives none. ``up`` and ``down``: the next larger and the next smaller candidate. ``decides``: whether some
    candidate meets the preference and another does not (F4); None without a preference. ``met``: whether any candidate
    meets it. ``safe``: the largest candidate at which nobody's membership advantage exceeds 0.25. ``coarser``: the
    query with fewer groups, if that loses a smaller share of its numbers in noise. ``exposed``: how many people are
    most exposed, by PIS or, if something is drawn by rank, by share of ε. ``touched``: how many individuals the query
    touches (N5). ``by_cell``: the ε that the cell indicator finds; ``cell_differs``: whether that ε is smaller than the
    one found, or the cell indicator finds none (R11).
    """

    columns: tuple[str, ...]
    at: RiskAndAccuracy
    up: RiskAndAccuracy | None
    down: RiskAndAccuracy | None
    decides: bool | None
    met: bool
    safe: RiskAndAccuracy | None
    coarser: CoarserQuery | None
    exposed: int
    touched: int | None
    by_cell: float | None = None
    cell_differs: bool = False

    @property
    def moved_by_nobody(self) -> bool:
        """Return whether nobody in the data moves the answer, at any ε: then no preference on people decides (F4)."""
        return self.at.absolute.own_epsilon == 0.0

    @property
    def shown(self) -> RiskAndAccuracy | None:
        """Return what the advice is about: ``at``, or ``safe`` if the preference does not decide (F4)."""
        return self.safe if self.decides is False else self.at

    def __repr__(self) -> str:
        return "Advice(redacted)"


def find_safe(candidates: Iterable[Candidate]) -> float | None:
    """Return the largest candidate at which nobody's membership advantage exceeds 0.25, the limit of ``balanced`` (P4).

    If nobody moves the answer, the advantage of somebody who moves it by Δ is looked at instead. None if there is no
    such candidate.
    """
    limit = SAFE_ADVANTAGE * (1.0 + 1e-12)
    found = [(line.epsilon, line.absolute.advantage) for line in candidates if line.absolute is not None]
    if not any(advantage for _, advantage in found):
        found = [(epsilon, math.tanh(0.5 * epsilon)) for epsilon, _ in found]
    return max((epsilon for epsilon, advantage in found if advantage <= limit), default=None)


def decides(candidates: Iterable[Candidate]) -> bool:
    """Return whether some candidate meets the preference and another does not (F4)."""
    return {line.satisfied for line in candidates} == {True, False}


def find_conflict(parts: Sequence[str], tested: Sequence[tuple[float, Verdict]]) -> tuple[ConditionRange, ...]:
    """Return conditions that no candidate meets together, as few as are found.

    If there is one that no candidate meets by itself, return this one; otherwise two of which no candidate meets both;
    otherwise all. ``parts``: the conditions that AND joins, as text. ``tested``: each candidate with the verdict on it.
    Empty if some candidate meets all conditions, or if there is only one condition.
    """
    if len(parts) < 2 or any(verdict.satisfied for _, verdict in tested):
        return ()
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
