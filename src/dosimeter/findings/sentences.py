"""The table from findings to sentences, for the controller: the same on the terminal, in a notebook, a file, a page.

Upper limits of a risk are rounded up, and the exact limit of ε is rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dosimeter.findings import on_account as account
from dosimeter.findings import on_answer as answer
from dosimeter.findings import on_left_out as left
from dosimeter.findings import on_method as method
from dosimeter.findings import on_people as people
from dosimeter.findings.finding import Finding
from dosimeter.mechanisms import RatioWarning
from dosimeter.problems import Option, Surface
from dosimeter.risk import SAFE_ADVANTAGE
from dosimeter.show import (
    format_epsilon,
    format_error,
    format_number,
    format_people,
    format_percent,
    format_times,
    join_names,
)

if TYPE_CHECKING:
    from dosimeter.options import Indicator
    from dosimeter.risk import AnswerAccuracy, ConditionRange

_IDENTIFIED, _SUSPECTED = 0.95, 0.5
"""The belief, as a probability, from which on the most exposed count as identified."""


def word(finding: Finding) -> str:
    """Return the sentence on a finding, or two."""
    said = SENTENCES[type(finding)]
    return said if isinstance(said, str) else said(finding)


def word_all(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the sentences on these findings, each once."""
    return tuple(dict.fromkeys(map(word, findings)))


# ---------------------------------------------------------------- which ε the preference gives


def _word_unstated(found: answer.Unstated) -> str:
    at = [f"{format_times(times)} × the average at ε = {format_epsilon(epsilon)}" for epsilon, times in found.ends]
    prefer = Option("prefer", "ratio:0.95").word(Surface.COMMAND_LINE)
    return (
        f"The most exposed person carries {' and '.join(at)}. To find an ε, state a preference: dosimeter find … "
        f"{prefer}."
    )


def _word_finds(found: answer.Finds) -> str:
    limit = [] if found.limit is None else [f"exact limit {format_number(found.limit, down=True)}"]
    beside = ", ".join((*limit, *_name_indicator(found.indicator)))
    start = (
        f"Largest ε that meets {found.preference}: {format_epsilon(found.epsilon)}{f' ({beside})' if beside else ''}"
    )
    if found.following is None:
        return f"{start}; it is the largest candidate."
    following = f"{start}; the next candidate, {format_epsilon(found.following)},"
    if found.meets:
        return f"{following} meets it too but is not available."
    gives = "" if found.value is None else f" and gives {format_number(found.value, 4)}"
    return f"{following} does not meet it{gives}."


def _name_indicator(indicator: Indicator) -> list[str]:
    """Return how an ε was found, if not by the upper limit of the RDR, which is the default."""
    return [] if indicator == "bound" else [f"{indicator} indicator"]


def _word_all_meet(found: answer.AllMeet) -> str:
    by = "".join(f" ({name})" for name in _name_indicator(found.indicator))
    return (
        f"Every candidate meets {found.preference}{by}, so it decides nothing and no ε was found by it. Choose by "
        "absolute risk and accuracy."
    )


def _word_none_meets(found: answer.NoneMeets) -> str:
    start = f"No candidate meets {found.preference}"
    if found.ratio is not None:
        gives = f"{format_percent(found.ratio)} least ÷ most exposed"
        if found.ends and found.ends[-1][0] == found.smallest:
            gives = format_number(found.ends[-1][1], 4)
        who = "" if found.exposed is None else f" {_name_preventing(found.exposed)}"
        return f"{start}: even the smallest, ε = {format_epsilon(found.smallest)}, gives {gives}.{who}"
    if len(found.ends) < 2:
        return f"{start}."
    ends = [f"ε = {format_epsilon(epsilon)} gives {format_number(value, 4)}" for epsilon, value in found.ends]
    return f"{start}. {ends[0]}, {ends[-1]}."


def _name_preventing(exposed: int) -> str:
    return f"{format_people(exposed)} {'prevents' if exposed == 1 else 'prevent'} it: the most exposed."


def _word_not_granted(found: answer.MetButNotGranted) -> str:
    if found.refusal is None:
        return f"Some candidates meet {found.preference}, but none of them is available."
    why = account.word_refusal(found.refusal)
    return f"Stopped by the account, not by {found.preference}, which some candidates meet. {why}"


