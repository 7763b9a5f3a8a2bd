"""A released answer as a table: as many digits as the errors allow, a part of its rows, dots with whiskers; and as CSV.

Takes public values; gives public values. Everything here is decided by the answer itself, after it was released.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from dosimeter.release import FACT_COLUMNS
from dosimeter.web.csv_lines import write_csv_line
from dosimeter.web.figures import show_estimate, show_interval, show_number
from dosimeter.web.public import AnswerShape, PublicAnswer, ShownAnswer, ShownCell, ShownColumn, Whisker

MOST_ROWS = 100
MOST_PICTURES = 3
FEW = "too few people to tell"
NEGATIVE = "negative: that is the noise"
Value = str | int | float | bool | None


def view_answer(answer: PublicAnswer, shape: AnswerShape, *, first: int = 1, most: int = MOST_ROWS) -> ShownAnswer:
    """Return a part of an answer as it is shown: from row ``first``, counted from 1, at most ``most`` rows.

    ``shape``: which columns carry noise, and which are counts.
    """
    total = len(answer.rows)
    start = min(max(first, 1), max(total, 1)) - 1
    names = list(answer.rows[0]) if answer.rows else []
    errors = _AnswerErrors(answer, shape)
    missing = "–" if tuple(names) == FACT_COLUMNS and not shape.measured else "NULL"
    few = any(FEW in fact for fact in answer.about)
    scales = {name: _find_scale(name, answer, errors) for name in names if total > 1 and name in shape.measured}
    drawn = dict([(name, scale) for name, scale in scales.items() if scale is not None][:MOST_PICTURES])
    columns = [_view_column(name, answer, errors, drawn.get(name)) for name in names]
    rows = [
        [
            _view_cell(row[name], name, at, errors, FEW if few and name in shape.measured else missing, drawn.get(name))
            for name in names
        ]
        for at, row in enumerate(answer.rows[start : start + most], start=start)
    ]
    end = start + len(rows)
    noisy = [cell for row in rows for column, cell in zip(columns, row, strict=True) if column.measured]
    return ShownAnswer(
        answer=answer,
        columns=columns,
        rows=rows,
        first=start + 1 if total else 0,
        last=end,
        total=total,
        earlier=None if start == 0 else max(1, start - most + 1),
        later=end + 1 if end < total else None,
        negative=any(cell.note == NEGATIVE for row in rows for cell in row),
        ranged=any(cell.interval for row in rows for cell in row),
        untold=2 * sum(cell.text == FEW for cell in noisy) > len(noisy),
    )


@dataclass(frozen=True, slots=True)
class _AnswerErrors:
    """The 95 % errors of an answer's numbers: each row's own where these are known, else the largest of the column."""

    answer: PublicAnswer
    shape: AnswerShape

    def find(self, name: str, at: int) -> float | None:
        """Return the 95 % error of the number in column ``name`` and row ``at`` (from 0), in the number's own units.

        If the answer does not give errors row by row, this is the largest error of the column. None if no error is
        known or the errors are withheld, and for columns drawn by rank, whose errors are numbers of rows.
        """
        answer, measured = self.answer, self.shape.measured
        if answer.rank_errors and name in answer.rank_errors:
            return None
        if answer.errors:
            return answer.errors[at].get(name)
        if answer.error_95 is None or name not in measured or len(measured) != len(answer.error_95):
            return None
        return answer.error_95[measured.index(name)]


def _view_column(
    name: str, answer: PublicAnswer, errors: _AnswerErrors, scale: tuple[float, float] | None
) -> ShownColumn:
    return ShownColumn(
        name=name,
        numeric=any(_is_number(row[name]) for row in answer.rows),
        measured=name in errors.shape.measured,
        ranged=any(errors.find(name, at) is not None for at in range(len(answer.rows))),
        scale=[show_number(end, 3) for end in scale or ()],
    )


def _view_cell(
    value: Value, name: str, at: int, errors: _AnswerErrors, missing: str, scale: tuple[float, float] | None
) -> ShownCell:
    measured = name in errors.shape.measured
    if value is None:
        return ShownCell(text=missing, faint=True)
    if isinstance(value, bool):
        return ShownCell(text=str(value).lower())
    if not isinstance(value, (int, float)):
        return ShownCell(text=str(value))
    error = errors.find(name, at) if measured else None
    text, margin = show_estimate(value, error)
    return ShownCell(
        text=text,
        margin=margin,
        interval="" if error is None else show_interval(value, error),
        note=NEGATIVE if measured and value < 0 and name in errors.shape.counts else "",
        whisker=None if scale is None else _place(value, error, scale),
    )


def _is_number(value: Value) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _find_scale(name: str, answer: PublicAnswer, errors: _AnswerErrors) -> tuple[float, float] | None:
    """Return the two ends of a column's picture: the lowest and the highest end of its numbers' 95 % ranges.

    If all ranges lie on the same side of 0, and not far from it, 0 takes the place of the nearer end. None where no
    error is known, because dots alone would look exact, and where the two ends are equal.
    """
    ends: list[float] = []
    for at, row in enumerate(answer.rows):
        value = row[name]
        error = errors.find(name, at)
        if _is_number(value) and math.isfinite(value) and error is not None and math.isfinite(error):
            ends += [value - error, value + error]
    if not ends:
        return None
    low, high = min(ends), max(ends)
    if 0.0 < low <= 0.5 * high:
        low = 0.0
    elif 0.5 * low <= high < 0.0:
        high = 0.0
    return (low, high) if high > low else None


def _place(value: float, error: float | None, scale: tuple[float, float]) -> Whisker | None:
    """Return where a number and its 95 % range lie, in percent of the picture's width.

    None if the error is unknown, or if the error or the number is not finite.
    """
    low, high = scale

    def at(number: float) -> float:
        return round(3.0 + 94.0 * (number - low) / (high - low), 1)

    if error is None or not math.isfinite(error) or not math.isfinite(value):
        return None
    zero = at(0.0) if low < 0.0 < high else None
    return Whisker(dot=at(value), low=at(value - error), high=at(value + error), zero=zero)


def write_csv(answer: PublicAnswer, shape: AnswerShape) -> Iterator[str]:
    """Yield the answer as CSV, line by line: every row, every digit, and the 95 % errors where they are known."""
    names = list(answer.rows[0]) if answer.rows else []
    errors = _AnswerErrors(answer, shape)
    with_error = [name for name in names if any(errors.find(name, at) is not None for at in range(len(answer.rows)))]
    columns = [(name, is_error) for name in names for is_error in ((False, True) if name in with_error else (False,))]
    yield write_csv_line([f"{name} error_95" if is_error else name for name, is_error in columns])
    for at, row in enumerate(answer.rows):
        yield write_csv_line([errors.find(name, at) if is_error else row[name] for name, is_error in columns])
