"""How exposed everybody is, and the ε that was chosen: frozen values. All are private, so their repr is redacted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dosimeter.html import write_paragraphs, write_table
from dosimeter.influence import Contributions, no_attributes
from dosimeter.json_values import JsonObject, JsonScalar

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray, IntArray
    from dosimeter.postprocess import Accuracy
    from dosimeter.risk.advice import Advice, Part

# ---------------------------------------------------------------- private: how people move the answer


@dataclass(frozen=True, slots=True, repr=False)
class Sensitivities:
    """Per-instance sensitivities by class of equally exposed individuals, ascending.

    Without attributes and vectors a class is a distinct value. ``vectors`` (the class's Contributions rows, in
    the same order) are kept where the norm alone does not decide the risk (C9). ``k``: how many noisy numbers count in
    everybody's RDR; with the cell indicator those that one individual can reach (R11). ``shares``: of ε, what bounds
    each class's own guarantee, where something is drawn by rank (R12).
    """

    values: FloatArray
    counts: IntArray
    k: int
    vectors: Contributions | None = None
    attributes: Mapping[str, NDArray[np.generic]] = field(default_factory=no_attributes)
    shares: FloatArray | None = None

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    def __repr__(self) -> str:
        return f"Sensitivities(n={self.n}, redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class RDRs:
    """Relative disclosure risk indicators at one ε, by class, in the order of the Sensitivities they came from.

    ``ceiling`` is RDR* (R9): ``values / ceiling`` is the normalised RDR. ``columns``: what else a preference aggregates
    over people, by class. ``terms``: the plain numbers that it compares. Both only where a preference asks for them.
    """

    epsilon: float
    values: FloatArray
    counts: IntArray
    ceiling: float
    attributes: Mapping[str, NDArray[np.generic]] = field(default_factory=no_attributes)
    columns: Mapping[str, FloatArray] = field(default_factory=dict)
    terms: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    def __repr__(self) -> str:
        return f"RDRs(n={self.n}, redacted)"


# ---------------------------------------------------------------- persons and groups


@dataclass(frozen=True, slots=True, repr=False)
class ExposedPerson:
    """Individuals who are equally and most exposed, and why. Private.

    ``columns``: what is shown of their record, identifying columns masked. ``times_average``: their RDR, as a multiple
    of the average person's. ``own_epsilon``: what the answer guarantees them (P1).
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

    def __repr__(self) -> str:
        return "ExposedPerson(redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class GroupRisk:
    """The RDRs of one group of people, as multiples of the average person's. Private."""

    group: JsonScalar
    people: int
    median: float
    max: float

    def describe(self) -> JsonObject:
        """Return the group as ``dosimeter risk --by --json`` prints it."""
        return asdict(self)

    def __repr__(self) -> str:
        return "GroupRisk(redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class AbsoluteRisk:
    """The absolute risks at one ε, beside the relative indicator (P1–P4), of the most exposed. Private.

    ``identification``: how likely somebody can be picked out of the ``people``; ``identification_exact``: whether that
    is exact, and not an upper bound. ``posterior``: what a belief of ``prior`` that somebody is in the data can become.
    Both are None where they need pure differential privacy and the noise does not give it. ``advantage``: twice how
    much better than a coin anybody can tell whether the most exposed person is in. All are those of an ε that was fixed
    beforehand or found with noise: under algorithm 1 the noise itself tells (G2).
    """

    epsilon: float
    own_epsilon: float
    identification: float | None
    identification_exact: bool
    prior: float
    posterior: float | None
    advantage: float
    people: int

    def describe(self) -> JsonObject:
        """Return the numbers as JSON has them; null where one does not apply."""
        return {
            "own_epsilon": self.own_epsilon,
            "advantage": self.advantage,
            "picked_out": self.identification,
            "posterior": None if self.posterior is None else {f"{self.prior:g}": self.posterior},
        }

    def __repr__(self) -> str:
        return "AbsoluteRisk(redacted)"


# ---------------------------------------------------------------- choices


