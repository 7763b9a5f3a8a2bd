"""Plan a query. Takes SQL and a Schema; gives a QueryPlan. Never opens a connection.

``PASSES`` is the order of the work. What no pass understands is refused by name.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dosimeter.errors import OptionError, QueryError
from dosimeter.options import Groups, check_option
from dosimeter.planning.aggregates import Aggregates, Collected
from dosimeter.planning.formulas import Formulas
from dosimeter.planning.groups import plan_groups, whole_number
from dosimeter.planning.joins import Sources, list_identifying, resolve_joins, resolve_table
from dosimeter.planning.parsing import TOO_DEEP, check_shape, parse_select
from dosimeter.planning.query_plan import Ordering, Output, QueryPlan
from dosimeter.planning.singling_out import find_singled_out
from dosimeter.planning.subqueries import inline_subqueries
from dosimeter.schema import Schema, digest_schema
from dosimeter.sql import Scope, check_condition, expect_only, refusal

MAX_NUMBERS = 50_000


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options that decide a plan. A sensitivity given by hand and observed groups are for study (S7, C8)."""

    groups: Groups = "declared"
    min_rows: int | None = None
    sensitivity: float | None = None

    def __post_init__(self) -> None:
        for name in ("groups", "min_rows", "sensitivity"):
            check_option(name, getattr(self, name))


def plan_query(sql: str, schema: Schema, options: PlanOptions | None = None) -> QueryPlan:
    """Return the plan of one query, or raise a QueryError that names the clause."""
    try:
        draft = Draft(sql, schema, options or PlanOptions(), parse_select(sql))
        for step in PASSES:
            step(draft)
        return draft.finish()
    except RecursionError:
        raise QueryError(TOO_DEEP) from None


@dataclass(slots=True)
class Draft:
    """A plan in the making: each pass reads what the passes before it wrote, and writes its own part."""

    sql: str
    declared: Schema
    options: PlanOptions
    select: exp.Select
    sources: Sources = field(init=False)
    where: exp.Expression | None = None
    formulas: Formulas = field(init=False)
    outputs: tuple[Output, ...] = ()
    having: exp.Expression | None = None
    order: tuple[Ordering, ...] = ()
    limit: int | None = None
    collected: Collected = field(init=False)

    def clause(self, name: str) -> exp.Expression | None:
        """Return a clause of the query; None where it has none."""
        found: exp.Expression | None = self.select.args.get(name)
        return found

    def finish(self) -> QueryPlan:
        """Return the plan, with the columns that it tests and that identify people."""
        schema, scope = self.sources.schema, self.sources.scope
        plan = QueryPlan(
            sql=self.sql,
            table=schema.table,
            columns=_columns_used(self.select, scope),
            where=self.where,
            groups=self.formulas.groups,
            arguments=self.collected.arguments,
            measures=self.collected.measures,
            estimates=self.collected.estimates,
            outputs=self.outputs,
            having=self.having,
            order=self.order,
            limit=self.limit,
            declared=self.options.groups == "declared",
            hand_sensitivity=self.options.sensitivity,
            schema=schema,
            digest=_digest_plan(self.select, self.declared, self.options),
            joins=self.sources.joins,
        )
        return replace(plan, singled_out=find_singled_out(self.select, scope, list_identifying(plan)))


# ---------------------------------------------------------------- the passes


def _write_subqueries_in(draft: Draft) -> None:
    draft.select = inline_subqueries(draft.select, draft.declared.columns)


def _check_clauses(draft: Draft) -> None:
    check_shape(draft.select)


def _resolve_tables(draft: Draft) -> None:
    draft.sources = resolve_joins(draft.select, resolve_table(draft.select, draft.declared))
    if draft.options.groups == "observed" and draft.sources.schema.unit != "row":
        raise OptionError("Observed groups reproduce the paper, where everybody has one row. Use declared groups.")


def _read_where(draft: Draft) -> None:
    clause = draft.clause("where")
    draft.where = None if clause is None else check_condition(clause.this, draft.sources.scope)


def _read_groups(draft: Draft) -> None:
    schema, scope, options = draft.sources.schema, draft.sources.scope, draft.options
    groups, kinds = plan_groups(draft.select, scope, options.groups)
    aggregates = Aggregates(
        schema=schema,
        scope=scope,
        min_rows=options.min_rows,
        by_hand=options.sensitivity is not None,
        groups=math.prod(len(group.values) for group in groups if group.values is not None),
    )
    draft.formulas = Formulas(scope, groups, kinds, aggregates)


def _read_select_list(draft: Draft) -> None:
    draft.outputs = draft.formulas.outputs(draft.select)


def _read_having(draft: Draft) -> None:
    clause = draft.clause("having")
    draft.having = None if clause is None else draft.formulas.condition(clause.this)


def _read_order_by(draft: Draft) -> None:
    clause = draft.clause("order")
    draft.order = () if clause is None else draft.formulas.ordering(clause)


def _read_limit(draft: Draft) -> None:
    clause = draft.clause("limit")
    draft.limit = None if clause is None else _plan_limit(clause)


def _collect_measures(draft: Draft) -> None:
    aggregates = draft.formulas.aggregates
    draft.collected = aggregates.finish()
    measures = len(draft.collected.measures)
    if aggregates.groups * measures > MAX_NUMBERS:
        raise QueryError(
            f"The query measures {measures:,} numbers in each of {aggregates.groups:,} groups; at most "
            f"{MAX_NUMBERS:,} in all are supported. Ask for fewer aggregates or fewer groups."
        )


PASSES: tuple[Callable[[Draft], None], ...] = (
    _write_subqueries_in,
    _check_clauses,
    _resolve_tables,
    _read_where,
    _read_groups,
    _read_select_list,  # every aggregate becomes measures and an estimate; so it does in HAVING and ORDER BY
    _read_having,
    _read_order_by,
    _read_limit,
    _collect_measures,  # only now is it known what every aggregate reads
)
"""The passes over a parsed SELECT, in order."""


# ---------------------------------------------------------------- details of a plan


def _plan_limit(clause: exp.Expression) -> int:
    options = clause.args.get("limit_options")
    literal = clause.args.get("expression")
    rows = whole_number(literal) if isinstance(literal, exp.Expression) else None
    if not isinstance(clause, exp.Limit) or options is not None or rows is None:
        raise refusal(clause, "LIMIT takes a whole number.")
    expect_only(clause, "expression")
    return rows


def _columns_used(select: exp.Select, scope: Scope) -> tuple[str, ...]:
    used = {scope.resolve(node).name for node in select.find_all(exp.Column) if _is_column(node, scope)}
    return tuple(name for name in scope.schema.columns if name in used)


def _is_column(node: exp.Column, scope: Scope) -> bool:
    """Return whether a name is a column of the table; in GROUP BY, HAVING and ORDER BY it may be an alias."""
    try:
        scope.resolve(node)
    except QueryError:
        return False
    return True


def _digest_plan(select: exp.Select, schema: Schema, options: PlanOptions) -> str:
    """Return a digest of what is measured: the query as parsed (without layout and comments) and its facts."""
    content = {
        "query": select.sql(dialect="duckdb", comments=False),
        "schema": digest_schema(schema),
        "groups": options.groups,
        "min_rows": options.min_rows,
        "sensitivity": options.sensitivity,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
