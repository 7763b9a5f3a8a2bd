"""How far noise moves a number that is computed from several noisy numbers (E1), with any given probability.

Noise is taken apart into its direction and its size in the mechanism's norm, which are independent. The number is
computed at *points*: with noise of some evenly spread directions, in each direction of some sizes. How probable each
size is, is known exactly, so that a probability as high as 1 − 10⁻⁷ needs no more points than 0.95. Takes functions and
numbers; the same input gives the same error. Never touches data and never draws noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.mechanisms import Mechanism

Compute = Callable[[Sequence[FloatArray], IntArray], FloatArray]
"""A function from measured numbers (one array per measure, rows × any shape) and row indices to a number or NaN."""

_MARGIN = 0.96  # of the probability to be further off: for the finite number of directions
_MOST_POINTS = 400_000
_MOST_AT_ONCE, _MOST_ASKED = 2**17, 2**20  # points, as the processor's cache likes them; that an engine is asked for
_LEAST_DIRECTIONS, _MOST_DIRECTIONS = 12, 48
_SIZES, _COARSE_SIZES = 16, 64
_COARSE = 4.0  # noise of fewer grid steps moves numbers by visible steps
_HALVINGS, _COARSE_HALVINGS = 32, 5
_STEPS, _PRECISION = 100, 1e-13  # of Newton's method, which stops by itself long before


@dataclass(frozen=True, slots=True)
class SourceNumbers:
    """The noisy numbers that another number is computed from. ``values``: for each, an array with one element per row.

    Rows are those of the released table. ``scales``: the noise scale of each row and number, in the number's own units.
    ``grids``: the grid of each number. ``terms``: how many noisy numbers were added up in each row and number.
    ``levels``: a code per row; rows with the same code have the same noise scales.
    """

    mechanism: Mechanism
    values: tuple[FloatArray, ...]
    scales: FloatArray
    grids: FloatArray
    terms: FloatArray
    levels: IntArray

    @property
    def rows(self) -> int:
        return len(self.terms)


def propagate(
    sources: SourceNumbers, compute: Compute, tail: float, *, rough: bool = False, divisors: Sequence[Compute] = ()
) -> FloatArray:
    """Return a bound on the computed number's error in each released row, exceeded with probability ``tail`` at most.

    ∞ if there is no such bound. The truth is taken to be the noisy numbers less noise, which is symmetric. For a smooth
    function the bound is a quantile over directions and sizes of the noise. For a ``rough`` one (CASE, GREATEST …) it
    is the largest change within the ball that holds the noise with probability 1 − ``tail``, which is larger than
    needed. ``divisors``: numbers that the function divides by; noise that changes the sign of one counts as an infinite
    error.
    """
    errors = np.zeros(sources.rows)
    if sources.rows == 0 or not sources.values:
        return errors
    numbers = len(sources.values)
    for rows, half, count in _group_rows(sources):
        directions = spread_directions(sources.mechanism, half, numbers)
        sizes, log_tails = _spread_sizes(sources.mechanism, numbers, count, tail * _MARGIN)
        step = max(1, (_MOST_ASKED if rough else _MOST_AT_ONCE) // (len(directions) * len(sizes)))
        for start in range(0, len(rows), step):
            chosen = rows[start : start + step]
            moves = _move(sources, chosen, compute, divisors, directions, sizes)
            if rough:
                errors[chosen] = _find_largest(moves, log_tails, math.log(tail * _MARGIN))
            elif count == _SIZES:
                errors[chosen] = _find_quantile(moves, log_tails, math.log(tail * _MARGIN))
            else:
                errors[chosen] = _find_step(moves, log_tails, tail * _MARGIN)
    return errors


def _group_rows(sources: SourceNumbers) -> Iterator[tuple[IntArray, int, int]]:
    """Yield sets of rows for which the same directions and sizes of noise are tried.

    For each set, yield the indices of its rows, half the number of directions (each has an opposite), and the number of
    sizes.
    """
    _, first, codes, rows = np.unique(sources.levels, return_index=True, return_inverse=True, return_counts=True)
    coarse = (sources.scales[first] < _COARSE * sources.grids).any(axis=1)
    least = max(_LEAST_DIRECTIONS, 8 * (len(sources.values) - 1))
    counts = np.where(coarse, _COARSE_SIZES, _SIZES)
    halves = np.minimum(_MOST_DIRECTIONS, np.maximum(least, _MOST_POINTS // (rows * counts)))
    for half, count in sorted(set(zip(halves.tolist(), counts.tolist(), strict=True))):
        yield np.flatnonzero(((halves == half) & (counts == count))[codes]), half, count


@lru_cache(maxsize=64)
def _spread_sizes(mechanism: Mechanism, numbers: int, count: int, tail: float) -> tuple[FloatArray, FloatArray]:
    """Return ``count`` sizes of noise and, for each, the logarithm of the probability that noise exceeds it.

    ``numbers``: how many noisy numbers there are. ``tail``: the probability at which an error will be sought. Noise
    exceeds the largest size with a hundredth of this probability.
    """
    tails = np.geomspace(0.9, tail / 100.0, count)
    sizes, log_tails = np.array([mechanism.norm_quantile(each, numbers) for each in tails.tolist()]), np.log(tails)
    sizes.setflags(write=False)
    log_tails.setflags(write=False)
    return sizes, log_tails


def _move(
    sources: SourceNumbers,
    chosen: IntArray,
    compute: Compute,
    divisors: Sequence[Compute],
    directions: FloatArray,
    sizes: FloatArray,
) -> FloatArray:
    """Return how far noise moves the computed number: an array of rows × sizes × directions.

    Each item is the largest change by noise of this direction and at most this size; ∞ if a divisor changes its sign.
    ``chosen``: the indices of the rows to look at. ``compute``: the function that computes the number.
    """
    spread = np.sqrt(sources.terms[chosen])
    quiet = [values[chosen][:, None, None] for values in sources.values]
    moved = []
    for at, values in enumerate(quiet):
        noise = (sources.scales[chosen, at][:, None] * directions[:, at])[:, None, :] * sizes[:, None]
        noise *= spread[:, at, None, None]
        grid = float(sources.grids[at])
        if grid > 0.0:  # on its grid, never less
            noise /= grid
            np.rint(noise, out=noise)
            noise *= grid
        moved.append(np.subtract(values, noise, out=noise))
    with np.errstate(all="ignore"):
        off = compute(moved, chosen) - compute(quiet, chosen)
        np.abs(off, out=off)
        for divisor in divisors:
            off[np.sign(divisor(moved, chosen)) != np.sign(divisor(quiet, chosen))] = np.inf
    off[np.isnan(off)] = np.inf
    largest: FloatArray = np.maximum.accumulate(off, axis=1, out=off)
    return largest


def _find_largest(moves: FloatArray, log_tails: FloatArray, log_tail: float) -> FloatArray:
    """Return, for each row, the largest change by noise of any direction and at most the size s.

    s is the smallest size that noise exceeds with at most the probability sought. ``moves``: the changes, rows × sizes
    × directions, each by noise of at most that size. ``log_tails``: for each size, the logarithm of the probability
    that noise exceeds it. ``log_tail``: the logarithm of the probability sought.
    """
    outermost = int(np.searchsorted(-log_tails, -log_tail))
    largest: FloatArray = moves[:, outermost].max(axis=1)
    return largest


def _find_quantile(moves: FloatArray, log_tails: FloatArray, log_tail: float) -> FloatArray:
    """Return, for each row, the smallest change that is exceeded with at most the probability exp(``log_tail``).

    Between two sizes the logarithm of the probability is taken to be linear in the change. The probability is the mean
    over directions. Newton's method finds the change at which its logarithm is ``log_tail``, without leaving the
    interval in which the result is known to lie.
    """
    top = np.where(np.isfinite(moves), moves, 0.0).max(axis=(1, 2))
    none = _look(moves, log_tails, top)[0] > log_tail
    low, high, found = np.zeros(len(moves)), top.copy(), top.copy()
    left = np.flatnonzero((top > 0.0) & ~none)
    middle = moves.shape[2] // 2  # start at a typical direction's move
    at = np.minimum(np.sort(moves[:, int(np.searchsorted(-log_tails, -log_tail))], axis=1)[:, middle], top)[left]
    for _ in range(_STEPS):
        if not len(left):
            break
        logs, slopes = _look(moves if len(left) == len(moves) else moves[left], log_tails, at)
        above = logs - log_tail
        low[left], high[left] = np.where(above > 0.0, at, low[left]), np.where(above > 0.0, high[left], at)
        with np.errstate(all="ignore"):
            step = at - above / slopes
        inside = (step >= low[left]) & (step <= high[left])
        step = np.where(inside, step, 0.5 * (low[left] + high[left]))
        found[left] = step
        moving = np.abs(step - at) > _PRECISION * top[left]
        left, at = left[moving], step[moving]
    return np.where(none, np.inf, _round_up(found, top))


def _look(moves: FloatArray, log_tails: FloatArray, limit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the logarithm of the probability that noise moves the number by more than each row's limit.

    Return also the derivative of that logarithm in the limit. ``moves`` and ``log_tails``: see ``_find_largest``.
    """
    rows, last, width = moves.shape
    inner = _count_within(moves, limit)
    outer = np.minimum(inner, last - 1)
    flat, places = moves.reshape(-1), np.arange(rows)[:, None] * (last * width) + np.arange(width)
    low = np.where(inner > 0, flat[places + np.maximum(inner - 1, 0) * width], 0.0)
    high = flat[places + outer * width]
    logs = np.concatenate([[0.0], log_tails])
    start = logs[inner]
    with np.errstate(all="ignore"):
        fall = (logs[outer + 1] - start) / (high - low)
    fall[~((high > low) & np.isfinite(high))] = 0.0
    chances = np.exp(start + fall * (limit[:, None] - low))
    total = chances.sum(axis=1)
    return np.log(total / width), (chances * fall).sum(axis=1) / total


