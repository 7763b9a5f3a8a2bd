"""Lay a summary out as text: the cells of its table and the sentences below, the same on every surface."""

from __future__ import annotations

import math

from dosimeter.show import format_apart, format_epsilon, format_measured, format_number
from dosimeter.summary.values import ColumnSummary, Figure, Summary, read_count
from dosimeter.summary.written_query import Asked, find_days

HEADINGS = ("column", "count", "missing", "mean", "25 %", "median", "75 %", "holds")
NUMERIC = range(1, 7)  # the columns of the table that are set to the right
TOO_FEW = "too few to tell"
MOST_SHOWN = 5  # values of a column


def list_cells(summary: Summary, column: ColumnSummary) -> tuple[str, ...]:
    """Return the row of the table about one column."""
    quartiles = [_write_quartile(figure) for figure in column.quartiles] or [""] * 3
    mean = ""
    if column.mean is not None:
        mean = TOO_FEW if column.mean.value is None else format_measured(column.mean.value, column.mean.error)
    return (
        column.declared.name,
        write_count(column.count),
        write_count(column.missing),
        mean,
        *quartiles,
        _write_holding(summary, column),
    )


def write_count(figure: Figure) -> str:
    """Write a noisy count with as many digits as its error allows; one that may be 0 as what it is at most."""
    value, error = read_count(figure), figure.error
    if not error:
        return f"{value:,}"
    if value <= error:
        return f"at most {_round_up(max(value, 0) + error):,}"
    return format_apart(value, error)


def _write_quartile(figure: Figure) -> str:
    if figure.value is None:
        return TOO_FEW
    return figure.value if isinstance(figure.value, str) else format_number(figure.value, 6)


def _write_holding(summary: Summary, column: ColumnSummary) -> str:
    """Write what a column holds: the most frequent values, the declared bounds, or why there is nothing to say."""
    match column.asked:
        case Asked.VALUES:
            return _write_values(summary, column)
        case Asked.NUMBERS | Asked.DAYS:
            assert column.declared.bounds is not None
            if column.asked is Asked.DAYS:
                first, last = find_days(column.declared)
                return f"bounds {first} to {last}"
            low, high = (format_number(float(str(bound)), 12) for bound in column.declared.bounds)
            return f"bounds {low} to {high}"
        case _:
            return str(column.asked)


def _write_values(summary: Summary, column: ColumnSummary) -> str:
    """Write the most frequent values in percent of all rows; those that may not occur at all are left out."""
    assert summary.rows is not None
    rows = read_count(summary.rows)
    sure = [(value, each) for value, each in column.values if _exceeds_error(each)]
    if not sure or rows <= 0:
        return TOO_FEW
    shown = [f"{value} {_write_share(each, rows)}" for value, each in sure[:MOST_SHOWN]]
    more = len(column.values) - len(shown)
    return ", ".join(shown) + (f", and {more:,} more" if more else "")


def _exceeds_error(figure: Figure) -> bool:
    return read_count(figure) > (figure.error or 0.0)


def _write_share(figure: Figure, rows: int) -> str:
    decimals = 1 if 200.0 * (figure.error or 0.0) < rows else 0  # an error of less than half a percent
    return f"{100.0 * read_count(figure) / rows:.{decimals}f}\u00a0%"


def list_notes(summary: Summary) -> list[str]:
    """Return the sentences below the table: what is counted, how far off the numbers are, and the guarantee."""
    assert summary.rows is not None
    rows, words, answer = summary.rows, summary.words, summary.answer
    told = f"About {format_apart(read_count(rows), rows.error or 0.0)} {words.rows}."
    if summary.most_rows is not None:
        counts = "counts" if summary.most_rows == 1 else "count"
        told += f" At most {words.count_rows(summary.most_rows)} of each {words.individual} {counts}."
    notes = [told, *_list_errors(summary)]
    if any(column.asked in (Asked.NUMBERS, Asked.DAYS) for column in summary.columns):
        notes.append("Values beyond the declared bounds count as the bound.")
    if any(column.asked is Asked.VALUES for column in summary.columns):
        notes.append(f"Percent of all {words.rows}. Values that may not occur at all are not named.")
    level = [] if answer.epsilon is None else [f"ε = {format_epsilon(answer.epsilon)} for the whole table."]
    return [*notes, *level, answer.guarantee or ""]


def _list_errors(summary: Summary) -> list[str]:
    """Say how far off counts and quartiles are, at most."""
    rows, words, columns = summary.rows, summary.words, summary.columns
    if rows is None or rows.error is None:
        return ["How far off the numbers are is withheld: it would tell ε."]
    counts = [rows, *(each for column in columns for each in (column.count, column.missing))]
    most = max(each.error or 0.0 for each in counts)
    told = [f"With 95 %, counts are within {words.count_rows(_round_up(most))} of those without noise."]
    middle = [column.quartiles[1].error or 0.0 for column in columns if column.quartiles]
    others = [column.quartiles[at].error or 0.0 for column in columns if column.quartiles for at in (0, 2)]
    if middle:
        told.append(
            f"With 95 %, a median is within {words.count_rows(_round_up(max(middle)))} of the middle, and a quartile "
            f"within {words.count_rows(_round_up(max(others)))} of its place."
        )
    return told


def _round_up(error: float) -> int:
    """Return a whole number of rows that is at least as large, rounded up to two digits that matter."""
    whole = max(math.ceil(error), 1)
    step: int = 10 ** max(len(str(whole)) - 2, 0)
    return -(-whole // step) * step
