"""Releasing a query of several SELECTs: one charge, all noisy numbers in the ledger, and everything that reads them."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest.mock import Mock

import pytest

from dosimeter import Dataset, Ledger, QueryError
from dosimeter.mechanisms import Laplace
from dosimeter.planning import digest_measured
from dosimeter.postprocess import Noise, answers, assemble_answer, error_95
from dosimeter.release.noisy_vector import calibrate_plan
from dosimeter.risk import summarise_rdr
from dosimeter.sql import EmbeddedError
from dosimeter_paper.recompute import recompute_risk
from tests.known import known
from tests.unit.release_stays import EXACT, WARDS, account_of, rows_of

UNION = (
    "SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward UNION ALL SELECT 'urgent', COUNT(*) FROM stays WHERE urgent "
    "ORDER BY n DESC"
)
SHARE = "SELECT ward, 100.0 * COUNT(*) / (SELECT COUNT(*) FROM stays) AS percent FROM stays GROUP BY ward"
MEDIANS = "SELECT ward, MEDIAN(nights) AS m, COUNT(*) AS n FROM stays GROUP BY ROLLUP (ward)"


def test_one_charge_and_every_number_is_kept(stays: Dataset, ledger: Ledger) -> None:
    answer = stays.release(UNION, ledger=ledger, epsilon=0.5, policy="budget:2", clamp=True)
    (entry,) = account_of(ledger).entries
    assert entry.spent.epsilon == Decimal("0.5")
    assert [len(block) for block in entry.blocks] == [4, 1]
    numbers = [Fraction(row[0]) for block in entry.blocks for row in block]
    assert sorted(row["n"] for row in rows_of(answer)) == sorted(max(0, int(number)) for number in numbers)
    again = stays.release(UNION, ledger=ledger, epsilon=0.5, policy="budget:2")
    assert again.repeated
    assert sorted(row["n"] for row in rows_of(again)) == sorted(map(int, numbers))
    assert len(account_of(ledger).entries) == 1


def test_all_numbers_share_epsilon(stays: Dataset) -> None:
    """Two measures: each gets the noise of ε/2, and the error says so."""
    union, alone = stays.plan(UNION), stays.plan("SELECT COUNT(*) FROM stays")
    two, one = (calibrate_plan(plan, Laplace(), Decimal(1)) for plan in (union, alone))
    assert len(two) == 2
    assert all(math.isclose(noise.scale, 2 * one[0].scale, rel_tol=1e-9) for noise in two)
    scale = Laplace().scale(union.sensitivity(1), 1.0)
    assert error_95(union, Laplace(), scale, None) == (Laplace().error(2.0, 1.0),)


def test_the_error_of_a_union_is_its_largest(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT 'n' AS what, COUNT(*) AS number FROM stays UNION ALL SELECT 'nights', SUM(nights) FROM stays"
    answer = stays.release(sql, ledger=ledger, epsilon=1.0, policy="budget:2")
    assert answer.error_95 == (Laplace().error(2.0 * 9, 1.0),)  # a text without numbers has none


def test_epsilon_can_be_found_privately_for_counts_and_sums_alone(stays: Dataset, ledger: Ledger) -> None:
    how: dict[str, Any] = {"svt": 1.0, "variance": 0.9, "policy": "budget:100", "ledger": ledger}
    assert stays.release(UNION, **how).status == "released"
    with pytest.raises(QueryError, match="MEDIAN"):
        stays.release(MEDIANS, **how)


def test_the_digest_is_of_all_blocks(stays: Dataset) -> None:
    plans = [
        stays.plan(sql)
        for sql in (
            UNION,
            UNION.replace("WHERE urgent", "WHERE NOT urgent"),
            UNION.removesuffix(" ORDER BY n DESC"),
            "SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward",
        )
    ]
    assert len({plan.digest for plan in plans}) == 4
    measured = [digest_measured(plan) for plan in plans]
    assert measured[0] == measured[2]
    assert len(set(measured)) == 3
    first, _, second = UNION.removesuffix(" ORDER BY n DESC").partition(" UNION ALL ")
    assert digest_measured(stays.plan(f"{second} UNION ALL {first}")) == measured[0]


def test_equal_selects_are_measured_once(stays: Dataset) -> None:
    grouped = "WITH g AS (SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward)"
    plan = stays.plan(f"{grouped} SELECT * FROM g UNION ALL SELECT ward, n * 2 FROM g")
    assert plan.further == ()
    assert plan.sensitivity(1) == 1.0
    assert [str(output.formula) for output in plan.outputs] == ["CASE block WHEN 0 THEN g0 END", "None"]


def test_too_many_blocks_are_refused(stays: Dataset) -> None:
    numbers = ", ".join(f"(SELECT COUNT(*) FROM stays WHERE nights = {at}) AS n{at}" for at in range(260))
    with pytest.raises(QueryError, match="more than 256 SELECTs"):
        stays.plan(f"SELECT {numbers}")


@pytest.mark.parametrize("name", ["cell", "released_cell", "e0", "block", "part", "parts"])
def test_a_column_may_have_any_name(stays: Dataset, ledger: Ledger, name: str) -> None:
    """Also one that the tables behind the answer use."""
    sql = f"SELECT ward AS {name}, COUNT(*) AS n FROM stays GROUP BY ward UNION ALL SELECT 'all', COUNT(*) FROM stays"
    rows = rows_of(stays.release(sql, ledger=ledger, epsilon=EXACT, policy="budget:1e12"))
    assert [list(row.values()) for row in rows] == [*([ward, 10] for ward in WARDS[:3]), ["nobody", 0], ["all", 30]]


UNION_OF_RANKS = (
    "SELECT ward, MAX(nights) AS m, COUNT(*) AS n FROM stays GROUP BY ward "
    "UNION ALL SELECT 'all', MEDIAN(cost), SUM(nights) FROM stays"
)


@pytest.mark.parametrize("indicator", ["bound", "exact"])
@pytest.mark.parametrize("sql", [MEDIANS, UNION_OF_RANKS])
def test_ranks_of_several_blocks_are_those_of_really_leaving_people_out(
    stays: Dataset, sql: str, indicator: Any
) -> None:
    closed, again = stays.risk(sql, indicator=indicator), recompute_risk(stays, sql, indicator=indicator)
    for epsilon in (0.1, 2.0):
        assert summarise_rdr(closed.rdr(epsilon)).max == pytest.approx(summarise_rdr(again.rdr(epsilon)).max, rel=1e-9)
        assert summarise_rdr(closed.rdr(epsilon)).mean == pytest.approx(
            summarise_rdr(again.rdr(epsilon)).mean, rel=1e-9
        )


def test_ranks_of_several_blocks_share_epsilon(stays: Dataset) -> None:
    plan = stays.plan(MEDIANS)
    assert [block.rank_share(1.0) for block in plan.blocks] == [0.25, 0.25]  # two medians and two counts
    alone = stays.plan("SELECT MEDIAN(nights) FROM stays")
    (one,) = calibrate_plan(alone, Laplace(), Decimal("0.25"))
    drawn = calibrate_plan(plan, Laplace(), Decimal(1))
    assert [drawn[at].scale for at in plan.ranks] == [one.scale] * 2


@pytest.mark.parametrize(("everybody", "told"), [(5, False), (30, True)])
def test_a_share_of_a_total_that_too_few_make_up_is_not_told(stays: Dataset, everybody: int, told: bool) -> None:
    plan, laplace = stays.plan(SHARE), Laplace()
    noise = Noise.of(plan, laplace, laplace.scale(plan.sensitivity(1), 1.0))  # each count has noise of scale 2
    counts = [[Fraction(number)] for number in (10, 10, 10, 0)]
    further = [(((),), [[Fraction(everybody)]])]
    answer = assemble_answer(plan, known(plan.group_keys), counts, noise=noise, further=further)
    assert [row["percent"] is not None for row in answer.rows] == [told] * 4
    assert answer.has_too_few is not told


def test_a_quotient_over_sets_that_are_measured_apart(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT ward, MAX(nights) AS m, SUM(nights) / COUNT(*) AS mean FROM stays GROUP BY ROLLUP (ward)"
    answer = stays.release(sql, ledger=ledger, epsilon=EXACT, policy="budget:1e12")
    (plain,) = rows_of(stays.release("SELECT AVG(nights) AS mean FROM stays", ledger=ledger, epsilon=EXACT))
    assert rows_of(answer)[-1]["mean"] == pytest.approx(plain["mean"])
    noisy = stays.release(sql, ledger=ledger, epsilon=0.001)
    assert [row["mean"] for row in rows_of(noisy)].count(None) >= 3  # of five, noise of 12,000 on counts of at most 30


def test_where_the_rest_fails_every_block_is_the_answer(
    stays: Dataset, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = stays.plan(SHARE)
    monkeypatch.setattr(answers, "run_embedded", Mock(side_effect=EmbeddedError("it fails")))
    answer = stays.release(SHARE, ledger=ledger, epsilon=1.0, policy="budget:2")
    assert [list(row) for row in rows_of(answer)] == [[prepared.groups[0].name, "COUNT(*)"]] * 5
    assert [row["ward"] for row in rows_of(answer)] == [*WARDS, None]
    assert all(row["COUNT(*)"] == Laplace().error(2.0, 1.0) for row in known(answer.errors))
