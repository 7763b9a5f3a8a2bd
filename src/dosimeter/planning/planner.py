"""Plan a query. Takes SQL and a Schema; gives a QueryPlan. Never opens a connection.

A query has stages, planned from the inside out: the rows (FROM, JOIN, WHERE, and subqueries that treat each row by
itself), what is measured over them (GROUP BY and aggregates), and everything after the noise (HAVING, windows, ORDER
BY, LIMIT and the SELECTs around). ``PASSES`` is the order of the work on the SELECT that measures. What no pass
understands is refused by name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dosimeter.errors import OptionError, QueryError
from dosimeter.measures import Measure
from dosimeter.options import Groups, check_option
from dosimeter.planning.after import MeasuringSelect, OuterSelect, Relation, is_measured, try_after
from dosimeter.planning.aggregates import Aggregates, Collected
from dosimeter.planning.groups import Grouping, plan_groups
from dosimeter.planning.joins import Sources, list_identifying, resolve_joins, resolve_table, write_commas_as_joins
from dosimeter.planning.parsing import TOO_DEEP, check_shape, parse_select
from dosimeter.planning.person_levels import PersonLevels
from dosimeter.planning.person_stage import PersonStage
from dosimeter.planning.query_plan import QueryPlan, Threshold
from dosimeter.planning.singling_out import find_singled_out
from dosimeter.planning.stages import Scoped, Stage, find_stage, list_sources, list_subqueries, read_scope
from dosimeter.planning.subqueries import inline_subqueries
from dosimeter.planning.thresholding import add_threshold, check_thresholding, limit_observed
from dosimeter.schema import Schema, digest_schema
from dosimeter.sql import Scope, check_condition, conjunction, is_there, refusal

MAX_NUMBERS = 50_000
_AFTER = ("qualify", "offset", "distinct", "windows")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options that decide a plan. A sensitivity given by hand and observed groups are for study (S7, C8)."""

    groups: Groups = "declared"
    min_rows: int | None = None
    sensitivity: float | None = None
    group_delta: float | None = None

    def __post_init__(self) -> None:
        for name in ("groups", "min_rows", "sensitivity", "group_delta"):
            check_option(name, getattr(self, name))
        check_thresholding(self.groups, self.group_delta, self.min_rows, self.sensitivity)


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
    measured: tuple[exp.Select, QueryPlan, Relation] | None = field(default=None)

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
        if self.measured is None:
            draft = Draft(self.sql, self.declared, self.options, select.copy(), select)
            for step in PASSES:
                step(draft)
            self.measured = (select, draft.finish(), draft.relation)
        elif self.measured[0] != select:
            raise refusal(
                query.select,
                "The query groups the table in two different ways. Ask two queries, or group once in a WITH and use "
                "it twice.",
            )
        return self.measured[2]


@dataclass(slots=True)
class Draft:
    """A plan in the making: each pass reads what the passes before it wrote, and writes its own part.

    ``written``: the SELECT as it was given, before any pass.
    """

    sql: str
    declared: Schema
    options: PlanOptions
    select: exp.Select
    written: exp.Select
    people: PersonLevels = field(init=False)
    person: PersonStage | None = None
    sources: Sources = field(init=False)
    where: exp.Expression | None = None
    grouping: Grouping = field(init=False)
    aggregates: Aggregates = field(init=False)
    relation: Relation = field(init=False)
    collected: Collected = field(init=False)
    threshold: Threshold | None = None

    def finish(self) -> QueryPlan:
        """Return the plan, with the columns that it tests and that identify people."""
        schema, scope = self.sources.schema, self.sources.scope
        plan = QueryPlan(
            sql=self.sql,
            table=self.declared.table,
            columns=_columns_used(self.select, scope),
            where=self.where,
            groups=self.grouping.groups,
            arguments=self.collected.arguments,
            measures=self.collected.measures,
            estimates=self.collected.estimates,
            outputs=self.relation.outputs(),
            after=self.relation.after(),
            declared=self.options.groups == "declared",
            hand_sensitivity=self.options.sensitivity,
            schema=schema,
            digest=_digest_plan(
                self.written if self.people.stages or self.people.joined else self.select, self.declared, self.options
            ),
            joins=self.sources.joins,
            sets=self.grouping.sets,
            person=self.person,
            declared_schema=None if self.person is None else self.declared,
            threshold=self.threshold,
        )
        singled_out = {**self.people.singled_out, **dict(find_singled_out(self.select, scope, list_identifying(plan)))}
        return _complete(replace(plan, singled_out=tuple(singled_out.items())))


