"""What tests do to a ledger through whole releases, in processes that are killed or that crowd. Not a test.

release_worker.py crash TARGET OUTBOX REPEATS          every step, each killed with SIGKILL that many times
release_worker.py crowd TARGET PROCESSES EACH POLICY   many processes at once; each asks for its own list of ε's

One process imports everything, opens nothing, and forks: the children open table and ledger for themselves.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from dosimeter.dataset import Dataset
from dosimeter.ledger import Ledger, Record
from dosimeter.ledger.store import Transaction
from dosimeter.release import run as releasing
from dosimeter.risk.choose import paper_candidates

EPSILON = 0.125
BUSY_TIMEOUT = 600.0  # far more than 32 processes need on a slow machine
QUERY = "SELECT COUNT(*) AS n FROM {} WHERE x > 2"

# The steps of a release, in order → the status of its entry if the process dies there, None where there is no entry.
STEPS = {
    "before the reservation": None,
    "inside the decision": None,
    "before the reservation's commit": None,
    "after the reservation": "reserved",
    "before the noise": "reserved",
    "after the noise": "reserved",
    "before the settlement": "reserved",
    "before the settlement's commit": "reserved",
    "after the settlement": "released",
    "before printing": "released",
    "after printing": "released",
}


def name_dataset(step: str) -> str:
    return f"step{list(STEPS).index(step)}"


def open_table(name: str) -> Dataset:
    """A table of its own for each name: the same data cannot have two accounts in one ledger."""
    schema: dict[str, Any] = {
        "table": name,
        "individuals": 40,
        "reviewed": True,
        "columns": {"x": {"type": "integer", "bounds": [0, 5]}},
    }
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

    def append_and_tell(transaction: Transaction, record: Record) -> None:
        append(transaction, record)
        happened = {"reserved": "before the reservation's commit", "released": "before the settlement's commit"}
        reached(happened.get(json.loads(record.payload).get("status", ""), ""))

    wrap(Ledger, "reserve", "before the reservation", "after the reservation")
    wrap(Ledger, "settle", "before the settlement", "after the settlement")
    wrap(releasing, "find_charges", "inside the decision", "")
    wrap(releasing, "add_noise_to", "before the noise", "after the noise")
    Transaction.append = append_and_tell  # type: ignore[method-assign, assignment]
    return reached


def release_and_print(target: str, dataset: str, outbox: Path, reached: Callable[[str], None]) -> None:
    with open_table(dataset) as table, Ledger.open(target) as ledger:
        answer = table.release(QUERY.format(dataset), ledger=ledger, epsilon=EPSILON, policy="budget:1000", again=True)
    reached("before printing")
    line = json.dumps({"dataset": dataset, "entry": answer.entry, "answer": answer.answer}) + "\n"
    with outbox.open("a", encoding="utf-8") as stream:
        stream.write(line)
        stream.flush()
        reached("after printing")


def crash_everywhere(target: str, outbox: Path, repeats: int) -> None:
    outcomes = []
    for step in STEPS:
        for _ in range(repeats):
            child = os.fork()
            if child == 0:
                try:
                    release_and_print(target, name_dataset(step), outbox, die_at(step))
                finally:
                    os._exit(1)
            _, status = os.waitpid(child, 0)
            outcomes.append([step, os.waitstatus_to_exitcode(status)])
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
    pipes = []
    for number in range(processes):
        read_end, write_end = os.pipe()
        if os.fork() == 0:
            try:
                os.close(read_end)
                with os.fdopen(write_end, "w") as stream:
                    json.dump(join_crowd(target, number, each, policy), stream)
            except BaseException:  # noqa: BLE001 - what is not said here is lost with the process
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(write_end)
        pipes.append(read_end)
    outcomes = []
    for read_end in pipes:
        with os.fdopen(read_end) as stream:
            outcomes.extend(json.load(stream))
        os.wait()
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
        case ["crowd", target, processes, each, policy]:
            run_crowd(target, int(processes), int(each), policy)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
