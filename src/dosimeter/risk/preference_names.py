"""Short names of preferences, and presets: one row of a table each. The condition behind a name is always shown.

A preset is a condition on risk and accuracy, such as ``advantage:0.1,relative_error:0.25``. The reasons for its numbers
are in the controller's guide.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from dosimeter.risk.preference_terms import AnswerNumber, Arithmetic, PeopleAggregate, Term

RATIO = Arithmetic("/", PeopleAggregate("MIN", "rdr"), PeopleAggregate("MAX", "rdr"))
VARIANCE = PeopleAggregate("VAR_POP", "normalized_rdr")


@dataclass(frozen=True, slots=True)
class ShortName:
    """What a short name stands for: ``ratio:0.95`` stands for MIN(rdr) / MAX(rdr) >= 0.95.

    ``left`` and ``operator``: the left side and the operator of this comparison. ``example``: a number that may follow
    the name, for messages. ``most``: the largest number that may follow it. ``above``: what it has to exceed: nobody
    guesses less often with an answer than without.
    """

    left: Term
    operator: str
    example: str
    most: float = sys.float_info.max
    above: float = 0.0

    @property
    def takes(self) -> str:
        """Return in words which numbers may follow the short name."""
        if self.most == sys.float_info.max:
            return "a positive number"
        return f"a number above {self.above:g} and at most {self.most:g}"


SHORT_NAMES: Mapping[str, ShortName] = {
    "ratio": ShortName(RATIO, ">=", "0.95", most=1.0),
    "variance": ShortName(VARIANCE, "<=", "1e-5"),
    "own": ShortName(PeopleAggregate("MAX", "own_epsilon"), "<=", "0.5"),
    "advantage": ShortName(PeopleAggregate("MAX", "advantage"), "<=", "0.2", most=1.0),
    "error": ShortName(AnswerNumber("error"), "<=", "10"),
    "relative_error": ShortName(AnswerNumber("relative_error"), "<=", "0.5"),
    "guess": ShortName(AnswerNumber("guess", 0.1), "<=", "0.2", most=1.0, above=0.1),
    "posterior": ShortName(AnswerNumber("posterior", 0.01), "<=", "0.05", most=1.0, above=0.01),
}


@dataclass(frozen=True, slots=True)
class Preset:
    """What a preset stands for: a limit on everybody's membership ``advantage``, and the accuracy that all share."""

    advantage: float

    @property
    def condition(self) -> str:
        """Return the short names that the preset stands for."""
        return f"advantage:{self.advantage:g},relative_error:0.25"

    @property
    def words(self) -> str:
        """Return what the preset asks for, in words."""
        return (
            f"of 100 guesses who is in at most {50 * self.advantage:g} more are right than by tossing a coin, and no "
            "number is off by more than a quarter of itself or, if it has bounds, of their width"
        )


SAFE_ADVANTAGE = 0.25
"""The advantage up to which advice calls an ε safe if the preference does not decide: that of ``balanced``."""
SAFE_LIMIT = SAFE_ADVANTAGE * (1.0 + 1e-12)
"""The same for computed advantages, which rounding may have made a little larger."""

PRESETS: Mapping[str, Preset] = {
    "cautious": Preset(0.1),
    "balanced": Preset(SAFE_ADVANTAGE),
    "exploratory": Preset(0.5),
}
USUAL_PRESET = "balanced"
"""The preset that limits where a controller starts, where they stated no other preference."""
