"""Word what a controller should know before an ε is taken: the same on the terminal, in a notebook, on a page.

Takes values; gives sentences. Upper limits of a risk are rounded up, and the exact limit of ε is rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dosimeter.problems import Option, Surface
from dosimeter.show.candidates import format_error, order_candidates
from dosimeter.show.numbers import format_epsilon, format_number, format_people, format_percent, format_times

if TYPE_CHECKING:
    from dosimeter.mechanisms import Mechanism
    from dosimeter.planning import QueryPlan
    from dosimeter.risk import AbsoluteRisk, Advice, AnswerAccuracy, Candidate, ConditionRange, RiskAndAccuracy

_IDENTIFIED, _SUSPECTED = 0.95, 0.5
"""The belief, as a probability, from which on the most exposed count as identified."""

# ---------------------------------------------------------------- what the preference gives


def advise(
    candidates: Sequence[Candidate],
    *,
    preference: str | None = None,
    found: float | None = None,
    limit: float | None = None,
    indicator: str = "bound",
    stopped: str | None = None,
    smallest: int | None = None,
    rdr_only: bool = True,
) -> str:
    """Return the advice on these candidates, in a sentence or two: which ε the preference gives, or why it gives none.

    ``preference``: its text; None if there is no preference. ``found``: the largest ε that meets the preference and
    that the account admits; None if there is none. ``limit``: the exact ε up to which the preference is met, which need
    not be a candidate. ``indicator``: its name, told together with ``found`` (R7). ``stopped``: a sentence on why the
    account admits none of the candidates that meet the preference; None if it admits one. ``smallest``: how many people
    the smallest group of the answer holds, told only if everybody is equally exposed. ``rdr_only``: whether the
    preference reads nothing but RDRs; otherwise RDRs are not given as the reason why no candidate meets it. Refuses an
    empty list of candidates.
    """
    ordered = order_candidates(candidates)
    if stopped is not None:
        return f"Stopped by the account, not by {preference}, which some candidates meet. {stopped}"
    alike = all(c.rdr.ratio >= 1.0 - 1e-12 for c in ordered)
    if alike and (preference is None or not any(c.satisfied is False for c in ordered)):
        held = "" if smallest is None else f" The smallest group holds {format_people(smallest)}."
        return (
            "Everybody is equally exposed at every ε. That is not the same as safe, and RDR cannot help to choose ε: "
            f"look at what ε guarantees each person (own ε).{held}"
        )
    if preference is None:
        at = [f"{format_times(c.rdr.relative[1])} × the average at ε = {format_epsilon(c.epsilon)}" for c in ordered]
        span = at[0] if len(at) == 1 else f"{at[0]} and {at[-1]}"
        prefer = Option("prefer", "ratio:0.95").word(Surface.COMMAND_LINE)
        return f"The most exposed person carries {span}. To find an ε, state a preference: dosimeter find … {prefer}."
    if found is None:
        return _advise_none(ordered, preference, rdr_only=rdr_only)
    if all(c.satisfied for c in ordered) and found == ordered[0].epsilon:  # F4
        return (
            f"Every candidate meets {preference} ({indicator} indicator), so it decides nothing and no ε was found by "
            "it. Choose by absolute risk and accuracy."
        )
    exact = "" if limit is None else f"exact limit {format_number(limit, down=True)}, "
    start = f"Largest ε that meets {preference}: {format_epsilon(found)} ({exact}{indicator} indicator)"
    larger = [c for c in ordered if c.epsilon > found]
    if not larger:
        return f"{start}; it is the largest candidate."
    gives = "" if larger[-1].value is None else f" and gives {format_number(larger[-1].value, 4)}"
    if larger[-1].satisfied:
        return f"{start}; the next candidate, {format_epsilon(larger[-1].epsilon)}, meets it too but is not available."
    return f"{start}; the next candidate, {format_epsilon(larger[-1].epsilon)}, does not meet it{gives}."


def _advise_none(ordered: Sequence[Candidate], preference: str, *, rdr_only: bool) -> str:
    last = ordered[-1]
    if any(c.satisfied for c in ordered):
        return f"Some candidates meet {preference}, but none of them is available."
    if not rdr_only:
        return f"No candidate meets {preference}.{_word_ends(ordered)}"
    gives = format_percent(last.rdr.ratio) + " least ÷ most exposed"
    if last.value is not None:
        gives = format_number(last.value, 4)
    return f"No candidate meets {preference}: even the smallest, ε = {format_epsilon(last.epsilon)}, gives {gives}."


def _word_ends(ordered: Sequence[Candidate]) -> str:
    """Say which value the left-hand side of the preference has at the largest and at the smallest candidate.

    Of "MAX(advantage) <= 0.2" it is the value of MAX(advantage). Candidates at which it has no value are passed over;
    "" if fewer than two are left.
    """
    told = [
        f"ε = {format_epsilon(c.epsilon)} gives {format_number(c.value, 4)}" for c in ordered if c.value is not None
    ]
    return f" {told[0]}, {told[-1]}." if len(told) > 1 else ""


# ---------------------------------------------------------------- conditions that cannot be met together


def word_conflict(parts: Sequence[ConditionRange]) -> str:
    """Say that no candidate meets these conditions together, and which candidates each of them alone would allow."""
    if len(parts) == 1:
        return f"No candidate meets {parts[0].condition}, even by itself."
    named = " and ".join(part.condition for part in parts)
    alone = "; ".join(f"{part.condition} alone allows {_word_span(part)}" for part in parts)
    return f"{named} cannot be met together: {alone}."


def _word_span(part: ConditionRange) -> str:
    if part.smallest is None or part.largest is None:
        return "no candidate"
    low, high = format_epsilon(part.smallest), format_epsilon(part.largest)
    return f"ε = {low}" if low == high else f"ε from {low} to {high}"


# ---------------------------------------------------------------- advice


def word_advice(advice: Advice) -> tuple[str, ...]:
    """Return the advice in sentences: the analyst's gain, the risk of the most exposed, the next candidates, warnings.

    If the preference decides nothing (F4), the advice is about the largest candidate at which nobody's membership
    advantage exceeds 0.25. Without such a candidate, a sentence says that there is none, and the advice ends. If every
    candidate meets the preference, the first sentence says what the largest candidate would do to people.
    """
    return tuple(_word_advice(advice))


def _word_advice(advice: Advice) -> Iterator[str]:
    if advice.decides is False and advice.met:
        yield word_undecided(advice)
    shown = advice.shown
    if advice.decides is False and shown is not None and advice.moved_by_nobody:
        yield f"ε = {format_epsilon(shown.epsilon)} would be the largest cautious candidate if somebody moved it."
    elif advice.decides is False and shown is not None:
        yield (
            "The largest candidate at which nobody's membership advantage exceeds 0.25 is ε = "
            f"{format_epsilon(shown.epsilon)}."
        )
    if shown is None:
        yield "At every candidate somebody's membership advantage exceeds 0.25: offer smaller ones."
        return
    yield word_gain(advice.columns, shown)
    yield from word_absolute(shown.absolute)
    if shown is advice.at:
        steps = word_steps(advice)
        if steps:
            yield " ".join(steps)
    if advice.cell_differs:
        gives = "is met by no candidate" if advice.by_cell is None else f"gives ε = {format_epsilon(advice.by_cell)}"
        yield (
            "By the cell indicator, which counts only the noise that one person's rows can reach, the same preference "
            f"{gives}."
        )
    yield from warn_of_noise(advice, shown)


def word_undecided(advice: Advice) -> str:
    """Say how much the largest candidate would tell about the most exposed, where all meet the preference (F4).

    It would identify them, strengthen a suspicion, or make so many more of 100 guesses right. If nobody's record moves
    the answer, say instead that the preference decides nothing.
    """
    if advice.moved_by_nobody:
        who = "Nobody is in this query" if advice.touched == 0 else "Nobody's record moves this answer"
        return f"{who}: the preference decides nothing."
    at, absolute = format_epsilon(advice.at.epsilon), advice.at.absolute
    who = "the most exposed"
    if advice.touched is not None and advice.exposed == advice.touched:
        who = f"everybody whom it touches ({format_people(advice.touched)})"
    if absolute.posterior is not None and absolute.posterior >= _IDENTIFIED:
        return (
            f"Its largest candidate, ε = {at}, would identify {who}: a suspicion of {100 * absolute.prior:g} % becomes "
            f"{format_percent(absolute.posterior)}."
        )
    if absolute.posterior is not None and absolute.posterior >= _SUSPECTED:
        return (
            f"Its largest candidate, ε = {at}, can turn a suspicion of {100 * absolute.prior:g} % about {who} into "
            f"{format_percent(absolute.posterior)}."
        )
    return f"At its largest candidate, ε = {at}, {_word_guesses(absolute, who)}."


def word_absolute(absolute: AbsoluteRisk) -> Iterator[str]:
    """Yield one sentence for each absolute risk of the most exposed person, and a last one on when these limits hold.

    The risks: the own guarantee (P1), the membership advantage (P4), what a suspicion can become (P3), and the chance
    of picking the person out (P2). The last two are left out where ``absolute`` has None for them.
    """
    yield f"For the most exposed person the answer is as private as ε = {_round_up(absolute.own_epsilon)}."
    guesses = _word_guesses(absolute, "the most exposed person")
    yield f"{guesses[0].upper()}{guesses[1:]}."
    if absolute.posterior is not None:
        yield (
            f"Whoever it is about, an attacker who knows everybody else and starts with a {100 * absolute.prior:g} % "
            f"suspicion ends with at most {_round_up(100 * absolute.posterior, most=100)} %: that follows from ε = "
            f"{format_number(absolute.charge, 6)} alone."
        )
    if absolute.identification is not None:
        exact = "" if absolute.identification_exact else ", by a cautious estimate"
        yield (
            f"Whoever knows everybody's records, and not who is in, picks the right one of {absolute.people:,} with a "
            f"chance of at most {_round_up(100 * absolute.identification, most=100)} %{exact}; by a blind guess it is "
            f"{format_number(100 / absolute.people, 2)} %."
        )
    yield (
        "These limits hold for an ε that was fixed beforehand or found with noise. Where ε is found from the data, the "
        "amount of noise tells something by itself."
    )


def word_mechanism(plan: QueryPlan, mechanism: Mechanism) -> str:
    """Say how the numbers of an answer are made uncertain: by which noise, or drawn by rank (M4), which adds none."""
    if plan.only_ranks:
        return "drawn by rank, without noise"
    calibration = f" ({mechanism.calibration})" if mechanism.calibration else ""
    labels = list(dict.fromkeys(rank.label for rank in plan.ranks.values()))
    drawn = f"; {join_names(labels)} drawn by rank" if labels else ""
    return f"{mechanism.name.capitalize()} noise{calibration}{drawn}"


def _word_guesses(absolute: AbsoluteRisk, who: str) -> str:
    more = _round_up(50 * absolute.advantage, most=50)
    return f"of 100 guesses whether {who} is in the table, at most {more} more are right than by tossing a coin"


def word_more_guesses(absolute: AbsoluteRisk) -> str:
    """Say what the membership advantage of the most exposed means (P4), in one short sentence.

    Such as "Of 100 guesses who is in, at most 12 more are right than by tossing a coin."
    """
    more = _round_up(50 * absolute.advantage, most=50)
    return f"Of 100 guesses who is in, at most {more} more are right than by tossing a coin."


def word_gain(columns: Sequence[str], shown: RiskAndAccuracy, *, most: int | None = None) -> str:
    """Say how accurate the analyst's answer would be at one ε: "At ε = 0.1 the analyst would get n ± 30 (95 %) …".

    ``columns`` and ``most``: as in ``word_errors``.
    """
    told = word_errors(columns, shown.accuracy, most=most)
    return f"At ε = {format_epsilon(shown.epsilon)} the analyst would get {told}."


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
        told += f"; {word_drowned(accuracy.drowned, accuracy.numbers)}"
    if accuracy.too_few:
        count = "1 number has" if accuracy.too_few == 1 else f"{accuracy.too_few:,} numbers have"
        told += f"; {count} too few people behind {'it' if accuracy.too_few == 1 else 'them'} to tell"
    if accuracy.without:
        told += f"; {_word_without(accuracy.without)}"
    return told


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


def _word_without(numbers: int) -> str:
    return "1 number has no error of its own" if numbers == 1 else f"{numbers:,} numbers have no error of their own"


def word_drowned(drowned: int, numbers: int, verb: str = "is") -> str:
    """Say how many of the numbers are no larger than their error, or that all of them are larger.

    ``drowned``: how many are no larger. ``verb``: "is" or "would be".
    """
    if numbers == 1:
        return f"the number itself {verb} {'no larger' if drowned else 'larger'}"
    plural = "are" if verb == "is" else verb
    if not drowned:
        return f"all {numbers:,} numbers {plural} larger than their error"
    return f"{drowned:,} of {numbers:,} numbers {plural} no larger than their error"


def word_steps(advice: Advice) -> list[str]:
    """Return what the next larger and the next smaller candidate would change: a sentence for each that exists."""
    return [_word_step(advice, other) for other in (advice.up, advice.down) if other is not None]


def _word_step(advice: Advice, other: RiskAndAccuracy) -> str:
    """Say what taking ``other`` instead would change: the error of one column, and the membership advantage (P4).

    The column is the one with the largest error that is not in rows. The advantage is told as a number of guesses, as
    in "One step up, ε = 0.2: ± 15 instead of ± 30, and 5 instead of 2.5 more right guesses of 100."
    """
    here, there = advice.at.accuracy, other.accuracy
    way = "up" if other.epsilon > advice.at.epsilon else "down"
    change = f"One step {way}, ε = {format_epsilon(other.epsilon)}: "
    place = here.widest
    before, after = (None, None) if place is None else (here.usual(place), there.usual(place))
    if place is not None and before is not None and after is not None:
        name = f"{advice.columns[place]} " if len(advice.columns) > 1 else ""
        change += f"{name}± {format_number(after)} instead of ± {format_number(before)}, and "
    guesses = [_round_up(50 * each.absolute.advantage, most=50) for each in (other, advice.at)]
    return f"{change}{guesses[0]} instead of {guesses[1]} more right guesses of 100."


def warn_of_noise(advice: Advice, shown: RiskAndAccuracy) -> Iterator[str]:
    """Yield a warning if at least half of the numbers drown in their errors or have too few people to tell.

    A number drowns if it is no larger than its error. A second sentence names a coarser query that would do better, if
    one was found.
    """
    if not shown.accuracy.is_mostly_noise:
        return
    yield f"Warning: at ε = {format_epsilon(shown.epsilon)} the answer would be worth little."
    better = advice.coarser
    if better is not None:
        yield (
            f"At the same ε, without {join_names(better.dropped)}, "
            f"{word_drowned(better.drowned, better.numbers, 'would be')}"
            f"{' than its error' if better.numbers == 1 else ''}."
        )


def join_names(names: Sequence[str]) -> str:
    """Write names one after another: "a", "a and b", "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _round_up(value: float, most: float = math.inf) -> str:
    """Write an upper limit of a risk, rounded up to three significant digits: 12.31 becomes 12.4.

    ``most``: the largest value that the limit can have, such as 100 for percents. A limit that would round up to
    ``most`` gets more digits, up to nine: 99.99 stays 99.99, and 99.9999999999 becomes 100.
    """
    if value <= 0.0 or not math.isfinite(value):
        return format_number(value)
    for digits in range(3, 10):
        step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
        rounded = math.ceil(value / step * (1.0 - 1e-12)) * step
        if rounded < most:
            return format_number(rounded, digits)
    return format_number(most)
