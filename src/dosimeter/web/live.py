"""What changes when the slider or the preference moves: words, tables, chart data. For the controller's eyes only.

Takes an Exhibit, the books and a Wish; gives a Reading for the templates. Arithmetic on what is already measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dosimeter.accounting import Charge, Reading, exact_decimal
from dosimeter.model import Candidate, Choice
from dosimeter.numerals import (
    TextTable,
    candidate_rows,
    format_epsilon,
    format_errors,
    format_number,
    format_percent,
    format_times,
    order_candidates,
)
from dosimeter.preference import Preference
from dosimeter.web.charts import bin_rows, histogram_spec, range_rows, range_spec
from dosimeter.web.exhibit import Exhibit
from dosimeter.web.office import Books, Desk
from dosimeter.web.wishes import Wish

MOST_COUNTED = 50
PRIOR = 0.01


@dataclass(frozen=True, slots=True, repr=False)
class Live:
    """Everything on the decision page that depends on the preference and on ε."""

    preference: Preference
    found: float | None
    line: str
    states: tuple[str, ...]
    notes: tuple[str, ...]
    selected: float
    index: int
    valuetext: str
    approvable: bool
    why_not: str
    accuracy: tuple[Mapping[str, Any], ...]
    columns: tuple[str, ...]
    alone: bool  # one number per column, so that where it will lie can be said
    range_table: TextTable
    range_spec: Mapping[str, Any]
    bins: Sequence[Mapping[str, Any]]
    histogram_spec: Mapping[str, Any]
    tail: str
    absolute: tuple[str, ...]
    cost: tuple[str, ...]
    wanted: str

    def __repr__(self) -> str:
        return "Live(redacted)"


def read_live(
    desk: Desk, exhibit: Exhibit, books: Books, preference: Preference, wish: Wish, wanted_error: float | None
) -> Live:
    choice = exhibit.choose(preference)
    candidates = desk.candidates
    remaining = books.remaining(candidates)
    meeting = {line.epsilon for line in choice.candidates if line.satisfied}
    found = max((e for e in meeting if e in set(remaining)), default=None)
    selected = _select(wish.epsilon, found, remaining, candidates)
    approvable, why_not = _may_approve(desk, selected, found, remaining)
    line = exhibit.candidate(selected)
    rows = range_rows(choice.candidates, raw=wish.raw, remaining=remaining)
    reading = float(books.reading.epsilon)
    bins = exhibit.bins(selected)
    ascending = sorted(candidates)
    return Live(
        preference=preference,
        found=found,
        line=_write_line(preference, choice, found, candidates),
        states=tuple(_list_states(exhibit, preference, choice, found, meeting, books)),
        notes=choice.notes,
        selected=selected,
        index=ascending.index(selected),
        valuetext=_write_valuetext(line, selected in meeting, selected in set(remaining)),
        approvable=approvable,
        why_not=why_not,
        accuracy=tuple(_accuracy_rows(exhibit, choice, selected, set(remaining))),
        columns=tuple(output.name for output in exhibit.risk.plan.outputs if output.is_aggregate),
        alone=not exhibit.risk.plan.groups,
        range_table=candidate_rows(choice.candidates),
        range_spec=range_spec(rows, raw=wish.raw, reading=reading),
        bins=bin_rows(bins),
        histogram_spec=histogram_spec(bin_rows(bins), people=exhibit.risk.n, log_counts=not wish.linear),
        tail=f"The most exposed: {bins[-1].words} the average." if len(bins) > 1 else "Everybody is equally exposed.",
        absolute=tuple(_absolute_sentences(desk, exhibit, selected, books)),
        cost=tuple(_cost_sentences(desk, selected, books)),
        wanted=_write_wanted(exhibit, wanted_error),
    )


def _select(
    wanted: float | None, found: float | None, remaining: Sequence[float], candidates: Sequence[float]
) -> float:
    """The candidate nearest to what was asked for, never a larger one; at first the one that was found."""
    if wanted is not None:
        below = [e for e in candidates if e <= wanted * (1 + 1e-9)]
        return max(below) if below else min(candidates)
    if found is not None:
        return found
    return min(remaining) if remaining else min(candidates)


def _may_approve(desk: Desk, epsilon: float, found: float | None, remaining: Sequence[float]) -> tuple[bool, str]:
    shown = format_epsilon(epsilon)
    if desk.settings.algorithm == "find-and-release":
        return bool(remaining), "" if remaining else "The odometer leaves no candidate: a release would be denied."
    if epsilon not in set(remaining):
        return False, f"ε = {shown} cannot be granted: the odometer or the account's cap does not leave it."
    if desk.settings.algorithm == "fixed":
        return True, ""
    if found is None:
        return False, "No remaining ε meets the preference."
    if epsilon > found:
        return False, f"ε = {shown} is above the largest ε that meets the preference, {format_epsilon(found)}."
    return True, ""


# ---------------------------------------------------------------- the preference in words


def show_value(preference: Preference, value: float | None) -> str:
    if value is None:
        return "no number"
    if preference.kind == "ratio":
        return format_percent(value)
    return format_number(value, 4)


def _write_line(preference: Preference, choice: Choice, found: float | None, candidates: Sequence[float]) -> str:
    """ "Largest ε: 0.05 (exact limit 0.0526). The next candidate, 0.06, gives 94 %.\""""
    if found is None:
        return "Largest ε: none."
    limit = "" if choice.limit is None else f" (exact limit {format_number(choice.limit, 3, down=True)})"
    text = f"Largest ε: {format_epsilon(found)}{limit}."
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


