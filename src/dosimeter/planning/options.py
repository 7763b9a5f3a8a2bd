"""What the options of a look decide: its plan, its noise, and what does not go together."""

from __future__ import annotations

from dosimeter.errors import OptionError
from dosimeter.mechanisms import Mechanism, make_pure, make_with_delta
from dosimeter.options import Indicator, LookOptions
from dosimeter.planning.planner import STUDY_NOISE, PlanOptions
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.problems import Option, for_controller

_GAUSSIAN = Option("mechanism", "gaussian")
_POWERS = {"1/n": 1, "1/n²": 2, "1/n^2": 2, "1/n**2": 2, "1/n2": 2}
_BETWEEN = " must be a number strictly between 0 and 1, or 1/n^2."


def plan_options(look: LookOptions) -> PlanOptions:
    """Return the options of a look that decide its plan."""
    return PlanOptions(
        groups="observed" if look.study.observed else look.groups,
        min_rows=look.min_rows,
        sensitivity=look.study.sensitivity,
        quantiles=look.study.quantiles,
        group_delta=look.group_delta,
    )


def build_mechanism(look: LookOptions, n: int) -> Mechanism:
    """Return the noise of a look. ``n``: how many individuals are declared, for a δ of 1/n or 1/n²."""
    pure = make_pure(look.mechanism)
    if pure is not None:
        if look.delta is not None and not _is_zero(look.delta):
            raise OptionError(Option("delta"), " goes with ", _GAUSSIAN, ": the Laplace mechanism has no delta.")
        if look.study.calibration is not None:
            raise OptionError(Option("calibration"), " goes with ", _GAUSSIAN, ".")
        return pure
    return make_with_delta(look.mechanism, read_delta(look.delta, n), look.study.calibration)


def require_pure(plan: QueryPlan, mechanism: Mechanism) -> None:
    """Refuse noise with a δ for a query that draws by rank: such a draw spends a pure ε, without a δ (M4)."""
    if not plan.ranks or mechanism.pure:
        return
    rank = next(iter(plan.ranks.values()))
    raise OptionError(
        f"{rank.label} is drawn by rank, which spends a pure ε and no δ.",
        for_controller("Use the Laplace mechanism."),
        STUDY_NOISE,
    )


def require_noise(plan: QueryPlan, indicator: Indicator) -> None:
    """Refuse the cell indicator for a query that draws by rank: this indicator counts cells with noise (R11)."""
    if not plan.ranks or indicator != "cell":
        return
    rank = next(iter(plan.ranks.values()))
    raise OptionError(
        f"{rank.label} is drawn by rank and gets no noise, which is what the cell indicator counts.",
        for_controller("Use ", Option("indicator", "bound"), "."),
        STUDY_NOISE,
    )


def _is_zero(delta: float | str) -> bool:
    try:
        return float(delta) == 0.0
    except ValueError:
        return False


def read_delta(value: float | str | None, n: int) -> float:
    """Return δ as a number. ``value``: a number, 1/n, or 1/n², also written 1/n^2, 1/n**2, 1/n2 or None.

    ``n``: how many individuals. Raises OptionError for any other text, for a number that is not between 0 and 1, and
    for 1/n and 1/n² of a single individual, which are 1.
    """
    text = "1/n2" if value is None else str(value).replace(" ", "").lower()
    power = _POWERS.get(text)
    if power is not None and n < 2:
        raise OptionError(
            "1/n and 1/n² are 1 where the data are of one individual, and a δ of 1 promises nothing. "
            "Give a smaller number: ",
            Option("delta", text="D"),
            ".",
        )
    try:
        delta = float(text) if power is None else 1.0 / n**power
    except ValueError:
        raise OptionError(Option("delta"), _BETWEEN) from None
    if not 0.0 < delta < 1.0:
        raise OptionError(Option("delta"), _BETWEEN)
    return delta
