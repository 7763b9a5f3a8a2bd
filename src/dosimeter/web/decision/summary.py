"""The decision in short: risk, answer and cost at one ε, a line each, and what they speak for. For controllers only.

Takes a MeasuredQuery, an Offer, the Choice made by a preference and an ε; gives a DecisionSummary. It only advises:
which ε may be approved is decided in ``offer``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from dosimeter.risk import SAFE_ADVANTAGE, AnswerAccuracy, Choice, parse_preference
from dosimeter.show import (
    format_epsilon,
    format_number,
    format_people,
    join_names,
    word_drowned,
    word_errors,
    word_more_guesses,
)
from dosimeter.web.decision.accuracy import list_columns
from dosimeter.web.decision.costs import CostWords
from dosimeter.web.decision.measured import MeasuredQuery
from dosimeter.web.decision.offer import Offer
from dosimeter.web.decision.words import (
    FEW,
    MOST_ERRORS,
    is_allowed_without_groups,
    is_undecided,
    is_worth_little,
    warn_of_ranks,
)

EXACT = 0.2
"""The relative error of a typical number up to which an answer counts as exact, where no accuracy is wanted."""


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
    """The decision in short. ``lines``: risk, answer and, if the account grants it, cost.

    ``advice``: what the lines speak for, in a sentence or two. ``cautious``: whether nobody's membership advantage
    exceeds 0.25. ``against``: whether the advice is to ask for changes or to deny, rather than to approve.
    """

    lines: tuple[SummaryLine, ...]
    advice: str
    against: bool
    cautious: bool


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

    With the noisy test, the answer is judged at the ε that it would find without noise. ``offer``: with the candidates
    that meet the preference. ``wanted``: the error that the analyst would like. ``enough``: the smallest ε that gives
    it. ``alarm``: a warning that the query singles people out. ``looser``: the preference is looser than the
    controller's own threshold (``OwnThreshold``).
    """
    at = (offer.found or offer.largest) if offer.testing else epsilon
    answer = _sum_up_answer(measured, offer, at, wanted)
    against = next(_speak_against(measured, offer, choice, at, wanted, enough, alarm=alarm), None)
    last = _LAST[offer.testing] if cost.last and cost.aside else ""
    advice = _speak_for(offer, choice, answer, last, looser=looser) if against is None else f"{against} {last}".strip()
    risk = measured.risk.absolute(offer.largest if offer.testing else epsilon)
    return DecisionSummary(
        lines=(
            _sum_up_risk(measured, offer, choice, at),
            answer,
            *([SummaryLine("Cost", Sign.BAD if cost.last else Sign.OPEN, " ".join(cost.chief))] if cost.aside else []),
        ),
        advice=advice,
        against=against is not None,
        cautious=risk.advantage <= SAFE_ADVANTAGE * (1.0 + 1e-12),
    )


_LAST = {False: "It takes all that the account has left.", True: "It may take all that the account has left."}


# ---------------------------------------------------------------- a line each


def _sum_up_risk(measured: MeasuredQuery, offer: Offer, choice: Choice, epsilon: float) -> SummaryLine:
    at = offer.largest if offer.testing else epsilon
    absolute = measured.risk.absolute(at, charge=at + float(offer.charges.epsilon_svt))
    guesses = word_more_guesses(absolute)
    if offer.testing:
        whole = format_number(at + float(offer.charges.epsilon_svt), 6)
        found = f"at worst the test finds ε = {format_epsilon(at)}, and {whole} is spent with the test"
        return SummaryLine("Risk", Sign.OPEN, f"{found}. {guesses}")
    if is_undecided(choice):
        return SummaryLine("Risk", Sign.OPEN, f"every ε meets the preference. {guesses}")
    if not _limits_risk(choice):
        return SummaryLine("Risk", Sign.OPEN, f"the preference does not limit it. {guesses}")
    if epsilon in (offer.meeting or ()):
        return SummaryLine("Risk", Sign.GOOD, f"meets the preference. {guesses}")
    if _lacks_accuracy(measured, offer, choice, epsilon):
        rows = " An error in rows has no relative error, so no ε meets it." if measured.risk.plan.only_ranks else ""
        return SummaryLine("Risk", Sign.OPEN, f"the preference fails by accuracy, not by risk.{rows} {guesses}")
    return SummaryLine("Risk", Sign.BAD, f"does not meet the preference. {guesses}")


