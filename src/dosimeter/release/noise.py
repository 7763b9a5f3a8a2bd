"""Draw noise. The only source of randomness, and the only module that uses OpenDP.

Everything is in whole steps of the measure's own grid (M1). A scale starts from the formula of M1 or M3 and is enlarged
until OpenDP's own privacy map certifies it: a release relies on the map, not on the formula. Comparisons with the
budget are exact fractions. OpenDP's integers stop silently at ±2⁶³; what could come near is refused here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from operator import index
from types import SimpleNamespace
from typing import Any

from dosimeter.errors import DataError, OptionError
from dosimeter.mechanisms import Gaussian, Laplace, Mechanism
from dosimeter.problems import for_controller

_LIMIT = 2**62
"""Totals and noise together stay below this: half of what OpenDP's 64-bit integers hold."""

_REACH = 64
"""How many noise scales are kept free for noise: it exceeds them with a probability below e⁻⁶⁴."""

_COARSER = for_controller("Declare a coarser resolution or narrower bounds in the schema.")

_LAPLACE = Laplace()


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The noise of one measure, with the privacy loss that OpenDP certifies for it.

    ``scale`` (b or σ) and ``sensitivity`` (L1 or L2) are in grid steps. ``certified``: the loss of this one measure by
    OpenDP's own map, ε for Laplace noise and zCDP's ρ for Gaussian noise.
    """

    mechanism: Mechanism
    scale: float
    sensitivity: int | float
    certified: float


def calibrate(
    mechanism: Mechanism,
    *,
    sensitivity: int | Fraction | float,
    epsilon: Fraction | Decimal | float,
    shares: Fraction | int = 1,
) -> Calibrated:
    """Return the noise of one measure, if several measures spend (ε, δ) together.

    ``shares``: 1 divided by the measure's share, which is the number of measures where all have the same share.
    ``sensitivity``: in grid steps. Laplace measures share ε; Gaussian ones share the ρ that OpenDP's conversion
    certifies at (ε, δ). A float ε or δ is taken for itself or for its shortest decimal, whichever is smaller, so that a
    ledger's charge is never exceeded.
    """
    drawn = _find_drawn(mechanism)
    if shares < 1:
        raise OptionError("The number of measures that share a budget must be at least 1.")
    budget = _read_epsilon(epsilon)
    steps = _round_up_sensitivity(mechanism, sensitivity)
    share = drawn.budget(mechanism, budget) / shares
    start = drawn.start(steps, share)
    _check_scale(start)
    scale = _enlarge_until(lambda scale: Fraction(_map_loss(mechanism, scale, steps)) <= share, float(start))
    return Calibrated(mechanism, scale, steps, _map_loss(mechanism, scale, steps))


def certified_epsilon(scale: float, sensitivity: int) -> float:
    """Return the ε of integer Laplace noise, by OpenDP's own map. ``scale`` and ``sensitivity`` are in grid steps."""
    _check_scale(scale)
    return _map_loss(_LAPLACE, scale, _round_up_sensitivity(_LAPLACE, sensitivity))


@lru_cache(maxsize=64)
def certified_scale(sensitivity: int, epsilon: float) -> float:
    """Return a scale of integer Laplace noise that OpenDP's own map certifies at ``epsilon``.

    The scale and ``sensitivity`` are in grid steps.
    """
    return _enlarge_until(lambda scale: certified_epsilon(scale, sensitivity) <= epsilon, sensitivity / epsilon)


def fits_int64(calibrated: Calibrated, largest: int) -> bool:
    """Return whether totals up to ``largest`` (in grid steps), with their noise, fit into exact 64-bit integers.

    Public: no data are read.
    """
    return abs(largest) + math.ceil(_REACH * calibrated.scale) < _LIMIT


def add_noise(totals: Sequence[int], calibrated: Calibrated) -> list[int]:
    """Return each exact total plus a fresh draw of noise, in grid steps. Raises DataError if a total is too large."""
    _check_scale(calibrated.scale)
    exact = [index(total) for total in totals]
    if not fits_int64(calibrated, max(map(abs, exact), default=0)):
        raise DataError("A total is too large for exact 64-bit noise.", _COARSER)
    return _draw(calibrated.mechanism, calibrated.scale, exact)


def draw_discrete_laplace(scale: float, count: int) -> list[int]:
    """Return ``count`` independent draws of integer Laplace noise, P(z) ∝ e^(−|z|/scale)."""
    _check_scale(scale)
    if count < 0:
        raise OptionError("The number of draws must not be negative.")
    return _draw(_LAPLACE, scale, [0] * count)


# ---------------------------------------------------------------- selection by rank


