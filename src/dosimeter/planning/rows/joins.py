"""The tables of FROM: one, or several joined so that every joined row still belongs to one individual.

Takes the parsed FROM and JOINs and the Schema; gives a Scope in which every column has one meaning, the joins, and
the schema of the joined rows. A join that could multiply an individual's rows beyond what the schema bounds is
refused. Never opens a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.query_plan import Join, QueryPlan
from dosimeter.planning.rows.parsing import NO_SUBQUERIES, is_plain_table, read_table_name
from dosimeter.problems import Hint, for_controller
from dosimeter.schema import Column, ColumnType, JoinTable, Schema
from dosimeter.sql import (
    COLUMN_TYPES,
    Scope,
    alias,
    clause_of,
    column_tree,
    conjunction,
    expect_only,
    list_conditions,
    refusal,
)

MOST_JOINED = 100_000  # rows that joins may make of one individual's rows; an engine could fail for whoever has most


@dataclass(frozen=True, slots=True)
class JoinedScope(Scope):
    """The meaning of column names over several joined tables.

    ``prefixes``: by a table's name or alias, what the full names of its columns start with. ``merged``: columns that
    USING merged with a column of an earlier table; a bare name never means these.
    """

    prefixes: Mapping[str, str]
    merged: frozenset[str] = frozenset()

    def resolve(self, node: exp.Column) -> Column:
        expect_only(node, "this", "table")
        if node.table:
            prefix = self.prefixes.get(node.table.lower())
            if prefix is None:
                raise refusal(node, f"Unknown table {node.table}. The query's tables are {', '.join(self.prefixes)}.")
            found = [self._column(prefix + node.name)]
        else:
            names = [prefix + node.name for prefix in dict.fromkeys(self.prefixes.values())]
            found = [self._column(name) for name in names if name.lower() not in self.merged]
        known = [column for column in found if column is not None]
        if len(known) == 1:
            return known[0]
        if known:
            raise refusal(node, f"{node.name} stands in several tables. Write table.{node.name}.")
        raise refusal(node, f"There is no column {clause_of(node)}. Known columns: {', '.join(self.schema.columns)}.")

    def knows(self, name: str) -> bool:
        """Return whether at least one table joined so far has a column of this bare name."""
        return any(self._column(prefix + name) is not None for prefix in self.prefixes.values())

    def _column(self, name: str) -> Column | None:
        lowered = name.lower()
        return next((column for key, column in self.schema.columns.items() if key.lower() == lowered), None)


def scope_of(plan: QueryPlan) -> Scope:
    """Return what column names mean in a condition on people, such as a preference's FILTER.

    They mean columns of the first table and of the joined tables. With a person stage, they mean columns of the first
    table alone. Table aliases of the query are unknown here.
    """
    names = frozenset({plan.table.lower(), plan.table.rsplit(".", 1)[-1].lower()})
    if not plan.joins or plan.person is not None:
        return Scope(plan.table_schema, names)
    prefixes = dict.fromkeys(sorted(names), "")
    prefixes |= {join.table.name.lower(): f"{join.table.name}." for join in plan.joins}
    merged = {
        f"{join.table.name}.{right}".lower()
        for join in plan.joins
        for left, right in join.pairs
        if left.rsplit(".", 1)[-1].lower() == right.lower()
    }
    return JoinedScope(plan.schema, names, prefixes, frozenset(merged))


def find_column(plan: QueryPlan, name: str) -> Column:
    """Return a column that ``scope_of`` knows. ``name``: its full name, or its bare name if only one table has it.

    Raises QueryError if there is none, or if several tables have it.
    """
    columns = scope_of(plan).schema.columns
    full = next((column for known, column in columns.items() if known.lower() == name.lower()), None)
    return scope_of(plan).resolve(exp.column(exp.to_identifier(name, quoted=True))) if full is None else full


def list_unit_columns(plan: QueryPlan) -> set[str]:
    """Return the full names of all unit columns, and of columns of joined tables that a join makes equal to one."""
    return _with_joined(plan, plan.schema.unit, lambda table: table.unit)


def _with_joined(plan: QueryPlan, name: str | None, read: Callable[[JoinTable], str | None]) -> set[str]:
    """Return the full names of a key in all tables, and of the columns that a join makes equal to it.

    The key is the unit column, or the row key. ``name``: the key of the first table, or None. ``read``: returns the key
    of a joined table, or None. If the key is id, JOIN visits ON id = visits.patient adds visits.patient.
    """
    found = set() if name is None else {name}
    for join in plan.joins:
        own = read(join.table)
        if own is not None:
            found.add(f"{join.table.name}.{own}")
        found |= {f"{join.table.name}.{right}" for left, right in join.pairs if left in found}
    return found


def list_identifying(plan: QueryPlan) -> set[str]:
    """Return the full names of the columns that identify people in a plan's rows.

    These are columns marked as identifying, unit columns, and row keys, since each row belongs to one person. Row keys
    that only number each individual's rows are left out.
    """
    columns = plan.schema.columns
    marked = {name for name, column in columns.items() if column.identifying}
    row_keys = _with_joined(plan, plan.schema.row_key, lambda table: table.row_key)
    keys = list_unit_columns(plan) | {name for name in row_keys if not counts_within_people(plan.schema, name)}
    return marked | {name for name in keys if name in columns}


def counts_within_people(schema: Schema, name: str) -> bool:
    """Return whether a row key only numbers the rows of each individual, such as the number of a visit.

    This is taken to be so for a whole number with several declared values, but no more values than there are
    individuals. A condition on such a key singles out nobody, since everybody has a first visit.
    """
    column = schema.columns.get(name)
    if column is None or column.bounds is None or schema.individuals is None:
        return False
    low, high = (Decimal(str(bound)) for bound in column.bounds) if column.type is ColumnType.INTEGER else (0, 0)
    return 0 < high - low < schema.individuals


def name_columns(plan: QueryPlan, trees: Iterable[exp.Expression]) -> set[str]:
    """Return the full names of the columns that these conditions mention, as ``scope_of`` understands them."""
    scope = scope_of(plan)
    return {scope.resolve(node).name for tree in trees for node in tree.find_all(exp.Column)}


def resolve_table(select: exp.Select, schema: Schema) -> Scope:
    """Return the scope (what names mean) of the first table of FROM. Refuses anything but the schema's table."""
    origin = select.args.get("from_")
    if origin is None:
        raise QueryError(f"The query has no FROM. The table is {schema.table}.")
    table = origin.this
    if isinstance(table, exp.Subquery):
        raise refusal(table, NO_SUBQUERIES)
    if not is_plain_table(table):
        raise refusal(table, f"Only a plain table can stand in FROM. The table is {schema.table}.")
    if table.args.get("joins"):
        raise refusal(table, f"{clause_of(table)}: write joins one after the other, without parentheses.")
    written = read_table_name(table)
    if written.lower() != schema.table.lower():
        raise refusal(table, f"There is no table {written}. The table is {schema.table}.")
    return Scope(schema, frozenset({table.name.lower(), table.alias_or_name.lower()}))


