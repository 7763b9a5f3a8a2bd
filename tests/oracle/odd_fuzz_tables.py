"""Tables drawn at random with odd cells in every column, as files, frames and databases hold them (N4)."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]
EPOCH = date(1970, 1, 1).toordinal()
FIRST = date(2021, 1, 4).toordinal() - EPOCH
TICKS = {"s": 1, "ms": 10**3, "us": 10**6}
SOURCES = ("arrow", "parquet", "duckdb", "csv")
SMALL = {"type": "integer", "bounds": [0, 9]}
COLUMNS: dict[str, Any] = {
    "who": {"type": "text"},
    "rk": {"type": "integer"},
    "num": {"type": "integer", "bounds": [-3, 8]},
    "dec": {"type": "decimal", "bounds": [-2, 3], "resolution": 0.25},
    "day": {"type": "date", "bounds": ["2021-01-04", "2021-02-12"]},
    "at": {"type": "timestamp", "bounds": ["2021-01-04T00:00:00", "2021-02-12T23:59:59"]},
    "flag": {"type": "boolean"},
    "grp": {"type": "category", "values": ["a", "b", "O'C"]},
    "code": SMALL,
}
ODD_DAYS = (-719_528, -735_525, 6_666_530, 2**31 - 1, -(2**31) + 1)


@dataclass(frozen=True)
class FuzzWorld:
    """One drawn table, how it is stored, and what its schema declares."""

    source: str
    rows: tuple[Row, ...]
    labs: tuple[Row, ...]
    num_type: pa.DataType
    dec_type: pa.DataType
    unit: str  # the unit of its moments
    facts: dict[str, Any]

    @property
    def by_row(self) -> bool:
        return "unit" not in self.facts

    def without(self, removed: Any) -> FuzzWorld:
        """Return the neighbour: without one row, or without all rows of a person."""
        if self.by_row:
            kept = tuple(row for at, row in enumerate(self.rows) if at != removed)
            return FuzzWorld(self.source, kept, self.labs, *self._storage())
        rows, labs = (tuple(row for row in own if row["who"] != removed) for own in (self.rows, self.labs))
        return FuzzWorld(self.source, rows, labs, *self._storage())

    def _storage(self) -> tuple[pa.DataType, pa.DataType, str, dict[str, Any]]:
        return self.num_type, self.dec_type, self.unit, self.facts

    def individuals(self) -> list[Any]:
        if self.by_row:
            return list(range(len(self.rows)))
        return [who for who in dict.fromkeys(row["who"] for row in self.rows) if who is not None]

    # ------------------------------------------------------------ writing

    def schema(self, folder: Path) -> dict[str, Any]:
        """Return the facts, with the joined tables beside the first one where it is a file."""
        tables = {name: dict(table) for name, table in self.facts["tables"].items()}
        if self.source in ("csv", "parquet"):
            for name in tables:
                tables[name]["source"] = str(folder / f"{name}.{self.source}")
        return {**self.facts, "tables": tables}

    def write(self, folder: Path) -> tuple[Any, dict[str, Any]]:
        """Write the tables; return what ``Dataset.open`` takes, and its options."""
        folder.mkdir()
        tables = {"t": self._table(self.rows), "labs": self._table(self.labs), **self._public()}
        match self.source:
            case "arrow":
                first = tables.pop("t")
                return first, {"table": "t", "tables": {name: tables[name] for name in self.facts["tables"]}}
            case "parquet":
                for name, table in tables.items():
                    pq.write_table(table, folder / f"{name}.parquet", row_group_size=4)
                return folder / "t.parquet", {}
            case "duckdb":
                with duckdb.connect(str(folder / "all.duckdb")) as connection:
                    for name, table in tables.items():
                        connection.register("source", table)
                        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM source")
                return f"duckdb:{folder / 'all.duckdb'}", {"table": "t"}
            case _:
                for name, rows in {"t": self.rows, "labs": self.labs}.items():
                    _write_csv(folder / f"{name}.csv", rows)
                for name, table in self._public().items():
                    _write_csv(folder / f"{name}.csv", table.to_pylist())
                return folder / "t.csv", {"delimiter": ","}

    def _table(self, rows: Sequence[Row]) -> pa.Table:
        if self.source == "csv":
            return pa.table({})
        kinds = {
            "who": pa.string(), "rk": pa.int64(), "num": self.num_type, "dec": self.dec_type, "day": pa.date32(),
            "at": pa.timestamp(self.unit), "flag": pa.bool_(), "grp": pa.string(), "code": pa.int64(),
            "score": pa.int64(),
        }  # fmt: skip
        arrays = {}
        for name in rows[0] if rows else (*COLUMNS, "score"):
            cells = [row[name] for row in rows]
            counted = {"day": pa.int32(), "at": pa.int64()}.get(name)
            arrays[name] = pa.array(cells, counted or kinds[name]).cast(kinds[name])
        return pa.table(arrays)

    def _public(self) -> dict[str, pa.Table]:
        sites = pa.table({"code": [0, 1, 2, 5], "beds": [3, 0, 9, 4]})
        keys = [1, 2, 3, None] if self.source == "csv" else [1, 2, 3, _odd_numbers(self.num_type)[0]]
        kind = pa.int64() if self.source == "csv" else self.num_type
        return {"sites": sites, "rates": pa.table({"num": pa.array(keys, kind), "tier": [1, 5, 2, 7]})}


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        names = list(rows[0]) if rows else [*COLUMNS, "score"]
        writer.writerows([names, *(["" if cell is None else cell for cell in row.values()] for row in rows)])


# ---------------------------------------------------------------- drawing


def _odd_numbers(kind: pa.DataType) -> list[Any]:
    if pa.types.is_floating(kind):
        return [math.nan, math.inf, -math.inf, 2.5, 1e300]
    return [2**63, 2**64 - 1] if pa.types.is_unsigned_integer(kind) else [2**63, -(2**63) - 1, 10**37]


def draw_world(seed: int, source: str) -> FuzzWorld:
    """Return a table of 9 to 14 rows, by row or person; some rows are nobody's, some people beyond those declared."""
    chance = random.Random(seed)
    num_type = chance.choice([pa.decimal128(38, 0), pa.uint64(), pa.float64()])
    dec_type = chance.choice([pa.float64(), pa.float64(), pa.float32()])
    unit = chance.choice(["us", "us", "ms", *(["s"] if source != "parquet" else [])])
    by_row = chance.random() < 0.4
    people = ["ann", "bob", "Änn", "", "a:1", "cem", "dee"]

    def row() -> Row:
        return {
            "who": None if chance.random() < 0.08 else chance.choice(people),
            "rk": chance.choice([1, 2, 2, 3, None]),
            **draw_cells(chance, source, num_type, unit),
        }

    rows = tuple(row() for _ in range(chance.randrange(9, 15)))
    labs = tuple({"who": chance.choice(people), "rk": at, **draw_cells(chance, source, num_type, unit),
                  "score": chance.choice([None, 0, 4, 11])} for at in range(8))  # fmt: skip
    facts: dict[str, Any] = {
        "table": "t", "individuals": chance.choice([4, 20, 20]), "reviewed": True, "columns": COLUMNS,
        "tables": {
            "sites": {"public": True, "key": "code", "columns": {"code": SMALL, "beds": SMALL}},
            "rates": {"public": True, "key": "num", "columns": {"num": COLUMNS["num"], "tier": SMALL}},
        },
    }  # fmt: skip
    if not by_row:
        facts |= {"unit": "who", "row_key": "rk", "max_rows_per_unit": chance.choice([1, 2, 2, 3])}
        columns = {"who": COLUMNS["who"], "rk": COLUMNS["rk"], "score": SMALL, "dec": COLUMNS["dec"]}
        facts["tables"]["labs"] = {
            "unit": "who", "row_key": "rk", "max_rows_per_unit": chance.choice([1, 2]), "columns": columns,
        }  # fmt: skip
    return FuzzWorld(source, rows, labs, num_type, dec_type, unit, facts)


