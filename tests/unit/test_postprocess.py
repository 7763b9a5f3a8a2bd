"""The rows of an answer: declared groups, post-processing of noisy numbers, clamping, what is kept of them."""

from __future__ import annotations

import statistics
from fractions import Fraction

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.postprocess.computed_estimates import estimate_group
from tests.earlier_releases import noise_for_quantiles
from tests.unit.release_stays import COLUMNS, WARDS, account_of, ask


def test_every_declared_group_is_answered(stays: Dataset, ledger: Ledger) -> None:
    answer = ask(stays, ledger, "SELECT ward, COUNT(*) FROM stays WHERE nights > 2 GROUP BY ward")
    counted = dict.fromkeys(WARDS, 0)
    for ward, nights in zip(COLUMNS["ward"], COLUMNS["nights"], strict=True):
        counted[ward] += nights > 2
    assert answer == [{"ward": ward, "count": counted[ward]} for ward in WARDS]
    assert counted["nobody"] == 0
    assert all(type(row["count"]) is int for row in answer)


def test_an_empty_group_gets_noise_too(stays: Dataset, ledger: Ledger) -> None:
    """At ε = 0.01 ten counts of nobody are all 0 with a probability below 1e-22."""
    seen = set()
    for _ in range(10):
        answer = ask(stays, ledger, "SELECT ward, COUNT(*) FROM stays GROUP BY ward", epsilon=0.01, again=True)
        seen.add(answer[3]["count"])
    assert seen != {0}
    assert all(type(count) is int for count in seen)


def test_dates_in_groups_are_iso_text(stays: Dataset, ledger: Ledger) -> None:
    answer = ask(stays, ledger, "SELECT day, COUNT(*) FROM stays GROUP BY day")
    assert answer == [
        {"day": "2026-01-01", "count": 15},
        {"day": "2026-01-02", "count": 15},
        {"day": "2026-01-03", "count": 0},
    ]


def test_averages_and_spreads_come_from_sums(stays: Dataset, ledger: Ledger) -> None:
    aggregates = "AVG(nights) AS a, VAR_POP(nights) AS v, STDDEV_POP(nights) AS s, AVG(cost) AS c"
    sql = f"SELECT ward, {aggregates} FROM stays GROUP BY 1"
    answer = ask(stays, ledger, sql)
    for ward, row in zip(WARDS[:3], answer, strict=False):
        nights = [n for w, n in zip(COLUMNS["ward"], COLUMNS["nights"], strict=True) if w == ward]
        cost = [c for w, c in zip(COLUMNS["ward"], COLUMNS["cost"], strict=True) if w == ward]
        assert row["a"] == pytest.approx(statistics.fmean(nights))
        assert row["v"] == pytest.approx(statistics.pvariance(nights))
        assert row["s"] == pytest.approx(statistics.pstdev(nights))
        assert row["c"] == pytest.approx(statistics.fmean(cost))
    assert answer[3] == {"ward": "nobody", "a": None, "v": None, "s": None, "c": None}  # too few to tell


def test_having_order_and_limit_look_at_noisy_numbers(stays: Dataset, ledger: Ledger) -> None:
    sql = (
        "SELECT ward, COUNT(*) AS n, SUM(nights) AS s FROM stays GROUP BY ward "
        "HAVING COUNT(*) > -5 ORDER BY s DESC LIMIT 2"
    )
    for _ in range(8):
        answer = ask(stays, ledger, sql, epsilon=0.2, again=True)
        entry = account_of(ledger).entries[-1]
        assert entry.measured is not None
        noisy = [(ward, int(row[0]), int(row[1])) for ward, row in zip(WARDS, entry.measured, strict=True)]
        kept = sorted((group for group in noisy if group[1] > -5), key=lambda group: -group[2])[:2]
        assert [(row["s"]) for row in answer] == [group[2] for group in kept]
        assert {(row["ward"], row["n"], row["s"]) for row in answer} <= set(noisy)


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
@pytest.mark.parametrize("place", ["FIRST", "LAST"])
def test_groups_without_a_value_stand_first_or_last(stays: Dataset, ledger: Ledger, direction: str, place: str) -> None:
    sql = f"SELECT ward, NULLIF(COUNT(*), 0) AS n FROM stays GROUP BY ward ORDER BY n {direction} NULLS {place}, ward"
    answer = [(row["ward"], row["n"]) for row in ask(stays, ledger, sql)]
    some = sorted((ward, 10) for ward in WARDS[:3])
    assert answer == ([("nobody", None), *some] if place == "FIRST" else [*some, ("nobody", None)])


