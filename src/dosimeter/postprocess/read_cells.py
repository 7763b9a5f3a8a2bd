"""Find which released rows a derived number reads: a share of a total, a difference, a running total (E6).

A window whose partition and order are public reads, for each released row, a public set of rows. So the number is
arithmetic over sums of independent noisy numbers, as a total of ROLLUP is. The embedded engine tells the sets. Takes
a plan, released rows and a tree of ``find_derived``; knows no noise and never touches data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlglot import exp

from dosimeter.arrays import BoolArray, FloatArray, IntArray
from dosimeter.measures import SingleMeasure
from dosimeter.planning import CELL, RELEASED, QueryPlan
from dosimeter.postprocess.propagation import Compute
from dosimeter.postprocess.quotients import is_released, strip_casts
from dosimeter.postprocess.released_rows import ReleasedRow, look_up
from dosimeter.postprocess.smooth import clips, compute_smooth, is_double, is_smooth, read_literal
from dosimeter.sql import NUMERIC, EmbeddedError, Type, Values, alias, compute_embedded

_MOST_SETS, _MOST_PARTS = 6, 10  # in one formula: noise of few numbers is tried in enough directions
_PICKS = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)


class _Unsupported(Exception):
    """Raised where it cannot be told how a number depends on the noisy ones."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """An aggregate of a set of released rows, in each released row's formula: of one row, or of their sum.

    ``estimate``: the aggregate's index in the plan. ``parts``: the indices of the parts whose sum the set is. ``base``:
    what is added to it: 0, or where a row's set is empty, what stands there instead, NaN for NULL. ``row``: the index
    of the one row in the set, -1 if there is none; None for sums.
    """

    estimate: int
    parts: tuple[int, ...]
    base: FloatArray
    row: IntArray | None


@dataclass(frozen=True, slots=True)
class ReadCells:
    """What a derived number is computed from, for each released row.

    ``tree``: arithmetic over columns, whose names ``leaves`` and ``constants`` explain. The sets of released rows that
    it reads in a row are taken apart into *parts*, which share no row, so that their noises are independent. ``terms``:
    how many rows are in each part (rows × parts). ``sums``: the measured numbers of each part, added up (rows × parts ×
    measures).
    """

    tree: exp.Expression
    leaves: Mapping[str, Leaf]
    constants: Mapping[str, FloatArray]
    terms: IntArray
    sums: FloatArray


def find_read_cells(plan: QueryPlan, released: Sequence[ReleasedRow], tree: exp.Expression) -> ReadCells | None:
    """Return what a derived number is computed from; None if no error of it can be told.

    ``tree``: the number, computed from released rows, without rounding around it.
    """
    reader = _Reader(plan, released)
    try:
        written = reader.write(tree, reader.own)
    except (_Unsupported, EmbeddedError):
        return None
    if not reader.leaves or not is_smooth(written, reader.constants):
        return None
    found = reader.finish(written)
    return found if found.terms.shape[1] <= _MOST_PARTS else None


@dataclass(slots=True)
class _Reader:
    """Rewrites a tree with windows into arithmetic over sets of released rows, which it collects.

    ``sets``: true where a released row (first axis) reads another (second axis). ``leaves``: for each leaf its
    aggregate, its set, whether it is a sum over that, and what stands in place of an empty set.
    """

    plan: QueryPlan
    released: Sequence[ReleasedRow]
    sets: list[BoolArray] = field(default_factory=list)
    leaves: dict[str, tuple[int, int, bool, float | None]] = field(default_factory=dict)
    constants: dict[str, FloatArray] = field(default_factory=dict)
    table: dict[str, Values] = field(init=False)
    own: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        """Write the public columns of the released table, and the set in which each row reads itself."""
        rows = self.released
        self.own = np.eye(len(rows), dtype=bool)
        groups = {
            f"g{at}": Values(each.type, [row.key[at] for row in rows]) for at, each in enumerate(self.plan.groups)
        }
        self.table = {CELL: Values(Type.INTEGER, np.arange(len(rows))), **groups, **look_up(self.plan, rows)}

    def write(self, node: exp.Expression, place: BoolArray) -> exp.Expression:
        """Return a tree over single rows, read in the row that ``place`` holds, as arithmetic."""
        if isinstance(node, exp.Window):
            return self._window(node, place)
        if is_released(node, "e"):
            return self._leaf(node, place, None)
        if isinstance(node, exp.Column):
            return self._constant(self._look_up(node.name, place))
        written = node.copy()
        for part in list(written.iter_expressions()):
            if not isinstance(part, (exp.DataType, exp.Identifier)):
                part.replace(self.write(part, place))
        return written

    def _window(self, node: exp.Window, place: BoolArray) -> exp.Expression:
        function = node.this
        if isinstance(function, _PICKS):
            return self._pick(node, place)
        listed = exp.Anonymous(this="LIST", expressions=[exp.column(CELL)])
        frame = _compose(place, self._ask(_over(node, listed)))
        size = np.where(place.any(axis=1), frame.sum(axis=1), np.nan).astype(np.float64)
        argument = function.this
        if isinstance(function, exp.Count):
            if not isinstance(argument, exp.Star):
                raise _Unsupported
            return self._constant(size)
        total = self._add_up(argument, frame)
        if isinstance(function, exp.Sum):
            return total
        return exp.Paren(this=exp.Div(this=exp.Paren(this=total), expression=self._constant(size)))

    def _pick(self, node: exp.Window, place: BoolArray) -> exp.Expression:
        function, default = node.this, node.this.args.get("default")
        asked = function.copy()
        asked.set("this", exp.column(CELL))
        asked.set("default", None)
        picked = _compose(place, self._ask(_over(node, asked)))
        if default is None:
            return exp.Paren(this=self.write(function.this, picked))
        number = read_literal(default)
        if number is None or not is_released(function.this.unnest(), "e"):
            raise _Unsupported
        return self._leaf(function.this.unnest(), picked, number)

    def _add_up(self, node: exp.Expression, frame: BoolArray) -> exp.Expression:
        """Return the sum of a linear tree over the rows of a set."""
        if is_released(node, "e"):
            return self._leaf(node, frame, None, summed=True)
        if not isinstance(node, (exp.Add, exp.Sub, exp.Neg, exp.Paren)) and not is_double(node):
            raise _Unsupported
        written = node.copy()
        for name in ("this", "expression"):
            if isinstance(node.args.get(name), exp.Expression):
                written.set(name, self._add_up(node.args[name], frame))
        return written

    # ------------------------------------------------------------ what is read

    def _leaf(
        self, node: exp.Expression, read: BoolArray, default: float | None, *, summed: bool = False
    ) -> exp.Expression:
        at = int(node.name[1:])
        estimate = self.plan.estimates[at]
        alone = isinstance(estimate, SingleMeasure)
        drawn = any(each in self.plan.ranks for each in estimate.measures)
        if drawn or not clips(estimate) or ((summed or default is not None) and not alone):
            raise _Unsupported
        known = next((number for number, each in enumerate(self.sets) if np.array_equal(each, read)), len(self.sets))
        if known == _MOST_SETS:
            raise _Unsupported
        if known == len(self.sets):
            self.sets.append(read)
        entry = (at, known, summed, default)
        name = next((name for name, each in self.leaves.items() if each == entry), f"e{len(self.leaves)}")
        self.leaves[name] = entry
        return exp.column(name)

    def _constant(self, numbers: FloatArray) -> exp.Expression:
        name = f"c{len(self.constants)}"
        self.constants[name] = numbers
        return exp.column(name)

    def _look_up(self, name: str, place: BoolArray) -> FloatArray:
        """Return a public number of the row that ``place`` holds; NaN for NULL and where there is no row."""
        column = self.table.get(name)
        if column is None or column.type not in NUMERIC:
            raise _Unsupported
        numbers = np.array([np.nan if each is None else float(each) for each in column.values])
        return np.where(place.any(axis=1), numbers[place.argmax(axis=1)], np.nan)

    def _ask(self, window: exp.Window) -> BoolArray:
        """Return which rows each row reads, by a window that gives one row's index, or a list of such."""
        shown = [alias(exp.column(CELL), "reader"), alias(window, "read")]
        query = exp.select(*shown).from_(exp.table_(RELEASED))
        if isinstance(window.this, exp.Anonymous):
            each = exp.Anonymous(this="UNNEST", expressions=[exp.column("read")])
            query = exp.select(exp.column("reader"), alias(each, "read")).from_(query.subquery("lists"))
        found = compute_embedded(query, {RELEASED: self.table})
        there = ~np.isnan(found["read"])
        pairs = np.zeros(self.own.shape, dtype=bool)
        pairs[found["reader"][there].astype(np.int64), found["read"][there].astype(np.int64)] = True
        return pairs

    def finish(self, tree: exp.Expression) -> ReadCells:
        """Return the arithmetic with its sets taken apart into parts that share no row."""
        code = np.zeros(self.own.shape, dtype=np.int64)
        for at, each in enumerate(self.sets):
            code |= each.astype(np.int64) << at
        codes = [each for each in np.unique(code).tolist() if each]
        measured = np.array([[float(number) for number in row.measured] for row in self.released])
        parts = [code == each for each in codes]
        return ReadCells(
            tree=tree,
            leaves={name: self._finish_leaf(codes, *each) for name, each in self.leaves.items()},
            constants=self.constants,
            terms=np.stack([part.sum(axis=1) for part in parts], axis=1),
            sums=np.stack([part @ measured for part in parts], axis=1),
        )

    def _finish_leaf(self, codes: Sequence[int], estimate: int, at: int, summed: bool, default: float | None) -> Leaf:
        some = self.sets[at].any(axis=1)
        row = None if summed else np.where(some, self.sets[at].argmax(axis=1), -1)
        parts = tuple(number for number, each in enumerate(codes) if each >> at & 1)
        return Leaf(estimate, parts, np.where(some, 0.0, np.nan if default is None else default), row)


