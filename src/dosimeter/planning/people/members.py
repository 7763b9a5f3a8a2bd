"""Read IN (SELECT …) and EXISTS (SELECT …) as a question about the individual: are they in the other query?

Takes the parsed condition; gives the individual's column of the outer query, and the other query as a SELECT of its
individuals, without the condition that tied it to the outer query. Never opens a connection.
"""

from __future__ import annotations

from typing import cast

from sqlglot import exp

from dosimeter.planning.after.expressions import finds_aggregate
from dosimeter.planning.rows.parsing import list_sources
from dosimeter.sql import clause_of, conjunction, expect_only, list_conditions, refusal


def read_member(node: exp.Expression, unit: str) -> tuple[exp.Expression, exp.Select]:
    """Return what an IN or EXISTS compares in the outer query, and the query of the individuals to compare it with."""
    return _read_in(node, unit) if isinstance(node, exp.In) else _read_exists(node, unit)


def _read_in(node: exp.In, unit: str) -> tuple[exp.Expression, exp.Select]:
    expect_only(node, "this", "query")
    query = node.args["query"]
    select = query.this if isinstance(query, exp.Subquery) else query
    if not isinstance(select, exp.Select):
        raise refusal(node, f"{clause_of(node)}: write {unit} IN (SELECT {unit} FROM … WHERE …).")
    select = select.copy()
    distinct = select.args.get("distinct")
    if distinct is not None and not distinct.args.get("on"):
        select.set("distinct", None)  # IN asks only whether there is one
    return node.this, select


def _read_exists(node: exp.Expression, unit: str) -> tuple[exp.Expression, exp.Select]:
    found = node.this.unnest() if isinstance(node.this, exp.Subquery) else node.this
    if not isinstance(found, exp.Select):
        raise refusal(node, f"{clause_of(node)}: write EXISTS (SELECT 1 FROM … AS o WHERE o.{unit} = …).")
    _refuse_whole_aggregate(node, found, unit)
    select = found.copy()
    inside = {table.alias_or_name.lower() for table in list_sources(select)}  # an alias hides the table's own name
    clause = select.args.get("where")
    pair: tuple[exp.Expression, exp.Expression] | None = None
    kept: list[exp.Expression] = []
    for part in list_conditions(cast(exp.Expression, clause.this.unnest())) if clause is not None else ():
        sides = _read_pair(part, inside)
        if sides is not None and pair is None:
            pair = sides
        else:
            kept.append(part.copy())
    if pair is None:
        raise refusal(
            node,
            f"{clause_of(node)} would read other people's rows, so that one person could move everybody. Say whose "
            f"rows are meant, with the tables' names: EXISTS (SELECT 1 FROM … AS o WHERE o.{unit} = outer_table.{unit} "
            "AND …).",
        )
    condition = conjunction(kept)
    select.set("where", exp.Where(this=condition) if condition is not None else None)
    select.set("expressions", [pair[1].copy()])
    _refuse_other_correlation(select, inside, node, unit)
    return pair[0], select


def _refuse_whole_aggregate(node: exp.Expression, select: exp.Select, unit: str) -> None:
    """Refuse an aggregate without GROUP BY: it gives a row even if it reads none, so that EXISTS always holds."""
    group = select.args.get("group")
    if group is not None and group.expressions:
        return
    if group is not None or any(finds_aggregate(part) for part in select.expressions):
        raise refusal(
            node,
            f"{clause_of(node)}: an aggregate without GROUP BY gives a row even where nothing is found, so that EXISTS "
            f"says nothing. Write EXISTS (SELECT 1 FROM … AS o WHERE o.{unit} = …), or for a number of rows {unit} IN "
            f"(SELECT {unit} FROM … GROUP BY {unit} HAVING COUNT(*) > 1).",
        )


def _read_pair(condition: exp.Expression, inside: set[str]) -> tuple[exp.Expression, exp.Expression] | None:
    """Return the outer and the inner column of a condition `inner.column = outer.column`; None for any other condition.

    ``inside``: the names of the inner query's tables.
    """
    test = condition.unnest()
    if not isinstance(test, exp.EQ):
        return None
    sides = [test.this.unnest(), test.expression.unnest()]
    if not all(isinstance(side, exp.Column) for side in sides):
        return None
    outer = [side for side in sides if side.table and side.table.lower() not in inside]
    inner = [side for side in sides if side not in outer]
    return (outer[0], inner[0]) if len(outer) == 1 and len(inner) == 1 else None


def _refuse_other_correlation(select: exp.Select, inside: set[str], node: exp.Expression, unit: str) -> None:
    for column in select.find_all(exp.Column):
        if column.parent_select is select and column.table and column.table.lower() not in inside:
            raise refusal(
                node,
                f"{clause_of(node)} compares {clause_of(column)} inside. EXISTS may be about the same individual only: "
                f"compare {unit} inside it, and other columns by a window: LAG(…) OVER (PARTITION BY {unit} ORDER BY "
                "…).",
            )
