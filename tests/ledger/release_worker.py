"""What tests do to a ledger through whole releases, in processes that are killed or that crowd. Not a test.

release_worker.py crash TARGET OUTBOX REPEATS          every step, each killed with SIGKILL that many times, while
                                                       two other processes release from datasets of their own
release_worker.py crowd TARGET PROCESSES EACH POLICY   many processes at once; each asks for its own list of ε's
release_worker.py interrupt TARGET TIMES               a release is interrupted (SIGINT) at that many of its moments

One process imports everything, opens nothing, and forks: the children open table and ledger for themselves.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
from sqlglot import exp

from dosimeter.dataset import Dataset
from dosimeter.engines.duckdb import DuckDBEngine
from dosimeter.engines.engine import FewRows
from dosimeter.ledger import Ledger, Record
from dosimeter.ledger.store import Transaction
from dosimeter.release import run as releasing
from dosimeter.risk.largest_epsilon import paper_candidates

EPSILON = 0.125
BUSY_TIMEOUT = 600.0  # far more than 32 processes need on a slow machine
QUERY = "SELECT COUNT(*) AS n FROM {} WHERE x > 2"

# The steps of a release, in order → what is left if the process dies there: nothing, a measurement without an end
# ("killed"), or an entry with a status.
STEPS = {
    "before the mark": None,
    "before the mark's commit": None,
    "before measuring": "killed",
    "while measuring": "killed",
    "after measuring": "killed",
    "before the reservation": "killed",
    "inside the decision": "killed",
    "before the reservation's commit": "killed",
    "after the reservation": "reserved",
    "before the noise": "reserved",
    "after the noise": "reserved",
    "before the settlement": "reserved",
    "before the settlement's commit": "reserved",
    "after the settlement": "released",
    "before printing": "released",
    "after printing": "released",
}


OTHERS = 2


def name_dataset(step: str, turn: int = 0) -> str:
    return f"step{list(STEPS).index(step) * 100 + turn}"


def open_table(name: str) -> Dataset:
    """A table of its own for each name: the same data cannot have two accounts in one ledger."""
    schema: dict[str, Any] = {"table": name, "individuals": 40, "reviewed": True}
    schema["columns"] = {"x": {"type": "integer", "bounds": [0, 5]}}
    own = int("".join(filter(str.isdigit, name)) or 0)
    return Dataset.open(pa.table({"x": [row % 6 for row in range(8 + own)]}), schema=schema)


# ---------------------------------------------------------------- killed


def die_at(step: str) -> Callable[[str], None]:
    """Wrap every step of a release, in this process only, so that it dies at the one named."""

    def reached(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(owner: Any, name: str, before: str, after: str) -> None:
        inner = getattr(owner, name)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            reached(before)
            result = inner(*arguments, **options)
            reached(after)
            return result

        setattr(owner, name, wrapped)

    append = Transaction.append
    under_way: list[bool] = []

    def append_and_tell(transaction: Transaction, record: Record) -> None:
        append(transaction, record)
        if record.kind == "measure":
            reached("before the mark's commit")
        happened = {"reserved": "before the reservation's commit", "released": "before the settlement's commit"}
        reached(happened.get(json.loads(record.payload).get("status", ""), ""))

    def fetch_and_tell(engine: DuckDBEngine, query: exp.Select) -> FewRows:
        found = fetch(engine, query)
        if under_way:
            reached("while measuring")
        return found

    fetch, measure = DuckDBEngine.fetch_few, releasing._measure

    def measure_and_tell(*arguments: Any) -> Any:
        reached("before measuring")
        under_way.append(True)
        result = measure(*arguments)
        reached("after measuring")
        return result

    DuckDBEngine.fetch_few = fetch_and_tell  # type: ignore[method-assign, assignment]
    releasing._measure = measure_and_tell  # type: ignore[assignment]
    wrap(Ledger, "begin", "before the mark", "")
    wrap(Ledger, "reserve", "before the reservation", "after the reservation")
    wrap(Ledger, "settle", "before the settlement", "after the settlement")
    wrap(releasing, "find_charges", "inside the decision", "")
    wrap(releasing, "draw_numbers", "before the noise", "after the noise")
    Transaction.append = append_and_tell  # type: ignore[method-assign, assignment]
    return reached


def release_and_print(target: str, dataset: str, outbox: Path, reached: Callable[[str], None]) -> None:
    with open_table(dataset) as table, Ledger.open(target, busy_timeout=BUSY_TIMEOUT) as ledger:
        answer = table.release(QUERY.format(dataset), ledger=ledger, epsilon=EPSILON, policy="budget:1000", again=True)
    reached("before printing")
    line = json.dumps({"dataset": dataset, "entry": answer.entry, "answer": answer.answer}) + "\n"
    with outbox.open("a", encoding="utf-8") as stream:
        stream.write(line)
        stream.flush()
        reached("after printing")


def crash_everywhere(target: str, outbox: Path, repeats: int) -> None:
    outcomes: list[list[Any]] = []
    over = outbox.with_suffix(".over")
    others = [_fork_worker(partial(release_until, over, target, number)) for number in range(OTHERS)]
    for step in STEPS:
        for turn in range(repeats):
            child = os.fork()
            if child == 0:
                try:
                    release_and_print(target, name_dataset(step, turn), outbox, die_at(step))
                finally:
                    os._exit(1)
            _, status = os.waitpid(child, 0)
            outcomes.append([step, os.waitstatus_to_exitcode(status)])
    over.touch()
    released = [_collect(child, read_end) for child, read_end in others]
    sys.stdout.write(json.dumps([outcomes, released]) + "\n")


def release_until(over: Path, target: str, number: int) -> list[str]:
    """Release from a dataset of its own, again and again, until the others are over; return every status."""
    name = f"other{10_000 + number}"
    found: list[str] = []
    with open_table(name) as table, Ledger.open(target, busy_timeout=BUSY_TIMEOUT) as ledger:
        while not (found and over.exists()):
            answer = table.release(QUERY.format(name), ledger=ledger, epsilon=0.001, policy="budget:1000", again=True)
            found.append(answer.status)
            time.sleep(0.05)  # the machine has others to serve
    return found


def _fork_worker(work: Callable[[], Any]) -> tuple[int, int]:
    """Run ``work`` in a process of its own; return its number, and where its result can be read as JSON."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read_end)
            with os.fdopen(write_end, "w") as stream:
                json.dump(work(), stream)
        except BaseException:  # noqa: BLE001 - what is not said here is lost with the process
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write_end)
    return child, read_end


