"""The names of the functions that queries may use, for those who write SQL: from the tables that decide it."""

from __future__ import annotations

import re
from functools import cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from dosimeter.measures import AGGREGATES
from dosimeter.planning.after.expressions import WINDOWS
from dosimeter.planning.people.columns import OWN_AGGREGATES
from dosimeter.sql import NAMED_FUNCTIONS, ROW_FUNCTIONS

# Arguments of which one is such that every function here parses.
_ARGUMENTS = (
    "",
    "x",
    "x, 2",
    "x, 'a'",
    "'day', x",
    "x, 'a', 2",
    "'day', x, y",
    "x, 1, 9, 4",
    "DAY FROM x",
    "x AS DATE",
)


@cache
def list_functions() -> tuple[str, ...]:
    """Return the names of all functions that a query may use, aggregates first, each as DuckDB writes it: POWER."""
    kinds = dict.fromkeys([*AGGREGATES, *ROW_FUNCTIONS, *WINDOWS, *OWN_AGGREGATES])
    names = [_name_function(kind) for kind in kinds if issubclass(kind, exp.Func)]
    return tuple(dict.fromkeys(filter(None, [*names, *(name.upper() for name in NAMED_FUNCTIONS)])))


def _name_function(kind: type[exp.Func]) -> str | None:
    """Return how DuckDB calls a kind of node; None if it is not written as a call: AND, or x -> 'key'."""
    for arguments in _ARGUMENTS:
        try:
            call = sqlglot.parse_one(f"{kind.sql_names()[0]}({arguments})", read="duckdb")
            written = call.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE)
            found = re.match(r"(\w+)\(", written)
            if found and type(call) is kind is type(sqlglot.parse_one(written, read="duckdb")):
                return found[1].upper()
        except SqlglotError:
            continue
    return None