def _limits_risk(choice: Choice) -> bool:
    """Return whether the preference is about people at all, and not about errors alone."""
    preference = parse_preference(choice.preference)
    return preference.about_rdr or bool(preference.measured & {"own_epsilon", "advantage"})


def _lacks_accuracy(measured: MeasuredQuery, offer: Offer, choice: Choice, epsilon: float) -> bool:
    """Return whether an ε fails a preference only by conditions on errors: it meets the others, or larger ones all."""
    preference = parse_preference(choice.preference)
    people = preference.without_errors()
    if not preference.about_errors or people is None:
        return False
    if offer.meeting and epsilon < min(offer.meeting):
        return True
    found = measured.recall(people)
    return found is not None and any(line.satisfied for line in found.candidates if line.epsilon == epsilon)


def _sum_up_answer(measured: MeasuredQuery, offer: Offer, epsilon: float, wanted: float | None) -> SummaryLine:
    advice, ranks = measured.advise(epsilon), warn_of_ranks(measured, measured.candidate(epsilon))
    share = _find_share(measured, epsilon)
    errors = word_errors(advice.columns, advice.at.accuracy, most=MOST_ERRORS)
    told = f"if it finds ε = {format_epsilon(epsilon)}, {errors}" if offer.testing else errors
    if share is not None and advice.at.accuracy.numbers:
        told += f"; {_word_share(measured, share)}"
    if ranks:
        return SummaryLine("Answer", Sign.BAD, f"{told}. {ranks}")
    if wanted is not None and _gives(advice.at.accuracy, wanted):
        drowned = advice.at.accuracy.is_mostly_noise
        return SummaryLine("Answer", Sign.OPEN if drowned else Sign.GOOD, f"as exact as asked: {told}.")
    if advice.at.accuracy.is_mostly_noise:
        return SummaryLine("Answer", Sign.BAD, f"worth little: {told}.")
    if wanted is not None:
        return SummaryLine("Answer", Sign.BAD, f"{told}. ± {format_number(wanted, 4)} is wanted.")
    if not measured.risk.matched:
        return SummaryLine("Answer", Sign.BAD, f"{told}.")
    whole = not advice.at.accuracy.drowned and not advice.at.accuracy.too_few
    good = whole and share is not None and share <= EXACT
    return SummaryLine("Answer", Sign.GOOD if good else Sign.OPEN, f"{told}.")


def _find_share(measured: MeasuredQuery, epsilon: float) -> float | None:
    """Return the relative error of a typical number, in the column where it is largest; None if none can be told.

    Where a column is drawn by rank: by which share of the people in an average group the rank may be off.
    """
    line = measured.candidate(epsilon)
    shares = []
    for (error, in_rows), foreseen, name in zip(
        line.errors, measured.accuracies[epsilon], list_columns(measured), strict=True
    ):
        typical = error if in_rows or foreseen.typical is None else foreseen.typical
        if typical is None:
            continue
        if in_rows and measured.risk.matched:
            shares.append(typical * max(1, len(measured.groups)) / measured.risk.matched)
        elif not in_rows and foreseen.relative is not None:
            shares.append(foreseen.relative)
        elif not in_rows and measured.sizes[name] > 0.0:
            shares.append(typical / measured.sizes[name])
    return max(shares, default=None)


def _word_share(measured: MeasuredQuery, share: float) -> str:
    """Say what the relative error is: of the only number, or of a typical one."""
    percent = f"{format_number(100.0 * share, 2)} %"
    if not measured.risk.plan.groups and not measured.risk.plan.further:
        return f"the error is {percent} of it"
    return f"a typical one is off by up to {percent}"


def _gives(accuracy: AnswerAccuracy, wanted: float) -> bool:
    """Return whether the typical error of every column is known, is not in rows, and is at most ``wanted``."""
    errors = [accuracy.usual(at) for at, (_, in_rows) in enumerate(accuracy.errors) if not in_rows]
    return len(errors) == len(accuracy.errors) and all(
        error is not None and error <= wanted * (1.0 + 1e-12) for error in errors
    )


