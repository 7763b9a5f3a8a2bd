"""When leaving records out goes wrong: refused data, lost and interrupted processes."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from dosimeter.errors import DataError, OptionError
from dosimeter.planning import plan_query
from dosimeter_paper.recompute import run as recompute
from dosimeter_paper.recompute.run import recompute_contributions
from tests.oracle.recompute_tables import SMALL_SCHEMA, draw_people, open_table
from tests.waiting import LONGEST_WAIT, wait_until
from tests.whole_tables import whole_table


def test_more_people_than_declared_are_all_left_out_once() -> None:
    plan = plan_query("SELECT COUNT(*) FROM people", SMALL_SCHEMA)
    found = recompute_contributions(plan, whole_table(open_table(draw_people(0, 7), SMALL_SCHEMA)), 6, 1)
    assert (found.n, found.changes.tolist()) == (7, [1.0] * len(found.changes))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_numbers_count_as_missing(bad: float) -> None:
    """The same influences with NULL in their place."""
    found = []
    for cell in (bad, None):
        engine = open_table({"team": ["a", "b"], "score": [1, 2], "pay": [1.0, cell]}, SMALL_SCHEMA)
        for where in ("", " WHERE team = 'a'", " WHERE team = 'b'"):
            plan = plan_query(f"SELECT MAX(pay), SUM(pay) FROM people{where}", SMALL_SCHEMA)
            each = recompute_contributions(plan, whole_table(engine), 2, 1)
            found.append((each.people.tolist(), each.cells.tolist(), each.changes.tolist()))
    assert found[:3] == found[3:]
    assert any(changes for _, _, changes in found)


def test_processes_must_be_positive() -> None:
    plan = plan_query("SELECT COUNT(*) FROM people", SMALL_SCHEMA)
    with pytest.raises(OptionError, match="at least 1"):
        recompute_contributions(plan, whole_table(open_table(draw_people(0, 3), SMALL_SCHEMA)), 40, 1, processes=0)


def test_progress_can_stop_the_work() -> None:
    class Enough(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done:
            raise Enough

    plan = plan_query("SELECT SUM(score) FROM people", SMALL_SCHEMA)
    with pytest.raises(Enough):
        recompute_contributions(
            plan, whole_table(open_table(draw_people(0, 30), SMALL_SCHEMA)), 40, 1, processes=1, progress=stop
        )


def test_a_worker_reports_no_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *_: object) -> None:
            raise ArithmeticError("Could not convert string 'Ada Lovelace' to INT64")

    monkeypatch.setattr(recompute, "DeletionTable", Broken)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    ours, theirs = Pipe()
    ours.send((None, None, None))
    recompute._serve(theirs)
    with pytest.raises(DataError, match="ArithmeticError") as caught:
        recompute._receive(ours)
    assert "Ada" not in str(caught.value)


def test_a_lost_worker_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "_serve", Connection.close)  # a process that leaves without a word
    plan = plan_query("SELECT SUM(score) FROM people", SMALL_SCHEMA)
    with pytest.raises(DataError, match="ended before its time"):
        recompute_contributions(plan, whole_table(open_table(draw_people(0, 30), SMALL_SCHEMA)), 40, 1, processes=2)


INTERRUPTED = """
import multiprocessing, sys, time
import pyarrow as pa
from dosimeter.engines.engine import ReadOptions
from dosimeter.engines.duckdb import open_duckdb
from dosimeter.influence import Rows
from dosimeter_paper.recompute import recompute_contributions
from dosimeter.planning import PlanOptions, plan_query
from dosimeter.schema import read_schema

def show(done, total):
    if done:
        sys.stdout.write(" ".join(str(child.pid) for child in multiprocessing.active_children()) + "\\n")
        sys.stdout.flush()

if __name__ == "__main__":
    columns = {"x": {"type": "integer", "bounds": [0, 30000]}, "y": {"type": "integer", "bounds": [0, 977]}}
    schema = read_schema({"table": "t", "columns": columns})
    rows = pa.table({"x": list(range(30000)), "y": [at * at % 977 for at in range(30000)]})
    engine = open_duckdb(rows, ReadOptions(table="t"))
    engine.impose(schema)
    plan = plan_query("SELECT MEDIAN(x), MEDIAN(y) FROM t", schema, PlanOptions(quantiles="noise"))
    try:
        recompute_contributions(plan, Rows(engine, engine.relation()), 30000, 1, processes=2, progress=show)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are sent signals on POSIX")
def test_ctrl_c_stops_every_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        assert run.stdout is not None
        workers = [int(word) for word in run.stdout.readline().split()]
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to all of them
        _, errors = run.communicate(timeout=LONGEST_WAIT)
    assert run.returncode == 130
    assert errors == ""
    assert len(workers) == 2
    for worker in workers:
        wait_until(partial(has_ended, worker), "a worker has ended, too")
