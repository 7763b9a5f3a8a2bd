"""Tables with odd cells: which there are, which source can hold them, and what is left of them by the rule (N4).

An odd cell is NULL: NaN, an infinity, a day or moment outside the years 1 to 9999, a whole number outside 64 bits, text
that is not of its declared type. ``clean`` says so in plain Python and knows nothing of the engines.

A cell is written here as one raw value, whatever the source: a number, a day as its distance from 1970-01-01, a moment
as its distance in the column's own unit, ``INFINITY`` and ``MINUS_INFINITY`` where a database has such a day, and the
text itself where the source is a CSV.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

Row = dict[str, Any]

EPOCH_DAY = date(1970, 1, 1).toordinal()
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (moments are UTC and carry no zone, as everywhere here)
SECONDS_A_DAY = 86_400
LARGEST, SMALLEST = 2**63 - 1, -(2**63)


@dataclass(frozen=True)
class Endless:
    """A day or moment that a database calls infinity or -infinity."""

    sign: int


INFINITY, MINUS_INFINITY = Endless(1), Endless(-1)
YEAR_ZERO = -719_528  # 0000-01-01, which some call 1 BC
IDES = -735_525  # −0044-03-15, which is in 45 BC
FIVE_DIGITS = 6_666_530  # 20222-05-05
ODD_DAYS: tuple[Any, ...] = (YEAR_ZERO, IDES, FIVE_DIGITS, INFINITY, MINUS_INFINITY)
FIRST_DAY, LAST_DAY = date(1, 1, 1).toordinal() - EPOCH_DAY, date(9999, 12, 31).toordinal() - EPOCH_DAY


# ---------------------------------------------------------------- the rule


def clean(raw: Any, kind: str, ticks: int = 1_000_000) -> Any:
    """Return what a raw cell is worth: a Python value, or None for NULL and for everything odd (N4)."""
    if raw is None or isinstance(raw, Endless):
        return None
    if isinstance(raw, str):
        return clean_text(raw, kind)
    match kind:
        case "decimal":
            return clean_number(raw)
        case "integer":
            return int(raw) if math.isfinite(raw) and raw == int(raw) and SMALLEST <= raw <= LARGEST else None
        case "date":
            return date.fromordinal(raw + EPOCH_DAY) if FIRST_DAY <= raw <= LAST_DAY else None
        case "timestamp":
            return clean_moment(raw, ticks)
        case _:
            return raw


def clean_number(raw: Any) -> float | None:
    """Return the double next to a number; what lies beyond all doubles is infinite, and so NULL."""
    try:
        value = float(raw)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def clean_moment(raw: int, ticks: int) -> datetime | None:
    """Return a moment in whole microseconds, as every engine keeps it."""
    days = raw // (ticks * SECONDS_A_DAY)
    if not FIRST_DAY <= days <= LAST_DAY:
        return None
    return EPOCH + timedelta(microseconds=raw * 1_000_000 // ticks)


def clean_text(text: str, kind: str) -> Any:
    """Return the value of a CSV cell, or None where it is not written as one."""
    bare = text.strip(" ")
    if not bare:
        return None
    match kind:
        case "decimal":
            if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", bare, re.ASCII):
                return clean_number(bare)
            return None
        case "integer":
            if re.fullmatch(r"[+-]?\d+(\.0*)?", bare, re.ASCII):
                return clean(int(bare.split(".")[0]), "integer")
            return None
        case "boolean":
            lowered = bare.lower()
            return True if lowered in ("true", "t", "yes", "y", "1") else False if lowered in _FALSE else None
        case "date":
            return _read_day(bare)
        case "timestamp":
            return _read_moment(bare)
        case _:
            return text


_FALSE = ("false", "f", "no", "n", "0")


def _read_day(text: str) -> date | None:
    found = re.fullmatch(r"(\d{4})-(\d{1,2})-(\d{1,2})", text, re.ASCII)
    try:
        return None if found is None else date(*map(int, found.groups()))
    except ValueError:
        return None


def _read_moment(text: str) -> datetime | None:
    day, _, clock = text.partition("T" if "T" in text else " ")
    known = _read_day(day)
    if known is None or not re.fullmatch(r"(\d\d:\d\d(:\d\d(\.\d+)?)?)?", clock, re.ASCII):
        return None
    try:
        return datetime.fromisoformat(f"{known.isoformat()} {clock or '00:00'}")
    except ValueError:
        return None


# ---------------------------------------------------------------- sources


FAMILIES = {
    "csv": "csv", "csv.gz": "csv", "spark csv": "csv",
    "parquet by pyarrow": "arrow", "parquet by polars": "arrow", "parquet by duckdb": "arrow", "arrow": "arrow",
    "pandas": "arrow", "polars": "arrow", "spark parquet": "arrow",
    "duckdb": "duckdb",
    "postgres": "postgres",
}  # fmt: skip
SOURCES = tuple(FAMILIES)


# ---------------------------------------------------------------- columns


@dataclass(frozen=True)
class OddColumn:
    """A column in which odd cells stand, and its native type in each family of sources, None where it has none.

    ``plain``: four ordinary values, ascending, the middle two are what conditions compare with. ``high`` and ``low``:
    values far outside the declared bounds, and still no odd ones. ``csv``: all of them as texts, for CSV.
    """

    name: str
    kind: str
    plain: tuple[Any, ...]
    high: Any
    low: Any
    odd: tuple[Any, ...]
    arrow: str | None = None
    duckdb: str | None = None
    postgres: str | None = None
    ticks: int = 1_000_000
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # odd cells of one source alone

    def odd_in(self, source: str) -> tuple[Any, ...]:
        return (*self.odd, *self.only.get(source, ()))

    def cells(self, source: str, count: int) -> list[Any]:
        """Return the raw cells of so many rows: the same pattern of plain, odd and extreme ones in every column."""
        odd = self.odd_in(source)
        chosen = []
        numbers = iter(range(count))
        for role in (ROLES * count)[:count]:
            match role:
                case "odd":
                    at = next(numbers)
                    chosen.append(odd[at % len(odd)] if odd else None)
                case "high":
                    chosen.append(self.high)
                case "low":
                    chosen.append(self.low)
                case None:
                    chosen.append(None)
                case place:
                    chosen.append(self.plain[place])
        return chosen

    def clean(self, raw: Any) -> Any:
        return clean(self.round(raw), self.kind, self.ticks)

    def round(self, raw: Any) -> Any:
        """Return a raw cell as a float32 column keeps it."""
        if self.arrow != "float32" or not isinstance(raw, float):
            return raw
        import numpy as np

        return float(np.float32(raw))


# Which kind of cell each row has. With Parquet's row groups of five, the third group's ordinary cells say nothing of
# its odd ones, and the only high cell decides what the second group's statistics promise.
ROLES: tuple[Any, ...] = (0, 1, 2, 2, None, 3, "odd", "odd", "odd", "high", "low", "odd", "odd", 1, "odd", "odd")
NOT_NUMBERS = (math.nan, math.inf, -math.inf)
DAYS = tuple((date(2021, *day)).toordinal() - EPOCH_DAY for day in ((1, 5), (2, 10), (2, 28), (3, 15)))
CLOCKS = (0, 5 * 3600 + 1800, 12 * 3600, 23 * 3600 + 3599)


def _moments(ticks: int, days: Sequence[int] = DAYS) -> tuple[int, ...]:
    return tuple((day * SECONDS_A_DAY + clock) * ticks for day, clock in zip(days, CLOCKS, strict=False))


COUNTS_MORE = ("arrow", "pandas", "polars", "duckdb")


def _moment_column(
    name: str, arrow: str, duckdb: str | None, postgres: str | None, ticks: int, *beyond: int
) -> OddColumn:
    """Return a column of moments. ``beyond``: moments that this unit can count and microseconds cannot.

    No reader of Parquet takes these: it stops while it makes them microseconds, whatever was asked. That is an
    incident, and not an odd cell. For Spark the outermost milliseconds, which DuckDB calls infinite, are such moments.
    """
    far = tuple((day * SECONDS_A_DAY + 3600) * ticks for day in (YEAR_ZERO, IDES, FIVE_DIGITS))
    endless = (INFINITY, MINUS_INFINITY)
    last = (LAST_DAY * SECONDS_A_DAY + SECONDS_A_DAY) * ticks - 1
    if ticks == 10**9:  # 64 bits of nanoseconds reach from 1677 to 2262
        return OddColumn(
            name, "timestamp", _moments(ticks), _moments(ticks, (106_000,))[0], _moments(ticks, (-106_000,))[0], (),
            arrow, duckdb, postgres, ticks, {"duckdb": endless},
        )  # fmt: skip
    more = {
        source: (*endless, *(beyond if source in COUNTS_MORE else ()))
        for source in SOURCES
        if ticks == 10**6 or source != "spark parquet"
    }
    return OddColumn(
        name, "timestamp", _moments(ticks), last, FIRST_DAY * SECONDS_A_DAY * ticks, far, arrow, duckdb, postgres,
        ticks, more,
    )  # fmt: skip


TYPED = (
    OddColumn(
        "ratio", "decimal", (0.5, 1.25, 2.0, 3.75), 1.5e300, -7.5, NOT_NUMBERS, "float64", "DOUBLE", "float8"
    ),
    OddColumn("ratio32", "decimal", (0.1, 1.25, 2.0, 3.75), 3e38, -7.5, NOT_NUMBERS, "float32", "FLOAT", "float4"),
    OddColumn(
        "loose", "decimal", tuple(map(Decimal, ("0.5", "1.25", "2", "3.75"))), Decimal(10) ** 39, Decimal("-1e-400"),
        (Decimal("NaN"), Decimal("Infinity"), Decimal("-Infinity"), Decimal("1e400"), Decimal("-1e400")),
        postgres="numeric",
    ),
    OddColumn(
        "unsigned", "integer", (1, 2, 4, 7), LARGEST, 0, (2**63, 2**64 - 1), "uint64", "UBIGINT", "numeric(20, 0)"
    ),
    OddColumn(
        "huge", "integer", (1, 2, 4, 7), LARGEST, SMALLEST, (2**63, SMALLEST - 1, 10**37, -(10**37)),
        "decimal128", "HUGEINT", "numeric(40, 0)",
        only={"postgres": (10**39, Decimal("NaN")), "duckdb": (2**127 - 1, -(2**127) + 1)},
    ),
    OddColumn(  # whole numbers with gaps, which pandas keeps as floats
        "gaps", "integer", (1.0, 2.0, 4.0, 7.0), 2.0**63 - 1024, -(2.0**63),
        (*NOT_NUMBERS, 2.5, 2.0**63, -1e19, 1e300), "float64", "DOUBLE", "float8",
    ),
    OddColumn(  # whole numbers with decimals
        "scaled", "integer", tuple(map(Decimal, ("1", "2", "4", "7"))), Decimal(LARGEST), Decimal(SMALLEST),
        tuple(map(Decimal, ("1.5", "-9999999999999999999999999999.5", "9999999999999999999999999999.5", "1e27"))),
        "decimal128(38, 10)", "DECIMAL(38, 10)", "numeric(38, 10)",
    ),
    OddColumn("born", "date", DAYS, LAST_DAY, FIRST_DAY, ODD_DAYS, "date32", "DATE", "date"),
    _moment_column("at_us", "timestamp[us]", "TIMESTAMP", "timestamp", 10**6),
    _moment_column("at_tz", "timestamp[us, UTC]", "TIMESTAMPTZ", "timestamptz", 10**6),
    _moment_column("at_ms", "timestamp[ms]", "TIMESTAMP_MS", None, 10**3, 10**17, -(2**63)),
    _moment_column("at_tz_ms", "timestamp[ms, UTC]", None, None, 10**3, -(10**17), -(2**63)),
    _moment_column("at_s", "timestamp[s]", "TIMESTAMP_S", None, 1, -(10**15), -(2**63)),
    _moment_column("at_ns", "timestamp[ns]", "TIMESTAMP_NS", None, 10**9),
)  # fmt: skip
TEXTUAL = (
    OddColumn(
        "ratio", "decimal", ("0.5", "1.25", "2", "3.75"), "1.5e300", "-7.5",
        ("nan", "inf", "-Infinity", "1e400", "abc", "1,5", "NaN"),
    ),
    OddColumn(
        "huge", "integer", ("1", "2", "4", "7"), str(LARGEST), str(SMALLEST),
        (str(2**63), "9" * 40, "abc", str(SMALLEST - 1), "12.5", "nan", "1e3"),
    ),
    OddColumn(
        "born", "date", ("2021-01-05", "2021-02-10", "2021-2-28", "2021-03-15"), "9999-12-31", "0001-01-01",
        ("0000-01-01", "-0044-03-15", "20222-05-05", "infinity", "-infinity", "2021-02-30", "soon"),
    ),
    OddColumn(
        "at_us", "timestamp",
        ("2021-01-05", "2021-02-10 05:30", "2021-02-28T12:00:00", "2021-03-15 23:59:59"),
        "9999-12-31 23:59:59.999999", "0001-01-01 00:00:00",
        ("0000-01-01 01:00", "-0044-03-15 01:00", "20222-05-05 01:00", "infinity", "-infinity", "12:30", "soon"),
    ),
    OddColumn("flag", "boolean", ("true", "no", "T", "0"), "YES", "f", ("maybe", "2", "on")),
)  # fmt: skip

# What a source cannot hold though its family has a type for it.
CANNOT = {
    ("parquet by duckdb", "at_tz_ms"),  # DuckDB's own moments with a zone count microseconds
    ("spark parquet", "at_ns"),  # Spark refuses the file when it is opened, whatever it holds
    # These have no seconds, and make them milliseconds: the column at_ms is the same there.
    *((source, "at_s") for source in SOURCES if "parquet" in source),
    ("polars", "at_s"),
}


def columns_of(source: str) -> tuple[OddColumn, ...]:
    """Return the columns with odd cells that a source can hold.

    Texts have no width, sign or unit of their own: in a CSV one column of a kind stands for all. A typed truth value is
    never odd, and only PostgreSQL has numbers of any size that can also be NaN.
    """
    family = FAMILIES[source]
    if family == "csv":
        return TEXTUAL
    held = [column for column in TYPED if getattr(column, family) is not None]
    return tuple(column for column in held if (source, column.name) not in CANNOT)


# ---------------------------------------------------------------- what is declared


BOUNDS: dict[str, dict[str, Any]] = {
    "decimal": {"bounds": [0, 5], "resolution": 0.25},
    "integer": {"bounds": [0, 9]},
    "date": {"bounds": ["2021-01-01", "2021-03-31"]},
    "timestamp": {"bounds": ["2021-01-01T00:00:00", "2021-03-31T23:59:59"]},
    "boolean": {},
}


def declare(column: OddColumn) -> dict[str, Any]:
    return {"type": column.kind, **BOUNDS[column.kind]}


# ---------------------------------------------------------------- rows


# Row keys repeat within bob and gus, who have more rows than count; ``rk_odd`` and ``uid`` hold odd cells of their own.
WHO = ("ann", "bob", "cem", "dee", "eve", "fay", "ann", "bob", "bob", "cem", "eve", "fay", "bob", "gus", "gus", "gus")
NOBODY = (3, 4)  # rows whose member is NULL and whose uid is odd
ROW_KEYS = (1, 5, 1, 1, 1, 1, 2, 5, 5, 2, 2, 2, 6, 5, 5, 7)
ODD_KEYS = (8, 15)  # rows whose rk_odd is odd
PEOPLE = tuple(dict.fromkeys(WHO))
GROUPS = ("a", "b")


def plain_columns(source: str) -> tuple[OddColumn, ...]:
    """Return the integer columns that stand beside the odd ones; ``uid`` and ``rk_odd`` are stored as ``huge`` is."""
    huge = next(column for column in columns_of(source) if column.name == "huge")
    small = replace(huge, arrow="int64", duckdb="BIGINT", postgres="bigint", odd=(), only={})
    return tuple(
        replace(huge if name in ("uid", "rk_odd") else small, name=name)
        for name in ("uid", "rk", "rk_odd", "z", "site")
    )


def build_rows(source: str) -> list[Row]:
    """Return the raw rows of the table ``t``."""
    columns = {column.name: column.cells(source, len(ROLES)) for column in columns_of(source)}
    write: Any = str if FAMILIES[source] == "csv" else int
    odd = columns["huge"][ROLES.index("odd")]
    return [
        {
            "who": who,
            "member": None if at in NOBODY else who,
            "uid": odd if at in NOBODY else write(PEOPLE.index(who)),
            "rk": write(ROW_KEYS[at]),
            "rk_odd": odd if at in ODD_KEYS else write(ROW_KEYS[at]),
            "z": None if at == 2 else write(at * 7 % 11),
            "grp": (*GROUPS, None, "b", "a", "c")[at % 6],
            "site": None if at == 5 else write(at % 4),
            **{name: cells[at] for name, cells in columns.items()},
        }
        for at, who in enumerate(WHO)
    ]


def build_labs(source: str) -> list[Row]:
    """Return the raw rows of the private table ``labs``: up to three of each individual, and one of a stranger."""
    owners = ("bob", "ann", "bob", "cem", "fay", "gus", "bob", "cem", "ann", "stranger", "fay", "gus")
    columns = {column.name: column.cells(source, len(ROLES))[4:] for column in columns_of(source)}
    write: Any = str if FAMILIES[source] == "csv" else int
    return [
        {
            "who": who, "member": who, "uid": write([*PEOPLE, "stranger"].index(who)), "lab": f"lab {at}",
            "points": write(at % 5), **{name: cells[at] for name, cells in columns.items()},
        }
        for at, who in enumerate(owners)
    ]  # fmt: skip


def build_rates(source: str, column: OddColumn) -> list[Row]:
    """Return the raw rows of the public table ``rates``, whose key is a column that holds odd cells here too."""
    keys = [*column.plain[:3], *column.odd_in(source)[:3], column.high]
    if column.kind == "boolean":
        keys = ["yes", "no", "maybe"]
    write: Any = str if FAMILIES[source] == "csv" else int
    return [{"rate": key, "tier": write(at + 1)} for at, key in enumerate(keys)]


def build_sites(source: str) -> list[Row]:
    write: Any = str if FAMILIES[source] == "csv" else int
    return [{"site": write(site), "beds": write(site * 3)} for site in (0, 1, 3)]


def clean_rows(rows: Sequence[Row], columns: Sequence[OddColumn]) -> list[Row]:
    """Return the rows with every cell as the rule leaves it."""
    by_name = {column.name: column for column in columns}
    return [{name: by_name[name].clean(raw) if name in by_name else raw for name, raw in row.items()} for row in rows]
