"""How far noise moves a number that is computed from several noisy numbers (E1): a quantile, for any level.

Noise is taken apart into its direction and its size in the mechanism's norm, which are independent. Directions are
spread evenly and the law of the size is exact, so that a level as high as 1 − 10⁻⁷ needs no more points than 95 %.
Takes functions and numbers; the same input gives the same error. Never touches data and never draws noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dosimeter.arrays import FloatArray
from dosimeter.mechanisms import Mechanism

Compute = Callable[[Sequence[FloatArray], slice], FloatArray]
"""From arrays of measured numbers, one per measure, of these cells × any shape, to the number; NaN: there is none."""

_MARGIN = 0.96  # of the probability to be further off: for the finite number of directions
_MOST_POINTS = 400_000
_MOST_AT_ONCE = 1_000_000
_LEAST_DIRECTIONS, _MOST_DIRECTIONS = 12, 48
_SIZES, _COARSE_SIZES = 16, 64
_COARSE = 4.0  # noise of fewer grid steps moves numbers by visible steps
_HALVINGS = 32


@dataclass(frozen=True, slots=True)
class Sources:
    """The noisy numbers that a number is computed from. ``values``: one array over cells per number.

    ``scales`` and ``grids``: of each number's noise, in its own units. ``terms``: how many noises each cell adds up.
    """

    mechanism: Mechanism
    values: tuple[FloatArray, ...]
    scales: FloatArray
    grids: FloatArray
    terms: FloatArray

    @property
    def cells(self) -> int:
        return len(self.terms)


def propagate(
    sources: Sources, compute: Compute, tail: float, *, rough: bool = False, divisors: Sequence[Compute] = ()
) -> FloatArray:
    """Return, for every cell, what the computed number is further off than with at most this probability; ∞ if any.

    The truth is the noisy numbers less their noise: symmetric, so that it lies on either side alike. For a smooth
    function the quantile over directions and sizes is taken; for a rough one (CASE, GREATEST …) the largest move
    within the ball that holds the noise with that probability, which is cautious. ``divisors``: where one of them
    would change its sign, the number could be anything.
    """
    if sources.cells == 0 or not sources.values:
        return np.zeros(sources.cells)
    directions, sizes, log_tails = _lay_out(sources, tail * _MARGIN)
    errors = np.empty(sources.cells)
    step = max(1, _MOST_AT_ONCE // (len(directions) * len(sizes)))
    for start in range(0, sources.cells, step):
        chosen = slice(start, start + step)
        moves = _move(sources, chosen, compute, divisors, directions, sizes)
        if rough:
            errors[chosen] = _find_largest(moves, log_tails, math.log(tail * _MARGIN))
        else:
            errors[chosen] = _find_quantile(moves, log_tails, tail * _MARGIN, interpolate=len(sizes) == _SIZES)
    return errors


def _lay_out(sources: Sources, tail: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return directions, sizes and, for each size, the logarithm of the probability to exceed it."""
    numbers = len(sources.values)
    coarse = bool(np.any(sources.scales < _COARSE * sources.grids))
    count = _COARSE_SIZES if coarse else _SIZES
    wanted = _MOST_POINTS // (sources.cells * count)
    half = int(min(_MOST_DIRECTIONS, max(_LEAST_DIRECTIONS, 8 * (numbers - 1), wanted)))
    tails = np.geomspace(0.9, tail / 100.0, count)
    sizes = np.array([sources.mechanism.reach(each, numbers) for each in tails.tolist()])
    return spread_directions(sources.mechanism, half, numbers), sizes, np.log(tails)


def _move(
    sources: Sources,
    chosen: slice,
    compute: Compute,
    divisors: Sequence[Compute],
    directions: FloatArray,
    sizes: FloatArray,
) -> FloatArray:
    """Return how far noise of each direction and at most each size moves the number: cells × directions × sizes."""
    spread = np.sqrt(sources.terms[chosen])[:, None, None]
    quiet = [values[chosen][:, None, None] for values in sources.values]
    moved = []
    for at, values in enumerate(quiet):
        noise = spread * (sources.scales[at] * directions[:, at][:, None] * sizes[None, :])[None, :, :]
        grid = float(sources.grids[at])
        moved.append(values - (grid * np.rint(noise / grid) if grid > 0.0 else noise))  # on its grid, never less
    with np.errstate(all="ignore"):
        off = np.abs(compute(moved, chosen) - compute(quiet, chosen))
        for divisor in divisors:
            turned = np.sign(divisor(moved, chosen)) != np.sign(divisor(quiet, chosen))
            off = np.where(turned, np.inf, off)
    off = np.where(np.isnan(off), np.inf, off)
    largest: FloatArray = np.maximum.accumulate(off, axis=2)
    return largest


def _find_largest(moves: FloatArray, log_tails: FloatArray, log_tail: float) -> FloatArray:
    """Return the largest move of noise that is not larger than the ball of this probability."""
    outermost = int(np.searchsorted(-log_tails, -log_tail))
    largest: FloatArray = moves[:, :, outermost].max(axis=1)
    return largest


def _find_quantile(moves: FloatArray, log_tails: FloatArray, tail: float, *, interpolate: bool) -> FloatArray:
    """Return the least move that is exceeded with at most this probability, by halving, for all cells at once."""
    moves = np.concatenate([np.zeros((*moves.shape[:2], 1)), moves], axis=2)
    logs = np.concatenate([[0.0], log_tails])
    last = moves.shape[2] - 1

    def exceeded(limit: FloatArray) -> FloatArray:
        inner = (moves <= limit[:, None, None]).sum(axis=2) - 1
        outer = np.minimum(inner + 1, last)
        share = np.zeros(inner.shape)
        if interpolate:
            low = np.take_along_axis(moves, inner[..., None], 2)[..., 0]
            high = np.take_along_axis(moves, outer[..., None], 2)[..., 0]
            between = np.isfinite(high) & (high > low)
            share[between] = ((limit[:, None] - low)[between]) / (high - low)[between]
        chances: FloatArray = np.exp(logs[inner] + share * (logs[outer] - logs[inner])).mean(axis=1)
        return chances

    high = np.where(np.isfinite(moves), moves, 0.0).max(axis=(1, 2))
    low, none = np.zeros(len(moves)), exceeded(high) > tail
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        enough = exceeded(middle) <= tail
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return np.where(none, np.inf, high)


@lru_cache(maxsize=64)
def spread_directions(mechanism: Mechanism, half: int, numbers: int) -> FloatArray:
    """Return evenly spread directions of noise, each with its opposite: 2·half rows of norm 1.

    A point of the cube becomes noise by the inverse distribution function, then is divided by its norm. The points are
    multiples of powers of 1/φ, where φ is the root of φ^(d+1) = φ + 1, modulo 1: spread evenly in every dimension.
    """
    if numbers == 1:
        return np.array([[1.0], [-1.0]])
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (numbers + 1))
    steps = root ** -np.arange(1.0, numbers + 1.0)
    shares = (0.5 + np.arange(1, half + 1)[:, None] * steps) % 1.0
    noise = mechanism.quantiles(shares)
    norms = np.abs(noise).sum(axis=1) if mechanism.norm == 1 else np.sqrt(np.square(noise).sum(axis=1))
    found: FloatArray = np.concatenate([noise, -noise]) / np.concatenate([norms, norms])[:, None]
    found.setflags(write=False)
    return found
