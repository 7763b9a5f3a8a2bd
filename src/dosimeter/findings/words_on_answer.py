"""The sentences on an answer: how exact it is, what a step changes, what is worth more. See ``sentences``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dosimeter.findings import on_answer as answer
from dosimeter.findings import on_method as method
from dosimeter.schema import Words
from dosimeter.show import format_epsilon, format_error, format_number, join_names

if TYPE_CHECKING:
    from dosimeter.risk import AnswerAccuracy


_MANY = 1_000.0


def word_gain(found: answer.Errors, called: Words) -> str:
    """Say how large the 95 % errors of an answer are, and what they leave of its numbers."""
    accuracy, at = found.accuracy, format_epsilon(found.epsilon)
    if accuracy.is_biased and any(worst is not None for worst, _ in accuracy.errors):  # how much is told beside it
        share = accuracy.noise_share
        told = _word_sizes(found, called, named=len(found.columns) > 1)
        if share is not None and share < 1.0:
            told += f", {'' if found.alone else 'typically '}{_word_share(found, share)}"
        lost = _list_losses(accuracy, called, larger=False)
        if lost and (accuracy.drowned or accuracy.lost):
            lost[0] = f"with what is cut or clamped, {lost[0]}"
        return f"At ε = {at} the noise adds {'; '.join([told, *lost])}."
    worst = None if found.alone or found.share is None else _find_worst(accuracy)
    larger = worst is None and found.share != 0.0 and not accuracy.is_biased
    told = "; ".join([_word_sizes(found, called), *_list_losses(accuracy, called, larger=larger)])
    if found.share and found.share < 1.0:  # otherwise it is told that the error is larger
        percent = _word_share(found, found.share)
        told += f"; the error is {percent}" if found.alone else f"; a typical one is off by up to {percent}"
        told += "" if worst is None else f", the worst by {format_number(100.0 * worst, 2)} %"
    return f"At ε = {at} the analyst would get {told}."


def _word_sizes(found: answer.Errors, called: Words, *, named: bool = True) -> str:
    """Say how large the 95 % errors of the columns are. ``named``: say whose they are.

    The error of a number drawn by rank is given as a value where the data tell it, otherwise in rows (E3). After the
    first ``most`` columns, the others are only counted, unless there is just one.
    """
    accuracy = found.accuracy
    errors = [
        _word_error(f"{name} " * named, own.worst, own.typical, None)
        if in_rows and own.typical is not None and own.worst is not None
        else _word_error(f"{name} " * named, worst, typical, called.rows if in_rows else None)
        for name, (worst, in_rows), typical, own in zip(
            found.columns, accuracy.errors, accuracy.typical, accuracy.columns, strict=True
        )
    ]
    if found.most is not None and len(errors) > found.most + 1:
        errors = [*errors[: found.most], f"{len(errors) - found.most:,} more"]
    return f"{', '.join(errors)} (95 %)"


def _list_losses(accuracy: AnswerAccuracy, called: Words, *, larger: bool) -> list[str]:
    """Return how many numbers are no larger than their error, say little, or have too few people or no error.

    ``larger``: say that all numbers are larger than their error where they are.
    """
    told = []
    if accuracy.numbers and (accuracy.drowned or larger):
        told.append(_word_drowned(accuracy.drowned, accuracy.numbers, what=_name_numbers(accuracy)))
    if accuracy.lost:
        told.append(_word_lost(accuracy.lost, accuracy.bounded))
    if accuracy.too_few:
        count = "1 number has" if accuracy.too_few == 1 else f"{accuracy.too_few:,} numbers have"
        told.append(f"{count} too few {called.people} behind {'it' if accuracy.too_few == 1 else 'them'} to tell")
    if accuracy.without:
        one = accuracy.without == 1
        have = "1 number has" if one else f"{accuracy.without:,} numbers have"
        told.append(f"{have} no error of {'its' if one else 'their'} own")
    return told


def _word_share(found: answer.Errors, share: float) -> str:
    """Write a relative error in percent, and of what it is, where that is not plain."""
    of = " of the range" if not found.accuracy.numbers else "" if not found.alone else " of it"
    return f"{format_number(100.0 * share, 2)} %{of}"


def _word_error(name: str, worst: float | None, typical: float | None, rows: str | None) -> str:
    """Say how large the 95 % error of one column is: in a typical group, then in the worst, where groups differ.

    ``worst``: the error in the worst group; None if there is no bound on it. ``typical``: the error in a typical group;
    None if it cannot be told. ``rows``: what rows are called, if errors count rows (E3); then only the worst is told.
    """
    if worst is None:
        return f"{name}without an error bound"
    largest = _word_size(worst, rows)
    if rows is not None:
        return f"{name}{largest}"
    if typical is None:
        return f"{name}{largest} at most, where it can be told"
    usual = _word_size(typical)
    return f"{name}{usual}" if usual == largest else f"{name}{usual} in a typical group and {largest} in the worst"


def _name_numbers(accuracy: AnswerAccuracy) -> tuple[str, str]:
    """Return what one, and several, of the numbers are called that are compared with their own error."""
    return ("the count or sum", "counts and sums") if accuracy.bounded else ("the number itself", "numbers")


def _word_size(error: float, rows: str | None = None) -> str:
    """Write a 95 % error in a sentence: from 1,000 on rounded up to two digits."""
    return format_error(error, rows) if rows is not None or not _MANY <= error < math.inf else f"± {round_up(error)}"


def _find_worst(accuracy: AnswerAccuracy) -> float | None:
    """Return the largest relative error of several counts or sums that are all larger than their errors; else None."""
    clear = accuracy.numbers > 1 and not (accuracy.drowned or accuracy.lost or accuracy.bounded)
    return accuracy.relative if clear else None


def _word_drowned(
    drowned: int, numbers: int, verb: str = "is", what: tuple[str, str] = ("the number itself", "numbers")
) -> str:
    """Say how many of the numbers are no larger than their error, or that all are larger. ``verb``: is, or would be.

    ``what``: what one, and several, of them are called.
    """
    one, several = what
    if numbers == 1:
        return f"{one} {verb} {'no larger' if drowned else 'larger'}"
    plural = "are" if verb == "is" else verb
    if not drowned:
        return f"all {numbers:,} {several} {plural} larger than their error"
    if drowned == 1:
        return f"1 of {numbers:,} {several} {verb} no larger than its error"
    return f"{drowned:,} of {numbers:,} {several} {plural} no larger than their error"


def _word_lost(lost: int, numbers: int) -> str:
    """Say how many numbers with bounds are off by so much of their range that they say little (E6)."""
    if numbers == 1:
        return "that is more than a quarter of the range in which it lies by its bounds"
    return f"{lost:,} of {numbers:,} numbers may be off by more than a quarter of the range given by their bounds"


def word_coarser(found: answer.CoarserQuery) -> str:
    than = " than its error" if found.numbers == 1 else ""
    told = _word_drowned(found.drowned, found.numbers, "would be")
    return f"At the same ε, without {join_names(found.dropped)}, {told}{than}."


def word_step(found: answer.StepTo) -> str:
    change = f"One step {'up' if found.larger else 'down'}, ε = {format_epsilon(found.epsilon)}: "
    if found.error is not None and found.error_here is not None:
        there, here = format_error(found.error), format_error(found.error_here)
        if there != here:
            change += f"{found.column} " * found.named + f"{there} instead of {here}, and "
    guesses = count_guesses(found.advantage), count_guesses(found.advantage_here)
    return f"{change}{guesses[0]} instead of {guesses[1]} more right guesses of 100."


def word_any_value(found: answer.AnyValue, called: Words) -> str:
    where = "" if found.groups == 1 else f" in {found.groups:,} groups"
    return (
        f"Off by {called.count_rows(math.ceil(found.rows))} where {called.count_people(found.people)}{where} are "
        "touched, it could be almost any value."
    )


def word_more_at(found: answer.WorthMoreAt) -> str:
    if found.epsilon is None:
        return "It is worth little at every ε that the account still allows."
    at = format_epsilon(found.epsilon)
    larger = "The numbers are mostly larger than their errors"
    if found.meets:
        return f"{larger} {'only ' if found.few else ''}from ε = {at} on, which the preference allows."
    return f"{larger} from ε = {at} on, and the preference allows {_word_most(found.found)}."


def _word_most(found: float | None) -> str:
    return "none" if found is None else f"{format_epsilon(found)} at most"


def word_not_as_asked(found: answer.NotAsExactAsAsked) -> str:
    asked = f"± {format_number(found.wanted, 4)} is wanted"
    if found.enough is None:
        return f"{asked}, and no ε gives it."
    takes = f"{asked}, which takes ε = {format_epsilon(found.enough)}"
    if not found.granted:
        return f"{takes}; the account does not allow it."
    return f"{takes}." if found.meets else f"{takes}; the preference allows {_word_most(found.found)}."


def word_by_group(found: method.ErrorByGroup, called: Words) -> str:
    parts = []
    if found.typical is not None and found.worst is not None:
        of = "of the range" if found.bounded else "of the number"
        relative = "" if found.relative is None else f" ({format_number(100.0 * found.relative, 2)} % {of})"
        parts.append(
            f"in a typical group {format_error(found.typical)}{relative}, "
            f"in the worst {format_error(found.worst)}{' or more' if found.too_few else ''}"
        )
    if found.too_few:
        have = "has" if found.too_few == 1 else "have"
        groups = f"{found.too_few:,} of {found.groups:,} groups {have}" if found.groups > 1 else "there are"
        parts.append(f"{groups} too few {called.people} to tell")
    if found.beyond:
        where = f"in {found.beyond:,} of {found.groups:,} groups " if found.groups > 1 else ""
        empty = ", groups of nobody included" if found.beyond > found.drowned and found.groups > 1 else ""
        than = "a quarter of the range" if found.bounded else f"the number itself{empty}"
        both = " and what is cut or clamped exceed" if found.biased else " exceeds"
        parts.append(f"{where}the error{both} {than}")
    return f"At ε = {format_epsilon(found.epsilon)}, {found.column}: {'; '.join(parts)}."


def word_too_few(found: method.TooFewToTell, called: Words) -> str:
    have = "1 has" if found.numbers == 1 else f"{found.numbers:,} have"
    return (
        f"At ε = {format_epsilon(found.epsilon)}, of {found.total:,} numbers {have} too few {called.people} behind "
        "them to tell. The preference takes the error that such a number has at the smallest ε where it can be told; "
        "it leaves out those that can be told at no candidate."
    )


def word_share(share: float) -> str:
    """Write a share in percent, or as a multiple where it is large."""
    return f"{format_number(100.0 * share, 2)} %" if share < 2.0 else f"{format_number(share, 2)} times the size"


def count_guesses(advantage: float) -> str:
    """Write how many more of 100 guesses are right at most, by this membership advantage (P4)."""
    return round_up(50 * advantage, most=50)


def round_up(value: float, most: float = math.inf) -> str:
    """Write an upper limit of a risk, rounded up to two significant digits: 12.31 becomes 13.

    ``most``: the largest value that the limit can have, such as 100 for percents. A limit that would round up to
    ``most`` gets more digits, up to nine: 99.99 stays 99.99, and 99.9999999999 becomes 100.
    """
    if value <= 0.0 or not math.isfinite(value):
        return format_number(value)
    for digits in range(2, 10):
        step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
        rounded = math.ceil(value / step * (1.0 - 1e-12)) * step
        if rounded < most:
            return format_number(rounded, digits)
    return format_number(most)
