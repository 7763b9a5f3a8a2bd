"""Several blocks after the noise: their released tables, and UNION ALL over them. Knows no data.

A block is a SELECT that measures. Block b has a released table of its own, with the columns described in ``after``:
``released`` for the first, then ``released1`` …. The rows of all released tables are numbered together, so that a row
of a union is still traced to the released row that it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.after.measuring_select import CELL, MAX_ROWS, RELEASED, Field, Relation
from dosimeter.planning.formulas import choose_by_block, formula_in
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.sql import EmbeddedError, Type, Values, alias, column_tree, refusal, run_embedded


def name_released(block: int) -> str:
    """Return the name of the released table of block number ``block``."""
    return f"{RELEASED}{block}" if block else RELEASED


def try_after(plan: QueryPlan) -> None:
    """Run what comes after the noise on made-up numbers, and raise QueryError if it cannot be computed.

    The plan must have a query after the noise. This trial comes before anything is charged. Public tables take part in
    it with their own rows, or without rows if no engine has read them yet.
    """
    assert plan.after.query is not None
    tables = {name_released(at): _make_up(block) for at, block in enumerate(plan.answered)}
    tables |= {each.name: dict(each.content()) for each in plan.after.public}
    try:
        run_embedded(plan.after.query, tables)
    except EmbeddedError as error:
        raise QueryError(f"This cannot be computed from the released numbers: {error}.") from None


def _make_up(block: QueryPlan) -> dict[str, Values]:
    many = 2 if block.groups else 1  # without groups there is one row, which a subquery may stand for
    rows = range(many if all(group.values is not None for group in block.groups) else 0)
    table = {CELL: Values(Type.INTEGER, rows)}
    for at, group in enumerate(block.groups):
        table[f"g{at}"] = Values(group.type, [(group.values or ())[row % len(group.values or ())] for row in rows])
        if block.sets:
            table[f"h{at}"] = Values(Type.INTEGER, rows)
    for at, estimate in enumerate(block.estimates):
        table[f"e{at}"] = Values(Type.INTEGER if estimate.whole else Type.NUMBER, rows, estimate.whole)
    return table


# ---------------------------------------------------------------- UNION ALL


def write_union(parts: Sequence[Relation], node: exp.Expression) -> Relation:
    """Return the UNION ALL of several relations. Columns are matched by position and named as in the first relation.

    ``node``: the union as written, for the message. Refuses different numbers of columns, and too many rows.
    """
    first = parts[0]
    for part in parts[1:]:
        if len(part.fields) != len(first.fields):
            raise refusal(
                node,
                f"The SELECTs of a UNION ALL have {len(first.fields)} and {len(part.fields)} columns. Ask for as many "
                "in each.",
            )
    rows = sum(part.rows for part in parts)
    if rows > MAX_ROWS:
        raise refusal(node, f"The UNION ALL could give {rows:,} rows; at most {MAX_ROWS:,} are supported.")
    traced = all(part.traced for part in parts)
    blocks = tuple(sorted({block for part in parts for block in part.blocks})) if traced else ()
    columns = zip(*(part.fields for part in parts), strict=True)
    return Relation(
        query=_unite([_take_columns(part, traced) for part in parts]),
        fields=tuple(_unite_fields(fields, parts) if traced else _untraced(fields) for fields in columns),
        rows=rows,
        traced=traced,
        steps=tuple(dict.fromkeys([*(step for part in parts for step in part.steps), "UNION ALL"])),
        blocks=blocks,
    )


def _take_columns(part: Relation, traced: bool) -> exp.Select:
    names = [*(each.name for each in part.fields), *([CELL] if traced else [])]
    return exp.select(*[column_tree(name) for name in names]).from_(part.query.copy().subquery("part"))


def _unite(queries: Sequence[exp.Select | exp.Union]) -> exp.Select | exp.Union:
    union = queries[0]
    for query in queries[1:]:
        union = exp.Union(this=union, expression=query, distinct=False)
    return union


def _untraced(fields: Sequence[Field]) -> Field:
    return replace(
        fields[0],
        formula=None,
        group=None,
        length=max(each.length for each in fields),
        type=fields[0].type if len({each.type for each in fields}) == 1 else None,
        public=all(each.public for each in fields),
        derived=None,
    )


def _unite_fields(fields: Sequence[Field], parts: Sequence[Relation]) -> Field:
    """Return one column of a union. Its formula has a branch per block.

    The formula is None if the column has no formula in one of the parts. It is also None if two parts come from the
    same block and compute the column differently. A column without released numbers is a group if it is one in the
    first part, and otherwise public. ``fields``: the column in each of the ``parts``.
    """
    formulas: dict[int, exp.Expression] = {}
    for each, part in zip(fields, parts, strict=True):
        for block in part.blocks:
            formula = formula_in(each.formula, block)
            if formula is None or formulas.setdefault(block, formula) != formula:
                return _untraced(fields)
    united = replace(_untraced(fields), formula=choose_by_block(formulas), group=None)
    if any(_reads_numbers(formula) for formula in formulas.values()):
        return united
    return replace(united, group=fields[0].group, public=fields[0].group is None)


def _reads_numbers(formula: exp.Expression) -> bool:
    return any(column.name.startswith("e") for column in formula.find_all(exp.Column))


def of_block(relation: Relation, block: int) -> Relation:
    """Return the relation marked as that of block number ``block``.

    For block 1 its formulas become CASE block WHEN 1 THEN … END. For block 0 it is returned unchanged: a relation
    without a mark is of block 0. ``relation``: a SELECT that reads this block's released table already.
    """
    if block == 0:
        return relation
    fields = (
        replace(each, formula=each.formula and choose_by_block({block: each.formula}), derived=None)
        for each in relation.fields
    )
    return replace(relation, fields=tuple(fields), blocks=(block,))


# ---------------------------------------------------------------- sets that are measured one by one


def unite_sets(sets: Mapping[int, Sequence[int]], groups: int, estimates: int) -> exp.Subquery:
    """Return one table with the rows of all sets of ROLLUP, CUBE or GROUPING SETS, each measured in a block of its own.

    ``sets``: by block number, the indices of the GROUP BY expressions that the set keeps: {0: (0, 1), 1: (0,), 2: ()}
    for ROLLUP (city, sex). A row of the set (city) has the city in g0 and NULL in g1, as sex is left out. Columns h0,
    h1 … tell this NULL from a value that is NULL: h0 is 0 for the kept city, h1 is 1 for the sex left out.
    ``groups`` and ``estimates``: how many columns g… and e… there are.
    """
    queries: list[exp.Select | exp.Union] = []
    for block, kept in sets.items():
        columns: list[exp.Expression] = [exp.column(CELL)]
        for at in range(groups):
            there = at in kept
            value = exp.column(f"g{list(kept).index(at)}") if there else exp.Null()
            columns += [alias(value, f"g{at}"), alias(exp.Literal.number(0 if there else 1), f"h{at}")]
        columns += [exp.column(f"e{at}") for at in range(estimates)]
        queries.append(exp.select(*columns).from_(exp.table_(name_released(block))))
    return exp.Subquery(this=_unite(queries), alias=exp.TableAlias(this=exp.to_identifier(RELEASED)))


def of_sets(relation: Relation, sets: Mapping[int, Sequence[int]]) -> Relation:
    """Return the relation with a branch for each set in its formulas: CASE block WHEN 0 THEN … WHEN 1 THEN … END.

    ``relation``: a SELECT over the table of ``unite_sets``; its query is unchanged. ``sets``: as in ``unite_sets``. A
    branch reads the released table of its set's block, which has columns only for the expressions that the set keeps.
    If a set keeps only the second GROUP BY expression, that is g0 in the block's table. So in the branch g1 becomes g0,
    g0 becomes NULL, h0 becomes 1 and h1 becomes 0.
    """
    fields = []
    for each in relation.fields:
        formulas = {} if each.formula is None else {at: _in_set(each.formula, kept) for at, kept in sets.items()}
        fields.append(replace(each, formula=choose_by_block(formulas) if formulas else None, derived=None))
    return replace(relation, fields=tuple(fields), blocks=tuple(sets), plain=False, whole=False)


def _in_set(formula: exp.Expression, kept: Sequence[int]) -> exp.Expression:
    def place(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column) or node.name[0] == "e":
            return node
        at = int(node.name[1:])
        if node.name[0] == "h":
            return exp.Literal.number(0 if at in kept else 1)
        return exp.column(f"g{list(kept).index(at)}") if at in kept else exp.Null()

    written: exp.Expression = formula.transform(place)
    return written
