"""The error to expect of an answer, before anybody has looked: decided by SQL, schema and noise alone, never by data.

An average's error depends on how many people are in a group. That is private, so the error is given for a few round
numbers of people.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dosimeter.planning import QueryPlan
from dosimeter.postprocess import find_rank_columns, foresee_accuracy, list_group_errors, rank_errors
from dosimeter.release import PreparedRelease
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
