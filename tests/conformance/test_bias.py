"""The stated bias is the measured answer less the plain one, on every engine (E4)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.influence import left_out
from tests.conformance.conftest import OpenIn
from tests.conformance.engine_cases import EVERY_ENGINE
from tests.cut_visits import (
    QUERIES,
    ROWS,
    SHARES,
    TABLE,
    TYPES,
    WARDS,
    ask_duckdb,
    bound,
    declare_with,
    measure_apart,
)
from tests.known import known


@pytest.mark.parametrize("engine", EVERY_ENGINE)
@pytest.mark.parametrize("share", SHARES)
def test_the_stated_bias_is_measured_less_plain(engine: str, share: float, open_in: OpenIn) -> None:
    dataset = open_in(engine, declare_with(share), {"visits": TABLE}, TYPES)
    for name, sql in QUERIES.items():
        risk = dataset.risk(sql, candidates=[1.0])
        (column,) = risk.candidate(1.0).accuracy
        measured, without = measure_apart(sql, share), ask_duckdb(sql, TABLE)
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
