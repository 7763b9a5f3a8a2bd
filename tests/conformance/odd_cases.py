"""Cases for the odd-cell conformance: sources × columns × queries × neighbours, and a small cover of all pairs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields

from tests.conformance.odd_meanings import (
    BUNDLES,
    GROUPS_BY_KIND,
    MIN_ROWS,
    Subject,
    find_aggregates,
    find_condition,
    find_groupings,
    list_conditions,
)
from tests.conformance.odd_tables import SOURCES, OddColumn, Row, columns_of
from tests.oracle.query_meanings import (
    Aggregate,
    Query,
    clamp,
    make_count,
    make_count_star,
    make_sum,
    read,
)


@dataclass(frozen=True)
class Mode:
    """Who an individual is: a row, or everything of one unit; and how many the schema declares."""

    unit: str = "row"
    row_key: str | None = None
    individuals: int = 30

    @property
    def m(self) -> int:
        return 1 if self.unit == "row" else 2


MODES = {
    "row": Mode(),
    "row, too many": Mode(individuals=10),
    "person": Mode("who", "rk"),
    "person, too many": Mode("who", "rk", individuals=4),
    "NULL units": Mode("member", "rk"),
    "odd units": Mode("uid", "rk_odd"),
}
# Whom the smaller table is without: by row, and by person. The odd one has odd cells, the high one alone lies beyond
# everybody else, so that a file's statistics are others without them.
REMOVED: dict[str, tuple[tuple[int, ...], str]] = {"odd": ((6,), "bob"), "high": ((9,), "cem"), "plain": ((1,), "fay")}
JOINS = ("none", "sites", "rates", "rates, left", "labs")


@dataclass(frozen=True)
class Case:
    source: str
    column: str
    mode: str
    removed: str
    join: str
    where: str
    group: str
    bundle: str

    def __str__(self) -> str:
        return "-".join(str(getattr(self, field.name)) for field in fields(self))

    @property
    def odd(self) -> OddColumn:
        return find_column(self.source, self.column)

    @property
    def declared(self) -> tuple[OddColumn, ...]:
        """The odd columns that the schema declares."""
        return (self.odd,)

    @property
    def subject(self) -> Subject:
        table = "labs" if self.join == "labs" else "t"
        key = f"labs.{self.column}" if self.join == "labs" else self.column
        return Subject(f"{table}.{self.column}", key, self.odd.kind)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The bundle, and what a joined public table adds to it."""
        found = find_aggregates(self.bundle, self.subject)
        name = {"sites": "sites.beds", "rates": "rates.tier", "rates, left": "rates.tier"}.get(self.join)
        joined = () if name is None else (clamp(name, read(name), 0, 9),)
        return (*found, *(make(term, None) for term in joined for make in (make_count, make_sum)))

    @property
    def min_rows(self) -> int | None:
        return MIN_ROWS if self.bundle == "mean of many" else None

    @property
    def query(self) -> Query:
        """What is asked, and what it means: over rows that count already and are joined."""
        test = None if self.where == "none" else find_condition(self.where, self.subject)
        kind = "LEFT JOIN" if self.join.endswith("left") else "JOIN"
        source = "t" if self.join == "none" else f"t{self.join_clause(kind)}"
        return Query(self.aggregates, test, find_groupings(self.group, self.subject), source=source)

    def join_clause(self, kind: str) -> str:
        """Return what stands after t in FROM."""
        name = self.join.split(",")[0]
        left, right = self._keys(name)
        return f" {kind} {name} ON t.{left} = {name}.{right}"

    def _keys(self, name: str) -> tuple[str, str]:
        unit = MODES[self.mode].unit
        return {"sites": ("site", "site"), "rates": (self.column, "rate"), "labs": (unit, unit)}[name]

    def combine(self, rows: Sequence[Row], others: Mapping[str, Sequence[Row]]) -> list[Row]:
        """Return the rows that count, joined by hand."""
        if self.join == "none":
            return list(rows)
        name = self.join.split(",")[0]
        left, right = self._keys(name)
        joined = []
        for row in rows:
            found = [other for other in others[name] if row[left] is not None and other[right] == row[left]]
            if not found and self.join.endswith("left"):
                found = [dict.fromkeys(others[name][0])]
            joined += [{**row, **{f"{name}.{key}": value for key, value in other.items()}} for other in found]
        return joined


