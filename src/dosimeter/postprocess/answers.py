"""Make the answer that a query asked for out of measured numbers: everything after the noise (Q4).

Takes a plan and the numbers that left a mechanism (or, for the controller, the exact ones); gives rows. What comes
after the noise runs in an embedded engine that holds these numbers, the public tables that the query joins to them,
and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from sqlglot import exp

from dosimeter.arrays import BoolArray, FloatArray
from dosimeter.json_values import JsonRow, JsonScalar
from dosimeter.planning import CELL, RELEASED, QueryPlan, name_released
from dosimeter.postprocess.cell_errors import CellErrors, Noise, column_errors, find_formula, find_largest_error
from dosimeter.postprocess.computed_estimates import estimate_group
from dosimeter.postprocess.enough_rows import find_enough_rows
from dosimeter.postprocess.quotients import (
    find_divisors,
    find_quotients,
    list_estimates,
    passes_null_on,
    withhold_quotients,
)
from dosimeter.postprocess.released_rows import Keys, Numbers, ReleasedRow, list_released_rows, look_up
from dosimeter.postprocess.smooth import strip_rounding
from dosimeter.postprocess.told_counts import Told
from dosimeter.sql import EmbeddedError, Type, Values, alias, run_embedded

EnoughPeople = Sequence[BoolArray | None]
"""For each aggregate, an array over the released rows: false where there are too few people to tell; None if never."""


@dataclass(frozen=True, slots=True)
class AssembledAnswer:
    """The rows of an answer, and how far off they are (E1). Without noise, ``errors`` and ``error_95`` are None.

    ``errors``: for each row, the 95 % error of each aggregate column; None for a number that has none. ``error_95``:
    the largest error of each aggregate column over the rows. ``released``: for each row, the row of the released table
    that it shows; all released rows if a row cannot be traced to one. ``failed``: the SQL after the noise failed on
    these numbers, so that the rows are the released table itself. ``has_too_few``: somewhere there are too few people
    to tell. ``enough_rows``: the aggregates that have too few in half of the rows or more and divide by variances, each
    with the number of rows per group from which on they could be told. ``told``: how many
    individuals were cut, and how many clamped, if that was asked for (E5).
    """

    rows: list[JsonRow]
    errors: tuple[dict[str, float | None], ...] | None = None
    error_95: tuple[float | None, ...] | None = None
    released: tuple[ReleasedRow, ...] = ()
    failed: bool = False
    has_too_few: bool = False
    told: Told = field(default_factory=dict)
    enough_rows: tuple[tuple[str, int], ...] = ()


def assemble_answer(
    plan: QueryPlan,
    keys: Keys,
    values: Numbers,
    *,
    clamp: bool = False,
    noise: Noise | None = None,
    further: Sequence[tuple[Keys, Numbers]] = (),
) -> AssembledAnswer:
    """Return the rows that the query asked for, in its order, with their errors if ``noise`` is given.

    ``keys`` and ``values``: the groups of the first block and their measured numbers. ``further``: the same for the
    other blocks. ``clamp``: put numbers back into their bounds. With ``noise``, a quotient with too few people to tell
    is NULL and numbers have 95 % errors (E1). If the embedded engine fails on these numbers, the answer is every group
    with its aggregates.
    """
    parts = _list_tables(plan, [(keys, values), *further], clamp)
    if noise is None:
        rows, places, failed = _run(plan, parts)
        return AssembledAnswer(rows, released=_list_shown(parts, places), failed=failed)
    quotients = find_quotients([plan.after.query])  # once: a union of many SELECTs is a large tree
    for part, own in zip(parts, noise.split(plan), strict=False):
        part.withhold(own, quotients)
    rows, places, failed = _run(plan, parts)
    if failed:
        return _answer_with_released(parts, rows)
    errors = _find_errors(parts, rows, places)
    columns = [output.name for output in plan.outputs if output.is_aggregate]
    return AssembledAnswer(
        rows,
        errors,
        tuple(find_largest_error([row[name] for row in errors]) for name in columns),
        _list_shown(parts, places),
        has_too_few=any(part.hides_quotients() for part in parts),
        enough_rows=tuple(dict.fromkeys(each for part in parts for each in part.list_enough_rows())),
    )


def list_released_groups(
    plan: QueryPlan, keys: Keys, values: Numbers, *, clamp: bool = False, further: Sequence[tuple[Keys, Numbers]] = ()
) -> AssembledAnswer:
    """Return every group with its aggregates, without errors: the answer if the SQL after the noise fails (Q4).

    ``keys`` and ``values``: the groups of the first block and their measured numbers. ``further``: the same for the
    other blocks. ``clamp``: put numbers back into their bounds.
    """
    parts = _list_tables(plan, [(keys, values), *further], clamp)
    return AssembledAnswer(_read_released(parts), failed=True)


class _BlockTable:
    """The released table of one block (a SELECT that measures). ``name``: the table's name in the SQL after the noise.

    ``released``: its rows. ``has_enough``: for each aggregate, an array over the rows that is false where there are too
    few people to tell; None for an aggregate that always has enough. ``divisors``: for each divisor of the query, by
    its SQL, an array over the rows that is true where the divisor is far enough from 0. ``derived``: for each derived
    column that has errors, its values, its errors and where it has enough people to tell, over the rows (E6).
    """

    def __init__(
        self, plan: QueryPlan, released: Sequence[ReleasedRow], clamp: bool = False, name: str = RELEASED
    ) -> None:
        self.plan, self.released, self.clamp, self.name = plan, released, clamp, name
        self.has_enough: EnoughPeople = ()
        self.divisors: dict[str, BoolArray] = {}
        self.derived: dict[str, tuple[FloatArray, FloatArray, BoolArray]] = {}
        self._noise: Noise | None = None

    def withhold(self, noise: Noise, quotients: Sequence[exp.Binary]) -> None:
        """Set ``has_enough``, ``divisors`` and ``derived`` from this block's noise.

        ``quotients``: those of the query after the noise.
        """
        self._noise = noise
        known = self.cell_errors()
        self.has_enough = [
            None if each.counted is None else known.has_enough(at) for at, each in enumerate(self.plan.estimates)
        ]
        own = find_quotients(output.formula for output in self.plan.outputs)
        for tree in find_divisors([*quotients, *own], self.name):
            if all(at < len(self.plan.estimates) for at in list_estimates(tree)):
                self.divisors[tree.sql(dialect="duckdb")] = known.divisor_is_sure(tree)
        for output in self.plan.outputs:
            told = find_formula(self.plan, output) if output.formula is None else None
            if told is not None and self.released:
                self.derived[output.name] = known.read_derived(told)

    def hides_quotients(self) -> bool:
        """Return whether any quotient has too few people to tell."""
        return any(
            not each.all()
            for each in [
                *(each for each in self.has_enough if each is not None),
                *self.divisors.values(),
                *(enough for _, _, enough in self.derived.values()),
            ]
        )

    def list_enough_rows(self) -> list[tuple[str, int]]:
        """Return the aggregates with mostly too few people, each with the rows per group that would be enough."""
        assert self._noise is not None
        mostly = [at for at, each in enumerate(self.has_enough) if each is not None and 2 * each.sum() <= len(each)]
        found = [(self.plan.estimates[at].label, find_enough_rows(self.plan, self._noise, at)) for at in mostly]
        return [(label, rows) for label, rows in found if rows is not None]

    def estimate(self) -> list[list[int | float | None]]:
        """Return the aggregates of every released row; None for one with too few people to tell."""
        found: list[list[int | float | None]] = []
        for place, row in enumerate(self.released):
            aggregates = estimate_group(self.plan, row.measured, clamp=self.clamp)
            hidden = [at for at, each in enumerate(self.has_enough) if each is not None and not each[place]]
            found.append([None if at in hidden else value for at, value in enumerate(aggregates)])
        return found

    def read_directly(self) -> list[JsonRow]:
        """Return, for every released row, the columns that are just a group column, an aggregate or a public value."""
        rows = []
        picked = look_up(self.plan, self.released)
        direct = [(each.name, each.formula) for each in self.plan.outputs if isinstance(each.formula, exp.Column)]
        for place, (row, estimates) in enumerate(zip(self.released, self.estimate(), strict=True)):
            facts: dict[str, Any] = {f"e{at}": value for at, value in enumerate(estimates)}
            facts |= {f"g{at}": value for at, value in enumerate(row.key)}
            facts |= {name: each.values[place] for name, each in picked.items()}
            rows.append({name: _plain(facts[formula.name]) for name, formula in direct})
        return rows

    def read_released(self) -> list[JsonRow]:
        """Return, for every released row, its group and all its aggregates, each named as the analyst wrote it."""
        names = [group.name for group in self.plan.groups]
        labels = [estimate.label for estimate in self.plan.estimates]
        return [
            {name: _plain(value) for name, value in zip(names, row.key, strict=True)}
            | {label: _plain(value) for label, value in zip(labels, estimates, strict=True)}
            for row, estimates in zip(self.released, self.estimate(), strict=True)
        ]

    def table(self, first: int = 0, flags: Mapping[str, str] | None = None) -> dict[str, Values]:
        """Return the released table for the embedded engine, by column.

        It has for each row its index, its group's values and its aggregates; with ROLLUP and the like, also for each
        group column whether the row is a total over it. ``first``: the index of the table's first row among the
        released rows of all blocks. ``flags``: for each divisor, by its SQL, the name of a Boolean column to add, which
        is true where the divisor is far enough from 0.
        """
        estimates = self.estimate()
        table = {CELL: Values(Type.INTEGER, range(first, first + len(self.released)))}
        for at, group in enumerate(self.plan.groups):
            table[f"g{at}"] = Values(group.type, [row.key[at] for row in self.released])
            if self.plan.sets:
                table[f"h{at}"] = Values(Type.INTEGER, [int(at in row.left_out) for row in self.released])
        for at, estimate in enumerate(self.plan.estimates):
            kind = Type.INTEGER if estimate.whole else Type.NUMBER
            table[f"e{at}"] = Values(kind, [row[at] for row in estimates], whole=estimate.whole)
        for text, name in (flags or {}).items():
            has_enough = self.divisors.get(text)
            table[name] = Values(
                Type.BOOLEAN, [True] * len(self.released) if has_enough is None else has_enough.tolist()
            )
        return table

    def computes_otherwise(self, name: str, place: int, row: JsonRow) -> bool:
        """Return whether a derived number in the answer is not the one that its error was found for.

        So it may be where rows tie in a window's order, or where numbers were put back into their bounds.
        """
        if name not in self.derived:
            return False
        output = next(each for each in self.plan.outputs if each.name == name)
        _, rounded = (None, 0.0) if output.derived is None else strip_rounding(output.derived)
        value, shown = float(self.derived[name][0][place]), row[name]
        return not isinstance(shown, (int, float)) or not math.isclose(
            shown, value, rel_tol=1e-9, abs_tol=rounded + 1e-9
        )

    def cell_errors(self) -> CellErrors:
        assert self._noise is not None
        return CellErrors(self.plan, self._noise, self.released, clamp=self.clamp)

    def column_errors(self, places: Sequence[int]) -> dict[str, tuple[float | None, ...]]:
        """Return, by aggregate column, the 95 % error in the released rows with these indices."""
        assert self._noise is not None
        found = column_errors(self.plan, self._noise, [self.released[at] for at in places], clamp=self.clamp)
        derived = {
            name: tuple(float(errors[at]) if np.isfinite(errors[at]) else None for at in places)
            for name, (_, errors, _) in self.derived.items()
        }
        return found | derived


def _list_tables(plan: QueryPlan, numbers: Sequence[tuple[Keys, Numbers]], clamp: bool) -> list[_BlockTable]:
    """Return the released table of each block that the answer is made of.

    ``numbers``: for each block of the plan, its groups and their measured numbers.
    """
    parts = enumerate(zip(plan.answered, numbers, strict=False))  # what tells of cut rows is the last block
    return [_BlockTable(block, list_released_rows(block, *own), clamp, name_released(at)) for at, (block, own) in parts]


def _read_released(parts: Sequence[_BlockTable]) -> list[JsonRow]:
    """Return the rows of all released tables, as rows of one."""
    return _align([row for part in parts for row in part.read_released()])


def _run(plan: QueryPlan, parts: Sequence[_BlockTable]) -> tuple[list[JsonRow], list[tuple[int, int]] | None, bool]:
    """Return the rows of the answer, where each comes from, and whether the SQL after the noise failed.

    Where a row comes from is a pair (block, index of the released row). If rows cannot be traced to single released
    rows, None is returned instead of these pairs. If the SQL failed, the rows are the released tables.
    """
    if plan.after.query is None:
        (only,) = parts
        rows = only.read_directly()
        return _withheld(parts, rows, [(0, at) for at in range(len(rows))])
    texts = dict.fromkeys(text for part in parts for text in part.divisors)
    flags = {text: f"d{at}" for at, text in enumerate(texts)}
    owners = [(block, at) for block, part in enumerate(parts) for at in range(len(part.released))]
    tables: dict[str, Mapping[str, Values]] = {each.name: each.content() for each in plan.after.public}
    for at, part in enumerate(parts):
        tables[part.name] = part.table(sum(len(before.released) for before in parts[:at]), flags)
    query = withhold_quotients(plan.after.query, flags.get) if flags else plan.after.query
    try:
        found = run_embedded(query, tables)
    except EmbeddedError:
        return _read_released(parts), None, True
    columns = [output.name for output in plan.outputs]
    rows = [{name: _plain(value) for name, value in zip(columns, row, strict=False)} for row in found]
    return _withheld(parts, rows, [owners[int(row[-1])] for row in found] if plan.after.traced else None)


def _withheld(
    parts: Sequence[_BlockTable], rows: list[JsonRow], places: list[tuple[int, int]] | None
) -> tuple[list[JsonRow], list[tuple[int, int]] | None, bool]:
    """Set columns of ``rows`` to NULL where they divide by a number with too few people to tell.

    A column that can turn NULL into something else, such as by COALESCE, is not changed. ``places``: where each row
    comes from (see ``_run``); if it is None, no column is changed. Returns what ``_run`` returns: the rows, ``places``,
    and False, since no SQL failed.
    """
    for row, (block, place) in zip(rows, places or (), strict=False):
        part = parts[block]
        for name, (_, _, enough) in part.derived.items():
            if not enough[place]:
                row[name] = None
        if not part.divisors:
            continue
        for output in part.plan.outputs:
            if output.formula is None or not passes_null_on(output.formula):
                continue
            texts = [divisor.sql(dialect="duckdb") for divisor in find_divisors(find_quotients([output.formula]))]
            if not all(part.divisors[text][place] for text in texts if text in part.divisors):
                row[output.name] = None
    return rows, places, False


def _list_shown(parts: Sequence[_BlockTable], places: Sequence[tuple[int, int]] | None) -> tuple[ReleasedRow, ...]:
    """Return the released row that each row of the answer shows, by ``places`` (see ``_run``).

    All released rows if ``places`` is None.
    """
    if places is None:
        return tuple(row for part in parts for row in part.released)
    return tuple(parts[block].released[at] for block, at in places)


def _find_errors(
    parts: Sequence[_BlockTable], rows: Sequence[JsonRow], places: Sequence[tuple[int, int]] | None
) -> tuple[dict[str, float | None], ...]:
    """Return, for each row of the answer, the 95 % error of each aggregate column.

    It is the error in the released row that the row shows. ``places``: where each row comes from (see ``_run``). If
    that is None, each column's largest error over all released rows is returned for every row. A NULL has no error.
    """
    if places is None:
        found = [part.column_errors(range(len(part.released))) for part in parts]
        largest = {name: find_largest_error([error for each in found for error in each[name]]) for name in found[0]}
        return tuple({name: None if row[name] is None else error for name, error in largest.items()} for row in rows)
    errors: list[dict[str, float | None]] = [{} for _ in rows]
    for block, part in enumerate(parts):
        own = [at for at, (owner, _) in enumerate(places) if owner == block]
        columns = part.column_errors([places[at][1] for at in own])
        for place, at in enumerate(own):
            errors[at] = {
                name: None
                if rows[at][name] is None or part.computes_otherwise(name, places[at][1], rows[at])
                else each[place]
                for name, each in columns.items()
            }
    return tuple(errors)


def _answer_with_released(parts: Sequence[_BlockTable], rows: list[JsonRow]) -> AssembledAnswer:
    """Return the answer where the SQL after the noise failed: the rows of all released tables, with their errors."""
    errors: list[dict[str, float | None]] = []
    for part in parts:
        known, labels = part.cell_errors(), [estimate.label for estimate in part.plan.estimates]
        found = {label: known.formula(exp.column(f"e{at}")).tolist() for at, label in enumerate(labels)}
        own = rows[len(errors) : len(errors) + len(part.released)]
        errors += [
            {
                name: each[at] if math.isfinite(each[at]) and row[name] is not None else None
                for name, each in found.items()
            }
            for at, row in enumerate(own)
        ]
    aligned = tuple(_align(errors))
    names = aligned[0] if aligned else ()
    largest = tuple(find_largest_error([row[name] for row in aligned]) for name in names)
    return AssembledAnswer(rows, aligned, largest, failed=True)


def _align(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of several tables as rows of one: each has the columns of all, None in those it lacks."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def assemble_groups(plan: QueryPlan, keys: Keys, values: Numbers) -> list[JsonRow]:
    """Return a row for every group: the columns of the answer that can have 95 % errors, without these.

    If the embedded engine fails on these numbers, return every group with its aggregates.
    """
    released = tuple(ReleasedRow(key, measured) for key, measured in zip(keys, values, strict=True))
    block = _BlockTable(plan, released)
    trees = {output.name: find_formula(plan, output) for output in plan.outputs}
    own = {name: tree for name, tree in trees.items() if tree is not None}
    if all(isinstance(formula, exp.Column) for formula in own.values()):
        return block.read_directly()
    shown = [alias(tree.copy(), name, quoted=True) for name, tree in own.items()]
    query = exp.select(*shown).from_(exp.table_(RELEASED)).order_by(exp.column(CELL))
    try:
        found = run_embedded(query, {RELEASED: block.table() | look_up(plan, released)})
    except EmbeddedError:
        return block.read_released()
    return [{name: _plain(value) for name, value in zip(own, row, strict=True)} for row in found]


def _plain(value: Any) -> JsonScalar:
    """Return a value as JSON has it: dates and timestamps as text, decimals as numbers, infinity and NaN as None."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    found: JsonScalar = value.isoformat() if hasattr(value, "isoformat") else value
    return found
