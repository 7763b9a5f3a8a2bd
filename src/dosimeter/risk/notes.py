"""Write what a controller should know beside the ε that was found, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.measures import Count, CountRows, Measure, Rank
from dosimeter.mechanisms import Mechanism, RatioWarning
from dosimeter.options import Indicator
from dosimeter.risk.absolute import own_epsilon
from dosimeter.risk.choose import ExactLimit, JudgedCandidates, extremes
from dosimeter.risk.preference_functions import FUNCTIONS
from dosimeter.risk.rdr import weighted_quantile

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray
    from dosimeter.risk.preference import PeopleAggregate, Preference
    from dosimeter.risk.values import Sensitivities


def write_notes(
    sensitivities: Sensitivities,
    mechanism: Mechanism,
    *,
    sensitivity: float,
    indicator: Indicator,
    grids: FloatArray,
    measures: Sequence[type[Measure]],
    groups: int,
    epsilons: Sequence[float],
    preference: Preference | None = None,
    found: JudgedCandidates | None = None,
    limit: ExactLimit | None = None,
    ranked: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return what the controller should know, each sentence only where it applies (R7, R8, R10).

    ``sensitivity``: Δ. ``grids``: the noise grid of each measure. ``measures``: the types of the plan's measures.
    ``groups``: how many groups there are. ``epsilons``: the candidates shown. ``preference``, ``found`` and ``limit``:
    None if no ε is to be found. ``ranked``: the names of the measures drawn by rank.
    """
    low, high = extremes(sensitivities)
    shifts_alike = mechanism.shifts_alike and indicator != "exact" and not ranked
    notes = [*map(note_empty_filter, find_empty_filters(preference, sensitivities, found)), _INDICATORS[indicator]]
    if ranked:
        notes.append(f"{' and '.join(ranked)}: {_RANKED}")
    if indicator == "exact" and mechanism.exact_is_continuous and epsilons:
        narrowest = mechanism.scale(sensitivity, max(epsilons))
        if float(np.max(grids)) > narrowest:  # R6
            notes.append(_CONTINUOUS)
    if low == high and (indicator != "exact" or sensitivities.k == 1):
        notes.append(_ALL_ALIKE)
        notes += (
            [] if ranked else _note_own(high, mechanism, sensitivity, epsilons if found is None else (found.epsilon,))
        )
    elif preference is None and shifts_alike:
        notes.append(_SAME_SPREAD)
    if preference is None or found is None:
        return tuple(notes)

    scale = None if found.epsilon is None else mechanism.scale(sensitivity, found.epsilon)
    ratio = preference.kind == "ratio"
    one_count = len(measures) == 1 and issubclass(measures[0], (Count, CountRows))
    if ratio and shifts_alike and one_count and low == 0.0 and high == sensitivity:  # R10
        notes.append(f"{_COUNT_RATIO} Here k, how many numbers get noise, is {sensitivities.k:,}.")
    if ratio and indicator != "exact" and scale is not None and not ranked:
        reason = mechanism.find_ratio_warning(low, high, grids=grids, scale=scale)
        if reason is not None:
            notes.append(
                f"A ratio of upper bounds is not a cautious ratio: {_INCAUTIONS[reason]}, people's RDRs themselves can "
                "lie further apart than their bounds, and fail a preference that the bounds meet."
            )
    notes += _note_level(preference, shifts_alike)
    notes += _note_groups(preference, sensitivities)
    if preference.about_errors and all(issubclass(each, Rank) for each in measures):
        notes.append(_NO_ERROR_IN_ROWS)
    else:
        notes += _note_outcome(found, limit or ExactLimit(), rising=preference.about_errors)
    if indicator == "cell":
        notes += _note_reach(sensitivities.k, len(measures))
    elif ranked or not preference.about_rdr:
        return tuple(notes)
    elif groups > 1 and found.epsilon is not None and scale is not None and high > 0.0:
        own = own_epsilon(
            np.array([high]), mechanism, sensitivity=sensitivity, scale=scale, epsilon=found.epsilon
        )  # P1
        notes.append(
            f"The noise in all {groups:,} groups counts in everybody's RDR, so that more groups allow a larger ε for "
            f"the same words. At ε = {found.epsilon:g} the most exposed individual's own guarantee is ε = {own[0]:.4g}."
        )
    return tuple(notes)


