"""What an answer costs its account, and why it would be denied, as findings (O1, O2, H1).

The release, a dry run, the decision page and the command line ask here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dosimeter.findings import (
    AccountRefuses,
    AnswersLeft,
    FailsPreference,
    Spends,
    TakesAllLeft,
    TestCosts,
    find_unmet,
)
from dosimeter.ledger import count_answers

if TYPE_CHECKING:
    from dosimeter.findings import Choice, Finding
    from dosimeter.ledger import Reading, RequestCharges


def find_refusal(charges: RequestCharges, epsilons: Sequence[float]) -> AccountRefuses | None:
    """Return why the account admits none of these ε's; None if it admits one, or if there are none."""
    obstacle = charges.find_obstacle(epsilons)
    if obstacle is None:
        return None
    reading, budget, left = charges.reading, charges.policy.budget, charges.policy.left(charges.reading)
    return AccountRefuses(
        rule=obstacle.rule,
        epsilon=float(obstacle.charge.epsilon),
        epsilon_svt=float(obstacle.charge.epsilon_svt),
        spent=float(reading.epsilon),
        after=float(reading.after(obstacle.charge).epsilon),
        budget=None if budget is None else float(budget),
        left=None if left is None else float(left),
        delta=float(obstacle.charge.delta),
        delta_spent=float(reading.delta),
        delta_total=float(reading.delta_total),
        cap=None if charges.max_epsilon is None else float(charges.max_epsilon),
        in_zcdp=charges.policy.in_zcdp,
    )


def find_objection(choice: Choice, charges: RequestCharges, epsilon: float | None = None) -> Finding | None:
    """Return why a release by this choice's preference would be denied; None if it would not be.

    ``epsilon``: the candidate that the controller chose, which has to meet the preference itself; None to take the
    largest that meets it and that the account admits.
    """
    refusal = find_refusal(charges, choice.meeting if epsilon is None else (epsilon,))
    if epsilon is None:
        return find_unmet(choice, refusal) if refusal is not None or not choice.meeting else None
    if refusal is None and epsilon not in choice.meeting:
        return FailsPreference(epsilon, choice.find_granted(charges.remaining(choice.meeting)))
    return refusal


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

    With a budget these are all at the smallest candidate; under the paper's policy each is at the next larger one.
    """
    if charges.policy.budget is not None:
        return count_answers(charges, min(candidates), reading)
    count = 0
    for epsilon in sorted(candidates):
        if charges.remaining((epsilon,), reading):
            reading = reading.after(charges.charge(epsilon))
            count += 1
    return count