def _collect(child: int, read_end: int) -> Any:
    with os.fdopen(read_end) as stream:
        found = json.load(stream)
    os.waitpid(child, 0)
    return found


# ---------------------------------------------------------------- interrupted


def interrupt_everywhere(target: str, times: int) -> None:
    """Send SIGINT at moments of a release, counted in calls: before the mark, before the charge, and after it."""
    calls = [0, 0, 0]  # in each of these three parts
    part, moment = 0, (0, -1)

    def enter(name: str, number: int, *, after: bool) -> None:
        inner = getattr(Ledger, name)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            nonlocal part
            part = part if after else number
            result = inner(*arguments, **options)
            part = number
            return result

        setattr(Ledger, name, wrapped)

    def count(_: FrameType, event: str, __: object) -> None:
        if event == "call":
            calls[part] += 1
            if (part, calls[part]) == moment:
                signal.raise_signal(signal.SIGINT)

    def release_one(number: int) -> list[object]:
        nonlocal part
        sql = f"{QUERY.format('turns')} AND x > {-number}"
        with open_table("turns") as table, Ledger.open(target) as ledger:
            part, calls[:] = 0, [0, 0, 0]
            sys.setprofile(count)
            try:
                answer = table.release(sql, ledger=ledger, epsilon=EPSILON, policy="budget:1000")
                return [sql, "released", answer.entry or ""]
            except KeyboardInterrupt:
                return [sql, "interrupted", ""]
            except BaseException as error:  # noqa: BLE001 - reported, and judged by the test
                return [sql, type(error).__name__, str(error)]
            finally:
                sys.setprofile(None)

    enter("begin", 1, after=False)
    enter("reserve", 2, after=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    release_one(0)  # imports the last of what is imported late
    outcomes = [release_one(1)]
    shares = (times // 5, 2 * times // 5, 2 * times // 5)
    moments = [
        (number, 1 + turn * total // share)
        for number, (share, total) in enumerate(zip(shares, calls, strict=True))
        for turn in range(share)
    ]
    for turn, each in enumerate(moments):
        moment = each
        outcomes.append(release_one(2 + turn))
    sys.stdout.write(json.dumps(outcomes) + "\n")


# ---------------------------------------------------------------- crowding


def join_crowd(target: str, number: int, each: int, policy: str) -> list[dict[str, Any]]:
    candidates = paper_candidates()
    outcomes = []
    with open_table("crowded") as table, Ledger.open(target, busy_timeout=BUSY_TIMEOUT) as ledger:
        for turn in range(each):
            epsilon = EPSILON if policy != "paper" else candidates[-1 - (7 * number + 5 * turn) % len(candidates)]
            answer = table.release(QUERY.format("crowded"), ledger=ledger, epsilon=epsilon, policy=policy, again=True)
            outcomes.append({"status": answer.status, "entry": answer.entry, "epsilon": epsilon})
    return outcomes


def run_crowd(target: str, processes: int, each: int, policy: str) -> None:
    children = [_fork_worker(partial(join_crowd, target, number, each, policy)) for number in range(processes)]
    outcomes = [outcome for child in children for outcome in _collect(*child)]
    sys.stdout.write(json.dumps(outcomes) + "\n")


def warm_up() -> None:
    """Load every library that a release needs, without opening a connection or drawing noise."""
    import duckdb  # noqa: F401
    import opendp.prelude
    import pandas as pd  # noqa: F401  # which Arrow loads with its first table
    import psycopg  # noqa: F401
    import pyarrow.compute  # noqa: F401

    import dosimeter.engines.duckdb
    import dosimeter.ledger.store  # noqa: F401

    opendp.prelude.enable_features("contrib")


def main(arguments: list[str]) -> None:
    warm_up()
    match arguments:
        case ["crash", target, outbox, repeats]:
            crash_everywhere(target, Path(outbox), int(repeats))
        case ["interrupt", target, times]:
            interrupt_everywhere(target, int(times))
        case ["crowd", target, processes, each, policy]:
            run_crowd(target, int(processes), int(each), policy)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
