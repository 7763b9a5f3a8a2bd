"""What a controller knows of each ε without looking at the data: from query, schema and account alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dosimeter.findings import write_reading
from dosimeter.planning import find_even_chance
from dosimeter.postprocess import error_95, rank_errors
from dosimeter.release import PreparedRelease
from dosimeter.risk import posterior_probability
from dosimeter.show import format_epsilon, format_number
from dosimeter.web.decision.offer import Offer
from dosimeter.web.expected import expect_errors

MOST_COLUMNS = 4  # of the table to choose from without looking
SUSPICION = 0.01


Error = tuple[float | None, bool]
"""A 95 % error as far as query and schema decide it, and whether it is in rows, as of a column drawn by rank (E3)."""


@dataclass(frozen=True, slots=True)
class BlindChoice:
    """One candidate with what a controller can know of it without looking at the data.

    ``errors``: the error of each column; None where it depends on the data. ``suspicion``: what a suspicion of 1 % can
    become, in percent (P3); empty where the noise promises no such limit. ``after``: what is spent afterwards.
    ``threshold``: with how many people a thresholded group has an even chance to be shown (H1); None if the groups are
    declared.
    """

    epsilon: float
    errors: tuple[Error, ...]
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
    errors: tuple[Error, ...]


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
                errors=tuple(
                    (math.ceil(rows[name]), True) if name in rows else (error, False)
                    for name, error in zip(names, errors, strict=True)
                ),
                suspicion=_limit_suspicion(prepared, epsilon),
                after=write_reading(float(offer.charges.after(epsilon).epsilon)),
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
    unknown = [name for name, errors in own.items() if errors and all(error is None for error, _ in errors)]
    expected = expect_errors(prepared, [choice.epsilon for choice in choices]) if unknown else None
    sized = {} if expected is None else {each.column: each.by_people for each in expected.columns}
    found = []
    for name in names:
        by_people = sized.get(name) if name in unknown else None
        for people, errors in (by_people or {}).items():
            found.append(BlindColumn(name, people, tuple((error, False) for error in errors)))
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
        f"{column.name} ± {format_number(error)}{' rows' if in_rows else ''}"
        f"{'' if column.people is None else f' from {column.people:,} people'}"
        for column in list_blind_columns(prepared, choices)
        for error, in_rows in column.errors
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
        if all(error is not None and not in_rows and error <= wanted for error, in_rows in choice.errors)
    ]
    return min(good, default=None)


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
