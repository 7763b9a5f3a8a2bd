"""Tell how many individuals were cut, and how many clamped: two more noisy numbers of the whole query (E5).

Takes a finished plan; gives it with one block more, whose measures count individuals. Knows no data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dosimeter.errors import OptionError
from dosimeter.measures import Argument, Count, CountIndividuals, Measure, SensitivityFacts, SingleMeasure
from dosimeter.planning.query_plan import Block, QueryPlan, Told
from dosimeter.planning.rows.steps import find_clamped
from dosimeter.problems import Option, leave_out
from dosimeter.sql import case, column_tree, conjunction, connect, constant_tree, is_declared, is_not_null, wrap

CUT = "dosimeter_cut"
"""The column of the rows that a plan measures that says whether one of their individual's cut rows can matter."""

_LABELS = {"cut": "individuals with a cut row", "clamped": "individuals with a clamped value"}


def tell_cut(plan: QueryPlan, share: float) -> QueryPlan:
    """Return the plan with the noisy numbers that tell how many individuals were cut, and how many clamped (E5).

    ``share``: the share of ε that both get, half of it each. What public facts make 0 is not measured: nobody is cut
    where rows are individuals, and nobody clamped where no aggregate reads values with bounds. Raises OptionError for a
    query that this is not supported for, by SQL and schema alone.
    """
    _require_tellable(plan)
    parts = [(_find_within(block), _find_clamped(block)) for block in plan.blocks]
    within = _either([condition for condition, _ in parts])
    clamped = [conjunction(test for test in part if test is not None) for part in parts if part[1] is not None]
    found: dict[str, exp.Expression] = {}
    if plan.schema.unit != "row":
        found["cut"] = exp.column(CUT)
    if clamped:
        found["clamped"] = connect([wrap(test) for test in clamped if test is not None], exp.Or)
    told = Told(share, tuple(found), within)
    if not found:
        return replace(plan, told=told)
    arguments = tuple(_count_where(plan, test, _LABELS[name]) for name, test in found.items())
    facts = SensitivityFacts(plan.schema.max_rows_per_unit, plan.schema.individuals, 1)
    measures = tuple(_measure(argument, facts, at) for at, argument in enumerate(arguments))
    where = within if within is None or "cut" not in found else connect([within, exp.column(CUT)], exp.Or)
    half = Fraction(str(share)) / 2
    estimates = [SingleMeasure((at,), each.label, integer=True, lower=Fraction(0)) for at, each in enumerate(measures)]
    block = Block(where, (), arguments, measures, tuple(estimates), share=half)
    return replace(plan, further=(*plan.further, block), told=told)


def can_tell(plan: QueryPlan) -> bool:
    """Return whether ``tell_cut`` takes a plan: that SQL and schema alone decide."""
    return next(_list_obstacles(plan), None) is None


def _require_tellable(plan: QueryPlan) -> None:
    for words in _list_obstacles(plan):
        raise OptionError(Option("tell_cut"), words, leave_out("tell_cut"))


def _list_obstacles(plan: QueryPlan) -> Iterator[str]:
    """Yield why it cannot be told of a plan who was cut: its rows or groups are not the schema's first table's own."""
    if plan.person is not None:
        yield " does not go with a query that first computes something of each individual."
    if plan.joins:
        yield " does not go with a join: it tells of the rows of one table."
    if not plan.declared:
        yield " goes with declared groups only."
    if plan.hand_sensitivity is not None:
        yield " does not go with a sensitivity given by hand."


def _find_within(block: QueryPlan) -> exp.Expression | None:
    """Return the condition that a row meets the WHERE of a block and is in a declared group; None for every row."""
    declared = (is_declared(group.tree, group.values or ()) for group in block.groups)
    return conjunction([*([] if block.where is None else [block.where.copy()]), *declared])


def _find_clamped(block: QueryPlan) -> exp.Expression | None:
    """Return the condition that a value which an aggregate of a block reads is clamped; None if none can be."""
    tests = []
    for argument in block.arguments:
        outside = find_clamped(argument.tree) if argument.role == "value" else None
        if outside is not None:
            read = is_not_null(wrap(argument.tree.copy()))  # of a product with NULL, the other factor is not read
            tests.append(exp.And(this=exp.Paren(this=outside), expression=read))
    return connect(tests, exp.Or) if tests else None


def _either(conditions: Sequence[exp.Expression | None]) -> exp.Expression | None:
    """Return the condition that one of these holds; None if one of them is None, which always holds."""
    distinct: list[exp.Expression] = []
    for condition in conditions:
        if condition is None:
            return None
        distinct += [] if condition in distinct else [condition]
    return connect(distinct, exp.Or)


def _count_where(plan: QueryPlan, test: exp.Expression, label: str) -> Argument:
    """Return what a count of the individuals with a row that meets ``test`` reads: their unit, and otherwise NULL."""
    if plan.schema.unit == "row":
        return Argument("presence", case((test, constant_tree(1))), label)
    return Argument("distinct", case((test, column_tree(plan.schema.unit))), label)


def _measure(argument: Argument, facts: SensitivityFacts, position: int) -> Measure:
    """Return the measure that counts individuals, each of whom moves it by at most 1."""
    kind = Count if argument.is_presence else CountIndividuals
    return replace(kind.over(argument, argument.label, facts), position=position)
