"""Describe what a PostgreSQL server holds: relations, their columns, and the casts that make types agree.

Takes an open connection or plain names; gives values and trees. Never connects, and does not catch the driver's errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dosimeter.engines.cells import RANGES, is_whole, is_within, keep_if, keep_in_range, read_flag
from dosimeter.engines.columns import NativeColumn, NativeTypes, name_types
from dosimeter.engines.source_files import refuse_database_url
from dosimeter.errors import DataError, OptionError
from dosimeter.problems import Option
from dosimeter.schema import Column, ColumnType

if TYPE_CHECKING:
    import psycopg

Reading = dict[str, tuple[str, str, ColumnType]]  # column → its attribute, the attribute's kind, and its type
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_RELATION_KINDS = "('r', 'p', 'v', 'm', 'f')"  # tables, partitioned ones, views, materialised views, foreign tables

_INTEGERS = frozenset({"int2", "int4", "int8", "whole numeric"})
_NUMBERS = _INTEGERS | {"numeric", "float4", "float8"}
_TEXTS = frozenset({"text", "varchar", "bpchar", "char", "name", "citext", "uuid", "enum"})
_MOMENTS = frozenset({"timestamp", "timestamptz"})
TYPES = NativeTypes.of(
    integers=_INTEGERS, numbers=_NUMBERS, texts=_TEXTS, moments=_MOMENTS, boolean="bool", flags=frozenset({"int4"})
)
_NATIVE = name_types("TEXT")  # from timestamptz: the time in UTC, which is the transaction's time zone

_FIND_RELATION = f"""
    SELECT c.oid, n.nspname, c.relname, row_security_active(c.oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = to_regclass(%s) AND c.relkind IN {_RELATION_KINDS}"""

_LIST_RELATIONS = f"""
    SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN {_RELATION_KINDS} AND NOT c.relispartition AND n.nspname <> 'information_schema'
    AND n.nspname NOT LIKE 'pg\\_%' AND has_table_privilege(c.oid, 'SELECT') ORDER BY 1"""

# A domain counts as the type under it. The last column is the number of decimals of a numeric, NULL where it is free.
_DESCRIBE = """
    WITH RECURSIVE attribute AS (
        SELECT a.attnum, a.attname, format_type(a.atttypid, a.atttypmod) AS written, a.atttypid AS type,
               a.atttypmod AS modifier
        FROM pg_attribute a
        WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
        AND has_column_privilege(a.attrelid, a.attnum, 'SELECT')
    ), base AS (
        SELECT * FROM attribute
        UNION ALL
        SELECT b.attnum, b.attname, b.written, t.typbasetype, t.typtypmod
        FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
    )
    SELECT b.attname, b.written, t.typname, t.typtype,
           CASE WHEN t.typname = 'numeric' AND b.modifier >= 4 THEN (b.modifier - 4) & 2047 END
    FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype <> 'd' ORDER BY b.attnum"""


@dataclass(frozen=True, slots=True)
class CatalogueTable:
    oid: int
    schema: str
    name: str

    @property
    def label(self) -> str:
        return f"{self.schema}.{self.name}"


def split_name(table: str) -> list[tuple[str, bool]]:
    """Return the parts of a name such as registry.visits or "Odd.Schema"."Visits", and whether each was quoted.

    The list is empty for what is not such a name.
    """
    parts: list[tuple[str, bool]] = []
    rest = table
    while match := _PART.match(rest):
        parts.append((match.group(1).replace('""', '"'), True) if match.group(1) else (match.group(2), False))
        rest = rest[match.end() :]
        if not rest or not rest.startswith("."):
            break
        rest = rest[1:]
        if not rest:
            return []
    return [] if rest or not 1 <= len(parts) <= 2 else parts


def find_relation(connection: psycopg.Connection[Any], table: str | None, server: str) -> CatalogueTable:
    if table is None:
        names = [str(row[0]) for row in connection.execute(_LIST_RELATIONS)]
        if len(names) != 1:
            listed = ", ".join(names[:20]) + (" …" if len(names) > 20 else "")
            raise OptionError(
                f"{server} has {len(names)} tables ({listed or 'none'}). Name one with ", Option("table"), "."
            )
        table = names[0]
    refuse_database_url(table)
    parts = split_name(table)
    if not parts:
        raise OptionError(
            Option("table", table), ' is not the name of a table. Write table, schema.table or "Schema"."Table".'
        )
    # First as it was typed; then as SQL reads it: in lower case where it is not quoted.
    for fold in (False, True):
        written = ".".join(quote_identifier(name.lower() if fold and not quoted else name) for name, quoted in parts)
        row = connection.execute(_FIND_RELATION, [written]).fetchone()
        if row is None:
            continue
        relation = CatalogueTable(int(row[0]), str(row[1]), str(row[2]))
        if row[3]:
            raise DataError(
                f"Row-level security hides rows of {relation.label} from this user, so that the risk would be that of "
                "other data. Connect as a user that sees every row (BYPASSRLS)."
            )
        return relation
    raise OptionError(
        f"{server} has no table {table}. Name one with ", Option("table"), ", as schema.table if need be."
    )


def describe_relation(connection: psycopg.Connection[Any], relation: CatalogueTable) -> dict[str, NativeColumn]:
    attributes = {}
    for name, written, kind, category, decimals in connection.execute(_DESCRIBE, [relation.oid]):
        known = "enum" if category == "e" else "whole numeric" if kind == "numeric" and decimals == 0 else kind
        attributes[str(name)] = NativeColumn(str(written), str(known))
    if not attributes:
        raise DataError(
            f"The user may not read {relation.label}. It needs: GRANT SELECT ON {relation.label} TO the user."
        )
    return attributes


def quote_identifier(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect="postgres")


def match_columns(columns: Mapping[str, Column], attributes: Mapping[str, NativeColumn]) -> Reading:
    """Return for each declared column the attribute to read, its PostgreSQL type, and its column type.

    An attribute is a column of PostgreSQL's table. Refuse a type that does not fit.
    """
    found = TYPES.match(columns, attributes, lambda name: _find_attribute(name, attributes), _advise_cast)
    return {each.name: (found[each.name], attributes[found[each.name]].kind, each.type) for each in columns.values()}


def _find_attribute(name: str, attributes: Mapping[str, NativeColumn]) -> str | None:
    """Return the attribute that a declared name means: as written, in lower case as SQL reads it, or ignoring case.

    An attribute is a column of PostgreSQL's table. The three ways to read the name are tried in this order. If only the
    third finds attributes and they are several, the name is refused. None if no way finds any.
    """
    for known in (name, name.lower()):
        if known in attributes:
            return known
    alike = [other for other in attributes if other.lower() == name.lower()]
    if len(alike) > 1:
        raise DataError(f"The data has the columns {' and '.join(alike)}. Write in the schema which of them is meant.")
    return alike[0] if alike else None


def _advise_cast(column: Column, attribute: NativeColumn) -> str:
    """Return a sentence on a cast that keeps what the values mean, such as timestamps to dates; "" if there is none."""
    if attribute.kind not in TYPES.castable[column.type]:
        return ""
    name = column.name if re.fullmatch("[a-z_][a-z0-9_]*", column.name) else quote_identifier(column.name)
    written = "DOUBLE PRECISION" if column.type is ColumnType.DECIMAL else _NATIVE[column.type]
    return f" If its values are such, read a view with CAST({name} AS {written})."


def table_of(relation: CatalogueTable) -> exp.Table:
    return exp.Table(
        this=exp.to_identifier(relation.name, quoted=True), db=exp.to_identifier(relation.schema, quoted=True)
    )


def read_through_casts(relation: CatalogueTable, reading: Reading, alias: str) -> exp.Expression:
    """Return the table as a subquery with every column in its declared type, odd cells NULL (N4).

    PostgreSQL flattens the subquery, so that a WHERE still reaches the table.
    """
    columns = [exp.alias_(read_column(*read), name, quoted=True) for name, read in reading.items()]
    return exp.select(*columns).from_(table_of(relation)).subquery(alias)


def read_settings(name: str, columns: Mapping[str, ColumnType]) -> exp.Expression:
    """Return a subquery that reads columns from arrays in settings of the transaction.

    ``name``: how the settings' names begin; the column's place follows.
    """
    items = []
    for at, (column, kind) in enumerate(columns.items()):
        setting = exp.Anonymous(this="current_setting", expressions=[exp.Literal.string(f"{name}{at}")])
        cells = exp.Anonymous(this="unnest", expressions=[exp.Cast(this=setting, to=_type(f"{_NATIVE[kind]}[]"))])
        is_text = kind in (ColumnType.TEXT, ColumnType.CATEGORY)
        items.append(exp.alias_(collate_by_bytes(cells) if is_text else cells, column))
    return exp.select(*items).subquery("kept")


def read_column(source: str, held: str, kind: ColumnType) -> exp.Expression:
    """Return SQL for the column ``source`` of the PostgreSQL type ``held``, read as ``kind``; odd cells are NULL.

    Tests of bounds find NaN and infinite dates: PostgreSQL orders NaN above all numbers, and infinities before or after
    all dates. A numeric is cast to a double only within a double's range, since the cast would fail outside.
    """
    column = exp.column(exp.to_identifier(source, quoted=True))
    value = exp.Cast(this=column, to=_type(_NATIVE[kind]))
    numeric = held in ("numeric", "whole numeric")
    match kind:
        case ColumnType.INTEGER if numeric:
            whole = exp.EQ(this=column.copy(), expression=exp.Floor(this=column.copy()))
            return keep_if(exp.And(this=is_within(column, *_INT64, _type("NUMERIC")), expression=whole), value)
        case ColumnType.INTEGER if held in ("float4", "float8"):
            return keep_if(is_whole(exp.Cast(this=column.copy(), to=_type("DOUBLE")), _type("DOUBLE")), value)
        case ColumnType.DECIMAL if numeric:
            small = exp.LT(this=exp.Abs(this=column.copy()), expression=exp.Cast(this=_SMALLEST, to=_type("NUMERIC")))
            zero = exp.If(this=small, true=exp.Cast(this=exp.Literal.number(0), to=_type("DOUBLE")))
            inside = is_within(column, *RANGES[kind], _type("NUMERIC"))
            return exp.Case(ifs=[zero, exp.If(this=inside, true=value)])
        case ColumnType.DECIMAL if held in ("float4", "float8"):
            return keep_in_range(value, kind, _type("DOUBLE"))
        case ColumnType.BOOLEAN if held in _TEXTS:
            return read_flag(collate_by_bytes(exp.Cast(this=column.copy(), to=_type("TEXT"))))
        case ColumnType.DATE | ColumnType.TIMESTAMP:
            return keep_in_range(value, kind, _type(_NATIVE[kind]))
        case ColumnType.TEXT | ColumnType.CATEGORY:
            return collate_by_bytes(value)
        case ColumnType.INTEGER | ColumnType.DECIMAL | ColumnType.BOOLEAN:
            return value


_INT64 = (str(-(2**63)), str(2**63 - 1))
_SMALLEST = exp.Literal.string("1e-300")  # anything closer to 0 is read as 0: a double holds nothing below 5e-324


def _type(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect="postgres")


def collate_by_bytes(tree: exp.Expression) -> exp.Expression:
    return exp.Collate(this=tree, expression=exp.to_identifier("C", quoted=True))
