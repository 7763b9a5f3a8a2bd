"""Everything that changes when the slider or the preference moves: words, tables, chart data. For controllers only.

Takes a MeasuredQuery, an Offer, a DecisionForm and the Choice made by it; gives a DecisionView for the templates.
Computes only with what is already measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dosimeter.postprocess import find_rank_columns
from dosimeter.risk import Candidate, Choice, ExposedPerson, Preference
from dosimeter.show import (
    TextTable,
    candidate_rows,
    count_decimals,
    format_epsilon,
    format_errors,
    format_multiple,
    format_number,
    format_people,
    format_percent,
    format_times,
    note_accuracy,
    order_candidates,
)
from dosimeter.show.charts import PAGE, Spec, bin_rows, find_range_axis, histogram_spec, range_spec
from dosimeter.web.decision.costs import Cost, count_cost
from dosimeter.web.decision.form import DecisionForm
from dosimeter.web.decision.measured import MeasuredQuery
from dosimeter.web.decision.offer import Offer, Refusal, explain_shortage
from dosimeter.web.figures import show_number

PRIOR = 0.01
MOST_GROUPS = 40  # groups beyond this number are not listed one by one


@dataclass(frozen=True, slots=True, repr=False)
class AccuracyCell:
    """How good one number is at one ε: its 95 % error, the range of the answer, and the error relative to it."""

    error: str
    range: str
    relative: str


@dataclass(frozen=True, slots=True, repr=False)
class AccuracyRow:
    """How good an answer is at one ε. ``meets``: the preference; ``open``: the account leaves this ε."""

    epsilon: str
    selected: bool
    meets: bool | None
    open: bool
    cells: tuple[AccuracyCell, ...]


@dataclass(frozen=True, slots=True, repr=False)
class GroupCell:
    """A cell of a group's row: the group's own value, without a range; or an exact number, with the answer's range."""

    text: object
    range: str | None


@dataclass(frozen=True, slots=True, repr=False)
class DecisionView:
    """Everything on the decision page that depends on the preference and on ε."""

    preference: Preference
    line: str
    states: tuple[str, ...]
    notes: tuple[str, ...]
    selected: float
    index: int
    valuetext: str
    refusal: Refusal | None
    accuracy: tuple[AccuracyRow, ...]
    accuracy_notes: tuple[str, ...]
    columns: tuple[str, ...]
    alone: bool  # one number per column, so that the page can say in which range it will lie
    groups: tuple[tuple[GroupCell, ...], ...]
    more_groups: int
    range_table: TextTable
    range_spec: Spec
    raw_note: str
    histogram_table: TextTable
    histogram_spec: Spec
    tail: str
    absolute: tuple[str, ...]
    cost: Cost
    wanted: str

    def __repr__(self) -> str:
        return "DecisionView(redacted)"


@dataclass(frozen=True, slots=True, repr=False)
class OwnThreshold:
    """The threshold that this controller set for queries of this priority, and which candidates meet it."""

    priority: str
    percent: float
    choice: Choice


def build_view(
    measured: MeasuredQuery,
    offer: Offer,
    preference: Preference,
    form: DecisionForm,
    wanted_error: float | None,
    choice: Choice,
    own: OwnThreshold | None = None,
) -> DecisionView:
    offer = offer.prefer(choice)
    selected = _select(form.epsilon, offer, indifferent=is_indifferent(measured, choice))
    bins = measured.bins(selected)
    return DecisionView(
        preference=preference,
        line=_write_line(offer, preference, choice),
        states=(*_list_states(measured, preference, choice, offer), *_compare_thresholds(preference, offer, own)),
        notes=choice.notes,
        selected=selected,
        index=sorted(offer.candidates).index(selected),
        valuetext=_write_valuetext(measured.candidate(selected), offer),
        refusal=offer.refuse(selected),
        accuracy=tuple(_accuracy_rows(measured, choice, selected, offer)),
        accuracy_notes=note_accuracy(measured.candidate(selected)),
        columns=tuple(output.name for output in measured.risk.plan.outputs if output.is_aggregate),
        alone=not measured.risk.plan.groups and not measured.risk.plan.further,
        groups=tuple(_group_rows(measured, selected)),
        more_groups=max(0, len(measured.groups) - MOST_GROUPS),
        range_table=candidate_rows(choice.candidates),
        range_spec=range_spec(
            choice.candidates,
            PAGE,
            raw=form.raw,
            reading=float(offer.books.reading.epsilon),
            remaining=offer.remaining,
            marks={selected: ""},
        ),
        raw_note=_write_raw_note(choice.candidates) if form.raw else "",
        histogram_table=bin_rows(bins),
        histogram_spec=histogram_spec(bins, PAGE, log_counts=not form.linear, top=measured.risk.contributions.n),
        tail=_write_tail(measured, selected, len(bins) == 1),
        absolute=tuple(_absolute_sentences(offer, measured, selected)),
        cost=count_cost(offer, selected),
        wanted=_write_wanted(measured, wanted_error),
    )


