"""Findings on what stands between the data and the numbers: rows that are cut, values that are clamped (E4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dosimeter.findings.finding import Finding, Subject, Weight
from dosimeter.show import format_number, join_names

if TYPE_CHECKING:
    from dosimeter.influence import LeftOut
    from dosimeter.postprocess import ColumnAccuracy
    from dosimeter.schema import Words

MUCH = 0.05
"""The share of a typical number from which on a bias speaks against an answer, where no accuracy is wanted (E4)."""

MANY_TIMES = 2.0
"""From so many times the number, or the range, a bias is told as a multiple and no longer in percent."""

SLIGHT = 0.001
"""The share of a typical number, or of its range, below which a bias is told among the notes alone."""


class OnLeftOut(Finding, about=Subject.ANSWER, is_note=True):
    """A finding on what is left out."""


class RowsCut(OnLeftOut, is_advice=False):
    """Rows that do not count. ``most``: how many rows of one individual count; None if tables differ in that."""

    rows: int
    share: float
    most: int | None


class RowsUnowned(OnLeftOut, is_advice=False):
    """Rows that say not whose they are, as their unit column is empty: they do not count either."""

    rows: int
    share: float


class ValuesClamped(OnLeftOut, is_advice=False):
    """The columns with values beyond their declared bounds or list, each with how many values and their share."""

    columns: tuple[tuple[str, int, float], ...]


class OutsideGroups(OnLeftOut):
    """People in groups that nobody declared: they are in no number."""

    people: int
    share: float


class ManyOutsideGroups(OutsideGroups, weight=Weight.WARNING, kind="outside_groups"):
    """More than a few people in groups that nobody declared."""


class BiasUnknown(OnLeftOut, weight=Weight.WARNING):
    """Something is left out, and how far that moves the numbers could not be computed."""


class NumbersOff(OnLeftOut, kind="bias"):
    """How far what is left out moves the numbers of one column, in a typical group and at most.

    ``direction``: below 0 if they are mostly too small, above 0 if too large. ``relative``: the share of a typical
    number or, if ``bounded``, of the width of its bounds. ``cut``: the share of the rows that do not count.
    ``clamped``: the columns with clamped values.
    """

    column: str
    named: bool
    typical: float
    worst: float
    direction: float
    relative: float
    bounded: bool
    cut: float
    clamped: tuple[str, ...]


class NumbersFarOff(NumbersOff, weight=Weight.AGAINST, kind="bias"):
    """The numbers are off by so much that it speaks against the answer."""


def find_bias(found: LeftOut, columns: tuple[ColumnAccuracy, ...]) -> Iterator[Finding]:
    """Yield what is left out, and how far that moves the column that it moves most."""
    biases = [(each.bias.relative, each.bias.typical, at) for at, each in enumerate(columns) if each.bias is not None]
    relative, typical, place = max(biases, default=(0.0, 0.0, 0))
    bias = columns[place].bias if biases else None
    if bias is not None and bias.worst:
        kind = NumbersFarOff if relative > MUCH else NumbersOff
        named, bounded = len(columns) > 1, columns[place].bounded
        yield kind(
            columns[place].column, named, typical, bias.worst, bias.direction, relative, bounded,
            found.cut_share, tuple(found.clamped),
        )  # fmt: skip
    if found.moves_numbers and len(biases) < len(columns):
        yield BiasUnknown()
    if found.rows > found.unowned:
        yield RowsCut(found.rows - found.unowned, (found.rows - found.unowned) / found.all_rows, found.most)
    if found.unowned:
        yield RowsUnowned(found.unowned, found.unowned / found.all_rows)
    if found.clamped:
        yield ValuesClamped(tuple((name, each.values, each.share) for name, each in found.clamped.items()))
    if found.people:
        kind_outside = ManyOutsideGroups if found.outside_share > MUCH else OutsideGroups
        yield kind_outside(found.people, found.outside_share)


# ---------------------------------------------------------------- their sentences


def _percent(share: float) -> str:
    return f"{format_number(100.0 * share, 2)} %"


def _two_digits(size: float) -> str:
    return format_number(float(f"{size:.2g}"), 2)


def word_off(found: NumbersOff, called: Words) -> str:
    """Say how far the numbers are off, and by what."""
    causes = []
    if found.cut:
        causes.append(f"{_percent(found.cut)} of the {called.rows} are not counted")
    if found.clamped:
        causes.append(f"values of {join_names(found.clamped)} beyond their bounds count as the bounds")
    name = f"{found.column} is" if found.named else "the numbers are"
    size = _two_digits(found.typical)
    way = "too small" if found.direction < 0 else "too large" if found.direction > 0 else "off"
    of = " of the range" if found.bounded else ""
    share = f" ({_percent(found.relative)}{of})" if found.relative else ""
    if found.relative >= MANY_TIMES:
        share = f" ({format_number(found.relative, 2)} times the {'range' if found.bounded else 'number'})"
    most = "" if found.worst < 2.0 * found.typical else f", and up to {_two_digits(found.worst)} in the worst group"
    told = f"{name} about {size} {way}{share}{most}, whatever ε is"
    begun = ", and ".join(causes)
    return f"{begun[0].upper()}{begun[1:]}, so {told}." if begun else f"{told[0].upper()}{told[1:]}."


def word_rows_cut(found: RowsCut, called: Words) -> str:
    """Say how many rows do not count."""
    cut, share = called.count_rows(found.rows), _percent(found.share)
    if found.most is None:
        return f"Of each {called.individual} only some rows of a table count, as it declares: {cut} ({share}) do not."
    verb = "counts" if found.most == 1 else "count"
    return f"At most {called.count_rows(found.most)} of each {called.individual} {verb}: {cut} ({share}) do not."


def word_unowned(found: RowsUnowned, called: Words) -> str:
    """Say how many rows are nobody's."""
    they = "it is: it does" if found.rows == 1 else "they are: they do"
    return f"Nothing says of {called.count_rows(found.rows)} ({_percent(found.share)}) whose {they} not count."


def word_clamped(found: ValuesClamped, called: Words) -> str:
    """Say how many values are beyond what is declared."""
    told = (f"{name} in {called.count_rows(values)} ({_percent(share)})" for name, values, share in found.columns)
    return f"Values lie beyond what is declared, and count as the nearest bound, or not at all: {', '.join(told)}."


def word_outside(found: OutsideGroups, called: Words) -> str:
    """Say how many people are in no declared group."""
    are, they = ("is", "they are in no number") if found.people == 1 else ("are", "they are in no number")
    people, share = called.count_people(found.people), _percent(found.share)
    return f"{people} ({share}) {are} in groups that the schema does not declare: {they}."
