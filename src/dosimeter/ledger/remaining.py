"""What is left of an account: how many more answers at an ε. Takes its terms and reading; gives numbers (O2, O4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dosimeter.json_values import JsonObject
from dosimeter.ledger.accounting import Books, Policy, admits_charge
from dosimeter.ledger.decimals import ZERO, exact_decimal
from dosimeter.ledger.readings import Reading

EXAMPLES = (1.0, 0.5, 0.1, 0.05, 0.01)
"""The ε's for which is said how many more answers there are."""

CURVE = tuple(Decimal(1).scaleb(-exponent) for exponent in (3, 4, 5, 6, 7, 8, 9, 10, 12))
"""The δ's at which a reading is shown, besides the account's own."""

MOST = 10**9
"""No more answers than these are counted."""

_CERTIFIED = 1 + Fraction(1, 10**9)
"""More than what a certified scale can cost beyond the formula: a release is never short of what is said here."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left of an account.

    ``epsilon``: of its budget, None without one. ``answers``: how many more there are at an ε, with noise or draws that
    spend a pure ε, nothing else being asked. ``gaussian``: the same with Gaussian noise at δ = 1/n².
    """

    epsilon: Decimal | None
    answers: Mapping[float, int]
    gaussian: Mapping[float, int]

    def describe(self) -> JsonObject:
        return {
            "epsilon": None if self.epsilon is None else float(self.epsilon),
            "answers": {f"{epsilon:g}": count for epsilon, count in self.answers.items()},
            "gaussian": {f"{epsilon:g}": count for epsilon, count in self.gaussian.items()},
        }


def find_remaining(policy: Policy, reading: Reading, max_epsilon: Decimal | None, individuals: int) -> Remaining:
    """Return what is left at this reading."""
    pure = Books(policy, max_epsilon, reading, ZERO, ZERO)
    return Remaining(
        epsilon=policy.left(reading),
        answers={epsilon: count_answers(pure, epsilon) for epsilon in EXAMPLES},
        gaussian={epsilon: _count_gaussian(pure, epsilon, individuals) for epsilon in EXAMPLES}
        if individuals > 1
        else {},
    )


def count_answers(books: Books, epsilon: float) -> int:
    """Return how many answers at this ε may still follow, one after the other.

    What is admitted after more answers is admitted after fewer, so the number is found by halving.
    """
    charge = books.charge(epsilon)

    def admits(count: int) -> bool:
        before = books.reading.after(charge, count - 1) if count > 1 else books.reading
        return admits_charge(books.policy, before, charge, max_epsilon=books.max_epsilon)

    low, high = 0, 1
    while high <= MOST and admits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if admits(middle) else (low, middle)
    return min(low, MOST)


def _count_gaussian(pure: Books, epsilon: float, individuals: int) -> int:
    from dosimeter.mechanisms import default_delta, round_rho, zcdp_rho  # imported late: they load arrays

    delta = default_delta(individuals)
    rho = round_rho(Fraction(zcdp_rho(epsilon, delta)) * _CERTIFIED)
    return count_answers(
        Books(pure.policy, pure.max_epsilon, pure.reading, ZERO, exact_decimal(delta), find_rho=lambda _: rho), epsilon
    )
