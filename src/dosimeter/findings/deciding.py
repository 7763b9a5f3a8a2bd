"""Find what is worth saying where an ε is to be approved: also by the account, and by what the analyst wants.

Takes a Proposal; gives one list of findings, the gravest first. Everything that a page, a confirmation
or a document says of an approval is a filter of this list.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from dosimeter.findings import on_answer as answer
from dosimeter.findings import on_people as people
from dosimeter.findings.finding import Subject
from dosimeter.findings.looking import Assessed, find_absolute, find_aimed, find_few, find_given
from dosimeter.findings.on_left_out import NumbersFarOff, NumbersOff
from dosimeter.measures import Rank

if TYPE_CHECKING:
    from dosimeter.findings.choice import Choice
    from dosimeter.findings.finding import Finding
    from dosimeter.findings.on_account import AccountRefuses
    from dosimeter.planning import QueryPlan
    from dosimeter.risk import AnswerAccuracy, Candidate

EXACT = 0.2
"""The relative error of a typical number up to which an answer counts as exact, where no accuracy is wanted."""
_PEOPLE = Subject.PEOPLE
_UNDECIDED = (answer.AllMeet, people.DecidesNothing, people.Cautious)
MOST_ERRORS = 2
"""Errors that are written out; more columns are only counted."""


@dataclass(frozen=True, slots=True, repr=False)
class Proposal:
    """An ε that is to be approved, and all that bears on it.

    ``choice``: the preference evaluated at every candidate; its ε is the largest that meets it and that the account
    grants. ``at``: this ε or, with the noisy test, the one that it would find without noise. ``remaining``: the
    candidates that the account grants. ``refusal``: why the account grants none of the candidates that meet the
    preference; None if it grants one. ``here``: what is worth saying of ``at`` whatever the preference.
    ``accuracies``: how accurate the answer is, by ε. ``hidden``: ε is found from the data and hidden (algorithm 1).
    ``test``: the noisy test finds ε. ``wanted``: the error that the analyst would like; ``enough``: the smallest ε that
    gives it. ``looser``: the preference is looser than the controller's own standard. ``beyond``: the noisy test likely
    finds more than that standard allows. The last four are None where that is not so.
    """

    risk: Assessed
    choice: Choice
    at: float
    remaining: tuple[float, ...]
    refusal: AccountRefuses | None
    here: tuple[Finding, ...]
    accuracies: Mapping[float, AnswerAccuracy]
    hidden: bool = False
    test: people.TestAtWorst | None = None
    wanted: float | None = None
    looser: people.LooserThanOwn | None = None
    beyond: people.BeyondStandard | None = None

    @property
    def enough(self) -> float | None:
        """Return the smallest ε that gives the wanted error; None if there is none, or none is wanted."""
        return find_enough(self.accuracies, self.wanted)

    def line(self, epsilon: float) -> Candidate:
        return next(line for line in self.choice.candidates if line.epsilon == epsilon)


def find_for_proposal(asked: Proposal, costs: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return everything that is worth saying about this approval, the gravest first. ``costs``: what it costs."""
    return (
        *find_aimed(asked.risk.plan, asked.risk.matched),
        *_find_fit(asked),
        *_find_worth(asked),
        *find_few(asked.risk),
        *_weigh_given(asked),
        *costs,
    )


def _weigh_given(asked: Proposal) -> Iterator[Finding]:
    """Yield which ε the preference gives, or why none, as far as that bears on this ε.

    What groups allow is a remark if the noise that one person reaches allows this ε. That every candidate meets the
    preference is not told where all of them are cautious.
    """
    worst = asked.at if asked.test is None else asked.test.epsilon
    for each in find_given(asked.risk, asked.choice, asked.refusal):
        if isinstance(each, people.AllowedByGroups) and each.by_cell is not None and worst <= each.by_cell:
            yield people.AllowedEitherWay(each.epsilon, each.by_cell)
        elif not (asked.choice.is_cautious and isinstance(each, _UNDECIDED)):
            yield each


def _find_fit(asked: Proposal) -> Iterator[Finding]:
    """Yield whether the ε meets the preference, and whether that says anything about risk."""
    if asked.test is not None:
        yield asked.test
    elif asked.choice.undecided and not asked.choice.is_cautious:
        yield people.MetByAll()
    elif asked.at in asked.choice.meeting:
        limits = asked.choice.is_cautious or not asked.choice.unlimited
        yield people.MeetsPreference(asked.at) if limits else people.NoLimitOnRisk()
    elif _lacks_accuracy(asked):
        yield people.FailsByAccuracy(asked.at, asked.choice.epsilon)
    else:
        yield people.FailsPreference(asked.at, asked.choice.epsilon)
    if asked.hidden:
        yield people.FoundFromData()
    if asked.looser is not None:
        yield asked.looser
    if asked.beyond is not None:
        yield asked.beyond


