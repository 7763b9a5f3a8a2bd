"""How accurate an answer would be, before it is released: for the controller, from exact numbers (E1).

Never draws noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median

import numpy as np

from dosimeter.json_values import JsonObject
from dosimeter.mechanisms import Mechanism
from dosimeter.planning import QueryPlan
from dosimeter.postprocess.cells import Cell, Keys, Numbers, list_cells
from dosimeter.postprocess.errors import CellErrors, Noise, find_largest, needs_values


@dataclass(frozen=True, slots=True, repr=False)
class Accuracy:
    """How far off one column of an answer would be, over the groups. Private.

    ``typical`` and ``worst``: the median and the largest 95 % error of the groups that have one; ``relative``: the
    median of the error relative to the number. ``too_few``: groups with too few people to tell. ``beyond``: groups
    whose error exceeds the number itself. ``groups``: how many there are, totals included. None: it is not known.
    """

    column: str
    typical: float | None
    worst: float | None
    relative: float | None = None
    too_few: int | None = None
    beyond: int | None = None
    groups: int | None = None

    def describe(self) -> JsonObject:
        """Return the fields, as they stand in JSON documents."""
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
        return f"Accuracy(column={self.column!r}, redacted)"


def foresee_accuracy(
    plan: QueryPlan,
    mechanism: Mechanism,
    scale: float,
    values: Numbers | None = None,
    keys: Keys | None = None,
    *,
    clamp: bool = False,
) -> tuple[Accuracy, ...]:
    """Return how far off each aggregate column would be. Without values: what the scale alone decides, as for a COUNT.

    ``keys``: the groups of the values; needed where columns read them or totals add them up.
    """
    noise = Noise.of(plan, mechanism, scale)
    columns = [output for output in plan.outputs if output.is_aggregate]
    cells = (
        _list_public(plan)
        if values is None
        else list_cells(plan, keys or [(None,) * len(plan.groups)] * len(values), values)
    )
    known = CellErrors(plan, noise, cells, clamp=clamp)
    found = []
    for output in columns:
        direct = output.formula is not None and (values is not None or not needs_values(plan, output.formula))
        if output.formula is None or not direct or not cells:
            found.append(Accuracy(output.name, None, None, groups=None if values is None else len(cells)))
            continue
        errors = known.formula(output.formula)
        finite = errors[np.isfinite(errors)].tolist()
        typical = median(finite) if finite else None
        worst = find_largest(finite)
        if values is None:
            found.append(Accuracy(output.name, typical, worst))
            continue
        told = known.is_told(output.formula)
        sizes = np.abs(known.value(output.formula))
        kept = np.isfinite(errors) & np.isfinite(sizes)
        ratios = [e / s for e, s in zip(errors[kept].tolist(), sizes[kept].tolist(), strict=True) if s > 0.0]
        found.append(
            Accuracy(
                output.name, typical, worst,
                relative=median(ratios) if ratios else None,
                too_few=int((~told).sum()),
                beyond=int((errors[kept] > sizes[kept]).sum()),
                groups=len(cells),
            )
        )  # fmt: skip
    return tuple(found)


def error_95(
    plan: QueryPlan, mechanism: Mechanism, scale: float, values: Numbers | None, keys: Keys | None = None
) -> tuple[float | None, ...]:
    """Return the 95 % error of each aggregate column, the largest over these groups; None where none has one."""
    return tuple(each.worst for each in foresee_accuracy(plan, mechanism, scale, values, keys))


def list_group_errors(
    plan: QueryPlan, mechanism: Mechanism, scale: float, values: Numbers, keys: Keys
) -> list[tuple[float | None, ...]]:
    """Return the 95 % errors of every aggregate column, for each of these groups by itself."""
    cells = [Cell(key, measured) for key, measured in zip(keys, values, strict=True)]
    known = CellErrors(plan, Noise.of(plan, mechanism, scale), cells)
    columns: list[Sequence[float | None]] = []
    for output in plan.outputs:
        if output.is_aggregate:
            errors = [None] * len(cells) if output.formula is None else known.formula(output.formula).tolist()
            columns.append([None if each is None or not math.isfinite(each) else each for each in errors])
    return [tuple(column[at] for column in columns) for at in range(len(cells))]


def _list_public(plan: QueryPlan) -> tuple[Cell, ...]:
    """Return a cell for every set of groups, with as many terms as its totals add up: what is public of any data."""
    sizes = [len(group.values or ()) for group in plan.groups]
    empty = [Fraction(0)] * len(plan.measures)
    sets = plan.sets or (tuple(range(len(sizes))),)
    terms = (math.prod(size for at, size in enumerate(sizes) if at not in kept) for kept in sets)
    return tuple(Cell((None,) * len(sizes), empty, max(1, each)) for each in terms)
