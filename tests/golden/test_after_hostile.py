"""What comes after the noise cannot reach anything but the released numbers, however hostile it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
import sqlglot
from sqlglot import exp

from dosimeter import Dataset, Ledger, QueryError
from dosimeter.engines.duckdb import DuckDBEngine
from dosimeter.planning import plan_query
from dosimeter.postprocess import answers
from dosimeter.postprocess.about import NOT_COMPUTED
from dosimeter.sql import EmbeddedError, Type, Values, embedded, run_embedded
from tests.corpus.tables import find_schema
from tests.known import known
from tests.unit.release_stays import ROWS, account_of

SCHEMA = find_schema("people")


def test_texts_that_double_are_refused_before_they_are_long() -> None:
    """Each level writes its text twice: thirty levels would be a gigabyte."""
    sql = "SELECT city AS t, COUNT(*) AS n FROM people GROUP BY city"
    for _ in range(9):
        doubled = " || ".join(["t"] * 8)
        sql = f"SELECT {doubled} AS t, n FROM ({sql}) q"
    with pytest.raises(QueryError, match="too long"):
        plan_query(sql, SCHEMA)


def test_what_comes_after_never_reaches_the_data(
    stays: Dataset, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the moment the noise is drawn, every connection that holds data is poisoned: the answer still comes."""
    sql = "SELECT ward, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM stays GROUP BY ward ORDER BY r"
    poison_engines(monkeypatch)
    answer = stays.release(sql, ledger=ledger, epsilon=50.0, policy="budget:100")
    rows: list[dict[str, Any]] = [dict(row) for row in answer.answer or ()]
    assert [row["r"] for row in rows] == sorted(row["r"] for row in rows)
    assert abs(sum(row["n"] for row in rows) - ROWS) < 10


def parse(sql: str) -> exp.Expression:
    parsed = sqlglot.parse_one(sql, read="duckdb")
    assert isinstance(parsed, exp.Expression)
    return parsed


def poison_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every connection that holds data fail while an answer is made of the noisy numbers."""
    assemble: Callable[..., Any] = answers.assemble_answer

    def fail(*given: Any, **named: Any) -> Any:
        raise AssertionError("what comes after the noise asked an engine that holds data")

    def poisoned(*given: Any, **named: Any) -> Any:
        with monkeypatch.context() as inside:
            for name in ("fetch", "fetch_few", "relation", "joined"):
                inside.setattr(DuckDBEngine, name, fail)
            return assemble(*given, **named)

    monkeypatch.setattr("dosimeter.release.run.assemble_answer", poisoned)


def test_the_embedded_engine_has_no_files_no_settings_and_no_other_tables() -> None:
    table = {"e0": Values(Type.INTEGER, [1, 2])}
    for sql in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "SET threads = 8",
        "ATTACH '/tmp/x.db'",
        "INSTALL httpfs",
        "SELECT * FROM elsewhere",
    ):
        with pytest.raises(EmbeddedError):
            run_embedded(parse(sql), {"released": table})


def test_tables_of_one_query_are_gone_in_the_next() -> None:
    table = {"e0": Values(Type.INTEGER, [1, 2])}
    query = exp.select(exp.column("e0")).from_(exp.table_("released"))
    assert run_embedded(query, {"released": table}) == [(1,), (2,)]
    with pytest.raises(EmbeddedError):
        run_embedded(query, {})


def test_a_query_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "SECONDS", 0.2)
    endless = parse("SELECT COUNT(*) FROM range(100000000000)")
    with pytest.raises(EmbeddedError, match="longer than"):
        run_embedded(endless, {})


def test_too_many_rows_are_refused() -> None:
    many = parse("SELECT * FROM range(50)")
    with pytest.raises(EmbeddedError, match="more than 20 rows"):
        run_embedded(many, {}, most=20)


def test_threads_do_not_see_each_others_tables() -> None:
    """Twenty threads compute with a table of the same name and different numbers."""
    query = exp.select(exp.Sum(this=exp.column("e0"))).from_(exp.table_("released"))
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        for _ in range(5):
            found[number] = run_embedded(query, {"released": {"e0": Values(Type.INTEGER, [number] * 3)}})[0][0]
            time.sleep(0)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: 3 * number for number in range(20)}


BEYOND = "(CAST(COUNT(*) AS BIGINT) * 9223372036854775807 * 9223372036854775807)"


def test_a_divisor_that_overflows_on_the_noisy_numbers_gives_the_grouped_table(stays: Dataset, ledger: Ledger) -> None:
    """It works on the made-up numbers (0), so ε is charged; then whatever the numbers are, there is an answer (Q4)."""
    sql = f"SELECT SUM(nights) / {BEYOND} AS r FROM stays"
    answer = stays.release(sql, ledger=ledger, epsilon=5.0, policy="budget:10")
    entry = account_of(ledger).entries[0]
    assert entry.status == "released"
    assert [list(row) for row in answer.answer or ()] == [["SUM(nights)", "COUNT(*)"]]
    assert answer.about[-1] == NOT_COMPUTED


def test_a_condition_divides_as_1_where_it_is_sure(stays: Dataset, ledger: Ledger) -> None:
    quotients = "SUM(nights) / (COUNT(*) > -900) AS r, SUM(nights) / (COUNT(*) > 30) AS q"
    sql = f"SELECT SUM(nights) AS s, {quotients} FROM stays"
    answer = stays.release(sql, ledger=ledger, epsilon=50.0, policy="budget:100")
    (row,) = known(answer.answer)
    assert row["r"] == row["s"]
    assert row["q"] is None  # whether there are more than 30 of 30 is not known


def test_whole_numbers_beyond_64_bits_are_computed_with() -> None:
    large = 7 * 10**20
    table = {"e0": Values(Type.INTEGER, [large, None, -1], whole=True)}
    query = parse("SELECT e0 + 1 FROM released")
    assert run_embedded(query, {"released": table}) == [(large + 1,), (None,), (0,)]
    with pytest.raises(EmbeddedError, match="does not fit"):
        run_embedded(query, {"released": {"e0": Values(Type.INTEGER, [10**40], whole=True)}})


def test_numbers_that_nobody_foresaw_are_handed_out_as_they_are(
    stays: Dataset, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Mock(side_effect=OverflowError)
    monkeypatch.setattr("dosimeter.release.run.assemble_answer", failing)  # the rehearsal has its own
    answer = stays.release("SELECT COUNT(*) + 1 AS n FROM stays", ledger=ledger, epsilon=50.0, policy="budget:100")
    entry = account_of(ledger).entries[0]
    assert [dict(row) for row in answer.answer or ()] == [{"COUNT(*)": int(known(entry.measured)[0][0])}]
    assert (answer.errors, answer.about[-1]) == (None, NOT_COMPUTED)


def test_rows_times_text_is_refused_before_anything_is_charged() -> None:
    text, grouped = "a" * 30_000, "(SELECT age, COUNT(*) AS n FROM people GROUP BY age)"
    joined = f"SELECT '{text}' || a.n AS z FROM {grouped} a CROSS JOIN {grouped} b"
    with pytest.raises(QueryError, match="characters of text"):
        plan_query(joined, SCHEMA)
    plan_query(f"{joined} LIMIT 500", SCHEMA)


def test_text_is_added_up_while_it_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "MOST_CHARACTERS", 5_000)
    with pytest.raises(EmbeddedError, match="10,000 characters"):
        run_embedded(parse("SELECT repeat('a', 11) FROM range(1000)"), {})
    assert len(run_embedded(parse("SELECT repeat('a', 10) FROM range(1000)"), {})) == 1000
