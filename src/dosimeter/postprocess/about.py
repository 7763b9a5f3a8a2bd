"""The public facts that a reader of released numbers needs: what was cut, rounded, added up, and what has no error.

``list_facts`` finds the facts, and ``word_facts`` makes sentences of them. Takes a plan and an answer; never touches
data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from dosimeter.measures import Argument
from dosimeter.planning import Explanation, QueryPlan, explain_plan, list_cut, note_counted_groups
from dosimeter.postprocess.answers import AssembledAnswer
from dosimeter.postprocess.cell_errors import chooses_rows, count_selectable, find_formula
from dosimeter.postprocess.computed_estimates import find_counts
from dosimeter.postprocess.enough_rows import name_rows, word_enough_rows
from dosimeter.schema import PLAIN, Words
from dosimeter.sql import MOST_ROWS

NOT_COMPUTED = (
    "What the query does with the released numbers failed on these numbers, so the numbers themselves are the answer."
)


@dataclass(frozen=True, slots=True)
class BoundedValue:
    """A value that an aggregate reads and that is cut to the bounds ``lower`` and ``upper``.

    ``label``: the value as people read it. ``step``: the value is rounded to multiples of ``step``; None for whole
    numbers.
    """

    label: str
    lower: Fraction
    upper: Fraction
    step: Fraction | None


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What is public about an answer besides its numbers.

    ``most_rows``: how many rows of each individual count; None if everybody has one row. ``bounded``: the values cut to
    bounds. ``grouped``: it has declared groups; ``thresholded``: it has thresholded ones. ``totals``: some rows add up
    groups. ``selected``: if noisy numbers decided which rows are shown, how many such numbers there were; None
    otherwise, or if no errors are told. ``without_error``: the columns that have no error, as they read other groups
    than their own. ``has_too_few``: somewhere there are too few people to tell. ``negative``: some count is below 0.
    ``counted_groups``: sentences on declared groups over which something is computed. ``clamped``: numbers were put
    back into their bounds. ``failed``: what comes after the noise could not be computed.
    ``cut_texts``: the text columns of which only the first letters count, each with how many. ``enough_rows``:
    aggregates that mostly have too few people to tell, each with how many, people or rows, would be enough in a group.
    ``called``: what rows and people are called.
    """

    most_rows: int | None
    bounded: tuple[BoundedValue, ...]
    grouped: bool
    thresholded: bool
    counted_groups: tuple[str, ...]
    totals: bool
    selected: int | None
    without_error: tuple[str, ...]
    has_too_few: bool
    negative: bool
    clamped: bool
    failed: bool
    cut_texts: tuple[tuple[str, int], ...] = ()
    enough_rows: tuple[tuple[str, int, str], ...] = ()
    called: Words = PLAIN


def list_facts(plan: QueryPlan, answer: AssembledAnswer | None, *, clamp: bool, errors: bool) -> AnswerFacts:
    """Return the public facts about an answer; if ``answer`` is None, those that are known before one is released.

    ``clamp``: whether numbers are put back into their bounds. ``errors``: whether the reader is told errors, which
    algorithm 1 withholds.
    """
    failed = answer is not None and answer.failed
    rows = () if answer is None else answer.rows
    schema = plan.table_schema
    blocks = plan.answered
    counts = find_counts(plan)
    arguments = [argument for block in blocks for argument in block.arguments]
    found = [_bound(argument) for argument in arguments if argument.role == "value" and argument.width > 0]
    return AnswerFacts(
        most_rows=None if schema.unit == "row" else schema.max_rows_per_unit,
        bounded=tuple(dict.fromkeys(each for each in found if "*" not in each.label)),
        grouped=plan.threshold is None and any(block.groups for block in blocks),
        thresholded=plan.threshold is not None,
        counted_groups=() if failed else tuple(note_counted_groups(plan)),
        totals=any(block.sets for block in blocks),
        selected=count_selectable(plan) if errors and not failed and chooses_rows(plan) else None,
        without_error=tuple(
            output.name
            for at, output in enumerate(plan.outputs)
            if errors and output.is_aggregate and output.formula is None
            if all(find_formula(block, block.outputs[at]) is None for block in blocks)
            or _lacks_errors(answer, output.name)
        ),
        has_too_few=answer is not None and answer.has_too_few,
        negative=any(isinstance(row.get(name), int) and row[name] < 0 for row in rows for name in counts),  # type: ignore[operator]
        clamped=clamp,
        failed=failed,
        cut_texts=tuple(list_cut(plan).items()),
        enough_rows=()
        if answer is None or not errors
        else tuple((*each, name_rows(plan)) for each in answer.enough_rows),
        called=plan.table_words,
    )


