"""Rewrite trees for what differs in Spark's SQL. Never opens a session.

Takes trees that Dosimeter wrote; gives trees that mean the same in Spark as in the other engines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

import dosimeter.engines.own_functions as own
from dosimeter.engines.cells import FORMS, is_whole, keep_if, keep_in_range, read_cell, read_flag
from dosimeter.engines.columns import name_types
from dosimeter.engines.written_cells import CellWriting, inference_query
from dosimeter.errors import QueryError
from dosimeter.schema import ColumnType

NATIVE = name_types("STRING", "TIMESTAMP_NTZ")
_MOST_DIGITS = 38
_WHOLE_FROM = "9007199254740992"  # 2^53: from here on every double is a whole number
MOST_NODES = 10_000
_MEANINGS = {
    "ROUND_EVEN": "RINT(x)",
    own.TEXT_NUMBER: "CAST(CONV(SUBSTRING(MD5(x), 1, 8), 16, 10) AS BIGINT)",
    own.DAY_NUMBER: "UNIX_DATE(x)",
    own.MOMENT_NUMBER: "UNIX_MICROS(CAST(x AS TIMESTAMP))",
    own.ONCE_A_ROW: "x",
    own.IN_PART: "TRUE",
}


def write_query(query: exp.Select) -> str:
    """Return the query as text. Raises TypeError for what is not a SELECT tree."""
    return own.write_select(query, "spark", _MEANINGS, as_spark_tree)


def as_spark_tree(query: exp.Select) -> exp.Expression:
    """Return the query with Spark's names of types and functions, rewritten where Spark would give other results."""
    tree = query.copy()
    for kind in list(tree.find_all(exp.DataType)):
        if kind.this is exp.DataType.Type.TIMESTAMP:
            kind.replace(_type("TIMESTAMP_NTZ"))  # Spark's TIMESTAMP is a moment in the session's zone
    for part in list(tree.find_all(exp.Extract)):
        _rename_part(part)
    for literal in list(tree.find_all(exp.Literal)):
        if not literal.is_string and "." in literal.this and len(re.sub(r"\D", "", literal.this)) > _MOST_DIGITS:
            literal.replace(
                exp.Literal.number(f"{float(literal.this):e}")
            )  # too long for a decimal: a double, as elsewhere
    for rounding in reversed([node for node in tree.walk() if isinstance(node, (exp.Floor, exp.Ceil))]):
        if not _becomes_bigint(rounding):
            rounding.replace(_whole_double(rounding))
    return tree


def _rename_part(part: exp.Extract) -> None:
    """Rewrite an EXTRACT in its tree, with the name that Spark has for this part of a date.

    Spark counts the day of the week from Sunday = 1 and not 0, so 1 is subtracted.
    """
    name = part.this.name.upper()
    if name == "DOW":
        part.set("this", exp.Var(this="DAYOFWEEK"))
        part.replace(exp.Paren(this=exp.Sub(this=part.copy(), expression=exp.Literal.number(1))))
    else:
        names = {"ISODOW": "DAYOFWEEK_ISO", "ISOYEAR": "YEAROFWEEK"}
        part.set("this", exp.Var(this=names.get(name, name)))


def _becomes_bigint(rounding: exp.Floor | exp.Ceil) -> bool:
    parent = rounding.parent
    return isinstance(parent, exp.Cast) and parent.to.this is exp.DataType.Type.BIGINT


def _whole_double(rounding: exp.Floor | exp.Ceil) -> exp.Expression:
    """Return FLOOR or CEIL as a double, as on the other engines: Spark gives BIGINT, which cannot hold 1e300.

    Raises QueryError if FLOOR and CEIL are nested too deeply.
    """
    value = _cast(rounding.this.copy(), "DOUBLE")
    if sum(1 for _ in value.walk()) > MOST_NODES:
        raise QueryError("FLOOR and CEIL are nested too deeply for Spark. Simplify the expression.")
    small = exp.LT(this=exp.Abs(this=value), expression=_cast(exp.Literal.number(_WHOLE_FROM), "DOUBLE"))
    rounded = _cast(type(rounding)(this=value.copy()), "DOUBLE")
    return exp.Paren(this=exp.Case(ifs=[exp.If(this=small, true=rounded)], default=value.copy()))


