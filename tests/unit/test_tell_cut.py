"""What an answer tells of cut rows and clamped values (E5): its shares of ε, its JSON, its refusals, its repetition."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset, Fixed, Ledger, Preferred, Selected
from dosimeter.errors import OptionError
from dosimeter.ledger import Entry
from dosimeter.mechanisms import Gaussian, Laplace, Mechanism
from dosimeter.options import LookOptions
from dosimeter.planning import PlanOptions, QueryPlan, explain_plan, plan_query
from dosimeter.release import ReleaseOrder, prepare_release
from dosimeter.release.ex_post import ex_post_risk
from dosimeter.release.noise import Calibrated, add_noise, calibrate
from dosimeter.release.noisy_vector import calibrate_plan
from dosimeter.schema import read_schema
from dosimeter.web.public import show_answer
from dosimeter.web.query_planner import QueryPlanner
from dosimeter.web.settings import DatasetSettings
from tests.known import known
from tests.schemas import category, declare, plain, whole

STAYS: dict[str, Any] = declare(
    "stays",
    50,
    {"patient": plain("integer"), "ward": category("a", "b"), "nights": whole(0, 9), "name": plain("text")},
    tables={"wards": {"public": True, "key": "ward", "columns": {"ward": plain("text"), "beds": whole(0, 90)}}},
)
BY_PATIENT = read_schema({**STAYS, "unit": "patient", "max_rows_per_unit": 2})
BY_ROW = read_schema(STAYS)
COUNT, SUM = "SELECT COUNT(*) AS n FROM stays", "SELECT SUM(nights) AS s FROM stays"
BOTH = "SELECT ward, COUNT(*) AS n, SUM(nights) AS s FROM stays WHERE nights > 1 GROUP BY ward"
EXACT = 1e9


@pytest.fixture
def stays(shared_duckdb: None) -> Iterator[Dataset]:
    """Patients 0 to 9 with four stays each, of which two count: all are cut; every value of patient 3 is too large."""
    rows = [
        {"patient": at % 10, "ward": "ab"[at % 2], "nights": 12 if at % 10 == 3 else 5, "name": "x"} for at in range(40)
    ]
    tables = {"wards": pa.table({"ward": ["a"], "beds": [3]})}
    with Dataset.open(pa.Table.from_pylist(rows), schema=BY_PATIENT, table="stays", tables=tables) as dataset:
        yield dataset


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.db") as books:
        yield books


def plan_of(sql: str, schema: Any = BY_PATIENT, share: float = 0.2) -> QueryPlan:
    return plan_query(sql, schema, PlanOptions(tell_cut=share))


def entry_of(ledger: Ledger) -> Entry:
    return known(ledger.account("stays")).entries[-1]


# ---------------------------------------------------------------- shares


@pytest.mark.parametrize(
    ("sql", "schema", "asked", "told"),
    [
        (COUNT, BY_PATIENT, 1, ("cut",)),
        (SUM, BY_PATIENT, 1, ("cut", "clamped")),
        (BOTH, BY_PATIENT, 2, ("cut", "clamped")),
        (SUM, BY_ROW, 1, ("clamped",)),
        (COUNT, BY_ROW, 1, ()),
        ("SELECT MEDIAN(nights) AS m, COUNT(*) AS n FROM stays", BY_PATIENT, 2, ("cut", "clamped")),
    ],
)
@pytest.mark.parametrize("share", [0.2, 0.03, 0.9])
@pytest.mark.parametrize("mechanism", [Laplace(), Gaussian(1e-6)], ids=["laplace", "gaussian"])
def test_what_is_certified_adds_up_to_the_whole(
    sql: str, schema: Any, asked: int, told: tuple[str, ...], share: float, mechanism: Mechanism
) -> None:
    """OpenDP certifies share/2 of ε, or of ρ, for each number that is told; the others have equal parts of the rest."""
    plan = plan_of(sql, schema, share)
    if plan.ranks and not mechanism.pure:
        return
    assert known(plan.told).measured == told
    epsilon = Decimal("0.7")
    alone = Laplace() if mechanism.pure else mechanism
    whole_loss = calibrate(alone, sensitivity=1, epsilon=epsilon).certified
    losses = [Fraction(each.certified) for each in calibrate_plan(plan, mechanism, epsilon)]
    assert (
        sum(losses) <= Fraction("0.7")
        if mechanism.pure
        else sum(losses) <= Fraction(whole_loss) * (1 + Fraction(1, 10**9))
    )
    rest = (1 - len(told) * share / 2) / asked
    expected = [rest] * asked + [share / 2] * len(told)
    assert [float(loss) / whole_loss for loss in losses] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("mechanism", [Laplace(), Gaussian(1e-6)], ids=["laplace", "gaussian"])
def test_risk_and_release_have_the_same_noise(mechanism: Mechanism) -> None:
    """The scale that the risk reckons with is the one that the release draws from, number by number."""
    plan = plan_of(BOTH)
    scale = mechanism.scale(plan.sensitivity(mechanism.norm), 0.5) / plan.weights(mechanism.norm)
    drawn = [each for each in calibrate_plan(plan, mechanism, Decimal("0.5")) if isinstance(each, Calibrated)]
    grids = [float(measure.grid) for measure in plan.all_measures]
    assert [each.scale * grid for each, grid in zip(drawn, grids, strict=True)] == pytest.approx(
        scale.tolist(), rel=1e-4
    )


# ---------------------------------------------------------------- answers


def test_answer_tells_both_numbers_and_repeats_them(stays: Dataset, ledger: Ledger) -> None:
    query = stays.query(SUM, tell_cut=0.2)
    answer = query.release(ledger, Fixed(EXACT), policy="budget:1e12")
    told = answer.describe()
    assert told["answer"] == [{"s": 9 * 2 * 5 + 2 * 9}]
    assert (told["cut"], told["clamped"]) == ({"individuals": 10, "error": 0}, {"individuals": 1, "error": 0})
    assert (
        "About 10 (± 0) individuals have rows that would matter and do not count, because only 2 of each do."
        in (
            told["about"]  # type: ignore[operator]
        )
    )
    assert list(answer.cut or {}) == ["individuals", "error"]
    again = query.release(ledger, Fixed(EXACT))
    assert again.repeated
    assert again.describe() == told
    clamped = query.release(ledger, Fixed(EXACT), clamp=True)
    assert clamped.repeated
    assert clamped.cut == answer.cut
    plainly = stays.query(SUM).release(ledger, Fixed(EXACT))  # another vector, and so another question
    assert not plainly.repeated
    assert not {"cut", "clamped"} & set(plainly.describe())
    assert stays.query(SUM).release(ledger, Fixed(EXACT)).repeated
    assert not stays.query(SUM, tell_cut=0.3).release(ledger, Fixed(EXACT)).repeated
    (first, *_) = known(ledger.account("stays")).entries
    assert first.publish().describe()["cut"] == {"individuals": 10, "error": 0.0}
    shown = known(show_answer(first))
    assert (shown.cut, shown.clamped) == (told["cut"], told["clamped"])


def test_public_facts_need_no_noise(stays: Dataset, ledger: Ledger) -> None:
    """COUNT(*) reads no bounds: the answer keeps the half that nobody needs, and 0 is told without an error."""
    answer = stays.query(COUNT, tell_cut=0.2).release(ledger, Fixed(1.0), policy="budget:9")
    assert answer.clamped == {"individuals": 0, "error": 0.0}
    assert known(answer.cut)["error"] == largest_error(1 / 0.1)
    assert known(answer.error_95) == (largest_error(2 / 0.9),)


def largest_error(scale: float) -> float:
    """The smallest e with P(|Z| > e) = 2αᵉ⁺¹/(1 + α) ≤ 5 % for whole Laplace noise, α = e^(−1/b)."""
    alpha, found = math.exp(-1.0 / scale), 0
    while 2.0 * alpha ** (found + 1) / (1.0 + alpha) > 0.05:
        found += 1
    return float(found)


def test_hidden_epsilon_hides_the_errors(stays: Dataset, ledger: Ledger) -> None:
    query = stays.query(SUM, tell_cut=0.2, candidates=[1e6])
    answer = query.release(ledger, Preferred("ratio:0.01"), policy="paper", max_epsilon=1e9)
    told = answer.describe()
    assert (told["cut"], told["clamped"]) == ({"individuals": 10, "error": None}, {"individuals": 1, "error": None})
    assert "About 10 individuals have rows that would matter" in " ".join(answer.about)
    assert "±" not in " ".join(answer.about)
    assert query.release(ledger, Preferred("ratio:0.01"), clamp=True).describe()["cut"] == told["cut"]
    with_errors = json.dumps(entry_of(ledger).publish().describe())
    assert "null" in with_errors


def test_noisy_test_finds_epsilon_for_them_too(stays: Dataset, ledger: Ledger) -> None:
    way = Selected(svt=1.0, variance=0.9)
    answer = stays.query(SUM, tell_cut=0.2).release(ledger, way, policy="budget:50")
    assert answer.status == "released"
    assert known(known(answer.cut)["error"]) > 0


def test_errors_hold_as_often_as_they_say() -> None:
    """2,000 draws of both numbers: α = 10⁻⁶ for a binomial with 5 %, 2,000 + 2,000 draws on a grid."""
    plan, mechanism = plan_of(SUM), Laplace()
    noise = calibrate_plan(plan, mechanism, Decimal(1))[1:]
    beyond = sum(abs(each) > largest_error(10.0) for own in noise for each in add_noise([0] * 2000, own))  # type: ignore[arg-type]
    assert beyond <= 0.05 * 4000 + 4.8 * math.sqrt(4000 * 0.05 * 0.95)


def test_entry_recalls_how_it_was_measured(stays: Dataset, ledger: Ledger) -> None:
    """What everybody risked by a released answer is computed with both numbers, from the entry alone."""
    stays.query(BOTH, tell_cut=0.2).release(ledger, Fixed(1.0), policy="budget:9")
    found = ex_post_risk(stays, entry_of(ledger))
    assert found.k == 2 * 2 + 2
    assert float(found.losses.max()) <= 1.0 + 1e-9


def test_dry_run_find_and_risk_agree_on_the_vector(stays: Dataset, ledger: Ledger) -> None:
    query = stays.query(BOTH, tell_cut=0.2)
    risk = query.risk()
    assert (risk.k, risk.groups) == (6, 2)
    assert query.find("ratio:0.1").epsilon == risk.find("ratio:0.1").epsilon
    assert len(risk.by("ward")) == 2  # everybody is profiled, also outside the WHERE
    foreseen = query.dry_run(ledger, Fixed(0.5), policy="budget:9")
    assert foreseen.granted
    assert dict(foreseen.describe()["analyst_sees"])["cut"] == {"individuals": "…", "error": "…"}  # type: ignore[arg-type]
    moved = [row["why"] for row in risk.people(9).to_pylist()]
    assert any("individuals with a cut row from 10 to 9" in why for why in moved)


@pytest.mark.parametrize("shares", [(None, 0.2), (0.2, None), (0.1, 0.2)])
def test_look_at_either_form_is_a_look_at_both(
    stays: Dataset, ledger: Ledger, shares: tuple[float | None, float | None]
) -> None:
    stays.query(COUNT, tell_cut=0.2).release(ledger, Fixed(0.1), policy="budget:9")
    looked, asked = (stays.query(SUM, tell_cut=share) for share in shares)
    looked.dry_run(ledger, Fixed(0.5))
    for query in (asked, stays.query(f"{SUM} WHERE nights < 3", tell_cut=0.2)):
        query.release(ledger, Fixed(0.5))
    assert [entry.viewed for entry in known(ledger.account("stays")).entries] == [False, True, False]


# ---------------------------------------------------------------- plans


def test_explanation_names_both_numbers_and_their_shares() -> None:
    explained = explain_plan(plan_of(BOTH))
    shares = {number.measure: number.share for number in explained.stages.measured}
    assert shares == pytest.approx(
        {
            "COUNT(*)": 0.4,
            "SUM(nights)": 0.4,
            "individuals with a cut row": 0.1,
            "individuals with a clamped value": 0.1,
        }
    )
    assert (explained.groups, explained.k, len(explained.told)) == (2, 6, 2)
    assert len(explained.stages.asked) == 2
    assert any("for 0.2 of ε" in note for note in explained.notes)
    assert not any("blocks" in note for note in explained.notes)
    assert "told" not in explain_plan(plan_query(BOTH, BY_PATIENT)).describe()
    alone = explain_plan(plan_of(COUNT, BY_ROW))
    assert [number.share for number in alone.stages.measured] == [1.0]
    assert sum("at no cost" in note for note in alone.notes) == 2


@pytest.mark.parametrize(
    ("sql", "options", "words"),
    [
        ("SELECT AVG(n) FROM (SELECT patient, COUNT(*) AS n FROM stays GROUP BY patient)", {}, "of each individual"),
        ("SELECT SUM(beds) AS b FROM stays JOIN wards USING (ward)", {}, "does not go with a join"),
        ("SELECT name, COUNT(*) FROM stays GROUP BY name", {"groups": "thresholded", "group_delta": 1e-6}, "declared"),
        (SUM, {"sensitivity": 3.0}, "sensitivity given by hand"),
    ],
)  # fmt: skip
def test_what_is_not_told_is_refused_by_sql_and_schema(sql: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        plan_query(sql, BY_PATIENT, PlanOptions(tell_cut=0.2, **options))


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, math.nan, "a"])
def test_share_lies_between_0_and_1(share: Any) -> None:
    with pytest.raises(OptionError, match="strictly between 0 and 1"):
        PlanOptions(tell_cut=share)


def test_server_tells_it_where_the_query_allows(tmp_path: Path) -> None:
    settings = DatasetSettings(
        data="stays.csv", schema=tmp_path / "s.toml", policy="budget:5", algorithm="fixed", tell_cut=0.2
    )
    planner = QueryPlanner(settings, BY_PATIENT)
    told = planner.plan_anew(SUM)
    assert (known(told.plan.told).share, told.look.tell_cut) == (0.2, 0.2)
    assert told == prepare_release(BY_PATIENT, SUM, LookOptions(tell_cut=0.2), ReleaseOrder(told.order.way))
    joined = planner.plan_anew("SELECT SUM(beds) AS b FROM stays JOIN wards USING (ward)")
    assert (joined.plan.told, joined.look.tell_cut) == (None, None)
