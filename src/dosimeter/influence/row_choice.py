"""Choose which rows of an individual count, where one has more than m (N6). Takes an engine and a schema; gives trees.

Every row has a *base*, 32 bits that mix its unit, its row key and all other declared cells. Rows of one individual with
the same base, mostly rows that agree in every cell, are numbered in the order of their cells. The *key* mixes the base
and this number once more, and the m rows with the smallest keys count. No two rows of one individual have the same key,
so that exactly m are kept. Everything is whole-number arithmetic that no engine does differently, or that
``engines.own_functions`` has for each; nothing depends on other people's rows or on the order in which rows are stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from sqlglot import exp

from dosimeter.engines import (
    DAY_NUMBER,
    IN_PART,
    MOMENT_NUMBER,
    ONCE_A_ROW,
    TEXT_NUMBER,
    Engine,
    call_own,
)
from dosimeter.schema import Column, ColumnType, Schema
from dosimeter.sql import (
    as_bigint,
    as_double,
    case,
    column_tree,
    conjunction,
    group_by_first,
    is_not_null,
    is_null,
    literal,
    select_from,
)

_BASE, _UNIT, _COPY, _KEY, _PLACE, _FIRST, _LIMIT = (
    f"dosimeter_{name}" for name in ("base", "unit", "copy", "key", "place", "first", "limit")
)
_OWN, _LIMITS, _REPEATED = "own", "limits", "repeated"

_32_BITS = 2**32 - 1
_HIGH_BITS = 2**63 - 2**32  # without the sign, because engines shift negative numbers differently
_LONG = frozenset({ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.TIMESTAMP})  # cells of more than 32 bits
_FEW = 16  # declared values
_NULL = 0x9E3779B9  # stands for NULL; a number that happens to be the same does no harm
_COPIES = 0x61C88647  # odd, so that every number of a copy below 2^31 gives other bits
# (shift, multiplier): odd multipliers below 2^31, so that no product leaves 63 bits and no two bases become one.
_ROUNDS = ((16, 0x45D9F3B), (15, 0x5BD1E995), (16, 0x2C1B3C6D))
# Doubles enter in steps of a power of two, which engines multiply by without rounding: below each limit, its scale.
_SCALES = ((2.0**-16, 2.0**64), (2.0**40, 2.0**20), (2.0**100, 2.0**-40))


def choose_rows(engine: Engine, schema: Schema, relation: exp.Expression, rows: int) -> exp.Expression:
    """Return the rows that count: all rows of individuals with at most m, and m rows of each of the others (N6).

    m is the schema's ``max_rows_per_unit``. What can be kept by the engine is computed once, until the data may have
    changed. ``relation``: the table with all rows; ``rows``: how many there are.
    """
    hashed = _hash_rows(schema, relation)
    unit = schema.columns[schema.unit].type
    kinds = {_UNIT: unit, _LIMIT: ColumnType.INTEGER, _COPY: ColumnType.INTEGER}
    limits = engine.keep(_limits_query(schema, hashed), kinds, rows=rows)
    most = select_from(limits.copy(), exp.alias_(exp.Max(this=exp.column(_COPY)), _COPY))
    repeated = None
    if (engine.fetch_few(most).column(_COPY)[0] or 1) > 1:
        limits = engine.keep(_limits_of_copies_query(schema, hashed, limits), kinds, rows=rows)
        repeated = engine.keep(
            _repeated_query(schema, hashed, limits), {_UNIT: unit, _BASE: ColumnType.INTEGER}, rows=rows
        )
    chosen = _chosen_query(schema, hashed, limits, repeated)
    if not engine.keeps_rows:
        return chosen.subquery("bounded", copy=False)
    kinds = {name: column.type for name, column in schema.columns.items()}
    return engine.keep(chosen, kinds, rows=rows, by=schema.unit)


# ---------------------------------------------------------------- queries


def _hash_rows(schema: Schema, relation: exp.Expression) -> exp.Subquery:
    """Return all rows with two more columns: their base, and the key of a first row with this base."""
    columns = [exp.alias_(_own(name), name, quoted=True) for name in schema.columns]
    base = exp.alias_(call_own(ONCE_A_ROW, _mix_cells(schema.columns)), _BASE)
    based = select_from(_rename(relation, _OWN), *columns, base, where=call_own(IN_PART, _own(schema.unit)))
    names = [column_tree(name) for name in schema.columns]
    key = exp.alias_(_mix_key(exp.column(_BASE), literal(1)), _KEY)
    hashed = select_from(based.subquery("based", copy=False), *names, exp.column(_BASE), key)
    return hashed.subquery("hashed", copy=False)


def _limits_query(schema: Schema, hashed: exp.Expression) -> exp.Select:
    """Return the query for each individual with more than m rows: the m-th smallest key, and the most equal bases.

    Rows with the same base count as first ones here, so that the key is their limit only where no base repeats.
    """
    unit, key = _own(schema.unit), exp.column(_KEY, table=_OWN)
    placed = select_from(
        _rename(hashed, _OWN),
        exp.alias_(unit, _UNIT),
        key,
        exp.alias_(_over(exp.RowNumber(), [unit.copy()], [key.copy()]), _PLACE),
        exp.alias_(_over(exp.Anonymous(this="RANK"), [unit.copy()], [key.copy()]), _FIRST),
        where=is_not_null(unit.copy()),
    )
    limit = exp.Max(this=case((_is_last(schema), exp.column(_KEY))))
    copies = exp.Add(
        this=exp.Max(this=exp.Sub(this=exp.column(_PLACE), expression=exp.column(_FIRST))), expression=literal(1)
    )
    many = exp.GT(this=exp.Count(this=exp.Star()), expression=literal(schema.max_rows_per_unit))
    shown = exp.column(_UNIT), exp.alias_(limit, _LIMIT), exp.alias_(copies, _COPY)
    source = placed.subquery("placed", copy=False)
    return select_from(source, *shown, group=[exp.Literal.number(1)], having=many)


def _limits_of_copies_query(schema: Schema, hashed: exp.Expression, limits: exp.Expression) -> exp.Select:
    """Return the query for the limits, found again with numbered copies for individuals whose bases repeat."""
    unit, base = exp.column(_UNIT, table=_LIMITS), exp.column(_BASE, table=_OWN)
    number = exp.alias_(_over(exp.RowNumber(), [unit, base], [base.copy()]), _COPY)
    numbered = _beside_limits(schema, hashed, limits, unit.copy(), base.copy(), number)
    numbered = numbered.where(_has_copies(), copy=False)
    unit, key = exp.column(_UNIT), exp.column(_KEY)
    mixed = exp.alias_(_mix_key(exp.column(_BASE), exp.column(_COPY)), _KEY)
    keyed = select_from(numbered.subquery("numbered", copy=False), unit, mixed)
    place = exp.alias_(_over(exp.RowNumber(), [unit.copy()], [key.copy()]), _PLACE)
    placed = select_from(keyed.subquery("keyed", copy=False), unit, key, place).subquery("placed", copy=False)
    shown = unit, exp.alias_(key, _LIMIT), exp.alias_(as_bigint(literal(2)), _COPY)
    again = select_from(placed, *shown, where=_is_last(schema))
    columns = [exp.column(name) for name in (_UNIT, _LIMIT, _COPY)]
    alone = select_from(_rename(limits, _LIMITS), *columns, where=exp.Not(this=_has_copies()))
    both = exp.Union(this=alone, expression=again, distinct=False).subquery("limits", copy=False)
    return select_from(both, *columns)


def _repeated_query(schema: Schema, hashed: exp.Expression, limits: exp.Expression) -> exp.Select:
    """Return the query for the bases that several rows of one such individual have."""
    again = exp.GT(this=exp.Count(this=exp.Star()), expression=literal(1))
    shown = exp.column(_UNIT, table=_LIMITS), exp.column(_BASE, table=_OWN)
    query = _beside_limits(schema, hashed, limits, *shown).where(_has_copies(), copy=False)
    return group_by_first(query, 2).having(again, copy=False)


def _chosen_query(
    schema: Schema, hashed: exp.Expression, limits: exp.Expression, repeated: exp.Expression | None
) -> exp.Select:
    """Return the query for the rows that count, given the individuals' limits and the bases that repeat."""
    columns = [exp.alias_(_own(name), name, quoted=True) for name in schema.columns]
    base, limit = exp.column(_BASE, table=_OWN), exp.column(_LIMIT, table=_LIMITS)
    within = exp.LTE(this=exp.column(_KEY, table=_OWN), expression=limit)
    kept: exp.Expression = exp.Paren(this=exp.Or(this=is_null(exp.column(_UNIT, table=_LIMITS)), expression=within))
    alone = _beside_limits(schema, hashed, limits, *columns, kind="left")
    if repeated is None:
        return alone.where(kept, copy=False)
    same = conjunction(
        [_is_unit(schema, _REPEATED), exp.EQ(this=base.copy(), expression=exp.column(_BASE, table=_REPEATED))]
    )
    assert same is not None
    unlike = is_null(exp.column(_UNIT, table=_REPEATED))
    alone = alone.join(_rename(repeated, _REPEATED), on=same, join_type="left", copy=False)
    alone = alone.where(exp.And(this=unlike, expression=kept), copy=False)
    number = _over(exp.RowNumber(), [_own(schema.unit), base.copy()], [_own(name) for name in schema.columns])
    numbered = _beside_limits(schema, hashed, limits, *columns, base.copy(), limit.copy(), exp.alias_(number, _COPY))
    numbered = numbered.join(_rename(repeated, _REPEATED), on=same.copy(), join_type="inner", copy=False)
    names = [column_tree(name) for name in schema.columns]
    counts = exp.LTE(this=_mix_key(exp.column(_BASE), exp.column(_COPY)), expression=exp.column(_LIMIT))
    copies = select_from(numbered.subquery("numbered", copy=False), *names, where=counts)
    both = exp.Union(this=alone, expression=copies, distinct=False).subquery("chosen", copy=False)
    return select_from(both, *names)