def _lacks_accuracy(asked: Proposal) -> bool:
    """Return whether the ε fails the preference by its conditions on errors alone."""
    met, by_people = asked.choice.meeting, asked.choice.meeting_people
    return asked.at in by_people or bool(met and by_people and asked.at < min(met))


def _find_worth(asked: Proposal) -> Iterator[Finding]:
    """Yield how exact the answer is at this ε, what it is worth, and what an attacker could learn."""
    accuracy = asked.accuracies[asked.at]
    ranks = find_any_value(asked, asked.at)
    gives = asked.wanted is not None and accuracy.is_within(asked.wanted)
    if asked.wanted is not None and not gives:
        enough = asked.enough
        granted, meets = enough in asked.remaining, enough in asked.choice.meeting
        yield answer.NotAsExactAsAsked(asked.wanted, enough, granted, meets, asked.choice.epsilon)
    if ranks is not None:
        yield ranks
    alone = not asked.risk.plan.groups and not asked.risk.plan.is_united
    for found in asked.here:
        if isinstance(found, answer.Errors):
            yield answer.Errors(found.epsilon, found.columns, accuracy, accuracy.share, alone, MOST_ERRORS)
        elif isinstance(found, NumbersFarOff) and gives:
            yield NumbersOff(*(getattr(found, each.name) for each in fields(found)))
        elif gives and isinstance(found, (answer.WorthLittle, answer.WideBounds)):
            continue
        elif not (asked.test and found.about is _PEOPLE):
            yield found
    if asked.test is not None:
        yield from find_absolute(asked.risk.absolute(asked.test.epsilon, charge=asked.test.charge))
    if (accuracy.is_mostly_noise or ranks is not None) and not gives:
        yield _find_more(asked)
    elif gives and asked.wanted is not None:
        yield answer.AsExactAsAsked(asked.wanted)
        if accuracy.is_mostly_noise:
            yield answer.Rough()
    elif asked.wanted is None and not _is_exact(accuracy):
        yield answer.Rough()


def _is_exact(accuracy: AnswerAccuracy) -> bool:
    lost = accuracy.drowned or accuracy.lost or accuracy.too_few
    return not lost and accuracy.share is not None and accuracy.share <= EXACT


def find_enough(accuracies: Mapping[float, AnswerAccuracy], wanted: float | None) -> float | None:
    """Return the smallest ε at which the typical error of every column, bias included, is at most ``wanted``.

    None if there is no such ε, or if no error is wanted.
    """
    if wanted is None:
        return None
    return min((epsilon for epsilon, each in accuracies.items() if each.is_within(wanted)), default=None)


def find_any_value(asked: Proposal, epsilon: float) -> answer.AnyValue | None:
    """Return that a rank may be off by half the size of an average group or more; None if it is not.

    Nothing is said where an individual may have several rows.
    """
    plan, touched = asked.risk.plan, asked.risk.matched
    groups = _count_drawn_groups(plan) if plan.is_united else max(1, asked.risk.groups)
    rows = max((error for error, in_rows in asked.line(epsilon).errors if in_rows and error is not None), default=0.0)
    if not touched or plan.schema.max_rows_per_unit != 1 or 2.0 * rows * groups < touched:
        return None
    return answer.AnyValue(rows, touched, groups)


def _count_drawn_groups(plan: QueryPlan) -> int:
    """Return how many groups a SELECT of a union has in which something is drawn by rank: the most of any, at least 1.

    Another SELECT's groups do not make these smaller.
    """
    blocks = [(plan.measures, plan.groups), *((each.measures, each.groups) for each in plan.further)]
    drawn = [groups for measures, groups in blocks if any(isinstance(each, Rank) for each in measures)]
    return max((math.prod(len(group.values or (0,)) for group in groups) for groups in drawn), default=1)


def _find_more(asked: Proposal) -> Finding:
    """Return from which larger ε on, of those that the account grants, the answer is worth something."""
    larger = sorted(each for each in asked.remaining if each > asked.at)
    worth = (e for e in larger if not asked.accuracies[e].is_mostly_noise and find_any_value(asked, e) is None)
    better = next(worth, None)
    smallest = asked.risk.smallest_group
    few = (smallest is not None and smallest < people.FEW) or asked.risk.matched < people.FEW
    return answer.WorthMoreAt(better, better in asked.choice.meeting, asked.choice.epsilon, few)
