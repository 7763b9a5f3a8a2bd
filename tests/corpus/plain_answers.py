"""What DuckDB answers to the analyst's own SQL on the tables themselves, and whether an answer is the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from typing import Any

import pyarrow as pa

from dosimeter.assessment import Risk
from dosimeter.postprocess import AssembledAnswer, assemble_answer
from tests.shared_duckdb import ask_plain_duckdb

Answer = list[dict[str, Any]]


def ask_plainly(tables: Mapping[str, pa.Table], sql: str) -> Answer:
    with ask_plain_duckdb(**tables) as plain:
        names = [column[0] for column in plain.execute(sql).description or ()]
        return [dict(zip(names, row, strict=True)) for row in plain.fetchall()]


def answer_without_noise(risk: Risk) -> tuple[AssembledAnswer, Answer]:
    """Return the answer from exact numbers, and its rows, but for declared groups that nobody is in: SQL has none."""
    measured = risk.measured()
    further = [(block.keys, block.values) for block in measured.further]
    found = assemble_answer(risk.plan, measured.keys, measured.values, further=further)
    assert not found.failed
    rows = [dict(row) for row in found.rows]
    if risk.plan.after.traced and risk.plan.groups:
        rows = [row for row, cell in zip(rows, found.released, strict=True) if any(cell.measured)]
    return found, rows


def assert_same_answer(found: Answer, meant: Answer, grain: float = 1e-5) -> None:
    assert meant, "the query gives no row, so that it compares nothing"
    assert [list(row) for row in found] == [list(row) for row in meant]
    for got, wanted in zip(found, meant, strict=True):
        assert all(is_same(got[name], wanted[name], grain) for name in wanted), (got, wanted)


def is_same(got: Any, meant: Any, grain: float = 1e-5) -> bool:
    """Compare numbers by value; AVG through a grid of 2^20 steps is as near as the grid is fine."""
    if isinstance(meant, date):
        days = (str(got).removesuffix("T00:00:00"), meant.isoformat().removesuffix("T00:00:00"))
        return days[0] == days[1]
    if isinstance(meant, bool) or (not isinstance(meant, (int, float)) and not hasattr(meant, "as_tuple")):
        return bool(got == meant)
    return isinstance(got, (int, float)) and math.isclose(got, float(meant), rel_tol=grain, abs_tol=grain)
