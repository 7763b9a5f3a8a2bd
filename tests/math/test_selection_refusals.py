"""What cannot be found privately is refused, and private values do not show."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dosimeter.errors import DataError, OptionError, QueryError
from dosimeter.measures import Argument, ArgumentMeasure, CountDistinct, CountIndividuals, Measure
from dosimeter.measures.counts import Count, CountRows
from dosimeter.measures.means import BoundedMean
from dosimeter.measures.quantiles import OrderStatistic, Quantile
from dosimeter.measures.ranks import Rank
from dosimeter.measures.sums import CentredSquares, CentredSum, Sum
from dosimeter.planning import QueryPlan, plan_query
from dosimeter.release.selection import (
    noisy_test_accuracy,
    outcome_distribution,
    prepare_test,
    require_additive,
    select_epsilon,
)
from dosimeter.schema import read_schema
from dosimeter.sql import column_tree
from tests.math.selection_problems import make_problem
from tests.measure_classes import list_measures
from tests.schemas import declare, whole


def make_measure(kind: type[Measure], label: str) -> Measure:
    """A measure of this class, over a column x where it reads one."""
    numbers = {"label": label, "unit": Fraction(1), "grid": Fraction(1), "sensitivity_l1": 1.0, "sensitivity_l2": 1.0}
    more: dict[str, object] = {}
    if issubclass(kind, ArgumentMeasure):
        more["argument"] = Argument("value", column_tree("x"), "x", Fraction(1), 0, 1)
    if issubclass(kind, OrderStatistic):
        more["fraction"] = Fraction(1, 2)
    if issubclass(kind, Rank):
        more |= {"rows": 1, "step": 1}
    if issubclass(kind, BoundedMean):
        more["min_rows"] = 5
    return kind(**numbers, **more)  # type: ignore[arg-type]


def plan_of(*kinds: type[Measure]) -> QueryPlan:
    measures = tuple(make_measure(kind, f"M{i}(x)") for i, kind in enumerate(kinds))
    counted = plan_query("SELECT COUNT(*) FROM t", read_schema(declare("t", 9, {"x": whole(0, 1)})))
    return replace(counted, measures=measures)


@pytest.mark.parametrize("kind", list_measures())
def test_only_additive_queries_pass(kind: type[Measure]) -> None:
    plan = plan_of(CountRows, kind)
    assert plan.additive is (kind in (CountRows, Count, CountIndividuals, Sum, CentredSum, CentredSquares))
    if plan.additive:
        require_additive(plan)
        return
    with pytest.raises(QueryError, match=r"M1\(x\)") as caught:
        require_additive(plan)
    assert caught.value.clause == "M1(x)"
    assert "epsilon=E" in str(caught.value)
    advice = "GROUP BY CASE" if kind in (Quantile, Rank, CountDistinct) else "min_rows="
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"threshold": 0.0},
        {"threshold": math.nan},
        {"epsilon_svt": 0.0},
        {"epsilon_svt": math.inf},
        {"candidates": ()},
        {"candidates": (0.1, 1.0)},
        {"candidates": (1.0, 1.0)},
        {"candidates": (1.0, -1.0)},
        {"k": 0},
        {"sensitivity": 0.0},
        {"violation": 0.0},
        {"violation": 1.0},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        make_problem([0.0, 1.0], **changes)


def test_an_unknown_method_is_refused() -> None:
    problem = make_problem([0.0, 1.0])
    unknown: Any = "blunt"
    for function in (select_epsilon, outcome_distribution, noisy_test_accuracy):
        with pytest.raises(OptionError, match="must be one of sharp, paper"):
            function(problem, method=unknown)


def test_data_that_contradicts_the_declaration_is_refused() -> None:
    more: dict[str, Any] = {"n": 3}
    for slots, changes in (([0.0, 1.0], more), ([0.0, 1.5], {}), ([0.0, math.nan], {})):
        with pytest.raises(DataError):
            make_problem(slots, **changes)
    with pytest.raises(OptionError):
        make_problem([0.0])


def test_private_values_do_not_show() -> None:
    problem = make_problem([0.0, 0.625])
    for private in (problem, prepare_test(problem, method="sharp"), outcome_distribution(problem, method="paper")):
        assert "redacted" in repr(private)
        assert "0.625" not in repr(private)


def test_tiny_candidates_do_not_overflow() -> None:
    outcome = outcome_distribution(make_problem([0.0, 1.0, 1.0], candidates=(1e-200,)), method="sharp")
    assert outcome.probabilities == (1.0,)
