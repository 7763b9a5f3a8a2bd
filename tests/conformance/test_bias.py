"""The stated bias is the measured answer less the plain one, on every engine (E4).

Both are computed here by DuckDB's own SQL: the plain answer over the table as it is; the measured one over a table of
the rows that count by plain Python (``rows_that_count``), with values put into their bounds and undeclared groups left
out. Dosimeter's own queries have no part in either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.influence import left_out
from tests.conformance.conftest import OpenIn
from tests.conformance.engine_cases import EVERY_ENGINE
from tests.known import known
from tests.rows_that_count import rows_that_count
from tests.schemas import category, plain, whole

PEOPLE, WARDS = 120, ("a", "b", "c")
SHARES = (0.0, 0.01, 0.1, 0.4)
TYPES = {"visits": "pid int, vid int, ward text, pay double precision, nights int"}
QUERIES = {
    "rows": "SELECT ward, COUNT(*) AS x FROM visits GROUP BY ward",
    "sum": "SELECT ward, SUM(pay) AS x FROM visits GROUP BY ward",
    "average": "SELECT ward, AVG(pay) AS x FROM visits GROUP BY ward",
    "spread": "SELECT ward, STDDEV_POP(nights) AS x FROM visits GROUP BY ward",
    "median": "SELECT ward, MEDIAN(nights) AS x FROM visits GROUP BY ward",
    "ratio": "SELECT ward, COUNT(*) FILTER (WHERE nights > 5) * 1.0 / COUNT(*) AS x FROM visits GROUP BY ward",
    "people": "SELECT ward, COUNT(DISTINCT pid) AS x FROM visits GROUP BY ward",
    "totals": "SELECT ward, COUNT(*) AS x FROM visits GROUP BY ROLLUP (ward)",
    "each": "SELECT AVG(s) AS x FROM (SELECT pid, SUM(nights) AS s FROM visits GROUP BY pid)",
    "inside": "SELECT SUM(pay) AS x FROM visits WHERE ward = 'a' AND nights < 9",
}


def make_rows() -> list[dict[str, Any]]:
    """Return the visits of people with 1 to 50 each, whose charges have a heavy tail; a tenth lie elsewhere."""
    chance = np.random.default_rng(20261119)
    counts = np.clip(np.round(chance.pareto(1.2, PEOPLE) * 2 + 1), 1, 50).astype(int)
    counts[:2] = 50
    owners = np.repeat(np.arange(PEOPLE), counts)
    wards = chance.choice([*WARDS, "elsewhere"], len(owners), p=[0.4, 0.3, 0.2, 0.1])
    pays = np.round(chance.lognormal(3.0, 1.2, len(owners)), 2)
    nights = np.minimum(chance.geometric(0.2, len(owners)), 60)
    cells = zip(owners.tolist(), wards.tolist(), pays.tolist(), nights.tolist(), strict=True)
    return [{"pid": pid, "vid": at, "ward": w, "pay": p, "nights": n} for at, (pid, w, p, n) in enumerate(cells)]


ROWS = make_rows()
TABLE = pa.Table.from_pylist(ROWS)


def bound(share: float) -> tuple[int, int, int]:
    """Return how many rows of each person count, and the largest charge and nights, so that about a share is beyond."""
    counts = np.bincount([row["pid"] for row in ROWS])
    most = next(m for m in range(50, 0, -1) if np.maximum(counts - m, 0).sum() >= share * len(ROWS))
    if not share:
        most = 50
    pay, nights = (np.quantile([row[name] for row in ROWS], 1.0 - share) for name in ("pay", "nights"))
    return most, int(np.ceil(pay)), int(np.ceil(nights))


def declare_with(share: float) -> dict[str, Any]:
    most, pay, nights = bound(share)
    columns = {
        "pid": plain("integer"),
        "vid": whole(0, 10**4),
        "ward": category(*WARDS),
        "pay": {"type": "decimal", "bounds": [0, pay], "resolution": 0.01},
        "nights": whole(0, nights),
    }
    facts = {"table": "visits", "individuals": PEOPLE, "reviewed": True, "unit": "pid", "row_key": "vid"}
    return facts | {"max_rows_per_unit": most, "columns": columns}


def measure_apart(sql: str, share: float) -> dict[Any, float]:
    """Return the measured numbers by group, from the rows that count and clamped values, by DuckDB's own SQL."""
    most, pay, nights = bound(share)
    kept = rows_that_count(ROWS, declare_with(share)["columns"], "pid", most)
    read = [
        row | {"pay": min(row["pay"], pay)} | ({} if "WHERE" in sql else {"nights": min(row["nights"], nights)})
        for row in kept
    ]
    visits = pa.Table.from_pylist([row for row in read if row["ward"] in WARDS or "GROUP BY pid" in sql])
    with duckdb.connect() as connection:
        connection.register("visits", visits)
        return read_numbers(connection.sql(sql).fetchall())


