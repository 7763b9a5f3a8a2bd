"""Neighbouring tables, opened in every source: with everybody, and without one individual. Takes cases; gives datasets.

``check_neighbours`` is what every case must show: both tables are answered, the exact vector is what the oracle says,
and it moves by no more than Δ in either norm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Dataset, Ledger
from dosimeter.influence import DeclaredTables, Profile, measure_exactly
from dosimeter.influence.rows.row_profile import Measured
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan
from tests.conformance.engine_cases import SERVER
from tests.conformance.odd_cases import MODES, REMOVED, Case
from tests.conformance.odd_sources import Tables, Written, write_source
from tests.conformance.odd_tables import (
    GROUPS,
    SOURCES,
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
from tests.earlier_releases import noise_for_quantiles
from tests.oracle.leaving_out import size_of
from tests.rows_that_count import rows_that_count

MOST_OPEN = 60
LABS_ROWS = 2
SPARK = tuple(source for source in SOURCES if source.startswith("spark"))
OTHERS = tuple(source for source in SOURCES if source not in SPARK)


@dataclass(frozen=True)
class Population:
    """The raw rows of all tables, with everybody or without one individual."""

    source: str
    rows: tuple[Row, ...]
    labs: tuple[Row, ...]
    missing: Set[int]  # the places of the rows that are left out

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
        if case.join == "labs":
            columns = declare_case(case)["tables"]["labs"]["columns"]
            found["labs"] = rows_that_count(labs, columns, MODES[case.mode].unit, LABS_ROWS)
        return found


def typed_columns(source: str) -> tuple[OddColumn, ...]:
    return (*columns_of(source), *plain_columns(source))


def populate(source: str, unit: str, removed: str | None) -> Population:
    """Return everybody, or everybody but one: a row, or all rows of a person in every table."""
    places, person = ((), None) if removed is None else REMOVED[removed]
    rows, labs = build_rows(source), build_labs(source)
    if unit != "row":
        places = tuple(at for at, row in enumerate(rows) if row["who"] == person)
        labs = [lab for lab in labs if lab["who"] != person]
    kept = [row for at, row in enumerate(rows) if at not in places]
    return Population(source, tuple(kept), tuple(labs), frozenset(places))


# ---------------------------------------------------------------- opening


@dataclass(repr=False)  # Polars cannot print days outside its years
class Worlds:
    """Opened datasets, each with a ledger of its own. Of many the oldest are closed: servers have few connections."""

    folder: Path
    connect: Callable[[], Any]
    start_spark: Callable[[], object]
    written: dict[Any, Written] = field(default_factory=dict)
    ledgers: dict[Any, Path] = field(default_factory=dict)
    datasets: dict[Any, tuple[Dataset, Ledger]] = field(default_factory=dict)

    def open(self, case: Case, removed: str | None) -> tuple[Dataset, Ledger]:
        joined = case.join.split(",")[0]
        key = (case.source, tuple(column.name for column in case.declared), case.mode, joined, removed)
        if key not in self.datasets:
            if case.source in SPARK:
                self.start_spark()
            rates = case.odd if joined == "rates" else None
            written = self.write(case.source, removed, MODES[case.mode].unit, rates)
            facts = declare_case(case)
            for name, path in written.located.items():
                if name in facts["tables"]:
                    facts["tables"][name]["source"] = path
            tables = {name: table for name, table in written.tables.items() if name in facts["tables"]}
            options = {**written.options, **({"tables": tables} if tables else {})}
            self.close(MOST_OPEN - 1)
            dataset = Dataset.open(written.source, schema=facts, **options)
            kept = self.ledgers.setdefault(key, self.folder / f"ledger{len(self.ledgers)}.db")
            self.datasets[key] = dataset, Ledger.open(kept)
        return self.datasets[key]

    def close(self, kept: int = 0) -> None:
        """Close all but the newest datasets."""
        for key in list(self.datasets)[: max(len(self.datasets) - kept, 0)]:
            for each in self.datasets.pop(key):
                each.close()

    def write(self, source: str, removed: str | None, unit: str = "row", rates: OddColumn | None = None) -> Written:
        """Write the tables of a source once for everybody, and once for each neighbour."""
        key = (source, unit == "row" and removed is not None, removed, rates and rates.name)
        if key not in self.written:
            place = self.folder / f"odd{len(self.written)}_{id(self) % 10**6}"
            self.written[key] = write_source(
                source, list_tables(populate(source, unit, removed), rates), place, self.connect
            )
        return self.written[key]


def mark(case: Case, *more: pytest.MarkDecorator) -> Any:
    return pytest.param(case, id=str(case), marks=[*marks_of(case.source), *more])


def marks_of(source: str) -> Sequence[pytest.MarkDecorator]:
    """Keep the cases of a source on one worker, which then writes its tables once; servers have a worker of theirs."""
    served = source == "postgres" or source in SPARK
    return SERVER if served else [pytest.mark.xdist_group(f"odd cells in {source}")]


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


def declare_case(case: Case) -> dict[str, Any]:
    """Return the schema of a case: the odd columns that it asks of, and the table that it joins."""
    mode, odd, joined = MODES[case.mode], case.odd, case.join.split(",")[0]
    text, whole, small = {"type": "text"}, {"type": "integer"}, {"type": "integer", "bounds": [0, 9]}
    columns = {"who": text, "z": small, "grp": {"type": "category", "values": list(GROUPS)}}
    columns |= {column.name: declare(column) for column in case.declared}
    if joined == "sites":
        columns["site"] = small
    if mode.row_key is None:
        facts: dict[str, Any] = {}
    else:
        columns |= {mode.unit: whole if mode.unit == "uid" else text, mode.row_key: whole}
        facts = {"unit": mode.unit, "row_key": mode.row_key, "max_rows_per_unit": mode.m}
    tables: dict[str, Any] = {}
    match joined:
        case "sites":
            tables["sites"] = {"public": True, "key": "site", "columns": {"site": small, "beds": small}}
        case "rates":
            tables["rates"] = {"public": True, "key": "rate", "columns": {"rate": declare(odd), "tier": small}}
        case "labs":
            own = {mode.unit: columns[mode.unit], "lab": text, "points": small, odd.name: declare(odd)}
            tables["labs"] = {"unit": mode.unit, "row_key": "lab", "max_rows_per_unit": LABS_ROWS, "columns": own}
    return {
        "table": "t", "individuals": mode.individuals, "reviewed": True, "columns": columns, "tables": tables, **facts,
    }  # fmt: skip


# ---------------------------------------------------------------- what every case shows


Vector = list[Fraction | float]


def release(dataset: Dataset, ledger: Ledger, sql: str, min_rows: int | None) -> tuple[QueryPlan, Measured]:
    """Release an answer, and return the exact vector that got the noise."""
    seen: list[tuple[QueryPlan, Measured]] = []

    def measure(plan: QueryPlan, tables: DeclaredTables, profile: Profile | None, *, late: bool) -> Measured:
        seen.append((plan, measure_exactly(plan, tables, profile, late=late)))
        return seen[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dosimeter.release.ways.fixed.measure_exactly", measure)
        answer = dataset.release(
            sql, ledger=ledger, epsilon=0.5, policy="budget:1000000", min_rows=min_rows, again=True
        )
    assert answer.status == "released", sql
    assert len(seen) == 1
    return seen[0]


def check_neighbours(worlds: Worlds, case: Case) -> None:
    """Both tables are answered, the oracle gives the same vectors, and the two are at most Δ apart."""
    with noise_for_quantiles():
        (plan, everybody), (other, fewer) = (
            release(*worlds.open(case, removed), case.query.sql, case.min_rows) for removed in (None, case.removed)
        )
    assert fewer.keys == everybody.keys
    assert everybody.keys
    assert not any(value is None for key in everybody.keys for value in key)
    assert [other.sensitivity(1), other.sensitivity(2)] == [plan.sensitivity(1), plan.sensitivity(2)]
    check_oracle(case, everybody.keys, [flatten(everybody), flatten(fewer)])
    check_distance(plan, everybody, fewer)


def flatten(measured: Measured) -> Vector:
    return [value for row in measured.values for value in row]


def check_distance(plan: QueryPlan, first: Measured, second: Measured) -> None:
    """Compare how far neighbours are apart with Δ, in both norms."""
    norms: tuple[Norm, ...] = (1, 2)
    for norm in norms:
        apart = distance(plan, flatten(first), flatten(second), norm)
        assert apart <= plan.sensitivity(norm) * (1 + 1e-9), norm


def choose_rows(case: Case, rows: list[Row]) -> list[Row]:
    """Return the rows that count (N6)."""
    mode = MODES[case.mode]
    return rows if mode.unit == "row" else rows_that_count(rows, declare_case(case)["columns"], mode.unit, mode.m)


def check_oracle(case: Case, keys: Sequence[tuple[Any, ...]], found: Sequence[Vector]) -> None:
    """The rows that count explain both tables: who counts in the smaller one is not chosen again."""
    unit, query = MODES[case.mode].unit, case.query
    everybody, fewer = (populate(case.source, unit, removed) for removed in (None, case.removed))
    rows = everybody.cleaned()
    chosen = choose_rows(case, rows)
    left_out = {id(rows[at]) for at in fewer.missing}
    kept = [row for row in chosen if id(row) not in left_out]
    tables = (case.combine(chosen, everybody.others(case)), case.combine(kept, fewer.others(case)))
    expected = [query.measure(table, keys) for table in tables]
    assert found == expected, query.sql


def distance(plan: QueryPlan, first: Vector, second: Vector, norm: Norm) -> float:
    """Return how far two vectors are apart in the units of the norm (S5)."""
    weights = plan.weights(norm)
    changes = [float(a - b) * weights[at % len(weights)] for at, (a, b) in enumerate(zip(first, second, strict=True))]
    return size_of(tuple(changes), norm)
