"""Tables of visits, drawn: individuals with few rows, and values that are odd, tied, repeated or out of bounds."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from dosimeter import Dataset
from dosimeter.schema import read_schema
from tests.rows_that_count import rows_that_count

Row = dict[str, Any]

SLOTS = 15  # declared individuals: a few more than there are
GROUPS = ("Bonn", "Köln", "O'Hara")
FIRST, LAST = date(2020, 1, 30), date(2020, 2, 2)
UNITS = ("ann", "Änn", "a:1", "1", "", "bob\\")
COLUMNS: dict[str, dict[str, Any]] = {
    "unit": {"type": "text"},
    "entries": {"type": "integer"},
    "x": {"type": "integer", "bounds": [-3, 5]},
    "y": {"type": "integer", "bounds": [2, 7]},
    "n0": {"type": "decimal", "bounds": [-1.5, 2.25], "resolution": 0.05},
    "grp": {"type": "category", "values": list(GROUPS)},
    "infinite": {"type": "boolean"},
    "born": {"type": "date", "bounds": [FIRST, LAST]},
}
DECLARED: dict[str, Sequence[Any]] = {"grp": GROUPS, "infinite": (False, True)}
"""The columns with so few declared values that an individual may have more rows."""
SCHEMA = read_schema({"table": "visits", "individuals": SLOTS, "columns": COLUMNS})
ARROW = pa.schema(
    [
        ("unit", pa.string()), ("entries", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("n0", pa.float64()),
        ("grp", pa.string()), ("infinite", pa.bool_()), ("born", pa.date32()),
    ]
)  # fmt: skip


def draw_rows(seed: int) -> list[Row]:
    """Draw up to 14 rows of up to 5 individuals; the row key is unique within an individual, and repeats between them.

    Values beyond the bounds, ties of the grid (0.025, 0.125 …) and duplicates are the rule here, not the exception.
    """
    chance = random.Random(seed)
    units = chance.sample(UNITS, chance.choice([1, 3, 4, 5]))
    keys = {unit: chance.sample(range(-5, 10), 15) for unit in units}

    def some(*values: Any) -> Any:
        return None if chance.random() < 0.18 else chance.choice(values)

    def cells() -> Row:
        return {
            "x": some(*range(-6, 9)),
            "y": some(*range(10)),
            "n0": some(chance.randrange(-80, 120) / 40, chance.uniform(-3.0, 4.0)),
            "grp": some(*GROUPS, *GROUPS, "Nowhere"),
            "infinite": some(True, False),
            "born": some(FIRST + timedelta(days=chance.randrange(-2, 6))),
        }

    kinds = [cells() for _ in range(chance.choice([2, 14, 14]))]
    return [
        {"unit": (unit := chance.choice(units)), "entries": keys[unit].pop(), **chance.choice(kinds)}
        for _ in range(chance.choice([0, 1, 2, 6, 9, 12, 14, 14]))
    ]


TABLES = st.integers(0, 2**32).map(draw_rows)
"""Dense tables, not lists that Hypothesis would rather keep short."""


def kept_rows(rows: Iterable[Row], m: int, columns: Mapping[str, Any] = COLUMNS) -> list[Row]:
    """Return at most m rows of each individual: those that count (N6)."""
    return rows_that_count(rows, columns, "unit", m)


def open_visits(rows: Sequence[Row], m: int, **facts: Any) -> Dataset:
    """Open the rows, of which at most m of each individual count."""
    schema = {
        "table": "visits", "individuals": SLOTS, "unit": "unit", "max_rows_per_unit": m, "row_key": "entries",
        "reviewed": True, "columns": COLUMNS, **facts,
    }  # fmt: skip
    return Dataset.open(pa.Table.from_pylist(list(rows), schema=ARROW), schema=schema, table="visits")
