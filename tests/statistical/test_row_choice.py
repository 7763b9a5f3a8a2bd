"""Which rows count is chosen as if at random, whatever the values are and however the table is ordered (N6).

Every test compares with random choices of m rows, drawn or computed here; none knows the hash. All are seeded: a table
and its answer are the same every time, and α is the chance that a choice which is truly random would have failed once.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from scipy import stats
from sqlglot import exp

from dosimeter import Dataset, Ledger
from tests.rows_that_count import rows_that_count

Row = dict[str, Any]
GROUPS = ("a", "b", "c")
M, PEOPLE, DRAWS = 3, 25, 100
SQL = "SELECT grp, COUNT(*), SUM(v), AVG(v), MEDIAN(v) FROM t GROUP BY grp"
ORDERS: dict[str, Callable[[list[float], random.Random], list[float]]] = {
    "sorted": lambda values, _: sorted(values),
    "reversed": lambda values, _: sorted(values, reverse=True),
    "largest last": lambda values, chance: [*chance.sample(low := sorted(values)[:-1], len(low)), max(values)],
}
KEYS: dict[str, Callable[[int], int] | None] = {
    "no key": None,
    "repeating key": lambda at: at // 3,
    "key": lambda at: at,
}
COMBINATIONS = [(order, key) for order in ORDERS for key in KEYS]


def draw_table(order: str, key: str, seed: int) -> list[Row]:
    """Return people with 4 to 14 rows each. Values, and groups too, go with the order of the rows."""
    chance = random.Random(f"{order} {key} {seed}")
    find_key = KEYS[key]
    rows = []
    for person in range(PEOPLE):
        count = chance.randrange(4, 15)
        values = [round(chance.choice([chance.uniform(0, 20), chance.paretovariate(1) % 100]), 1) for _ in range(count)]
        for at, value in enumerate(ORDERS[order](values, chance)):
            group = chance.choice(GROUPS) if chance.random() < 0.5 else GROUPS[at * len(GROUPS) // count]
            row = {"id": person, "v": value, "grp": group}
            rows.append(row if find_key is None else {**row, "k": find_key(at)})
    return rows


def declare(rows: list[Row], m: int, **columns: dict[str, Any]) -> dict[str, Any]:
    kinds = {
        "id": {"type": "integer"},
        "k": {"type": "integer"},
        "v": {"type": "decimal", "bounds": [0, 100], "resolution": 0.1},
        "grp": {"type": "category", "values": list(GROUPS)},
        **columns,
    }
    facts = {"columns": {name: kinds[name] for name in rows[0]}, **({"row_key": "k"} if "k" in rows[0] else {})}
    return {"table": "t", "individuals": 20_000, "unit": "id", "max_rows_per_unit": m, "reviewed": True, **facts}


def release(rows: list[Row], path: Path) -> dict[str, list[float]]:
    """Return COUNT, SUM, AVG and MEDIAN of every group, released at ε = 10⁶."""
    with (
        Dataset.open(pa.Table.from_pylist(rows), schema=declare(rows, M), table="t") as dataset,
        Ledger.open(path) as ledger,
    ):
        answer = dataset.release(SQL, ledger=ledger, epsilon=1e6, policy="budget:1e9")
    assert answer.answer is not None
    found: list[list[Any]] = [list(row.values()) for row in answer.answer]
    return {group: [float(cell) for cell in cells] for group, *cells in found}


def measure(rows: list[Row], chosen: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return COUNT, SUM, AVG and MEDIAN of every group for each choice: DRAWS × 4."""
    values, groups = np.array([row["v"] for row in rows]), np.array([row["grp"] for row in rows])
    found = {}
    for group in GROUPS:
        kept = np.where(chosen & (groups == group), values, np.nan)
        ways = (
            np.isfinite(kept).sum(axis=1),
            np.nansum(kept, axis=1),
            np.nanmean(kept, axis=1),
            np.nanmedian(kept, axis=1),
        )
        found[group] = np.stack(ways, axis=1)
    return found


def draw_choices(rows: list[Row], seed: int) -> np.ndarray[Any, Any]:
    """Return random choices of m rows of everybody: DRAWS × rows, true where a row is kept."""
    chance = np.random.default_rng(seed)
    order = chance.random((DRAWS, len(rows)))
    owners = np.array([row["id"] for row in rows])
    chosen = np.zeros(order.shape, dtype=bool)
    for person in range(PEOPLE):
        places = np.flatnonzero(owners == person)
        ranks = order[:, places].argsort(axis=1).argsort(axis=1)
        chosen[:, places] = ranks < M
    return chosen


