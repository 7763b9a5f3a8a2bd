"""Count the individuals of a table where one can have many rows, and choose which of their rows count.

Of an individual with more than m rows (``max_rows_per_unit``), the m with the smallest md5 of (unit, row key) are kept.
The engine chooses them before the WHERE. Every engine chooses the same rows, and risk and release read the same rows.
Rows with the same key, or without one, are ordered by all their cells; rows that agree in every cell need no order. So
the rows that count depend on the individual's own rows alone. Rows with a NULL unit belong to nobody and are left out
(N4). ``BoundedEngine`` wraps an engine so that every query sees only the rows that count.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dosimeter.engines import Engine, EngineInFront
from dosimeter.schema import Schema
from dosimeter.sql import column_tree, connect

UNIT = "unit"
RANK = "dosimeter_rank"
BUSY = "dosimeter_busy"


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """Counts of a table with a unit column: individuals, the most rows of one individual, rows with a NULL unit."""

    individuals: int
    most_rows: int
    missing: int


class BoundedEngine(EngineInFront):
    """An engine that shows at most m rows of each individual, m being the schema's ``max_rows_per_unit``."""

    def __init__(self, engine: Engine, schema: Schema) -> None:
        super().__init__(engine)
        self._schema = schema
        self._facts: tuple[int, UnitFacts] | None = None

    def facts(self) -> UnitFacts:
        """Return the counts of the table with all its rows; they are counted again if the data may have changed."""
        if self._facts is None or self._facts[0] != self.generation:
            facts = find_facts(self._engine, self._schema, self._engine.relation())
            self._facts = (self.generation, facts)
        return self._facts[1]

    def relation(self) -> exp.Expression:
        relation, facts = self._engine.relation(), self.facts()
        if facts.missing:
            relation = _owned(self._schema, relation)
        if facts.most_rows <= self._schema.max_rows_per_unit:
            return relation
        return bounded_relation(self._schema, relation, once=self.runs_with_once)

    def impose(self, schema: Schema) -> None:
        self._engine.impose(schema)
        self._schema = schema
        self._facts = None


def find_facts(engine: Engine, schema: Schema, relation: exp.Expression) -> UnitFacts:
    row = engine.fetch(facts_query(schema, relation)).to_pylist()[0]
    return UnitFacts(int(row["individuals"] or 0), int(row["most"] or 0), int(row["missing"] or 0))


def facts_query(schema: Schema, relation: exp.Expression) -> exp.Select:
    """Return the query for the three counts of UnitFacts, in one row: ``individuals``, ``most``, ``missing``."""
    absent = exp.Is(this=exp.column(UNIT), expression=exp.Null())
    rows = exp.Case(ifs=[exp.If(this=exp.Not(this=absent.copy()), true=exp.column("n"))])
    missing = exp.Case(ifs=[exp.If(this=absent, true=exp.column("n"))], default=exp.Literal.number(0))
    return exp.select(
        exp.alias_(exp.Count(this=exp.column(UNIT)), "individuals"),
        exp.alias_(exp.Max(this=rows), "most"),
        exp.alias_(exp.Sum(this=missing), "missing"),
    ).from_(_rows_per_unit_query(schema.unit, relation), copy=False)


def _rows_per_unit_query(unit: str, relation: exp.Expression) -> exp.Subquery:
    """Return the query for how many rows, ``n``, each individual has.

    Rows with a NULL unit, which belong to nobody, are counted together as if they were one individual's.
    """
    columns = (exp.alias_(column_tree(unit), UNIT), exp.alias_(exp.Count(this=exp.Star()), "n"))
    return (
        exp.select(*columns)
        .from_(relation.copy(), copy=False)
        .group_by(exp.Literal.number(1), copy=False)
        .subquery("per_unit", copy=False)
    )


def count_rows_each(engine: Engine, unit: str, relation: exp.Expression) -> dict[int, int]:
    """Return, for each number of rows, how many individuals have that many rows; the smallest number comes first.

    Rows with a NULL unit are left out.
    """
    somebody = exp.Not(this=exp.Is(this=exp.column(UNIT), expression=exp.Null()))
    query = (
        exp.select(exp.column("n"), exp.alias_(exp.Count(this=exp.Star()), "people"))
        .from_(_rows_per_unit_query(unit, relation), copy=False)
        .where(somebody, copy=False)
        .group_by(exp.Literal.number(1), copy=False)
    )
    found = engine.fetch(query).to_pylist()
    return dict(sorted((int(row["n"]), int(row["people"])) for row in found))


