"""RDRs, accuracy and absolute risks of all candidates, computed in one pass. Private.

What does not depend on ε is computed once; the rest is computed for all ε together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.postprocess import count_drawn, foresee_accuracy, keep_worst, needs_values, rank_errors
from dosimeter.risk import (
    FALSE_ALARMS,
    AbsoluteRisk,
    Candidate,
    compute_rank_rdr,
    compute_rdr,
    largest_power,
    lee_clifton,
    posterior_of_alarm,
    posterior_probability,
    summarise_rdrs,
)

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray
    from dosimeter.assessment.risk import Risk
    from dosimeter.options import Indicator
    from dosimeter.postprocess import ColumnAccuracy
    from dosimeter.risk import AnswerNumber, RDRs, Sensitivities


_MOST_AT_ONCE = 2**19
"""The most RDRs that are held at once: 4 MB. More would leave the processor's cache."""


def split_epsilons(classes: Sensitivities, epsilons: Sequence[float]) -> Iterator[Sequence[float]]:
    """Yield the ε's in parts whose RDRs are computed together: one part, unless there are very many classes."""
    step = max(1, _MOST_AT_ONCE // max(len(classes.values), 1))
    return (epsilons[start : start + step] for start in range(0, len(epsilons), step))


def compute_rdrs(
    risk: Risk, classes: Sensitivities, epsilons: Sequence[float], indicator: Indicator | None = None
) -> list[RDRs]:
    """Return the RDRs of these classes of equally exposed people, one RDRs per ε.

    ``indicator``: by default the one of ``risk``.
    """
    compute = partial(compute_rank_rdr, cells=risk.ranked) if risk.plan.ranks else compute_rdr
    return [
        compute(
            classes,
            risk.mechanism,
            sensitivity=risk.sensitivity,
            scale=risk.noise_scale(epsilon),
            epsilon=epsilon,
            indicator=risk.indicator if indicator is None else indicator,
            grids=risk.grids,
        )
        for epsilon in epsilons
    ]


def list_lines(risk: Risk, many: Sequence[RDRs]) -> tuple[Candidate, ...]:
    """Return one Candidate per ε: its accuracy, the spread of its RDRs and its absolute risks.

    ``many``: the RDRs at each ε.
    """
    epsilons, plan = [rdrs.epsilon for rdrs in many], risk.plan
    in_rows: list[tuple[float | None, ...]] = [()] * len(epsilons)
    if plan.ranks:
        by_name = [rank_errors(plan, epsilon) for epsilon in epsilons]
        in_rows = [tuple(each.get(name) for name in plan.aggregate_names) if each else () for each in by_name]
    measured = zip(
        epsilons,
        foresee_each(risk, epsilons),
        summarise_rdrs(many),
        measure_absolutes(risk, epsilons),
        in_rows,
        strict=True,
    )
    return tuple(
        Candidate(
            epsilon=epsilon,
            noise_scale=None if plan.only_ranks else risk.noise_scale(epsilon),
            error_95=tuple(
                None if drawn is not None else each.worst
                for each, drawn in zip(accuracy, rows or (None,) * len(accuracy), strict=True)
            ),
            rdr=spread,
            absolute=absolute,
            rank_errors=rows,
            accuracy=accuracy,
        )
        for epsilon, accuracy, spread, absolute, rows in measured
    )


def foresee_each(
    risk: Risk, epsilons: Sequence[float], *, clamp: bool = False, read: bool = False
) -> list[tuple[ColumnAccuracy, ...]]:
    """Return, for each ε, the accuracy of each aggregate column of the answer; results are remembered in ``risk``.

    No largest error is smaller than at a larger candidate: a group that has too few people to tell does not drop out.
    ``clamp``: whether released numbers would be put back into their bounds. ``read``: read the exact numbers even if no
    error depends on them.
    """
    plan, left_out = risk.plan, risk.left_out.moves_numbers
    held = (plan.additive and risk.profile.holds_totals) or bool(plan.ranks)
    known = held or needs_values(plan) or ((read or left_out) and bool(plan.digest))
    foreseen = risk.foreseen
    listed = sorted({*risk.candidates, *epsilons})
    needed = listed[listed.index(min(epsilons)) :] if epsilons else []
    missing = [epsilon for epsilon in needed if (epsilon, clamp, known) not in foreseen]
    if missing:
        numbers = risk.held_numbers() if known else None
        found = foresee_accuracy(
            plan,
            risk.mechanism,
            [risk.noise_scale(epsilon) for epsilon in missing],
            numbers,
            clamp=clamp,
            ranked=find_drawn_errors(risk, missing) if known and plan.ranks else None,
            plain=risk.plain if known and left_out else None,
            unknown=left_out and risk.plain is None,
        )
        foreseen.update({(epsilon, clamp, known): each for epsilon, each in zip(missing, found, strict=True)})
    kept = dict(zip(needed, keep_worst([foreseen[epsilon, clamp, known] for epsilon in needed]), strict=True))
    return [kept[epsilon] for epsilon in epsilons]


def find_drawn_errors(risk: Risk, epsilons: Sequence[float]) -> dict[tuple[int, int], FloatArray]:
    """Return the 95 % errors of the numbers drawn by rank, as values, by block and measure: they depend on the data.

    Each has a row per ε and a column per group. The drawn value's rank is off by at most the stated number of rows
    (E3); the error is the distance to the farthest value of which that is true. ∞ for a group without values.
    """
    blocks = zip(risk.measured().blocks, risk.plan.blocks, strict=True)
    counts = [(len(block.keys), len(part.measures)) for block, part in blocks]
    firsts = np.cumsum([0, *(groups * measures for groups, measures in counts)])
    found: dict[tuple[int, int], FloatArray] = {}
    cells, shares = count_drawn(risk.plan), [risk.plan.rank_share(epsilon) for epsilon in epsilons]
    for cell in risk.ranked.cells:
        block = int(np.searchsorted(firsts, cell.cell, side="right")) - 1
        group, measure = divmod(cell.cell - int(firsts[block]), counts[block][1])
        errors = found.setdefault((block, measure), np.full((len(epsilons), counts[block][0]), np.inf))
        errors[:, group] = [cell.find_error(share, cells) for share in shares]
    return found


def limit_belief(risk: Risk, number: AnswerNumber, epsilon: float) -> float:
    """Return what a preference reads as guess(b) (P5) or posterior(p) (P3) at this ε."""
    assert number.given is not None
    limit = {"guess": _limit_guess, "posterior": _limit_posterior}[number.name]
    return limit(risk, epsilon, number.given, epsilon_svt=0.0)


def _limit_guess(risk: Risk, epsilon: float, baseline: float, *, epsilon_svt: float) -> float:
    """Return how probably a fact about anybody is guessed at most, which would be guessed so beforehand (P5).

    Of the person guessed at only the schema's promise is known, Δ: their rows might have been others.
    """
    return _find_power(risk, epsilon, baseline, risk.sensitivity, epsilon_svt)


def _limit_posterior(risk: Risk, epsilon: float, prior: float, *, epsilon_svt: float) -> float:
    """Return what this belief that the most exposed person is in can become (P3).

    By any answer where ε is pure, and otherwise by an alarm.
    """
    if risk.pure:
        return posterior_probability(prior, epsilon + epsilon_svt)
    found = risk.sensitivities
    share = None if found.shares is None else float(found.shares.max(initial=0.0))
    distance = float(found.values[-1]) if share is None else share * risk.sensitivity  # R12
    return posterior_of_alarm(prior, FALSE_ALARMS, _find_power(risk, epsilon, FALSE_ALARMS, distance, epsilon_svt))


def _find_power(risk: Risk, epsilon: float, chance: float, distance: float, epsilon_svt: float) -> float:
    return largest_power(
        chance,
        risk.mechanism,
        distance=distance,
        scale=risk.noise_scale(epsilon),
        grids=risk.grids,
        epsilon_svt=epsilon_svt,
        group_delta=risk.group_delta,
    )


def measure_absolutes(
    risk: Risk, epsilons: Sequence[float], *, prior: float = 0.01, baseline: float = 0.1, charge: float | None = None
) -> list[AbsoluteRisk]:
    """Return the absolute risks of the most exposed person (P1–P5), one AbsoluteRisk per ε.

    ``prior``: the probability at which somebody believes beforehand that a person is in the data. ``baseline``: the
    probability with which somebody would guess a fact about a person beforehand. ``charge``: what the answer is charged
    in all, in ε; None if that is ε itself.
    """
    ranked, pure, people = bool(risk.plan.ranks), risk.pure, risk.contributions.n
    sensitivity = risk.sensitivity
    difference, exact = risk.difference if pure and not ranked else (0.0, True)
    found = risk.sensitivities
    value, share = found.values[-1:], None if found.shares is None else np.array([found.shares.max(initial=0.0)])
    svt = [0.0 if charge is None else max(charge - epsilon, 0.0) for epsilon in epsilons]
    own = [min(float(risk.own_epsilons(value, share, epsilon)[0]), epsilon) for epsilon in epsilons]
    tests = [float(risk.advantages(value, share, *each)[0]) for each in zip(epsilons, svt, strict=True)]
    return [
        AbsoluteRisk(
            epsilon=epsilon,
            own_epsilon=own[at],
            identification=lee_clifton(people, epsilon, sensitivity, difference) if pure and not ranked else None,
            identification_exact=exact,
            prior=prior,
            posterior=_limit_posterior(risk, epsilon, prior, epsilon_svt=svt[at]),
            false_alarms=None if pure else FALSE_ALARMS,
            advantage=tests[at],
            baseline=baseline,
            guess=_limit_guess(risk, epsilon, baseline, epsilon_svt=svt[at]),
            people=people,
            charge=epsilon if charge is None else charge,
        )
        for at, epsilon in enumerate(epsilons)
    ]
