"""Read the options of a release as text or keywords give them: the way that sets ε, and everything else."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dosimeter.errors import OptionError
from dosimeter.options import ReleaseOptions, check_option
from dosimeter.problems import Option
from dosimeter.release.ways.fixed import Fixed
from dosimeter.release.ways.preferred import Preferred
from dosimeter.release.ways.selected import Selected
from dosimeter.release.ways.way import Way

OF_WAY = ("epsilon", "prefer", "chosen", "svt", "variance", "selection", "violation")


def split_options(options: ReleaseOptions) -> tuple[Way, dict[str, Any]]:
    """Return the way that sets ε, and the other options as keywords of ``Query.release``.

    Raises OptionError if none or several ways are asked for, or if an option of the way is out of range.
    """
    given = {each.name: getattr(options, each.name) for each in fields(options)}
    return read_way(**{name: given.pop(name) for name in OF_WAY}), given


def read_way(**options: Any) -> Way:
    """Return the way to set ε that the options ask for. Raises OptionError unless they ask for exactly one.

    ``options``: those that ``OF_WAY`` names, as keywords; what is not given is as ReleaseOptions has it.
    """
    given = ReleaseOptions(**options)
    asked = [given.epsilon is not None, given.prefer is not None, given.svt is not None or given.variance is not None]
    if sum(asked) != 1:
        raise OptionError(
            "Say how ε is set, in exactly one way: ", Option("epsilon", text="E"), ", ",
            Option("prefer", text="P"), ", or ", Option("svt", text="EPS"), " with ",
            Option("variance", text="TAU"), ".",
        )  # fmt: skip
    if given.chosen is not None and given.prefer is None:
        raise OptionError(
            Option("chosen"), " goes with ", Option("prefer"), ": it is one of the ε's that meet a preference."
        )
    if given.violation is not None and given.svt is None:
        raise OptionError(Option("violation"), " goes with ", Option("svt"), ": it is a promise of the noisy test.")
    if given.selection != "sharp" and given.svt is None:
        raise OptionError(Option("selection"), " goes with ", Option("svt"), ": it says which noisy test.")
    if given.epsilon is not None:
        return Fixed(given.epsilon)
    if given.prefer is not None:
        check_option("chosen", given.chosen, optional=True)
        return Preferred(given.prefer, epsilon=given.chosen)
    if given.svt is None or given.variance is None:
        raise OptionError(
            Option("svt"), " and ", Option("variance"), " go together: the budget of the noisy test, and its threshold."
        )
    return Selected(given.svt, given.variance, given.selection, given.violation)
