"""Findings on the account: why it refuses an ε, what an answer costs, and what may follow (O1, O2, H1)."""

from __future__ import annotations

import math
from typing import Literal

from dosimeter.findings.finding import Finding, Subject, Weight
from dosimeter.show import format_epsilon, format_number, format_small

MOST_COUNTED = 50
"""The most answers that are counted as possible after this one."""


class OnCost(Finding, about=Subject.COST):
    """A finding on the account."""


class AccountRefuses(OnCost, weight=Weight.AGAINST):
    """The rule by which the account refuses an answer at this ε, with the numbers on which it rests.

    ``epsilon_svt``: the ε of the noisy test. ``spent``: the reading; ``after``: the reading after the answer; both can
    be infinite. ``budget`` and ``left``: of a budget; None without one. ``delta``: of the answer, to show groups that
    nobody declared; ``delta_spent`` and ``delta_total``: of the account. ``cap``: on one answer. ``in_zcdp``: the
    policy counts ρ.
    """

    rule: Literal["delta", "cap", "reading", "budget"]
    epsilon: float
    epsilon_svt: float
    spent: float
    after: float
    budget: float | None
    left: float | None
    delta: float
    delta_spent: float
    delta_total: float
    cap: float | None
    in_zcdp: bool


class Spends(OnCost):
    """What is spent before and after the answer; after it at most, if the noisy test finds ε (``testing``).

    ``delta``: None if the groups are declared; otherwise the account's δ before and after the answer, and in all (H1).
    """

    before: float
    after: float
    budget: float | None
    testing: bool
    delta: tuple[float, float, float] | None = None


class TestCosts(OnCost):
    """What the noisy test costs by itself. ``epsilon``: the largest that it can find; ``denied``: the reading then."""

    epsilon: float
    epsilon_svt: float
    denied: float


class AnswersLeft(OnCost):
    """How many answers may follow. ``more``: how many in all, at the smallest ε's that are granted.

    ``alike``: how many at the same ε; None where the policy admits no ε twice.
    """

    more: int
    alike: int | None
    testing: bool


class TakesAllLeft(OnCost, weight=Weight.WARNING):
    """No answer is possible after this one. ``testing``: the noisy test finds ε, so that it may be less."""

    testing: bool


# ---------------------------------------------------------------- their sentences


def write_reading(reading: float) -> str:
    return "∞" if math.isinf(reading) else format_number(reading, 6)


def word_refusal(found: AccountRefuses) -> str:
    """Say why the account admits no answer at this ε."""
    spent, epsilon = write_reading(found.spent), format_epsilon(found.epsilon)
    match found.rule:
        case "delta":
            aside = ", which was set aside for groups that nobody declared when the account was opened,"
            return (
                f"{format_small(found.delta_spent)} of the account's δ = {format_small(found.delta_total)}"
                f"{aside if found.in_zcdp else ''} is spent; this needs {format_small(found.delta)} more."
            )
        case "cap":
            return f"ε = {epsilon} is above the account's cap of {format_epsilon(found.cap or 0.0)} for one query."
        case "reading":
            return f"Under the policy paper ε must be larger than the reading, which is {spent}; {epsilon} is not."
        case "budget":
            of = f"{spent} of the budget of {format_epsilon(found.budget or 0.0)} is spent"
            if found.in_zcdp:
                return f"{of}; with an answer at ε = {epsilon} it would read {write_reading(found.after)}."
            svt = format_epsilon(found.epsilon_svt)
            parts = f" (ε = {epsilon} and {svt} for finding it)" if found.epsilon_svt else ""
            needs = format_number(found.epsilon + found.epsilon_svt, 6)
            return f"{of}; this needs {needs}{parts}, {write_reading(found.left or 0.0)} is left."


def word_spends(found: Spends) -> str:
    """Say what is spent before and after the answer."""
    of = "" if found.budget is None else f" of {format_epsilon(found.budget)}"
    whole = ", the whole budget" if found.after == found.budget else of
    told = f"What is spent goes from {write_reading(found.before)} to {'at most ' * found.testing}"
    told += f"{write_reading(found.after)}{whole}"
    if found.delta is not None:
        before, then, total = map(format_small, found.delta)
        told += f", and its δ from {before} to {then} of {total}, to show groups that nobody declared"
    return f"{told}."


def word_test(found: TestCosts) -> str:
    """Say what the noisy test costs, and when the cost above arises."""
    return (
        f"That is if the test finds ε = {format_epsilon(found.epsilon)}, the largest it can find. The test alone costs "
        f"{format_epsilon(found.epsilon_svt)}, also if it denies: then {write_reading(found.denied)} is spent."
    )


def word_answers_left(found: AnswersLeft) -> str:
    """Say how many answers may follow."""
    then = "After that" if found.testing else "After it"
    if not found.more:
        return f"{then}, no more answers are possible on this dataset."
    if found.alike is None:
        most = f"more than {MOST_COUNTED}" if found.more > MOST_COUNTED else f"at most {found.more}"
        are = "answer is" if found.more == 1 else "answers are"
        return f"{then}, {most} more {are} possible, each at a larger ε."
    if not found.alike:
        return f"{then}, more answers are possible only at a smaller ε."
    most = f"more than {MOST_COUNTED}" if found.alike > MOST_COUNTED else f"{found.alike}"
    answers, are = ("answer", "is") if found.alike == 1 else ("answers", "are")
    return f"{then}, {most} more {answers} at the same ε {are} possible."
