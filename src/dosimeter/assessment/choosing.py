"""Find the largest ε that meets a preference, and everything to know beside it (F1, F2, F4). Private."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.assessment.candidates import compute_rdrs, foresee_each, limit_belief, list_lines, split_epsilons
from dosimeter.findings import (
    Choice,
    Proposal,
    find_accuracy,
    find_accuracy_notes,
    find_at,
    find_empty_filters,
    find_for_proposal,
    find_in_choice,
    find_notes,
    find_start,
    find_untold,
    tell,
)
from dosimeter.risk import (
    USUAL_PRESET,
    AnswerAccuracy,
    ExactLimit,
    decides,
    exact_limit,
    find_conflict,
    find_largest,
    parse_preference,
)

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray
    from dosimeter.assessment.risk import Risk
    from dosimeter.findings import AccountRefuses, Finding, Start
    from dosimeter.risk import Candidate, Preference, RDRs, Sensitivities, Verdict


def choose(
    risk: Risk,
    preference: Preference,
    epsilons: Sequence[float] | None = None,
    *,
    available: Callable[[Sequence[float]], Sequence[float]] | None = None,
    refuse: Callable[[Sequence[float]], AccountRefuses | None] | None = None,
    hidden: bool = False,
) -> Choice:
    """Return the choice for a preference: the largest available candidate that meets it. Every Choice is made here.

    ``epsilons``: the candidates to test; by default the risk's own. ``available``: a function that returns which of
    them the account allows (O2); by default all. ``refuse``: a function of candidates that returns why the account
    allows none of them. ``hidden``: the account finds ε from the data (algorithm 1). What is worth saying about the
    choice is found when it is asked for.
    """
    epsilons = risk.candidates if epsilons is None else epsilons
    filters = risk.check_filters(preference) if preference.filters else {}
    classes = risk.summarise(risk.contributions_by(filters)[1]) if filters else risk.sensitivities
    lines, tested = _test(risk, preference, epsilons, classes)
    left = set(epsilons if available is None else available(epsilons))
    found = find_largest(tested, left)
    limit, limit_cell, by_cell = ExactLimit(), None, found.epsilon
    if not risk.plan.ranks:  # R11, R12: defined where numbers get noise, so that the RDR is a function of one scale
        reached = replace(classes, k=risk.reach, vectors=None)
        limit_of = partial(
            exact_limit, preference, mechanism=risk.mechanism, sensitivity=risk.sensitivity, grids=risk.grids
        )
        limit, limit_cell = limit_of(classes, indicator=risk.indicator), limit_of(reached, indicator="cell")
        if risk.indicator != "cell" and preference.about_rdr and risk.reach != risk.k:
            by_cell = _find_by_cell(risk, preference, reached, limit_cell, sorted(left, reverse=True))
    refusal = refuse([line.epsilon for line in lines if line.satisfied]) if found.stopped and refuse else None

    def look(choice: Choice) -> tuple[Finding, ...]:
        at = [line for line in lines if line.epsilon == (choice.start.epsilon or found.epsilon)]
        return (
            *find_in_choice(risk, choice, refusal),
            *risk.list_remarks(filters.values()),
            *find_notes(risk, lines, classes=classes, preference=preference, found=found, limit=limit),
            *(each for line in at if preference.about_errors for each in find_untold(line)),
            *(each for line in at for each in find_accuracy_notes(line)),
        )

    @cache
    def accuracies() -> Mapping[float, AnswerAccuracy]:
        foresee_each(risk, epsilons, read=True)  # all in one pass
        return {line.epsilon: find_accuracy(risk, line) for line in lines}

    def begin(choice: Choice) -> Start:
        return find_start(choice, accuracies(), left)

    def judge(choice: Choice, epsilon: float) -> tuple[Finding, ...]:
        here = tuple(find_at(risk, sorted(lines, key=lambda line: line.epsilon), epsilon, steps=False))
        return find_for_proposal(
            Proposal(risk, choice, epsilon, tuple(left), refusal, here, accuracies(), hidden=hidden), ()
        )

    return Choice(
        preference=preference,
        epsilon=found.epsilon,
        limit=limit.value,
        candidates=lines,
        empty_filters=find_empty_filters(preference, classes, found) if filters else (),
        decides=decides(lines),
        limit_cell=None if limit_cell is None else limit_cell.value,
        epsilon_cell=by_cell,
        conflict=find_conflict(preference, tested),
        meeting_people=tuple(epsilon for epsilon, verdict in tested if preference.meets_people(verdict)),
        called=risk.plan.words,
        _look=look,
        _begin=begin,
        _judge=judge,
    )


def advise(risk: Risk, lines: Sequence[Candidate], *, aside: bool = True) -> tuple[str, ...]:
    """Return advice in sentences, where no preference is stated: by the usual preset. ``lines``: the candidates.

    ``aside``: also what a page shows on demand only.
    """
    usual = choose(risk, parse_preference(USUAL_PRESET), [line.epsilon for line in lines])
    findings, judged = risk.list_findings(lines, usual.start.epsilon), usual.judge(usual.start.epsilon)[1]
    return tell(findings, usual.start, judged, risk.plan.words, by=USUAL_PRESET, aside=aside)


def _test(
    risk: Risk, preference: Preference, epsilons: Sequence[float], classes: Sensitivities
) -> tuple[tuple[Candidate, ...], list[tuple[float, Verdict]]]:
    """Return a line per candidate, and each candidate with the verdict of the preference on it.

    A ratio is read off the spread that every line has; any other preference goes over all classes of people.
    """
    foresee_each(risk, epsilons)  # all in one pass
    known: list[Candidate] = []
    verdicts: list[Verdict] = []
    if preference.kind == "ratio":
        known += risk.list_candidates(epsilons)
        verdicts += [preference.judge(line.rdr.ratio if line.rdr.max > 0.0 else None) for line in known]
    else:
        for part in split_epsilons(classes, epsilons):
            every = _add_measured(risk, compute_rdrs(risk, classes, part), classes, preference)
            known += list_lines(risk, every)
            verdicts += map(preference.evaluate, every)
    judged = zip(known, verdicts, strict=True)
    lines = (replace(line, value=verdict.value, satisfied=verdict.satisfied) for line, verdict in judged)
    return tuple(lines), list(zip(epsilons, verdicts, strict=True))


def _add_measured(risk: Risk, every: Sequence[RDRs], classes: Sensitivities, preference: Preference) -> Sequence[RDRs]:
    """Return the RDRs at each ε, each with what else the preference reads at this ε.

    That can be everybody's own guarantees (P1) and membership advantages (P4), the answer's error and relative error,
    and what somebody could believe (P3) or guess (P5). ``every``: the RDRs at each ε, of the people in ``classes``.
    """
    names = preference.measured
    if not names:
        return every
    terms: list[dict[str, float | None]] = [
        {each.text: limit_belief(risk, each, rdrs.epsilon) for each in preference.beliefs} for rdrs in every
    ]
    if names & {"error", "relative_error"}:
        found = foresee_each(risk, [rdrs.epsilon for rdrs in every], read="relative_error" in names)
        accuracies = [AnswerAccuracy.of(each) for each in found]
        for own, each in zip(terms, accuracies, strict=True):
            own |= {"error": each.largest, "relative_error": each.relative}
    return [
        replace(rdrs, columns=_list_columns(risk, rdrs.epsilon, classes, names), terms=own)
        for rdrs, own in zip(every, terms, strict=True)
    ]


def _list_columns(risk: Risk, epsilon: float, classes: Sensitivities, names: Collection[str]) -> dict[str, FloatArray]:
    """Return, by name, the own guarantees and the membership advantages at this ε: those that are among ``names``.

    Each has one number per class. ``names``: what a preference reads besides RDRs.
    """
    columns: dict[str, FloatArray] = {}
    if "own_epsilon" in names:
        columns["own_epsilon"] = np.minimum(risk.own_epsilons(classes.values, classes.shares, epsilon), epsilon)
    if "advantage" in names:
        columns["advantage"] = risk.advantages(classes.values, classes.shares, epsilon)
    return columns


def _find_by_cell(
    risk: Risk, preference: Preference, reached: Sensitivities, limit: ExactLimit, epsilons: Sequence[float]
) -> float | None:
    """Return the largest ε that meets the preference by the cell indicator (R11); None if none does.

    ``reached``: the sensitivities, whose k is the number of cells that one individual can reach. ``limit``: the exact
    limit by that indicator, up to which every ε meets the preference (F2). ``epsilons``: descending.
    """
    if limit.every or limit.value is not None:
        return next((each for each in epsilons if limit.value is None or each <= limit.value * (1.0 + 1e-9)), None)
    for part in split_epsilons(reached, epsilons):
        for rdrs in _add_measured(risk, compute_rdrs(risk, reached, part, "cell"), reached, preference):
            if preference.evaluate(rdrs).satisfied:
                return rdrs.epsilon
    return None
