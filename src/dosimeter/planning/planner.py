"""Plan a query. Takes SQL and a Schema; gives a QueryPlan. Never opens a connection.

A query has stages, planned from the inside out: the rows (FROM, JOIN, WHERE, and subqueries that treat each row by
itself), what is measured over them (GROUP BY and aggregates), and everything after the noise (HAVING, windows, ORDER
BY, LIMIT and the SELECTs around). ``PASSES`` is the order of the work on the SELECT that measures. What no pass
understands is refused by name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dosimeter.errors import OptionError, QueryError
from dosimeter.measures import Rank
from dosimeter.planning.after.blocks import name_released, of_block, of_sets, try_after, unite_sets, write_union
from dosimeter.planning.after.measuring_select import (
    MeasuringSelect,
    Relation,
    as_scalar_subquery,
    is_measured,
    require_one_row,
)
from dosimeter.planning.after.outer_select import OuterSelect
from dosimeter.planning.after.public_tables import add_public, arrange_public, read_relation
from dosimeter.planning.expansion import require_small
from dosimeter.planning.measured.aggregate_collector import AggregateCollector, CollectedAggregates
from dosimeter.planning.measured.groups import Grouping, group_distinct, plan_groups
from dosimeter.planning.measured.joined_blocks import MAX_NUMBERS, join_blocks
from dosimeter.planning.measured.telling import tell_cut
from dosimeter.planning.measured.thresholding import (
    add_threshold,
    count_observable,
    limit_observed,
    require_observable,
)
from dosimeter.planning.options import STUDY_NOISE, PlanOptions
from dosimeter.planning.people.levels import PersonLevels
from dosimeter.planning.people.stage import PersonStage, list_block_trees, list_stages, list_trees
from dosimeter.planning.query_plan import Join, QueryPlan, Threshold
from dosimeter.planning.rows.joins import (
    MOST_JOINED,
    list_identifying,
    resolve_joins,
    resolve_table,
    write_commas_as_joins,
)
from dosimeter.planning.rows.parsing import TOO_DEEP, check_shape, parse_select
from dosimeter.planning.rows.singling_out import find_singled_out
from dosimeter.planning.rows.subqueries import inline_subqueries
from dosimeter.planning.stages import (
    Scoped,
    Stage,
    find_stage,
    list_joined,
    list_scalars,
    list_subqueries,
    read_scope,
    require_uncorrelated,
)
from dosimeter.schema import JoinTable, Schema, digest_schema
from dosimeter.sql import (
    MOST_ROWS,
    Scope,
    check_condition,
    clause_of,
    conjunction,
    count_letters,
    is_not_null,
    limit_written,
    refusal,
)

MAX_BLOCKS = 256
MOST_LETTERS = 2**20  # of all texts that are made for one row; a text inside another counts again
MOST_OF_ONE = 2**26  # of all texts that are made for the rows of one individual: 256 MiB, at 4 bytes a letter
_SCALAR = "scalar"
_AFTER = ("qualify", "offset", "distinct", "windows")
_ORDER_STATISTICS = (exp.Min, exp.Max, exp.Median, exp.PercentileCont, exp.PercentileDisc)


def plan_query(sql: str, schema: Schema, options: PlanOptions | None = None) -> QueryPlan:
    """Return the plan of one query, or raise a QueryError that names the clause."""
    try:
        with limit_written():
            return _Planner(sql, schema, options or PlanOptions()).plan()
    except RecursionError:
        raise QueryError(TOO_DEEP) from None


@dataclass(slots=True)
class _Planner:
    """The planning of one query, from the inside out. A block is a SELECT that measures.

    ``blocks``: the plan of each block met so far, by its number. ``clauses``: the SELECT of each block as written.
    ``measured``: for each SELECT that measures, its node, a copy with the WITH that it needs, and what it becomes after
    the noise. ``taken``: how many block numbers are in use, which is also the number of the next block.
    """

    sql: str
    declared: Schema
    options: PlanOptions
    blocks: dict[int, QueryPlan] = field(default_factory=dict)
    clauses: dict[int, exp.Select] = field(default_factory=dict)
    measured: list[tuple[exp.Select, exp.Select, Relation]] = field(default_factory=list)
    taken: int = 0

    def plan(self) -> QueryPlan:
        """Return the plan: what is measured, and what happens to the released numbers."""
        parsed = parse_select(self.sql)
        require_small(parsed)
        relation = self._relation(Scoped(parsed, {}), nested=False)
        blocks = [self.blocks[number] for number in sorted(self.blocks)]
        if len(blocks) == 1 and relation is self.measured[0][2]:
            return self._complete(blocks[0])
        outer = parsed.sql(dialect="duckdb", comments=False)
        digests = blocks[0].digest if len(blocks) == 1 else [block.digest for block in blocks]
        digest = hashlib.sha256(json.dumps([digests, outer]).encode()).hexdigest()
        plan = blocks[0] if len(blocks) == 1 else join_blocks(blocks, [self.clauses[at] for at in sorted(self.blocks)])
        plan = replace(plan, outputs=relation.outputs(), after=relation.after(), digest=digest)
        return self._complete(plan)

    def _complete(self, plan: QueryPlan) -> QueryPlan:
        return _complete(
            plan if self.options.tell_cut is None else tell_cut(plan, self.options.tell_cut), self.declared
        )

    def _relation(self, query: Scoped, *, nested: bool) -> Relation:
        """Return a query rebuilt over released tables: a SELECT that measures, or one around such SELECTs.

        ``nested``: whether it stands inside another query.
        """
        query = read_scope(query)
        stage = find_stage(query, self.declared, nested=nested)
        if stage is Stage.ROWS and not nested:
            query = replace(query, select=group_distinct(query.select))
        if stage is not Stage.AFTER:
            return self._measure(query)
        if query.parts:
            return write_union([self._relation(part, nested=True) for part in query.parts], query.select)
        joined = list_joined(query, self.declared)
        public = {name for name, source in joined.items() if isinstance(source, JoinTable)}
        if public:
            arrange_public(query.select, public)
            joined = list_joined(query, self.declared)
        sources = {
            name: read_relation(source, self.declared)
            if isinstance(source, JoinTable)
            else self._relation(source, nested=True)
            for name, source in joined.items()
        }
        inner = {at: self._relation(each, nested=True) for at, each in list_subqueries(query).items()}
        return OuterSelect(sources, self.declared, inner).write(query.select)

    def _measure(self, query: Scoped) -> Relation:
        select = query.with_rows(self.declared)
        scalars = list_scalars(query) if is_measured(query.select) else {}
        for node, known, relation in self.measured:  # with subqueries, equal words may mean other queries of WITH
            if query.select is node or (known == select and not scalars):
                return relation
        number = self.take_number()
        values: dict[str, exp.Expression] = {}
        if scalars:
            select, values = self._set_scalars_aside(query, scalars)
        draft = Draft(self.sql, self.declared, self.options, select.copy(), select, number, values, self.take_number)
        for step in PASSES:
            step(draft)
        found = draft.finish()
        self.blocks |= found
        self.clauses |= dict.fromkeys(found, query.select)
        self.measured.append((query.select, select, draft.relation))
        return draft.relation

    def take_number(self) -> int:
        """Return the number of the next block. Raises QueryError if there are too many."""
        self.taken += 1
        if self.taken > MAX_BLOCKS:
            raise QueryError(
                f"The query measures more than {MAX_BLOCKS} SELECTs or sets of groups. Ask several queries."
            )
        return self.taken - 1

    def _set_scalars_aside(
        self, query: Scoped, scalars: Mapping[int, Scoped]
    ) -> tuple[exp.Select, dict[str, exp.Expression]]:
        """Return the SELECT with a placeholder for each subquery that gives a number, and their trees by placeholder.

        ``scalars``: these subqueries, by the ``id`` of their node.
        """
        values: dict[str, exp.Expression] = {}
        for node in [each for each in query.select.find_all(exp.Subquery) if id(each) in scalars]:
            scoped = scalars[id(node)]
            if find_stage(scoped, self.declared) is Stage.ROWS:
                raise refusal(node, f"{clause_of(node)} gives rows where one number stands. Aggregate it.")
            require_uncorrelated(node)
            relation = self._relation(scoped, nested=True)
            require_one_row(relation, node)
            written = node.sql(dialect="duckdb", comments=False)
            name = "scalar_" + hashlib.sha256(written.encode()).hexdigest()[:12]
            values[name] = as_scalar_subquery(relation, node)
            node.meta[_SCALAR] = name
        select = query.select.copy()
        for node in list(select.find_all(exp.Subquery)):
            if node.meta.get(_SCALAR) is not None:
                node.replace(exp.Placeholder(this=node.meta[_SCALAR]))
        return replace(query, select=select).with_rows(self.declared), values


@dataclass(slots=True)
class Draft:
    """The unfinished plan of one SELECT that measures. Each pass reads what earlier passes wrote, and adds its part.

    ``written``: the SELECT before any pass; ``select``: the SELECT as the passes so far left it. ``number``: the number
    of its block. ``scalars``: the trees of subqueries that give one number, by placeholder. ``take_number``: returns
    the number for one more block. ``apart``: where each set of ROLLUP, CUBE or GROUPING SETS is measured by itself,
    what each set groups by and measures, by block number. All fields from ``people`` on are set by passes.
    """

    sql: str
    declared: Schema
    options: PlanOptions
    select: exp.Select
    written: exp.Select
    number: int
    scalars: Mapping[str, exp.Expression]
    take_number: Callable[[], int]
    people: PersonLevels = field(init=False)
    person: PersonStage | None = None
    scope: Scope = field(init=False)
    joins: tuple[Join, ...] = ()
    where: exp.Expression | None = None
    grouping: Grouping = field(init=False)
    aggregates: AggregateCollector = field(init=False)
    relation: Relation = field(init=False)
    collected: CollectedAggregates = field(init=False)
    apart: dict[int, tuple[Grouping, CollectedAggregates]] = field(default_factory=dict)
    threshold: Threshold | None = None

    def finish(self) -> dict[int, QueryPlan]:
        """Return the plan of each block, by its number.

        ``singled_out`` of each plan has the identifying columns that the SELECT tests, as in name = 'Yusuf Demir'.
        """
        parts = self.apart or {self.number: (self.grouping, self.collected)}
        return {number: self._finish(grouping, collected) for number, (grouping, collected) in parts.items()}

    def _finish(self, grouping: Grouping, collected: CollectedAggregates) -> QueryPlan:
        plan = QueryPlan(
            sql=self.sql,
            table=self.declared.table,
            columns=_columns_used(self.select, self.scope),
            where=self.where,
            groups=grouping.groups,
            arguments=collected.arguments,
            measures=collected.measures,
            estimates=collected.estimates,
            outputs=self.relation.outputs(),
            after=self.relation.after(),
            declared=self.options.groups in ("declared", "elsewhere"),
            hand_sensitivity=self.options.sensitivity,
            schema=self.scope.schema,
            digest=_digest_plan(
                self.written if self.people.stages or self.people.joined else self.select,
                self.declared,
                self.options,
                ranks=any(isinstance(measure, Rank) for measure in collected.measures),
            ),
            joins=self.joins,
            sets=grouping.sets,
            person=self.person,
            declared_schema=self.declared,
            threshold=self.threshold,
        )
        singled_out = dict(self.people.singled_out)
        if plan.columns:
            singled_out |= find_singled_out(self.select, self.scope, list_identifying(plan))
        return replace(plan, singled_out=tuple(singled_out.items()))


def _complete(plan: QueryPlan, declared: Schema) -> QueryPlan:
    """Return the plan with its public tables, after trying on made-up numbers what happens after the noise.

    Raises QueryError if that cannot be computed, or if something is drawn by rank in thresholded groups.
    """
    if plan.threshold is not None and plan.ranks:
        label = next(iter(plan.ranks.values())).label
        raise QueryError(
            f"{label} is drawn by rank from declared groups only. Declare the groups' values.",
            STUDY_NOISE,
        )
    _require_few_joined(plan)
    _require_few_letters(plan)
    if plan.after.query is not None:
        plan = add_public(plan, declared)
        try_after(plan)
    return plan


def _require_few_joined(plan: QueryPlan) -> None:
    """Refuse a plan whose joins, all together, could make too many rows of one individual's (N4)."""
    joined = [block.schema for block in plan.blocks if block.joins]
    joined += [rows.schema for stage in list_stages(plan) for rows in stage.sources() if rows.joins]
    most = sum(schema.max_rows_per_unit for schema in joined)
    if len(joined) > 1 and most > 10 * MOST_JOINED:
        raise QueryError(
            f"The joins of the query could make {most:,} rows of one individual's, all together; at most "
            f"{10 * MOST_JOINED:,} are supported. Ask several queries."
        )


