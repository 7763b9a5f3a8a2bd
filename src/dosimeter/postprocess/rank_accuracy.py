"""How far off numbers drawn by rank are, and what to know of them: from SQL, schema and ε alone (M5, E3). Public."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from sqlglot import exp

from dosimeter.measures import Rank
from dosimeter.planning import QueryPlan
from dosimeter.postprocess.cell_errors import chooses_rows, count_selectable
from dosimeter.postprocess.enough_rows import name_rows


def find_rank_columns(plan: QueryPlan) -> Mapping[str, tuple[Rank, ...]]:
    """Return the columns of the answer that are just a number drawn by rank, each with its Rank in every block."""
    found: dict[str, tuple[Rank, ...]] = {}
    for block in plan.answered:
        ranks = block.ranks
        for output in block.outputs:
            formula = output.formula
            if output.is_aggregate and isinstance(formula, exp.Column) and formula.name.startswith("e"):
                alone = block.estimates[int(formula.name[1:])].alone
                if alone is not None and alone in ranks:
                    found[output.name] = (*found.get(output.name, ()), ranks[alone])
    return found


def rank_errors(plan: QueryPlan, epsilon: float | Decimal) -> dict[str, float]:
    """Return the 95 % error, in rows, of each column that is drawn by rank (E3)."""
    cells = count_drawn(plan)
    return {
        name: max(plan.rank_error(rank, epsilon, cells) for rank in ranks)
        for name, ranks in find_rank_columns(plan).items()
    }


def tell_ranks(plan: QueryPlan, epsilon: float | Decimal | None) -> tuple[str, ...]:
    """Return sentences on the numbers drawn by rank; without ``epsilon``, none that depends on ε (G2)."""
    if not plan.ranks:
        return ()
    if epsilon is None:
        return tuple(f"{rank.label} is drawn by rank from values within its bounds." for rank in plan.ranks.values())
    share, cells = plan.rank_share(epsilon), count_drawn(plan)
    counted = name_rows(plan)
    people, groups = plan.schema.individuals, len(plan.group_keys or ())
    where = f" in {groups:,} groups" if groups > 1 else ""
    declared = "" if people is None else f" {plan.words.count_people(people)}{where} are declared."
    told: list[str] = []
    for rank in plan.ranks.values():
        target = rank.describe_target(share)
        told += [
            *([] if target is None else [target]),
            rank.describe_error(plan.rank_error(rank, epsilon, cells), counted) + declared,
        ]
    return tuple(dict.fromkeys(told))


def count_drawn(plan: QueryPlan) -> int:
    """Return K: how many noisy numbers could have decided which rows are shown; 1 if noise decides no rows (E2)."""
    return count_selectable(plan) if chooses_rows(plan) else 1
