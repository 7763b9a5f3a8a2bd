"""Write the unit profile query of a plan with several blocks: one row per individual, with all they contribute (C9).

A block is a SELECT that measures. A field is one number of what an individual contributes to a group. Where every field
is a total over the individual's own rows and there are few groups, one pass over the rows gives the fields of all
blocks side by side, a column each. Otherwise each block gives one text per individual, in which the individual's fields
are written one after the other, and the texts are put side by side. Never opens a connection.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dosimeter.influence.rows.row_queries import find_common_where
from dosimeter.influence.units.unit_queries import (
    ENTRIES,
    MOST_COLUMNS,
    Layout,
    as_texts,
    count_alike_query,
    unit_fields,
)
from dosimeter.influence.units.unit_rows import UNIT
from dosimeter.measures import Tally
from dosimeter.planning import QueryPlan
from dosimeter.sql import alias, column_tree, conjunction, connect, equals, is_declared, select_from, wrap

BLOCK, TOUCHED = "block", "touched"


def is_wide(plan: QueryPlan) -> bool:
    """Return whether the profile has a column for each field in every group of every block.

    A field is one number of what an individual contributes to a group. Fields have columns if all of them are totals
    and at most MOST_COLUMNS columns are needed; otherwise each block has one text.
    """
    fields = [field for block in plan.blocks for field in unit_fields(block)]
    columns = sum(len(Layout(block, True, {}).identity_columns()) for block in plan.blocks)
    return all(isinstance(field, Tally) for field in fields) and columns <= MOST_COLUMNS


def list_columns(plan: QueryPlan, at: int) -> list[str]:
    """Return the names of the columns that say what an individual contributes to the block with index ``at``."""
    names = Layout(plan.blocks[at], True, {}).identity_columns() if is_wide(plan) else [ENTRIES]
    return [f"{prefix(at)}{name}" for name in names]


def prefix(at: int) -> str:
    """Return how the names of the columns of the block with index ``at`` begin."""
    return f"b{at}_"


def joint_profile_query(
    plan: QueryPlan,
    relation: exp.Expression,
    attributes: Mapping[str, exp.Expression] | None = None,
    everybody: exp.Expression | None = None,
) -> exp.Select:
    """Return the query for distinct contributions of individuals to all blocks, and how many individuals have each.

    Whoever has no row in a block has NULL for its text, or zeros in its columns. With attributes (conditions of
    FILTERs, the ``--by`` column) people outside every WHERE are profiled too: whoever is in no block has NULL in all
    columns. ``everybody``: the rows that attributes are read from, if not those of ``relation``.
    """
    names = [name for at in range(len(plan.blocks)) for name in list_columns(plan, at)]
    return count_alike_query(plan, everybody or relation, joint_unit_query(plan, relation), names, attributes)


def touched_query(plan: QueryPlan, relation: exp.Expression) -> exp.Select:
    """Return the query for how many individuals at least one block touches.

    A block touches those who have a row inside its WHERE and in a declared group (N5).
    """
    counted = exp.Count(this=exp.Distinct(expressions=[column_tree(plan.schema.unit)]))
    tests: list[exp.Expression] = []
    for block in plan.blocks:
        declared = (is_declared(group.tree, group.values or ()) for group in block.groups)
        met = conjunction([*([] if block.where is None else [block.where.copy()]), *declared])
        tests += [] if met is None else [wrap(met)]
    touched = connect(tests, exp.Or) if len(tests) == len(plan.blocks) else None
    return select_from(relation.copy(), alias(counted, TOUCHED), where=touched)


def joint_unit_query(plan: QueryPlan, relation: exp.Expression) -> exp.Select:
    """Return the query for one row per individual, with what they contribute to all blocks."""
    return _fields_beside(plan, relation) if is_wide(plan) else _texts_beside(plan, relation)


# ---------------------------------------------------------------- one pass


def _fields_beside(plan: QueryPlan, relation: exp.Expression) -> exp.Select:
    """Return the query for one row per individual, in one pass: a column per block, group and field."""
    common = find_common_where(plan.blocks)
    rows: list[exp.Expression] = [alias(column_tree(plan.schema.unit), UNIT)]
    columns: list[exp.Expression] = [exp.column(UNIT)]
    for at, block in enumerate(plan.blocks):
        met = _met(block, common)
        rows += [alias(tree, f"{prefix(at)}{name}") for name, tree in _row_columns(block, met).items()]
        layout = Layout(block, True, {})
        for number, key in enumerate(block.group_keys or ()):
            tests: list[exp.Expression] = [] if met is None else [exp.column("inside")]
            tests += [equals(exp.column(f"g{place}"), value) for place, value in enumerate(key)]
            inside = connect(tests, exp.And) if tests else None
            for field in unit_fields(block):
                assert isinstance(field, Tally)
                tree = field.tree(plan.schema.max_rows_per_unit, inside)
                columns.append(alias(_rename(tree, at), f"{prefix(at)}{layout.columns(field, number)[0]}"))
    query = select_from(relation.copy(), *rows, where=None if common is None else common.copy())
    return select_from(query.subquery("unit_rows", copy=False), *columns, group=[exp.column(UNIT)])


def _met(block: QueryPlan, common: exp.Expression | None) -> exp.Expression | None:
    """Return the test that a row meets the block's WHERE; None if every row that the query reads meets it.

    ``common``: the WHERE of the query itself (``find_common_where``).
    """
    if block.where is None or block.where == common:
        return None
    return exp.Coalesce(this=wrap(block.where.copy()), expressions=[exp.Boolean(this=False)])


def _row_columns(block: QueryPlan, met: exp.Expression | None) -> dict[str, exp.Expression]:
    found = {f"g{at}": group.tree.copy() for at, group in enumerate(block.groups)}
    found |= {f"a{at}": argument.column() for at, argument in enumerate(block.arguments)}
    return found if met is None else found | {"inside": met.copy()}


def _rename(tree: exp.Expression, at: int) -> exp.Expression:
    def name(node: exp.Expression) -> exp.Expression:
        return exp.column(f"{prefix(at)}{node.name}") if isinstance(node, exp.Column) else node

    renamed: exp.Expression = tree.transform(name)
    return renamed


# ---------------------------------------------------------------- texts


def _texts_beside(plan: QueryPlan, relation: exp.Expression) -> exp.Select:
    """Return the query for one row per individual, with one column per block: their entries in it, as text.

    The text is ``group:field:field;…``, as in ``as_texts``.
    """
    texts: exp.Select | exp.Union | None = None
    columns: list[exp.Expression] = [exp.column(UNIT)]
    for at, block in enumerate(plan.blocks):
        own = as_texts(Layout(block, False, {}), relation).subquery(f"block_{at}", copy=False)
        found = select_from(own, exp.column(UNIT), alias(exp.Literal.number(at), BLOCK), exp.column(ENTRIES))
        texts = found if texts is None else exp.Union(this=texts, expression=found, distinct=False)
        here = exp.EQ(this=exp.column(BLOCK), expression=exp.Literal.number(at))
        text = exp.Max(this=exp.Case(ifs=[exp.If(this=here, true=exp.column(ENTRIES))]))
        columns += [alias(text, name) for name in list_columns(plan, at)]
    assert texts is not None
    return select_from(texts.subquery("texts", copy=False), *columns, group=[exp.column(UNIT)])
