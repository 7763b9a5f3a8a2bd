"""Say how far off each number of an answer is likely to be, from public scales and released numbers alone (E1, E2).

Never touches data and never draws noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dosimeter.arrays import BoolArray, FloatArray, IntArray
from dosimeter.measures import Estimate, MeanFromSums, Measure, SingleMeasure, Sum
from dosimeter.mechanisms import Mechanism
from dosimeter.planning import CELL, RELEASED, Output, QueryPlan, selects_rows
from dosimeter.postprocess.propagation import Compute, SourceNumbers, propagate
from dosimeter.postprocess.quotients import find_divisors, find_quotients, is_released, list_estimates
from dosimeter.postprocess.read_cells import PartNumbers, ReadCells, find_read_cells
from dosimeter.postprocess.released_rows import ReleasedRow, look_up
from dosimeter.postprocess.smooth import clips, compute_smooth, is_smooth, strip_rounding
from dosimeter.sql import NUMERIC, EmbeddedError, Type, Values, as_double, compute_embedded

TAIL = 0.05  # of the stated errors: 95 %
MOST_DERIVED = 1000  # released rows, as each may read all others: with more, derived numbers have no error
_SCALES = 3.0  # a divisor must exceed so many of its noise scales


@dataclass(frozen=True, slots=True)
class Noise:
    """The public facts of the noise: its scale and its grid for every measure, in the measure's own units (S5).

    ``tail``: the probability at which a stated error may be exceeded, 0.05 or less (E2).
    """

    mechanism: Mechanism
    scales: FloatArray
    grids: FloatArray
    tail: float = TAIL

    @classmethod
    def of(cls, plan: QueryPlan, mechanism: Mechanism, scale: float) -> Noise:
        """Return the noise of a plan. ``scale``: in the units of the norm.

        If noisy numbers choose which rows are shown, ``tail`` is 0.05 divided by how many could be chosen (E2).
        """
        return cls.at_each(plan, mechanism, [scale])[0]

    @classmethod
    def at_each(cls, plan: QueryPlan, mechanism: Mechanism, scales: Sequence[float]) -> list[Noise]:
        """Return the noise of a plan at each of several scales, which are in the units of the norm."""
        weights = plan.weights(mechanism.norm)
        grids = np.array([float(measure.grid) for measure in plan.all_measures])
        tail = TAIL / count_selectable(plan) if chooses_rows(plan) else TAIL
        return [cls(mechanism, scale / weights, grids, tail) for scale in scales]

    def split(self, plan: QueryPlan) -> list[Noise]:
        """Return one Noise per block (a SELECT that measures), with the scales and grids of its own measures.

        All keep the ``tail`` of the whole answer, since which numbers are shown can depend on all blocks (E2).
        """
        if not plan.further:
            return [self]
        parts = zip(plan.split(self.scales.tolist()), plan.split(self.grids.tolist()), strict=True)
        return [replace(self, scales=np.array(scales), grids=np.array(grids)) for scales, grids in parts]

    @property
    def telling_tail(self) -> float:
        """Return the probability with which a computed divisor's error may be exceeded (E1).

        A divisor that is larger than its error at this probability has enough people to tell. The probability is the
        smaller of ``tail`` and the probability that continuous noise exceeds three noise scales.
        """
        three = math.exp(-_SCALES) if self.mechanism.norm == 1 else math.erfc(_SCALES / math.sqrt(2.0))
        return min(self.tail, three)

    def error(self, measure: int, terms: int) -> float:
        """Return the error, at ``tail``, of the sum of ``terms`` noisy numbers of the measure with this index."""
        scale = float(self.scales[measure])
        grid = float(self.grids[measure]) or scale * 1e-6
        return self.mechanism.error_of_sum(scale, grid, terms, 1.0 - self.tail)


def measure_scales(plan: QueryPlan, mechanism: Mechanism, scale: float) -> FloatArray:
    """Return the noise scale of each measure in the measure's own units. ``scale``: in the units of the norm (S5)."""
    return scale / plan.weights(mechanism.norm)


