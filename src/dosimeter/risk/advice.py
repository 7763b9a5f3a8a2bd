"""What an answer at one ε would give the analyst and ask of people, and what to choose by: values. Words come later.

All are private. ``show.advice`` words them, the same for the terminal, a notebook and a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from dosimeter.risk.preference_names import SAFE_ADVANTAGE

if TYPE_CHECKING:
    from dosimeter.json_values import JsonObject
    from dosimeter.postprocess import Accuracy
    from dosimeter.risk.preference_terms import Verdict
    from dosimeter.risk.values import AbsoluteRisk, Candidate


@dataclass(frozen=True, slots=True, repr=False)
class AnswerAccuracy:
    """How far off the numbers of a whole answer are at one ε: 95 % errors, beside the exact numbers. Private.

    ``errors``: the largest of each column, None where it has none, and whether it is one in rows. ``typical``: that of
    each column's median group, None where half of the groups or more cannot be told. ``relative``: the largest error
    divided by its number, of the ``numbers`` that are not 0 and have an error. ``drowned``: how many of these are at
    most as large as their own error. ``too_few``: how many numbers have too few people behind them to be told.
    ``without``: how many others have no error at all; those drawn by rank have one in rows.
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
        cls, columns: Sequence[Accuracy], errors: Sequence[tuple[float | None, bool]] | None = None
    ) -> AnswerAccuracy:
        """Return that of an answer with these columns. ``errors``: as a candidate has them, where some are in rows."""
        relative = [each.largest_relative for each in columns if each.largest_relative is not None]
        worst = tuple((each.worst, False) for each in columns) if errors is None else tuple(errors)
        told = [each for each, (_, in_rows) in zip(columns, worst, strict=True) if not in_rows]
        too_few = sum(each.too_few or 0 for each in told)
        return cls(
            errors=worst,
            typical=tuple(None if each.seldom_told else each.typical for each in columns),
            relative=max(relative, default=None),
            numbers=sum(each.numbers for each in columns),
            drowned=sum(each.drowned for each in columns),
            too_few=too_few,
            without=sum(each.without for each in told) - too_few,
        )

    @property
    def largest(self) -> float | None:
        """Return the largest error of all columns that have one, not in rows."""
        return max((error for error, in_rows in self.errors if error is not None and not in_rows), default=None)

    @property
    def widest(self) -> int | None:
        """Return the column with the largest error, not in rows; None where none has one."""
        sizes = [(error, at) for at, (error, in_rows) in enumerate(self.errors) if error is not None and not in_rows]
        return max(sizes)[1] if sizes else None

    def usual(self, column: int) -> float | None:
        """Return the error of a column's typical group; where none is typical, the largest."""
        typical = self.typical[column]
        return self.errors[column][0] if typical is None else typical

    @property
    def worthless(self) -> bool:
        """Return whether at least half of the numbers drown in their own error, or cannot be told at all."""
        numbers, lost = self.numbers + self.too_few, self.drowned + self.too_few
        return numbers > 0 and 2 * lost >= numbers

    def __repr__(self) -> str:
        return "AnswerAccuracy(redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class Standing:
    """One ε from both sides: what the analyst would get, and what the most exposed would bear. Private."""

    epsilon: float
    accuracy: AnswerAccuracy
    absolute: AbsoluteRisk

    def __repr__(self) -> str:
        return f"Standing(epsilon={self.epsilon!r}, redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class Coarser:
    """The same question without some of its groups, at the same ε and with the same noise. Private."""

    dropped: tuple[str, ...]
    numbers: int
    drowned: int

    def __repr__(self) -> str:
        return "Coarser(redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class Part:
    """One of the conditions that AND joins: the candidates that meet it, from the smallest to the largest. Private."""

    condition: str
    smallest: float | None
    largest: float | None

    def describe(self) -> JsonObject:
        """Return the condition and the ε's that it alone would allow, as JSON has them."""
        return {"condition": self.condition, "smallest": self.smallest, "largest": self.largest}

    def __repr__(self) -> str:
        return "Part(redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class Advice:
    """What to know before an ε is taken. Private.

    ``at``: the ε that the preference gives, or the largest candidate where it gives none. ``up`` and ``down``: the next
    candidates. ``decides``: whether some candidate meets the preference and another does not (F4); None without one.
    ``met``: whether any does. ``safe``: the largest candidate at which nobody's advantage exceeds 0.25. ``coarser``: a
    question that drowns fewer numbers in noise. ``exposed``: how many people share the largest PIS. ``touched``: whom
    the query touches at all (N5). ``by_cell``: what the cell indicator finds;
    ``cell_differs``: whether that is smaller, or nothing (R11).
    """

    columns: tuple[str, ...]
    at: Standing
    up: Standing | None
    down: Standing | None
    decides: bool | None
    met: bool
    safe: Standing | None
    coarser: Coarser | None
    exposed: int
    touched: int | None
    by_cell: float | None = None
    cell_differs: bool = False

    @property
    def shown(self) -> Standing | None:
        """Return the ε to speak of: the one found, or the safe one where the preference finds none (F4)."""
        return self.safe if self.decides is False else self.at

    def __repr__(self) -> str:
        return "Advice(redacted)"


def find_safe(candidates: Iterable[Candidate]) -> float | None:
    """Return the largest candidate at which nobody's membership advantage exceeds that of ``balanced`` (P4)."""
    limit = SAFE_ADVANTAGE * (1.0 + 1e-12)
    safe = [line.epsilon for line in candidates if line.absolute is not None and line.absolute.advantage <= limit]
    return max(safe, default=None)


def decides(candidates: Iterable[Candidate]) -> bool:
    """Return whether some candidate meets the preference and another does not (F4)."""
    return {line.satisfied for line in candidates} == {True, False}


def find_conflict(parts: Sequence[str], tested: Sequence[tuple[float, Verdict]]) -> tuple[Part, ...]:
    """Return why no candidate meets several conditions: one that none meets, two that none meets both of, or all.

    Empty where some candidate meets them all, or where there is one condition.
    """
    if len(parts) < 2 or any(verdict.satisfied for _, verdict in tested):
        return ()
    met = [{epsilon for epsilon, verdict in tested if verdict.parts[at]} for at in range(len(parts))]
    told = [
        Part(text, min(found, default=None), max(found, default=None)) for text, found in zip(parts, met, strict=True)
    ]
    alone = next((part for part in told if part.largest is None), None)
    if alone is not None:
        return (alone,)
    pair = next(((a, b) for a, b in combinations(range(len(parts)), 2) if not met[a] & met[b]), None)
    return tuple(told) if pair is None else (told[pair[0]], told[pair[1]])
