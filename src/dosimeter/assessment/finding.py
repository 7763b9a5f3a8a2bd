"""Find the largest ε that meets a preference, and everything to know beside it (F1, F2, F4). Private."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.assessment.advising import build_advice
from dosimeter.assessment.candidates import compute_rdrs, foresee_each, judge_rdrs, split_epsilons
from dosimeter.risk import AnswerAccuracy, find_conflict, find_largest, note_empty_filter
from dosimeter.show import advise, word_advice, word_conflict

if TYPE_CHECKING:
    from sqlglot import exp

    from dosimeter.arrays import FloatArray
    from dosimeter.assessment.risk import Risk
    from dosimeter.risk import Advice, Candidate, Choice, ConditionRange, Preference, RDRs, Sensitivities, Verdict


def find_choice(
    risk: Risk,
    preference: Preference,
    epsilons: Sequence[float],
    available: set[float],
    classes: Sensitivities,
    filters: Iterable[exp.Expression],
    refuse: Callable[[Sequence[float]], str] | None = None,
) -> Choice:
    """Return the choice for a preference: the largest available candidate that meets it, with its advice.

    ``epsilons``: the candidates to test. ``available``: those that the account's reading allows. ``classes``:
    everybody's sensitivities, in classes split by the preference's FILTERs. ``filters``: the conditions of these
    FILTERs. ``refuse``: a function of candidates that says why the account admits none of them.
    """
    foresee_each(risk, epsilons)  # all in one pass
    tested: list[tuple[float, Verdict]] = []
    lines: list[Candidate] = []
    for part in split_epsilons(classes, epsilons):
        every = _add_measured(risk, compute_rdrs(risk, classes, part), classes, preference)
        verdicts = [preference.evaluate(rdrs) for rdrs in every]
        tested += zip(part, verdicts, strict=True)
        lines += judge_rdrs(risk, every, verdicts)
    found = find_largest(tested, available)
    choice = risk.conclude(preference, found, tuple(lines), sensitivities=classes, filters=filters)
    by_cell, limit_cell = found.epsilon, choice.limit
    if not risk.plan.ranks:  # R11: defined where numbers get noise
        reached = _count_reached(risk, classes)
        limit_cell = limit_by_cell(risk, preference, classes)
        if risk.indicator != "cell" and preference.about_rdr and risk.reach != risk.k:
            by_cell = _find_by_cell(risk, preference, reached, sorted(available, reverse=True))
    advice = build_advice(risk, lines, epsilon=found.epsilon, decides=choice.decides, by_cell=by_cell)
    conflict = find_conflict(preference.write_parts(), tested)
    meeting = [epsilon for epsilon, verdict in tested if verdict.satisfied]
    stopped = refuse(meeting) if found.stopped and refuse is not None else None
    return replace(
        choice,
        limit_cell=limit_cell,
        epsilon_cell=by_cell,
        conflict=conflict,
        advice=advice,
        words=_word(risk, preference, choice, advice, conflict, stopped),
    )


def limit_by_cell(risk: Risk, preference: Preference, classes: Sensitivities | None = None) -> float | None:
    """Return the exact largest ε that meets the preference by the cell indicator (R11); None if there is no such ε.

    ``classes``: everybody's sensitivities, in classes split by the preference's FILTERs; by default the risk's own.
    """
    reached = _count_reached(risk, risk.sensitivities if classes is None else classes)
    return risk.limit_of(preference, reached, "cell").value


def _count_reached(risk: Risk, classes: Sensitivities) -> Sensitivities:
    """Return the sensitivities with another ``k``: how many noisy numbers one individual's rows can reach (R11)."""
    return replace(classes, k=risk.reach, vectors=None)


def _add_measured(risk: Risk, every: Sequence[RDRs], classes: Sensitivities, preference: Preference) -> Sequence[RDRs]:
    """Return the RDRs at each ε, each with what else the preference reads at this ε.

    That can be everybody's own guarantees (P1) and membership advantages (P4), and the answer's error and relative
    error. ``every``: the RDRs at each ε, of the people in ``classes``.
    """
    names = preference.measured
    if not names:
        return every
    terms: list[dict[str, float | None]] = [{}] * len(every)
    if names & {"error", "relative_error"}:
        found = foresee_each(risk, [rdrs.epsilon for rdrs in every], read="relative_error" in names)
        accuracies = [AnswerAccuracy.of(each) for each in found]
        terms = [{"error": each.largest, "relative_error": each.relative} for each in accuracies]
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
    risk: Risk, preference: Preference, reached: Sensitivities, epsilons: Sequence[float]
) -> float | None:
    """Return the largest ε that meets the preference by the cell indicator (R11); None if none does.

    ``reached``: the sensitivities, whose k is the number of cells that one individual can reach. ``epsilons``:
    descending.
    """
    for part in split_epsilons(reached, epsilons):
        for rdrs in _add_measured(risk, compute_rdrs(risk, reached, part, "cell"), reached, preference):
            if preference.evaluate(rdrs).satisfied:
                return rdrs.epsilon
    return None


def _word(
    risk: Risk,
    preference: Preference,
    choice: Choice,
    advice: Advice,
    conflict: Sequence[ConditionRange],
    stopped: str | None,
) -> tuple[str, ...]:
    """Return the advice in sentences: on the ε that was found, on a conflict if there is one, then on everything else.

    If no candidate meets the preference because one of its FILTERs matches nobody, return only a sentence on that.
    ``conflict``: conditions of the preference that no candidate meets together; empty if there are none. ``stopped``:
    why the account admits none of the candidates that meet the preference, if that is so and the reason is known;
    otherwise None.
    """
    if choice.empty_filters and choice.epsilon is None:
        return (note_empty_filter(choice.empty_filters[0]),)
    first = advise(
        choice.candidates,
        preference=choice.asked,
        found=choice.epsilon,
        limit=choice.limit,
        indicator=risk.indicator,
        stopped=stopped,
        smallest=risk.smallest_group(),
        rdr_only=not preference.measured,
    )
    refused = (word_conflict(conflict),) if conflict else ()
    return (first, *refused, *word_advice(advice))