def count_selectable(plan: QueryPlan) -> int:
    """Return K: how many noisy numbers could have decided which rows are shown (E2). Public.

    It is added up over the blocks. In each, it is the number of groups and totals, times the number of measures or of
    aggregate columns, whichever is larger. Thresholded groups count as the most that there can be.
    """
    columns = sum(1 for output in plan.outputs if output.is_aggregate)
    return sum(max(1, _count_cells(block)) * max(1, len(block.measures), columns) for block in plan.answered)


def chooses_rows(plan: QueryPlan) -> bool:
    """Return whether noisy numbers decide which rows are shown (E2).

    A clause after the noise can do that, such as HAVING or LIMIT, and so does the threshold of thresholded groups (H1).
    """
    return plan.threshold is not None or selects_rows(plan.after.query)


def _count_cells(plan: QueryPlan) -> int:
    if plan.threshold is not None:  # as many groups as there can be, whatever the data
        return (plan.schema.individuals or 1) * plan.threshold.most
    sizes = [len(group.values or ()) for group in plan.groups]
    sets = plan.sets or (tuple(range(len(sizes))),)
    return sum(math.prod(sizes[at] for at in kept) for kept in sets)


class CellErrors:
    """The 95 % errors of numbers computed from released rows, and where these have too few people to tell.

    Methods return arrays over these rows, with ∞ for a number without an error. If several noises are given, which may
    differ only in their scales, an array holds all rows under the first noise, then all under the second, and so on.
    """

    def __init__(
        self, plan: QueryPlan, noise: Noise | Sequence[Noise], released: Sequence[ReleasedRow], *, clamp: bool = False
    ) -> None:
        self._noises = [noise] if isinstance(noise, Noise) else list(noise)
        self._plan, self._noise, self._released, self._clamp = plan, self._noises[0], released, clamp
        measured = np.array([[float(number) for number in row.measured] for row in released])
        self._measured = np.tile(measured.reshape(len(released), len(plan.measures)), (len(self._noises), 1))
        self._terms = np.tile(np.array([row.terms for row in released], dtype=np.float64), len(self._noises))
        self._levels = np.repeat(np.arange(len(self._noises)), len(released))
        self._scales = np.array([each.scales for each in self._noises])[self._levels]
        self._everywhere = np.arange(len(self._levels))
        self._picked = look_up(plan, released)
        self._numbers = {  # NaN for NULL
            name: np.array([np.nan if value is None else float(value) for value in each.values])
            for name, each in self._picked.items()
            if each.type in NUMERIC
        }

    # ------------------------------------------------------------ which quotients can be told

    def has_enough(self, at: int) -> BoolArray:
        """Return where the aggregate at index ``at`` has enough people to tell: its divisor is surely above 0 (E1)."""
        estimate = self._plan.estimates[at]
        if estimate.counted is None:
            return np.ones(len(self._everywhere), dtype=bool)
        place = estimate.measures[0]
        found = self._measured[:, place] - estimate.counted > self._least_divisor(place)
        for number in range(len(estimate.divisors([np.ones(1)] * len(estimate.measures)))):
            found &= self._divisor_has_enough(estimate, number, found)
        return found

    def _least_divisor(self, measure: int, added: FloatArray | None = None) -> FloatArray:
        """Return what a measure must exceed to be divided by: the larger of three noise scales and its own error.

        In a total of t groups, three noise scales are multiplied by √t. ``added``: t in each row, if it is not that of
        the released rows.
        """
        three = _SCALES * self._scales[:, measure] * np.sqrt(self._terms if added is None else added)
        return np.maximum(three, self._list_errors(measure, added))

    def _list_errors(self, measure: int, added: FloatArray | None = None) -> FloatArray:
        """Return, for each row, the 95 % error of a sum of ``added`` numbers of the measure with this index."""
        terms, codes = np.unique(self._terms if added is None else _round_terms(added), return_inverse=True)
        known = np.array([[noise.error(measure, int(each)) for each in terms.tolist()] for noise in self._noises])
        found: FloatArray = known[self._levels, codes]
        return found

    def _divisor_has_enough(self, estimate: Estimate, number: int, candidates: BoolArray) -> BoolArray:
        """Return in which released rows a number that an aggregate divides by is larger than its own error.

        ``estimate``: the aggregate. ``number``: the divisor's index in the result of ``Estimate.divisors``.
        ``candidates``: true for the rows to look at; the result is false for all others.
        """
        sources = self._sources(estimate.measures, candidates)

        def compute(inputs: Sequence[FloatArray], _chosen: IntArray) -> FloatArray:
            return estimate.divisors(inputs)[number]

        has_enough = np.zeros(len(self._everywhere), dtype=bool)
        value = compute(sources.values, self._everywhere)
        has_enough[candidates] = value > propagate(sources, compute, self._noise.telling_tail)
        return has_enough

    def divisor_is_sure(self, tree: exp.Expression) -> BoolArray:
        """Return in which released rows a divisor that the query itself writes is known not to be 0.

        Such a divisor is COUNT(b) in SUM(a) / COUNT(b). True in every row for a divisor that reads a number drawn by
        rank: no noise is added to that number. If the divisor is 0, the quotient is NULL.
        """
        if self._reads_rank(tree):  # drawn from values, not moved by noise: the engine makes NULL of a quotient by 0
            return np.ones(len(self._everywhere), dtype=bool)
        if isinstance(tree, exp.Column):
            estimate = self._plan.estimates[int(tree.name[1:])]
            if estimate.alone is not None:
                value = self._measured[:, estimate.alone]
                return (value if estimate.is_count else np.abs(value)) > self._least_divisor(estimate.alone)
        known = self._all_have_enough(tree)
        # A condition divides as 1 or 0.
        number = tree if is_smooth(tree, self._numbers) else exp.Neg(this=as_double(tree.copy()))
        try:
            with np.errstate(all="ignore"):
                size = np.abs(self._evaluate(number)(self._values(), self._everywhere))
        except (EmbeddedError, KeyError):  # then the query fails on these numbers, too, and they are the answer (Q4)
            return known
        return known & (size > self._formula(number, self._noise.telling_tail))

    def _all_have_enough(self, tree: exp.Expression) -> BoolArray:
        """Return where every aggregate in a formula has enough people to tell."""
        known = [self.has_enough(at) for at in list_estimates(tree)]
        return np.logical_and.reduce(known) if known else np.ones(len(self._everywhere), dtype=bool)

    def column_has_enough(self, tree: exp.Expression) -> BoolArray:
        """Return where every aggregate and every quotient in a column's formula has enough people to tell."""
        found = self._all_have_enough(tree)
        for divisor in find_divisors(find_quotients([tree])):
            found = found & self.divisor_is_sure(divisor)
        return found

    # ------------------------------------------------------------ errors

    def read_column(self, tree: exp.Expression) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return a column's values, their errors, and where all that it is computed from has enough people to tell.

        A column that is one measure with noise, such as a COUNT, is read off this measure: nothing divides in it. A
        derived column (``find_formula``) is computed from all released rows.
        """
        if tree.find(exp.Window) is not None:
            return self.read_derived(tree)
        single = _find_single(self._plan, tree)
        if single is None or single.alone in self._plan.ranks:
            has_enough = self.column_has_enough(tree)
            return self.value(tree), self.formula(tree, has_enough), has_enough
        measured = self._measured[:, single.alone]
        errors = single.spread(measured, self._list_errors(single.alone), clamp=self._clamp)
        return single.finish(measured, clamp=self._clamp), errors, np.ones(len(self._everywhere), dtype=bool)

    def value(self, tree: exp.Expression) -> FloatArray:
        """Return the value of a column, over the released rows; NaN where it is no number."""
        try:
            with np.errstate(all="ignore"):
                return np.broadcast_to(self._evaluate(tree)(self._values(), self._everywhere), (len(self._everywhere),))
        except (EmbeddedError, KeyError, ValueError):
            return np.full(len(self._everywhere), np.nan)

    def formula(self, tree: exp.Expression, has_enough: BoolArray | None = None) -> FloatArray:
        """Return the error of a column that is computed from the numbers of its own row; ∞ where it has none.

        ``has_enough``: the result of ``column_has_enough``, if it is already known.
        """
        return np.where(
            self.column_has_enough(tree) if has_enough is None else has_enough,
            self._formula(tree, self._noise.tail),
            np.inf,
        )

    def _formula(self, tree: exp.Expression, tail: float) -> FloatArray:
        core, rounded = strip_rounding(tree)
        if not list_estimates(core) or self._reads_rank(core):
            return np.full(len(self._everywhere), np.inf)  # not computed from released numbers, or off by rows (E3)
        if isinstance(core, exp.Column):
            return self._estimate(int(core.name[1:]), tail) + rounded
        try:
            return self._arithmetic(core, tail) + rounded
        except (EmbeddedError, KeyError):  # it fails on some noise, or is no number
            if len(self._noises) == 1:
                return np.full(len(self._everywhere), np.inf)
            alone = (CellErrors(self._plan, noise, self._released, clamp=self._clamp) for noise in self._noises)
            return np.concatenate([each._formula(tree, tail) for each in alone])

    def _reads_rank(self, tree: exp.Expression) -> bool:
        """Return whether a formula reads a number that is drawn by rank."""
        ranks = self._plan.ranks
        return any(at in ranks for number in list_estimates(tree) for at in self._plan.estimates[number].measures)

    def _estimate(self, at: int, tail: float) -> FloatArray:
        """Return the error of the aggregate with index ``at``, exceeded with at most the probability ``tail``.

        For an aggregate that is itself one measure, ``Noise.tail`` is used instead of ``tail``.
        """
        estimate = self._plan.estimates[at]
        everywhere = np.ones(len(self._everywhere), dtype=bool)
        sources = self._sources(estimate.measures, everywhere)
        if estimate.alone is not None:
            return estimate.spread(sources.values[0], self._list_errors(estimate.alone), clamp=self._clamp)

        def compute(inputs: Sequence[FloatArray], _chosen: IntArray) -> FloatArray:
            return estimate.smooth(inputs)

        errors = propagate(sources, compute, tail)
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(
                estimate.spread(compute(sources.values, self._everywhere), errors, clamp=self._clamp),
                nan=np.inf,
                posinf=np.inf,
            )

    def _arithmetic(self, tree: exp.Expression, tail: float) -> FloatArray:
        """Return the error of arithmetic over aggregates, exceeded with at most the probability ``tail`` (E1).

        For arithmetic that is not smooth, such as CASE, the error is an upper bound.
        """
        used = list_estimates(tree)
        places = sorted({measure for at in used for measure in self._plan.estimates[at].measures})
        sources = self._sources(places, np.ones(len(self._everywhere), dtype=bool))
        smooth = is_smooth(tree, self._numbers) and all(clips(self._plan.estimates[at]) for at in used)
        compute, shown = self._evaluate(tree, free=smooth), self._evaluate(tree)
        divisors = [self._evaluate(divisor, free=smooth) for divisor in find_divisors(find_quotients([tree]))]

        def over(function: _Function) -> Compute:
            return lambda inputs, chosen: function(dict(zip(places, inputs, strict=True)), chosen)

        errors = propagate(sources, over(compute), tail, rough=not smooth, divisors=[over(each) for each in divisors])
        if smooth:  # what is released lies in its range, the smooth number need not
            with np.errstate(all="ignore"):
                errors = errors + np.abs(
                    shown(self._values(), self._everywhere) - compute(self._values(), self._everywhere)
                )
        return np.nan_to_num(errors, nan=np.inf, posinf=np.inf)

    # ------------------------------------------------------------ derived numbers

    def read_derived(self, tree: exp.Expression) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return a derived column's values and errors, and where what it divides by is known not to be 0 (E6).

        ``tree``: as ``find_derived`` returns it. The rows of these CellErrors must be all released rows.
        """
        core, rounded = strip_rounding(tree)
        found = find_read_cells(self._plan, self._released, core)
        if found is None:
            return (
                np.full(len(self._everywhere), np.nan),
                np.full(len(self._everywhere), np.inf),
                np.ones(len(self._everywhere), dtype=bool),
            )
        parts = PartNumbers(self._plan, found, self._clamp)
        sources = self._part_sources(parts)
        values, free = (parts.over(found.tree, free=each)(sources.values, self._everywhere) for each in (False, True))
        core, _ = strip_rounding(found.tree)
        single = None if not isinstance(core, exp.Column) else parts.find_single(core)
        if single is not None:
            errors = self._list_errors(single, self._add_terms(found, core.name))
        else:
            divisors = [parts.over(each, free=True) for each in parts.divisors()]
            errors = propagate(sources, parts.over(found.tree, free=True), self._noise.tail, divisors=divisors)
            errors = errors + np.abs(values - free)
        has_enough = self._parts_have_enough(parts, sources)
        known = has_enough & np.isfinite(values)
        return values, np.where(known, np.nan_to_num(errors + rounded, nan=np.inf, posinf=np.inf), np.inf), has_enough

    def _part_sources(self, parts: PartNumbers) -> SourceNumbers:
        """Return the noisy numbers of all parts: sums of released rows that share none."""
        levels, read = len(self._noises), parts.read
        measures = [measure for _, measure in parts.places]
        return SourceNumbers(
            self._noise.mechanism,
            tuple(np.tile(read.sums[:, part, measure], levels) for part, measure in parts.places),
            self._scales[:, measures],
            self._noise.grids[measures],
            np.tile(read.terms[:, [part for part, _ in parts.places]].astype(np.float64), (levels, 1)),
            self._levels,
        )

    def _add_terms(self, read: ReadCells, leaf: str) -> FloatArray:
        """Return how many noisy numbers a leaf adds up in each row."""
        terms = read.terms[:, list(read.leaves[leaf].parts)].sum(axis=1).astype(np.float64)
        return np.tile(terms, len(self._noises))

    def _parts_have_enough(self, parts: PartNumbers, sources: SourceNumbers) -> BoolArray:
        """Return where every aggregate and every divisor of a derived number has enough people to tell."""
        found = np.ones(len(self._everywhere), dtype=bool)
        for leaf in parts.read.leaves.values():
            if leaf.row is not None and self._plan.estimates[leaf.estimate].counted is not None:
                enough = self.has_enough(leaf.estimate).reshape(len(self._noises), -1)
                found &= (enough[:, leaf.row] | (leaf.row < 0)).reshape(-1)
        for divisor in parts.divisors():
            single = None if not isinstance(divisor, exp.Column) else parts.find_single(divisor)
            with np.errstate(all="ignore"):
                value = parts.over(divisor, free=False)(sources.values, self._everywhere)
            if single is not None:
                estimate = self._plan.estimates[parts.read.leaves[divisor.name].estimate]
                least = self._least_divisor(single, self._add_terms(parts.read, divisor.name))
                sure = (value if estimate.is_count else np.abs(value)) > least
            else:
                sure = np.abs(value) > propagate(sources, parts.over(divisor, free=True), self._noise.telling_tail)
            found &= sure | np.isnan(value)
        return found

    # ------------------------------------------------------------ evaluating

    def _values(self) -> dict[int, FloatArray]:
        return {at: self._measured[:, at] for at in range(len(self._plan.measures))}

    def _sources(self, measures: Sequence[int], chosen: BoolArray) -> SourceNumbers:
        places = list(measures)
        return SourceNumbers(
            self._noise.mechanism,
            tuple(self._measured[chosen, at] for at in places),
            self._scales[chosen][:, places],
            self._noise.grids[places],
            np.repeat(self._terms[chosen][:, None], len(places), axis=1),
            self._levels[chosen],
        )

    def _evaluate(self, tree: exp.Expression, *, free: bool = False) -> _Function:
        """Return a function that computes a formula from the numbers of the measures, and from row indices.

        ``free``: the function does not put aggregates back into their ranges.
        """
        used = list_estimates(tree)

        def compute(measured: Mapping[int, FloatArray], chosen: IntArray) -> FloatArray:
            columns = {}
            for at in used:
                estimate = self._plan.estimates[at]
                smooth = estimate.smooth([measured[place] for place in estimate.measures])
                columns[f"e{at}"] = smooth if free else estimate.finish(smooth, clamp=self._clamp)
            if not is_smooth(tree, self._numbers):
                return self._ask(tree, columns, chosen)
            width = max((array.ndim for array in measured.values()), default=1) - 1
            for name, numbers in self._numbers.items():
                columns[name] = numbers[chosen % len(self._released)].reshape(-1, *(1,) * width)
            return np.asarray(compute_smooth(tree, columns), dtype=np.float64)

        return compute

    def _ask(self, tree: exp.Expression, columns: Mapping[str, FloatArray], chosen: IntArray) -> FloatArray:
        """Return a formula's value as the embedded engine computes it; NULL is NaN. Raises KeyError if it is no number.

        ``columns``: the aggregates that it reads, by name, as arrays. ``chosen``: for each position along the first
        axis of these arrays, the index of the released row that it belongs to.
        """
        shape = np.broadcast_shapes(*(array.shape for array in columns.values()))
        count, released = math.prod(shape), [self._released[at % len(self._released)] for at in chosen.tolist()]
        table = {CELL: Values(Type.INTEGER, np.arange(count))}
        names = {node.name for node in tree.find_all(exp.Column)}
        repeat = count // max(len(released), 1)
        for at, group in enumerate(self._plan.groups):
            if f"g{at}" in names:
                table[f"g{at}"] = Values(group.type, [row.key[at] for row in released for _ in range(repeat)])
            if f"h{at}" in names:
                flags = [int(at in row.left_out) for row in released for _ in range(repeat)]
                table[f"h{at}"] = Values(Type.INTEGER, flags)
        for name, each in self._picked.items():
            if name in names:
                values = [each.values[at % len(self._released)] for at in chosen.tolist() for _ in range(repeat)]
                table[name] = Values(each.type, values, each.whole)
        for name, array in columns.items():
            table[name] = Values(Type.NUMBER, np.broadcast_to(array, shape).reshape(-1))
        shown = exp.Alias(this=tree.copy(), alias=exp.to_identifier("formula"))
        query = exp.select(shown).from_(exp.table_(RELEASED)).order_by(exp.column(CELL))
        return compute_embedded(query, {RELEASED: table})["formula"].reshape(shape)


