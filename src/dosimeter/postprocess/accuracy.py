"""How accurate an answer would be, before it is released: for the controller, from exact numbers (E1).

Never draws noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dosimeter.arrays import BoolArray, FloatArray
from dosimeter.json_values import JsonObject
from dosimeter.mechanisms import Mechanism
from dosimeter.planning import QueryPlan
from dosimeter.postprocess.cell_errors import CellErrors, Noise, column_errors, find_told, needs_values
from dosimeter.postprocess.quotients import is_released
from dosimeter.postprocess.released_rows import Keys, Numbers, ReleasedRow, list_released_rows


@dataclass(frozen=True, slots=True, repr=False)
class ColumnAccuracy:
    """The accuracy of one column of an answer: how far off it would be, over the groups and totals. Private.

    ``typical`` and ``worst``: the median and the largest 95 % error of the groups that have one. ``relative`` and
    ``largest_relative``: the median and the largest relative error. Both largest ones may be those of a larger ε, at
    which a group could still be told (``keep_worst``). ``groups``: how many groups there are, totals
    included. ``too_few``: how many of them have too few people to tell. ``beyond``: how many have an error larger than
    their number, which may be 0. ``numbers``: how many numbers are not 0 and have an error. ``drowned``: how many of
    these are at most as large as their error. ``without``: how many numbers have no error. Fields that need exact
    numbers are None or 0 without them. Of thresholded groups only those count that have an even chance to be shown, or
    a better one (H1).
    """

    column: str
    typical: float | None
    worst: float | None
    relative: float | None = None
    too_few: int | None = None
    beyond: int | None = None
    groups: int | None = None
    numbers: int = 0
    drowned: int = 0
    without: int = 0
    largest_relative: float | None = None

    @property
    def mostly_too_few(self) -> bool:
        """Return whether half of the groups or more have too few people to tell: ``typical`` leaves these out."""
        return bool(self.groups and 2 * (self.too_few or 0) >= self.groups)

    def describe(self) -> JsonObject:
        """Return the fields as JSON documents have them."""
        return {
            "column": self.column,
            "typical": self.typical,
            "worst": self.worst,
            "relative": self.relative,
            "too_few": self.too_few,
            "beyond": self.beyond,
            "groups": self.groups,
        }

    def __repr__(self) -> str:
        return f"ColumnAccuracy(column={self.column!r}, redacted)"


def foresee_accuracy(
    plan: QueryPlan,
    mechanism: Mechanism,
    scales: Sequence[float],
    numbers: Sequence[tuple[Keys | None, Numbers]] | None = None,
    *,
    clamp: bool = False,
) -> list[tuple[ColumnAccuracy, ...]]:
    """Return, for each noise scale, the accuracy of each aggregate column.

    ``scales``: in the units of the norm (S5). ``numbers``: for each block of the plan, its groups and their exact
    measured numbers. Groups may be None where no column reads them and no total adds them up. Without ``numbers``, only
    errors that the scale alone decides are known, such as those of a COUNT. ``clamp``: whether released numbers would
    be put back into their bounds.
    """
    noises = Noise.at_each(plan, mechanism, scales)
    parts = zip(*(noise.split(plan) for noise in noises), strict=True)
    known: list[tuple[QueryPlan, CellErrors, BoolArray]] = []
    for at, (block, own) in enumerate(zip(plan.blocks, parts, strict=True)):
        if plan.further and plan.after.traced and at not in plan.after.rows_of:
            continue
        released = _list_public(block) if numbers is None else list_released_rows(block, *numbers[at])
        known.append((block, CellErrors(block, own, released, clamp=clamp), _find_shown(block, own, released)))
    places = [at for at, output in enumerate(plan.outputs) if output.is_aggregate]
    columns = [_foresee(plan.outputs[at].name, at, known, len(scales), numbers is not None) for at in places]
    return [tuple(column[level] for column in columns) for level in range(len(scales))]


def keep_worst(
    own: tuple[ColumnAccuracy, ...], larger: Sequence[tuple[ColumnAccuracy, ...]]
) -> tuple[ColumnAccuracy, ...]:
    """Return the accuracy at one ε, where no column's largest error is smaller than at a larger ε.

    A group that has too few people to tell at this ε counts with the error that it had where it could still be told. If
    no group can be told, there is no largest error. ``own``: the accuracy at this ε alone. ``larger``: those at larger
    ε's.
    """
    found = []
    for at, column in enumerate(own):
        every = [column, *(columns[at] for columns in larger)]
        worst = _largest([each.worst for each in every])
        relative = _largest([each.largest_relative for each in every])
        found.append(replace(column, worst=worst, largest_relative=relative))
    return tuple(found)


def _largest(errors: Sequence[float | None]) -> float | None:
    """Return the largest of several errors; None, which is larger than any number, if one of them is None."""
    known = [error for error in errors if error is not None]
    return max(known) if len(known) == len(errors) else None


def _find_shown(plan: QueryPlan, noises: Sequence[Noise], released: Sequence[ReleasedRow]) -> BoolArray:
    """Return, for each noise and each released row, whether the row has at least an even chance to be shown (H1).

    Declared groups are always shown. If no row has such a chance, all count as shown.
    """
    shown = np.ones((len(noises), len(released)), dtype=np.bool_)
    if plan.threshold is None:
        return shown
    people = np.array([float(row.measured[plan.threshold.people]) for row in released])
    share = Fraction(plan.threshold.delta) / plan.threshold.most
    for at, noise in enumerate(noises):
        enough = people > noise.mechanism.find_excess(float(noise.scales[plan.threshold.people]), share)
        shown[at] = enough | ~enough.any()
    return shown


def _foresee(
    name: str, at: int, known: Sequence[tuple[QueryPlan, CellErrors, BoolArray]], levels: int, values: bool
) -> list[ColumnAccuracy]:
    """Return the accuracy of one column over the rows of all blocks, one ColumnAccuracy per noise scale.

    ``at``: the column's index among the outputs. ``known``: for each block its plan, its errors and which of its rows
    would be shown. ``levels``: how many noise scales there are. ``values``: whether exact numbers are known.
    """
    counts = [sum(int(shown[level].sum()) for _, _, shown in known) for level in range(levels)]
    none = [
        ColumnAccuracy(name, None, None, groups=count if values else None, without=count * values) for count in counts
    ]
    errors, has_enough, sizes, among = [], [], [], []
    for block, known_errors, shown in known:
        count = shown.shape[1]
        formula = find_told(block, block.outputs[at])
        if formula is not None and not _is_noisy(formula):
            continue
        if formula is None or not (values or not needs_values(block, formula)) or not count:
            return none
        numbers, error, enough = known_errors.read_column(formula)
        errors.append(error.reshape(levels, count))
        among.append(shown)
        if values:
            has_enough.append(enough.reshape(levels, count) | ~shown)
            sizes.append(np.abs(numbers).reshape(levels, count))
    if not errors:
        return none
    every, shown = np.concatenate(errors, axis=1), np.concatenate(among, axis=1)
    typical, worst = _summarise(np.where(shown, every, np.inf))
    if not values:
        return [ColumnAccuracy(name, *each) for each in zip(typical, worst, strict=True)]
    size = np.concatenate(sizes, axis=1)
    kept = np.isfinite(every) & np.isfinite(size) & shown
    with np.errstate(all="ignore"):
        ratios = np.where(kept & (size > 0.0), every / size, np.inf)
        drowned = (np.isfinite(ratios) & (ratios >= 1.0)).sum(axis=1).tolist()
    relative, largest = _summarise(ratios)
    too_few = (~np.concatenate(has_enough, axis=1)).sum(axis=1).tolist()
    beyond = (kept & (every > size)).sum(axis=1).tolist()
    shared = np.isfinite(ratios).sum(axis=1).tolist()
    without = (shown & ~kept).sum(axis=1).tolist()
    return [
        ColumnAccuracy(
            name,
            typical[level],
            worst[level],
            relative=relative[level],
            too_few=too_few[level],
            beyond=beyond[level],
            groups=counts[level],
            numbers=shared[level],
            drowned=drowned[level],
            without=without[level],
            largest_relative=largest[level],
        )
        for level in range(levels)
    ]


def _summarise(errors: FloatArray) -> tuple[list[float | None], list[float | None]]:
    """Return the medians and the maxima of the finite numbers in each row of ``errors``; None for a row without any."""
    ordered = np.sort(np.where(np.isfinite(errors), errors, np.inf), axis=1)
    finite = np.isfinite(ordered).sum(axis=1)
    rows = np.arange(len(ordered))
    middle, last = (finite - 1) // 2, finite - 1
    medians = 0.5 * (ordered[rows, middle] + ordered[rows, finite // 2 % ordered.shape[1]])
    found = zip(finite.tolist(), medians.tolist(), ordered[rows, last].tolist(), strict=True)
    pairs = [(median, largest) if count else (None, None) for count, median, largest in found]
    return [median for median, _ in pairs], [largest for _, largest in pairs]


def _is_noisy(formula: exp.Expression) -> bool:
    """Return whether noise may move a column of the answer, by its formula in one block.

    True if the formula reads an aggregate, or a column that is written with its table's name (a.n); False for constants
    and group values. A column can be a constant in one SELECT of a UNION ALL and noisy in another.
    """
    return any(column.table or is_released(column, "e") for column in formula.find_all(exp.Column))


def error_95(plan: QueryPlan, mechanism: Mechanism, scale: float, values: Numbers | None) -> tuple[float | None, ...]:
    """Return the 95 % error of each aggregate column, the largest over these groups; None if no group has one.

    ``scale``: in the units of the norm. ``values``: the measured numbers of the plan's only block. Without these,
    only errors that the scale alone decides are known, such as those of a COUNT.
    """
    numbers = None if values is None else [(None, values)]
    return tuple(each.worst for each in foresee_accuracy(plan, mechanism, [scale], numbers)[0])


def list_group_errors(
    plan: QueryPlan,
    mechanism: Mechanism,
    scale: float,
    numbers: Sequence[tuple[Keys, Numbers]],
    most: int,
    shown: Sequence[int] | None = None,
) -> list[tuple[float | None, ...]]:
    """Return, for each of the first ``most`` groups, the 95 % error of every aggregate column.

    A column without an error has None. ``scale``: in the units of the norm. ``numbers``: the groups and measured
    numbers of each block. ``shown``: the indices of the blocks whose groups are listed; by default all.
    """
    found: list[tuple[float | None, ...]] = []
    noise = Noise.of(plan, mechanism, scale).split(plan)
    for at, (block, own, (keys, values)) in enumerate(zip(plan.blocks, noise, numbers, strict=True)):
        left = most - len(found) if shown is None or at in shown else 0
        whole = list(keys) == list(block.group_keys or ())  # otherwise derived columns have no error
        whole = whole and any(each.derived is not None for each in block.outputs)
        last = len(keys) if whole else left
        released = [ReleasedRow(key, measured) for key, measured in zip(keys[:last], values[:last], strict=True)]
        columns = column_errors(block, own, released, whole=whole).values()
        found += [tuple(column[place] for column in columns) for place in range(min(left, len(released)))]
    return found


def _list_public(plan: QueryPlan) -> tuple[ReleasedRow, ...]:
    """Return what is known of the released rows without reading data: one row per grouping set, its numbers all 0.

    The row's ``terms`` says how many groups each total of this grouping set adds up; it is 1 for single groups.
    """
    sizes = [len(group.values or ()) for group in plan.groups]
    empty = [Fraction(0)] * len(plan.measures)
    sets = plan.sets or (tuple(range(len(sizes))),)
    terms = (math.prod(size for at, size in enumerate(sizes) if at not in kept) for kept in sets)
    return tuple(ReleasedRow((None,) * len(sizes), empty, max(1, each)) for each in terms)
