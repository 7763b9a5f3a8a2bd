"""Quotients by released numbers: find them in the SQL after the noise; make NULL those with too few people (E1).

Takes trees that the planner wrote. Knows no numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

_QUOTIENTS = (exp.Div, exp.IntDiv, exp.Mod)
_OTHER_CELLS = (exp.Window, exp.AggFunc, exp.Subquery, exp.Select)
_REPLACES_NULL = (exp.Coalesce, exp.Case, exp.If, exp.Greatest, exp.Least, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)


def is_released(node: exp.Expression, kinds: str = "eghp") -> bool:
    """Return whether a node is a column of the released table, or one looked up in a public table.

    By their names these are aggregates (e0, e1 …), group values (g0 …), flags of totals (h0 …) and values looked up in
    a public table (p0 …). ``kinds``: the first letters of those that count.
    """
    return isinstance(node, exp.Column) and not node.table and node.name[:1] in kinds and node.name[1:].isdigit()


def list_estimates(tree: exp.Expression) -> list[int]:
    """Return the indices of the aggregates that a tree reads, ascending."""
    return sorted({int(node.name[1:]) for node in tree.find_all(exp.Column) if is_released(node, "e")})


def strip_casts(tree: exp.Expression) -> exp.Expression:
    """Return a divisor without the casts and the NULLIF(…, 0) that the planner wrote around it."""
    while isinstance(tree, (exp.Paren, exp.Cast, exp.TryCast, exp.Nullif)):
        tree = tree.this
    return tree


def find_quotients(trees: Iterable[exp.Expression | None]) -> list[exp.Binary]:
    """Return the quotients in these trees."""
    return [node for tree in trees if tree is not None for node in tree.find_all(*_QUOTIENTS)]


def find_divisors(quotients: Iterable[exp.Binary], table: str | None = None) -> tuple[exp.Expression, ...]:
    """Return the divisors of these quotients that are computed from the numbers of one released row.

    ``table``: leave out divisors that are read from another released table than this.
    """
    found: dict[str, exp.Expression] = {}
    for node in quotients:
        divisor = _own_divisor(node)
        if divisor is not None and (table is None or _find_table(divisor) in (None, table)):
            found.setdefault(divisor.sql(dialect="duckdb"), divisor.copy())
    return tuple(found.values())


def _find_table(divisor: exp.Expression) -> str | None:
    """Return the name of the released table that a divisor's SELECT reads.

    None if the divisor is in no SELECT, or its SELECT reads a subquery.
    """
    select = divisor.parent_select
    source = None if select is None else select.args["from_"].this
    return source.name if isinstance(source, exp.Table) else None


def _own_divisor(node: exp.Binary) -> exp.Expression | None:
    """Return the divisor of a quotient; None if it reads anything but numbers of one released row."""
    stripped = strip_casts(node.expression)
    divisor = _read_scalar(stripped) if isinstance(stripped, exp.Subquery) else stripped
    if divisor is None:
        return None
    columns = list(divisor.find_all(exp.Column))
    own = all(is_released(column) for column in columns) and divisor.find(*_OTHER_CELLS) is None
    return divisor if own and list_estimates(divisor) else None


def _read_scalar(tree: exp.Subquery) -> exp.Expression | None:
    """Return the formula over the released table that a one-row subquery selects; None if it selects none.

    (SELECT a FROM (SELECT e0 / 2 AS a FROM …)) gives e0 / 2. A join, or arithmetic around an inner column, gives None.
    """
    select, name = tree.this, None
    while isinstance(select, exp.Select):
        found = [item for item in select.expressions if name is None or item.alias_or_name == name]
        if len(found) != 1 or select.args.get("joins"):
            return None
        item: exp.Expression = found[0].unalias()
        source = select.args["from_"].this
        if not isinstance(source, exp.Subquery):
            return item
        if not isinstance(item, exp.Column):
            return None
        select, name = source.this, item.name
    return None


def withhold_quotients(query: exp.Expression, name: Callable[[str], str | None]) -> exp.Expression:
    """Return a copy of the query in which each divisor is NULL unless its Boolean column is true.

    ``name``: gives, for a divisor's SQL, the name of the column that is true where the divisor may be used. It gives
    None if there is no such column; then the divisor stays.
    """
    written = query.copy()
    for node in list(written.find_all(*_QUOTIENTS)):
        divisor = _own_divisor(node)
        flag = None if divisor is None else name(divisor.sql(dialect="duckdb"))
        if divisor is None or flag is None:
            continue
        _pass_on(divisor.parent_select, flag)
        scalar = isinstance(strip_casts(node.expression), exp.Subquery)
        place = divisor if scalar else node.expression  # what a subquery gives is made NULL where its table is read
        place.replace(exp.Case(ifs=[exp.If(this=exp.column(flag), true=place.copy())]))
    return written


def _pass_on(select: exp.Select | None, flag: str) -> None:
    """Add the column ``flag`` to every SELECT inside the FROM of ``select``, so that ``select`` can read it."""
    source = None if select is None else select.args["from_"].this
    for inner in [] if not isinstance(source, exp.Subquery) else source.find_all(exp.Select):
        if all(item.alias_or_name != flag for item in inner.expressions):
            inner.select(exp.column(flag), copy=False)


def passes_null_on(tree: exp.Expression) -> bool:
    """Return whether a NULL in any part of the tree makes the whole tree NULL: it has no COALESCE, CASE or the like."""
    return tree.find(*_REPLACES_NULL) is None
