"""What is left of an account: how many more answers at an ε. Takes its terms and reading; gives numbers (O2, O4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dosimeter.json_values import JsonObject
from dosimeter.ledger.accounting import Policy, RequestCharges, admits_charge
from dosimeter.ledger.decimals import ZERO, exact_decimal
from dosimeter.ledger.readings import Reading

EXAMPLES = (1.0, 0.5, 0.1, 0.05, 0.01)
"""The ε's for which the number of further answers is shown."""

CURVE = tuple(Decimal(1).scaleb(-exponent) for exponent in (3, 4, 5, 6, 7, 8, 9, 10, 12))
"""The δ's at which the ε of a reading is shown, besides the account's own."""

MOST = 10**9
"""The largest number of answers that is counted up to."""

_CERTIFIED = 1 + Fraction(1, 10**9)
"""A factor on the ρ that the formula gives for Gaussian noise.

The noise of a release is certified, which costs at most so much more: at least as many answers fit as are counted.
"""


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left of an account.

    ``epsilon``: what is left of its budget, None without one. ``answers``: for each of several ε's, how many more
    answers fit if all of them are at this ε with pure DP. ``gaussian``: the same for Gaussian noise at δ = 1/n², with n
    declared individuals; empty if n is 1.
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
    """Return what is left of an account at this reading. ``max_epsilon``: the largest ε of one answer, if capped."""
    pure = RequestCharges(policy, max_epsilon, reading, ZERO, ZERO)
    return Remaining(
        epsilon=policy.left(reading),
        answers={epsilon: count_answers(pure, epsilon) for epsilon in EXAMPLES},
        gaussian={epsilon: _count_gaussian(pure, epsilon, individuals) for epsilon in EXAMPLES}
        if individuals > 1
        else {},
    )


def count_answers(charges: RequestCharges, epsilon: float, reading: Reading | None = None) -> int:
    """Return how many more answers at this ε the account admits, one after the other; at most 10⁹ are counted.

    A charge that is admitted after some answers is also admitted after fewer: so the number is found by bisection.
    ``reading``: what is spent before; by default the account's reading now.
    """
    charge, spent = charges.charge(epsilon), reading or charges.reading

    def admits(count: int) -> bool:
        before = spent.after(charge, count - 1) if count > 1 else spent
        return admits_charge(charges.policy, before, charge, max_epsilon=charges.max_epsilon)

    low, high = 0, 1
    while high <= MOST and admits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if admits(middle) else (low, middle)
    return min(low, MOST)


def _count_gaussian(pure: RequestCharges, epsilon: float, individuals: int) -> int:
    from dosimeter.mechanisms import default_delta, round_rho, zcdp_rho  # imported late: they load arrays

    delta = default_delta(individuals)
    rho = round_rho(Fraction(zcdp_rho(epsilon, delta)) * _CERTIFIED)
    return count_answers(
        RequestCharges(pure.policy, pure.max_epsilon, pure.reading, ZERO, exact_decimal(delta), find_rho=lambda _: rho),
        epsilon,
    )
