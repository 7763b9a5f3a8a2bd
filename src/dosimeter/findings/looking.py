"""Find what is worth saying about a query at an ε, from its risk and from the choice that a preference made.

Takes a Risk (as ``Assessed``) and a Choice; gives findings, each only where it applies. ``deciding`` adds what the
account and the analyst's wish say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dosimeter.findings import on_answer as answer
from dosimeter.findings import on_method as method
from dosimeter.findings import on_people as people
from dosimeter.findings.coarser import find_coarser
from dosimeter.findings.on_left_out import find_bias
from dosimeter.measures import Count, CountRows
from dosimeter.postprocess import Noise, find_enough_rows, list_estimates, name_rows
from dosimeter.risk import (
    FUNCTIONS,
    AnswerAccuracy,
    ExactLimit,
    extremes,
    find_safe,
    is_alike,
    weighted_quantile,
)
from dosimeter.show import order_candidates

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray
    from dosimeter.findings.choice import Choice
    from dosimeter.findings.finding import Finding
    from dosimeter.findings.on_account import AccountRefuses
    from dosimeter.influence import LeftOut, Measured
    from dosimeter.mechanisms import Mechanism
    from dosimeter.options import Indicator
    from dosimeter.planning import QueryPlan
    from dosimeter.postprocess import ColumnAccuracy
    from dosimeter.risk import (
        AbsoluteRisk,
        Candidate,
        JudgedCandidates,
        PeopleAggregate,
        Preference,
        Sensitivities,
        TwoWorlds,
    )


WIDE = 0.5
"""The share of an average from which on its error is told beside what it is of the width of its bounds."""

STATED = "the preference"
"""What a preference is called where its text stands beside."""


class Assessed(Protocol):
    """What is read of a Risk: the plan and the numbers that follow from it."""

    @property
    def plan(self) -> QueryPlan: ...
    @property
    def mechanism(self) -> Mechanism: ...
    @property
    def indicator(self) -> Indicator: ...
    @property
    def sensitivities(self) -> Sensitivities: ...
    @property
    def sensitivity(self) -> float: ...
    @property
    def groups(self) -> int: ...
    @property
    def left_out(self) -> LeftOut: ...
    @property
    def matched(self) -> int: ...
    @property
    def smallest_group(self) -> int | None: ...
    def absolute(self, epsilon: float, *, charge: float | None = None) -> AbsoluteRisk: ...

    def own_epsilons(self, values: FloatArray, shares: FloatArray | None, epsilon: float) -> FloatArray: ...
    def foresee(self, epsilon: float, *, read: bool = False) -> tuple[ColumnAccuracy, ...]: ...
    def measured(self) -> Measured: ...


# ---------------------------------------------------------------- whom the query is about


def find_aimed(plan: QueryPlan, matched: int | None = None) -> Iterator[Finding]:
    """Yield whether the query is about single persons, or about nobody. ``matched``: of how many it is, if known."""
    if plan.singled_out:
        columns, clauses = zip(*plan.singled_out, strict=True)
        yield people.SinglesOut(columns, clauses)
    if matched == 0:
        yield people.NobodyTouched()


def find_few(risk: Assessed) -> Iterator[Finding]:
    """Yield whether the query, or its smallest group, is about a few."""
    smallest = risk.smallest_group
    if 0 < risk.matched < people.FEW:
        yield people.FewTouched(risk.matched)
    elif risk.matched and smallest is not None and smallest < people.FEW:
        yield people.FewInGroup(smallest)


# ---------------------------------------------------------------- notes on the method


def find_notes(
    risk: Assessed,
    lines: Sequence[Candidate],
    *,
    classes: Sensitivities | None = None,
    preference: Preference | None = None,
    found: JudgedCandidates | None = None,
    limit: ExactLimit | None = None,
) -> Iterator[Finding]:
    """Yield what to know about how risks were computed, and what a preference can tell (R7, R8, R10).

    ``lines``: the candidates. ``classes``: the sensitivities in classes split by the preference's FILTERs; by default
    the risk's own. ``preference``, ``found`` and ``limit``: None if no ε is to be found.
    """
    classes = risk.sensitivities if classes is None else classes
    mechanism, indicator = risk.mechanism, risk.indicator
    grids, ranked = risk.plan.grids(mechanism.norm), [rank.label for rank in risk.plan.ranks.values()]
    (low, high), epsilons = extremes(classes), [line.epsilon for line in lines]
    shifts_alike = mechanism.shifts_alike and indicator != "exact" and not ranked
    if preference is not None and preference.filters and found is not None:
        yield from map(method.EmptyFilter, find_empty_filters(preference, classes, found))
    yield method.IndicatorUsed(indicator)
    if ranked:
        yield method.DrawnByRank(tuple(ranked))
    continuous = indicator == "exact" and mechanism.exact_is_continuous and bool(epsilons)
    if continuous and float(np.max(grids)) > mechanism.scale(risk.sensitivity, max(epsilons)):  # R6
        yield method.ContinuousNoise()
    if is_alike(lines):
        at = max(epsilons, default=None) if found is None else found.epsilon
        if at is not None and high > 0.0 and not ranked:
            yield method.OwnOfEverybody(at, _find_own(risk, high, at))
    elif preference is None and shifts_alike:
        yield method.SameSpread()
    if preference is None or found is None:
        return

    measures = [type(measure) for measure in risk.plan.all_measures]
    scale = None if found.epsilon is None else mechanism.scale(risk.sensitivity, found.epsilon)
    ratio = preference.kind == "ratio"
    one_count = len(measures) == 1 and issubclass(measures[0], (Count, CountRows))
    if ratio and shifts_alike and one_count and low == 0.0 and high == risk.sensitivity:  # R10
        yield method.CountRatio(classes.k)
    if ratio and indicator != "exact" and scale is not None and not ranked:
        reason = mechanism.find_ratio_warning(low, high, grids=grids, scale=scale)
        if reason is not None:
            yield method.IncautiousRatio(reason)
    if not ratio:  # which depends on no level
        yield from _find_level(preference, shifts_alike)
    for aggregate in preference.aggregates:
        if aggregate.fraction and _falls_on_zero(aggregate, classes):
            yield method.QuantileOnZero(preference.write_aggregate(aggregate))
    yield from _find_limit(found, limit or ExactLimit(), rising=preference.about_errors)
    if indicator == "cell":
        if classes.k > len(measures):
            yield method.ReachesSeveral(classes.k, classes.k / len(measures))
    elif ranked or not preference.about_rdr:
        return
    elif risk.groups > 1 and found.epsilon is not None and high > 0.0:
        yield method.GroupsCount(risk.groups, found.epsilon, _find_own(risk, high, found.epsilon))


def _find_own(risk: Assessed, influence: float, epsilon: float) -> float:
    """Return the own guarantee, in ε, of somebody with this influence (P1)."""
    return float(risk.own_epsilons(np.array([influence]), None, epsilon)[0])


def find_empty_filters(
    preference: Preference, sensitivities: Sensitivities, found: JudgedCandidates
) -> tuple[str, ...]:
    """Return the condition of each FILTER in the preference that matches nobody, so that its aggregate is NULL.

    A FILTER of an aggregate that is a number even over nobody, such as COUNT, is left out. ``found``: the verdicts on
    the candidates. The result is empty if no verdict says that a FILTER matched nobody.
    """
    if not any(verdict.empty for _, verdict in found.tested):
        return ()
    held = sensitivities.counts > 0
    used = dict.fromkeys(
        a.filter for a in preference.aggregates if a.filter and FUNCTIONS[a.function].of_nobody is None
    )
    empty = [name for name in used if not sensitivities.attributes[name][held].astype(np.bool_).any()]
    return tuple(dict.fromkeys(preference.write_filter(name) for name in empty))


def _find_level(preference: Preference, shifts_alike: bool) -> Iterator[Finding]:
    """Yield whether the preference cannot depend on ε (R8), or depends on how large the RDRs are (R10).

    ``shifts_alike``: whether noise adds the same number to everybody's RDR.
    """
    if shifts_alike and preference.shift_free:
        yield method.NoDependence()
    elif preference.compares_raw_spread:
        yield method.RawSpread()
    elif not preference.scale_free:
        yield method.DependsOnLevel()


def _falls_on_zero(aggregate: PeopleAggregate, sensitivities: Sensitivities) -> bool:
    chosen = sensitivities.counts > 0
    if aggregate.filter is not None:
        chosen = chosen & np.asarray(sensitivities.attributes[aggregate.filter], dtype=bool)
    if not chosen.any() or aggregate.fraction is None:
        return False
    return weighted_quantile(sensitivities.values[chosen], sensitivities.counts[chosen], aggregate.fraction) == 0.0


def _find_limit(found: JudgedCandidates, limit: ExactLimit, *, rising: bool) -> Iterator[Finding]:
    """Yield what the exact limit says about the ε that was found, or why none was found.

    If none was found because of the account, that is not said here. ``rising``: whether the preference also asks for
    accuracy, which more noise makes worse.
    """
    if limit.every:
        yield method.EveryEpsilonMeets()
    elif found.stopped:
        return
    elif found.epsilon is None and limit.value is not None:
        yield method.LimitBelow(limit.value)
    elif found.epsilon is None:
        yield method.AnotherMayMeet(rising)
    elif not rising and any(not verdict.satisfied for epsilon, verdict in found.tested if epsilon < found.epsilon):
        yield method.NotAtEverySmaller(found.epsilon)


def find_accuracy_notes(line: Candidate) -> Iterator[Finding]:
    """Yield, for each column of the answer, how its 95 % error differs between groups at this ε (E1)."""
    for each in line.accuracy:
        several = (each.groups or 0) > 1 and each.typical is not None and each.worst is not None
        if each.groups is None or not (several or each.too_few or each.beyond):
            continue
        yield method.ErrorByGroup(
            epsilon=line.epsilon,
            column=each.column,
            groups=each.groups,
            typical=each.typical if several else None,
            worst=each.worst if several else None,
            relative=each.relative,
            too_few=each.too_few or 0,
            beyond=each.beyond or 0,
            drowned=each.drowned,
            bounded=each.bounded,
            biased=each.bias is not None and each.bias.worst > 0.0,
        )


def find_untold(line: Candidate) -> Iterator[Finding]:
    """Yield how many numbers of the answer have too few people to tell at this ε (E1)."""
    untold = sum(each.too_few or 0 for each in line.accuracy)
    if untold:
        yield method.TooFewToTell(line.epsilon, untold, sum(each.groups or 0 for each in line.accuracy))


# ---------------------------------------------------------------- what the preference gives


def find_in_choice(risk: Assessed, choice: Choice, refusal: AccountRefuses | None = None) -> Iterator[Finding]:
    """Yield which ε the preference gives, or why none, whom the query is about, and what to know before it is taken.

    If none meets the preference because one of its FILTERs matches nobody, ``find_notes`` says that, and nothing else.
    Otherwise the advice is about the ε to start from, as the verdict is; if there is none, about the ε that was found
    or, if that limits no risk or none was found, about the largest candidate at which nobody's membership advantage
    exceeds 0.25. It is about no ε if the account grants none. ``refusal``: as in ``find_given``.
    """
    unmatched = bool(choice.empty_filters) and choice.epsilon is None
    if not unmatched:
        yield from find_given(risk, choice, refusal, choice.asked)
    yield from find_aimed(risk.plan, risk.matched)
    yield from find_few(risk)
    if unmatched or choice.start.reason == "refused":
        return
    ordered = sorted(choice.candidates, key=lambda line: line.epsilon)
    at = choice.start.epsilon
    if at is None and not choice.unlimited:
        at = choice.epsilon
    shown = find_safe(ordered) if at is None else at
    if shown is not None:
        yield from find_at(risk, ordered, shown, steps=shown == at)


def find_given(
    risk: Assessed, choice: Choice, refusal: AccountRefuses | None = None, asked: str = STATED
) -> Iterator[Finding]:
    """Yield which ε the preference gives, or why none, and what limits its word.

    ``refusal``: why the account admits none of the candidates that meet the preference; None if it admits one, or if
    that is not known. ``asked``: what the preference is called; its text, where that does not stand beside it.
    """
    lines, met = choice.candidates, choice.meeting
    alike = is_alike(lines)
    if not (alike and len(met) == len(lines)) or (met and choice.epsilon is None):
        yield _find_outcome(risk, choice, refusal, asked)
    if alike:
        yield people.EquallyExposed(risk.smallest_group)
    if choice.conflict:
        yield answer.Conflict(choice.conflict)
    if not choice.decides or choice.unlimited:
        if met:
            told = [line for line in lines if line.satisfied]
            yield find_undecided(risk, told, but_errors=choice.decides)
        safe = find_safe(lines)
        moved = _find_absolute(risk, lines[0]).own_epsilon > 0.0
        yield people.NoneCautious() if safe is None else people.Cautious(safe, moved=moved)
    if choice.epsilon is not None and (choice.epsilon_cell is None or choice.epsilon_cell < choice.epsilon):
        yield people.AllowedByGroups(choice.epsilon, choice.epsilon_cell)


def find_unmet(
    choice: Choice, refusal: AccountRefuses | None, asked: str = STATED, exposed: int | None = None
) -> Finding:
    """Return why the preference gives no ε: none meets it, or the account admits none of those that do.

    ``exposed``: how many people are most exposed; None if that is not to be told.
    """
    if choice.meeting:
        return answer.MetButNotGranted(asked, refusal)
    ordered = order_candidates(choice.candidates)
    valued, smallest = [(line.epsilon, line.value) for line in ordered if line.value is not None], ordered[-1]
    if not valued and len(choice.preference.comparisons) == 1:
        return answer.NoValue()
    ends = (valued[0], valued[-1]) if valued else ()
    ratio = None if choice.preference.measured else smallest.rdr.ratio
    return answer.NoneMeets(asked, smallest.epsilon, ends, ratio, exposed)


def _find_outcome(risk: Assessed, choice: Choice, refusal: AccountRefuses | None, asked: str) -> Finding:
    """Return which ε the preference gives, or why it gives none."""
    if choice.epsilon is None:
        return find_unmet(choice, refusal, asked, count_exposed(risk.sensitivities))
    ordered = order_candidates(choice.candidates)
    if len(choice.meeting) == len(ordered):  # F4
        return answer.AllMeet(asked, risk.indicator)
    larger = [line for line in ordered if line.epsilon > choice.epsilon]
    following = larger[-1] if larger else None
    return answer.Finds(
        asked,
        choice.epsilon,
        choice.limit,
        risk.indicator,
        following=None if following is None else following.epsilon,
        value=None if following is None else following.value,
        meets=following is not None and bool(following.satisfied),
    )


def find_unstated(risk: Assessed, lines: Sequence[Candidate], start: float | None = None) -> Iterator[Finding]:
    """Yield what to know where no preference is stated: how exposed people are, and what ``start`` does.

    ``start``: the candidate to start from; by default the largest at which nobody's membership advantage exceeds 0.25,
    or the largest of all.
    """
    ordered = order_candidates(lines)
    yield from find_aimed(risk.plan, risk.matched)
    yield from find_few(risk)
    if is_alike(ordered):
        yield people.EquallyExposed(risk.smallest_group)
    else:
        ends = ordered if len(ordered) == 1 else (ordered[0], ordered[-1])
        yield answer.Unstated(tuple((line.epsilon, line.rdr.relative[1]) for line in ends))
    yield from find_at(risk, ordered[::-1], start or find_safe(ordered) or ordered[0].epsilon)


def find_undecided(risk: Assessed, lines: Sequence[Candidate], *, but_errors: bool = False) -> Finding:
    """Return what the largest of these candidates would do: they meet a preference that does not limit the risk (F4).

    ``but_errors``: it limits errors.
    """
    largest = max(lines, key=lambda line: line.epsilon)
    absolute = _find_absolute(risk, largest)
    if absolute.own_epsilon == 0.0:
        return people.NobodyMoves(risk.matched)
    return people.DecidesNothing(
        largest.epsilon,
        absolute.advantage,
        absolute.prior,
        absolute.posterior if absolute.false_alarms is None else None,
        exposed=count_exposed(risk.sensitivities),
        touched=risk.matched,
        but_errors=but_errors,
    )


def count_exposed(found: Sensitivities) -> int:
    """Return how many people are most exposed: by PIS or, if something is drawn by rank, by share of ε."""
    exposure = found.values if found.shares is None else found.shares
    return int(found.counts[exposure >= exposure.max() * (1.0 - 1e-12)].sum())


def find_at(risk: Assessed, ordered: Sequence[Candidate], epsilon: float, *, steps: bool = True) -> Iterator[Finding]:
    """Yield what to know about one ε, whatever the preference: errors, absolute risks, next candidates, its worth.

    ``ordered``: the candidates, smallest first. ``steps``: whether to say what the next candidates would change.
    """
    place = next(at for at, line in enumerate(ordered) if line.epsilon == epsilon)
    here = ordered[place]
    accuracy, absolute = find_accuracy(risk, here), _find_absolute(risk, here)
    columns = risk.plan.aggregate_names
    yield answer.Errors(epsilon, columns, accuracy)
    yield from find_bias(risk.left_out, accuracy.columns)
    yield from find_wide(accuracy)
    yield from find_absolute(absolute)
    if steps:
        for at in (place + 1, place - 1):
            if 0 <= at < len(ordered):
                yield _find_step(risk, columns, accuracy, absolute, ordered[at], larger=at > place)
    yield from _find_needed_rows(risk, here)
    if accuracy.is_mostly_noise:
        yield answer.WorthLittle(epsilon)
        coarser = find_coarser(risk.plan, risk.measured(), accuracy) if risk.plan.digest else None
        if coarser is not None:
            yield coarser


def find_wide(accuracy: AnswerAccuracy) -> Iterator[Finding]:
    """Yield of which average the error is large for the number, though small for its bounds (E6)."""
    shares = [(each.of_itself, each.column) for each in accuracy.columns if each.of_itself is not None]
    share, column = max(shares, default=(0.0, ""))
    if share > WIDE and not accuracy.is_mostly_noise:
        yield answer.WideBounds(column, share)


def _find_needed_rows(risk: Assessed, line: Candidate) -> Iterator[Finding]:
    """Yield from how many rows on CORR and the like could be told, where most groups have too few people (E1)."""
    few = {each.column for each in line.accuracy if each.mostly_too_few}
    if not few:
        return
    noise = Noise.of(risk.plan, risk.mechanism, risk.mechanism.scale(risk.sensitivity, line.epsilon))
    for block, own in zip(risk.plan.blocks, noise.split(risk.plan), strict=True):
        trees = [each.formula for each in block.outputs if each.name in few and each.formula is not None]
        for at in sorted({at for tree in trees for at in list_estimates(tree)}):
            rows = find_enough_rows(block, own, at)
            if rows is not None:
                yield answer.NeedsRows(block.estimates[at].label, rows, name_rows(block))


def find_accuracy(risk: Assessed, line: Candidate) -> AnswerAccuracy:
    """Return how accurate the whole answer is at this candidate, compared with the exact numbers."""
    return AnswerAccuracy.of(risk.foresee(line.epsilon, read=True), line.errors)


def _find_absolute(risk: Assessed, line: Candidate) -> AbsoluteRisk:
    return risk.absolute(line.epsilon) if line.absolute is None else line.absolute


def find_absolute(absolute: AbsoluteRisk) -> Iterator[Finding]:
    """Yield each absolute risk of the most exposed person, and last when these limits hold."""
    yield people.OwnGuarantee(absolute.own_epsilon)
    yield people.RightGuesses(absolute.advantage)
    yield people.Suspicion(absolute.prior, absolute.posterior, absolute.charge, absolute.false_alarms)
    yield people.GuessedFact(absolute.baseline, absolute.guess)
    if absolute.identification is not None:
        yield people.PickedOut(absolute.identification, absolute.people, absolute.identification_exact)
    yield people.LimitsHold()


def find_worlds(worlds: TwoWorlds | None) -> Finding:
    """Return how much likelier a released number is with the most exposed person; None stands for nobody who moves."""
    if worlds is None:
        return people.SameWorlds()
    if worlds.hidden and worlds.shown is not None:
        return people.HardlyShown(worlds.group, *worlds.shown)
    told = worlds.telling
    return people.AsLikely(
        number=worlds.number,
        made=worlds.made,
        group=worlds.group,
        released=told.middle,
        range=told.low < told.high,
        width=worlds.width,
        times=told.times,
    )


def _find_step(
    risk: Assessed,
    columns: Sequence[str],
    accuracy: AnswerAccuracy,
    absolute: AbsoluteRisk,
    other: Candidate,
    *,
    larger: bool,
) -> Finding:
    """Return what taking ``other`` instead would change. ``accuracy`` and ``absolute``: of the ε at hand."""
    place = accuracy.widest
    there = find_accuracy(risk, other)
    return answer.StepTo(
        epsilon=other.epsilon,
        larger=larger,
        column=None if place is None else columns[place],
        named=len(columns) > 1,
        error=None if place is None else there.usual(place),
        error_here=None if place is None else accuracy.usual(place),
        advantage=_find_absolute(risk, other).advantage,
        advantage_here=absolute.advantage,
    )