def _word_conflict(found: answer.Conflict) -> str:
    if len(found.parts) == 1:
        return f"No candidate meets {found.parts[0].condition}, even by itself."
    named = " and ".join(part.condition for part in found.parts)
    alone = "; ".join(f"{part.condition} alone allows {_word_span(part)}" for part in found.parts)
    return f"{named} cannot be met together: {alone}."


def _word_span(part: ConditionRange) -> str:
    if part.smallest is None or part.largest is None:
        return "no candidate"
    low, high = format_epsilon(part.smallest), format_epsilon(part.largest)
    return f"ε = {low}" if low == high else f"ε from {low} to {high}"


# ---------------------------------------------------------------- people


def _name_few(count: int) -> str:
    return format_people(count) if count == 1 else f"only {format_people(count)}"


def _word_equally(found: people.EquallyExposed) -> str:
    few = found.smallest is not None and found.smallest < people.FEW  # which is a finding by itself
    held = "" if found.smallest is None or few else f" The smallest group holds {format_people(found.smallest)}."
    return (
        "Everybody is equally exposed at every ε. That is not the same as safe, and RDR cannot help to choose ε: "
        f"look at what ε guarantees each person (own ε).{held}"
    )


def _word_decides_nothing(found: people.DecidesNothing) -> str:
    at, who = format_epsilon(found.epsilon), "the most exposed"
    if found.exposed == found.touched:
        who = f"everybody whom it touches ({format_people(found.touched)})"
    if found.posterior is not None and found.posterior >= _IDENTIFIED:
        return (
            f"The preference decides nothing: its largest candidate, ε = {at}, would identify {who}: a suspicion of "
            f"{100 * found.prior:g} % becomes {format_percent(found.posterior)}."
        )
    if found.posterior is not None and found.posterior >= _SUSPECTED:
        return (
            f"The preference decides nothing: its largest candidate, ε = {at}, can turn a suspicion of "
            f"{100 * found.prior:g} % about {who} into {format_percent(found.posterior)}."
        )
    return f"The preference decides nothing: at its largest candidate, ε = {at}, {_word_guesses(found.advantage, who)}."


def _word_nobody_moves(found: people.NobodyMoves) -> str:
    who = "Nobody is in this query" if found.touched == 0 else "Nobody's record moves this answer"
    return f"{who}: the preference decides nothing."


def _word_cautious(found: people.Cautious) -> str:
    at = format_epsilon(found.epsilon)
    if not found.moved:
        return f"ε = {at} would be the largest cautious candidate if somebody moved it."
    return f"The largest candidate at which nobody's membership advantage exceeds {SAFE_ADVANTAGE:g} is ε = {at}."


def _word_guesses(advantage: float, who: str) -> str:
    return (
        f"of 100 guesses whether {who} is in the table, at most {count_guesses(advantage)} more are right than by "
        "tossing a coin"
    )


def count_guesses(advantage: float) -> str:
    """Write how many more of 100 guesses are right at most, by this membership advantage (P4)."""
    return _round_up(50 * advantage, most=50)


def _word_suspicion(found: people.Suspicion) -> str:
    if found.false_alarms is not None:
        return (
            f"An attacker who knows everybody else and starts with a {100 * found.prior:g} % suspicion about the most "
            f"exposed person ends with at most {_round_up(100 * found.posterior, most=100)} % after an alarm, if "
            f"at least {100 * found.false_alarms:g} of 100 answers without this person would raise it too. A rarer "
            "alarm has no such limit."
        )
    return (
        f"Whoever it is about, an attacker who knows everybody else and starts with a {100 * found.prior:g} % "
        f"suspicion ends with at most {_round_up(100 * found.posterior, most=100)} %: that follows from ε = "
        f"{format_number(found.charge, 6)} alone."
    )


def _word_guessed_fact(found: people.GuessedFact) -> str:
    before = f"{10 * found.baseline:g} {'time' if 10 * found.baseline == 1 else 'times'}"
    return (
        f"Somebody who knows everything about everybody else and would guess a fact about a person rightly {before} in "
        f"10 guesses it at most {_round_up(10 * found.guess, most=10)} times in 10."
    )


def _word_picked_out(found: people.PickedOut) -> str:
    exact = "" if found.exact else ", by a cautious estimate"
    return (
        f"Whoever knows everybody's records, and not who is in, picks the right one of {found.people:,} with a chance "
        f"of at most {_round_up(100 * found.chance, most=100)} %{exact}; by a blind guess it is "
        f"{format_number(100 / found.people, 2)} %."
    )


