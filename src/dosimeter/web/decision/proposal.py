"""What speaks for and against approving one ε, as one list of findings. For controllers only.

Takes a MeasuredQuery, an Offer, and the Choice made by a preference; gives findings. The page, the slider and the
confirmation show filters of this list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dosimeter.findings import (
    Choice,
    Finding,
    LooserThanOwn,
    Proposal,
    find_for_proposal,
)
from dosimeter.release import find_refusal
from dosimeter.web.decision.measured import MeasuredQuery
from dosimeter.web.decision.offer import Offer


@dataclass(frozen=True, slots=True)
class OwnThreshold:
    """The controller's own threshold: by their settings, least ÷ most exposed should be at least ``percent`` %.

    ``choice``: this condition, evaluated at every candidate.
    """

    percent: float
    choice: Choice


def find_for_approval(
    measured: MeasuredQuery,
    offer: Offer,
    epsilon: float,
    costs: Iterable[Finding],
    *,
    wanted: float | None = None,
    own: OwnThreshold | None = None,
) -> tuple[Finding, ...]:
    """Return everything that is worth saying about approving at this ε, the gravest first.

    With the noisy test, the answer is judged at the ε that it would find without noise. ``offer``: with the choice that
    the preference made. ``costs``: what the approval costs. ``wanted``: the error that the analyst would like. ``own``:
    the controller's own threshold, to warn of a preference that is looser.
    """
    choice = offer.choice
    assert choice is not None
    at = (offer.found or offer.largest) if offer.testing else epsilon
    preference = choice.preference
    people = preference.without_errors() if preference.about_errors else None
    by_people = None if people is None else measured.recall(people)
    proposal = Proposal(
        risk=measured.risk,
        choice=replace(choice, epsilon=offer.found),
        at=at,
        worst=offer.largest if offer.testing else epsilon,
        remaining=offer.remaining,
        testing=offer.testing,
        epsilon_svt=float(offer.charges.epsilon_svt),
        hidden=offer.algorithm == "find",
        wanted=wanted,
        looser=find_looser(offer, own),
        refusal=None if offer.found is not None else find_refusal(offer.charges, choice.meeting),
        smallest=measured.smallest_group,
        meets_people=by_people is not None and any(c.satisfied for c in by_people.candidates if c.epsilon == at),
        here=measured.find_at(at),
        accuracies=measured.answers,
    )
    return find_for_proposal(proposal, costs)


def find_looser(offer: Offer, own: OwnThreshold | None) -> LooserThanOwn | None:
    """Return that the preference is looser than the controller's own threshold (``own``); None if it is not.

    It is looser if it is a ratio with a smaller percentage, or if it allows a larger ε. ``offer``: with the
    choice that the preference made. Such a preference may come from a link that somebody else wrote.
    """
    preference = None if offer.choice is None else offer.choice.preference
    if own is None or preference is None or preference.text == own.choice.preference.text:
        return None
    allowed = offer.prefer(own.choice).found
    looser = preference.kind == "ratio" and (preference.threshold or 0.0) < own.percent / 100
    if not looser and (offer.found or 0.0) <= (allowed or 0.0):
        return None
    return LooserThanOwn(own.percent, allowed)
