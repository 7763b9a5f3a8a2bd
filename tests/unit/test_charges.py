"""What a release charges to which account: repeated and changed requests, changed data, terms, budgets and delta."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import LedgerError, OptionError
from tests.earlier_releases import noise_for_quantiles
from tests.unit.release_stays import COLUMNS, WARDS, account_of, make_table, preview, rows_of, schema_of


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
@noise_for_quantiles()
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
        mean = None if free["a"] is None else min(max(float(Fraction(9, 2) + total / nights), 0.0), 9.0)
        assert free == {"ward": WARDS[at], "n": int(count), "a": mean, "m": float(minimum)}
        within = {"n": max(int(count), 0), "a": mean, "m": min(max(float(minimum), 0.0), 100.0)}
        assert clamped == {"ward": WARDS[at], **within}
    assert stays.release(sql, clamp=first, **options).describe() == given[first].describe()
    if "prefer" in way:
        assert given[True].error_95 is given[False].error_95 is None
        return
    _, _, free_minimum = given[False].error_95 or ()
    _, mean_error, minimum_error = given[True].error_95 or ()
    assert free_minimum is not None
    assert free_minimum > 100.0  # MIN at ε = 0.0125: noise of thousands
    assert mean_error is None or mean_error <= 9.0
    assert minimum_error is not None
    assert minimum_error <= 100.0


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
                with pytest.raises(LedgerError, match=f"{what}.*continued=True"):
                    changed.release(sql, ledger=ledger, epsilon=0.1, policy=policy)
            assert account_of(ledger).reading.epsilon == Decimal("0.6")
    with Dataset.open(make_table(nights=nights), schema=schema_of()) as changed:
        answer = changed.release(sql, ledger=ledger, epsilon=0.4, continued=True)
        assert answer.status == "released"
        assert not answer.repeated  # the same words about other data
        assert account_of(ledger).reading.epsilon == Decimal(1)
        assert changed.release(sql, ledger=ledger, epsilon=0.1, again=True).describe() == {"status": "denied"}
    repeated = stays.release(sql, ledger=ledger, epsilon=0.6)  # the way back was agreed to when the account was opened
    assert repeated.repeated
    assert stays.release(sql, ledger=ledger, epsilon=0.1).status == "denied"  # and the reading is one


def test_an_account_keeps_its_terms(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT COUNT(*) FROM stays"
    with pytest.raises(OptionError, match='policy="paper", policy="budget:E", or policy="budget:E@D"'):
        stays.release(sql, ledger=ledger, epsilon=0.1)
    stays.release(sql, ledger=ledger, epsilon=0.1, policy="budget:1", max_epsilon=0.5)
    for options in ({"policy": "paper"}, {"policy": "budget:2"}, {"max_epsilon": 0.6}, {"delta_total": 0.1}):
        with pytest.raises(LedgerError, match="cannot be changed"):
            stays.release(sql, ledger=ledger, epsilon=0.1, again=True, **options)
    with pytest.raises(LedgerError, match="was opened for a fixed ε or one found by the noisy test"):
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
