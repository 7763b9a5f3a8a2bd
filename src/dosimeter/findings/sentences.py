"""The table from findings to sentences, for the controller: the same on the terminal, in a notebook, a file, a page.

Upper limits of a risk are rounded up, and the exact limit of ε is rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dosimeter.findings import on_account as account
from dosimeter.findings import on_answer as answer
from dosimeter.findings import on_left_out as left
from dosimeter.findings import on_method as method
from dosimeter.findings import on_people as people
from dosimeter.findings import words_on_answer as words
from dosimeter.findings.finding import Finding
from dosimeter.mechanisms import RatioWarning
from dosimeter.postprocess import word_enough_rows
from dosimeter.problems import Option, Surface
from dosimeter.risk import SAFE_ADVANTAGE
from dosimeter.schema import PLAIN, Words
from dosimeter.show import (
    format_about,
    format_epsilon,
    format_number,
    format_percent,
    format_times,
    join_names,
)

if TYPE_CHECKING:
    from dosimeter.options import Indicator
    from dosimeter.risk import ConditionRange

_IDENTIFIED, _SUSPECTED = 0.95, 0.5
"""The belief, as a probability, from which on the most exposed count as identified."""

_ALIKE, _MILLION = 0.005, 10**6
"""Two chances that differ by less than this share are alike; above so many times, one is no longer compared."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A sentence that names rows or people: ``write`` takes the finding, and what rows and people are called."""

    write: Callable[[Any, Words], str]


def word(finding: Finding, called: Words = PLAIN) -> str:
    """Return the sentence on a finding, or two. ``called``: what the rows and people of the plan are called."""
    match SENTENCES[type(finding)]:
        case str() as said:
            return said
        case Counted(write):
            return write(finding, called)
        case write:
            return write(finding)


def word_all(findings: Iterable[Finding], called: Words = PLAIN) -> tuple[str, ...]:
    """Return the sentences on these findings, each once. ``called``: as for ``word``."""
    return tuple(dict.fromkeys(word(each, called) for each in findings))


# ---------------------------------------------------------------- which ε the preference gives


def _word_unstated(found: answer.Unstated, called: Words) -> str:
    at = [f"{format_times(times)} × the average at ε = {format_epsilon(epsilon)}" for epsilon, times in found.ends]
    prefer = Option("prefer", "ratio:0.95").word(Surface.COMMAND_LINE)
    return (
        f"The most exposed {called.individual} carries {' and '.join(at)}. To find an ε, state a preference: dosimeter "
        f"find … {prefer}."
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
        return f"{following} meets it too, but the account does not grant it."
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


def _word_none_meets(found: answer.NoneMeets, called: Words) -> str:
    start = f"No candidate meets {found.preference}"
    if found.ratio is not None:
        gives = f"{format_percent(found.ratio)} least ÷ most exposed"
        if found.ends and found.ends[-1][0] == found.smallest:
            gives = format_number(found.ends[-1][1], 4)
        who = "" if found.exposed is None else f" {_name_preventing(found.exposed, called)}"
        return f"{start}: even the smallest, ε = {format_epsilon(found.smallest)}, gives {gives}.{who}"
    if len(found.ends) < 2:
        return f"{start}."
    ends = [f"ε = {format_epsilon(epsilon)} gives {format_number(value, 4)}" for epsilon, value in found.ends]
    return f"{start}. {ends[0]}, {ends[-1]}."


def _name_preventing(exposed: int, called: Words) -> str:
    return f"{called.count_people(exposed)} {'prevents' if exposed == 1 else 'prevent'} it: the most exposed."


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


def _name_few(count: int, called: Words) -> str:
    return f"{'' if count == 1 else 'only '}{called.count_people(count)}"


def _word_equally(found: people.EquallyExposed, called: Words) -> str:
    few = found.smallest is not None and found.smallest < people.FEW  # which is a finding by itself
    known = found.smallest is not None and not few
    held = f" The smallest group holds {called.count_people(found.smallest or 0)}." if known else ""
    return (
        "Everybody is equally exposed at every ε. That is not the same as safe, and RDR cannot help to choose ε: "
        f"look at what ε guarantees each {called.individual} (own ε).{held}"
    )


def _word_decides_nothing(found: people.DecidesNothing, called: Words) -> str:
    at, who = format_epsilon(found.epsilon), "the most exposed"
    nothing = f"The preference {'does not limit the risk' if found.but_errors else 'decides nothing'}"
    if found.exposed == found.touched:
        who = f"everybody whom it touches ({called.count_people(found.touched)})"
    if found.posterior is not None and found.posterior >= _IDENTIFIED:
        return (
            f"{nothing}: its largest candidate, ε = {at}, would identify {who}: a suspicion of "
            f"{100 * found.prior:g} % becomes {format_percent(found.posterior)}."
        )
    if found.posterior is not None and found.posterior >= _SUSPECTED:
        return (
            f"{nothing}: its largest candidate, ε = {at}, can turn a suspicion of "
            f"{100 * found.prior:g} % about {who} into {format_percent(found.posterior)}."
        )
    return f"{nothing}: at its largest candidate, ε = {at}, {_word_guesses(found.advantage, who)}."


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
        f"of 100 guesses whether {who} is in the table, at most {words.count_guesses(advantage)} more are right than "
        "by tossing a coin"
    )


