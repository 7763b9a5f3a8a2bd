"""The options beside the SQL that decide the risk, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dosimeter.errors import OptionError
from dosimeter.mechanisms import (
    Mechanism,
    default_delta,
    make_pure,
    make_with_delta,
)
from dosimeter.options import Calibration, Groups, Indicator, MechanismName, Method, Quantiles, check_option
from dosimeter.planning.planner import PlanOptions
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.problems import Option, for_controller

_GAUSSIAN = Option("mechanism", "gaussian")
_BETWEEN = " must be a number strictly between 0 and 1, or 1/n^2."


@dataclass(frozen=True, slots=True)
class LookOptions:
    """All options besides the SQL that decide the risk of a query."""

    mechanism: MechanismName = "laplace"
    delta: float | str | None = None
    calibration: Calibration | None = None
    indicator: Indicator = "bound"
    candidates: str | Sequence[float] | None = None
    groups: Groups = "declared"
    method: Method = "closed-form"
    sensitivity: float | None = None
    min_rows: int | None = None
    quantiles: Quantiles = "ranks"
    group_delta: float | None = None

    def __post_init__(self) -> None:
        for name in ("mechanism", "indicator", "groups", "method", "quantiles"):
            check_option(name, getattr(self, name))
        check_option("calibration", self.calibration, optional=True)

    def plan_options(self) -> PlanOptions:
        return PlanOptions(
            groups=self.groups,
            min_rows=self.min_rows,
            sensitivity=self.sensitivity,
            quantiles=self.quantiles,
            group_delta=self.group_delta,
        )

    def build_mechanism(self, n: int) -> Mechanism:
        pure = make_pure(self.mechanism)
        if pure is not None:
            if self.delta is not None and not _is_zero(self.delta):
                raise OptionError(Option("delta"), " goes with ", _GAUSSIAN, ": the Laplace mechanism has no delta.")
            if self.calibration is not None:
                raise OptionError(Option("calibration"), " goes with ", _GAUSSIAN, ".")
            return pure
        delta = default_delta(n) if self.delta is None else read_delta(self.delta, n)
        return make_with_delta(self.mechanism, delta, self.calibration)


def require_pure(plan: QueryPlan, mechanism: Mechanism) -> None:
    """Refuse noise with a δ for a query that draws by rank: such a draw spends a pure ε, without a δ (M4)."""
    if not plan.ranks or mechanism.pure:
        return
    rank = next(iter(plan.ranks.values()))
    raise OptionError(
        f"{rank.label} is drawn by rank, which spends a pure ε and no δ.",
        for_controller("Use the Laplace mechanism, or ", Option("quantiles", "noise"), "."),
    )


def require_noise(plan: QueryPlan, indicator: Indicator) -> None:
    """Refuse the cell indicator for a query that draws by rank: this indicator counts cells with noise (R11)."""
    if not plan.ranks or indicator != "cell":
        return
    rank = next(iter(plan.ranks.values()))
    raise OptionError(
        f"{rank.label} is drawn by rank and gets no noise, which is what the cell indicator counts.",
        for_controller("Use ", Option("indicator", "bound"), ", or ", Option("quantiles", "noise"), "."),
    )


def _is_zero(delta: float | str) -> bool:
    try:
        return float(delta) == 0.0
    except ValueError:
        return False


def read_delta(value: float | str, n: int) -> float:
    """Return δ as a number. ``value``: a number, 1/n or 1/n² (also 1/n^2, 1/n**2). ``n``: how many individuals.

    Raises OptionError for any other text, and for a number that is not between 0 and 1.
    """
    if isinstance(value, str):
        text = value.replace(" ", "").lower()
        if text == "1/n":
            return 1.0 / n
        if text in ("1/n²", "1/n^2", "1/n**2", "1/n2"):
            return 1.0 / n**2
        try:
            value = float(text)
        except ValueError:
            raise OptionError(Option("delta"), _BETWEEN) from None
    if not 0.0 < value < 1.0:
        raise OptionError(Option("delta"), _BETWEEN)
    return value
