"""What the study draws: the same for the same seed, balanced, and fair."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from dosimeter.errors import DataError
from dosimeter_paper.study.answers import GROUPS
from dosimeter_paper.study.generate import draw_assignment, draw_sample, make_participant_number

CELLS = {(group, first) for group in GROUPS for first in ("q1", "q2")}


def draw(slot: int, seed: int, groups: tuple[str, ...] = GROUPS) -> tuple[str, str]:
    drawn = draw_assignment(slot, groups, seed=seed)
    return drawn.group, drawn.first_query


@pytest.mark.parametrize("seed", [0, 1, 99])
def test_every_block_holds_every_group_and_order_once(seed: int) -> None:
    for block in range(20):
        assert {draw(6 * block + place, seed) for place in range(6)} == CELLS


def test_groups_never_drift_apart() -> None:
    """After any number of participants two groups differ by two at most: half a block."""
    sizes: Counter[str] = Counter(dict.fromkeys(GROUPS, 0))
    for slot in range(200):
        sizes[draw(slot, 5)[0]] += 1
        assert max(sizes.values()) - min(sizes.values()) <= 2


def test_two_groups_make_blocks_of_four() -> None:
    drawn = [draw(slot, 1, ("control", "range")) for slot in range(4)]
    assert set(drawn) == {(group, first) for group in ("control", "range") for first in ("q1", "q2")}


def test_assignment_depends_on_seed_and_slot_alone() -> None:
    forwards = [draw(slot, 8) for slot in range(60)]
    backwards = [draw(slot, 8) for slot in reversed(range(60))]
    assert forwards == backwards[::-1]
    assert forwards != [draw(slot, 9) for slot in range(60)]
    assert len({tuple(forwards[at : at + 6]) for at in range(0, 60, 6)}) > 1, "every block has the same order"


@pytest.mark.parametrize("slot", [0, 3])
def test_every_cell_is_as_likely_in_every_place(slot: int) -> None:
    """n = 3,000 seeds, 6 cells; each count within 4.9 standard deviations: α = 6e-6 for all cells together."""
    n = 3000
    found = Counter(draw(slot, seed) for seed in range(n))
    spread = math.sqrt(n * (1 / 6) * (5 / 6))
    assert found.keys() == CELLS
    assert all(abs(count - n / 6) < 4.9 * spread for count in found.values())


def test_sample_is_the_same_for_the_same_seed() -> None:
    rows = draw_sample(5000, 100, seed=1)
    assert rows == draw_sample(5000, 100, seed=1) != draw_sample(5000, 100, seed=2)
    assert len(set(rows)) == 100
    assert rows == sorted(rows)
    assert 0 <= rows[0] <= rows[-1] < 5000
    assert draw_sample(100, 100, seed=4) == list(range(100))


def test_too_little_data_is_refused() -> None:
    with pytest.raises(DataError, match="99 records"):
        draw_sample(99, 100, seed=1)


def test_participant_numbers_say_nothing_about_their_order() -> None:
    numbers = [make_participant_number() for _ in range(50)]
    assert all(10_000_000 <= number <= 99_999_999 for number in numbers)
    assert numbers != sorted(numbers)  # fails by chance once in 50! runs
