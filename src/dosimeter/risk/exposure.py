"""Values that say how exposed everybody is, and which ε was chosen. Frozen and private, so their repr is redacted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dosimeter.html import Private
from dosimeter.influence import Contributions
from dosimeter.json_values import JsonObject, JsonScalar

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray, IntArray
    from dosimeter.postprocess import ColumnAccuracy

# ---------------------------------------------------------------- private: how people move the answer


NO_ERROR = "no bound"  # on the error of an aggregate that may be divided by too few people


class _Classes:
    """Classes of equally exposed individuals. ``counts``: how many individuals are in each."""

    __slots__ = ()
    counts: IntArray

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class Sensitivities(_Classes):
    """Per-instance sensitivities (PIS), one per class of equally exposed individuals, ascending.

    ``values``: the PIS of each class. ``counts``: how many individuals are in it. Individuals are in one class if their
    PIS, their attributes, their shares and, if these are kept, their vectors are equal. ``vectors``: one row of
    Contributions per class, kept if the RDR depends on more than the PIS (C9). ``k``: how many noisy numbers count in
    everybody's RDR; with the cell indicator, those that one individual can reach (R11). ``attributes``, by name: for
    each class, whether it meets a preference's FILTER, or its value of the ``--by`` column. ``shares``: for a query
    with measures drawn by rank, the share of ε that bounds the own guarantee of each class (R12).
    """

    values: FloatArray
    counts: IntArray
    k: int
    vectors: Contributions | None = None
    attributes: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    shares: FloatArray | None = None


@dataclass(frozen=True, slots=True, repr=False)
class RDRs(_Classes):
    """Relative disclosure risk indicators at one ε, one per class, in the order of the Sensitivities they came from.

    A class is a set of equally exposed individuals; ``counts``: how many are in it. ``ceiling``: RDR*, the largest RDR
    that anybody could have (R9); ``values / ceiling`` is the normalised RDR. ``columns``: the other columns that a
    preference aggregates over people, one number per class. ``terms``: the numbers of the answer that a preference
    compares. ``attributes``: those of the Sensitivities. ``columns`` and ``terms`` are empty unless a preference names
    any.
    """

    epsilon: float
    values: FloatArray
    counts: IntArray
    ceiling: float
    attributes: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    columns: Mapping[str, FloatArray] = field(default_factory=dict)
    terms: Mapping[str, float | None] = field(default_factory=dict)


# ---------------------------------------------------------------- persons and groups


@dataclass(frozen=True, slots=True, repr=False)
class ExposedPerson(Private):
    """One of the most exposed people, or several with the same values in the data, counted together. Private.

    ``people``: how many individuals have these values. ``sensitivity``: their PIS. ``why``: what makes them exposed, as
    a sentence. ``columns``: their values by column; identifying columns are masked unless the controller revealed them.
    ``times_average``: their RDR divided by the average person's. ``own_epsilon``: their own guarantee, in ε (P1).
    """

    people: int
    sensitivity: float
    why: str
    columns: Mapping[str, JsonScalar]
    times_average: float
    own_epsilon: float

    def describe(self) -> JsonObject:
        """Return the person as ``dosimeter risk --top --json`` prints it."""
        return {
            "people": self.people,
            "sensitivity": self.sensitivity,
            "why": self.why,
            "times_average": self.times_average,
            "own_epsilon": self.own_epsilon,
            "record": dict(self.columns),
        }


@dataclass(frozen=True, slots=True, repr=False)
class GroupRisk:
    """The median and the largest RDR of the people with one value of the ``--by`` column (``group``). Private.

    Both are divided by the RDR of the average person. ``people``: how many people have this value.
    """

    group: JsonScalar
    people: int
    median: float
    max: float

    def describe(self) -> JsonObject:
        """Return the group as ``dosimeter risk --by --json`` prints it."""
        return asdict(self)

    def __repr__(self) -> str:
        return "GroupRisk(group, people, median and max are private; describe() gives them)"


@dataclass(frozen=True, slots=True, repr=False)
class AbsoluteRisk(Private):
    """The absolute risks of the most exposed person at one ε: they compare nobody with anybody else (P1–P5). Private.

    ``own_epsilon``: the person's own guarantee. ``identification``: the probability with which one individual can be
    picked out of ``people``; ``identification_exact``: whether it was computed from the exact largest distance between
    the contributions of two individuals, and not from an upper bound of it. ``prior``: how probable somebody thinks it
    beforehand that a person is in the data; ``posterior``: the largest probability that this can become by the answer.
    If the answer is purely differentially private, it follows from ``charge``, the ε that the answer costs in all, and
    holds for anybody, whatever their rows are. Otherwise it is that of the most exposed person after an alarm, and
    ``false_alarms`` is how probable this alarm has to be, at least, if the person is not in the data.
    ``identification`` is None unless the answer is purely differentially private and nothing is drawn by rank.
    ``advantage``: the membership advantage. ``guess``: how often somebody guesses a fact about anybody at most, who
    would guess it with the probability ``baseline`` beforehand. The posterior, the advantage and the guess are those of
    somebody who knows everybody else's rows. All hold for an ε that was fixed beforehand or selected by a noisy test:
    an ε found by algorithm 1 tells something by itself (G2).
    """

    epsilon: float
    own_epsilon: float
    identification: float | None
    identification_exact: bool
    prior: float
    posterior: float
    false_alarms: float | None
    advantage: float
    baseline: float
    guess: float
    people: int
    charge: float

    def describe(self) -> JsonObject:
        """Return the numbers as JSON has them; null for one that does not apply."""
        return {
            "own_epsilon": self.own_epsilon,
            "advantage": self.advantage,
            "picked_out": self.identification,
            "posterior": {f"{self.prior:g}": self.posterior},
            "guess": {f"{self.baseline:g}": self.guess},
        }


# ---------------------------------------------------------------- choices


@dataclass(frozen=True, slots=True, repr=False)
class Spread(Private):
    """The smallest, largest, mean and median RDR over people at one ε, and the population variance. Private."""

    min: float
    max: float
    mean: float
    median: float
    variance: float

    @property
    def ratio(self) -> float:
        """Return the least exposed person's RDR divided by the most exposed person's; 1 if everybody's RDR is 0."""
        return self.min / self.max if self.max > 0.0 else 1.0

    @property
    def relative(self) -> tuple[float, float]:
        """Return the smallest and the largest RDR, each divided by the average RDR (R8); (1, 1) if all are 0."""
        return (self.min / self.mean, self.max / self.mean) if self.mean > 0.0 else (1.0, 1.0)

    def describe(self) -> dict[str, float]:
        """Return the numbers as JSON has them."""
        return {**asdict(self), "ratio": self.ratio}