_INDICATORS = {
    "bound": "Everybody's RDR is given as an upper limit, as in the paper; computed exactly, it can give another ε.",
    "exact": "Everybody's RDR is computed exactly; its upper limit, which is the default, can give another ε.",
    "cell": "Everybody's RDR is given as an upper limit that counts only noise which one person's rows can reach.",
}
_INCAUTIONS = {
    RatioWarning.ALWAYS: "under Gaussian noise",
    RatioWarning.EVERYBODY_MOVES: "where everybody moves the answer",
    RatioWarning.COARSE_GRID: "where the noise is small against the steps of the answer",
}
_CONTINUOUS = (
    "The exact indicator is that of continuous Gaussian noise; some of the noise here is small against its grid."
)
_ALL_ALIKE = (
    "Everybody moves the answer equally far (all are in the query, or nobody is), so everybody has the same RDR at "
    "every ε. Equally exposed is not safe: RDR cannot help to choose ε here."
)
_SAME_SPREAD = (
    "Under Laplace noise, with the bound, the range and the variance of the raw RDR are the same at every ε. "
    "What shrinks is the spread relative to the level: look at the ratio."
)
_RANKED = (
    "drawn by rank. The RDR is the expected distance of what is drawn from the exact answer, and how far somebody "
    "moves that; their own guarantee does not follow from it: it is at most ε for everybody whom the query reads, and "
    "not 0 where the exact answer is the same without them."
)
_NO_ERROR_IN_ROWS = (
    "An error in rows is neither an error in the number's own units nor a relative error: here no ε meets a condition "
    "on these, nor a preset, which holds one. Use advantage:0.25 or own:0.5."
)
_COUNT_RATIO = "A COUNT with somebody in it and somebody out of it has the ratio k/(k + ε), whatever the data."
_NO_DEPENDENCE = (
    "Under Laplace noise, with the bound, this preference does not depend on ε: noise adds the same number to "
    "everybody's RDR. Use a ratio, or normalized_rdr."
)
_RAW_VARIANCE = (
    "The preference limits the spread of the raw RDR, whatever its level. Use VAR_POP(normalized_rdr) to limit "
    "the spread relative to the level."
)
_NOT_SCALE_FREE = (
    "The preference depends on the level of the RDR, and noise raises the level: an upper limit on the raw RDR asks "
    "for less noise, not for more protection. Compare RDRs with each other, as in MIN(rdr) / MAX(rdr) >= 0.95."
)


def find_empty_filters(
    preference: Preference | None, sensitivities: Sensitivities, found: JudgedCandidates | None
) -> tuple[str, ...]:
    """Return the condition of each FILTER in the preference that matches nobody, so that its aggregate is NULL.

    A FILTER of an aggregate that is a number even over nobody, such as COUNT, is left out. ``found``: the verdicts on
    the candidates. The result is empty if ``found`` is None, or if no verdict says that a FILTER matched nobody.
    """
    if preference is None or found is None or not any(verdict.empty for _, verdict in found.tested):
        return ()
    held = sensitivities.counts > 0
    used = dict.fromkeys(
        a.filter for a in preference.aggregates if a.filter and FUNCTIONS[a.function].of_nobody is None
    )
    empty = [name for name in used if not sensitivities.attributes[name][held].astype(np.bool_).any()]
    return tuple(dict.fromkeys(preference.write_filter(name) for name in empty))


