"""Order statistics drawn by rank: the closer a candidate's rank is to the one asked for, the likelier it is drawn.

The labels are M4 and M5. Candidates are public; all that is known of the data here is how many rows hold each. What
leaving somebody out does to the exact answer, and so their PIS, is computed as for every order statistic (C3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.measures.argument import Argument
from dosimeter.measures.estimates import SingleMeasure
from dosimeter.measures.measure import GroupColumn
from dosimeter.measures.noise_grid import SensitivityFacts
from dosimeter.measures.quantiles import OrderStatistic
from dosimeter.measures.units import Entries
from dosimeter.mechanisms import expected_distances, score_error, selection_probabilities, selection_scale

MOST_CANDIDATES = 2**16
MOST_OVER_CELLS = 2**20
MOST_PARTS = 10**6  # of a fraction a/b: scores, in b-ths of a row, stay far within 64 bits
HIGHEST_SCORE = 2**61
USUAL_MARGIN, SEARCH_MARGIN = 4, 6


def candidate_step(width: int, cells: int, limit: int = MOST_CANDIDATES) -> int:
    """Return how many grid steps apart candidates lie (M4).

    ``width``: the distance between the bounds, in grid steps. ``cells``: how many numbers of the SELECT's answer are
    drawn by rank, at most; MIN and MAX in 8 groups are 16. ``limit``: the most candidates of one. The candidates of one
    number are limited, and so are those of all numbers together. So the more numbers there are, the farther apart their
    candidates can lie.
    """
    most = max(2, min(limit, MOST_OVER_CELLS // cells))
    return max(1, -(-width // (most - 1)))


@lru_cache(maxsize=64)
def _list_candidates(lower: int, upper: int, step: int) -> IntArray:
    values = np.array([*range(lower, upper, step), upper], dtype=np.int64)
    values.setflags(write=False)
    return values


class RankEstimate(SingleMeasure):
    """An estimate that is a drawn candidate, and so within the bounds; how far it is off depends on the data (E3)."""

    __slots__ = ()

    @property
    def width(self) -> float | None:
        """Return None: a drawn candidate is not clamped."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank(OrderStatistic):
    """An order statistic that is drawn from candidates (M4).

    Candidates, to which values are rounded, are ``step`` grid steps apart, from the lower bound on; the last is the
    upper bound. ``rows``: the most rows of one individual. A candidate's score is the distance of its rank from the
    rank that is sought; candidates with a low score are likelier to be drawn. Ranks and scores are whole numbers of
    b-ths of a row, where b is ``parts``: for a median b is 2, and a score of 3 is one and a half rows. ``margin``: how
    many rows from the end MIN and MAX are sought, in units of m·ln(candidates)/ε: 4, and 6 where they find bounds (B1).
    """

    name: ClassVar[str] = "quantile"

    rows: int
    step: int
    margin: int = USUAL_MARGIN

    @classmethod
    def among(
        cls,
        argument: Argument,
        label: str,
        facts: SensitivityFacts,
        fraction: Fraction,
        step: int,
        margin: int = USUAL_MARGIN,
    ) -> Rank:
        """Return the order statistic at ``fraction`` (0.5: the median), to be drawn by rank from candidates (M4).

        ``step``: how far apart candidates lie, in grid steps. ``margin``: as in the class. The measure's sensitivity is
        the largest change of the exact answer (R12): in each cell that one individual can change, the distance between
        the bounds. An individual can change as many cells as they can have rows, but no more cells than there are
        groups.
        """
        moved = min(facts.rows, facts.groups)
        delta = argument.width * argument.unit
        return cls(
            label=label,
            unit=argument.unit,
            grid=step * argument.unit,
            sensitivity_l1=float(moved * delta),
            sensitivity_l2=float(delta) if moved == 1 else math.nextafter(math.sqrt(moved) * float(delta), math.inf),
            argument=argument,
            fraction=fraction,
            rows=facts.rows,
            step=step,
            margin=margin,
        )

    @property
    def is_on_grid(self) -> bool:
        """Return True: values are rounded to candidates, and candidates are drawn."""
        return True

    # ------------------------------------------------------------ candidates and scores

    @property
    def candidates(self) -> IntArray:
        """Return the candidates, ascending, in grid steps."""
        return _list_candidates(self.argument.lower, self.argument.upper, self.step)

    @property
    def candidate_count(self) -> int:
        """Return how many candidates there are."""
        return -(-self.argument.width // self.step) + 1

    @property
    def is_end(self) -> bool:
        """Return whether this is MIN or MAX. Then the rank that is sought lies some rows away from that end (M5)."""
        return self.fraction in (0, 1)

    @property
    def parts(self) -> int:
        """Return b, where ranks and scores are in b-ths of a row: the fraction's denominator, or 2 for MIN and MAX."""
        return 2 if self.is_end else self.fraction.denominator

    @property
    def shift(self) -> int:
        """Return the most by which a score can move if one row is left out, in b-ths of a row.

        It is max(a, b − a) for the fraction a/b (M4), and 2 for MIN and MAX (M5).
        """
        return 2 if self.is_end else max(self.fraction.numerator, self.parts - self.fraction.numerator)

    @property
    def score_sensitivity(self) -> int:
        """Return Δ_s: the most by which one individual can move a score, in b-ths of a row."""
        return self.rows * self.shift

    def rows_from_end(self, epsilon: float) -> int:
        """Return t: MIN is sought t rows from the lowest row, MAX t rows from the highest (M5).

        ``epsilon``: the share of ε that this number gets. In a group of fewer than 2t rows, ``target`` takes half its
        rows instead of t.
        """
        return math.ceil(self.margin * self.rows * math.log(self.candidate_count) / epsilon)

    def target(self, total: int, epsilon: float) -> int:
        """Return the rank that is sought among ``total`` rows, in b-ths of a row (b: ``parts``), at this share of ε."""
        if not self.is_end:
            return self.fraction.numerator * total  # M4: b·(a/b)·N
        from_end = min(2 * self.rows_from_end(epsilon), total)  # M5: 2·min(t, N/2)
        return from_end if self.fraction == 0 else 2 * total - from_end

    def count(self, column: GroupColumn | None) -> IntArray:
        """Return how many rows hold each value of ``candidates``, the values among which the number is drawn.

        ``column``: the group's values, already rounded to candidates; NULLs are not counted. None for a group without
        rows.
        """
        counts = np.zeros(self.candidate_count, dtype=np.int64)
        if column is not None:
            indices = np.searchsorted(self.candidates, column.values[column.present])
            np.add.at(counts, indices, column.people[column.present])
        return counts

    def scores(self, counts: IntArray, epsilon: float) -> IntArray:
        """Return s(c) of each candidate (M4): by how much its rank misses the rank sought, in b-ths of a row.

        b is ``parts``. A score is at most ``HIGHEST_SCORE``. ``counts``: how many rows hold each candidate.
        """
        above, below = self._misses(counts, epsilon)
        return np.clip(np.maximum(above, below), 0, HIGHEST_SCORE)

    def _misses(self, counts: IntArray, epsilon: float) -> tuple[IntArray, IntArray]:
        """Return, for each candidate, by how much its rank is above the rank sought, and by how much below.

        A number is 0 or negative if the rank is not above, or not below. For the candidate c and the values v they are
        b·#{v < c} − target and target − b·#{v ≤ c}, in b-ths of a row; b is ``parts`` (M4).
        """
        upto = np.cumsum(counts)
        target = self.target(int(upto[-1]), epsilon)
        return self.parts * (upto - counts) - target, target - self.parts * upto

    # ------------------------------------------------------------ what is drawn

    def scale(self, epsilon: float) -> float:
        """Return the scale 2Δ_s/ε of the draw (M4), in the unit of the scores: 1/``parts`` of a row.

        The larger it is, the less the draw favours candidates whose rank is close to the one sought. ``epsilon``: the
        share of ε that this number gets.
        """
        return selection_scale(self.score_sensitivity, epsilon)

    def chances(self, counts: IntArray, epsilon: float) -> FloatArray:
        """Return the probability with which each candidate is drawn. ``counts``: how many rows hold each."""
        return selection_probabilities(self.scores(counts, epsilon), self.scale(epsilon))

    def distances(self, counts: IntArray, epsilon: float, points: FloatArray) -> FloatArray:
        """Return the expected distance of the drawn value from each of these points, in real units (R12).

        ``counts``: how many rows hold each candidate. ``points``: values, such as the exact answer without somebody.
        """
        values = self.candidates.astype(np.float64) * float(self.unit)
        return expected_distances(values, self.chances(counts, epsilon), points)

    def rank_error(self, epsilon: float, individuals: int | None, cells: int = 1) -> float:
        """Return the 95 % error of a drawn candidate's rank, as a number of rows (E3).

        If the best candidate's rank misses the rank sought by x rows, the drawn one's misses it by at most x plus this
        error, with a probability of at least 95 %. No rank is off by more rows than can count. ``epsilon``: the share
        of ε that this draw gets. ``individuals``: how many are declared; None if that is not known. ``cells``: for how
        many draws the error holds, all at once.
        """
        error = score_error(self.scale(epsilon), cells * self.candidate_count) / self.parts
        return error if individuals is None else min(error, float(individuals * self.rows))

    # ------------------------------------------------------------ own guarantees

    def own_shares(self, column: GroupColumn) -> FloatArray:
        """Return, for each distinct input, the most by which leaving out one row with it moves a candidate's score.

        The result is a share of Δ_s, the most by which one individual can move a score (R12).

        For a NULL it is 0. For MIN and MAX, and wherever one individual can have several rows, it is an upper bound
        that holds at every ε: 1/m, with m the most rows of one individual. Otherwise it is the largest of
        |s_x(c) − s_{x₋ᵢ}(c)|/Δ_s over all candidates c, where s_x are the scores with the row and s_{x₋ᵢ} without it.
        """
        shares = np.zeros(len(column.people))
        present = column.present
        if self.is_end or self.rows > 1:
            shares[present] = 1.0 / self.rows
            return shares
        if present.any():
            moves = self._largest_moves(self.count(column))
            indices = np.searchsorted(self.candidates, column.values[present])
            shares[present] = moves[indices] / self.score_sensitivity
        return shares

    def _largest_moves(self, counts: IntArray) -> FloatArray:
        """Return, for each candidate, the most by which any candidate's score moves if a row that holds it is left out.

        The result is in b-ths of a row; b is ``parts``. ``counts``: how many rows hold each candidate. Not for MIN and
        MAX.
        """
        above, below = self._misses(counts, 1.0)  # the target of a quantile does not depend on ε
        here = np.maximum(0, np.maximum(above, below))
        a, b = self.fraction.numerator, self.parts

        def change(up: int, down: int) -> IntArray:
            moved: IntArray = np.abs(np.maximum(0, np.maximum(above + up, below + down)) - here)
            return moved

        left, at, right = change(a, -a), change(a, b - a), change(a - b, b - a)
        before = np.concatenate([[0], np.maximum.accumulate(left)[:-1]])
        after = np.concatenate([np.maximum.accumulate(right[::-1])[::-1][1:], [0]])
        most: FloatArray = np.maximum(at, np.maximum(before, after)).astype(np.float64)
        return most

    def unit_shares(self, entries: Entries) -> FloatArray:
        """Return r/m for each individual and group: a bound on how far they move a score, as a share of Δ_s (R12).

        r: how many of their rows in the group have a value. m: how many rows one individual can have. r is read from
        the field that lists the individual's values: these are clamped, but none is missing.
        """
        field = self._near_values()
        rows = np.array([sum(often for _, often in own) for own in entries.values[field.name]], dtype=np.float64)
        shares: FloatArray = np.minimum(rows / self.rows, 1.0)[entries.whole(field)]
        return shares

    # ------------------------------------------------------------ in words

    def describe_target(self, epsilon: float) -> str | None:
        """Return a sentence on the rank that MIN or MAX stands for at this share of ε (M5); None for other quantiles.

        It is public, and needed to read the number.
        """
        if not self.is_end:
            return None
        side = "below" if self.fraction == 0 else "above"
        return f"{self.label} is the value that about {self.rows_from_end(epsilon):,} rows lie at or {side}."

    def describe_error(self, error: float, counted: str) -> str:
        """Return this rank error (E3) as a sentence. ``counted``: the word for what is counted, rows or people."""
        error_words = f"within about {math.ceil(error):,} {counted} of"
        if self.is_end:
            return f"{self.label}: {error_words} that rank (with 95 %)."
        rank = "the middle" if self.fraction == Fraction(1, 2) else f"the rank of {float(100 * self.fraction):g} %"
        return f"{self.label}: {error_words} {rank} (with 95 %)."
