"""Tell whether a query after the noise chooses rows by released numbers (E2). Knows no numbers.

If it does, a number may be shown because its noise is large, as the largest of many counts is. So errors are made
larger: with 95 %, all numbers that could be shown lie within their errors together. Takes trees that the planner wrote.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dosimeter.planning.after.measuring_select import CELL
from dosimeter.planning.after.public_tables import is_public_name

_PUBLIC = ("g", "h")  # of the released table: groups, and which groups a total leaves out

Public = Mapping[str, bool]
"""For each column of a relation, by its name in lower case: whether it is known without any released number."""


def selects_rows(query: exp.Expression | None) -> bool:
    """Return whether a clause keeps or drops rows by released numbers: ON, WHERE, HAVING, QUALIFY, ORDER BY … LIMIT."""
    return query is not None and _find_public_and_chosen(query)[1]


def _find_public_and_chosen(query: exp.Expression) -> tuple[Public, bool]:
    """Return which columns of a query are public, and whether any other column decides which rows are kept.

    Public is what is known without released numbers, such as groups.
    """
    if isinstance(query, exp.Union):
        (left, chosen), (right, also) = _find_public_and_chosen(query.this), _find_public_and_chosen(query.expression)
        pairs = zip(left.items(), right.values(), strict=False)
        return {name: public and other for (name, public), other in pairs}, chosen or also
    if not isinstance(query, exp.Select):
        return {}, True  # nothing is known of it
    relations: dict[str, Public] = {}
    selected = False
    first = query.args.get("from_")  # none where every item is a subquery of its own
    for source in [*([] if first is None else [first]), *(query.args.get("joins") or [])]:
        relation = source.this
        if isinstance(relation, exp.Subquery):
            known, chosen = _find_public_and_chosen(relation.this)
            relations[relation.alias_or_name.lower()], selected = known, selected or chosen
        elif is_public_name(relation.name):
            relations[relation.name] = {item.name.lower(): True for item in query.expressions}
        else:
            relations[""] = {}
        condition = source.args.get("on")
        selected = selected or (condition is not None and not _is_public(condition, relations))
    items = [item.unalias() for item in query.expressions]
    for name in ("where", "having", "qualify"):
        clause = query.args.get(name)
        selected = selected or (clause is not None and not _is_public(clause, relations))
    if query.args.get("limit") is not None or query.args.get("offset") is not None:
        order = query.args.get("order")
        terms = [] if order is None else [_find_term(term.this, items) for term in order.expressions]
        selected = selected or not all(_is_public(term, relations) for term in terms)
    return {item.alias_or_name.lower(): _is_public(item.unalias(), relations) for item in query.expressions}, selected


def _find_term(term: exp.Expression, items: list[exp.Expression]) -> exp.Expression:
    """Return what an ORDER BY term stands for: if it is a number, the SELECT item at that position; else itself."""
    if isinstance(term, exp.Literal) and not term.is_string:
        found: exp.Expression = items[int(term.this) - 1]
        return found
    return term


def _is_public(tree: exp.Expression, relations: Mapping[str, Public]) -> bool:
    """Return whether a tree reads only public columns (known without released numbers) and constants."""
    if tree.find(exp.Subquery, exp.Select) is not None:
        return False
    return all(_is_known(column, relations) for column in tree.find_all(exp.Column))


def _is_known(column: exp.Column, relations: Mapping[str, Public]) -> bool:
    name, table = column.name.lower(), column.table.lower()
    if not table and (name == CELL or (name[:1] in _PUBLIC and name[1:].isdigit())):
        return True
    return relations.get(table, {}).get(name, False) or name == CELL
