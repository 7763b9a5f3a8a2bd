"""Neighbouring tables, opened in every source: with everybody, and without one individual. Takes cases; gives datasets.

``check_neighbours`` is what every case must show: both tables are answered, the exact vector is what the oracle says,
and it moves by no more than Δ in either norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from odd_cases import MODES, REMOVED, Case
from odd_sources import Tables, Written, write_source
from odd_tables import (
    GROUPS,
    OddColumn,
    Row,
    build_labs,
    build_rates,
    build_rows,
    build_sites,
    clean_rows,
    columns_of,
    declare,
    plain_columns,
)

from dosimeter import Dataset, Ledger
from dosimeter.influence import measure_exactly
from dosimeter.model import Norm, QueryPlan
from dosimeter.plan import PlanOptions
from dosimeter.sensitivity import Measured

LABS_ROWS = 2


@dataclass(frozen=True)
class Population:
    """The raw rows of all tables, with everybody or without one individual."""

    source: str
    rows: tuple[Row, ...]
    labs: tuple[Row, ...]

    def cleaned(self) -> list[Row]:
        return clean_rows(self.rows, typed_columns(self.source))

    def others(self, case: Case) -> dict[str, list[Row]]:
        """Return the cleaned tables that a case may join; of ``labs`` the rows that count."""
        integer = plain_columns(self.source)[-1]
        labs = clean_rows(self.labs, (*typed_columns(self.source), replace(integer, name="points")))
        rates = (replace(case.odd, name="rate"), replace(integer, name="tier"))
        found = {
            "sites": clean_rows(build_sites(self.source), (integer, replace(integer, name="beds"))),
            "rates": clean_rows(build_rates(self.source, case.odd), rates),
        }
        if MODES[case.mode].unit != "row":
            (found["labs"],) = count_labs(labs, MODES[case.mode].unit)
        return found


def count_labs(labs: Sequence[Row], unit: str) -> list[list[Row]]:
    from odd_meanings import possible_rows

    return list(possible_rows(labs, unit, "lab", LABS_ROWS))


def typed_columns(source: str) -> tuple[OddColumn, ...]:
    return (*columns_of(source), *plain_columns(source))


def populate(source: str, unit: str, removed: str | None) -> Population:
    """Return everybody, or everybody but one: a row, or all rows of a person in every table."""
    rows, labs = build_rows(source), build_labs(source)
    if removed is None:
        return Population(source, tuple(rows), tuple(labs))
    places, person = REMOVED[removed]
    if unit == "row":
        kept = [row for at, row in enumerate(rows) if at not in places]
        return Population(source, tuple(kept), tuple(labs))
    kept = [row for row in rows if row["who"] != person]
    return Population(source, tuple(kept), tuple(lab for lab in labs if lab["who"] != person))


# ---------------------------------------------------------------- opening


@dataclass
class Worlds:
    """Opened datasets, each with a ledger of its own, kept until the tests are over."""

    folder: Path
    connect: Callable[[], Any]
    opened: ExitStack
    written: dict[Any, Written] = field(default_factory=dict)
    datasets: dict[Any, tuple[Dataset, Ledger]] = field(default_factory=dict)

    def open(self, case: Case, removed: str | None) -> tuple[Dataset, Ledger]:
        mode = MODES[case.mode]
        joined = case.join.split(",")[0]
        rates = case.column if joined == "rates" else None
        key = (case.source, case.mode, joined, rates, removed)
        if key not in self.datasets:
            written = self._write(case, removed, rates)
            facts = declare_facts(case.source, case.mode, joined, case.odd)
            for name, path in written.located.items():
                if name in facts["tables"]:
                    facts["tables"][name]["source"] = path
            tables = {name: table for name, table in written.tables.items() if name in facts["tables"]}
            options = {**written.options, **({"tables": tables} if tables else {})}
            dataset = self.opened.enter_context(Dataset.open(written.source, schema=facts, **options))
            ledger = self.opened.enter_context(Ledger.open(self.folder / f"ledger{len(self.datasets)}.db"))
            assert (mode.unit == "row") == (dataset.schema.unit == "row")
            self.datasets[key] = dataset, ledger
        return self.datasets[key]

    def _write(self, case: Case, removed: str | None, rates: str | None) -> Written:
        by_row = MODES[case.mode].unit == "row"
        key = (case.source, by_row and removed is not None, removed, rates)
        if key not in self.written:
            place = self.folder / f"odd{len(self.written)}_{id(self) % 10**6}"
            tables = list_tables(populate(case.source, MODES[case.mode].unit, removed), case.odd if rates else None)
            self.written[key] = write_source(case.source, tables, place, self.connect)
        return self.written[key]


def list_tables(population: Population, rates: OddColumn | None) -> Tables:
    source, columns = population.source, typed_columns(population.source)
    integer = plain_columns(source)[-1]
    tables = {
        "t": (population.rows, columns),
        "labs": (population.labs, (*columns, replace(integer, name="points"))),
        "sites": (build_sites(source), (integer, replace(integer, name="beds"))),
    }
    if rates is not None:
        kinds = (replace(rates, name="rate"), replace(integer, name="tier"))
        tables["rates"] = (build_rates(source, rates), kinds)
    return tables


def declare_facts(source: str, mode_name: str, joined: str, odd: OddColumn) -> dict[str, Any]:
    """Return the schema: the odd columns, what stands beside them, and the table that is joined."""
    mode = MODES[mode_name]
    texts = {name: {"type": "text"} for name in ("who", "member")}
    integers = {name: {"type": "integer"} for name in ("uid", "rk", "rk_odd")}
    small = {"type": "integer", "bounds": [0, 9]}
    odds = {column.name: declare(column) for column in columns_of(source)}
    facts: dict[str, Any] = {
        "table": "t",
        "individuals": mode.individuals,
        "reviewed": True,
        "columns": {
            **texts, **integers, "z": small, "site": small, "grp": {"type": "category", "values": list(GROUPS)}, **odds,
        },
        "tables": {},
    }  # fmt: skip
    if mode.row_key is not None:
        facts |= {"unit": mode.unit, "row_key": mode.row_key, "max_rows_per_unit": mode.m}
    match joined:
        case "sites":
            facts["tables"]["sites"] = {"public": True, "key": "site", "columns": {"site": small, "beds": small}}
        case "rates":
            columns = {"rate": declare(odd), "tier": small}
            facts["tables"]["rates"] = {"public": True, "key": "rate", "columns": columns}
        case "labs":
            own = {"who": texts["who"], "member": texts["who"], "uid": {"type": "integer"}, "lab": {"type": "text"}}
            facts["tables"]["labs"] = {
                "unit": mode.unit, "row_key": "lab", "max_rows_per_unit": LABS_ROWS,
                "columns": {**own, "points": small, **odds},
            }  # fmt: skip
    return facts


# ---------------------------------------------------------------- what every case shows


Vector = list[list[Fraction]]


def measure(dataset: Dataset, case: Case) -> tuple[QueryPlan, Measured]:
    """Return the product's own exact vector, before noise."""
    plan = dataset.plan(case.sql, PlanOptions(min_rows=case.min_rows))
    return plan, measure_exactly(plan, dataset.engine_for(plan), None)


