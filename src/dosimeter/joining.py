"""Joined tables in front of an engine: every query of ours sees the joined rows as one relation.

Private tables are bounded to their own m rows per individual before they are joined, and a public table's key is
checked to be unique, so that each joined row belongs to one individual and their number stays within the plan's m.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dosimeter.engines.base import Engine
from dosimeter.errors import DataError
from dosimeter.expression import column_tree
from dosimeter.model import ColumnType, Join, JoinTable, QueryPlan, Schema
from dosimeter.sources import joined_relation
from dosimeter.units import bounded_relation

if TYPE_CHECKING:
    import pyarrow as pa


class JoinedEngine:
    """An engine whose relation is the plan's joined rows. Everything else is the engine's own."""

    def __init__(self, engine: Engine, plan: QueryPlan, base: Schema) -> None:
        self._engine = engine
        self._plan = plan
        self.name = engine.name
        others = {join.table.name: _bounded(engine, join.table, base) for join in plan.joins}
        for join in plan.joins:
            if join.table.public:
                _require_unique(engine, join, others[join.table.name])
        self._relation = joined_relation(plan.joins, engine.relation(), plan.schema, others)

    @property
    def rows_fetched(self) -> int:
        return self._engine.rows_fetched

    def relation(self) -> exp.Expression:
        return self._relation.copy()

    def joined(self, table: JoinTable) -> exp.Expression:
        return self._engine.joined(table)

    def default_table(self) -> str:
        return self._engine.default_table()

    def describe(self) -> Mapping[str, ColumnType]:
        return self._engine.describe()

    def impose(self, schema: Schema) -> None:
        self._engine.impose(schema)

    def fetch(self, query: exp.Select) -> pa.Table:
        return self._engine.fetch(query)

    def fingerprint(self) -> str:
        return self._engine.fingerprint()

    def progress(self) -> float | None:
        return self._engine.progress()

    def interrupt(self) -> None:
        self._engine.interrupt()

    def close(self) -> None:
        self._engine.close()


def _bounded(engine: Engine, table: JoinTable, base: Schema) -> exp.Expression:
    relation = engine.joined(table)
    if table.public or table.unit is None:
        return relation
    schema = replace(
        base,
        columns=table.columns,
        unit=table.unit,
        max_rows_per_unit=table.max_rows_per_unit,
        row_key=table.row_key,
        tables={},
    )
    return bounded_relation(schema, relation)


def _require_unique(engine: Engine, join: Join, relation: exp.Expression) -> None:
    key = column_tree(str(join.table.key))
    query = exp.select(
        exp.alias_(exp.Count(this=key), "rows_with_key"),
        exp.alias_(exp.Count(this=exp.Distinct(expressions=[key.copy()])), "keys"),
    ).from_(relation.copy())
    row = engine.fetch(query).to_pylist()[0]
    if row["rows_with_key"] != row["keys"]:
        raise DataError(
            f"[tables.{join.table.name}] key {join.table.key} is not unique in its table, so that a join could multiply "
            "an individual's rows. Correct the table or name another key."
        )