def resolve_joins(select: exp.Select, base: Scope) -> tuple[Scope, tuple[Join, ...]]:
    """Return what names mean in the joined rows of a SELECT, with the schema of these rows, and its joins.

    ``base``: the scope of the first table. Refuses a join that could multiply an individual's rows beyond what the
    schema bounds.
    """
    written = select.args.get("joins") or []
    if not written:
        return base, ()
    schema = base.schema
    prefixes = dict.fromkeys(sorted(base.names), "")
    merged: set[str] = set()
    joins: list[Join] = []
    for node in written:
        table, names = _join_table(node, base.schema)
        _require_new(node, table, names, joins, prefixes, schema)
        pairs = tuple(_pairs(node, table, names, JoinedScope(schema, base.names, prefixes, frozenset(merged))))
        rows = _rows_after(node, table, pairs, base.schema)
        _require_few(node, schema.max_rows_per_unit, rows)
        joins.append(Join(table, _is_left(node), pairs))
        added = {f"{table.name}.{name}": replace(c, name=f"{table.name}.{name}") for name, c in table.columns.items()}
        schema = replace(schema, columns={**schema.columns, **added}, max_rows_per_unit=schema.max_rows_per_unit * rows)
        prefixes |= dict.fromkeys(names, f"{table.name}.")
        if node.args.get("using"):
            merged |= {f"{table.name}.{right}".lower() for _, right in pairs}
    return JoinedScope(schema, base.names, prefixes, frozenset(merged)), tuple(joins)


def write_commas_as_joins(select: exp.Select) -> exp.Select:
    """Change FROM a, b WHERE a.x = b.x AND … into FROM a JOIN b ON a.x = b.x WHERE …, and return the same SELECT.

    A SELECT without commas, or without WHERE, is not changed.
    """
    bare = [join for join in select.args.get("joins") or [] if _is_comma(join)]
    where = select.args.get("where")
    if not bare or where is None:
        return select
    rest = list_conditions(where.this)
    for join in bare:
        names = {join.this.name.lower(), join.this.alias_or_name.lower()}
        tests = [test for test in rest if _compares_tables(test, names)]
        rest = [test for test in rest if test not in tests]
        if tests:
            join.set("on", conjunction(test.copy() for test in tests))
    kept = conjunction(test.copy() for test in rest)
    select.set("where", None if kept is None else exp.Where(this=kept))
    return select


