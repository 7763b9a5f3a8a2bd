"""Public tables that are joined after the noise (Q4): by their unique key, so that no row becomes several.

The plan names the tables and columns; an engine reads them before anything is charged. In the embedded engine they are
called public0, public1 …. Each released row finds at most one row of such a table by its group. The columns of that row
are constants in the released row's formulas, called p0, p1 …. So a number computed with them still has a 95 % error
(E1). Knows no data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.after.expressions import SHORT
from dosimeter.planning.after.measuring_select import Field, Relation, seek_column
from dosimeter.planning.query_plan import AfterNoise, Lookup, Output, PublicTable, QueryPlan
from dosimeter.planning.rows.joins import write_commas_as_joins
from dosimeter.planning.rows.parsing import unaliased
from dosimeter.schema import Column, JoinTable, Schema
from dosimeter.sql import COLUMN_TYPES, Type, clause_of, column_tree, expect_only, refusal

PUBLIC = "public"
MOST_TEXT = 256  # characters of a text in a public table, where its declared values are not longer
_PICKED = "picked"


def limit_public_text(column: Column) -> int:
    """Return how many characters a text in a column of a public table may have."""
    return max([MOST_TEXT, *(len(value) for value in column.values or ())])


def read_relation(table: JoinTable, schema: Schema) -> Relation:
    """Return a public table as a relation that can be joined. ``schema``: the one that declares it."""
    fields = tuple(
        Field(name, None, None, limit_public_text(column) if kind is Type.TEXT else SHORT, kind, public=True)
        for name, column in table.columns.items()
        for kind in [COLUMN_TYPES[column.type]]
    )
    steps = (f"a join with the public table {table.name}",)
    return Relation(select_public(table, schema, table.columns), fields, 1, False, steps, blocks=(), public=table)


def select_public(table: JoinTable, schema: Schema, columns: Collection[str]) -> exp.Select:
    """Return the SELECT of these columns and of the key from a public table, as the embedded engine names it."""
    place = f"{PUBLIC}{list(schema.tables.values()).index(table)}"
    names = [name for name in table.columns if name in columns or name == table.key]
    return exp.select(*[exp.column(exp.to_identifier(name, quoted=True), table=place) for name in names]).from_(place)


def is_public_name(name: str) -> bool:
    """Return whether this is the name of a public table in the embedded engine."""
    return name.startswith(PUBLIC) and name.removeprefix(PUBLIC).isdigit()


# ---------------------------------------------------------------- how it may be joined


def arrange_public(select: exp.Select, public: Collection[str]) -> None:
    """Change the SELECT so that commas become joins, and a public table does not come first but second.

    The first two tables change places only in an inner join, and not under ``SELECT *``, whose columns would change
    their order. ``public``: the names and aliases of the public tables.
    """
    joins = select.args.get("joins") or []
    origin = select.args["from_"]
    starred = any(isinstance(unaliased(item), exp.Star) for item in select.expressions)
    if _name(origin.this) in public and joins and _is_inner(joins[0]) and not starred:
        first, second = origin.this, joins[0].this
        if _name(second) not in public:
            origin.set("this", second)
            joins[0].set("this", first)
    write_commas_as_joins(select)


def _name(node: exp.Expression) -> str:
    return str(node.alias_or_name).lower()


def _is_inner(join: exp.Expression) -> bool:
    return not join.args.get("side") and str(join.args.get("kind") or "").upper() in ("", "INNER")


def join_by_key(
    join: exp.Expression, name: str, relation: Relation, before: Mapping[str, Relation]
) -> tuple[tuple[str, Field], Field, Relation]:
    """Check the join of a public table. Return the two columns that it compares, and the table with its formulas.

    The first column comes with the name of its relation: one of ``before``, the relations joined so far. It must be a
    group or a public column. The second must be the public table's key, so that each row finds at most one row of the
    table. Refuses any other join.
    """
    table = relation.public
    assert table is not None
    kinds = (str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper())
    if join.args.get("method") or kinds not in {("", ""), ("", "INNER"), ("LEFT", ""), ("LEFT", "OUTER")}:
        raise refuse_join(join, table, "only JOIN and LEFT JOIN can add a public table after grouping")
    expect_only(join, "this", "on", "using", "side", "kind")
    left, key = _find_sides(join, name, relation, before)
    if key.name != table.key:
        raise refuse_join(join, table, f"{key.name} is not the key of {table.name}, so that rows could multiply")
    if left[1].type is None:
        raise refuse_join(join, table, f"{left[1].name} is neither a column of the GROUP BY nor a public one")
    if left[1].type is not key.type:
        raise refusal(
            join, f"{left[1].name} is {left[1].type} and {table.name}.{key.name} is {key.type}: they cannot be equal."
        )
    fields = tuple(_pick_field(each, each is key and not kinds[0], relation, left[1]) for each in relation.fields)
    return left, key, replace(relation, fields=fields)


def refuse_join(node: exp.Expression, table: JoinTable, reason: str) -> QueryError:
    """Return the error for a join after grouping that is not supported. Its message shows the form that works."""
    return refusal(
        node,
        f"{clause_of(node)}: {reason}. Join it to the grouped query by its unique key: FROM (SELECT …) AS g JOIN "
        f"{table.name} ON g.{table.key} = {table.name}.{table.key}.",
    )


def _find_sides(
    join: exp.Expression, name: str, relation: Relation, before: Mapping[str, Relation]
) -> tuple[tuple[str, Field], Field]:
    """Return the two columns that a join compares: one of ``before``, with its relation's name, and the public one."""
    table = relation.public
    assert table is not None
    using, on = join.args.get("using") or [], join.args.get("on")
    if len(using) == 1:
        column = exp.column(using[0].name)
        lefts, keys = seek_column(column, before)[:1], seek_column(column, {name: relation})
        if not lefts or not keys:
            raise refuse_join(join, table, f"both sides of USING need a column {column.name}")
        return lefts[0], keys[0][1]
    test = None if on is None else on.unnest()
    sides = [test.this.unnest(), test.expression.unnest()] if isinstance(test, exp.EQ) else []
    if len(sides) != 2 or not all(isinstance(side, exp.Column) for side in sides):
        raise refuse_join(
            join, table, "after grouping it is joined on one column = one column, and other conditions stand in WHERE"
        )
    for side in sides:
        expect_only(side, "this", "table")
    for one, other in (sides, sides[::-1]):
        lefts, keys = seek_column(one, before), seek_column(other, {name: relation})
        clear = (one.table or not seek_column(one, {name: relation})) and (
            other.table or not seek_column(other, before)
        )
        if len(lefts) == 1 and len(keys) == 1 and clear:
            return lefts[0], keys[0][1]
    raise refuse_join(join, table, "write the tables' names before the columns, on both sides")