_Function = Callable[[Mapping[int, FloatArray], IntArray], FloatArray]


def _round_terms(terms: FloatArray) -> FloatArray:
    """Return numbers of terms rounded up to five binary digits, at least 1: running totals have as many as rows.

    So few errors of sums are computed, and none is too small: more terms have a larger error.
    """
    found = np.maximum(terms, 1.0)
    step = 2.0 ** np.maximum(np.floor(np.log2(found)) - 4.0, 0.0)
    rounded: FloatArray = np.ceil(found / step) * step
    return rounded


# ---------------------------------------------------------------- of columns


def find_formula(plan: QueryPlan, output: Output) -> exp.Expression | None:
    """Return how a column of one block is computed, if an error of it can be told: from one released row or several.

    From several, if they are declared groups, not too many, and noise chooses no rows (E6). Public.
    """
    if output.formula is not None or output.derived is None:
        return output.formula
    few = all(group.values is not None for group in plan.groups) and _count_cells(plan) <= MOST_DERIVED
    if not few or plan.sets or chooses_rows(plan):
        return None
    trial = [ReleasedRow(key, [Fraction(0)] * len(plan.measures)) for key in (plan.group_keys or ())[:2]]
    return output.derived if find_read_cells(plan, trial, strip_rounding(output.derived)[0]) else None


