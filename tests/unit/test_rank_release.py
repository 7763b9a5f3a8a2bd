"""Releases of what is drawn by rank: what the analyst reads, what the ledger keeps, what stays hidden (M4, E3, G2)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import InputError, LedgerError
from dosimeter.json_values import read_list
from dosimeter.release import ex_post_risk
from tests.earlier_releases import noise_for_quantiles
from tests.unit.release_stays import COLUMNS, WARDS, account_of, ask, preview, rows_of

SQL = "SELECT MEDIAN(nights) AS m, MIN(nights) AS least, MAX(nights) AS most FROM stays"


def values_of(column: str, ward: str | None = None) -> list[float]:
    rows = zip(COLUMNS["ward"], COLUMNS[column], strict=True)
    return sorted(float(value) for w, value in rows if value is not None and ward in (None, w))


def is_quantile(value: float, values: list[float], fraction: float) -> bool:
    """Whether the value is one that the inverse of the distribution function allows: any in the gap is one."""
    below, upto = (sum(test) for test in ([v < value for v in values], [v <= value for v in values]))
    return below <= fraction * len(values) <= upto


def test_an_answer_tells_its_ranks_and_lies_within_its_bounds(stays: Dataset, ledger: Ledger) -> None:
    answer = stays.release(SQL, ledger=ledger, epsilon=0.6, policy="budget:9")
    document = answer.describe()
    assert document["error_95"] == [None, None, None]
    share, candidates = 0.2, 10
    assert document["rank_errors"] == pytest.approx(
        {
            "m": 2 * 1 / (2 * share) * math.log(20 * candidates),
            "least": 40.0,  # 53 rows by the formula; 40 people are declared, with one row each
            "most": 40.0,
        }
    )
    rows = math.ceil(4 * math.log(candidates) / share)
    assert f"MIN(nights) is the value that about {rows} rows lie at or below." in answer.about
    assert f"MAX(nights) is the value that about {rows} rows lie at or above." in answer.about
    assert "MEDIAN(nights): within about 27 people of the middle (with 95 %)." in answer.about
    for row in rows_of(answer):
        assert all(0 <= value <= 9 and value == int(value) for value in row.values())
    assert "within about 27 people" in answer._repr_html_()
    again = stays.release(SQL, ledger=ledger, epsilon=0.6, clamp=True)
    assert again.repeated
    assert (again.answer, again.rank_errors) == (answer.answer, answer.rank_errors)
    assert set(again.about) - set(answer.about) == {"Numbers that left their bounds were put back."}
    (entry,) = account_of(ledger).entries
    assert entry.measured is not None
    assert [float(Fraction(text)) for text in entry.measured[0]] == list(rows_of(answer)[0].values())
    with pytest.raises(LedgerError, match="drawn by rank"):
        ex_post_risk(stays, entry)


def test_where_epsilon_is_hidden_so_are_the_ranks(stays: Dataset, ledger: Ledger) -> None:
    answer = stays.release(SQL, ledger=ledger, prefer="AVG(rdr) >= 0", policy="budget:99")
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
    assert seen["about"] == [bounds, "MAX(nights) is drawn by rank from values within its bounds."]


def test_a_dry_run_shows_what_the_answer_will_tell(stays: Dataset, ledger: Ledger) -> None:
    seen = preview(stays, ledger, SQL, epsilon=0.6, policy="budget:9")["analyst_sees"]
    given = stays.release(SQL, ledger=ledger, epsilon=0.6, policy="budget:9").describe()
    assert (seen["rank_errors"], seen["error_95"]) == (given["rank_errors"], given["error_95"])
    about = [str(sentence) for sentence in read_list(given["about"])]
    assert seen["about"] == [sentence for sentence in about if "below 0 is noise" not in sentence]


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


def test_quantiles_at_the_same_rank_are_one_measure(stays: Dataset) -> None:
    plan = stays.plan("SELECT MEDIAN(nights), QUANTILE_CONT(nights, 0.5), QUANTILE_DISC(nights, 0.50) FROM stays")
    assert len(plan.measures) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mechanism": "gaussian"}, "pure ε"),
        ({"svt": 1.0, "variance": 1e-3}, "privately"),
    ],
)
def test_what_ranks_refuse(stays: Dataset, ledger: Ledger, options: dict[str, Any], message: str) -> None:
    way = options if "svt" in options else {"epsilon": 1.0, **options}
    with pytest.raises(InputError, match=message):
        stays.release("SELECT MEDIAN(nights) FROM stays", ledger=ledger, policy="budget:9", **way)


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
