"""ε found from a preference for five ratios, five queries and two mechanisms (section 6.3.1).

The authors' 50 ε's stand beside. A ratio of 0.95 demands that the smallest RDR is at least 0.95 times the largest. For
each ratio, query and mechanism, ε is found twice: under the authors' conventions, where it must equal theirs, and under
this package's own defaults, where every difference is explained in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dosimeter.json_values import JsonObject
from dosimeter.show import TextTable, format_epsilon, format_number
from dosimeter_paper.reproduction.queries import (
    AUTHORS_EPSILON,
    AVERAGE,
    MECHANISMS,
    QUERIES,
    RATIOS,
    Adult,
    MechanismName,
    PaperQuery,
)

if TYPE_CHECKING:
    from dosimeter.assessment import Risk

TRAINING_ROWS = 32_561
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table of results: the ε's for one ratio, query and mechanism.

    ``published``: the ε that the authors published. ``authors``, ``product``: the ε found here, by the authors'
    convention and by this package's own; None if no candidate meets the ratio. ``authors_limit``, ``product_limit``:
    the exact largest ε, which need not be a candidate.
    """

    mechanism: MechanismName
    ratio: float
    query: str
    published: float
    authors: float | None
    product: float | None
    authors_limit: float | None
    product_limit: float | None

    @property
    def reproduced(self) -> bool:
        return self.authors == self.published

    @property
    def differs(self) -> bool:
        """Return whether this package's own convention finds another ε than the authors published."""
        return self.product != self.published


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All 50 cells. ``reasons``: for a mechanism and query, why this package's own convention may find another ε."""

    rows: int
    cells: tuple[Cell, ...]
    reasons: Mapping[tuple[MechanismName, str], tuple[str, ...]]

    @property
    def reproduced(self) -> int:
        return sum(cell.reproduced for cell in self.cells)

    @property
    def differing(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.differs)

    @property
    def words(self) -> tuple[str, ...]:
        """Return sentences that sum up which ε's are the same and which differ."""
        told = [f"Under the authors' conventions {self.reproduced} of {len(self.cells)} cells equal what they found."]
        if self.rows != TRAINING_ROWS:
            told.append(
                f"This table has {self.rows:,} rows; the authors ran the training split of {TRAINING_ROWS:,} (the "
                "paper's text says 48,842)."
            )
        told.append(f"Under this package's own defaults {len(self.differing)} cells differ, for these reasons:")
        shared: dict[tuple[MechanismName, str], list[str]] = {}
        for (mechanism, query), reasons in self.reasons.items():
            if any(cell.mechanism == mechanism and cell.query == query for cell in self.differing):
                for reason in reasons:
                    shared.setdefault((mechanism, reason), []).append(query)
        told += [
            f"{', '.join(names)}, {mechanism.capitalize()}: {reason}" for (mechanism, reason), names in shared.items()
        ]
        return tuple(told)

    def document(self) -> JsonObject:
        return {
            "rows": self.rows,
            "reproduced": self.reproduced,
            "cells": self.list_cells(),
        }

    def list_cells(self) -> list[JsonObject]:
        return [describe_cell(cell, self.reasons) for cell in self.cells]

    def text_table(self, mechanism: MechanismName) -> TextTable:
        """Return a table of cells as ``write_cell`` writes them, with a row per ratio τ and a column per query."""
        columns = ["τ_p", *(query.name for query in QUERIES)]
        found = {(cell.ratio, cell.query): cell for cell in self.cells if cell.mechanism == mechanism}
        rows = [[f"{ratio:g}", *(write_cell(found[ratio, query.name]) for query in QUERIES)] for ratio in RATIOS]
        return {"columns": columns, "rows": rows}


def write_cell(cell: Cell) -> str:
    """Return the published ε as text; then each ε found here that differs from it.

    After ✗ stands the ε by the authors' convention, after → the ε by this package's own: ``0.05 ✗ 0.04 → 0.1``.
    """
    text = format_epsilon(cell.published)
    if not cell.reproduced:
        text += f" ✗ {_write(cell.authors)}"
    return f"{text} → {_write(cell.product)}" if cell.differs else text


def _write(epsilon: float | None) -> str:
    return "none" if epsilon is None else format_epsilon(epsilon)


def describe_cell(cell: Cell, reasons: Mapping[tuple[MechanismName, str], tuple[str, ...]]) -> JsonObject:
    return {
        "mechanism": cell.mechanism,
        "ratio": cell.ratio,
        "query": cell.query,
        "published": cell.published,
        "authors_convention": cell.authors,
        "reproduced": cell.reproduced,
        "product": cell.product,
        "authors_limit": cell.authors_limit,
        "product_limit": cell.product_limit,
        "why": list(reasons[cell.mechanism, cell.query]) if cell.differs else [],
    }


def compare_thresholds(adult: Adult, progress: Progress | None = None) -> Thresholds:
    """Find ε for all 50 cells. The data are read once per query, mechanism and convention, and not per ratio.

    ``progress``: called with (done, total).
    """
    cells: list[Cell] = []
    reasons: dict[tuple[MechanismName, str], tuple[str, ...]] = {}
    steps = len(MECHANISMS) * len(QUERIES)
    for done, (mechanism, query) in enumerate((m, q) for m in MECHANISMS for q in QUERIES):
        if progress is not None:
            progress(done, steps)
        theirs = adult.assess(query, mechanism, "authors")
        ours = adult.assess(query, mechanism, "product")
        reasons[mechanism, query.name] = _explain(query, theirs, ours)
        for ratio, published in zip(RATIOS, AUTHORS_EPSILON[mechanism][query.name], strict=True):
            a, p = theirs.find(f"ratio:{ratio}"), ours.find(f"ratio:{ratio}")
            cells.append(Cell(mechanism, ratio, query.name, published, a.epsilon, p.epsilon, a.limit, p.limit))
    return Thresholds(adult.table.num_rows, tuple(cells), reasons)


def _explain(query: PaperQuery, theirs: Risk, ours: Risk) -> tuple[str, ...]:
    """Return, for one query, a sentence for each convention in which the authors' risk and this package's differ."""
    told = []
    if query.name == AVERAGE:
        excess = float(theirs.sensitivities.values.max()) / theirs.sensitivity
        told.append(
            f"AVG is measured as a centred sum and a count, each over its own sensitivity (k = {ours.k}, nobody's PIS "
            f"above Δ); the authors take one number with Δ = (max − min)/n = {format_number(theirs.sensitivity)}, "
            f"which the largest PIS exceeds {excess:.2f} times."
        )
    elif ours.k != theirs.k:
        told.append(
            f"{ours.k} declared groups instead of the {theirs.k} that occur: noise in more cells counts in everybody's "
            "RDR, so that the same ratio allows a larger ε (R10)."
        )
    if ours.mechanism.calibration != theirs.mechanism.calibration:
        at = 2.0
        told.append(
            f"zCDP calibration instead of the classic formula: at ε = {at:g} it needs σ = "
            f"{format_number(ours.noise_scale(at) / ours.sensitivity)} Δ where the classic one takes "
            f"{format_number(theirs.noise_scale(at) / theirs.sensitivity)} Δ; less noise, so that RDRs lie further "
            "apart."
        )
    return tuple(told)