def _is_comma(join: exp.Expression) -> bool:
    plain = not any(join.args.get(name) for name in ("on", "using", "side", "kind", "method"))
    return plain and isinstance(join.this, exp.Table)


def _compares_tables(test: exp.Expression, names: set[str]) -> bool:
    """Return whether a condition is: column of this table = column of another one. ``names``: this table's names."""
    bare = test.unnest()
    sides = [bare.this.unnest(), bare.expression.unnest()] if isinstance(bare, exp.EQ) else []
    tables = [side.table.lower() for side in sides if isinstance(side, exp.Column) and side.table]
    return len(tables) == 2 and sum(table in names for table in tables) == 1


def _require_new(
    node: exp.Expression,
    table: JoinTable,
    names: list[str],
    joins: list[Join],
    prefixes: Mapping[str, str],
    schema: Schema,
) -> None:
    """Refuse a table that is joined twice, or whose name, alias or columns are in use already.

    ``names``: the table's name and alias. ``prefixes``: has the names and aliases of the tables before it. ``schema``:
    that of the rows joined so far, which may have a column with the full name of one of the table's columns.
    """
    if any(join.table.name == table.name for join in joins):
        raise refusal(node, f"{table.name} is joined twice. Join each table once.")
    taken = [name for name in names if name in prefixes]
    if taken:
        raise refusal(node, f"{taken[0]} already stands for another table of the query. Choose another alias.")
    lowered = {name.lower() for name in schema.columns}
    clash = [name for name in table.columns if f"{table.name}.{name}".lower() in lowered]
    if clash:
        raise refusal(
            node, f"The first table has a column called {table.name}.{clash[0]}: rename it, or the joined table."
        )


def _join_table(node: exp.Expression, schema: Schema) -> tuple[JoinTable, list[str]]:
    expect_only(node, "this", "on", "using", "side", "kind", "method")
    if node.args.get("method") or str(node.args.get("kind") or "INNER").upper() not in ("INNER", "OUTER", ""):
        raise refusal(node, f"{clause_of(node)}: only [INNER] JOIN and LEFT JOIN are supported.")
    if str(node.args.get("side") or "").upper() not in ("", "LEFT"):
        raise refusal(node, f"{clause_of(node)}: only [INNER] JOIN and LEFT JOIN are supported.")
    target = node.this
    if not is_plain_table(target):
        raise refusal(node, f"{clause_of(node)}: only a table that the schema declares can be joined.")
    written = read_table_name(target)
    for name, table in schema.tables.items():
        if name.lower() == written.lower():
            return table, list(dict.fromkeys([target.name.lower(), target.alias_or_name.lower()]))
    if written.lower() == schema.table.lower():
        raise refusal(node, f"{clause_of(node)}: a table cannot be joined with itself, {_explain_self_join(schema)}")
    raise refusal(
        node,
        f"{written} is not declared.",
        Hint("Ask one table."),
        for_controller(f'Or add [tables.{written}] public = true, key = "…" and its columns to the schema.'),
    )


def _explain_self_join(schema: Schema) -> str:
    """Say why a table is not joined with itself, and what to write instead."""
    if schema.unit == "row":
        return "because every row is another individual: a joined row would belong to two."
    return (
        f"because every row of an individual would meet all their others, and other people's rows too unless "
        f"{schema.unit} is compared. Compare an individual's own rows by a window, LAG(…) OVER (PARTITION BY "
        f"{schema.unit} ORDER BY …) in a subquery, or join what is computed of each: JOIN (SELECT {schema.unit}, "
        f"MIN(…) AS first FROM {schema.table} GROUP BY {schema.unit}) AS own USING ({schema.unit})."
    )


def _is_left(node: exp.Expression) -> bool:
    return str(node.args.get("side") or "").upper() == "LEFT"


def _pairs(node: exp.Expression, table: JoinTable, names: list[str], scope: JoinedScope) -> Iterator[tuple[str, str]]:
    using, on = node.args.get("using"), node.args.get("on")
    if using:
        for identifier in using:
            yield _pair(exp.column(identifier.name), identifier.name, table, scope)
        return
    if on is None:
        raise refusal(node, f"{clause_of(node)} joins every row with every row. Say on which column: USING (column).")
    for condition in list_conditions(on):
        test = condition.unnest()
        sides = [test.this.unnest(), test.expression.unnest()] if isinstance(test, exp.EQ) else []
        columns = [side for side in sides if isinstance(side, exp.Column)]
        if len(columns) != 2:
            raise refusal(node, f"{clause_of(condition)}: a join compares columns with =, joined by AND.")
        here = [side for side in columns if _is_of(side, table, names, scope)]
        there = [side for side in columns if _is_of_others(side, table, names, scope)]
        if len(here) != 1 or len(there) != 1:
            raise refusal(node, f"{clause_of(condition)}: write the tables' names before the columns, on both sides.")
        yield _pair(there[0], here[0].name, table, scope)