def _count_within(moves: FloatArray, limit: FloatArray) -> IntArray:
    """Return, for each row and direction, how many sizes of noise move the number by at most the limit."""
    within = (moves <= limit[:, None, None]).view(np.int8)
    counts: IntArray = within.sum(axis=1, dtype=np.int8).astype(np.int64)
    return counts


def _find_step(moves: FloatArray, log_tails: FloatArray, tail: float) -> FloatArray:
    """Return, for each row, the smallest of its ``moves`` that is exceeded with at most the probability ``tail``.

    ∞ if there is none. Used for noise on a coarse grid, where ``_find_quantile`` must not interpolate. The result is
    found by bisection, to within 2⁻³² of the largest move. After a few halvings only moves that may still be the result
    are looked at. ``moves`` and ``log_tails``: see ``_find_largest``.
    """
    rows, sizes, width = moves.shape
    tails = np.concatenate([[1.0], np.exp(log_tails)])
    limit = tail * (1.0 + 1e-12)
    top = np.where(np.isfinite(moves), moves, 0.0).max(axis=(1, 2))
    none = tails[_count_within(moves, top)].mean(axis=1) > limit
    low, high = np.zeros(rows), top.copy()
    for _ in range(_COARSE_HALVINGS):
        middle = 0.5 * (low + high)
        enough = tails[_count_within(moves, middle)].mean(axis=1) <= limit
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    outside = tails[_count_within(moves, low)].mean(axis=1)
    places = np.flatnonzero((moves > low[:, None, None]) & (moves <= high[:, None, None]))
    owners, values = places // (sizes * width), moves.reshape(-1)[places]
    weights = ((tails[:-1] - tails[1:]) / width)[places // width % sizes]
    for _ in range(_HALVINGS - _COARSE_HALVINGS):
        middle = 0.5 * (low + high)
        inside = values <= middle[owners]
        beyond = outside - np.bincount(owners[inside], weights=weights[inside], minlength=rows)
        enough = beyond <= limit
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
        outside = np.where(enough, outside, beyond)
        kept = inside == enough[owners]
        owners, values, weights = owners[kept], values[kept], weights[kept]
    largest = np.zeros(rows)
    np.maximum.at(
        largest, owners, values
    )  # the moves that are left are at most ``high``, and one of them is the result
    unmoved = tails[_count_within(moves, np.zeros(rows))].mean(axis=1) <= limit
    return np.where(none, np.inf, np.where(unmoved, 0.0, np.where(largest > 0.0, largest, high)))


def _round_up(values: FloatArray, top: FloatArray) -> FloatArray:
    """Return errors (``values``) rounded up, never down, to multiples of 2⁻³² · ``top``.

    ``top``: the largest change in each row.
    """
    parts = 2.0**_HALVINGS
    with np.errstate(all="ignore"):
        steps = np.ceil(values / top * parts * (1.0 - 1e-15))
    return np.where(top > 0.0, steps * (top / parts), 0.0)


@lru_cache(maxsize=64)
def spread_directions(mechanism: Mechanism, half: int, numbers: int) -> FloatArray:
    """Return evenly spread directions of noise, each with its opposite: 2·``half`` rows of norm 1.

    ``numbers``: how many noisy numbers there are, a column each; for a single one there are two rows. The directions
    are made from points of the unit cube: the inverse distribution function turns a point into noise, and this noise is
    divided by its norm. The points are multiples of (1/φ, 1/φ², …) modulo 1, where φ is the root of φ^(d+1) = φ + 1:
    they are spread evenly in every dimension d.
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
