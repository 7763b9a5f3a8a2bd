"""No data can make an accepted query fail: otherwise a denial would tell, without noise, what a row holds."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.dataset import Dataset
from dosimeter.errors import OptionError, QueryError
from dosimeter.ledger import Ledger
from tests.earlier_releases import noise_for_quantiles
from tests.schemas import decimal, declare, plain, whole
from tests.shares import Share

NAMES = ["Ann", "Bob", "Cid", "Dea", "Eva", None]
EXTREME = pa.table(
    {
        "name": NAMES,
        "age": pa.array([2**63 - 1, -(2**63), 0, 7, None, 2**53 + 1], pa.int64()),
        "pay": pa.array([1.7e308, -1.7e308, 5e-324, 0.0, 12.5, None], pa.float64()),
    }
)
SCHEMA = declare("t", 10, {"name": plain("text"), "age": whole(0, 120), "pay": decimal(0, 1000, 0.01)})

AIMED = "CASE WHEN name = 'Ann' AND age > 5 THEN 9223372036854775807 ELSE 0 END"
ATOMS = st.sampled_from(
    [
        "age",
        "pay",
        "COALESCE(age, 1)",
        "9223372036854775807",
        "2147483647",
        "1e300",
        "1e-300",
        "0",
        "-1",
        "3",
        "0.1",
        AIMED,
    ]
)
NUMBERS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
            lambda p: f"({p[0]} {p[1]} {p[2]})"
        ),
        inner.map(lambda text: f"ABS({text})"),
        inner.map(lambda text: f"(-{text})"),
        inner.map(lambda text: f"FLOOR({text})"),
    ),
    max_leaves=5,
)
QUERIES = st.one_of(
    NUMBERS.map(lambda text: f"SELECT COUNT(*) FROM t WHERE {text} > 1"),
    NUMBERS.map(lambda text: f"SELECT COUNT({text}) FROM t"),
    NUMBERS.map(lambda text: f"SELECT COUNT(DISTINCT {text}) FROM t"),
    NUMBERS.map(lambda text: f"SELECT SUM(CASE WHEN {text} > 0 THEN 1 ELSE 0 END) FROM t"),
    NUMBERS.map(lambda text: f"SELECT COUNT(*) FILTER (WHERE {text} < 3) FROM t"),
    NUMBERS.map(lambda text: f"SELECT {text} > 2 AS big, COUNT(*) FROM t GROUP BY big"),
)


@pytest.fixture(scope="module")
def extreme() -> Dataset:
    return Dataset.open(EXTREME, schema=SCHEMA, table="t")


def test_no_content_stops_an_accepted_query(extreme: Dataset) -> None:
    share = Share()

    @settings(max_examples=120, deadline=None)
    @given(sql=QUERIES)
    def check(sql: str) -> None:
        try:
            plan = extreme.plan(sql)
        except QueryError:
            share.count(False)
            return  # decided by SQL and schema alone: it says nothing about the data
        share.count(True)
        risk = extreme.risk(sql)
        assert len(risk.measured().values[0]) == len(plan.measures)
        assert all(math.isfinite(value) for row in risk.measured().values for value in row)
        assert int(risk.contributions.people.sum()) == 6  # rows of the table

    check()
    share.require(0.8)


def test_whole_numbers_divide_as_sql_says(extreme: Dataset) -> None:
    table = pa.table({"age": list(range(-20, 21))})
    schema = {"table": "t", "individuals": 50, "columns": {"age": whole(-20, 20)}}
    with Dataset.open(table, schema=schema, table="t") as dataset:
        for divisor in (-7, -3, 2, 5):
            for value in (-2, -1, 0, 1, 2):
                quotient = sum(1 for age in range(-20, 21) if int(age / divisor) == value)
                found = dataset.risk(f"SELECT COUNT(*) FROM t WHERE age // {divisor} = {value}").measured().values
                assert found[0][0] == quotient
                remainder = sum(1 for age in range(-20, 21) if age - divisor * int(age / divisor) == value)
                found = dataset.risk(f"SELECT COUNT(*) FROM t WHERE age % {divisor} = {value}").measured().values
                assert found[0][0] == remainder


def test_an_answer_does_not_depend_on_whom_the_query_is_aimed_at(tmp_path: object) -> None:
    """An odd cell denies nothing, whoever the query looks at."""
    table = pa.table({"name": ["Ann", "Bob"], "age": [1, 2], "pay": [1.0, float("nan")]})
    with Dataset.open(table, schema=SCHEMA, table="t") as dataset, Ledger.open(f"{tmp_path}/l.db") as ledger:
        for name in ("Ann", "Bob", "Zoe"):
            sql = f"SELECT SUM(pay) FROM t WHERE name = '{name}'"
            assert dataset.release(sql, epsilon=0.5, ledger=ledger, policy="budget:9").status == "released"
        assert dataset.release("SELECT COUNT(*) FROM t", epsilon=0.5, ledger=ledger).status == "released"
        assert dataset.risk("SELECT SUM(pay) FROM t").measured().values == ((1,),)


def test_a_total_too_large_for_its_noise_is_refused_before_the_data_are_read(tmp_path: object) -> None:

    schema = declare("t", 1000, {"x": whole(10**16, 10**16 + 10)})
    with (
        Dataset.open(pa.table({"x": [10**16]}), schema=schema, table="t") as dataset,
        Ledger.open(f"{tmp_path}/l.db") as ledger,
    ):
        with noise_for_quantiles(), pytest.raises(OptionError, match="64-bit"):
            dataset.release("SELECT MEDIAN(x) FROM t", epsilon=1.0, ledger=ledger, policy="budget:9")
        assert ledger.accounts() == ()