def read_column(name: str, native: str, kind: ColumnType, null: str | None, writing: CellWriting) -> exp.Expression:
    """Return SQL for a column of the source in its column type ``kind``, odd cells as NULL (N4).

    ``native``: the name of Spark's own type, without its parameters. ``null``: the text that stands for NULL in a CSV,
    whose cells are all text; None where the source has types. ``writing``: how such a CSV's cells are written. In Spark
    NaN is above all numbers, so that tests of bounds leave it out.
    """
    column = _column(name)
    if null is not None:
        text = _cell(name, null)
        return read_cell(writing.standardize(text, kind), kind, _type(NATIVE[kind])) if kind in FORMS else text
    target = _type(NATIVE[kind])
    match kind:
        case ColumnType.INTEGER if native in ("float", "double"):
            double = _cast(column, "DOUBLE")
            return keep_if(is_whole(double, _type("DOUBLE")), exp.Cast(this=double.copy(), to=target))
        case ColumnType.INTEGER if (
            native == "decimal"
        ):  # FLOOR is written in doubles for Spark, which hold fewer digits
            part = exp.Mod(this=column, expression=exp.Literal.number(1))
            whole = exp.EQ(this=exp.Paren(this=part), expression=exp.Literal.number(0))
            return keep_if(whole, exp.TryCast(this=column.copy(), to=target, safe=True))
        case ColumnType.INTEGER:
            return exp.TryCast(this=column, to=target, safe=True)
        case ColumnType.DECIMAL:
            double = _cast(column, "DOUBLE")
            return keep_in_range(double, kind, target) if native in ("float", "double") else double
        case ColumnType.DATE:
            return keep_in_range(column, kind, target)
        case ColumnType.TIMESTAMP:
            return keep_in_range(exp.Cast(this=column, to=target), kind, target)
        case ColumnType.BOOLEAN if native != "boolean":
            return read_flag(_cast(column, "STRING"))
        case ColumnType.BOOLEAN | ColumnType.TEXT | ColumnType.CATEGORY:
            return exp.Cast(this=column, to=target)


def held_cells(name: str, null: str | None) -> exp.Expression:
    """Return SQL for a column's cells before they are read as its declared type: those of a CSV are text.

    ``null``: the text that stands for NULL in a CSV; None where the source has types.
    """
    return _column(name) if null is None else _cell(name, null)


def _cell(name: str, null: str) -> exp.Expression:
    """Return SQL for a CSV cell as text, NULL where it is the text ``null``.

    Spark reads an empty cell as NULL whatever nullValue says, so NULL is first turned back into the empty text.
    """
    text = exp.Coalesce(this=_column(name), expressions=[exp.Literal.string("")])
    return exp.Nullif(this=text, expression=exp.Literal.string(null))


def text_types_query(names: Sequence[str], source: exp.Expression, null: str, writing: CellWriting) -> exp.Select:
    """Return the query that counts, for each column of a CSV, how many cells can be read as each type."""
    cells = {name: _cell(name, null) for name in names}
    return inference_query(cells, source, writing, lambda kind: _type(NATIVE[kind]))


def fingerprint_query(names: Sequence[str], source: exp.Expression) -> exp.Select:
    """Return the query for the number of rows, and for two sums over 64-bit hashes of each row.

    xxhash64 skips NULL, so the hash also covers which cells are NULL.
    """
    cells = [part for name in names for part in (_column(name), exp.Is(this=_column(name), expression=exp.Null()))]
    items = [exp.alias_(exp.Count(this=exp.Star()), "people")]
    for seed in (0, 1):
        hashed = exp.Anonymous(
            this="xxhash64", expressions=[exp.Literal.number(seed), *(cell.copy() for cell in cells)]
        )
        items.append(exp.alias_(exp.Sum(this=_cast(hashed, "DECIMAL(38, 0)")), f"sum{seed}"))
    return exp.select(*items).from_(source)


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _type(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect="spark")


def _cast(tree: exp.Expression, target: str) -> exp.Cast:
    return exp.Cast(this=tree, to=_type(target))
