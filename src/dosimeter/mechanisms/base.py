"""The base class of every mechanism. Pure formulas: nothing is drawn, no data is read.

A scale from here informs the controller; the scale that backs a release is certified again, and if need be enlarged,
where noise is drawn. A new mechanism is one class with these methods, a row in ``MECHANISMS`` and, if it may back a
release, a row in the table of what is drawn.
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
    """Rows of changes, cell by cell: row r owns ``cells[starts[r]:starts[r + 1]]``."""

    @property
    def starts(self) -> IntArray: ...
    @property
    def cells(self) -> IntArray: ...
    @property
    def changes(self) -> FloatArray: ...


class Incaution(Enum):
    """A reason why a ratio of upper bounds can lie above the ratio of the exact indicator (R7)."""

    ALWAYS = auto()
    EVERYBODY_MOVES = auto()
    COARSE_GRID = auto()


class Mechanism(ABC):
    """A kind of noise and its parameters.

    ``name`` and ``calibration`` are its names in JSON and in the ledger. ``norm``: the norm in which an individual's
    changes are measured. ``pure``: whether it promises ε without a δ. ``shifts_alike``: whether the bound adds the same
    amount to everybody's PIS, so that the spread of RDRs does not depend on ε. ``exact_is_continuous``: whether the
    exact indicator treats the noise as continuous. ``caution``: why it is for study only; None where it is proven.
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
        """Return the scale of the noise (b or σ) that ε asks for, in the units of the sensitivity. 0 for ε = ∞."""
        check_sensitivity(sensitivity)
        check_epsilon(epsilon)
        if epsilon == math.inf:
            return 0.0
        scale = self._scale(sensitivity, epsilon)
        if scale == math.inf:
            raise OptionError(f"epsilon {epsilon:g} is too small: the noise would have no finite scale.")
        return scale

    def rho(self, epsilon: float) -> float:
        """Return what an answer at this ε costs in zCDP, by the formula (O4): ε²/2 of a pure ε, otherwise Δ²/2σ²."""
        if self.pure:
            return float(Decimal(repr(float(epsilon))) ** 2 / 2)  # 0.005 at 0.1, as a ledger has it
        return float(0.5 / self.scale(1.0, epsilon) ** 2)

    @abstractmethod
    def _scale(self, sensitivity: float, epsilon: float) -> float:
        """Return the scale for a finite ε; ∞ where none is large enough."""

    def epsilon(self, sensitivity: float, scale: float) -> float:
        """Return the smallest ε that noise of this scale gives: the inverse of ``scale``. ∞ for scale 0."""
        check_sensitivity(sensitivity)
        if not scale >= 0.0:
            raise OptionError("The scale of the noise must not be negative.")
        return math.inf if scale == 0.0 else self._epsilon(sensitivity / scale)

    @abstractmethod
    def _epsilon(self, ratio: float) -> float:
        """Return ε for Δ/scale."""

    @abstractmethod
    def own_epsilon(
        self,
        distances: FloatArray,
        *,
        sensitivity: float,
        scale: float | FloatArray,
        epsilon: float | FloatArray,
    ) -> FloatArray:
        """Return the guarantee that individuals with these positive PIS have for themselves (P1).

        ``scale`` and ``epsilon``: of all, or of each.
        """

    @abstractmethod
    def advantage(
        self, distances: FloatArray, *, sensitivity: float, scale: float, epsilon: float, grids: FloatArray, cells: int
    ) -> FloatArray:
        """Return at least the advantage of the best test of who of these positive PIS is in (P4).

        ``grids``: the noise grid of each measure. ``cells``: how many noisy numbers one individual can move.
        """

    # ------------------------------------------------------------ errors

    def error(self, scale: float, grid: float, probability: float = 0.95) -> float:
        """Return the smallest multiple a of the grid with P(|noise| ≤ a) ≥ probability, for noise on that grid."""
        check_scale(scale)
        if not 0.0 < grid < math.inf:
            raise OptionError("The grid of the noise must be positive and finite.")
        if not 0.0 < probability < 1.0:
            raise OptionError("The probability must lie strictly between 0 and 1.")
        steps = scale / grid
        return 0.0 if steps == 0.0 else grid * self._error(steps, probability)

    def error_of_sum(self, scale: float, grid: float, terms: int, probability: float = 0.95) -> float:
        """Return an error that the sum of so many independent noises stays within, with at least this probability."""
        if terms == 1 or scale == 0.0:
            return self.error(scale, grid, probability)
        check_scale(scale)
        return grid * math.ceil(scale * self._sum_error(terms, probability) / grid)

    @abstractmethod
    def _sum_error(self, terms: int, probability: float) -> float:
        """Return the error of a sum of so many continuous noises of scale 1."""

    @abstractmethod
    def _error(self, steps: float, probability: float) -> float:
        """Return the error in grid steps, for noise of this many steps."""

    def quantiles(self, shares: FloatArray) -> FloatArray:
        """Return the inverse distribution function of continuous noise of scale 1, at shares between 0 and 1."""
        below = np.minimum(shares, 1.0 - shares)
        size = self._below_median(np.maximum(below, 1e-300).reshape(-1)).reshape(below.shape)
        return np.where(shares < 0.5, size, -size)

    @abstractmethod
    def reach(self, probability: float, numbers: int) -> float:
        """Return what the norm of so many continuous noises of scale 1 exceeds with this probability (E1)."""

    # ------------------------------------------------------------ noise on whole numbers (H1)

    @abstractmethod
    def find_excess(self, scale: float, probability: Fraction) -> int:
        """Return the least whole t ≥ 0 that integer noise of this scale reaches with at most this probability.

        Where the exact tail is out of reach, a bound on it serves: t is then too large, never too small.
        """

    @abstractmethod
    def exceed(self, scale: float, steps: FloatArray) -> FloatArray:
        """Return the probability with which integer noise of this scale is at least so many steps; not for promises."""

    @abstractmethod
    def _below_median(self, shares: FloatArray) -> FloatArray:
        """Return the inverse distribution function of noise of scale 1, at shares below ½."""

    # ------------------------------------------------------------ how exposed people are

    @abstractmethod
    def bound(self, norms: FloatArray, k: int, scale: float) -> FloatArray:
        """Return the upper bound on the RDR of people with these PIS, over k noisy numbers (R3, R4)."""

    @abstractmethod
    def needs_vectors(self, k: int) -> bool:
        """Return whether the exact RDR depends on more than the PIS (C9)."""

    @abstractmethod
    def expect(
        self, norms: FloatArray, k: int, *, scale: float, grids: FloatArray, vectors: SparseRows | None
    ) -> FloatArray:
        """Return the exact RDR (R5, R6). Without vectors a PIS is taken for a change in a single cell."""

    @abstractmethod
    def find_incaution(self, low: float, high: float, *, grids: FloatArray, scale: float) -> Incaution | None:
        """Return why the ratio of bounds can be above the exact ratio, for PIS from low to high; else None (R7)."""

    # ------------------------------------------------------------ after the output is known

    @abstractmethod
    def mass(self, values: FloatArray) -> FloatArray:
        """Return what each cell adds to a distance before ``length`` is taken."""

    @abstractmethod
    def mass_change(self, here: FloatArray, changes: FloatArray) -> FloatArray:
        """Return mass(here + changes) − mass(here), computed without cancellation."""

    @abstractmethod
    def length(self, mass: FloatArray) -> FloatArray:
        """Return distances from the sums of their cells' mass (R1)."""

    @abstractmethod
    def loss_unit(self, scale: float) -> float:
        """Return the number by which a difference of mass is divided to give the privacy loss (R2)."""

    # ------------------------------------------------------------ the exact limit (F2)

    @abstractmethod
    def exact_ratio_is_monotone(self, k: int) -> bool:
        """Return whether more noise never lowers the ratio of exact RDRs."""

    @abstractmethod
    def scale_for_ratio(self, low: float, high: float, k: int, threshold: float) -> float:
        """Return the smallest scale at which the bounds of these two PIS have at least this ratio."""

    @abstractmethod
    def scale_for_variance(self, spread: float, k: int, threshold: float, sensitivity: float) -> float | None:
        """Return the smallest scale at which normalised bounds vary by at most the threshold; None without a formula.

        ``spread``: the standard deviation of the normalised RDRs without noise.
        """

    # ------------------------------------------------------------ finding ε privately (V5, V6)

    @abstractmethod
    def level_width(self, k: int, *, sensitivity: float, epsilon: float) -> Fraction:
        """Return w: the length of the interval that normalised RDRs lie in."""

    @abstractmethod
    def unit_risks(self, relative: FloatArray, k: int, *, sensitivity: float, epsilon: float) -> FloatArray:
        """Return u, the position of each normalised RDR in that interval, for PIS/Δ between 0 and 1."""

    @abstractmethod
    def tested_values(self, relative: FloatArray) -> FloatArray:
        """Return t in [0, 1] for PIS/Δ between 0 and 1: it does not depend on ε, and w·u differs by slope·t at most."""

    @abstractmethod
    def tested_slope(self, k: int, *, sensitivity: float, epsilon: float) -> Fraction:
        """Return the slope: by how much normalised RDRs differ at most, per difference of t."""


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
