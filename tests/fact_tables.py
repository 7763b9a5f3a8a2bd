"""Tables of which everything is known, for searching their facts: tails, constants, decimals, dates, many rows …"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dosimeter.release.facts.declared import plan_search
from dosimeter.release.facts.questions import FactSearch
from dosimeter.schema import Column, ColumnType, Schema

PEOPLE = 8_000


@dataclass(frozen=True)
class KnownTable:
    """A table, whose unit is ``unit``, with the types and resolutions that are declared of its columns."""

    name: str
    table: pa.Table
    declared: Schema
    rows_each: np.ndarray | None = field(default=None, compare=False)  # how many rows each individual has

    @property
    def searched(self) -> list[Column]:
        return [column for name, column in self.declared.columns.items() if name != self.declared.unit]


def _make(
    name: str, columns: dict[str, Any], kinds: dict[str, tuple[str, str | None]], unit: str = "row"
) -> KnownTable:
    declared = {
        each: Column(
            each, ColumnType(kind), resolution=None if step is None else Decimal(step), identifying=each == unit
        )
        for each, (kind, step) in kinds.items()
    }
    schema = Schema("known", declared, unit=unit, reviewed=True)
    return KnownTable(name, pa.table(columns), schema)


def list_known_tables(seed: int = 7) -> list[KnownTable]:
    """Return the generated tables, always the same for a seed."""
    draw, n = np.random.default_rng(seed), PEOPLE
    integer, decimal = ("integer", None), "decimal"
    cents = np.round(draw.uniform(0.01, 999.99, n), 2)
    tails = np.round(draw.lognormal(10, 1.2, n), 2)
    present = draw.random(n) < 0.5
    days = [date(1930, 1, 1) + timedelta(int(day)) for day in draw.integers(0, 29_000, n)]
    moments = [
        datetime.fromisoformat("2019-03-01") + timedelta(seconds=int(second)) for second in draw.integers(0, 10**8, n)
    ]
    spreads = (0.05, 0.1, 0.3, 1.0, 3.0)
    middles = [10.0 ** (at % 7 - 1) for at in range(60)]
    wide = {f"c{at}": np.round(draw.normal(mid, mid * spreads[at % 5], n), 3) for at, mid in enumerate(middles)}
    each = np.minimum(draw.geometric(0.15, n), 400)
    owners = np.repeat(np.arange(n), each)
    return [
        _make("heavy tails", {"income": tails}, {"income": (decimal, "0.01")}),
        _make(
            "constants",
            {"answer": np.full(n, 42), "nought": np.zeros(n, int), "warm": np.full(n, 36.6)},
            {"answer": integer, "nought": integer, "warm": (decimal, "0.1")},
        ),
        _make(
            "negatives",
            {"frost": np.round(draw.uniform(-40, 15, n), 1), "debt": -draw.integers(1_000, 90_000, n)},
            {"frost": (decimal, "0.1"), "debt": integer},
        ),
        _make(
            "decimals", {"price": cents, "free": cents * np.pi}, {"price": (decimal, "0.01"), "free": (decimal, None)}
        ),
        _make("years", {"year": draw.integers(1990, 2021, n)}, {"year": integer}),
        _make("blood", {"ph": np.round(np.clip(draw.normal(7.4, 0.05, n), 6.8, 7.8), 2)}, {"ph": (decimal, "0.01")}),
        _make("dates", {"born": days, "seen": moments}, {"born": ("date", None), "seen": ("timestamp", None)}),
        _make("wide", wide, dict.fromkeys(wide, (decimal, "0.001"))),
        _with_rows(
            _make(
                "visits",
                {"patient": owners, "weight": np.round(draw.normal(80, 15, len(owners)), 1)},
                {"patient": integer, "weight": (decimal, "0.1")},
                unit="patient",
            ),
            each,
        ),
        _make(
            "missing",
            {"score": pa.array(np.where(present, draw.integers(0, 101, n), 0), mask=~present)},
            {"score": integer},
        ),
    ]


def _with_rows(known: KnownTable, each: np.ndarray) -> KnownTable:
    return KnownTable(known.name, known.table, known.declared, each)


def promise_search(known: KnownTable) -> FactSearch:
    """Return a search with just the ε of B2: n·ε_c = 1,200·ln(candidates), ε_c for one end of a first search."""
    days = any(column.type in (ColumnType.DATE, ColumnType.TIMESTAMP) for column in known.searched)
    counts = [len(known.table) - known.table.column(column.name).null_count for column in known.searched]
    people = min(counts) if known.rows_each is None else len(known.rows_each)
    end = 1200 * math.log(9_999 if days else 151) / people
    taken = 0.05 if known.declared.unit == "row" else 0.1
    spend = end * 2 / 0.36 / (1 - taken) * len(known.searched)
    return plan_search(known.declared, spend=Decimal(repr(round(spend, 6))))


def list_numbers(known: KnownTable, column: Column) -> np.ndarray:
    values = pc.drop_null(known.table.column(column.name)).to_pylist()
    if column.type in (ColumnType.DATE, ColumnType.TIMESTAMP):
        return np.array([_seconds(value) for value in values])
    return np.array(values, dtype=float)


def _seconds(value: object) -> float:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return (moment - datetime.fromisoformat("1970-01-01")).total_seconds()


def _ends(column: Column) -> tuple[float, float]:
    assert column.bounds is not None, f"nothing was found of {column.name}"
    low, high = column.bounds
    if column.type in (ColumnType.DATE, ColumnType.TIMESTAMP):
        return _seconds(low), _seconds(high)
    return float(low), float(high)  # type: ignore[arg-type]


def holds(column: Column, values: np.ndarray) -> bool:
    low, high = _ends(column)
    return bool(np.mean((values >= low - 1e-9) & (values <= high + 1e-9)) >= 0.99)


def is_narrow(column: Column, values: np.ndarray) -> bool:
    low, high = _ends(column)
    unit = 86_400.0 if column.type in (ColumnType.DATE, ColumnType.TIMESTAMP) else float(column.resolution or 1)
    return bool(high - low <= 5 * max(values.max() - values.min(), unit) + 1e-9)
