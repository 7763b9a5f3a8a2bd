"""Small tables for order statistics by ranks, and permute-and-flip as its authors define it, by permutations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dosimeter.measures import Argument, GroupColumn, Rank, SensitivityFacts


def make_rank(fraction: Fraction, upper: int, rows: int = 1, groups: int = 1, step: int = 1) -> Rank:
    argument = Argument("value", exp.column("x"), "x", Fraction(1), 0, upper)
    return Rank.among(argument, "x", SensitivityFacts(rows, None, groups), fraction, step)


def flip(scores: Sequence[float], rate: float) -> list[float]:
    """Walk through the candidates in every order; each is taken with chance e^(−rate·(score − best))."""
    taken = [math.exp(-rate * (score - min(scores))) for score in scores]
    chances = [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for place in order:
            chances[place] += left * taken[place] / len(orders)
            left *= 1.0 - taken[place]
    return chances


def score(values: Sequence[int], candidate: int, fraction: Fraction, target: Fraction | None = None) -> Fraction:
    """M4 and M5 word by word, in rows: by how much the candidate's rank misses the target."""
    sought = fraction * len(values) if target is None else target
    below = sum(value < candidate for value in values)
    upto = sum(value <= candidate for value in values)
    return max(Fraction(0), below - sought, sought - upto)


def end_target(total: int, fraction: Fraction, rows: int, candidates: int, epsilon: float) -> Fraction:
    """M5: min(t, N/2) rows from the end, t = ⌈4·m·ln(candidates)/ε⌉."""
    from_end = min(Fraction(math.ceil(4 * rows * math.log(candidates) / epsilon)), Fraction(total, 2))
    return from_end if fraction == 0 else total - from_end


def all_counts(candidates: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield every cell: how often each candidate occurs, up to ``most`` times; the empty one too."""
    yield from itertools.product(range(most + 1), repeat=candidates)


def removals(counts: Sequence[int], rows: int) -> Iterator[tuple[int, ...]]:
    """Yield what is left of a cell without one to ``rows`` rows of an individual."""
    for left in itertools.product(*(range(count + 1) for count in counts)):
        if 1 <= sum(counts) - sum(left) <= rows:
            yield left


def list_values(counts: Sequence[int]) -> list[int]:
    return [value for value, count in enumerate(counts) for _ in range(count)]


def make_column(counts: Sequence[int]) -> GroupColumn:
    values = np.array([value for value, count in enumerate(counts) if count], dtype=np.int64)
    people = np.array([count for count in counts if count], dtype=np.int64)
    return GroupColumn(values, np.ones(len(values), dtype=np.bool_), people)
