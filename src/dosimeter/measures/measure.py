"""What a query measures: one noisy number per group each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from dosimeter.mechanisms import Norm

if TYPE_CHECKING:
    from sqlglot import exp


class MeasureKind(StrEnum):
    """One noisy number per group each. The last three are measured directly only in a study (S7)."""

    COUNT = "count"
    SUM = "sum"
    CENTRED_SUM = "centred sum"
    CENTRED_SQUARES = "sum of centred squares"
    COUNT_DISTINCT = "count distinct"
    BOUNDED_MEAN = "mean with a floor on rows"
    QUANTILE = "quantile"
    MEAN = "mean"
    VARIANCE = "variance"
    DEVIATION = "standard deviation"


ADDITIVE = frozenset({MeasureKind.COUNT, MeasureKind.SUM, MeasureKind.CENTRED_SUM, MeasureKind.CENTRED_SQUARES})


@dataclass(frozen=True, slots=True)
class Argument:
    """What stands inside an aggregate, as one column of the profile query.

    ``value``: an integer on the grid, NULL where the row contributes nothing; real value = integer × unit.
    ``presence``: whether the expression is not NULL. ``distinct``: the raw value, counted once.
    """

    role: Literal["value", "presence", "distinct"]
    tree: exp.Expression
    label: str
    unit: Fraction = Fraction(1)
    lower: int = 0
    upper: int = 0


@dataclass(frozen=True, slots=True)
class Measure:
    """One noisy number per group.

    ``unit`` is what one step of the exact integer is worth; ``grid`` is where noise lives.
    """

    kind: MeasureKind
    argument: int | None
    label: str
    unit: Fraction
    grid: Fraction
    sensitivity_l1: float
    sensitivity_l2: float
    fraction: Fraction | None = None
    min_rows: int | None = None
    empty: Fraction = Fraction(0)

    def sensitivity(self, norm: Norm) -> float:
        return self.sensitivity_l1 if norm == 1 else self.sensitivity_l2

    @property
    def additive(self) -> bool:
        return self.kind in ADDITIVE
