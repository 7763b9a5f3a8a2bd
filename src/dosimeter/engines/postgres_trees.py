"""Write Dosimeter's SELECT trees as PostgreSQL's SQL. Never opens a connection."""

from __future__ import annotations

from sqlglot import exp

import dosimeter.engines.own_functions as own
from dosimeter.engines.postgres_catalogue import collate_by_bytes

# Text is digested in UTF-8, whatever encoding the database stores it in.
_MEANINGS = {
    "ROUND_EVEN": "ROUND(x)",  # which rounds a double's halves to even
    own.TEXT_NUMBER: "CAST(CAST('x' || SUBSTRING(MD5(CONVERT_TO(x, 'UTF8')), 1, 8) AS BIT(32)) AS BIGINT)",
    own.DAY_NUMBER: "CAST(x - CAST('1970-01-01' AS DATE) AS BIGINT)",
    own.MOMENT_NUMBER: "CAST(EXTRACT(EPOCH FROM DATE_TRUNC('second', x)) AS BIGINT) * 1000000 "
    "+ CAST(EXTRACT(MICROSECONDS FROM x) AS BIGINT) % 1000000",
    own.ONCE_A_ROW: "x",
    own.IN_PART: "TRUE",
}


def write_query(query: exp.Select) -> str:
    """Return the query as text. Raises TypeError for what is not a SELECT tree."""
    return own.write_select(query, "postgres", _MEANINGS, _with_collations)


def _with_collations(query: exp.Select) -> exp.Expression:
    """Return the query as PostgreSQL must get it: text literals in the collation "C", so that bytes decide their order.

    Literals are put in parentheses, because PostgreSQL's grammar has no COLLATE inside a bare BETWEEN.
    """
    tree = query.copy()
    for node in list(tree.walk()):
        if isinstance(node, (exp.Cast, exp.Interval)):
            continue
        for name, part in list(node.args.items()):  # lists as a whole: to replace their parts one by one takes long
            if isinstance(part, list) and any(_is_text(each) for each in part):
                node.set(name, [_collated(each) if _is_text(each) else each for each in part])
            elif _is_text(part):
                node.set(name, _collated(part))
    for call in tree.find_all(exp.Anonymous):
        if call.name == own.ONCE_A_ROW:  # OFFSET 0 keeps PostgreSQL from writing the argument wherever it is read
            select = call.find_ancestor(exp.Select)
            assert select is not None
            select.set("offset", exp.Offset(expression=exp.Literal.number(0)))
    return tree


def _is_text(part: object) -> bool:
    return isinstance(part, exp.Literal) and bool(part.is_string)


def _collated(literal: exp.Expression) -> exp.Expression:
    return exp.Paren(this=collate_by_bytes(literal))
