"""What a controller reads before an approval is confirmed: the decision in short, and everything that warns against it.

Takes a Case, the ε and the preference; gives a Confirmation. Starts no measurement: where nobody looked, it
says only what query and schema decide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from dosimeter.findings import Finding, Summary, Verdict, pick, summarize, word_all
from dosimeter.findings import on_people as people
from dosimeter.risk import SAFE_LIMIT, Preference, parse_preference
from dosimeter.schema import Words
from dosimeter.web.decision.approve import Approval
from dosimeter.web.decision.budget import CostView, view_cost
from dosimeter.web.decision.case import Case, needs_consent
from dosimeter.web.decision.form import word_condition
from dosimeter.web.decision.measured import MeasuredQuery, recall_measured
from dosimeter.web.decision.offer import Offer, make_offer
from dosimeter.web.decision.page import find_own_threshold
from dosimeter.web.decision.proposal import find_for_approval, find_looser, list_cautions
from dosimeter.web.decision.undeclared import describe_shown
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


@dataclass(frozen=True, repr=False)
class Confirmation:
    """What a controller reads before confirming an approval.

    ``epsilon``: the ε to approve; None where the noisy test will find it. ``preference``: the one that the page showed;
    None if nobody looked. ``measured``: None if nobody looked at the risk, or while it is not measured. ``findings``:
    what speaks for and against approving; None also while the preference is not evaluated.
    """

    case: Case
    offer: Offer
    epsilon: float | None
    preference: Preference | None
    measured: MeasuredQuery | None = None
    findings: tuple[Finding, ...] | None = None

    @property
    def at(self) -> float:
        """Return the ε to approve; with the noisy test, the largest that it can find."""
        return self.offer.largest if self.epsilon is None else self.epsilon

    @cached_property
    def cost(self) -> CostView:
        """Return what the approval costs."""
        return view_cost(self.offer, self.at)

    @property
    def called(self) -> Words:
        """Return what rows and people are called."""
        return self.case.prepared.plan.words

    @property
    def told(self) -> str:
        """Return what the preference asks for, in words; "" if there are none for it."""
        return "" if self.preference is None else word_condition(self.preference)

    @property
    def risk(self) -> str:
        """Return what an attacker could learn at most; "" where the noise promises no such limit."""
        return word_suspicion(self.offer, self.case.prepared, self.epsilon)

    @property
    def words(self) -> str:
        """Return which thresholded groups would be shown; while the risk is not known, which errors there would be."""
        if self.measured is not None:
            return " ".join(describe_shown(self.measured, self.at))
        return "" if self.epsilon is None else word_unseen_gain(self.offer, self.case.prepared, self.epsilon)

    @cached_property
    def summary(self) -> Summary | None:
        """Return the decision in short: the same as on the page."""
        return None if self.findings is None else summarize(self.findings, self.called)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warnings of the page, but the one that is on top of this page already."""
        findings, summary = self.findings or (), self.summary
        found = [] if summary is None else list_cautions(findings, f"{summary.told} {summary.advice}", self.called)
        return word_all((each for each in found if not isinstance(each, people.SinglesOut)), self.called)

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
        cautious = all(advantage <= SAFE_LIMIT for advantage in guesses)
        meets = any(isinstance(each, people.MeetsPreference) for each in self.findings)
        good = meets and Verdict.AGAINST not in (risk, self.summary.verdict)
        exact, rough, worth = APPROVE_REASONS
        fit = [exact] if good and answer is Verdict.FOR else []
        little = [rough] if good and answer is Verdict.OPEN and cautious else []
        return (*fit, *little, worth)


def describe_confirmation(
    state: ServerState, case: Case, user: User, epsilon: float | None, preference: Preference | None
) -> Confirmation:
    """Say what approving at this ε would give and cost, and what warns against it.

    ``epsilon``: None where the noisy test will find it. ``preference``: the one that the page showed; None if nobody
    looked.
    """
    found = Confirmation(case, make_offer(state, case.served, case.prepared), epsilon, preference)
    measured = None if needs_consent(case) or preference is None else recall_measured(case.served.worker, case.query.id)
    if measured is None or preference is None:
        return found
    choice = measured.recall(preference)
    if choice is None:  # its evaluation was forgotten meanwhile
        return replace(found, measured=measured)
    own, offer = find_own_threshold(state, case, user, measured), found.offer.prefer(choice)
    wanted = case.query.wanted_error
    findings = find_for_approval(measured, offer, found.at, found.cost.findings, wanted=wanted, own=own)
    return replace(found, measured=measured, findings=findings)


def is_looser(state: ServerState, case: Case, user: User, approval: Approval) -> bool:
    """Return whether an approval's preference is looser than the controller's own threshold (``find_own_threshold``).

    False also if it has none, if the risk is not measured, or the preference is not evaluated.
    """
    measured = recall_measured(case.served.worker, case.query.id)
    if measured is None or approval.preference is None:
        return False
    choice = measured.recall(parse_preference(approval.preference))
    if choice is None:
        return False
    offer = make_offer(state, case.served, case.prepared).prefer(choice)
    return find_looser(offer, find_own_threshold(state, case, user, measured)) is not None
