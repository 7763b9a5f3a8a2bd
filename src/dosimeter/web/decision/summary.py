"""The decision in short: risk, answer and cost at one ε, a line each, and what they speak for. For controllers only.

Takes a MeasuredQuery, an Offer, the Choice made by a preference and an ε; gives a DecisionSummary. It only advises:
which ε may be approved is decided in ``offer``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from dosimeter.risk import AnswerAccuracy, Choice
from dosimeter.show import (
    format_epsilon,
    format_number,
    format_people,
    join_names,
    word_drowned,
    word_errors,
    word_more_guesses,
)
from dosimeter.web.decision.costs import CostWords
from dosimeter.web.decision.measured import MeasuredQuery
from dosimeter.web.decision.offer import Offer
from dosimeter.web.decision.words import FEW, MOST_ERRORS, is_undecided, is_worth_little, warn_of_ranks


class Sign(Enum):
    """Whether a line of the summary speaks for approving, against it, or neither."""

    GOOD = "good"
    BAD = "bad"
    OPEN = "open"


@dataclass(frozen=True, slots=True, repr=False)
class SummaryLine:
    """One line of the summary. ``name``: what it is about, such as "Risk"."""

    name: str
    sign: Sign
    words: str


@dataclass(frozen=True, slots=True, repr=False)
class DecisionSummary:
    """The decision in short. ``lines``: risk, answer and, if the account grants it, cost. ``advice``: what they
    speak for, in a sentence or two.

    ``against``: whether the advice is to ask for changes or to deny, rather than to approve.
    """

    lines: tuple[SummaryLine, ...]
    advice: str
    against: bool


def summarize(
    measured: MeasuredQuery,
    offer: Offer,
    choice: Choice,
    epsilon: float,
    cost: CostWords,
    *,
    wanted: float | None = None,
    enough: float | None = None,
    alarm: str = "",
    looser: bool = False,
) -> DecisionSummary:
    """Return the decision in short, for approving at this ε.

    ``offer``: with the candidates that meet the preference. ``wanted``: the error that the analyst would like.
    ``enough``: the smallest ε that gives it. ``alarm``: a warning that the query singles people out. ``looser``: the
    preference is looser than the controller's own threshold (``OwnThreshold``).
    """
    against = next(_speak_against(measured, offer, epsilon, wanted, enough, alarm), None)
    return DecisionSummary(
        lines=(
            _sum_up_risk(measured, offer, choice, epsilon),
            _sum_up_answer(measured, offer, epsilon, wanted),
            *([SummaryLine("Cost", Sign.BAD if cost.last else Sign.OPEN, " ".join(cost.chief))] if cost.aside else []),
        ),
        advice=_speak_for(measured, offer, choice, looser=looser) if against is None else against,
        against=against is not None,
    )


# ---------------------------------------------------------------- a line each


def _sum_up_risk(measured: MeasuredQuery, offer: Offer, choice: Choice, epsilon: float) -> SummaryLine:
    at = offer.largest if offer.testing else epsilon
    absolute = measured.risk.absolute(at, charge=at + float(offer.charges.epsilon_svt))
    guesses = word_more_guesses(absolute)
    if offer.testing:
        return SummaryLine("Risk", Sign.OPEN, f"at worst the test finds ε = {format_epsilon(at)}. {guesses}")
    if is_undecided(choice):
        return SummaryLine("Risk", Sign.OPEN, f"every ε meets the preference. {guesses}")
    if epsilon in (offer.meeting or ()):
        return SummaryLine("Risk", Sign.GOOD, f"meets the preference. {guesses}")
    return SummaryLine("Risk", Sign.BAD, f"does not meet the preference. {guesses}")


def _sum_up_answer(measured: MeasuredQuery, offer: Offer, epsilon: float, wanted: float | None) -> SummaryLine:
    advice, ranks = measured.advise(epsilon), warn_of_ranks(measured, measured.candidate(epsilon))
    errors = word_errors(advice.columns, advice.at.accuracy, most=MOST_ERRORS)
    told = f"at ε = {format_epsilon(epsilon)} {errors}." if offer.testing else f"{errors}."
    if ranks:
        return SummaryLine("Answer", Sign.BAD, f"{told} {ranks}")
    if advice.at.accuracy.is_mostly_noise:
        return SummaryLine("Answer", Sign.BAD, f"worth little: {told}")
    if wanted is not None and not _gives(advice.at.accuracy, wanted):
        return SummaryLine("Answer", Sign.BAD, f"{told} ± {format_number(wanted, 4)} is wanted.")
    return SummaryLine("Answer", Sign.GOOD if measured.risk.matched else Sign.BAD, told)


def _gives(accuracy: AnswerAccuracy, wanted: float) -> bool:
    """Return whether the typical error of every column is known, is not in rows, and is at most ``wanted``."""
    errors = [accuracy.usual(at) for at, (_, in_rows) in enumerate(accuracy.errors) if not in_rows]
    return len(errors) == len(accuracy.errors) and all(
        error is not None and error <= wanted * (1.0 + 1e-12) for error in errors
    )


# ---------------------------------------------------------------- what they speak for


def _speak_against(
    measured: MeasuredQuery, offer: Offer, epsilon: float, wanted: float | None, enough: float | None, alarm: str
) -> Iterator[str]:
    """Yield what speaks against approving at this ε, the gravest first, with what would help."""
    if alarm:
        yield "It singles people out. Deny it, or ask for changes."
    if measured.risk.matched == 0:
        yield "Nobody is in it: the answer would be noise. Deny it, or ask for changes."
    if offer.testing:  # nobody chooses the ε that the test will find
        return
    if is_worth_little(measured, epsilon):
        yield " ".join(_find_help(measured, offer, epsilon))
    if wanted is not None and not _gives(measured.advise(epsilon).at.accuracy, wanted):
        yield _word_wanted(offer, wanted, enough)


def _find_help(measured: MeasuredQuery, offer: Offer, epsilon: float) -> Iterator[str]:
    """Yield sentences on what would help an answer that ``is_worth_little`` at this ε: fewer groups, or a larger ε.

    If nothing would help, or only an ε that may not be approved, the sentence says so.
    """
    better = _find_better(measured, offer, epsilon)
    coarser = measured.advise(epsilon).coarser
    if coarser is not None:
        than = " than its error" if coarser.numbers == 1 else ""
        told = word_drowned(coarser.drowned, coarser.numbers, "would be")
        yield f"Ask for changes: without {join_names(coarser.dropped)}, {told}{than}."
    if better is not None and offer.refuse(better) is None:
        take = "Take" if coarser is None else "Or take"
        yield f"{take} ε = {format_epsilon(better)}, where it is worth something."
    elif better is not None and coarser is None:
        yield (
            f"It is worth something from ε = {format_epsilon(better)} on, and the preference allows "
            f"{_word_most(offer)}. Ask for changes, or deny."
        )
    elif coarser is None:
        yield "It is worth little at every ε that the account still allows. Ask for changes, or deny."


def _find_better(measured: MeasuredQuery, offer: Offer, epsilon: float) -> float | None:
    """Return the smallest ε above this one that the account grants and at which the answer is useful.

    Useful means that it is not worth little (``is_worth_little``). None if there is no such ε.
    """
    larger = sorted(each for each in offer.remaining if each > epsilon)
    return next((each for each in larger if not is_worth_little(measured, each)), None)


def _word_most(offer: Offer) -> str:
    return "none" if offer.found is None else f"{format_epsilon(offer.found)} at most"


def _word_wanted(offer: Offer, wanted: float, enough: float | None) -> str:
    """Say which ε gives the error that the analyst wants, or why none does."""
    asked, whether = f"± {format_number(wanted, 4)} is wanted", "Ask whether a larger error would do."
    if enough is None:
        return f"{asked}, and no ε gives it. {whether}"
    takes = f"{asked}, which takes ε = {format_epsilon(enough)}"
    if offer.refuse(enough) is None:
        return f"{takes}."
    if enough not in offer.remaining:
        return f"{takes}; the account does not allow it. {whether}"
    return f"{takes}; the preference allows {_word_most(offer)}. {whether}"


def _speak_for(measured: MeasuredQuery, offer: Offer, choice: Choice, *, looser: bool) -> str:
    """Say what the controller still has to judge where nothing speaks against approving."""
    touched, smallest = measured.risk.matched, measured.smallest_group
    if touched is not None and touched < FEW:
        return f"It is about {format_people(touched)} alone. Approve only if the purpose needs just them."
    if smallest is not None and smallest < FEW:
        return f"One of its groups is {format_people(smallest)}. Approve only if the purpose needs such a group."
    if offer.testing:
        return "The noisy test finds ε. Judge the purpose."
    if is_undecided(choice):
        return "The preference decides nothing here. Judge by the guesses above, and by the purpose."
    if looser:
        return "The preference is looser than your own threshold. Approve only if the purpose is worth it."
    return "Nothing here speaks against it. Judge the purpose."
