"""From measured numbers, exact or noisy, to the aggregates of a query: AVG from its sums, and so on (S2).

Takes a plan and numbers; gives numbers. Never touches data and never draws noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.planning import Estimate, EstimateKind, QueryPlan

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray


def estimate_group(plan: QueryPlan, measured: Sequence[Fraction], *, clamp: bool = False) -> list[int | float]:
    """Return the aggregates of one group, as the analyst wrote them, from its measured numbers."""
    return [_estimate(estimate, [measured[at] for at in estimate.measures], clamp) for estimate in plan.estimates]


def _estimate(estimate: Estimate, inputs: Sequence[Fraction], clamp: bool) -> int | float:
    if estimate.kind is EstimateKind.IDENTITY:
        value = inputs[0]
        if clamp:
            value = _clipped(value, estimate)
        return int(value) if estimate.integer and value.denominator == 1 else float(value)
    count, total, *rest = inputs
    if estimate.kind is EstimateKind.MEAN:
        mean = estimate.centre + (total / count if count > 0 else 0)  # S2
        return float(_clipped(mean, estimate) if clamp else mean)
    spread = rest[0] / count - (total / count) ** 2 if count > 0 else Fraction(0)
    variance = max(spread, Fraction(0))
    if clamp and estimate.lower is not None and estimate.upper is not None:
        variance = min(variance, ((estimate.upper - estimate.lower) / 2) ** 2)
    return float(variance) if estimate.kind is EstimateKind.VARIANCE else math.sqrt(variance)


def _clipped(value: Fraction, estimate: Estimate) -> Fraction:
    if estimate.lower is not None and estimate.upper is not None:
        return min(max(value, estimate.lower), estimate.upper)
    return max(value, Fraction(0)) if estimate.counts else value


def estimate_arrays(plan: QueryPlan, used: Sequence[int], measured: Mapping[int, FloatArray]) -> dict[str, FloatArray]:
    """Return these aggregates over arrays of measured numbers, by the names e0, e1 …."""
    result: dict[str, FloatArray] = {}
    with np.errstate(all="ignore"):
        for number in used:
            estimate = plan.estimates[number]
            inputs = [measured[at] for at in estimate.measures]
            if estimate.kind is EstimateKind.IDENTITY:
                result[f"e{number}"] = inputs[0]
                continue
            count, total = inputs[0], inputs[1]
            mean = np.where(count > 0, total / np.where(count > 0, count, 1.0), 0.0)
            if estimate.kind is EstimateKind.MEAN:
                result[f"e{number}"] = float(estimate.centre) + mean
                continue
            spread = np.where(count > 0, inputs[2] / np.where(count > 0, count, 1.0) - mean**2, 0.0)
            variance = np.maximum(spread, 0.0)
            result[f"e{number}"] = variance if estimate.kind is EstimateKind.VARIANCE else np.sqrt(variance)
    return result
