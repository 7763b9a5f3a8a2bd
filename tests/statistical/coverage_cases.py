"""What the coverage of stated errors is measured on: a plan, exact numbers, and how often numbers lie within them.

Noise comes from numpy, not from the release: two geometric variables make discrete Laplace noise, and a rounded normal
of many steps stands for the discrete Gaussian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.stats import binom

from dosimeter.mechanisms import Laplace, Mechanism
from dosimeter.planning import QueryPlan, plan_query
from dosimeter.postprocess import Noise, assemble_answer
from dosimeter.schema import Schema, read_schema
from tests.known import known
from tests.schemas import declare, plain, whole

ALPHA = 1e-4
"""How often a right coverage of 95 % may fail each test."""

COLUMNS: dict[str, Any] = {
    "x": whole(0, 100),
    "y": whole(0, 20),
    "member": plain("boolean"),
}


def schema_of(groups: int) -> Schema:
    """Return a schema with a column g of so many groups."""
    columns = COLUMNS | {"g": whole(1, groups)}
    return read_schema(declare("t", 10**6, columns))


@dataclass(frozen=True)
class Covered:
    """How many numbers were stated, how many of these lay within their error, and how many cells were withheld."""

    stated: int
    within: int
    withheld: int

    @property
    def share(self) -> float:
        return self.within / self.stated

    def require(self) -> None:
        """Fail if so few lie within their errors that a coverage of 95 % gives fewer with a probability below α."""
        assert self.stated > 0
        assert binom.cdf(self.within, self.stated, 0.95) > ALPHA, f"{self.within} of {self.stated}"


def draw_noise(
    plan: QueryPlan, mechanism: Mechanism, scale: float, cells: int, random: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Return noise for every cell and measure, in real units, on each measure's grid."""
    columns = []
    for measure, own in zip(plan.measures, scale / plan.weights(mechanism.norm), strict=True):
        steps = own / float(measure.grid)
        if mechanism.norm == 1:
            stop = -math.expm1(-1.0 / steps)
            drawn = random.geometric(stop, cells) - random.geometric(stop, cells)
        else:
            drawn = np.rint(random.normal(0.0, steps, cells))
        columns.append(drawn * float(measure.grid))
    return np.stack(columns, axis=1)


def _read_exactly(number: float) -> Fraction:
    """Return a number on its grid: a whole number where it is one, which is quicker to compute with."""
    return int(number) if number.is_integer() else Fraction(number)  # type: ignore[return-value]


def cover(
    sql: str,
    exact: list[list[float]],
    *,
    releases: int,
    seed: int,
    epsilon: float = 1.0,
    mechanism: Mechanism | None = None,
    families: bool = False,
) -> Covered:
    """Release the exact numbers of every cell so many times, and count the numbers within their stated errors.

    ``families``: count an answer as one, within its errors only if all of its numbers are, as E2 promises.
    """
    mechanism = mechanism or Laplace()
    plan = plan_query(sql, schema_of(len(exact)))
    keys = known(plan.group_keys)
    scale = mechanism.scale(plan.sensitivity(mechanism.norm), epsilon)
    facts, random = Noise.of(plan, mechanism, scale), np.random.default_rng(seed)
    free = plan_query(sql.split(" HAVING")[0].split(" ORDER")[0], schema_of(len(exact)))
    truths = assemble_answer(free, keys, [[Fraction(number) for number in row] for row in exact]).rows
    names = [output.name for output in plan.outputs if output.is_aggregate]
    group = next((output.name for output in plan.outputs if not output.is_aggregate), None)
    truth_of = {row.get(group or ""): row for row in truths}
    stated = within = withheld = 0
    table = np.array(exact, dtype=np.float64)
    for _ in range(releases):
        noisy = table + draw_noise(plan, mechanism, scale, len(exact), random)
        values = [[_read_exactly(number) for number in row] for row in noisy.tolist()]
        answer = assemble_answer(plan, keys, values, noise=facts)
        assert answer.errors is not None
        results = []
        for row, errors in zip(answer.rows, answer.errors, strict=True):
            truth = truth_of[row.get(group or "")]
            for name in names:
                if errors[name] is None:
                    withheld += 1
                    continue
                results.append(abs(row[name] - truth[name]) <= errors[name] * (1.0 + 1e-12))  # type: ignore[operator]
        if families and results:
            results = [all(results)]
        stated, within = stated + len(results), within + sum(results)
    return Covered(stated, within, withheld)


def moments(count: int, x: float, y: float, spread_x: float, spread_y: float, correlation: float) -> list[float]:
    """Return COUNT, Σx, Σy, Σxy, Σx², Σy² of values with these means, deviations and correlation, centred in bounds."""
    x, y = x - 50.0, y - 10.0
    product = correlation * spread_x * spread_y + x * y
    numbers = [1.0, x, y, product, spread_x**2 + x * x, spread_y**2 + y * y]
    return [float(round(count * number)) for number in numbers]
