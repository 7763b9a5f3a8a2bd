"""The rows of an answer: post-processing of noisy numbers, clamping, what is drawn by rank (M4, E3), what is kept."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import LedgerError
from dosimeter.postprocess.computed_estimates import estimate_group
from dosimeter.release import ex_post_risk
from tests.earlier_releases import noise_for_quantiles
from tests.known import known
from tests.unit.release_stays import COLUMNS, WARDS, account_of, ask, preview, rows_of


def test_an_empty_group_gets_noise_too(stays: Dataset, ledger: Ledger) -> None:
    """At ε = 0.01 ten counts of nobody are all 0 with a probability below 1e-22."""
    seen = set()
    for _ in range(10):
        answer = ask(stays, ledger, "SELECT ward, COUNT(*) FROM stays GROUP BY ward", epsilon=0.01, again=True)
        seen.add(answer[3]["count"])
    assert seen != {0}
    assert all(type(count) is int for count in seen)


def test_having_order_and_limit_look_at_noisy_numbers(stays: Dataset, ledger: Ledger) -> None:
    sql = (
        "SELECT ward, COUNT(*) AS n, SUM(nights) AS s FROM stays GROUP BY ward "
        "HAVING COUNT(*) > -5 ORDER BY s DESC LIMIT 2"
    )
    for _ in range(8):
        answer = ask(stays, ledger, sql, epsilon=0.2, again=True)
        entry = account_of(ledger).entries[-1]
        noisy = [(ward, int(row[0]), int(row[1])) for ward, row in zip(WARDS, known(entry.measured), strict=True)]
        kept = sorted((group for group in noisy if group[1] > -5), key=lambda group: -group[2])[:2]
        assert [(row["s"]) for row in answer] == [group[2] for group in kept]
        assert {(row["ward"], row["n"], row["s"]) for row in answer} <= set(noisy)


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


def test_a_clamped_spread_is_one_that_the_bounds_allow(stays: Dataset) -> None:
    """Of numbers between 0 and 9 the variance is at most 4.5², with one half of them at each end."""
    plan = stays.plan("SELECT VAR_POP(nights), STDDEV_POP(nights) FROM stays")
    for noisy, free, clamped in ((1000, [100.0, 10.0], [20.25, 4.5]), (160, [16.0, 4.0], [16.0, 4.0])):
        measured = [Fraction(10), Fraction(0), Fraction(noisy)]  # how many, their sum and squares from the middle
        assert estimate_group(plan, measured) == free
        assert estimate_group(plan, measured, clamp=True) == clamped
    below = [Fraction(10), Fraction(0), Fraction(-50)]
    assert estimate_group(plan, below) == [0.0, 0.0]


# ---------------------------------------------------------------- what is drawn by rank


RANKS = "SELECT MEDIAN(nights) AS m, MIN(nights) AS least, MAX(nights) AS most FROM stays"


def values_of(column: str, ward: str | None = None) -> list[float]:
    rows = zip(COLUMNS["ward"], COLUMNS[column], strict=True)
    return sorted(float(value) for w, value in rows if value is not None and ward in (None, w))


def is_quantile(value: float, values: list[float], fraction: float) -> bool:
    """Whether the value is one that the inverse of the distribution function allows: any in the gap is one."""
    below, upto = (sum(test) for test in ([v < value for v in values], [v <= value for v in values]))
    return below <= fraction * len(values) <= upto


def test_an_answer_tells_its_ranks_and_lies_within_its_bounds(stays: Dataset, ledger: Ledger) -> None:
    seen = preview(stays, ledger, RANKS, epsilon=0.6, policy="budget:9")["analyst_sees"]
    answer = stays.release(RANKS, ledger=ledger, epsilon=0.6, policy="budget:9")
    document = answer.describe()
    assert (seen["rank_errors"], seen["error_95"]) == (document["rank_errors"], document["error_95"])
    assert seen["about"] == [fact for fact in answer.about if "below 0 is noise" not in fact]
    assert document["error_95"] == [None, None, None]
    share, candidates = 0.2, 10
    assert document["rank_errors"] == pytest.approx(
        # 53 rows for both ends by the formula; 40 people are declared, with one row each
        {"m": 2 * 1 / (2 * share) * math.log(20 * candidates), "least": 40.0, "most": 40.0}
    )
    rows = math.ceil(4 * math.log(candidates) / share)
    for fact in (f"MIN(nights) is the value that about {rows} ", f"MAX(nights) is the value that about {rows} "):
        assert any(fact in told for told in answer.about)
    for row in rows_of(answer):
        assert all(0 <= value <= 9 and value == int(value) for value in row.values())
    assert "within about 27 people" in answer._repr_html_()
    again = stays.release(RANKS, ledger=ledger, epsilon=0.6, clamp=True)
    assert again.repeated
    assert (again.answer, again.rank_errors) == (answer.answer, answer.rank_errors)
    assert len(set(again.about) - set(answer.about)) == 1  # that it was clamped
    (entry,) = account_of(ledger).entries
    assert [float(Fraction(text)) for text in known(entry.measured)[0]] == list(rows_of(answer)[0].values())
    with pytest.raises(LedgerError, match="drawn by rank"):
        ex_post_risk(stays, entry)


def test_where_epsilon_is_hidden_so_are_the_ranks(stays: Dataset, ledger: Ledger) -> None:
    answer = stays.release(RANKS, ledger=ledger, prefer="AVG(rdr) >= 0", policy="budget:99")
    document = answer.describe()
    assert document["epsilon"] is None
    assert document["error_95"] is None
    assert "rank_errors" not in document
    ranks = [sentence for sentence in answer.about if "rank" in sentence]
    assert len(ranks) == 3
    assert not any(letter.isdigit() for sentence in ranks for letter in sentence)
    bounds = "nights: values below 0 count as 0, and above 9 as 9."  # public, and no function of ε
    assert set(answer.about) - {*ranks} == {bounds}
    seen = preview(stays, ledger, "SELECT MAX(nights) FROM stays", prefer="AVG(rdr) >= 0")["analyst_sees"]
    assert seen["about"] == [bounds, next(fact for fact in ranks if "MAX(nights)" in fact)]


def test_at_a_huge_epsilon_what_is_drawn_is_the_quantile(stays: Dataset, ledger: Ledger) -> None:
    sql = (
        "SELECT ward, MEDIAN(nights) AS m, QUANTILE_CONT(nights, 0.9) AS c, QUANTILE_DISC(cost, 0.25) AS d, "
        "MIN(cost) AS least, MAX(cost) AS most FROM stays GROUP BY ward"
    )
    for ward, row in zip(WARDS, ask(stays, ledger, sql), strict=True):
        nights, cost = values_of("nights", ward), values_of("cost", ward)
        assert row["ward"] == ward
        assert is_quantile(row["m"], nights, 0.5)
        assert is_quantile(row["c"], nights, 0.9)
        assert is_quantile(row["d"], cost, 0.25)
        end = min(1, len(cost) / 2)  # M5: one row from the end, or the middle of fewer than two
        assert sum(v < row["least"] for v in cost) <= end <= sum(v <= row["least"] for v in cost)
        assert sum(v > row["most"] for v in cost) <= end <= sum(v >= row["most"] for v in cost)


def test_a_median_with_noise_of_an_earlier_version_is_another_request_and_can_be_looked_back_at(
    stays: Dataset, ledger: Ledger
) -> None:
    sql = "SELECT MEDIAN(nights) FROM stays"
    drawn = stays.release(sql, ledger=ledger, epsilon=1.0, policy="budget:9")
    with noise_for_quantiles():
        noisy = stays.release(sql, ledger=ledger, epsilon=1.0)
        assert stays.release(sql, ledger=ledger, epsilon=1.0).repeated
    assert not noisy.repeated
    assert noisy.error_95 != drawn.error_95
    after = ex_post_risk(stays, account_of(ledger).entries[1])
    assert after.k == 1
