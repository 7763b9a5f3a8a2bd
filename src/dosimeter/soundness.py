"""Whether every cell of a table can be read as the schema says, before any answer is measured.

A release is denied when the data cannot be measured. If that depended on the query, an analyst could aim a WHERE at
one person and read from the denial whether that person's cell is odd. So the whole table is checked, whatever was
asked: then either every release of it is denied, or none is for this reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dosimeter.engines.base import Engine
from dosimeter.errors import DataError
from dosimeter.expression import column_tree, is_infinite
from dosimeter.model import Column, ColumnType

_AS_THEY_ARE = (ColumnType.TEXT, ColumnType.CATEGORY)


def require_sound(engine: Engine, relation: exp.Expression, columns: Mapping[str, Column]) -> None:
    """Read every cell once. A cell that has not its declared type stops the engine, which is a DataError too."""
    items: list[exp.Expression] = [_named(exp.Count(this=exp.Star()), "read")]
    for position, column in enumerate(columns.values()):
        value = column_tree(column.name)
        if column.type is ColumnType.DECIMAL:
            items.append(_named(_count_infinite(value), f"infinite{position}"))
        elif column.type is ColumnType.BOOLEAN:  # which has no MAX on every engine
            true = exp.Case(ifs=[exp.If(this=value, true=exp.Literal.number(1))])
            items.append(_named(exp.Count(this=true), f"true{position}"))
        elif column.type not in _AS_THEY_ARE:
            items.append(_named(exp.Max(this=value), f"largest{position}"))
    row = engine.fetch(exp.select(*items).from_(relation.copy()))
    for position, column in enumerate(columns.values()):
        if column.type is ColumnType.DECIMAL and row.column(f"infinite{position}")[0].as_py():
            raise DataError(
                f"Column {column.name} holds NaN or infinite values. Clean them: dosimeter schema --check counts them."
            )


def _count_infinite(value: exp.Expression) -> exp.Expression:
    return exp.Count(this=exp.Case(ifs=[exp.If(this=is_infinite(value), true=exp.Literal.number(1))]))


def _named(tree: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=tree, alias=exp.to_identifier(name))