def read_numbers(rows: list[Any]) -> dict[Any, float]:
    return {(row[0] if len(row) > 1 else None): float(row[-1]) for row in rows}


@pytest.fixture(scope="module")
def plain_numbers() -> Iterator[dict[str, dict[Any, float]]]:
    with duckdb.connect() as connection:
        connection.register("visits", TABLE)
        yield {name: read_numbers(connection.sql(sql).fetchall()) for name, sql in QUERIES.items()}


@pytest.mark.parametrize("engine", EVERY_ENGINE)
@pytest.mark.parametrize("share", SHARES)
def test_the_stated_bias_is_measured_less_plain(
    engine: str, share: float, open_in: OpenIn, plain_numbers: dict[str, dict[Any, float]]
) -> None:
    dataset = open_in(engine, declare_with(share), {"visits": TABLE}, TYPES)
    for name, sql in QUERIES.items():
        risk = dataset.risk(sql, candidates=[1.0])
        (column,) = risk.candidate(1.0).accuracy
        measured, without = measure_apart(sql, share), plain_numbers[name]
        off = np.array([measured[group] - without[group] for group in measured])
        found = known(column.bias)
        assert (found.worst, found.typical, found.direction) == pytest.approx(
            (np.abs(off).max(), np.median(np.abs(off)), np.median(off)), rel=1e-9, abs=1e-9
        ), name
        assert share == 0.0 or name in ("people", "median") or found.worst > 0.0, name
        kept = sum(min(count, bound(share)[0]) for count in np.bincount([row["pid"] for row in ROWS]))
        assert risk.left_out.rows == len(ROWS) - kept


@pytest.mark.parametrize("share", SHARES)
def test_what_is_clamped_is_counted(share: float, open_in: OpenIn) -> None:
    dataset = open_in("duckdb", declare_with(share), {"visits": TABLE}, TYPES)
    most = bound(share)[1]
    beyond = sum(row["pay"] > most for row in ROWS)
    found = dataset.risk(QUERIES["sum"], candidates=[1.0]).left_out.describe()["clamped"]
    assert found == ({"pay": {"values": beyond, "share": beyond / len(ROWS)}} if beyond else {})


def test_nothing_more_is_asked_where_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = TABLE.filter(pa.compute.is_in(TABLE.column("ward"), pa.array(WARDS)))
    asked = []
    monkeypatch.setattr("dosimeter.assessment.risk.measure_plain", lambda *given: asked.append(given))
    with Dataset.open(rows, schema=declare_with(0.0), table="visits") as dataset:
        for sql in QUERIES.values():
            risk = dataset.risk(sql, candidates=[1.0])
            assert not risk.left_out.moves_numbers
            assert known(risk.candidate(1.0).accuracy[0].bias).worst == 0.0
    assert not asked


def test_a_plain_answer_that_cannot_be_had_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing fails: the noise counts alone, which is said."""

    def fail(*_: object, **__: object) -> None:
        raise ArithmeticError("too large")

    monkeypatch.setattr(left_out, "measure_rows", fail)
    with Dataset.open(TABLE, schema=declare_with(0.1), table="visits") as dataset:
        choice = dataset.risk(QUERIES["sum"]).find("advantage:0.25")
        (column,) = choice.candidates[0].accuracy
        assert (column.bias, column.describe()["total"]) == (None, None)
        assert column.total.worst == column.worst
        assert "bias_unknown" in {each.kind for each in choice.judge(choice.start.epsilon)[1]}
        assert choice.judge(choice.start.epsilon)[0].value != "for"