def _complete(plan: QueryPlan) -> QueryPlan:
    """Return the plan once it was tried what happens after the noise."""
    try_after(plan.after, plan.groups, [estimate.whole for estimate in plan.estimates], totals=bool(plan.sets))
    return plan


# ---------------------------------------------------------------- the passes over the SELECT that measures


def _write_subqueries_in(draft: Draft) -> None:
    draft.people = PersonLevels.of(draft.declared, draft.select)
    draft.select = inline_subqueries(draft.select, draft.declared.columns, draft.people)


def _join_tables_with_commas(draft: Draft) -> None:
    draft.select = write_commas_as_joins(draft.select)


def _check_clauses(draft: Draft) -> None:
    check_shape(draft.select, *(_AFTER if is_measured(draft.select) else ()))


def _resolve_tables(draft: Draft) -> None:
    draft.person = draft.people.stage_of(draft.select)
    draft.sources = resolve_joins(draft.select, resolve_table(draft.select, draft.people.facts(draft.select)))
    if draft.options.groups == "observed" and draft.sources.schema.unit != "row":
        raise OptionError("Observed groups reproduce the paper, where everybody has one row. Use declared groups.")


def _read_where(draft: Draft) -> None:
    clause = draft.select.args.get("where")
    draft.where = None if clause is None else check_condition(clause.this, draft.sources.scope)


def _read_groups(draft: Draft) -> None:
    scope, options = draft.sources.scope, draft.options
    draft.grouping = plan_groups(draft.select, scope, options.groups)
    groups = draft.grouping.cells
    if options.groups == "thresholded":
        groups = limit_observed(draft.grouping.groups, draft.sources.schema)
        kept = [is_there(tree) for tree in draft.grouping.without_null]
        draft.where = conjunction([*([] if draft.where is None else [draft.where]), *kept])
    draft.aggregates = Aggregates(
        schema=draft.sources.schema,
        scope=scope,
        min_rows=options.min_rows,
        by_hand=options.sensitivity is not None,
        groups=groups,
    )


def _write_over_released(draft: Draft) -> None:
    grouping, schema = draft.grouping, draft.sources.schema
    thresholded = draft.options.groups == "thresholded"
    rows = (schema.individuals or 1) * schema.max_rows_per_unit if thresholded else grouping.rows
    released = MeasuringSelect(draft.sources.scope, grouping.groups, draft.aggregates, rows, bool(grouping.sets))
    draft.relation = released.write(draft.select)


def _count_people(draft: Draft) -> None:
    """Measure the individuals of every group, where their noisy number decides whether it is shown (H1)."""
    if draft.options.group_delta is not None:
        draft.threshold = add_threshold(draft.aggregates, draft.options.group_delta)


def _collect_measures(draft: Draft) -> None:
    draft.collected = draft.aggregates.finish()
    measures, cells = draft.collected.measures, draft.grouping.cells
    if cells * len(measures) > MAX_NUMBERS:
        raise QueryError(
            f"The query measures {len(measures):,} numbers in each of {cells:,} groups; at most "
            f"{MAX_NUMBERS:,} in all are supported. Ask for fewer aggregates or fewer groups."
        )
    if draft.grouping.sets:
        _require_sums(draft.select, measures)


PASSES: tuple[Callable[[Draft], None], ...] = (
    _write_subqueries_in,
    _join_tables_with_commas,
    _check_clauses,
    _resolve_tables,
    _read_where,
    _read_groups,
    _write_over_released,  # every aggregate, in whatever clause, becomes measures and an estimate
    _count_people,
    _collect_measures,  # only now is it known what every aggregate reads
)
"""The passes over the SELECT that measures, in order."""


def _require_sums(select: exp.Select, measures: tuple[Measure, ...]) -> None:
    """Refuse totals of what does not add up: a median of two groups is not the sum of their medians."""
    other = next((measure for measure in measures if not measure.additive), None)
    if other is not None:
        raise refusal(
            select.args["group"],
            f"{other.label} does not add up over groups, so ROLLUP, CUBE and GROUPING SETS cannot total it. Ask for it "
            "in a query of its own.",
        )


# ---------------------------------------------------------------- details of a plan


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
        **({} if options.group_delta is None else {"group_delta": options.group_delta}),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
