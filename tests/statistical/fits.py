"""How draws are compared with exact chances: the distributions of noise, χ² over bins that hold enough draws, and how
much likelier draws of one table are than draws of its neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import SupportsFloat

import numpy as np
import pytest
from scipy.stats import chi2, norm

from dosimeter.mechanisms.mechanism import Mechanism


def distribution_function(mechanism: Mechanism, scale: float) -> Callable[[int], float]:
    """P(Z ≤ z) of the discrete noise; a Gaussian of more than 1,000 steps is the normal one at z + ½."""
    if mechanism.name == "laplace":
        q = math.exp(-1.0 / scale)
        return lambda z: 1.0 - q ** (z + 1) / (1.0 + q) if z >= 0 else q ** (-z) / (1.0 + q)
    if scale > 1000:
        return lambda z: float(norm.cdf((z + 0.5) / scale))
    reach = math.ceil(40 * scale)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    cumulated = np.cumsum(weights) / weights.sum()
    return lambda z: float(cumulated[min(max(z + reach, 0), 2 * reach)])


def chi_square(draws: list[int], mechanism: Mechanism, scale: float, *, bins: int) -> tuple[float, int, float]:
    """The statistic, its degrees of freedom and the p-value, over bins of about equal probability."""
    below = distribution_function(mechanism, scale)
    quantiles = [scale * _rough_quantile(mechanism, (at + 1) / bins) for at in range(bins - 1)]
    edges = sorted({round(quantile) for quantile in quantiles})
    edges = [edge for edge in edges if len(draws) * (1.0 - below(edge)) > 5]  # of narrow noise the tail is one bin
    chances = [below(edges[0]), *(below(b) - below(a) for a, b in pairwise(edges)), 1.0 - below(edges[-1])]
    counted = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=len(chances))
    assert math.fsum(chances) == pytest.approx(1.0)
    assert min(chances) * len(draws) > 5
    statistic = math.fsum((o - len(draws) * p) ** 2 / (len(draws) * p) for o, p in zip(counted, chances, strict=True))
    return statistic, len(chances) - 1, float(chi2.sf(statistic, len(chances) - 1))


def _rough_quantile(mechanism: Mechanism, p: float) -> float:
    if mechanism.name == "gaussian":
        return float(norm.ppf(p))
    return math.log(2 * p) if p < 0.5 else -math.log(2 * (1 - p))


def fit_pooled(counts: Sequence[int], chances: Sequence[float]) -> float:
    """Return the p-value of counts per outcome; outcomes of which fewer than 10 are expected are one."""
    expected = np.array(chances) * sum(counts)
    order = np.argsort(expected)
    observed, expected = np.array(counts)[order], expected[order]
    small = int(np.searchsorted(np.cumsum(expected), 10.0)) + 1
    observed = np.array([observed[:small].sum(), *observed[small:]])
    expected = np.array([expected[:small].sum(), *expected[small:]])
    assert len(expected) >= 3, "too few outcomes to test anything"
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


def bin_jointly(*samples: Sequence[Sequence[SupportsFloat]]) -> list[np.ndarray]:
    """One number per noisy vector: the cell of a product of bins, 16 for one measure, 4 × 4, 3 × 3 × 3."""
    together = np.array([[float(value) for value in row] for rows in samples for row in rows])
    bins = {1: 16, 2: 4, 3: 3}[together.shape[1]]
    code = np.zeros(len(together), dtype=np.int64)
    for column in together.T:
        edges = np.unique(np.quantile(column, np.arange(1, bins) / bins))
        code = code * bins + np.searchsorted(edges, column, side="right")
    return np.split(code, len(samples))


def excess(first: np.ndarray, second: np.ndarray, epsilon: float, delta: float) -> float:
    """The largest P₁(E) − e^ε·P₂(E) − δ, as counted, over bins and unions of the bins in which P₁ is larger."""
    most = int(max(first.max(), second.max())) + 1
    shares = [np.bincount(bins, minlength=most) / len(bins) for bins in (first, second)]
    gaps = shares[0] - math.exp(epsilon) * shares[1]
    return float(max(gaps.max(), *np.cumsum(np.sort(gaps)[::-1]))) - delta


def hoeffding_slack(epsilon: float, bins: int, n: int, alpha: float) -> float:
    """p − e^ε·q, as counted, misses its expectation by more than s with probability at most exp(−2ns²/(1 + e^2ε)); one
    such chance for each of the 2^bins unions, of which sorting tries the worst. ``alpha``: over both directions.
    """
    events = bins * math.log(2) - math.log(alpha / 2)
    return math.sqrt((1.0 + math.exp(2.0 * epsilon)) * events / (2.0 * n))
