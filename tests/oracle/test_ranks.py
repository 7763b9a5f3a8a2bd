"""What is drawn by rank, against really leaving everybody out: RDRs (R12), by tables in Python and permutations.

Neither the closed forms nor the quadrature are used here: everybody is deleted in turn, the answer is computed anew
from sorted values, and the chances of what is drawn come from walking through the candidates in every order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.assessment import Risk
from dosimeter_paper.recompute import recompute_risk
from tests.math.rank_tables import end_target, flip, score
from tests.schemas import category, declare, whole

UPPER, GROUPS = 5, ("a", "b")
EPSILON = 1.3
Row = tuple[str, str, int | None]  # who, group, value


def open_table(rows: Sequence[Row], most: int) -> Dataset:
    columns: dict[str, Any] = {"g": category(*GROUPS), "v": whole(0, UPPER)}
    schema = declare("t", 20, columns)
    table = {"g": pa.array([g for _, g, _ in rows]), "v": pa.array([v for _, _, v in rows], pa.int64())}
    if most > 1:
        schema |= {"unit": "who", "max_rows_per_unit": most, "row_key": "key"}
        columns |= {"who": {"type": "text"}, "key": {"type": "integer"}}
        table |= {"who": pa.array([who for who, _, _ in rows]), "key": pa.array(range(len(rows)), pa.int64())}
    return Dataset.open(pa.table(table), schema=schema, table="t")


def quantile(values: Sequence[int], fraction: Fraction) -> Fraction:
    """SQL's QUANTILE_CONT; the middle of the bounds where there is nothing (C6)."""
    if not values:
        return Fraction(UPPER, 2)
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    low = ordered[int(place)]
    high = ordered[min(int(place) + 1, len(ordered) - 1)]
    return low + (place - int(place)) * (high - low)


def chances(values: Sequence[int], fraction: Fraction, most: int, share: float) -> list[float]:
    candidates = UPPER + 1
    end = fraction in (0, 1)
    target = end_target(len(values), fraction, most, candidates, share) if end else None
    parts = 2 if end else fraction.denominator
    shift = 2 if end else max(fraction.numerator, parts - fraction.numerator)
    scores = [float(score(values, c, fraction, target)) for c in range(candidates)]
    return flip(scores, parts * share / (2 * most * shift))


def cells(rows: Sequence[Row], grouped: bool) -> list[list[int]]:
    groups = [(g,) for g in GROUPS] if grouped else [GROUPS]
    return [[v for _, g, v in rows if g in kept and v is not None] for kept in groups]


def expected(
    rows: Sequence[Row], fractions: Sequence[Fraction], most: int, *, grouped: bool
) -> tuple[list[float], list[float]]:
    """Everybody's RDR by the bound and exactly: leave out, measure again, and average over what may be drawn."""
    reach = min(most, len(GROUPS)) if grouped else 1
    weight = 1.0 if len(fractions) == 1 else 1.0 / (reach * UPPER)
    share = EPSILON / len(fractions)
    bounds, exacts = [], []
    whole = cells(rows, grouped)
    drawn = {(at, f): chances(values, f, most, share) for at, values in enumerate(whole) for f in fractions}
    for who in sorted({row[0] for row in rows}):
        left = cells([row for row in rows if row[0] != who], grouped)
        bound = exact = 0.0
        for at, values in enumerate(whole):
            for f in fractions:
                before, after = quantile(values, f), quantile(left[at], f)
                bound += abs(float(before - after))
                bound += sum(p * abs(c - float(before)) for c, p in enumerate(drawn[at, f]))
                exact += sum(p * abs(c - float(after)) for c, p in enumerate(drawn[at, f]))
        bounds.append(bound * weight)
        exacts.append(exact * weight)
    return bounds, exacts


def everybody(risk: Risk) -> list[float]:
    found = risk.rdr(EPSILON)
    return [
        value for value, count in zip(found.values.tolist(), found.counts.tolist(), strict=True) for _ in range(count)
    ]


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    ("aggregates", "fractions"),
    [
        ("MEDIAN(v)", [Fraction(1, 2)]),
        ("MIN(v), QUANTILE_DISC(v, 0.75)", [Fraction(0), Fraction(3, 4)]),
        ("MAX(v)", [Fraction(1)]),
    ],
)
def test_rdr_is_that_of_really_leaving_everybody_out(
    aggregates: str, fractions: list[Fraction], grouped: bool, most: int
) -> None:
    chance = random.Random(f"{aggregates} {grouped} {most}")
    people = [str(at) for at in range(6)]
    rows: list[Row] = [
        (who, chance.choice(GROUPS), chance.choice([None, *range(UPPER + 1)]))
        for who in people
        for _ in range(chance.randint(1, most))
    ]
    sql = f"SELECT g, {aggregates} FROM t GROUP BY g" if grouped else f"SELECT {aggregates} FROM t"
    bounds, exacts = expected(rows, fractions, most, grouped=grouped)
    with open_table(rows, most) as dataset:
        own = dataset.risk(sql).absolute(EPSILON).own_epsilon
        largest = max(sum(row[0] == who and row[2] is not None for row in rows) for who in people)
        assert own <= EPSILON * largest / most * (1 + 1e-12)
        assert most == 1 or own == pytest.approx(EPSILON * largest / most)
        for indicator, wanted in (("bound", bounds), ("exact", exacts)):
            found = sorted(everybody(dataset.risk(sql, indicator=indicator)))
            assert found == pytest.approx(sorted(wanted), rel=1e-9)


