"""Turn the parts of a query that are about each individual's own rows into person stages (Q2).

A person stage computes new columns for each individual from their own rows. Takes one level of a query at a time, from
the inside out. A level is one SELECT: of a subquery, of a CTE, or in IN and EXISTS. Its aggregates, its windows, and
whether the individual is in another query (IN and EXISTS) become columns of a new stage, so that what is left treats
each row by itself. A level that reads other people's rows is refused; the message shows how to ask instead. Never opens
a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import cast

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.people.columns import OwnValue, read_value
from dosimeter.planning.people.members import read_member
from dosimeter.planning.people.rewriting import (
    ChosenLevel,
    GroupedLevel,
    WindowedLevel,
    short_digest,
    written_column,
)
from dosimeter.planning.people.stage import (
    Memberships,
    OwnAggregates,
    OwnColumns,
    OwnWindows,
    PersonRows,
    PersonStage,
    PersonTable,
)
from dosimeter.planning.rows.joins import resolve_joins
from dosimeter.planning.rows.named_windows import write_out_distinct_on, write_out_windows
from dosimeter.planning.rows.parsing import (
    dereference,
    expect_plain_star,
    is_plain_table,
    is_star,
    read_table_name,
    unaliased,
)
from dosimeter.planning.rows.singling_out import find_singled_out
from dosimeter.schema import Column, ColumnType, JoinTable, Schema, unit_schema
from dosimeter.sql import (
    COLUMN_TYPES,
    Scope,
    check_condition,
    check_total,
    clause_of,
    column_tree,
    conjunction,
    list_conditions,
    refusal,
)

_MARK = "dosimeter_member_of"
_READ = ("expressions", "from_", "where", "joins", "group", "having", "qualify", "distinct", "windows")
_ROW_WISE = ("expressions", "from_", "where", "joins")
_NO_UNIT = (
    '{clause}: the schema says unit = "row", so that every row is another individual. For questions about people with '
    'several rows, name their column in the schema: unit = "patient_id", with max_rows_per_unit.'
)


@dataclass(slots=True)
class PersonLevels:
    """The person stages of one query, collected level by level (SELECT by SELECT, from the inside out).

    ``declared``: the schema of the first table. ``written``: the query before any of them. ``stages``: each stage, by
    the name under which it stands in FROM. ``singled_out``: the identifying columns that are tested, each with the
    clause that tests it, such as name = 'Yusuf Demir'. ``_aside``: what ``set_aside`` took out, each an IN or EXISTS
    and its query. ``joined``: the joined subqueries, by name.
    """

    declared: Schema
    written: exp.Select
    stages: dict[str, PersonStage] = field(default_factory=dict)
    singled_out: dict[str, str] = field(default_factory=dict)
    _aside: list[tuple[exp.Expression, exp.Select]] = field(default_factory=list)
    joined: dict[str, PersonTable] = field(default_factory=dict)

    def stage_of(self, select: exp.Select) -> PersonStage | None:
        """Return the stage that stands in FROM; None if a table stands there.

        Refuses a stage that reads another private table than the first: the answer is about the first table's
        individuals.
        """
        stage = self._stage(select)
        if stage is not None and stage.origin is not None:
            raise refusal(
                select,
                f"{stage.origin.name} stands beside {self.declared.table}, whose individuals the answer is about. Read "
                f"{self.declared.table} in FROM, and {stage.origin.name} in IN (SELECT …), EXISTS (SELECT …) or JOIN.",
            )
        return stage

    def _stage(self, select: exp.Select) -> PersonStage | None:
        origin = select.args.get("from_")
        return self.stages.get(origin.this.name) if origin is not None and isinstance(origin.this, exp.Table) else None

    def with_joined(self, schema: Schema) -> Schema:
        """Return a schema of what stands in FROM, with the subqueries too that may be joined to it."""
        return replace(schema, tables={**schema.tables, **self.joined}) if self.joined else schema

    # ------------------------------------------------------------ joined subqueries

    def join(self, query: exp.Select, alias: str, written: exp.Expression) -> exp.Table:
        """Return a table that stands for a joined subquery, and remember the subquery in ``joined``.

        Refuses a subquery that reads other people's rows, or has no column of the unit. ``query``: the subquery, as
        ``lower`` returned it. ``written``: the join as the analyst wrote it, for messages.
        """
        unit = self.declared.unit
        if unit == "row":
            raise refusal(written, _NO_UNIT.format(clause=clause_of(written)))
        if any(value for name, value in query.args.items() if name not in _ROW_WISE):
            raise refusal(
                written,
                f"{clause_of(written)} would read other people's rows, so that one person could move everybody. A "
                f"joined subquery speaks of each individual's own rows: SELECT {unit}, COUNT(*) AS n FROM … GROUP BY "
                f"{unit}.",
            )
        rows, scope = self._read_rows(query)
        found: dict[str, OwnValue] = {}
        for item in _without_stars(query.expressions, rows):
            name = item.alias_or_name
            if not name or name.lower() in {other.lower() for other in found}:
                raise refusal(item, f"{clause_of(item)}: give every column of the subquery a name of its own by AS.")
            found[name] = read_value(unaliased(item), scope)
        own = [name for name, value in found.items() if _is_named(value.tree, rows.schema.unit)]
        if not own:
            raise refusal(written, f"{clause_of(written)}: add {rows.schema.unit} to the subquery, and join on it.")
        columns = {name: replace(value.column, name=name) for name, value in found.items()}
        many = rows.schema.max_rows_per_unit
        schema = replace(rows.schema, columns=columns, unit=own[0], row_key=None)
        step = OwnColumns(tuple((name, value.tree) for name, value in found.items()))
        name, taken = alias or "subquery", {*self.declared.tables, *self.joined, self.declared.table}
        while name.lower() in {other.lower() for other in taken}:
            name += "'"
        self.joined[name] = PersonTable(
            name, columns, public=False, unit=own[0], max_rows_per_unit=many, stage=PersonStage(rows, step, schema)
        )
        identifier = exp.to_identifier(name, quoted=True)
        return exp.Table(this=identifier, alias=exp.TableAlias(this=exp.to_identifier(alias or name, quoted=True)))

    # ------------------------------------------------------------ IN and EXISTS

    def set_aside(self, select: exp.Select, inline: Callable[[exp.Select], exp.Select]) -> None:
        """Take IN (SELECT …) and EXISTS out of one level, so that rewriting the level leaves their queries alone.

        Each condition leaves a mark with the column that it compares; ``settle`` replaces the mark by a flag.
        ``inline``: a function that writes the subqueries of such a query into it.
        """
        _refuse_compared_numbers(select)
        nodes = cast(list[exp.Expression], list(select.find_all(exp.In, exp.Exists)))
        for node in [node for node in nodes if node.parent_select is select]:
            if isinstance(node, exp.In) and not node.args.get("query"):
                continue
            if self.declared.unit == "row":
                raise refusal(node, _NO_UNIT.format(clause=clause_of(node)))
            outer, query = read_member(node, self.declared.unit)
            self._aside.append((node.copy(), self.lower(inline(query))))
            mark = exp.Anonymous(this=_MARK, expressions=[exp.Literal.number(len(self._aside) - 1), outer.copy()])
            mark.meta[_MARK] = True
            node.replace(mark)

    def settle(self, select: exp.Select) -> None:
        """Replace marks of ``set_aside`` by columns: whether the row's individual is in the query that was set aside.

        Then move conditions such as ``rn = 1``, where rn is a ROW_NUMBER, from the WHERE into a new stage, so that the
        stage gives fewer rows of each individual. FROM must begin with the name of a table or a stage.
        """
        marks = [node for node in select.find_all(exp.Anonymous) if node.meta.get(_MARK)]
        if marks:
            self._add_flags(select, marks)
        self._keep_numbered(select)

    def _add_flags(self, select: exp.Select, marks: Sequence[exp.Anonymous]) -> None:
        """Replace each mark by a column that tells whether the row's individual is in the query that was set aside.

        A stage that adds these columns takes the place of what stands in FROM.
        """
        scope, table, stage = self._first(select)
        level, _ = resolve_joins(select, scope)
        flags: dict[str, tuple[str, PersonRows, str]] = {}
        for mark in marks:
            position, outer = mark.expressions
            written, query = self._aside[int(position.this)]
            self._require_unit(outer, level, written)
            name, rows, unit = self._members(query, written)
            kinds = {COLUMN_TYPES[each.columns[each.unit].type] for each in (rows.schema, scope.schema)}
            if len(kinds) > 1:
                raise refusal(written, f"{clause_of(written)}: the columns have different types in the schema.")
            if name not in scope.schema.columns:  # an inner level may have asked the same
                flags[name] = (name, rows, unit)
            mark.replace(column_tree(name))
        if not flags:
            return
        columns = {name: Column(name, ColumnType.BOOLEAN) for name in flags}
        rows = PersonRows(table, stage, (), scope.schema, None)
        schema = replace(scope.schema, columns={**scope.schema.columns, **columns})
        numbered = stage.numbered if stage is not None else frozenset()
        step = Memberships(tuple(flags.values()))
        self._put_stage_in_from(select, PersonStage(rows, step, schema, numbered), keep_joins=True)

    def _keep_numbered(self, select: exp.Select) -> None:
        """Move `rn = 1` or `rn <= k` from the WHERE into a stage, so that at most k rows of an individual count."""
        stage, clause = self._stage(select), select.args.get("where")
        if stage is None or not stage.numbered or clause is None:
            return
        level = self._scope(select)
        limits = [(part, _read_limit(part, level, stage.numbered)) for part in list_conditions(clause.this)]
        known = [limit for _, limit in limits if limit is not None]
        condition = conjunction(part.copy() for part, limit in limits if limit is not None)
        if condition is None or min(known) >= stage.schema.max_rows_per_unit:
            return
        rest = conjunction(part.copy() for part, limit in limits if limit is None)
        rows = PersonRows(None, stage, (), stage.schema, check_condition(condition, level))
        schema = replace(stage.schema, max_rows_per_unit=min(known))
        select.set("where", None if rest is None else exp.Where(this=rest))
        self._put_stage_in_from(select, PersonStage(rows, OwnWindows(()), schema, stage.numbered), keep_joins=True)

    def _require_unit(self, outer: exp.Expression, level: Scope, written: exp.Expression) -> None:
        node, unit = outer.unnest(), level.schema.unit
        if not isinstance(node, exp.Column) or level.resolve(node).name != unit:
            raise refusal(
                written,
                f"{clause_of(written)} is not about the individual's own rows. Compare {unit}: {unit} IN (SELECT "
                f"{unit} FROM … WHERE …). For another table's facts use JOIN.",
            )

    def _members(self, query: exp.Select, written: exp.Expression) -> tuple[str, PersonRows, str]:
        """Return the name of a flag for an IN or EXISTS, the rows of its query, and the unit column of these rows.

        The flag says whether an individual is among these rows. Refuses a query that reads other people's rows, or does
        not give individuals. ``written``: the condition, for messages.
        """
        unit, table = self.declared.unit, self.declared.table
        if any(value for name, value in query.args.items() if name not in _ROW_WISE):
            raise refusal(
                written,
                f"{clause_of(written)} would read other people's rows, so that one person could move everybody. Group "
                f"by the individual: {unit} IN (SELECT {unit} FROM {table} GROUP BY {unit} HAVING …).",
            )
        rows, scope = self._read_rows(query)
        unit = scope.schema.unit
        bare = unaliased(query.expressions[0]).unnest() if len(query.expressions) == 1 else None
        if not isinstance(bare, exp.Column) or scope.resolve(bare).name != unit:
            raise refusal(
                written,
                f"{clause_of(written)}: the subquery must give the individuals: SELECT {unit} FROM … WHERE ….",
            )
        form = f"{rows.table} {rows.stage} {rows.joins} {rows.where and rows.where.sql(dialect='duckdb')}"
        return f"in {table if rows.table is None else rows.table.name} {short_digest(form)}", rows, unit

    # ------------------------------------------------------------ GROUP BY unit and OVER (PARTITION BY unit)

    def lower(self, select: exp.Select) -> exp.Select:
        """Return a level with its aggregates and windows replaced by columns of a new stage.

        Unchanged if it has neither, or if it groups by something else than the unit. Refuses windows where the unit is
        ``row``.
        """
        write_out_windows(select)
        select.set("windows", None)
        self._write_out_distinct_on(select)
        windows = any(node.parent_select is select for node in select.find_all(exp.Window))
        grouped = bool(select.args.get("group") or select.args.get("having") or select.args.get("distinct"))
        if not windows and not grouped and not select.args.get("qualify"):
            return select
        if self.declared.unit == "row":
            if windows:
                raise refusal(select, _NO_UNIT.format(clause="OVER (PARTITION BY …)"))
            return select
        if grouped:
            lowered = self._lower_groups(select)
            if lowered is None:
                return select
            select = lowered
        if windows or select.args.get("qualify"):
            select = self._lower_windows(select)
        return select

    def _write_out_distinct_on(self, select: exp.Select) -> None:
        """Replace DISTINCT ON (unit, …) by the window that chooses the same rows; refuse it without the unit."""
        written = select.args.get("distinct")
        chosen = write_out_distinct_on(select)
        if written is None or not chosen:
            return
        if self.declared.unit == "row":
            raise refusal(written, _NO_UNIT.format(clause=clause_of(written)))
        scope = self._scope(select)
        unit = scope.schema.unit
        if not any(_is_column(node, unit, scope) for node in chosen):
            raise refusal(
                written,
                f"{clause_of(written)} would choose among different people's rows. Choose among each individual's own: "
                f"SELECT DISTINCT ON ({unit}) … ORDER BY {unit}, ….",
            )

    def _lower_groups(self, select: exp.Select) -> exp.Select | None:
        """Return a SELECT that groups by the unit, rewritten to read a new person stage with its aggregates as columns.

        The stage has one row per individual, or one per individual and combination of further GROUP BY values. HAVING
        becomes WHERE; SELECT DISTINCT counts as grouping by its items. None if the SELECT does not group by the unit,
        or if its FROM does not begin with the name of a table or a stage.
        """
        origin = select.args.get("from_")
        if origin is None or not is_plain_table(origin.this):
            return None
        scope = self._scope(select)
        nodes = _group_nodes(select, scope)
        if not any(_is_column(node, scope.schema.unit, scope) for node in nodes):
            return None
        if any(node.parent_select is select for node in select.find_all(exp.ArgMax, exp.ArgMin)):
            return self._lower_groups(self._lower_windows(select, keys=nodes))
        self._require_read(select)
        rows, scope = self._read_rows(select)
        level = GroupedLevel(scope)
        for node in nodes:
            level.add_key(node)
        if any(is_star(item) for item in select.expressions):
            raise refusal(select, "SELECT * stands beside GROUP BY: list the columns.")
        items = [level.rewrite_item(item) for item in select.expressions]
        conditions = [select.args.get("having"), select.args.get("qualify")]
        having, qualify = (None if clause is None else level.rewrite(clause.this, items) for clause in conditions)
        columns = {name: replace(value.column, name=name) for name, value in level.columns.items()}
        many = rows.schema.max_rows_per_unit if len(level.keys) > 1 else 1
        schema = replace(rows.schema, columns=columns, max_rows_per_unit=many, row_key=None)
        step = OwnAggregates(
            tuple((name, level.columns[name].tree) for name in level.keys),
            tuple((name, value.tree) for name, value in level.columns.items() if name not in level.keys),
        )
        lowered = exp.Select(expressions=items, from_=select.args["from_"].copy())
        if having is not None:
            lowered.set("where", exp.Where(this=having))
        if qualify is not None:
            lowered.set("qualify", exp.Qualify(this=qualify))
        self._put_stage_in_from(lowered, PersonStage(rows, step, schema))
        return lowered

    def _lower_windows(self, select: exp.Select, keys: Sequence[exp.Expression] | None = None) -> exp.Select:
        """Return a level over a stage with the same rows and one more column for each window.

        ``keys``: what the level groups by. It then still groups, and only its ARG_MAX and ARG_MIN become columns.
        """
        self._require_read(select)
        rows, scope = self._read_rows(select)
        ties = self._ties(rows.schema)
        level = WindowedLevel(scope, ties) if keys is None else ChosenLevel(scope, ties, keys)
        items = [level.rewrite_item(item) for item in _without_stars(select.expressions, rows)]
        lowered = exp.Select(expressions=items, from_=select.args["from_"].copy())
        for name in ("having", "qualify"):
            clause = select.args.get(name)
            if clause is not None and keys is None:
                lowered.set("where", exp.Where(this=level.rewrite(clause.this, items)))
            elif clause is not None:
                lowered.set(name, type(clause)(this=level.rewrite(clause.this, items)))
        if keys is not None:  # a number would mean an item of the SELECT list
            grouped = [level.rewrite(node, ()) for node in keys if not isinstance(node, exp.Literal)]
            lowered.set("group", exp.Group(expressions=grouped))
        columns = {name: replace(value.column, name=name) for name, value in level.columns.items()}
        schema = replace(rows.schema, columns={**rows.schema.columns, **columns})
        step = OwnWindows(tuple((name, value.tree) for name, value in level.columns.items()))
        numbered = {name for name, tree in step.columns if _is_row_number(tree)}
        if rows.stage is not None and not rows.joins:
            numbered |= rows.stage.numbered
        self._put_stage_in_from(lowered, PersonStage(rows, step, schema, frozenset(numbered)))
        return lowered

    # ------------------------------------------------------------ what all levels share

    def _first(self, select: exp.Select) -> tuple[Scope, JoinTable | None, PersonStage | None]:
        """Return the scope (what names mean) of what stands first in FROM, and its table or stage.

        The result is (scope, None, stage) for a stage, (scope, None, None) for the schema's first table, and (scope,
        table, None) for another private table. Refuses anything else, such as a public table, which has no individuals.
        """
        origin = select.args.get("from_")
        node = origin.this if origin is not None else None
        if not is_plain_table(node):
            raise refusal(select, f"A subquery about individuals reads a table. The table is {self.declared.table}.")
        written, names = read_table_name(node), frozenset({node.name.lower(), node.alias_or_name.lower()})
        stage = self.stages.get(node.name)
        if stage is not None:
            return Scope(self.with_joined(stage.schema), names), None, stage
        if written.lower() == self.declared.table.lower():
            return Scope(self.with_joined(self.declared), names), None, None
        for name, table in self.declared.tables.items():
            if name.lower() != written.lower():
                continue
            if table.unit is None:
                raise refusal(
                    node,
                    f"{name} is public and has no individuals: join it, JOIN {name} ON … = {name}.{table.key}, and "
                    "test its columns in WHERE.",
                )
            return Scope(self.with_joined(unit_schema(table, table.unit, self.declared)), names), table, None
        known = ", ".join([self.declared.table, *(name for name, each in self.declared.tables.items() if each.unit)])
        raise refusal(node, f"There is no table {written}. The tables with individuals are {known}.")

    def _scope(self, select: exp.Select) -> Scope:
        """Return what names mean in the rows that a level reads."""
        return resolve_joins(select, self._first(select)[0])[0]

    def _read_rows(self, select: exp.Select) -> tuple[PersonRows, Scope]:
        """Return the rows that a level reads, and what names mean in them.

        Remembers in ``singled_out`` which identifying columns the level tests, as in name = 'Yusuf Demir'. The unit and
        the row key count as identifying.
        """
        first, table, stage = self._first(select)
        scope, joins = resolve_joins(select, first)
        schema, clause = scope.schema, select.args.get("where")
        watched = {name for name, column in schema.columns.items() if column.identifying}
        keys = {schema.unit, *([schema.row_key] if schema.row_key else [])}
        self.singled_out = {**dict(find_singled_out(select, scope, watched | keys)), **self.singled_out}
        where = check_condition(clause.this, scope) if clause is not None else None
        return PersonRows(table, stage, joins, schema, where), scope

    def _require_read(self, select: exp.Select) -> None:
        for name, value in select.args.items():
            if name in _READ or not value:
                continue
            clause = {"order": "ORDER BY", "limit": "LIMIT"}.get(name, name.strip("_").upper())
            raise refusal(
                select,
                f"{clause} inside a question about individuals would choose among different people's rows. Leave it "
                "out there, or write it in the outer query. The first row of each: QUALIFY ROW_NUMBER() OVER "
                f"(PARTITION BY {self.declared.unit} ORDER BY …) = 1.",
            )

    def _put_stage_in_from(self, select: exp.Select, stage: PersonStage, *, keep_joins: bool = False) -> None:
        """Put a stage in FROM, under the name or alias that stood there. Joins are dropped unless ``keep_joins``."""
        name = f"person stage {len(self.stages) + 1}"
        node = select.args["from_"].this
        table = exp.Table(this=exp.to_identifier(name, quoted=True))
        table.set("alias", exp.TableAlias(this=exp.to_identifier(node.alias or node.name, quoted=True)))
        select.set("from_", exp.From(this=table))
        if not keep_joins:
            select.set("joins", None)
        unit = replace(stage.schema.columns[stage.schema.unit], identifying=True)
        columns = {**stage.schema.columns, stage.schema.unit: unit}
        self.stages[name] = replace(stage, schema=replace(stage.schema, table=name, columns=columns))

    def _ties(self, schema: Schema) -> list[str]:
        """Return the columns that break ties in ORDER BY: the row key, then all other columns that the query reads.

        A query with ``*``, other than COUNT(*), reads all columns.
        """
        stars = any(not isinstance(node.parent, exp.Count) for node in self.written.find_all(exp.Star))
        mentioned = {node.name.lower() for node in self.written.find_all(exp.Column)}
        keys = [] if schema.row_key is None else [schema.row_key]
        others = [name for name in schema.columns if name not in (schema.unit, schema.row_key)]
        if not stars:
            own = {
                *self.declared.columns,
                *(f"{t.name}.{name}" for t in self.declared.tables.values() for name in t.columns),
            }
            others = [name for name in others if name not in own or name.lower().rsplit(".", 1)[-1] in mentioned]
        return [*keys, *others] or [schema.unit]


def _refuse_compared_numbers(select: exp.Select) -> None:
    """Refuse WHERE cost > (SELECT AVG(cost) …): the number of such a subquery depends on other people's rows."""
    for node in select.find_all(exp.Subquery):
        if node.parent_select is not select or isinstance(node.parent, (exp.In, exp.Exists)):
            continue
        if isinstance(node.find_ancestor(exp.Where, exp.Select), exp.Where):
            raise refusal(
                node,
                f"{clause_of(node)} is a number read off other people's rows: one person could move it, and with it "
                "everybody's rows. Write a number that is publicly known, or ask for it in a query of its own first. "
                "For a number about each individual use GROUP BY or OVER (PARTITION BY …) in a subquery.",
            )


