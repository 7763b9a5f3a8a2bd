"""The options beside the SQL that decide the risk, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dosimeter.errors import OptionError
from dosimeter.mechanisms import (
    Mechanism,
    make_pure,
    make_with_delta,
)
from dosimeter.options import (
    Calibration,
    Groups,
    Indicator,
    MechanismName,
    Quantiles,
    StudiedGroups,
    check_option,
)
from dosimeter.planning.planner import STUDY_NOISE, PlanOptions
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.problems import Option, for_controller

_GAUSSIAN = Option("mechanism", "gaussian")
_POWERS = {"1/n": 1, "1/n²": 2, "1/n^2": 2, "1/n**2": 2, "1/n2": 2}
_BETWEEN = " must be a number strictly between 0 and 1, or 1/n^2."


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """How the paper measures and no release may: only a look takes it.

    ``observed``: whether groups are all those of the data (C8). ``calibration``: how the scale of Gaussian noise
    follows from ε and δ; None for zcdp (M2). ``sensitivity``: given by hand (S7). ``quantiles``: whether MIN, MEDIAN …
    are drawn by rank or get noise (S3).
    """

    observed: bool = False
    calibration: Calibration | None = None
    sensitivity: float | None = None
    quantiles: Quantiles = "ranks"

    def __post_init__(self) -> None:
        check_option("calibration", self.calibration, optional=True)
        check_option("quantiles", self.quantiles)


NO_STUDY = Study()


@dataclass(frozen=True, slots=True, kw_only=True)
class LookOptions:
    """The options besides the SQL that decide the risk of a query, and that a release of it takes too.

    ``mechanism``: which noise. ``delta``: δ of Gaussian noise: a number, 1/n or 1/n²; None means 1/n². ``indicator``:
    how the RDR is computed. ``candidates``: the ε's to choose among; None for the paper's. ``groups``: declared or
    thresholded. ``min_rows``: the fewest rows with a value that each group of an AVG is publicly known to have.
    ``group_delta``: the δ of thresholded groups.
    """

    mechanism: MechanismName = "laplace"
    delta: float | str | None = None
    indicator: Indicator = "bound"
    candidates: str | Sequence[float] | None = None
    groups: Groups = "declared"
    min_rows: int | None = None
    group_delta: float | None = None

    def __post_init__(self) -> None:
        for name in ("mechanism", "indicator", "groups"):
            check_option(name, getattr(self, name))

    def plan_options(self, study: Study = NO_STUDY) -> PlanOptions:
        return PlanOptions(
            groups="observed" if study.observed else self.groups,
            min_rows=self.min_rows,
            sensitivity=study.sensitivity,
            quantiles=study.quantiles,
            group_delta=self.group_delta,
        )

    def build_mechanism(self, n: int, study: Study = NO_STUDY) -> Mechanism:
        pure = make_pure(self.mechanism)
        if pure is not None:
            if self.delta is not None and not _is_zero(self.delta):
                raise OptionError(Option("delta"), " goes with ", _GAUSSIAN, ": the Laplace mechanism has no delta.")
            if study.calibration is not None:
                raise OptionError(Option("calibration"), " goes with ", _GAUSSIAN, ".")
            return pure
        return make_with_delta(self.mechanism, read_delta(self.delta, n), study.calibration)


def read_look(
    groups: StudiedGroups,
    calibration: Calibration | None,
    sensitivity: float | None,
    quantiles: Quantiles,
    **options: Any,
) -> tuple[LookOptions, Study]:
    """Return the options of a look, and how far it is a study. ``options``: the other fields of LookOptions."""
    study = Study(observed=groups == "observed", calibration=calibration, sensitivity=sensitivity, quantiles=quantiles)
    return LookOptions(groups="declared" if groups == "observed" else groups, **options), study


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
