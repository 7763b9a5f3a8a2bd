"""How accurate an answer would be, before it is released: for the controller, from exact numbers (E1).

Never draws noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dosimeter.arrays import BoolArray, FloatArray
from dosimeter.html import Private
from dosimeter.json_values import JsonObject
from dosimeter.mechanisms import Mechanism
from dosimeter.planning import QueryPlan
from dosimeter.postprocess.cell_errors import (
    CellErrors,
    Noise,
    column_errors,
    find_estimate,
    find_formula,
    find_width,
    is_one_signed,
    is_signed,
    needs_values,
)
from dosimeter.postprocess.plain_answer import PlainAnswer
from dosimeter.postprocess.quotients import is_released
from dosimeter.postprocess.released_rows import Keys, Numbers, ReleasedRow, list_released_rows

LOST = 0.25
"""The share of the width of its bounds beyond which an error leaves a bounded number worth little (E6)."""


@dataclass(frozen=True, slots=True, repr=False)
class TotalError(Private):
    """The median and the largest error of a column by noise and bias together, and the median relative one (E4)."""

    typical: float | None = None
    worst: float | None = None
    relative: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Bias(Private):
    """How far a column's exact numbers lie from the plain ones (E4): the largest and the median distance over groups.

    ``direction``: the median of exact less plain; below 0 if the numbers are mostly too small. ``relative``: the median
    distance in relation to the plain number or, for what is bounded, to the width of the bounds.
    """

    worst: float = 0.0
    typical: float = 0.0
    direction: float = 0.0
    relative: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class ColumnAccuracy:
    """The accuracy of one column of an answer: how far off it would be, over the groups and totals. Private.

    ``typical`` and ``worst``: the median and the largest 95 % error of the groups that have one, by noise alone.
    ``relative``: the median error in relation to the number or, for what is bounded, to the width of the bounds (E6).
    ``total``: the same three of noise and bias together, by which an answer is judged. Its largest error may be that of
    a larger ε, at which a group could still be told (``keep_worst``), as ``worst`` and ``largest_relative``, the
    largest relative total error. ``bias``: how far the exact numbers lie from the plain ones (E4); None if unknown.
    ``groups``: how many groups there are, totals included. ``too_few``: how many of them have too few people to tell.
    ``beyond``: how many have a total error larger than their number, which may be 0, or than ``LOST`` of the width of
    their bounds. ``numbers``: how many numbers have an error, and are not 0 or are bounded. ``drowned``: how many of
    these are at most as large as their total error or, if bounded, have an error beyond ``LOST``. ``without``: how many
    numbers have no error. ``of_itself``: of averages of values of one sign, the median total error in relation to the
    number itself, as bounds that are far too wide make any error look small. Fields that need exact numbers are None or
    0 without them. Of thresholded groups only those count that have an even chance to be shown, or a better one (H1).
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
    total: TotalError = TotalError()
    bias: Bias | None = Bias()
    bounded: bool = False
    of_itself: float | None = None

    @property
    def mostly_too_few(self) -> bool:
        """Return whether half of the groups or more have too few people to tell: ``typical`` leaves these out."""
        return bool(self.groups and 2 * (self.too_few or 0) >= self.groups)

    def find_usual(self, *, relative: bool = False, noise_alone: bool = False) -> float | None:
        """Return the error of a typical number, of noise and bias together; None if most have too few people to tell.

        ``relative``: in relation to the number or its bounds. ``noise_alone``: without the bias.
        """
        if self.mostly_too_few:
            return None
        found = self if noise_alone else self.total
        return found.relative if relative else found.typical

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
            "bias": None if self.bias is None else {"worst": self.bias.worst, "typical": self.bias.typical},
            "total": None if self.bias is None else asdict(self.total),
        }

    def __repr__(self) -> str:
        return f"ColumnAccuracy(column={self.column!r}, redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class _Block(Private):
    """One block of an answer: its plan, its index, its errors, its rows, and which of these would be shown."""

    plan: QueryPlan
    at: int
    errors: CellErrors
    released: Sequence[ReleasedRow]
    shown: BoolArray


