"""Which noise: the value that names a mechanism and its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dosimeter.errors import OptionError

Norm = Literal[1, 2]
Indicator = Literal["bound", "exact"]
Calibration = Literal["zcdp", "classic"]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """Which noise. The scale comes from ``dosimeter.mechanisms.scale``."""

    kind: Literal["laplace", "gaussian"]
    delta: float = 0.0
    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        if self.kind == "laplace" and (self.delta != 0.0 or self.calibration is not None):
            raise OptionError("The Laplace mechanism has no delta and no calibration. Leave both out, or use gaussian.")
        if self.kind == "gaussian" and not 0.0 < self.delta < 1.0:
            raise OptionError("delta must lie strictly between 0 and 1.")
        if self.kind == "gaussian" and self.calibration is None:
            raise OptionError("The Gaussian mechanism needs a calibration: zcdp or classic.")

    @property
    def norm(self) -> Norm:
        return 1 if self.kind == "laplace" else 2