def _beside_limits(
    schema: Schema, hashed: exp.Expression, limits: exp.Expression, *columns: exp.Expr, kind: str = "inner"
) -> exp.Select:
    """Return the query for these columns of rows joined with their individual's limit."""
    query = select_from(_rename(hashed, _OWN), *columns)
    return query.join(_rename(limits, _LIMITS), on=_is_unit(schema, _LIMITS), join_type=kind, copy=False)


def _over(function: exp.Expression, by: list[exp.Expression], order: list[exp.Expression]) -> exp.Expression:
    placed = exp.Order(expressions=[exp.Ordered(this=each, nulls_first=False) for each in order])
    return exp.Window(this=function, partition_by=by, order=placed, over="OVER")


def _has_copies() -> exp.Expression:
    return exp.GT(this=exp.column(_COPY, table=_LIMITS), expression=literal(1))


def _is_last(schema: Schema) -> exp.Expression:
    """Return SQL for whether a row, placed among its individual's, is the last that counts."""
    return exp.EQ(this=exp.column(_PLACE), expression=literal(schema.max_rows_per_unit))


def _is_unit(schema: Schema, other: str) -> exp.Expression:
    return exp.EQ(this=_own(schema.unit), expression=exp.column(_UNIT, table=other))


def _own(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=_OWN)


