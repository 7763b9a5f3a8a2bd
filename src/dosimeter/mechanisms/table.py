"""The table of mechanisms, by their name and their calibration as a controller gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from dosimeter.errors import OptionError
from dosimeter.mechanisms.gaussian import ClassicGaussian, Gaussian
from dosimeter.mechanisms.laplace import Laplace
from dosimeter.mechanisms.mechanism import Mechanism, Norm
from dosimeter.options import Calibration, check_option
from dosimeter.problems import Option


class KindWithDelta(Protocol):
    """A class of mechanisms that are made with their δ alone."""

    @property
    def norm(self) -> Norm: ...
    def __call__(self, delta: float) -> Mechanism: ...


PURE: Mapping[str, type[Mechanism]] = {"laplace": Laplace}
WITH_DELTA: Mapping[str, Mapping[Calibration, KindWithDelta]] = {
    "gaussian": {"zcdp": Gaussian, "classic": ClassicGaussian},
}
NORMS: Mapping[str, Norm] = {
    **{name: kind.norm for name, kind in PURE.items()},
    **{name: kind.norm for name, ways in WITH_DELTA.items() for kind in ways.values()},
}
"""The norm in which each mechanism measures a sensitivity."""


def make_pure(name: str) -> Mechanism | None:
    """Return the mechanism of this name if it has no δ, otherwise None."""
    check_option("mechanism", name)
    return PURE[name]() if name in PURE else None


def make_with_delta(name: str, delta: float, calibration: Calibration | None = None) -> Mechanism:
    """Return the mechanism of this name with this δ and calibration. It must be one that has a δ.

    If ``calibration`` is None, the first one that the table lists for this mechanism is taken.
    """
    check_option("mechanism", name)
    ways = WITH_DELTA[name]
    chosen = next(iter(ways)) if calibration is None else calibration
    if chosen not in ways:
        raise OptionError(Option("calibration"), f" must be one of {', '.join(ways)}.")
    return ways[chosen](delta)
