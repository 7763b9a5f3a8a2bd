"""Where a controller starts: one default ε, for a page, a command and a notebook, looked at or not.

It is the smallest candidate that gives the wanted accuracy or, if none is wanted, a typical error of 5 %; and never
above what the preference, the cell indicator or the account allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from dosimeter.html import Private
from dosimeter.json_values import JsonObject
from dosimeter.risk import SAFE_ADVANTAGE, find_safe
from dosimeter.show import format_epsilon, format_number

if TYPE_CHECKING:
    from dosimeter.findings.choice import Choice

USUAL = 0.05
"""The typical relative error that the start gives where no accuracy is wanted (E6)."""

Reason = Literal[
    "wanted", "usual", "range", "bias", "preference", "cells", "guesses", "account", "unmet", "refused", "given"
]


class Accuracy(Protocol):
    """What is read of the accuracy of an answer at one ε, known or expected."""

    def is_within(self, wanted: float, *, relative: bool = False, noise_alone: bool = False) -> bool: ...
    def is_biased_beyond(self, wanted: float, *, relative: bool = False) -> bool: ...

    @property
    def only_bounded(self) -> bool: ...


@dataclass(frozen=True, slots=True, repr=False)
class Start(Private):
    """The ε to start from, and why. ``epsilon``: None if no candidate may be taken. ``wanted``: the error asked for."""

    epsilon: float | None
    reason: Reason
    wanted: float | None = None

    @property
    def why(self) -> str:
        """Say in about ten words why the start is there."""
        return _WORDS[self.reason](self)

    def describe(self) -> JsonObject:
        """Return the start as JSON has it."""
        return {"epsilon": self.epsilon, "why": self.why}


def find_start(
    choice: Choice, accuracies: Mapping[float, Accuracy], granted: Collection[float], wanted: float | None = None
) -> Start:
    """Return where to start where the preference was evaluated.

    ``choice``: by the preference that limits the start. ``accuracies``: of the answer, by ε. ``granted``: the ε's that
    the account allows. ``wanted``: the error that the analyst would like. What limits no risk does not limit the start:
    where every candidate meets the preference (F4), or all of it but errors, nobody's membership advantage exceeds 0.25
    there.
    """
    limits: list[tuple[float, Reason]] = [(math.inf, "preference")]
    if choice.epsilon is not None and choice.epsilon_cell != choice.epsilon:
        limits.append((choice.epsilon_cell or 0.0, "cells"))
    if choice.unlimited:
        limits.append((find_safe(choice.candidates) or 0.0, "guesses"))
    most, held = min(limits)
    return pick_start(choice.meeting, granted, accuracies, wanted, most=most, held=held)


def pick_start(
    meeting: Collection[float],
    granted: Collection[float],
    accuracies: Mapping[float, Accuracy],
    wanted: float | None,
    *,
    most: float,
    held: Reason = "preference",
) -> Start:
    """Return where to start among the candidates that meet the preference, and are granted, and at most ``most``.

    ``held``: what it is that allows no more than ``most``.
    """
    allowed = sorted(set(meeting) & set(granted))
    if not allowed:
        return Start(None, "refused" if meeting else "unmet", wanted)
    within = [epsilon for epsilon in allowed if epsilon <= most]
    if not within:
        return Start(None, held, wanted)
    exact, reason = _find_exact_enough(accuracies, wanted)
    enough = next((epsilon for epsilon in within if exact(epsilon)), None)
    if enough is not None:
        return Start(enough, reason, wanted)
    last = within[-1]
    return Start(last, held if last < allowed[-1] else "preference" if last == max(meeting) else "account", wanted)


def _find_exact_enough(
    accuracies: Mapping[float, Accuracy], wanted: float | None
) -> tuple[Callable[[float], bool], Reason]:
    """Return a test of whether the answer is exact enough at an ε, and why the smallest such ε is the start.

    If the bias alone exceeds the limit, so that no ε keeps it, the noise counts alone.
    """
    limit, relative = (USUAL, True) if wanted is None else (wanted, False)
    biased = all(each.is_biased_beyond(limit, relative=relative) for each in accuracies.values())

    def is_exact(epsilon: float) -> bool:
        return accuracies[epsilon].is_within(limit, relative=relative, noise_alone=biased)

    usual: Reason = "range" if all(each.only_bounded for each in accuracies.values()) else "usual"
    return is_exact, "bias" if biased else usual if wanted is None else "wanted"


_WORDS: Mapping[Reason, Callable[[Start], str]] = {
    "wanted": lambda start: f"the smallest that gives ± {format_number(start.wanted or 0.0, 4)}, as asked",
    "usual": lambda start: f"the smallest with a typical error of {USUAL:.0%}".replace("%", " %"),
    "range": lambda start: f"the smallest with a typical error of {USUAL:.0%} of the range".replace("%", " %"),
    "bias": lambda start: "the smallest whose noise is small enough; what is cut is more",
    "preference": lambda start: (
        "the preference allows none of them" if start.epsilon is None else "the largest that the preference allows"
    ),
    "guesses": lambda start: (
        f"{'each' if start.epsilon is None else 'more'} would give away more than {50.0 * SAFE_ADVANTAGE:g} of 100 "
        "guesses"
    ),
    "cells": lambda start: (
        "counting only the noise that reaches one person, none is allowed"
        if start.epsilon is None
        else "more is allowed only because the noise in all groups counts"
    ),
    "account": lambda start: "the largest that the account grants",
    "given": lambda start: "the ε that was given",
    "unmet": lambda start: "no candidate meets the preference",
    "refused": lambda start: "the account grants none that meets the preference",
}


def word_start(start: Start, by: str | None = None) -> str:
    """Say where to start and why, as a sentence. ``by``: the preset that it follows from, where none was asked for."""
    preset = "" if by is None else f" by {by}"
    if start.epsilon is None:
        return f"Nowhere to start{preset}: {start.why}."
    return f"To start from{preset}: ε = {format_epsilon(start.epsilon)}, {start.why}."
