"""All candidates in one pass: the numbers are those of each ε alone, and of plain loops over what was vectorised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.arrays import FloatArray
from dosimeter.postprocess.propagation import _find_quantile, _find_step
from dosimeter.risk.exposure import RDRs
from dosimeter.risk.rdr import summarise_rdrs
from tests.known import known
from tests.schemas import category, declare, whole

QUERIES = (
    "SELECT COUNT(*) FROM stays",
    "SELECT ward, AVG(cost) AS a, COUNT(*) AS n FROM stays GROUP BY ward",
    "SELECT ward, sex, COUNT(*) AS n FROM stays GROUP BY ROLLUP (ward, sex)",
    "SELECT ward, 100.0 * COUNT(*) / (COUNT(*) + 10) AS s, CASE WHEN ward = 'a' THEN SUM(cost) ELSE 0 END AS c "
    "FROM stays GROUP BY ward",
    "SELECT ward, STDDEV(cost) AS d FROM stays GROUP BY ward HAVING COUNT(*) > 5",
)


@pytest.fixture
def stays() -> Dataset:
    random = np.random.default_rng(5)
    rows = pa.table(
        {
            "ward": random.choice(["a", "b", "c"], 300, p=[0.7, 0.28, 0.02]).tolist(),
            "sex": random.choice(["f", "m"], 300).tolist(),
            "cost": random.integers(0, 120, 300).tolist(),
        }
    )
    columns = {"ward": category("a", "b", "c"), "sex": category("f", "m"), "cost": whole(0, 100)}
    return Dataset.open(rows, schema=declare("stays", 300, columns))


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_every_candidate_is_what_it_is_alone(stays: Dataset, sql: str, mechanism: str) -> None:
    with stays:
        together = stays.risk(sql, mechanism=mechanism).find("advantage:0.5,error:20,own:2")
        alone = stays.risk(sql, mechanism=mechanism)
        for line in together.candidates[::3]:
            alone.foreseen.clear()
            single = alone.candidate(line.epsilon)
            for each, other in zip(line.accuracy, single.accuracy, strict=True):
                assert asdict(each) | {"total": None, "bias": None} == pytest.approx(
                    asdict(other) | {"total": None, "bias": None}, rel=1e-12
                )
                assert asdict(each.total) == pytest.approx(asdict(other.total), rel=1e-12)
                assert each.bias == other.bias
            beside, own = known(line.absolute), known(single.absolute)
            assert (beside.own_epsilon, beside.advantage) == pytest.approx((own.own_epsilon, own.advantage), rel=1e-12)
            assert line.rdr.describe() == pytest.approx(single.rdr.describe(), rel=1e-12)


# ---------------------------------------------------------------- quantiles over directions


def find_by_halving(moves: FloatArray, logs: Sequence[float], tail: float, *, interpolate: bool) -> float:
    """Return the quantile of one cell, direction by direction, in plain Python."""

    def exceeded(limit: float) -> float:
        chances = []
        for direction in moves.T:
            nodes, inner = [0.0, *direction.tolist()], 0
            while inner + 1 < len(nodes) and nodes[inner + 1] <= limit:
                inner += 1
            log = [0.0, *logs][inner]
            if interpolate and inner + 1 < len(nodes) and math.isfinite(nodes[inner + 1]):
                share = (limit - nodes[inner]) / (nodes[inner + 1] - nodes[inner])
                log += share * (logs[inner] - log)
            chances.append(math.exp(log))
        return sum(chances) / len(chances)

    high = max(move for move in moves.reshape(-1).tolist() if math.isfinite(move))
    if exceeded(high) > tail:
        return math.inf
    low = 0.0
    for _ in range(32):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if exceeded(middle) <= tail else (middle, high)
    return high


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("interpolate", [True, False])
def test_quantiles_are_those_of_a_plain_search(seed: int, interpolate: bool) -> None:
    random = np.random.default_rng(seed)
    logs = np.log(np.geomspace(0.9, 0.0005, 16))
    moves = np.maximum.accumulate(random.exponential(1.0, (6, 16, 10)) * random.lognormal(0, 2, (6, 1, 1)), axis=1)
    moves[1, 8:, 3] = np.inf  # some noise leaves no number
    moves[2, 2:, :] = np.inf  # most does
    moves[4] = np.ceil(moves[4])
    search = _find_quantile(moves, logs, math.log(0.048)) if interpolate else _find_step(moves, logs, 0.048)
    expected = [find_by_halving(cell, logs.tolist(), 0.048, interpolate=interpolate) for cell in moves]
    assert search.tolist() == pytest.approx(expected, rel=1e-9)


# ---------------------------------------------------------------- what else became one pass


@pytest.mark.parametrize("classes", [40, 2**16 + 7])
def test_spreads_are_those_of_everybody_listed(classes: int) -> None:
    random = np.random.default_rng(1)
    counts = random.integers(0, 9, classes)
    many = [RDRs(e, np.sort(random.exponential(1.0 / e, classes)), counts, 9.0) for e in (2.0, 1.0, 0.1)]
    many.append(RDRs(0.01, random.permutation(classes).astype(float), counts, 9.0))
    for rdrs, found in zip(many, summarise_rdrs(many), strict=True):
        everybody = np.repeat(rdrs.values, counts)
        assert found.describe() == pytest.approx(
            {
                "min": everybody.min(),
                "max": everybody.max(),
                "mean": everybody.mean(),
                "median": np.median(everybody),
                "variance": everybody.var(),
                "ratio": everybody.min() / everybody.max(),
            },
            rel=1e-12,
        )