def _word_fails(found: people.FailsPreference | people.FailsByAccuracy) -> str:
    does = "no ε does" if found.found is None else f"{format_epsilon(found.found)} does"
    told = f"ε = {format_epsilon(found.epsilon)} does not meet the preference; {does}."
    if isinstance(found, people.FailsPreference):
        return told
    rows = " An error in rows has no relative error, so no ε meets it." if found.in_rows else ""
    return f"{told} It fails by accuracy, not by risk.{rows}"


def _word_by_groups(found: people.AllowedByGroups) -> str:
    return (
        f"The preference allows ε = {format_epsilon(found.epsilon)} only because the noise in all groups is counted. "
        "Counting only the noise that one person's rows can reach, as without groups, it allows "
        f"{'none' if found.by_cell is None else format_epsilon(found.by_cell)}."
    )


def _word_looser(found: people.LooserThanOwn) -> str:
    largest = "no ε" if found.allowed is None else f"ε = {format_epsilon(found.allowed)} at most"
    own = found.name if found.share is None else f"at least {format_number(100.0 * found.share, 6)} %"
    return f"Looser than your own threshold: {own}, which admits {largest}."


def _word_test(found: people.TestAtWorst) -> str:
    likely = "none" if found.likely is None else f"ε = {format_epsilon(found.likely)}"
    return (
        f"The noisy test likely finds {likely}; at worst {format_epsilon(found.epsilon)}, and "
        f"{format_number(found.charge, 6)} is spent with the test."
    )


# ---------------------------------------------------------------- the answer


def word_errors(columns: Sequence[str], accuracy: AnswerAccuracy, *, most: int | None = None) -> str:
    """Say how large the 95 % errors of an answer are, and how many of its numbers are no larger than their error.

    If some numbers have too few people to tell, or no error, also say how many. ``most``: name so many columns and only
    count the others, unless there is just one other. By default all are named. No full stop at the end.
    """
    found = zip(columns, accuracy.errors, accuracy.typical, strict=True)
    errors = [_word_error(name, worst, typical, in_rows=in_rows) for name, (worst, in_rows), typical in found]
    if most is not None and len(errors) > most + 1:
        errors = [*errors[:most], f"{len(errors) - most:,} more"]
    told = f"{', '.join(errors)} (95 %)"
    if accuracy.numbers:
        told += f"; {_word_drowned(accuracy.drowned, accuracy.numbers)}"
    if accuracy.lost:
        told += f"; {_word_lost(accuracy.lost, accuracy.bounded)}"
    if accuracy.too_few:
        count = "1 number has" if accuracy.too_few == 1 else f"{accuracy.too_few:,} numbers have"
        told += f"; {count} too few people behind {'it' if accuracy.too_few == 1 else 'them'} to tell"
    if accuracy.without:
        one = accuracy.without == 1
        told += f"; {'1 number has' if one else f'{accuracy.without:,} numbers have'} no error of "
        told += "its own" if one else "their own"
    return told


def _word_gain(found: answer.Errors) -> str:
    told = word_errors(found.columns, found.accuracy, most=found.most)
    if found.share is not None and found.accuracy.numbers + found.accuracy.bounded:
        of = " of the range" if not found.accuracy.numbers else "" if not found.alone else " of it"
        percent = f"{format_number(100.0 * found.share, 2)} %{of}"
        told += f"; the error is {percent}" if found.alone else f"; a typical one is off by up to {percent}"
    return f"At ε = {format_epsilon(found.epsilon)} the analyst would get {told}."


def _word_error(name: str, worst: float | None, typical: float | None, *, in_rows: bool) -> str:
    """Say how large the 95 % error of one column is: in a typical group, then in the worst, where groups differ.

    ``worst``: the error in the worst group; None if there is no bound on it. ``typical``: the error in a typical group;
    None if it cannot be told. ``in_rows``: the errors count rows (E3); then only the worst is told.
    """
    if worst is None:
        return f"{name} without an error bound"
    largest = format_error(worst, in_rows=in_rows)
    if in_rows:
        return f"{name} {largest}"
    if typical is None:
        return f"{name} {largest} at most, where it can be told"
    usual = format_error(typical, in_rows=False)
    return f"{name} {usual}" if usual == largest else f"{name} {usual} in a typical group and {largest} in the worst"


