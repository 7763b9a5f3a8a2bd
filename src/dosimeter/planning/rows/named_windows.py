"""Write out what SQL says in short: OVER w by what the WINDOW clause says of w, DISTINCT ON by a window.

Later passes then meet only windows that are written in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dosimeter.planning.rows.parsing import find_item, read_whole_number, unaliased
from dosimeter.sql import clause_of, refusal


def write_out_windows(select: exp.Select) -> None:
    """Replace OVER name, and OVER (name ORDER BY …), by what the WINDOW clause says, in the SELECT itself."""
    known: dict[str, exp.Window] = {}
    for window in select.args.get("windows") or []:
        _write_out(window, known)
        known[window.name.lower()] = window
    declared = list(known.values())
    for node in list(select.find_all(exp.Window)):
        if node.parent_select is select and not any(node is window for window in declared):
            _write_out(node, known)


def _write_out(node: exp.Window, known: Mapping[str, exp.Window]) -> None:
    """Add to a window the partition, order and frame of the window that it names; change nothing if it names none.

    Refuses an unknown name, and a window that has a partition of its own or repeats a part of the named one.
    """
    alias = node.args.get("alias")
    if alias is None:
        return
    named = known.get(str(alias.name).lower())
    if named is None:
        raise refusal(node, f"There is no window {alias.name}. Write OVER (PARTITION BY … ORDER BY …).")
    again = [name for name in ("partition_by", "order", "spec") if node.args.get(name) and named.args.get(name)]
    if again or node.args.get("partition_by"):
        raise refusal(
            node, f"{clause_of(node)} changes the window {alias.name}. Write OVER (PARTITION BY … ORDER BY …)."
        )
    for name in ("partition_by", "order", "spec"):
        value = named.args.get(name)
        if value:
            node.set(name, [part.copy() for part in value] if isinstance(value, list) else value.copy())
    node.set("alias", None)


def write_out_distinct_on(select: exp.Select) -> Sequence[exp.Expression]:
    """Replace DISTINCT ON (…) and its ORDER BY by QUALIFY ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) = 1.

    Changes the SELECT itself, and returns the expressions in ON; none if it has no DISTINCT ON. A name or number in ON
    and ORDER BY means an item of the SELECT list first, as everywhere in ORDER BY.
    """
    distinct = select.args.get("distinct")
    on = distinct.args.get("on") if distinct is not None else None
    if on is None:
        return ()
    if select.args.get("qualify"):
        raise refusal(on, "DISTINCT ON stands beside QUALIFY. Write one of them in a subquery.")
    order = select.args.get("order")
    chosen = [_meant(node, select) for node in on.expressions]
    terms = [] if order is None else [term.copy() for term in order.expressions]
    for term in terms:
        term.set("this", _meant(term.this, select))
    window = exp.Window(this=exp.RowNumber(), partition_by=chosen, over="OVER")
    telling = [term for term in terms if term.this not in chosen]  # rows of one partition agree in the others
    if telling:
        window.set("order", exp.Order(expressions=telling))
    select.set("qualify", exp.Qualify(this=exp.EQ(this=window, expression=exp.Literal.number(1))))
    select.set("distinct", None)
    select.set("order", None)
    return chosen


def _meant(node: exp.Expression, select: exp.Select) -> exp.Expression:
    """Return a copy of the item of the SELECT list that a number or a bare name stands for; otherwise of the node."""
    position = read_whole_number(node)
    if position is not None and 1 <= position <= len(select.expressions):
        return unaliased(select.expressions[position - 1]).copy()
    return (find_item(node, select.expressions) or node).copy()