def _read_limit(part: exp.Expression, scope: Scope, numbered: frozenset[str]) -> int | None:
    """Return how many rows of each individual `rn = 1`, `rn <= 3` or `rn < 4` keeps; None for another condition.

    ``numbered``: the columns that number an individual's rows from 1 on.
    """
    test = part.unnest()
    if not isinstance(test, (exp.EQ, exp.LTE, exp.LT)):
        return None
    column, literal = test.this.unnest(), test.expression.unnest()
    if not isinstance(column, exp.Column) or not isinstance(literal, exp.Literal) or literal.is_string:
        return None
    with suppress(QueryError):
        if scope.resolve(column).name in numbered and str(literal.this).isdigit():
            most = int(literal.this) - (1 if isinstance(test, exp.LT) else 0)
            return 1 if isinstance(test, exp.EQ) else max(most, 1)
    return None


def _is_row_number(tree: exp.Expression) -> bool:
    """Return whether a tree is a ROW_NUMBER that numbers all rows of an individual from 1 on."""
    window = tree.this if isinstance(tree, exp.Cast) else tree
    alone = isinstance(window, exp.Window) and len(window.args["partition_by"]) == 1
    return alone and isinstance(window.this, exp.RowNumber)


def _is_named(tree: exp.Expression, name: str) -> bool:
    return isinstance(tree, exp.Column) and tree.name == name


