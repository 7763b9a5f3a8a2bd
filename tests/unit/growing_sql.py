"""SQL that is short to write and could be enormous to plan, to digest or to compute, made by chance.

Run as a module it plans and digests many of them, and prints the longest time and the most memory that one took.
"""

from __future__ import annotations

import json
import math
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from dosimeter.errors import QueryError
from dosimeter.planning import explain_plan
from dosimeter.planning.identity import digest_measured
from dosimeter.planning.planner import plan_query
from dosimeter.schema.toml import read_schema
from tests.schemas import category, declare, plain, whole

MOST_TEXT = 64_000
FACTS: dict[str, Any] = declare(
    "v",
    20,
    {
        "pid": {"type": "text", "identifying": True},
        "vid": whole(0, 100),
        "hiv": plain("boolean"),
        "ward": category("eyes", "burns", "hands and feet"),
        "code": {"type": "category", "values": [f"value {at}" for at in range(900)]},
        "cost": whole(0, 100),
        "day": {"type": "date", "bounds": ["2024-01-01", "2024-01-31"]},
        "note": plain("text"),
        "name": {"type": "text", "max_length": 30},
    },
    unit="pid",
    max_rows_per_unit=3,
    row_key="vid",
)
SCHEMA = read_schema(FACTS)
_LEAVES = [
    "{n}", "{n}", "'x'", "'{long}'", "LEFT({n}, 100)", "UPPER({n})", "TRIM({n})", "SUBSTR({n}, 2)",
    "REPLACE({n}, 'a', 'b')", "CASE WHEN hiv THEN {n} ELSE 'no' END", "COALESCE({n}, 'none')", "CAST(vid AS TEXT)",
    "ward", "name", "STRFTIME(day, '%Y-%m')", "NULLIF({n}, 'x')",
]  # fmt: skip


def grow_queries(seed: int, many: int, most: int = MOST_TEXT) -> Iterator[str]:
    """Yield queries of all families in turn, each of a size of its own, at most ``most`` characters long."""
    chance = random.Random(seed)
    for at in range(many):
        while True:
            sql = _FAMILIES[at % len(_FAMILIES)](chance)
            if len(sql) <= most:
                break
        yield sql


def _size(chance: random.Random, most: int) -> int:
    """Return a size from 1 to ``most``; small ones are as frequent as large ones are."""
    return round(math.exp(chance.uniform(0, math.log(most))))


def _joined(chance: random.Random, name: str = "note", most: int = 60) -> str:
    """Return texts that are joined by || or CONCAT. ``name``: the column that most of them read."""
    own = [leaf for leaf in _LEAVES if name == "note" or ("{n}" in leaf and "hiv" not in leaf)]
    parts = [chance.choice(own).format(n=name, long="ab" * _size(chance, 2_000)) for _ in range(_size(chance, most))]
    return f"CONCAT({', '.join(parts)})" if chance.random() < 0.3 else " || ".join(parts)


def _joined_in_where(chance: random.Random) -> str:
    tests = [f"LENGTH({_joined(chance)}) > {at}" for at in range(_size(chance, 20))]
    return f"SELECT COUNT(*) FROM v WHERE pid = 'p0' AND hiv AND ({' OR '.join(tests)})"


def _joined_distinct(chance: random.Random) -> str:
    return f"SELECT {', '.join(f'COUNT(DISTINCT {_joined(chance, most=20)})' for _ in range(_size(chance, 4)))} FROM v"


def _stages(chance: random.Random) -> str:
    query = f"SELECT pid, MAX({_joined(chance, most=12)}) AS n FROM v WHERE pid = 'p0' AND hiv GROUP BY pid"
    for _ in range(_size(chance, 5)):
        query = f"SELECT pid, MAX({_joined(chance, 'n', 4)}) AS n FROM ({query}) GROUP BY pid"
    return f"SELECT COUNT(*) FROM ({query}) WHERE LENGTH(n) > 5"


