"""What a release gives, refuses and charges: the ways to an ε, repeated and changed requests, and changed data."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.cli import main
from dosimeter.errors import DosimeterError, LedgerError, QueryError, SchemaError
from dosimeter.mechanisms import Gaussian, Laplace
from dosimeter.release.promises import promise_chosen, promise_fixed, promise_found
from tests.earlier_releases import noise_for_quantiles
from tests.known import known
from tests.unit.release_stays import COLUMNS, WARDS, account_of, make_table, rows_of, schema_of


def test_algorithm_1_hides_what_depends_on_the_data(stays: Dataset, ledger: Ledger) -> None:
    answer = stays.release("SELECT COUNT(*) FROM stays WHERE urgent", ledger=ledger, prefer="ratio:0.5", policy="paper")
    seen = answer.describe()
    assert list(seen) == ["status", "answer", "epsilon", "epsilon_svt", "error_95", "errors", "about", "guarantee"]
    assert (seen["epsilon"], seen["epsilon_svt"], seen["error_95"]) == (None, None, None)
    assert seen["guarantee"] == promise_chosen()
    entry = account_of(ledger).entries[0]
    assert entry.epsilon == Decimal(1)  # k/(k + ε) ≥ 0.5; only the controller's ledger knows
    assert entry.error_95 is None
    repeated = stays.release("SELECT COUNT(*) FROM stays WHERE urgent", ledger=ledger, prefer="ratio:0.5")
    assert repeated.repeated
    assert repeated.describe() == seen
    assert repr(answer) == f"Answer(status='released', epsilon=None, answer={answer.answer})"


def test_promises_say_what_is_true() -> None:
    gaussian = Gaussian(9.4319e-10)
    for viewed in (False, True):
        fixed = promise_fixed(gaussian, Decimal("0.5"), 32561, viewed=viewed)
        assert "(0.5, 9.44e-10)-differentially private for each of the 32,561" in fixed  # never a smaller δ than true
        found = promise_found(Decimal("0.3"), Decimal("1.0"), Decimal(10), Laplace(), viewed=viewed)
        assert "1.3-differentially private" in found
        assert "beforehand the bound was 11" in found
        assert ["looked at before" in each for each in (fixed, found)] == [viewed] * 2
    assert "not differentially private" in promise_chosen()


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
    with pytest.raises(QueryError, match=r"own rows.*fixed ε: epsilon=E") as refused:
        stays.release(sql, ledger=ledger, svt=1.0, variance=0.1, policy="paper", **options)
    assert refused.value.clause
    assert ledger.account("stays") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": "observed"}, "for study"),
        ({"epsilon": None, "svt": 1.0, "variance": 0.1, "indicator": "exact"}, "bound"),
        ({"epsilon": None}, "exactly one way"),
        ({"prefer": "ratio:0.5"}, "exactly one way"),
        ({"epsilon": math.nan}, "positive"),
        ({"epsilon": "a"}, "positive"),
        ({"epsilon": True}, "positive"),
        ({"epsilon": None, "svt": 1.0}, "go together"),
        ({"epsilon": None, "svt": "a", "variance": 0.1}, "positive"),
        ({"epsilon": None, "svt": 1, "variance": 0.1, "selection": None}, "must be one of sharp, paper"),
        ({"epsilon": 1e-30}, "too large for exact"),
        ({"epsilon": 1e30}, "epsilon"),
        ({"epsilon": None, "prefer": "ratio:0.5", "candidates": [1e30, 1.0]}, "epsilon"),
        ({"chosen": 0.1}, r"chosen.* goes with .*prefer"),
        ({"epsilon": None, "prefer": "ratio:0.1", "chosen": 0.123}, "one of the candidates"),
        ({"delta": 0.1}, "no delta"),
        ({"groups": None}, "must be one of declared, thresholded"),
        ({"groups": "thresholded", "group_delta": "a"}, "group_delta"),
        ({"min_rows": 1.5}, "whole number"),
        ({"policy": 5}, "policy"),
        ({"sql": None}, "text"),
    ],
    ids=str,
)
def test_what_never_backs_a_release(stays: Dataset, ledger: Ledger, options: dict[str, Any], message: str) -> None:
    """What a user got wrong in Python, a value of another kind too, is refused before anything is charged."""
    asked: dict[str, Any] = {"sql": "SELECT COUNT(*) FROM stays", "epsilon": 0.5, "policy": "paper"} | options
    with pytest.raises(DosimeterError, match=message):
        stays.release(asked.pop("sql"), ledger=ledger, **asked)
    assert ledger.verify().records == 0


def test_an_unreviewed_schema_backs_nothing(ledger: Ledger) -> None:
    for schema in (schema_of(reviewed=False), None):
        with Dataset.open(make_table(), schema=schema, table="stays") as dataset, pytest.raises(SchemaError):
            dataset.release("SELECT COUNT(*) FROM stays", ledger=ledger, epsilon=0.5, policy="paper")
    assert ledger.verify().records == 0


# ---------------------------------------------------------------- what is charged


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
    "change", [{"epsilon": 0.2}, {"mechanism": "gaussian"}, {"mechanism": "gaussian", "delta": 1e-9}]
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
    for at, (free, clamped) in enumerate(zip(rows_of(given[False]), rows_of(given[True]), strict=True)):
        count, nights, total, minimum = (Fraction(text) for text in known(entry.measured)[at])
        mean = None if free["a"] is None else min(max(float(Fraction(9, 2) + total / nights), 0.0), 9.0)
        assert free == {"ward": WARDS[at], "n": int(count), "a": mean, "m": float(minimum)}
        within = {"n": max(int(count), 0), "a": mean, "m": min(max(float(minimum), 0.0), 100.0)}
        assert clamped == {"ward": WARDS[at], **within}
    assert stays.release(sql, clamp=first, **options).describe() == given[first].describe()
    if "prefer" in way:
        assert given[True].error_95 is given[False].error_95 is None
        return
    _, mean_error, minimum_error = given[True].error_95 or ()
    assert known((given[False].error_95 or ())[2]) > 100.0 >= known(minimum_error)  # ε = 0.0125: noise of thousands
    assert (mean_error or 0.0) <= 9.0


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


# ---------------------------------------------------------------- an ε that a controller chose under a preference


URGENT = "SELECT COUNT(*) AS n FROM stays WHERE urgent"
FIRST: dict[str, Any] = {"prefer": "ratio:0.1", "chosen": 0.1, "policy": "budget:20"}


def list_met(stays: Dataset, prefer: str) -> set[float]:
    return {line.epsilon for line in stays.risk(URGENT).find(prefer).candidates if line.satisfied}


@pytest.mark.parametrize(("prefer", "chosen"), [("error:40", 0.01), ("ratio:0.95", 0.5), ("error:40,ratio:0.9", 5.0)])
def test_an_epsilon_that_fails_the_preference_is_denied(
    stays: Dataset, ledger: Ledger, prefer: str, chosen: float
) -> None:
    """Below what accuracy needs, above what risk allows, or both: neither charged nor explained to the analyst."""
    met = list_met(stays, prefer)
    assert met
    assert chosen not in met
    everybody = "SELECT COUNT(*) AS n FROM stays"
    assert stays.dry_run(everybody, ledger=ledger, **FIRST).describe()["epsilon"] == 0.1
    assert stays.release(everybody, ledger=ledger, **FIRST).status == "released"
    before = account_of(ledger)
    assert before.reading.epsilon == Decimal("0.1")
    dry = stays.dry_run(URGENT, prefer=prefer, chosen=chosen, ledger=ledger)
    assert stays.release(URGENT, prefer=prefer, chosen=chosen, ledger=ledger).describe() == {"status": "denied"}
    after = account_of(ledger)
    assert (after.reading, after.entries[-1].reason) == (before.reading, "chosen")
    assert f"{max(met):g} does" in (dry.reason or "")


def test_what_met_it_on_a_page_may_fail_on_the_data_as_they_are_by_then(ledger: Ledger) -> None:
    """Everybody urgent: all are equally exposed, and every ε meets the ratio. Nobody urgent but one: 0.5 does not."""
    with Dataset.open(make_table(urgent=[True] * 30), schema=schema_of()) as shown:
        assert 0.5 in list_met(shown, "ratio:0.95")
        shown.release("SELECT COUNT(*) AS n FROM stays", ledger=ledger, **FIRST)
    with Dataset.open(make_table(urgent=[row == 0 for row in range(30)]), schema=schema_of()) as changed:
        answer = changed.release(URGENT, prefer="ratio:0.95", chosen=0.5, continued=True, ledger=ledger)
    assert (answer.status, account_of(ledger).entries[-1].reason) == ("denied", "chosen")


def test_a_chosen_epsilon_on_the_command_line(clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT COUNT(*) FROM clinic WHERE smoker"
    shared = [str(clinic), sql, "--schema", str(clinic.with_suffix(".toml")), "--policy", "budget:2"]
    shared += ["--ledger", str(tmp_path / "ledger.db"), "--prefer", "error:40", "--json"]
    for chosen, ended in (("0.1", 0), ("0.01", 1)):
        assert main(["release", *shared, "--chosen", chosen]) == ended
    *_, last = capsys.readouterr().out.splitlines()
    assert json.loads(last) == {"status": "denied"}