def check_neighbours(worlds: Worlds, case: Case) -> None:
    """Both tables are answered, the oracle gives the same vectors, and the two are at most Δ apart."""
    found: list[Vector] = []
    keys: tuple[tuple[Any, ...], ...] = ()
    plan: QueryPlan | None = None
    for removed in (None, case.removed):
        dataset, ledger = worlds.open(case, removed)
        answer = dataset.release(case.sql, ledger=ledger, epsilon=0.5, policy="budget:1000000", min_rows=case.min_rows)
        assert answer.status == "released", (removed, case.sql)
        plan, measured = measure(dataset, case)
        assert removed is None or measured.keys == keys
        keys = measured.keys
        found.append([list(row) for row in measured.values])
    assert plan is not None
    assert keys
    assert not any(value is None for key in keys for value in key)
    check_oracle(case, keys, found)
    for norm in (1, 2):
        moved = distance(plan, found[0], found[1], norm)
        assert moved <= plan.sensitivity(norm) * (1 + 1e-9), (norm, moved, plan.sensitivity(norm), case.sql)


def check_oracle(case: Case, keys: Sequence[tuple[Any, ...]], found: Sequence[Vector]) -> None:
    """One choice of the rows that count explains both tables: it depends on each individual's own rows alone."""
    unit = MODES[case.mode].unit
    everybody, fewer = (populate(case.source, unit, removed) for removed in (None, case.removed))
    rows, others = everybody.cleaned(), everybody.others(case)
    left_out = _places(everybody, fewer)
    seen: list[Vector] = []
    for chosen in case.possible(rows):
        vector = case.measure(chosen, others, keys)
        if vector != found[0]:
            seen.append(vector)
            continue
        kept = [row for row in chosen if not any(row is rows[at] for at in left_out)]
        if case.measure(kept, fewer.others(case), keys) == found[1]:
            return
        seen.append(case.measure(kept, fewer.others(case), keys))
    raise AssertionError(f"{case.sql}\nthe product measures {_show(found)}\nthe oracle {_show(seen[:3])}")


def _places(everybody: Population, fewer: Population) -> list[int]:
    """Return which rows the smaller table lacks: rows are compared by who and where they stand, not by odd cells."""
    names = [(row["who"], row["z"], row["site"], row["rk"], row["grp"]) for row in fewer.rows]
    missing = []
    for at, row in enumerate(everybody.rows):
        name = (row["who"], row["z"], row["site"], row["rk"], row["grp"])
        if name in names:
            names.remove(name)
        else:
            missing.append(at)
    return missing


def _show(vectors: Sequence[Vector]) -> str:
    return "; ".join(str([[str(value) for value in row] for row in vector]) for vector in vectors)


def distance(plan: QueryPlan, first: Vector, second: Vector, norm: Norm) -> float:
    """Return how far two vectors are apart in the units of the norm (S5)."""
    weights = plan.weights(norm)
    changes = [
        float(a - b) * weight
        for row, other in zip(first, second, strict=True)
        for a, b, weight in zip(row, other, weights, strict=True)
    ]
    return math.fsum(map(abs, changes)) if norm == 1 else math.sqrt(math.fsum(np.square(changes)))


def no_postgres() -> Any:
    raise AssertionError("a case of PostgreSQL opens its own")


def describe_facts(facts: Mapping[str, Any]) -> list[str]:
    return sorted(facts["columns"])