def foresee_accuracy(
    plan: QueryPlan,
    mechanism: Mechanism,
    scales: Sequence[float],
    numbers: Sequence[tuple[Keys | None, Numbers]] | None = None,
    *,
    clamp: bool = False,
    ranked: Mapping[tuple[int, int], FloatArray] | None = None,
    plain: PlainAnswer | None = None,
    unknown: bool = False,
) -> list[tuple[ColumnAccuracy, ...]]:
    """Return, for each noise scale, the accuracy of each aggregate column.

    ``scales``: in the units of the norm (S5). ``numbers``: for each block of the plan, its groups and their exact
    measured numbers. Groups may be None where no column reads them and no total adds them up. Without ``numbers``, only
    errors that the scale alone decides are known, such as those of a COUNT. ``clamp``: whether released numbers would
    be put back into their bounds. ``ranked``: by block and measure, the errors of numbers drawn by rank, as values, a
    row per scale and a column per group. ``plain``: the plain answer, where something is cut, clamped or left out;
    ``unknown``: something is, and the plain answer could not be had.
    """
    noises = Noise.at_each(plan, mechanism, scales)
    parts = zip(*(noise.split(plan) for noise in noises), strict=True)
    known: list[_Block] = []
    for at, (block, own) in enumerate(zip(plan.answered, parts, strict=False)):
        if plan.further and plan.after.traced and at not in plan.after.rows_of:
            continue
        released = _list_public(block) if numbers is None else list_released_rows(block, *numbers[at])
        errors = CellErrors(block, own, released, clamp=clamp)
        known.append(_Block(block, at, errors, released, _find_shown(block, own, released)))
    places = [at for at, output in enumerate(plan.outputs) if output.is_aggregate]
    foresee = _Foresight(known, len(scales), numbers is not None, ranked or {}, plain, unknown, mechanism, clamp)
    columns = [foresee.column(plan.outputs[at].name, at) for at in places]
    return [tuple(column[level] for column in columns) for level in range(len(scales))]


def keep_worst(ascending: Sequence[tuple[ColumnAccuracy, ...]]) -> list[tuple[ColumnAccuracy, ...]]:
    """Return these accuracies, by ascending ε, so that no column's largest error is smaller than at a larger ε.

    A group that has too few people to tell at an ε counts with the error that it had where it could still be told. If
    no group can be told, there is no largest error.
    """
    kept = list(ascending)
    for at in reversed(range(len(kept) - 1)):
        kept[at] = tuple(map(_keep_worse, kept[at], kept[at + 1]))
    return kept


def _keep_worse(column: ColumnAccuracy, larger: ColumnAccuracy) -> ColumnAccuracy:
    """Return the column's accuracy, with no largest error below that at a larger ε."""

    own = column.worst, column.largest_relative, column.total.worst
    most = (
        _find_larger(column.worst, larger.worst),
        _find_larger(column.largest_relative, larger.largest_relative),
        _find_larger(column.total.worst, larger.total.worst),
    )
    if most == own:
        return column
    return replace(column, worst=most[0], largest_relative=most[1], total=replace(column.total, worst=most[2]))


def _find_larger(one: float | None, other: float | None) -> float | None:
    """Return the larger of two errors; None, which is larger than any number, if one of them is None."""
    return None if one is None or other is None else max(one, other)


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


@dataclass(frozen=True, slots=True, repr=False)
class _Cells(Private):
    """The cells of one column over all blocks. Arrays have a row per noise scale, or one element per cell.

    ``errors``: by noise, ∞ without one. ``bias``: exact less plain; NaN where there is no plain number. ``sizes``: what
    an error is judged against: the number, or the width of its bounds. ``bounded``: whether it is the latter.
    ``signed``: a sum of values of both signs. ``one_signed``: an average of values of one sign. ``plain``: the sizes of
    the plain numbers.
    """

    errors: FloatArray
    shown: BoolArray
    has_enough: BoolArray
    numbers: FloatArray
    bias: FloatArray
    sizes: FloatArray
    bounded: BoolArray
    signed: BoolArray
    one_signed: BoolArray
    plain: FloatArray


