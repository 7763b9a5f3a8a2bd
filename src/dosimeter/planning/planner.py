"""Plan a query. Takes SQL and a Schema; gives a QueryPlan. Never opens a connection.

A query has four stages, planned from the inside out: the rows (FROM, JOIN, WHERE, and subqueries that treat each row
by itself), what is measured over them (GROUP BY and aggregates), and everything after the noise (HAVING, windows,
ORDER BY, LIMIT and the SELECTs around). What is not understood is refused by name.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dosimeter.errors import OptionError, QueryError
from dosimeter.measures import Measure
from dosimeter.planning.after import MeasuringSelect, OuterSelect, Relation, is_measured, try_after
from dosimeter.planning.aggregates import Aggregates
from dosimeter.planning.groups import Groups, plan_groups
from dosimeter.planning.joins import list_identifying, resolve_joins, write_commas_as_joins
from dosimeter.planning.parsing import NO_SUBQUERIES, TOO_DEEP, parse_select
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.planning.singling_out import find_singled_out
from dosimeter.planning.stages import Scoped, Stage, find_stage, list_sources, list_subqueries, read_scope
from dosimeter.planning.subqueries import inline_subqueries
from dosimeter.schema import Schema, digest_schema
from dosimeter.sql import Scope, check_condition, clause_of, expect_only, refusal

MAX_NUMBERS = 50_000

_CLAUSES = {
    "laterals": "LATERAL is not supported: ask one table.",
    "distinct": "SELECT DISTINCT is not supported. Use GROUP BY, or COUNT(DISTINCT column).",
    "windows": "WINDOW is not supported. Use GROUP BY.",
    "qualify": "QUALIFY is not supported. Use HAVING.",
    "sample": "Sampling is not supported: the risk is that of the whole table.",
    "offset": "OFFSET is not supported. Use ORDER BY … LIMIT ….",
    "into": "SELECT INTO is not supported: queries only read.",
    "locks": "Locking clauses are not supported: queries only read.",
}
_READ = ("expressions", "from_", "joins", "where", "group", "having", "order", "limit")
_AFTER = ("qualify", "offset", "distinct", "windows")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options that decide a plan. A sensitivity given by hand and observed groups are for study (S7, C8)."""

    groups: Groups = "declared"
    min_rows: int | None = None
    sensitivity: float | None = None

    def __post_init__(self) -> None:
        if self.min_rows is not None and self.min_rows < 1:
            raise OptionError("--min-rows must be at least 1.")
        if self.sensitivity is not None and not 0.0 < self.sensitivity < float("inf"):
            raise OptionError("--sensitivity must be a positive number.")


def plan_query(sql: str, schema: Schema, options: PlanOptions | None = None) -> QueryPlan:
    """Return the plan of one query, or raise a QueryError that names the clause."""
    try:
        return _Planner(sql, schema, options or PlanOptions()).plan()
    except RecursionError:
        raise QueryError(TOO_DEEP) from None


@dataclass(slots=True)
class _Planner:
    """Plan one query from the inside out. ``measured``: the SELECT that measures, once it was met, and its plan."""

    sql: str
    declared: Schema
    options: PlanOptions
    measured: tuple[str, QueryPlan, Relation] | None = field(default=None)

    def plan(self) -> QueryPlan:
        """Return the plan: what is measured, and what happens to the released numbers."""
        parsed = parse_select(self.sql)
        relation = self._relation(Scoped(parsed, {}), nested=False)
        assert self.measured is not None
        _, plan, inner = self.measured
        if relation is inner:
            return plan
        outer = parsed.sql(dialect="duckdb", comments=False)
        digest = hashlib.sha256(json.dumps([plan.digest, outer]).encode()).hexdigest()
        return _complete(replace(plan, outputs=relation.outputs(), after=relation.after(), digest=digest))

    def _relation(self, query: Scoped, *, nested: bool) -> Relation:
        """Return a query over released tables: the SELECT that measures, or a SELECT around it."""
        query = read_scope(query)
        if find_stage(query, self.declared, nested=nested) is not Stage.AFTER:
            return self._measure(query)
        sources = {name: self._relation(source, nested=True) for name, source in list_sources(query).items()}
        inner = {at: self._relation(each, nested=True) for at, each in list_subqueries(query).items()}
        return OuterSelect(sources, self.declared, inner).write(query.select)

    def _measure(self, query: Scoped) -> Relation:
        select = query.with_rows(self.declared)
        text = select.sql(dialect="duckdb", comments=False)
        if self.measured is None:
            plan, relation = _plan_measured(self.sql, select, self.declared, self.options)
            self.measured = (text, plan, relation)
        elif self.measured[0] != text:
            raise refusal(
                query.select,
                "The query groups the table in two different ways. Ask two queries, or group once in a WITH and use "
                "it twice.",
            )
        return self.measured[2]