@dataclass(frozen=True, repr=False)
class Candidate:
    """One ε, how exposed it leaves everybody, and how accurate the answer would be. Private.

    ``noise_scale``: None if nothing gets noise. ``error_95``: the largest 95 % error of each aggregate column.
    ``value`` and ``satisfied``: the preference's left-hand side, and whether it is met; None without a preference.
    ``rank_errors``: one per column of ``error_95``, the error in rows if the column is drawn by rank, otherwise None
    (E3).
    """

    epsilon: float
    noise_scale: float | None
    error_95: tuple[float | None, ...]
    rdr: Spread
    value: float | None = None
    satisfied: bool | None = None
    absolute: AbsoluteRisk | None = None
    rank_errors: tuple[float | None, ...] = ()
    accuracy: tuple[ColumnAccuracy, ...] = ()

    @cached_property
    def errors(self) -> tuple[tuple[float | None, bool], ...]:
        """Return, for each aggregate column, its 95 % error and whether this error is in rows."""
        ranks = self.rank_errors or (None,) * len(self.error_95)
        pairs = zip(self.error_95, ranks, strict=True)
        return tuple((error if rows is None else rows, rows is not None) for error, rows in pairs)

    def describe(self, *, judged: bool) -> JsonObject:
        """Return the candidate as JSON has it. ``judged``: also the preference's value, and whether it is met."""
        document: JsonObject = {
            "epsilon": self.epsilon,
            "noise_scale": self.noise_scale,
            "error_95": list(self.error_95),
            "accuracy": [each.describe() for each in self.accuracy],
            "rdr": self.rdr.describe(),
            "absolute": None if self.absolute is None else self.absolute.describe(),
        }
        return document | {"value": self.value, "satisfied": self.satisfied} if judged else document

    def __repr__(self) -> str:
        return f"Candidate(epsilon={self.epsilon!r}, redacted)"
