"""A connection to the data that is lost while a release is measured is an incident; one lost before it is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dosimeter import Dataset, Ledger
from dosimeter.engines.postgres import PostgresEngine
from dosimeter.errors import ConnectionLost, DatasetStopped, SourceUnreachable
from dosimeter.release import run as releasing
from tests.schemas import declare, whole

SQL = "SELECT COUNT(*) AS n FROM visits WHERE x > 2"
WAYS: list[dict[str, Any]] = [{"epsilon": 0.5}, {"prefer": "ratio:0.1"}, {"svt": 1.0, "variance": 0.9}]
SCHEMA = declare("visits", 10, {"x": whole(0, 5)})


@pytest.fixture
def source(create_database: Callable[[], str]) -> str:
    url = create_database()
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("CREATE TABLE visits (x int)")
        raw.execute("INSERT INTO visits SELECT generate_series(0, 5)")
    return url


def end_sessions(url: str, application: str) -> None:
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s AND datname = "
            "current_database()",
            [application],
        )


def die_in_query(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the server's process end in the query of this number, counted while a release is measured."""
    measure, run = releasing._measure, PostgresEngine._run
    queries: list[str] = []

    def run_or_die(engine: PostgresEngine, text: str) -> Any:
        queries.append(text)
        return run(engine, "SELECT pg_terminate_backend(pg_backend_pid())" if len(queries) == number else text)

    def measure_and_die(*arguments: Any) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(PostgresEngine, "_run", run_or_die)
            return measure(*arguments)

    monkeypatch.setattr(releasing, "_measure", measure_and_die)


@pytest.mark.parametrize("way", WAYS, ids=["fixed", "find", "find-and-release"])
def test_lost_in_any_query_of_the_measuring(
    target: str, source: str, way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    died = 0
    with Ledger.open(target) as ledger, Dataset.open(source, schema=SCHEMA, table="visits") as dataset:
        for number in range(1, 20):
            with monkeypatch.context() as patched:
                die_in_query(number, patched)
                try:
                    answer = dataset.release(SQL, ledger=ledger, policy="budget:90", **way)
                except DatasetStopped:
                    died += 1
                else:
                    assert answer.status == "released"  # it takes fewer queries
                    break
            assert ledger.accounts() == ()
            with pytest.raises(DatasetStopped):
                dataset.release(SQL, ledger=ledger, policy="budget:90", **way)
            assert [incident.kind for incident in ledger.incidents("visits")] == ["lost"] * died
            ledger.clear("visits", by="Carol", reason="r")
        assert 1 <= died < 19
        assert ledger.verify().intact


def test_a_table_that_changes_meanwhile_is_no_excuse(
    tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails in a snapshot fails by what is in it, whatever others write since."""
    with Ledger.open(tmp_path / "ledger.db") as ledger, Dataset.open(source, schema=SCHEMA, table="visits") as dataset:
        run = PostgresEngine._run

        def run_out_of_memory(engine: PostgresEngine, _: str) -> Any:
            with psycopg.connect(source, autocommit=True) as raw:
                raw.execute("INSERT INTO visits VALUES (1)")
            return run(engine, "SELECT repeat('x', 2000000000)")

        measure = releasing._measure

        def measure_and_fail(*arguments: Any) -> Any:
            with monkeypatch.context() as patched:
                patched.setattr(PostgresEngine, "_run", run_out_of_memory)
                return measure(*arguments)

        monkeypatch.setattr(releasing, "_measure", measure_and_fail)
        with pytest.raises(DatasetStopped):
            dataset.release(SQL, ledger=ledger, epsilon=0.5, policy="budget:1")
        assert [incident.kind for incident in ledger.incidents("visits")] == ["measuring"]


def test_an_outage_before_the_query_is_no_incident(target: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = releasing._measure

    def lose_and_measure(*arguments: Any) -> Any:
        end_sessions(source, "dosimeter")
        return measure(*arguments)

    with Ledger.open(target) as ledger, Dataset.open(source, schema=SCHEMA, table="visits") as dataset:
        with monkeypatch.context() as patched:
            patched.setattr(releasing, "_measure", lose_and_measure)
            with pytest.raises(SourceUnreachable, match="connection to the server was lost") as caught:
                dataset.release(SQL, ledger=ledger, epsilon=0.5, policy="budget:1")
            assert not isinstance(caught.value, ConnectionLost)
        assert (ledger.accounts(), ledger.stopped("visits")) == ((), None)
        assert dataset.release(SQL, ledger=ledger, epsilon=0.5, policy="budget:1").status == "released"


def test_a_look_that_loses_its_connection_stops_nothing(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Dataset.open(source, schema=SCHEMA, table="visits") as dataset:
        run = PostgresEngine._run
        with monkeypatch.context() as patched:
            patched.setattr(
                PostgresEngine, "_run", lambda engine, _: run(engine, "SELECT pg_terminate_backend(pg_backend_pid())")
            )
            with pytest.raises(ConnectionLost, match="Try again"):
                dataset.risk(SQL)
        assert dataset.risk(SQL).matched == 3


def test_a_ledger_that_ends_the_session_takes_the_measurement_for_killed(
    create_database: Callable[[], str], source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is all that shows whether a process lives: without it nothing is granted."""
    target, measure = create_database(), releasing._measure

    def measure_and_lose(*arguments: Any) -> Any:
        found = measure(*arguments)
        end_sessions(target, "dosimeter ledger")
        return found

    with Ledger.open(target) as ledger, Dataset.open(source, schema=SCHEMA, table="visits") as dataset:
        monkeypatch.setattr(releasing, "_measure", measure_and_lose)
        with pytest.raises(DatasetStopped):
            dataset.release(SQL, ledger=ledger, epsilon=0.5, policy="budget:1")
        assert ledger.accounts() == ()
        assert [incident.kind for incident in ledger.incidents("visits")] == ["killed"]
