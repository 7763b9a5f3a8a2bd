"""Row-wise CTEs and subqueries, written into the query that uses them. Takes a parsed SELECT; gives one without them.

`WITH v AS (SELECT cost * 2 AS double FROM visits WHERE …) SELECT SUM(double) FROM v` asks the same as
`SELECT SUM(cost * 2) FROM visits WHERE …`. Only what treats each row by itself can be written in; anything that
groups, sorts, limits or deduplicates inside is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dosimeter.expression import conjunction, refusal

_ROW_WISE = ("expressions", "from_", "where", "joins", "with_")
MAX_NESTING = 10


def inline_subqueries(select: exp.Select) -> exp.Select:
    """The same question as one SELECT over tables."""
    return _inline(select.copy(), {}, 0)


def _inline(select: exp.Select, known: Mapping[str, exp.Select], depth: int) -> exp.Select:
    if depth > MAX_NESTING:
        raise refusal(select, "The query is nested too deeply.")
    named = dict(known) | _read_ctes(select, known, depth)
    select.set("with_", None)
    origin = select.args.get("from_")
    if origin is None:
        return select
    inner, alias = _inner_query(origin.this, named)
    if inner is None:
        return select
    inner = _inline(inner.copy(), named, depth + 1)
    _require_row_wise(inner)
    return _write_in(select, inner, alias)


def _read_ctes(select: exp.Select, known: Mapping[str, exp.Select], depth: int) -> dict[str, exp.Select]:
    clause = select.args.get("with_")
    if clause is None:
        return {}
    if clause.args.get("recursive"):
        raise refusal(clause, "WITH RECURSIVE is not supported.")
    found: dict[str, exp.Select] = {}
    for cte in clause.expressions:
        if not isinstance(cte.this, exp.Select) or cte.args["alias"].args.get("columns"):
            raise refusal(cte, "A CTE must be a plain SELECT: WITH name AS (SELECT … FROM table WHERE …).")
        found[cte.alias.lower()] = _inline(cte.this.copy(), {**known, **found}, depth + 1)
    return found


def _inner_query(source: exp.Expression, named: Mapping[str, exp.Select]) -> tuple[exp.Select | None, str]:
    if isinstance(source, exp.Subquery):
        if not isinstance(source.this, exp.Select):
            raise refusal(source, "Only a plain SELECT can stand as a subquery in FROM.")
        return source.this, source.alias.lower()
    if isinstance(source, exp.Table) and not source.db and source.name.lower() in named:
        return named[source.name.lower()], (source.alias or source.name).lower()
    return None, ""


def _require_row_wise(inner: exp.Select) -> None:
    for name, value in inner.args.items():
        if name not in _ROW_WISE and value:
            raise refusal(
                inner,
                "A subquery or CTE must treat each row by itself: SELECT … FROM table WHERE …, without DISTINCT, "
                "GROUP BY, ORDER BY or LIMIT. Group in the outer query.",
            )
    for item in inner.expressions:
        if item.find(exp.AggFunc, exp.Window) is not None:
            raise refusal(item, "A subquery or CTE must treat each row by itself. Aggregate in the outer query.")


def _write_in(outer: exp.Select, inner: exp.Select, alias: str) -> exp.Select:
    columns: dict[str, exp.Expression] = {}
    star = False
    for item in inner.expressions:
        if isinstance(item, exp.Star):
            star = True
            continue
        name = item.alias_or_name
        if not name:
            raise refusal(item, "Name this expression with AS, so that the outer query can use it.")
        columns[name.lower()] = item.this if isinstance(item, exp.Alias) else item
    aliases = {item.alias.lower() for item in outer.expressions if isinstance(item, exp.Alias)}

    def replace(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        name = node.name.lower()
        if node.table and node.table.lower() != alias:
            return node
        if name in columns:
            meaning = columns[name].copy()
            return meaning if isinstance(meaning, (exp.Column, exp.Literal)) else exp.Paren(this=meaning)
        if star or (not node.table and name in aliases):
            return exp.column(node.this.copy())
        raise refusal(node, f"The subquery has no column {node.name}. Add it to its SELECT list.")

    items = [_named(item) for item in outer.expressions]
    outer.set("expressions", items)
    outer.set("from_", None)
    joins = [join.copy() for join in outer.args.get("joins") or []]
    rewritten = outer.transform(replace)
    rewritten.set("from_", inner.args["from_"].copy() if inner.args.get("from_") else None)
    rewritten.set("joins", [join.copy() for join in inner.args.get("joins") or []] + joins)
    conditions = [part.args["where"].this for part in (inner, rewritten) if part.args.get("where")]
    merged = conjunction(condition.copy() for condition in conditions)
    rewritten.set("where", exp.Where(this=merged) if merged is not None else None)
    assert isinstance(rewritten, exp.Select)
    return rewritten


def _named(item: exp.Expression) -> exp.Expression:
    """A column keeps the name the outer query gave it, whatever is written in its place."""
    if isinstance(item, exp.Column) and not isinstance(item.this, exp.Star):
        return exp.Alias(this=item.copy(), alias=exp.to_identifier(item.name, quoted=True))
    return item
