"""Findings on how risks were computed, and on what a preference can and cannot tell (R7, R8, R10, R11)."""

from __future__ import annotations

from dosimeter.findings.finding import Finding
from dosimeter.mechanisms import RatioWarning
from dosimeter.options import Indicator


class Note(Finding, is_note=True, is_advice=False):
    """A finding that stands among the notes."""


class Remark(Note):
    """A public sentence about the query or the data that was written where it was found out."""

    words: str


class EmptyFilter(Note, is_advice=True):
    """A FILTER of the preference matches nobody."""

    condition: str


class IndicatorUsed(Note):
    """By which indicator the RDR is given."""

    indicator: Indicator


class DrawnByRank(Note):
    """Some numbers are drawn by rank, without noise."""

    names: tuple[str, ...]


class ContinuousNoise(Note):
    """The exact indicator is that of continuous noise, and the grid is wide against some of the noise (R6)."""


class SameSpread(Note):
    """The range and the variance of the raw RDR are the same at every ε (R8)."""


class OwnOfEverybody(Note):
    """What ε guarantees everybody, where all are equally exposed (P1)."""

    epsilon: float
    own: float


class CountRatio(Note):
    """The ratio of a COUNT does not depend on the data (R10). ``k``: how many numbers get noise."""

    k: int


class IncautiousRatio(Note):
    """A ratio of upper bounds can be above the ratio of the RDRs themselves (R7)."""

    reason: RatioWarning


class NoDependence(Note):
    """The preference cannot depend on ε (R8)."""


class RawSpread(Note):
    """The preference limits the spread of the raw RDR, whatever its level."""


class DependsOnLevel(Note):
    """The preference depends on how large RDRs are, which noise raises (R10)."""


class QuantileOnZero(Note):
    """A quantile of the preference falls on people who do not move the answer."""

    aggregate: str


class EveryEpsilonMeets(Note):
    """Every ε meets the preference, not only every candidate."""


class LimitBelow(Note):
    """The largest ε that meets the preference is below every candidate that the account allows."""

    limit: float


class AnotherMayMeet(Note):
    """No candidate meets the preference. ``rising``: it also asks for accuracy, so that a larger one may."""

    rising: bool


class NotAtEverySmaller(Note):
    """A smaller candidate fails the preference that this one meets."""

    epsilon: float


class ReachesSeveral(Note):
    """One individual's rows can reach several groups (R11)."""

    reached: int
    times: float


class GroupsCount(Note):
    """More groups allow a larger ε for the same preference. ``own``: the own guarantee of the most exposed (P1)."""

    groups: int
    epsilon: float
    own: float


class ErrorByGroup(Note):
    """How the 95 % error of a column differs between groups at one ε (E1)."""

    epsilon: float
    column: str
    groups: int
    typical: float | None
    worst: float | None
    relative: float | None
    too_few: int
    beyond: int
    drowned: int
    bounded: bool = False
    biased: bool = False


class TooFewToTell(Note):
    """How many numbers have too few people behind them, and how a preference over errors counts them (E1)."""

    epsilon: float
    numbers: int
    total: int