# ---------------------------------------------------------------- what they speak for


def _speak_against(
    measured: MeasuredQuery,
    offer: Offer,
    choice: Choice,
    epsilon: float,
    wanted: float | None,
    enough: float | None,
    *,
    alarm: str,
) -> Iterator[str]:
    """Yield what speaks against approving at this ε, the gravest first, with what would help."""
    touched, smallest = measured.risk.matched, measured.smallest_group
    gives = wanted is not None and _gives(measured.advise(epsilon).at.accuracy, wanted)
    if alarm:
        yield "It singles people out. Deny it, or ask for changes."
    if touched == 0:
        yield "Nobody is in it: the answer would be noise. Deny it, or ask for changes."
    if not offer.testing and not is_undecided(choice) and epsilon not in (offer.meeting or ()):  # a fixed ε may be so
        does = "no ε does" if offer.found is None else f"{format_epsilon(offer.found)} does"
        yield f"ε = {format_epsilon(epsilon)} does not meet the preference; {does}. Choose another, or ask for changes."
    if wanted is not None and not gives:
        yield _word_wanted(offer, wanted, enough)
    if is_worth_little(measured, epsilon) and not gives:
        yield _find_help(measured, offer, choice, epsilon)
    if touched is not None and touched < FEW:
        yield f"It is about {format_people(touched)}. Ask for changes, unless the purpose is worth exposing them."
    elif smallest is not None and smallest < FEW:
        who = "1 person" if smallest == 1 else f"{smallest} people"
        yield f"A group is {who}. Ask for larger groups, unless the purpose is worth exposing them."


def _find_help(measured: MeasuredQuery, offer: Offer, choice: Choice, epsilon: float) -> str:
    """Say what would help an answer that ``is_worth_little`` at this ε: a larger ε that is allowed, or fewer groups.

    A larger ε is said to be allowed only if it meets the preference and no group is of a few people. A query with fewer
    groups is named only if the preference would allow it this ε too (R11).
    """
    better = _find_better(measured, offer, epsilon)
    coarser = measured.advise(epsilon).coarser
    small = measured.smallest_group is not None and measured.smallest_group < FEW
    few = small or (measured.risk.matched or 0) < FEW
    if better is not None and better in (offer.meeting or ()) and offer.refuse(better) is None and not few:
        return f"It is worth something from ε = {format_epsilon(better)} on, which the preference allows."
    if coarser is not None and is_allowed_without_groups(measured, choice, epsilon):
        than = " than its error" if coarser.numbers == 1 else ""
        told = word_drowned(coarser.drowned, coarser.numbers, "would be")
        return f"Ask for changes: without {join_names(coarser.dropped)}, {told}{than}."
    if better is None:
        return "It is worth little at every ε that the account still allows. Ask for changes, or deny."
    if better in (offer.meeting or ()):
        return f"It is worth something only from ε = {format_epsilon(better)} on. Ask for changes, or deny."
    return (
        f"It is worth something from ε = {format_epsilon(better)} on, and the preference allows {_word_most(offer)}. "
        "Ask for changes, or deny."
    )


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
    if enough not in offer.remaining:
        return f"{takes}; the account does not allow it. {whether}"
    if enough in (offer.meeting or ()):
        return f"{takes}."
    return f"{takes}; the preference allows {_word_most(offer)}. {whether}"


def _speak_for(offer: Offer, choice: Choice, answer: SummaryLine, last: str, *, looser: bool) -> str:
    """Say what the controller still has to judge where nothing speaks against approving.

    ``last``: that it takes the rest of the account; "" if it does not.
    """
    rough = answer.sign is not Sign.GOOD
    judge = "Judge whether so rough an answer is enough for the purpose." if rough else "Judge the purpose."
    if offer.testing:
        told = "The noisy test finds ε."
    elif is_undecided(choice) or not _limits_risk(choice):
        told = "The preference decides nothing about risk here: look at the guesses above."
    elif looser:
        told = "The preference is looser than your own threshold."
    else:
        told = "" if last else "Nothing here speaks against it."
    return " ".join(part for part in (told, last, judge) if part)