def _over(window: exp.Window, function: exp.Expression) -> exp.Window:
    """Return a window like this one, with another function."""
    found = window.copy()
    found.set("this", function)
    return found


def _compose(place: BoolArray, read: BoolArray) -> BoolArray:
    """Return what is read in the one row at most that each row of ``place`` holds."""
    there, rows = place.any(axis=1), place.argmax(axis=1)
    found: BoolArray = np.logical_and(read[rows], there.reshape(-1, 1))
    return found


class PartNumbers:
    """Arithmetic over the parts that a derived number reads (``ReadCells``), as functions of their noisy numbers.

    ``places``: for each noisy number its part and its measure.
    """

    def __init__(self, plan: QueryPlan, read: ReadCells, clamp: bool) -> None:
        self.read, self._plan, self._clamp = read, plan, clamp
        used = {
            (part, measure)
            for leaf in read.leaves.values()
            for part in leaf.parts
            for measure in plan.estimates[leaf.estimate].measures
        }
        self.places = sorted(used)

    def over(self, tree: exp.Expression, *, free: bool) -> Compute:
        """Return a tree over leaves as a function. ``free``: do not put aggregates back into their ranges."""
        names = {node.name for node in tree.find_all(exp.Column)}

        def compute(inputs: Sequence[FloatArray], chosen: IntArray) -> FloatArray:
            rows = chosen % len(self.read.terms)
            shape = (-1, *(1,) * (max((each.ndim for each in inputs), default=1) - 1))
            columns = {name: each[rows].reshape(shape) for name, each in self.read.constants.items() if name in names}
            for name, leaf in self.read.leaves.items():
                if name not in names:
                    continue
                estimate, base = self._plan.estimates[leaf.estimate], leaf.base[rows].reshape(shape)
                added = [
                    sum((inputs[self.places.index((part, measure))] for part in leaf.parts), start=np.zeros_like(base))
                    for measure in estimate.measures
                ]
                numbers = estimate.smooth(added)
                kept = numbers if free or leaf.row is None else estimate.finish(numbers, clamp=self._clamp)
                columns[name] = kept + base
            return np.asarray(compute_smooth(tree, columns), dtype=np.float64)

        return compute

    def divisors(self) -> list[exp.Expression]:
        """Return the divisors that read noisy numbers, without the casts around them."""
        trees = [strip_casts(node.expression) for node in self.read.tree.find_all(exp.Div)]
        return [tree for tree in trees if any(each.name in self.read.leaves for each in tree.find_all(exp.Column))]

    def find_single(self, leaf: exp.Column) -> int | None:
        """Return the measure that a leaf is, or adds up; None if it is computed from several, or is a constant."""
        known = self.read.leaves.get(leaf.name)
        return None if known is None else self._plan.estimates[known.estimate].alone
