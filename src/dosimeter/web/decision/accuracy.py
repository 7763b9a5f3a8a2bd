"""How good the answer would be: errors per ε, per column and per group, beside the exact numbers. For controllers only.

Takes a MeasuredQuery; gives values for tables and pictures. Computes only with what is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dosimeter.postprocess import find_rank_columns
from dosimeter.risk import HARDLY, NO_ERROR, AnswerAccuracy, Candidate
from dosimeter.show import count_untold, format_epsilon, format_error, format_number
from dosimeter.web.decision.measured import MeasuredQuery
from dosimeter.web.figures import show_number

MOST_COLUMNS = 3  # with more, the table of errors has the chosen column only
MOST_TOLD = 2  # columns whose errors are written out beside the slider
NUMBERS_SHOWN = 100


@dataclass(frozen=True, slots=True, repr=False)
class ColumnError:
    """The 95 % error of one column at one ε, as numbers and in words.

    ``typical`` and ``worst``: the median and the largest error of the groups; None if there is no bound on it.
    ``in_rows``: the error says by how many rows a rank is off, because the column is drawn by rank (E3). ``too_few``:
    half of the groups or more have too few people to tell. ``drowned``: at least half of the numbers are no larger than
    their errors, or have too few people to tell. ``text`` and ``relative``: the typical error and the relative one in
    words. ``aside`` of a column with one number: the range
    in which the released number will lie, such as "88 to 112"; of one with several: the error of the worst group, such
    as "worst ± 30", or "" if it equals ``text``; of one whose error is in rows: of how many. "" if there is no bound.
    """

    typical: float | None
    worst: float | None
    in_rows: bool
    too_few: bool
    drowned: bool
    text: str
    relative: str
    aside: str


@dataclass(frozen=True, slots=True, repr=False)
class NumberRow:
    """One number of the answer: its group and column, its exact value, and where the released number will lie.

    ``chance``: how often the group would be shown, in words; "" if it is declared.
    """

    keys: tuple[object, ...]
    column: str
    exact: object
    range: str
    chance: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class NumberPage:
    """A part of the answer's numbers. ``start``: the place of its first number, from 0; ``total``: how many there are.

    ``following``: the place where the next part starts; None if this is the last. ``names``: the columns that name the
    group.
    """

    names: tuple[str, ...]
    rows: tuple[NumberRow, ...]
    start: int
    total: int
    following: int | None


def show_errors(measured: MeasuredQuery, place: int) -> Mapping[float, ColumnError]:
    """Return the error of one column at every candidate, by ε. ``place``: the column's index among ``columns``."""
    return measured.once(
        ("errors", place), lambda: {line.epsilon: _find_error(measured, line, place) for line in measured.candidates}
    )


def _find_error(measured: MeasuredQuery, line: Candidate, place: int) -> ColumnError:
    worst, in_rows = line.errors[place]
    foreseen = measured.answers[line.epsilon].columns[place]
    typical = worst if in_rows or foreseen.typical is None else foreseen.typical
    share, too_few = foreseen.relative, foreseen.mostly_too_few
    called = measured.risk.plan.words
    text = "too few" if too_few else write_error(typical, worst, called.rows if in_rows else None)
    aside = _write_crowd(measured) if in_rows and not too_few else ""
    if not (too_few or in_rows or worst is None):
        values, most = measured.exact[measured.columns[place]], write_error(None, worst)
        if len(values) == 1:
            aside = _write_range(values[0], worst)
        elif most != text:
            aside = f"worst {most}{count_untold(foreseen)}"
    return ColumnError(
        typical=typical,
        worst=worst,
        in_rows=in_rows,
        too_few=too_few,
        drowned=AnswerAccuracy.of([foreseen]).is_mostly_noise,
        text=text,
        relative="–" if share is None or too_few else f"{format_number(100.0 * share, 2)} %",
        aside=aside,
    )


def _write_crowd(measured: MeasuredQuery) -> str:
    """Say among how many rows a rank may be off, or among whose: those of an average group."""
    plan, groups = measured.risk.plan, max(1, len(measured.groups))
    held = f"of {'about ' if groups > 1 else ''}{round(measured.risk.matched / groups):,}"
    return held if plan.schema.max_rows_per_unit == 1 else f"{plan.words.rows} {held} {plan.words.people}"