def test_sums_and_ranks_share_one_epsilon() -> None:
    """A COUNT beside a MEDIAN: each has half of ε, and the RDR adds up what each of them does (S5, R12)."""
    rows: list[Row] = [(str(at), "a", at % 6) for at in range(8)]
    share = EPSILON / 2
    drawn = chances([v for _, _, v in rows if v is not None], Fraction(1, 2), 1, share)
    middle = float(quantile([v for _, _, v in rows if v is not None], Fraction(1, 2)))
    level = (
        sum(p * abs(c - middle) for c, p in enumerate(drawn)) / UPPER + 1.0 / share
    )  # COUNT: b = Δ/ε_j in units of Δ
    with open_table([*rows, ("outside", "b", 3)], 1) as dataset:
        risk = dataset.risk("SELECT COUNT(*), MEDIAN(v) FROM t WHERE g = 'a'")
        found = risk.rdr(EPSILON)
        assert found.values.min() == pytest.approx(level)  # of whoever is outside
        line = risk.candidate(EPSILON)
        assert line.noise_scale == pytest.approx(2 / EPSILON)
        assert line.error_95[0] is not None
        assert line.error_95[1] is None
        assert risk.absolute(EPSILON).own_epsilon == pytest.approx(EPSILON)
        assert risk.absolute(EPSILON).identification is None


def test_recompute_gives_the_same_risk() -> None:
    rows: list[Row] = [(str(at), GROUPS[at % 2], (at * 7) % 6) for at in range(9)]
    sql = "SELECT g, MEDIAN(v), MAX(v) FROM t GROUP BY g"
    with open_table(rows, 1) as dataset:
        closed, again = dataset.risk(sql), recompute_risk(dataset, sql)
        assert sorted(everybody(closed)) == pytest.approx(sorted(everybody(again)), rel=1e-9)


def test_ranks_find_an_epsilon_and_refuse_what_they_cannot(tmp_path: Path) -> None:
    from dosimeter import Ledger
    from dosimeter.errors import OptionError, QueryError

    rows: list[Row] = [(str(at), GROUPS[at % 2], (at * 7) % 6) for at in range(20)]
    with open_table(rows, 1) as dataset:
        risk = dataset.risk("SELECT MEDIAN(v) FROM t")
        choice = risk.find("ratio:0.5")
        assert choice.limit is None
        assert risk.sensitivity == UPPER
        assert all(line.noise_scale is None and line.error_95 == (None,) for line in choice.candidates)
        assert [person.own_epsilon for person in risk.list_people(3, epsilon=1.0)] == [1.0, 1.0, 1.0]
        assert len(risk.by("g")) == 2
        with pytest.raises(OptionError, match="pure ε"):
            dataset.risk("SELECT MEDIAN(v), COUNT(*) FROM t", mechanism="gaussian")
        noisy = dataset.risk("SELECT MEDIAN(v) FROM t", mechanism="gaussian", quantiles="noise")
        assert noisy.candidate(1.0).noise_scale is not None
        with pytest.raises(QueryError, match="by ranks only"):
            dataset.risk("SELECT QUANTILE_DISC(v, 0.5) FROM t", quantiles="noise")
        with pytest.raises(QueryError, match="six decimals"):
            dataset.risk("SELECT QUANTILE_CONT(v, 0.1234567) FROM t")
        with Ledger.open(tmp_path / "ledger.db") as ledger, pytest.raises(QueryError):
            dataset.release("SELECT MEDIAN(v) FROM t", svt=1.0, variance=1e-3, ledger=ledger, policy="budget:9")


def test_one_query_for_each_argument_measures_what_one_for_all_does() -> None:
    from dosimeter.influence import measure_exactly

    rows: list[Row] = [(str(at), GROUPS[at % 2], [None, 0, 2, 5][at % 4]) for at in range(15)]
    sql = "SELECT g, MEDIAN(v), COUNT(*), MAX(2 * v - 3), SUM(v), COUNT(DISTINCT v), MIN(v) FROM t GROUP BY g"
    with open_table(rows, 1) as dataset:
        risk = dataset.risk(sql)
        apart = measure_exactly(risk.plan, dataset.tables, None)
        assert apart.keys == risk.measured().keys
        assert apart.values == risk.measured().values
        for at, rank in risk.plan.ranks.items():
            for one, other in zip(apart.columns[at], risk.measured().columns[at], strict=True):
                assert rank.count(one).tolist() == rank.count(other).tolist()