def column_errors(
    plan: QueryPlan, noise: Noise, released: Sequence[ReleasedRow], *, clamp: bool = False, whole: bool = False
) -> dict[str, tuple[float | None, ...]]:
    """Return the 95 % errors of each aggregate column of a plan: for each released row its error, None without one.

    ``whole``: whether these are all released rows; without, a derived column has no error (E6).
    """
    known = CellErrors(plan, noise, released, clamp=clamp)
    found: dict[str, tuple[float | None, ...]] = {}
    for output in plan.outputs:
        if output.is_aggregate:
            errors = [math.inf] * len(released)
            if output.formula is not None and released:
                errors = known.formula(output.formula).tolist()
            elif whole and released and (told := find_formula(plan, output)) is not None:
                errors = known.read_derived(told)[1].tolist()
            found[output.name] = tuple(error if math.isfinite(error) else None for error in errors)
    return found


def find_largest_error(errors: Sequence[float | None]) -> float | None:
    """Return the largest error; None if all are None."""
    return max((error for error in errors if error is not None), default=None)


def find_estimate(plan: QueryPlan, tree: exp.Expression) -> Estimate | None:
    """Return the aggregate that a column is, rounded or not; None if it is computed from several, or in another way."""
    core, _ = strip_rounding(tree)
    return plan.estimates[int(core.name[1:])] if is_released(core, "e") else None


