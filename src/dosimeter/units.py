"""Individuals with many rows: how many there are, and which of their rows count.

Of an individual with more than m rows, the m with the smallest md5 of (unit, row key) are kept: inside the engine,
before the WHERE, the same on every engine, for risk and for release. ``BoundedEngine`` puts that in front of every
query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from dosimeter.engines.base import Engine
from dosimeter.errors import DataError
from dosimeter.expression import column_tree
from dosimeter.model import ColumnType, JoinTable, Schema

if TYPE_CHECKING:
    import pyarrow as pa

UNIT = "unit"


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """How many individuals there are and how many rows the busiest has."""

    individuals: int
    most_rows: int


class BoundedEngine:
    """An engine that shows at most m rows of each individual. Everything else is the engine's own."""

    def __init__(self, engine: Engine, schema: Schema) -> None:
        self._engine = engine
        self._schema = schema
        self._facts: UnitFacts | None = None
        self.name = engine.name

    @property
    def rows_fetched(self) -> int:
        return self._engine.rows_fetched

    def facts(self) -> UnitFacts:
        """Counted once: individuals, and whether anybody has more rows than the schema allows."""
        if self._facts is None:
            row = self._engine.fetch(facts_query(self._schema, self._engine.relation())).to_pylist()[0]
            if row["missing"]:
                raise DataError(
                    f"The unit column {self._schema.unit} is NULL in {int(row['missing']):,} rows. Every row must "
                    "belong to an individual: remove them, or correct the data."
                )
            self._facts = UnitFacts(int(row["individuals"] or 0), int(row["most"] or 0))
        return self._facts

    def relation(self) -> exp.Expression:
        relation = self._engine.relation()
        if self.facts().most_rows <= self._schema.max_rows_per_unit:
            return relation
        return bounded_relation(self._schema, relation)

    def joined(self, table: JoinTable) -> exp.Expression:
        return self._engine.joined(table)

    def default_table(self) -> str:
        return self._engine.default_table()

    def describe(self) -> Mapping[str, ColumnType]:
        return self._engine.describe()

    def impose(self, schema: Schema) -> None:
        self._engine.impose(schema)
        self._schema = schema
        self._facts = None

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


# ---------------------------------------------------------------- which rows count


def facts_query(schema: Schema, relation: exp.Expression) -> exp.Select:
    """Individuals, the most rows of one of them, and rows without a unit."""
    unit = column_tree(schema.unit)
    per_unit = (
        exp.select(exp.alias_(unit, UNIT), exp.alias_(exp.Count(this=exp.Star()), "n"))
        .from_(relation.copy())
        .group_by(exp.Literal.number(1))
    )
    absent = exp.Is(this=exp.column(UNIT), expression=exp.Null())
    rows = exp.Case(ifs=[exp.If(this=exp.Not(this=absent.copy()), true=exp.column("n"))])
    missing = exp.Case(ifs=[exp.If(this=absent, true=exp.column("n"))], default=exp.Literal.number(0))
    return exp.select(
        exp.alias_(exp.Count(this=exp.column(UNIT)), "individuals"),
        exp.alias_(exp.Max(this=rows), "most"),
        exp.alias_(exp.Sum(this=missing), "missing"),
    ).from_(per_unit.subquery("per_unit"))


def bounded_relation(schema: Schema, relation: exp.Expression) -> exp.Expression:
    """The rows that count: all of those with at most m, and the m chosen ones of the others."""
    names = list(schema.columns)
    columns = [exp.alias_(column_tree(name), name, quoted=True) for name in names]
    unit = column_tree(schema.unit)
    busy = (
        exp.select(exp.alias_(unit.copy(), UNIT))
        .from_(relation.copy())
        .group_by(exp.Literal.number(1))
        .having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(schema.max_rows_per_unit)))
    )
    is_busy = exp.In(this=unit.copy(), query=exp.Subquery(this=busy))
    rank = exp.Window(
        this=exp.RowNumber(),
        partition_by=[unit.copy()],
        order=exp.Order(expressions=[exp.Ordered(this=key, nulls_first=False) for key in _choice_keys(schema)]),
        over="OVER",
    )
    ranked = (
        exp.select(*[c.copy() for c in columns], exp.alias_(rank, "kept_rank")).from_(relation.copy()).where(is_busy)
    )
    limit = exp.LTE(this=exp.column("kept_rank"), expression=exp.Literal.number(schema.max_rows_per_unit))
    kept = exp.select(*[c.copy() for c in columns]).from_(ranked.subquery("ranked")).where(limit)
    others = exp.select(*columns).from_(relation.copy()).where(exp.Not(this=exp.Paren(this=is_busy.copy())))
    return exp.Union(this=others, expression=kept, distinct=False).subquery("bounded")


def _choice_keys(schema: Schema) -> list[exp.Expression]:
    """md5 of (unit, row key), then the row key itself, so that the choice is fixed even for equal digests."""
    unit, key = (_as_text(column_tree(name)) for name in (schema.unit, str(schema.row_key)))
    joined = exp.DPipe(this=exp.DPipe(this=unit, expression=exp.Literal.string(":")), expression=key)
    return [exp.MD5(this=joined), key.copy()]


def _as_text(tree: exp.Expression) -> exp.Expression:
    return exp.Cast(this=tree, to=exp.DataType.build("TEXT"))
