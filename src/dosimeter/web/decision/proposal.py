"""What speaks for and against approving one ε, as one list of findings. For controllers only.

Takes a MeasuredQuery, an Offer, and the Choice made by a preference; gives findings. The page, the slider and the
confirmation show filters of this list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dosimeter.findings import (
    CAUTIONS,
    BeyondStandard,
    Choice,
    Finding,
    LooserThanOwn,
    Proposal,
    find_for_proposal,
    pick,
    word,
)
from dosimeter.findings import on_people as people
from dosimeter.release import find_refusal
from dosimeter.risk import PRESETS
from dosimeter.schema import Words
from dosimeter.web.decision.form import find_preset
from dosimeter.web.decision.measured import MeasuredQuery
from dosimeter.web.decision.offer import Offer
from dosimeter.web.store import OWN

UNDECIDED = (people.DecidesNothing, people.NobodyMoves)
ASIDE = (*UNDECIDED, people.AllowedByGroups)
"""Warnings that are remarks where they are no cautions."""


def find_for_approval(
    measured: MeasuredQuery,
    offer: Offer,
    epsilon: float,
    costs: Iterable[Finding],
    *,
    wanted: float | None = None,
    own: Choice | None = None,
) -> tuple[Finding, ...]:
    """Return everything that is worth saying about approving at this ε, the gravest first.

    With the noisy test, the answer is judged at the ε that it would find without noise. ``offer``: with the choice that
    the preference made. ``costs``: what the approval costs. ``wanted``: the error that the analyst would like. ``own``:
    the controller's own standard, to warn of a preference that is looser.
    """
    choice = offer.choice
    assert choice is not None
    at, test, worst = epsilon, None, offer.largest
    if offer.testing:
        at = offer.found or worst
        test = people.TestAtWorst(worst, worst + float(offer.charges.epsilon_svt), offer.found)
    proposal = Proposal(
        risk=measured.risk,
        choice=replace(choice, epsilon=offer.found),
        at=at,
        remaining=offer.remaining,
        refusal=None if offer.found is not None else find_refusal(offer.charges, choice.meeting),
        here=measured.find_at(at),
        accuracies=measured.answers,
        hidden=offer.algorithm == "find",
        test=test,
        wanted=wanted,
        looser=find_looser(offer, own),
        beyond=None if test is None else _find_beyond(offer, own),
    )
    return find_for_proposal(proposal, costs)


def _find_beyond(offer: Offer, own: Choice | None) -> BeyondStandard | None:
    """Return that the ε that the noisy test likely finds is above what the controller's own standard allows.

    How exact an answer has to be by that standard does not count: less ε would not make it more exact.
    """
    if own is None or offer.found is None:
        return None
    allowed = max((each for each in own.meeting_people or own.meeting if each in offer.remaining), default=None)
    if allowed is not None and offer.found <= allowed:
        return None
    return BeyondStandard(own.preference.preset or OWN, allowed)


def list_cautions(findings: Iterable[Finding], said: str, called: Words) -> list[Finding]:
    """Return what a controller must read first, but for what the verdict says already (``said``).

    That the preference decides nothing is said by the line on risk; what the largest candidate would do is a remark. So
    is what larger ε's are allowed by, everywhere with the noisy test, whose ε nobody chooses.
    """
    findings = tuple(findings)
    testing = any(isinstance(each, people.TestAtWorst) for each in findings)

    def is_told(found: Finding) -> bool:
        if isinstance(found, people.SinglesOut):
            return False
        if isinstance(found, people.AllowedByGroups):
            return testing or isinstance(found, people.AllowedEitherWay)
        return isinstance(found, UNDECIDED) or word(found, called) in said

    return [found for found in pick(findings, CAUTIONS) if not is_told(found)]


def find_looser(offer: Offer, own: Choice | None) -> LooserThanOwn | None:
    """Return that the preference is looser than the controller's own standard (``own``); None if it is not.

    A ratio is compared with a ratio by its percentage, a preset with a preset by its place among them; a ratio and a
    preset have different scales, and are not compared. Any other condition, which may come from a link that somebody
    else wrote, is looser if it allows a larger ε. What the noisy test looks for is not the controller's, and is not
    compared (``_find_beyond``). ``offer``: with the choice that the preference made.
    """
    preference = None if offer.choice is None else offer.choice.preference
    if own is None or offer.testing or preference is None or preference.text == own.preference.text:
        return None
    theirs, name, ordered = own.preference, find_preset(preference), list(PRESETS)
    allowed, by_ratio = own.find_granted(offer.remaining), preference.kind == "ratio"
    if by_ratio and theirs.kind == "ratio":
        looser = (preference.threshold or 0.0) < (theirs.threshold or 0.0)
    elif name is not None and theirs.preset is not None:
        looser = ordered.index(name) > ordered.index(theirs.preset)
    else:
        looser = not by_ratio and name is None and (offer.found or 0.0) > (allowed or 0.0)
    return LooserThanOwn(theirs.threshold, theirs.preset or OWN, allowed) if looser else None
