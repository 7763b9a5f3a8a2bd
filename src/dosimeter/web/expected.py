"""The error to expect of an answer, before anybody has looked: decided by SQL, schema and noise alone, never by data.

An average's error depends on how many people are in a group. That is private, so the error is given for a few round
numbers of people.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dosimeter.arrays import FloatArray
from dosimeter.measures import Centred, CentredSquares, Sum, Total
from dosimeter.planning import QueryPlan, expect_share
from dosimeter.postprocess import (
    Keys,
    Numbers,
    count_drawn,
    find_rank_columns,
    foresee_accuracy,
    list_group_errors,
)
from dosimeter.release import PreparedRelease
from dosimeter.risk import AnswerAccuracy
from dosimeter.schema import Scalar
from dosimeter.web.public import ExpectedError, ExpectedErrors

EPSILONS = (0.1, 0.5, 1.0)
PEOPLE = (100, 1_000, 10_000)
MOST_COLUMNS = 8
SMALLEST = 1e-9


def expect_errors(
    prepared: PreparedRelease, epsilons: Sequence[float] = EPSILONS, *, most: int = MOST_COLUMNS
) -> ExpectedErrors:
    """Return the 95 % errors to expect at each of these ε's, of the first ``most`` columns."""
    plan, called = prepared.plan, prepared.plan.words
    names, foreseen = plan.aggregate_names, list(zip(*_foresee(prepared, epsilons), strict=True))
    unknown = [at for at, errors in enumerate(foreseen) if not any(error is not None for error in errors)]
    sized = [] if not unknown or plan.is_united or plan.sets else [_foresee_sizes(prepared, each) for each in epsilons]
    drawn = find_rank_columns(plan)
    cells = count_drawn(plan) if drawn else 1
    columns = []
    for at, name in enumerate(names[:most]):
        if name in drawn:
            rows: list[float | None] = [
                max(plan.rank_error(rank, epsilon, cells) for rank in drawn[name]) for epsilon in epsilons
            ]
            columns.append(ExpectedError(column=name, errors=rows, in_rows=True))
            continue
        by_people = {people: [each[row][at] for each in sized] for row, people in enumerate(PEOPLE) if at in unknown}
        told = {people: found for people, found in by_people.items() if any(error is not None for error in found)}
        columns.append(ExpectedError(column=name, errors=list(foreseen[at]), by_people=told))
    counted = called.people if plan.schema.max_rows_per_unit == 1 else called.rows
    more = max(0, len(names) - most)
    return ExpectedErrors(epsilons=list(epsilons), columns=columns, more=more, rows=called.rows, counted=counted)


def _foresee(prepared: PreparedRelease, epsilons: Sequence[float]) -> list[list[float | None]]:
    """Return, for each ε, the 95 % error of each column; None where it depends on the data."""
    scales = [_scale(prepared, epsilon) for epsilon in epsilons]
    return [[each.worst for each in level] for level in foresee_accuracy(prepared.plan, prepared.mechanism, scales)]


def _foresee_sizes(prepared: PreparedRelease, epsilon: float) -> list[tuple[float | None, ...]]:
    """Return the 95 % errors that the columns would have in a group of 100, of 1,000 and of 10,000 people.

    They are given for each size that ``PEOPLE`` lists; None where no error can be given.
    """
    plan = prepared.plan
    counts = {estimate.measures[0] for estimate in plan.estimates if estimate.counted is not None}
    values = [[Fraction(people if at in counts else 0) for at in range(len(plan.measures))] for people in PEOPLE]
    keys: list[tuple[Scalar, ...]] = [(None,) * len(plan.groups)] * len(PEOPLE)
    return list_group_errors(plan, prepared.mechanism, _scale(prepared, epsilon), [(keys, values)], len(PEOPLE))


def _scale(prepared: PreparedRelease, epsilon: float) -> float:
    return prepared.mechanism.scale(prepared.plan.sensitivity(prepared.mechanism.norm), epsilon)


def expect_accuracies(
    prepared: PreparedRelease, epsilons: Sequence[float], *, sized: bool = True
) -> dict[float, AnswerAccuracy]:
    """Return the accuracy to expect at each ε if the declared people were spread evenly over values and bounds.

    Nothing is read from the data. Empty where the schema does not tell how many people there are or, if errors depend
    on it (``sized``), how many meet the WHERE.
    """
    plan, people = prepared.plan, prepared.plan.schema.individuals
    shares = [expect_share(block.where, plan.schema) for block in plan.answered]
    if people is None or plan.k is None or not plan.aggregate_names or (sized and None in shares):
        return {}
    ordered, cells = sorted(epsilons), count_drawn(plan)
    numbers: list[tuple[Keys, Numbers]] = []
    ranked: dict[tuple[int, int], FloatArray] = {}
    for at, block in enumerate(plan.answered):
        size = (shares[at] or 1) * Fraction(people, max(1, len(block.group_keys or ())))
        numbers.append(([(None,) * len(block.groups)], [_expect_numbers(block, size)]))
        for place, rank in block.ranks.items():  # by how many of a group's rows, as a share of the width
            rows = np.array([plan.rank_error(rank, epsilon, cells) for epsilon in ordered])
            width = float(rank.argument.width * rank.argument.unit)
            ranked[at, place] = (width * np.minimum(rows / float(size), 1.0)).reshape(-1, 1)
    found = foresee_accuracy(
        plan, prepared.mechanism, [_scale(prepared, epsilon) for epsilon in ordered], numbers, ranked=ranked
    )
    return {epsilon: AnswerAccuracy.of(columns) for epsilon, columns in zip(ordered, found, strict=True)}


def _expect_numbers(plan: QueryPlan, people: Fraction) -> list[Fraction]:
    """Return the numbers of the measures over so many people with one row each, values spread evenly over bounds."""
    numbers = [Fraction(0)] * len(plan.measures)
    for at, measure in enumerate(plan.measures):
        match measure:
            case Sum(argument=argument):
                numbers[at] = people * (argument.middle or argument.largest * argument.unit / 2)
            case CentredSquares(argument=argument):
                numbers[at] = people * (argument.width * argument.unit) ** 2 / 12
            case Total() if not isinstance(measure, Centred):  # a count
                numbers[at] = people
    for estimate in plan.estimates:
        for at, number in zip(estimate.measures, estimate.spread_evenly(float(people)) or (), strict=False):
            numbers[at] = Fraction(number)
    return numbers


def find_needed(
    prepared: PreparedRelease, wanted: float, candidates: Sequence[float], *, most: int | None = MOST_COLUMNS
) -> float | None:
    """Return the smallest candidate at which the 95 % error of each of the first columns is at most ``wanted``.

    ``most``: how many columns; None for all. None if no candidate is known to be enough: for example, if the error of
    one of these columns depends on the data, or if any column of the answer is drawn by rank. Errors fall as ε grows,
    so the smallest is found by bisection.
    """
    plan, ordered = prepared.plan, sorted(candidates)
    if not plan.aggregate_names or wanted < SMALLEST or find_rank_columns(plan):  # whose errors count rows
        return None

    def is_met(epsilon: float) -> bool:
        (errors,) = _foresee(prepared, [epsilon])
        return all(error is not None and error <= wanted for error in errors[:most])

    at = bisect_left(ordered, True, key=is_met)
    return ordered[at] if at < len(ordered) else None