@dataclass(frozen=True, slots=True, repr=False)
class _Foresight(Private):
    """What the accuracy of a column is found from; see ``foresee_accuracy``. ``levels``: how many noise scales."""

    known: Sequence[_Block]
    levels: int
    values: bool
    ranked: Mapping[tuple[int, int], FloatArray]
    plain: PlainAnswer | None
    unknown: bool
    mechanism: Mechanism
    clamp: bool

    def column(self, name: str, at: int) -> list[ColumnAccuracy]:
        """Return the accuracy of one column over the rows of all blocks, one ColumnAccuracy per noise scale.

        ``at``: the column's index among the outputs.
        """
        counts = [sum(int(block.shown[level].sum()) for block in self.known) for level in range(self.levels)]
        bias = Bias() if self.plain is None and not self.unknown else None
        none = [
            ColumnAccuracy(
                name, None, None, groups=count if self.values else None, without=count * self.values, bias=bias
            )
            for count in counts
        ]
        parts: list[_Cells] = []
        for block in self.known:
            formula = find_formula(block.plan, block.plan.outputs[at])
            if formula is not None and not _is_noisy(formula):
                continue
            if formula is None or not (self.values or not needs_values(block.plan, formula)) or not block.released:
                return none
            parts.append(self._read_cells(block, at, formula))
        if not parts:  # noise moves no number of it, and nor does what is left out
            return [replace(each, bias=Bias()) for each in none]
        cells = _Cells(*(np.concatenate(each, axis=-1) for each in zip(*map(_list_arrays, parts), strict=True)))
        return self._summarise(name, cells, counts)

    def _read_cells(self, block: _Block, at: int, formula: exp.Expression) -> _Cells:
        """Return the cells of one column in one block."""
        count = block.shown.shape[1]
        shape = self.levels, count
        numbers, errors, enough = block.errors.read_column(formula)
        numbers, errors, enough = numbers.reshape(shape), errors.reshape(shape), enough.reshape(shape)
        estimate = find_estimate(block.plan, formula)
        alone = None if estimate is None else estimate.alone
        drawn = None if alone is None else self.ranked.get((block.at, alone))
        if drawn is not None:
            errors, enough = drawn, np.isfinite(drawn)
        width = find_width(block.plan, estimate)
        exact = numbers[0] if len(numbers) else np.zeros(count)
        bias = np.zeros(count)
        if self.plain is not None:
            plain = self.plain.read_column(block.at, at, block.released, self.mechanism, clamp=self.clamp)
            bias = exact - plain
            if width is not None and alone is not None:  # two empty groups differ in nothing
                own = block.plan.measures[alone].empty
                empty = self.plain.is_empty(block.at, alone, block.released)
                nobody = [row.measured[alone] == own and none for row, none in zip(block.released, empty, strict=True)]
                bias = np.where(nobody, 0.0 if all(nobody) else np.nan, bias)
        plain_numbers = np.abs(exact - np.nan_to_num(bias))
        return _Cells(
            errors,
            block.shown,
            enough,
            numbers,
            bias,
            plain_numbers if width is None else np.full(count, width),
            np.full(count, width is not None),
            np.full(count, alone is not None and is_signed(block.plan.measures[alone])),
            np.full(count, is_one_signed(estimate)),
            plain_numbers,
        )

    def _summarise(self, name: str, cells: _Cells, counts: Sequence[int]) -> list[ColumnAccuracy]:
        """Return the accuracy of a column at each noise scale. ``counts``: how many groups are shown at each."""
        every = np.where(cells.shown, cells.errors, np.inf)
        both = every + np.abs(np.nan_to_num(cells.bias))
        noise = zip(*_summarise(every), strict=True)
        totals = zip(*_summarise(both), strict=True)
        if not self.values:
            pairs = zip(noise, totals, strict=True)
            return [ColumnAccuracy(name, *alone, total=TotalError(*total)) for alone, total in pairs]
        bias, kept = self._describe_bias(cells), np.isfinite(every) & np.isfinite(cells.numbers)
        with np.errstate(all="ignore"):
            against = np.where(cells.bounded, cells.sizes, np.abs(cells.numbers))
            own = np.where(kept & (against > 0.0), every / against, np.inf)
            ratios = np.where(kept & (cells.sizes > 0.0), both / cells.sizes, np.inf)
        limit = np.where(cells.bounded, LOST, 1.0)
        lost = np.isfinite(ratios) & np.where(cells.bounded, ratios > limit, ratios >= limit)
        near_zero = cells.signed & (ratios >= 1.0)  # a signed sum near 0 has no relative error (E6)
        relative = _summarise(np.where(near_zero, np.inf, own))[0]
        relative_total, largest = _summarise(np.where(near_zero, np.inf, ratios))
        itself: list[float | None] = [None] * self.levels
        if cells.one_signed.any():
            with np.errstate(all="ignore"):
                of_itself = np.where(kept & cells.one_signed & (cells.plain > 0.0), both / cells.plain, np.inf)
            itself = _summarise(of_itself)[0]
        counted = (
            ~(cells.has_enough | ~cells.shown),
            kept & (both > cells.sizes * limit),
            np.isfinite(ratios),
            lost,
            cells.shown & ~kept,
        )
        too_few, beyond, numbers, drowned, without = (each.sum(axis=1).tolist() for each in counted)
        bounded = bool(cells.bounded.all())
        return [
            ColumnAccuracy(
                name,
                *alone,
                relative=relative[level],
                too_few=too_few[level],
                beyond=beyond[level],
                groups=counts[level],
                numbers=numbers[level],
                drowned=drowned[level],
                without=without[level],
                largest_relative=largest[level],
                total=TotalError(*total, relative_total[level]),
                bias=bias,
                bounded=bounded,
                of_itself=itself[level],
            )
            for level, (alone, total) in enumerate(zip(noise, totals, strict=True))
        ]

    def _describe_bias(self, cells: _Cells) -> Bias | None:
        """Return how far the exact numbers lie from the plain ones, over the groups; None if that is unknown."""
        if self.unknown or (self.plain is not None and not np.isfinite(cells.bias).any()):
            return None
        differs = cells.bias[np.isfinite(cells.bias)]
        if not differs.any():
            return Bias()
        sizes = cells.sizes[np.isfinite(cells.bias)]
        with np.errstate(all="ignore"):
            ratios = np.abs(differs) / sizes
        ratios = ratios[np.isfinite(ratios)]
        return Bias(
            float(np.abs(differs).max()),
            float(np.median(np.abs(differs))),
            float(np.median(differs)),
            float(np.median(ratios)) if len(ratios) else 0.0,
        )


def _list_arrays(cells: _Cells) -> list[FloatArray | BoolArray]:
    return [getattr(cells, each.name) for each in fields(cells)]


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
    for at, (block, own, (keys, values)) in enumerate(zip(plan.answered, noise, numbers, strict=False)):
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