def _rename(relation: exp.Expression, alias: str) -> exp.Expression:
    renamed = relation.copy()
    renamed.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return renamed


# ---------------------------------------------------------------- mixing


def _mix_cells(columns: Mapping[str, Column]) -> exp.Expression:
    """Return SQL for a row's base: every cell as a number, times an odd number of its column's own, joined by XOR.

    Of a number with more than 32 bits, the lower and the higher ones are two terms.
    """
    terms = []
    for name, column in columns.items():
        cell = exp.Coalesce(this=_number_cell(_own(name), column), expressions=[literal(_NULL)])
        parts = {name: _low_bits(cell)}
        if column.type in _LONG:
            kept = exp.Paren(this=exp.BitwiseAnd(this=exp.Paren(this=cell.copy()), expression=literal(_HIGH_BITS)))
            parts[f"{name} high"] = exp.Paren(this=exp.BitwiseRightShift(this=kept, expression=literal(32)))
        terms += [
            exp.Paren(this=exp.Mul(this=part, expression=literal(_multiplier(key)))) for key, part in parts.items()
        ]
    return _low_bits(_join_by_xor(terms))


def _number_cell(cell: exp.Column, column: Column) -> exp.Expression:
    """Return SQL for a cell as a whole number of 64 bits, the same on every engine; NULL where the cell is NULL."""
    match column.type:
        case ColumnType.INTEGER:
            return cell
        case ColumnType.BOOLEAN:
            return case((cell, literal(1)), (exp.Not(this=cell.copy()), literal(2)))
        case ColumnType.DATE:
            return call_own(DAY_NUMBER, cell)
        case ColumnType.TIMESTAMP:
            return call_own(MOMENT_NUMBER, cell)
        case ColumnType.TEXT | ColumnType.CATEGORY:
            return _number_text(cell, column.values or ())
        case ColumnType.DECIMAL:
            return _number_double(cell)


