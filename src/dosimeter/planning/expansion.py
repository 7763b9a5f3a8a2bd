"""Bound how large a query becomes once its subqueries and the queries of its WITH are written in.

Takes parsed SQL; refuses what would be too large, before anything is planned. Nothing is written in to find out: each
query is counted once, and again for each time that it is named. So this takes time linear in the text, however fast the
query itself would grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from dosimeter.errors import QueryError

MAX_SELECTS = 1_000
MAX_TERMS = 12_000  # nodes of the parsed tree
MAX_CHAIN = 40
MAX_MEMBER_TESTS = 50  # DuckDB takes 0.8 s for so many, 160 s and 4 GB for 260
MAX_ITEMS = 1_000
_LISTS: dict[type[exp.Expr], str] = {exp.Select: "A SELECT", exp.Group: "A GROUP BY", exp.Order: "An ORDER BY"}


@dataclass(frozen=True, slots=True)
class _Size:
    """The size of a query with everything that it names written in.

    ``member_tests``: how often it asks whether a value is in another query. ``nesting``: how deep SELECTs are nested.
    """

    selects: int = 0
    terms: int = 0
    member_tests: int = 0
    nesting: int = 0

    def plus(self, other: _Size) -> _Size:
        """Return the size of both, nested as deep as the deeper one."""
        return _Size(
            self.selects + other.selects,
            self.terms + other.terms,
            self.member_tests + other.member_tests,
            max(self.nesting, other.nesting),
        )


def require_small(query: exp.Expression) -> None:
    """Refuse a query that becomes too large, or is nested too deeply, with its subqueries written in."""
    for node in query.walk():
        _require_short_lists(node)
    size = _measure(query, {})
    if size.nesting > MAX_CHAIN:
        raise QueryError(
            f"The query is nested too deeply: at most {MAX_CHAIN} SELECTs may read one from another. Leave some out.",
        )
    if size.selects > MAX_SELECTS or size.terms > MAX_TERMS:
        raise QueryError(
            f"The query is too long with its subqueries written in: {_tell(size.selects)} SELECTs and "
            f"{_tell(size.terms)} terms; at most {MAX_SELECTS:,} and {MAX_TERMS:,} are supported. A query of WITH "
            "counts again each time that it is named. Ask several queries.",
        )
    if size.member_tests > MAX_MEMBER_TESTS:
        raise QueryError(
            f"The query asks {_tell(size.member_tests)} times whether something is in another query; at most "
            f"{MAX_MEMBER_TESTS} times are supported. A query of WITH counts again each time that it is named. Write "
            "several conditions into one IN (SELECT …).",
        )


def _require_short_lists(node: exp.Expr) -> None:
    """Refuse a list of very many terms. Each is looked at by itself, and putting one back takes as long as the list."""
    if len(node.expressions) > MAX_ITEMS and type(node) in _LISTS:
        raise QueryError(
            f"{_LISTS[type(node)]} lists {len(node.expressions):,} columns; at most {MAX_ITEMS:,} are supported. Ask "
            "several queries.",
        )
    for items in node.args.values():
        if isinstance(items, list) and len(items) > MAX_ITEMS:
            terms = sum(1 for item in items if not _is_plain(item))
            if terms > MAX_ITEMS:
                raise QueryError(
                    f"A list has {terms:,} terms that are no plain numbers or texts; at most {MAX_ITEMS:,} are "
                    "supported. Ask several queries."
                )


def _is_plain(item: object) -> bool:
    while isinstance(item, (exp.Neg, exp.Cast, exp.Paren)):
        item = item.this
    return isinstance(item, (exp.Literal, exp.Boolean, exp.Null, exp.If))


def _tell(number: int) -> str:
    return f"{number:,}" if number < 10**9 else "more than a billion"


def _measure(query: exp.Expression, known: Mapping[str, _Size]) -> _Size:
    """Return the size of a query. ``known``: the sizes of the queries of WITH that it can name, by name."""
    size, clause = _Size(), query.args.get("with_")
    if clause is not None:
        known = dict(known)
        for each in clause.expressions:
            inner = known[each.alias.lower()] = _measure(each.this, known)
            size = size.plus(inner)
    pending, terms, tests = [part for part in query.iter_expressions() if part is not clause], 1, 0
    while pending:
        node = pending.pop()
        if isinstance(node, (exp.Select, exp.SetOperation)):
            size = size.plus(_measure(node, known))
            continue
        if isinstance(node, exp.Table) and not node.db and node.name.lower() in known:
            size = size.plus(known[node.name.lower()])
        terms += 1
        tests += isinstance(node, exp.Exists) or (isinstance(node, exp.In) and "query" in node.args)
        pending.extend(node.iter_expressions())
    own = int(isinstance(query, exp.Select))
    return _Size(size.selects + own, size.terms + terms, size.member_tests + tests, size.nesting + own)
