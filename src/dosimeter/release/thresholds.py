"""Show those groups of the data that have enough individuals (H1). Takes measured groups; reads no data itself.

Which groups exist is private. A group is shown if its noisy number of individuals reaches a threshold. The threshold is
so high that an individual who is alone in their groups makes any of these appear with at most the charged probability
δ. It is computed here, exactly: OpenDP's own constructors understate δ, so OpenDP only draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from fractions import Fraction
from heapq import nsmallest
from typing import TYPE_CHECKING, cast

from dosimeter.errors import OptionError
from dosimeter.influence import Measured, order_key
from dosimeter.planning import Group, QueryPlan, Threshold
from dosimeter.problems import Option, for_controller
from dosimeter.release.noise import Calibrated, CalibratedSelection, exact_number
from dosimeter.release.noisy_vector import GroupKey, NoisyVector, add_noise_to
from dosimeter.sql import MOST_ROWS, Type

if TYPE_CHECKING:
    from dosimeter.json_values import JsonScalar
    from dosimeter.schema import Scalar


_NoisyGroup = tuple[GroupKey, tuple[Fraction, ...]]
AT_ONCE = 2**16  # groups that get noise together


def find_threshold(threshold: Threshold, noise: Sequence[Calibrated | CalibratedSelection]) -> int:
    """Return T, the least noisy number of individuals at which a group is shown (H1).

    T is as small as the charged δ allows: a group with one individual is shown with a probability of at most D/ℓ₀. In a
    formula, P(1 + Z ≥ T) ≤ D/ℓ₀ for the noise Z on the number of individuals. D is the δ of thresholded groups, ℓ₀ the
    most groups of one individual. Refuses a D that is too large beside ε for the proof of H1. Public: depends on SQL,
    schema, ε and D alone.
    """
    counted = noise[threshold.people]
    assert isinstance(counted, Calibrated), "a number of individuals gets noise"
    delta = exact_number(threshold.delta)
    spared = threshold.most * (1 - delta)
    if delta * Fraction(counted.mechanism.loss_unit(counted.scale)) > spared:
        raise OptionError(
            Option("group_delta", threshold.delta),
            " is too large beside an ε as small as this: the promise would not hold.",
            for_controller("Take a δ far below 1/n, or leave such small ε's out."),
        )
    return 1 + counted.mechanism.find_excess(counted.scale, delta / threshold.most)


def draw_numbers(
    plan: QueryPlan, measured: Measured, noise: Sequence[Calibrated | CalibratedSelection]
) -> list[NoisyVector]:
    """Return the noisy numbers of each block (a SELECT that measures), of those groups that are shown.

    ``noise``: how each measure of the plan is drawn.
    """
    if plan.threshold is not None:
        return [draw_shown(plan, plan.threshold, measured, noise)]
    parts = zip(plan.blocks, measured.blocks, plan.split(noise), strict=True)
    return [add_noise_to(block, exact.keys, exact.values, own, exact.columns) for block, exact, own in parts]


def draw_shown(
    plan: QueryPlan, threshold: Threshold, measured: Measured, noise: Sequence[Calibrated | CalibratedSelection]
) -> NoisyVector:
    """Return the groups whose noisy number of individuals reaches the threshold, in order, with their noisy numbers.

    Noise is added to some groups at a time, so that what is not shown need not be kept. Of more groups than an answer
    may have rows, those with the most individuals by their noisy number are returned; they are charged like any others.
    """
    least, people = find_threshold(threshold, noise), threshold.people
    shown: list[_NoisyGroup] = []
    for start in range(0, len(measured.keys), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        columns = {at: counted[part] for at, counted in measured.columns.items()}
        noisy = add_noise_to(plan, measured.keys[part], measured.values[part], noise, columns)
        shown += [(key, row) for key, row in zip(noisy.keys, noisy.values, strict=True) if row[people] >= least]
        if len(shown) > 2 * MOST_ROWS:
            shown = _keep_largest(shown, people)
    shown = sorted(_keep_largest(shown, people), key=lambda group: order_key(group[0]))
    return NoisyVector(tuple(key for key, _ in shown), tuple(row for _, row in shown))


def _keep_largest(shown: list[_NoisyGroup], people: int) -> list[_NoisyGroup]:
    """Return as many groups as an answer may have rows: those with the largest noisy number of individuals.

    Equal numbers are told apart by the groups' values, never by the order in which the data gave them.
    """
    if len(shown) <= MOST_ROWS:
        return shown
    return nsmallest(MOST_ROWS, shown, key=lambda group: (-group[1][people], order_key(group[0])))


# ---------------------------------------------------------------- the shown groups in the ledger


def write_keys(keys: Sequence[GroupKey]) -> list[list[JsonScalar]]:
    """Return the values of released groups as JSON has them; dates and timestamps as text."""
    return [[cast("JsonScalar", each.isoformat() if isinstance(each, date) else each) for each in key] for key in keys]


def read_keys(written: Sequence[Sequence[JsonScalar]], groups: Sequence[Group]) -> tuple[GroupKey, ...]:
    """Return the values of released groups that ``write_keys`` wrote, in the types of their group columns."""
    return tuple(
        tuple(_read_value(value, group.type) for value, group in zip(key, groups, strict=True)) for key in written
    )


def _read_value(value: JsonScalar, kind: Type) -> Scalar:
    if isinstance(value, str) and kind is Type.DATE:
        return date.fromisoformat(value)
    if isinstance(value, str) and kind is Type.TIMESTAMP:
        return datetime.fromisoformat(value)
    return value
