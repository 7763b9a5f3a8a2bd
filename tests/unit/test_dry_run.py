"""The dry run: what a release would cost, give and refuse, with exact probabilities and at no charge."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import DataError, LedgerError, OptionError
from dosimeter.mechanisms import Gaussian, Laplace
from dosimeter.planning.identity import digest_measured
from dosimeter.release.selection import SelectionProblem, outcome_distribution
from tests.unit.release_stays import COLUMNS, ROWS, WAYS, account_of, make_table, preview, schema_of

COUNT = "SELECT COUNT(*) FROM stays"


@pytest.mark.parametrize("way", WAYS, ids=["fixed", "find", "find-and-release"])
def test_a_dry_run_charges_nothing_and_is_recorded(stays: Dataset, ledger: Ledger, way: dict[str, Any]) -> None:
    sql = "SELECT COUNT(*) FROM stays WHERE urgent"
    document = preview(stays, ledger, sql, policy="budget:30", **way)
    assert document["dry_run"] is True
    assert ledger.accounts() == ()
    assert ledger.viewed("stays", digest_measured(stays.plan(sql)))
    assert ledger.verify().records == 1
    answer = stays.release(sql, ledger=ledger, policy="budget:30", **way)
    assert account_of(ledger).entries[0].viewed
    if answer.status == "released" and "prefer" not in way:
        assert answer.guarantee is not None
        assert answer.guarantee.endswith("looked at before.")
    other = stays.release("SELECT COUNT(*) FROM stays", ledger=ledger, **way)
    assert not account_of(ledger).entries[1].viewed
    assert "before." not in (other.guarantee or "")


@pytest.mark.parametrize("way", WAYS, ids=["fixed", "find", "find-and-release"])
def test_a_dry_run_tells_every_fact_that_does_not_depend_on_the_numbers(
    stays: Dataset, ledger: Ledger, way: dict[str, Any]
) -> None:
    """What the released answer says of itself beyond that is about its own numbers."""
    sql = "SELECT ward, SUM(nights) AS n FROM stays GROUP BY ward ORDER BY n DESC LIMIT 1"
    seen = preview(stays, ledger, sql, policy="budget:30", clamp=True, **way)["analyst_sees"]
    assert seen["about"]
    assert any("count as" in fact for fact in seen["about"])
    assert any("numbers at once" in fact for fact in seen["about"]) is ("prefer" not in way)
    answer = stays.release(sql, ledger=ledger, policy="budget:30", clamp=True, **way)
    if answer.status == "released":
        assert list(answer.about) == seen["about"]


def test_a_dry_run_refuses_what_the_release_would_refuse(stays: Dataset, ledger: Ledger) -> None:
    sql = "SELECT COUNT(*) FROM stays"
    with pytest.raises(OptionError, match="policy="):
        preview(stays, ledger, sql, epsilon=0.1)
    stays.release(sql, ledger=ledger, epsilon=0.1, policy="budget:1")
    with pytest.raises(LedgerError, match="cannot be changed"):
        preview(stays, ledger, sql, epsilon=0.1, policy="paper")
    with Dataset.open(make_table(nights=[1] * ROWS), schema=schema_of()) as changed:
        with pytest.raises(LedgerError, match="continued=True"):
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
        mechanism=Laplace() if mechanism == "laplace" else Gaussian(1 / 1600),
        values=np.array([0.0, 1.0]), counts=np.array([40 - urgent, urgent]),
        candidates=candidates, threshold=0.01, epsilon_svt=1.0, two_valued=True,
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
    assert document["cost"] == {"charge": 0.3, "reading": 0.0, "reading_after": 0.3, "epsilon": 0.3, "rho": 0.045}
    assert document["analyst_sees"]["status"] == "released"
    assert not document["repeated"]
    denied = preview(stays, ledger, sql, epsilon=1.1, policy="budget:1")
    assert (denied["analyst_sees"], denied["cost"], denied["granted"]) == ({"status": "denied"}, None, False)


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
    free = {"charge": 0.0, "epsilon": 0.0, "rho": 0.0}
    assert document["cost"] == {**free, "reading": reading, "reading_after": reading}
    assert len(account_of(ledger).entries) == 1
    assert not preview(stays, ledger, sql, again=True, **options)["repeated"]


def test_a_dry_run_says_why_it_would_be_denied(stays: Dataset, ledger: Ledger, tmp_path: Path) -> None:
    """By the numbers of the rule that refuses: what is spent, what this needs, and what is left."""
    other = "SELECT COUNT(*) FROM stays WHERE urgent"
    for epsilon in (0.4, 0.5):
        stays.release(COUNT, ledger=ledger, epsilon=epsilon, policy="budget:1", max_epsilon=0.8)
    for epsilon, reason in (
        (0.3, "0.9 of the budget of 1 is spent; this needs 0.3, 0.1 is left."),
        (10.0, "cap of 0.8"),
    ):
        document = preview(stays, ledger, other, epsilon=epsilon)
        assert (document["granted"], document["analyst_sees"]) == (False, {"status": "denied"})
        assert reason in document["reason"]
        assert stays.release(other, ledger=ledger, again=True, epsilon=epsilon).status == "denied"
    with Ledger.open(tmp_path / "paper.db") as books:
        delta: dict[str, Any] = {"mechanism": "gaussian", "delta": 1e-3, "delta_total": 1e-3}
        stays.release(COUNT, ledger=books, epsilon=0.5, policy="paper", **delta)
        assert "larger than the reading, which is 0.5" in preview(stays, books, other, epsilon=0.5)["reason"]
        assert "needs 6.25·10⁻⁴ more" in preview(stays, books, other, epsilon=2.0, mechanism="gaussian")["reason"]


def test_a_dry_run_of_a_search_says_why_it_would_be_denied(stays: Dataset, tmp_path: Path) -> None:
    sql, other = "SELECT COUNT(*) FROM stays WHERE urgent", "SELECT COUNT(*) FROM stays WHERE nights = 7"
    with Ledger.open(tmp_path / "find.db") as books:
        reason = preview(stays, books, sql, prefer="ratio:0.99999", policy="budget:1")["reason"]
        assert "even the smallest, ε = 0.001, gives 0.999" in reason  # 1/(1 + ε)
        assert preview(stays, books, sql, prefer="ratio:0.5", policy="budget:1")["epsilon"] == 1.0
        stays.release(sql, ledger=books, prefer="ratio:0.5", policy="budget:1")
        document = preview(stays, books, other, prefer="ratio:0.4", candidates=[1.0, 0.25])
        assert (document["epsilon"], document["analyst_sees"]) == (None, {"status": "denied"})
        assert "1 of the budget of 1 is spent; this needs 0.25, 0 is left" in document["reason"]
    with Ledger.open(tmp_path / "svt.db") as books:
        document = preview(stays, books, sql, svt=1.0, variance=0.1, candidates=[1.0, 0.25], policy="budget:1.2")
        assert "this needs 1.25 (ε = 0.25 and 1 for finding it), 1.2 is left" in document["reason"]
        assert (document["denial"], document["cost"]) == (1.0, None)


@pytest.mark.parametrize("way", WAYS, ids=["fixed", "find", "find-and-release"])
def test_a_dry_run_tells_the_controller_what_is_wrong_with_the_data(
    ledger: Ledger, way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Dataset.open(make_table(), schema=schema_of()) as stays:

        def fail(query: object) -> None:
            raise DataError("stays: not enough memory for this query.")

        for name in ("fetch", "fetch_few"):
            monkeypatch.setattr(stays.engine, name, fail)
        document = preview(stays, ledger, "SELECT COUNT(*) FROM stays", policy="budget:20", **way)
    assert "not enough memory" in document["reason"]
    assert ledger.accounts() == ()
