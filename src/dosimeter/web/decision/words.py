"""The decision page in words: what the preference finds, warnings, what an attacker could learn. For controllers only.

Takes a MeasuredQuery, an Offer and the Choice made by a preference; gives sentences. The advice itself is worded in
``dosimeter.show``, the same on the terminal and in a notebook.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dosimeter.assessment import limit_by_cell
from dosimeter.risk import (
    PRESETS,
    SAFE_ADVANTAGE,
    AbsoluteRisk,
    AnswerAccuracy,
    Candidate,
    Choice,
    ExposedPerson,
    Preference,
    find_safe,
    parse_preference,
)
from dosimeter.show import (
    count_decimals,
    format_epsilon,
    format_multiple,
    format_number,
    format_people,
    format_percent,
    format_times,
    word_absolute,
    word_conflict,
    word_undecided,
)
from dosimeter.show.charts import find_range_axis
from dosimeter.web.decision.measured import MeasuredQuery
from dosimeter.web.decision.offer import Offer, explain_shortage

FEW = 5  # fewer people than this are as good as named
MOST_ERRORS = 2  # errors that are written out beside the slider
APPROVE_REASONS = (
    "Meets the preference, and is exact enough for the purpose.",
    "Of little risk, and a rough answer is enough.",
    "The purpose is worth the risk.",
)
UNSEEN_REASONS = (
    "The purpose needs this accuracy, and the account can spare it.",
    "The purpose is worth the risk.",
)
REPEAT_REASONS = (
    "The same question: the earlier answer is as good, and costs nothing.",
    "The purpose is worth an answer that is already out.",
)
DENY_REASONS = (
    "The answer would be worth little.",
    "It is about too few people.",
    "It singles people out.",
    "The purpose is not worth the risk.",
    "The budget is kept for other questions.",
)


@dataclass(frozen=True, slots=True)
class Caution:
    """A warning at the top of the page. ``grave``: it is about single persons."""

    words: str
    grave: bool


@dataclass(frozen=True, slots=True)
class OwnThreshold:
    """The controller's own threshold: by their settings, least ÷ most exposed should be at least ``percent`` %.

    ``choice``: this condition, evaluated at every candidate.
    """

    percent: float
    choice: Choice


@dataclass(frozen=True, slots=True)
class RiskSentence:
    """One absolute risk as a sentence, or a remark on them. ``icon``: the name of its picture; "note" for a remark.

    ``share``: the chance, or the number of guesses, that the sentence gives, out of 100; 0 if it gives none.
    """

    icon: str
    words: str
    share: float = 0.0


# ---------------------------------------------------------------- warnings, before anything else


def list_cautions(measured: MeasuredQuery, choice: Choice, alarm: str) -> Iterator[Caution]:
    """Yield the warnings that a controller must read first.

    ``alarm``: the warning that the query singles people out by an identifying column; "" if it does not.
    """
    if alarm:
        yield Caution(alarm, grave=True)
    touched = measured.risk.matched
    if touched == 0:
        idle = ", and the preference decides nothing" if is_undecided(choice) else ""
        yield Caution(f"Nobody is in this query: the answer is noise{idle}.", grave=False)
        return
    if touched is not None and touched < FEW:
        yield Caution(f"This question touches {_name_few(touched)}: whatever it answers is about them.", grave=True)
    elif (smallest := measured.smallest_group) is not None and smallest < FEW:
        yield Caution(f"The smallest group holds {_name_few(smallest)}: its numbers are about them.", grave=True)
    if is_undecided(choice):
        yield Caution(_word_undecided(measured, choice), grave=False)
    elif (told := _word_by_cell(measured, choice)) is not None:
        yield Caution(told, grave=False)


def is_allowed_without_groups(measured: MeasuredQuery, choice: Choice, epsilon: float) -> bool:
    """Return whether the preference allows this ε also if the noise of other groups is not counted (R11).

    Only a limit on least ÷ most exposed is looked at; other preferences are taken to allow it.
    """
    preference = parse_preference(choice.preference)
    limit = limit_by_cell(measured.risk, preference) if preference.kind == "ratio" else None
    return limit is None or epsilon <= limit * (1.0 + 1e-9)


def _word_by_cell(measured: MeasuredQuery, choice: Choice) -> str | None:
    """Say that the preference allows ε only because the noise in all groups is counted (R11); None if it is not so.

    It is so where the preference allows only a smaller ε, or none, once only the noise is counted that one individual's
    rows can reach. Also None if the preference is no limit on least ÷ most exposed: others would take too long.
    """
    preference = parse_preference(choice.preference)
    if choice.epsilon is None or preference.kind != "ratio":
        return None
    limit = limit_by_cell(measured.risk, preference)
    if limit is None or limit >= choice.epsilon * (1.0 - 1e-12):
        return None
    found = max((line.epsilon for line in choice.candidates if line.epsilon <= limit * (1.0 + 1e-9)), default=None)
    return (
        f"The preference allows ε = {format_epsilon(choice.epsilon)} only because the noise in all groups is counted. "
        "Counting only the noise that one person’s rows can reach, as without groups, it allows "
        f"{'none' if found is None else format_epsilon(found)}."
    )


def _name_few(people: int) -> str:
    return format_people(people) if people == 1 else f"only {format_people(people)}"


def is_undecided(choice: Choice) -> bool:
    """Return whether every candidate meets the preference, so that it finds no ε (F4)."""
    return not choice.decides and any(line.satisfied for line in choice.candidates)


def _word_undecided(measured: MeasuredQuery, choice: Choice) -> str:
    """Say that every candidate meets the preference, what the largest would do, and what to choose by instead."""
    largest = max(line.epsilon for line in choice.candidates)
    advice, safe = measured.advise(largest), find_safe(choice.candidates)
    told = word_undecided(advice)
    if advice.moved_by_nobody:
        return told
    instead = (
        "No candidate is cautious enough to be proposed; the operator can add smaller ones."
        if safe is None
        else f"Up to ε = {format_epsilon(safe)}, of 100 guesses whether somebody is in the table at most "
        f"{50 * SAFE_ADVANTAGE:g} more are right than by tossing a coin."
    )
    return f"Every ε meets this preference, so it decides nothing. {told} {instead}"


# ---------------------------------------------------------------- the preference


def show_value(preference: Preference, value: float | None) -> str:
    if value is None:
        return "no number"
    if preference.kind == "ratio":
        return format_percent(value)
    return format_number(value, 4)


def word_condition(preference: Preference) -> str:
    """Say what a preference asks for; "" if it is neither a preset nor a ratio."""
    named = next(
        (preset.words for name, preset in PRESETS.items() if parse_preference(name).text == preference.text), ""
    )
    if named:
        return f"Answered only if {named}."
    if preference.kind == "ratio" and preference.threshold is not None:
        percent = format_number(100.0 * preference.threshold, 6)
        return (
            f"Answered only if the least exposed person carries at least {percent} % of the risk of the most exposed."
        )
    return ""


def write_line(offer: Offer, preference: Preference, choice: Choice) -> str:
    """Write the ε that was found: "Largest ε: 0.05 (exact limit 0.0526). The next candidate, 0.06, gives 94 %.\""""
    name, found = "without noise the largest ε" if offer.testing else "largest ε", offer.found
    if found is None:
        return f"{name.capitalize()}: none."
    if is_undecided(choice):
        most = format_epsilon(offer.largest)
        return f"Every ε meets it: {name} is {most}." if offer.testing else "Every ε meets it, so it finds none."
    limit = "" if choice.limit is None else f" (exact limit {format_number(choice.limit, 3, down=True)})"
    text = f"{name.capitalize()}: {format_epsilon(found)}{limit}."
    larger = [line for line in choice.candidates if line.epsilon > found]
    if not larger:
        return f"{text} It is the largest candidate there is."
    following = min(larger, key=lambda line: line.epsilon)
    shown = format_epsilon(following.epsilon)
    if following.satisfied:
        return f"{text} The next candidate, {shown}, would meet it too, but is not available."
    if following.value is None:
        return f"{text} The next candidate, {shown}, does not meet it."
    return f"{text} The next candidate, {shown}, gives {show_value(preference, following.value)}."


