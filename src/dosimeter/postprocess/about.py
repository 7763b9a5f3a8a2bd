"""The public facts that a reader of released numbers needs: what was cut, rounded, added up, and what has no error.

Facts first, sentences from them. Takes a plan and an answer; never touches data.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from dosimeter.measures import Argument
from dosimeter.planning import QueryPlan
from dosimeter.postprocess.answers import Assembled
from dosimeter.postprocess.errors import chooses_rows, count_selectable

NOT_COMPUTED = (
    "What the query does with the released numbers failed on these numbers, so the numbers themselves are the answer."
)


@dataclass(frozen=True, slots=True)
class Bounded:
    """A value that is cut to its bounds, and rounded to multiples of ``step`` where it is no whole number."""

    label: str
    lower: Fraction
    upper: Fraction
    step: Fraction | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What is public about an answer besides its numbers.

    ``most_rows``: how many rows of each individual count; None where everybody has one. ``selected``: of how many
    numbers the shown ones were chosen; None where none were. ``without_error``: columns that read other groups than
    their own. ``negative``: some count came out below 0.
    """

    most_rows: int | None
    bounded: tuple[Bounded, ...]
    grouped: bool
    totals: bool
    selected: int | None
    without_error: tuple[str, ...]
    untold: bool
    negative: bool
    clamped: bool
    failed: bool


def list_facts(plan: QueryPlan, answer: Assembled, *, clamp: bool, errors: bool) -> Facts:
    """Return the facts of an answer. ``errors``: whether the reader is told errors, which algorithm 1 withholds."""
    schema = plan.table_schema
    blocks = plan.blocks
    counts = dict.fromkeys(
        output.name for block in blocks for output in block.outputs if _counts(block, output.formula)
    )
    arguments = [argument for block in blocks for argument in block.arguments]
    found = [_bound(argument) for argument in arguments if argument.role == "value" and argument.width > 0]
    return Facts(
        most_rows=None if schema.unit == "row" else schema.max_rows_per_unit,
        bounded=tuple(dict.fromkeys(each for each in found if "*" not in each.label)),
        grouped=any(block.groups for block in blocks),
        totals=any(block.sets for block in blocks),
        selected=count_selectable(plan) if errors and not answer.failed and chooses_rows(plan) else None,
        without_error=tuple(
            output.name for output in plan.outputs if errors and output.is_aggregate and output.formula is None
        ),
        untold=answer.untold,
        negative=any(isinstance(row.get(name), int) and row[name] < 0 for row in answer.rows for name in counts),  # type: ignore[operator]
        clamped=clamp,
        failed=answer.failed,
    )


def _counts(plan: QueryPlan, formula: exp.Expression | None) -> bool:
    if not isinstance(formula, exp.Column) or formula.name[0] != "e":
        return False
    return plan.estimates[int(formula.name[1:])].whole


def _bound(argument: Argument) -> Bounded:
    step = None if argument.unit == 1 else argument.unit
    return Bounded(argument.label, argument.lower * argument.unit, argument.upper * argument.unit, step)


def word_facts(facts: Facts) -> tuple[str, ...]:
    """Return the facts as sentences."""
    found = []
    if facts.most_rows is not None:
        rows = "1 row" if facts.most_rows == 1 else f"{facts.most_rows:,} rows"
        found.append(f"At most {rows} of each individual count{'s' if facts.most_rows == 1 else ''}.")
    for each in facts.bounded:
        low, high = _write(each.lower), _write(each.upper)
        found.append(f"{each.label}: values below {low} count as {low}, and above {high} as {high}.")
        if each.step is not None:
            found.append(f"{each.label}: values are rounded to multiples of {_write(each.step)}.")
    if facts.grouped:
        found.append("Groups are the declared ones: rows of any other are in none of them.")
    if facts.totals:
        found.append(
            "Totals add up the noisy numbers of their groups: they agree with these, and their errors are larger. They "
            "leave out rows of no declared group."
        )
    if facts.untold:
        found.append("NULL in place of an average or another quotient: too few people to tell.")
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


def _write(number: Fraction) -> str:
    if number.denominator == 1:
        return f"{number.numerator:,}"
    return f"{float(number):,.12g}"
