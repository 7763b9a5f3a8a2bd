"""A release from SQL to the answer: groups, post-processing, charges, refusals, denials, promises, the dry run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter import Answer, Dataset, Ledger
from dosimeter.aftermath import ex_post_risk
from dosimeter.errors import LedgerError, OptionError, QueryError, SchemaError
from dosimeter.ledger import Account
from dosimeter.look import Look
from dosimeter.model import Mechanism, QueryPlan
from dosimeter.plan import plan_query
from dosimeter.preview import dry_run
from dosimeter.release import _rounding, add_noise_to, calibrate_plan, promise_chosen, promise_fixed, promise_found
from dosimeter.releasing import ReleaseOrder, Terms
from dosimeter.schema import read_schema
from dosimeter.selection import SelectionProblem, outcome_distribution

WARDS = ["burns", "eyes", "hands", "nobody"]
SCHEMA: dict[str, Any] = {
    "table": "stays",
    "individuals": 40,
    "reviewed": True,
    "columns": {
        "ward": {"type": "category", "values": WARDS},
        "nights": {"type": "integer", "bounds": [0, 9]},
        "cost": {"type": "decimal", "bounds": [0, 100], "resolution": 0.5},
        "day": {"type": "date", "bounds": ["2026-01-01", "2026-01-03"]},
        "urgent": {"type": "boolean"},
    },
}
ROWS = 30
COLUMNS: dict[str, list[Any]] = {
    "ward": [WARDS[row % 3] for row in range(ROWS)],
    "nights": [row * 7 % 10 for row in range(ROWS)],
    "cost": [(row * 13 % 201) / 2 for row in range(ROWS)],
    "day": [f"2026-01-0{row % 2 + 1}" for row in range(ROWS)],
    "urgent": [row % 10 == 0 for row in range(ROWS)],
}
EXACT = 1e9  # noise of a whole step has a probability below e⁻⁹⁰⁰⁰⁰


def make_table(**changes: list[Any]) -> pa.Table:
    columns = {**COLUMNS, **changes}
    table = pa.table(columns)
    return table.set_column(table.column_names.index("day"), "day", table["day"].cast(pa.date32()))


def schema_of(**changes: Any) -> dict[str, Any]:
    from datetime import date

    columns = {**SCHEMA["columns"], "day": {"type": "date", "bounds": [date(2026, 1, 1), date(2026, 1, 3)]}}
    return {**SCHEMA, "columns": columns, **changes}


@pytest.fixture
def stays() -> Iterator[Dataset]:
    with Dataset.open(make_table(), schema=schema_of()) as dataset:
        yield dataset


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.db") as books:
        yield books


def account_of(ledger: Ledger) -> Account:
    account = ledger.account("stays")
    assert account is not None
    return account


def rows_of(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == "released"
    assert answer.answer is not None
    return answer.answer


def ask(dataset: Dataset, ledger: Ledger, sql: str, **options: Any) -> list[dict[str, Any]]:
    """The exact answer, by the road of a release."""
    return rows_of(dataset.release(sql, ledger=ledger, **{"epsilon": EXACT, "policy": "budget:1e12", **options}))


# ---------------------------------------------------------------- groups and post-processing


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
    assert answer[3] == {"ward": "nobody", "a": 4.5, "v": 0.0, "s": 0.0, "c": 50.0}  # the middle of the bounds


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


def test_clamping_is_post_processing(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT ward, COUNT(*) AS n, AVG(nights) AS a, MIN(cost) AS m, SUM(nights) AS s FROM stays GROUP BY ward"
    outside = 0
    for _ in range(4):
        for row in ask(stays, ledger, sql, epsilon=0.05, again=True, clamp=True):
            assert row["n"] >= 0
            assert 0 <= row["a"] <= 9
            assert 0 <= row["m"] <= 100
        for row in ask(stays, ledger, sql, epsilon=0.05, again=True):
            outside += row["n"] < 0 or not 0 <= row["a"] <= 9 or not 0 <= row["m"] <= 100
    assert outside > 0


def test_measured_numbers_are_kept_exactly(stays: Dataset, ledger: Ledger) -> None:
    """What went into AVG can be read back, on the grid of the noise, and gives the answer again."""
    (row,) = ask(stays, ledger, "SELECT AVG(nights) AS a, MEDIAN(cost) AS m FROM stays", epsilon=3.0)
    entry = account_of(ledger).entries[0]
    assert entry.measured is not None
    count, total, median = (Fraction(text) for text in entry.measured[0])
    assert row["a"] == float(Fraction(9, 2) + total / count)
    assert row["m"] == float(median)
    assert count.denominator == 1
    assert (total * 2).denominator == 1
    assert (median * 2**20 / 50).denominator == 1


# ---------------------------------------------------------------- how many steps one individual moves


def test_a_grid_of_decimals_costs_no_extra_step(stays: Dataset) -> None:
    """35 bounds that no float holds exactly: Δ is the whole number of steps it is, never one more."""
    for cents in range(1, 36):
        columns = {"x": {"type": "decimal", "bounds": [0, cents / 100], "resolution": 0.01}}
        with Dataset.open(pa.table({"x": [0.0]}), schema={**SCHEMA, "table": "t", "columns": columns}) as dataset:
            (noise,) = calibrate_plan(dataset.plan("SELECT SUM(x) FROM t"), Mechanism("laplace"), Decimal(1))
            assert noise.sensitivity == cents


@cache
def plan_of(sql: str) -> QueryPlan:
    return plan_query(sql, read_schema(schema_of()))


@given(st.lists(st.tuples(st.fractions(-9, 9), st.fractions(-9, 9)), min_size=1, max_size=6))
def test_rounding_several_cells_adds_what_is_allowed_for(cells: list[tuple[Fraction, Fraction]]) -> None:
    """An individual with c rows moves up to c cells that are on no grid; each is rounded on its own."""
    plan = plan_of("SELECT day, MEDIAN(nights) FROM stays GROUP BY day")
    count = len(cells)
    groups = (replace(plan.groups[0], values=tuple(range(count))),)
    many = replace(plan, groups=groups, schema=replace(plan.schema, max_rows_per_unit=count))
    moved = [abs(math.floor(a + Fraction(1, 2)) - math.floor(b + Fraction(1, 2))) for a, b in cells]
    for mechanism in (Mechanism("laplace"), Mechanism("gaussian", 1e-6, "zcdp")):
        extra = _rounding(many, many.measures[0], mechanism)
        if mechanism.norm == 1:
            assert sum(moved) <= math.ceil(sum(abs(a - b) for a, b in cells)) + extra
        else:
            exactly = math.sqrt(sum((a - b) ** 2 for a, b in cells))
            assert math.sqrt(sum(step * step for step in moved)) <= math.ceil(exactly) + extra + 1e-9
        assert extra == 0 or count > 1
    totals = plan_of(
        "SELECT day, COUNT(*), SUM(cost), MAX(cost), COUNT(DISTINCT cost), AVG(cost) FROM stays GROUP BY 1"
    )
    many = replace(totals, schema=replace(totals.schema, max_rows_per_unit=count))
    assert [_rounding(many, measure, Mechanism("laplace")) for measure in many.measures] == [0] * 6  # on their grids


# ---------------------------------------------------------------- charges


def test_the_same_query_again_gives_the_same_numbers_at_no_charge(stays: Dataset, ledger: Ledger) -> None:
    first = stays.release("SELECT COUNT(*) FROM stays", ledger=ledger, epsilon=0.1, policy="budget:1", analyst="ada")
    for sql in ("SELECT COUNT(*) FROM stays", "select  count(*)\nfrom stays -- again"):
        again = stays.release(sql, ledger=ledger, epsilon=0.10, analyst="grace", purpose="another")
        assert again.repeated
        assert again.describe() == first.describe()
    assert account_of(ledger).reading.epsilon == Decimal("0.1")
    assert len(account_of(ledger).entries) == 1


def test_again_charges_and_draws_again(stays: Dataset, ledger: Ledger) -> None:
    answers = [
        stays.release("SELECT SUM(cost) FROM stays", ledger=ledger, epsilon=0.1, policy="budget:1", again=True)
        for _ in range(4)
    ]
    assert len({answer.answer[0]["sum_cost"] for answer in answers if answer.answer}) > 1  # alike with p < 1e-8
    assert account_of(ledger).reading.epsilon == Decimal("0.4")


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.2},
        {"mechanism": "gaussian"},
        {"mechanism": "gaussian", "delta": 1e-9},
    ],
)
def test_a_different_request_is_charged(stays: Dataset, ledger: Ledger, change: dict[str, Any]) -> None:
    options: dict[str, Any] = {"ledger": ledger, "epsilon": 0.1, "policy": "budget:1"}
    stays.release("SELECT COUNT(*) FROM stays", **options)
    answer = stays.release("SELECT COUNT(*) FROM stays", **{**options, **change})
    assert not answer.repeated
    assert answer.earlier == account_of(ledger).entries[0].id
    assert "earlier" not in answer.describe()
    assert stays.release("SELECT COUNT(*) FROM stays WHERE urgent", **options).earlier is None
    assert stays.release("SELECT COUNT(*) FROM stays", **options, again=True).earlier is None  # meant to be charged
    assert [entry.charge for entry in account_of(ledger).entries][:2] == [
        Decimal("0.1"),
        Decimal(str(change.get("epsilon", 0.1))),
    ]


@pytest.mark.parametrize("way", [{"epsilon": 0.05}, {"prefer": "ratio:0.99"}], ids=["fixed", "find"])
@pytest.mark.parametrize("first", [True, False])
def test_clamping_an_answer_that_was_given_costs_nothing(
    stays: Dataset, ledger: Ledger, first: bool, way: dict[str, Any]
) -> None:
    """The same noisy numbers, clamped by hand here."""
    sql = "SELECT ward, COUNT(*) AS n, AVG(nights) AS a, MIN(cost) AS m FROM stays GROUP BY ward"
    options: dict[str, Any] = {"ledger": ledger, "policy": "budget:9", **way}
    given = {first: stays.release(sql, clamp=first, **options)}
    given[not first] = stays.release(sql, clamp=not first, **options)
    assert given[not first].repeated
    assert len(account_of(ledger).entries) == 1
    (entry,) = account_of(ledger).entries
    assert entry.measured is not None
    for at, (free, clamped) in enumerate(zip(rows_of(given[False]), rows_of(given[True]), strict=True)):
        count, nights, total, minimum = (Fraction(text) for text in entry.measured[at])
        mean = float(Fraction(9, 2) + (total / nights if nights > 0 else 0))
        assert free == {"ward": WARDS[at], "n": int(count), "a": mean, "m": float(minimum)}
        within = {"n": max(int(count), 0), "a": min(max(mean, 0.0), 9.0), "m": min(max(float(minimum), 0.0), 100.0)}
        assert clamped == {"ward": WARDS[at], **within}
    assert stays.release(sql, clamp=first, **options).describe() == given[first].describe()
    if "prefer" in way:
        assert given[True].error_95 is given[False].error_95 is None
        return
    assert given[True].error_95 is not None
    assert given[False].error_95 is not None
    assert given[False].error_95[2] > 100.0  # MIN at ε = 0.0125: noise of thousands
    assert given[True].error_95[1] <= 9.0
    assert given[True].error_95[2] == 100.0


def test_one_data_set_under_two_names_has_one_account(stays: Dataset, ledger: Ledger) -> None:
    stays.release("SELECT COUNT(*) FROM stays", ledger=ledger, epsilon=0.6, policy="budget:1")
    before = ledger.verify()
    with Dataset.open(make_table(), schema=schema_of(table="visits")) as renamed:
        for ask_for in (
            lambda: renamed.release("SELECT COUNT(*) FROM visits", ledger=ledger, epsilon=0.6, policy="budget:1"),
            lambda: preview(renamed, ledger, "SELECT COUNT(*) FROM visits", epsilon=0.6, policy="budget:1"),
        ):
            with pytest.raises(LedgerError, match="same data have the account 'stays'"):
                ask_for()
    assert ledger.verify() == before


def test_a_ledger_is_an_open_one(stays: Dataset, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"with Ledger\.open"):
        stays.release("SELECT COUNT(*) FROM stays", ledger=str(tmp_path / "l.db"), epsilon=1.0)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_changed_data_never_open_a_fresh_account(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT COUNT(*) FROM stays"
    stays.release(sql, ledger=ledger, epsilon=0.6, policy="budget:1")
    nights = [*COLUMNS["nights"][:-1], 9]
    renamed = {**schema_of()["columns"], "nights": {"type": "integer", "bounds": [0, 12]}}
    for table, schema, what in (
        (make_table(nights=nights), schema_of(), "other data: the data changed"),
        (make_table(), schema_of(columns=renamed), "another schema: the schema changed"),
        (make_table(nights=nights), schema_of(columns=renamed), "other data and another schema: both changed"),
    ):
        with Dataset.open(table, schema=schema) as changed:
            for policy in (None, "budget:1"):
                with pytest.raises(LedgerError, match=f"{what}.*--continue"):
                    changed.release(sql, ledger=ledger, epsilon=0.1, policy=policy)
            assert account_of(ledger).reading.epsilon == Decimal("0.6")
    with Dataset.open(make_table(nights=nights), schema=schema_of()) as changed:
        answer = changed.release(sql, ledger=ledger, epsilon=0.4, continued=True)
        assert answer.status == "released"
        assert not answer.repeated  # the same words about other data
        assert account_of(ledger).reading.epsilon == Decimal(1)
        assert changed.release(sql, ledger=ledger, epsilon=0.1, again=True).describe() == {"status": "denied"}
    with pytest.raises(LedgerError, match="--continue"):  # and the way back is a change too
        stays.release(sql, ledger=ledger, epsilon=0.1)


def test_an_account_keeps_its_terms(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT COUNT(*) FROM stays"
    with pytest.raises(OptionError, match="--policy paper, or --policy budget:E"):
        stays.release(sql, ledger=ledger, epsilon=0.1)
    stays.release(sql, ledger=ledger, epsilon=0.1, policy="budget:1", max_epsilon=0.5)
    for options in ({"policy": "paper"}, {"policy": "budget:2"}, {"max_epsilon": 0.6}, {"delta_total": 0.1}):
        with pytest.raises(LedgerError, match="cannot be changed"):
            stays.release(sql, ledger=ledger, epsilon=0.1, again=True, **options)
    with pytest.raises(LedgerError, match="one algorithm"):
        stays.release(sql, ledger=ledger, prefer="ratio:0.5")
    assert stays.release(sql, ledger=ledger, epsilon=0.6).status == "denied"  # the cap
    assert account_of(ledger).reading.epsilon == Decimal("0.1")


def test_nothing_beyond_the_budget(stays: Dataset, ledger: Ledger) -> None:
    statuses = [
        stays.release("SELECT COUNT(*) FROM stays", ledger=ledger, epsilon=0.3, policy="budget:1", again=True).status
        for _ in range(5)
    ]
    assert statuses == ["released"] * 3 + ["denied"] * 2
    assert account_of(ledger).reading.epsilon == Decimal("0.9")
    assert [entry.charge for entry in account_of(ledger).entries] == [Decimal("0.3")] * 3 + [Decimal(0)] * 2


def test_delta_is_charged_and_its_total_is_never_exceeded(stays: Dataset, ledger: Ledger) -> None:
    options: dict[str, Any] = {"mechanism": "gaussian", "delta": 1e-6, "delta_total": 2.5e-6, "policy": "budget:9"}
    statuses = [
        stays.release("SELECT COUNT(*) FROM stays", ledger=ledger, epsilon=0.1, again=True, **options).status
        for _ in range(4)
    ]
    assert statuses == ["released", "released", "denied", "denied"]
    assert account_of(ledger).reading.delta == Decimal("0.000002")


# ---------------------------------------------------------------- the three ways, and what is said


def test_what_an_analyst_sees_of_a_fixed_epsilon(stays: Dataset, ledger: Ledger) -> None:
    seen = stays.release("SELECT COUNT(*) AS n FROM stays", ledger=ledger, epsilon=0.5, policy="paper").describe()
    assert list(seen) == ["status", "answer", "epsilon", "epsilon_svt", "error_95", "guarantee"]
    assert (seen["status"], seen["epsilon"], seen["epsilon_svt"], seen["error_95"]) == ("released", 0.5, None, [6.0])
    assert seen["guarantee"].startswith("This answer is 0.5-differentially private for each of the 40 individuals")


def test_algorithm_1_hides_what_depends_on_the_data(stays: Dataset, ledger: Ledger) -> None:
    answer = stays.release("SELECT COUNT(*) FROM stays WHERE urgent", ledger=ledger, prefer="ratio:0.5", policy="paper")
    seen = answer.describe()
    assert list(seen) == ["status", "answer", "epsilon", "epsilon_svt", "error_95", "guarantee"]
    assert (seen["epsilon"], seen["epsilon_svt"], seen["error_95"]) == (None, None, None)
    assert seen["guarantee"] == promise_chosen()
    entry = account_of(ledger).entries[0]
    assert entry.epsilon == Decimal(1)  # k/(k + ε) ≥ 0.5; only the controller's ledger knows
    assert entry.error_95 is None
    repeated = stays.release("SELECT COUNT(*) FROM stays WHERE urgent", ledger=ledger, prefer="ratio:0.5")
    assert repeated.repeated
    assert repeated.describe() == seen
    assert "1" not in repr(answer).replace("status", "")


def test_finding_and_releasing_publishes_epsilon_and_its_cost(stays: Dataset, ledger: Ledger) -> None:
    answer = stays.release(
        "SELECT COUNT(*) FROM stays WHERE urgent", ledger=ledger, svt=1.0, variance=0.9, policy="budget:30"
    )
    entry = account_of(ledger).entries[0]
    assert entry.epsilon is not None
    assert (answer.epsilon, answer.epsilon_svt) == (float(entry.epsilon), 1.0)
    assert entry.charge == entry.epsilon + 1
    assert answer.error_95 is not None


def test_promises_say_what_is_true() -> None:
    gaussian = Mechanism("gaussian", 9.4319e-10, "zcdp")
    fixed = promise_fixed(gaussian, Decimal("0.5"), 32561, viewed=False)
    assert "(0.5, 9.44e-10)-differentially private for each of the 32,561" in fixed  # never a smaller δ than is true
    assert "without looking at the data" in fixed
    found = promise_found(Decimal("0.3"), Decimal("1.0"), Decimal(10), Mechanism("laplace"), viewed=False)
    assert "1.3-differentially private" in found
    assert "beforehand the bound was 11" in found
    for part in ("threshold", "ε_svt", "candidates", "mechanism", "decision to answer"):
        assert part in found
    assert "not differentially private at the chosen ε" in promise_chosen()
    assert "nor at any candidate" in promise_chosen()
    for seen in (
        promise_fixed(gaussian, Decimal(1), 9, viewed=True),
        promise_found(Decimal(1), Decimal(1), Decimal(10), gaussian, viewed=True),
    ):
        assert "looked at before" in seen
    assert "looked at" not in fixed.replace("looking at", "")


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        ("SELECT MEDIAN(nights) FROM stays", {}),
        ("SELECT COUNT(DISTINCT nights) FROM stays", {}),
        ("SELECT MAX(cost), COUNT(*) FROM stays", {}),
        ("SELECT AVG(nights) FROM stays", {"min_rows": 10}),
    ],
)
def test_only_additive_queries_find_and_release(
    stays: Dataset, ledger: Ledger, sql: str, options: dict[str, Any]
) -> None:
    with pytest.raises(QueryError, match=r"own rows.*fixed --epsilon") as refused:
        stays.release(sql, ledger=ledger, svt=1.0, variance=0.1, policy="paper", **options)
    assert refused.value.clause
    assert ledger.account("stays") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": "observed"}, "which groups exist is private"),
        ({"sensitivity": 1.0}, "never backs a release"),
        ({"mechanism": "gaussian", "calibration": "classic"}, "never backs a release"),
        ({"method": "recompute"}, "closed form"),
        ({"epsilon": None, "svt": 1.0, "variance": 0.1, "indicator": "exact"}, "bound"),
        ({"epsilon": None}, "exactly one way"),
        ({"prefer": "ratio:0.5"}, "exactly one way"),
        ({"epsilon": -1.0}, "positive"),
        ({"epsilon": math.nan}, "positive"),
        ({"epsilon": None, "svt": 1.0}, "go together"),
        ({"epsilon": 1e-30}, "too large for exact"),
        ({"epsilon": 1e30}, "epsilon"),
        ({"epsilon": None, "prefer": "ratio:0.5", "candidates": [1e30, 1.0]}, "epsilon"),
        ({"delta": 0.1}, "no delta"),
    ],
)
def test_what_never_backs_a_release(stays: Dataset, ledger: Ledger, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        stays.release("SELECT COUNT(*) FROM stays", ledger=ledger, policy="paper", **{"epsilon": 0.5, **options})
    assert ledger.accounts() == ()
    assert ledger.verify().records == 0


def test_an_unreviewed_schema_backs_nothing(ledger: Ledger) -> None:
    for schema in (schema_of(reviewed=False), None):
        with Dataset.open(make_table(), schema=schema, table="stays") as dataset, pytest.raises(SchemaError):
            dataset.release("SELECT COUNT(*) FROM stays", ledger=ledger, epsilon=0.5, policy="paper")
    assert ledger.verify().records == 0


# ---------------------------------------------------------------- denials that depend on the data


WAYS: list[dict[str, Any]] = [
    {"epsilon": 0.5},
    {"prefer": "ratio:0.1"},
    {"svt": 1.0, "variance": 0.9},
]


@pytest.mark.parametrize("way", WAYS, ids=["fixed", "find", "find-and-release"])
@pytest.mark.parametrize("trouble", ["nan", "infinite", "crowded", "not whole"])
def test_what_the_data_decide_is_denied_and_nothing_more(
    ledger: Ledger, tmp_path: Path, way: dict[str, Any], trouble: str
) -> None:
    schema, table = schema_of(), make_table()
    if trouble in ("nan", "infinite"):
        table = make_table(cost=[math.nan if trouble == "nan" else math.inf, *COLUMNS["cost"][1:]])
    if trouble == "crowded":
        schema = schema_of(individuals=ROWS - 1)
    source: Any = table
    if trouble == "not whole":
        source = tmp_path / "stays.csv"
        lines = [",".join(map(str, row.values())) for row in table.to_pylist()]
        lines[7] = lines[7].replace(",9,", ",9.5,").replace(",4,", ",4.5,").replace(",2,", ",2.5,")
        source.write_text("\n".join([",".join(table.column_names), *lines]))
        assert ".5," in lines[7]
    with Dataset.open(source, schema=schema) as dataset:
        sql = "SELECT SUM(cost), SUM(nights) FROM stays"
        answer = dataset.release(sql, ledger=ledger, policy="budget:20", **way)
    assert answer.describe() == {"status": "denied"}
    account = account_of(ledger)
    assert account.reading.epsilon == 0
    assert [(entry.status, entry.charge, entry.answer) for entry in account.entries] == [("denied", 0, None)]


def test_a_policy_denial_looks_the_same(stays: Dataset, ledger: Ledger) -> None:
    answer = stays.release("SELECT COUNT(*) FROM stays", ledger=ledger, epsilon=2.0, policy="budget:1")
    assert answer.describe() == {"status": "denied"}
    assert (answer.answer, answer.epsilon, answer.error_95, answer.guarantee) == (None, None, None, None)


def test_a_preference_that_nothing_meets_is_denied_at_no_charge(stays: Dataset, ledger: Ledger) -> None:
    answer = stays.release(
        "SELECT COUNT(*) FROM stays WHERE urgent", ledger=ledger, prefer="ratio:0.99999", policy="paper"
    )
    assert answer.describe() == {"status": "denied"}
    assert account_of(ledger).reading.epsilon == 0


def test_a_denial_after_the_noisy_test_costs_epsilon_svt(stays: Dataset, ledger: Ledger) -> None:
    """τ = 1e-9 with ε_svt = 20 over 40 slots: a candidate of 10 passes with a probability below e⁻⁵⁰."""
    answer = stays.release(
        "SELECT COUNT(*) FROM stays WHERE nights > 4", ledger=ledger, svt=20.0, variance=1e-9, candidates=[10.0],
        policy="budget:100",
    )  # fmt: skip
    assert answer.describe() == {"status": "denied"}
    assert account_of(ledger).reading.epsilon == Decimal(20)


# ---------------------------------------------------------------- error bars


def test_an_error_bar_follows_from_the_noisy_numbers_alone(stays: Dataset, ledger: Ledger) -> None:
    """The error of an average depends on the noisy count: it is worked out again from what the ledger holds."""
    from dosimeter.mechanism import noise_scale
    from dosimeter.postprocess import error_95

    sql = "SELECT ward, AVG(nights) FROM stays GROUP BY ward"
    seen = set()
    for _ in range(5):
        answer = stays.release(sql, ledger=ledger, epsilon=2.0, policy="budget:100", again=True)
        entry = account_of(ledger).entries[-1]
        assert entry.measured is not None
        noisy = [[Fraction(text) for text in row] for row in entry.measured]
        plan = stays.plan(sql)
        scale = noise_scale(Mechanism("laplace"), plan.sensitivity(1), 2.0)
        assert answer.error_95 == error_95(plan, Mechanism("laplace"), scale, noisy)
        seen.add(answer.error_95)
    assert len(seen) > 1


def test_other_data_and_the_same_noisy_numbers_give_the_same_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dosimeter import releasing

    def same_numbers(plan: Any, keys: Any, values: Any, noise: Any) -> Any:
        noisy = add_noise_to(plan, keys, values, noise)
        return type(noisy)(noisy.keys, tuple((Fraction(12), Fraction(-3)) for _ in noisy.keys))

    monkeypatch.setattr(releasing, "add_noise_to", same_numbers)
    answers = []
    for number, nights in enumerate((COLUMNS["nights"], [9] * ROWS)):
        with (
            Dataset.open(make_table(nights=nights), schema=schema_of()) as dataset,
            Ledger.open(tmp_path / f"{number}.db") as ledger,
        ):
            answer = dataset.release("SELECT AVG(nights) FROM stays", ledger=ledger, epsilon=1.0, policy="paper")
            answers.append(answer.describe())
    assert answers[0] == answers[1]


def test_an_error_bar_is_of_the_rows_that_are_shown(stays: Dataset, ledger: Ledger) -> None:
    """The average of a group of hardly anybody is far off; where HAVING takes it out, its error does not count."""
    from dosimeter.mechanism import noise_scale
    from dosimeter.postprocess import error_95

    sql = "SELECT ward, AVG(nights) FROM stays GROUP BY ward HAVING COUNT(nights) > 5 LIMIT 2"
    answer = stays.release(sql, ledger=ledger, epsilon=20.0, policy="budget:100")
    assert [row["ward"] for row in rows_of(answer)] == WARDS[:2]  # 10 people each; nobody has 0, at noise of 0.1
    (entry,) = account_of(ledger).entries
    assert entry.measured is not None
    noisy = [[Fraction(text) for text in row] for row in entry.measured]
    plan, laplace = stays.plan(sql), Mechanism("laplace")
    scale = noise_scale(laplace, plan.sensitivity(1), 20.0)
    assert answer.error_95 is not None
    assert answer.error_95[0] == max(error_95(plan, laplace, scale, [row])[0] for row in noisy[:2])  # type: ignore[type-var]
    assert answer.error_95 != error_95(plan, laplace, scale, noisy)
    none_left = stays.release(f"{sql.split(' HAVING')[0]} HAVING COUNT(*) > 1000", ledger=ledger, epsilon=20.0)
    assert (none_left.answer, none_left.error_95) == ([], (None,))


def test_a_clamped_error_is_at_most_its_range(stays: Dataset, ledger: Ledger) -> None:
    """COUNT, SUM and arithmetic have no range to stay in; AVG and MAX have 9, a variance 4.5², a deviation 4.5."""
    sql = (
        "SELECT COUNT(*), SUM(nights), AVG(nights), MAX(nights), VAR_POP(nights), STDDEV_POP(nights), 2 * AVG(nights) "
        "FROM stays"
    )
    options: dict[str, Any] = {"ledger": ledger, "epsilon": 0.01, "policy": "budget:1"}
    free = stays.release(sql, **options).error_95
    clamped = stays.release(sql, clamp=True, **options).error_95
    assert free is not None
    assert clamped is not None
    ranges = (math.inf, math.inf, 9.0, 9.0, 20.25, 4.5, math.inf)
    for plain, capped, width in zip(free, clamped, ranges, strict=True):
        assert capped == (plain if width == math.inf else min(math.inf if plain is None else plain, width))
    assert free[3] is not None
    assert free[3] > 9.0
    assert preview(stays, ledger, sql, epsilon=0.02, clamp=True)["analyst_sees"]["error_95"][3] == 9.0


# ---------------------------------------------------------------- the dry run


def preview(dataset: Dataset, ledger: Ledger, sql: str, **options: Any) -> dict[str, Any]:
    looks = {name: options.pop(name) for name in ("mechanism", "candidates") if name in options}
    terms = Terms(policy=options.pop("policy", None))
    return dry_run(dataset, sql, Look(**looks), ReleaseOrder(terms=terms, **options), ledger)


@pytest.mark.parametrize("way", WAYS, ids=["fixed", "find", "find-and-release"])
def test_a_dry_run_charges_nothing_and_is_recorded(stays: Dataset, ledger: Ledger, way: dict[str, Any]) -> None:
    sql = "SELECT COUNT(*) FROM stays WHERE urgent"
    document = preview(stays, ledger, sql, policy="budget:30", **way)
    assert document["dry_run"] is True
    assert ledger.accounts() == ()
    digest = stays.plan(sql).digest
    assert ledger.viewed("stays", digest)
    assert ledger.verify().records == 1
    answer = stays.release(sql, ledger=ledger, policy="budget:30", **way)
    assert account_of(ledger).entries[0].viewed
    if answer.status == "released" and "prefer" not in way:
        assert answer.guarantee is not None
        assert answer.guarantee.endswith("looked at before.")
    other = stays.release("SELECT COUNT(*) FROM stays", ledger=ledger, **way)
    assert not account_of(ledger).entries[1].viewed
    assert "before." not in (other.guarantee or "")


def test_a_dry_run_refuses_what_the_release_would_refuse(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT COUNT(*) FROM stays"
    with pytest.raises(OptionError, match="--policy"):
        preview(stays, ledger, sql, epsilon=0.1)
    stays.release(sql, ledger=ledger, epsilon=0.1, policy="budget:1")
    with pytest.raises(LedgerError, match="cannot be changed"):
        preview(stays, ledger, sql, epsilon=0.1, policy="paper")
    with Dataset.open(make_table(nights=[1] * ROWS), schema=schema_of()) as changed:
        with pytest.raises(LedgerError, match="--continue"):
            preview(changed, ledger, sql, epsilon=0.1)
        assert preview(changed, ledger, sql, epsilon=0.1, continued=True)["granted"]


@pytest.mark.parametrize("selection", ["sharp", "paper"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_dry_run_tells_the_exact_probabilities(
    stays: Dataset, ledger: Ledger, selection: Any, mechanism: Any
) -> None:
    """Against the selection's own distribution, from sensitivities counted by hand, with the reading's cut."""
    import numpy as np

    sql = "SELECT COUNT(*) FROM stays WHERE urgent"
    if selection == "paper":  # part of the budget is spent: only candidates of 4 and less are left
        first = stays.release(
            "SELECT COUNT(*) FROM stays", ledger=ledger, svt=1.0, variance=50.0, candidates=[5.0],
            policy="budget:11", mechanism=mechanism,
        )  # fmt: skip
        assert first.status == "released"
    document = preview(
        stays, ledger, sql, svt=1.0, variance=0.01, selection=selection, mechanism=mechanism, policy="budget:11"
    )
    urgent = sum(COLUMNS["urgent"])
    candidates = tuple(line["epsilon"] for line in document["candidates"])
    assert max(candidates) == (4.0 if selection == "paper" else 10.0)
    problem = SelectionProblem(
        n=40, k=1, sensitivity=1.0,
        mechanism=Mechanism("laplace") if mechanism == "laplace" else Mechanism("gaussian", 1 / 1600, "zcdp"),
        values=np.array([0.0, 1.0]), counts=np.array([40 - urgent, urgent]),
        candidates=candidates, threshold=0.01, epsilon_svt=1.0,
    )  # fmt: skip
    outcome = outcome_distribution(problem, method=selection)
    assert [line["probability"] for line in document["candidates"]] == list(outcome.probabilities)
    assert document["denial"] == outcome.denial
    assert math.fsum([document["denial"], *outcome.probabilities]) == pytest.approx(1.0)
    violating = [line["probability"] for line in document["candidates"] if line["variance"] > 0.01]
    assert document["violation"] == pytest.approx(math.fsum(violating))
    for line in document["candidates"]:
        share = urgent / 40 * (1 - urgent / 40)
        if mechanism == "laplace":
            assert line["variance"] == pytest.approx(share * (line["epsilon"] / (line["epsilon"] + 1)) ** 2)
        before = 6.0 if selection == "paper" else 0.0
        assert line["cost"]["reading_after"] == pytest.approx(before + line["epsilon"] + 1.0)


def test_a_dry_run_of_a_fixed_epsilon_tells_its_cost(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT COUNT(*) FROM stays"
    document = preview(stays, ledger, sql, epsilon=0.3, policy="budget:1")
    assert document["cost"] == {"charge": 0.3, "reading": 0.0, "reading_after": 0.3}
    assert document["analyst_sees"]["status"] == "released"
    assert not document["repeated"]
    stays.release(sql, ledger=ledger, epsilon=0.3, policy="budget:1")
    assert preview(stays, ledger, sql, epsilon=0.3)["repeated"]
    denied = preview(stays, ledger, sql, epsilon=0.8)
    assert denied["analyst_sees"] == {"status": "denied"}
    assert denied["cost"] is None
    assert not denied["granted"]


@pytest.mark.parametrize("way", WAYS, ids=["fixed", "find", "find-and-release"])
def test_a_dry_run_of_what_was_answered_shows_that_answer(stays: Dataset, ledger: Ledger, way: dict[str, Any]) -> None:
    """Whatever is left of the budget: a repeat needs none of it."""
    sql = "SELECT COUNT(*) FROM stays WHERE urgent"
    options = {**way, "candidates": [1.0, 0.5]} | ({"variance": 50.0} if "svt" in way else {})
    answer = stays.release(sql, ledger=ledger, policy="budget:2", **options)
    assert answer.status == "released"
    reading = float(account_of(ledger).reading.epsilon)
    document = preview(stays, ledger, sql, **options)
    assert (document["repeated"], document["granted"], document["reason"]) == (True, True, None)
    assert document["analyst_sees"] == answer.describe()
    assert document["cost"] == {"charge": 0.0, "reading": reading, "reading_after": reading}
    assert len(account_of(ledger).entries) == 1
    assert not preview(stays, ledger, sql, again=True, **options)["repeated"]


def test_a_dry_run_says_why_it_would_be_denied(stays: Dataset, ledger: Ledger, tmp_path: Path) -> None:
    sql, other = "SELECT COUNT(*) FROM stays", "SELECT COUNT(*) FROM stays WHERE urgent"
    for epsilon in (0.4, 0.5):
        stays.release(sql, ledger=ledger, epsilon=epsilon, policy="budget:1", max_epsilon=0.8)
    for options, reason in (
        ({"epsilon": 0.3}, "0.9 of budget:1 is spent; this needs 0.3, 0.1 is left."),
        ({"epsilon": 10.0}, "ε = 10 is above the account's cap of 0.8 for one query (--max-epsilon)."),
    ):
        document = preview(stays, ledger, other, **options)
        assert (document["reason"], document["granted"]) == (reason, False)
        assert document["analyst_sees"] == {"status": "denied"}
        assert stays.release(other, ledger=ledger, again=True, **options).status == "denied"
    with Ledger.open(tmp_path / "paper.db") as books:
        stays.release(
            sql, ledger=books, epsilon=0.5, policy="paper", mechanism="gaussian", delta=1e-3, delta_total=1e-3
        )
        assert preview(stays, books, other, epsilon=0.5)["reason"] == (
            "Under the policy paper ε must be larger than the reading, which is 0.5; 0.5 is not."
        )
        assert preview(stays, books, other, epsilon=2.0, mechanism="gaussian")["reason"].startswith(
            "0.001 of the account's δ_g = 0.001 is spent; this needs 0.000625 more"
        )


def test_a_dry_run_of_a_search_says_why_it_would_be_denied(stays: Dataset, tmp_path: Path) -> None:
    sql, other = "SELECT COUNT(*) FROM stays WHERE urgent", "SELECT COUNT(*) FROM stays WHERE nights = 7"
    with Ledger.open(tmp_path / "find.db") as books:
        reason = preview(stays, books, sql, prefer="ratio:0.99999", policy="budget:1")["reason"]
        assert reason.startswith("No candidate meets the preference")
        assert "The largest ε that does is 0.00001" in reason  # k/(k + ε) ≥ 0.99999
        stays.release(sql, ledger=books, prefer="ratio:0.5", policy="budget:1")
        reason = preview(stays, books, other, prefer="ratio:0.4", candidates=[1.0, 0.25])["reason"]
        assert reason.endswith("admits none of them. 1 of budget:1 is spent; this needs 0.25, 0 is left.")
    with Ledger.open(tmp_path / "svt.db") as books:
        document = preview(stays, books, sql, svt=1.0, variance=0.1, candidates=[1.0, 0.25], policy="budget:1.2")
        assert document["reason"] == (
            "0 of budget:1.2 is spent; this needs 1.25 (ε = 0.25 and 1 for finding it), 1.2 is left."
        )
        assert (document["denial"], document["cost"]) == (1.0, None)


@pytest.mark.parametrize("way", WAYS, ids=["fixed", "find", "find-and-release"])
def test_a_dry_run_tells_the_controller_what_is_wrong_with_the_data(ledger: Ledger, way: dict[str, Any]) -> None:
    with Dataset.open(make_table(), schema=schema_of(individuals=ROWS - 1)) as crowded:
        document = preview(crowded, ledger, "SELECT COUNT(*) FROM stays", policy="budget:20", **way)
    assert (
        document["reason"]
        == "The data holds 30 individuals and the schema declares 29. Correct individuals in the schema."
    )
    assert document["analyst_sees"] == {"status": "denied"}
    assert ledger.accounts() == ()


def test_a_dry_run_of_algorithm_1_names_the_epsilon(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT COUNT(*) FROM stays WHERE urgent"
    document = preview(stays, ledger, sql, prefer="ratio:0.5", policy="paper")
    assert document["epsilon"] == 1.0
    stays.release(sql, ledger=ledger, prefer="ratio:0.5", policy="paper")
    second = preview(stays, ledger, sql, prefer="ratio:0.4", policy="paper")  # at most 1.5, so 1 again: spent
    assert second["epsilon"] is None
    assert second["analyst_sees"] == {"status": "denied"}


# ---------------------------------------------------------------- after the release


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_ex_post_losses_are_likelihood_ratios(stays: Dataset, ledger: Ledger, mechanism: Any) -> None:
    """R1 and R2 by really leaving out every person and comparing how likely the released numbers are."""
    sql = "SELECT ward, AVG(nights) FROM stays GROUP BY ward HAVING COUNT(nights) > 1000"
    answer = stays.release(sql, ledger=ledger, epsilon=1.5, policy="paper", mechanism=mechanism)
    assert answer.answer == []  # every group is left out, and the numbers are still known
    entry = account_of(ledger).entries[0]
    found = ex_post_risk(stays, entry)
    assert found.n == 40
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
            for o, q, delta in zip(seen, true, (1, Fraction(9, 2)), strict=True)
        ]
        if mechanism == "laplace":
            return math.fsum(distances), -math.fsum(distances) / scale
        return math.hypot(*distances), -math.fsum(d * d for d in distances) / (2 * scale * scale)

    here = fit(everybody)
    expected = [(here[0], 0.0)] * 10  # the empty slots
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
