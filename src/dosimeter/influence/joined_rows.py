"""Wrap an engine so that every query sees the plan's joined rows as one relation.

Private tables are bounded to ``max_rows_per_unit`` rows of each individual before they are joined, and a public table's
key is checked to be unique. So each joined row belongs to one individual, and nobody has more joined rows than the
plan's schema says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from dosimeter.engines import Engine, EngineInFront
from dosimeter.errors import SchemaError
from dosimeter.influence.bounded_rows import bound_relation, find_facts
from dosimeter.planning import QueryPlan, joined_relation, joined_rows
from dosimeter.schema import JoinTable, Schema, unit_schema
from dosimeter.sql import column_tree, conjunction


class JoinedEngine(EngineInFront):
    """An engine whose relation is the plan's joined rows.

    ``base``: the declared schema of the first table. ``first``: the engine that shows that table's own rows.
    """

    def __init__(self, engine: Engine, plan: QueryPlan, base: Schema, first: Engine) -> None:
        super().__init__(engine)
        self._first = first
        self._plan = plan
        self._base = base
        self._others: tuple[int, Mapping[str, exp.Expression]] | None = None

    @property
    def first(self) -> Engine:
        """Return the engine that shows the first table's own rows, without joins."""
        return self._first

    def relation(self) -> exp.Expression:
        if self._others is None or self._others[0] != self.generation:
            tables = [join.table for join in self._plan.joins]
            others = {table.name: joined_rows(table, self._rows) for table in tables}
            self._others = (self.generation, others)
        return joined_relation(self._plan.joins, self._engine.relation(), self._plan.schema, self._others[1])

    def _rows(self, table: JoinTable | None) -> exp.Expression:
        """Return those rows of a table that may be joined (``bound_table``); None stands for the first table."""
        return self._first.relation() if table is None else bound_table(self._engine, table, self._base)

    def keeping_everybody(self) -> tuple[QueryPlan, JoinedEngine]:
        """Return a plan that measures the same with left joins only, and an engine that shows its rows.

        Rows that an inner join would drop are dropped by the WHERE instead. So everybody has a row to read attributes
        off: a preference's FILTER and ``--by`` are about everybody, whether or not the query reads their rows.
        """
        plan = self._plan
        found = [
            exp.Not(this=exp.Is(this=column_tree(f"{join.table.name}.{join.pairs[0][1]}"), expression=exp.Null()))
            for join in plan.joins
            if not join.left
        ]

        def only_found(where: exp.Expression | None) -> exp.Expression | None:
            return conjunction([*([] if where is None else [where.copy()]), *(test.copy() for test in found)])

        everybody = replace(
            plan,
            where=only_found(plan.where),
            joins=tuple(replace(join, left=True) for join in plan.joins),
            further=tuple(replace(block, where=only_found(block.where)) for block in plan.further),
        )
        return everybody, JoinedEngine(self._engine, everybody, self._base, self._first)


def bound_table(engine: Engine, table: JoinTable, base: Schema) -> exp.Expression:
    """Return those rows of a table that may be joined: if the table is private, at most m of each individual.

    m is the table's own ``max_rows_per_unit``. A public table keeps all rows; its key must be unique, otherwise
    SchemaError is raised. ``base``: the schema of the first table.
    """
    relation = engine.joined(table)
    if table.public or table.unit is None:
        require_unique(engine, table, relation)
        return relation
    schema = unit_schema(table, table.unit, base)
    return bound_relation(engine, schema, relation, find_facts(engine, schema, relation))


def require_unique(engine: Engine, table: JoinTable, relation: exp.Expression) -> None:
    key = column_tree(str(table.key))
    query = exp.select(
        exp.alias_(exp.Count(this=key), "rows_with_key"),
        exp.alias_(exp.Count(this=exp.Distinct(expressions=[key.copy()])), "keys"),
    ).from_(relation.copy(), copy=False)
    row = engine.fetch(query).to_pylist()[0]
    if row["rows_with_key"] != row["keys"]:
        raise not_unique(table)


def not_unique(table: JoinTable) -> SchemaError:
    """Return the error for a public table whose key is not unique. Since it is public, the message reveals nobody."""
    return SchemaError(
        f"[tables.{table.name}] key {table.key} is not unique in its table, so that a join could multiply an "
        "individual's rows. Correct the table or name another key."
    )
