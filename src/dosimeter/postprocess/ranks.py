"""How far off what was drawn by rank is, and what it means: from SQL, schema and ε alone (M5, E3). Public."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal

from sqlglot import exp

from dosimeter.measures import Rank
from dosimeter.planning import QueryPlan

_SELECTING = (exp.Where, exp.Having, exp.Qualify, exp.Limit, exp.Offset)


def find_rank_columns(plan: QueryPlan) -> Mapping[str, Rank]:
    """Return the columns of the answer that are drawn by rank and nothing else."""
    ranks, found = plan.ranks, {}
    for output in plan.outputs:
        formula = output.formula
        if output.is_aggregate and isinstance(formula, exp.Column) and formula.name.startswith("e"):
            alone = plan.estimates[int(formula.name[1:])].alone
            if alone is not None and alone in ranks:
                found[output.name] = ranks[alone]
    return found


def rank_errors(plan: QueryPlan, epsilon: float | Decimal) -> dict[str, float]:
    """Return the 95 % error of each column that is drawn by rank, in rows (E3)."""
    share, cells = plan.rank_share(epsilon), _count_selectable(plan)
    return {name: rank.rank_error(share, cells) for name, rank in find_rank_columns(plan).items()}


def tell_ranks(plan: QueryPlan, epsilon: float | Decimal | None) -> tuple[str, ...]:
    """Return what a reader of the answer must know of its ranks. Without ε, nothing that would tell of ε (G2)."""
    if not plan.ranks:
        return ()
    if epsilon is None:
        return tuple(f"{rank.label} is drawn by rank from values within its bounds." for rank in plan.ranks.values())
    share, cells = plan.rank_share(epsilon), _count_selectable(plan)
    counted = "people" if plan.schema.max_rows_per_unit == 1 else "rows"
    told: list[str] = []
    for rank in plan.ranks.values():
        target = rank.describe_target(share)
        told += [*([] if target is None else [target]), rank.describe_error(share, cells, counted)]
    return tuple(told)


def _count_selectable(plan: QueryPlan) -> int:
    """Return K: how many numbers could have been selected by what comes after the noise; 1 where nothing is (E3)."""
    after, keys = plan.after.query, plan.group_keys
    if after is None or after.find(*_SELECTING) is None:
        return 1
    return math.prod([1 if keys is None else len(keys), len(plan.measures)])