def _is_of(side: exp.Column, table: JoinTable, names: list[str], scope: JoinedScope) -> bool:
    """Return whether a column of a join condition belongs to the joined table.

    It does if it is written with this table's name, or if no other table has a column of its bare name.
    """
    if side.table:
        return side.table.lower() in names
    return _has(table, side.name) and not scope.knows(side.name)


def _is_of_others(side: exp.Column, table: JoinTable, names: list[str], scope: JoinedScope) -> bool:
    if side.table:
        return side.table.lower() not in names
    return scope.knows(side.name) and not _has(table, side.name)


def _has(table: JoinTable, name: str) -> bool:
    return name.lower() in {known.lower() for known in table.columns}


def _pair(left: exp.Column, right: str, table: JoinTable, scope: JoinedScope) -> tuple[str, str]:
    found = next((name for name in table.columns if name.lower() == right.lower()), None)
    if found is None:
        raise QueryError(f"The table {table.name} has no column {right} in the schema.", clause=right)
    column = scope.resolve(left)
    if COLUMN_TYPES[column.type] is not COLUMN_TYPES[table.columns[found].type]:
        raise refusal(
            left,
            f"{column.name} is {column.type} and {table.name}.{found} is {table.columns[found].type}: "
            "they cannot be equal.",
        )
    return column.name, found


def _rows_after(node: exp.Expression, table: JoinTable, pairs: tuple[tuple[str, str], ...], base: Schema) -> int:
    """Return how many joined rows one row can become: 1, or ``max_rows_per_unit`` of the joined table if it is private.

    Refuses a public table that is not joined on its unique key, and a private one that is not joined on the unit.
    ``node``: the join, for the message. ``pairs``: the columns that it compares, each pair being a column joined so far
    and a column of ``table``. ``base``: the schema of the first table.
    """
    if table.public:
        if table.key in {right for _, right in pairs}:
            return 1
        raise refusal(
            node,
            f"Joining {table.name} like this could multiply an individual's rows. Join on its unique key {table.key}.",
        )
    if base.unit == "row" or table.unit is None:
        raise refusal(
            node,
            f"{table.name} is private. It can be joined only where both tables name the unit column in the schema.",
        )
    if (base.unit, table.unit) not in pairs:
        raise refusal(
            node,
            f"{table.name} is private: join it on the unit column, so that each joined row belongs to one individual "
            f"({base.unit} = {table.name}.{table.unit}).",
        )
    return table.max_rows_per_unit


def _require_few(node: exp.Expression, before: int, rows: int) -> None:
    """Refuse a join that could make too many rows of one individual's. ``before``: how many it has without the join."""
    if rows > 1 and before * rows > MOST_JOINED:
        raise refusal(
            node,
            f"This join could make {before * rows:,} rows of one individual's; at most {MOST_JOINED:,} are supported. "
            "Group a table by individual before joining it, so that each has one row in it.",
        )


def joined_relation(
    joins: tuple[Join, ...], base: exp.Expression, schema: Schema, others: Mapping[str, exp.Expression]
) -> exp.Expression:
    """Return the base table's rows joined with other tables. The columns of these have their full names, table.column.

    ``base``: the rows of the first table. ``others``: the rows of each joined table, by its name. ``schema``: that of
    the joined rows.
    """
    added = {f"{join.table.name}.{name}" for join in joins for name in join.table.columns}
    own = [name for name in schema.columns if name not in added]
    query = exp.select(*[alias(column_tree(name, "base"), name, quoted=True) for name in own]).from_(
        _aliased(base, "base")
    )
    columns = {name: column_tree(name, "base") for name in own}
    for number, join in enumerate(joins):
        place = f"joined{number}"
        tests = [exp.EQ(this=columns[left].copy(), expression=column_tree(right, place)) for left, right in join.pairs]
        kind = "left" if join.left else "inner"
        query = query.join(_aliased(others[join.table.name], place), on=conjunction(tests), join_type=kind)
        for name in join.table.columns:
            full = f"{join.table.name}.{name}"
            columns[full] = column_tree(name, place)
            query = query.select(alias(columns[full].copy(), full, quoted=True))
    return query.subquery("joined")


def _aliased(relation: exp.Expression, alias: str) -> exp.Expression:
    if isinstance(relation, exp.Subquery):
        return exp.Subquery(this=relation.this.copy(), alias=exp.TableAlias(this=exp.to_identifier(alias)))
    return exp.select(exp.Star()).from_(relation.copy()).subquery(alias)
