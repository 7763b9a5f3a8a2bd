"""The noise mechanisms as formulas: scale from ε and back, quantiles of the noise, conversions.

Takes sensitivities, ε and δ; gives scales and errors. Never draws noise and never sees data.
"""

from dosimeter.mechanisms.mechanism import Calibration, Indicator, Mechanism, Norm
from dosimeter.mechanisms.scale import (
    default_delta,
    epsilon_for_scale,
    error_quantile,
    noise_quantiles,
    noise_scale,
    zcdp_epsilon,
)

__all__ = [
    "Calibration",
    "Indicator",
    "Mechanism",
    "Norm",
    "default_delta",
    "epsilon_for_scale",
    "error_quantile",
    "noise_quantiles",
    "noise_scale",
    "zcdp_epsilon",
]
