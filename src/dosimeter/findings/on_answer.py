"""Findings on the answer: how exact it would be, what helps, and which ε the preference gives."""

from __future__ import annotations

from dosimeter.findings.finding import Finding, Subject, Weight
from dosimeter.findings.on_account import AccountRefuses
from dosimeter.options import Indicator
from dosimeter.risk import AnswerAccuracy, ConditionRange


class OnAnswer(Finding, about=Subject.ANSWER):
    """A finding on the answer."""


class AgainstAnswer(OnAnswer, weight=Weight.AGAINST):
    """Something about the answer that speaks against taking the ε."""


# ---------------------------------------------------------------- which ε the preference gives


class Unstated(Finding):
    """No preference is stated. ``ends``: the largest and the smallest ε, each with the RDR of the most exposed.

    The RDR is told as a multiple of the average.
    """

    ends: tuple[tuple[float, float], ...]


class Finds(Finding):
    """The ε that the preference finds. ``following``: the next larger candidate, with its value and whether it meets.

    ``limit``: the exact limit (F2).
    """

    preference: str
    epsilon: float
    limit: float | None
    indicator: Indicator
    following: float | None = None
    value: float | None = None
    meets: bool = False


class AllMeet(Finding, weight=Weight.WARNING):
    """Every candidate meets the preference, so that it decides nothing (F4)."""

    preference: str
    indicator: Indicator


class NoneMeets(Finding, weight=Weight.AGAINST):
    """No candidate meets the preference. ``ends``: ε and value of the preference at the largest and smallest ε.

    ``ratio``: least ÷ most exposed at the smallest candidate, told where there are no values; None if the preference is
    not about RDRs alone. ``exposed``: how many people are most exposed; None if that is not told.
    """

    preference: str
    smallest: float
    ends: tuple[tuple[float, float], ...]
    ratio: float | None
    exposed: int | None = None


class NoValue(Finding, weight=Weight.AGAINST):
    """The preference is one comparison, which has no value at any candidate."""


class MetButNotGranted(Finding, weight=Weight.AGAINST):
    """Some candidates meet the preference, and the account admits none. ``refusal``: why; None if unknown."""

    preference: str
    refusal: AccountRefuses | None


class Conflict(Finding, weight=Weight.AGAINST):
    """No candidate meets these conditions of the preference together."""

    parts: tuple[ConditionRange, ...]


# ---------------------------------------------------------------- how exact it would be


class Errors(OnAnswer):
    """The 95 % errors of the answer at one ε. ``columns``: the names of its aggregate columns.

    ``share``: the relative error of a typical number, in the column where it is largest; None if it cannot be told.
    ``alone``: the answer has one number per column. ``most``: how many columns are named; None for all.
    """

    epsilon: float
    columns: tuple[str, ...]
    accuracy: AnswerAccuracy
    share: float | None = None
    alone: bool = True
    most: int | None = None


class StepTo(OnAnswer):
    """What the next candidate would change: the error of one column, and the membership advantage (P4).

    ``column``: the one with the largest error that is not in rows; None if there is none. ``named``: there are several.
    """

    epsilon: float
    larger: bool
    column: str | None
    named: bool
    error: float | None
    error_here: float | None
    advantage: float
    advantage_here: float


class WorthLittle(AgainstAnswer):
    """Half of the numbers or more are lost in noise, or have too few people to tell."""

    epsilon: float


class WideBounds(OnAnswer, weight=Weight.WARNING):
    """An average whose error is small for its bounds and large for the number: the bounds are far too wide.

    ``share``: the error of a typical number, of noise and bias together, in relation to the number itself.
    """

    column: str
    share: float


class NeedsRows(OnAnswer):
    """An aggregate that divides by variances has too few people in half of the groups or more.

    ``rows``: how many would be enough in a group whose values are spread evenly over their bounds.
    ``counted``: people or rows.
    """

    aggregate: str
    rows: int
    counted: str


class WorthMoreAt(OnAnswer):
    """From which larger ε on, of those that the account grants, an answer is worth something that here is not.

    ``epsilon``: None if there is none. ``meets``: whether it meets the preference. ``found``: the largest that does.
    ``few``: the query, or a group, is of few people, who would be exposed more.
    """

    epsilon: float | None
    meets: bool
    found: float | None
    few: bool


class CoarserQuery(OnAnswer):
    """The same query without some of its GROUP BY columns, at the same ε and with the same noise.

    ``dropped``: the columns left out. ``numbers``: how many numbers of the answer are not 0. ``drowned``: how many of
    these are at most as large as their own error.
    """

    dropped: tuple[str, ...]
    numbers: int
    drowned: int


class AnyValue(AgainstAnswer):
    """The rank of a number may be off by half the size of an average group or more."""

    rows: float
    people: int
    groups: int


class Rough(OnAnswer, weight=Weight.WARNING):
    """The numbers are not exact enough to count as exact."""


class AsExactAsAsked(OnAnswer):
    """The answer has the error that the analyst wants."""

    wanted: float


class NotAsExactAsAsked(AgainstAnswer):
    """The answer does not have the error that the analyst wants. ``enough``: the smallest ε that gives it.

    ``granted``: whether the account grants it. ``meets``: whether it meets the preference; ``found``: the largest that
    does and that the account grants.
    """

    wanted: float
    enough: float | None
    granted: bool
    meets: bool
    found: float | None
