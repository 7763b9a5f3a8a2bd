"""The interface of every way to an ε, and the values that the ways share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Literal

from dosimeter.ledger import Charge, exact_decimal, write_decimal

if TYPE_CHECKING:
    from collections.abc import Collection

    from dosimeter.assessment import Risk
    from dosimeter.influence import Measured
    from dosimeter.ledger import Algorithm, Books, DenialReason
    from dosimeter.mechanisms import Mechanism
    from dosimeter.planning import Look, QueryPlan
    from dosimeter.release.measurable import Measurable
    from dosimeter.release.order import Prepared
    from dosimeter.release.previews import Preview


@dataclass(frozen=True, slots=True)
class Granted:
    """The account's decision: a charge, and for a denial its reason, which the controller sees.

    ``number``: the noisy number by which ε was found, where it may be used again (V8).
    """

    charge: Charge
    reason: DenialReason | None = None
    number: int | None = None

    @property
    def status(self) -> Literal["reserved", "denied"]:
        return "reserved" if self.reason is None else "denied"


Grant = Callable[["Books"], Granted]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the ledger records about the way of a request."""

    preference: str | None = None
    tau: Decimal | None = None
    selection: str | None = None
    settings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subject:
    """A release as far as SQL, schema and options decide it, for a way to check."""

    plan: QueryPlan
    look: Look
    n: int
    mechanism: Mechanism
    candidates: tuple[float, ...]


class Way(ABC):
    """A way to set ε. ``algorithm`` is its name in JSON and in the ledger."""

    __slots__ = ()

    algorithm: ClassVar[Algorithm]

    @property
    def epsilon_svt(self) -> Decimal:
        """Return what finding ε costs besides the answer."""
        return Decimal(0)

    @property
    def can_be_told_apart(self) -> bool:
        """Return whether two requests that are written alike are the same request."""
        return True

    @property
    def named_epsilon(self) -> float | None:
        """Return the ε that a dry run can name before anything is measured."""
        return None

    @abstractmethod
    def check(self, subject: Subject) -> None:
        """Refuse what public facts rule out for this way."""

    @abstractmethod
    def rehearsed(self, candidates: Collection[float]) -> set[float]:
        """Return the ε's to rehearse: where these work, all others do."""

    @abstractmethod
    def identify(self, look: Look, candidates: tuple[float, ...]) -> Mapping[str, object]:
        """Return what of this way makes two requests different. A change here makes every ledger charge again."""

    def name_number(self, prepared: Prepared, source: str) -> str | None:
        """Return what a noisy number of this way would be of; None where none may be used again (V8)."""
        return None

    @abstractmethod
    def record(self) -> Recorded:
        """Return what the request's record says about this way."""

    @abstractmethod
    def measure(self, dataset: Measurable, prepared: Prepared) -> tuple[Measured, Grant]:
        """Read everything that needs the data: the exact vector, and how ε will be granted from the account's books."""

    @abstractmethod
    def promise(self, prepared: Prepared, epsilon: Decimal, *, viewed: bool) -> str:
        """Return the sentence that is true of an answer at this ε (G0–G3)."""

    @abstractmethod
    def preview(self, prepared: Prepared, risk: Risk, books: Books) -> Preview:
        """Return what a dry run shows of this way."""


def deny(reason: DenialReason) -> Granted:
    return Granted(Charge(Decimal(0)), reason)


def write_number(number: float | None) -> str | None:
    return None if number is None else write_decimal(exact_decimal(number))


def write_numbers(numbers: tuple[float, ...]) -> list[str]:
    return [write_decimal(exact_decimal(number)) for number in numbers]
