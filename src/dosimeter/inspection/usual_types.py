"""Propose types that nobody's single cell decides: for columns of a CSV that hold text somewhere. For the controller.

A reader of CSV files takes a column for text if one cell is. Here nine tenths of the cells decide; any other is odd and
counts as NULL (N4).
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dosimeter.engines import Engine
from dosimeter.errors import DataError
from dosimeter.inspection.row_owners import read_row
from dosimeter.schema import ColumnType, Schema
from dosimeter.sql import column_tree

_USUAL = 0.9
_TRIED = (ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.DATE, ColumnType.TIMESTAMP, ColumnType.BOOLEAN)


def propose_usual_types(engine: Engine, schema: Schema) -> Schema:
    """Return the schema with another type for each column of text of which most cells have that type.

    From then on the engine reads by the schema that is returned.
    """
    texts = [name for name, column in schema.columns.items() if column.type is ColumnType.TEXT]
    for kind in _TRIED:
        if not texts:
            break
        as_kind = {name: replace(schema.columns[name], type=kind) for name in texts}
        try:
            engine.impose(replace(schema, columns={**schema.columns, **as_kind}))
        except DataError:  # a typed source: its texts are texts
            break
        odd = engine.count_odd_cells(texts)
        kept = read_row(engine, {name: exp.Count(this=column_tree(name)) for name in texts})
        usual = {name: column for name, column in as_kind.items() if _is_usual(kept[name], odd[name])}
        schema = replace(schema, columns={**schema.columns, **usual})
        texts = [name for name in texts if name not in usual]
    engine.impose(schema)
    return schema


def _is_usual(kept: int, odd: int) -> bool:
    return kept > 0 and kept >= _USUAL * (kept + odd)
