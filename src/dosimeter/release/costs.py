"""What an answer costs its account, and why the account refuses it, as findings (O1, O2, H1).

Uses public facts and the account only, nothing of the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dosimeter.findings import MOST_COUNTED, AccountRefuses, AnswersLeft, Spends, TakesAllLeft, TestCosts

if TYPE_CHECKING:
    from dosimeter.findings import Finding
    from dosimeter.ledger import Reading, RequestCharges


def find_refusal(charges: RequestCharges, epsilons: Sequence[float]) -> AccountRefuses | None:
    """Return why the account admits none of these ε's; None if it admits one, or if there are none."""
    obstacle = charges.find_obstacle(epsilons)
    if obstacle is None:
        return None
    reading, budget = obstacle.reading, obstacle.policy.budget
    return AccountRefuses(
        rule=obstacle.rule,
        epsilon=float(obstacle.charge.epsilon),
        epsilon_svt=float(obstacle.charge.epsilon_svt),
        spent=float(reading.epsilon),
        after=float(obstacle.after.epsilon),
        budget=None if budget is None else float(budget),
        left=None if budget is None else float(obstacle.left),
        delta=float(obstacle.charge.delta),
        delta_spent=float(reading.delta),
        delta_total=float(reading.delta_total),
        cap=None if obstacle.cap is None else float(obstacle.cap),
        in_zcdp=obstacle.policy.in_zcdp,
    )


def find_costs(
    charges: RequestCharges, epsilon: float, candidates: Sequence[float], *, testing: bool = False
) -> Iterator[Finding]:
    """Yield what an answer at this ε costs and what may follow it, or why the account refuses it.

    ``candidates``: the ε's of further answers. ``testing``: the noisy test finds ε, at most this one.
    """
    refusal = find_refusal(charges, (epsilon,))
    if refusal is not None:
        yield refusal
        return
    after, budget = charges.after(epsilon), charges.policy.budget
    delta = (float(charges.reading.delta), float(after.delta), float(after.delta_total))
    yield Spends(
        before=float(charges.reading.epsilon),
        after=float(after.epsilon),
        budget=None if budget is None else float(budget),
        testing=testing,
        delta=delta if charges.group_delta else None,
    )
    if testing:
        yield TestCosts(epsilon, float(charges.epsilon_svt), float(charges.after(None).epsilon))
    more = count_more(charges, after, candidates)
    yield AnswersLeft(more, None if budget is None else count_more(charges, after, (epsilon,)), testing)
    if not more:
        yield TakesAllLeft(testing)


def count_more(charges: RequestCharges, reading: Reading, candidates: Sequence[float]) -> int:
    """Return how many more answers fit after this reading, each at the smallest ε that the policy admits then (O2).

    It stops counting at ``MOST_COUNTED`` + 1.
    """
    count = 0
    for epsilon in sorted(candidates):
        while count <= MOST_COUNTED and charges.remaining((epsilon,), reading):
            reading = reading.after(charges.charge(epsilon))
            count += 1
    return count