def note_empty_filter(text: str) -> str:
    """Return the sentence on a FILTER that matches nobody. ``text``: its condition."""
    return f"The FILTER (WHERE {text}) matches nobody: its aggregate is NULL, and a comparison with NULL is not met."


def _note_reach(reached: int, measures: int) -> Iterator[str]:
    """Yield a note if one individual's rows can reach several groups (R11).

    ``reached``: how many noisy numbers they can reach. ``measures``: how many measures each group has.
    """
    if reached > measures:
        yield (
            f"One individual's rows can reach {reached:,} of the numbers: more groups still allow a larger ε for the "
            f"same words, up to {reached / measures:g} times that of the query without groups."
        )


def _note_own(
    influence: float, mechanism: Mechanism, sensitivity: float, epsilons: Sequence[float | None]
) -> Iterator[str]:
    """Yield a note on everybody's own guarantee at the largest of ``epsilons`` (P1), if the query exposes all alike.

    ``influence``: the PIS that everybody has. Yields nothing if it is 0 or if there is no ε.
    """
    largest = max((epsilon for epsilon in epsilons if epsilon is not None), default=None)
    if largest is None or influence <= 0.0:
        return
    scale = mechanism.scale(sensitivity, largest)
    own = own_epsilon(np.array([influence]), mechanism, sensitivity=sensitivity, scale=scale, epsilon=largest)
    yield f"Look at what ε guarantees each person: at ε = {largest:g} it is ε = {own[0]:.4g} for everybody."


def _note_level(preference: Preference, shifts_alike: bool) -> Iterator[str]:
    """Yield a note if the preference cannot depend on ε (R8), or if it depends on how large the RDRs are (R10).

    ``shifts_alike``: whether noise adds the same number to everybody's RDR.
    """
    if shifts_alike and preference.shift_free:
        yield _NO_DEPENDENCE
    elif preference.compares_raw_spread:
        yield _RAW_VARIANCE
    elif not preference.scale_free:
        yield _NOT_SCALE_FREE


def _note_groups(preference: Preference, sensitivities: Sensitivities) -> Iterator[str]:
    """Yield a note on each quantile in the preference, such as MEDIAN(rdr), that falls on people with PIS 0 (R10)."""
    for aggregate in preference.aggregates:
        if aggregate.fraction and _falls_on_zero(aggregate, sensitivities):
            yield (
                f"{preference.write_aggregate(aggregate)} falls on people who do not move the answer at all. "
                "By itself it constrains nothing."
            )


def _falls_on_zero(aggregate: PeopleAggregate, sensitivities: Sensitivities) -> bool:
    chosen = sensitivities.counts > 0
    if aggregate.filter is not None:
        chosen = chosen & np.asarray(sensitivities.attributes[aggregate.filter], dtype=bool)
    if not chosen.any() or aggregate.fraction is None:
        return False
    return weighted_quantile(sensitivities.values[chosen], sensitivities.counts[chosen], aggregate.fraction) == 0.0


def _note_outcome(found: JudgedCandidates, limit: ExactLimit, *, rising: bool = False) -> Iterator[str]:
    """Yield what the exact limit says about the ε that was found, or why none was found.

    If none was found because of the account, that is not said here. ``rising``: whether the preference also asks for
    accuracy, which more noise makes worse.
    """
    if limit.every:
        yield "Every ε meets this preference."
    elif found.stopped:
        return
    elif found.epsilon is None and limit.value is not None:
        yield (
            f"The largest ε that meets the preference is {limit.value:.4g}: only a smaller candidate or a weaker "
            "preference will do."
        )
    elif found.epsilon is None:
        yield f"A{'nother' if rising else ' smaller'} candidate may meet the preference, or a weaker preference be met."
    elif not rising and any(not verdict.satisfied for epsilon, verdict in found.tested if epsilon < found.epsilon):
        yield (
            f"The preference is met at ε = {found.epsilon:g} and not at every smaller candidate: here more noise does "
            "not always help."
        )
