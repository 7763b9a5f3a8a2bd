"""The error to expect of an answer, before anybody has looked: decided by SQL, schema and noise alone, never by data.

An average's error depends on how many people are in a group. That is private, so the error is given for a few round
numbers of people.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
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
    rank_errors,
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
    plan = prepared.plan
    names = [output.name for output in plan.outputs if output.is_aggregate]
    columns = [_expect(prepared, name, epsilons) for name in names[:most]]
    more, called = max(0, len(names) - most), plan.words
    counted = called.people if plan.schema.max_rows_per_unit == 1 else called.rows
    return ExpectedErrors(epsilons=list(epsilons), columns=columns, more=more, rows=called.rows, counted=counted)


def _expect(prepared: PreparedRelease, name: str, epsilons: Sequence[float]) -> ExpectedError:
    plan = _keep_column(prepared.plan, name)
    if name in find_rank_columns(prepared.plan):
        rows: list[float | None] = [rank_errors(prepared.plan, epsilon)[name] for epsilon in epsilons]
        return ExpectedError(column=name, errors=rows, in_rows=True)
    errors = [_foresee(prepared, plan, epsilon) for epsilon in epsilons]
    if any(error is not None for error in errors) or plan.is_united or plan.sets:
        return ExpectedError(column=name, errors=errors)
    sized = [_foresee_sizes(prepared, plan, epsilon) for epsilon in epsilons]
    by_people = {people: [each[at] for each in sized] for at, people in enumerate(PEOPLE)}
    told = {people: found for people, found in by_people.items() if any(error is not None for error in found)}
    return ExpectedError(column=name, errors=errors, by_people=told)


def _keep_column(plan: QueryPlan, name: str) -> QueryPlan:
    """Return the plan with only this column of the answer; the noise stays as large as for the whole query."""
    return replace(plan, outputs=tuple(output for output in plan.outputs if output.name == name))


def _foresee(prepared: PreparedRelease, plan: QueryPlan, epsilon: float) -> float | None:
    """Return the 95 % error of the plan's only column at this ε; None where it depends on the data."""
    (column,) = foresee_accuracy(plan, prepared.mechanism, [_scale(prepared, epsilon)])[0]
    return column.worst


def _foresee_sizes(prepared: PreparedRelease, plan: QueryPlan, epsilon: float) -> list[float | None]:
    """Return the 95 % error that the plan's only column would have in a group of 100, 1,000 and 10,000 people.

    One error for each size that ``PEOPLE`` lists; None where no error can be given.
    """
    counts = {estimate.measures[0] for estimate in plan.estimates if estimate.counted is not None}
    values = [[Fraction(people if at in counts else 0) for at in range(len(plan.measures))] for people in PEOPLE]
    keys: list[tuple[Scalar, ...]] = [(None,) * len(plan.groups)] * len(PEOPLE)
    found = list_group_errors(plan, prepared.mechanism, _scale(prepared, epsilon), [(keys, values)], len(PEOPLE))
    return [errors[0] for errors in found]


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
    ordered = sorted(epsilons)
    numbers: list[tuple[Keys, Numbers]] = []
    ranked: dict[tuple[int, int], FloatArray] = {}
    for at, block in enumerate(plan.answered):
        size = (shares[at] or 1) * Fraction(people, max(1, len(block.group_keys or ())))
        numbers.append(([(None,) * len(block.groups)], [_expect_numbers(block, size)]))
        for place, rank in block.ranks.items():  # by how many of a group's rows, as a share of the width
            rows = np.array([plan.rank_error(rank, epsilon, count_drawn(plan)) for epsilon in ordered])
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
    ordered = sorted(candidates)
    names = [output.name for output in prepared.plan.outputs if output.is_aggregate][:most]
    plans = [_keep_column(prepared.plan, name) for name in names]
    if find_rank_columns(prepared.plan):  # their errors count rows
        return None

    def is_met(epsilon: float) -> bool:
        errors = [_foresee(prepared, plan, epsilon) for plan in plans]
        return all(error is not None and error <= wanted for error in errors)

    if not plans or wanted < SMALLEST:
        return None
    at = bisect_left(ordered, True, key=is_met)
    return ordered[at] if at < len(ordered) else None
