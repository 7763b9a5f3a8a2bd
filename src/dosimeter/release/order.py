"""What a release is asked to do, and what it came to. Frozen values, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from dosimeter.errors import OptionError
from dosimeter.ledger import (
    exact_decimal,
)
from dosimeter.mechanisms import Mechanism
from dosimeter.planning import Look, QueryPlan
from dosimeter.risk import Preference, PreferenceFunction

Algorithm = Literal["fixed", "find", "find-and-release"]
Selection = Literal["sharp", "paper"]


@dataclass(frozen=True, slots=True)
class Terms:
    """What an account is opened with; later it may be left out and may not contradict."""

    policy: str | None = None
    delta_total: float | str | None = None
    max_epsilon: float | str | None = None


@dataclass(frozen=True, slots=True)
class ReleaseOrder:
    """Everything a release was asked to do. Exactly one of epsilon, prefer, or svt with variance."""

    epsilon: float | None = None
    prefer: str | PreferenceFunction | None = None
    svt: float | None = None
    variance: float | None = None
    selection: Selection = "sharp"
    terms: Terms = Terms()
    analyst: str | None = None
    purpose: str | None = None
    again: bool = False
    continued: bool = False
    other_people: bool = False  # accounts of an earlier version that do not name their data yet hold other people
    clamp: bool = False
    chosen: float | None = None  # algorithm 1: the controller's own pick, a remaining candidate not above the found ε
    reference: str | None = None  # what the caller finds the entry by again; it and who approved go on record
    approved_by: str | None = None

    def __post_init__(self) -> None:
        ways = [self.epsilon is not None, self.prefer is not None, self.svt is not None or self.variance is not None]
        if sum(ways) != 1:
            raise OptionError(
                "Say how ε is set, in exactly one way: --epsilon E, --prefer P, or --svt EPS with --variance TAU."
            )
        for name, value in (("--epsilon", self.epsilon), ("--svt", self.svt), ("--variance", self.variance)):
            if value is not None and not 0.0 < value < float("inf"):
                raise OptionError(f"{name} must be a positive number.")
        if (self.svt is None) != (self.variance is None):
            raise OptionError("--svt and --variance go together: the budget of the noisy test, and its threshold.")
        if self.selection not in ("sharp", "paper"):
            raise OptionError("--selection must be sharp or paper.")
        if self.chosen is not None and self.prefer is None:
            raise OptionError(
                "A chosen ε goes with a preference: it may not lie above the ε that the preference finds."
            )

    @property
    def algorithm(self) -> Algorithm:
        if self.epsilon is not None:
            return "fixed"
        return "find" if self.prefer is not None else "find-and-release"


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """What a release came to. ``describe`` gives what the analyst may see, and only that."""

    status: Literal["released", "denied"]
    answer: list[dict[str, Any]] | None = None
    epsilon: float | None = None
    epsilon_svt: float | None = None
    error_95: tuple[float | None, ...] | None = None
    guarantee: str | None = None
    entry: str | None = None
    repeated: bool = False
    earlier: str | None = None  # the entry that answered the same query by other settings; this answer was charged anew
    notes: tuple[str, ...] = ()  # what the controller should know of an account that was opened; not for the analyst

    def describe(self) -> dict[str, Any]:
        if self.status == "denied":
            return {"status": "denied"}
        return {
            "status": "released",
            "answer": self.answer,
            "epsilon": self.epsilon,
            "epsilon_svt": self.epsilon_svt,
            "error_95": None if self.error_95 is None else list(self.error_95),
            "guarantee": self.guarantee,
        }

    def __repr__(self) -> str:
        return f"Answer(status={self.status!r})"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A release as far as SQL and schema alone decide it: nothing of the data is in here."""

    dataset: str
    plan: QueryPlan
    n: int
    mechanism: Mechanism
    candidates: tuple[float, ...]
    preference: Preference | None
    order: ReleaseOrder
    look: Look
    schema_digest: str

    @property
    def delta(self) -> Decimal:
        return exact_decimal(self.mechanism.delta, name="delta")

    @property
    def epsilon_svt(self) -> Decimal:
        return exact_decimal(self.order.svt or 0, name="--svt")