def test_arithmetic_over_aggregates_never_fails(stays: Dataset, ledger: Ledger) -> None:
    """Noise brings counts to 0 and below: whatever is divided by them, an answer comes out and can be kept."""
    sql = (
        "SELECT ward, SUM(nights) / COUNT(*) AS q, ROUND(AVG(cost) / NULLIF(COUNT(*), 0), 2) AS r, "
        "GREATEST(COUNT(*), 0) * 1.5 AS g FROM stays GROUP BY ward HAVING SUM(nights) / COUNT(*) < 1e9 ORDER BY q"
    )
    for epsilon in (0.01, 0.05, 1.0) * 4:
        answer = ask(stays, ledger, sql, epsilon=epsilon, again=True)
        assert all(row["g"] >= 0 for row in answer)
        assert [row["q"] for row in answer] == sorted(row["q"] for row in answer)


def test_a_number_beyond_all_floats_is_null_and_not_a_failure(stays: Dataset, ledger: Ledger) -> None:
    huge = " * ".join(["1000000000000"] * 27)
    sql = f"SELECT AVG(nights) * {huge} AS huge, AVG(nights) * {huge} - AVG(nights) * {huge} AS none FROM stays"
    assert ask(stays, ledger, sql, epsilon=9.0) == [{"huge": None, "none": None}]
    assert account_of(ledger).entries[0].status == "released"


@noise_for_quantiles()
def test_clamping_is_post_processing(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT ward, COUNT(*) AS n, AVG(nights) AS a, MIN(cost) AS m, SUM(nights) AS s FROM stays GROUP BY ward"
    outside = 0
    for _ in range(4):
        for row in ask(stays, ledger, sql, epsilon=0.05, again=True, clamp=True):
            assert row["n"] >= 0
            assert row["a"] is None or 0 <= row["a"] <= 9
            assert 0 <= row["m"] <= 100
        for row in ask(stays, ledger, sql, epsilon=0.05, again=True):
            outside += row["n"] < 0 or not 0 <= row["m"] <= 100
    assert outside > 0


def test_a_clamped_spread_is_one_that_the_bounds_allow(stays: Dataset) -> None:
    """Of numbers between 0 and 9 the variance is at most 4.5², with one half of them at each end."""
    plan = stays.plan("SELECT VAR_POP(nights), STDDEV_POP(nights) FROM stays")
    for noisy, free, clamped in ((1000, [100.0, 10.0], [20.25, 4.5]), (160, [16.0, 4.0], [16.0, 4.0])):
        measured = [Fraction(10), Fraction(0), Fraction(noisy)]  # how many, their sum and squares from the middle
        assert estimate_group(plan, measured) == free
        assert estimate_group(plan, measured, clamp=True) == clamped
    below = [Fraction(10), Fraction(0), Fraction(-50)]
    assert estimate_group(plan, below) == [0.0, 0.0]


@noise_for_quantiles()
def test_measured_numbers_are_kept_exactly(stays: Dataset, ledger: Ledger) -> None:
    """What went into AVG can be read back, on the grid of the noise, and gives the answer again."""
    sql = "SELECT AVG(nights) AS a, MEDIAN(cost) AS m FROM stays"
    (row,) = ask(stays, ledger, sql, epsilon=3.0)
    entry = account_of(ledger).entries[0]
    assert entry.measured is not None
    count, total, median = (Fraction(text) for text in entry.measured[0])
    assert row["a"] == float(Fraction(9, 2) + total / count)
    assert row["m"] == float(median)
    assert count.denominator == 1
    assert (total * 2).denominator == 1
    assert (median * 2**20 / 50).denominator == 1
