"""Count the individuals of a table where one can have many rows, and choose which of their rows count.

Of an individual with more than m rows (``max_rows_per_unit``), m are kept, chosen by a hash (N6, ``row_choice.py``)
before the WHERE. Every engine chooses the same rows, and risk and release read the same rows. Rows with a NULL unit
belong to nobody and are left out (N4).
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dosimeter.engines import Engine
from dosimeter.influence.row_choice import choose_rows
from dosimeter.schema import Schema
from dosimeter.sql import column_tree, connect, is_not_null, is_null, select_from

UNIT = "unit"


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """Counts of a table with a unit column: individuals, the most rows of one, rows with a NULL unit, all rows.

    ``beyond``: how many rows individuals have beyond ``max_rows_per_unit``, which are cut.
    """

    individuals: int
    most_rows: int
    missing: int
    rows: int
    beyond: int = 0


def bound_relation(engine: Engine, schema: Schema, relation: exp.Expression, facts: UnitFacts) -> exp.Expression:
    """Return the rows that count, at most ``max_rows_per_unit`` of each individual: all of them if nobody has more."""
    if facts.most_rows <= schema.max_rows_per_unit:
        return relation
    return choose_rows(engine, schema, relation, facts.rows)


def find_facts(engine: Engine, schema: Schema, relation: exp.Expression) -> UnitFacts:
    row = engine.fetch(facts_query(schema, relation)).to_pylist()[0]
    return UnitFacts(*(int(row[name] or 0) for name in ("individuals", "most", "missing", "rows", "beyond")))


def facts_query(schema: Schema, relation: exp.Expression) -> exp.Select:
    """Return the query for the counts of UnitFacts, in one row."""
    absent = is_null(exp.column(UNIT))
    rows = exp.Case(ifs=[exp.If(this=exp.Not(this=absent.copy()), true=exp.column("n"))])
    missing = exp.Case(ifs=[exp.If(this=absent, true=exp.column("n"))], default=exp.Literal.number(0))
    return select_from(
        _rows_per_unit_query(schema.unit, relation),
        exp.alias_(exp.Count(this=exp.column(UNIT)), "individuals"),
        exp.alias_(exp.Max(this=rows), "most"),
        exp.alias_(exp.Sum(this=missing), "missing"),
        exp.alias_(exp.Sum(this=exp.column("n")), "rows", quoted=True),
        exp.alias_(exp.Sum(this=_rows_beyond(schema.max_rows_per_unit)), "beyond"),
    )


def _rows_beyond(most: int) -> exp.Expression:
    """Write by how many rows an individual's ``n`` exceeds the most that count."""
    own, limit = exp.column("n"), exp.Literal.number(most)
    counts = exp.And(this=exp.Not(this=is_null(exp.column(UNIT))), expression=exp.GT(this=own, expression=limit.copy()))
    excess = exp.Sub(this=own.copy(), expression=limit)
    return exp.Case(ifs=[exp.If(this=counts, true=excess)], default=exp.Literal.number(0))


def _rows_per_unit_query(unit: str, relation: exp.Expression) -> exp.Subquery:
    """Return the query for how many rows, ``n``, each individual has.

    Rows with a NULL unit, which belong to nobody, are counted together as if they were one individual's.
    """
    columns = (exp.alias_(column_tree(unit), UNIT), exp.alias_(exp.Count(this=exp.Star()), "n"))
    return select_from(relation.copy(), *columns, group=[exp.Literal.number(1)]).subquery("per_unit", copy=False)


def count_rows_each(engine: Engine, unit: str, relation: exp.Expression) -> dict[int, int]:
    """Return, for each number of rows, how many individuals have that many rows; the smallest number comes first.

    Rows with a NULL unit are left out.
    """
    somebody, counted = is_not_null(exp.column(UNIT)), exp.alias_(exp.Count(this=exp.Star()), "people")
    per_unit = _rows_per_unit_query(unit, relation)
    query = select_from(per_unit, exp.column("n"), counted, where=somebody, group=[exp.Literal.number(1)])
    found = engine.fetch(query).to_pylist()
    return dict(sorted((int(row["n"]), int(row["people"])) for row in found))


def count_alike(engine: Engine, schema: Schema, relation: exp.Expression) -> int:
    """Return how many pairs (individual, row key) occur in several rows, or have NULL for the row key.

    Such a key does not tell an individual's rows apart. Which rows count is then decided by their other cells too.
    """
    keys = [column_tree(schema.unit), column_tree(str(schema.row_key))]
    repeated = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
    kept = connect([repeated, is_null(keys[1].copy())], exp.Or)
    counted = exp.alias_(exp.Count(this=exp.Star()), "n")
    alike = select_from(relation.copy(), counted, where=is_not_null(keys[0].copy()), group=keys, having=kept)
    query = select_from(alike.subquery("alike_rows", copy=False), exp.alias_(exp.Count(this=exp.Star()), "alike"))
    return int(engine.fetch(query).to_pylist()[0]["alike"] or 0)


def drop_unowned(schema: Schema, relation: exp.Expression) -> exp.Expression:
    """Return the rows whose unit is not NULL."""
    columns = [column_tree(name) for name in schema.columns]
    somebody = is_not_null(column_tree(schema.unit))
    return select_from(relation.copy(), *columns, where=somebody).subquery("owned", copy=False)
