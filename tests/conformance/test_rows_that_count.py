"""Of a table with every kind of column, NULLs, odd cells, extremes and repeated rows, every engine keeps the same rows.

What is kept is compared with plain Python (``tests/rows_that_count.py``), row by row.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from sqlglot import exp

from dosimeter import Dataset
from tests.conformance.engine_cases import GROUP, on_every_engine
from tests.conformance.group_tables import clean
from tests.rows_that_count import rows_that_count

Row = dict[str, Any]
COLUMNS: dict[str, dict[str, Any]] = {
    "who": {"type": "text"},
    "number": {"type": "integer"},
    "whole": {"type": "integer", "bounds": [-5, 5]},
    "ratio": {"type": "decimal"},
    "cost": {"type": "decimal", "bounds": [0, 10], "resolution": 0.01},
    "ward": {"type": "category", "values": ["A", "B"]},
    "note": {"type": "text"},
    "urgent": {"type": "boolean"},
    "day": {"type": "date"},
    "at": {"type": "timestamp"},
}
CELLS: dict[str, tuple[Any, ...]] = {
    "whole": (0, 1, -1, 2**31, -(2**31) - 1, 2**32, 2**63 - 1, -(2**63), 2654435769),
    "ratio": (
        0.0, -0.0, 1.5, -1.5, 0.1 + 0.2, 5e-324, 2.2250738585072014e-308, -1e-9, 2.0**-16, 2.0**40, -(2.0**40),
        1e29, 2.0**100, 1e31, 1.7976931348623157e308, -1.7976931348623157e308, math.nan, math.inf, -math.inf,
    ),
    "cost": (0.01, 0.07, 1.005, 2.675, 99.99, -3.0),
    "ward": ("A", "B", "elsewhere"),
    "note": (
        "", " ", "a", "A", "é", "e\u0301", "ß", "😀", "0x1f", "x" * 5000, "two\nlines", "back\\slash",
        'say "hi"', "{a,b}",
    ),
    "urgent": (True, False),
    "day": (date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)),
    "at": tuple(
        datetime.fromisoformat(text)
        for text in ("0001-01-01", "1969-12-31 23:59:59.999999", "1970-01-01", "2024-02-29 12:00:00.000001",
                     "9999-12-31 23:59:59.999999")
    ),
}  # fmt: skip
WHO = ("ada", "Ada", "", "é", "😀", "{x}", 'a"b\\', "NULL", None)
ARROW = pa.schema(
    [
        ("who", pa.string()), ("number", pa.int64()), ("whole", pa.int64()), ("ratio", pa.float64()),
        ("cost", pa.float64()), ("ward", pa.string()), ("note", pa.string()), ("urgent", pa.bool_()),
        ("day", pa.date32()), ("at", pa.timestamp("us")),
    ]
)  # fmt: skip
POSTGRES = {
    "t": "who varchar, number numeric(9, 0), whole bigint, ratio float8, cost float8, ward text, note text, "
    "urgent boolean, day date, at timestamp"
}


def build_rows() -> list[Row]:
    """Return rows of nine people and of nobody; some people have the same row several times."""
    chance = random.Random(20241118)
    rows: list[Row] = []
    for _ in range(220):
        who = chance.choice(WHO)
        row = {"who": who, "number": WHO.index(who) - 4}
        row |= {name: None if chance.random() < 0.15 else chance.choice(cells) for name, cells in CELLS.items()}
        rows += [row] * chance.choice([1, 1, 1, 2, 5])
    plain = {"who": "alike", "number": 99, **dict.fromkeys(CELLS)}
    return [*rows, *[plain] * 30, *[plain | {"cost": 0.01}] * 3]


ROWS = build_rows()
TABLE = pa.Table.from_pylist(ROWS, schema=ARROW)


CUTS: list[Any] = [
    ("who", None, 4, ()),
    ("number", "note", 1, ()),
    ("number", None, 20, ("whole", "ratio", "note", "day", "at")),  # rows that mostly repeat
]


@pytest.mark.parametrize(("engine", "cut"), on_every_engine(CUTS, often=[0, 1, 2], smoke=[0]))
def test_every_engine_keeps_the_same_rows(
    open_in: Callable[..., Dataset], engine: str, cut: tuple[str, str | None, int, tuple[str, ...]]
) -> None:
    unit, key, m, left_out = cut
    columns = {name: facts for name, facts in COLUMNS.items() if name not in left_out}
    facts: dict[str, Any] = {"table": "t", "individuals": 50, "unit": unit, "max_rows_per_unit": m, "columns": columns}
    facts |= {} if key is None else {"row_key": key}
    dataset = open_in(engine, facts | {"tables": {}}, {"t": TABLE}, POSTGRES)
    names = [exp.column(name, quoted=True) for name in columns]
    found = dataset.engine.fetch(exp.select(*names).from_(dataset.tables.cut(None))).to_pylist()
    expected = rows_that_count([{name: clean(row)[name] for name in columns} for row in ROWS], columns, unit, m)
    assert len(expected) < len(ROWS)
    assert len({str(row) for row in expected}) < len(expected) or m == 1
    assert Counter(tuple(row.values()) for row in found) == Counter(tuple(row.values()) for row in expected)


@GROUP
@pytest.mark.servers
def test_postgresql_forgets_the_choice_with_its_snapshot(open_in: Callable[..., Dataset], postgres_url: str) -> None:
    """Limits are kept in the transaction that sees the rows they are of, and found again for the next snapshot."""
    facts = {"table": "t", "individuals": 50, "unit": "number", "max_rows_per_unit": 3, "columns": COLUMNS}
    dataset = open_in("postgres", facts, {"t": TABLE}, POSTGRES, "forgotten")

    def keep() -> Counter[str]:
        found = dataset.engine.fetch(exp.select("*").from_(dataset.tables.cut(None))).to_pylist()
        return Counter(row["who"] for row in found)

    before = keep()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("INSERT INTO forgotten.t SELECT * FROM forgotten.t")
        connection.execute("DELETE FROM forgotten.t WHERE who = 'ada'")
    assert keep() == before
    dataset.engine.refresh()
    assert keep() == Counter({who: count for who, count in before.items() if who != "ada"})
    assert before["ada"] == before["alike"] == 3
