"""Read a DuckDB column as its declared type: which types fit, and the SQL that turns odd cells into NULL (N4).

Takes names and DuckDB's own type names; gives SQL. Never opens a connection.

NaN is recognized by ``isfinite``, which DuckDB computes for every row. Comparisons and ``isnan`` would not do: DuckDB
may decide them for many rows at once, by the statistics of a Parquet file, and these leave NaN out.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from sqlglot import exp

from dosimeter.engines.cells import (
    FIRST_MOMENT,
    FORMS,
    LAST_MOMENT,
    is_whole,
    is_within,
    keep_if,
    keep_in_range,
    read_cell,
    read_flag,
)
from dosimeter.engines.columns import NativeColumn, NativeTypes, name_types, require_column
from dosimeter.engines.written_cells import CellWriting
from dosimeter.errors import DataError
from dosimeter.schema import Column, ColumnType

_NATIVE = name_types("VARCHAR")
_SMALL_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_INTEGERS = _SMALL_INTEGERS | {"UBIGINT", "HUGEINT", "UHUGEINT"}
_FLOATS = {"FLOAT", "DOUBLE"}
_MOMENTS = frozenset(
    {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"}
)
_NOTHING = '"NULL"'  # the type of a column in which every cell is NULL: it can be of any type
_TYPES = NativeTypes(
    fits={
        ColumnType.INTEGER: frozenset(_INTEGERS),
        ColumnType.DECIMAL: frozenset(_INTEGERS | _FLOATS | {"DECIMAL"}),
        ColumnType.BOOLEAN: frozenset({"BOOLEAN"}),
        ColumnType.DATE: frozenset({"DATE"}),
        ColumnType.TIMESTAMP: _MOMENTS,
        ColumnType.TEXT: frozenset({"VARCHAR", "ENUM", "UUID"}),
        ColumnType.CATEGORY: frozenset({"VARCHAR", "ENUM"}),
    },
    also_fits={
        ColumnType.INTEGER: frozenset(_FLOATS | {"DECIMAL"}),  # whole numbers with gaps: pandas has floats
        ColumnType.BOOLEAN: frozenset({"VARCHAR", "ENUM"}),  # yes and no: of a CSV they are TRUE and FALSE
    },
    unknown=_NOTHING,
)
_LENGTHS = {"TIMESTAMP_S": len("9999-12-31 23:59:59"), "TIMESTAMP_MS": len("9999-12-31 23:59:59.999")}
_DAYS = (
    " If these are days without a time: in pandas use .dt.date, in SQL CAST({} AS DATE), and write a Parquet file anew."
)


def guess_type(native: str) -> ColumnType | None:
    """Return the column type that a DuckDB type has if there is no schema; None without an equivalent: times, lists."""
    return _TYPES.find_type(_bare(native))


def match_columns(
    columns: Mapping[str, Column], natives: Mapping[str, str], *, text: bool
) -> dict[str, tuple[str, ColumnType]]:
    """Return for each declared column the data's column to read, and the declared type.

    ``natives``: DuckDB's types of the data's columns. ``text``: the data are a CSV, whose cells can be read as any
    type. Raises DataError for a column that is missing, or whose type does not fit.
    """
    named = {name.lower(): name for name in natives}
    if not any(column.name.lower() in named for column in columns.values()):
        raise DataError(  # without a header the "names" would be cells, so none is quoted
            f"The data has none of the columns the schema declares. The first line of a CSV must name its columns; "
            f"the schema's are {', '.join(list(columns)[:20])}."
        )

    def find(name: str) -> str | None:
        return named.get(name.lower())

    if text:
        reading = {column.name: require_column(column, find(column.name), natives) for column in columns.values()}
    else:
        found = {name: NativeColumn(_bare(native), _bare(native)) for name, native in natives.items()}
        reading = _TYPES.match(columns, found, find, _advise_cast)
    return {column.name: (reading[column.name], column.type) for column in columns.values()}


def _advise_cast(column: Column, native: NativeColumn) -> str:
    """Return how to read the column in its declared type, where that is known: moments as days, text as either."""
    if native.kind == "VARCHAR" and column.type in (ColumnType.DATE, ColumnType.TIMESTAMP):
        return f' With pandas: read_csv(…, parse_dates=["{column.name}"]); elsewhere cast it to {column.type}.'
    return _DAYS.format(column.name) if column.type is ColumnType.DATE and native.kind in _MOMENTS else ""


def read_text_column(name: str, kind: ColumnType, writing: CellWriting) -> exp.Expression:
    """Return SQL for the value of a column whose cells are text, read as this type; odd cells are NULL.

    ``writing``: how the cells are written: the decimal mark, and the form of dates.
    """
    column = exp.column(exp.to_identifier(name, quoted=True))
    if kind not in FORMS:
        return column
    return read_cell(writing.standardize(column, kind), kind, native_type(kind))


def native_type(kind: ColumnType) -> exp.DataType:
    """Return the DuckDB type in which values of this column type are computed."""
    return _type(_NATIVE[kind])


def read_column(name: str, native: str, kind: ColumnType) -> exp.Expression:
    """Return SQL for the value of a column of this DuckDB type, read as this column type; odd cells are NULL."""
    column = exp.column(exp.to_identifier(name, quoted=True))
    bare, target = _bare(native), _type(_NATIVE[kind])
    match kind:
        case _ if bare == _NOTHING:
            return exp.Cast(this=column, to=target)
        case ColumnType.INTEGER if bare in _FLOATS:
            double = _cast(column, "DOUBLE")
            test = exp.And(this=_is_finite(double), expression=is_whole(double, _type("DOUBLE")))
            return keep_if(test, exp.TryCast(this=double.copy(), to=target, safe=True))
        case ColumnType.INTEGER if bare == "DECIMAL":
            # Not FLOOR: its result is compared in a type that large values do not fit into.
            part = exp.Paren(this=exp.Mod(this=column, expression=exp.Literal.number(1)))
            whole = exp.EQ(this=part, expression=exp.Literal.number(0))
            return keep_if(whole, exp.TryCast(this=column.copy(), to=target, safe=True))
        case ColumnType.INTEGER if bare not in _SMALL_INTEGERS:
            return exp.TryCast(this=column, to=target, safe=True)
        case ColumnType.DECIMAL if bare in _FLOATS:
            double = _cast(column, "DOUBLE")
            return keep_if(_is_finite(double), double)
        case ColumnType.BOOLEAN if bare in _TYPES.also_fits[kind]:
            return read_flag(_cast(column, "VARCHAR"))
        case ColumnType.DATE:
            return keep_in_range(column, kind, target)
        case ColumnType.TIMESTAMP if bare == "TIMESTAMP_NS":  # which holds the years 1677 to 2262
            return keep_if(_is_finite(column), _cast(column, "TIMESTAMP"))
        case ColumnType.TIMESTAMP if bare == "TIMESTAMPTZ_NS":  # which has no cast of its own, and no isfinite
            since = exp.Anonymous(this="epoch_ns", expressions=[column])
            moment = exp.Anonymous(this="make_timestamp_ns", expressions=[since])
            return keep_if(_is_finite(moment), _cast(moment, "TIMESTAMP"))
        case ColumnType.TIMESTAMP:  # asked before the cast, which TIMESTAMP_S and _MS can fail in
            last = LAST_MOMENT[: _LENGTHS.get(bare)]
            return keep_if(is_within(column, FIRST_MOMENT, last, _type(bare)), _cast(column, "TIMESTAMP"))
        case ColumnType.INTEGER | ColumnType.DECIMAL | ColumnType.BOOLEAN | ColumnType.TEXT | ColumnType.CATEGORY:
            return exp.Cast(this=column, to=target)


def is_read_as(native: str, kind: ColumnType) -> bool:
    """Return whether a CSV column, read as ``kind``, surely has no odd cells.

    ``native``: the type that DuckDB itself found for the column.
    """
    return kind not in FORMS or _bare(native) in _TYPES.fits[kind]


def _bare(native: str) -> str:
    """Return a DuckDB type's name without its parameters, such as the values of an ENUM. List types are unchanged."""
    return native if native.endswith("]") else native.split("(")[0]


def _is_finite(value: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this="isfinite", expressions=[value.copy()])


def _cast(tree: exp.Expression, target: str) -> exp.Expression:
    return exp.Cast(this=tree.copy(), to=_type(target))


def _type(name: str) -> exp.DataType:
    return _parse_type(name).copy()


@functools.cache
def _parse_type(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect="duckdb")
