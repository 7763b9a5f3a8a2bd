"""What a controller reads before an approval is confirmed: the decision in short, and everything that warns against it.

Takes a Case, an Offer, the ε and the preference; gives a Confirmation. Starts no measurement: where nobody looked, it
says only what query and schema decide.
"""

from __future__ import annotations

from dataclasses import dataclass

from dosimeter.risk import Choice, Preference
from dosimeter.web.decision.accuracy import find_enough
from dosimeter.web.decision.case import Case, needs_consent
from dosimeter.web.decision.costs import CostWords, word_suspicion, word_unseen_gain
from dosimeter.web.decision.measured import MeasuredQuery, find_measured
from dosimeter.web.decision.offer import Offer
from dosimeter.web.decision.page import describe_touched, find_own_threshold
from dosimeter.web.decision.summary import DecisionSummary, Sign, summarize
from dosimeter.web.decision.undeclared import view_groups
from dosimeter.web.decision.words import APPROVE_REASONS, UNSEEN_REASONS, compare_thresholds, list_cautions
from dosimeter.web.question import describe_question
from dosimeter.web.state import ServerState
from dosimeter.web.store import User


@dataclass(frozen=True, slots=True, repr=False)
class Confirmation:
    """What a controller reads before confirming an approval.

    ``risk``: what an attacker could learn at most; "" where the noise promises no such limit. ``touches``: how many
    people the query touches, in words. ``words``: which thresholded groups would be shown or, while the risk is not
    known, which errors the answer would have. ``summary``: the decision in short. ``warnings``: what speaks against
    approving. ``looser``: a warning that the preference is looser than the controller's own threshold
    (``OwnThreshold``); "" if it is not. All but ``risk`` and ``words`` are empty if nobody looked at the risk, or if it
    is not measured yet. If only the preference is not evaluated, ``touches`` is given too.
    """

    risk: str
    words: str
    touches: str = ""
    summary: DecisionSummary | None = None
    warnings: tuple[str, ...] = ()
    looser: str = ""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return usual reasons to approve, of which those that the summary contradicts are left out."""
        if self.summary is None:
            return UNSEEN_REASONS
        risk, answer, *_ = (line.sign for line in self.summary.lines)
        exact, rough, worth = APPROVE_REASONS
        fit = [exact] if risk is Sign.GOOD and answer is Sign.GOOD and not self.summary.against else []
        little = self.summary.cautious and not self.summary.against and risk is Sign.GOOD and answer is Sign.OPEN
        return (*fit, *([rough] if little else []), worth)


def describe_confirmation(
    state: ServerState,
    case: Case,
    user: User,
    offer: Offer,
    cost: CostWords,
    epsilon: float | None,
    preference: Preference | None,
) -> Confirmation:
    """Say what approving at this ε would give and cost, and what warns against it.

    ``epsilon``: None where the noisy test will find it. ``preference``: the one that the page showed; None if nobody
    looked.
    """
    risk = word_suspicion(offer, case.prepared, epsilon)
    job = find_measured(case.served.worker, case.query.id)
    if needs_consent(case) or preference is None or job is None or job.state != "done":
        return Confirmation(risk, "" if epsilon is None else word_unseen_gain(offer, case.prepared, epsilon))
    at, measured = offer.largest if epsilon is None else epsilon, job.result
    shown = view_groups(measured, at)
    words = "" if shown is None else " ".join(shown.sentences)
    choice = measured.recall(preference)
    if choice is None:  # its evaluation was forgotten meanwhile
        return Confirmation(risk, words, describe_touched(measured))
    looser = word_looser(state, case, user, offer, preference)
    summary = _sum_up(case, offer.prefer(choice), choice, measured, cost, at, looser=bool(looser))
    cautions = (caution.words for caution in list_cautions(measured, choice, ""))
    return Confirmation(risk, words, describe_touched(measured), summary, tuple(cautions), looser)


def word_looser(state: ServerState, case: Case, user: User, offer: Offer, preference: Preference) -> str:
    """Say that a preference is looser than the controller's own threshold (``OwnThreshold``); "" if it is not.

    Also "" if the risk is not measured, or the preference is not evaluated.
    """
    job = find_measured(case.served.worker, case.query.id)
    choice = None if job is None or job.state != "done" else job.result.recall(preference)
    if job is None or choice is None:
        return ""
    own = find_own_threshold(state, case, user, job.result)
    return " ".join(compare_thresholds(preference, offer.prefer(choice), own))


def _sum_up(
    case: Case,
    offer: Offer,
    choice: Choice,
    measured: MeasuredQuery,
    cost: CostWords,
    epsilon: float,
    *,
    looser: bool,
) -> DecisionSummary:
    wanted = case.query.wanted_error
    return summarize(
        measured,
        offer,
        choice,
        epsilon,
        cost,
        wanted=wanted,
        enough=find_enough(measured, wanted),
        alarm=describe_question(case.prepared).alarm,
        looser=looser,
    )