def list_states(
    measured: MeasuredQuery, preference: Preference, choice: Choice, offer: Offer, own: OwnThreshold | None
) -> Iterator[str]:
    """Yield what is unusual here: the preference does not depend on ε, finds no ε (and why), or is very loose."""
    if all(line.rdr.ratio >= 1.0 - 1e-12 for line in measured.candidates):
        choose = "decide whether to answer" if offer.testing else "choose"
        yield (
            f"Everybody is equally exposed, at every ε. That is not the same as safe: {choose} by what an attacker "
            "could learn, and by accuracy."
        )
    elif _does_not_depend(choice):
        yield "This preference does not depend on ε here: every candidate gives the same."
    if offer.found is None and not offer.meeting:
        yield _write_miss(measured, preference, choice)
    elif offer.found is None:
        best = max(offer.meeting or ())
        yield (
            f"Stopped by the account, not by the preference: ε = {format_epsilon(best)} would meet it, but "
            f"{explain_shortage(offer.charges, best)}."
        )
    yield from compare_thresholds(preference, offer, own)


def _does_not_depend(choice: Choice) -> bool:
    values = [line.value for line in choice.candidates if line.value is not None]
    return len(values) > 1 and max(values) - min(values) <= 1e-12 * abs(max(values))


def compare_thresholds(preference: Preference, offer: Offer, own: OwnThreshold | None) -> Iterator[str]:
    """Yield a warning if the preference is looser than the controller's own threshold (``own``); else nothing.

    It is looser if it is a ratio with a smaller percentage, or if it allows a larger ε. ``offer``: with the candidates
    that meet the preference. Such a preference may come from a link that somebody else wrote.
    """
    if own is None or preference.text == own.choice.preference:
        return
    allowed = offer.prefer(own.choice).found or 0.0
    looser = preference.kind == "ratio" and (preference.threshold or 0.0) < own.percent / 100
    if not looser and (offer.found or 0.0) <= allowed:
        return
    largest = f"ε = {format_epsilon(allowed)} at most" if allowed else "no ε"
    yield f"Looser than your own threshold: at least {own.percent:g} %, which admits {largest}."