@dataclass(frozen=True, slots=True)
class CalibratedSelection:
    """How a measure is drawn by rank: in each cell, one of several candidates, the likelier the lower its score (M4).

    A candidate's score says how far its rank is from the rank asked for; 0 is best. ``scale``: of the noise that is
    added to scores. ``sensitivity`` (Δ_s): how far one individual moves the scores, added up over all cells. ``share``:
    the ε that all cells of the measure may spend together. ``certified``: the ε that they do spend together, by
    OpenDP's own map.
    """

    scale: float
    sensitivity: int
    certified: float
    share: float


def calibrate_selection(
    *, shift: int, rows: int, epsilon: Fraction | Decimal | float, shares: Fraction | int = 1
) -> CalibratedSelection:
    """Return how one measure is drawn by rank, if several measures spend ε together (M4).

    ``shares``: as for ``calibrate``. ``shift``: by how much one row moves the score of a candidate (see
    ``CalibratedSelection``). ``rows``: the most rows that one individual has in all cells together. An individual's
    privacy loss is at most ``rows`` times the loss of one row: in every cell it is at most the loss of one row times
    the number of their rows in it.
    """
    if shares < 1:
        raise OptionError("The number of measures that share a budget must be at least 1.")
    share = _read_epsilon(epsilon) / shares
    start = Fraction(2 * shift * rows) / share
    _check_scale(start)
    scale = _enlarge_until(lambda scale: rows * Fraction(_map_selection(scale, shift)) <= share, float(start))
    return CalibratedSelection(scale, rows * shift, rows * _map_selection(scale, shift), float(share))


def select_lowest(scores: Sequence[Sequence[int]], calibrated: CalibratedSelection) -> list[int]:
    """Return, for each cell, the index of a candidate drawn at random: the likelier, the lower its score.

    ``scores``: for each cell, how far the rank of each candidate is from the rank asked for.
    """
    _check_scale(calibrated.scale)
    selection = _make_selection(calibrated.scale)
    return [int(selection(list(cell))) for cell in scores]


def _make_selection(scale: float) -> Any:
    """Return the OpenDP object that draws the index of a low score, and certifies the ε that this costs.

    It takes 64-bit scores, adds noise of this scale, and returns the index of the lowest (permute-and-flip, M4).
    """
    opendp = _load_opendp()
    metric = opendp.metrics.linf_distance(T="i64")
    return opendp.m.make_noisy_max(
        _whole_numbers(opendp), metric, opendp.measures.max_divergence(), scale=scale, negate=True
    )


def _map_selection(scale: float, shift: int) -> float:
    return float(_make_selection(scale).map(shift))


# ---------------------------------------------------------------- how each mechanism is drawn


@dataclass(frozen=True, slots=True)
class Drawn:
    """The functions by which OpenDP draws and certifies the noise of one mechanism.

    ``measurement(opendp, domain, scale)`` returns the OpenDP measurement that adds noise of this scale; ``opendp`` is
    what ``_load_opendp`` returns. ``round_up(sensitivity)`` returns a number of the type that OpenDP's metric takes,
    never a smaller one. ``budget(mechanism, epsilon)`` returns the privacy loss that (ε, δ) allows, as OpenDP's map
    counts it: ε or ρ. ``start(sensitivity, loss)`` returns the scale at which the search for a certified scale begins.
    """

    measurement: Callable[[Any, Any, float], Any]
    round_up: Callable[[int | Fraction | float], int | float]
    budget: Callable[[Mechanism, Fraction], Fraction]
    start: Callable[[int | float, Fraction], Fraction]


def _find_drawn(mechanism: Mechanism) -> Drawn:
    """Return how OpenDP draws a mechanism. Refuse a mechanism that is for study alone, which OpenDP does not draw."""
    drawn = DRAWN.get(type(mechanism))
    if drawn is None:
        named = " ".join(word for word in (mechanism.calibration, mechanism.name.capitalize()) if word)
        raise OptionError(f"The {named} mechanism is for study and never backs a release. Use zcdp.")
    return drawn


def _make_laplace(opendp: Any, domain: Any, scale: float) -> Any:
    return opendp.m.make_laplace(domain, opendp.metrics.l1_distance(T="i64"), scale=scale)


def _make_gaussian(opendp: Any, domain: Any, scale: float) -> Any:
    return opendp.m.make_gaussian(domain, opendp.metrics.l2_distance(T="f64"), scale=scale)


# ---------------------------------------------------------------- OpenDP


@lru_cache(maxsize=1)
def _load_opendp() -> Any:
    """Return the parts of OpenDP that are needed. Importing all of it would load data-frame libraries too."""
    from opendp import combinators, domains, measurements, measures, metrics, mod  # late: they take 0.15 s

    mod.enable_features("contrib")
    return SimpleNamespace(c=combinators, d=domains, m=measurements, measures=measures, metrics=metrics, mod=mod)


@lru_cache(maxsize=64)
def _make_measurement(mechanism: Mechanism, scale: float) -> Any:
    """Return the OpenDP object that adds noise of this scale to 64-bit integers, and certifies what that costs.

    The noise is discrete, and independent for each integer. The object holds nothing but its scale, and draws anew
    whenever it is called.
    """
    opendp = _load_opendp()
    return _find_drawn(mechanism).measurement(opendp, _whole_numbers(opendp), scale)