def _pick_field(each: Field, is_key: bool, relation: Relation, left: Field) -> Field:
    if is_key:
        return replace(each, formula=left.formula, group=left.group)
    if left.formula is None:
        return each
    place = relation.query.args["from_"].this.name
    parts = [exp.Literal.string(place), exp.Literal.string(each.name), left.formula.copy()]
    return replace(each, formula=exp.Anonymous(this=_PICKED, expressions=parts))


# ---------------------------------------------------------------- in the plan


def add_public(plan: QueryPlan, schema: Schema) -> QueryPlan:
    """Return the plan with the public tables that it joins after the noise.

    Formulas then read their columns as p0, p1 …; ``after.lookups`` says what each stands for.
    """
    assert plan.after.query is not None
    tables = _list_tables(plan.after.query, schema)
    if not tables:
        return plan
    lookups: list[Lookup] = []
    outputs = tuple(_name_picked(output, tables, lookups) for output in plan.outputs)
    after: AfterNoise = replace(plan.after, public=tuple(tables.values()), lookups=tuple(lookups))
    return replace(plan, outputs=outputs, after=after)


def _list_tables(query: exp.Expression, schema: Schema) -> dict[str, PublicTable]:
    columns: dict[str, set[str]] = {}
    for node in query.find_all(exp.Table):
        if is_public_name(node.name) and isinstance(node.parent_select, exp.Select):
            columns.setdefault(node.name, set()).update(item.name for item in node.parent_select.expressions)
    declared = list(schema.tables.values())
    found: dict[str, PublicTable] = {}
    for place in sorted(columns):
        table = declared[int(place.removeprefix(PUBLIC))]
        found[place] = PublicTable(table, place, tuple(name for name in table.columns if name in columns[place]))
    return found


def _name_picked(output: Output, tables: Mapping[str, PublicTable], lookups: list[Lookup]) -> Output:
    """Return an output whose formula reads public columns as p0, p1 …, and add these to ``lookups``.

    It is marked as a label if it reads public columns and no released number.
    """

    def name(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Anonymous) or node.name != _PICKED:
            return node
        place, column, key = node.expressions
        kind = COLUMN_TYPES[tables[place.name].table.columns[column.name].type]
        lookup = Lookup(place.name, column.name, key.transform(name), kind)
        if lookup not in lookups:
            lookups.append(lookup)
        return column_tree(f"p{lookups.index(lookup)}")

    if output.formula is None:
        return output
    formula: exp.Expression = output.formula.transform(name)
    starts = [column.name[:1] for column in formula.find_all(exp.Column)]
    return replace(output, formula=formula, label=output.group is None and "p" in starts and "e" not in starts)