def _is_column(node: exp.Expression, name: str, scope: Scope) -> bool:
    with suppress(QueryError):
        return _is_named(check_total(node, scope), name)
    return False


def _group_nodes(select: exp.Select, scope: Scope) -> list[exp.Expression]:
    """Return the expressions that a level groups by: those of GROUP BY, or the items of a SELECT DISTINCT.

    Empty where these are no plain list: with ROLLUP and the like, with DISTINCT ON, with GROUP BY (not ALL) beside
    DISTINCT, and if an item of a SELECT DISTINCT holds an aggregate, a window or ``*``.
    """
    group, distinct = select.args.get("group"), select.args.get("distinct")
    items = [unaliased(item) for item in select.expressions]
    plain = [item for item in items if item.find(exp.AggFunc, exp.Window, exp.Star) is None]
    if group is None:
        return plain if distinct is not None and not distinct.args.get("on") and len(plain) == len(items) else []
    if group.args.get("all") is True and not group.expressions:
        return plain
    if any(value for name, value in group.args.items() if name != "expressions") or distinct is not None:
        return []
    return [
        node if isinstance(node, exp.Literal) and not node.is_int else dereference(node, select, scope)
        for node in group.expressions
    ]


def _without_stars(items: Iterable[exp.Expression], rows: PersonRows) -> Iterator[exp.Expression]:
    """Yield the SELECT list with `*` written out. Refuses `*` over joined tables."""
    for item in items:
        if not is_star(item):
            yield item
            continue
        expect_plain_star(item)
        if rows.joins:
            raise refusal(item, f"{clause_of(item)}: list the columns by name.")
        yield from (written_column(name) for name in rows.schema.columns)