def _write_miss(measured: MeasuredQuery, preference: Preference, choice: Choice) -> str:
    if choice.conflict:
        return word_conflict(choice.conflict)
    valued = [line for line in choice.candidates if line.value is not None]
    text = "No ε meets this preference."
    if not valued and len(preference.comparisons) == 1:
        return "This condition has no value here, at any ε: it may divide by zero, or its FILTER matches nobody."
    if valued and preference.kind in ("ratio", "variance"):
        pick = max if preference.kind == "ratio" else min
        nearest = pick(valued, key=lambda line: line.value or 0.0)
        text += (
            f" The nearest miss is ε = {format_epsilon(nearest.epsilon)}, with {show_value(preference, nearest.value)}."
            " Smaller candidates are the operator’s to add."
        )
    if preference.measured:
        return text
    people = int(measured.risk.sensitivities.counts[-1])
    who = "1 person prevents" if people == 1 else f"{people:,} people prevent"
    return f"{text} {who} it: the most exposed, listed below."


# ---------------------------------------------------------------- the slider


def write_valuetext(line: Candidate, offer: Offer, choice: Choice, errors: Sequence[str]) -> str:
    """Say where the slider stands: at which ε, whether that meets the preference, and the errors of the first columns.

    An ε that the account does not grant is called "not available". ``errors``: of each column, as text.
    """
    words = "meets the preference" if line.epsilon in (offer.meeting or ()) else "does not meet the preference"
    if is_undecided(choice):
        words = "meets the preference, as every ε does"
    left = "" if line.epsilon in offer.remaining else "; not available"
    told = ", ".join(errors[:MOST_ERRORS])
    more = f" and {len(errors) - MOST_ERRORS:,} more" if len(errors) > MOST_ERRORS else ""
    return f"ε = {format_epsilon(line.epsilon)}, {words}, 95 % error {told}{more}{left}"


