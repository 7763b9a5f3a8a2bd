"""Candidates as rows of text: in one order, with the same words, wherever they are shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dosimeter.errors import OptionError
from dosimeter.risk import NO_ERROR
from dosimeter.schema import PLAIN, Words
from dosimeter.show.written_numbers import format_epsilon, format_number, format_percent, format_range, join_names

if TYPE_CHECKING:
    from dosimeter.mechanisms import Mechanism
    from dosimeter.planning import QueryPlan
    from dosimeter.postprocess import ColumnAccuracy
    from dosimeter.risk import Candidate

MEETS, FAILS = "#0072B2", "#D55E00"  # Okabe–Ito blue and vermilion; never without a tick or a cross
TextTable = Mapping[str, Sequence[Any]]  # {"columns": [...], "rows": [[...], ...]}, all of it text for people


def order_candidates(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates, largest ε first: the order of every list, table and chart. Refuse an empty list."""
    if not candidates:
        raise OptionError("There is no candidate ε to show. Give at least one.")
    return tuple(sorted(candidates, key=lambda candidate: -candidate.epsilon))


def list_errors(candidate: Candidate, called: Words = PLAIN) -> list[str]:
    """Write the 95 % error of each column of the answer: in rows where the column is drawn by rank (E3).

    "no bound" where there is no limit to the error. Beside it stands how many groups have too few people to tell.
    ``called``: what rows are called.
    """
    found = []
    for at, (error, in_rows) in enumerate(candidate.errors):
        untold = "" if in_rows or not candidate.accuracy else count_untold(candidate.accuracy[at])
        found.append(NO_ERROR if error is None else format_error(error, called.rows if in_rows else None) + untold)
    return found


def count_untold(column: ColumnAccuracy) -> str:
    """Return how many of a column's groups have too few people to tell, as " (3 of 16 too few)"; "" if none have."""
    return f" ({column.too_few:,} of {column.groups:,} too few)" if column.too_few and column.groups else ""


def format_error(error: float, rows: str | None = None) -> str:
    """Write a 95 % error to two digits. ``rows``: what rows are called, if it counts them: drawn by rank (E3)."""
    return f"± {format_number(error, 2)}" if rows is None else f"± {math.ceil(error):,} {rows}"


def format_scale(candidate: Candidate) -> str:
    """Write the noise scale; a dash where no noise is added."""
    return "–" if candidate.noise_scale is None else format_number(candidate.noise_scale)


def word_mechanism(plan: QueryPlan, mechanism: Mechanism) -> str:
    """Say how the numbers of an answer are made uncertain: by which noise, or drawn by rank (M4), which adds none."""
    if plan.only_ranks:
        return "drawn by rank, without noise"
    calibration = f" ({mechanism.calibration})" if mechanism.calibration else ""
    labels = list(dict.fromkeys(rank.label for rank in plan.ranks.values()))
    drawn = f"; {join_names(labels)} drawn by rank" if labels else ""
    return f"{mechanism.name.capitalize()} noise{calibration}{drawn}"


def candidate_rows(candidates: Sequence[Candidate]) -> TextTable:
    """Return the candidates as a table of text, a row each: the numbers behind the bars of ``range_chart``.

    The columns: ε, noise scale, 95 % errors, least and most exposed, their ratio, and what is known of the preference.
    """
    ordered = order_candidates(candidates)
    valued = any(c.value is not None for c in ordered)
    stated = any(c.satisfied is not None for c in ordered)
    columns = ["ε", "noise scale", "95 % error", "least exposed, ×", "most exposed, ×", "least ÷ most"]
    rows = []
    for c in ordered:
        cells = [format_epsilon(c.epsilon), format_scale(c), ", ".join(list_errors(c))]
        cells += [*format_range(*c.rdr.relative), format_percent(c.rdr.ratio)]
        if valued:
            cells.append("–" if c.value is None else format_number(c.value, 4))
        if stated:
            cells.append("–" if c.satisfied is None else ("✓ yes" if c.satisfied else "✗ no"))
        rows.append(cells)
    return {"columns": columns + ["preference value"] * valued + ["meets it"] * stated, "rows": rows}