def count_alike(engine: Engine, schema: Schema, relation: exp.Expression) -> int:
    """Return how many pairs (individual, row key) occur in several rows, or have NULL for the row key.

    The rows with such a pair are ordered by all their cells when the rows that count are chosen.
    """
    keys = [column_tree(schema.unit), column_tree(str(schema.row_key))]
    repeated = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
    absent = exp.Is(this=keys[1].copy(), expression=exp.Null())
    alike = (
        exp.select(exp.alias_(exp.Count(this=exp.Star()), "n"))
        .from_(relation.copy(), copy=False)
        .where(exp.Not(this=exp.Is(this=keys[0].copy(), expression=exp.Null())), copy=False)
        .group_by(*keys, copy=False)
        .having(connect([repeated, absent], exp.Or), copy=False)
    )
    counted = exp.select(exp.alias_(exp.Count(this=exp.Star()), "alike")).from_(
        alike.subquery("alike_rows", copy=False), copy=False
    )
    return int(engine.fetch(counted).to_pylist()[0]["alike"] or 0)


def bounded_relation(schema: Schema, relation: exp.Expression, *, once: bool) -> exp.Expression:
    """Return the rows that count: all rows of individuals with at most m, and m chosen rows of each of the others.

    m is the schema's ``max_rows_per_unit``. The query has two joins rather than IN and NOT IN: engines differ widely in
    how they run those. ``once``: whether to find the individuals with more than m rows in a WITH query that both joins
    read, for engines that run a WITH query only once.
    """
    columns = [exp.alias_(_own(name), name, quoted=True) for name in schema.columns]
    source, found, same = _aliased(relation, "own"), _find_busy(schema, relation), _is_busy(schema)
    busy: exp.Expression = exp.to_table(BUSY, alias="busy") if once else found.subquery("busy", copy=False)
    nobody = exp.Is(this=exp.column(UNIT, table="busy"), expression=exp.Null())
    others = (
        exp.select(*columns)
        .from_(source, copy=False)
        .join(busy, on=same, join_type="left", copy=False)
        .where(nobody, copy=False)
    )
    rank = exp.Window(
        this=exp.RowNumber(),
        partition_by=[_own(schema.unit)],
        order=exp.Order(expressions=[exp.Ordered(this=key, nulls_first=False) for key in _choice_keys(schema)]),
        over="OVER",
    )
    ranked = exp.select(*[column.copy() for column in columns], exp.alias_(rank, RANK)).from_(source.copy(), copy=False)
    ranked = ranked.join(busy.copy(), on=same.copy(), join_type="inner", copy=False)
    limit = exp.LTE(this=exp.column(RANK), expression=exp.Literal.number(schema.max_rows_per_unit))
    kept = (
        exp.select(*[column_tree(name) for name in schema.columns])
        .from_(ranked.subquery("ranked", copy=False), copy=False)
        .where(limit, copy=False)
    )
    rows = exp.Union(this=others, expression=kept, distinct=False)
    return (rows.with_(BUSY, as_=found, copy=False) if once else rows).subquery("bounded", copy=False)


def _find_busy(schema: Schema, relation: exp.Expression) -> exp.Select:
    """Return the query for the individuals with more rows than ``max_rows_per_unit``."""
    many = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(schema.max_rows_per_unit))
    found = exp.select(exp.alias_(column_tree(schema.unit), UNIT)).from_(relation.copy(), copy=False)
    return found.group_by(exp.Literal.number(1), copy=False).having(many, copy=False)


def _is_busy(schema: Schema) -> exp.Expression:
    return exp.EQ(this=_own(schema.unit), expression=exp.column(UNIT, table="busy"))


def _choice_keys(schema: Schema) -> list[exp.Expression]:
    """Return the keys by which an individual's rows are ordered; the first ``max_rows_per_unit`` rows count.

    These are md5 of (unit, row key), then the row key, then all other columns. Without a row key they are all
    columns but the unit, or the unit if there is no other column.
    """
    cells: list[exp.Expression] = [_own(name) for name in schema.columns if name not in (schema.unit, schema.row_key)]
    if schema.row_key is None:
        return cells or [_own(schema.unit)]
    unit, key = (exp.Cast(this=_own(name), to=exp.DataType.build("TEXT")) for name in (schema.unit, schema.row_key))
    joined = exp.DPipe(this=exp.DPipe(this=unit, expression=exp.Literal.string(":")), expression=key)
    return [exp.MD5(this=joined), key.copy(), *cells]


def _owned(schema: Schema, relation: exp.Expression) -> exp.Expression:
    """Return the rows whose unit is not NULL."""
    there = exp.Not(this=exp.Is(this=_own(schema.unit), expression=exp.Null()))
    columns = [exp.alias_(_own(name), name, quoted=True) for name in schema.columns]
    return (
        exp.select(*columns)
        .from_(_aliased(relation, "own"), copy=False)
        .where(there, copy=False)
        .subquery("owned", copy=False)
    )


def _own(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table="own")


def _aliased(relation: exp.Expression, alias: str) -> exp.Subquery:
    if isinstance(relation, exp.Subquery):
        return exp.Subquery(this=relation.this.copy(), alias=exp.TableAlias(this=exp.to_identifier(alias)))
    return exp.select(exp.Star()).from_(relation.copy(), copy=False).subquery(alias, copy=False)