def is_indifferent(measured: MeasuredQuery, choice: Choice) -> bool:
    """Return whether the preference has the same value at every ε, so that the largest ε meeting it is no advice."""
    return is_equal(measured) or does_not_depend(choice)


def is_equal(measured: MeasuredQuery) -> bool:
    return all(line.rdr.ratio >= 1.0 - 1e-12 for line in measured.candidates)


def does_not_depend(choice: Choice) -> bool:
    values = [line.value for line in choice.candidates if line.value is not None]
    return len(values) > 1 and max(values) - min(values) <= 1e-12 * abs(max(values))


def round_down(wanted: float, candidates: Sequence[float]) -> float:
    """Return the largest candidate that is not above ``wanted``; the smallest candidate if all are above."""
    below = [e for e in candidates if e <= wanted * (1 + 1e-9)]
    return max(below) if below else min(candidates)


def _select(wanted: float | None, offer: Offer, *, indifferent: bool) -> float:
    """Return the candidate to show: the wanted one, or else the one that was found.

    The smallest one that remains, where none was found or the preference does not depend on ε.
    """
    if wanted is not None:
        return round_down(wanted, offer.candidates)
    if offer.found is not None and not indifferent:
        return offer.found
    return min(offer.remaining or offer.candidates)


# ---------------------------------------------------------------- the preference in words


def show_value(preference: Preference, value: float | None) -> str:
    if value is None:
        return "no number"
    if preference.kind == "ratio":
        return format_percent(value)
    return format_number(value, 4)


def _write_line(offer: Offer, preference: Preference, choice: Choice) -> str:
    """Write the largest ε: "Largest ε: 0.05 (exact limit 0.0526). The next candidate, 0.06, gives 94 %.\""""
    name, found = "Without noise, largest ε" if offer.testing else "Largest ε", offer.found
    if found is None:
        return f"{name}: none."
    limit = "" if choice.limit is None else f" (exact limit {format_number(choice.limit, 3, down=True)})"
    text = f"{name}: {format_epsilon(found)}{limit}."
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


def _list_states(measured: MeasuredQuery, preference: Preference, choice: Choice, offer: Offer) -> list[str]:
    states = []
    if is_equal(measured):
        states.append(
            "Everybody is equally exposed, at every ε. That is not the same as safe: RDR cannot help to choose here, "
            "so the slider starts at the smallest ε. Look at the own guarantees and the accuracy below."
        )
    elif does_not_depend(choice):
        states.append(
            "This preference does not depend on ε here: every candidate gives the same, so the slider starts at the "
            "smallest ε."
        )
    if offer.found is not None:
        return states
    if not offer.meeting:
        states.append(_write_miss(measured, preference, choice))
        return states
    best = max(offer.meeting)
    states.append(
        f"Stopped by the odometer, not by the preference: ε = {format_epsilon(best)} would meet it, but "
        f"{explain_shortage(offer.books, best)}."
    )
    return states


def _compare_thresholds(preference: Preference, offer: Offer, own: OwnThreshold | None) -> list[str]:
    """Warn of a preference that is looser than the controller's own threshold: a form can come from a link."""
    if own is None or preference.text == own.choice.preference:
        return []
    allowed = offer.prefer(own.choice).found or 0.0
    looser = preference.kind == "ratio" and (preference.threshold or 0.0) < own.percent / 100
    if not looser and (offer.found or 0.0) <= allowed:
        return []
    largest = f"ε = {format_epsilon(allowed)} at most" if allowed else "no ε"
    return [
        f"Looser than your own threshold for {own.priority} priority: at least {own.percent:g} %, which admits "
        f"{largest}."
    ]