def write_raw_note(candidates: Sequence[Candidate]) -> str:
    note = (
        "Raw RDR compares people within one bar only. Under Laplace noise, with the bound, the distance between least "
        "and most exposed never changes: only the level does."
    )
    if find_range_axis(candidates, raw=True).logarithmic:
        note += " The axis is logarithmic here, so the same distance is drawn shorter the higher it stands."
    return note


def write_tail(measured: MeasuredQuery, epsilon: float, equal: bool) -> str:
    """Say how many people have the largest RDR; these may be fewer than the people in the histogram's last bar.

    ``equal``: everybody has the same RDR.
    """
    if equal:
        return "Everybody is equally exposed."
    people, times = measured.most_exposed(epsilon)
    spread = measured.candidate(epsilon).rdr
    decimals = count_decimals(spread.relative[0], times) if spread.mean > 0.0 else 2
    return f"The most exposed: {format_people(people)} at {format_multiple(times, decimals)} × the average."


def warn_of_ranks(measured: MeasuredQuery, line: Candidate) -> str:
    """Say that the rank of a number may be off by half the size of an average group or more; "" if it is not.

    The number could then be almost any value. Nothing is said where an individual may have several rows.
    """
    plan, touched = measured.risk.plan, measured.risk.matched
    rows = max((error for error, in_rows in line.errors if in_rows and error is not None), default=0.0)
    groups = max(1, len(measured.groups))
    if not touched or plan.schema.max_rows_per_unit != 1 or 2.0 * rows * groups < touched:
        return ""
    where = "" if groups == 1 else f" in {groups:,} groups"
    return (
        f"Off by {math.ceil(rows):,} rows where {format_people(touched)}{where} are touched, it could be almost any "
        "value."
    )


def is_worth_little(measured: MeasuredQuery, epsilon: float) -> bool:
    """Return whether the answer would be worth little at this ε: mostly noise, or almost any value by rank."""
    line = measured.candidate(epsilon)
    accuracy = AnswerAccuracy.of(measured.accuracies[epsilon], line.errors)
    return accuracy.is_mostly_noise or bool(warn_of_ranks(measured, line))


# ---------------------------------------------------------------- absolute measures


def list_risk_sentences(offer: Offer, measured: MeasuredQuery, epsilon: float) -> Iterator[RiskSentence]:
    """Yield the absolute risks of the most exposed at this ε; with the noisy test, at the largest ε it can find."""
    at = offer.largest if offer.testing else epsilon
    svt = float(offer.charges.epsilon_svt)
    absolute = measured.risk.absolute(at, charge=at + svt)
    if offer.testing:
        yield RiskSentence(
            "note",
            f"At worst the test finds ε = {format_epsilon(at)}; with {format_epsilon(svt)} for the test everybody is "
            f"then guaranteed ε = {format_number(at + svt, 6)}. What follows is for that case, wherever the slider "
            "stands.",
        )
    *sentences, caution = word_absolute(absolute)
    yield from (
        RiskSentence(icon, words, share) for (icon, share), words in zip(_list_icons(absolute), sentences, strict=True)
    )
    if offer.algorithm == "find":
        yield RiskSentence("note", caution)


def _list_icons(absolute: AbsoluteRisk) -> Iterator[tuple[str, float]]:
    """Yield ``icon`` and ``share`` of a RiskSentence for each absolute risk, in the order of ``word_absolute``."""
    yield "shield", 0.0
    yield "guesses", 50.0 * absolute.advantage
    if absolute.posterior is not None:
        yield "suspicion", 100.0 * absolute.posterior
    if absolute.identification is not None:
        yield "picked", 100.0 * absolute.identification


def describe_person(person: ExposedPerson) -> dict[str, Any]:
    """Return a row of the page's table of the most exposed.

    It says how many people share the record, how exposed they are, their own guarantee, and why.
    """
    people, why = person.people, person.why
    if person.sensitivity == 0.0 and person.own_epsilon > 0.0:  # drawn by rank
        why = "without them the ranks of the others shift"
    return {
        "who": "1 person has this record" if people == 1 else f"{people:,} people share this",
        "columns": person.columns,
        "times": f"{format_times(person.times_average)} ×",
        "own": format_number(person.own_epsilon),
        "why": f"removing one changes {why}" if person.sensitivity > 0.0 else why,
    }
