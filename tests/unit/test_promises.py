"""The three ways to an epsilon: what is said to the analyst, what is refused, and denials that tell nothing."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import OptionError, QueryError, SchemaError
from dosimeter.mechanisms import Gaussian, Laplace
from dosimeter.release.promises import promise_chosen, promise_fixed, promise_found
from tests.unit.release_stays import COLUMNS, ROWS, WAYS, account_of, make_table, schema_of

# ---------------------------------------------------------------- the three ways, and what is said


def test_what_an_analyst_sees_of_a_fixed_epsilon(stays: Dataset, ledger: Ledger) -> None:
    answer = stays.release("SELECT COUNT(*) AS n FROM stays", ledger=ledger, epsilon=0.5, policy="paper")
    seen: dict[str, Any] = answer.describe()
    assert list(seen) == ["status", "answer", "epsilon", "epsilon_svt", "error_95", "errors", "about", "guarantee"]
    assert (seen["status"], seen["epsilon"], seen["epsilon_svt"], seen["error_95"]) == ("released", 0.5, None, [6.0])
    assert seen["guarantee"].startswith("This answer is 0.5-differentially private for each of the 40 individuals")


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
    gaussian = Gaussian(9.4319e-10)
    fixed = promise_fixed(gaussian, Decimal("0.5"), 32561, viewed=False)
    assert "(0.5, 9.44e-10)-differentially private for each of the 32,561" in fixed  # never a smaller δ than is true
    assert "without looking at the data" in fixed
    found = promise_found(Decimal("0.3"), Decimal("1.0"), Decimal(10), Laplace(), viewed=False)
    assert "1.3-differentially private" in found
    assert "beforehand the bound was 11" in found
    for part in ("threshold", "budget of the test", "candidates", "mechanism", "decision to answer"):
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
    with pytest.raises(QueryError, match=r"own rows.*fixed ε: epsilon=E") as refused:
        stays.release(sql, ledger=ledger, svt=1.0, variance=0.1, policy="paper", **options)
    assert refused.value.clause
    assert ledger.account("stays") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": "observed"}, "must be one of declared, thresholded"),
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


# ---------------------------------------------------------------- no denial depends on the data


@pytest.mark.parametrize("way", WAYS, ids=["fixed", "find", "find-and-release"])
@pytest.mark.parametrize("trouble", ["nan", "infinite", "crowded", "not whole"])
def test_odd_data_are_answered(ledger: Ledger, tmp_path: Path, way: dict[str, Any], trouble: str) -> None:
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
    assert answer.status == "released"
    assert [entry.status for entry in account_of(ledger).entries] == ["released"]


def test_a_policy_denial_looks_the_same(stays: Dataset, ledger: Ledger) -> None:
    answer = stays.release("SELECT COUNT(*) FROM stays", ledger=ledger, epsilon=2.0, policy="budget:1")
    assert answer.describe() == {"status": "denied"}
    assert (answer.answer, answer.epsilon, answer.error_95, answer.guarantee) == (None, None, None, None)


def test_a_preference_that_nothing_meets_is_denied_at_no_charge(stays: Dataset, ledger: Ledger) -> None:
    answer = stays.release(
        "SELECT COUNT(*) FROM stays WHERE urgent", ledger=ledger, prefer="ratio:0.99999", policy="paper"
    )
    assert answer.describe() == {"status": "denied"}
    assert ledger.accounts() == ()


def test_a_denial_after_the_noisy_test_costs_epsilon_svt(stays: Dataset, ledger: Ledger) -> None:
    """τ = 1e-9 with ε_svt = 20 over 40 slots: a candidate of 10 passes with a probability below e⁻⁵⁰."""
    answer = stays.release(
        "SELECT COUNT(*) FROM stays WHERE nights > 4", ledger=ledger, svt=20.0, variance=1e-9, candidates=[10.0],
        policy="budget:100",
    )  # fmt: skip
    assert answer.describe() == {"status": "denied"}
    assert account_of(ledger).reading.epsilon == Decimal(20)
