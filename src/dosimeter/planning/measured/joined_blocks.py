"""Join the blocks of one query into a plan (Q5). A block is a SELECT that measures. Knows no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dosimeter.errors import OptionError, QueryError
from dosimeter.planning.query_plan import Block, QueryPlan
from dosimeter.problems import leave_out
from dosimeter.sql import refusal

MAX_NUMBERS = 50_000


def join_blocks(blocks: Sequence[QueryPlan], clauses: Sequence[exp.Expression]) -> QueryPlan:
    """Return one plan with several blocks (SELECTs that measure). ``clauses``: how each block is written.

    Refuses blocks over different rows, and too many numbers. Raises OptionError if the groups are not declared, or if
    the sensitivity is given by hand.
    """
    first = blocks[0]
    if first.hand_sensitivity is not None:
        raise OptionError(
            "A sensitivity given by hand is for one SELECT, and this query has several.", leave_out("sensitivity")
        )
    if first.threshold is not None:
        raise OptionError(
            "Groups that nobody declared are shown by one SELECT at a time. Ask the SELECTs of this query one by one."
        )
    if not first.declared:
        raise OptionError("Observed groups reproduce the paper, which has one SELECT. Use declared groups.")
    for block, clause in zip(blocks, clauses, strict=True):
        _require_same_rows(first, block, clause)
    if sum(len(block.group_keys or ()) * len(block.measures) for block in blocks) > MAX_NUMBERS:
        raise QueryError(
            f"The SELECTs of this query measure more than {MAX_NUMBERS:,} numbers together. Ask for fewer aggregates "
            "or fewer groups, or several queries."
        )
    used = {name for block in blocks for name in block.columns}
    return replace(
        first,
        columns=tuple(name for name in first.schema.columns if name in used),
        singled_out=tuple(dict.fromkeys(found for block in blocks for found in block.singled_out)),
        further=tuple(
            Block(each.where, each.groups, each.arguments, each.measures, each.estimates, each.sets)
            for each in blocks[1:]
        ),
    )


def _require_same_rows(first: QueryPlan, block: QueryPlan, clause: exp.Expression) -> None:
    """Refuse a block over other rows than the first: what one individual moves in both together would be unknown."""
    if (first.table, first.joins) != (block.table, block.joins):
        raise refusal(
            clause,
            "The SELECTs of this query read different tables. Write the same FROM and JOIN in each, with the same "
            "names, or ask each SELECT as a query of its own.",
        )
    if (first.person, first.schema) != (block.person, block.schema):
        raise refusal(
            clause,
            "Some SELECTs of this query compute something of each individual first (GROUP BY the unit, OVER, IN, "
            "EXISTS), others do not or do it differently. Read the same subquery in each (WITH people AS (…) SELECT … "
            "FROM people UNION ALL SELECT … FROM people), or ask each SELECT as a query of its own.",
        )
