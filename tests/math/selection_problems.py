"""Selection problems, small and varied, and their variances in fractions and in high precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import mpmath
import numpy as np

from dosimeter.mechanisms import ClassicGaussian, Gaussian, Laplace
from dosimeter.mechanisms.mechanism import Mechanism
from dosimeter.options import Selection
from dosimeter.release.selection import SelectionProblem
from dosimeter.risk.largest_epsilon import paper_candidates

LAPLACE = Laplace()
ZCDP = Gaussian(1e-6)
CLASSIC = ClassicGaussian(1e-6)
METHODS: tuple[Selection, ...] = ("sharp", "paper")


def make_problem(slots: Sequence[float], mechanism: Mechanism = LAPLACE, **changes: object) -> SelectionProblem:
    """A problem from one PIS per slot, Δ = 1, with a few candidates."""
    counts = Counter(slots)
    settings = {
        "n": len(slots),
        "k": 1,
        "sensitivity": 1.0,
        "mechanism": mechanism,
        "values": np.array(list(counts.keys()), dtype=float),
        "counts": np.array(list(counts.values())),
        "candidates": (10.0, 1.0, 0.1),
        "threshold": 0.01,
        "epsilon_svt": 1.0,
    }
    return SelectionProblem(**(settings | changes))  # type: ignore[arg-type]


def varied_problem(mechanism: Mechanism, k: int) -> SelectionProblem:
    generator = np.random.default_rng(11)
    values = np.concatenate(([0.0, 250.0], generator.uniform(0.0, 250.0, 20)))
    counts = np.concatenate(([90_000, 1], generator.integers(1, 40, 20)))
    return SelectionProblem(
        int(counts.sum()), k, 250.0, mechanism, values, counts, paper_candidates(), threshold=1e-5, epsilon_svt=1.0
    )


def variance(values: Sequence[Fraction]) -> Fraction:
    mean = sum(values, Fraction(0)) / len(values)
    return sum(((value - mean) ** 2 for value in values), Fraction(0)) / len(values)


def precise_normalised(problem: SelectionProblem, epsilon: float) -> list[mpmath.mpf]:
    """RDR_i/RDR* per class from the definitions R3, R4, R9."""
    k, top = problem.k, mpmath.mpf(problem.sensitivity)
    if problem.mechanism.name == "laplace":
        noise = k * top / mpmath.mpf(epsilon)
        return [(mpmath.mpf(float(pis)) + noise) / (top + noise) for pis in problem.values]
    noise = k * mpmath.mpf(problem.mechanism.scale(problem.sensitivity, epsilon)) ** 2
    ceiling = mpmath.sqrt(top**2 + noise)
    return [mpmath.sqrt(mpmath.mpf(float(pis)) ** 2 + noise) / ceiling for pis in problem.values]


def precise_variance(values: Sequence[mpmath.mpf], counts: Sequence[int]) -> mpmath.mpf:
    n = sum(counts)
    mean = mpmath.fsum(v * c for v, c in zip(values, counts, strict=True)) / n
    return mpmath.fsum((v - mean) ** 2 * c for v, c in zip(values, counts, strict=True)) / n