def _list_states(
    exhibit: Exhibit,
    preference: Preference,
    choice: Choice,
    found: float | None,
    meeting: set[float],
    books: Books,
) -> list[str]:
    states = []
    if all(line.rdr["ratio"] >= 1.0 - 1e-12 for line in exhibit.candidates):
        states.append(
            "Everybody is equally exposed, at every ε. That is not the same as safe: RDR cannot help to choose here, "
            "so look at the own guarantees below."
        )
    values = [line.value for line in choice.candidates if line.value is not None]
    if len(values) > 1 and not states and max(values) - min(values) <= 1e-12 * abs(max(values)):
        states.append("This preference does not depend on ε here: every candidate gives the same.")
    if found is not None:
        return states
    if not meeting:
        states.append(_write_miss(exhibit, preference, choice))
        return states
    reading = "∞" if books.reading.infinite else format_number(float(books.reading.epsilon), 4)
    best = format_epsilon(max(meeting))
    why = "only larger ε's remain" if books.policy.budget is None else "it no longer fits the budget"
    states.append(
        f"Stopped by the odometer, not by the preference: ε = {best} would meet it, but the reading is {reading} "
        f"and {why}."
    )
    return states


def _write_miss(exhibit: Exhibit, preference: Preference, choice: Choice) -> str:
    valued = [line for line in choice.candidates if line.value is not None]
    people = int(exhibit.risk.sensitivities.counts[-1])
    who = "1 person prevents" if people == 1 else f"{people:,} people prevent"
    text = "No ε meets this preference."
    if valued and preference.kind in ("ratio", "variance"):
        pick = max if preference.kind == "ratio" else min
        nearest = pick(valued, key=lambda line: line.value or 0.0)
        text += (
            f" The nearest miss is ε = {format_epsilon(nearest.epsilon)}, with {show_value(preference, nearest.value)}."
        )
    return f"{text} {who} it: the most exposed, listed below."


def _write_valuetext(line: Candidate, meets: bool, available: bool) -> str:
    words = "meets the preference" if meets else "does not meet the preference"
    left = "" if available else ", not available"
    return f"ε = {format_epsilon(line.epsilon)}, {words}{left}, 95 % error {format_errors(line)}"


# ---------------------------------------------------------------- accuracy


def _accuracy_rows(exhibit: Exhibit, choice: Choice, selected: float, remaining: set[float]) -> list[dict[str, Any]]:
    rows = []
    for line in order_candidates(choice.candidates):
        cells = [
            _accuracy_cell(error, exhibit.exact.get(name, ()))
            for error, name in zip(line.error_95, exhibit.exact, strict=True)
        ]
        rows.append(
            {
                "epsilon": format_epsilon(line.epsilon),
                "selected": line.epsilon == selected,
                "meets": line.satisfied,
                "open": line.epsilon in remaining,
                "cells": cells,
            }
        )
    return rows


