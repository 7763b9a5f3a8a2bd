"""Digest whose data these are, so that a ledger can tell whether two accounts hold the same individuals.

Takes an engine, a schema and a key; gives digests, the same on every engine and for every form in which a table is
kept. What identifies an individual never leaves the engine.
"""

from __future__ import annotations

from sqlglot import exp

from dosimeter.engines import Engine
from dosimeter.errors import DataError, SourceUnreachable
from dosimeter.schema import ColumnType, Schema
from dosimeter.sql import alias, as_text, column_tree, is_not_null, lower_ascii

_UNIT, _DIGEST = "dosimeter_unit", "dosimeter_digest"
_LETTERS = 16  # hexadecimal digits of a digest that are kept: 64 bits


def digest_individuals(engine: Engine, schema: Schema, key: str, most: int) -> frozenset[int] | None:
    """Return the smallest digests of the table's individuals, as whole numbers below 2⁶⁴; from one scan.

    ``key``: the ledger's; ``most``: how many digests to return at most. Private tables beside it are of the same
    individuals and are not read. None if rows are the individuals, for then nothing tells whose they are. None also if
    the table cannot be read: measuring it will fail as well and stop the dataset, and here nobody may learn of it (N4).
    """
    if schema.unit == "row":
        return None
    try:
        found = engine.fetch(_digest_query(schema, engine.relation(), key, most))
    except SourceUnreachable:
        raise
    except DataError:
        return None
    return frozenset(int(digest, 16) for digest in found.column(_DIGEST).to_pylist())


def _digest_query(schema: Schema, relation: exp.Expression, key: str, most: int) -> exp.Select:
    """Return the query for the smallest digests, each once."""
    units = exp.select(alias(column_tree(schema.unit), _UNIT)).from_(relation.copy(), copy=False)
    units = units.where(is_not_null(column_tree(schema.unit)), copy=False).distinct(copy=False)
    text = as_text(exp.column(_UNIT))
    if schema.columns[schema.unit].type is not ColumnType.INTEGER:
        text = lower_ascii(exp.Trim(this=text))
    texts = exp.select(alias(text, _UNIT)).from_(units.subquery("units", copy=False), copy=False)
    keyed = exp.DPipe(this=exp.Literal.string(f"{key}:"), expression=_write_alike(exp.column(_UNIT)))
    digest = exp.Substring(this=exp.MD5(this=keyed), start=exp.Literal.number(1), length=exp.Literal.number(_LETTERS))
    found = exp.select(alias(digest, _DIGEST)).distinct(copy=False).from_(texts.subquery("texts", copy=False))
    return found.order_by(exp.column(_DIGEST), copy=False).limit(most, copy=False)


def _write_alike(text: exp.Expression) -> exp.Expression:
    """Return the same text for '7', '007' and '7.0'.

    Programs that convert tables make one of the other, and one case of the other. If two individuals of one table
    become the same by it, the comparison is a little coarser.
    """
    whole = exp.Sub(this=exp.Length(this=text.copy()), expression=exp.Literal.number(2))
    decimal = exp.Like(this=text.copy(), expression=exp.Literal.string("%.0"))
    cut = exp.Substring(this=text.copy(), start=exp.Literal.number(1), length=whole)
    number = exp.Case(ifs=[exp.If(this=decimal, true=cut)], default=text.copy())
    return exp.Trim(this=number, expression=exp.Literal.string("0"), position="LEADING")