def _write_miss(measured: MeasuredQuery, preference: Preference, choice: Choice) -> str:
    valued = [line for line in choice.candidates if line.value is not None]
    people = int(measured.risk.sensitivities.counts[-1])
    who = "1 person prevents" if people == 1 else f"{people:,} people prevent"
    text = "No ε meets this preference."
    if valued and preference.kind in ("ratio", "variance"):
        pick = max if preference.kind == "ratio" else min
        nearest = pick(valued, key=lambda line: line.value or 0.0)
        text += (
            f" The nearest miss is ε = {format_epsilon(nearest.epsilon)}, with {show_value(preference, nearest.value)}."
        )
    return f"{text} {who} it: the most exposed, listed below."


def _write_valuetext(line: Candidate, offer: Offer) -> str:
    words = "meets the preference" if line.epsilon in (offer.meeting or ()) else "does not meet the preference"
    short = line.epsilon not in offer.remaining
    left = f"; not available: {explain_shortage(offer.books, line.epsilon)}" if short else ""
    return f"ε = {format_epsilon(line.epsilon)}, {words}, 95 % error {format_errors(line)}{left}"


def _write_raw_note(candidates: Sequence[Candidate]) -> str:
    note = (
        "Raw RDR compares people within one bar only. Under Laplace noise, with the bound, the distance between least "
        "and most exposed never changes: only the level does."
    )
    if find_range_axis(candidates, raw=True).logarithmic:
        note += " The axis is logarithmic here, so the same distance is drawn shorter the higher it stands."
    return note


def _write_tail(measured: MeasuredQuery, epsilon: float, equal: bool) -> str:
    """Write how many people are the most exposed. They may be fewer than those in the histogram's last bar."""
    if equal:
        return "Everybody is equally exposed."
    people, times = measured.most_exposed(epsilon)
    spread = measured.candidate(epsilon).rdr
    decimals = count_decimals(spread.relative[0], times) if spread.mean > 0.0 else 2
    return f"The most exposed: {format_people(people)} at {format_multiple(times, decimals)} × the average."


# ---------------------------------------------------------------- accuracy


def _accuracy_rows(measured: MeasuredQuery, choice: Choice, selected: float, offer: Offer) -> Iterator[AccuracyRow]:
    for line in order_candidates(choice.candidates):
        cells = zip(line.errors, measured.exact.values(), strict=True)
        yield AccuracyRow(
            epsilon=format_epsilon(line.epsilon),
            selected=line.epsilon == selected,
            meets=line.satisfied,
            open=line.epsilon in offer.remaining,
            cells=tuple(_accuracy_cell(*error, values) for error, values in cells),
        )


