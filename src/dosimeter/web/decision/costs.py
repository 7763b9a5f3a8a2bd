"""The cost of an approval in words: the reading, what is left, and why an ε cannot be granted.

Takes a served dataset and its account (Books); gives sentences and rows. Uses public facts and the account only,
nothing of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from dosimeter.ledger import Books, Policy, Reading
from dosimeter.postprocess import error_95
from dosimeter.release import Prepared
from dosimeter.show import format_epsilon, format_number
from dosimeter.web.figures import show_small
from dosimeter.web.state import ServedDataset

MOST_COUNTED = 50


@dataclass(frozen=True, slots=True)
class Cost:
    """Sentences about the cost of one approval. ``last``: no answer is possible after it."""

    sentences: tuple[str, ...]
    last: bool


def write_reading(reading: Decimal) -> str:
    return "∞" if reading.is_infinite() else format_number(float(reading), 6)


def describe_policy(policy: str) -> str:
    """Return a policy in words."""
    budget = Policy.parse(policy).budget
    if budget is None:
        return "the paper's rule: each ε larger than the reading"
    return f"a budget of ε = {format_epsilon(float(budget))} in all"


ALGORITHMS = {
    "fixed": "ε fixed beforehand",
    "find": "ε found by a preference (algorithm 1)",
    "find-and-release": "ε found by a noisy test, and released",
}


def describe_account(books: Books) -> str:
    """Return the account's reading and what is left, in words, before anything is decided."""
    reading = write_reading(books.reading.epsilon)
    if books.policy.budget is None:
        return f"The reading is {reading}; each further ε must be larger than the reading."
    left = books.policy.budget - books.reading.epsilon if not books.reading.infinite else Decimal(0)
    budget = format_epsilon(float(books.policy.budget))
    return f"The reading is {reading} of a budget of {budget}: ε = {write_reading(max(left, Decimal(0)))} is left."


def find_worst(served: ServedDataset, books: Books) -> float:
    """Return the largest ε that the noisy test can still find."""
    return max(books.remaining(served.candidates) or served.candidates)


def explain_refusal(books: Books, epsilon: float) -> str:
    """Return why the account does not grant this ε, in words; empty where it does."""
    obstacle = books.find_obstacle((epsilon,))
    if obstacle is None:
        return ""
    reading = write_reading(obstacle.reading.epsilon)
    match obstacle.rule:
        case "delta":
            return f"the account's δ, {show_small(float(obstacle.reading.delta_total))}, would be overspent"
        case "cap":
            return f"the account caps one answer at ε = {format_epsilon(float(obstacle.cap or 0))}"
        case "reading":
            return f"the reading is {reading}, and by the paper's rule only a larger ε may follow"
        case "budget":
            svt, budget = float(obstacle.charge.epsilon_svt), float(obstacle.policy.budget or 0)
            test = f", with {format_epsilon(svt)} for the test," if svt else ""
            return (
                f"it{test} does not fit the budget of {format_epsilon(budget)}: the reading is {reading}, and "
                f"{write_reading(obstacle.left)} is left"
            )


def count_cost(served: ServedDataset, epsilon: float, books: Books) -> Cost:
    """Return what approving costs at this ε; with the noisy test, at the largest ε that it can find."""
    before = write_reading(books.reading.epsilon)
    testing = served.settings.algorithm == "find-and-release"
    remaining = books.remaining(served.candidates)
    if not remaining:
        why = explain_refusal(books, min(served.candidates))
        return Cost((f"Nothing can be granted any more, not even the smallest candidate: {why}.",), True)
    at = max(remaining) if testing else epsilon
    if at not in remaining:
        return Cost((f"ε = {format_epsilon(at)} cannot be granted: {explain_refusal(books, at)}.",), False)
    after = books.after(at)
    whole = ", the whole budget" if after.epsilon == books.policy.budget else ""
    most = " at most" if testing else ""
    sentences = [f"The reading goes from {before} to {write_reading(after.epsilon)}{most}{whole}."]
    if testing:
        test = books.after(None)
        sentences.append(
            f"That is if the test finds ε = {format_epsilon(at)}, the largest it can find. The test alone costs "
            f"{format_epsilon(float(books.epsilon_svt))}, also if it denies: the reading is then "
            f"{write_reading(test.epsilon)}."
        )
    more = count_more(books, after, served.candidates)
    if more > MOST_COUNTED:
        sentences.append(f"After it, more than {MOST_COUNTED} further answers are possible, at the smallest ε's.")
    elif more:
        sentences.append(f"After it, at most {more} more {'answer is' if more == 1 else 'answers are'} possible.")
    else:
        sentences.append("After it, no more answers are possible on this dataset.")
    return Cost(tuple(sentences), more == 0)


def count_more(books: Books, reading: Reading, candidates: Sequence[float]) -> int:
    """Return how many answers still fit, each at the smallest ε that the policy admits (O2), up to ``MOST_COUNTED``."""
    count = 0
    for epsilon in sorted(candidates):
        while count <= MOST_COUNTED and books.remaining((epsilon,), reading):
            reading = reading.after(books.charge(epsilon))
            count += 1
    return count


@dataclass(frozen=True, slots=True)
class Choice:
    """One candidate as a controller can choose it without looking at the data."""

    epsilon: float
    errors: tuple[str, ...]
    after: str


def list_choices(served: ServedDataset, prepared: Prepared, books: Books) -> list[Choice]:
    """Return every remaining candidate, largest first, with the reading after it.

    Its 95 % errors are given where k and Δ decide them.
    """
    plan, mechanism = prepared.plan, prepared.mechanism
    choices = []
    for epsilon in sorted(books.remaining(served.candidates), reverse=True):
        scale = mechanism.scale(plan.sensitivity(mechanism.norm), epsilon)
        errors = error_95(plan, mechanism, scale, None)
        after = books.after(epsilon)
        choices.append(
            Choice(
                epsilon=epsilon,
                errors=tuple("–" if e is None else f"± {format_number(e)}" for e in errors),
                after=write_reading(after.epsilon),
            )
        )
    return choices


def explain_missing(served: ServedDataset, books: Books) -> str:
    """Return which candidates are not offered, and why; empty if all are."""
    remaining = books.remaining(served.candidates)
    sentences = []
    larger = [e for e in served.candidates if remaining and e > max(remaining)]
    smaller = [e for e in served.candidates if remaining and e < min(remaining)]
    if larger:
        at = format_epsilon(min(larger))
        sentences.append(f"ε = {at} and more is not offered: {explain_refusal(books, min(larger))}.")
    if smaller:
        at = format_epsilon(max(smaller))
        sentences.append(f"ε = {at} and less is not offered: {explain_refusal(books, max(smaller))}.")
    return " ".join(sentences)
