"""What a controller reads before an approval is confirmed: the decision in short, and everything that warns against it.

Takes a Case, an Offer, the ε and the preference; gives a Confirmation. Starts no measurement: where nobody looked, it
says only what query and schema decide.
"""

from __future__ import annotations

from dataclasses import dataclass

from dosimeter.findings import CAUTIONS, Finding, Summary, Verdict, pick, summarize, word, word_all
from dosimeter.findings import on_people as people
from dosimeter.risk import SAFE_ADVANTAGE, Preference
from dosimeter.web.decision.budget import CostView
from dosimeter.web.decision.case import Case, needs_consent
from dosimeter.web.decision.measured import find_measured
from dosimeter.web.decision.offer import Offer
from dosimeter.web.decision.page import describe_touched, find_own_threshold
from dosimeter.web.decision.proposal import find_for_approval, find_looser
from dosimeter.web.decision.undeclared import view_groups
from dosimeter.web.decision.unseen import word_suspicion, word_unseen_gain
from dosimeter.web.state import ServerState
from dosimeter.web.store import User

APPROVE_REASONS = (
    "Meets the preference, and is exact enough for the purpose.",
    "Of little risk, and a rough answer is enough.",
    "The purpose is worth the risk.",
)
UNSEEN_REASONS = (
    "The purpose needs this accuracy, and the account can spare it.",
    "The purpose is worth the risk.",
)
REPEAT_REASONS = (
    "The same question: the earlier answer is as good, and costs nothing.",
    "The purpose is worth an answer that is already out.",
)
DENY_REASONS = (
    "The answer would be worth little.",
    "It is about too few people.",
    "It singles people out.",
    "The purpose is not worth the risk.",
    "The budget is kept for other questions.",
)


@dataclass(frozen=True, slots=True, repr=False)
class Confirmation:
    """What a controller reads before confirming an approval.

    ``risk``: what an attacker could learn at most; "" where the noise promises no such limit. ``touches``: how many
    people the query touches, in words. ``words``: which thresholded groups would be shown or, while the risk is not
    known, which errors the answer would have. ``findings``: what speaks for and against approving. All but ``risk`` and
    ``words`` are empty if nobody looked at the risk, or if it is not measured yet. If only the preference is not
    evaluated, ``touches`` is given too.
    """

    risk: str
    words: str
    touches: str = ""
    findings: tuple[Finding, ...] | None = None

    @property
    def summary(self) -> Summary | None:
        """Return the decision in short: the same as on the page."""
        return None if self.findings is None else summarize(self.findings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warnings of the page, but the one that is on top of this page already."""
        return word_all(each for each in pick(self.findings or (), CAUTIONS) if not isinstance(each, people.SinglesOut))

    @property
    def looser(self) -> str:
        """Return a warning that the preference is looser than the controller's own threshold; "" if it is not."""
        return " ".join(word_all(pick(self.findings or (), (people.LooserThanOwn,))))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return usual reasons to approve, of which those that the summary contradicts are left out."""
        if self.findings is None or self.summary is None:
            return UNSEEN_REASONS
        risk, answer, *_ = (line.verdict for line in self.summary.lines)
        guesses = [each.advantage for each in self.findings if isinstance(each, people.RightGuesses)]
        cautious = all(advantage <= SAFE_ADVANTAGE * (1.0 + 1e-12) for advantage in guesses)
        good = risk is Verdict.FOR and self.summary.verdict is not Verdict.AGAINST
        exact, rough, worth = APPROVE_REASONS
        fit = [exact] if good and answer is Verdict.FOR else []
        little = [rough] if good and answer is Verdict.OPEN and cautious else []
        return (*fit, *little, worth)


def describe_confirmation(
    state: ServerState,
    case: Case,
    user: User,
    offer: Offer,
    cost: CostView,
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
    own = find_own_threshold(state, case, user, measured)
    offered = offer.prefer(choice)
    found = find_for_approval(measured, offered, at, cost.findings, wanted=case.query.wanted_error, own=own)
    return Confirmation(risk, words, describe_touched(measured), found)


def word_looser(state: ServerState, case: Case, user: User, offer: Offer, preference: Preference) -> str:
    """Say that a preference is looser than the controller's own threshold (``OwnThreshold``); "" if it is not.

    Also "" if the risk is not measured, or the preference is not evaluated.
    """
    job = find_measured(case.served.worker, case.query.id)
    choice = None if job is None or job.state != "done" else job.result.recall(preference)
    if job is None or choice is None:
        return ""
    own = find_own_threshold(state, case, user, job.result)
    found = find_looser(offer.prefer(choice), own)
    return "" if found is None else word(found)
