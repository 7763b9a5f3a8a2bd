"""Compare a schema with the data it is to describe: counts of what disagrees, never cells. For the controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from dosimeter.draft import count_if, fetch_rows, misfit
from dosimeter.engines.base import Engine
from dosimeter.errors import DataError, SchemaError
from dosimeter.expression import column_tree
from dosimeter.joining import require_unique, unit_schema
from dosimeter.model import Column, JoinTable, Schema
from dosimeter.units import find_facts


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which data and schema disagree. For the controller; counts, never cells."""

    column: str | None
    problem: str


def check_schema(engine: Engine, schema: Schema) -> tuple[Finding, ...]:
    """How many values lie outside bounds and lists, how many individuals there are and how many rows they have, and
    the same of the tables that may be joined."""
    engine.impose(schema)
    relation = engine.relation()
    rows, findings = _compare_columns(engine, relation, schema.columns, "")
    if schema.unit == "row":
        people = _compare_people(rows, schema.individuals)
    else:
        people = _compare_units(engine, schema, relation)
    joined = (finding for table in schema.tables.values() for finding in _check_joined(engine, schema, table))
    return (*people, *findings, *joined)


def _check_joined(engine: Engine, schema: Schema, table: JoinTable) -> Iterator[Finding]:
    try:
        relation = engine.joined(table)
        yield from _compare_columns(engine, relation, table.columns, f"{table.name}.")[1]
        if table.public or table.unit is None:
            require_unique(engine, table, relation)
        else:
            yield from _compare_units(engine, unit_schema(table, table.unit, schema), relation)
    except (DataError, SchemaError) as error:
        yield Finding(None, str(error))


def _compare_columns(
    engine: Engine, relation: exp.Expression, columns: Mapping[str, Column], prefix: str
) -> tuple[int, list[Finding]]:
    """The number of rows, and what lies outside of what the columns declare."""
    items: list[exp.Expr] = [exp.alias_(exp.Count(this=exp.Star()), "rows")]
    labels: list[tuple[str, str]] = []
    for column in columns.values():
        for problem, test in _tests(column):
            items.append(exp.alias_(count_if(test), f"c{len(labels)}"))
            labels.append((column.name, problem))
    row = fetch_rows(engine, exp.select(*items).from_(relation.copy()))[0]
    findings = [
        Finding(f"{prefix}{name}", f"{problem}: {int(row[f'c{at}']):,}")
        for at, (name, problem) in enumerate(labels)
        if row[f"c{at}"]
    ]
    return int(row["rows"]), findings


def _compare_units(engine: Engine, schema: Schema, relation: exp.Expression) -> Iterator[Finding]:
    facts = find_facts(engine, schema, relation)
    yield from _compare_people(facts.individuals, schema.individuals)
    if facts.most_rows > schema.max_rows_per_unit:
        yield Finding(
            None,
            f"{schema.table}: individuals have up to {facts.most_rows:,} rows, and max_rows_per_unit keeps "
            f"{schema.max_rows_per_unit:,} of each",
        )


def _compare_people(counted: int, declared: int | None) -> Iterator[Finding]:
    if declared is not None and counted > declared:
        yield Finding(None, f"the data holds {counted:,} individuals and the schema declares {declared:,}")


def _tests(column: Column) -> list[tuple[str, exp.Expression]]:
    value = column_tree(column.name)
    tests: list[tuple[str, exp.Expression]] = []
    if column.bounds is not None:
        low, high = (_literal(bound) for bound in column.bounds)
        tests.append(("values below the lower bound", exp.LT(this=value.copy(), expression=low)))
        tests.append(("values above the upper bound", exp.GT(this=value.copy(), expression=high)))
    if column.resolution is not None:
        step = format(column.resolution, "f")
        tests.append(("values that are no multiple of its resolution, and would be rounded", misfit(value, step)))
    if column.values is not None:
        listed = exp.In(this=value.copy(), expressions=[exp.Literal.string(text) for text in column.values])
        tests.append(("values that are not in its list", exp.Not(this=listed)))
    return tests


def _literal(bound: Any) -> exp.Expression:
    if isinstance(bound, Decimal):
        number: exp.Expression = exp.Literal.number(format(abs(bound), "f"))
        return exp.Neg(this=number) if bound < 0 else number
    kind = "TIMESTAMP" if isinstance(bound, datetime) else "DATE"
    return exp.Cast(this=exp.Literal.string(bound.isoformat()), to=exp.DataType.build(kind))
