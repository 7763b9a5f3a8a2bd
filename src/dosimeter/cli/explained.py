"""Print an explanation of a query: its four stages, what an answer costs, and how to ask for less noise."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from dosimeter.cli.printing import make_console, print_notes
from dosimeter.planning import Change, NoiseAdvice
from dosimeter.show import format_epsilon, format_number

if TYPE_CHECKING:
    from rich.console import Console

    from dosimeter.planning import Explanation, LessNoise, Stages


def print_explanation(explanation: Explanation) -> None:
    """Print the four stages of a query, what an answer costs, and advice on how to ask for less noise.

    The stages: which rows are read, what is computed per person (left out if nothing is), which numbers get noise, and
    what is computed from the noisy numbers, which costs nothing.
    """
    console, drawn = make_console(), {number.measure for number in explanation.stages.measured if number.in_rows}
    console.print(Text(explanation.query.strip(), style="bold"))
    console.print(Text(_describe_size(explanation), style="dim"))
    console.print()
    _print_lines(console, _describe_first_stages(explanation))
    console.print(_tabulate_measured(explanation))
    _print_lines(console, _describe_after(explanation.stages))
    console.print()
    _print_lines(console, _describe_whole(explanation))
    _print_lines(console, _describe_advice(explanation.less_noise, drawn))
    print_notes(console, explanation.notes)


def _print_lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(Text(line))


def _describe_size(explanation: Explanation) -> str:
    each, groups = len(explanation.measures) - len(explanation.told), explanation.groups
    names = ", ".join(explanation.group_columns)
    noisy = f"{each} noisy {'number' if each == 1 else 'numbers'}"
    more = f", and {len(explanation.told)} for the whole query" if explanation.told else ""
    if not names:
        return f"{noisy}{more}, over everybody who meets the WHERE."
    if groups is None:
        return f"{noisy} for each group of {names} in the data."
    total = each * groups + len(explanation.told)
    return f"{total:,} noisy numbers: {each} for each of the {groups:,} declared groups of {names}{more}."


def _describe_first_stages(explanation: Explanation) -> Iterator[str]:
    """Yield a line on the rows, one on people if there is such a stage, and the title of what is measured."""
    rows, people = explanation.stages.rows, explanation.stages.people
    joined = f" joined with {', '.join(rows.joined)}" if rows.joined else ""
    chosen = ", those that the WHERE chooses" if rows.chosen else ""
    most = "one row" if rows.rows_each == 1 else f"at most {rows.rows_each:,} rows"
    counted = f"{chosen}; {most} of each individual"
    yield f"Rows, at no cost: {rows.table}{joined}{counted if people is None else ''}."
    if people is not None:
        named = [(column.name, column.bounds) for column in people.columns]
        shown = [name if ends is None else f"{name} ({' to '.join(map(format_number, ends))})" for name, ends in named]
        computed = "".join(f", {each}" for each in shown)
        yield f"People, at no cost: from the own rows of each {people.unit}{computed}{counted}."
    only_ranks = all(number.in_rows for number in explanation.stages.measured)
    yield f"Measured, {'drawn by rank' if only_ranks else 'with noise'}:"


def _tabulate_measured(explanation: Explanation) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("measured", "kind"):
        table.add_column(title)
    errors_at = [f"± at ε = {format_epsilon(each)}" for each in explanation.stages.epsilons]
    for title in ("sensitivity", "noise grid", "share of ε", *errors_at):
        table.add_column(title, justify="right")
    for measure, number in zip(explanation.measures, explanation.stages.measured, strict=True):
        grid = format_number(measure.grid) if measure.grid else "none"
        share = _write_share(number.share)
        found = number.errors["laplace"]
        errors = [f"{math.ceil(error):,} rows" if number.in_rows else format_number(error) for error in found]
        sensitivity = "–" if number.in_rows else format_number(measure.sensitivity)
        table.add_row(Text(measure.measure), measure.kind, sensitivity, grid, share, *errors)
    return table


def _write_share(share: float) -> str:
    parts = round(1.0 / share)
    if parts == 1 and share == 1.0:
        return "all"
    return f"1/{parts}" if math.isclose(share * parts, 1.0) else f"{100.0 * share:.3g} %"


def _describe_after(stages: Stages) -> Iterator[str]:
    """Yield a line on each total of ROLLUP, CUBE or GROUPING SETS, and one on what happens after the noise."""
    for asked in stages.asked:
        if asked.total_errors is not None:
            found = zip(asked.total_errors["laplace"], stages.epsilons, strict=True)
            errors = [f"± {format_number(error)} at ε = {format_epsilon(each)}" for error, each in found]
            yield f"The total of {asked.aggregate} adds up {asked.terms:,} groups: {', '.join(errors)}."
    yield f"After the noise, at no cost: {'; '.join(stages.after) or 'nothing'}."


def _describe_whole(explanation: Explanation) -> Iterator[str]:
    """Yield lines on the whole answer: its sensitivity, what ± means, what it costs, how it can be released."""
    delta = explanation.sensitivity
    several = ", every measure divided by its own first" if len(explanation.measures) > 1 else ""
    drawn = [number.in_rows for number in explanation.stages.measured]
    gaussian = "" if any(drawn) else f", {format_number(delta['gaussian'])} for Gaussian noise"
    if not all(drawn):
        whole = f"{format_number(delta['laplace'])} for Laplace{gaussian or ' noise'}"
        yield f"Sensitivity of the whole answer: {whole}{several}."
    noise = "" if all(drawn) else "± is the 95 % error of Laplace noise. "
    ranks = "What is drawn by rank gets no noise: its ± is the 95 % error of its rank, in rows. " if any(drawn) else ""
    yield f"{noise}{ranks}What is computed from several numbers depends on these, too."
    for rho in (cost.rho for cost in explanation.costs if cost.epsilon == 1.0):
        by = {name: format_number(value) for name, value in rho.items() if value is not None}
        with_gaussian = f", {by['gaussian']} with Gaussian noise" if "gaussian" in by else ""
        costs = f"under budget:E@D it costs ρ = {by['laplace']}{with_gaussian}"
        yield f"An answer at ε = 1 costs 1 under the policies paper and budget:E; {costs}."
    if explanation.additive:
        yield "It can be released at a fixed ε, at one found from a preference, or at one found by a noisy test."
        return
    yield "It can be released at a fixed ε or at one found from a preference, and not by a noisy test:"
    private = "how many groups the data have is private."
    depends = "one person's rows decide what another person's removal would change."
    yield depends if explanation.group_delta is None else private


# ---------------------------------------------------------------- less noise


def _describe_advice(found: LessNoise | None, drawn: Collection[str]) -> Iterator[str]:
    """Yield lines of advice on how to ask for less noise. ``drawn``: measures drawn by rank."""
    if found is not None and found.groups_matter is False:
        yield "Fewer or coarser groups would not change the noise of any number."
    if found is not None and found.advice:
        yield from ("", "Less noise:", *(f"  {_word_advice(advice, drawn)}" for advice in found.advice))


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
