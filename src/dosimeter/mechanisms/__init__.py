"""The noise mechanisms as formulas: from ε to the scale of the noise and back, errors, expected distances, guarantees.

Takes sensitivities, ε and δ; gives numbers. Never draws noise and never sees data.
"""

from dosimeter.mechanisms.gaussian import ClassicGaussian, Gaussian
from dosimeter.mechanisms.laplace import Laplace
from dosimeter.mechanisms.mechanism import Mechanism, Norm, RatioWarning, raise_chance
from dosimeter.mechanisms.permute_and_flip import (
    expected_distances,
    score_error,
    selection_probabilities,
    selection_scale,
)
from dosimeter.mechanisms.table import NORMS, make_pure, make_with_delta
from dosimeter.mechanisms.zcdp import default_delta, exact_zcdp_epsilon, pure_rho, round_rho, zcdp_rho
