"""Print an explanation of a query: its four stages, what an answer costs, and how to ask for less noise."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from dosimeter.cli.printing import make_console, print_notes
from dosimeter.planning import Change, NoiseAdvice
from dosimeter.show import format_epsilon, format_number

if TYPE_CHECKING:
    from rich.console import Console

    from dosimeter.planning import Explanation, Stages


def print_explanation(explanation: Explanation) -> None:
    """Print the four stages of a query, what an answer costs, and advice on how to ask for less noise.

    The stages: which rows are read, what is computed per person (left out if nothing is), which numbers get noise, and
    what is computed from the noisy numbers, which costs nothing.
    """
    console = make_console()
    console.print(Text(explanation.query.strip(), style="bold"))
    console.print(Text(_describe_size(explanation), style="dim"))
    console.print()
    console.print(Text(_describe_rows(explanation.stages)))
    if explanation.stages.people is not None:
        console.print(Text(_describe_people(explanation.stages)))
    only_ranks = all(number.in_rows for number in explanation.stages.measured)
    console.print(Text(f"3 measured, {'drawn by rank' if only_ranks else 'with noise'}:"))
    _print_measured(console, explanation)
    after = "; ".join(explanation.stages.after) or "nothing"
    console.print(Text(f"4 after the noise, at no cost: {after}."))
    console.print()
    _print_whole(console, explanation)
    _print_advice(console, explanation)
    print_notes(console, explanation.notes)


def _describe_size(explanation: Explanation) -> str:
    each, groups = len(explanation.measures), explanation.groups
    names = ", ".join(explanation.group_columns)
    if not names:
        return f"{each} noisy {'number' if each == 1 else 'numbers'}, over everybody who meets the WHERE."
    if groups is None:
        return f"{each} noisy {'number' if each == 1 else 'numbers'} for each group of {names} in the data."
    return f"{each * groups:,} noisy numbers: {each} for each of the {groups:,} declared groups of {names}."


def _describe_rows(stages: Stages) -> str:
    rows = stages.rows
    joined = f" joined with {', '.join(rows.joined)}" if rows.joined else ""
    counted = "" if stages.people is not None else _describe_counted(stages)
    return f"1 rows, at no cost: {rows.table}{joined}{counted}."


def _describe_counted(stages: Stages) -> str:
    rows = stages.rows
    chosen = ", those that the WHERE chooses" if rows.chosen else ""
    return f"{chosen}; {'one row' if rows.rows_each == 1 else f'at most {rows.rows_each:,} rows'} of each individual"


def _describe_people(stages: Stages) -> str:
    people = stages.people
    assert people is not None
    shown = [
        column.name
        if column.bounds is None
        else f"{column.name} ({format_number(column.bounds[0])} to {format_number(column.bounds[1])})"
        for column in people.columns
    ]
    computed = f", {', '.join(shown)}" if shown else ""
    return f"2 people, at no cost: from the own rows of each {people.unit}{computed}{_describe_counted(stages)}."


def _print_measured(console: Console, explanation: Explanation) -> None:
    stages = explanation.stages
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("measured", "kind"):
        table.add_column(title)
    for title in (
        "sensitivity",
        "noise grid",
        "share of ε",
        *(f"± at ε = {format_epsilon(each)}" for each in stages.epsilons),
    ):
        table.add_column(title, justify="right")
    for measure, number in zip(explanation.measures, stages.measured, strict=True):
        grid = format_number(measure.grid) if measure.grid else "none"
        share = "all" if number.share == 1.0 else f"1/{round(1 / number.share)}"
        found = number.errors["laplace"]
        errors = [f"{math.ceil(error):,} rows" if number.in_rows else format_number(error) for error in found]
        sensitivity = "–" if number.in_rows else format_number(measure.sensitivity)
        table.add_row(Text(measure.measure), measure.kind, sensitivity, grid, share, *errors)
    console.print(table)
    totals = [asked for asked in stages.asked if asked.total_errors is not None]
    for asked in totals:
        assert asked.total_errors is not None
        errors = [
            f"± {format_number(error)} at ε = {format_epsilon(each)}"
            for error, each in zip(asked.total_errors["laplace"], stages.epsilons, strict=True)
        ]
        console.print(Text(f"The total of {asked.aggregate} adds up {asked.terms:,} groups: {', '.join(errors)}."))


def _print_whole(console: Console, explanation: Explanation) -> None:
    delta = explanation.sensitivity
    several = ", every measure divided by its own first" if len(explanation.measures) > 1 else ""
    drawn = [number.in_rows for number in explanation.stages.measured]
    gaussian = "" if any(drawn) else f", {format_number(delta['gaussian'])} for Gaussian noise"
    if not all(drawn):
        whole = f"{format_number(delta['laplace'])} for Laplace{gaussian or ' noise'}"
        console.print(f"Sensitivity of the whole answer: {whole}{several}.")
    noise = "" if all(drawn) else "± is the 95 % error of Laplace noise. "
    ranks = "What is drawn by rank gets no noise: its ± is the 95 % error of its rank, in rows. " if any(drawn) else ""
    console.print(f"{noise}{ranks}What is computed from several numbers depends on these, too.")
    _print_costs(console, explanation)
    if explanation.additive:
        console.print(
            "It can be released at a fixed ε, at one found from a preference, or at one found by a noisy test."
        )
    else:
        console.print("It can be released at a fixed ε or at one found from a preference, and not by a noisy test:")
        private = "how many groups the data have is private."
        depends = "one person's rows decide what another person's removal would change."
        console.print(depends if explanation.group_delta is None else private)


def _print_costs(console: Console, explanation: Explanation) -> None:
    """Print what an answer at ε = 1 would cost, under each kind of policy."""
    for cost in (cost for cost in explanation.costs if cost.epsilon == 1.0):
        laplace, gaussian = cost.rho["laplace"], cost.rho["gaussian"]
        assert laplace is not None
        with_gaussian = "" if gaussian is None else f", {format_number(gaussian)} with Gaussian noise"
        console.print(
            f"An answer at ε = 1 costs 1 under the policies paper and budget:E; under budget:E@D it costs "
            f"ρ = {format_number(laplace)}{with_gaussian}."
        )


# ---------------------------------------------------------------- less noise


def _print_advice(console: Console, explanation: Explanation) -> None:
    found = explanation.less_noise
    if found is None:
        return
    if found.groups_matter is False:
        console.print("Fewer or coarser groups would not change the noise of any number.")
    if found.advice:
        console.print()
        console.print("Less noise:")
    drawn = {number.measure for number in explanation.stages.measured if number.in_rows}
    for advice in found.advice:
        console.print(Text(f"  {_word_advice(advice, drawn)}"))


def _word_advice(advice: NoiseAdvice, drawn: Collection[str]) -> str:
    """Return one piece of advice on how to ask for less noise, as a sentence. ``drawn``: measures drawn by rank."""
    factors = "; ".join(_word_factors(advice, drawn))
    match advice.change:
        case Change.COUNT_KNOWN:
            known = (advice.instead or "").removeprefix("COUNT(").removesuffix(")")
            why = f"which is measured anyway, and counts the rows where {known} is known"
            return f"{advice.instead} instead of {advice.given}, {why}: {factors}."
        case Change.LEAVE_OUT:
            return f"Without {advice.given}: {factors}."
        case Change.FEWER_GROUPS:
            return f"Without groups of {advice.given}: {factors}."
        case Change.NARROWER_BOUNDS:
            known = f"If you know, not from these data, that {advice.column} lies in a range half as wide as"
            return f"{known} {advice.given}: {factors}."
        case Change.NEARER_ZERO:
            known = f"If you know, not from these data, that {advice.column} is at most half as far from 0 as"
            return f"{known} its bounds {advice.given}: {factors}."


def _word_factors(advice: NoiseAdvice, drawn: Collection[str]) -> Iterator[str]:
    """Yield texts such as "0.5 × the noise of COUNT(*)": by which factor the advice would shrink which noise.

    Measures with the same factor share a text. Measures whose noise would hardly shrink are left out. ``drawn``: the
    measures drawn by rank, which have no noise but an error.
    """
    by_factor: dict[tuple[str, str], list[str]] = {}
    for label, factor in advice.factors.items():
        shown = format_number(factor)
        if factor < 1.0 and shown != "1":
            by_factor.setdefault((shown, "error" if label in drawn else "noise"), []).append(label)
    for (shown, what), labels in by_factor.items():
        yield f"{shown} × the {what} of {', '.join(labels)}"
