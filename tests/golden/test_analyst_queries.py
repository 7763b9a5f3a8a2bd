"""Nine in ten of the queries that analysts write are answered; without noise each answer is the plain engine's own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Dataset, QueryError
from dosimeter.planning import plan_query
from dosimeter.postprocess import assemble_answer
from tests.golden.analyst_tables import SOURCES
from tests.shared_duckdb import ask_plain_duckdb


def read_queries() -> Iterator[tuple[str, str, str]]:
    """Yield the table, the SQL and the words of the refusal, empty where it is answered, of every query of the list."""
    table = words = ""
    sql: list[str] = []
    for line in (Path(__file__).parent / "analyst_queries.sql").read_text(encoding="utf-8").splitlines():
        if line.startswith("-- table: "):
            table = line.removeprefix("-- table: ")
        elif line.startswith("-- refused: "):
            words = line.removeprefix("-- refused: ")
        elif line and not line.startswith("--"):
            sql.append(line)
            if line.endswith(";"):
                yield table, "\n".join(sql).removesuffix(";"), words
                sql, words = [], ""


CASES = [(table, sql) for table, sql, words in read_queries() if not words]
REFUSED = [(table, sql, words) for table, sql, words in read_queries() if words]


@contextmanager
def open_dataset(table: str) -> Iterator[Dataset]:
    schema, rows, others = SOURCES[table]
    with Dataset.open(rows, schema=schema, table=table, tables=others) as dataset:
        yield dataset


def ask_plainly(table: str, sql: str) -> list[dict[str, Any]]:
    _, rows, others = SOURCES[table]
    with ask_plain_duckdb(**{table: rows}, **others) as plain:
        names = [column[0] for column in plain.execute(sql).description or ()]
        return [dict(zip(names, row, strict=True)) for row in plain.fetchall()]


def test_the_list_has_a_hundred_queries_of_which_nine_in_ten_are_answered() -> None:
    assert len(CASES) >= 90
    assert len(CASES) + len(REFUSED) >= 100
    assert len(set(CASES)) == len(CASES)
    assert len(CASES) / (len(CASES) + len(REFUSED)) >= 0.9


@pytest.mark.parametrize(("table", "sql"), CASES, ids=lambda text: " ".join(text.split())[:70])
def test_without_noise_the_answer_is_the_plain_engines(table: str, sql: str) -> None:
    wanted = ask_plainly(table, sql)
    assert wanted, "the query gives no row, so that it compares nothing"
    with open_dataset(table) as dataset:
        # What is drawn by rank is a p-quantile of values on a coarser grid: tests/oracle/test_ranks.py compares that.
        risk = dataset.risk(sql, quantiles="ranks" if "_DISC(" in sql.upper() else "noise")
        measured = risk.measured()
        further = [(block.keys, block.values) for block in measured.further]
        found = assemble_answer(risk.plan, measured.keys, measured.values, further=further)
    assert not found.failed
    rows = found.rows
    if risk.plan.after.traced:  # a declared group that nobody is in comes back too; SQL leaves it out
        rows = [row for row, cell in zip(rows, found.released, strict=True) if any(cell.measured)]
    assert [list(row) for row in rows] == [list(row) for row in wanted]
    for got, meant in zip(rows, wanted, strict=True):
        assert all(is_same(got[name], meant[name]) for name in meant), (got, meant)


def is_same(got: Any, meant: Any) -> bool:
    """Compare numbers by value; AVG through a grid of 2^20 steps is as near as the grid is fine."""
    if isinstance(meant, date):
        return bool(
            got == meant.isoformat() or got == f"{meant.isoformat()}T00:00:00" or f"{got}T00:00:00" == meant.isoformat()
        )
    if isinstance(meant, bool) or (not isinstance(meant, (int, float)) and not hasattr(meant, "as_tuple")):
        return bool(got == meant)
    return isinstance(got, (int, float)) and math.isclose(got, float(meant), rel_tol=1e-5, abs_tol=1e-5)


@pytest.mark.parametrize(("table", "sql", "words"), REFUSED, ids=lambda text: text[:60])
def test_what_is_refused_says_why(table: str, sql: str, words: str) -> None:
    with pytest.raises(QueryError) as refused:
        plan_query(sql, SOURCES[table][0])
    assert words in str(refused.value)