def _windows(chance: random.Random) -> str:
    query, name = "SELECT * FROM v", "note"
    for at in range(_size(chance, 7)):
        function = chance.choice(["LAG({})", "MAX({})", "FIRST_VALUE({})"])
        items = [
            f"{function.format(_joined(chance, name, 10))} OVER (PARTITION BY pid ORDER BY vid) AS w{at}_{item}"
            for item in range(_size(chance, 12))
        ]
        query, name = f"SELECT *, {', '.join(items)} FROM ({query}) AS t{at}", f"w{at}_0"
    return f"SELECT COUNT(*) FROM ({query}) AS t WHERE {name} LIKE '%x%'"


def _choices(chance: random.Random) -> str:
    query, name = "SELECT * FROM v", "note"
    for at in range(_size(chance, 5)):
        gap = " AND ".join(["day - day < INTERVAL 3 DAY"] * _size(chance, 30))
        items = [
            f"ARG_MAX({_joined(chance, name, 8)}, vid) FILTER (WHERE {gap}) AS c{at}_{item}"
            for item in range(_size(chance, 12))
        ]
        inner = (
            "SELECT pid, MAX(vid) AS vid, MIN(day) AS day, BOOL_OR(hiv) AS hiv, MIN(ward) AS ward, MAX(name) AS name"
        )
        query, name = f"{inner}, {', '.join(items)} FROM ({query}) AS t{at} GROUP BY pid", f"c{at}_0"
        if chance.random() < 0.5:
            query = f"SELECT DISTINCT ON (pid) * FROM ({query}) AS d{at} ORDER BY {name} DESC"
    return f"SELECT COUNT(*) FROM ({query}) AS t WHERE {name} LIKE '%x%'"


def _chain(chance: random.Random) -> str:
    many, rows = _size(chance, 800), chance.random() < 0.5
    first = "SELECT * FROM v" if rows else "SELECT ward, COUNT(*) AS c FROM v GROUP BY ward"
    links = [f"a{at} AS (SELECT * FROM a{at - 1})" for at in range(1, many)]
    return f"WITH {', '.join([f'a0 AS ({first})', *links])} SELECT {'COUNT(*)' if rows else '*'} FROM a{many - 1}"


def _doubling(chance: random.Random) -> str:
    many = _size(chance, 300)
    pairs = ["SELECT c + (SELECT c FROM {0}) AS c FROM {0}", "SELECT x.c + y.c AS c FROM {0} AS x CROSS JOIN {0} AS y"]
    links = [f"a{at} AS ({chance.choice(pairs).format(f'a{at - 1}')})" for at in range(1, many)]
    return f"WITH {', '.join(['a0 AS (SELECT COUNT(*) AS c FROM v)', *links])} SELECT c FROM a{many - 1}"


def _doubling_rows(chance: random.Random) -> str:
    many = 2 + _size(chance, 300)
    links = [
        f"a{at} AS (SELECT * FROM a{at - 1} WHERE pid IN (SELECT pid FROM a{at - 2} WHERE cost > {at % 90}))"
        for at in range(2, many)
    ]
    last = chance.choice(["v", f"a{many - 1}", f"a{many - 1}"])
    return (
        f"WITH {', '.join(['a0 AS (SELECT * FROM v)', 'a1 AS (SELECT * FROM a0)', *links])} SELECT COUNT(*) FROM {last}"
    )


def _nested(chance: random.Random) -> str:
    query = "SELECT *, cost AS c0, note AS n0 FROM v"
    for at in range(1, _size(chance, 20)):
        text = _joined(chance, f"n{at - 1}", 3)
        query = f"SELECT pid, hiv, c{at - 1} + c{at - 1} AS c{at}, {text} AS n{at} FROM ({query}) AS t{at}"
    return f"SELECT COUNT(*) FROM ({query}) AS t WHERE hiv"


def _blocks(chance: random.Random) -> str:
    grouped, number = "SELECT ward, COUNT(*) AS c FROM v WHERE cost > {0} GROUP BY ward", "SELECT COUNT(*) FROM v"
    many = range(_size(chance, 200))
    if chance.random() < 0.5:
        return " UNION ALL ".join(grouped.format(at) for at in many)
    return f"SELECT {', '.join(f'({number} WHERE cost > {at}) AS s{at}' for at in many)}"


def _members(chance: random.Random) -> str:
    tests = [
        f"pid IN (SELECT pid FROM v WHERE vid > {at % 90} AND cost > {at % 80})" for at in range(_size(chance, 300))
    ]
    query = "SELECT pid FROM v"
    for _ in range(_size(chance, 8)):
        query = f"SELECT pid FROM v WHERE pid IN ({query})"
    return f"SELECT COUNT(*) FROM v WHERE pid IN ({query}) AND {' AND '.join(tests)}"


