"""Functions that Dosimeter's trees call and that every engine writes in its own SQL. Takes trees; gives trees.

A tree calls such a function by its name below, as an ``exp.Anonymous``. Each engine has a table from names to SQL in
its own dialect, in which x stands for the argument. On every engine a function gives the same value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import cast

import sqlglot
from sqlglot import ErrorLevel, exp

TEXT_NUMBER = "DOSIMETER_TEXT_NUMBER"
"""The first 32 bits of the md5 digest of a text in UTF-8."""
DAY_NUMBER = "DOSIMETER_DAY_NUMBER"
"""The days from 1970-01-01 to a date."""
MOMENT_NUMBER = "DOSIMETER_MOMENT_NUMBER"
"""The microseconds from the beginning of 1970 to a timestamp."""
ONCE_A_ROW = "DOSIMETER_ONCE_A_ROW"
"""The argument itself, computed once a row, however often the query around reads it."""
IN_PART = "DOSIMETER_IN_PART"
"""True; or, where an engine runs a query part by part, true in one part for all rows with the same argument."""


def call_own(name: str, argument: exp.Expression) -> exp.Expression:
    """Return a call of one of the functions above."""
    return exp.Anonymous(this=name, expressions=[argument])


def write_select(
    query: exp.Select,
    dialect: str,
    meanings: Mapping[str, str],
    rewrite: Callable[[exp.Select], exp.Expression] | None = None,
) -> str:
    """Return the query as text in the dialect. Raises TypeError for what is not a SELECT tree.

    ``meanings``: the SQL of functions that are called in the query. ``rewrite``: returns a copy as the engine must get
    it.
    """
    if not isinstance(query, exp.Select):
        raise TypeError("only SELECT trees of our own making run")
    tree: exp.Expression = query if rewrite is None else rewrite(query)
    if any(call.name in meanings for call in tree.find_all(exp.Anonymous)):
        tree = tree.copy()
        for call in reversed(list(tree.find_all(exp.Anonymous))):
            if call.name in meanings:
                meaning = _parse(meanings[call.name], dialect)
                call.replace(exp.Paren(this=_put_in(meaning, call.expressions[0])))
    return tree.sql(dialect=dialect, unsupported_level=ErrorLevel.RAISE)


def _put_in(meaning: exp.Expression, subject: exp.Expression) -> exp.Expression:
    def put(node: exp.Expression) -> exp.Expression:
        return subject.copy() if isinstance(node, exp.Column) and node.name == "x" else node

    return meaning.copy().transform(put)


@functools.lru_cache(maxsize=64)
def _parse(sql: str, dialect: str) -> exp.Expression:
    return cast("exp.Expression", sqlglot.parse_one(sql, dialect=dialect))
