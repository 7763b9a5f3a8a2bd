"""Dataset and Risk in Python: tables in memory, the most exposed, pictures, and what may be printed by accident."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dosimeter import Choice, Dataset, Ledger, Risk
from dosimeter.findings.on_left_out import OutsideGroups
from dosimeter.schema.facts import ColumnType
from tests.schemas import category, declare, plain, whole

SUM = "SELECT SUM(age) FROM data"
COLUMNS: dict[str, list[Any]] = {
    "name": ["Ann", "Bob", "Cleo", "Dan", "Zara"],
    "age": [30, 40, 40, None, 90],
    "ward": ["east", "east", "west", "west", "north"],
    "pay": [10.5, 20.25, 30.0, None, 99.75],
    "ill": [True, False, True, False, None],
    "since": [date(2020, 1, 1), date(2020, 6, 1), None, date(2021, 1, 1), date(2021, 12, 31)],
    "seen": [datetime(2020, 1, 1, 10), None, datetime(2020, 1, 2), datetime(2021, 1, 1), datetime(2021, 5, 5)],  # noqa: DTZ001
}
FACTS: dict[str, Any] = declare(
    "people",
    6,
    {"name": {"type": "text", "identifying": True}, "age": whole(0, 100), "ward": category("east", "north", "west")},
)


def make_arrow() -> pa.Table:
    return pa.table(COLUMNS)


TABLES: dict[str, Callable[[], Any]] = {
    "Arrow": make_arrow,
    "Arrow batch": lambda: make_arrow().to_batches()[0],
    "Arrow in chunks": lambda: pa.concat_tables([make_arrow().slice(0, 2), make_arrow().slice(2)]),
    "pandas": lambda: make_arrow().to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get),
    "pandas over Arrow": lambda: make_arrow().to_pandas(types_mapper=pd.ArrowDtype).set_axis(range(5, 10)),
    "Polars": lambda: pl.from_arrow(make_arrow()),
    "Polars, lazy": lambda: pl.from_arrow(make_arrow()).lazy(),  # type: ignore[union-attr]
}  # fmt: skip


# ---------------------------------------------------------------- tables in memory


@pytest.mark.parametrize("kind", TABLES)
def test_table_in_memory(kind: str) -> None:
    with Dataset.open(TABLES[kind]()) as dataset:
        risk = dataset.risk(SUM)
        assert risk.sensitivities.values.tolist() == [0.0, 30.0, 40.0, 90.0]
        assert risk.sensitivities.counts.tolist() == [1, 1, 2, 1]
        by_ward = dataset.risk("SELECT ward, COUNT(*) FROM data WHERE since >= DATE '2020-06-01' GROUP BY ward")
        assert (by_ward.k, by_ward.sensitivities.counts.tolist()) == (3, [2, 3])
        assert dataset.risk("SELECT COUNT(*) FROM data WHERE ill").sensitivities.counts.tolist() == [3, 2]
        assert dataset.risk("SELECT SUM(pay) FROM data").sensitivities.values[-1] == 99.75
        assert dataset.risk("SELECT COUNT(*) FROM data WHERE seen > TIMESTAMP '2020-06-01 00:00:00'").k == 1


OVER_NUMPY: dict[str, Callable[[dict[str, np.ndarray[Any, Any]]], Any]] = {
    "Arrow": pa.table,
    "Arrow batch": pa.record_batch,
    "Arrow, encoded": lambda arrays: pa.table(
        {"id": arrays["id"], "age": pa.DictionaryArray.from_arrays(arrays["place"], pa.array(arrays["age"]))}
    ),
    "pandas": lambda arrays: pd.DataFrame(arrays, copy=False),
    "Polars": lambda arrays: pl.DataFrame(arrays),
}


@pytest.mark.parametrize("kind", OVER_NUMPY)
def test_a_table_over_numpy_memory_is_measured_as_it_was_opened(kind: str, tmp_path: Path) -> None:
    """What is written into the arrays later is not measured under the digest of what they were."""
    arrays = {name: np.arange(1000, dtype=np.int64) for name in ("id", "age", "place")}
    arrays["age"] %= 100
    columns = {"id": plain("integer"), "age": whole(0, 100)}
    facts = declare("t", 1000, columns, unit="id", max_rows_per_unit=2, row_key="age")
    with (
        Dataset.open(OVER_NUMPY[kind](arrays), schema=facts, table="t") as dataset,
        Ledger.open(tmp_path / "ledger.db") as ledger,
    ):
        options: dict[str, Any] = {"ledger": ledger, "epsilon": 1e6, "policy": "budget:9e9"}
        assert dataset.release("SELECT SUM(age) AS s FROM t", **options).answer == [{"s": 49_500}]
        for array in arrays.values():
            array[:] = 7
        assert dataset.release("SELECT SUM(age) AS s FROM t WHERE age >= 0", **options).answer == [{"s": 49_500}]
        assert dataset.release("SELECT COUNT(*) AS n FROM t WHERE age <> 7", **options).answer == [{"n": 990}]


# ---------------------------------------------------------------- drafting, once per column


def test_each_column_is_read_off_once() -> None:
    with Dataset.open(make_arrow()) as dataset:
        asked: list[str] = []

        def listen(fetch: Any, query: Any) -> Any:
            asked.append(query.sql("duckdb"))
            return fetch(query)

        for name in ("fetch", "fetch_few"):
            setattr(dataset.engine, name, partial(listen, getattr(dataset.engine, name)))
        dataset.risk(SUM)
        first = len(asked)
        dataset.risk(SUM)
        assert len(asked) == first + 1, "the second time only the profile is asked for"
        dataset.risk("SELECT SUM(age + pay) FROM data")
        drafting = asked[first + 1]
        assert "pay" in drafting
        assert "age" not in drafting
        assert {name for name, column in dataset.schema.columns.items() if column.bounds} == {"age", "pay"}
        assert dataset.schema.columns["ward"].type is ColumnType.TEXT


@pytest.mark.parametrize("name", ["a b", 'a"b', "Größe", "1st", "select", "a.b", "people", "rdr"])
def test_columns_with_difficult_names(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    with Dataset.open(pa.table({name: [1, 2, 3], "other": [1, 1, 1]})) as dataset:
        risk = dataset.risk(f"SELECT SUM({quoted}) FROM data WHERE other = 1")
        assert risk.sensitivities.values.tolist() == [1.0, 2.0, 3.0]
        (person,) = risk.list_people(1)
        assert (person.people, person.columns) == (1, {name: 3, "other": 1})


# ---------------------------------------------------------------- the most exposed


def test_people_are_an_arrow_table() -> None:
    with Dataset.open(make_arrow(), schema=FACTS) as dataset:
        table = dataset.risk("SELECT SUM(age) FROM people").people(2, epsilon=0.5)
        assert isinstance(table, pa.Table)
        names = ["people", "sensitivity", "why", "columns", "times_average", "own_epsilon", "epsilon"]
        assert table.column_names == names
        assert table.column("epsilon").to_pylist() == [0.5, 0.5]
        assert table.column("columns").to_pylist() == [{"name": "•••", "age": 90}, {"name": "•••", "age": 40}]
        mean = 200 + 200 / 5
        assert table.column("times_average").to_pylist() == pytest.approx([290 / mean, 240 / mean])
        assert table.column("own_epsilon").to_pylist() == pytest.approx([0.45, 0.2])  # P1
        revealed = dataset.risk("SELECT SUM(age) FROM people").people(1, columns=["name"], reveal=True)
        assert revealed.column("epsilon").to_pylist() == [10.0]  # the paper's largest candidate, unless one is given
        assert revealed.column("columns").to_pylist() == [{"name": "Zara"}]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT COUNT(DISTINCT ward) FROM data", "count_ward from 3 to 2"),
        ("SELECT MAX(age) AS oldest FROM data", "oldest from 90 to 40"),
        ("SELECT ward, MIN(age) AS youngest FROM data GROUP BY ward", None),
        ("SELECT since, COUNT(*) AS n FROM data GROUP BY since", None),
    ],
)
def test_why_somebody_is_exposed(query: str, why: str | None) -> None:
    """Whatever is said: leaving the record out really moves the answer so."""
    with Dataset.open(make_arrow()) as dataset:
        (person,) = dataset.risk(query).list_people(1, columns=list(COLUMNS), reveal=True)
        if why is not None:
            assert person.why == why
        assert person.people == 1
        at = COLUMNS["name"].index(person.columns["name"])
        rest = pa.table({name: cells[:at] + cells[at + 1 :] for name, cells in COLUMNS.items()})
        with Dataset.open(rest) as without:
            assert without.n == 4
            before, after = dataset.risk(query).measured(), without.risk(query).measured()
            assert before.values != after.values


def test_by_a_column_with_nan_and_null() -> None:
    with Dataset.open(pa.table({"x": [1, 1, 1, 1], "y": [0.5, None, float("nan"), float("nan")]})) as dataset:
        groups = dataset.risk("SELECT SUM(x) FROM data").by("y")
    assert [(group.group, group.people) for group in groups] == [(0.5, 1), (None, 3)]


# ---------------------------------------------------------------- choosing


def test_find_with_a_function() -> None:
    def share_of_the_many(values: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> float:
        return float(values.min() / values.max())

    with Dataset.open(make_arrow()) as dataset:
        risk = dataset.risk("SELECT COUNT(*) FROM data WHERE ward = 'east'")
        assert risk.find(share_of_the_many, threshold=0.9).epsilon == risk.find("ratio:0.9").epsilon == 0.1
        assert risk.find("ratio:0.9", candidates=[0.05]).epsilon == 0.05
        assert risk.find("ratio:0.9", available=lambda epsilons: [e for e in epsilons if e < 0.05]).epsilon == 0.04


def test_what_stands_beside_the_indicator() -> None:
    with Dataset.open(make_arrow(), schema=FACTS) as dataset:
        beside = dataset.risk("SELECT COUNT(*) FROM people WHERE ward = 'east'").absolute(1.0, prior=0.1)
        assert beside.own_epsilon == 1.0
        assert beside.identification == pytest.approx(1 / (1 + 4 * np.exp(-1)))  # P2, of the five who are there
        assert beside.posterior == pytest.approx(0.1 * np.e / (0.9 + 0.1 * np.e))  # P3
        gaussian = dataset.risk("SELECT COUNT(*) FROM people", mechanism="gaussian").absolute(1.0)
        assert beside.false_alarms is None
        assert gaussian.false_alarms == 0.01  # of a Gaussian answer alone no belief follows, but of an alarm
        assert 0.01 < gaussian.posterior < 0.5025  # the latter if the alarm never fails
        assert beside.advantage == pytest.approx(np.tanh(0.5))  # P4
        tested = dataset.risk("SELECT COUNT(*) FROM people").absolute(1.0, charge=1.5)
        assert tested.advantage == pytest.approx(np.tanh(0.75))  # ε_svt counts


# ---------------------------------------------------------------- what is shown


def test_plot_and_notebook() -> None:
    with Dataset.open(make_arrow()) as dataset:
        risk = dataset.risk(SUM, candidates=[1, 0.1])
        charts = risk.plot(), risk.plot(view="raw"), risk.plot(epsilons=[0.5]), risk.plot("worlds"), risk.histogram(0.5)
        for drawn in (risk, *charts, charts[0].properties(width=300)):
            offline: Any = drawn._repr_mimebundle_(include=None, exclude=None)
            assert set(offline) == {"text/html", "image/svg+xml", "text/plain"}  # finished: nothing to load or send
            assert not re.findall(r'(?:src|href)="(?!#)|<script', offline["text/html"])
            assert offline["image/svg+xml"].startswith("<svg")
        for chart in charts:
            assert isinstance(chart, alt.LayerChart)
            with alt.renderers.enable("svg"):  # what somebody chose goes first
                chosen: Any = chart._repr_mimebundle_()
            assert set(chosen) == {"image/svg+xml"}
        assert risk._repr_mimebundle_(include=None, exclude=None)["text/plain"] == repr(risk)


def test_nothing_private_is_printed_by_accident() -> None:
    with Dataset.open(make_arrow(), schema=FACTS) as dataset:
        risk = dataset.risk("SELECT SUM(age) FROM people")
        assert isinstance(risk, Risk)
        choice = risk.find("ratio:0.75")
        assert isinstance(choice, Choice)
        assert repr(dataset) == "Dataset('people')"
        for value in (
            risk,
            risk.sensitivities,
            risk.rdr(1.0),
            risk.contributions,
            risk.measured(),
            risk.profile,
            choice,
        ):
            for text in (repr(value), str(value), f"{value}"):
                assert text.endswith("redacted)")
                assert not any(cell in text for cell in ("90", "40", "30", "0.3"))


def test_who_stands_in_no_declared_group_is_said() -> None:
    """Two of four rows, of two people, are in wards that nobody declared; one of these is outside the WHERE."""
    rows = pa.table({"pid": [1, 1, 2, 3], "vid": [1, 2, 3, 4], "ward": ["a", "x", None, "a"]})
    columns: dict[str, Any] = {
        "pid": plain("integer"),
        "vid": whole(0, 9),
        "ward": category("a", "b"),
    }
    one_row_each = declare("data", 4, columns)
    several = one_row_each | {"unit": "pid", "max_rows_per_unit": 2, "row_key": "vid"}
    sql = "SELECT ward, COUNT(*) FROM data {} GROUP BY ward"
    for schema in (one_row_each, several):
        with Dataset.open(rows, schema=schema) as data:
            for where, people in (("", 2), ("WHERE vid < 3", 1), ("WHERE vid > 3", 0)):
                risk = data.risk(sql.format(where))
                assert risk.left_out.people == people
                told = [each for each in risk.find("ratio:0.9").findings if isinstance(each, OutsideGroups)]
                assert [each.people for each in told] == ([people] if people else [])