def _accuracy_cell(error: float | None, in_rows: bool, values: Sequence[float]) -> AccuracyCell:
    """Return the 95 % error with its sign ±, the range of the answer, and the relative error.

    The error is relative to the exact number, or to the median of several. What is drawn by rank is off by rows (E3).
    """
    if error is None:
        return AccuracyCell("none", "", "–")
    if in_rows:
        return AccuracyCell(f"± {math.ceil(error):,} rows", "", "–")
    shown = f"± {format_number(error)}"
    sizes = sorted(abs(value) for value in values)
    typical = sizes[len(sizes) // 2] if sizes else 0.0
    relative = format_number(100.0 * error / typical, 2) + " %" if typical > 0 else "–"
    return AccuracyCell(shown, _write_range(values[0], error) if len(values) == 1 else "", relative)


def _write_range(value: float, error: float) -> str:
    return f"{show_number(value - error, 4)} to {show_number(value + error, 4)}"


def _group_rows(measured: MeasuredQuery, epsilon: float) -> Iterator[tuple[GroupCell, ...]]:
    """Yield each group at the selected ε: its exact numbers, and the range in which the answer will lie."""
    outputs, ranked = measured.risk.plan.outputs, find_rank_columns(measured.risk.plan)
    for exact, errors in zip(measured.groups, measured.group_errors(epsilon, MOST_GROUPS), strict=False):
        left = iter(errors)
        cells: list[GroupCell] = []
        for output in outputs:
            value: Any = exact.get(output.name)  # a column that reads other groups' numbers has none of its own
            if not output.is_aggregate:
                cells.append(GroupCell(value, None))
                continue
            error = next(left)
            if error is not None and isinstance(value, (int, float)):
                cells.append(GroupCell(value, _write_range(float(value), error)))
            else:
                cells.append(GroupCell(value, "by rank" if output.name in ranked else "too few people to tell"))
        yield tuple(cells)


def _write_wanted(measured: MeasuredQuery, wanted: float | None) -> str:
    """Write which ε the accuracy that the analyst asked for needs."""
    if wanted is None:
        return ""
    good = [line.epsilon for line in measured.candidates if all(e is not None and e <= wanted for e in line.error_95)]
    asked = f"The analyst would like ± {format_number(wanted, 4)}"
    return (
        f"{asked}: that takes ε = {format_epsilon(min(good))} or more."
        if good
        else f"{asked}: no candidate gives that."
    )


# ---------------------------------------------------------------- absolute measures, costs


def _absolute_sentences(offer: Offer, measured: MeasuredQuery, epsilon: float) -> list[str]:
    testing, books = offer.testing, offer.books
    at = offer.worst if testing else epsilon
    charge = at + float(books.epsilon_svt)
    own, shown = format_number(measured.own_guarantee(at)), format_epsilon(at)
    found = offer.algorithm == "find"
    sentences = [
        f"Own guarantee: had ε = {shown} been fixed beforehand, the answer would be as private as ε = {own} for "
        "the most exposed person. Found from the data, ε itself is no guarantee."
        if found
        else f"Own guarantee: for the most exposed person this answer is as private as ε = {own}; for everybody "
        f"it is at most ε = {shown}."
    ]
    if testing:
        sentences = [
            f"At worst the test finds ε = {shown}; with {format_epsilon(float(books.epsilon_svt))} for the "
            f"test everybody is then guaranteed ε = {format_number(charge, 6)}. The sentences below are for that "
            "case, wherever the slider stands.",
            f"Own guarantee: for the most exposed person the numbers are as private as ε = {own}; the test adds "
            f"{format_epsilon(float(books.epsilon_svt))}.",
        ]
    if not measured.risk.pure:
        not_for = "thresholded groups" if measured.risk.mechanism.pure else "Gaussian noise"
        return [
            *sentences,
            f"Posterior odds and Lee and Clifton's bound are for pure differential privacy: not for {not_for}.",
        ]
    if found:
        sentences.append("Posterior odds do not apply: ε is found from the data, so the noise itself depends on them.")
    else:
        after = measured.posterior(charge, PRIOR)
        sentences.append(
            f"Posterior odds: who thought a statement about a person {format_percent(PRIOR)} likely can be "
            f"brought to {format_percent(after or 0.0)} at most."
        )
    picked = measured.identification(at)
    if picked is None:
        return [*sentences, "Lee and Clifton's bound is for noise: not for what is drawn by rank."]
    exact = "" if measured.difference[1] else ", by a cautious estimate"
    exact += ", for an ε fixed beforehand" if found else ", by the numbers alone" if testing else ""
    sentences.append(
        f"Identification (Lee and Clifton): an attacker who knows everybody's records but not who is in picks out "
        f"the right one of {measured.risk.present:,} with a chance of at most {format_percent(picked)}{exact}."
    )
    return sentences


def describe_person(person: ExposedPerson) -> dict[str, Any]:
    """Return one line of "most exposed": how many share the record, how exposed they are, their own ε, and why."""
    people, why = person.people, person.why
    return {
        "who": "1 person has this record" if people == 1 else f"{people:,} people share this",
        "columns": person.columns,
        "times": f"{format_times(person.times_average)} ×",
        "own": format_number(person.own_epsilon),
        "why": f"removing one changes {why}" if person.sensitivity > 0.0 else why,
    }