def draw_cells(chance: random.Random, source: str, num_type: pa.DataType, unit: str) -> Row:
    """Return the cells of one row; about a fifth of them odd."""
    ticks = TICKS[unit]

    def some(plain: Sequence[Any], odd: Sequence[Any], texts: Sequence[str]) -> Any:
        drawn = chance.random()
        if drawn < 0.1:
            return None
        return chance.choice(plain if drawn < 0.8 else texts if source == "csv" else odd)

    low = 0 if pa.types.is_unsigned_integer(num_type) else -4
    numbers: list[Any] = [*range(low, 10), 2**53 if source != "csv" else 2**63 - 1]
    if pa.types.is_floating(num_type) and source != "csv":
        numbers = [float(number) for number in numbers]
    days = [FIRST + at for at in (-2, 0, 1, 6, 7, 20, 28, 39, 45)] + [1 - 719_163, 2_932_896]
    moments = [(day * 86_400 + chance.choice([0, 45_000, 86_399])) * ticks for day in days]
    far = [(day * 86_400 + 5) * ticks for day in ODD_DAYS[:3]] + [2**63 - 1, -(2**63) + 1]
    return {
        "num": some(numbers, _odd_numbers(num_type), ["abc", "9" * 40, "1.5", "nan", str(2**63)]),
        "dec": some(
            [step / 8 for step in range(-20, 30, 3)] + [1e30], [math.nan, math.inf, -math.inf],
            ["nan", "inf", "-inf", "1e400", "x"],
        ),
        "day": some(_as_texts(days, source), ODD_DAYS, ["0000-01-01", "20222-05-05", "infinity", "2021-02-30"]),
        "at": some(
            _as_texts(days, source) if source == "csv" else moments, far, ["0000-01-01 10:00", "infinity", "12:30"]
        ),
        "flag": some(["yes", "false"] if source == "csv" else [True, False], [None], ["maybe", "2"]),
        "grp": chance.choice(["a", "b", "O'C", "z", None]),
        "code": chance.choice([0, 1, 2, 3, 5, None]),
    }  # fmt: skip


def _as_texts(days: Sequence[int], source: str) -> Sequence[Any]:
    return [date.fromordinal(day + EPOCH).isoformat() for day in days] if source == "csv" else days
