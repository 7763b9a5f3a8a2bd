"""One row or value chosen for each individual, and the time between their rows: what plain Python finds in these rows.

The tables are odd: repeated row keys, cells out of bounds, NaN, NULL, more rows than declared. Everybody's own rows are
judged by themselves, so that what somebody moves is their own part; and everybody is really deleted in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.oracle.leaving_out import Vector, assert_same_people, check_deletion, everybody_there, expand
from tests.oracle.people_tables import WARDS, Row, Tables, draw_tables

SEEDS = [seed for seed in range(60) if draw_tables(seed, odd=True).m in (3, 5)][:8]
Own = list[tuple[str | None, tuple[int, int]]]
"""What one individual's rows give: each a group, a number of rows and a sum."""


def rows_of(tables: Tables) -> dict[str, list[Row]]:
    """Return everybody's rows that count, with odd cells as NULL (N4)."""
    costs = [row["cost"] for row in tables.visits]
    known = [cost if cost is not None and math.isfinite(cost) else None for cost in costs]
    visits = [{**row, "cost": cost} for row, cost in zip(tables.visits, known, strict=True)]
    kept = replace(tables, visits=visits).counted()
    return {person: [row for row in kept if row["pid"] == person] for person in tables.people}


def clamp(x: int | None) -> int:
    return 0 if x is None else min(max(x, -2), 6)


def place(*cells: Any) -> tuple[Any, ...]:
    """Return a key that orders rows by these cells, NULL last."""
    return tuple((cell is None, 0 if cell is None else cell) for cell in cells)


def last_and_cheapest(rows: list[Row]) -> Own:
    """The ward of the last day, and the smallest x of the cheapest sick row; of equal rows the smallest key."""
    dated = [row for row in rows if row["ward"] is not None and row["d"] is not None]
    sick = [row for row in rows if row["sick"] and row["x"] is not None and row["cost"] is not None]
    last = min(dated, key=lambda row: (-row["d"].toordinal(), row["vid"], row["ward"]), default=None)
    cheapest = min(sick, key=lambda row: (row["cost"], row["vid"], place(row["ward"]), row["x"]), default=None)
    ward, x = None if last is None else last["ward"], None if cheapest is None else cheapest["x"]
    return [(ward, (1, clamp(x)))] if rows else []


def last_row(rows: list[Row]) -> Own:
    known = [row for row in rows if row["x"] is not None and row["x"] > 0]
    days = {id(row): None if row["d"] is None else -row["d"].toordinal() for row in known}
    found = min(known, key=lambda row: place(days[id(row)], row["vid"], row["ward"], row["x"]), default=None)
    return [] if found is None else [(found["ward"], (1, clamp(found["x"])))]


def most_frequent(rows: list[Row]) -> Own:
    """The ward with most rows, NULL being a ward; of several the first in the alphabet, NULL last."""
    counts: dict[str | None, int] = {}
    for row in rows:
        counts[row["ward"]] = counts.get(row["ward"], 0) + 1
    ward = min(counts, key=lambda each: (-counts[each], place(each)), default=None)
    return [(ward, (1, counts[ward]))] if counts else []


def soon_again(rows: list[Row]) -> Own:
    """The rows within 20 days after the row before."""
    ordered = sorted(rows, key=lambda row: place(row["d"], row["vid"], row["ward"], row["x"]))
    days = [row["d"] for row in ordered]
    return [
        (row["ward"], (1, clamp(row["x"])))
        for row, day, before in zip(ordered[1:], days[1:], days, strict=False)
        if day is not None and before is not None and day - before < timedelta(days=20)
    ]


FORMS: dict[str, Callable[[list[Row]], Own]] = {
    "SELECT w, COUNT(*), SUM(v) FROM (SELECT pid, ARG_MAX(ward, d) AS w, MIN_BY(x, cost) FILTER (WHERE sick) AS v FROM "
    "visits GROUP BY pid) t GROUP BY w": last_and_cheapest,
    "SELECT ward, COUNT(*), SUM(x) FROM (SELECT DISTINCT ON (pid) pid, ward, x FROM visits WHERE x > 0 ORDER BY pid, d "
    "DESC) t GROUP BY ward": last_row,
    "SELECT ward, COUNT(*), SUM(n) FROM (SELECT DISTINCT ON (pid) pid, ward, COUNT(*) AS n FROM visits GROUP BY pid, "
    "ward ORDER BY pid, n DESC) t GROUP BY ward": most_frequent,
    "SELECT ward, COUNT(*), SUM(x) FROM (SELECT ward, x, CAST(d AS TIMESTAMP) - LAG(CAST(d AS TIMESTAMP)) OVER "
    "(PARTITION BY pid ORDER BY d) AS gap FROM visits) t WHERE gap < INTERVAL 20 DAY GROUP BY ward": soon_again,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sql", FORMS, ids=[each.__name__ for each in FORMS.values()])
def test_what_is_chosen_is_what_python_finds(sql: str, seed: int) -> None:
    tables = draw_tables(seed, odd=True)
    own = {person: FORMS[sql](rows) for person, rows in rows_of(tables).items()}
    with ExitStack() as opened:
        whole, *fewer = (opened.enter_context(each.open()) for each in (tables, *tables.delete_each()))
        risk = whole.risk(sql)
        measured = risk.measured()
        check_deletion(risk, fewer)
    weights = risk.plan.weights(risk.mechanism.norm)
    places = {key: at for at, (key,) in enumerate(measured.keys)}
    assert set(places) == set(WARDS)
    parts: dict[str, Vector] = {}
    for person, found in own.items():
        part = [0.0] * (2 * len(places))
        for ward, numbers in found:
            for at, number in enumerate(numbers if ward in places else ()):
                part[2 * places[ward] + at] += number * weights[at]
        parts[person] = tuple(part)
    exact = [float(value) * weight for row in measured.values for value, weight in zip(row, weights, strict=True)]
    assert exact == pytest.approx([sum(part[at] for part in parts.values()) for at in range(len(exact))])
    assert_same_people(expand(risk.contributions), everybody_there(parts.values(), risk))


def test_the_tables_have_something_to_choose_from() -> None:
    """Ties in the order, values without a place, people without any row to choose."""
    found = [FORMS[sql] for sql in FORMS]
    chosen = {each.__name__: 0 for each in found}
    ties = 0
    for seed in SEEDS:
        for rows in rows_of(draw_tables(seed, odd=True)).values():
            ties += len(rows) - len({row["d"] for row in rows})
            for each in found:
                chosen[each.__name__] += len(each(rows))
    assert ties >= 3
    assert min(chosen.values()) >= 3
