"""After the release: ex-post losses as likelihood ratios, for this query on these data alone."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import LedgerError
from dosimeter.options import LookOptions
from dosimeter.planning import build_mechanism, plan_options, plan_query
from dosimeter.query import Query
from dosimeter.release import Fixed, ReleaseOrder, Terms, prepare_release, release
from dosimeter.release.ex_post import ex_post_risk, recall_look, recall_plan_options
from dosimeter.release.noisy_vector import calibrate_plan
from dosimeter.risk import parse_candidates
from tests.schemas import category, whole
from tests.unit.release_stays import COLUMNS, ROWS, WARDS, account_of, make_table, schema_of

AVERAGES = "SELECT ward, AVG(nights) FROM stays GROUP BY ward HAVING COUNT(nights) > 1000"  # shows no group
UNION = (
    "SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward UNION ALL SELECT 'urgent', COUNT(*) FROM stays WHERE urgent"
)


def measure(sql: str, rows: list[int]) -> list[tuple[Fraction, Fraction]]:
    """Return every number that is measured of these rows, and how far an individual moves it."""
    in_wards = [[row for row in rows if COLUMNS["ward"][row] == ward] for ward in WARDS]
    counts = [(Fraction(len(own)), Fraction(1)) for own in in_wards]
    if sql == UNION:
        return [*counts, (Fraction(sum(COLUMNS["urgent"][row] for row in rows)), Fraction(1))]
    middle = Fraction(9, 2)
    sums = [(sum((COLUMNS["nights"][row] - middle for row in own), Fraction(0)), middle) for own in in_wards]
    return [number for pair in zip(counts, sums, strict=True) for number in pair]


@pytest.mark.parametrize("sql", [AVERAGES, UNION], ids=["one SELECT", "two SELECTs"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_ex_post_losses_are_likelihood_ratios(stays: Dataset, ledger: Ledger, mechanism: Any, sql: str) -> None:
    """R1 and R2 by really leaving out every person and comparing how likely the released numbers are."""
    stays.release(sql, ledger=ledger, epsilon=1.5, policy="paper", mechanism=mechanism)
    entry = account_of(ledger).entries[0]
    found = ex_post_risk(stays, entry)
    assert (found.n, found.declared) == (30, 40)  # ten slots are empty, and nobody is counted for them (N5)
    noisy = [Fraction(text) for block in entry.blocks for row in block for text in row]
    scale = calibrate_plan(stays.plan(sql), found.mechanism, Decimal("1.5"))[0].scale  # COUNT: steps of 1, Δ = 1
    everybody = list(range(ROWS))

    def fit(rows: list[int]) -> tuple[float, float]:
        """The distance of the noisy numbers from these rows' answer, and their log-likelihood."""
        distances = [float(abs(o - q) / delta) for o, (q, delta) in zip(noisy, measure(sql, rows), strict=True)]
        if mechanism == "laplace":
            return math.fsum(distances), -math.fsum(distances) / scale
        return math.hypot(*distances), -math.fsum(d * d for d in distances) / (2 * scale * scale)

    here = fit(everybody)
    without = [fit([row for row in everybody if row != person]) for person in everybody]
    expected = sorted((distance, here[1] - likely) for distance, likely in without)
    each = zip(found.rdr, found.losses, found.counts, strict=True)
    listed = sorted((rdr, loss) for rdr, loss, count in each for _ in range(int(count)))
    for (rdr, loss), (true_rdr, true_loss) in zip(listed, expected, strict=True):
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


FLOORS = pa.table({"name": WARDS, "floor": [0, 1, 1, 2]})
JOINED: dict[str, Any] = {
    "floors": {
        "source": "floors.csv",
        "public": True,
        "key": "name",
        "columns": {"name": category(*WARDS), "floor": whole(0, 2)},
    }
}
BY_WARD = "SELECT ward, COUNT(*) FROM stays GROUP BY ward"
BY_FLOOR = "SELECT floor, COUNT(*) FROM stays JOIN floors ON ward = name GROUP BY floor"


@pytest.mark.parametrize(
    ("sql", "given"),
    [
        (BY_WARD, {}),
        (BY_FLOOR, {}),
        (BY_WARD, {"mechanism": "gaussian"}),
        (BY_WARD, {"mechanism": "gaussian", "delta": 1e-5}),
        (BY_WARD, {"indicator": "cell", "candidates": "2,1,0.5"}),
        ("SELECT AVG(nights) FROM stays", {"min_rows": 5}),
        ("SELECT MEDIAN(nights) FROM stays", {}),
        (BY_WARD, {"groups": "thresholded", "group_delta": 1e-6}),
        (BY_FLOOR, {"groups": "thresholded", "group_delta": 1e-6}),
        (BY_WARD, {"groups": "thresholded", "group_delta": 1e-6, "mechanism": "gaussian", "delta": 1e-5}),
        (BY_FLOOR, {"groups": "thresholded", "group_delta": 3e-7, "mechanism": "gaussian", "indicator": "cell"}),
    ],
)
def test_every_option_of_a_release_is_recalled(ledger: Ledger, sql: str, given: dict[str, Any]) -> None:
    """What is planned again from the entry has the digest, the noise and the candidates that the release had."""
    schema = schema_of(tables=JOINED)
    with Dataset.open(make_table(), schema=schema, table="stays", tables={"floors": FLOORS}) as dataset:
        asked = LookOptions(**given)
        order = ReleaseOrder(Fixed(0.5), terms=Terms("budget:9", delta_total=1e-2))
        answered = release(Query(dataset, sql, asked), order, ledger)
        assert answered.status == "released"
        entry = account_of(ledger).entries[-1]
        recalled = recall_look(entry)
        prepared = prepare_release(dataset.schema, sql, asked, order)
        assert plan_query(sql, dataset.schema, recall_plan_options(entry)).digest == entry.request.plan_digest
        assert build_mechanism(recalled, dataset.n) == prepared.mechanism
        assert parse_candidates(recalled.candidates) == prepared.candidates
        for option, value in given.items():
            assert getattr(recalled, option) == value
        risk = dataset.assess_plan(dataset.plan(sql, plan_options(recalled)), recalled)
        assert 0.0 < risk.absolute(0.5).own_epsilon <= 0.5 * (1 + 1e-9)
