"""Find the largest ε that meets a preference, and everything to know beside it (F1, F2, F4). Private."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.assessment.candidates import compute_rdrs, foresee_each, judge_rdrs, split_epsilons
from dosimeter.findings import (
    Choice,
    find_accuracy_notes,
    find_empty_filters,
    find_in_choice,
    find_notes,
    find_untold,
)
from dosimeter.risk import AnswerAccuracy, decides, find_conflict, find_largest

if TYPE_CHECKING:
    from sqlglot import exp

    from dosimeter.arrays import FloatArray
    from dosimeter.assessment.risk import Risk
    from dosimeter.findings import Finding
    from dosimeter.risk import (
        Candidate,
        ConditionRange,
        ExactLimit,
        JudgedCandidates,
        Preference,
        RDRs,
        Sensitivities,
        Verdict,
    )


def find_choice(
    risk: Risk,
    preference: Preference,
    epsilons: Sequence[float],
    available: set[float],
    classes: Sensitivities,
    filters: Iterable[exp.Expression],
    refuse: Callable[[Sequence[float]], str] | None = None,
) -> Choice:
    """Return the choice for a preference: the largest available candidate that meets it.

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
    limit = risk.limit_of(preference, classes)
    by_cell, limit_cell = found.epsilon, limit.value
    if not risk.plan.ranks:  # R11: defined where numbers get noise
        limit_cell = limit_by_cell(risk, preference, classes)
        if risk.indicator != "cell" and preference.about_rdr and risk.reach != risk.k:
            reached = _count_reached(risk, classes)
            by_cell = _find_by_cell(risk, preference, reached, sorted(available, reverse=True))
    conflict = find_conflict(preference.write_parts(), tested)
    meeting = [epsilon for epsilon, verdict in tested if verdict.satisfied]
    why = refuse(meeting) if found.stopped and refuse is not None else ""
    return conclude(
        risk, preference, found, tuple(lines), limit,
        classes=classes, filters=filters, limit_cell=limit_cell, by_cell=by_cell, conflict=conflict, why=why,
    )  # fmt: skip


def conclude(
    risk: Risk,
    preference: Preference,
    found: JudgedCandidates,
    lines: tuple[Candidate, ...],
    limit: ExactLimit,
    *,
    classes: Sensitivities,
    filters: Iterable[exp.Expression] = (),
    limit_cell: float | None = None,
    by_cell: float | None = None,
    conflict: tuple[ConditionRange, ...] = (),
    why: str = "",
) -> Choice:
    """Return the choice for a preference, which finds what is worth saying about it when it is asked.

    ``found``: the verdicts. ``lines``: the candidates. ``classes``: everybody's sensitivities, in classes split by the
    preference's FILTERs. ``filters``: the conditions of these FILTERs. ``limit_cell`` and ``by_cell``: the exact limit
    and the ε by the cell indicator (R11). ``why``: why the account admits none of the candidates that meet it.
    """

    def look(choice: Choice) -> tuple[Finding, ...]:
        at = [line for line in lines if line.epsilon == found.epsilon]
        return (
            *find_in_choice(risk, choice, about_rdr=not preference.measured, why=why),
            *risk.list_remarks(filters),
            *find_notes(risk, lines, classes=classes, preference=preference, found=found, limit=limit),
            *(each for line in at if preference.about_errors for each in find_untold(line)),
            *(each for line in at for each in find_accuracy_notes(line)),
        )

    return Choice(
        preference=preference.text,
        epsilon=found.epsilon,
        limit=limit.value,
        candidates=lines,
        empty_filters=find_empty_filters(preference, classes, found),
        decides=decides(lines),
        limit_cell=limit_cell,
        epsilon_cell=by_cell,
        conflict=conflict,
        preset=preference.preset,
        look=look,
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