def _plan_measured(sql: str, written: exp.Select, declared: Schema, options: PlanOptions) -> tuple[QueryPlan, Relation]:
    """Return the plan of the SELECT that measures, and the same SELECT over the released table."""
    select = write_commas_as_joins(inline_subqueries(written, declared.columns))
    check_shape(select, *(_AFTER if is_measured(select) else ()))
    sources = resolve_joins(select, resolve_table(select, declared))
    scope, schema = sources.scope, sources.schema
    if options.groups == "observed" and schema.unit != "row":
        raise OptionError("Observed groups reproduce the paper, where everybody has one row. Use declared groups.")
    where = select.args.get("where")
    condition = check_condition(where.this, scope) if where else None
    grouping = plan_groups(select, scope, options.groups)
    groups, cells = grouping.groups, grouping.cells
    aggregates = Aggregates(
        schema=schema,
        scope=scope,
        min_rows=options.min_rows,
        direct=options.sensitivity is not None,
        groups=cells,
    )
    relation = MeasuringSelect(scope, groups, aggregates, grouping.rows, bool(grouping.sets)).write(select)
    measured = aggregates.finish()
    if grouping.sets:
        _require_sums(select, measured.measures)
    if cells * len(measured.measures) > MAX_NUMBERS:
        raise QueryError(
            f"The query measures {len(measured.measures):,} numbers in each of {cells:,} groups; at most "
            f"{MAX_NUMBERS:,} in all are supported. Ask for fewer aggregates or fewer groups."
        )
    plan = QueryPlan(
        sql=sql,
        table=schema.table,
        columns=_columns_used(select, scope),
        where=condition,
        groups=groups,
        arguments=measured.arguments,
        measures=measured.measures,
        estimates=measured.estimates,
        outputs=relation.outputs(),
        after=relation.after(),
        declared=options.groups == "declared",
        hand_sensitivity=options.sensitivity,
        schema=schema,
        digest=_digest_plan(select, declared, options),
        joins=sources.joins,
        sets=grouping.sets,
    )
    return _complete(replace(plan, singled_out=find_singled_out(select, scope, list_identifying(plan)))), relation


def _require_sums(select: exp.Select, measures: tuple[Measure, ...]) -> None:
    """Refuse totals of what does not add up: a median of two groups is not the sum of their medians."""
    other = next((measure for measure in measures if not measure.additive), None)
    if other is not None:
        raise refusal(
            select.args["group"],
            f"{other.label} does not add up over groups, so ROLLUP, CUBE and GROUPING SETS cannot total it. Ask for it "
            "in a query of its own.",
        )


def _complete(plan: QueryPlan) -> QueryPlan:
    """Return the plan once it was tried what happens after the noise."""
    try_after(plan.after, plan.groups, [estimate.whole for estimate in plan.estimates], totals=bool(plan.sets))
    return plan


# ---------------------------------------------------------------- shape


def check_shape(select: exp.Select, *more: str) -> None:
    """Refuse a clause that is not read; ``more`` are those that are read beside the usual ones."""
    for name, value in select.args.items():
        if name in (*_READ, *more) or not value:
            continue
        message = _CLAUSES.get(name, f"The clause {name.strip('_').upper()} is not supported.")
        raise QueryError(message, clause=clause_of(value) if isinstance(value, exp.Expression) else None)


def resolve_table(select: exp.Select, schema: Schema) -> Scope:
    origin = select.args.get("from_")
    if origin is None:
        raise QueryError(f"The query has no FROM. The table is {schema.table}.")
    table = origin.this
    if isinstance(table, exp.Subquery):
        raise refusal(table, NO_SUBQUERIES)
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise refusal(table, f"Only a plain table can stand in FROM. The table is {schema.table}.")
    if table.args.get("joins"):
        raise refusal(table, f"{clause_of(table)}: write joins one after the other, without parentheses.")
    expect_only(table, "this", "db", "alias")
    written = f"{table.db}.{table.name}" if table.db else table.name
    if written.lower() != schema.table.lower():
        raise refusal(table, f"There is no table {written}. The table is {schema.table}.")
    alias = table.args.get("alias")
    if alias is not None:
        expect_only(alias, "this")
    names = {table.name.lower(), *([alias.name.lower()] if alias is not None else [])}
    return Scope(schema=schema, names=frozenset(names))


# ---------------------------------------------------------------- identity


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