def _word_drowned(drowned: int, numbers: int, verb: str = "is") -> str:
    """Say how many of the numbers are no larger than their error, or that all are larger. ``verb``: is, or would be."""
    if numbers == 1:
        return f"the number itself {verb} {'no larger' if drowned else 'larger'}"
    plural = "are" if verb == "is" else verb
    if not drowned:
        return f"all {numbers:,} numbers {plural} larger than their error"
    return f"{drowned:,} of {numbers:,} numbers {plural} no larger than their error"


def _word_lost(lost: int, numbers: int) -> str:
    """Say how many numbers with bounds are off by so much of their range that they say little (E6)."""
    if numbers == 1:
        return "that is more than a quarter of the range in which it lies by its bounds"
    return f"{lost:,} of {numbers:,} numbers may be off by more than a quarter of the range given by their bounds"


def _word_coarser(found: answer.CoarserQuery) -> str:
    than = " than its error" if found.numbers == 1 else ""
    told = _word_drowned(found.drowned, found.numbers, "would be")
    return f"At the same ε, without {join_names(found.dropped)}, {told}{than}."


def _word_step(found: answer.StepTo) -> str:
    change = f"One step {'up' if found.larger else 'down'}, ε = {format_epsilon(found.epsilon)}: "
    if found.error is not None and found.error_here is not None:
        name = f"{found.column} " if found.named else ""
        errors = [format_error(error, in_rows=False) for error in (found.error, found.error_here)]
        change += f"{name}{errors[0]} instead of {errors[1]}, and "
    guesses = count_guesses(found.advantage), count_guesses(found.advantage_here)
    return f"{change}{guesses[0]} instead of {guesses[1]} more right guesses of 100."


def _word_any_value(found: answer.AnyValue) -> str:
    where = "" if found.groups == 1 else f" in {found.groups:,} groups"
    return (
        f"Off by {math.ceil(found.rows):,} rows where {format_people(found.people)}{where} are touched, it could be "
        "almost any value."
    )


def _word_more_at(found: answer.WorthMoreAt) -> str:
    if found.epsilon is None:
        return "It is worth little at every ε that the account still allows."
    at = format_epsilon(found.epsilon)
    larger = "The numbers are mostly larger than their errors"
    if found.meets:
        return f"{larger} {'only ' if found.few else ''}from ε = {at} on, which the preference allows."
    return f"{larger} from ε = {at} on, and the preference allows {_word_most(found.found)}."


def _word_most(found: float | None) -> str:
    return "none" if found is None else f"{format_epsilon(found)} at most"


def _word_not_as_asked(found: answer.NotAsExactAsAsked) -> str:
    asked = f"± {format_number(found.wanted, 4)} is wanted"
    if found.enough is None:
        return f"{asked}, and no ε gives it."
    takes = f"{asked}, which takes ε = {format_epsilon(found.enough)}"
    if not found.granted:
        return f"{takes}; the account does not allow it."
    return f"{takes}." if found.meets else f"{takes}; the preference allows {_word_most(found.found)}."


def _word_by_group(found: method.ErrorByGroup) -> str:
    parts = []
    if found.typical is not None and found.worst is not None:
        of = "of the range" if found.bounded else "of the number"
        relative = "" if found.relative is None else f" ({format_number(100.0 * found.relative, 2)} % {of})"
        parts.append(
            f"in a typical group ± {format_number(found.typical)}{relative}, "
            f"in the worst ± {format_number(found.worst)}{' or more' if found.too_few else ''}"
        )
    if found.too_few:
        have = "has" if found.too_few == 1 else "have"
        groups = f"{found.too_few:,} of {found.groups:,} groups {have}" if found.groups > 1 else "there are"
        parts.append(f"{groups} too few people to tell")
    if found.beyond:
        where = f"in {found.beyond:,} of {found.groups:,} groups " if found.groups > 1 else ""
        empty = ", groups of nobody included" if found.beyond > found.drowned and found.groups > 1 else ""
        than = "a quarter of the range" if found.bounded else f"the number itself{empty}"
        parts.append(f"{where}the error exceeds {than}")
    return f"At ε = {format_epsilon(found.epsilon)}, {found.column}: {'; '.join(parts)}."


