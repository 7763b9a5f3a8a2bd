"""The cost of an approval in words: what is spent, what is left, and how many answers may still follow.

Takes an Offer with its RequestCharges (the account's policy and reading, and what an answer costs); gives sentences and
rows. Uses public facts and the account only, nothing of the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from dosimeter.ledger import Policy, Reading, RequestCharges
from dosimeter.planning import find_even_chance
from dosimeter.postprocess import error_95, rank_errors
from dosimeter.release import PreparedRelease
from dosimeter.risk import posterior_probability
from dosimeter.show import format_epsilon, format_number
from dosimeter.web.decision.offer import Offer, explain_shortage, write_reading
from dosimeter.web.expected import expect_errors
from dosimeter.web.figures import show_small

MOST_COUNTED = 50
MOST_COLUMNS = 4  # of the table to choose from without looking
SUSPICION = 0.01


@dataclass(frozen=True, slots=True)
class CostWords:
    """Sentences about the cost of one approval. ``last``: no answer is possible after it.

    ``aside``: what accounts with another policy would count; empty where the approval is not possible. ``before`` and
    ``added``: what is spent and what the approval adds, in percent of the budget; None without a budget, and where the
    approval is not possible.
    """

    sentences: tuple[str, ...]
    last: bool
    aside: str = ""
    before: float | None = None
    added: float | None = None

    @property
    def chief(self) -> tuple[str, ...]:
        """Return the first and the last sentence: what is spent, and how many answers may follow."""
        return self.sentences if len(self.sentences) < 3 else (self.sentences[0], self.sentences[-1])


def describe_policy(policy: str) -> str:
    """Return a policy in words: "budget:2" becomes "a budget of ε = 2 in all"."""
    terms = Policy.parse(policy)
    if terms.budget is None:
        return "the paper's rule: each ε larger than what is spent"
    at = "" if terms.delta is None else f" at δ = {show_small(float(terms.delta))}"
    return f"a budget of ε = {format_epsilon(float(terms.budget))}{at} in all"


ALGORITHMS = {
    "fixed": "ε set by a controller",
    "find": "ε found from a preference",
    "find-and-release": "ε found by a noisy test, and released",
}


def describe_account(charges: RequestCharges) -> str:
    """Say what the account has spent and what is left, before the query is decided."""
    spent = write_reading(charges.reading.epsilon)
    if charges.policy.budget is None:
        return f"So far ε = {spent} is spent; each further ε must be larger than that."
    left = charges.policy.budget - charges.reading.epsilon if not charges.reading.infinite else Decimal(0)
    budget = format_epsilon(float(charges.policy.budget))
    return f"So far ε = {spent} of {budget} is spent; {write_reading(max(left, Decimal(0)))} is left."


def count_cost(offer: Offer, epsilon: float) -> CostWords:
    """Say what approving at this ε costs, or why the account does not grant it.

    With the noisy test, ``epsilon`` is ignored, and the cost is that of the largest ε that the test can find.
    """
    charges, at = offer.charges, offer.largest if offer.testing else epsilon
    shortage = offer.find_shortage(at)
    if shortage is not None:
        return CostWords((shortage.words,), not offer.remaining)
    after = charges.after(at)
    budget = charges.policy.budget
    of = "" if budget is None else f" of {format_epsilon(float(budget))}"
    whole = ", the whole budget" if after.epsilon == budget else of
    most, then = ("at most ", "After that") if offer.testing else ("", "After it")
    before = write_reading(charges.reading.epsilon)
    sentences = [
        f"What is spent goes from {before} to {most}{write_reading(after.epsilon)}{whole}"
        f"{_count_delta(charges, after)}."
    ]
    if offer.testing:
        test = charges.after(None)
        sentences.append(
            f"That is if the test finds ε = {format_epsilon(at)}, the largest it can find. The test alone costs "
            f"{format_epsilon(float(charges.epsilon_svt))}, also if it denies: then "
            f"{write_reading(test.epsilon)} is spent."
        )
    more = count_more(charges, after, offer.candidates)
    sentences.append(f"{then}, {_word_more(more, None if budget is None else count_more(charges, after, (at,)))}.")
    return CostWords(tuple(sentences), more == 0, _compare_policies(charges, at), *_share_budget(charges, after))


def _word_more(more: int, alike: int | None) -> str:
    """Say how many answers may follow an approval. ``more``: how many in all, at the smallest ε's that are granted.

    ``alike``: how many at the ε of the approval; None where the policy admits no ε twice.
    """
    if not more:
        return "no more answers are possible on this dataset"
    if alike is None:
        most = f"more than {MOST_COUNTED}" if more > MOST_COUNTED else f"at most {more}"
        return f"{most} more {'answer is' if more == 1 else 'answers are'} possible, each at a larger ε"
    if not alike:
        return "more answers are possible only at a smaller ε"
    most = f"more than {MOST_COUNTED}" if alike > MOST_COUNTED else f"{alike}"
    return f"{most} more {'answer' if alike == 1 else 'answers'} at the same ε {'is' if alike == 1 else 'are'} possible"


def _count_delta(charges: RequestCharges, after: Reading) -> str:
    """Say how much of the account's δ is spent before and after an approval (H1); "" if the groups are declared.

    ``after``: the reading after the approval.
    """
    if not charges.group_delta:
        return ""
    before, then, total = (show_small(float(each)) for each in (charges.reading.delta, after.delta, after.delta_total))
    return f", and its δ from {before} to {then} of {total}, to show groups that nobody declared"


def _share_budget(charges: RequestCharges, after: Reading) -> tuple[float | None, float | None]:
    """Return how much of the budget is spent, and how much an approval adds, in percent of the budget.

    Both are None without a budget, for a budget of 0, and where a reading is infinite. ``after``: the reading after the
    approval.
    """
    budget = charges.policy.budget
    if budget is None or budget == 0 or charges.reading.infinite or after.infinite:
        return None, None
    before, then = (min(100.0, 100.0 * float(each.epsilon / budget)) for each in (charges.reading, after))
    return round(before, 2), round(then - before, 2)


def _compare_policies(charges: RequestCharges, epsilon: float) -> str:
    """Say what an answer at this ε is charged in this account, and in accounts with the other policies."""
    price = charges.price(epsilon)
    plain, rho = format_epsilon(float(price.epsilon + price.epsilon_svt)), format_number(float(price.rho or 0), 4)
    if charges.policy.in_zcdp:
        return f"This account counts ρ = {rho}; one that adds up ε would count {plain}."
    return f"This account counts {plain}; one with a budget at a δ would count ρ = {rho}."


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


@dataclass(frozen=True, slots=True)
class BlindError:
    """The 95 % error of one column, as far as it is known without looking at the data.

    ``in_rows``: the error says by how many rows a rank is off, because the column is drawn by rank (E3).
    """

    value: float
    in_rows: bool


@dataclass(frozen=True, slots=True)
class BlindChoice:
    """One candidate with what a controller can know of it without looking at the data.

    ``errors``: the error of each column; None where it depends on the data. ``suspicion``: what a suspicion of 1 % can
    become, in percent (P3); empty where the noise promises no such limit. ``after``: what is spent afterwards.
    ``threshold``: with how many people a thresholded group has an even chance to be shown (H1); None if the groups are
    declared.
    """

    epsilon: float
    errors: tuple[BlindError | None, ...]
    suspicion: str
    after: str
    threshold: int | None = None


@dataclass(frozen=True, slots=True)
class BlindColumn:
    """The 95 % errors of one column, one per choice.

    ``people``: how many people are in a group for which these errors hold; None if they hold for any group.
    """

    name: str
    people: int | None
    errors: tuple[BlindError | None, ...]


def list_choices(offer: Offer, prepared: PreparedRelease) -> list[BlindChoice]:
    """Return a choice for every candidate that the account still grants, largest ε first."""
    plan, mechanism = prepared.plan, prepared.mechanism
    names = [output.name for output in plan.outputs if output.is_aggregate]
    choices = []
    for epsilon in sorted(offer.remaining, reverse=True):
        scale = mechanism.scale(plan.sensitivity(mechanism.norm), epsilon)
        errors, rows = error_95(plan, mechanism, scale, None), rank_errors(plan, epsilon)
        choices.append(
            BlindChoice(
                epsilon=epsilon,
                errors=tuple(_find_error(rows.get(name), error) for name, error in zip(names, errors, strict=True)),
                suspicion=_limit_suspicion(prepared, epsilon),
                after=write_reading(offer.charges.after(epsilon).epsilon),
                threshold=find_even_chance(plan, mechanism, scale),
            )
        )
    return choices


def list_blind_columns(prepared: PreparedRelease, choices: Sequence[BlindChoice]) -> list[BlindColumn]:
    """Return the errors of the first few columns, each with one error per choice.

    An average, whose error depends on the number of people, is listed several times: once for each of a few round
    numbers of people.
    """
    names = [output.name for output in prepared.plan.outputs if output.is_aggregate][:MOST_COLUMNS]
    own = {name: tuple(choice.errors[at] for choice in choices) for at, name in enumerate(names)}
    unknown = [name for name, errors in own.items() if errors and not any(errors)]
    expected = expect_errors(prepared, [choice.epsilon for choice in choices]) if unknown else None
    sized = {} if expected is None else {each.column: each.by_people for each in expected.columns}
    found = []
    for name in names:
        by_people = sized.get(name) if name in unknown else None
        for people, errors in (by_people or {}).items():
            found.append(BlindColumn(name, people, tuple(_find_error(None, error) for error in errors)))
        if not by_people:
            found.append(BlindColumn(name, None, own[name]))
    return found


def _limit_suspicion(prepared: PreparedRelease, epsilon: float) -> str:
    """Return what a suspicion of 1 % can become (P3), in percent, rounded up; "" where the noise has no such limit."""
    if not prepared.mechanism.pure or prepared.plan.threshold:
        return ""
    belief = 100.0 * posterior_probability(SUSPICION, epsilon)
    return f"{math.ceil(100.0 * belief) / 100.0:g} %"


def word_suspicion(offer: Offer, prepared: PreparedRelease, epsilon: float | None) -> str:
    """Say how sure an attacker who suspects a person with 1 % of being in the table can become at most (P3).

    "" where there is no such limit (G2): where ε is found from a preference, with Gaussian noise, and with thresholded
    groups. ``epsilon``: None where the noisy test finds it; then the limit is that of the largest ε that the test can
    find, plus the ε that the test itself costs.
    """
    at = offer.largest + float(offer.charges.epsilon_svt) if epsilon is None else epsilon
    limit = _limit_suspicion(prepared, at)
    if not limit or offer.algorithm == "find":
        return ""
    when = "" if epsilon is not None else f"If the test finds ε = {format_epsilon(offer.largest)}: "
    who = (
        f"{'s' if when else 'S'}omebody who knows everybody else, and suspects a person with 1 % of being in the table"
    )
    return f"{when}{who}, is at most {limit} sure afterwards."


def word_unseen_gain(offer: Offer, prepared: PreparedRelease, epsilon: float) -> str:
    """Say which errors the analyst would get at this ε, as far as query and schema decide them."""
    choices = [choice for choice in list_choices(offer, prepared) if choice.epsilon == epsilon]
    errors = [
        f"{column.name} ± {format_number(error.value)}{' rows' if error.in_rows else ''}"
        f"{'' if column.people is None else f' from {column.people:,} people'}"
        for column in list_blind_columns(prepared, choices)
        for error in column.errors
        if error is not None
    ]
    return f"At ε = {format_epsilon(epsilon)} the analyst would get {', '.join(errors)} (95 %)." if errors else ""


def find_enough_unseen(choices: Sequence[BlindChoice], wanted: float | None) -> float | None:
    """Return the smallest ε at which the errors of all columns are known to be at most ``wanted``.

    None if there is none, or if no error is wanted.
    """
    if wanted is None:
        return None
    good = [
        choice.epsilon
        for choice in choices
        if all(error is not None and not error.in_rows and error.value <= wanted for error in choice.errors)
    ]
    return min(good, default=None)


def _find_error(in_rows: float | None, error: float | None) -> BlindError | None:
    if in_rows is not None:
        return BlindError(math.ceil(in_rows), True)
    return None if error is None else BlindError(error, False)


def explain_missing(offer: Offer) -> str:
    """Say which candidates the account does not grant, and why; "" if it grants all of them, or none."""
    remaining, sentences = offer.remaining, []
    larger = [e for e in offer.candidates if remaining and e > max(remaining)]
    smaller = [e for e in offer.candidates if remaining and e < min(remaining)]
    if larger:
        at = format_epsilon(min(larger))
        sentences.append(f"ε = {at} and more is not offered: {explain_shortage(offer.charges, min(larger))}.")
    if smaller:
        at = format_epsilon(max(smaller))
        sentences.append(f"ε = {at} and less is not offered: {explain_shortage(offer.charges, max(smaller))}.")
    return " ".join(sentences)