def find_width(plan: QueryPlan, estimate: Estimate | None) -> float | None:
    """Return the width of the bounds that an aggregate always lies within; None for a count, a sum, or no aggregate.

    An error is judged against this width, where there is one (E6).
    """
    if estimate is None:
        return None
    rank = None if estimate.alone is None else plan.ranks.get(estimate.alone)
    if rank is not None:
        return float(rank.argument.width * rank.argument.unit)
    return estimate.width


def is_one_signed(estimate: Estimate | None) -> bool:
    """Return whether an aggregate is an average of values that all have the same sign, by their bounds."""
    if not isinstance(estimate, MeanFromSums):
        return False
    return estimate.argument.lower >= 0 or estimate.argument.upper <= 0


def is_signed(measure: Measure) -> bool:
    """Return whether a measure adds up values of both signs, so that it can be near 0 without being small (E6)."""
    return isinstance(measure, Sum) and measure.argument.lower < 0 < measure.argument.upper


def needs_values(plan: QueryPlan, only: object = None) -> bool:
    """Return whether an error can depend on the measured numbers themselves, as the error of a quotient does.

    ``only``: the formula of the one column to look at; by default all columns.
    """
    return any(
        tree is not None and (output.formula is None or _find_single(block, tree) is None)
        for block in plan.answered
        for output in block.outputs
        if output.is_aggregate
        for tree in [find_formula(block, output)]
        if only is None or tree is only
    )


def _find_single(plan: QueryPlan, tree: exp.Expression) -> SingleMeasure | None:
    """Return the aggregate that a column is, if that is one measure itself; None for any other column."""
    if not is_released(tree, "e"):
        return None
    estimate = plan.estimates[int(tree.name[1:])]
    return estimate if isinstance(estimate, SingleMeasure) else None