def _require_few_letters(plan: QueryPlan) -> None:
    """Refuse a plan that could make too much text: an engine would fail for whoever has the longest cells (N4)."""
    trees = [*list_trees(plan), *list_block_trees(plan)]
    most = sum(count_letters(tree, schema) for schema, tree in trees)
    allowed = min(MOST_LETTERS, MOST_OF_ONE // max((schema.max_rows_per_unit for schema, _ in trees), default=1))
    if most > allowed:
        raise QueryError(
            f"The query could make {most:,} letters of text for one row, counting every step; at most {allowed:,} are "
            "supported here. Join fewer texts, or shorter ones: LEFT(x, 100). A column's max_length in the schema says "
            "how many of its letters count."
        )


# ---------------------------------------------------------------- the passes over the SELECT that measures


def _write_subqueries_in(draft: Draft) -> None:
    draft.people = PersonLevels(draft.declared, draft.select)
    draft.select = write_commas_as_joins(inline_subqueries(draft.select, draft.people))


def _check_clauses(draft: Draft) -> None:
    check_shape(draft.select, *(_AFTER if is_measured(draft.select) else ()))


def _resolve_tables(draft: Draft) -> None:
    draft.person = draft.people.stage_of(draft.select)
    first = draft.people.with_joined(draft.declared if draft.person is None else draft.person.schema)
    draft.scope, draft.joins = resolve_joins(draft.select, resolve_table(draft.select, first))
    if draft.options.groups == "observed" and draft.scope.schema.unit != "row":
        raise OptionError("Observed groups reproduce the paper, where everybody has one row. Use declared groups.")


def _read_where(draft: Draft) -> None:
    clause = draft.select.args.get("where")
    draft.where = None if clause is None else check_condition(clause.this, draft.scope)


def _read_groups(draft: Draft) -> None:
    draft.grouping = plan_groups(draft.select, draft.scope, draft.options.groups)
    if draft.options.groups == "thresholded":
        kept = [is_not_null(tree) for tree in draft.grouping.without_null]
        draft.where = conjunction([*([] if draft.where is None else [draft.where]), *kept])
    draft.aggregates = _start_collecting(draft, draft.grouping)


def _start_collecting(draft: Draft, grouping: Grouping) -> AggregateCollector:
    thresholded = draft.options.groups == "thresholded"
    return AggregateCollector(
        schema=draft.scope.schema,
        scope=draft.scope,
        min_rows=draft.options.min_rows,
        by_hand=draft.options.sensitivity is not None,
        groups=limit_observed(grouping.groups, draft.scope.schema) if thresholded else grouping.cells,
        rank_cells=grouping.cells * _count_order_statistics(draft.select) if draft.options.by_ranks else 0,
        search=draft.options.search,
    )


def _write_over_released(draft: Draft) -> None:
    source = exp.table_(name_released(draft.number))
    draft.relation = of_block(_write_over(draft, draft.aggregates, source), draft.number)


def _write_over(draft: Draft, aggregates: AggregateCollector, source: exp.Expression) -> Relation:
    grouping, scope = draft.grouping, draft.scope
    thresholded = draft.options.groups == "thresholded"
    rows = min(count_observable(scope.schema), MOST_ROWS) if thresholded else grouping.rows
    shape = scope, grouping.groups, aggregates, rows, bool(grouping.sets)
    return MeasuringSelect(*shape, source, draft.scalars).write(draft.select)


def _count_people(draft: Draft) -> None:
    """Add a measure of the individuals in each group if groups are thresholded: it decides which are shown (H1)."""
    if draft.options.group_delta is not None:
        draft.threshold = add_threshold(draft.aggregates, draft.options.group_delta)


def _collect_measures(draft: Draft) -> None:
    draft.collected = draft.aggregates.finish()
    if draft.threshold is not None:
        require_observable(draft.grouping.groups, draft.collected.measures, draft.scope.schema)
    groups, measures = draft.grouping.cells, len(draft.collected.measures)
    if groups * measures > MAX_NUMBERS:
        raise QueryError(
            f"The query measures {measures:,} numbers in each of {groups:,} groups; at most {MAX_NUMBERS:,} in all "
            "are supported. Ask for fewer aggregates or fewer groups."
        )


def _measure_sets_apart(draft: Draft) -> None:
    """Make each set of ROLLUP, CUBE or GROUPING SETS a block, if a measure's total is not the sum over groups (Q5).

    COUNT(DISTINCT patient) is such a measure, if one patient can be in several groups. Without such a measure nothing
    changes: totals are added up from the released groups.
    """
    grouping = draft.grouping
    if not grouping.sets:
        return
    alone = draft.scope.schema.max_rows_per_unit == 1  # then nobody is in two groups
    if all(measure.adds_up or (alone and measure.additive) for measure in draft.collected.measures):
        return
    numbers = [draft.number, *(draft.take_number() for _ in grouping.sets[1:])]
    sets = dict(zip(numbers, grouping.sets, strict=True))
    source = unite_sets(sets, len(grouping.groups), len(draft.collected.estimates))
    for number, kept in sets.items():
        part = Grouping(tuple(grouping.groups[at] for at in kept))
        aggregates = _start_collecting(draft, part)
        draft.relation = of_sets(_write_over(draft, aggregates, source), sets)
        draft.apart[number] = part, aggregates.finish()


PASSES: tuple[Callable[[Draft], None], ...] = (
    _write_subqueries_in,
    _check_clauses,
    _resolve_tables,
    _read_where,
    _read_groups,
    _write_over_released,  # every aggregate, in whatever clause, becomes measures and an estimate
    _count_people,
    _collect_measures,  # only now is it known what every aggregate reads
    _measure_sets_apart,
)
"""The passes over the SELECT that measures, in order."""


# ---------------------------------------------------------------- details of a plan


def _columns_used(select: exp.Select, scope: Scope) -> tuple[str, ...]:
    used = set()
    for node in select.find_all(exp.Column):
        with suppress(QueryError):  # an alias of the SELECT list, as in ORDER BY n
            used.add(scope.resolve(node).name)
    return tuple(name for name in scope.schema.columns if name in used)


def _count_order_statistics(select: exp.Select) -> int:
    """Return how many different order statistics (MIN, MEDIAN …) are written in the query; at least 1."""
    return max(1, len({node.sql(dialect="duckdb") for node in select.find_all(*_ORDER_STATISTICS)}))


def _digest_plan(select: exp.Select, schema: Schema, options: PlanOptions, *, ranks: bool) -> str:
    """Return a digest of the query (as parsed, without layout and comments), the schema and the options.

    ``ranks``: whether something is drawn by rank.
    """
    content = {
        "query": select.sql(dialect="duckdb", comments=False),
        "schema": digest_schema(schema),
        "groups": options.groups,
        "min_rows": options.min_rows,
        "sensitivity": options.sensitivity,
        **({"quantiles": "ranks"} if ranks else {}),  # without any, a query is what it was before there were ranks
        **({} if schema.unit == "row" else {"rows": "hashed"}),  # which rows count was chosen in another way before
        **({} if options.group_delta is None else {"group_delta": options.group_delta}),
        **({} if options.tell_cut is None else {"tell_cut": options.tell_cut}),
        **({} if options.search is None else {"search": options.search}),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
