"""A table whose groups are NULL, odd or declared by nobody.

Everything here is plain Python over rows: which rows of an individual count, and what a row's cells mean.
"""

from __future__ import annotations

import math
import random
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dosimeter.influence.contributions import Contributions
from tests.rows_that_count import rows_that_count

M, SLOTS = 3, 30
WARDS = ("A", "b", "O'X")
TOPICS = ("flu", "Flu", "gout", "naïve", "a;b:c", "", "rare one", "x'y")
Row = dict[str, Any]
ARROW = pa.schema(
    [
        ("pid", pa.string()), ("vid", pa.int64()), ("clinic_id", pa.int64()), ("ward", pa.string()),
        ("urgent", pa.bool_()), ("x", pa.int64()), ("cost", pa.float64()), ("topic", pa.string()),
    ]
)  # fmt: skip
CLINICS = pa.table(
    {"clinic_id": pa.array([1, 2, 3, None], pa.int64()), "region": pa.array(["north", "south", None, "north"])}
)
FACTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("groups.toml").read_text(encoding="utf-8"))
BY_ROW: dict[str, Any] = {
    **{name: value for name, value in FACTS.items() if name not in ("unit", "max_rows_per_unit", "row_key")},
    "individuals": 80,
}
POSTGRES = {
    "visits": "pid text, vid int, clinic_id int, ward varchar, urgent boolean, x smallint, cost double precision, "
    "topic text",
    "clinics": "clinic_id int, region text",
}


def build_rows() -> list[Row]:
    chance = random.Random(97)

    def some(values: Sequence[Any], missing: float = 0.2) -> Any:
        return None if chance.random() < missing else chance.choice(values)

    return [
        {
            "pid": f"p{chance.randrange(17)}",
            "vid": 7 * at,
            "clinic_id": some([1, 1, 2, 3, 4, 5]),
            "ward": some([*WARDS, "elsewhere"]),
            "urgent": some([True, False]),
            "x": some([-3, -1, 0, 1, 2, 3, 9]),
            "cost": some([0.0, 50.0, 100.0, 200.0, math.nan, math.inf, 300.0]),
            "topic": "alone" if at == 7 else some([*TOPICS[:2], *TOPICS[:2], *TOPICS]),
        }
        for at in range(70)
    ]


ROWS = build_rows()


def clean(row: Row) -> Row:
    """Return a row in which odd cells are NULL (N4)."""
    return {name: None if isinstance(cell, float) and not math.isfinite(cell) else cell for name, cell in row.items()}


def kept_rows(rows: Sequence[Row], m: int = M) -> list[Row]:
    """Return at most m rows of each individual, cleaned: those that count (N6)."""
    return rows_that_count([clean(row) for row in rows], FACTS["columns"], "pid", m)


def rows_of(by_row: bool) -> list[Row]:
    """Return the rows that count, where everybody is a row or has many."""
    return [clean(row) for row in ROWS] if by_row else kept_rows(ROWS)


def count_vectors(found: Contributions) -> Counter[tuple[tuple[int, float], ...]]:
    """Return how many people have which sparse vector."""
    people: Counter[tuple[tuple[int, float], ...]] = Counter()
    for row, count in enumerate(found.people.tolist()):
        owned = slice(found.starts[row], found.starts[row + 1])
        people[tuple(zip(found.cells[owned].tolist(), found.changes[owned].tolist(), strict=True))] += count
    return people