def write_error(typical: float | None, worst: float | None, rows: str | None = None) -> str:
    """Write a 95 % error: the ``typical`` one, or else the ``worst``, as in "± 12"; "no bound" if both are None.

    ``rows``: what rows are called, if it says by how many a rank is off: the column is drawn by rank (E3).
    """
    size = worst if typical is None else typical
    return NO_ERROR if size is None else format_error(size, rows)


def write_errors(measured: MeasuredQuery, epsilon: float) -> str:
    """Write the errors of the first columns at one ε, each in a typical group, where groups differ."""
    count = len(measured.columns)
    told = [_write_in_group(measured, place, epsilon) for place in range(min(count, MOST_TOLD))]
    return ", ".join(told) + (f" and {count - MOST_TOLD:,} more" if count > MOST_TOLD else "")


def _write_in_group(measured: MeasuredQuery, place: int, epsilon: float) -> str:
    error = show_errors(measured, place)[epsilon]
    if error.too_few:
        several = (measured.answers[epsilon].columns[place].groups or 0) > 1
        return f"too few {measured.risk.plan.words.people} {'in most groups' if several else 'to tell'}"
    typical, worst = error.typical, error.worst
    varied = typical is not None and worst is not None and format_number(typical) != format_number(worst)
    return f"{error.text} in a typical group" if varied else error.text


def write_wanted(measured: MeasuredQuery, wanted: float | None, enough: float | None) -> str:
    """Say which ε gives the error that the analyst wants; "" if no error is wanted.

    ``enough``: the smallest such ε; None if no candidate gives it.
    """
    if wanted is None:
        return ""
    where = " in a typical group" if measured.risk.plan.groups else ""
    told = "no candidate gives that" if enough is None else f"that takes ε = {format_epsilon(enough)} or more"
    return f"The analyst would like ± {format_number(wanted, 4)}{where}: {told}."


def _write_range(value: float, error: float) -> str:
    return f"{show_number(value - error, 4)} to {show_number(value + error, 4)}"


# ---------------------------------------------------------------- every number, on demand


def list_numbers(measured: MeasuredQuery, epsilon: float, start: int) -> NumberPage:
    """Return a part of the answer's numbers at one ε, group by group, and in each group column by column.

    ``start``: the place of the number to begin with, from 0.
    """
    plan, columns = measured.risk.plan, measured.columns
    keys = tuple(output.name for output in plan.outputs if not output.is_aggregate)
    only = {name: values[0] for name in columns if (values := measured.exact.get(name))}
    groups = measured.groups or (only,)
    if not columns:  # it shows groups and names alone
        return NumberPage(keys, (), start, 0, None)
    total, end = len(groups) * len(columns), start + NUMBERS_SHOWN
    first, last = start // len(columns), min(len(groups), -(-end // len(columns)))
    errors = measured.group_errors(epsilon, last)
    ranked, chances = find_rank_columns(plan), measured.chances(epsilon)
    rows: list[NumberRow] = []
    for at in range(first, last):
        own = errors[at] if at < len(errors) else (None,) * len(columns)
        for place, column in enumerate(columns):
            if start <= at * len(columns) + place < end:
                exact: Any = groups[at].get(column)  # a column that reads other groups' numbers has none of its own
                words = _write_place(exact, own[place], by_rank=column in ranked)
                chance = "" if chances is None else write_chance(chances[at])
                rows.append(NumberRow(tuple(groups[at].get(name) for name in keys), column, exact, words, chance))
    return NumberPage(keys, tuple(rows), start, total, end if end < total else None)


def write_chance(chance: float) -> str:
    """Return how often a thresholded group would be shown, in words: "37 of 100 times", "hardly ever"."""
    if chance < HARDLY:
        return "hardly ever"
    return "almost always" if chance > 1.0 - HARDLY else f"{round(100.0 * chance)} of 100 times"


def _write_place(exact: object, error: float | None, *, by_rank: bool) -> str:
    if error is not None and isinstance(exact, (int, float)):
        return _write_range(float(exact), error)
    return "by rank" if by_rank else "too few people to tell"
