"""Compare what a measurement says that everybody changes with what deleting them changes."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from dosimeter import Dataset
from dosimeter.assessment import Risk
from dosimeter.influence import DeclaredTables, measure_exactly
from dosimeter.influence.contributions import Contributions
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan

Vector = tuple[float, ...]


def measure_weighted(plan: QueryPlan, tables: DeclaredTables, norm: Norm) -> Vector:
    """Return the exact vector of all blocks without a profile, each number in the units of the norm (S5)."""
    found: list[float] = []
    for block, part in zip(plan.blocks, measure_exactly(plan, tables, None).blocks, strict=True):
        weights = [1.0 if len(plan.all_measures) == 1 else 1.0 / each.sensitivity(norm) for each in block.measures]
        found += [float(value) * weight for row in part.values for value, weight in zip(row, weights, strict=True)]
    return tuple(found)


def check_deletion(risk: Risk, without: Iterable[Dataset]) -> float:
    """Really leave each person out: the closed form says the same, and none moves more than Δ.

    Returns the largest change, as a share of Δ.
    """
    norm = risk.mechanism.norm
    before = measure_weighted(risk.plan, risk.tables, norm)
    left: list[Vector] = []
    for fewer in without:
        after = measure_weighted(risk.plan, fewer.tables, norm)
        left.append(tuple(a - b for a, b in zip(before, after, strict=True)))
    most = max((size_of(vector, norm) for vector in left), default=0.0)
    assert most <= risk.sensitivity * (1 + 1e-9)
    assert_same_people(expand(risk.contributions), everybody_there(left, risk))
    return most / risk.sensitivity


def expand(contributions: Contributions) -> list[Vector]:
    """Everybody's vector."""
    found: list[Vector] = []
    for row, people in enumerate(contributions.people):
        vector = np.zeros(contributions.k)
        owned = slice(contributions.starts[row], contributions.starts[row + 1])
        np.add.at(vector, contributions.cells[owned], contributions.changes[owned])
        found += [tuple(vector.tolist())] * int(people)
    return found


def everybody_there(left: Iterable[Vector], risk: Risk) -> list[Vector]:
    """These vectors, and nothing for the others in the table; one empty slot where the table is empty (N5)."""
    found = list(left)
    return [*found, *[(0.0,) * risk.k] * (max(risk.present, 1) - len(found))]


def assert_same_people(found: Iterable[Vector], expected: Iterable[Vector]) -> None:
    """The same vectors, each as often, within 1e-9."""

    def in_order(vectors: Iterable[Vector]) -> list[Vector]:
        return sorted(vectors, key=lambda vector: [round(value, 6) + 0.0 for value in vector])

    ours, theirs = in_order(found), in_order(expected)
    assert len(ours) == len(theirs)
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-9, atol=1e-9)


def size_of(vector: Vector, norm: int) -> float:
    return math.fsum(map(abs, vector)) if norm == 1 else math.sqrt(math.fsum(value * value for value in vector))


def bound(vector: Vector, risk: Risk, epsilon: float) -> float:
    return size_of(vector, 1) + risk.k * risk.sensitivity / epsilon  # R3
