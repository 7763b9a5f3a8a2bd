"""The stated bias is the measured answer less the plain one, on every engine (E4)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.errors import DataError
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
from tests.rows_that_count import rows_that_count
from tests.schemas import category, plain, whole


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


OF_SEVERAL = {
    "SELECT nights > 4 AS late, {sum} AS x FROM visits GROUP BY nights > 4": False,
    "SELECT IF(nights > 3, 'long', 'short') AS stay, AVG({nights}) AS x FROM visits GROUP BY 1": False,
    "SELECT CASE WHEN ward = 'a' THEN 'a' ELSE 'b' END AS w, COUNT(DISTINCT {ward}) AS x FROM visits GROUP BY 1": False,
    "SELECT ward, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS x FROM visits GROUP BY ward": True,
    "SELECT ward, SUM(SUM({nights})) OVER () AS x FROM visits WHERE pay > 9 GROUP BY ward": True,
    "SELECT ward, SUM({nights}) AS x FROM visits GROUP BY ROLLUP (ward)": True,
}
"""Whether only rows in declared wards are measured, by query. ``{nights}``: put into its bounds when measured."""


@pytest.mark.parametrize("share", SHARES)
def test_groups_of_clamped_values_and_numbers_over_groups_have_a_bias(share: float) -> None:
    """Conditions and groups read values as they are, aggregates clamped ones; a total reads undeclared groups too."""
    facts, (most, _, nights) = declare_with(share), bound(share)
    kept = rows_that_count(ROWS, facts["columns"], "pid", most)
    clamped = {"nights": f"LEAST(nights, {nights})", "sum": f"SUM(LEAST(nights, {nights}))"}
    clamped["ward"] = f"CASE WHEN ward IN {WARDS} THEN ward END"
    raw = {"nights": "nights", "sum": "SUM(nights)", "ward": "ward"}
    with Dataset.open(TABLE, schema=facts, table="visits") as dataset:
        for sql, declared in OF_SEVERAL.items():
            rows = [row for row in kept if row["ward"] in WARDS or not declared]
            measured = ask_duckdb(sql.format(**clamped), pa.Table.from_pylist(rows))
            without = ask_duckdb(sql.format(**raw), TABLE)
            off = np.array([measured[group] - without[group] for group in measured])
            found = known(dataset.risk(sql.format(**raw), candidates=[1.0]).candidate(1.0).accuracy[0].bias)
            assert (found.worst, found.typical) == pytest.approx(
                (np.abs(off).max(), np.median(np.abs(off))), rel=1e-9, abs=1e-9
            ), sql
            assert found.worst > 0.0 or (share == 0.0 and not declared), sql


def test_a_column_without_noise_leaves_no_bias_unknown() -> None:
    sql = "SELECT COALESCE(ward, 'all') AS w, COUNT(*) AS x FROM visits GROUP BY ROLLUP (ward)"
    with Dataset.open(TABLE, schema=declare_with(0.1), table="visits") as dataset:
        choice = dataset.risk(sql).find("advantage:0.25")
        assert "bias_unknown" not in {each.kind for each in choice.judge(choice.start.epsilon)[1]}


def test_who_is_nowhere_else_but_in_a_cut_row_of_an_undeclared_group_counts_in_the_total() -> None:
    """Nobody is seen in an undeclared group among the rows that count; the plain total has those rows all the same."""
    columns = {"pid": plain("integer"), "vid": whole(0, 9), "ward": category("a"), "nights": whole(0, 9)}
    facts = {"table": "visits", "individuals": 2, "reviewed": True, "unit": "pid", "row_key": "vid"}
    pairs = ([{"pid": 1, "vid": at + n, "ward": w, "nights": 3} for n, w in enumerate(("a", "b"))] for at in range(9))
    rows = next(pair for pair in pairs if rows_that_count(pair, columns, "pid", 1)[0]["ward"] == "a")
    with Dataset.open(
        pa.Table.from_pylist(rows), schema=facts | {"max_rows_per_unit": 1, "columns": columns}, table="visits"
    ) as dataset:
        risk = dataset.risk("SELECT ward, SUM(nights) AS x FROM visits GROUP BY ROLLUP (ward)", candidates=[1.0])
        assert risk.left_out.people == 0
        assert known(risk.candidate(1.0).accuracy[0].bias).worst == 3.0


@pytest.mark.parametrize("share", SHARES)
def test_what_is_clamped_is_counted(share: float, open_in: OpenIn) -> None:
    dataset = open_in("duckdb", declare_with(share), {"visits": TABLE}, TYPES)
    most = bound(share)[1]
    beyond = sum(row["pay"] > most for row in ROWS)
    found = dataset.risk(QUERIES["sum"], candidates=[1.0]).left_out.describe()["clamped"]
    assert found == ({"pay": {"values": beyond, "share": beyond / len(ROWS)}} if beyond else {})


@pytest.mark.parametrize(
    ("sql", "clamped"),
    [
        ("SELECT SUM(CASE WHEN nights > 5 THEN 1 ELSE 0 END) AS x FROM visits WHERE pay > 9", set()),
        ("SELECT SUM(CASE WHEN nights > 5 THEN pay END) AS x FROM visits", {"pay"}),
        ("SELECT SUM(CASE WHEN ward = 'a' THEN pay ELSE nights END) AS x FROM visits", {"pay", "nights"}),
        ("SELECT AVG(s) AS x FROM (SELECT pid, SUM(nights) AS s FROM visits WHERE pay > 9 GROUP BY pid)", {"nights"}),
        ("SELECT COUNT(DISTINCT ward) AS x FROM visits WHERE nights > 5", {"ward"}),
        ("SELECT SUM(GREATEST(nights, 3)) AS x FROM visits", {"nights"}),
    ],
)
def test_what_a_condition_alone_reads_is_not_clamped(sql: str, clamped: set[str]) -> None:
    with Dataset.open(TABLE, schema=declare_with(0.1), table="visits") as dataset:
        assert dataset.risk(sql, candidates=[1.0]).left_out.clamped.keys() == clamped


def test_a_median_in_the_middle_of_its_bounds_has_a_known_bias() -> None:
    """It is what an empty group has, too, and two empty groups differ in nothing."""
    columns = {"pid": plain("integer"), "vid": whole(0, 99), "x": whole(0, 10)}
    facts = {"table": "visits", "individuals": 9, "reviewed": True, "unit": "pid", "row_key": "vid"}
    rows = pa.Table.from_pylist([{"pid": at // 3, "vid": at, "x": 5} for at in range(27)])
    declared = facts | {"max_rows_per_unit": 1, "columns": columns}
    with Dataset.open(rows, schema=declared, table="visits") as dataset:
        risk = dataset.risk("SELECT MEDIAN(x) AS x FROM visits", candidates=[1.0])
        assert risk.left_out.rows == 18
        assert known(risk.candidate(1.0).accuracy[0].bias).worst == 0.0


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


def test_a_column_that_cannot_be_looked_at_stops_no_release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The noisy test needs no bias: what a release reads besides the query must not be an incident (N4)."""

    def fail(*_: object) -> None:
        raise DataError("bytes that are not UTF-8")

    monkeypatch.setattr(left_out, "_find_beyond", fail)
    with (
        Dataset.open(TABLE, schema=declare_with(0.0), table="visits") as dataset,
        Ledger.open(tmp_path / "ledger.db") as ledger,
    ):
        answer = dataset.release(QUERIES["sum"], ledger=ledger, svt=1.0, variance=0.5, policy="budget:20")
        assert answer.status == "released"
        choice = dataset.risk(QUERIES["sum"]).find("advantage:0.25")
        assert "bias_unknown" in {each.kind for each in choice.judge(choice.start.epsilon)[1]}
