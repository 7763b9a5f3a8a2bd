"""A question is one value: what is looked at is what is released, by ways and policies that are values too."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dosimeter import Budget, Dataset, Fixed, Ledger, OptionError, Paper, Preferred, Selected
from dosimeter.ledger import Policy
from dosimeter.release.ways.way import Way

SMOKERS = "SELECT COUNT(*) FROM clinic WHERE smoker"
WAYS: dict[str, tuple[Way, dict[str, Any]]] = {
    "fixed": (Fixed(0.5), {"epsilon": 0.5}),
    "preferred": (Preferred("ratio:0.95"), {"prefer": "ratio:0.95"}),
    "chosen": (Preferred("error:40", epsilon=0.1), {"prefer": "error:40", "chosen": 0.1}),
    "selected": (Selected(svt=0.1, variance=1e-5), {"svt": 0.1, "variance": 1e-5}),
}


@pytest.fixture
def clinic(clinic: Path) -> Iterator[Dataset]:
    with Dataset.open(clinic, schema=clinic.with_suffix(".toml")) as dataset:
        yield dataset


@pytest.mark.parametrize("way", WAYS)
def test_ways_are_values_and_their_options_ask_for_the_same(clinic: Dataset, ledger: Ledger, way: str) -> None:
    """Asked in the other form, the same request is answered from the ledger: same digest, same terms, no charge."""
    value, options = WAYS[way]
    first = clinic.query(SMOKERS, mechanism="laplace").release(ledger, value, policy=Budget(30))
    again = clinic.release(SMOKERS, ledger=ledger, **options, policy="budget:30")
    assert (first.status, again.entry, again.answer) == ("released", first.entry, first.answer)
    assert (first.repeated, again.repeated) == (False, True)


@pytest.mark.parametrize(
    ("value", "text"),
    [(Paper(), "paper"), (Budget(0.3), "budget:0.3"), (Budget(2, delta=1e-6), "budget:2@1e-06")],
)
def test_policies_are_values_and_texts(value: Policy, text: str) -> None:
    assert (Policy.parse(text), str(value)) == (value, text)
    assert Policy.parse(value) is value
    assert value.in_zcdp == ("@" in text)


@pytest.mark.parametrize(("budget", "delta"), [(0, None), (0, 1e-6), (-1, None), (2, 0), (2, 1), (2, float("nan"))])
def test_budgets_out_of_range_are_refused(budget: float, delta: float | None) -> None:
    with pytest.raises(OptionError):
        Budget(budget, delta=delta)


def test_the_query_carries_what_both_must_share(clinic: Dataset, ledger: Ledger) -> None:
    """Gaussian noise, said once, is what the look weighs and what the release draws."""
    query = clinic.query(SMOKERS, mechanism="gaussian", delta=1e-6)
    risk = query.risk(candidates=[0.5])
    answer = query.release(ledger, Fixed(0.5), policy=Budget(2))
    assert answer.error_95 == pytest.approx(next(iter(risk.list_candidates())).error_95)
    assert "1e-06" in (answer.guarantee or "")


@pytest.mark.parametrize(
    ("measured", "looked", "named"),
    [
        ({"groups": "observed"}, {}, "groups"),
        ({"quantiles": "noise"}, {}, "quantiles"),
        ({"mechanism": "gaussian"}, {"calibration": "classic"}, "calibration"),
        ({}, {"sensitivity": 2.0}, "sensitivity"),
    ],
)
def test_what_is_for_study_is_looked_at_and_never_released(
    clinic: Dataset, ledger: Ledger, measured: dict[str, Any], looked: dict[str, Any], named: str
) -> None:
    query = clinic.query(SMOKERS, **measured)
    assert query.risk(**looked).n == 4000
    studied = replace(query, look=replace(query.look, study=replace(query.look.study, **looked)))
    with pytest.raises(OptionError, match=named):
        studied.release(ledger, Fixed(0.5), policy=Budget(2))
    assert ledger.summary("clinic") is None


def test_a_way_that_is_none_is_refused_by_name(clinic: Dataset, ledger: Ledger) -> None:
    with pytest.raises(OptionError, match=r"Fixed\(0\.5\)"):
        clinic.query(SMOKERS).release(ledger, 0.5, policy="paper")  # type: ignore[arg-type]


def test_one_release_plans_once_and_agrees_once_before_and_once_inside(
    clinic: Dataset, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()

    def count(module: str, name: str) -> None:
        found = importlib.import_module(module)
        real = getattr(found, name)

        def counted(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return real(*given, **named)

        monkeypatch.setattr(found, name, counted)

    count("dosimeter.dataset", "plan_query")
    count("dosimeter.release.account_terms", "agree_on_terms")
    count("dosimeter.release.run", "agree_on_terms")
    for policy, planned in (("budget:2", 1), (None, 0)):  # the second release finds the plan of the first
        calls.clear()
        clinic.query(SMOKERS).release(ledger, Fixed(0.1), policy=policy, again=True)
        assert calls == Counter(agree_on_terms=2, plan_query=planned)


def test_a_query_remembers_by_what_it_was_looked_at(clinic: Dataset, ledger: Ledger) -> None:
    query = clinic.query(SMOKERS, indicator="exact", candidates=[1.0, 0.3, 0.1])
    found = query.find("ratio:0.95")
    dry = query.dry_run(ledger, Preferred("ratio:0.95"), policy=Budget(2))
    assert (found.epsilon, dry.describe()["epsilon"]) == (0.3, 0.3)
    assert query.risk().find("ratio:0.95").epsilon == 0.3
    assert query.find("ratio:0.95", indicator="bound").epsilon is None  # its limit is 0.0526


@pytest.mark.parametrize("way", [Fixed(Decimal("0.5")), Preferred("ratio:0.5", epsilon=np.float64(0.5))])  # type: ignore[arg-type]
def test_an_epsilon_may_be_any_number(clinic: Dataset, ledger: Ledger, way: Way) -> None:
    assert clinic.query(SMOKERS).release(ledger, way, policy=Budget(Decimal(2))).status == "released"
    with pytest.raises(OptionError, match=r"selection.* goes with"):
        clinic.release(SMOKERS, ledger=ledger, epsilon=0.5, selection="paper")


def test_answers_are_tables_of_every_kind(clinic: Dataset, ledger: Ledger) -> None:
    answer = clinic.query(SMOKERS).release(ledger, Fixed(0.5), policy=Budget(1))
    refused = clinic.query(SMOKERS).release(ledger, Fixed(0.9), policy=Budget(1))
    assert answer.answer is not None
    assert answer.to_arrow().to_pylist() == answer.answer == answer.to_polars().to_dicts()
    assert answer.to_pandas().to_dict("records") == answer.answer
    with pytest.raises(OptionError, match="denied"):
        refused.to_pandas()