@dataclass(frozen=True)
class WideCase(Case):
    """Every odd column of a source in one query: a few conditions on each, as FILTERs."""

    def __str__(self) -> str:
        return f"{self.source}-{self.mode}-{self.removed}"

    @property
    def declared(self) -> tuple[OddColumn, ...]:
        return columns_of(self.source)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        asked = {">", "NOT >", "=", "IS NULL"}
        return tuple(
            make_count_star(find_condition(name, Subject(f"t.{column.name}", column.name, column.kind)))
            for column in self.declared
            for name in sorted(asked & set(list_conditions(column.kind)))
        )


def make_wide(source: str, mode: str, removed: str) -> WideCase:
    return WideCase(source, "huge", mode, removed, "none", "none", "none", "filtered")


def find_column(source: str, name: str) -> OddColumn:
    return next(column for column in columns_of(source) if column.name == name)


# ---------------------------------------------------------------- all pairs


KINDS = {column.name: column.kind for source in SOURCES for column in columns_of(source)}
VALUES: dict[str, tuple[str, ...]] = {
    "source": SOURCES,
    "column": tuple(KINDS),
    "kind": tuple(GROUPS_BY_KIND),
    "mode": tuple(MODES),
    "removed": tuple(REMOVED),
    "join": JOINS,
    "where": ("none", *dict.fromkeys(name for kind in GROUPS_BY_KIND for name in list_conditions(kind))),
    "group": tuple(dict.fromkeys(name for names in GROUPS_BY_KIND.values() for name in names)),
    "bundle": BUNDLES,
}
CONDITIONS_OF = {name: frozenset(("none", *list_conditions(kind))) for name, kind in KINDS.items()}
_HELD = {(source, column.name) for source in SOURCES for column in columns_of(source)}
Pair = tuple[str, str]
# The bundle "filtered" asks every condition of a column in one query. So where it meets every source and every column,
# each condition has; as a WHERE it then meets every kind of column.
MAIN_FACTORS = ("source", "column", "mode", "removed", "join", "bundle")
MAIN_PAIRS: tuple[Pair, ...] = (
    *itertools.combinations(MAIN_FACTORS, 2), ("kind", "where"), ("kind", "group"),
)  # fmt: skip
ALL_PAIRS: tuple[Pair, ...] = tuple(itertools.combinations([field.name for field in fields(Case)], 2))
SPARK_PAIRS: tuple[Pair, ...] = (("source", "column"), ("source", "mode"), ("source", "bundle"))


def cover_pairs(sources: Sequence[str], pairs: Sequence[Pair], seed: int = 5) -> list[Case]:
    """Return cases in which every two values of these pairs of factors meet that can stand together.

    Greedy: a case starts from values that have not met yet, and takes of every other factor the value that meets most
    of the others for the first time.
    """
    chance = random.Random(seed)
    values = {**VALUES, "source": tuple(sources)}
    held = {pair for pair in _HELD if pair[0] in sources}
    still_open = {
        frozenset(((a, x), (b, y))): None
        for a, b in sorted(pairs, key=lambda pair: -len(values[pair[0]]) * len(values[pair[1]]))
        for x, y in itertools.product(values[a], values[b])
        if _can_complete({a: x, b: y}, held)
    }
    cases = []
    while still_open:
        chosen = dict(sorted(next(iter(still_open))))
        for factor in sorted(values, key=lambda name: -len(values[name])):
            if factor in chosen:
                continue
            closes = {
                value: sum(frozenset(((factor, value), one)) in still_open for one in chosen.items())
                for value in values[factor]
                if _can_complete({**chosen, factor: value}, held)
            }
            best = max(closes.values())
            chosen[factor] = chance.choice([value for value, closed in closes.items() if closed == best])
        for pair in itertools.combinations(chosen.items(), 2):
            still_open.pop(frozenset(pair), None)
        del chosen["kind"]
        cases.append(Case(**chosen))
    return cases


def _can_complete(chosen: Mapping[str, str], held: Set[Pair]) -> bool:
    """Tell whether some case has all these values: a source that holds a column that the rest can be asked of."""
    if chosen.get("join") == "labs" and "mode" in chosen and MODES[chosen["mode"]].unit == "row":
        return False
    return any(
        chosen.get("source", source) == source
        and chosen.get("column", column) == column
        and chosen.get("kind", KINDS[column]) == KINDS[column]
        and chosen.get("where", "none") in CONDITIONS_OF[column]
        and chosen.get("group", "none") in GROUPS_BY_KIND[KINDS[column]]
        for source, column in held
    )