def _accuracy_cell(error: float | None, values: Sequence[float]) -> dict[str, str]:
    """± the 95 % error, where the answer will lie, and the error relative to the exact number, or the median one."""
    if error is None:
        return {"error": "unbounded", "range": "", "relative": "–"}
    shown = f"± {format_number(error)}"
    sizes = sorted(abs(value) for value in values)
    typical = sizes[len(sizes) // 2] if sizes else 0.0
    relative = format_number(100.0 * error / typical, 2) + " %" if typical > 0 else "–"
    lies = ""
    if len(values) == 1:
        lies = f"{format_number(values[0] - error, 4)} to {format_number(values[0] + error, 4)}"
    return {"error": shown, "range": lies, "relative": relative}


def _write_wanted(exhibit: Exhibit, wanted: float | None) -> str:
    """What the accuracy that the analyst asked for would take."""
    if wanted is None:
        return ""
    good = [line.epsilon for line in exhibit.candidates if all(e is not None and e <= wanted for e in line.error_95)]
    asked = f"The analyst would like ± {format_number(wanted, 4)}"
    return (
        f"{asked}: that takes ε = {format_epsilon(min(good))} or more."
        if good
        else f"{asked}: no candidate gives that."
    )


# ---------------------------------------------------------------- absolute measures, costs


def _absolute_sentences(desk: Desk, exhibit: Exhibit, epsilon: float, books: Books) -> list[str]:
    own, shown = format_number(exhibit.own_guarantee(epsilon)), format_epsilon(epsilon)
    found = desk.settings.algorithm == "find"
    sentences = [
        f"Own guarantee (P1): had ε = {shown} been fixed beforehand, the answer would be as private as ε = {own} for "
        "the most exposed person. Algorithm 1 itself guarantees no ε."
        if found
        else f"Own guarantee (P1): for the most exposed person this answer is as private as ε = {own}; for everybody "
        f"it is at most ε = {shown}."
    ]
    if exhibit.risk.mechanism.kind != "laplace":
        return [
            *sentences,
            "Posterior odds and Lee–Clifton's bound are for pure differential privacy: not for Gaussian noise.",
        ]
    charge = epsilon + float(books.epsilon_svt)
    if desk.settings.algorithm == "find":
        sentences.append("Posterior odds (P3) do not apply: with algorithm 1 the noise itself depends on the data.")
    else:
        after = exhibit.posterior(charge, PRIOR)
        sentences.append(
            f"Posterior odds (P3): who thought a statement about a person {format_percent(PRIOR)} likely can be "
            f"brought to {format_percent(after or 0.0)} at most."
        )
    picked = exhibit.identification(epsilon)
    exact = "" if exhibit.difference[1] else ", by a cautious estimate"
    exact += ", for an ε fixed beforehand" if found else ""
    sentences.append(
        f"Lee–Clifton (P2): an attacker who knows everybody's records but not who is in picks out the right one of "
        f"{exhibit.risk.n:,} with a chance of at most {format_percent(picked or 0.0)}{exact}."
    )
    return sentences


def _cost_sentences(desk: Desk, epsilon: float, books: Books) -> list[str]:
    before = "∞" if books.reading.infinite else format_number(float(books.reading.epsilon), 6)
    charge = Charge(exact_decimal(epsilon), books.epsilon_svt, books.delta)
    after = books.reading.after(charge)
    shown = "∞" if after.infinite else format_number(float(after.epsilon), 6)
    sentences = [f"The reading goes from {before} to {shown}."]
    if desk.settings.algorithm == "find-and-release":
        test = books.reading.after(Charge(exact_decimal(0), books.epsilon_svt))
        sentences.append(
            f"The noisy test alone costs {format_number(float(books.epsilon_svt), 4)}, also if it denies: the reading "
            f"is then {format_number(float(test.epsilon), 6)}. ε is found by the test, not by you."
        )
    more = count_more(books, after, desk.candidates)
    sentences.append(
        f"After it, more than {MOST_COUNTED} further answers are possible, at the smallest ε's."
        if more > MOST_COUNTED
        else f"After it, at most {more} more {'answer is' if more == 1 else 'answers are'} possible."
    )
    return sentences


def count_more(books: Books, reading: Reading, candidates: Sequence[float]) -> int:
    """How many answers still fit, each at the smallest ε that the policy admits (O2); stops counting at the most."""
    count = 0
    for epsilon in sorted(candidates):
        while count <= MOST_COUNTED and books.remaining((epsilon,), reading):
            reading = reading.after(Charge(exact_decimal(epsilon), books.epsilon_svt, books.delta))
            count += 1
    return count


def describe_person(row: Mapping[str, Any]) -> dict[str, Any]:
    """One line of "most exposed": identical records, × average, their own ε, and why."""
    people = row["people"]
    return {
        "who": "1 person has this record" if people == 1 else f"{people:,} people share this",
        "columns": row["columns"],
        "times": f"{format_times(row['times_average'])} ×",
        "own": format_number(row["own_epsilon"]),
        "why": f"removing one changes {row['why']}" if " from " in row["why"] else row["why"],
    }
