"""Write Dosimeter's SELECT trees as DuckDB's SQL. Never opens a connection."""

from __future__ import annotations

from sqlglot import ErrorLevel, exp

import dosimeter.engines.own_functions as own

_MEANINGS = {
    own.TEXT_NUMBER: "CAST('0x' || SUBSTRING(MD5(x), 1, 8) AS BIGINT)",
    own.DAY_NUMBER: "DATE_DIFF('day', CAST('1970-01-01' AS DATE), x)",
    own.MOMENT_NUMBER: "EPOCH_US(x)",
    own.NTH_SMALLEST: "MIN(x, {0})[{0}]",
    own.EACH_UP_TO: "UNNEST(CASE WHEN x = 1 THEN [1] ELSE RANGE(1, x + 1) END)",  # mostly 1, and a constant is fast
    own.ONCE_A_ROW: "x",
}
_MOST_SMALLEST = 1_000_000  # MIN(x, n) takes only smaller n


def write_query(query: exp.Select) -> str:
    """Return the query as text. Raises TypeError for what is not a SELECT tree."""
    if not isinstance(query, exp.Select):
        raise TypeError("only SELECT trees of our own making run")
    calls = [call for call in query.find_all(exp.Anonymous) if call.name in _MEANINGS]
    tree: exp.Expression = query
    if calls:
        tree, meanings = query.copy(), dict(_MEANINGS)
        if any(call.name == own.NTH_SMALLEST and int(call.expressions[1].name) >= _MOST_SMALLEST for call in calls):
            meanings[own.NTH_SMALLEST] = "LIST_SORT(LIST(x))[{0}]"
        own.write_own(tree, "duckdb", meanings)
    return tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE)
