"""Order statistics by ranks (M4, M5): privacy by enumeration of neighbours, chances by another road, errors in rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.measures import Entries
from dosimeter.mechanisms import expected_distances, selection_probabilities
from dosimeter.release.noise import calibrate_selection
from tests.math.rank_tables import (
    all_counts,
    end_target,
    flip,
    list_values,
    make_column,
    make_rank,
    removals,
    score,
)

CANDIDATES = 4
FRACTIONS = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(0), Fraction(1)]


def draw_chances(counts: Sequence[int], fraction: Fraction, rows: int, epsilon: float) -> list[float]:
    """What is drawn from a cell, by the definitions alone: only the scale is the product's own."""
    values, rank = list_values(counts), make_rank(fraction, CANDIDATES - 1, rows)
    ends = fraction in (0, 1)
    target = end_target(len(values), fraction, rows, CANDIDATES, epsilon) if ends else None
    scores = [float(score(values, c, fraction, target)) for c in range(CANDIDATES)]
    return flip(scores, rank.parts / certify(rank.shift, rows, epsilon))


@lru_cache
def certify(shift: int, rows: int, epsilon: float) -> float:
    return calibrate_selection(shift=shift, rows=rows, epsilon=Fraction(str(epsilon))).scale


def loss(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest log-ratio of the chance of anything that may be drawn, in either direction."""
    pairs = list(zip(one, other, strict=True))
    return max(max(math.log(a / b), math.log(b / a)) for a, b in pairs)


@pytest.mark.parametrize("fraction", FRACTIONS, ids=str)
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 20.0])
@pytest.mark.parametrize("rows", [1, 2])
def test_no_neighbour_tells_more_than_epsilon(fraction: Fraction, epsilon: float, rows: int) -> None:
    """Every cell of up to two rows per candidate, ties and empty ones included, against every neighbour.

    An individual's rows may stand in several groups, whose draws are independent: their losses add up. So the worst
    split of m rows over cells is what counts.
    """
    chances = {counts: draw_chances(counts, fraction, rows, epsilon) for counts in all_counts(CANDIDATES, 2)}
    worst = [0.0] * (rows + 1)
    for counts in chances:
        for left in removals(counts, rows):
            taken = sum(counts) - sum(left)
            worst[taken] = max(worst[taken], loss(chances[counts], chances[left]))
    splits = [worst[rows], rows * worst[1]]
    assert max(splits) <= epsilon * (1 + 1e-12)
    assert max(splits) >= epsilon * 0.2, "the enumeration found nothing that comes near: it tests nothing"


@pytest.mark.parametrize("rows", [1, 2])
def test_several_quantiles_share_one_epsilon(rows: int) -> None:
    """S5: three order statistics of the same rows, each drawn at a third of ε."""
    epsilon = 1.5
    asked = [Fraction(1, 2), Fraction(9, 10), Fraction(0)]
    drawn = {
        counts: [draw_chances(counts, fraction, rows, epsilon / 3) for fraction in asked]
        for counts in all_counts(CANDIDATES, 1)
    }
    worst = 0.0
    for counts, here in drawn.items():
        for left in removals(counts, rows):
            for one, other in ((here, drawn[left]), (drawn[left], here)):
                ratios = [
                    max(math.log(a / b) for a, b in zip(*pair, strict=True)) for pair in zip(one, other, strict=True)
                ]
                worst = max(worst, sum(ratios))
    assert 0.3 * epsilon < worst <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("fraction", FRACTIONS, ids=str)
def test_nobody_is_guaranteed_more_than_holds(fraction: Fraction) -> None:
    """R12: the stated own guarantee is never below the log-ratio that leaving that individual out really gives."""
    epsilon, nearest = 1.0, 0.0
    rank = make_rank(fraction, CANDIDATES - 1)
    smaller = 0
    for counts in all_counts(CANDIDATES, 2):
        if not sum(counts):
            continue
        shares = rank.own_shares(make_column(counts))
        here = draw_chances(counts, fraction, 1, epsilon)
        for value, share in zip(sorted(set(list_values(counts))), shares.tolist(), strict=True):
            left = [count - (at == value) for at, count in enumerate(counts)]
            really = loss(here, draw_chances(left, fraction, 1, epsilon))
            assert really <= epsilon * share * (1 + 1e-12)
            nearest = max(nearest, really / (epsilon * share))
            smaller += share < 1
    assert nearest > 0.2
    assert (smaller > 0) == (fraction not in (0, 1, Fraction(1, 2))), "some are better protected than by ε itself"


def test_the_shares_of_individuals_with_many_rows_add_up_over_groups() -> None:
    rank = make_rank(Fraction(1, 2), CANDIDATES - 1, rows=4, groups=3)
    (field,) = rank.unit_fields()
    lists = {field.name: (((1, 2), (3, 1)), ((0, 1),), ())}
    entries = Entries(np.array([0, 1, 2]), np.array([1, 1, 1]), {field.name: np.array([0, 1, 2])}, lists)
    assert rank.unit_shares(entries).tolist() == [0.75, 0.25, 0.0]


# ---------------------------------------------------------------- scores and chances


@given(
    st.lists(st.integers(0, 5), max_size=9),
    st.sampled_from([*FRACTIONS, Fraction(1, 3)]),
    st.sampled_from([0.5, 4.0, 100.0]),
)
def test_scores_are_those_of_the_definition(values: list[int], fraction: Fraction, epsilon: float) -> None:
    rank = make_rank(fraction, 5)
    target = end_target(len(values), fraction, 1, 6, epsilon) if fraction in (0, 1) else None
    found = rank.scores(np.bincount(values, minlength=6).astype(np.int64), epsilon)
    assert found.tolist() == [rank.parts * score(values, c, fraction, target) for c in range(6)]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.sampled_from([0.05, 1.0, 3.0, 1e3]))
def test_chances_are_those_of_permute_and_flip(scores: list[int], scale: float) -> None:
    found = selection_probabilities(np.array(scores), scale)
    assert found == pytest.approx(flip(scores, 1.0 / scale), rel=1e-9, abs=1e-18)


@pytest.mark.parametrize(("scale", "size"), [(1.0, 3), (50.0, 400), (1e4, 400), (1e9, 4_096)])
def test_chances_of_many_candidates(scale: float, size: int) -> None:
    """By the polynomial Π(1 − u·p_j) on a fine grid of its own, logarithmic in u, by the trapezoidal rule."""
    scores = np.abs(np.arange(size) - size // 3) // 2
    likely = np.exp(-(scores - scores.min()) / scale)
    grid = np.linspace(-45.0, 0.0, 1_001)[:-1]
    distinct, times = np.unique(likely, return_counts=True)
    logs = np.array([np.log1p(-math.exp(z) * distinct) @ times for z in grid])
    at = [0, size // 3, size - 1]
    weights = np.exp(grid) * (grid[1] - grid[0])
    wanted = [likely[c] * float((weights * np.exp(logs - np.log1p(-np.exp(grid) * likely[c]))).sum()) for c in at]
    found = selection_probabilities(scores, scale)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    assert [float(found[c]) for c in at] == pytest.approx(wanted, rel=2e-2, abs=1e-15)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=6, unique=True), st.data())
def test_expected_distances_are_sums(values: list[int], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(1, 9), min_size=len(values), max_size=len(values)))
    chances = np.array(weights) / sum(weights)
    points = np.array([-12.0, 0.5, 3.0, 40.0])
    ordered = np.array(sorted(values), dtype=np.float64)
    wanted = [sum(p * abs(v - y) for p, v in zip(chances, ordered, strict=True)) for y in points]
    assert expected_distances(ordered, chances, points) == pytest.approx(wanted, rel=1e-12, abs=1e-12)


def test_a_draw_lies_within_the_stated_rows() -> None:
    """E3, by exact chances: with 95 % the rank misses by no more than is stated, whatever the values are.

    At the smallest ε the bound is the number of rows that can count, which 200 people fill here.
    """
    generator = np.random.default_rng(5)
    for fraction in FRACTIONS:
        for epsilon in (0.001, 0.1, 1.0):
            rank = make_rank(fraction, 60)
            counts = np.bincount(generator.integers(0, 61, 200), minlength=61).astype(np.int64)
            missed = rank.scores(counts, epsilon) / rank.parts
            outside = missed > rank.rank_error(epsilon, 200)
            assert rank.chances(counts, epsilon)[outside].sum() <= 0.05
        assert rank.rank_error(0.001, 200) == 200.0 * rank.rows < rank.rank_error(0.001, None)
    assert rank.rank_error(1.0, None, cells=40) > rank.rank_error(1.0, None)


def test_empty_cells_give_every_candidate_the_same_chance() -> None:
    for fraction in FRACTIONS:
        rank = make_rank(fraction, 9)
        assert rank.chances(rank.count(None), 1.0) == pytest.approx([0.1] * 10)
