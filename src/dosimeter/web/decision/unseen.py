"""What a controller knows of each ε without looking at the data: from query, schema and account alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dosimeter.findings import NotAsExactAsAsked, Start, pick_start, round_up, word, write_reading
from dosimeter.planning import QueryPlan, find_even_chance
from dosimeter.postprocess import list_facts, word_facts
from dosimeter.release import PreparedRelease
from dosimeter.risk import posterior_probability
from dosimeter.show import format_epsilon, format_number
from dosimeter.web.decision.offer import Offer
from dosimeter.web.expected import expect_accuracies, expect_errors
from dosimeter.web.public import ExpectedErrors

MOST_COLUMNS = 4  # of the table to choose from without looking
SUSPICION = 0.01


@dataclass(frozen=True, slots=True)
class BlindChoice:
    """One candidate with what a controller can know of it without looking at the data, but for the errors.

    ``suspicion``: what a suspicion of 1 % can become, in percent (P3); empty where the noise promises no such limit.
    ``after``: what is spent afterwards. ``threshold``: with how many people a thresholded group has an even chance to
    be shown (H1); None if the groups are declared.
    """

    epsilon: float
    suspicion: str
    after: str
    threshold: int | None = None


def list_choices(offer: Offer, prepared: PreparedRelease) -> list[BlindChoice]:
    """Return a choice for every candidate that the account still grants, largest ε first."""
    plan, mechanism = prepared.plan, prepared.mechanism
    return [
        BlindChoice(
            epsilon=epsilon,
            suspicion=_limit_suspicion(prepared, epsilon + float(offer.charges.epsilon_svt)),
            after=write_reading(float(offer.charges.after(epsilon).epsilon)),
            threshold=find_even_chance(plan, mechanism, mechanism.scale(plan.sensitivity(mechanism.norm), epsilon)),
        )
        for epsilon in sorted(offer.remaining, reverse=True)
    ]


LEAST_SHOWN = 0.1
"""Smaller candidates are folded, unless one of them matters."""
ABOVE_SHOWN = 3
"""How many candidates above all that matter are shown; larger ones are folded."""


def find_shown(choices: Sequence[BlindChoice], beyond: int, matter: Sequence[float]) -> tuple[int, int]:
    """Return which of the choices are shown at once, the first of them and the end: those that matter and some around.

    ``beyond``: how many of the first the standard does not allow.
    """
    least, largest = min([LEAST_SHOWN, *matter]), max(matter, default=math.inf)
    above = sum(each.epsilon > largest for each in choices)
    first = max(beyond, above - ABOVE_SHOWN)
    return first, max(min(first + 1, len(choices)), sum(each.epsilon >= least for each in choices))


def find_unseen_start(
    prepared: PreparedRelease, granted: Sequence[float], limit: float | None, wanted: float | None, needed: float | None
) -> Start | None:
    """Return where to start before anybody looked: by the accuracy that the schema alone lets expect.

    ``granted``: the candidates that the account still allows. ``limit``: the largest that the controller's standard
    allows whatever the data; None if the schema does not tell. ``needed``: the smallest candidate that gives the wanted
    error, granted or not, if the schema tells. The result is None where it does not tell how exact an answer would be:
    then no ε is selected.
    """
    accuracies = expect_accuracies(prepared, granted, sized=needed is None)
    if not accuracies:
        return None
    return pick_start(granted, granted, accuracies, wanted, most=math.inf if limit is None else limit)


def list_uncounted(plan: QueryPlan) -> tuple[str, ...]:
    """Return which rows and values do not count as they are, by the schema, in sentences."""
    facts = list_facts(plan, None, clamp=False, errors=False)
    bounded = tuple(replace(each, step=None) for each in facts.bounded)
    return word_facts(
        replace(facts, bounded=bounded, cut_texts=(), grouped=False, thresholded=False, counted_groups=(), totals=False)
    )


def expect_unseen(prepared: PreparedRelease, epsilons: Sequence[float]) -> ExpectedErrors:
    """Return the errors of the first few columns, each with one error per ε."""
    return expect_errors(prepared, epsilons, most=MOST_COLUMNS)


def word_unattained(offer: Offer, wanted: float | None, needed: float | None, limit: float | None) -> str:
    """Say that the wanted error takes an ε that the account or the standard does not allow; "" if it does not.

    ``needed`` and ``limit``: as for ``find_unseen_start``.
    """
    granted = needed in offer.remaining
    if wanted is None or needed is None or (granted and (limit is None or needed <= limit)):
        return ""
    return word(NotAsExactAsAsked(wanted, needed, granted, meets=False, found=limit))


def _limit_suspicion(prepared: PreparedRelease, epsilon: float) -> str:
    """Return what a suspicion of 1 % can become (P3), in percent, rounded up; "" where the noise has no such limit."""
    if not prepared.mechanism.pure or prepared.plan.threshold:
        return ""
    return f"{round_up(100.0 * posterior_probability(SUSPICION, epsilon), most=100)} %"


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
    known = f"{'s' if when else 'S'}omebody who knows everybody else"
    who = f"{known}, and suspects a {prepared.plan.words.individual} with 1 % of being in the table"
    return f"{when}{who}, is at most {limit} sure afterwards."


def word_unseen_gain(offer: Offer, prepared: PreparedRelease, epsilon: float) -> str:
    """Say which errors the analyst would get at this ε, as far as query and schema decide them."""
    granted, called = [each for each in offer.remaining if each == epsilon], prepared.plan.words
    expected = expect_unseen(prepared, granted)
    errors = [
        f"{column.column} ± {called.count_rows(math.ceil(error)) if column.in_rows else format_number(error)}"
        f"{'' if people is None else f' from {people:,} {expected.counted}'}"
        for column in expected.columns
        for people, found in column.by_people.items() or [(None, column.errors)]
        for error in found
        if error is not None
    ]
    return f"At ε = {format_epsilon(epsilon)} the analyst would get {', '.join(errors)} (95 %)." if errors else ""


def explain_missing(offer: Offer) -> str:
    """Say which candidates the account does not grant, and why; "" if it grants all of them, or none."""
    remaining, sentences = offer.remaining, []
    larger = [e for e in offer.candidates if remaining and e > max(remaining)]
    smaller = [e for e in offer.candidates if remaining and e < min(remaining)]
    if larger:
        at = format_epsilon(min(larger))
        sentences.append(f"ε = {at} and more is not offered. {offer.explain(min(larger))}")
    if smaller:
        at = format_epsilon(max(smaller))
        sentences.append(f"ε = {at} and less is not offered. {offer.explain(max(smaller))}")
    return " ".join(sentences)
