"""The largest error of a column, as ε falls: groups with too few people to tell do not make it smaller."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dosimeter import Dataset
from dosimeter.assessment import Risk
from dosimeter.postprocess import list_group_errors

LETTERS = "abcdefgh"
SCHEMA: dict[str, Any] = {
    "table": "flights",
    "unit": "row",
    "individuals": 4000,
    "reviewed": True,
    "columns": {
        "carrier": {"type": "category", "values": list(LETTERS)},
        "delay": {"type": "integer", "bounds": [-60, 600]},
        "far": {"type": "integer", "bounds": [0, 5000]},
    },
}
QUERIES = [
    "SELECT carrier, AVG(delay) AS d FROM flights GROUP BY carrier",
    "SELECT carrier, STDDEV_POP(delay) AS d, COUNT(*) AS n FROM flights GROUP BY carrier",
    "SELECT carrier, SUM(delay) / COUNT(far) AS d FROM flights GROUP BY carrier",
    "SELECT carrier, CORR(delay, far) AS d FROM flights GROUP BY carrier",
]
HARD = (2, 5, 20, 60, 200, 500, 900, 1500)
_SIZES = st.lists(st.sampled_from([0, 1, 2, 5, 12, 30, 80, 200, 700]), min_size=8, max_size=8)


@pytest.fixture(scope="module", autouse=True)
def _shared_duckdb(shared_duckdb: None) -> None:
    """Every table in memory is opened in the DuckDB of its module."""


def open_flights(sizes: tuple[int, ...] | list[int]) -> Dataset:
    carriers = [letter for letter, size in zip(LETTERS, sizes, strict=True) for _ in range(size)]
    table = {
        "carrier": carriers,
        "delay": [(7 * at) % 300 - 40 for at in range(len(carriers))],
        "far": [(311 * at) % 4900 + 1 for at in range(len(carriers))],
    }
    return Dataset.open(pa.table(table), schema=SCHEMA, table="flights")


def as_size(error: float | None) -> float:
    """A number that nobody can tell has no limit to its error."""
    return math.inf if error is None else error


def list_told(risk: Risk, epsilon: float) -> list[list[float]]:
    """Return, for each column, the errors of the groups that can be told at one ε, computed group by group."""
    (numbers,) = [(block.keys, block.values) for block in risk.measured().blocks]
    found = list_group_errors(risk.plan, risk.mechanism, risk.noise_scale(epsilon), [numbers], 10_000)
    return [[error for error in column if error is not None] for column in zip(*found, strict=True)]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("sql", QUERIES)
@settings(deadline=None, max_examples=3)
@given(sizes=_SIZES)
@example(sizes=list(HARD))
def test_the_largest_error_never_shrinks_as_epsilon_falls(sql: str, mechanism: Any, sizes: list[int]) -> None:
    assume(sum(sizes) > 0)
    with open_flights(sizes) as flights:
        risk = flights.risk(sql, mechanism=mechanism)
        lines = sorted(risk.list_candidates(), key=lambda line: -line.epsilon)
        assert len(lines) == 37
        so_far = [[0.0]] * len(lines[0].error_95)
        for larger, smaller in itertools.pairwise(lines):
            for before, after in zip(larger.accuracy, smaller.accuracy, strict=True):
                assert as_size(after.worst) >= as_size(before.worst)
                assert as_size(after.largest_relative) >= as_size(before.largest_relative)
        for line in lines:
            so_far = [known + told for known, told in zip(so_far, list_told(risk, line.epsilon), strict=True)]
            now = list_told(risk, line.epsilon)
            assert line.error_95 == tuple(
                pytest.approx(max(known)) if told else None for known, told in zip(so_far, now, strict=True)
            )


def test_a_group_that_is_lost_keeps_its_last_error() -> None:
    """Without it the largest error of the flights fell as ε did: from the smallest carrier's to the next one's."""
    with open_flights(HARD) as flights:
        risk = flights.risk(QUERIES[0])
        told = [
            list_told(risk, line.epsilon)[0] for line in sorted(risk.list_candidates(), key=lambda line: -line.epsilon)
        ]
        assert any(max(after) < max(before) for before, after in itertools.pairwise(told) if after)
        assert len({line.accuracy[0].too_few for line in risk.list_candidates()}) > 3


def test_one_epsilon_alone_says_the_same_as_the_list() -> None:
    with open_flights(HARD) as flights, open_flights(HARD) as again:
        listed = {line.epsilon: line.accuracy[0].worst for line in flights.risk(QUERIES[0]).list_candidates()}
        alone = again.risk(QUERIES[0])
        for epsilon in (0.02, 0.3, 4.0):
            assert alone.foresee(epsilon)[0].worst == listed[epsilon]
            assert alone.candidate(epsilon).error_95 == (listed[epsilon],)
        assert as_size(listed[0.4]) <= as_size(alone.foresee(0.35)[0].worst) <= as_size(listed[0.3])


@pytest.mark.parametrize("most", [200, 400, 500])
def test_a_preference_over_errors_is_not_met_again_below(most: int) -> None:
    with open_flights(HARD) as flights:
        choice = flights.risk(QUERIES[0]).find(f"error:{most}")
        met = [line.satisfied for line in sorted(choice.candidates, key=lambda line: -line.epsilon)]
        assert met == sorted(met, key=lambda each: not each), "met at large ε's, and at none below the first failure"
        assert 0 < sum(map(bool, met)) < len(met)