@dataclass(frozen=True, slots=True, repr=False)
class Spread:
    """The spread of RDRs over people at one ε. Private."""

    min: float
    max: float
    mean: float
    median: float
    variance: float

    @property
    def ratio(self) -> float:
        """Return the least exposed person's RDR divided by the most exposed person's; 1 when everybody has 0."""
        return self.min / self.max if self.max > 0.0 else 1.0

    @property
    def relative(self) -> tuple[float, float]:
        """Return the least and the most exposed person, as multiples of the average person (R8)."""
        return (self.min / self.mean, self.max / self.mean) if self.mean > 0.0 else (1.0, 1.0)

    def describe(self) -> dict[str, float]:
        """Return the numbers as JSON has them."""
        return {
            "min": self.min,
            "max": self.max,
            "mean": self.mean,
            "median": self.median,
            "variance": self.variance,
            "ratio": self.ratio,
        }

    def __repr__(self) -> str:
        return "Spread(redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class Candidate:
    """One ε, what it does to everybody, and how accurate the answer would be. Private.

    ``noise_scale``: None where nothing gets noise. ``rank_errors``: of each column that ``error_95`` is about, the
    error in rows if it is drawn by rank (E3).
    """

    epsilon: float
    noise_scale: float | None
    error_95: tuple[float | None, ...]
    rdr: Spread
    value: float | None = None
    satisfied: bool | None = None
    absolute: AbsoluteRisk | None = None
    rank_errors: tuple[float | None, ...] = ()
    accuracy: tuple[Accuracy, ...] = ()

    @property
    def errors(self) -> tuple[tuple[float | None, bool], ...]:
        """Return the 95 % error of each column, and whether it is one in rows."""
        ranks = self.rank_errors or (None,) * len(self.error_95)
        pairs = zip(self.error_95, ranks, strict=True)
        return tuple((error if rows is None else rows, rows is not None) for error, rows in pairs)

    def __repr__(self) -> str:
        return f"Candidate(epsilon={self.epsilon!r}, redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class Choice:
    """The result of finding ε from a preference. ``limit``: the exact largest ε, where there is such a number (F2).

    ``empty_filters``: the FILTERs of the preference that match nobody, beside which nothing else matters. ``decides``:
    whether some candidate meets the preference and another does not (F4). ``limit_cell``: the limit by the cell
    indicator; ``epsilon_cell``: what that finds (R11). ``conflict``: where no candidate meets
    several conditions, those that cannot be met together. ``preset``: the name that the preference was given by.
    ``words``: the advice, in sentences.
    """

    preference: str
    epsilon: float | None
    limit: float | None
    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...] = ()
    empty_filters: tuple[str, ...] = ()
    decides: bool = True
    limit_cell: float | None = None
    epsilon_cell: float | None = None
    conflict: tuple[Part, ...] = ()
    preset: str | None = None
    advice: Advice | None = None
    words: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "Choice(redacted)"

    @property
    def asked(self) -> str:
        """Return the preference; a preset with the condition that it stands for."""
        return self.preference if self.preset is None else f"{self.preset} ({self.preference})"

    def _repr_html_(self) -> str:
        """Show the choice in a notebook. It is private: whoever shares the notebook shares it."""
        found = self.words or (
            ("No candidate meets it.",)
            if self.epsilon is None
            else (f"The largest candidate that meets it: ε = {self.epsilon:g}.",)
        )
        columns = ["ε", "noise scale", "95 % error", "least ÷ most exposed", "advantage", "meets it"]
        rows = [
            (
                line.epsilon,
                "none" if line.noise_scale is None else line.noise_scale,
                ", ".join(
                    "none" if error is None else f"± {error:.4g}{' rows' * in_rows}" for error, in_rows in line.errors
                ),
                line.rdr.ratio,
                None if line.absolute is None else line.absolute.advantage,
                {True: "yes", False: "no", None: None}[line.satisfied],
            )
            for line in self.candidates
        ]
        return write_paragraphs([self.asked, *found]) + write_table(columns, rows) + write_paragraphs(self.notes)