def _conditions(chance: random.Random) -> str:
    tests = ["cost = {}", "UPPER(ward) <> 'A{}'", "LENGTH(ward) + cost > {}", "{} < 5", "TRUNC(ROUND(cost / 3)) > {}"]
    parts = [chance.choice(tests).format(at) for at in range(_size(chance, 2_500))]
    return f"SELECT COUNT(*) FROM v WHERE {chance.choice([' AND ', ' OR ']).join(parts)}"


def _items(chance: random.Random) -> str:
    many = _size(chance, 900)
    sums = [f"SUM(cost + {at}) AS s{at}" for at in range(many)]
    if chance.random() < 0.5:
        return f"SELECT {', '.join(sums)} FROM v"
    return f"SELECT AVG(s0) FROM (SELECT pid, {', '.join(sums)} FROM v GROUP BY pid) AS t WHERE s{many - 1} > 3"


def _deep_numbers(chance: random.Random) -> str:
    names = ["TRUNC", "ROUND", "ABS", "SQRT", "FLOOR"]
    parts = []
    for _ in range(_size(chance, 300)):
        tree = "cost"
        for _ in range(_size(chance, 8)):
            tree = f"{chance.choice(names)}({tree})" if chance.random() < 0.7 else f"({tree} * {tree})"
            tree = tree[:400] if tree.count("(") == tree[:400].count("(") else "cost"
        parts.append(f"SUM({tree})")
    return f"SELECT {', '.join(parts)} FROM v"


def _regular_expressions(chance: random.Random) -> str:
    atom = chance.choice([".?", "[a-z]*", "\\pL", "a|b", "(.?){9}", "\\d{4}"])
    tests = [
        chance.choice(
            [
                f"ward ~ '({atom}){{{_size(chance, 1_000)}}}{at}'",
                f"REGEXP_EXTRACT(ward, '{f'({atom})' * _size(chance, 150)}', 1) = '{at}'",
                f"SPLIT_PART(ward, ' ', {at + 1}) = 'x'",
                f"ward -> 'a' ->> 'k{at}' IS NULL",
                f"WIDTH_BUCKET(cost, 0, {at + 1}, {_size(chance, 500)}) = 1",
            ]
        )
        for at in range(_size(chance, 400))
    ]
    return f"SELECT COUNT(*) FROM v WHERE {' OR '.join(tests)}"


def _written_dates(chance: random.Random) -> str:
    moved = "day" + " + INTERVAL 1 DAY" * _size(chance, 10)
    pattern = "".join(chance.choice(["%B", "%A", "%Y", "%d", "-"]) for _ in range(_size(chance, 20_000)))
    written = chance.choice([f"STRFTIME({moved}, '{pattern}')", f"MONTHNAME({moved})", f"DAYNAME({moved})"])
    tests = [f"{written} = 'x'"] * _size(chance, 20)
    return f"SELECT COUNT(*) FROM v WHERE {' OR '.join(tests)}"


def _after_noise(chance: random.Random) -> str:
    query = "SELECT ward, COUNT(*) AS c FROM v GROUP BY ward"
    forms = ["c + c", "CASE WHEN c > 3 THEN c * 2 ELSE c + ROUND(c, 1) END", "c / 3"]
    for at in range(_size(chance, 20)):
        query = f"SELECT ward, {chance.choice(forms)} AS c FROM ({query}) AS t{at}"
    copies = ", ".join(f"c AS c{at}" for at in range(_size(chance, 900)))
    order = ", ".join(f"c{at % 2} + {at}" for at in range(_size(chance, 5_000)))
    return f"SELECT ward, {copies}, c AS c1 FROM ({query}) AS t ORDER BY {order}"


def _having(chance: random.Random) -> str:
    tests = ["SUM(cost) > {}", "cost = {}", "cost + cost + cost + cost <> {}", "ward = 'eyes' OR MAX(cost) = {}"]
    parts = [chance.choice(tests).format(at) for at in range(_size(chance, 2_500))]
    having = chance.choice([" AND ", " OR "]).join(parts)
    return f"SELECT COUNT(*) FROM (SELECT pid FROM v GROUP BY pid, cost, ward HAVING {having})"