def _lacks_errors(answer: AssembledAnswer | None, name: str) -> bool:
    """Return whether a column of an answer has numbers and no error, as where the rows of a window's order tie."""
    if answer is None or answer.errors is None or answer.failed:
        return False
    return any(row[name] is not None for row in answer.rows) and all(each[name] is None for each in answer.errors)


def _bound(argument: Argument) -> BoundedValue:
    step = None if argument.unit == 1 else argument.unit
    return BoundedValue(argument.label, argument.lower * argument.unit, argument.upper * argument.unit, step)


def word_facts(facts: AnswerFacts) -> tuple[str, ...]:
    """Return the facts as sentences."""
    found, called = [], facts.called
    if facts.most_rows is not None:
        most = called.count_rows(facts.most_rows)
        found.append(f"At most {most} of each {called.individual} count{'s' if facts.most_rows == 1 else ''}.")
    for each in facts.bounded:
        low, high = _write(each.lower), _write(each.upper)
        found.append(f"{each.label}: values below {low} count as {low}, and above {high} as {high}.")
        if each.step is not None:
            found.append(f"{each.label}: values are rounded to multiples of {_write(each.step)}.")
    for name, letters in facts.cut_texts:
        found.append(f"{name}: where it is joined to another text or handed on, its first {letters:,} letters count.")
    if facts.grouped:
        found.append(f"Only the declared groups are counted: {called.rows} of any other are in none of them.")
    if facts.thresholded:
        found.append(
            f"Groups are those of the data with enough {called.people} by a noisy count: smaller ones are left out. Of "
            f"more than {MOST_ROWS:,} groups, those with the most {called.people} are shown."
        )
    found += facts.counted_groups
    if facts.totals:
        found.append(
            "Totals add up the noisy numbers of their groups: they agree with these, and their errors are larger. They "
            f"leave out {called.rows} of no declared group."
        )
    if facts.has_too_few:
        found.append(f"NULL in place of an average or another quotient: too few {called.people} to tell.")
    found += [word_enough_rows(*each) for each in facts.enough_rows]
    if facts.negative:
        found.append("A count below 0 is noise on a small number.")
    if facts.clamped:
        found.append("Numbers that left their bounds were put back.")
    if facts.selected is not None:
        found.append(
            f"The query chooses rows by noisy numbers, so the errors hold for all {facts.selected:,} numbers at once: "
            "those shown are within them with 95 %."
        )
    found += [f"{name} has no error: it is computed from several groups." for name in facts.without_error]
    if facts.failed:
        found.append(NOT_COMPUTED)
    return tuple(found)


def note_public_facts(plan: QueryPlan) -> tuple[str, ...]:
    """Return what is cut, clamped or left out by the declared facts, in sentences: all that is known beforehand (E5).

    A number without its noise is the table's own number only where nothing is.
    """
    return word_facts(replace(list_facts(plan, None, clamp=False, errors=False), counted_groups=()))


def note_errors(plan: QueryPlan) -> list[str]:
    """Return sentences on an answer's errors that follow from the query alone (E1, E2)."""
    facts = list_facts(plan, None, clamp=False, errors=True)
    found = []
    if facts.selected is not None:
        found.append(
            "The query chooses rows by noisy numbers, so every 95 % error is widened to hold for all "
            f"{facts.selected:,} numbers at once."
        )
    if any(estimate.counted is not None for block in plan.blocks for estimate in block.estimates):
        found.append(
            f"Where too few {facts.called.people} are left to divide by, an average or another quotient is NULL."
        )
    return [*found, *(f"{name} has no error: it is computed from several groups." for name in facts.without_error)]


def _write(number: Fraction) -> str:
    if number.denominator == 1:
        return f"{number.numerator:,}"
    return f"{float(number):,.12g}"


def explain_with_errors(plan: QueryPlan) -> Explanation:
    """Return what a plan measures, with notes on what does not count, and on errors that cannot be told beforehand."""
    explanation = explain_plan(plan)
    return replace(explanation, notes=(*explanation.notes, *note_public_facts(plan), *note_errors(plan)))
