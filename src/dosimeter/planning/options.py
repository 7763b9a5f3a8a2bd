"""What the options of a look decide: its plan, its noise, and what does not go together."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from dosimeter.errors import OptionError
from dosimeter.mechanisms import Mechanism, make_pure, make_with_delta
from dosimeter.options import Indicator, LookOptions, Quantiles, StudiedGroups, check_option
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.problems import ASKING, Audience, Hint, Option, for_controller, leave_out

STUDY_NOISE = Hint("For study: ", Option("quantiles", "noise"), ".", audience=Audience.CONTROLLER, surfaces=ASKING)
_GAUSSIAN = Option("mechanism", "gaussian")
_THRESHOLDED = Option("groups", "thresholded")
_POWERS = {"1/n": 1, "1/n²": 2, "1/n^2": 2, "1/n**2": 2, "1/n2": 2}
_BETWEEN = " must be a number strictly between 0 and 1, or 1/n^2."

PlannedGroups = StudiedGroups | Literal["elsewhere"]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options that decide a plan besides SQL and schema.

    ``groups``: declared, thresholded, observed (all groups of the data), or elsewhere: another plan has them (E4).
    ``min_rows``: the fewest rows with a value that each group of an AVG is publicly known to have. ``sensitivity``:
    given by hand. ``quantiles``: whether MIN, MEDIAN … are drawn by rank or get noise. ``group_delta``: the δ of
    thresholded groups. ``tell_cut``: the share of ε for telling how many individuals were cut or clamped (E5).
    ``search``: where MIN and MAX are asked to find a column's bounds, the most candidates of each (B1). A sensitivity
    given by hand, observed groups and noise for MIN, MEDIAN … are for study, not for release (S7, C8, S3).
    """

    groups: PlannedGroups = "declared"
    min_rows: int | None = None
    sensitivity: float | None = None
    quantiles: Quantiles = "ranks"
    group_delta: float | None = None
    tell_cut: float | None = None
    search: int | None = None

    def __post_init__(self) -> None:
        if self.groups not in ("observed", "elsewhere"):
            check_option("groups", self.groups)
        check_option("quantiles", self.quantiles)
        for name in ("min_rows", "sensitivity", "group_delta", "tell_cut"):
            check_option(name, getattr(self, name), optional=True)
        if self.groups == "thresholded":
            self._check_thresholding()
        elif self.group_delta is not None:
            raise OptionError(Option("group_delta"), " goes with ", _THRESHOLDED, ".")

    def _check_thresholding(self) -> None:
        """Refuse thresholded groups without a δ, with ``min_rows``, or with a sensitivity given by hand."""
        if self.group_delta is None:
            raise OptionError(_THRESHOLDED, " needs ", Option("group_delta", text="D"), ": it is charged as δ.")
        if self.min_rows is not None:
            raise OptionError(
                "How many rows a group has at least is not known of groups that nobody declared.",
                leave_out("min_rows"),
            )
        if self.sensitivity is not None:
            raise OptionError("A sensitivity given by hand is for study, without thresholds.", leave_out("sensitivity"))

    @property
    def by_ranks(self) -> bool:
        """Return whether order statistics are drawn by rank (M4) instead of getting noise.

        They get noise if ``quantiles`` says so, or if a sensitivity is given by hand.
        """
        return self.quantiles != "noise" and self.sensitivity is None


def plan_options(look: LookOptions) -> PlanOptions:
    """Return the options of a look that decide its plan: each field of PlanOptions is one of the look or its study."""
    given = {each.name: getattr(part, each.name) for part in (look, look.study) for each in fields(part)}
    given["groups"] = "observed" if look.study.observed else look.groups
    return PlanOptions(**{each.name: given[each.name] for each in fields(PlanOptions) if each.name in given})


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


def require_drawable(plan: QueryPlan, mechanism: Mechanism, indicator: Indicator) -> None:
    """Refuse noise with a δ, and the cell indicator, for a query that draws by rank.

    Such a draw spends a pure ε, without a δ (M4), and gets no noise, which the cell indicator counts (R11).
    """
    if not plan.ranks:
        return
    label = next(iter(plan.ranks.values())).label
    if not mechanism.pure:
        raise OptionError(
            f"{label} is drawn by rank, which spends a pure ε and no δ.",
            for_controller("Use the Laplace mechanism."),
            STUDY_NOISE,
        )
    if indicator == "cell":
        raise OptionError(
            f"{label} is drawn by rank and gets no noise, which is what the cell indicator counts.",
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