def _word_suspicion(found: people.Suspicion, called: Words) -> str:
    if found.false_alarms is not None:
        return (
            f"An attacker who knows everybody else and starts with a {100 * found.prior:g} % suspicion about the most "
            f"exposed {called.individual} ends with at most {words.round_up(100 * found.posterior, most=100)} % after "
            f"an alarm, if at least {100 * found.false_alarms:g} of 100 answers without this {called.individual} would "
            "raise it too. A rarer alarm has no such limit."
        )
    return (
        f"Whoever it is about, an attacker who knows everybody else and starts with a {100 * found.prior:g} % "
        f"suspicion ends with at most {words.round_up(100 * found.posterior, most=100)} %: that follows from ε = "
        f"{format_number(found.charge, 6)} alone."
    )


def _word_guessed_fact(found: people.GuessedFact, called: Words) -> str:
    about = "a person" if called.individual == PLAIN.individual else f"one {called.individual}"
    before = f"{10 * found.baseline:g} {'time' if 10 * found.baseline == 1 else 'times'}"
    return (
        f"Somebody who knows everything about everybody else and would guess a fact about {about} rightly {before} in "
        f"10 guesses it at most {words.round_up(10 * found.guess, most=10)} times in 10."
    )


def _word_picked_out(found: people.PickedOut) -> str:
    exact = "" if found.exact else ", by a cautious estimate"
    return (
        f"Whoever knows everybody's records, and not who is in, picks the right one of {found.people:,} with a chance "
        f"of at most {words.round_up(100 * found.chance, most=100)} %{exact}; by a blind guess it is "
        f"{format_number(100 / found.people, 2)} %."
    )


def _word_as_likely(found: people.AsLikely, called: Words) -> str:
    group = f" of {found.group}" if found.group else ""
    made = ""
    if found.made:
        made = f", from which {join_names(found.made)} {'is' if len(found.made) == 1 else 'are'} computed"
    number = format_about(found.released, found.width, rounded=found.range)
    released = f"If {number} is released for {found.number}{group}{made}"
    if math.isinf(found.times):
        return (
            f"{released}, the most exposed {called.individual} is in it: without them it practically never comes out."
        )
    times = format_times(found.times) if found.times < _MILLION else "over a million"
    likely = "about as likely" if abs(found.times - 1.0) < _ALIKE else f"{times} times as likely"
    return f"{released}, it is {likely} with the most exposed {called.individual} as without."


def _word_fails(found: people.FailsPreference | people.FailsByAccuracy) -> str:
    does = "no ε does" if found.found is None else f"{format_epsilon(found.found)} does"
    accuracy = " It fails by accuracy, not by risk." if isinstance(found, people.FailsByAccuracy) else ""
    return f"ε = {format_epsilon(found.epsilon)} does not meet the preference; {does}.{accuracy}"


def _word_by_groups(found: people.AllowedByGroups, called: Words) -> str:
    by_cell = "no ε" if found.by_cell is None else f"ε = {format_epsilon(found.by_cell)}"
    return (
        f"ε = {format_epsilon(found.epsilon)} is allowed only because the noise in all groups is counted; by the noise "
        f"that one {called.individual} can reach, {by_cell} would be."
    )


def _word_looser(found: people.LooserThanOwn) -> str:
    largest = "no ε" if found.allowed is None else f"ε = {format_epsilon(found.allowed)} at most"
    own = found.name if found.share is None else f"at least {format_number(100.0 * found.share, 6)} %"
    return f"Looser than your own threshold: {own}, which admits {largest}."


def _word_test(found: people.TestAtWorst) -> str:
    likely = "none" if found.likely is None else f"ε = {format_epsilon(found.likely)}"
    return f"The noisy test likely finds {likely}; at worst {format_epsilon(found.epsilon)}."


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

