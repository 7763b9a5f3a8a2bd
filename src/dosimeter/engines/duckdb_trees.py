"""Write Dosimeter's SELECT trees as DuckDB's SQL. Never opens a connection."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

import dosimeter.engines.own_functions as own

_MEANINGS = {
    own.TEXT_NUMBER: "CAST('0x' || SUBSTRING(MD5(x), 1, 8) AS BIGINT)",
    own.DAY_NUMBER: "DATE_DIFF('day', CAST('1970-01-01' AS DATE), x)",
    own.MOMENT_NUMBER: "EPOCH_US(x)",
    own.ONCE_A_ROW: "x",
    own.IN_PART: "TRUE",
}


def write_query(query: exp.Select, meanings: Mapping[str, str] = _MEANINGS) -> str:
    """Return the query as text. Raises TypeError for what is not a SELECT tree."""
    return own.write_select(query, "duckdb", meanings)


def write_parts(query: exp.Select) -> tuple[str, ...]:
    """Return the query as queries for half of the rows each; as one if it does not say what its parts are."""
    if not any(call.name == own.IN_PART for call in query.find_all(exp.Anonymous)):
        return (write_query(query),)
    return tuple(write_query(query, {**_MEANINGS, own.IN_PART: f"HASH(x) % 2 = {part}"}) for part in (0, 1))