@pytest.mark.parametrize("seeds", [settings().max_examples // 4, pytest.param(23, marks=pytest.mark.long)])
def test_answers_are_those_of_random_choices(seeds: int, tmp_path: Path) -> None:
    """COUNT, SUM, AVG and MEDIAN by group, of many tables: each is as far off as a random choice, on average 0.

    For every order and every kind of key the scores, in standard deviations, of a kind of number add up to less than
    4.5 √(how many there are), and each of the 12 scores of a table is below 6: α = 2·10⁻⁴ with the 90 tables
    of a run in which all is required. The long run has 207 tables, a quick one 36.
    """
    scores: dict[tuple[str, int], list[float]] = {}
    for number, ((order, key), seed) in enumerate(product(COMBINATIONS, range(seeds))):
        rows = draw_table(order, key, seed)
        found = release(rows, tmp_path / f"{number}.db")
        drawn = measure(rows, draw_choices(rows, number))
        for group in GROUPS:
            usual = drawn[group]
            score = (np.array(found[group]) - usual.mean(axis=0)) / usual.std(axis=0)
            for place, value in enumerate(score):
                for part in (order, key):
                    scores.setdefault((part, place), []).append(float(value))
    assert max(abs(score) for each in scores.values() for score in each) < 6.0
    for name, each in scores.items():
        assert abs(sum(each)) < 4.5 * math.sqrt(len(each)), name


@pytest.mark.parametrize("m", [1, 2, 5])
def test_nine_zeros_and_one_hundred(m: int) -> None:
    """Of rows that agree in every cell each one counts: the average is 10, within 4.5 deviations (α = 7·10⁻⁶)."""
    people = 4_000
    rows = [{"id": person, "v": 0.0 if at < 9 else 100.0} for person in range(people) for at in range(10)]
    with Dataset.open(pa.Table.from_pylist(rows), schema=declare(rows, m), table="t") as dataset:
        ((total, count),) = dataset.risk("SELECT SUM(v), COUNT(*) FROM t").measured().values
    assert count == m * people
    share = m / 10  # of the people, their 100 is kept
    assert abs(float(total) / 100 - people * share) < 4.5 * math.sqrt(people * share * (1 - share))


NUMBERED: dict[str, tuple[str, Callable[[int], Any]]] = {
    "integer": ("integer", lambda at: at),
    "far apart": ("integer", lambda at: at * 2**32 + at),
    "negative": ("integer", lambda at: -at),
    "cents": ("decimal", lambda at: at / 100),
    "tiny": ("decimal", lambda at: at * 1e-9),
    "whole": ("decimal", lambda at: at * 4096.0),
    "large": ("decimal", lambda at: at * 1e15),
    "date": ("date", lambda at: date(2024, 1, 1) + timedelta(days=at)),
    "timestamp": ("timestamp", lambda at: datetime(2024, 1, 1) + timedelta(hours=at)),  # noqa: DTZ001
    "text": ("text", lambda at: f"row {at}"),
    "alike": ("integer", lambda _: 7),
    "beyond all steps": ("decimal", lambda at: (1 + at) * 1e200),
}
UNITS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "numbers": ("integer", lambda at: at),
    "thousands": ("integer", lambda at: at * 1000),
    "texts": ("text", lambda at: f"p{at}"),
    "high bits": ("integer", lambda at: at * 2**32 + 7),
    "sites": ("integer", lambda at: (at // 50 << 40) + (at % 50 << 33)),
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("cells", NUMBERED)
def test_every_row_is_as_likely_as_any_other(cells: str, unit: str) -> None:
    """Rows numbered 0 to 7 of 5,000 people of whom 3 count: each of the 56 choices equally often (χ², α = 10⁻⁶).

    Of rows that are alike, exactly 3 count.
    """
    people, each, m = 5_000, 8, 3
    kind, cell = NUMBERED[cells]
    owner_kind, owner = UNITS[unit]
    rows = [{"id": owner(person), "x": cell(at)} for person in range(people) for at in range(each)]
    facts = declare(rows, m, id={"type": owner_kind}, x={"type": kind})
    with Dataset.open(pa.Table.from_pylist(rows), schema=facts, table="t") as dataset:
        kept = dataset.engine.fetch(exp.select("*").from_(dataset.tables.cut(None))).to_pylist()
    if cells == "alike":
        assert Counter(Counter(row["id"] for row in kept).values()) == {m: people}
        return
    places = {cell(at): at for at in range(each)}
    chosen: dict[Any, list[int]] = {}
    for row in kept:
        chosen.setdefault(row["id"], []).append(places[row["x"]])
    sets = Counter(frozenset(own) for own in chosen.values())
    assert all(len(own) == m for own in sets)
    wanted = math.comb(each, m)
    frequencies = [*sets.values(), *[0] * (wanted - len(sets))]
    assert stats.chisquare(frequencies).pvalue > 1e-6


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_only_ones_own_rows_matter(seed: int) -> None:
    """Without somebody, or with the table in another order, everybody else keeps the rows they kept."""
    chance = random.Random(seed)
    rows = [
        {"id": chance.randrange(6), "v": chance.choice([0.0, 0.1, 7.5, None]), "grp": chance.choice([*GROUPS, None])}
        for _ in range(120)
    ]
    facts = declare(rows, 1 + seed)

    def keep(table: list[Row]) -> Counter[tuple[Any, ...]]:
        with Dataset.open(pa.Table.from_pylist(table), schema=facts, table="t") as dataset:
            found = dataset.engine.fetch(exp.select("*").from_(dataset.tables.cut(None))).to_pylist()
        return Counter(tuple(row.values()) for row in found)

    everybody = keep(rows)
    assert everybody == keep(chance.sample(rows, len(rows)))
    assert everybody == Counter(tuple(row.values()) for row in rows_that_count(rows, facts["columns"], "id", 1 + seed))
    for person in range(6):
        others = Counter({row: count for row, count in everybody.items() if row[0] != person})
        assert keep([row for row in rows if row["id"] != person]) == others
