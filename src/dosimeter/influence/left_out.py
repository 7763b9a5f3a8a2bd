"""Find what stands between the data and the measured numbers: rows that are cut, values that are clamped (E4). Private.

Where something is, the same query is measured once more without any of it: every row counts, and bounds are as wide as
the data. That is the plain answer, as the SQL was written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dosimeter.engines import read_values
from dosimeter.errors import DataError, InputError
from dosimeter.html import Private
from dosimeter.influence.measuring import measure_rows
from dosimeter.json_values import JsonObject
from dosimeter.planning import Group, PlanOptions, QueryPlan, list_read, list_stages, list_trees, plan_query
from dosimeter.schema import Column, ColumnType, JoinTable, Schema
from dosimeter.sql import column_tree, is_not_null, literal, select_from

if TYPE_CHECKING:
    from dosimeter.influence.measured_rows import DeclaredTables
    from dosimeter.influence.profiles import Profile
    from dosimeter.influence.rows.row_profile import Measured


@dataclass(frozen=True, slots=True, repr=False)
class Beyond(Private):
    """The values of a column that its declaration excludes: how many of its values, and the smallest and largest.

    ``low`` and ``high`` are of all its values; None for a column that declares a list instead of bounds.
    """

    values: int
    of: int
    low: Any = None
    high: Any = None

    @property
    def share(self) -> float:
        return self.values / self.of if self.of else 0.0


@dataclass(frozen=True, slots=True, repr=False)
class LeftOut(Private):
    """What of the data is not measured as it is. ``rows``: how many rows do not count, ``all_rows``: of how many.

    ``unowned``: how many of these are nobody's, since they have no value in the unit column; all others are cut.
    ``most``: how many rows of one individual count; None where several private tables are read, each with its own
    limit. ``clamped``: the columns that aggregates read and that have values beyond what is declared. ``people``: how
    many individuals meet the WHERE in a group that nobody declared; ``all_people``: of how many that meet it.
    ``in_totals``: whether the answer adds groups up, where these people would count. ``undeclared_people``: how many
    individuals there are more than declared. ``unread``: a column could not be looked at, so that how far the numbers
    are off is unknown.
    """

    rows: int
    all_rows: int
    clamped: Mapping[str, Beyond]
    people: int
    all_people: int
    in_totals: bool = False
    undeclared_people: int = 0
    unowned: int = 0
    most: int | None = None
    unread: bool = False

    @property
    def cut_share(self) -> float:
        return self.rows / self.all_rows if self.all_rows else 0.0

    @property
    def outside_share(self) -> float:
        return self.people / self.all_people if self.all_people else 0.0

    @property
    def moves_numbers(self) -> bool:
        """Return whether some number that is measured can differ from the plain one."""
        outside = self.people and self.in_totals
        return bool(self.rows or self.clamped or outside or self.undeclared_people or self.unread)

    def describe(self) -> JsonObject:
        """Return the counts as JSON documents have them."""
        return {
            "cut": {"rows": self.rows, "share": self.cut_share},
            "clamped": {name: {"values": each.values, "share": each.share} for name, each in self.clamped.items()},
            "outside_groups": {"people": self.people, "share": self.outside_share},
        }


def find_left_out(plan: QueryPlan, tables: DeclaredTables, profile: Profile, n: int, *, drafted: bool) -> LeftOut:
    """Return what the plan leaves out. Each table and column is looked at once per state of the data.

    ``n``: how many individuals the answer is promised for. ``drafted``: bounds were read off these data, so that no
    value is beyond them.
    """
    cut = [tables.count_uncounted(table) for table in (None, *_list_private(plan))]
    clampable: dict[str, Beyond | None] = {}
    for name, table, column in () if drafted else _list_clampable(plan):
        try:
            clampable[name] = tables.remember(("beyond", name), partial(_find_beyond, tables, table, column))
        except DataError:  # a release by the noisy test comes here, too, and must not stop the dataset (N4)
            clampable[name] = None
    return LeftOut(
        rows=sum(beyond + unowned for beyond, unowned, _ in cut),
        all_rows=sum(rows for _, _, rows in cut),
        clamped={name: found for name, found in clampable.items() if found is not None and found.values},
        people=profile.undeclared,
        all_people=profile.undeclared + profile.matched,
        in_totals=any(block.sets for block in plan.blocks)
        or any(each.is_aggregate and each.formula is None for each in plan.outputs),
        undeclared_people=max(0, tables.count_people() - n),
        unowned=sum(unowned for _, unowned, _ in cut),
        most=plan.table_schema.max_rows_per_unit if len(cut) == 1 else None,
        unread=None in clampable.values(),
    )


def _list_private(plan: QueryPlan) -> list[JoinTable]:
    """Return the private tables besides the first that the plan reads rows of."""
    stages = list(list_stages(plan))
    joins = [*plan.joins, *(join for stage in stages for rows in stage.sources() for join in rows.joins)]
    read = [*(join.table for join in joins), *(rows.table for stage in stages for rows in stage.sources())]
    declared = {} if plan.declared_schema is None else plan.declared_schema.tables
    names = dict.fromkeys(table.name for table in read if table is not None and not table.public)
    return [declared[name] for name in names if name in declared and declared[name].unit is not None]


def _list_clampable(plan: QueryPlan) -> Iterator[tuple[str, JoinTable | None, Column]]:
    """Yield the columns with bounds or a list that aggregates read: each by its name, with its table.

    What a condition alone reads is neither clamped nor left out.
    """
    schema = plan.declared_schema or plan.schema
    trees = [argument.tree for block in plan.blocks for argument in block.arguments if argument.role != "presence"]
    tested = [rows.where for stage in list_stages(plan) for rows in stage.sources()]  # a WHERE reads values as they are
    trees += [tree for _, tree in list_trees(plan) if not any(tree is each for each in tested)]
    for name in dict.fromkeys(node.name for tree in trees for node in list_read(tree)):
        table, column = None, schema.columns.get(name)
        if column is None and "." in name:
            table = schema.tables.get(name.split(".", 1)[0])
            column = None if table is None else table.columns.get(name.split(".", 1)[1])
        if column is not None and (column.bounds is not None or column.values is not None):
            yield name, table, column


def _find_beyond(tables: DeclaredTables, table: JoinTable | None, column: Column) -> Beyond:
    """Return which values of a column its declaration excludes, by one query over the column."""
    value, engine = column_tree(column.name), tables.engine
    if column.bounds is not None:
        low, high = map(literal, column.bounds)
        within: exp.Expression = exp.Between(this=value.copy(), low=low, high=high)
    else:
        within = exp.In(this=value.copy(), expressions=[exp.Literal.string(text) for text in column.values or ()])
    outside = exp.Case(ifs=[exp.If(this=exp.Not(this=exp.Paren(this=within)), true=exp.Literal.number(1))])
    shown = [exp.alias_(exp.Count(this=value.copy()), "present"), exp.alias_(exp.Count(this=outside), "beyond")]
    if column.bounds is not None:
        shown += [exp.alias_(exp.Min(this=value.copy()), "low"), exp.alias_(exp.Max(this=value.copy()), "high")]
    relation = engine.relation() if table is None else engine.joined(table)
    found = engine.fetch(select_from(relation, *shown, where=is_not_null(value.copy())))
    row = {name: read_values(found.column(name))[0] for name in found.column_names}
    return Beyond(int(row["beyond"] or 0), int(row["present"] or 0), row.get("low"), row.get("high"))


# ---------------------------------------------------------------- the plain answer


def measure_plain(plan: QueryPlan, tables: DeclaredTables, left_out: LeftOut) -> tuple[QueryPlan, Measured] | None:
    """Return the plan that leaves nothing out, and its exact numbers; None where these cannot be had.

    Order statistics are measured as they are, and groups are the plan's own, whatever columns they read. What is
    computed from several groups also reads those that nobody declared.
    """
    delta = None if plan.threshold is None else plan.threshold.delta
    options = PlanOptions(groups="elsewhere" if delta is None else "thresholded", group_delta=delta, quantiles="noise")
    if left_out.unread:
        return None
    try:
        wide = plan_query(plan.sql, _widen(plan, tables, left_out), options)
        if delta is None:
            wide = _take_groups(wide, plan, declared=not left_out.in_totals)
        return wide, measure_rows(wide, tables.find_rows(wide, whole=True))
    except (InputError, ArithmeticError, ValueError):  # then it is unknown, and never an incident
        return None


def _take_groups(wide: QueryPlan, plan: QueryPlan, *, declared: bool) -> QueryPlan:
    """Return the plan with the groups of ``plan`` in each block: the declared ones, or all that the data have."""

    def take(groups: Sequence[Group]) -> tuple[Group, ...]:
        return tuple(each if declared else replace(each, values=None) for each in groups)

    further = tuple(
        replace(block, groups=take(own.groups)) for block, own in zip(wide.further, plan.further, strict=False)
    )
    return replace(wide, groups=take(plan.groups), further=further, declared=declared)


def _widen(plan: QueryPlan, tables: DeclaredTables, left_out: LeftOut) -> Schema:
    """Return the schema with which nothing is left out: as many rows each, and bounds as wide, as the data have.

    With undeclared groups nobody is declared: how many groups the data could have is no matter, since they are read.
    """
    schema = plan.declared_schema or plan.schema
    n = None if plan.threshold else schema.individuals

    def widen(column: Column, name: str) -> Column:
        found = left_out.clamped.get(name)
        return column if found is None else _widen_column(column, found)

    joined = {
        name: replace(
            table,
            max_rows_per_unit=max(table.max_rows_per_unit, tables.most_rows(table)),
            columns={each: widen(column, f"{name}.{each}") for each, column in table.columns.items()},
        )
        for name, table in schema.tables.items()
        if not table.public
    }
    return replace(
        schema,
        columns={name: widen(column, name) for name, column in schema.columns.items()},
        max_rows_per_unit=max(schema.max_rows_per_unit, tables.most_rows(None)),
        individuals=None if n is None else max(n, tables.count_people()),
        tables={**schema.tables, **joined},
    )


def _widen_column(column: Column, found: Beyond) -> Column:
    """Return the column with bounds that hold all its values, or with any text for a list that does not."""
    if column.bounds is None:
        return replace(column, type=ColumnType.TEXT, values=None)
    low, high = column.bounds
    if not isinstance(low, Decimal) or not isinstance(high, Decimal):
        return replace(column, bounds=(min(low, found.low), max(high, found.high)))
    step = Fraction(column.resolution or 1)
    ends = math.floor(Fraction(found.low) / step) * step, math.ceil(Fraction(found.high) / step) * step
    return replace(column, bounds=(min(low, _as_decimal(ends[0])), max(high, _as_decimal(ends[1]))))


def _as_decimal(number: Fraction) -> Decimal:
    """Return a multiple of a decimal step as a decimal with all its digits."""
    return Decimal(number.numerator) / Decimal(number.denominator)