def _word_too_few(found: method.TooFewToTell) -> str:
    have = "1 has" if found.numbers == 1 else f"{found.numbers:,} have"
    return (
        f"At ε = {format_epsilon(found.epsilon)}, of {found.total:,} numbers {have} too few people behind them to "
        "tell. The preference takes the error that such a number has at the smallest ε where it can be told; it leaves "
        "out those that can be told at no candidate."
    )


def _round_up(value: float, most: float = math.inf) -> str:
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


# ---------------------------------------------------------------- the table

_INDICATORS = {
    "bound": "Everybody's RDR is given as an upper limit, as in the paper; computed exactly, it can give another ε.",
    "exact": "Everybody's RDR is computed exactly; its upper limit, which is the default, can give another ε.",
    "cell": "Everybody's RDR is given as an upper limit that counts only noise which one person's rows can reach.",
}
_INCAUTIONS = {
    RatioWarning.ALWAYS: "under Gaussian noise",
    RatioWarning.EVERYBODY_MOVES: "where everybody moves the answer",
    RatioWarning.COARSE_GRID: "where the noise is small against the steps of the answer",
}

SENTENCES: Mapping[type[Finding], str | Callable[[Any], str]] = {
    answer.Unstated: _word_unstated,
    answer.Finds: _word_finds,
    answer.AllMeet: _word_all_meet,
    answer.NoneMeets: _word_none_meets,
    answer.NoValue: "This condition has no value here, at any ε: it may divide by zero, or its FILTER matches nobody.",
    answer.MetButNotGranted: _word_not_granted,
    answer.Conflict: _word_conflict,
    answer.Errors: _word_gain,
    left.RowsCut: left.word_rows_cut,
    left.ValuesClamped: left.word_clamped,
    left.OutsideGroups: left.word_outside,
    left.ManyOutsideGroups: left.word_outside,
    left.BiasUnknown: (
        "Something is cut or clamped, and how far that moves the numbers could not be computed: errors are those of "
        "the noise alone."
    ),
    left.NumbersOff: left.word_off,
    left.NumbersFarOff: left.word_off,
    answer.StepTo: _word_step,
    answer.WorthLittle: lambda found: (
        f"Warning: at ε = {format_epsilon(found.epsilon)} the answer would be worth little."
    ),
    answer.WorthMoreAt: _word_more_at,
    answer.CoarserQuery: _word_coarser,
    answer.AnyValue: _word_any_value,
    answer.Rough: "Judge whether so rough an answer is enough for the purpose.",
    answer.AsExactAsAsked: "The answer is as exact as asked.",
    answer.NotAsExactAsAsked: _word_not_as_asked,
    people.SinglesOut: lambda found: (
        f"This query singles people out by {join_names(found.columns)}: {join_names(found.clauses)}. Whatever it "
        "answers is about one person, or very few, and the analyst knows who they are."
    ),
    people.NobodyTouched: "Nobody is in this query: the answer would be noise.",
    people.FewTouched: lambda found: (
        f"This question touches {_name_few(found.people)}: whatever it answers is about them."
    ),
    people.FewInGroup: lambda found: f"The smallest group holds {_name_few(found.people)}: its numbers are about them.",
    people.EquallyExposed: _word_equally,
    people.FailsPreference: _word_fails,
    people.FailsByAccuracy: _word_fails,
    people.MeetsPreference: lambda found: f"ε = {format_epsilon(found.epsilon)} meets the preference.",
    people.FoundFromData: (
        "ε is found from the data, and its size tells something by itself: no limit on what an attacker learns holds."
    ),
    people.MetByAll: "Every ε meets the preference, so it decides nothing about risk: look at the guesses.",
    people.NoLimitOnRisk: "The preference does not limit the risk: look at the guesses.",
    people.LooserThanOwn: _word_looser,
    people.TestAtWorst: _word_test,
    people.AllowedByGroups: _word_by_groups,
    people.DecidesNothing: _word_decides_nothing,
    people.NobodyMoves: _word_nobody_moves,
    people.Cautious: _word_cautious,
    people.NoneCautious: (
        f"At every candidate somebody's membership advantage exceeds {SAFE_ADVANTAGE:g}: offer smaller ones."
    ),
    people.OwnGuarantee: lambda found: (
        f"For the most exposed person the answer is as private as ε = {_round_up(found.own)}."
    ),
    people.RightGuesses: lambda found: (
        f"O{_word_guesses(found.advantage, 'the most exposed person').removeprefix('o')}."
    ),
    people.Suspicion: _word_suspicion,
    people.GuessedFact: _word_guessed_fact,
    people.PickedOut: _word_picked_out,
    people.LimitsHold: (
        "These limits hold for an ε that was fixed beforehand or found with noise. Where ε is found from the data, the "
        "amount of noise tells something by itself."
    ),
    method.Remark: lambda found: found.words,
    method.EmptyFilter: lambda found: (
        f"The FILTER (WHERE {found.condition}) matches nobody: its aggregate is NULL, and a comparison with NULL is "
        "not met."
    ),
    method.IndicatorUsed: lambda found: _INDICATORS[found.indicator],
    method.DrawnByRank: lambda found: (
        f"{' and '.join(found.names)}: drawn by rank. The RDR is the expected distance of what is drawn from the exact "
        "answer, and how far somebody moves that; their own guarantee does not follow from it: it is at most ε for "
        "everybody whom the query reads, and not 0 where the exact answer is the same without them."
    ),
    method.ContinuousNoise: (
        "The exact indicator is that of continuous Gaussian noise; some of the noise here is small against its grid."
    ),
    method.SameSpread: (
        "Under Laplace noise, with the bound, the range and the variance of the raw RDR are the same at every ε. "
        "What shrinks is the spread relative to the level: look at the ratio."
    ),
    method.OwnOfEverybody: lambda found: (
        f"Look at what ε guarantees each person: at ε = {found.epsilon:g} it is ε = {found.own:.4g} for everybody."
    ),
    method.CountRatio: lambda found: (
        "A COUNT with somebody in it and somebody out of it has the ratio k/(k + ε), whatever the data. Here k, how "
        f"many numbers get noise, is {found.k:,}."
    ),
    method.IncautiousRatio: lambda found: (
        f"A ratio of upper bounds is not a cautious ratio: {_INCAUTIONS[found.reason]}, people's RDRs themselves can "
        "lie further apart than their bounds, and fail a preference that the bounds meet."
    ),
    method.NoDependence: (
        "Under Laplace noise, with the bound, this preference does not depend on ε: noise adds the same number to "
        "everybody's RDR. Use a ratio, or normalized_rdr."
    ),
    method.RawSpread: (
        "The preference limits the spread of the raw RDR, whatever its level. Use VAR_POP(normalized_rdr) to limit "
        "the spread relative to the level."
    ),
    method.DependsOnLevel: (
        "The preference depends on the level of the RDR, and noise raises the level: an upper limit on the raw RDR "
        "asks for less noise, not for more protection. Compare RDRs with each other, as in MIN(rdr) / MAX(rdr) >= 0.95."
    ),
    method.QuantileOnZero: lambda found: (
        f"{found.aggregate} falls on people who do not move the answer at all. By itself it constrains nothing."
    ),
    method.EveryEpsilonMeets: "Every ε meets this preference.",
    method.LimitBelow: lambda found: (
        f"The largest ε that meets the preference is {found.limit:.4g}: only a smaller candidate or a weaker "
        "preference will do."
    ),
    method.AnotherMayMeet: lambda found: (
        f"A{'nother' if found.rising else ' smaller'} candidate may meet the preference, or a weaker preference be met."
    ),
    method.NotAtEverySmaller: lambda found: (
        f"The preference is met at ε = {found.epsilon:g} and not at every smaller candidate: here more noise does not "
        "always help."
    ),
    method.ReachesSeveral: lambda found: (
        f"One individual's rows can reach {found.reached:,} of the numbers: more groups still allow a larger ε for the "
        f"same words, up to {found.times:g} times that of the query without groups."
    ),
    method.GroupsCount: lambda found: (
        f"The noise in all {found.groups:,} groups counts in everybody's RDR, so that more groups allow a larger ε for "
        f"the same words. At ε = {found.epsilon:g} the most exposed individual's own guarantee is ε = {found.own:.4g}."
    ),
    method.ErrorByGroup: _word_by_group,
    method.TooFewToTell: _word_too_few,
    account.AccountRefuses: account.word_refusal,
    account.Spends: account.word_spends,
    account.TakesAllLeft: lambda found: f"It {'may take' if found.testing else 'takes'} all that the account has left.",
    account.TestCosts: account.word_test,
    account.AnswersLeft: account.word_answers_left,
}
"""One row per kind of finding."""
