"""Prices, charges and readings: what an entry costs, and what all of them amount to (O1, O4). Pure and exact."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from dosimeter.errors import LedgerError
from dosimeter.ledger.decimals import EXACTLY, INFINITY, ZERO, exact_decimal, write_decimal, write_reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of an entry, from which its account's policy makes a charge.

    ``epsilon``: the answer's ε, 0 for a denial. ``epsilon_svt``: the ε that finding ε costs. ``delta``: the δ of the
    noise and of thresholded groups together; ``group_delta``: the δ of these groups alone (H1). ``rho``: the ρ of the
    whole entry; None if it was not computed.
    """

    epsilon: Decimal
    epsilon_svt: Decimal
    delta: Decimal
    group_delta: Decimal
    rho: Decimal | None


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge of one entry: ε for an answer, ε_svt if a noisy test selected ε, and δ (O1).

    ``rho``: what the entry costs in ρ, if its account counts in ρ; otherwise None. With a ρ, ``delta`` is the δ of
    thresholded groups alone (O4).
    """

    epsilon: Decimal
    epsilon_svt: Decimal = ZERO
    delta: Decimal = ZERO
    rho: Decimal | None = None

    def __post_init__(self) -> None:
        for part in ("epsilon", "epsilon_svt", "delta"):
            object.__setattr__(self, part, exact_decimal(getattr(self, part), name=part))
        if self.rho is not None:
            object.__setattr__(self, "rho", exact_decimal(self.rho, name="rho"))

    @property
    def total(self) -> Decimal:
        return EXACTLY.add(self.epsilon, self.epsilon_svt)

    @property
    def is_nothing(self) -> bool:
        return not (self.epsilon or self.epsilon_svt or self.delta or self.rho)


class Reading(ABC):
    """The reading of an account: what it has spent.

    ``delta``: the sum of the charged δ's. ``delta_total``: δ_g, above which this sum makes the reading infinite.
    """

    __slots__ = ()

    delta: Decimal
    delta_total: Decimal

    @property
    @abstractmethod
    def epsilon(self) -> Decimal:
        """Return what all charges amount to, in ε; infinity once the charged δ's exceed δ_g."""

    @property
    def infinite(self) -> bool:
        return self.epsilon.is_infinite()

    @property
    def rho(self) -> Decimal | None:
        """Return what all charges amount to in ρ; None if the account does not count in ρ."""
        return None

    @abstractmethod
    def after(self, charge: Charge, times: int = 1) -> Reading:
        """Return what the reading would be after adding this charge ``times`` times."""

    @abstractmethod
    def added(self, charge: Charge) -> Decimal:
        """Return by how much ``charge``, the last one in this reading, raised ε.

        If the account adds up ε's, the result is the charge's ε + ε_svt, even if the reading is infinite. If the
        account counts in ρ, the result is infinity if the reading is infinite.
        """

    @abstractmethod
    def write(self) -> str:
        """Return the exact sum of the charged ε's, or of all ρ if the account counts in ρ, as text.

        Equal sums give equal texts.
        """

    def curve(self, deltas: Sequence[Decimal]) -> tuple[tuple[Decimal, Decimal], ...] | None:
        """Return pairs (δ, ε): the ε that all charges amount to at each of ``deltas``. None if ε's are added up.

        Only a sum of ρ can be read at several δ's (O4).
        """
        return None


@dataclass(frozen=True, slots=True)
class SumReading(Reading):
    """A reading that adds up all charged ε's; infinite once the charged δ's exceed ``delta_total`` together (O1)."""

    epsilon: Decimal = ZERO
    delta: Decimal = ZERO
    delta_total: Decimal = field(kw_only=True)

    def after(self, charge: Charge, times: int = 1) -> SumReading:
        delta = EXACTLY.add(self.delta, EXACTLY.multiply(charge.delta, Decimal(times)))
        overspent = self.infinite or delta > self.delta_total
        epsilon = INFINITY if overspent else EXACTLY.add(self.epsilon, EXACTLY.multiply(charge.total, Decimal(times)))
        return SumReading(epsilon, delta, delta_total=self.delta_total)  # O1

    def added(self, charge: Charge) -> Decimal:
        return charge.total

    def write(self) -> str:
        return write_reading(self.epsilon)


@dataclass(frozen=True, slots=True)
class ZcdpReading(Reading):
    """A reading that adds up all ρ, for the policy ``budget:E@D`` (O4).

    The sum is read as an ε at ``delta_of_noise``: D without ``delta_total``, the part for thresholded groups.
    """

    rho: Decimal = ZERO
    delta: Decimal = ZERO
    delta_total: Decimal = field(kw_only=True)
    delta_of_noise: Decimal = field(kw_only=True)

    @property
    def epsilon(self) -> Decimal:
        from dosimeter.mechanisms import exact_zcdp_epsilon  # imported late: it loads arrays

        return INFINITY if self.infinite else exact_zcdp_epsilon(self.rho, self.delta_of_noise)

    @property
    def infinite(self) -> bool:
        return self.delta > self.delta_total

    def after(self, charge: Charge, times: int = 1) -> ZcdpReading:
        if charge.rho is None and not charge.is_nothing:
            raise LedgerError("A charge of an account with a policy budget:E@D has its ρ.")
        rho = EXACTLY.add(self.rho, EXACTLY.multiply(charge.rho or ZERO, Decimal(times)))
        delta = EXACTLY.add(self.delta, EXACTLY.multiply(charge.delta, Decimal(times)))
        return replace(self, rho=rho, delta=delta)

    def added(self, charge: Charge) -> Decimal:
        """Return by how much the last charge raised ε, given the charges before it; infinity if ε is infinite."""
        if self.infinite:
            return INFINITY
        before = replace(self, rho=EXACTLY.subtract(self.rho, charge.rho or ZERO))
        return EXACTLY.subtract(self.epsilon, before.epsilon)

    def write(self) -> str:
        return write_decimal(self.rho)

    def curve(self, deltas: Sequence[Decimal]) -> tuple[tuple[Decimal, Decimal], ...]:
        """Return pairs (δ, ε): the ε that all charges amount to at each of ``deltas``.

        Thresholded groups take ``delta_total`` of each δ, and the noise has the rest. Without a rest, ε is infinite.
        """
        shown = [(delta, EXACTLY.subtract(delta, self.delta_total)) for delta in deltas]
        return tuple(
            (delta, replace(self, delta_of_noise=rest).epsilon if rest > 0 else INFINITY) for delta, rest in shown
        )
