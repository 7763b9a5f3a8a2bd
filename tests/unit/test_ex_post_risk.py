"""After the release: ex-post losses as likelihood ratios, for this query on these data alone."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import LedgerError
from dosimeter.release.ex_post import ex_post_risk
from dosimeter.release.noisy_vector import calibrate_plan
from tests.unit.release_stays import COLUMNS, ROWS, WARDS, account_of, make_table, schema_of


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_ex_post_losses_are_likelihood_ratios(stays: Dataset, ledger: Ledger, mechanism: Any) -> None:
    """R1 and R2 by really leaving out every person and comparing how likely the released numbers are."""
    sql = "SELECT ward, AVG(nights) FROM stays GROUP BY ward HAVING COUNT(nights) > 1000"
    answer = stays.release(sql, ledger=ledger, epsilon=1.5, policy="paper", mechanism=mechanism)
    assert answer.answer == []  # every group is left out, and the numbers are still known
    entry = account_of(ledger).entries[0]
    found = ex_post_risk(stays, entry)
    assert (found.n, found.declared) == (30, 40)  # ten slots are empty, and nobody is counted for them (N5)
    assert entry.measured is not None
    noisy = [[Fraction(text) for text in row] for row in entry.measured]
    scale = calibrate_plan(stays.plan(sql), found.mechanism, Decimal("1.5"))[0].scale  # COUNT: steps of 1, Δ = 1

    def measured(rows: list[int]) -> list[list[Fraction]]:
        totals = [[Fraction(0), Fraction(0)] for _ in WARDS]
        for row in rows:
            group = totals[WARDS.index(COLUMNS["ward"][row])]
            group[0] += 1
            group[1] += COLUMNS["nights"][row] - Fraction(9, 2)
        return totals

    everybody = list(range(ROWS))

    def fit(rows: list[int]) -> tuple[float, float]:
        """The distance of the noisy numbers from these rows' answer, and their log-likelihood."""
        distances = [
            float(abs(o - q) / delta)
            for seen, true in zip(noisy, measured(rows), strict=True)
            for o, q, delta in zip(seen, true, (Fraction(1), Fraction(9, 2)), strict=True)
        ]
        if mechanism == "laplace":
            return math.fsum(distances), -math.fsum(distances) / scale
        return math.hypot(*distances), -math.fsum(d * d for d in distances) / (2 * scale * scale)

    here = fit(everybody)
    expected = []
    for person in everybody:
        there = fit([row for row in everybody if row != person])
        expected.append((there[0], here[1] - there[1]))
    listed = [
        (rdr, loss)
        for rdr, loss, count in zip(found.rdr, found.losses, found.counts, strict=True)
        for _ in range(int(count))
    ]
    for (rdr, loss), (true_rdr, true_loss) in zip(sorted(listed), sorted(expected), strict=True):
        assert rdr == pytest.approx(true_rdr, rel=1e-9)
        assert loss == pytest.approx(true_loss, rel=1e-9, abs=1e-9)
    if mechanism == "laplace":
        assert abs(found.losses).max() <= 1.5 * (1 + 1e-12)
    assert all(a >= b for a, b in pairwise(found.losses))


def test_only_the_answer_to_this_query_on_these_data_can_be_looked_back_at(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT COUNT(*) FROM stays"
    stays.release(sql, ledger=ledger, epsilon=0.5, policy="budget:1")
    stays.release(sql, ledger=ledger, epsilon=5.0)
    released, denied = account_of(ledger).entries
    with pytest.raises(LedgerError, match="gave no answer"):
        ex_post_risk(stays, denied)
    with pytest.raises(LedgerError, match="another query"):
        ex_post_risk(stays, released, "SELECT COUNT(*) FROM stays WHERE urgent")
    with (
        Dataset.open(make_table(nights=[1] * ROWS), schema=schema_of()) as changed,
        pytest.raises(LedgerError, match="other data"),
    ):
        ex_post_risk(changed, released)
    assert "redacted" in repr(ex_post_risk(stays, released))
