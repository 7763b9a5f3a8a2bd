"""Find the measured number that the most exposed individual moves most, with and without them. Private.

Takes what was measured. It reads the data again only for a number drawn by rank where individuals have several rows,
and then only the rows of this one individual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dosimeter.arrays import IntArray
from dosimeter.html import Private
from dosimeter.influence.measured_rows import Rows
from dosimeter.influence.most_exposed import find_most_exposed, label_group, leave_out
from dosimeter.influence.profiles import ExposedSearch, Profile
from dosimeter.influence.rows.row_profile import JointRowProfile, Measured, RowProfile, measure_answer, read_column
from dosimeter.influence.units.unit_profile import JointUnitProfile, UnitProfile
from dosimeter.measures import GroupColumn
from dosimeter.planning import QueryPlan
from dosimeter.sql import column_tree, equals, select_from

_TRIED = 8
"""How many rows of the profile are looked at for somebody who moves what is drawn by rank."""

_OwnColumns = Mapping[tuple[int, int], GroupColumn]
"""The values of one individual that a rank reads, by the index of the measure in its block and that of the group."""


@dataclass(frozen=True, slots=True, repr=False)
class MovedNumber(Private):
    """One measured number, with one individual and without. Private.

    ``block`` and ``at``: the plan of the SELECT that measures it, and its index there. ``place``: its index among the
    measures of all blocks. ``group``: the group's values, of which those that identify people are masked. ``numbers``:
    the exact number with the individual and without. ``counts``: if it is drawn by rank, how many rows hold each
    candidate, with and without. ``sizes``: if groups are thresholded, how many individuals the group holds, with and
    without.
    """

    block: QueryPlan
    at: int
    place: int
    group: str
    numbers: tuple[Fraction, Fraction]
    counts: tuple[IntArray, IntArray] | None = None
    sizes: tuple[int, int] | None = None


def find_moved(profile: Profile, search: ExposedSearch, sensitivity: float, epsilon: float) -> MovedNumber | None:
    """Return the number that the most exposed individual moves most, relative to its noise; None if nobody moves any.

    The individual is one of those who are listed first among the most exposed. If nobody moves an exact number, but
    what is drawn by rank, it is one whose own guarantee is weakest. ``sensitivity``: Δ of all numbers together.
    ``epsilon``: the share of ε at which draws by rank are compared with noise; only MIN and MAX depend on it.
    """
    exposure = search.contributions.norms(search.norm)
    if search.contributions.shares is not None and not exposure.any():
        exposure = search.contributions.shares.copy()
    for _ in range(_TRIED):
        row = find_most_exposed(profile, exposure)
        if row is None or exposure[row] <= 0.0:
            break
        found = _find_of_row(profile, search, row, sensitivity, epsilon)
        if found is not None:
            return found
        exposure[row] = 0.0  # the bound on a guarantee can be above 0 where no draw moves
    return None


def _find_of_row(
    profile: Profile, search: ExposedSearch, row: int, sensitivity: float, epsilon: float
) -> MovedNumber | None:
    """Return the number that an individual of this row of the profile moves most; None if they move none."""
    contributions, plan = search.contributions, profile.plan
    start, stop = contributions.starts[row], contributions.starts[row + 1]
    entries = list(zip(contributions.cells[start:stop].tolist(), contributions.changes[start:stop], strict=True))
    own = _read_own(profile, row, search.rows) if plan.ranks else [{} for _ in plan.blocks]
    best, most, first_cell, first_place = None, 0.0, 0, 0
    for block, measured, held in zip(plan.blocks, search.measured.blocks, own, strict=True):
        cells = len(measured.keys) * len(block.measures)
        moved = [(cell - first_cell, float(change)) for cell, change in entries if 0 <= cell - first_cell < cells]
        after = leave_out(block, measured, moved, search.norm)
        for group, at, strength, counts in (
            *_list_noisy(block, moved, sensitivity),
            *_list_ranked(block, measured, held, epsilon, float(plan.shares)),
        ):
            if strength > most * (1.0 + 1e-12):
                values = measured.values[group]
                left = after.get(group, values)
                label = label_group(block, measured.keys[group], reveal=False)
                sizes = None
                if plan.threshold is not None:
                    people = plan.threshold.people
                    sizes = int(values[people]), int(left[people])
                numbers = values[at], left[at]
                best, most = MovedNumber(block, at, first_place + at, label, numbers, counts, sizes), strength
        first_cell, first_place = first_cell + cells, first_place + len(block.measures)
    return best


_Moved = tuple[int, int, float, tuple[IntArray, IntArray] | None]
"""The indices of a group and of a measure in its block; how far that number is moved; ``MovedNumber.counts``."""


def _list_noisy(block: QueryPlan, moved: Sequence[tuple[int, float]], sensitivity: float) -> Iterator[_Moved]:
    """Yield the numbers with noise that somebody moves, each with how far, as a share of Δ."""
    for cell, change in moved:
        group, at = divmod(cell, len(block.measures))
        if at not in block.ranks:
            yield group, at, abs(change) / sensitivity, None


def _list_ranked(
    block: QueryPlan, measured: Measured, own: _OwnColumns, epsilon: float, shares: float
) -> Iterator[_Moved]:
    """Yield the numbers drawn by rank that somebody's rows reach, each with how far they move a score (R12).

    ``own``: their values. ``shares``: into how many equal parts ε is split.
    """
    for (at, group), column in own.items():
        rank = block.ranks[at]
        counts = rank.count(measured.columns[at][group])
        without = counts - rank.count(column)
        moves = np.abs(rank.scores(counts, epsilon) - rank.scores(without, epsilon)).max()
        yield group, at, float(moves) / rank.score_sensitivity / shares, (counts, without)


# ---------------------------------------------------------------- one individual's own values


def _read_own(profile: Profile, row: int, rows: Rows) -> list[_OwnColumns]:
    """Return, for each block, what one individual of a row of the profile adds to the numbers drawn by rank."""
    if isinstance(profile, RowProfile | JointRowProfile):
        return [_take_own(part, row) for part in profile.parts]
    assert isinstance(profile, UnitProfile | JointUnitProfile), "every profile is of rows or of units"
    unit = rows.engine.fetch(profile.alike_query(rows.relation, row, 1)).column(0)[0].as_py()
    alone = select_from(rows.relation.copy(), exp.Star(), where=equals(column_tree(profile.plan.schema.unit), unit))
    theirs = replace(rows, relation=alone.subquery("alone", copy=False))
    return [_find_own(block, measure_answer(block, theirs)) for block in profile.plan.blocks]


def _take_own(part: RowProfile, row: int) -> _OwnColumns:
    """Return what one individual of a profile row adds, where everybody has one row."""
    if not part.touched[row]:
        return {}
    found = {}
    for at, rank in part.plan.ranks.items():
        column = read_column(part, rank, np.array([row]))
        found[at, int(part.group[row])] = replace(column, people=np.ones(1, dtype=np.int64))
    return found


def _find_own(block: QueryPlan, measured: Measured) -> _OwnColumns:
    """Return the values in a block that was measured over one individual's rows alone."""
    return {
        (at, group): column
        for at in block.ranks
        for group, column in enumerate(measured.columns[at])
        if column is not None
    }
