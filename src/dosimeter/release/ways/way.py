"""The interface of every way to set ε, and the values that the ways share."""

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
    from dosimeter.ledger import Algorithm, DenialReason, RequestCharges
    from dosimeter.options import LookOptions
    from dosimeter.release.measurable import Measurable
    from dosimeter.release.order import PreparedRelease
    from dosimeter.release.previews import Preview


@dataclass(frozen=True, slots=True)
class ReleaseDecision:
    """The decision on a release: the charge and, for a denial, the reason, which only the controller sees.

    ``number``: the noisy number by which ε was found, if it may be used again (V8).
    """

    charge: Charge
    reason: DenialReason | None = None
    number: int | None = None

    @property
    def status(self) -> Literal["reserved", "denied"]:
        return "reserved" if self.reason is None else "denied"


Decide = Callable[["RequestCharges"], ReleaseDecision]

NO_WAY: Mapping[str, object] = {
    **dict.fromkeys(("epsilon", "preference", "variance", "selection", "indicator", "candidates")),
    "svt": "0",
}
"""The settings of ways in a request's digest, as they are for a way that has none of them."""


@dataclass(frozen=True, slots=True)
class RecordedWay:
    """What the ledger records of how ε was set.

    ``preference``: the preference, if ε was found from one. For a noisy test, ``tau``: its threshold; ``selection``:
    which test, sharp or the paper's. ``settings``: further numbers, by name.
    """

    preference: str | None = None
    tau: Decimal | None = None
    selection: str | None = None
    settings: Mapping[str, float] = field(default_factory=dict)


class Way(ABC):
    """A way to set ε. ``algorithm`` is its name in JSON and in the ledger."""

    __slots__ = ()

    algorithm: ClassVar[Algorithm]

    @property
    def epsilon_svt(self) -> Decimal:
        """Return the ε that finding ε costs, in addition to the answer's own."""
        return Decimal(0)

    @property
    def text_identifies_request(self) -> bool:
        """Return whether requests that are written alike are the same, so that the ledger may repeat an earlier answer.

        False for a preference given as a Python function: two different functions can have the same text.
        """
        return True

    @property
    def named_epsilon(self) -> float | None:
        """Return the ε that is known before anything is measured; None if it has to be found."""
        return None

    @abstractmethod
    def check(self, prepared: PreparedRelease) -> None:
        """Refuse a release that public facts rule out for this way."""

    @abstractmethod
    def list_tried(self, candidates: Collection[float]) -> set[float]:
        """Return the ε's at which ``prepare_release`` tries the release on empty groups, before anything is charged.

        What works at these ε's works at all candidates.
        """

    @abstractmethod
    def identify(self, look: LookOptions, candidates: tuple[float, ...]) -> Mapping[str, object]:
        """Return the settings of this way that make one request differ from another, for the request's digest.

        They replace those of the same name in ``NO_WAY``. A change of what this returns makes every ledger in use
        charge again.
        """

    def name_number(self, prepared: PreparedRelease, source: str) -> str | None:
        """Return the digest under which the ledger keeps the noisy number that this way finds ε by (V8).

        It is a digest of the question that the number is drawn for, such as the query, the schema and the data. None if
        this way draws no number that can be used again. ``source``: the digest of the data.
        """
        return None

    @abstractmethod
    def record(self) -> RecordedWay:
        """Return what the ledger records about this way."""

    @abstractmethod
    def measure(self, dataset: Measurable, prepared: PreparedRelease) -> tuple[Measured, Decide, tuple[str, ...]]:
        """Read all that is needed of the data. Return the exact numbers, and a function that grants an ε or denies.

        The function takes the request's charges, which know the account's policy and reading. Return also what the
        controller should know of an answer's ε, in sentences.
        """

    @abstractmethod
    def promise(self, prepared: PreparedRelease, epsilon: Decimal, *, viewed: bool) -> str:
        """Return the sentence on privacy that is true of an answer at this ε (G0–G3).

        ``viewed``: whether the controller saw a dry run or a risk before.
        """

    @abstractmethod
    def preview(self, prepared: PreparedRelease, risk: Risk, charges: RequestCharges) -> Preview:
        """Return what a dry run shows of this way. ``charges``: what it would cost the account."""


def deny(reason: DenialReason) -> ReleaseDecision:
    return ReleaseDecision(Charge(Decimal(0)), reason)


def write_number(number: float | None) -> str | None:
    return None if number is None else write_decimal(exact_decimal(number))


def write_numbers(numbers: tuple[float, ...]) -> list[str]:
    return [write_decimal(exact_decimal(number)) for number in numbers]
