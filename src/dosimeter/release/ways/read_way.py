"""Read the way to set ε from the options of a command, a program or a form: exactly one must be asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dosimeter.errors import OptionError
from dosimeter.problems import Option
from dosimeter.release.ways.fixed import Fixed
from dosimeter.release.ways.preferred import Preferred
from dosimeter.release.ways.selected import Selected
from dosimeter.release.ways.way import Way

if TYPE_CHECKING:
    from dosimeter.options import Selection
    from dosimeter.risk import PreferenceFunction


def read_way(
    *,
    epsilon: float | None = None,
    prefer: str | PreferenceFunction | None = None,
    svt: float | None = None,
    variance: float | None = None,
    selection: Selection = "sharp",
    violation: float | None = None,
    chosen: float | None = None,
) -> Way:
    """Return the one way to set ε that these options ask for.

    Args:
        epsilon: a fixed ε.
        prefer: a preference, from which ε is found.
        svt: the ε that the noisy test may spend on finding ε; goes with ``variance``.
        variance: the threshold of the noisy test: the largest variance of the normalised RDRs.
        selection: which noisy test: sharp, or as in the paper.
        violation: the promised probability of releasing an ε that violates the threshold.
        chosen: a candidate that the controller takes instead of the ε that the preference finds; it must meet it too.

    Raises:
        OptionError: none or several ways are asked for, or a number is not positive.
    """
    ways = [epsilon is not None, prefer is not None, svt is not None or variance is not None]
    if sum(ways) != 1:
        raise OptionError(
            "Say how ε is set, in exactly one way: ", Option("epsilon", text="E"), ", ",
            Option("prefer", text="P"), ", or ", Option("svt", text="EPS"), " with ",
            Option("variance", text="TAU"), ".",
        )  # fmt: skip
    if chosen is not None and prefer is None:
        raise OptionError(
            Option("chosen"), " goes with ", Option("prefer"), ": it is one of the ε's that meet a preference."
        )
    if violation is not None and svt is None:
        raise OptionError(Option("violation"), " goes with ", Option("svt"), ": it is a promise of the noisy test.")
    if epsilon is not None:
        return Fixed(epsilon)
    if prefer is not None:
        return Preferred(prefer, epsilon=chosen)
    if svt is None or variance is None:
        raise OptionError(
            Option("svt"), " and ", Option("variance"), " go together: the budget of the noisy test, and its threshold."
        )
    return Selected(svt, variance, selection, violation)