SENTENCES: Mapping[type[Finding], str | Callable[[Any], str] | Counted] = {
    answer.Unstated: Counted(_word_unstated),
    answer.Finds: _word_finds,
    answer.AllMeet: _word_all_meet,
    answer.NoneMeets: Counted(_word_none_meets),
    answer.NoValue: "This condition has no value here, at any ε: it may divide by zero, or its FILTER matches nobody.",
    answer.MetButNotGranted: _word_not_granted,
    answer.Conflict: _word_conflict,
    answer.Errors: Counted(words.word_gain),
    left.RowsCut: Counted(left.word_rows_cut),
    left.RowsUnowned: Counted(left.word_unowned),
    left.ValuesClamped: Counted(left.word_clamped),
    left.OutsideGroups: Counted(left.word_outside),
    left.ManyOutsideGroups: Counted(left.word_outside),
    left.BiasUnknown: (
        "Something is cut or clamped, and how far that moves the numbers could not be computed: errors are those of "
        "the noise alone."
    ),
    left.NumbersOff: Counted(left.word_off),
    left.NumbersFarOff: Counted(left.word_off),
    answer.StepTo: words.word_step,
    answer.WorthLittle: lambda found: f"At ε = {format_epsilon(found.epsilon)} the answer would be worth little.",
    answer.WideBounds: lambda found: (
        f"That is {words.word_share(found.share)} of {found.column} itself: its bounds are far wider than its values."
    ),
    answer.NeedsRows: lambda found: word_enough_rows(found.aggregate, found.rows, found.counted),
    answer.WorthMoreAt: words.word_more_at,
    answer.CoarserQuery: words.word_coarser,
    answer.AnyValue: Counted(words.word_any_value),
    answer.Rough: "Judge whether so rough an answer is enough for the purpose.",
    answer.AsExactAsAsked: "The answer is as exact as asked.",
    answer.NotAsExactAsAsked: words.word_not_as_asked,
    people.SinglesOut: Counted(
        lambda found, called: (
            f"This query singles {called.people} out by {join_names(found.columns)}: {join_names(found.clauses)}. "
            f"Whatever it answers is about one {called.individual}, or very few, and the analyst knows who they are."
        )
    ),
    people.NobodyTouched: "Nobody is in this query: the answer would be noise.",
    people.FewTouched: Counted(
        lambda found, called: (
            f"This question touches {_name_few(found.people, called)}: whatever it answers is about them."
        )
    ),
    people.FewInGroup: Counted(
        lambda found, called: f"The smallest group holds {_name_few(found.people, called)}: its numbers are about them."
    ),
    people.EquallyExposed: Counted(_word_equally),
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
    people.BeyondStandard: lambda found: (
        f"Your own standard, {'least ÷ most exposed' if found.name == 'own' else found.name}, allows "
        f"{'none' if found.allowed is None else f'ε = {format_epsilon(found.allowed)} at most'}."
    ),
    people.AllowedByGroups: Counted(_word_by_groups),
    people.AllowedEitherWay: Counted(_word_by_groups),
    people.DecidesNothing: Counted(_word_decides_nothing),
    people.NobodyMoves: _word_nobody_moves,
    people.Cautious: _word_cautious,
    people.NoneCautious: (
        f"At every candidate somebody's membership advantage exceeds {SAFE_ADVANTAGE:g}: offer smaller ones."
    ),
    people.OwnGuarantee: Counted(
        lambda found, called: (
            f"For the most exposed {called.individual} the answer is as private as ε = {words.round_up(found.own)}."
        )
    ),
    people.RightGuesses: Counted(
        lambda found, called: (
            f"O{_word_guesses(found.advantage, f'the most exposed {called.individual}').removeprefix('o')}."
        )
    ),
    people.Suspicion: Counted(_word_suspicion),
    people.GuessedFact: Counted(_word_guessed_fact),
    people.PickedOut: _word_picked_out,
    people.AsLikely: Counted(_word_as_likely),
    people.HardlyShown: Counted(
        lambda found, called: (
            f"{found.group} is hardly ever shown: with a chance of {format_percent(found.with_them)} with the most "
            f"exposed {called.individual}, and {format_percent(found.without)} without."
        )
    ),
    people.SameWorlds: "Leaving anybody out changes no number of this answer: both worlds are the same.",
    people.LimitsHold: (
        "These limits hold for an ε that was fixed beforehand or found with noise, not for one found from the data."
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
    method.ErrorByGroup: Counted(words.word_by_group),
    method.TooFewToTell: Counted(words.word_too_few),
    account.AccountRefuses: account.word_refusal,
    account.Spends: account.word_spends,
    account.TakesAllLeft: lambda found: f"It {'may take' if found.testing else 'takes'} all that the account has left.",
    account.TestCosts: account.word_test,
    account.AnswersLeft: account.word_answers_left,
}
"""One row per kind of finding."""
