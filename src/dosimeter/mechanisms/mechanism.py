"""The base class of every mechanism. Pure formulas: nothing is drawn, no data is read.

A scale computed here informs the controller; the scale that backs a release is certified again, and if need be
enlarged, where noise is drawn. A new mechanism is one class with these methods, a row in ``PURE`` or ``WITH_DELTA``
(``mechanisms/table.py``) and, if it may back a release, a row in ``DRAWN`` (``release/noise.py``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import Decimal
from enum import Enum, auto
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np

from dosimeter.errors import OptionError

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray, IntArray
    from dosimeter.options import Calibration

Norm = Literal[1, 2]


class SparseRows(Protocol):
    """The changes that each of several individuals makes, cell by cell. Cells that they do not change are left out.

    Individual r changes the cells ``cells[starts[r]:starts[r + 1]]`` by the ``changes`` at the same positions.
    """

    @property
    def starts(self) -> IntArray: ...
    @property
    def cells(self) -> IntArray: ...
    @property
    def changes(self) -> FloatArray: ...


class RatioWarning(Enum):
    """A reason why the ratio of two RDRs' upper bounds can be larger than the ratio of the exact RDRs (R7).

    ALWAYS: with this noise it is larger, unless all PIS are equal. EVERYBODY_MOVES: nobody has a PIS of 0. COARSE_GRID:
    the steps of the noise are large beside its scale.
    """

    ALWAYS = auto()
    EVERYBODY_MOVES = auto()
    COARSE_GRID = auto()


class Mechanism(ABC):
    """A kind of noise and its parameters.

    ``name`` and ``calibration`` are its names in JSON and in the ledger. ``norm``: the norm in which an individual's
    changes are measured. ``pure``: whether it promises ε without a δ. ``shifts_alike``: whether the bound on the RDR
    adds the same amount to everybody's PIS, so that the spread of RDRs does not depend on ε. ``exact_is_continuous``:
    whether the exact indicator treats the noise as continuous. ``caution``: why the mechanism is for study only; None
    where it is proven. Below, k is the number of noisy numbers of an answer.
    """

    __slots__ = ()

    name: ClassVar[str]
    calibration: ClassVar[Calibration | None]
    norm: ClassVar[Norm]
    pure: ClassVar[bool]
    shifts_alike: ClassVar[bool]
    exact_is_continuous: ClassVar[bool]
    caution: ClassVar[str | None] = None
    delta: float

    # ------------------------------------------------------------ scale and ε

    def scale(self, sensitivity: float, epsilon: float) -> float:
        """Return the noise scale (b or σ) that guarantees ε, in the units of the sensitivity; 0 for ε = ∞.

        Refuses a sensitivity or an ε that is not positive, and an ε so small that no finite scale is enough.
        """
        check_sensitivity(sensitivity)
        check_epsilon(epsilon)
        if epsilon == math.inf:
            return 0.0
        scale = self._scale(sensitivity, epsilon)
        if scale == math.inf:
            raise OptionError(f"epsilon {epsilon:g} is too small: the noise would have no finite scale.")
        return scale

    def rho(self, epsilon: float) -> float:
        """Return what an answer at this ε costs in ρ (zCDP), by the formula (O4): ε²/2 if ε is pure, else Δ²/2σ²."""
        if self.pure:
            return float(Decimal(repr(float(epsilon))) ** 2 / 2)  # 0.005 at 0.1, as a ledger has it
        return float(0.5 / self.scale(1.0, epsilon) ** 2)

    @abstractmethod
    def _scale(self, sensitivity: float, epsilon: float) -> float:
        """Return the noise scale for a finite ε; ∞ where no finite scale is large enough."""

    def epsilon(self, sensitivity: float, scale: float) -> float:
        """Return the smallest ε that noise of this scale guarantees; ∞ for scale 0.

        It is the inverse of the method ``scale``.
        """
        check_sensitivity(sensitivity)
        if not scale >= 0.0:
            raise OptionError("The scale of the noise must not be negative.")
        return math.inf if scale == 0.0 else self._epsilon(sensitivity / scale)

    @abstractmethod
    def _epsilon(self, ratio: float) -> float:
        """Return the smallest ε that noise guarantees, ``ratio`` being the sensitivity divided by the noise scale."""

    @abstractmethod
    def own_epsilon(
        self,
        distances: FloatArray,
        *,
        sensitivity: float,
        scale: float | FloatArray,
        epsilon: float | FloatArray,
    ) -> FloatArray:
        """Return the own guarantee, in ε, of individuals with these positive PIS (P1).

        ``distances``: the PIS. ``scale`` and ``epsilon``: one number for everybody, or an array with one for each.
        """

    @abstractmethod
    def advantage(
        self, distances: FloatArray, *, sensitivity: float, scale: float, epsilon: float, grids: FloatArray, cells: int
    ) -> FloatArray:
        """Return the membership advantage against individuals with these positive PIS, or an upper bound on it (P4).

        ``distances``: the PIS. ``grids``: the noise grid of each measure. ``cells``: how many noisy numbers one
        individual can move.
        """

    @abstractmethod
    def power(self, chance: float, *, distance: float, scale: float, grids: FloatArray, epsilon_svt: float) -> float:
        """Return the largest probability, or an upper bound on it, that one individual can give to an event (P3, P5).

        An event is a set of answers, such as those that make somebody suspicious. ``chance``: its probability without
        the individual, strictly between 0 and 1. ``distance``: how far the individual moves the answer, more than
        0. ``grids``: the noise grid of each measure. ``epsilon_svt``: the ε that was spent on finding ε with noise.
        """

    # ------------------------------------------------------------ errors

    def error(self, scale: float, grid: float, probability: float = 0.95) -> float:
        """Return the distance from 0 within which noise on this grid lies with at least this probability.

        It is the smallest multiple a of the grid with P(|noise| ≤ a) ≥ probability.
        """
        check_scale(scale)
        if not 0.0 < grid < math.inf:
            raise OptionError("The grid of the noise must be positive and finite.")
        if not 0.0 < probability < 1.0:
            raise OptionError("The probability must lie strictly between 0 and 1.")
        steps = scale / grid
        return 0.0 if steps == 0.0 else grid * self._error(steps, probability)

    def error_of_sum(self, scale: float, grid: float, terms: int, probability: float = 0.95) -> float:
        """Return a distance x with P(|sum of ``terms`` independent noises| ≤ x) ≥ probability."""
        if terms == 1 or scale == 0.0:
            return self.error(scale, grid, probability)
        check_scale(scale)
        return grid * math.ceil(scale * self._sum_error(terms, probability) / grid)

    @abstractmethod
    def _sum_error(self, terms: int, probability: float) -> float:
        """Return a distance x with P(|sum of ``terms`` continuous noises of scale 1| ≤ x) ≥ probability."""

    @abstractmethod
    def _error(self, steps: float, probability: float) -> float:
        """Return the smallest whole number m of grid steps with P(|noise| ≤ m) ≥ probability.

        ``steps``: the noise scale, in grid steps.
        """

    def quantiles(self, shares: FloatArray) -> FloatArray:
        """Return, for each p in ``shares``, the x that continuous noise of scale 1 stays below with probability p."""
        below = np.minimum(shares, 1.0 - shares)
        size = self._below_median(np.maximum(below, 1e-300).reshape(-1)).reshape(below.shape)
        return np.where(shares < 0.5, size, -size)

    @abstractmethod
    def norm_quantile(self, probability: float, numbers: int) -> float:
        """Return the x that the norm of ``numbers`` continuous noises of scale 1 exceeds with this probability (E1)."""

    # ------------------------------------------------------------ noise on whole numbers (H1)

    @abstractmethod
    def find_excess(self, scale: float, probability: Fraction) -> int:
        """Return the least whole t ≥ 0 so that integer noise of this scale is t or more with at most this probability.

        Thresholds are found by it: a group is shown if its noisy number of individuals is at least 1 + t (H1). Where
        the exact probability cannot be computed, an upper bound on it is used: t is then too large, never too small.
        """

    @abstractmethod
    def exceed(self, scale: float, steps: FloatArray) -> FloatArray:
        """Return, for each whole number in ``steps``, the probability that integer noise is at least as large.

        It is right to a float's precision or nearly so: no guarantee may rest on it.
        """

    def chances(self, scale: float, edges: FloatArray) -> FloatArray:
        """Return the probability that integer noise of this scale lies from each edge up to, not including, the next.

        ``edges``: whole numbers, ascending. Each probability is computed from the tail that is smaller (``exceed``), so
        that far from 0 too it has correct digits.
        """
        low, high = edges[:-1], edges[1:] - 1.0
        right = self.exceed(scale, np.maximum(low, 1.0)) - self.exceed(scale, np.maximum(high, 0.0) + 1.0)
        left = self.exceed(scale, np.maximum(-high, 1.0)) - self.exceed(scale, np.maximum(-low, 0.0) + 1.0)
        at_zero = (low <= 0.0) & (high >= 0.0)
        middle = 1.0 - 2.0 * self.exceed(scale, np.array([1.0]))
        return np.where(high >= 1.0, right, 0.0) + np.where(low <= -1.0, left, 0.0) + np.where(at_zero, middle, 0.0)

    @abstractmethod
    def _below_median(self, shares: FloatArray) -> FloatArray:
        """Return what ``quantiles`` does, for ``shares`` that are all at most ½."""

    # ------------------------------------------------------------ how exposed people are

    @abstractmethod
    def bound(self, norms: FloatArray, k: int, scale: float) -> FloatArray:
        """Return the upper bound on the RDR of people with these PIS (``norms``), over k noisy numbers (R3, R4)."""

    @abstractmethod
    def needs_vectors(self, k: int) -> bool:
        """Return whether the exact RDR of k noisy numbers depends on each cell's change, not on the PIS alone (C9)."""

    @abstractmethod
    def expect(
        self, norms: FloatArray, k: int, *, scale: float, grids: FloatArray, vectors: SparseRows | None
    ) -> FloatArray:
        """Return the exact RDR of people with these PIS (``norms``), over k noisy numbers (R5, R6).

        ``grids``: the noise grid of each measure. ``vectors``: what each person changes, cell by cell; None takes each
        PIS for a change in a single cell.
        """

    @abstractmethod
    def find_ratio_warning(self, low: float, high: float, *, grids: FloatArray, scale: float) -> RatioWarning | None:
        """Return why the ratio of two RDRs' upper bounds can exceed that of the exact RDRs; None where it cannot (R7).

        ``low`` and ``high``: the smallest and the largest PIS, whose RDRs are meant. ``grids``: the noise grid of each
        measure.
        """

    # ------------------------------------------------------------ after the output is known

    @abstractmethod
    def mass(self, values: FloatArray) -> FloatArray:
        """Return each difference's absolute value (L1) or its square (L2); ``distance`` is computed from their sum.

        ``values``: differences of two answers, each in one cell.
        """

    @abstractmethod
    def mass_change(self, here: FloatArray, changes: FloatArray) -> FloatArray:
        """Return mass(here + changes) − mass(here) (see ``mass``), computed without cancellation."""

    @abstractmethod
    def distance(self, sums: FloatArray) -> FloatArray:
        """Return how far two answers lie apart in the mechanism's norm (R1).

        ``sums``: for each pair of answers, ``mass`` of their differences, added up over all cells. The distance is the
        sum itself in L1, and its square root in L2.
        """

    @abstractmethod
    def loss_unit(self, scale: float) -> float:
        """Return b for Laplace noise and 2σ² for Gaussian noise: the divisor in the privacy loss of an output o (R2).

        The loss is (A − B) divided by this number. A: the sum over all cells of ``mass`` of o − q(x₋ᵢ), where q(x₋ᵢ) is
        the answer without individual i. B: the same sum for o − q(x), where q(x) is the answer with everybody.
        """

    # ------------------------------------------------------------ the exact limit (F2)

    @abstractmethod
    def exact_ratio_is_monotone(self, k: int) -> bool:
        """Return whether it is proven that more noise never lowers the ratio of the smallest to the largest exact RDR.

        k: how many noisy numbers there are.
        """

    @abstractmethod
    def scale_for_ratio(self, low: float, high: float, k: int, threshold: float) -> float:
        """Return the smallest noise scale at which the RDR bounds of two people have at least the ratio ``threshold``.

        ``low`` and ``high``: their PIS. The ratio is the RDR at ``low`` divided by that at ``high``. k: how many noisy
        numbers there are.
        """

    @abstractmethod
    def scale_for_variance(self, spread: float, k: int, threshold: float, sensitivity: float) -> float | None:
        """Return the smallest noise scale at which normalised RDR bounds have at most the variance ``threshold``.

        Normalised: divided by the ceiling; without noise that is PIS/Δ. ``spread``: the standard deviation of PIS/Δ
        among individuals, larger than √threshold. k: how many noisy numbers there are. ``sensitivity``: Δ. None if the
        mechanism has no formula for it.
        """

    # ------------------------------------------------------------ finding ε privately (V5, V6)

    @abstractmethod
    def level_width(self, k: int, *, sensitivity: float, epsilon: float) -> Fraction:
        """Return w, the length of the interval in which everybody's normalised RDR lies at this ε (V5).

        Normalised: divided by the ceiling. The variance of the normalised RDRs is w² times that of ``unit_risks``. k:
        how many noisy numbers there are.
        """

    @abstractmethod
    def unit_risks(self, relative: FloatArray, k: int, *, sensitivity: float, epsilon: float) -> FloatArray:
        """Return u in [0, 1] for each individual: where their normalised RDR lies in the interval of ``level_width``.

        It is 0 at the lower end and 1 at the upper (V5). ``relative``: each individual's PIS/Δ. k: how many noisy
        numbers there are.
        """

    @abstractmethod
    def tested_values(self, relative: FloatArray) -> FloatArray:
        """Return t in [0, 1] for each individual: their PIS/Δ (``relative``), or its square for Gaussian noise.

        The sharp selection (V5, V6), which finds ε by a noisy test, adds noise to the variance of t among individuals.
        t does not depend on ε, so this one noisy number serves every ε: the variance of the normalised RDRs (RDR
        divided by the ceiling) is at most the square of ``tested_slope`` at that ε, times the variance of t.
        """

    @abstractmethod
    def tested_slope(self, k: int, *, sensitivity: float, epsilon: float) -> Fraction:
        """Return f: at this ε, two people's normalised RDRs differ by at most f times the difference of their t.

        t is what ``tested_values`` returns. Normalised: divided by the ceiling. k: how many noisy numbers there are.
        """


# ---------------------------------------------------------------- pure ε


def raise_chance(chance: float, epsilon: float) -> float:
    """Return the largest probability that pure ε allows to an event whose probability is ``chance`` without somebody.

    The complement of the event cannot become less probable than e^(−ε) times what it was.
    """
    shrunk = math.exp(-epsilon)
    rest = shrunk * chance - math.expm1(-epsilon)  # 1 − e^(−ε)(1 − chance), without cancellation
    return min(chance / shrunk, rest) if shrunk > 0.0 else rest


# ---------------------------------------------------------------- guards


def check_scale(scale: float) -> None:
    if not 0.0 <= scale < math.inf:
        raise OptionError("The scale of the noise must be finite and not negative.")


def check_epsilon(epsilon: float) -> None:
    if not epsilon > 0.0:
        raise OptionError("epsilon must be greater than 0.")


def check_sensitivity(sensitivity: float) -> None:
    if not 0.0 < sensitivity < math.inf:  # S7
        raise OptionError(
            "The sensitivity must be positive and finite. If nobody can move the answer it needs no noise."
        )
