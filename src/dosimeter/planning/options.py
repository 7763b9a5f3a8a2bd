"""The options beside the SQL that decide the risk, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dosimeter.errors import OptionError
from dosimeter.mechanisms import (
    MECHANISMS,
    Calibration,
    Indicator,
    Mechanism,
    default_delta,
    make_pure,
    make_with_delta,
)
from dosimeter.planning.groups import Groups
from dosimeter.planning.planner import PlanOptions

Method = Literal["closed-form", "recompute"]


@dataclass(frozen=True, slots=True)
class Look:
    """The options of looking at a risk: everything beside the SQL that decides it."""

    mechanism: Literal["laplace", "gaussian"] = "laplace"
    delta: float | str | None = None
    calibration: Calibration | None = None
    indicator: Indicator = "bound"
    candidates: str | Sequence[float] | None = None
    groups: Groups = "declared"
    method: Method = "closed-form"
    sensitivity: float | None = None
    min_rows: int | None = None

    def __post_init__(self) -> None:
        _expect("mechanism", self.mechanism, MECHANISMS)
        _expect("indicator", self.indicator, ("bound", "exact"))
        _expect("groups", self.groups, ("declared", "observed"))
        _expect("method", self.method, ("closed-form", "recompute"))
        if self.calibration is not None:
            _expect("calibration", self.calibration, ("zcdp", "classic"))

    def plan_options(self) -> PlanOptions:
        return PlanOptions(groups=self.groups, min_rows=self.min_rows, sensitivity=self.sensitivity)

    def build_mechanism(self, n: int) -> Mechanism:
        pure = make_pure(self.mechanism)
        if pure is not None:
            if self.delta is not None and not _is_zero(self.delta):
                raise OptionError("--delta goes with --mechanism gaussian: the Laplace mechanism has no delta.")
            if self.calibration is not None:
                raise OptionError("--calibration goes with --mechanism gaussian.")
            return pure
        delta = default_delta(n) if self.delta is None else read_delta(self.delta, n)
        return make_with_delta(self.mechanism, delta, self.calibration)


def _is_zero(delta: float | str) -> bool:
    try:
        return float(delta) == 0.0
    except ValueError:
        return False


def _expect(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise OptionError(f"{name} must be one of {', '.join(allowed)}.")


def read_delta(value: float | str, n: int) -> float:
    """Return δ from a number, or from 1/n or 1/n² (also written 1/n^2, 1/n**2) of the number of individuals."""
    if isinstance(value, str):
        text = value.replace(" ", "").lower()
        if text == "1/n":
            return 1.0 / n
        if text in ("1/n²", "1/n^2", "1/n**2", "1/n2"):
            return 1.0 / n**2
        try:
            value = float(text)
        except ValueError:
            raise OptionError("--delta must be a number strictly between 0 and 1, or 1/n^2.") from None
    if not 0.0 < value < 1.0:
        raise OptionError("delta must lie strictly between 0 and 1.")
    return value