def _whole_numbers(opendp: Any) -> Any:
    return opendp.d.vector_domain(opendp.d.atom_domain(T="i64"))


@lru_cache(maxsize=1024)
def _map_loss(mechanism: Mechanism, scale: float, sensitivity: int | float) -> float:
    """Return ε (Laplace) or ρ (Gaussian) of this noise, by OpenDP's own map, which rounds up."""
    return float(_make_measurement(mechanism, scale).map(sensitivity))


@lru_cache(maxsize=256)
def _certify_rho(epsilon: Fraction, delta: float) -> float:
    """Return the largest ρ, up to rounding, that OpenDP's own conversion certifies as (ε, δ)."""
    opendp = _load_opendp()
    mechanism = Gaussian(delta)
    rounded_epsilon, allowed = round_down(epsilon), exact_number(delta)

    def certifies(scale: float) -> bool:
        converted = opendp.c.make_zCDP_to_approxDP(_make_measurement(mechanism, scale))
        try:
            return Fraction(converted.map(1.0).delta(rounded_epsilon)) <= allowed
        except opendp.mod.OpenDPException as error:
            if error.variant != "Overflow":
                raise
            return False  # a bound on δ beyond all floats

    start = mechanism.scale(1.0, rounded_epsilon)
    _check_scale(start)
    scale = _enlarge_until(certifies, start)
    return _map_loss(mechanism, scale, 1.0)


def _draw(mechanism: Mechanism, scale: float, exact: list[int]) -> list[int]:
    if not exact:
        return []
    return [int(noisy) for noisy in _make_measurement(mechanism, scale)(exact)]


def _enlarge_until(certified: Callable[[float], bool], scale: float) -> float:
    """Return the scale, enlarged by 1, 4, 16 … units in the last place until ``certified`` is true of it."""
    step = math.ulp(scale)
    while not certified(scale):
        scale += step
        step *= 4.0
        _check_scale(scale)
    return scale


# ---------------------------------------------------------------- reading and refusing


def exact_number(number: Fraction | Decimal | float) -> Fraction:
    """Return the number as a fraction; a float counts as itself or as its shortest decimal, whichever is smaller."""
    if isinstance(number, float):
        return min(Fraction(number), Fraction(repr(float(number))))
    return Fraction(number)


def _read_epsilon(epsilon: Fraction | Decimal | float) -> Fraction:
    not_a_number = isinstance(epsilon, Decimal) and epsilon.is_nan()  # comparing a Decimal NaN raises
    if not_a_number or not 0 < epsilon < _LIMIT:
        raise OptionError("epsilon must be greater than 0 and finite.")
    return exact_number(epsilon)


def _round_up_sensitivity(mechanism: Mechanism, sensitivity: int | Fraction | float) -> int | float:
    if not 0 < sensitivity < _LIMIT:  # S7
        raise OptionError("The sensitivity must be greater than 0 and below 2⁶² grid steps.", _COARSER)
    return _find_drawn(mechanism).round_up(sensitivity)


def _round_to_float(sensitivity: int | Fraction | float) -> float:
    """Return the sensitivity as a float, never a smaller number, and at least one grid step.

    A float that is not whole may be a root that was rounded down: the next larger float is returned for it.
    """
    rounded = float(sensitivity)
    may_be_low = not sensitivity.is_integer() if isinstance(sensitivity, float) else Fraction(rounded) < sensitivity
    return max(1.0, math.nextafter(rounded, math.inf) if may_be_low else rounded)


def round_down(number: Fraction) -> float:
    rounded = float(number)
    return rounded if Fraction(rounded) <= number else math.nextafter(rounded, 0.0)


def _check_scale(scale: Fraction | float) -> None:
    if not scale > 0:
        raise OptionError("The scale of the noise must be greater than 0.")
    if not _REACH * scale < _LIMIT:
        raise OptionError(
            "The noise is too large for exact 64-bit integers.", _COARSER, for_controller("Or take a larger ε.")
        )


DRAWN: Mapping[type[Mechanism], Drawn] = {
    Laplace: Drawn(
        measurement=_make_laplace,
        round_up=math.ceil,
        budget=lambda _, epsilon: epsilon,
        start=lambda steps, epsilon: Fraction(steps) / epsilon,  # M1
    ),
    Gaussian: Drawn(
        measurement=_make_gaussian,
        round_up=_round_to_float,
        budget=lambda mechanism, epsilon: Fraction(_certify_rho(epsilon, mechanism.delta)),
        start=lambda steps, rho: Fraction(steps) / Fraction(math.sqrt(2 * rho)),  # M3: ρ = Δ²/2σ²
    ),
}
"""How OpenDP draws each mechanism. One that is not listed cannot back a release."""
