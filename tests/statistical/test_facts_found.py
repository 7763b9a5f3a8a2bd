"""A search for facts keeps its promise (B2): 200 runs on each of ten tables whose extremes are known, and on Adult."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.release.facts.found import make_schema
from dosimeter.release.facts.questions import FactSearch
from dosimeter.release.facts.spending import Drawing
from dosimeter.schema import Column, ColumnType, Schema
from tests.fact_tables import KnownTable, holds, is_narrow, list_known_tables, list_numbers, promise_search

RUNS, KEPT = 200, 0.95  # if the true chance were 98 %, this would fail in 0.4 % of all runs of the test
TABLES = list_known_tables()


def _find(dataset: Dataset, search: FactSearch) -> Schema:
    return make_schema(search, list(Drawing(dataset.engine, search, lambda words: None).list_facts()), "0")


@pytest.fixture(params=[*TABLES, None], ids=[*(known.name for known in TABLES), "adult"])
def known(request: pytest.FixtureRequest) -> KnownTable:
    generated: KnownTable | None = request.param
    if generated is not None:
        return generated
    path: Path = request.getfixturevalue("adult_train")
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    names = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
    columns = {name: Column(name, ColumnType.INTEGER) for name in names}
    table = pa.table({name: [int(row[name]) for row in rows] for name in names})
    return KnownTable("adult", table, Schema("known", columns, reviewed=True))


@pytest.mark.long
def test_bounds_hold_nearly_all_values_and_are_not_too_wide(known: KnownTable) -> None:
    search = promise_search(known)
    values = {column.name: list_numbers(known, column) for column in known.searched}
    held, narrow, rows = dict.fromkeys(values, 0), dict.fromkeys(values, 0), 0
    with Dataset.open(known.table, schema=known.declared, table="known") as dataset:
        for _ in range(RUNS):
            found = _find(dataset, search)
            for name, own in values.items():
                held[name] += holds(found.columns[name], own)
                narrow[name] += is_narrow(found.columns[name], own)
            if known.rows_each is not None:
                wanted = np.quantile(known.rows_each, 0.95, method="inverted_cdf")
                rows += wanted <= found.max_rows_per_unit <= 2 * wanted
    assert min(held.values()) >= KEPT * RUNS, held
    assert min(narrow.values()) >= KEPT * RUNS, narrow
    assert known.rows_each is None or rows >= KEPT * RUNS