def _declared_texts(chance: random.Random) -> str:
    chosen = f"COALESCE({', '.join(['code'] * _size(chance, 9_000))})"
    unlisted = ", ".join(f"'valeu {at}'" for at in range(_size(chance, 4_000)))
    tests = [f"UPPER({chosen}) = 'x'", f"code IN ({unlisted})", f"code || ward = '{'x' * _size(chance, 20_000)}'"]
    searched = chance.choice(["note LIKE '%{}_b'", "CONTAINS(note, '{}')", "PREFIX(note, '{}')"])
    tests.append(f"pid = 'p0' AND {searched.format('a' * _size(chance, 60_000))}")
    return f"SELECT COUNT(*) FROM v WHERE {chance.choice(tests)}"


def _wide_lists(chance: random.Random) -> str:
    """Return a query with a long list of one kind of term, at one of the places where lists are rewritten."""
    term = chance.choice(["{}", "-{}", "cost", "cost+{}", "MAX(cost)", "MAX(cost+{})", "DATE '2024-01-01'"])
    listed = ", ".join(term.format(at) for at in range(_size(chance, 9_000)))
    query = chance.choice(
        [
            "SELECT COUNT(*) FROM (SELECT pid FROM v GROUP BY pid, cost HAVING MAX(vid) IN ({}))",
            "SELECT COUNT(*) FROM (SELECT pid FROM v GROUP BY pid, cost HAVING cost IN ({}))",
            "SELECT COUNT(*) FROM (SELECT *, MAX(vid) OVER (PARTITION BY pid) AS w FROM v) AS t WHERE w IN ({})",
            "SELECT COUNT(*) FROM (SELECT cost, cost + 1 AS w FROM v) AS t WHERE w IN ({})",
            "SELECT COUNT(*) FILTER (WHERE vid IN ({})) FROM v",
            "SELECT ward, COUNT(*) AS c FROM v GROUP BY ward HAVING COUNT(*) IN ({})",
            "SELECT SUM(GREATEST({})) FROM v",
            "SELECT COUNT(*) FROM v WHERE cost IN ({})",
            "SELECT COUNT(*) FROM v WHERE pid IN (SELECT pid FROM v WHERE COALESCE({}) = 1)",
        ]
    )
    return query.format(listed)


def _wide_cases(chance: random.Random) -> str:
    head, test = chance.choice([("CASE", "cost = "), (f"CASE {'+'.join(['cost'] * _size(chance, 40))}", "")])
    branches = " ".join(f"WHEN {test}{at} THEN {at % 7}" for at in range(_size(chance, 9_000)))
    return f"SELECT SUM({head} {branches} ELSE 0 END) FROM v"


_FAMILIES: tuple[Callable[[random.Random], str], ...] = (
    _joined_in_where,
    _stages,
    _chain,
    _windows,
    _choices,
    _doubling,
    _joined_distinct,
    _doubling_rows,
    _nested,
    _blocks,
    _members,
    _conditions,
    _items,
    _deep_numbers,
    _regular_expressions,
    _written_dates,
    _after_noise,
    _having,
    _declared_texts,
    _wide_lists,
    _wide_cases,
)


def _plan_many(seed: int, many: int) -> dict[str, float | str]:
    """Plan, digest and explain this many queries; return the most processor time that one took, and the memory."""
    plan_query("SELECT COUNT(*), MIN(cost) FROM (SELECT ward, cost FROM v)", SCHEMA)  # loads what is loaded late
    slowest, longest = 0.0, ""
    for sql in grow_queries(seed, many):
        start = time.process_time()
        with suppress(QueryError):
            plan = plan_query(sql, SCHEMA)
            digest_measured(plan)
            explain_plan(plan)
        taken = time.process_time() - start
        if taken > slowest:
            slowest, longest = taken, sql[:300]
    return {"seconds": slowest, "sql": longest, "bytes": _peak_memory()}


def _peak_memory() -> int:
    """Return the most memory this program has held, in bytes. getrusage would include that of the one that began it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    peak = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_plan_many(int(sys.argv[1]), int(sys.argv[2]))))
