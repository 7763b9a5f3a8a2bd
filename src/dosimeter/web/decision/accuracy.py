"""How good the answer would be: errors per ε, per column and per group, beside the exact numbers. For controllers only.

Takes a MeasuredQuery and the Choice made by a preference; gives rows for tables. Computes only with what is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dosimeter.findings import Choice
from dosimeter.postprocess import find_rank_columns
from dosimeter.risk import HARDLY, Candidate
from dosimeter.show import count_untold, format_epsilon, format_number, order_candidates
from dosimeter.web.decision.measured import MeasuredQuery
from dosimeter.web.decision.offer import Offer
from dosimeter.web.decision.tradeoff import ShownError, write_error
from dosimeter.web.figures import show_number

MOST_COLUMNS = 3  # with more, the table of errors has the chosen column only
NUMBERS_SHOWN = 100


@dataclass(frozen=True, slots=True, repr=False)
class AccuracyCell:
    """How good one column is at one ε, as text: its 95 % error, the relative error, and ``aside``.

    ``aside`` of a column with one number: the range in which the released number will lie, such as "88 to 112".
    ``aside`` of a column with several: the error of the worst group, such as "worst ± 30"; "" if it equals ``error``.
    It is also "" if the error is in rows or has no bound.
    """

    error: str
    aside: str
    relative: str


@dataclass(frozen=True, slots=True, repr=False)
class AccuracyRow:
    """How good an answer is at one ε, with a cell for each column. ``selected``: whether the slider is at this ε.

    ``meets``: whether ε meets the preference; None without one. ``open``: whether the account still grants this ε.
    """

    epsilon: str
    selected: bool
    meets: bool | None
    open: bool
    cells: tuple[AccuracyCell, ...]


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


def list_columns(measured: MeasuredQuery) -> tuple[str, ...]:
    """Return the names of the answer's columns that carry noise or are drawn by rank."""
    return tuple(output.name for output in measured.risk.plan.outputs if output.is_aggregate)


def show_errors(measured: MeasuredQuery, place: int) -> dict[float, ShownError]:
    """Return the error of one column at every candidate, by ε. ``place``: the column's index in ``list_columns``."""
    number = measured.sizes[list_columns(measured)[place]]
    return {line.epsilon: _show_error(measured, line, place, number) for line in measured.candidates}


def _show_error(measured: MeasuredQuery, line: Candidate, place: int, number: float) -> ShownError:
    worst, in_rows = line.errors[place]
    foreseen = measured.accuracies[line.epsilon][place]
    if foreseen.mostly_too_few:
        return ShownError(typical=None, worst=None, text="too few", relative="–", drowned=True)
    typical = worst if in_rows or foreseen.typical is None else foreseen.typical
    relative = foreseen.relative
    if relative is None and typical is not None and not in_rows and number > 0.0:
        relative = typical / number
    return ShownError(
        typical=typical,
        worst=worst,
        text=write_error(typical, worst, in_rows=in_rows),
        relative="–" if relative is None else f"{format_number(100.0 * relative, 2)} %",
        drowned=not in_rows and foreseen.numbers > 0 and 2 * foreseen.drowned >= foreseen.numbers,
    )


def find_enough(measured: MeasuredQuery, wanted: float | None) -> float | None:
    """Return the smallest ε at which the error of every column is at most ``wanted``; None if there is none.

    If the answer has groups, the error of a column is the median over its groups. None also if ``wanted`` is None, or
    if a column is drawn by rank, because its error is in rows.
    """
    if wanted is None:
        return None
    good = [
        line.epsilon
        for line in measured.candidates
        if all(_is_enough(measured, line, place, wanted) for place in range(len(line.errors)))
    ]
    return min(good, default=None)


def _is_enough(measured: MeasuredQuery, line: Candidate, place: int, wanted: float) -> bool:
    error, in_rows = line.errors[place]
    foreseen = measured.accuracies[line.epsilon][place]
    if foreseen.mostly_too_few:  # the few groups that can be told are the largest ones, not typical ones
        return False
    size = error if in_rows or foreseen.typical is None else foreseen.typical
    return size is not None and not in_rows and size <= wanted * (1.0 + 1e-12)


def write_wanted(measured: MeasuredQuery, wanted: float | None, enough: float | None) -> str:
    """Say which ε gives the error that the analyst wants; "" if no error is wanted.

    ``enough``: the smallest such ε; None if no candidate gives it.
    """
    if wanted is None:
        return ""
    where = " in a typical group" if measured.risk.plan.groups else ""
    asked = f"The analyst would like ± {format_number(wanted, 4)}{where}"
    return (
        f"{asked}: no candidate gives that."
        if enough is None
        else f"{asked}: that takes ε = {format_epsilon(enough)} or more."
    )


# ---------------------------------------------------------------- the table of errors


def list_accuracy(
    measured: MeasuredQuery, choice: Choice, selected: float, offer: Offer, columns: Sequence[str]
) -> Iterator[AccuracyRow]:
    """Yield a row for each ε, largest first: how good these columns of the answer are.

    ``choice`` says which ε's meet the preference, ``offer`` which the account grants. ``selected``: the slider's ε.
    """
    names = list_columns(measured)
    places = [names.index(name) for name in columns]
    for line in order_candidates(choice.candidates):
        yield AccuracyRow(
            epsilon=format_epsilon(line.epsilon),
            selected=line.epsilon == selected,
            meets=line.satisfied,
            open=line.epsilon in offer.remaining,
            cells=tuple(_accuracy_cell(measured, line, place, names[place]) for place in places),
        )


def _accuracy_cell(measured: MeasuredQuery, line: Candidate, place: int, column: str) -> AccuracyCell:
    """Return how good a column is at the candidate ``line``. The errors are the same as in ``show_errors``.

    ``place``: the column's index in ``list_columns``; ``column``: its name.
    """
    shown, in_rows = _show_error(measured, line, place, measured.sizes[column]), line.errors[place][1]
    if shown.worst is None or in_rows:
        return AccuracyCell(shown.text, "", shown.relative)
    values = measured.exact[column]
    if len(values) == 1:
        return AccuracyCell(shown.text, _write_range(values[0], shown.worst), shown.relative)
    worst = write_error(None, shown.worst, in_rows=False)
    untold = count_untold(measured.accuracies[line.epsilon][place])
    return AccuracyCell(shown.text, "" if worst == shown.text else f"worst {worst}{untold}", shown.relative)


def _write_range(value: float, error: float) -> str:
    return f"{show_number(value - error, 4)} to {show_number(value + error, 4)}"


# ---------------------------------------------------------------- every number, on demand


def list_numbers(measured: MeasuredQuery, epsilon: float, start: int) -> NumberPage:
    """Return a part of the answer's numbers at one ε, group by group, and in each group column by column.

    ``start``: the place of the number to begin with, from 0.
    """
    plan, columns = measured.risk.plan, list_columns(measured)
    keys = tuple(output.name for output in plan.outputs if not output.is_aggregate)
    groups = measured.groups or (_read_only_group(measured, columns),)
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


def _read_only_group(measured: MeasuredQuery, columns: Sequence[str]) -> dict[str, Any]:
    """Return the only row of an answer without groups: its exact number in each of ``columns``, by column.

    A column without an exact number is left out.
    """
    return {name: values[0] for name in columns if (values := measured.exact.get(name))}


def _write_place(exact: object, error: float | None, *, by_rank: bool) -> str:
    if error is not None and isinstance(exact, (int, float)):
        return _write_range(float(exact), error)
    return "by rank" if by_rank else "too few people to tell"
