"""A measure is a class: it answers everything about itself, or it cannot be made."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from fractions import Fraction
from typing import ClassVar

import pytest
from sqlglot import exp

from dosimeter.measures.counts import Count, CountRows
from dosimeter.measures.measure import Dependence, Measure
from dosimeter.measures.noise_grid import SensitivityFacts
from dosimeter.release.selection import _REFUSALS
from tests.measure_classes import list_measures

# Ledgers hold these: a digest of what a query measures is made of them.
RECORDED = {
    "CountRows": "count",
    "Count": "count",
    "Sum": "sum",
    "CentredSum": "centred sum",
    "CentredSquares": "sum of centred squares",
    "CountDistinct": "count distinct",
    "CountIndividuals": "count individuals",
    "BoundedMean": "mean with a floor on rows",
    "Quantile": "quantile",
    "Rank": "quantile",
    "Mean": "mean",
    "Variance": "variance",
    "Deviation": "standard deviation",
}


def test_names_are_those_that_ledgers_hold() -> None:
    assert {each.__name__: each.name for each in list_measures()} == RECORDED


def test_every_dependence_has_a_reason_and_a_measure() -> None:
    assert set(_REFUSALS) == set(Dependence)
    assert {each.depends_on for each in list_measures()} == {None, *Dependence}


def test_a_measure_that_leaves_something_open_cannot_be_made() -> None:
    @dataclass(frozen=True, slots=True)
    class Half(Measure):
        name: ClassVar[str] = "half"
        depends_on: ClassVar[Dependence | None] = None
        by_group: ClassVar[bool] = False

        def total(self) -> exp.Expression | None:
            return None

    with pytest.raises(TypeError, match="abstract"):
        Half("x", Fraction(1), Fraction(1), 1.0, 1.0)  # type: ignore[abstract]


def test_measures_are_values() -> None:
    measure = CountRows.of_rows("COUNT(*)", SensitivityFacts(rows=3, individuals=10))
    assert measure == CountRows.of_rows("COUNT(*)", SensitivityFacts(rows=3, individuals=10))
    assert not hasattr(measure, "__dict__")
    with pytest.raises(FrozenInstanceError):
        measure.label = "other"  # type: ignore[misc]


def test_counts_of_rows_and_of_values_are_recorded_alike() -> None:
    assert Count.name == CountRows.name