def _number_text(cell: exp.Column, values: Sequence[str]) -> exp.Expression:
    """Return SQL for a text as a number. Of a few declared values the numbers are written out: digests are slow."""
    digest = call_own(TEXT_NUMBER, cell)
    if not 0 < len(values) <= _FEW:
        return digest
    known = [
        (
            exp.EQ(this=cell.copy(), expression=exp.Literal.string(value)),
            literal(int(hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()[:8], 16)),
        )
        for value in values
    ]
    return case(*known, default=digest)


def _number_double(cell: exp.Column) -> exp.Expression:
    """Return SQL for a double in steps of about a millionth; finer for tiny ones, coarser for large ones."""
    size = exp.Abs(this=cell)
    scaled = [
        (
            exp.LT(this=size.copy(), expression=_double(below)),
            exp.Mul(this=cell.copy(), expression=_double(scale)),
        )
        for below, scale in _SCALES
    ]
    beyond = exp.GTE(this=size.copy(), expression=_double(_SCALES[-1][0]))
    return as_bigint(exp.Floor(this=case(*scaled, (beyond, _double(0.0)))))


def _double(value: float) -> exp.Expression:
    return as_double(exp.Literal.string(repr(value)))


def _multiplier(name: str) -> int:
    """Return a term's multiplier: odd, between 2^30 and 2^31, from the column's name alone."""
    found = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return found % 2**30 | 2**30 | 1


def _mix_key(base: exp.Expression, copy: exp.Expression) -> exp.Expression:
    """Return SQL for a row's key, of 64 bits: the mix of base and copy, then the base.

    Each round is a permutation of 32 bits, and different copies change the base by different bits. So copies of one
    base have different mixes, and keys with the same mix have different bases.
    """
    changed = _low_bits(exp.Mul(this=as_bigint(copy), expression=literal(_COPIES)))
    mixed: exp.Expression = exp.Paren(this=exp.BitwiseXor(this=base.copy(), expression=changed))
    for shift, multiplier in _ROUNDS:
        high = exp.Paren(this=exp.BitwiseRightShift(this=mixed, expression=literal(shift)))
        folded = exp.Paren(this=exp.BitwiseXor(this=mixed.copy(), expression=high))
        mixed = _low_bits(exp.Mul(this=folded, expression=literal(multiplier)))
    centred = exp.Paren(this=exp.Sub(this=mixed, expression=literal(2**31)))
    return exp.Add(this=exp.Mul(this=centred, expression=literal(2**32)), expression=base.copy())


def _low_bits(tree: exp.Expression) -> exp.Expression:
    """Return SQL for the lowest 32 bits of a whole number, as a number that is not negative."""
    return exp.Paren(this=exp.BitwiseAnd(this=exp.Paren(this=tree), expression=literal(_32_BITS)))


def _join_by_xor(terms: Sequence[exp.Expression]) -> exp.Expression:
    """Join terms by XOR as a balanced tree, so that many columns do not make a deep one."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return exp.Paren(this=exp.BitwiseXor(this=_join_by_xor(terms[:middle]), expression=_join_by_xor(terms[middle:])))
